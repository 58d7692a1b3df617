"""Autocovariances, windows, Geyer's sequences and batch means against what can be worked out.

Most checks are exact.  An estimator that is a quadratic form Q of the draws has, for draws L z with z independent of
unit variance, the expectation sum_j Q(column j of L): feed it the columns of L as so many quantities and add.
"""

from __future__ import annotations

import numpy as np
import pytest
from known_chains import normal_ar1
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.linalg import toeplitz

from doxa.estimates.diagnostics import (
    WINDOWS,
    autocovariance,
    batch_means_error,
    default_bandwidth,
    integrated_autocorrelation_time,
    lag_weights,
    long_run_variance,
    windowed_error,
)
from doxa.estimates.long_run import CURVATURE, ORDER, SQUARE, bandwidth_of, initial_sequence, pooled_autocovariance
from support.checks import SEED

LAG_WINDOWS = WINDOWS[:3]
GEYER = WINDOWS[3:]


def ar1_gamma(phi, n, innovation=1.0):
    return innovation**2 * phi ** np.arange(n) / (1 - phi**2)


def columns(gamma):
    """Square root of the covariance matrix of a stationary sequence, as one chain of n quantities."""
    return np.linalg.cholesky(toeplitz(gamma))[np.newaxis]


def finite_chain():
    """A reversible chain on five states, a function on them, its autocovariances and its long-run variance."""
    rng = np.random.default_rng(11)
    flows = rng.random((5, 5)) ** 3
    flows += flows.T
    flows += np.diag(rng.random(5))
    stationary = flows.sum(axis=1) / flows.sum()
    matrix = flows / flows.sum(axis=1, keepdims=True)
    values = np.array([0.0, 1.0, -2.0, 5.0, 3.0])
    centred = values - stationary @ values
    gamma, image = [], centred
    for _ in range(400):
        gamma.append(stationary @ (centred * image))
        image = matrix @ image
    fundamental = np.linalg.inv(np.eye(5) - matrix + stationary)
    long_run = 2 * stationary @ (centred * (fundamental @ centred)) - stationary @ centred**2
    return matrix, stationary, values, np.array(gamma), long_run


def two_state_gamma(leave_zero, leave_one, n):
    p = leave_zero / (leave_zero + leave_one)
    return p * (1 - p) * (1 - leave_zero - leave_one) ** np.arange(n)


# --- autocovariances


