r"""The part of a Monte Carlo error that shows only between long batches and between chains.

Cut every chain into batches and look at how their means scatter around the overall mean: the classical estimate of
the variance of an MCMC average (batch means: Flegal & Jones 2010; Geyer 1992).  Long batches see slow modes but are
few; short ones are many but miss what is slower than they are.  The largest over several lengths would be honest and
too wide, for the largest of several noisy numbers is too large even when all estimate the same.  So a longer batch
counts only where it exceeds the shorter ones by more than chance explains (an F test on independent contrasts), and
brings its own Student's t.

What chance explains is less for one quantity than for the largest of many.  An interval has to cover, so it asks for
each quantity alone.  A standard error, by the largest of which a run stops, has to be neither too small nor too large:
where several quantities are judged together, long batches raise it only where they stand out among all of them
(Benjamini & Hochberg 1995).  Of 400 edges between which chains do not differ, the largest error between four chains
would be twice the right one, and a run that waits for it four times too long.

`batch_means_error` is the idea at one length, alone, the slides' first method of "Confidence estimation": M parts of N
draws, so long that their averages are nearly independent and normal with variance :math:`\tau^2 / N`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.estimates._draws import chains_of_one, check_count
from doxa.estimates.estimate import Estimate
from doxa.estimates.intervals import StudentInterval, student_quantile

__all__ = ["LongRange", "batch_edges", "batch_means_error", "batch_scatter", "long_range_dispersion", "visits_by_skew"]

# Schmeiser (1982): whatever the length of a run, between 10 and 30 batches lose little: more of them narrow Student's t
# hardly further (2.26 at 10, 2.09 at 20, 2.05 at 30) and are shorter, hence more dependent.
DEFAULT_BATCHES = 20
MIN_DRAWS = 4  # two batches of two draws
ROUNDING = 1e-24  # of the variance: batch means of a chain that repeats itself differ by rounding alone


def batch_means_error(draws: ArrayLike, n_batches: int | None = None) -> Estimate:
    r"""The mean of one quantity, with the error that the scatter of its batch means gives.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws,) or (n_chains, n_draws)
        Finite numbers, at least 4 draws a chain. Not modified.
    n_batches : int, optional
        Batches each chain is cut into, from 1 (2 for a single chain) to half its draws. By default as many as make 20
        over all chains, and at least 2 a chain.

    Returns
    -------
    Estimate
        Mean of all draws, its error, and an interval by Student's t with one degree of freedom less than there are
        batches. The error is nan where all batch means are equal: constant draws, or a chain that repeats itself.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is more than one quantity, draws are too few or not finite numbers, or ``n_batches`` is out of range.

    Notes
    -----
    Slides, "Confidence estimation I": :math:`\hat\tau^2 = \frac{N}{M-1}\sum_j (\bar Y_j - \bar{\bar Y})^2`.  Two things
    are ours.  Draws that do not fill the last batch are not dropped: batches differ by at most one draw, and each
    square is weighted by its batch's length, which keeps the estimate unbiased for independent draws.  And batches of
    several chains are compared with the mean of all of them, so that chains that disagree enlarge the error.  M stays
    fixed as the run grows: the estimate itself then never settles, but Student's t accounts for that (Schmeiser 1982).
    Too small by about :math:`\sum_k |k|\gamma_k / (N\tau^2)` where neighbouring batches are still correlated.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500)).repeat(5, axis=1)  # 2000 independent draws, five times
    >>> print(batch_means_error(draws))
    -0.03 +/- 0.02
    >>> print(batch_means_error([0, 4, 4, 8], n_batches=2))  # means 2 and 6
    4 +/- 2
    """
    chains = chains_of_one(draws, MIN_DRAWS)
    m, n = chains.shape
    if n_batches is None:
        n_batches = min(max(-(-DEFAULT_BATCHES // m), 2), n // 2)
    n_batches = check_count("n_batches", n_batches, 2 if m == 1 else 1, n // 2, "two draws a batch")
    value = float(chains.mean())
    edges = np.arange(n_batches + 1) * n // n_batches
    lengths = np.diff(edges)
    deviation = np.add.reduceat(chains - value, edges[:-1], axis=1) / lengths
    df = m * n_batches - 1
    long_run = float((lengths * deviation**2).sum()) / df
    variance = float(((chains - value) ** 2).sum()) / (m * n - 1)
    if chains.min() == chains.max() or long_run <= variance * ROUNDING:
        return Estimate(value, np.nan, np.nan)
    law = StudentInterval(float(df))
    return Estimate(value, float(np.sqrt(long_run / (m * n))), m * n * variance / long_run, law=law)


MAX_BATCHES = 32  # a chain; merged pairwise to 16, 8, 4, 2 and 1
BASE_BATCHES = 32  # over all chains: batches as long as they can be with about 31 degrees of freedom
BASE_GATE = 0.2  # level at which the base batches replace the reference error: at 0.5 independent draws reach 97.1%
LONG_GATE = 0.12  # level at which longer batches replace the base ones; a false alarm gains at most 5% coverage
CLEAR_GATE = 0.05  # level at which the base batches raise a standard error whatever the other quantities are like
SKEW_GATE = 0.1  # level beyond which excess kurtosis of the batch means costs degrees of freedom

FEW_VISITS = 16.0  # degrees of freedom (twice the visits) below which significant skewness stretches one side
SKEW_LIMIT = 2.0  # standard errors, sqrt(6 / n) for n normal batches, at which skewness is significant


class LongRange(NamedTuple):
    """What long batches add to a short-range error; arrays of the quantities' shape."""

    dispersion: NDArray[np.float64]  # at least 1: the factor by which the variance of the mean has to grow
    df: NDArray[np.float64]  # degrees of freedom of the estimate chosen; inf where the short-range one stands
    skew: NDArray[np.float64]  # twice the visits that may hide more on one side, with its sign; 0 where none does
    joint: NDArray[np.float64]  # at most ``dispersion``: the factor for a standard error, all judged together


