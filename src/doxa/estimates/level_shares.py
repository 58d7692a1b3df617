"""`LevelShares`: a distribution known by the shares of draws below fixed levels, where the draws themselves are let go.

What quantiles and tail probabilities need of a long run (de Freitas et al. 2001, section 6): the distribution function
at some levels, averaged over batches of draws, so that the scatter of the batches tells its error.  Between levels it
is interpolated by a monotone cubic (Fritsch & Carlson 1980).  Which levels are good, whoever draws knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.estimates.intervals import StudentInterval, UnseenInterval, unseen_error
from doxa.estimates.real import diagnose_real

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

__all__ = ["LevelShares"]


@dataclass(frozen=True, eq=False)
class LevelShares:
    """Shares of a quantity's draws that are not above each of some levels.

    ``levels``, shape (n,), never decrease, and at least three differ; ``shares``, shape (chain, batch, n), are of
    batches of one size.  ``ess`` are the effective draws of the slowest quantity of the run, by which what was never
    seen is bounded.
    """

    levels: Floats
    shares: NDArray[np.floating]
    n_draws: int
    ess: float

    def quantile(self, prob: float) -> Estimate:
        """The number that a share ``prob`` of the distribution is below; it may not lie beyond the outermost levels.

        Its error is that of the distribution function there divided by the density (the delta method), and how far off
        the cubic is when every second level is left out; where no draw is beyond the two levels around it, at least
        half of their distance.
        """
        from scipy.optimize import brentq

        p, (levels, shares) = check_prob(prob), self._mean
        after = int(np.searchsorted(shares, p))
        if after in (0, shares.size):
            raise ArgumentError(
                f"prob is {p:g}, but the levels from {levels[0]:.4g} to {levels[-1]:.4g} tell quantiles from "
                f"{shares[0]:.3g} to {shares[-1]:.3g}; ask for one of these, or keep the draws"
            )
        fine, coarse = self._curves
        value = float(brentq(lambda x: float(fine(x)) - p, levels[after - 1], levels[after]))
        off = abs(value - float(brentq(lambda x: float(coarse(x)) - p, levels[0], levels[-1])))
        if shares[after - 1] == 0 or shares[after] == 1:  # how the draws lie between the two, nothing tells
            off = max(off, (levels[after] - levels[after - 1]) / 2)
        share, slope = self._at_or_below(value), float(fine(value, 1))
        if not slope > 0 or np.isnan(share.mcse):
            return Estimate(value, np.nan, np.nan)
        law = share.law
        if isinstance(law, StudentInterval):  # where the share is too small, the quantile is too large
            law = StudentInterval(law.df, skew=-law.skew)
        return Estimate(value, float(np.hypot(share.mcse / slope, off)), share.ess, law=law)

    def above(self, level: float) -> Estimate:
        """Probability of being above ``level``, interpolated where it is not one of the levels.

        Its error then says how far off that may be, as that of `quantile` does.
        """
        levels, shares = self._mean
        beyond = (level < levels[0] and shares[0] > 0) or (level > levels[-1] and shares[-1] < 1)
        if beyond or np.isnan(level):
            raise ArgumentError(
                f"level is {level:g}, but shares of draws are known from {levels[0]:.4g} to {levels[-1]:.4g}; ask for "
                "a level between these, or keep the draws"
            )
        level = float(np.clip(level, levels[0], levels[-1]))
        fine, coarse = self._curves
        found = self._at_or_below(level)
        if np.isnan(found.mcse) and found.value in (0.0, 1.0):
            ess = self.ess if self.ess > 0 else 0.0
            return Estimate(1 - found.value, float(unseen_error(ess)), ess, law=UnseenInterval(ess, self.n_draws))
        law = found.law
        if isinstance(law, StudentInterval):
            law = replace(law, unit=True, skew=-law.skew)
        off = 0.0 if level in levels else abs(float(fine(level) - coarse(level)))
        if off:
            before, after = shares[np.searchsorted(levels, level) - 1 :][:2]
            off = max(off, (after - before) / 2) if before == 0 or after == 1 else off
        return Estimate(1 - float(fine(level)), float(np.hypot(found.mcse, off)), found.ess, law=law)

    @cached_property
    def _mean(self) -> tuple[Floats, Floats]:
        """Levels that differ, and the distribution function at these."""
        levels, first = np.unique(self.levels, return_index=True)
        return levels, np.asarray(self.shares.mean(axis=(0, 1), dtype=np.float64)[first])

    @cached_property
    def _curves(self) -> tuple[PchipInterpolator, PchipInterpolator]:
        """The distribution function between all levels, and between every second."""
        from scipy.interpolate import PchipInterpolator

        levels, shares = self._mean
        some = np.union1d(np.arange(0, levels.size, 2), levels.size - 1)
        return PchipInterpolator(levels, shares), PchipInterpolator(levels[some], shares[some])

    def _at_or_below(self, level: float) -> Estimate:
        """The share at ``level``, between two levels by a straight line: for its error."""
        after = min(max(int(np.searchsorted(self.levels, level)), 1), self.levels.size - 1)
        low, high = self.levels[after - 1 : after + 1]
        weight = 1.0 if high == low else (level - low) / (high - low)
        return diagnose_real((1 - weight) * self.shares[..., after - 1] + weight * self.shares[..., after]).estimate
