"""The bound on the logistic function, and on a row's predictive probability: below, tight, monotone."""

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.parameters.variational import bound
from doxa.parameters.variational.bound import (
    best_xi,
    expected_log_bound,
    expected_log_logistic,
    lambda_of,
    log_logistic,
    log_logistic_bound,
    predictive_bound,
    row_bound,
    row_bound_at,
)
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED
from support.logistic_cases import log_predictive

ROUNDING = 1e-12


def random_rows(n=10_000):
    rng = np.random.default_rng(SEED)
    return rng.uniform(-15, 15, n), np.exp(rng.uniform(np.log(1e-6), np.log(64.0), n))


def half_lambda(xi):
    return lambda_of(xi) / 2  # the quadratic falls too slowly: no bound


def double_lambda(xi):
    return 2 * lambda_of(xi)


def excess_of_logistic_bound():
    rng = np.random.default_rng(SEED)
    h = rng.standard_cauchy(10_000) * 3
    xi = rng.standard_cauchy(10_000) * 3
    return float(((log_logistic_bound(h, xi) - log_logistic(h)) / (1 + h * h + xi * xi)).max())


def excess_of_row_bound():
    mean, variance = random_rows()
    return float((row_bound(mean, variance).log_bound - log_predictive(mean, variance)).max())


def test_lambda_is_stable_at_zero_and_far_out():
    assert lambda_of(0.0) == 0.125
    small = np.array([1e-300, 1e-9, 1e-8, 1e-7, 1e-4, 1e-3])
    assert np.allclose(lambda_of(small), 1 / 8 - small**2 / 96, rtol=1e-13, atol=0)
    assert np.allclose(lambda_of([1e3, 1e8, 1e300]), 1 / (4 * np.array([1e3, 1e8, 1e300])), rtol=1e-15, atol=0)
    xi = np.linspace(0, 60, 5001)
    assert (np.diff(lambda_of(xi)) < 0).all()
    assert np.array_equal(lambda_of(-xi), lambda_of(xi))


def test_the_bound_is_below_the_logistic_function():
    assert excess_of_logistic_bound() <= 1e-15


@pytest.mark.parametrize("wrong", [half_lambda, double_lambda])
def test_a_wrong_lambda_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(bound, "lambda_of", wrong)
    assert excess_of_logistic_bound() > 1e-3


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bound_touches_at_plus_and_minus_xi(sign):
    xi = np.linspace(-30, 30, 601)
    assert np.abs(log_logistic_bound(sign * xi, xi) - log_logistic(sign * xi)).max() < ROUNDING
    step = 1e-5
    tangent = (log_logistic_bound(xi + step, xi) - log_logistic_bound(xi - step, xi)) / (2 * step)
    assert np.allclose(tangent, 1 / (1 + np.exp(xi)), atol=1e-8)


def test_the_expected_bound_is_the_expectation_and_largest_at_the_second_moment():
    rng = np.random.default_rng(SEED)
    h = rng.standard_normal((200, 50)) * 3 + 1
    xi = rng.uniform(0, 6, 200)
    mean, second = h.mean(axis=1), (h * h).mean(axis=1)
    averaged = log_logistic_bound(h, xi[:, None]).mean(axis=1)
    assert np.allclose(expected_log_bound(mean, second, xi), averaged, rtol=0, atol=1e-12)
    best = expected_log_bound(mean, second, np.sqrt(second))
    assert (best >= expected_log_bound(mean, second, xi) - ROUNDING).all()


def test_row_bounds_are_below_quadrature_in_ten_thousand_cases():
    assert excess_of_row_bound() <= 1e-11


def excess_of_row_bound_at_any_xi():
    mean, variance = random_rows()
    xi = np.abs(np.random.default_rng(SEED + 1).standard_cauchy(mean.size)) * 5
    return float((row_bound_at(xi, mean, variance).log_bound - log_predictive(mean, variance)).max())


