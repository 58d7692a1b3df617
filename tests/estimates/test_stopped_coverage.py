"""Do 95% intervals hold the truth in 93-97% of runs that decide for themselves when to stop?

Known chains and runs are in `stopped_runs`; the wide table is printed by ``benchmarks/coverage_stopped.py``.  Every
check has a broken twin: an error, or a rule, known to be wrong must be rejected by the same assertion.
"""

from __future__ import annotations

import numpy as np
import pytest
from known_chains import CHAINS
from scipy.stats import binom
from stopped_runs import (
    AMONG,
    LONG,
    MIXING,
    NOT_MIXING,
    RARE,
    REAL,
    REAL_MODES,
    careless,
    look_as_independent,
    look_at_first_without_batches,
    look_at_reals_as_symmetric,
    look_by_plain_ess,
    look_by_plain_ess_of_reals,
    look_by_rates_alone,
    stationary,
    two_state,
)

from doxa.estimates import IndicatorCounts, diagnose_indicators
from doxa.estimates.accuracy import FEWEST_DRAWS, cautious_error, confirmed, indicator_shortfalls, real_shortfalls
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.intervals import unseen_bound, unseen_error
from doxa.estimates.stopping import Shortfall, Until
from support.checks import FALSE_ALARM, SEED


def assert_covered(hits, low=0.93, high=0.97):
    """Reject if so few (or so many) hits would be rarer than the false alarm at true coverage ``low`` (or ``high``)."""
    share = f"covered {hits.sum()} of {hits.size}"
    assert hits.size >= 50, "too few runs for the comparison to mean anything"
    assert binom.cdf(hits.sum(), hits.size, low) > FALSE_ALARM, share
    assert binom.sf(hits.sum() - 1, hits.size, high) > FALSE_ALARM, share


def lengths(short, long):
    """The number of runs in every check, and in the long form."""
    return pytest.mark.parametrize(
        "runs", [pytest.param(short, id="short"), pytest.param(long, marks=pytest.mark.slow)]
    )


starts = pytest.mark.parametrize("start", [lambda case: case, stationary], ids=["apart", "stationary"])


@lengths(50, 1000)
@pytest.mark.parametrize("name", REAL)
def test_real_quantities(name, runs):
    case = REAL[name]
    ended = case.run([SEED, 1], runs)
    assert ended.reached.all()
    assert_covered(ended.hit)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_MODES)
def test_real_quantities_with_few_visits_to_a_mode(name):
    ended = REAL_MODES[name].run([SEED, 10], 1000)
    assert ended.reached.all()
    assert_covered(ended.hit, high=1.0)


@pytest.mark.slow
def test_few_visits_are_not_covered_by_an_interval_as_long_on_both_sides():
    ended = REAL_MODES["modes 19:1, rate 0.02, 3 sd apart"].run([SEED, 10], 1000, look_at_reals_as_symmetric)
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(ended.hit, high=1.0)


@lengths(400, 10_000)
@starts
@pytest.mark.parametrize("name", MIXING)
def test_indicators_that_mix(name, start, runs):
    case = start(MIXING[name])
    ended = case.run([SEED, 3], runs)
    p = float(case.make(np.random.default_rng(0), 1, case.apart).truth[0])
    assert p * (1 - p) / case.until.mcse > np.sqrt(10), "the promise is for ess p (1 - p) >= 10"
    assert (ended.reached & ended.told).all()
    assert_covered(ended.hit)


