"""Coverage of nominal 95% intervals for real quantities, one method at a time, and of intervals made wrong on purpose.

The simulators and the methods are shared with ``benchmarks/coverage_real.py``, which prints the wide table.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from known_chains import normal_ar1
from scipy.signal import lfilter
from scipy.stats import binom

from doxa.estimates.diagnostics import (
    WINDOWS,
    batch_means_error,
    cut_tours,
    regenerative_estimate,
    windowed_error,
)
from doxa.estimates.intervals import student_quantile
from support.checks import FALSE_ALARM, SEED

NORMAL = float(student_quantile(np.inf, 0.95))
SMALL_SET = 0.4  # |x| below this may end a tour of an AR(1) of 0.9: about one draw in eight does


def autoregression(rng, phi, chains, n_draws, runs):
    """Standard normal AR(1) in its stationary distribution, shape (chain, draw, run)."""
    noise = rng.standard_normal((runs, chains, n_draws)) * np.sqrt(1 - phi**2)
    noise[..., 0] /= np.sqrt(1 - phi**2)
    return np.moveaxis(lfilter([1.0], [1.0, -phi], noise, axis=-1), 0, -1)


def regenerations(rng, draws, phi, small=SMALL_SET):
    """Where an AR(1) starts afresh, by splitting: for |x| <= small, p(y|x) >= min of p(y|x') over |x'| <= small."""
    before, after = draws[:, :-1], draws[:, 1:]
    excess = (np.abs(after) + abs(phi) * small) ** 2 - (after - phi * before) ** 2
    chance = np.where(np.abs(before) <= small, np.exp(-excess / (2 * (1 - phi**2))), 0.0)
    starts = np.zeros(draws.shape, dtype=bool)
    starts[:, 1:] = rng.random(chance.shape) < chance
    return starts


def covered(make_estimate, draws, truth):
    """Whether each run's interval holds the truth; the last axis is the runs'."""
    hits = []
    for run in range(draws.shape[-1]):
        low, high = make_estimate(draws[..., run]).interval()
        hits.append(low <= truth <= high)
    return np.array(hits)


def covered_by_tours(draws, starts, truth):
    hits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for run in range(draws.shape[-1]):
            low, high = regenerative_estimate(*cut_tours(draws[..., run], starts[..., run])).estimate.interval()
            hits.append(low <= truth <= high)
    return np.array(hits)


def covered_as_independent(draws, truth):
    n = draws.shape[0] * draws.shape[1]
    error = NORMAL * draws.std(axis=(0, 1), ddof=1) / np.sqrt(n)
    return np.abs(draws.mean(axis=(0, 1)) - truth) <= error


def assert_within(hits, low=0.93, high=0.97):
    share = f"covered {hits.sum()} of {hits.size}"
    assert binom.cdf(hits.sum(), hits.size, low) > FALSE_ALARM, share
    assert binom.sf(hits.sum() - 1, hits.size, high) > FALSE_ALARM, share


METHODS = {"batch means": batch_means_error} | {
    window: lambda draws, window=window: windowed_error(draws, window) for window in WINDOWS
}


@pytest.mark.parametrize("runs", [500, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_intervals_on_an_autoregression(method, runs):
    """AR(1) of 0.9: 105 effective draws in one chain of 2000, 421 in four."""
    for chains in (1, 4):
        draws = autoregression(np.random.default_rng([SEED, 51, chains]), 0.9, chains, 2000, runs)
        assert_within(covered(METHODS[method], draws, 0.0))


@pytest.mark.parametrize("runs", [500, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["value", "above 1.28"])
def test_regenerative_intervals_on_an_autoregression(name, runs):
    """The same chain; the second quantity is rare and skewed, and few tours visit it."""
    rng = np.random.default_rng([SEED, 52])
    draws = autoregression(rng, 0.9, 1, 2000, runs)
    starts = regenerations(rng, draws, 0.9)
    quantity, truth = (draws, 0.0) if name == "value" else ((draws > 1.2815515655446).astype(float), 0.1)
    assert_within(covered_by_tours(quantity, starts, truth), high=0.98)


def test_broken_intervals_are_found_out():
    rng = np.random.default_rng([SEED, 53])
    draws = autoregression(rng, 0.9, 1, 2000, 500)
    starts = regenerations(rng, draws, 0.9)
    above = (draws > 1.2815515655446).astype(float)
    tour_means = []
    for run in range(500):  # every tour counted alike, as if its mean were a draw
        tours = cut_tours(above[..., run], starts[..., run])
        means = tours.sums / tours.lengths
        half = NORMAL * means.std(ddof=1) / np.sqrt(means.size)
        tour_means.append(abs(means.mean() - 0.1) <= half)
    for hits in (
        covered_as_independent(draws, 0.0),
        covered(lambda one: batch_means_error(one, 1000), draws, 0.0),  # batches of two draws
        covered(lambda one: windowed_error(one, "bartlett", 1), draws, 0.0),  # no autocovariance at all
        covered(lambda one: windowed_error(one, "parzen", 10), draws, 0.0),  # too few of them
        np.array(tour_means),
    ):
        with pytest.raises(AssertionError, match="covered"):
            assert_within(hits)


def test_what_falls_short():
    """Honest failures: batches and windows that cannot be long enough in so short a chain."""
    short = autoregression(np.random.default_rng([SEED, 54]), 0.9, 1, 500, 1500)  # 26 effective draws
    assert covered(batch_means_error, short, 0.0).mean() < 0.93
    slow = autoregression(np.random.default_rng([SEED, 55]), 0.995, 1, 2000, 500)  # five effective draws
    for method in ("batch means", "bartlett", "parzen", "tukey-hanning"):  # Geyer's sequences: about 93%
        assert covered(METHODS[method], slow, 0.0).mean() < 0.91


def test_no_error_sees_a_mode_that_was_never_visited():
    rng = np.random.default_rng([SEED, 56])
    mode = rng.choice([-5.0, 5.0], size=(1, 1, 300))
    draws = rng.normal(size=(1, 400, 300)) + mode
    for method in METHODS.values():
        assert not covered(method, draws, 0.0).any()


def test_chains_in_different_modes_enlarge_every_error():
    rng = np.random.default_rng([SEED, 57])
    draws = rng.normal(size=(4, 400)) + np.array([-5.0, 5.0, 5.0, -5.0])[:, None]
    for method in METHODS.values():
        assert method(draws).mcse > 10 / np.sqrt(draws.size)


# --- tours


def test_tours_by_hand():
    result = regenerative_estimate(np.repeat([3.0, 10.0], 20), np.repeat([2, 4], 20))
    # mean 13/6; residuals 3 - 26/6 and 10 - 52/6, each the other's negative
    assert result.estimate.value == pytest.approx(13 / 6)
    assert result.estimate.mcse == pytest.approx(np.sqrt(40 * (4 / 3) ** 2 * 40 / 39) / 120)
    assert result.length_variation == pytest.approx(np.sqrt(40) / 120)
    assert result.n_tours == 40
    assert np.isnan(result.estimate.ess)


def test_tours_are_cut_within_chains():
    draws = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 9, 9]]
    starts = np.array([[True, False, True, True], [False, True, False, True], [False, True, False, False]])
    tours = cut_tours(draws, starts)
    assert tours.sums.tolist() == [3, 3, 13]
    assert tours.lengths.tolist() == [2, 1, 2]
    assert cut_tours([1.0, 2.0], np.array([False, True])).sums.size == 0


def test_independent_draws_are_tours_of_one():
    draws = np.random.default_rng(58).normal(size=500)
    tours = cut_tours(draws, np.ones(500, dtype=bool))
    estimate = regenerative_estimate(*tours).estimate
    assert estimate.value == pytest.approx(draws[:-1].mean())  # the last tour is not known to have ended
    assert estimate.mcse == pytest.approx(draws[:-1].std(ddof=1) / np.sqrt(499))


def test_error_is_the_chains_own():
    """Two-state chain, tours from 0 to 0: the error against the known long-run variance."""
    leave_zero, leave_one, n = 0.1, 0.2, 200_000
    rng = np.random.default_rng([SEED, 59])
    u = rng.random(n)
    state = np.zeros(n)
    for t in range(1, n):
        state[t] = u[t] < (1 - leave_one if state[t - 1] else leave_zero)
    result = regenerative_estimate(*cut_tours(state, state == 0))
    long_run = (2 / 9) * (2 - 0.3) / 0.3
    assert result.estimate.mcse == pytest.approx(np.sqrt(long_run / n), rel=0.05)
    assert abs(result.estimate.value - 1 / 3) < 5 * result.estimate.mcse


def test_few_tours_and_uneven_ones_are_warned_of():
    with pytest.warns(
        UserWarning, match=r"^5 tours with a coefficient of variation of 0 in their mean length; the error"
    ):
        regenerative_estimate([1.0, 2, 3, 4, 5], [2, 2, 2, 2, 2])
    lengths = np.r_[np.ones(99), 500]
    with pytest.warns(UserWarning, match=r"100 tours with a coefficient of variation of 0\.83 in their mean length"):
        regenerative_estimate(lengths * np.arange(100), lengths)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regenerative_estimate(np.arange(50.0), np.full(50, 3))


def test_tours_that_all_agree_have_said_nothing():
    lengths = np.arange(1, 60)
    estimate = regenerative_estimate(0.1 * lengths, lengths).estimate
    assert estimate.value == pytest.approx(0.1)
    assert np.isnan(estimate.mcse)


def test_simulators_are_what_they_say():
    draws = autoregression(np.random.default_rng(60), 0.9, 2, 500, 400)
    assert abs(draws[:, 0].var() - 1) < 0.2
    assert abs((draws[:, 1:] * draws[:, :-1]).mean() - 0.9) < 0.03
    other = normal_ar1(np.random.default_rng(61), 500, 200, 0.9)
    assert abs(draws.mean(axis=1).var() - other.mean(axis=1).var()) < 0.01
