r"""What importance weights can tell: effective sample size, running variance and Pareto k, and a verdict on them.

Weights come as logarithms, up to a constant; a weight of 0 is -inf.  Riggelsen (chapter 4, section 1.1.1) asks to watch
their running variance; Kish's effective sample size is the same number in other words.  Both see only weights that were
drawn.  Pareto k (Vehtari et al. 2024) fits their tail and so judges what was not: above 1/2 the variance of the weights
is infinite, above 1 their mean.

The delta method gives every weighted estimate an error, and the fewer draws carry the estimate the more that error is
too small.  So weights are judged first (`judge_weights`); where the verdict is bad the error is nan.  Where it is good
the interval still allows for the few large weights that were not met (`tail_aware_law`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.estimates.intervals import StudentInterval, UnseenInterval

__all__ = [
    "FEWEST_DRAWS",
    "LEAST_ESS",
    "Removal",
    "WeightVerdict",
    "WeightedEstimate",
    "check_log_weights",
    "find_removal",
    "judge_weights",
    "judged",
    "kish_ess",
    "log_mean_exp",
    "normalised_weights",
    "pareto_k",
    "pareto_k_limit",
    "running_variance",
    "tail_aware_law",
    "variance_jumps",
]


FEWEST_DRAWS = 25  # a tail of a fifth is then 5 weights, the fewest a generalised Pareto fit takes
TIE = 1e-10  # log weights closer than this are equal but for rounding
LOW = 0.05  # a target density no higher than 95% of the other draws have is a tail
UNDERFLOW = -300.0  # a tail this far (nats) below the largest weight has no shape left: k is infinite


def check_log_weights(log_weights: ArrayLike) -> NDArray[np.float64]:
    """Return log weights (nats, up to a constant) as an array, or raise if no estimate can be made from them.

    There must be 2 or more, none nan or infinite, and one above minus infinity.
    """
    checked = np.asarray(log_weights, dtype=np.float64)
    if checked.ndim != 1 or checked.size < 2:
        message = f"log_weights has shape {checked.shape}; it must be one axis of at least 2 draws"
        raise ArgumentError(message)
    bad = np.isnan(checked) | (checked == np.inf)
    if bad.any():
        i = int(bad.argmax())
        message = f"log_weights[{i}] is {checked[i]}; each must be a finite number, or -inf for a weight of 0"
        raise ArgumentError(message)
    if (checked == -np.inf).all():
        message = f"all {checked.size} log_weights are -inf, so every weight is 0: the draws never meet the target"
        raise ArgumentError(message)
    return checked


def log_mean_exp(log_weights: ArrayLike) -> float:
    """Logarithm (nats) of the mean weight: an estimate of a log normalising constant (slides, eq. 8)."""
    checked = check_log_weights(log_weights)
    largest = checked.max()
    return float(largest + np.log(np.exp(checked - largest).mean()))


def normalised_weights(log_weights: ArrayLike) -> NDArray[np.float64]:
    """Weights that sum to 1 (Riggelsen, eqs. 4.4-4.5).

    Parameters
    ----------
    log_weights : array_like of float, shape (n,)
        As in `check_log_weights`.

    Returns
    -------
    ndarray of float, shape (n,)
        Not negative, sum 1.

    Examples
    --------
    >>> normalised_weights(np.log([1.0, 3.0]))
    array([0.25, 0.75])
    """
    checked = check_log_weights(log_weights)
    weights = np.exp(checked - checked.max())
    normalised: NDArray[np.float64] = weights / weights.sum()
    return normalised


def kish_ess(log_weights: ArrayLike) -> float:
    r"""Effective sample size of weights, between 1 and n: :math:`(\sum w)^2 / \sum w^2` (Kish 1965).

    So many equal weights would have as small a relative variance.
    """
    weights = normalised_weights(log_weights)
    return float(1 / (weights @ weights))


def running_variance(log_weights: ArrayLike) -> NDArray[np.float64]:
    """Variance of the first 1, 2, ..., n weights (Riggelsen, section 1.1.1), in units of the mean weight squared.

    Parameters
    ----------
    log_weights : array_like of float, shape (n,)
        As in `check_log_weights`, in the order drawn.

    Returns
    -------
    ndarray of float, shape (n,)
        Sample variance (divisor t - 1) of the first t weights over the squared mean of *all*; the first is nan.
        Where weights are stable the curve settles; a jump is a draw from an area that the proposal neglects.

    Examples
    --------
    >>> running_variance(np.log([1.0, 1.0, 4.0])).round(3)
    array([ nan, 0.  , 0.75])
    """
    weights = normalised_weights(log_weights)
    n = weights.size
    apart = weights * n - 1  # centred before squaring: sums of raw squares would cancel
    t = np.arange(1, n + 1)
    sums = np.cumsum(apart)
    variance = np.full(n, np.nan)
    variance[1:] = (np.cumsum(apart**2) - sums**2 / t)[1:] / (t[1:] - 1)
    return np.asarray(np.maximum(variance, 0.0))


def variance_jumps(log_weights: ArrayLike, factor: float = 2.0) -> NDArray[np.intp]:
    """Draws at which the running variance of the weights rises suddenly.

    Parameters
    ----------
    log_weights : array_like of float, shape (n,)
        As in `running_variance`.
    factor : float, default=2.0
        A jump multiplies the variance by more than this; above 1.

    Returns
    -------
    ndarray of int
        Positions, counted from 0. The first tenth of the draws, where the variance must find its level, is left out.

    Raises
    ------
    ArgumentError
        If ``factor`` is not above 1.

    Examples
    --------
    >>> log_weights = np.zeros(100)
    >>> log_weights[::2] = 0.5
    >>> log_weights[70] = 3.0
    >>> variance_jumps(log_weights)
    array([70])
    """
    if not factor > 1:
        message = f"factor is {factor}; a jump multiplies the variance by more than 1, such as 2.0"
        raise ArgumentError(message)
    variance = running_variance(log_weights)
    first = max(2, variance.size // 10)
    floor = 1e-20  # rounding of equal weights is no jump
    jumped = (variance[first:] > factor * variance[first - 1 : -1]) & (variance[first:] > floor)
    return np.flatnonzero(jumped) + first


def pareto_k(log_weights: ArrayLike) -> float:
    r"""Shape of the tail of the weights: a generalised Pareto distribution is fitted to the largest of them.

    Parameters
    ----------
    log_weights : array_like of float, shape (n,)
        As in `check_log_weights`.

    Returns
    -------
    float
        Weights have finite moments of order below 1/k. nan where no tail can be fitted: fewer than 25 draws, or tied
        weights at its foot or throughout, as on targets with few states. inf where the weights differ so much
        that no shape is left.

    Notes
    -----
    The tail is the largest :math:`\min(n / 5, 3 \sqrt{n})` weights; the estimate is that of Zhang &
    Stephens (2009), drawn towards 1/2 with the weight of 10 observations (Vehtari et al. 2024).

    Examples
    --------
    >>> u = np.random.default_rng(1).random(4000)
    >>> bool(abs(pareto_k(-0.8 * np.log(u)) - 0.8) < 0.15)  # u ** -0.8 has a Pareto tail with k = 0.8
    True
    >>> pareto_k(np.zeros(1000))
    nan
    """
    checked = check_log_weights(log_weights)
    n = checked.size
    if n < FEWEST_DRAWS:
        return np.nan
    n_tail = int(3 * np.sqrt(n)) if n > 225 else n // 5
    ordered = np.sort(checked) - checked.max()
    foot, lowest, quartile = ordered[n - n_tail - 1], ordered[n - n_tail], ordered[n - n_tail + (n_tail + 2) // 4 - 1]
    if quartile == -np.inf or quartile - foot < TIE or -lowest < TIE:
        return np.nan  # the fit divides by the first quartile of what exceeds the foot
    if quartile < UNDERFLOW:
        return np.inf
    tail = np.exp(ordered[n - n_tail :])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return _pareto_shape(tail - np.exp(foot))


_PRIOR_DRAWS, _PRIOR_SHAPE = 10, 0.5


def _pareto_shape(exceeding: NDArray[np.float64]) -> float:
    r"""Shape k of a generalised Pareto distribution with these values, sorted, above 0.

    Zhang & Stephens (2009): with :math:`\theta = -k / \sigma`, the profile likelihood's k is the mean of
    :math:`\log(1 - \theta x)`.  It is averaged over a grid of :math:`\theta` by its likelihood times their prior, whose
    scale is the first quartile.
    """
    n = exceeding.size
    n_grid = 30 + int(np.sqrt(n))
    quartile = exceeding[int(n / 4 + 0.5) - 1]
    theta = 1 / exceeding[-1] + (1 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))) / (3 * quartile)
    shapes = np.log1p(-theta[:, None] * exceeding).mean(axis=1)
    log_likelihood = n * (np.log(-theta / shapes) - shapes - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    theta_mean = (weights * theta).sum() / weights.sum()
    shape = np.log1p(-theta_mean * exceeding).mean()
    return float((n * shape + _PRIOR_DRAWS * _PRIOR_SHAPE) / (n + _PRIOR_DRAWS))


@dataclass(frozen=True, eq=False)
class Removal:
    """Draws left out by `doxa.sampling.importance.ImportanceSample.without_outliers`, and why their weights were large.

    Parameters
    ----------
    indices : ndarray of int
        Their positions in the original sample.
    shares : ndarray of float
        Normalised weight of each there.
    target_ranks, proposal_ranks : ndarray of float
        Share of the kept draws at which the target (the numerator of the weight) and the proposal (its denominator)
        are no higher than at this one.
    causes : tuple of str
        ``"numerator"`` where the target is not among its lowest 5%: the draw may come from a part of the target that
        the proposal misses, and should be kept. ``"denominator"`` otherwise: a tail, where the proposal is smaller
        still.
    """

    indices: NDArray[np.intp]
    shares: NDArray[np.float64]
    target_ranks: NDArray[np.float64]
    proposal_ranks: NDArray[np.float64]
    causes: tuple[str, ...]

    def __str__(self) -> str:
        """How many, how much, and why."""
        n = len(self.causes)
        if not n:
            return "no draw removed"
        high = self.causes.count("numerator")
        parts = [
            f"{count} by the {text}"
            for count, text in (
                (high, "numerator: the target is high there, perhaps a part that the proposal misses"),
                (n - high, "denominator: a tail, where the proposal is smaller still"),
            )
            if count
        ]
        draws = "1 draw" if n == 1 else f"{n} draws"
        return f"{draws} with {self.shares.sum():.1%} of the weight removed ({'; '.join(parts)})"


def find_removal(
    out: NDArray[np.bool_],
    weights: NDArray[np.float64],
    log_target: NDArray[np.float64],
    log_proposal: NDArray[np.float64],
) -> Removal:
    """Describe the removal of the draws ``out``: how much weight they had, and which side of the fraction made it
    large.

    Riggelsen (section 1.1.1) compares numerator and denominator with those "of the other weights".  Far out the
    denominator is small, also at a mode that the proposal misses; what tells the two apart is the numerator, so it
    decides.

    >>> out = np.array([False, False, True])
    >>> find_removal(out, np.array([0.1, 0.1, 0.8]), np.zeros(3), np.array([0.0, 0.0, -2.1])).causes
    ('numerator',)
    """
    target, proposal = (_ranks(values[out], values[~out]) for values in (log_target, log_proposal))
    causes = tuple("denominator" if rank < LOW else "numerator" for rank in target)
    return Removal(np.flatnonzero(out), weights[out], target, proposal, causes)


def _ranks(values: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of ``others`` that are no higher than each value."""
    return np.asarray(np.searchsorted(np.sort(others), values, side="right") / others.size)