def batch_edges(n_draws: int) -> NDArray[np.int64]:
    """First draws of the batches of one chain of at least 4 draws, and the end: up to 32 of nearly equal length, at
    least 2.

    Their number is a power of two, and ``edges[n_batches // 2] == n_draws // 2``.
    """
    n_batches = 2
    while n_batches < MAX_BATCHES and n_draws // (2 * n_batches) >= 2:
        n_batches *= 2
    return np.arange(n_batches + 1, dtype=np.int64) * n_draws // n_batches


def batch_scatter(
    sums: NDArray[np.int64] | NDArray[np.float64], lengths: NDArray[np.int64]
) -> dict[int, NDArray[np.float64]]:
    """Weighted squares of the batch means around the overall mean, by number of batches a chain (n_batches, ..., 2, 1).

    ``sums`` has shape (n_chains, n_batches, ...), ``lengths`` (n_batches,).  Of independent draws each has the
    expectation ``(n_chains * n_batches - 1) * variance``.
    """
    merged = sums.astype(np.float64)
    mean = merged.sum(axis=(0, 1)) / (sums.shape[0] * lengths.sum())
    squares = {}
    while True:
        weight = lengths.astype(np.float64).reshape(-1, *(1,) * (sums.ndim - 2))
        deviation = merged - mean * weight
        squares[lengths.size] = np.add.reduce(deviation * deviation / weight, axis=(0, 1))
        if lengths.size == 1:
            return squares
        merged, lengths = _halved(merged, lengths)


