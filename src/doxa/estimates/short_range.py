r"""The part of a Monte Carlo error of a 0/1 quantity that shows between draws near each other.

A two-state chain is known by its rates of switching: its autocorrelations are :math:`\rho_1^k`.  An edge of sampled
graphs mixes more slowly than its switches say: it flickers inside a mode that passes.  Then :math:`\rho_k` falls fast
at first and slowly later.  How slowly is told by counted differences between draws 2, 4, 8, ... apart: a pair of draws
k apart differs with probability :math:`2 (\gamma_0 - \gamma_k)`.

For a reversible chain :math:`\rho_{2k} \ge \rho_k^2`, by Jensen's inequality under its spectral measure.  So what is
seen at one lag is a lower limit for the next, and what is seen there replaces it where it is higher by more than
chance.  Where the spectrum is positive, :math:`\rho` is log-convex in k: between two lags the geometric interpolation
lies above it, and what goes on as before after the last one lies below.

A sum over doubling lags has less noise than the scatter of a few long batches: with 20,000 draws, of which six are
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
FEWEST_SWITCHES = 10  # five visits: fewer do not say how long visits last
# Standard errors by which an autocorrelation must exceed its lower limit to replace it.  What is left out makes errors
# too small: by 4% on average on slow modes in 4000 draws of four chains, by 1% in 16,000; at 2, half as much again.  At
# 1 they are 2% too small, but the largest of many has three times the noise.
STANDS_OUT = 1.5
CLEAR = 3.0  # standard errors from which the last autocorrelation is one: the chain is slower than its largest lag


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
        Pairs of draws 2, 4, 8, ... apart that differ, over all chains, the last draw of each followed by its first
        (`doxa.estimates.counts.IndicatorCounts`).
    n_chains, n_draws : int
        Chains, and draws in each.

    Notes
    -----
    From switching rates a, b (`doxa.estimates.intervals.switching_rates`), :math:`r_0 = 1 - a - b`.  At lag :math:`L =
    2^i`, :math:`\hat\rho_L = (1 - D_L / (2 m n\, p (1 - p))) / (1 - L/n)` for :math:`D_L` differing pairs in m chains
    of n draws.  Where it exceeds :math:`r_{i-1}^2` by 1.5 standard errors, :math:`\sqrt{(1 + 2 \sum r^2)/(mn)}`
    (Bartlett 1946), :math:`r_i` is that, at most :math:`r_{i-1}`; else :math:`r_{i-1}^2`.  Between lags the r decay
    geometrically.  After the last, :math:`r_K` at lag L, they go on as :math:`r_K^{k/L}`, or, if :math:`\hat\rho_L` is
    above 3 standard errors, as they decayed over the last two doublings, but no longer than half a chain.

    The result, :math:`p(1-p)(1 + 2 \sum_k r_k)`, is never below that of the two-state chain, :math:`p(1-p)(2 - a -
    b)/(a + b)`, and is that where no lag stands out or there are fewer than 10 switches.  The effective draws are kept
    between the number of chains less one and :math:`mn \log_{10} mn`.  Degrees of freedom: the switches, and
    :math:`mn / (2w + 1)` for w the largest lag that stood out, or the time in which the rest decays.
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
    enough = switches >= FEWEST_SWITCHES
    autocorrelations = [
        np.where(enough, (1 - pairs / (2 * total * np.where(enough, spread, 1.0))) / (1 - lag / n_draws), 0.0)
        for pairs, lag in zip(differing, 2 ** np.arange(1, len(differing) + 1), strict=True)
    ]
    time, window = _correlation_time(1 - rate, autocorrelations, total, n_draws / 2)
    ess = np.where(window > 0, np.clip(total / time, least, two_state), two_state)
    df = np.minimum(np.maximum(switches, 1.0), np.where(window > 0, total / (2 * window + 1), np.inf))
    return ShortRange(spread * total / ess, ess, np.maximum(df, 1.0), two_state / ess)


def _correlation_time(
    first: NDArray[np.float64], autocorrelations: list[NDArray[np.float64]], total: int, longest: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws that are worth one, and the lags that it took to see that; 0 where none stood out.

    From the autocorrelation ``first`` at lag 1 and those seen at 2, 4, 8, ... in ``total`` draws; what is left after
    the last of them is no more than over ``longest`` draws.
    """
    # of draws that alternate, without the first, which says nothing of what comes later
    before, lag = np.maximum(np.abs(first), FAINT), 1
    known = [before]
    sums, squares, window = first - before, np.ones_like(first), np.zeros_like(first)
    slow = np.zeros(first.shape, dtype=np.bool_)
    for seen in autocorrelations:
        error = np.sqrt(squares / total)
        slow = seen > CLEAR * error
        seen = np.minimum(seen, before if lag > 1 else 1.0)  # where draws alternate, lag 2 says more than lag 1
        stands_out = seen - before**2 > STANDS_OUT * error
        after = np.maximum(np.where(stands_out, seen, before**2), FAINT)
        sums += _geometric(before, after, lag)
        squares += 2 * _geometric(before**2, after**2, lag)
        before, lag = after, 2 * lag
        window = np.where(stands_out, float(lag), window)
        known.append(before)
    fading = _fading(before, lag)
    if len(known) > 2:
        fading = np.where(slow, _fading(before / known[-3], lag - lag // 4), fading)
    left = np.minimum(1 / fading, longest)
    window = np.where((window > 0) & slow, np.maximum(window, left), window)
    return 1 + 2 * (sums + before * left), window


def _geometric(before: NDArray[np.float64], after: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """Sum of a geometric sequence over ``lag`` terms, from ``before`` on; the next one is ``after``."""
    fading = _fading(after / before, lag)
    return np.where(fading * lag > 1e-9, (before - after) / fading, before * lag)


def _fading(ratio: NDArray[np.float64], lag: int) -> NDArray[np.float64]:
    """1 - q for the q of which the power ``lag`` is ``ratio``, at most 1."""
    fading: NDArray[np.float64] = np.maximum(-np.expm1(np.log(ratio) / lag), 1e-15)
    return fading
