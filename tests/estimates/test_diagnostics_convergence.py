"""Gelman-Rubin against hand computation, expectation and arviz-stats; Geweke's z against the normal law."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats
from known_chains import normal_ar1
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz
from scipy.stats import kstest

from doxa.estimates.diagnostics import gelman_rubin, geweke_z, rank_r_hat
from support.checks import FALSE_ALARM, SEED, z_limit

AXES = {"chain_axis": 0, "draw_axis": 1}


# --- Gelman and Rubin


def test_gelman_rubin_by_hand():
    result = gelman_rubin([[1.0, 2.0, 3.0, 6.0], [5.0, 5.0, 9.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
    # means 3, 5, 1; variances 14/3, 32/3, 4/3; B = 4 * 4; var+ = 3/4 * 50/9 + 16/4
    assert float(result.within) == pytest.approx(50 / 9)
    assert float(result.between) == pytest.approx(16)
    assert float(result.var_plus) == pytest.approx(25 / 6 + 4)
    assert float(result.r_hat) == pytest.approx(np.sqrt((25 / 6 + 4) / (50 / 9)))


@pytest.mark.parametrize("phi", [0.0, 0.9, -0.6])
def test_var_plus_is_unbiased_at_any_autocorrelation(phi):
    """Exact: a quadratic form of draws L z has the sum over the columns of L as its expectation."""
    chains, n = 3, 25
    root = np.linalg.cholesky(toeplitz(2.5 * phi ** np.arange(n)))
    draws = np.zeros((chains, n, chains, n))
    for chain in range(chains):
        draws[chain, :, chain] = root
    result = gelman_rubin(draws)
    assert float(result.var_plus.sum()) == pytest.approx(2.5)
    as_printed = (n - 1) / n * result.within.sum() + 1 / (n * result.between.sum())
    assert as_printed != pytest.approx(2.5, rel=0.01)


def test_identical_chains():
    draws = np.tile(np.random.default_rng(1).normal(size=50), (4, 1))
    result = gelman_rubin(draws)
    assert float(result.between) == pytest.approx(0, abs=1e-25)
    assert float(result.r_hat) == pytest.approx(np.sqrt(49 / 50))


def test_shifted_chains_against_the_limit_and_the_misprint():
    base = np.random.default_rng(2).normal(size=(2, 500))
    base -= base.mean(axis=1, keepdims=True)
    within = base.var(axis=1, ddof=1).mean()
    found, printed = [], []
    for shift in (1.0, 3.0, 10.0, 100.0):
        result = gelman_rubin(base + np.array([[0.0], [shift]]))
        assert float(result.between) == pytest.approx(500 * shift**2 / 2)
        found.append(float(result.r_hat))
        printed.append(np.sqrt((499 / 500 * result.within + 1 / (500 * result.between)) / result.within))
    assert_allclose(found, np.sqrt(499 / 500 + np.array([1, 9, 100, 10000]) / 2 / within), rtol=1e-9)
    assert max(printed) < 1.01  # eq. 19 as printed would call chains a hundred deviations apart converged
    assert printed == sorted(printed, reverse=True)


def test_split_sees_a_drift_that_whole_chains_share():
    draws = np.random.default_rng(3).normal(size=(4, 401)) + np.linspace(-3, 3, 401)
    assert float(gelman_rubin(draws).r_hat) < 1.01
    assert float(gelman_rubin(draws, split=True).r_hat) > 1.5
    halves = np.concatenate([draws[:, :200], draws[:, 201:]])
    for mine, theirs in zip(gelman_rubin(draws, split=True), gelman_rubin(halves), strict=True):
        assert float(mine) == pytest.approx(float(theirs))
    assert float(gelman_rubin(draws[:1], split=True).r_hat) > 1.5


@pytest.mark.parametrize("n", [40, 41])
def test_agrees_with_arviz_stats(n):
    rng = np.random.default_rng([SEED, n])
    for _ in range(10):
        draws = rng.gamma(0.7, size=(3, n, 2)) + rng.normal(size=(3, 1, 2))
        split, ranked = gelman_rubin(draws, split=True).r_hat, rank_r_hat(draws)
        whole = gelman_rubin(draws).r_hat
        for k in range(2):
            assert split[k] == pytest.approx(float(array_stats.rhat(draws[..., k], method="split", **AXES)))
            assert whole[k] == pytest.approx(float(array_stats.rhat(draws[..., k], method="identity", **AXES)))
            assert ranked[k] == pytest.approx(float(array_stats.rhat(draws[..., k], method="rank", **AXES)))


def test_chains_that_never_moved():
    still = np.full((3, 10, 3), 0.1)
    still[1, :, 1] = 0.7
    still[0, 0, 2] = 0.5
    result = gelman_rubin(still)
    assert np.isnan(result.r_hat[0])
    assert result.r_hat[1] == np.inf
    assert 0 < result.r_hat[2] < 2
    assert np.isnan(rank_r_hat(still)[0])


def test_what_r_hat_cannot_see():
    rng = np.random.default_rng(4)
    same_mode = rng.normal(5.0, 1.0, size=(4, 500))  # of two modes, at -5 and 5, all chains started in one
    assert float(rank_r_hat(same_mode)) < 1.01
    spread = rng.normal(size=(4, 2000)) * np.array([1.0, 1.0, 1.0, 4.0])[:, None]
    assert float(gelman_rubin(spread, split=True).r_hat) < 1.01  # chains that agree in place only: the fold sees them
    assert float(rank_r_hat(spread)) > 1.05


# --- Geweke


def check_normal(z):
    """Second moment and Kolmogorov-Smirnov, each at the stated rate of false alarms."""
    spread = np.sqrt(2 / z.size)
    assert abs((z**2).mean() - 1) < z_limit(2) * spread, f"mean square {(z**2).mean():.3f}"
    assert abs(z.mean()) < z_limit(2) / np.sqrt(z.size), f"mean {z.mean():.3f}"
    p = kstest(z, "norm").pvalue
    assert p > FALSE_ALARM, f"mean square {(z**2).mean():.3f}, KS p = {p:.1e}"


def stationary(phi, n, runs, key):
    return normal_ar1(np.random.default_rng([SEED, key]), n, runs, phi)


def naive_z(draws, first=0.1, last=0.5):
    """The statistic with variances that take draws for independent: eq. 18 read literally."""
    n = draws.shape[1]
    early, late = draws[:, : int(first * n)], draws[:, n - int(last * n) :]
    variance = early.var(axis=1, ddof=1) / early.shape[1] + late.var(axis=1, ddof=1) / late.shape[1]
    return (early.mean(axis=1) - late.mean(axis=1)) / np.sqrt(variance)


@pytest.mark.parametrize(
    ("phi", "n", "runs"), [(0.5, 2000, 500), pytest.param(0.9, 10_000, 500, marks=pytest.mark.slow)]
)
def test_z_is_standard_normal_on_stationary_chains(phi, n, runs):
    draws = stationary(phi, n, runs, 31)
    check_normal(geweke_z(draws).ravel())
    with pytest.raises(AssertionError, match="mean square"):
        check_normal(naive_z(draws).ravel())


def test_z_has_heavy_tails_where_stretches_are_short():
    """What is true: 50 draws of an AR(1) of 0.9 are under three effective ones, and no formula makes z normal."""
    z = geweke_z(stationary(0.9, 500, 500, 32)).ravel()
    assert (np.abs(z) > 1.96).mean() > 0.1
    assert (np.abs(z) > 1.96).mean() < (np.abs(naive_z(stationary(0.9, 500, 500, 32)).ravel()) > 1.96).mean() / 3


def test_z_by_hand():
    rng = np.random.default_rng(5)
    draws = rng.normal(size=1000)
    early, late = draws[:200], draws[700:]
    expected = (early.mean() - late.mean()) / np.sqrt(early.var(ddof=1) / 200 + late.var(ddof=1) / 300)
    assert float(geweke_z(draws, 0.2, 0.3, "bartlett", 1)) == pytest.approx(expected)


def test_z_sees_a_chain_that_was_not_warmed_up():
    draws = stationary(0.5, 2000, 5, 33).astype(np.float64)
    drift = draws + 4 * np.exp(-np.arange(2000) / 200)[:, None]
    assert geweke_z(drift).min() > 2
    assert geweke_z(drift).mean() > 4
    assert float(gelman_rubin(drift).r_hat.max()) < 1.01  # all chains drift alike: comparing whole chains shows nothing


def test_chains_and_quantities_are_judged_apart():
    draws = stationary(0.5, 300, 2, 34)
    together = geweke_z(draws)
    assert together.shape == (4, 2)
    assert geweke_z(draws[0, :, 0]).shape == ()
    for chain in range(4):
        for k in range(2):
            assert float(geweke_z(draws[chain, :, k])) == pytest.approx(together[chain, k], rel=1e-6)


def test_stretches_that_never_moved():
    still = np.zeros((3, 100))
    still[1, 50:] = 1
    still[2, 10:] = np.random.default_rng(6).normal(9, 1, size=90)
    z = geweke_z(still)
    assert np.isnan(z[0])
    assert z[1] == -np.inf
    assert z[2] < -5
