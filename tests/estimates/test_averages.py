"""Many averages at once: their errors cover, and see slow modes and chains apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from stopped_runs import Modes

from doxa.errors import ArgumentError
from doxa.estimates.batches import visits_by_skew
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.real import AverageDiagnostics, diagnose_averages
from support.checks import FALSE_ALARM, z_limit

COLUMNS = [name for name in AverageDiagnostics._fields if name != "n_draws"]


def autoregressions(rho, n_runs, rng, n=400, m=4):
    """Draws (chain, draw, run) of logistic autoregressions; each run is a quantity of its own, and its mean is 1/2."""
    x = rng.standard_normal((m, n, n_runs))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return expit(x)


def intervals(found: AverageDiagnostics, met: bool = True) -> np.ndarray:
    """Those for what was met, or those that are given: (quantity, end)."""
    estimates = [found.estimate(k) for k in range(found.value.size)]
    given = np.array([e.interval() for e in estimates])
    if not met:
        return given
    narrower = np.array([e.law.met.bounds(e.value, e.law.own_error, 0.95) for e in estimates])
    assert (given[:, 0] <= narrower[:, 0]).all()
    assert (given[:, 1] >= narrower[:, 1]).all()
    return narrower


def coverage(ends: np.ndarray, truth: float) -> float:
    """Share of intervals that hold the truth."""
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())


def each_by_itself(draws) -> list[AverageDiagnostics]:
    """Every quantity as a run of its own: it depends on the others only in what its errors allow for the unmet."""
    found = diagnose_averages(draws)
    return [found._replace(**{name: getattr(found, name)[[k]] for name in COLUMNS}) for k in range(found.value.size)]


def test_one_of_many_is_diagnosed_as_if_alone():
    draws = autoregressions(0.5, 20, np.random.default_rng(10))
    for k, one in enumerate(each_by_itself(draws)):
        alone = diagnose_averages(draws[..., [k]])
        assert one.estimate(0).interval() == pytest.approx(alone.estimate(0).interval(), rel=1e-9)


def test_a_rare_mode_that_was_not_met_is_allowed_for():
    """In a mode of probability 0.0005 the conditional probability is 1, elsewhere about 0.001; many runs miss it."""
    rng = np.random.default_rng(6)
    in_mode = rng.random((4, 500, 1000)) < 0.0005
    draws = np.where(in_mode, 1.0, 0.001 * np.exp(0.1 * rng.standard_normal(in_mode.shape)))
    truth = 0.0005 + 0.9995 * 0.001 * np.exp(0.005)
    parts = each_by_itself(draws)
    assert np.mean([coverage(intervals(part, met=False), truth) for part in parts]) > 0.93
    assert np.mean([coverage(intervals(part), truth) for part in parts]) < 0.8  # the broken twin


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_intervals_cover(rho):
    found = diagnose_averages(autoregressions(rho, 2000, np.random.default_rng(1)))
    slack = z_limit(3) * np.sqrt(0.95 * 0.05 / 2000)
    assert 0.93 - slack < coverage(intervals(found), 0.5) < 0.97 + slack


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_allowance_for_what_was_not_met_does_not_swamp_the_rest(scale):
    """Whole intervals of runs by themselves, where nothing was left unmet: as wide as they should be."""
    draws = 0.5 + scale * (autoregressions(0.5, 1500, np.random.default_rng(7)) - 0.5)
    covered = [coverage(intervals(part, met=False), 0.5) for part in each_by_itself(draws)]
    slack = z_limit(2) * np.sqrt(0.95 * 0.05 / 1500)
    assert 0.93 - slack < np.mean(covered) < 0.97 + slack


def test_errors_for_independent_draws_would_not_cover():
    """The broken twin."""
    draws = autoregressions(0.9, 1000, np.random.default_rng(2))
    found = diagnose_averages(draws)
    naive = draws.std(axis=(0, 1)) / np.sqrt(draws.shape[0] * draws.shape[1])
    assert coverage(intervals(found._replace(mcse=naive, df=np.full(1000, np.inf))), 0.5) < 0.7


def few_visits(weight, low, high, rng, n=1500, runs=3000):
    """Averages near ``low``, or ``high`` in a rare mode, left at 0.02 of its complement's share: some ten visits."""
    in_mode = np.moveaxis(Modes(rng, runs, False, weight, 0.02).draw(n, np.arange(runs)), 0, -1)
    noise = 0.03 * rng.standard_normal(in_mode.shape, dtype=np.float32)
    return np.where(in_mode, np.float32(high), np.float32(low)) + noise, low + weight * (high - low)


