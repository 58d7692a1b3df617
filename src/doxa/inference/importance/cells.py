r"""Estimates from sums over cells: what `doxa.sampling.importance` makes of single draws, made of their sums.

A quantity f is constant in each cell: 1 in the cell of a state and 0 in the others, or a state's probability given the
configuration of its parents.  Everything that errors by the delta method need is then in the sums of powers of the
weights in each cell, :math:`\sum_t (w_t (f_t - \hat f))^j = \sum_c M_{cj} (f_c - \hat f)^j`.

The delta method sees only what was met.  A rare state may be met by light draws alone, and carried by heavy ones that
are rarer still: with the alarm network a state of probability 4e-5 was given 2.2e-5 +/- 0.1e-5.  So intervals allow for
a part of the distribution that all draws missed, of up to about 3 in ``least``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.intervals import (
    StudentInterval,
    UnseenInterval,
    unmet_bound,
    unmet_error,
    unseen_bound,
    unseen_error,
)
from doxa.sampling.importance_estimate import WeightedEstimate, WeightVerdict

__all__ = ["CellSums", "EvidenceInterval", "MeanInterval", "estimate_evidence", "estimate_mean", "law_of_sums"]

EQUAL = 1e-10  # relative variance of weights that are equal but for rounding
NEARLY_EQUAL = 1e-6  # below it rounding leaves nothing of their fourth moment, and the mean of so many is normal

Floats = NDArray[np.float64]


class CellSums(NamedTuple):
    """What is known of one quantity."""

    powers: Floats  # (n_cells, 4): sums of powers 1 to 4 of the weights
    totals: Floats  # (4,): over all draws; those of the cells add up to it
    n: int  # draws, those of weight 0 included
    least: float  # what is not met holds no more of the weight than in so many equal draws


@dataclass(frozen=True)
class MeanInterval(StudentInterval):
    """Student's t around what was met, and anything for a part that was not.

    Parameters
    ----------
    delta : float
        Standard error by the delta method.
    least : float
        As in `CellSums`.
    lowest, highest : float
        Range of the quantity.
    """

    delta: float = 0.0
    least: float = np.inf
    lowest: float = 0.0
    highest: float = 1.0

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:
        """Limits of the interval; nan where the error is."""
        low, high = super().bounds(value, self.delta if np.isfinite(mcse) else np.nan, prob)
        missed = float(unmet_bound(self.least, prob))
        below = math.hypot(value - low, missed * (value - self.lowest))
        above = math.hypot(high - value, missed * (self.highest - value))
        return max(self.lowest, value - below), min(self.highest, value + above)


@dataclass(frozen=True)
class EvidenceInterval(StudentInterval):
    """Student's t for the log of the mean weight, and room above for a part of the distribution that was not met."""

    delta: float = 0.0
    least: float = np.inf

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:
        """Limits of the interval; nan where the error is."""
        low, high = super().bounds(value, self.delta if np.isfinite(mcse) else np.nan, prob)
        return low, high - math.log1p(-float(unseen_bound(self.least, prob)))


def law_of_sums(second: float, third: float, fourth: float, n: int, *, unit: bool = False) -> StudentInterval:
    """As `doxa.sampling.importance_estimate.tail_aware_law`, from the sums of the terms' powers.

    Examples
    --------
    >>> terms = np.array([3.0] + [-0.1] * 30)
    >>> law = law_of_sums(*(float((terms**j).sum()) for j in (2, 3, 4)), 31)
    >>> round(law.df, 2), law.skew
    (2.21, 1.0)
    """
    excess = fourth / second**2 - 1 / n
    if excess < 2e-12:
        return StudentInterval(unit=unit)
    skewed = abs(third) > 1e-9 * second**1.5
    return StudentInterval(max(2 / excess, 1.0), unit=unit, skew=float(np.sign(third)) if skewed else 0.0)


def estimate_mean(sums: CellSums, values: Floats, verdict: WeightVerdict) -> WeightedEstimate:
    r"""Weighted mean of a probability that is constant in each cell.

    Parameters
    ----------
    sums : CellSums
    values : ndarray, shape (n_cells,)
        The quantity in each cell, in [0, 1].
    verdict : WeightVerdict

    Returns
    -------
    WeightedEstimate
        Exact where all cells have the same value; a bound where all draws, but not all cells, have 0, or 1.  Otherwise
        the ``mcse`` is the delta method's together with that of a part that was not met.
    """
    if values.min() == values.max():
        return WeightedEstimate(float(values[0]), 0.0, np.inf, exact=True, delta_error=0.0, verdict=verdict)
    met = sums.powers[:, 0] > 0
    value = float((sums.powers[met, 0] * values[met]).sum() / sums.powers[met, 0].sum())
    if (values[met] == values[met][0]).all():
        value = float(values[met][0])
    apart = (values - value)[:, None] ** np.arange(1, 5)
    _, second, third, fourth = (sums.powers * apart).sum(axis=0) / sums.totals[0] ** np.arange(1, 5)
    delta = math.sqrt(second * sums.n / (sums.n - 1))
    if value in (0.0, 1.0):
        law: StudentInterval | UnseenInterval = UnseenInterval(sums.least, sums.n)
        return judged(value, float(unseen_error(sums.least)), sums.least, law, verdict)
    known = law_of_sums(second, third, fourth, sums.n, unit=True) if second > 0 else StudentInterval(unit=True)
    law = MeanInterval(known.df, True, known.skew, delta, sums.least, float(values.min()), float(values.max()))
    error = math.hypot(delta, float(np.abs(values - value).max() * unmet_error(sums.least)))
    return judged(value, error, value * (1 - value) / error**2, law, verdict, delta)


def estimate_evidence(sums: CellSums, reference: float, ess: float, verdict: WeightVerdict) -> WeightedEstimate:
    r"""Log of the mean weight, nats; its error is nan where the weights are all equal, or not reliable."""
    n, mean = sums.n, sums.totals[0] / sums.n
    value = math.log(mean) + reference
    one, two, three = sums.totals[1:] / mean ** np.arange(2, 5)
    second = one - n
    if second < EQUAL * n:
        unknown = WeightVerdict(None, "all weights are equal, which says nothing about their variance", "")
        return WeightedEstimate(value, np.nan, np.nan, verdict=unknown)
    delta = math.sqrt(second * n / (n - 1)) / n
    known = StudentInterval()
    if second >= NEARLY_EQUAL * n:
        third, fourth = two - 3 * one + 2 * n, three - 4 * two + 6 * one - 3 * n
        known = law_of_sums(second, third, fourth, n)
    law = EvidenceInterval(known.df, False, known.skew, delta, sums.least)
    return judged(value, math.hypot(delta, float(unseen_error(sums.least))), ess, law, verdict, delta)


def judged(
    value: float,
    error: float,
    ess: float,
    law: StudentInterval | UnseenInterval,
    verdict: WeightVerdict,
    delta: float | None = None,
) -> WeightedEstimate:
    """Estimate whose error is nan unless the verdict is good."""
    delta = error if delta is None else delta
    if verdict.reliable:
        return WeightedEstimate(value, error, ess, law=law, delta_error=delta, verdict=verdict)
    if isinstance(law, UnseenInterval):  # its bounds do not depend on the error, so nan would not hide them
        law = StudentInterval(unit=True)
    return WeightedEstimate(value, np.nan, np.nan, law=law, delta_error=delta, verdict=verdict)
