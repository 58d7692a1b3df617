r"""Importance sampling: estimates under a target that can be evaluated, from draws of a proposal that can be sampled.

Draws :math:`x_t` of a proposal q get weights :math:`w_t = p(x_t) / q(x_t)` (Riggelsen, eq. 4.5), where p is the target
up to a constant.  Their self-normalised average estimates expectations (eqs. 4.3-4.4), their plain average the
constant (Antal & Sárközy, eqs. 7-8).  Everything is computed on batches: draws are arrays (n, ...), of real numbers or
of integer states.

Proposals are in `doxa.sampling.importance_proposals`, monitors, verdict and errors in
`doxa.sampling.importance_weights`, resampling and the comparison with a chain in `doxa.sampling.importance_baseline`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.estimates.intervals import UnseenInterval, unseen_error
from doxa.sampling.importance_proposals import Draws, Mixture, Proposal
from doxa.sampling.importance_weights import (
    Removal,
    WeightedEstimate,
    WeightVerdict,
    find_removal,
    judge_weights,
    judged,
    kish_ess,
    log_mean_exp,
    normalised_weights,
    pareto_k,
    running_variance,
    tail_aware_law,
    variance_jumps,
)

__all__ = ["ImportanceSample", "Mixture", "Proposal", "Removal", "importance_sample"]


@dataclass(frozen=True, eq=False)
class ImportanceSample:
    r"""Weighted draws: estimates with errors, and monitors that say whether to believe them.

    Parameters
    ----------
    draws : ndarray, shape (n, ...)
        Independent draws of the proposal, in order; at least 2.
    log_target : ndarray of float, shape (n,)
        Log target at each draw (nats), up to a constant; -inf where it is 0.
    log_proposal : ndarray of float, shape (n,)
        Log density of the proposal at each draw (nats).
    removal : Removal, optional
        What `without_outliers` left out.

    Raises
    ------
    ArgumentError
        If lengths differ, there are fewer than 2 draws, a number is nan or +inf, the proposal has no density at
        its own draw, or every weight is 0.

    Examples
    --------
    >>> draws = np.array([0, 1, 1, 1])
    >>> sample = ImportanceSample(draws, np.log([3.0, 1.0])[draws], np.log([0.25, 0.75])[draws])
    >>> sample.weights.round(3)
    array([0.75 , 0.083, 0.083, 0.083])
    >>> round(sample.ess, 2)
    1.71
    >>> sample.verdict.reliable is None
    True
    """

    draws: Draws
    log_target: NDArray[np.float64]
    log_proposal: NDArray[np.float64]
    removal: Removal | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Take read-only copies, and refuse what cannot be weighted."""
        draws = np.array(self.draws)
        if draws.ndim == 0 or len(draws) < 2:
            n = len(draws) if draws.ndim else 0
            raise ArgumentError(f"draws has length {n}; importance sampling needs at least 2 draws")
        arrays = {"draws": draws}
        for name in ("log_target", "log_proposal"):
            arrays[name] = _checked(name, getattr(self, name), len(draws))
        nowhere = arrays["log_proposal"] == -np.inf
        if nowhere.any():
            message = (
                f"log_proposal[{int(nowhere.argmax())}] is -inf at a draw of the proposal itself; its log_density must "
                "be finite wherever its sample lands"
            )
            raise ArgumentError(message)
        if (arrays["log_target"] == -np.inf).all():
            message = (
                f"log_target is -inf at all {len(draws)} draws, so every weight is 0: the proposal never meets the "
                "target; use one that covers it"
            )
            raise ArgumentError(message)
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n(self) -> int:
        """Number of draws kept."""
        return len(self.draws)

    @property
    def n_removed(self) -> int:
        """Number of draws left out as outliers."""
        return 0 if self.removal is None else len(self.removal.causes)

    @cached_property
    def log_weights(self) -> NDArray[np.float64]:
        """Log target minus log proposal at each draw (eq. 4.5), nats."""
        return np.asarray(self.log_target - self.log_proposal)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weights, normalised to sum 1."""
        return normalised_weights(self.log_weights)

    @cached_property
    def ess(self) -> float:
        """Effective sample size of the weights (Kish)."""
        return kish_ess(self.log_weights)

    @cached_property
    def pareto_k(self) -> float:
        """Shape of the tail of the weights, see `doxa.sampling.importance_weights.pareto_k`."""
        return pareto_k(self.log_weights)

    @cached_property
    def running_variance(self) -> NDArray[np.float64]:
        """Variance of the first 1, 2, ..., n weights, see `doxa.sampling.importance_weights.running_variance`."""
        return running_variance(self.log_weights)

    def variance_jumps(self, factor: float = 2.0) -> NDArray[np.intp]:
        """Draws at which that variance rises suddenly, see `doxa.sampling.importance_weights.variance_jumps`."""
        return variance_jumps(self.log_weights, factor)

    @cached_property
    def verdict(self) -> WeightVerdict:
        """Whether estimates, and their errors, can be trusted; cannot tell once outliers were removed."""
        judged = judge_weights(self.n, self.ess, self.pareto_k)
        if not self.n_removed:
            return judged
        advice = "The bias of that does not show in the draws left. Better: a proposal that covers those removed."
        reason = f"{self.removal}; of the others, {judged.reason}"
        return WeightVerdict(None if judged.reliable else judged.reliable, reason, advice)

    def log_normalising_constant(self) -> WeightedEstimate:
        r"""Estimate the logarithm of the target's sum or integral, such as a log marginal likelihood.

        Returns
        -------
        WeightedEstimate
            :math:`\ln \frac{1}{n} \sum_t w_t` in nats (slides, eq. 8); the proposal must be normalised. The mean is
            unbiased, its logarithm too low by about half the squared error. Error by the delta method,
            :math:`\sqrt{\sum_t (w_t / \bar w - 1)^2 / (n (n - 1))}`; nan if all weights are equal. After a removal
            of outliers n is still the number of draws made, so the mean errs on the low side.

        Examples
        --------
        >>> rng = np.random.default_rng(2)
        >>> draws = rng.integers(0, 4, 2000)  # uniform over four states
        >>> sample = ImportanceSample(draws, np.log([1.0, 2.0, 3.0, 4.0])[draws], np.full(2000, np.log(0.25)))
        >>> print(sample.log_normalising_constant(), "exact:", round(float(np.log(10)), 3))
        2.303 +/- 0.010 exact: 2.303
        """
        n = self.n + self.n_removed
        terms = np.concatenate([self.weights * n - 1, np.full(self.n_removed, -1.0)]) / n
        value = log_mean_exp(self.log_weights) + float(np.log(self.n / n))
        if np.abs(terms).max() * n < 1e-12:  # equal but for rounding
            unknown = WeightVerdict(None, "all weights are equal, which says nothing about their variance", "")
            return WeightedEstimate(value, np.nan, np.nan, verdict=unknown)
        error = float(np.sqrt(terms @ terms * n / (n - 1)))
        return judged(value, error, self.ess, tail_aware_law(terms), self.verdict)

    def expectation(self, f: Callable[[Draws], ArrayLike], *, unit: bool | None = None) -> WeightedEstimate:
        r"""Estimate the mean of a function under the target (Riggelsen, eq. 4.4).

        Parameters
        ----------
        f : callable
            From the draws, shape (n, ...), to one number each, shape (n,); finite wherever the weight is not 0.
        unit : bool, optional
            Whether the mean lies in [0, 1], so that its interval must; by default, if every value is 0 or 1.

        Returns
        -------
        WeightedEstimate
            :math:`\sum_t \bar w_t f(x_t)`, with the delta-method error :math:`\sqrt{\frac{n}{n - 1} \sum_t \bar w_t^2
            (f(x_t) - \hat f)^2}`: the variance of the ratio, numerator and denominator together. nan if f
            is constant; a 0/1 quantity never seen (or never not) gets a bound instead.

        Raises
        ------
        ArgumentError
            If ``f`` returns another shape, or a value that is not finite where the weight is positive.

        Notes
        -----
        Where values are unbounded the tail of :math:`|f - \hat f| w` is judged as well as that of w. The unseen
        bound is that of :math:`1 / \max_t \bar w_t` draws: it holds if nothing unseen would weigh more than the
        largest weight seen. Slides, eq. 6: the integral is the variance of :math:`f \pi / q`, not of f as printed, and
        is smallest for :math:`q \propto |f| \pi`. That is for the unnormalised average; for the ratio here the best
        is :math:`q \propto |f - \bar f| \pi`.

        Examples
        --------
        >>> rng = np.random.default_rng(2)
        >>> draws = rng.integers(0, 4, 2000)
        >>> sample = ImportanceSample(draws, np.log([1.0, 2.0, 3.0, 4.0])[draws], np.full(2000, np.log(0.25)))
        >>> print(sample.expectation(lambda x: x), "exact: 2")
        2.00 +/- 0.02 exact: 2
        >>> print(sample.expectation(lambda x: x == 3), "exact: 0.4")
        0.408 +/- 0.013 exact: 0.4
        >>> print(sample.expectation(lambda x: x == 7))
        < 0.0024 (no switch in 2000 draws)
        """
        values = self._values(f)
        binary = bool(np.isin(values, (0.0, 1.0)).all())
        met = values[self.weights > 0]
        value = float(self.weights @ values)
        if met.min() == met.max():
            return self._constant(float(met[0]), binary)
        unit = binary if unit is None else unit
        apart = values - value
        terms = self.weights * apart
        error = float(np.sqrt(terms @ terms * self.n / (self.n - 1)))
        verdict = self.verdict if unit or not self.verdict.reliable else self._verdict_with(np.abs(apart))
        return judged(
            value, error, float(self.weights @ apart**2) / error**2, tail_aware_law(terms, unit=unit), verdict
        )

    def _values(self, f: Callable[[Draws], ArrayLike]) -> NDArray[np.float64]:
        """Values of ``f``; 0 where the weight is 0, so that f need not be defined outside the target."""
        values = np.asarray(f(self.draws), dtype=np.float64)
        if values.shape != (self.n,):
            message = f"f returned shape {values.shape} for {self.n} draws; it must return one number for each draw"
            raise ArgumentError(message)
        values = np.where(self.weights > 0, values, 0.0)
        if not np.isfinite(values).all():
            i = int((~np.isfinite(values)).argmax())
            message = f"f is {values[i]} at draw {i}, whose weight is not 0; it must be finite there"
            raise ArgumentError(message)
        return values

    def _constant(self, value: float, binary: bool) -> WeightedEstimate:
        """Estimate of a quantity that was the same at every draw: a bound for 0/1 quantities, else no error."""
        if not binary:
            reason = "f is the same at every draw, which says nothing about its variance"
            return WeightedEstimate(value, np.nan, np.nan, verdict=WeightVerdict(None, reason, ""))
        least = float(1 / self.weights.max())
        return judged(value, float(unseen_error(least)), least, UnseenInterval(least, self.n), self.verdict)

    def _verdict_with(self, size: NDArray[np.float64]) -> WeightVerdict:
        """Verdict on the weights times a quantity, where that is the worse one."""
        with np.errstate(divide="ignore"):
            k = pareto_k(self.log_weights + np.log(size))
        return self.verdict if not k > self.pareto_k else judge_weights(self.n, self.ess, k, "the weights times f")

    def without_outliers(self, above: float) -> ImportanceSample:
        """Leave out the draws with the largest weights: a last resort, never done unasked.

        Parameters
        ----------
        above : float
            Draws with more than this share of the total weight are left out; in (0, 1).

        Returns
        -------
        ImportanceSample
            The other draws. Its ``removal`` lists what was left out and why the weights were large; its verdict is
            'cannot tell' at best, and every estimate says so.

        Raises
        ------
        ArgumentError
            If ``above`` is not in (0, 1), fewer than 2 draws of positive weight would be left, or outliers were
            removed before.

        Notes
        -----
        Riggelsen (section 1.1.1) finds such deletion harmless where the denominator made the weight large. It is
        not: in a tail that the target has and the proposal lacks, the rare large weights are what makes the average
        unbiased. Leaving them out trades variance for a bias that the remaining draws cannot show.

        Examples
        --------
        >>> x = np.array([0.1, -0.4, 0.3, 0.2, 4.5])
        >>> sample = ImportanceSample(x, -np.log1p(x**2), -(x**2) / 2)  # a normal proposal, a Cauchy target
        >>> trimmed = sample.without_outliers(above=0.5)
        >>> trimmed.removal.indices, trimmed.removal.causes
        (array([4]), ('denominator',))
        >>> print(trimmed.removal)
        1 draw with 99.7% of the weight removed (1 by the denominator: a tail, where the proposal is smaller still)
        """
        if not 0 < above < 1:
            raise ArgumentError(f"above is {above}; it must be a share of the total weight, in (0, 1)")
        if self.n_removed:
            raise ArgumentError("outliers were removed from this sample before; start from the original one")
        out = self.weights > above
        if ((self.weights > 0) & ~out).sum() < 2:
            message = f"above is {above}, which leaves fewer than 2 draws of positive weight; choose a larger share"
            raise ArgumentError(message)
        removal = find_removal(out, self.weights, self.log_target, self.log_proposal)
        kept = {name: getattr(self, name)[~out] for name in ("draws", "log_target", "log_proposal")}
        return replace(self, **kept, removal=removal)


def _checked(name: str, values: ArrayLike, n: int) -> NDArray[np.float64]:
    """Copy of log densities, one a draw, none nan or +inf."""
    array = np.array(values, dtype=np.float64)
    if array.shape != (n,):
        raise ArgumentError(
            f"{name} has shape {array.shape}, but there are {n} draws; it must hold one number for each"
        )
    bad = np.isnan(array) | (array == np.inf)
    if bad.any():
        i = int(bad.argmax())
        raise ArgumentError(f"{name}[{i}] is {array[i]}; a log density is a finite number, or -inf where it is 0")
    return array


def importance_sample(
    log_target: Callable[[Draws], ArrayLike], proposal: Proposal, n: int, rng: np.random.Generator
) -> ImportanceSample:
    """Draw from a proposal and weight for a target (Riggelsen, section 1.1).

    Parameters
    ----------
    log_target : callable
        From draws, shape (n, ...), to the log target (nats) of each, up to a constant; -inf where it is 0.
    proposal : Proposal
        Its density must be positive wherever the target is, and its tails no thinner: no draw can show that they are.
    n : int
        Number of draws, at least 2.
    rng : numpy.random.Generator
        Advanced in place.

    Returns
    -------
    ImportanceSample
        Look at its ``verdict`` first.

    Raises
    ------
    ArgumentError
        If ``n`` is not an integer of at least 2, the proposal returns another number of draws, or the weights cannot
        be used (see `ImportanceSample`).

    Examples
    --------
    Prior as proposal, likelihood as weight (slides, eqs. 7-8): 7 heads in 10 tosses, uniform prior.

    >>> class Uniform:
    ...     def sample(self, n, rng):
    ...         return rng.random(n)
    ...
    ...     def log_density(self, draws):
    ...         return np.zeros(len(draws))
    >>> def log_joint(p):
    ...     return 7 * np.log(p) + 3 * np.log1p(-p)
    >>> sample = importance_sample(log_joint, Uniform(), 4000, np.random.default_rng(1))
    >>> print(sample.expectation(lambda p: p, unit=True), "exact:", round(8 / 12, 3))
    0.665 +/- 0.002 exact: 0.667
    >>> print(sample.log_normalising_constant(), "exact:", round(float(-np.log(1320)), 3))
    -7.203 +/- 0.017 exact: -7.185
    >>> sample.verdict.reliable
    True
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 2:
        raise ArgumentError(f"n is {n!r}; it must be an integer of at least 2")
    draws = np.asarray(proposal.sample(int(n), rng))
    if draws.ndim == 0 or len(draws) != n:
        raise ArgumentError(f"the proposal returned draws of shape {draws.shape}; the first axis must have length {n}")
    log_proposal = np.asarray(proposal.log_density(draws), dtype=np.float64)
    return ImportanceSample(draws, np.asarray(log_target(draws), dtype=np.float64), log_proposal)