@pytest.mark.parametrize("n", [2, 3, 8, 37])
@pytest.mark.parametrize("published", [False, True])
def test_the_transform_does_what_the_sums_say(n, published):
    rng = np.random.default_rng([SEED, n])
    draws = rng.gamma(0.5, size=(3, n, 2)) + 1e3
    centred = draws - draws.mean(axis=(0, 1))
    found = autocovariance(draws, published=published)
    for k in range(n):
        expected = (centred[:, : n - k] * centred[:, k:]).sum(axis=1) / (n - k if published else n)
        assert_allclose(found[:, k], expected, atol=1e-9)
    assert_allclose(autocovariance(draws, n // 2), autocovariance(draws)[:, : n // 2 + 1], atol=1e-9)
    assert_allclose(autocovariance(draws[0, :, 0]), autocovariance(draws[:1, :, 0])[0], atol=1e-9)


@pytest.mark.parametrize("phi", [0.9, -0.7])
def test_expectation_on_an_autoregression_is_the_exact_one(phi):
    n = 200
    gamma = ar1_gamma(phi, n, innovation=1.7)
    covariance = toeplitz(gamma)
    centring = np.eye(n) - 1 / n
    expected = [np.trace(centring @ covariance @ centring, offset=k) / n for k in range(n)]
    found = autocovariance(columns(gamma)).sum(axis=-1)[0]
    assert_allclose(found, expected, atol=1e-12)
    # and these are the textbook's, up to what the mean costs
    tau2 = 1.7**2 / (1 - phi) ** 2
    few = np.arange(20)
    assert_allclose(
        found[few], (1 - few / n) * (gamma[few] - tau2 / n), atol=2.5 * tau2 / n**2 * (5 + 1 / (1 - phi**2))
    )


def test_all_lags_together_are_nothing():
    gamma = autocovariance(np.random.default_rng(1).gamma(1.0, size=101))
    assert gamma[0] + 2 * gamma[1:].sum() == pytest.approx(0, abs=1e-12)


def test_a_chain_apart_is_an_autocovariance_that_does_not_fade():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(4, 500)) + np.array([3.0, -1.0, -1.0, -1.0])[:, None]
    assert autocovariance(draws, 100)[0, 1:].min() > 5  # 3 ** 2 * (1 - k / n), less noise
    assert float(long_run_variance(draws, "parzen")) > 50


# --- windows


def test_weights_at_known_points():
    x = [-1.5, -1, -0.5, 0, 0.25, 1 / 3, 0.5, 0.75, 1, 7]
    assert_allclose(lag_weights("bartlett", x), [0, 0, 0.5, 1, 0.75, 2 / 3, 0.5, 0.25, 0, 0])
    assert_allclose(
        lag_weights("parzen", x), [0, 0, 0.25, 1, 1 - 6 / 16 + 6 / 64, 1 - 6 / 9 + 6 / 27, 0.25, 2 / 64, 0, 0]
    )
    half = np.sqrt(0.5)
    assert_allclose(
        lag_weights("tukey-hanning", x), [0, 0, 0.5, 1, (1 + half) / 2, 0.75, 0.5, (1 - half) / 2, 0, 0], atol=1e-16
    )


@pytest.mark.parametrize("window", LAG_WINDOWS)
def test_constants_of_the_windows(window):
    square, _ = quad(lambda x: float(lag_weights(window, x)) ** 2, -1, 1, points=[-0.5, 0, 0.5])
    assert pytest.approx(square) == SQUARE[window]
    x = 1e-4
    assert float(1 - lag_weights(window, x)) / x ** ORDER[window] == pytest.approx(CURVATURE[window], rel=1e-3)


@pytest.mark.parametrize("window", LAG_WINDOWS)
@pytest.mark.parametrize("phi", [0.9, 0.5, -0.5])
def test_default_bandwidth_balances_bias_and_noise(window, phi):
    n = 10**6
    k = np.arange(-5000, 5001)
    gamma = phi ** np.abs(k)
    width = float(default_bandwidth(window, abs((np.abs(k) ** ORDER[window] * gamma).sum()) / gamma.sum(), n))
    bias = abs((lag_weights(window, k / width) * gamma).sum() / gamma.sum() - 1)
    one_over_df = (lag_weights(window, k / width) ** 2).sum() / n
    assert bias == pytest.approx(one_over_df, rel=0.1)


def test_default_bandwidth_stays_within_the_chain():
    assert default_bandwidth("bartlett", [0.0, 1e9], 100).tolist() == [1.0, 25.0]


def test_default_bandwidth_reaches_slow_parts_under_noise():
    """A tenth of the variance in an AR(1) of 0.98: lag 1 says little of it, the autocovariances up to the cut do."""
    rng = np.random.default_rng([SEED, 12])
    noise = rng.standard_normal((1, 20_000, 40))
    slow = np.zeros_like(noise)
    for t in range(1, 20_000):
        slow[:, t] = 0.98 * slow[:, t - 1] + rng.standard_normal(40) * np.sqrt(1 - 0.98**2)
    draws = np.sqrt(0.1) * slow + np.sqrt(0.9) * noise
    for window in LAG_WINDOWS:
        assert float(long_run_variance(draws, window).mean()) == pytest.approx(0.9 + 0.1 * 99, rel=0.15)


def test_geyers_sums_do_not_vanish_where_draws_alternate():
    rng = np.random.default_rng([SEED, 13])
    draws = np.zeros((1, 1000, 50))
    for t in range(1, 1000):
        draws[:, t] = -0.95 * draws[:, t - 1] + rng.standard_normal(50)
    for window in GEYER:
        assert (integrated_autocorrelation_time(draws, window) >= 0.3).all()  # 1 / log10(1000), where 1 / 39 is true


# --- long-run variances


@pytest.mark.parametrize("window", LAG_WINDOWS)
@pytest.mark.parametrize("bandwidth", [1, 3.5, 10])
@pytest.mark.parametrize("chains", [1, 3])
def test_unbiased_for_independent_draws(window, bandwidth, chains):
    n = 40
    unit = np.eye(chains * n).reshape(chains, n, chains * n)
    assert float(long_run_variance(unit, window, bandwidth).sum()) == pytest.approx(1, abs=1e-12)


def test_bandwidth_one_is_the_plain_variance():
    draws = np.random.default_rng(3).gamma(1.0, size=(2, 50))
    for window in LAG_WINDOWS:
        assert float(long_run_variance(draws, window, 1)) == pytest.approx(draws.var(ddof=1))


@pytest.mark.parametrize("window", LAG_WINDOWS)
@pytest.mark.parametrize(
    ("gamma", "long_run", "tolerance"),
    [
        (ar1_gamma(0.8, 1000), 25.0, 0.04),
        (ar1_gamma(-0.5, 1000), 1 / 1.5**2, 0.02),
        (np.r_[1 + 0.6**2, 0.6, np.zeros(998)], 1.6**2, 0.02),  # MA(1)
        (two_state_gamma(0.1, 0.2, 1000), (2 / 9) * 1.7 / 0.3, 0.02),
    ],
    ids=["AR(1) 0.8", "AR(1) -0.5", "MA(1) 0.6", "two-state"],
)
def test_expectation_of_the_windowed_sum(window, gamma, long_run, tolerance):
    width = 250 if window == "bartlett" else 100
    found = float(long_run_variance(columns(gamma), window, width).sum())
    assert found == pytest.approx(long_run, rel=tolerance)
    # eq. 21 as printed sums gamma_0: it sees the window, not the chain
    k = np.arange(1, 250)
    as_printed = gamma[0] * (1 + 2 * lag_weights(window, k / width).sum())
    assert as_printed != pytest.approx(long_run, rel=1)


@pytest.mark.parametrize("window", GEYER)
def test_geyers_sequences_keep_the_autocovariances_of_reversible_chains(window):
    """True autocovariances are positive, decreasing and convex in pairs already, and nothing is cut."""
    for gamma, long_run in (
        (ar1_gamma(0.9, 800), 100.0),
        (ar1_gamma(-0.9, 800), 1 / 1.9**2),
        (two_state_gamma(0.1, 0.2, 200), (2 / 9) * 1.7 / 0.3),
        (two_state_gamma(0.9, 0.6, 200), 0.6 * 0.4 * 0.5 / 1.5),
        finite_chain()[3:],
    ):
        found, _ = initial_sequence(gamma, window)
        assert float(found) == pytest.approx(long_run, rel=1e-9)


def test_geyers_sequences_by_hand():
    # pairs 9, 4, 5, 1, 1, -1, 7: cut at five; monotone 9, 4, 4, 1, 1; convex minorant with a final 0:
    # (0, 9), (1, 4), (3, 1), (5, 0), so 9 + 4 + 2.5 + 1 + 0.5
    gamma = np.array([6.0, 3, 3, 1, 4, 1, 0, 1, 2, -1, 1, -2, 3, 4])
    assert [float(initial_sequence(gamma, window)[0]) for window in GEYER] == [34.0, 32.0, 28.0]
    assert {int(initial_sequence(gamma, window)[1]) for window in GEYER} == {10}


def test_each_sequence_lies_below_the_one_before():
    draws = np.random.default_rng([SEED, 5]).normal(size=(1, 300, 50)).cumsum(axis=1)
    draws[:, 7:] -= draws[:, :-7] * 0.9
    positive, monotone, convex = (long_run_variance(draws, window) for window in GEYER)
    assert (convex <= monotone * (1 + 1e-12)).all()
    assert (monotone <= positive * (1 + 1e-12)).all()
    assert (convex < monotone).mean() > 0.5


def test_geyers_cut_is_wrong_for_a_cycle():
    """A chain that walks round a circle is not reversible: pairs of autocovariances change sign, and are cut early."""
    n_states, stay = 12, 0.1
    matrix = stay * np.eye(n_states) + (1 - stay) * np.roll(np.eye(n_states), 1, axis=1)
    values = np.cos(2 * np.pi * np.arange(n_states) / n_states)
    fundamental = np.linalg.inv(np.eye(n_states) - matrix + 1 / n_states)
    truth = (2 * values @ fundamental @ values - values @ values) / n_states
    gamma, image = [], values
    for _ in range(3000):
        gamma.append(values @ image / n_states)
        image = matrix @ image
    gamma = np.array(gamma)
    assert gamma[0] + 2 * gamma[1:].sum() == pytest.approx(truth, rel=1e-6)
    assert float(initial_sequence(gamma, "initial-positive")[0]) > 10 * truth
    parzen = gamma[0] + 2 * (lag_weights("parzen", np.arange(1, 3000) / 3000) * gamma[1:]).sum()
    assert parzen == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("window", WINDOWS)
def test_estimates_on_a_finite_chain(window):
    matrix, stationary, values, gamma, long_run = finite_chain()
    rng = np.random.default_rng([SEED, 6])
    runs, n = 200, 4000
    cumulative = matrix.cumsum(axis=1)[:, :-1]
    state = rng.choice(5, p=stationary, size=runs)
    draws = np.empty((1, n, runs))
    for t in range(n):
        draws[0, t] = values[state]
        state = (rng.random(runs)[:, None] >= cumulative[state]).sum(axis=1)
    assert float(long_run_variance(draws, window).mean()) == pytest.approx(long_run, rel=0.06)
    time = integrated_autocorrelation_time(draws, window)
    assert float(time.mean()) == pytest.approx(long_run / gamma[0], rel=0.06)


def test_quantities_do_not_see_each_other():
    rng = np.random.default_rng(7)
    draws = rng.normal(size=(2, 100, 3, 2)).cumsum(axis=1)
    for window in WINDOWS:
        together = long_run_variance(draws, window)
        apart = [[float(long_run_variance(draws[:, :, i, j], window)) for j in range(2)] for i in range(3)]
        assert_allclose(together, apart, rtol=1e-9)


@pytest.mark.parametrize("window", WINDOWS)
def test_scale_and_place(window):
    draws = np.random.default_rng(8).normal(size=(2, 200)).cumsum(axis=1)
    assert_allclose(long_run_variance(3 * draws - 40, window), 9 * long_run_variance(draws, window), rtol=1e-6)
    assert_allclose(
        integrated_autocorrelation_time(3 * draws - 40, window),
        integrated_autocorrelation_time(draws, window),
        rtol=1e-6,
    )


def test_constants_have_said_nothing():
    draws = np.full((2, 50, 2), 0.1)
    draws[..., 1] = np.random.default_rng(9).normal(size=(2, 50))
    for window in WINDOWS:
        found = long_run_variance(draws, window)
        assert np.isnan(found).tolist() == [True, False]
        assert np.isnan(integrated_autocorrelation_time(draws, window)).tolist() == [True, False]
        estimate = windowed_error(draws[..., 0], window)
        assert np.isnan([estimate.mcse, estimate.ess, *estimate.interval()]).all()
    assert np.isnan(batch_means_error(draws[..., 0]).mcse)


def test_draws_that_alternate_exactly():
    """The mean of a two-cycle has no error to speak of; where a sum is not positive the error is unknown, not 0."""
    draws = np.tile([0.0, 1.0], 50)
    assert np.isnan(batch_means_error(draws, 10).mcse)
    for window in WINDOWS:
        mcse = windowed_error(draws, window).mcse
        assert np.isnan(mcse) or 0 < mcse <= 0.0503  # at most that of independent draws


# --- batch means


def test_batch_means_by_hand():
    estimate = batch_means_error([1.0, 3.0, 5.0, 7.0, 0.0, 2.0], n_batches=3)  # means 2, 6, 1; tau^2 = 2 * 7
    assert estimate.value == 3
    assert estimate.mcse == pytest.approx(np.sqrt(14 / 6))
    assert estimate.ess == pytest.approx(6 * 6.8 / 14)
    low, high = estimate.interval()
    assert high - low == pytest.approx(2 * 4.302653 * np.sqrt(14 / 6))


def batch_expectation(gamma, chains, n_batches):
    """Expected tau^2 by batch means: the sum over the columns of the square root of the covariance."""
    n = gamma.size
    root = np.linalg.cholesky(toeplitz(gamma))
    total = 0.0
    for chain in range(chains):
        for j in range(n):
            draws = np.zeros((chains, n))
            draws[chain] = root[:, j]
            total += batch_means_error(draws, n_batches).mcse ** 2 * draws.size
    return total


@pytest.mark.parametrize(("chains", "n_batches"), [(1, 2), (1, 7), (3, 1), (3, 4)])
def test_batch_means_are_unbiased_for_independent_draws_whatever_is_left_over(chains, n_batches):
    assert batch_expectation(np.r_[1.0, np.zeros(30)], chains, n_batches) == pytest.approx(1)


def test_batch_means_are_too_small_by_what_neighbours_share():
    n, n_batches, phi = 120, 6, 0.6
    length = n // n_batches

    def variance_of_mean(size):
        k = np.arange(1, size)
        return (1 + 2 * ((1 - k / size) * phi**k).sum()) / size / (1 - phi**2)

    exact = n / (n_batches - 1) * (variance_of_mean(length) - variance_of_mean(n))
    found = batch_expectation(ar1_gamma(phi, n), 1, n_batches)
    assert found == pytest.approx(exact)
    assert found < 1 / (1 - phi) ** 2


def test_default_number_of_batches():
    rng = np.random.default_rng(10)
    for shape, batches in (((400,), 20), ((4, 100), 5), ((64, 100), 2), ((30,), 15), ((2, 4), 2)):
        draws = rng.normal(size=shape)
        assert batch_means_error(draws).mcse == batch_means_error(draws, batches).mcse


@pytest.mark.parametrize("window", LAG_WINDOWS)
def test_the_bandwidth_found_is_the_one_that_the_error_takes(window):
    draws = normal_ar1(np.random.default_rng(SEED), 400, 1, 0.8)[..., 0].astype(np.float64)
    width = float(bandwidth_of(pooled_autocovariance(draws), window, None, draws.shape[0]))
    assert long_run_variance(draws, window, width) == long_run_variance(draws, window)
    assert long_run_variance(draws, window, 0.8 * width) != long_run_variance(draws, window)


def test_dispersion_does_not_depend_on_the_unit():
    """Averages of conditional probabilities may vary by 1e-90: their fourth powers are 0."""
    from doxa.estimates.batches import long_range_dispersion

    rng = np.random.default_rng(8)
    sums, lengths, df = rng.normal(size=(4, 32)).cumsum(axis=1), np.full(32, 20), np.array(50.0)
    found = long_range_dispersion(sums, lengths, np.array(0.1), df)
    tiny = long_range_dispersion(sums * 1e-90, lengths, np.array(0.1e-180), df)
    assert np.isfinite(tiny.dispersion)
    assert np.allclose(found, tiny, rtol=1e-9)
