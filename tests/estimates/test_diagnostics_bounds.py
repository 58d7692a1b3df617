"""Bounds never cover less than they say: exactly, by adding binomial probabilities, and on Beta draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from doxa.estimates.diagnostics import (
    bernstein_bound,
    bernstein_known_variance,
    hoeffding_bound,
    hoeffding_draws,
    mean_error_bound,
)
from support.checks import FALSE_ALARM, SEED

CHANCES = (0.5, 0.3, 0.1, 0.02, 0.002)


def exact_coverage(n, p, half_widths):
    """Probability that k / n, k binomial, lies within its half-width of p."""
    k = np.arange(n + 1)
    return float(binom.pmf(k, n, p)[np.abs(k / n - p) <= np.asarray(half_widths) + 1e-12].sum())


def counts(n):
    """Every sequence of n zeros and ones, up to order, as a quantity of its own: shape (n, n + 1)."""
    return (np.arange(n)[:, None] < np.arange(n + 1)).astype(float)


def assert_bounds(n, prob, half_widths):
    for p in CHANCES:
        found = exact_coverage(n, p, half_widths(p) if callable(half_widths) else half_widths)
        assert found >= prob, f"n={n}, p={p}: covered with probability {found:.4f}"


@pytest.mark.parametrize("prob", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_hoeffding_covers_exactly_at_least_what_it_says(n, prob):
    half = hoeffding_bound(n, prob)
    assert_bounds(n, prob, np.full(n + 1, half))
    if n >= 10 and prob == 0.95:
        with pytest.raises(AssertionError, match="covered with probability"):
            assert_bounds(n, prob, np.full(n + 1, half / 2))


@pytest.mark.parametrize("prob", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n", [2, 10, 100, 1000])
def test_empirical_bernstein_covers_exactly_at_least_what_it_says(n, prob):
    half = bernstein_bound(counts(n), prob)
    assert_bounds(n, prob, half)
    if n == 1000 and prob == 0.95:
        with pytest.raises(AssertionError, match="covered with probability"):
            assert_bounds(n, prob, half / 2)
        variance = counts(n).var(axis=0, ddof=1)
        with pytest.raises(AssertionError, match="covered with probability"):  # the second term left out
            assert_bounds(n, prob, np.sqrt(2 * variance * np.log(80) / n))


@pytest.mark.parametrize("prob", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_bernstein_with_the_variance_known_covers_exactly_at_least_what_it_says(n, prob):
    assert_bounds(n, prob, lambda p: np.full(n + 1, bernstein_known_variance(n, p * (1 - p), prob)))
    if n == 1000 and prob == 0.95:
        with pytest.raises(AssertionError, match="covered with probability"):
            assert_bounds(n, prob, lambda p: np.full(n + 1, bernstein_known_variance(n, p * (1 - p), prob) / 2))


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.4), (2.0, 5.0), (0.5, 0.01)])
@pytest.mark.parametrize("runs", [2000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_bounds_hold_on_beta_draws_of_another_width(a, b, runs):
    rng = np.random.default_rng([SEED, 41])
    n, low, high = 200, -3.0, 5.0
    values = low + (high - low) * rng.beta(a, b, size=(n, runs))
    error = np.abs(values.mean(axis=0) - (low + (high - low) * a / (a + b)))
    variance = (high - low) ** 2 * a * b / (a + b) ** 2 / (a + b + 1)
    for half in (
        hoeffding_bound(n, width=high - low),
        bernstein_known_variance(n, variance, width=high - low),
        bernstein_bound(values, low=low, high=high),
    ):
        hits = int((error <= half).sum())
        assert binom.cdf(hits, runs, 0.95) > FALSE_ALARM
    assert error.mean() <= mean_error_bound(n, high - low)


def test_closed_forms():
    assert hoeffding_bound(200, 0.9, 3.0) == pytest.approx(3 * np.sqrt(np.log(20) / 400))
    half = bernstein_known_variance(300, 0.04, 0.9, 2.0)
    assert 2 * np.exp(-300 * half**2 / (2 * 0.04 + 2 * 2.0 * half / 3)) == pytest.approx(0.1)
    values = np.array([0.0, 0.25, 1.0])
    expected = np.sqrt(2 * values.var(ddof=1) * np.log(80) / 3) + 7 * np.log(80) / 6
    assert float(bernstein_bound(values)) == pytest.approx(expected)
    assert float(bernstein_bound(10 * values - 4, low=-4, high=6)) == pytest.approx(10 * expected)
    assert mean_error_bound(16, 2.0) == 0.25


@pytest.mark.parametrize("half_width", [0.3, 0.05, 0.0123, 0.001])
@pytest.mark.parametrize("prob", [0.5, 0.95])
@pytest.mark.parametrize("width", [1.0, 7.0])
def test_draws_needed_are_the_fewest(half_width, prob, width):
    n = hoeffding_draws(half_width, prob, width)
    assert hoeffding_bound(n, prob, width) <= half_width < hoeffding_bound(n - 1, prob, width)


def test_a_bound_met_exactly_is_enough():
    for n in (1, 7, 100, 12345):
        assert hoeffding_draws(hoeffding_bound(n)) == n
    assert hoeffding_draws(50.0) == 1


def test_the_variance_pays_where_it_is_small():
    rng = np.random.default_rng(5)
    rare = rng.random((5000, 20)) < 0.01
    assert bernstein_bound(rare).max() < hoeffding_bound(5000) / 2
    even = rng.random(5000) < 0.5
    assert float(bernstein_bound(even)) > hoeffding_bound(5000)


def test_mean_error_is_met_by_no_more_than_the_constant():
    """E|error| of a fair coin, exactly, over the bound: 0.80 in the limit, sqrt(2 / pi)."""
    n = 1000
    k = np.arange(n + 1)
    found = (binom.pmf(k, n, 0.5) * np.abs(k / n - 0.5)).sum()
    assert 0.79 < found / mean_error_bound(n) < 0.80
