"""Errors from autocorrelations at doubling lags: against chains whose error is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from known_chains import CHAINS, slow_modes, two_state

from doxa.estimates import IndicatorCounts, diagnose_indicators
from doxa.estimates.accuracy import indicator_shortfalls
from doxa.estimates.short_range import _correlation_time, short_range
from doxa.estimates.stopping import Until

MODES = {  # weight and rate of the second mode, and the chance of a 1 inside each
    "half and half": (0.5, 0.02, (0.2, 0.8)),
    "7:3": (0.3, 0.05, (0.0, 0.5)),
    "9:1": (0.1, 0.02, (0.2, 0.8)),
}


def exactly(weight, rate, inside):
    """p, the autocorrelation at lag 1, its decay, and the draws that are worth one, of `slow_modes`."""
    p = inside[0] + weight * (inside[1] - inside[0])
    slow = weight * (1 - weight) * (inside[1] - inside[0]) ** 2 / (p * (1 - p))
    return p, slow * (1 - rate), 1 - rate, 1 + 2 * slow * (1 - rate) / rate


def found_by(draws):
    counts = IndicatorCounts.from_draws(draws)
    switches = counts.rises.sum(axis=0) + counts.falls.sum(axis=0)
    n_draws = draws.shape[1]
    return short_range(draws.mean(axis=(0, 1)), switches, counts.differing, CHAINS, n_draws)


@pytest.mark.parametrize("name", MODES)
def test_exact_autocorrelations_give_no_less_than_the_exact_time(name):
    """Interpolation lies above autocorrelations that are log-convex; so many draws leave no noise."""
    _, first, decay, time = exactly(*MODES[name])
    lags = 2.0 ** np.arange(1, 14)
    found, window = _correlation_time(np.array(first), list(first * decay ** (lags - 1)), 10**12, 1e6)
    assert found == pytest.approx(time, rel=1e-3)  # one decay: what is left out is below 3 errors of 1e-6
    assert window > 1 / (1 - decay)
    two_state_alone = (1 + first) / (1 - first)
    assert two_state_alone < 0.5 * time
    mixed = [0.2 * 0.5**k + 0.2 * 0.9**k + 0.1 * 0.99**k for k in (1, *lags)]
    time = 1 + 2 * (0.2 + 0.2 * 9 + 0.1 * 99)
    assert time <= _correlation_time(np.array(mixed[0]), list(map(np.array, mixed[1:])), 10**12, 1e6)[0] < 1.1 * time


def test_lags_that_end_before_the_chain_has_forgotten_are_gone_on_with():
    first, decay = 0.3, 0.999
    seen = [np.array(first * decay ** (2.0**k - 1)) for k in range(1, 6)]
    time, _ = _correlation_time(np.array(first), seen, 10**9, 1e6)
    assert time == pytest.approx(1 + 2 * first / (1 - decay), rel=0.01)
    cut, _ = _correlation_time(np.array(first), seen, 10**9, 50.0)
    assert cut < 0.2 * time


@pytest.mark.parametrize("name", MODES)
def test_errors_of_hidden_modes_are_right_on_average_and_little_scattered(name):
    p, _, _, time = exactly(*MODES[name])
    draws = slow_modes(np.random.default_rng([5, len(name)]), 16_000, 120, *MODES[name])
    right = p * (1 - p) * time
    found = found_by(draws)
    ratio = np.sqrt(found.variance / right)
    assert ratio.mean() == pytest.approx(1.0, abs=0.05)  # three errors, and the 1 to 2% that noise hides
    assert ratio.std() < 0.15
    two_state_alone = np.sqrt(found.variance / found.excess / right)
    assert two_state_alone.mean() < 0.6
    p = draws.mean(axis=(0, 1))
    np.testing.assert_allclose(found.variance, p * (1 - p) * draws[..., 0].size / found.ess)
    assert 100 < np.median(found.df) < 2000


def test_a_two_state_chain_is_left_as_it_is():
    p, rate = np.full(400, 0.3), 0.2
    found = found_by(two_state(np.random.default_rng(2), 3000, p, rate))
    assert np.median(found.excess) == 1
    assert found.excess.mean() < 1.03
    assert np.sqrt(found.variance).mean() == pytest.approx(np.sqrt(0.3 * 0.7 * (2 - rate) / rate), rel=0.01)


def test_few_switches_say_nothing_of_lags_and_alternating_draws_are_not_slow():
    draws = np.zeros((CHAINS, 1600, 3), dtype=bool)
    draws[0, 100:160:2, 0] = True  # 60 switches in one stay
    draws[0, 100:108:2, 1] = True  # 8
    draws[:, ::2, 2] = True
    found = found_by(draws)
    assert found.excess[0] > 5
    assert found.excess[1] == found.excess[2] == 1
    assert found.ess[2] > draws[..., 0].size


def test_a_visit_at_the_end_of_a_chain_seems_no_longer_than_one_in_its_middle():
    draws = np.zeros((CHAINS, 1600, 2), dtype=bool)
    for begin in range(0, 40, 4):
        draws[0, 800 + begin, 0] = draws[0, 1560 + begin, 1] = True
    found = found_by(draws)
    assert found.ess[0] == pytest.approx(found.ess[1], rel=0.02)


def test_a_look_before_is_not_asked_about_errors_that_are_well_known_by_now():
    rng = np.random.default_rng(1)
    fast = two_state(rng, 4000, np.array([0.5]), 1.0)
    slow = slow_modes(rng, 4000, 1, 0.5, 0.01, (0.2, 0.8))
    draws = np.concatenate([fast, slow], axis=2)
    now = diagnose_indicators(IndicatorCounts.from_draws(draws))
    before = diagnose_indicators(IndicatorCounts.from_draws(draws[:, :3200]))
    assert now.well_known.tolist() == [True, False]
    strict = Until(mcse=1e-4)
    assert [s.name for s in indicator_shortfalls(str, before, strict)] == ["0", "1"]
    assert [s.name for s in indicator_shortfalls(str, before, strict, now=now)] == ["1"]
    assert [s.name for s in indicator_shortfalls(str, now, strict, now=now)] == ["0", "1"]
