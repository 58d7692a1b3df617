"""Bounds fail as rarely as they say, schedules are found that make them tight, and the best state is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from doxa.errors import ArgumentError
from doxa.inference.annealing import (
    SpinPath,
    TablePath,
    anneal,
    anneal_back,
    best_groups,
    cool,
    draw_by_elimination,
    linear,
    lower_bound,
    tune_schedule,
    upper_bound,
)
from doxa.models.factors import Factor
from doxa.models.ising import ising_grid
from support.checks import SEED, z_limit
from support.small_networks import joint, random_markov


@pytest.mark.parametrize("groups", [1, 3, 8, 16])
@pytest.mark.parametrize("variance", [0.1, 1.0, 9.0])
def test_bounds_fail_rarely_whatever_the_variance(groups, variance):
    rng = np.random.default_rng(SEED)
    n_runs, level = 2000, 0.025
    log_weights = rng.normal(-variance / 2, np.sqrt(variance), (n_runs, 64))  # of mean weight 1: log Z = 0
    lower = np.array([lower_bound(run, groups, level) for run in log_weights])
    upper = np.array([upper_bound(-run, groups, level) for run in log_weights])
    most = n_runs * level + z_limit(24) * np.sqrt(n_runs * level)
    assert (lower > 0).sum() <= most
    assert (upper < 0).sum() <= most
    assert lower == pytest.approx(-upper)


def test_the_log_of_the_mean_is_no_bound():
    log_weights = np.random.default_rng(SEED).normal(-0.5, 1.0, (500, 64))
    means = np.log(np.exp(log_weights).mean(axis=1))
    assert (means > 0).mean() > 0.3


def test_groups_make_bounds_tighter():
    log_weights = np.random.default_rng(SEED).normal(-0.2, np.sqrt(0.4), 512)
    few, many = lower_bound(log_weights), lower_bound(log_weights, best_groups(512, 0.4))
    assert few < -3
    assert -0.7 < many < 0
    assert lower_bound(np.array([-np.inf, 0.0]), 2) == -np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lower_bound([0.0], 2), "groups is 2"),
        (lambda: lower_bound([np.nan]), "nan"),
        (lambda: upper_bound([-np.inf]), "infinite on the wrong side"),
        (lambda: lower_bound([0.0], level=1.0), "level is 1.0"),
    ],
)
def test_bad_weights(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


def grid(side, kind, seed=0):
    rng = np.random.default_rng(seed)
    n_edges = 2 * side * (side - 1)
    couplings = {"even": 0.44, "signs": rng.choice([-1.0, 1.0], n_edges), "normal": rng.normal(size=n_edges)}[kind]
    network = ising_grid(side, side, coupling=couplings)
    return network, SpinPath(network.edges, network.couplings, network.fields)


def runs_on_a_grid(side, kind, n_runs, variance):
    """Errors and bounds of runs with everything fresh; log Z by contraction."""
    from doxa.inference.exact import plan_contraction

    network, path = grid(side, kind)
    exact = plan_contraction(network.n_states, [f.variables for f in network.factors]).joint(network.factors).log_z
    found = []
    for seed in range(n_runs):
        rng = np.random.default_rng((SEED, seed))
        schedule = tune_schedule(path, 512, rng, variance=variance, most_steps=10_000)
        groups = best_groups(512, schedule.variance)
        run = anneal(path, schedule.betas, 512, rng)
        draws = draw_by_elimination(network.n_states, network.factors, 512, rng)
        back = anneal_back(path, schedule.betas, draws, rng)
        estimate = run.estimate()
        low, high = estimate.interval()
        inside = low <= exact <= high if estimate.verdict.reliable else np.nan
        bounds = lower_bound(run.log_weights, groups), upper_bound(back.log_weights, groups)
        found.append((estimate.value - exact, *(bound - exact for bound in bounds), inside))
    return np.array(found).T


@pytest.mark.parametrize("kind", ["even", "signs", "normal"])
def test_bounds_of_a_small_grid(kind):
    errors, lower, upper, inside = runs_on_a_grid(6, kind, 40, 1.0)
    assert ((lower < 0) & (upper > 0)).mean() >= 0.95
    assert (upper - lower).mean() < 2.5
    assert abs(errors.mean()) < 0.05
    assert np.isfinite(inside).mean() > 0.7
    assert np.nanmean(inside) > 0.8  # 40 runs at 95%: 32 or fewer have a chance of 1 in 2,000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["even", "signs", "normal"])
def test_bounds_of_a_grid_in_many_runs(kind):
    errors, lower, upper, inside = runs_on_a_grid(10, kind, 200, 0.4)
    assert ((lower < 0) & (upper > 0)).mean() >= 0.95
    assert (upper - lower).mean() < 1.2
    assert (np.abs(errors) < 0.1).mean() >= 0.95
    assert np.nanmean(inside) > 0.95 - z_limit(3, 1e-3) * np.sqrt(0.05 * 0.95 / 200)


def test_a_tuned_schedule_has_the_variance_asked_for():
    _, path = grid(8, "signs")
    rng = np.random.default_rng(SEED)
    schedule = tune_schedule(path, 512, rng, variance=0.5, most_steps=10_000)
    assert schedule.variance == pytest.approx(0.5, rel=0.02)
    run = anneal(path, schedule.betas, 4096, rng)
    assert 0.6 < run.variances[-1] / schedule.variance < 1.5
    short = tune_schedule(path, 512, rng, variance=1e-6, most_steps=200)
    assert len(short.betas) == 201


def test_the_error_of_the_estimate():
    """95% intervals of log Z over repetitions, on tables with zeros."""
    rng = np.random.default_rng(SEED)
    network = random_markov(np.random.default_rng(4), most_variables=5)
    exact = np.log(joint(network).sum())
    path = TablePath(network.n_states, network.factors)
    covered = []
    for _ in range(60):
        low, high = anneal(path, linear(8), 512, rng).estimate().interval()
        covered.append(low <= exact <= high)
    assert np.mean(covered) > 0.95 + ndtri(1e-4) * np.sqrt(0.05 * 0.95 / 60)


@pytest.mark.parametrize("seed", range(6))
def test_cooling_finds_the_best_state(seed):
    rng = np.random.default_rng(seed)
    network = random_markov(rng, most_variables=7)
    while joint(network).max() == 0:
        network = random_markov(rng, most_variables=7)
    found = cool(TablePath(network.n_states, network.factors), 30, 128, np.random.default_rng(SEED + seed))
    assert found.log_value == pytest.approx(np.log(joint(network).max()))
    assert joint(network)[tuple(found.states)] == pytest.approx(joint(network).max())
    assert (found.log_values <= found.log_value).all()


@pytest.mark.parametrize("kind", ["signs", "normal"])
def test_cooling_finds_the_best_state_of_a_grid(kind):
    from doxa.inference.exact import plan_contraction

    network, path = grid(8, kind, seed=2)
    best = plan_contraction(network.n_states, [f.variables for f in network.factors]).most_probable(network.factors)
    for one in (path, TablePath(network.n_states, network.factors)):
        found = cool(one, 300, 128, np.random.default_rng(SEED))
        assert found.log_value == pytest.approx(best.log_value)
        assert path.log_value(found.states[None])[0] == pytest.approx(found.log_value)
    quenched = cool(path, 1, 512, np.random.default_rng(SEED), betas=[1e6])  # at once: caught in local maxima
    assert np.median(quenched.log_values) < best.log_value - 1


def test_cooling_ascends_to_a_local_maximum():
    network, path = grid(4, "normal")
    table = TablePath(network.n_states, network.factors)
    for one in (path, table):
        states = one.cool(np.array([0.1]), np.random.default_rng(SEED)).astype(int)
        for i in range(16):
            turned = states.copy()
            turned[:, i] ^= 1
            assert (path.log_value(turned) <= path.log_value(states) + 1e-9).all()


def test_cooling_says_where_nothing_is_possible():
    never = Factor(
        (0, 1), np.log(np.array([[0.0, 1.0], [1.0, 0.0]]) + 0.0, where=np.eye(2) == 0, out=np.full((2, 2), -np.inf))
    )
    always = Factor((0, 1), np.where(np.eye(2) == 1, 0.0, -np.inf))
    found = cool(TablePath((2, 2), [never, always]), 5, 64, np.random.default_rng(1))
    assert found.log_value == -np.inf


def test_seed_and_workers_of_cooling():
    network, _ = grid(4, "normal")
    path = TablePath(network.n_states, network.factors)
    runs = [cool(path, 5, 200, np.random.default_rng(1), workers=workers) for workers in (1, 3)]
    assert (runs[0].log_values == runs[1].log_values).all()
    with pytest.raises(ArgumentError, match="none negative"):
        cool(path, 2, 64, np.random.default_rng(1), betas=[-1.0, 1.0])