def _halved(sums: NDArray[np.float64], lengths: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Merge neighbouring batches."""
    n_chains, n_batches = sums.shape[:2]
    return sums.reshape(n_chains, n_batches // 2, 2, *sums.shape[2:]).sum(axis=2), lengths.reshape(-1, 2).sum(axis=1)


def _base_batches(
    sums: NDArray[np.int64] | NDArray[np.float64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Merge batches until all chains have about `BASE_BATCHES` together."""
    base = 1
    while base * sums.shape[0] < BASE_BATCHES and base < lengths.size:
        base *= 2
    merged = sums.astype(np.float64)
    while lengths.size > base:
        merged, lengths = _halved(merged, lengths)
    return merged, lengths


def _few_visits(
    sums: NDArray[np.float64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Degrees of freedom that the kurtosis of the batch means leaves, and the side of their significant skewness."""
    deviation = sums / lengths.reshape(-1, *(1,) * (sums.ndim - 2))
    deviation = deviation - deviation.mean(axis=(0, 1))
    largest = np.abs(deviation).max(axis=(0, 1))
    deviation = deviation / np.where(largest > 0, largest, 1.0)  # fourth powers of 1e-90 are 0
    size = deviation.shape[0] * deviation.shape[1]
    power = deviation * deviation
    second = power.mean(axis=(0, 1))
    second = np.where(second > 0, second, 1.0)
    kurtosis = np.einsum("cb...,cb...->...", power, power) / size / second**2
    skewness = np.einsum("cb...,cb...->...", power, deviation) / size / second**1.5
    df = np.maximum(2 * size / (2 + np.maximum(kurtosis - 3, 0.0)), 1.5)
    side = np.where(np.abs(skewness) > SKEW_LIMIT * np.sqrt(6 / size), np.sign(skewness), 0.0)
    return df, side


def visits_by_skew(sums: NDArray[np.int64] | NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Twice the number of visits that the skewness of the batch means speaks for, with its sign.

    0 where it is not significant; ``sums`` and ``lengths`` as in `batch_scatter`.  The mean over :math:`\lambda` visits
    of exponential lengths x, far apart, has skewness :math:`\kappa = 3/\sqrt{2 \lambda}`.  Its estimate, that of n
    batch means over :math:`\sqrt n`, is about :math:`\sum x^3 / (\sum x^2)^{3/2}`: 1 for a single visit, and too small
    for several, as a skewness of few is, so that :math:`\lambda = 4.5 / \kappa^2` would be too many.

    Instead :math:`\lambda = 2.2 / \kappa^2 - 1.2`: 1 for a single visit, half as many as there are for 100, and no more
    than there are in six of ten samples of up to three visits, nine of ten of 15; for a run that stops by its own draws
    has more often met few visits than many.  Of about 32 batches and of all, what speaks for fewer visits counts: short
    batches tell visits apart, and long ones hold long visits.
    """
    merged, merged_lengths = _base_batches(sums, lengths)
    largest = np.zeros(sums.shape[2:])
    for part, length in ((merged, merged_lengths), (sums.astype(np.float64), lengths)):
        deviation = part / length.reshape(-1, *(1,) * (part.ndim - 2))
        deviation = deviation - deviation.mean(axis=(0, 1))
        size = deviation.shape[0] * deviation.shape[1]
        scale = np.abs(deviation).max(axis=(0, 1))
        deviation = deviation / np.where(scale > 0, scale, 1.0)
        second = (deviation**2).mean(axis=(0, 1))
        skewness = (deviation**3).mean(axis=(0, 1)) / np.where(second > 0, second, 1.0) ** 1.5
        significant = np.abs(skewness) > SKEW_LIMIT * np.sqrt(6 / size)
        of_mean = np.where(significant, skewness * np.sqrt(size - 1) / max(size - 2, 1), 0.0)  # without bias of normals
        largest = np.where(np.abs(of_mean) > np.abs(largest), of_mean, largest)
    square = np.where(largest == 0, 1.0, np.minimum(largest**2, 1.0))
    return np.sign(largest) * 2 * (2.2 / square - 1.2)


def long_range_dispersion(
    sums: NDArray[np.int64] | NDArray[np.float64],
    lengths: NDArray[np.int64],
    variance: NDArray[np.float64],
    df: NDArray[np.float64],
    excess: NDArray[np.float64] | None = None,
) -> LongRange:
    r"""How much larger the variance of the mean is than a short-range estimate ``variance`` with ``df`` degrees of
    freedom.

    ``sums`` and ``lengths`` as in `batch_scatter`; ``variance`` is that of the overall mean times the number of draws,
    and ``excess`` how many times that of a two-state chain, 1 if left out: where it is more, the interval is by
    Student's t with the degrees of freedom of ``variance`` even if no batch raises it.
    With m chains of K batches, :math:`V_K = SS_K / (mK - 1)` estimates the variance from K batches a chain; :math:`V_1`
    is the between-chain estimate of Gelman & Rubin (1992).  Candidates are :math:`V_K` for the K with mK about 32 (if
    it exceeds ``variance`` at level 0.2), and for each halving of K down to one batch a chain (if :math:`V_K` exceeds
    both ``variance`` and the mean square of the finer contrasts :math:`(SS_{base} - SS_K) / (m K_{base} - mK)` at level
    0.12).  Among the candidates the widest interval at 95% wins, each with its own t quantile.  Where the excess is
    beyond chance, degrees of freedom fall to :math:`2n / (2 + \text{excess kurtosis})` of the n base batches: a slow
    mode visited twice gives two large batches among thirty, and a variance known no better than from two observations.
    If that number is below 16 and the batch means are significantly skewed, the interval is stretched on the side of
    the skew (`doxa.estimates.intervals.tail_widths`).

    ``joint`` is the largest :math:`V_K` among the candidates that stand out at the same levels when the rate of false
    discoveries among all quantities is held to them (Benjamini & Hochberg 1995), or, for the base batches, at level
    0.05 alone.  For a single quantity these are the same candidates.
    """
    from scipy.special import fdtrc, fdtri

    distinct, which = np.unique(df, return_inverse=True)  # counts of switches: thousands of edges share a few hundred

    def quantile(level_df: float, order: float) -> NDArray[np.float64]:
        found: NDArray[np.float64] = fdtri(level_df, distinct, order)[which.reshape(df.shape)]
        return found

    n_chains = sums.shape[0]
    merged, lengths = _base_batches(sums, lengths)
    squares = batch_scatter(merged, lengths)
    base = lengths.size
    visits_df, side = _few_visits(merged, lengths)

    joint, dispersion = np.ones_like(variance), np.ones_like(variance)
    excess = np.ones_like(variance) if excess is None else excess
    normal = float(student_quantile(np.inf, 0.95))
    n_batches = base
    level_df = float(n_chains * base - 1)
    strong = squares[base] / level_df * excess / variance > quantile(level_df, 1 - SKEW_GATE)
    corrected = excess > 1
    chosen_df = np.where(corrected, np.where(strong, np.minimum(visits_df, df), df), np.inf)
    skew = np.where(corrected & strong & (visits_df < FEW_VISITS), side * np.minimum(visits_df, df), 0.0)
    best = (student_quantile(chosen_df, 0.95) / normal) ** 2
    while n_batches >= 1 and n_chains * n_batches > 1:
        level_df = float(n_chains * n_batches - 1)
        mean_square = squares[n_batches] / level_df
        ratio = mean_square / variance
        if n_batches == base:
            passed = ratio > quantile(level_df, 1 - BASE_GATE)
            chance = fdtrc(level_df, df[passed], ratio[passed])
            stands_out = (chance <= CLEAR_GATE) | _discovered(chance, variance.size, BASE_GATE)
        else:
            finer_df = float(n_chains * (base - n_batches))
            finer = np.maximum((squares[base] - squares[n_batches]) / finer_df, variance)
            passed = mean_square > finer * fdtri(level_df, finer_df, 1 - LONG_GATE)
            chance = fdtrc(level_df, finer_df, (mean_square / finer)[passed])
            stands_out = _discovered(chance, variance.size, LONG_GATE)
        joint[passed] = np.where(stands_out, np.maximum(joint[passed], ratio[passed]), joint[passed])
        strong = ratio * excess > quantile(level_df, 1 - SKEW_GATE)
        used_df = np.where(strong, np.minimum(visits_df, level_df), level_df)
        width = ratio * (student_quantile(used_df, 0.95) / normal) ** 2
        better = passed & (width > best)
        best = np.where(better, width, best)
        dispersion = np.where(better, np.maximum(ratio, 1.0), dispersion)
        chosen_df = np.where(better, used_df, chosen_df)
        skew = np.where(better, np.where(strong & (visits_df < FEW_VISITS), side * used_df, 0.0), skew)
        n_batches //= 2
    return LongRange(dispersion, chosen_df, skew, np.minimum(joint, dispersion))


def _discovered(chance: NDArray[np.floating[Any]], n_tests: int, rate: float) -> NDArray[np.bool_]:
    """Which of the smallest p-values of ``n_tests``, all that are at most ``rate``, are discoveries at this false
    discovery rate (Benjamini & Hochberg 1995).

    >>> _discovered(np.array([0.001, 0.04, 0.02]), 8, 0.1)
    array([ True, False,  True])
    """
    ordered = np.sort(chance)
    small = np.flatnonzero(ordered <= rate * np.arange(1, ordered.size + 1) / n_tests)
    return np.asarray(chance <= (ordered[small[-1]] if small.size else -1.0))
