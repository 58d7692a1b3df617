"""Means of real-valued draws: agreement with arviz-stats, honesty about constants, coverage."""

from __future__ import annotations

import os

import numpy as np
import pytest
from arviz_stats.base import array_stats
from known_chains import CHAINS, normal_ar1
from scipy.stats import binom

from doxa.errors import ArgumentError
from doxa.estimates import diagnose_real
from doxa.estimates.gelman_rubin import rank_r_hat

SEED = int(os.environ.get("DOXA_TEST_SEED", "0"))
FALSE_ALARM = 1e-6


def covers(draws, truth=0.0):
    hits = []
    for run in range(draws.shape[2]):
        low, high = diagnose_real(draws[..., run]).estimate.interval()
        hits.append(low <= truth <= high)
    return np.array(hits)


def assert_covered(hits, low=0.93):
    assert binom.cdf(hits.sum(), hits.size, low) > FALSE_ALARM, f"covered {hits.sum()} of {hits.size}"


def test_is_arviz_stats_on_chains_that_agree():
    rng = np.random.default_rng(1)
    agreed = 0
    for _ in range(30):
        draws = rng.normal(size=(4, 400))
        result = diagnose_real(draws)
        axes = {"chain_axis": 0, "draw_axis": 1}
        assert result.r_hat == pytest.approx(float(array_stats.rhat(draws, method="rank", **axes)))
        assert result.bulk_ess == pytest.approx(float(array_stats.ess(draws, method="bulk", **axes)))
        theirs = float(array_stats.mcse(draws, method="mean", **axes))
        assert result.estimate.mcse >= theirs * (1 - 1e-12)
        agreed += result.estimate.mcse == pytest.approx(theirs)
        assert result.estimate.value == pytest.approx(draws.mean())
    assert agreed > 8


@pytest.mark.parametrize("runs", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("correlation", "n_draws"), [(0.0, 200), (0.9, 600)])
def test_coverage_on_normal_autoregressions(correlation, n_draws, runs):
    rng = np.random.default_rng([SEED, n_draws])
    draws = normal_ar1(rng, n_draws, runs, correlation)
    hits = covers(draws)
    assert_covered(hits)
    assert binom.sf(hits.sum() - 1, runs, 0.97) > FALSE_ALARM
    naive = np.abs(draws.mean(axis=(0, 1))) < 1.96 * draws.std(axis=(0, 1)) / np.sqrt(CHAINS * n_draws)
    if correlation > 0:
        with pytest.raises(AssertionError, match="covered"):  # draws taken for independent
            assert_covered(naive)


def test_chains_that_disagree_get_the_error_of_their_means():
    rng = np.random.default_rng([SEED, 3])
    centres = rng.normal(size=(CHAINS, 1, 400))
    draws = centres + 0.1 * rng.normal(size=(CHAINS, 100, 400))
    assert_covered(covers(draws))
    assert diagnose_real(draws[..., 0]).r_hat > 1.5


def test_constants_have_no_error_of_zero():
    result = diagnose_real(np.full((4, 100), -3.5))
    assert result.estimate.value == -3.5
    assert np.isnan([result.estimate.mcse, result.estimate.ess, result.r_hat, result.bulk_ess]).all()
    assert np.isnan(result.estimate.interval()).all()


STUCK = {
    "two and two": np.repeat([[0.0], [0.0], [1.0], [1.0]], 500, axis=1),
    "one apart": np.repeat([[0.0], [0.0], [0.0], [1.0]], 501, axis=1),
    "all apart": np.repeat([[0.1], [0.2], [0.3], [0.4]], 100, axis=1),
    "far from zero": 1e9 + np.repeat([[0.0], [0.0], [1.0], [1.0]], 500, axis=1),
    "two chains": np.repeat([[0.0], [1.0]], 500, axis=1),
}


def assert_knows_that_chains_are_stuck(draws, r_hat, mcse):
    assert r_hat == np.inf
    assert mcse >= (draws.mean(axis=1).std(ddof=1) / np.sqrt(len(draws))) * (1 - 1e-9)


@pytest.mark.parametrize("name", STUCK)
def test_constant_chains_that_differ_are_infinitely_apart(name):
    draws = STUCK[name]
    result = diagnose_real(draws)
    assert_knows_that_chains_are_stuck(draws, result.r_hat, result.estimate.mcse)
    assert rank_r_hat(draws) == np.inf
    axes = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(all="ignore"):
        theirs = [float(stat(draws, **axes)) for stat in (array_stats.rhat, array_stats.mcse)]
    with pytest.raises(AssertionError):  # the broken twin: within is what rounding of ranks leaves
        assert_knows_that_chains_are_stuck(draws, *theirs)


def test_chains_that_hardly_move_have_the_error_of_their_means():
    flickering = STUCK["two and two"].copy()
    flickering[0, 7] = 1.0
    noisy = STUCK["two and two"] + 1e-13 * np.random.default_rng(5).normal(size=(4, 500))
    one_moves = STUCK["two and two"].copy()
    one_moves[3] = np.random.default_rng(6).normal(size=500)
    for draws in (flickering, noisy, one_moves):
        result = diagnose_real(draws)
        assert result.r_hat > 1.5
        assert result.estimate.mcse >= draws.mean(axis=1).std(ddof=1) / 2 * (1 - 1e-9)


def test_stuck_chains_cover():
    """Means of four chains, each constant: their own Student's t with three degrees of freedom."""
    rng = np.random.default_rng([SEED, 4])
    draws = np.repeat(rng.normal(size=(CHAINS, 1, 1000)), 8, axis=1)
    hits = covers(draws)
    assert_covered(hits)
    assert binom.sf(hits.sum() - 1, hits.size, 0.97) > FALSE_ALARM


def test_one_chain_and_two_values_are_served():
    one = diagnose_real(np.random.default_rng(2).normal(size=(1, 50)))
    assert one.estimate.mcse > 0
    assert np.isnan(one.r_hat)
    two = diagnose_real(np.tile([0.0, 0.0, 1.0, 1.0], (2, 10)))  # the folded form is constant
    assert two.estimate.value == 0.5
    assert two.estimate.mcse > 0


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.zeros(8), r"draws has shape \(8,\); it must be \(chain, draw\)"),
        (np.zeros((2, 3)), r"draws has shape \(2, 3\); it must be \(chain, draw\) with at least one chain and 4 draws"),
        (np.zeros((0, 8)), r"draws has shape \(0, 8\)"),
        (np.array([[0, 1, np.inf, 2]]), r"draws\[0, 2\] is inf; every draw must be finite"),
    ],
)
def test_bad_draws_are_refused(draws, message):
    with pytest.raises(ArgumentError, match=message):
        diagnose_real(draws)