def test_row_bounds_are_below_quadrature_at_any_xi():
    assert excess_of_row_bound_at_any_xi() <= 1e-11


@pytest.mark.parametrize("wrong", [half_lambda, double_lambda])
def test_a_wrong_lambda_breaks_the_row_bound(monkeypatch, wrong):
    monkeypatch.setattr(bound, "lambda_of", wrong)
    assert excess_of_row_bound_at_any_xi() > 1e-3


def steps_down(n_steps=30):
    mean, variance = random_rows()
    xi = np.random.default_rng(SEED).uniform(0, 20, mean.size)
    worst, old = 0.0, np.full(mean.size, -np.inf)
    for _ in range(n_steps):
        row = row_bound_at(xi, mean, variance)
        worst = max(worst, float((old - row.log_bound).max()))
        old, xi = row.log_bound, np.sqrt(row.mean**2 + row.variance)
    return worst


def test_each_inner_step_raises_the_bound_in_ten_thousand_cases():
    assert steps_down() <= ROUNDING


def test_steps_from_a_wrong_posterior_lower_the_bound(monkeypatch):
    right = row_bound_at

    def wrong(xi, mean, variance, weight=1.0):
        return right(xi, mean, variance, weight)._replace(variance=3 * right(xi, mean, variance, weight).variance)

    monkeypatch.setitem(globals(), "row_bound_at", wrong)
    assert steps_down() > 1e-3


def test_no_other_xi_gives_a_better_row_bound():
    mean, variance = random_rows(500)
    row = row_bound(mean, variance)
    others = np.linspace(0, 60, 3001)[:, None]
    assert (row_bound_at(others, mean, variance).log_bound.max(axis=0) <= row.log_bound + 1e-10).all()


def test_equation_14_as_printed():
    """The quadratic forms and determinants of the paper, in three dimensions."""
    rng = np.random.default_rng(SEED)
    root = rng.standard_normal((3, 3))
    mu, sigma, x, s = rng.standard_normal(3), root @ root.T + np.eye(3), rng.standard_normal(3), -1.0
    row = row_bound(s * x @ mu, x @ sigma @ x)
    lam = float(lambda_of(row.xi))
    sigma_t = np.linalg.inv(np.linalg.inv(sigma) + 2 * lam * np.outer(x, x))  # eq. 10
    mu_t = sigma_t @ (np.linalg.inv(sigma) @ mu + s / 2 * x)  # eq. 11
    printed = (
        log_logistic(row.xi)
        - row.xi / 2
        + lam * row.xi**2
        - 0.5 * mu @ np.linalg.inv(sigma) @ mu
        + 0.5 * mu_t @ np.linalg.inv(sigma_t) @ mu_t
        + 0.5 * np.log(np.linalg.det(sigma_t) / np.linalg.det(sigma))
    )
    assert row.log_bound == pytest.approx(float(printed), abs=1e-10)
    assert row.xi**2 == pytest.approx(x @ sigma_t @ x + (x @ mu_t) ** 2, rel=1e-7)  # eq. 12
    assert row.mean == pytest.approx(s * x @ mu_t, rel=1e-7)
    assert row.variance == pytest.approx(x @ sigma_t @ x, rel=1e-7)
    posterior = Gaussian.from_covariance(mu, sigma)
    assert predictive_bound(posterior, [x], [s])[0] == pytest.approx(float(row.log_bound), abs=1e-12)
    # an offset is a shift of the logit, as if of the mean
    shifted = predictive_bound(posterior, [x], [s], offset=0.7)[0]
    assert shifted == pytest.approx(float(row_bound(s * (x @ mu + 0.7), x @ sigma @ x).log_bound), abs=1e-12)


