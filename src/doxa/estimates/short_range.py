r"""The part of a Monte Carlo error of a 0/1 quantity that shows between draws near each other.

A two-state chain is known by its rates of switching: its autocorrelations are :math:`\rho_1^k`.  An edge of a sampled
graph mixes more slowly than its switches say: it flickers inside a mode that passes.  Then :math:`\rho_k` falls
fast at first and slowly later, and counted differences between draws 2, 4, 8, ... apart tell how slowly: a pair of
draws k apart differs with probability :math:`2 (\gamma_0 - \gamma_k)`.

For a reversible chain :math:`\rho_{2k} \ge \rho_k^2`, by Jensen's inequality under its spectral measure, so what is
seen at lag k is a lower limit for lag 2k, and what is seen at lag 2k replaces it where it is higher by more than
chance.  Where the spectrum is positive, :math:`\rho` is log-convex in k, so that between two lags the geometric
interpolation lies above it, and continuing the last decay lies below.

A sum over doubling lags has far less noise than the scatter of a few long batches: with 20,000 draws, of which six are
worth one, 4% of a standard error where 31 degrees of freedom have 13%.  What it cannot see, slow modes too weak to
stand out at any one lag, is left to batches and to the scatter between chains (`doxa.estimates.batches`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.intervals import switching_rates

__all__ = ["ShortRange", "short_range"]

FAINT = 1e-60  # an autocorrelation that is as good as none, and whose fourth power is a number
STANDS_OUT = 1.5  # standard errors by which an autocorrelation must exceed its lower limit to replace it


class ShortRange(NamedTuple):
    """Errors by what nearby draws show; arrays of the quantities' shape."""

    variance: NDArray[np.float64]  # of the mean, times the number of draws
    ess: NDArray[np.float64]
    df: NDArray[np.float64]  # degrees of freedom of the variance
    excess: NDArray[np.float64]  # the variance over that of the two-state chain, at least 1


def short_range(
    probability: NDArray[np.float64],
    switches: NDArray[np.int64],
    differing: NDArray[np.int64],
    n_chains: int,
    n_draws: int,
) -> ShortRange:
    r"""Variance of the mean from switches and from the differences at doubling lags.

    Parameters
    ----------
    probability : ndarray of float
        Share of draws in state 1.
    switches : ndarray of int
        Over all chains, in both directions.
    differing : ndarray of int, shape (n_lags, ...)
        Pairs of draws 2, 4, 8, ... apart that differ, over all chains.
    n_chains, n_draws : int
        Chains, and draws in each.

    Notes
    -----
    From switching rates a, b (`doxa.estimates.intervals.switching_rates`), :math:`r_0 = 1 - a - b`.  At lag
    :math:`L = 2^i`, :math:`\hat\rho_L = 1 - D_L / (2 m (n - L)\, p (1 - p))` with :math:`D_L` of m chains of n draws
    (the variogram's form, which is free of the mean); :math:`r_i = \hat\rho_L`, at most :math:`r_{i-1}`, where it
    exceeds :math:`r_{i-1}^2` by 1.5 standard errors, :math:`\sqrt{(1 + 2 \sum r^2)/(mn)}` (Bartlett 1946), else
    :math:`r_{i-1}^2`.  Between lags L and 2L the r decay geometrically, and so they go on after the last.  The result,
    :math:`p(1-p)(1 + 2 \sum_k r_k)`, is never below the two-state chain's :math:`p(1-p)(2 - a - b)/(a + b)`, and is
    that where no lag stands out; the effective draws are kept between the number of chains less one and :math:`mn
    \log_{10} mn`.  Degrees of freedom: the switches, and :math:`mn / (2L + 1)` for the largest lag L that stood out.
    """
    total = n_chains * n_draws
    origins = n_chains * (n_draws - 1)
    n_one = probability * origins
    leave_zero, leave_one = switching_rates(origins - n_one, n_one, switches / 2)
    rate = leave_zero + leave_one
    with np.errstate(divide="ignore"):
        ess = total * rate / np.maximum(2 - rate, 0)
    # at least what chains that never move are worth; at most what arviz-stats and Stan allow
    least, most = max(n_chains - 1, 1), total * np.log10(total)
    two_state = np.clip(ess, least, most)

    spread = probability * (1 - probability)
    time, largest = _correlation_time(1 - rate, spread, differing, n_chains, n_draws)
    ess = np.where(largest > 1, np.clip(total / time, least, two_state), two_state)
    df = np.minimum(np.maximum(switches, 1.0), np.where(largest > 1, total / (2 * largest + 1), np.inf))
    return ShortRange(spread * total / ess, ess, df, two_state / ess)


def _correlation_time(
    first: NDArray[np.float64], spread: NDArray[np.float64], differing: NDArray[np.int64], n_chains: int, n_draws: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws that are worth one, and the largest lag that stood out; 1 where none did, and the time means nothing."""
    total = n_chains * n_draws
    # without a negative first one, of draws that alternate, which says nothing of what comes later
    before, lag = np.maximum(np.abs(first), FAINT), 1
    sums, squares, largest = first - before, np.ones_like(first), np.ones_like(first)
    moving = spread > 0
    spread = np.where(moving, spread, 1.0)
    for differences in differing:
        pairs = n_chains * (n_draws - 2 * lag)
        seen = np.minimum(1 - differences / (2 * pairs * spread), before)
        stands_out = moving & (seen - before**2 > STANDS_OUT * np.sqrt(squares / total))
        largest = np.where(stands_out, 2.0 * lag, largest)
        after = np.where(stands_out, seen, before**2)
        sums += _geometric(before, after, lag)
        squares += 2 * _geometric(before**2, after**2, lag)
        before, lag = np.maximum(after, FAINT), 2 * lag
    sums += np.minimum(before / _fading(before, lag), before * n_draws / 2)
    return 1 + 2 * sums, largest


def _geometric(before: NDArray[np.float64], after: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """Sum of a geometric sequence over ``lag`` terms, from ``before`` on; the next one is ``after``."""
    fading = _fading(after / before, lag)
    return np.where(fading * lag > 1e-9, (before - after) / fading, before * lag)


def _fading(ratio: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """1 - q for the q of which the power ``lag`` is ``ratio``."""
    fading: NDArray[np.float64] = np.maximum(-np.expm1(np.log(ratio) / lag), 1e-15)
    return fading