# Above k = 1/2 the variance of the weights is infinite. Up to 0.7 the mean of smoothed weights can still be used
# (Vehtari et al. 2024), but its error cannot: a normal proposal for a t target with 3 degrees of freedom, 20,000 draws,
# has k between 0.5 and 0.7 in 56% of runs, and intervals that cover log Z in 57% of these.
FINITE_VARIANCE = 0.5
LEAST_ESS = 100.0  # effective draws below which the error itself is too uncertain; as for chains


class WeightVerdict(NamedTuple):
    """Whether estimates from these weights, and their errors, can be trusted."""

    reliable: bool | None  # None: cannot tell
    reason: str  # with the numbers
    advice: str  # empty where there is nothing to do

    @property
    def status(self) -> str:
        """What the text begins with."""
        return {True: "Reliable", False: "Not reliable", None: "Cannot tell"}[self.reliable]

    @property
    def text(self) -> str:
        """One line for the reader."""
        return f"{self.status}: {self.reason}. {self.advice}".rstrip()


_NOT_JUDGED = WeightVerdict(None, "the weights were not judged", "")


@dataclass(frozen=True)
class WeightedEstimate(Estimate):
    """An estimate from importance weights: its ``mcse`` is nan where the weights do not let it be trusted.

    Parameters
    ----------
    value, mcse, ess, exact, law
        As in `doxa.estimates.Estimate`; ``mcse`` is nan unless ``verdict.reliable``, and so is the interval.
    delta_error : float
        Standard error by the delta method whatever the verdict; too small, by an unknown factor, where the
        verdict is bad.
    verdict : WeightVerdict
        Of the weights and, where the quantity is unbounded, of the weights times the quantity.

    Examples
    --------
    >>> bad = WeightVerdict(False, "Pareto k is 0.93 (limit 0.70)", "")
    >>> print(WeightedEstimate(0.41, np.nan, np.nan, delta_error=0.02, verdict=bad))
    0.41 (error unknown; not reliable: Pareto k is 0.93 (limit 0.70))
    """

    delta_error: float = np.nan
    verdict: WeightVerdict = _NOT_JUDGED

    def __str__(self) -> str:
        """Value and error, or the reason why the error is not known."""
        if self.verdict.reliable:
            return super().__str__()
        word = "cannot tell" if self.verdict.reliable is None else "not reliable"
        return f"{self.value:.6g} (error unknown; {word}: {self.verdict.reason})"