def test_weighted_rows_bound_powers_of_the_logistic_function():
    mean, variance = random_rows(300)
    z = np.linspace(-16, 40, 20_001)
    for weight in (0.3, 2.0, 5.0):
        log_f = weight * log_logistic(mean[:, None] + np.sqrt(variance[:, None]) * z) - 0.5 * z * z
        peak = log_f.max(axis=1)
        value = np.log(np.exp(log_f - peak[:, None]).sum(axis=1) * (z[1] - z[0])) + peak - 0.5 * np.log(2 * np.pi)
        assert (row_bound(mean, variance, weight).log_bound <= value + 1e-9).all()


def test_the_scalar_search_finds_the_same_xi():
    mean, variance = random_rows(300)
    for weight in (1.0, 4.0):
        scalar = [best_xi(m, v, weight) for m, v in zip(mean.tolist(), variance.tolist(), strict=True)]
        assert np.allclose(scalar, row_bound(mean, variance, weight).xi, rtol=1e-5)


def test_a_known_logit_has_its_own_probability():
    row = row_bound([-1e4, -3.0, 0.0, 1e4], 0.0)
    assert np.allclose(row.log_bound, log_logistic([-1e4, -3.0, 0.0, 1e4]), rtol=1e-12, atol=1e-12)
    assert np.isfinite(row_bound([-1e4, 1e4], 1e6).log_bound).all()


def test_messages():
    posterior = Gaussian.from_covariance([0.0], [[1.0]])
    with pytest.raises(ArgumentError, match=r"variance holds -1; variances must not be negative"):
        row_bound(0.0, -1.0)
    with pytest.raises(ArgumentError, match=r"design has shape \(1, 2\); it must be \(rows, 1\)"):
        predictive_bound(posterior, [[1.0, 2.0]], [1])
    with pytest.raises(ArgumentError, match=r"sign has shape \(1,\); it must be \(1,\) of -1 and \+1"):
        predictive_bound(posterior, [[1.0]], [0])


@pytest.mark.parametrize("sd", [0.0, 0.01, 0.49, 0.51, 1.0, 1.49, 1.51, 2.0, 4.0, 15.0, 60.0])
def test_expectations_of_the_logistic_function(sd):
    mean = np.concatenate([np.linspace(-20, 20, 81), [-300.0, 300.0]])
    z = np.linspace(-13, 13, 40_001)
    weight = np.exp(-0.5 * z * z)
    weight /= weight.sum()
    got = expected_log_logistic(mean, np.full(mean.size, sd))
    logits = mean[:, None] + sd * z
    small = np.exp(-np.abs(logits))
    assert np.abs(got.value - log_logistic(logits) @ weight).max() < 1e-9
    assert np.abs(got.slope - np.exp(log_logistic(-logits)) @ weight).max() < 1e-9
    assert np.abs(got.curvature - (small / (1 + small) ** 2) @ weight).max() < 2e-8
    assert (got.curvature >= 0).all()


def test_too_few_nodes_are_caught(monkeypatch):
    from doxa.parameters.variational import bound

    monkeypatch.setattr(bound, "_TIERS", ((4.0, 12),))
    with pytest.raises(AssertionError):
        test_expectations_of_the_logistic_function(2.0)


def test_expectations_are_derivatives_of_each_other():
    mean, sd, step = np.linspace(-6, 6, 25), np.linspace(0.1, 6, 25), 1e-4
    up, down = expected_log_logistic(mean + step, sd), expected_log_logistic(mean - step, sd)
    middle = expected_log_logistic(mean, sd)
    assert np.allclose((up.value - down.value) / (2 * step), middle.slope, atol=3e-6)
    assert np.allclose((down.slope - up.slope) / (2 * step), middle.curvature, atol=3e-6)
    wider, narrower = (
        expected_log_logistic(mean, np.sqrt(sd**2 + step)),
        expected_log_logistic(mean, np.sqrt(sd**2 - step)),
    )
    assert np.allclose((wider.value - narrower.value) / (2 * step), -middle.curvature / 2, atol=3e-6)
