"""Errors and intervals of 0/1 quantities: edge cases, closed forms, and what must not depend on names or order."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv

from doxa.errors import ArgumentError
from doxa.estimates import IndicatorCounts, Status, diagnose_indicators
from doxa.estimates.intervals import student_quantile, tail_widths, two_state_bounds, unseen_bound, unseen_error


def diagnose(draws, **options):
    return diagnose_indicators(IndicatorCounts.from_draws(np.asarray(draws, dtype=np.int8)), **options)


def test_never_switching_gives_a_bound_and_not_an_error_of_zero():
    draws = np.zeros((4, 2000, 3), dtype=np.int8)
    draws[..., 1] = 1
    draws[..., 2] = np.random.default_rng(1).random((4, 2000)) < 0.5
    result = diagnose(draws)
    slowest = result.ess[2]
    assert result.reference_ess == pytest.approx(min(slowest, 8000))
    np.testing.assert_allclose(result.upper[0], unseen_bound(result.reference_ess))
    np.testing.assert_allclose(result.upper[0], 3 / result.reference_ess, rtol=0.01)  # the rule of three
    assert (result.lower[0], result.upper[1]) == (0.0, 1.0)
    np.testing.assert_allclose(result.lower[1], 1 - result.upper[0])
    np.testing.assert_allclose(result.mcse[:2], unseen_error(result.reference_ess))
    assert np.isnan(result.r_hat[:2]).all()
    assert (result.status == Status.OK).all()
    assert str(result.estimate(0)).startswith("< 0.00")
    assert str(result.estimate(1)).endswith("(no switch in 8000 draws)")


def test_nothing_known_is_said_to_be_unknown():
    result = diagnose(np.ones((4, 500, 2), dtype=np.int8))
    assert (result.status == Status.CANNOT_TELL).all()
    assert result.reference_ess == 0
    np.testing.assert_array_equal(result.lower, 0)
    np.testing.assert_array_equal(result.upper, 1)
    assert (result.mcse > 0.5).all()
    assert result.estimate(0).interval(0.5) == (0.0, 1.0)
    assert str(result.estimate(0)) == "1 in all 2000 draws (cannot tell: nothing switched)"


def test_a_slow_reference_widens_the_bound_and_cannot_exceed_the_draws():
    draws = np.zeros((4, 500, 1), dtype=np.int8)
    bounds = [float(diagnose(draws, reference_ess=n).upper[0]) for n in (0, 5, 50, 500, 2000, 1e9)]
    assert bounds[0] == 1.0
    assert np.all(np.diff(bounds[:5]) < 0)
    assert bounds[4] == bounds[5]


def test_stuck_chains_do_not_look_precise():
    draws = np.ones((4, 1000), dtype=np.int8)
    draws[0] = 0
    result = diagnose(draws)
    assert np.isinf(result.r_hat)
    assert result.status == Status.UNCONVERGED
    assert result.mcse == pytest.approx(0.25)  # sd of the chain means, 0.5, over sqrt(4)
    assert result.lower < 0.05
    assert result.upper > 0.95


def test_few_draws_and_one_chain_are_served():
    for draws in ([[0, 1, 1, 0]], [[0, 1, 1, 0], [0, 0, 0, 1]], [[0, 0, 1, 1, 0, 1]], [[0, 0, 0, 1]] * 9):
        result = diagnose(draws)
        assert 0 <= result.lower < result.probability < result.upper <= 1
        assert result.mcse > 0
        assert np.isfinite(result.mcse)


def test_independent_draws_have_the_binomial_error():
    rng = np.random.default_rng(2)
    result = diagnose(rng.random((4, 20_000, 50)) < 0.3)
    binomial = np.sqrt(0.3 * 0.7 / 80_000)
    assert np.median(result.mcse) == pytest.approx(binomial, rel=0.05)
    np.testing.assert_allclose(result.ess, result.probability * (1 - result.probability) / result.mcse**2)
    assert (result.r_hat < 1.01).all()


def test_alternating_draws_are_capped():
    draws = np.tile([0, 1], (4, 500))
    total = 4000
    assert diagnose(draws).ess == pytest.approx(total * np.log10(total))


def test_interval_and_estimate_agree_with_the_arrays():
    rng = np.random.default_rng(3)
    draws = rng.random((3, 400, 2, 3)) < rng.random((2, 3)) ** 3
    result = diagnose(draws)
    for prob in (0.5, 0.95, 0.999):
        lower, upper = result.interval(prob)
        for index in np.ndindex(2, 3):
            assert result.estimate(index).interval(prob) == pytest.approx((lower[index], upper[index]))
    np.testing.assert_array_equal(result.interval()[0], result.lower)
    narrow, wide = result.interval(0.5), result.interval(0.99)
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()


def test_rare_independent_visits_match_the_binomial_posterior():
    n = 100_000
    for visits in (5, 20, 100):
        ours = two_state_bounds(n - visits, visits, visits, 1.0, np.inf, 0, 0.95)
        exact = [betaincinv(visits + 0.5, n - visits + 0.5, q) for q in (0.025, 0.975)]  # Jeffreys
        np.testing.assert_allclose(ours, exact, rtol=0.75 / visits + 0.02)


def test_stretched_side_of_few_visits():
    below, above = tail_widths(np.array([2.0, 8.0, 15.0]), np.array([-2, 8, 15]), 0.95)
    plain = student_quantile([2.0, 8.0, 15.0], 0.95)
    assert above[0] == plain[0]
    assert below[0] > 4 * plain[0]
    np.testing.assert_array_equal(below[1:], plain[1:])
    assert (above[1:] > 1.3 * plain[1:]).all()
    mirrored = two_state_bounds([700], [300], [90], [6.0], [5.0], [5], 0.9)
    other = two_state_bounds([300], [700], [90], [6.0], [5.0], [-5], 0.9)
    np.testing.assert_allclose(mirrored[0], 1 - other[1])


def test_bad_options_are_refused():
    counts = IndicatorCounts.from_draws(np.zeros((2, 8, 3), dtype=bool))
    for bad in (-1.0, np.nan):
        with pytest.raises(ArgumentError, match=r"reference_ess is .*; it must be a number of draws, 0 or more"):
            diagnose_indicators(counts, reference_ess=bad)
    with pytest.raises(ArgumentError, match=r"r_hat_limit is 0\.9; it must be at least 1"):
        diagnose_indicators(counts, r_hat_limit=0.9)
    result = diagnose_indicators(counts)
    for index in (3, (0, 0), ()):
        with pytest.raises(ArgumentError, match=r"it must name one quantity of an array of shape \(3,\)"):
            result.estimate(index)
    with pytest.raises(ArgumentError, match="prob is 0; it must lie strictly between 0 and 1"):
        result.interval(0)


sides = st.tuples(st.integers(1, 5), st.integers(4, 70), st.integers(1, 4))
arrays = sides.flatmap(lambda shape: hnp.arrays(np.bool_, shape, elements=st.booleans()))
FIELDS = ("probability", "mcse", "ess", "r_hat", "lower", "upper", "switches", "status")


@settings(max_examples=80, deadline=None)
@given(arrays)
def test_errors_are_positive_and_intervals_lie_in_the_unit_interval(draws):
    result = diagnose(draws)
    assert (result.mcse > 0).all()
    assert (result.lower >= 0).all()
    assert (result.upper <= 1).all()
    assert (result.upper > result.lower).all()
    assert (result.lower <= result.probability).all()
    assert (result.probability <= result.upper).all()


@settings(max_examples=60, deadline=None)
@given(arrays)
def test_relabelling_the_states_mirrors_the_answer(draws):
    one, two = diagnose(draws), diagnose(~draws)
    np.testing.assert_allclose(two.probability, 1 - one.probability, atol=1e-12)
    for name in ("mcse", "ess", "r_hat", "switches", "status"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-6)
    np.testing.assert_allclose(two.lower, 1 - one.upper, rtol=1e-6, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(arrays, st.randoms(use_true_random=False))
def test_order_of_chains_and_of_quantities_does_not_matter(draws, random):
    chains, quantities = list(range(draws.shape[0])), list(range(draws.shape[2]))
    random.shuffle(chains)
    random.shuffle(quantities)
    plain, mixed = diagnose(draws), diagnose(draws[chains][..., quantities])
    for name in FIELDS:
        np.testing.assert_allclose(getattr(mixed, name), getattr(plain, name)[quantities], rtol=1e-6, atol=1e-12)