def judged(
    value: float,
    error: float,
    ess: float,
    law: StudentInterval | UnseenInterval,
    verdict: WeightVerdict,
    delta: float | None = None,
) -> WeightedEstimate:
    """Estimate whose error is nan unless the verdict is good; ``delta`` is `WeightedEstimate.delta_error`."""
    delta = error if delta is None else delta
    if verdict.reliable:
        return WeightedEstimate(value, error, ess, law=law, delta_error=delta, verdict=verdict)
    if isinstance(law, UnseenInterval):  # its bounds do not depend on the error, so nan would not hide them
        law = StudentInterval(unit=True)
    return WeightedEstimate(value, np.nan, np.nan, law=law, delta_error=delta, verdict=verdict)


def pareto_k_limit(n: int) -> float:
    """Largest Pareto k at which n weights can be used: ``min(1 - 1 / log10(n), 0.7)`` (Vehtari et al. 2024).

    With few draws even a mild tail is not averaged out.
    """
    return float(min(1 - 1 / np.log10(n), 0.7))


def judge_weights(n: int, ess: float, k: float, what: str = "the weights") -> WeightVerdict:
    """Judge weights by their number, effective sample size and Pareto k (nan if there is none), fitted to ``what``.

    Reliable if there are at least 25 draws, k is at most 1/2 and `pareto_k_limit`, and the ess is at least 100.  Not
    reliable if k is above the limit or the ess below 100.  Between, cannot tell: the draws may tell the mean but not
    its error.
    """
    limit = pareto_k_limit(n)
    tail = (
        "no Pareto k (ties, or too few draws)" if np.isnan(k) else f"Pareto k of {what} is {k:.2f} (limit {limit:.2f})"
    )
    reason = f"{tail}, ess {ess:.0f} of {n} draws"
    if k > limit:
        return WeightVerdict(
            False,
            reason,
            "Few draws carry the estimate, and larger weights are to be expected: widen the tails of the proposal, "
            "or mix it with one that covers what it misses. More draws of the same proposal help little.",
        )
    if n < FEWEST_DRAWS:
        return WeightVerdict(None, f"{reason}; at least {FEWEST_DRAWS} are wanted", "Draw more.")
    if ess < LEAST_ESS:
        wanted = int(np.ceil(2 * n * LEAST_ESS / ess))
        return WeightVerdict(
            False,
            f"{reason}; an ess of at least {LEAST_ESS:.0f} is wanted",
            f"Draw more (n={wanted} may do), or bring the proposal closer to the target.",
        )
    if k > FINITE_VARIANCE:
        return WeightVerdict(
            None,
            f"{reason}; above {FINITE_VARIANCE} the variance of the weights is infinite",
            "Widen the tails of the proposal, or draw more: k itself is uncertain, the less the more draws.",
        )
    return WeightVerdict(True, reason, "")


