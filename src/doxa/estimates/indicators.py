r"""Honest Monte Carlo errors of 0/1 quantities, such as the edges of sampled graphs.

A plain effective sample size gives an indicator that never switched an error of exactly 0, and a two-state chain sees
fast flips but not the slow modes around them.  The error here is the two-state chain's (in closed form from the counted
switches, with a proper prior on both rates), raised to what draws at doubling lags show (`doxa.estimates.short_range`),
and to what long batches and the scatter between chains show where they show more than chance
(`doxa.estimates.batches`): an interval by what each quantity shows alone, a standard error by what stands out among
all that are judged together.  Indicators that never switched get a bound from the effective
draws of those that did.  What no error can see: a mode that no chain ever visited.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.estimates.batches import BASE_BATCHES, LongRange, long_range_dispersion
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.estimate import Estimate, check_prob
from doxa.estimates.intervals import (
    TwoStateInterval,
    UnseenInterval,
    two_state_bounds,
    unseen_bound,
    unseen_error,
)
from doxa.estimates.short_range import ShortRange, short_range

__all__ = [
    "IndicatorCounts",
    "IndicatorDiagnostics",
    "Status",
    "diagnose_indicators",
    "diagnose_words",
    "never_switched",
    "split_r_hat",
]


# Degrees of freedom of a squared error: a standard deviation of 3.5% of the error.  They are counted by lags; where a
# slow mode is visited rarely, there are up to six times fewer.
WELL_KNOWN = 400.0


class Status(IntEnum):
    """What the counts of one quantity allow to say."""

    OK = 0  # the error can be used
    UNCONVERGED = 1  # the chains disagree: R-hat above the limit; the interval leans on few effective draws
    CANNOT_TELL = 2  # never switched, and nothing else in the run did: no interval but [0, 1]


@dataclass(frozen=True, eq=False)
class IndicatorDiagnostics:
    """Estimates of many 0/1 quantities; every array has the shape of the quantities.

    Parameters
    ----------
    probability : ndarray of float
        Share of draws in state 1.
    mcse : ndarray of float
        Monte Carlo standard error of ``probability``, all quantities judged together; an interval may be wider, as it
        allows for what a quantity alone may hide. For a quantity that never switched, the root mean square of what
        may be missing (`doxa.estimates.intervals.unseen_error`).  0 where the value is known.
    ess : ndarray of float
        ``probability * (1 - probability) / mcse**2``, at most ``n log10(n)`` for n draws; for a quantity that never
        switched, the reference it was judged by (0 when there is none).
    r_hat : ndarray of float
        Split R-hat; nan for a quantity that never switched, inf when every half-chain is constant and they differ.
    switches : ndarray of int
        Switches over all chains, in both directions.
    status : ndarray of int8
        A `Status` each.
    reference_ess : float
        Effective draws by which quantities that never switched were judged; 0 if unknown.
    n_zero, n_one, dispersion, df, skew : ndarray of float
        What the interval follows, see `doxa.estimates.intervals.two_state_bounds`.
    mcse_df : ndarray of float
        Degrees of freedom of ``mcse**2``: how well the error itself is known; 0 where nothing switched.
    n_chains, n_draws : int
        Number of chains, and of draws in each.
    known : ndarray of bool, optional
        Quantities that cannot switch, whose values are exact; none when left out.

    Examples
    --------
    >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
    >>> draws = np.array([[0, 1, 0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0, 1, 0]])
    >>> result = diagnose_indicators(IndicatorCounts.from_draws(draws))
    >>> float(result.probability), int(result.switches)
    (0.5, 10)
    """

    probability: NDArray[np.float64]
    mcse: NDArray[np.float64]
    ess: NDArray[np.float64]
    r_hat: NDArray[np.float64]
    switches: NDArray[np.int64]
    status: NDArray[np.int8]
    reference_ess: float
    n_zero: NDArray[np.float64]
    n_one: NDArray[np.float64]
    dispersion: NDArray[np.float64]
    df: NDArray[np.float64]
    skew: NDArray[np.float64]
    mcse_df: NDArray[np.float64]
    n_chains: int
    n_draws: int
    known: NDArray[np.bool_] | None = None

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower limits of the 95% intervals."""
        return self._limits[0]

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper limits of the 95% intervals."""
        return self._limits[1]

    @cached_property
    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Found when first asked for: a run that only asks whether it may stop has no use for them."""
        return self.interval()

    @property
    def well_known(self) -> NDArray[np.bool_]:
        """Whether ``mcse`` itself has little noise, by its degrees of freedom."""
        return self.mcse_df >= WELL_KNOWN

    def judged_by(self, reference_ess: float) -> IndicatorDiagnostics:
        """The same, with quantities that never switched judged by other effective draws, as for `diagnose_indicators`.

        >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
        >>> counts = IndicatorCounts.from_draws(np.zeros((4, 2000), dtype=np.int8))
        >>> print(diagnose_indicators(counts).judged_by(900).estimate())
        < 0.0034 (no switch in 8000 draws)
        """
        reference_ess = float(min(reference_ess, self.n_chains * self.n_draws))
        constant = never_switched(self.probability)
        if self.known is not None:
            constant &= ~self.known
        verdict = Status.OK if reference_ess > 0 else Status.CANNOT_TELL
        return replace(
            self,
            mcse=np.where(constant, unseen_error(reference_ess), self.mcse),
            ess=np.where(constant, reference_ess, self.ess),
            status=np.where(constant, verdict, self.status).astype(np.int8),
            reference_ess=reference_ess,
        )

    def with_known(self, known: NDArray[np.bool_]) -> IndicatorDiagnostics:
        """The same, with those that cannot switch, and did not, called exact.

        >>> from doxa.estimates.indicators import IndicatorCounts, diagnose_indicators
        >>> counts = IndicatorCounts.from_draws(np.zeros((4, 2000, 2), dtype=np.int8))
        >>> print(diagnose_indicators(counts, 900).with_known(np.array([True, False])).estimate(0))
        0 (exact)
        """
        exact = known & never_switched(self.probability)
        return replace(
            self,
            mcse=np.where(exact, 0.0, self.mcse),
            ess=np.where(exact, np.inf, self.ess),
            status=np.where(exact, Status.OK, self.status).astype(np.int8),
            known=exact,
        )

    def mirrored(self) -> IndicatorDiagnostics:
        """A square array of which the lower half is that of the upper: for quantities of unordered pairs."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        upper = np.triu(np.ones(self.probability.shape, dtype=np.bool_))
        mirrored = {name: np.where(upper, value, value.T) for name, value in arrays.items()}
        return replace(self, **mirrored)  # type: ignore[arg-type]

    def interval(self, prob: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends for all quantities, in [0, 1], with nominal coverage ``prob``; of zero width only where
        the value is known.
        """
        prob = check_prob(prob)
        arguments = self.n_zero, self.n_one, self.switches / 2, self.dispersion, self.df, self.skew
        lower, upper = _bounds(*arguments, self.probability, self.reference_ess, prob)
        if self.known is None:
            return lower, upper
        return np.where(self.known, self.probability, lower), np.where(self.known, self.probability, upper)

    def estimate(self, index: int | tuple[int, ...] = ()) -> Estimate:
        """The estimate of the quantity at a position in the array; ``()`` when there is only one."""
        position = index if isinstance(index, tuple) else (index,)
        try:
            value = self.probability[position]
        except IndexError:
            value = None
        if value is None or np.ndim(value) != 0:
            raise ArgumentError(
                f"index is {index}; it must name one quantity of an array of shape {self.probability.shape}"
            )
        if self.known is not None and self.known[position]:
            return Estimate.exactly(float(value))
        law: TwoStateInterval | UnseenInterval
        if never_switched(value):
            law = UnseenInterval(self.reference_ess, self.n_chains * self.n_draws)
        else:
            arrays = self.n_zero, self.n_one, self.switches / 2, self.dispersion, self.df, self.skew
            law = TwoStateInterval(*(float(a[position]) for a in arrays))
        return Estimate(float(value), float(self.mcse[position]), float(self.ess[position]), law=law)


