"""Effective draws, normal scores and the error of a mean against arviz-stats, on chains of every kind and length."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
from arviz_stats.base import array_stats

from doxa.estimates.effective import bulk_ess, effective_draws, halves, mean_error, normal_scores
from doxa.estimates.gelman_rubin import rank_r_hat
from doxa.estimates.long_run import lagged_products

SEED = int(os.environ.get("DOXA_TEST_SEED", "0"))
AXES = {"chain_axis": 0, "draw_axis": 1}
SHORT = list(range(4, 12))  # where the first pairs are the last


def autoregressions(rng, n_chains, n_draws, correlation):
    noise = rng.normal(size=(n_chains, n_draws))
    draws = noise.copy()
    for t in range(1, n_draws):
        draws[:, t] = correlation * draws[:, t - 1] + noise[:, t]
    return draws


def chains_of_every_kind():
    rng = np.random.default_rng([SEED, 77])
    for n_draws in [*SHORT, 17, 50, 101, 400]:
        for correlation in (-0.95, -0.5, 0.0, 0.5, 0.9, 0.99):
            for n_chains in (1, 2, 4):
                draws = autoregressions(rng, n_chains, n_draws, correlation)
                yield draws
                yield np.round(draws)
                yield (draws > 0).astype(float)
                yield draws + 2 * rng.normal(size=(n_chains, 1))


def theirs(draws):
    with np.errstate(divide="ignore", invalid="ignore"):
        bulk = float(array_stats.ess(draws, method="bulk", **AXES))
        error = float(array_stats.mcse(draws, method="mean", **AXES))
        r_hat = float(array_stats.rhat(draws, method="rank", **AXES)) if len(draws) > 1 else np.nan
    return bulk, error, r_hat


@functools.cache
def compared():
    """Chains that are not constant, and what arviz-stats says of them."""
    return [(draws, theirs(draws)) for draws in chains_of_every_kind() if np.ptp(draws) > 0]


def ours(draws):
    return bulk_ess(draws), mean_error(draws), float(rank_r_hat(draws)) if len(draws) > 1 else np.nan


def farthest(found):
    """The largest relative difference from arviz-stats, of numbers that both have, and how many these are."""
    worst, n_compared = 0.0, 0
    for draws, looked_for in compared():
        for mine, other in zip(found(draws), looked_for, strict=False):
            if np.isfinite(mine) and np.isfinite(other):
                n_compared += 1
                worst = max(worst, abs(mine - other) / abs(other))
    return worst, n_compared


def test_they_are_those_of_arviz_stats():
    worst, n_compared = farthest(ours)
    assert worst < 1e-9
    assert n_compared > 1500


@pytest.mark.parametrize("broken", ["no splitting", "pairs may rise", "values in place of ranks"])
def test_a_broken_twin_is_seen(broken):
    def pairs_may_rise(chains):
        n = chains.shape[1]
        gamma = lagged_products(chains - chains.mean(axis=1, keepdims=True), n - 1).mean(axis=0) / n
        between = chains.mean(axis=1).var(ddof=1) if len(chains) > 1 else 0.0
        rho = 1 - (gamma[0] * n / (n - 1) - gamma) / (gamma[0] + between)
        rho[0] = 1.0
        pairs = rho[0 : n - n % 2 : 2] + rho[1::2]
        positive = np.logical_and.accumulate(pairs > 0)
        return chains.size / max(2 * pairs[positive].sum() - 1, 1 / np.log10(chains.size))

    def twin(draws):
        if broken == "no splitting":
            return (effective_draws(normal_scores(draws)),)
        if broken == "pairs may rise":
            return (pairs_may_rise(normal_scores(halves(draws))),)
        return (effective_draws(halves(draws)),)

    worst, _ = farthest(twin)
    assert worst > 0.1


def test_tied_values_share_their_mean_rank():
    scores = normal_scores(np.array([[5.0, 1.0, 5.0], [2.0, 5.0, 9.0]]))
    assert scores[0, 0] == scores[0, 2] == scores[1, 1]
    middle = normal_scores(np.arange(6.0))[3]  # ranks 3, 4 and 5 of 6: the fourth
    assert scores[0, 0] == pytest.approx(middle)
    assert np.sort(scores.ravel())[[0, 1, 5]] == pytest.approx(normal_scores(np.arange(6.0))[[0, 1, 5]])


def test_constant_draws_count_as_they_are():
    assert effective_draws(np.full((2, 10), 0.1)) == 20.0


def test_alternating_draws_have_a_limit():
    draws = np.tile([1.0, -1.0], (2, 500))
    assert effective_draws(draws) == pytest.approx(2000 * np.log10(2000))