def tail_aware_law(terms: NDArray[np.float64], *, unit: bool = False) -> StudentInterval:
    r"""Law of the error of a sum of independent terms, centred and not all 0, when few of them may carry it.

    Degrees of freedom :math:`2 / (\sum c^4 / (\sum c^2)^2 - 1/n)` are those at which the variance found has its own
    relative variance, n for normal terms.  The sign of :math:`\sum c^3` is the side on which the few large terms lie;
    large terms not met yet lie there too, so the interval is stretched (`doxa.estimates.intervals`).  Our derivation.
    Measured with weights of Pareto tail 0.5 and 0.6, n = 1000: 95% intervals of log Z cover 97% and 95% with this law,
    90% and 83% with a normal one.
    """
    scaled = terms / np.abs(terms).max()  # powers must not underflow
    squares = scaled**2
    excess = float((squares**2).sum() / squares.sum() ** 2 - 1 / terms.size)
    third = float((scaled**3).sum())
    if excess < 2e-12:
        return StudentInterval(unit=unit)  # all the same size: nothing is carried by few
    skewed = abs(third) > 1e-9 * float(squares.sum())
    df = max(2 / excess, 1.0)
    return StudentInterval(df, unit=unit, skew=float(np.copysign(df, third)) if skewed else 0.0)
