"""Chains whose answer is known, many at once, and the intervals that are shown to fail on them.

Every simulator starts its chains in the stationary distribution and returns int8 draws of shape (chain, draw, run).
"""

from __future__ import annotations

import numpy as np

from doxa.estimates import IndicatorCounts
from doxa.estimates.intervals import student_quantile

CHAINS = 4


def two_state(rng, draws, p, rate):
    """Chain that leaves 0 at ``p * rate`` and 1 at ``(1 - p) * rate``; rate 1 is independent draws. p, rate: (run,)."""
    up, down = np.float32(p * rate), np.float32((1 - p) * rate)
    state = rng.random((CHAINS, np.size(p))) < p
    out = np.empty((CHAINS, draws, np.size(p)), dtype=np.int8)
    for t in range(draws):
        out[:, t] = state
        u = rng.random(state.shape, dtype=np.float32)
        state = np.where(state, u >= down, u < up)
    return out


def slow_modes(rng, draws, runs, weight, rate, inside):
    """Independent flips with probability ``inside[mode]`` in a hidden mode; mode 1 has probability ``weight``."""
    mode = rng.random((CHAINS, runs)) < weight
    inside = np.float32(inside)
    out = np.empty((CHAINS, draws, runs), dtype=np.int8)
    for t in range(draws):
        u = rng.random((2, *mode.shape), dtype=np.float32)
        out[:, t] = u[0] < inside[mode.astype(np.intp)]
        mode = np.where(u[1] < rate, u[1] < rate * weight, mode)
    return out


def normal_ar1(rng, draws, runs, correlation):
    """Standard normal AR(1), as float32."""
    value = rng.standard_normal((CHAINS, runs), dtype=np.float32)
    scale = np.float32(np.sqrt(1 - correlation**2))
    out = np.empty((CHAINS, draws, runs), dtype=np.float32)
    for t in range(draws):
        out[:, t] = value
        value = np.float32(correlation) * value + scale * rng.standard_normal((CHAINS, runs), dtype=np.float32)
    return out


def covered(lower, upper, truth):
    """Share of runs whose interval holds the truth."""
    return float(((lower <= truth) & (truth <= upper)).mean())


def plain_ess(draws, runs):
    """Limits of value +/- 1.96 mcse by arviz-stats, for the first ``runs`` runs: no width where nothing switched."""
    from arviz_stats.base import array_stats

    few = np.ascontiguousarray(np.moveaxis(draws[..., :runs], -1, 0))
    mean = few.mean(axis=(1, 2))
    half = 1.959964 * array_stats.mcse(few, chain_axis=1, draw_axis=2, method="mean")
    return mean - half, mean + half


def two_state_posterior(rng, draws, samples):
    """Posterior draws (sample, run) of p in a two-state chain, independent Jeffreys priors on both switching rates."""
    counts = IndicatorCounts.from_draws(draws)
    origins = counts.n_chains * (counts.n_draws - 1)
    ones = draws[:, :-1].sum(axis=(0, 1), dtype=np.int64)
    rises, falls = counts.rises.sum(axis=0), counts.falls.sum(axis=0)
    up = rng.beta(rises + 0.5, origins - ones - rises + 0.5, (samples, ones.size))
    down = rng.beta(falls + 0.5, ones - falls + 0.5, (samples, ones.size))
    return up / (up + down)


def two_state_alone(rng, draws, samples=400):
    """Limits from the two-state posterior with independent Jeffreys priors on both rates, and nothing else."""
    return np.quantile(two_state_posterior(rng, draws, samples), (0.025, 0.975), axis=0)


def between_chains_alone(draws):
    """Limits from the scatter of the chain means, Student's t."""
    means = draws.mean(axis=1)
    half = student_quantile(CHAINS - 1, 0.95) * means.std(axis=0, ddof=1) / np.sqrt(CHAINS)
    return means.mean(axis=0) - half, means.mean(axis=0) + half