def missed(ends: np.ndarray, truth: float, side: int) -> int:
    """Of the intervals, those that end before the truth on one side: 1 above, -1 below."""
    return int((side * (truth - ends[:, (side + 1) // 2]) > 0).sum())


@pytest.mark.parametrize(("low", "high"), [(0.45, 0.55), (0.55, 0.4), (0.4, 0.7)])
def test_few_visits_stretch_the_interval(low, high):
    draws, truth = few_visits(0.1, low, high, np.random.default_rng(8))
    found = diagnose_averages(draws)
    n, side, ends = found.value.size, int(np.sign(high - low)), intervals(found)
    assert 0.93 < coverage(ends, truth) < 0.985
    assert (np.sign(found.skew) * side >= 0).mean() > 0.99
    assert binom.sf(missed(ends, truth, side) - 1, n, 0.05) > FALSE_ALARM
    symmetric = intervals(found._replace(skew=0 * found.skew))
    assert binom.sf(missed(symmetric, truth, side) - 1, n, 0.05) < FALSE_ALARM  # the broken twin


def test_visits_are_told_by_their_skew():
    """Visits of exponential lengths; a low estimate, never above twice the number that there were."""
    rng = np.random.default_rng(9)
    lengths = np.full(32, 100)
    for n_visits in (1, 4, 16):
        sums = np.zeros((4, 32, 500))
        visited = rng.integers(0, 4 * 32, (n_visits, 500))
        for place in visited:
            sums.reshape(128, 500)[place, np.arange(500)] -= rng.exponential(size=500)
        found = visits_by_skew(sums, lengths) / 2
        assert (found < 0).mean() > 0.98
        assert -2 * n_visits < np.median(found) <= -0.5 * n_visits
    symmetric = visits_by_skew(rng.standard_normal((4, 32, 2000)), lengths)
    assert 0.85 < (symmetric == 0).mean() < 0.97  # two looks, each significant in 4-5%
    assert np.median(np.abs(symmetric[symmetric != 0])) > 50


def test_a_slow_mode_under_fast_noise_is_seen():
    """One chain in four sits elsewhere: short-range correlation says nothing of it."""
    rng = np.random.default_rng(3)
    draws = 0.5 + 0.01 * rng.standard_normal((4, 500, 50))
    draws[3] += 0.2
    found = diagnose_averages(draws)
    assert (found.mcse > 0.04).all()
    assert (found.r_hat > 1.5).all()


def test_agrees_with_the_diagnosis_of_one_quantity():
    draws = autoregressions(0.6, 20, np.random.default_rng(4))
    found = diagnose_averages(draws)
    one = [diagnose_real(draws[:, :, k]) for k in range(20)]
    np.testing.assert_allclose(found.value, [d.estimate.value for d in one])
    np.testing.assert_allclose(found.mcse, [d.estimate.mcse for d in one], rtol=0.5)
    assert abs(np.log(found.mcse / [d.estimate.mcse for d in one]).mean()) < 0.1


def test_what_never_moved_has_a_bound_and_no_zero_error():
    draws = np.random.default_rng(5).random((2, 100, 3))
    draws[..., 1], draws[..., 2] = 0.0, 0.25
    found = diagnose_averages(draws)
    assert np.isnan(found.r_hat[1:]).all()
    assert found.slowest == found.ess[0]
    never, still = found.estimate(1), found.estimate(2)
    assert never.value == 0
    assert 0 < never.interval()[1] < 0.1
    low, high = still.interval()
    assert low < 0.25 < high
    nothing = diagnose_averages(np.zeros((2, 100, 1)))
    assert nothing.slowest == 0
    assert nothing.estimate(0).interval() == (0, 1)


def test_refused():
    with pytest.raises(ArgumentError, match=r"draws has shape \(2, 3, 1\); it must be \(chain, draw, quantity\)"):
        diagnose_averages(np.zeros((2, 3, 1)))