def never_switched(probability: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether every draw of every chain was the same."""
    result: NDArray[np.bool_] = (probability == 0) | (probability == 1)
    return result


def _bounds(
    n_zero: NDArray[np.float64],
    n_one: NDArray[np.float64],
    switches: NDArray[np.float64],
    dispersion: NDArray[np.float64],
    df: NDArray[np.float64],
    skew: NDArray[np.float64],
    probability: NDArray[np.float64],
    reference_ess: float,
    prob: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-state intervals, with one-sided ones where nothing switched."""
    lower, upper = two_state_bounds(n_zero, n_one, switches, dispersion, df, skew, prob)
    bound = unseen_bound(reference_ess, prob) if reference_ess > 0 else np.float64(1.0)
    lower = np.where(probability == 0, 0.0, np.where(probability == 1, 1 - bound, lower))
    upper = np.where(probability == 1, 1.0, np.where(probability == 0, bound, upper))
    return lower, upper


def diagnose_indicators(
    counts: IndicatorCounts, reference_ess: float | None = None, r_hat_limit: float = 1.01
) -> IndicatorDiagnostics:
    r"""Probabilities, errors, intervals and R-hat of 0/1 quantities, all in closed form.

    Parameters
    ----------
    counts : IndicatorCounts
        Counts over chains and batches.
    reference_ess : float, optional
        Effective number of draws of the slowest quantities of the same run (the log score, say), by which quantities
        that never switched are judged; capped at the number of draws. By default the smallest ``ess`` among the
        quantities of ``counts`` that took both values; 0, if there is none.
    r_hat_limit : float, default=1.01
        Split R-hat above which a quantity is `Status.UNCONVERGED` (Vehtari et al. 2021).

    Returns
    -------
    IndicatorDiagnostics
        Arrays of shape ``counts.shape``.

    Raises
    ------
    ArgumentError
        If ``reference_ess`` is negative or not a number, or ``r_hat_limit`` is below 1.

    Notes
    -----
    With switching rates a, b (posterior means under Beta(1/4, 1/4), both from the mean of rises and falls), a
    two-state chain of n draws has :math:`\mathrm{ess} = n (a + b) / (2 - a - b)` and mcse
    :math:`\sqrt{p(1-p)/\mathrm{ess}}`, from Geyer (1992), with autocorrelations :math:`(1 - a - b)^t`; ess is kept
    between the number of chains less one and
    :math:`n \log_{10} n`.  That variance is raised by autocorrelations at doubling lags
    (`doxa.estimates.short_range.short_range`), then multiplied by the joint dispersion of
    `doxa.estimates.batches.long_range_dispersion`; intervals are `doxa.estimates.intervals.two_state_bounds`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> result = diagnose_indicators(IndicatorCounts.from_draws(rng.random((4, 1000)) < 0.3))
    >>> print(result.estimate(), Status(int(result.status)).name)
    0.304 +/- 0.007 OK
    """
    _check_limits(reference_ess, r_hat_limit)
    n_chains, n_draws = counts.n_chains, counts.n_draws
    total = n_chains * n_draws
    probability = counts.ones.sum(axis=(0, 1)) / total
    constant = never_switched(probability)
    switches = counts.rises.sum(axis=0) + counts.falls.sum(axis=0)
    origins = n_chains * (n_draws - 1)
    n_one = probability * origins
    n_zero = origins - n_one

    near = short_range(probability, switches, counts.differing, n_chains, n_draws)
    dispersion, df, skew, joint = _long_range(counts, near, ~constant)
    dispersion = dispersion * near.excess
    variance, ess = near.variance * joint, near.ess / joint
    if reference_ess is None:
        reference_ess = float(ess.min(initial=np.inf, where=~constant)) if not constant.all() else 0.0
    reference_ess = float(min(reference_ess, total))

    r_hat = split_r_hat(counts)
    status = np.where(r_hat > r_hat_limit, Status.UNCONVERGED, Status.OK)
    if reference_ess <= 0:
        status = np.where(constant, Status.CANNOT_TELL, status)
    return IndicatorDiagnostics(
        probability=probability,
        mcse=np.where(constant, unseen_error(reference_ess), np.sqrt(variance / total)),
        ess=np.where(constant, reference_ess, ess),
        r_hat=r_hat,
        switches=switches,
        status=status.astype(np.int8),
        reference_ess=reference_ess,
        n_zero=n_zero,
        n_one=n_one,
        dispersion=dispersion,
        df=df,
        skew=skew,
        mcse_df=np.where(constant, 0.0, np.where(joint > 1, BASE_BATCHES - 1.0, near.df)),
        n_chains=n_chains,
        n_draws=n_draws,
    )


def diagnose_words(
    words: NDArray[np.uint64], n_bits: int, reference_ess: float | None = None, *, folded: bool = False
) -> IndicatorDiagnostics:
    """`diagnose_indicators` of packed draws, shape (n_rows, n_bits); only bits that are ever set are counted.

    Parameters
    ----------
    words : ndarray of uint64, shape (n_chains, n_draws, n_rows, n_words)
        As for `IndicatorCounts.from_words`.
    n_bits : int
        Quantities of each row.
    reference_ess : float, optional
        As for `diagnose_indicators`.
    folded : bool, default=False
        Whether a pair of rows i < j is one quantity, bit j of row i or bit i of row j; ``[j, i]`` then never switches.

    Returns
    -------
    IndicatorDiagnostics

    Examples
    --------
    >>> words = np.random.default_rng(1).integers(0, 4, (2, 500, 2, 1), dtype=np.uint64) & np.uint64(1)
    >>> print(diagnose_words(words, 2).estimate((0, 0)))
    0.517 +/- 0.015
    """
    present, counts = IndicatorCounts.of_present(words, n_bits, folded=folded)
    found = diagnose_indicators(counts, reference_ess)
    origins = float(counts.n_chains * (counts.n_draws - 1))
    reference = found.reference_ess
    absent = {
        "probability": 0.0, "mcse": unseen_error(reference), "ess": reference, "r_hat": np.nan, "switches": 0,
        "status": Status.OK if reference > 0 else Status.CANNOT_TELL, "n_zero": origins, "n_one": 0.0,
        "dispersion": 1.0, "df": np.inf, "skew": 0.0, "mcse_df": 0.0,
    }  # fmt: skip
    arrays: dict[str, Any] = {}
    for name, value in absent.items():
        part = getattr(found, name)
        arrays[name] = np.full(present.shape, value, dtype=part.dtype)
        arrays[name][present] = part
    return replace(found, **arrays)


def split_r_hat(counts: IndicatorCounts) -> NDArray[np.float64]:
    r"""Split R-hat of 0/1 quantities from the ones in each half-chain; nan where nothing switched, inf between
    constants.

    Rank-normalising (Vehtari et al. 2021) maps two values to two values, an affine map that leaves R-hat alone; the
    folded form is affine too, or constant, so the larger of the two is plain split R-hat, :math:`\sqrt{(B/W + h -
    1)/h}` with half-chains of h draws (Gelman & Rubin 1992).  An odd chain loses its middle draw.  One chain gives the
    comparison of its halves, which sees drift but no second mode.
    """
    half = counts.n_draws // 2
    n_batches = counts.ones.shape[1]
    first = counts.ones[:, : n_batches // 2].sum(axis=1)
    second = counts.ones[:, n_batches // 2 :].sum(axis=1) - (counts.middle if counts.n_draws % 2 else 0)
    means = np.concatenate([first, second]) / half
    within = (means * (1 - means)).mean(axis=0) * (half / (half - 1))
    between = means.var(axis=0, ddof=1)  # of means: B / h
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt(between / within + (half - 1) / half)
    return np.where((within == 0) & (means.max(axis=0) == means.min(axis=0)), np.nan, r_hat)


def _check_limits(reference_ess: float | None, r_hat_limit: float) -> None:
    if reference_ess is not None and not reference_ess >= 0:
        raise ArgumentError(f"reference_ess is {reference_ess}; it must be a number of draws, 0 or more, or None")
    if not r_hat_limit >= 1:
        raise ArgumentError(f"r_hat_limit is {r_hat_limit}; it must be at least 1, such as 1.01")


def _long_range(counts: IndicatorCounts, near: ShortRange, moving: NDArray[np.bool_]) -> LongRange:
    """`long_range_dispersion` of the quantities that took both values; of many edges, most never do."""
    found = long_range_dispersion(
        counts.ones[:, :, moving], np.diff(counts.edges), near.variance[moving], near.df[moving], near.excess[moving]
    )
    filled = LongRange(*(np.full(moving.shape, neutral) for neutral in (1.0, np.inf, 0.0, 1.0)))
    for whole, part in zip(filled, found, strict=True):
        whole[moving] = part
    return filled