@lengths(400, 10_000)
@starts
@pytest.mark.parametrize("name", NOT_MIXING)
def test_indicators_that_do_not_mix(name, start, runs):
    ended = start(NOT_MIXING[name]).run([SEED, 4], runs)
    assert_covered(ended.hit[ended.told], high=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_runs_through_slow_modes(name):
    ended = LONG[name].run([SEED, 5], 5000)
    assert_covered(ended.hit[ended.told], high=1.0)


@lengths(60, 1000)
@pytest.mark.parametrize("name", RARE)
def test_rare_quantities_averaged_over_the_prior(name, runs):
    ended = RARE[name].run([SEED, 6], runs)
    assert_covered(ended.hit[ended.told], high=1.0)
    unseen = ended.never & ended.told
    if unseen.sum() >= 50:  # the bound, 3 / ess of the companion
        assert_covered(ended.hit[unseen], high=1.0)


@lengths(60, 1000)
@pytest.mark.parametrize("name", AMONG)
def test_one_slow_quantity_among_many_fast_ones(name, runs):
    """The run stops by errors that are judged together; intervals allow for what a quantity alone may hide."""
    ended = AMONG[name].run([SEED, 12], runs)
    assert_covered(ended.hit[ended.told], high=1.0)


def test_a_run_in_which_nothing_switches_never_ends_by_itself():
    """Chains that are stuck: the verdict is 'cannot tell', and no number of draws is enough."""
    ended = stationary(two_state(0.01, 1e-9, max_draws=2000)).run([SEED, 7], 200)
    alike = ~ended.told  # all four in the same state
    assert alike.sum() > 150
    assert ended.never[alike].all()
    assert not ended.reached.any()
    assert ended.hit[alike].all()  # the interval is [0, 1]


# --- broken twins


def test_correlated_draws_are_not_independent():
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(careless(REAL["AR(1) 0.95"]).run([SEED, 2], 50, look_as_independent).hit)


@pytest.mark.parametrize("name", ["modes 1:1, rate 0.02, flips .2/.8", "modes 1:1, rate 0.004, flips .2/.8"])
def test_fast_flips_fool_the_rates_alone(name):
    case = {**MIXING, **NOT_MIXING}[name]
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(careless(case).run([SEED, 8], 200, look_by_rates_alone).hit, high=1.0)


@pytest.mark.parametrize("name", ["two-state, slow, p = 0.01", "modes 9:1, rate 0.02, flips .2/.8"])
def test_a_plain_ess_stops_too_soon(name):
    case = {**MIXING, **NOT_MIXING}[name]
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(careless(case).run([SEED, 9], 150, look_by_plain_ess).hit, high=1.0)


def test_fast_switches_of_others_do_not_excuse_an_interval():
    ended = AMONG["modes 9:1, rate 0.01, flips .4/.8, among 100"].run([SEED, 13], 60, look_at_first_without_batches)
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(ended.hit, high=1.0)


@pytest.mark.parametrize(
    ("name", "runs"), [("two-state, fast, p = 0.003", 1500), ("modes 9:1, rate 0.01, flips .2/.8", 800)]
)
def test_a_rule_without_precautions_stops_too_soon(name, runs, monkeypatch):
    """The very same intervals, when one look at the error is enough."""
    monkeypatch.setattr("doxa.estimates.accuracy.FEWEST_VISITS", 0)
    case = {**MIXING, **NOT_MIXING}[name]
    with pytest.raises(AssertionError, match="covered"):
        assert_covered(careless(case).run([SEED, 10], runs).hit, high=1.0)


def test_a_plain_error_of_a_real_quantity_is_nearly_right():
    """On a chain of one time scale it holds: what doxa adds there is little."""
    assert_covered(careless(REAL["AR(1) 0.5"]).run([SEED, 11], 60, look_by_plain_ess_of_reals).hit, high=1.0)


# --- the rule by itself


def test_few_visits_are_judged_like_none():
    draws = np.zeros((CHAINS, 500, 3), dtype=bool)
    draws[0, 100, 1] = True  # one visit
    draws[:, ::2, 2] = True
    found = diagnose_indicators(IndicatorCounts.from_draws(draws), reference_ess=100.0)
    errors = cautious_error(found)
    assert errors[0] == found.mcse[0] == unseen_error(100.0)
    assert errors[1] == pytest.approx(np.sqrt(6 / (103 * 104)))
    assert found.mcse[1] < 0.001
    assert errors[2] == found.mcse[2]
    assert found.upper[0] == unseen_bound(100.0)
    names = [shortfall.name for shortfall in indicator_shortfalls("q{}".format, found, Until(mcse=0.02))]
    assert names == ["q1"]
    among = np.array([True, False, True])
    assert not list(indicator_shortfalls("q{}".format, found, Until(mcse=0.02), among))
    asked = Until(mcse=0.001, quantities=["q2"])
    assert [s.name for s in indicator_shortfalls("q{}".format, found, asked)] in ([], ["q2"])


def test_a_real_quantity_falls_short_in_both_ways():
    draws = np.random.default_rng(3).normal(size=(4, 100)) + np.array([[0.0], [0], [0], [1]])
    found = diagnose_real(draws)
    assert [s.what for s in real_shortfalls("x", found, Until())] == ["R-hat", "number of effective draws"]
    assert not list(real_shortfalls("x", found, Until(quantities=["y"])))
    assert not list(real_shortfalls("x", diagnose_real(np.zeros((4, 100))), Until()))


def test_a_run_ends_at_the_second_look_that_finds_nothing():
    lacking = Shortfall("x", "R-hat", 1.1, 1.01, 10.0)
    asked = []

    def assess(n_draws):
        asked.append(n_draws)
        return lacking if n_draws <= 1525 else None

    assert confirmed(assess, 1525, Until()) is lacking
    assert asked == [1525]
    assert confirmed(assess, 1906, Until()).name == "x at the look before"
    assert asked == [1525, 1906, 1525]
    assert confirmed(assess, 2382, Until()) is None
    assert confirmed(lambda n: None, FEWEST_DRAWS - 1, Until()).what == "number of draws"
    assert confirmed(lambda n: None, 3795, Until(), n_warmup=7500) is None
    assert confirmed(lambda n: None, 3795, Until(), n_warmup=15500).target == 7750
