"""Weights of annealed importance sampling have the mean they should, forward and in reverse; and broken ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.inference.annealing import SpinPath, TablePath, adapted, anneal, anneal_back, directed_path, geometric, linear
from doxa.inference.annealing.spins import pack_spins
from doxa.models.evidence import Evidence
from doxa.models.factors import Factor
from doxa.models.ising import ising_grid
from support.checks import SEED, compare_transitions, z_limit
from support.small_networks import joint, random_categorical, random_markov

SKEWED = np.random.default_rng(3)
GLASS = ising_grid(2, 3, coupling=SKEWED.normal(0, 0.7, 7), field=SKEWED.normal(0.2, 0.4, (2, 3)))
XOR = [
    Factor((0, 1, 2), np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 0, 0.0, -np.inf)),
    Factor((0,), np.log([0.7, 0.3])),
    Factor((1, 3), np.array([[0.3, -0.5, 0.0], [0.2, -np.inf, 1.0]])),
]


def spin_case(base=None):
    return SpinPath(GLASS.edges, GLASS.couplings, GLASS.fields, base, constant=0.3), joint(GLASS) * np.exp(0.3)


def table_case(base=None, depth=None):
    path = TablePath((2, 2, 2, 3), XOR, base, depth, constant=-0.2)
    grid = np.indices((2, 2, 2, 3))
    total = sum(factor.log_values[tuple(grid[v] for v in factor.variables)] for factor in XOR)
    return path, np.exp(total - 0.2)


def random_case(seed):
    rng = np.random.default_rng(seed)
    network = random_markov(rng, most_variables=5)
    while joint(network).sum() == 0:
        network = random_markov(rng, most_variables=5)
    return TablePath(network.n_states, network.factors), joint(network)


def directed_case(seed):
    """Evidence on one node that has ancestors; nodes that are no ancestors add up to 1."""
    rng = np.random.default_rng(seed)
    while True:
        network = random_categorical(rng, most_nodes=5)
        last = max(range(len(network.names)), key=lambda v: len(network.parents[v]))
        evidence = Evidence({last: len(network.states[last]) - 1}, {})
        found, total = directed_path(network, evidence), joint(network, evidence)
        if network.parents[last] and found is not None and total.sum() > 0.05:
            others = tuple(v for v in range(total.ndim) if v not in found.variables)
            return found.path, total.sum(axis=others)


CASES = {
    "spins": lambda: spin_case(),
    "spins, other base": lambda: spin_case(SKEWED.normal(0, 0.5, 6)),
    "tables": lambda: table_case(),
    "tables, shallow": lambda: table_case(depth=1.0),
    "tables, independent base": lambda: table_case([[0.4, 0.6], [0.7, 0.3], [0.5, 0.5], [0.2, 0.3, 0.5]]),
    "tables of spins": lambda: (TablePath(GLASS.n_states, GLASS.factors), joint(GLASS)),
    **{f"random {seed}": lambda seed=seed: random_case(seed) for seed in (1, 2, 3)},
    **{f"directed {seed}": lambda seed=seed: directed_case(seed) for seed in (1, 2, 5)},
}
N_STEPS = (1, 3, 12)


def mean_z(log_weights, log_z):
    """z-value of the mean weight against Z, from at least 4000 independent weights."""
    ratio = np.exp(log_weights - log_z)
    assert len(ratio) >= 4000
    spread = ratio.std(ddof=1) / np.sqrt(len(ratio))
    return abs(ratio.mean() - 1) / spread if spread > 1e-12 else float(abs(ratio.mean() - 1) > 1e-9) * np.inf


def exact_draws(density, n, rng):
    flat = rng.choice(density.size, n, p=density.ravel() / density.sum())
    return np.stack(np.unravel_index(flat, density.shape), axis=1)


@pytest.mark.parametrize("name", CASES)
def test_the_mean_weight_is_z(name):
    path, density = CASES[name]()
    for n_steps in N_STEPS:
        run = anneal(path, linear(n_steps), 8192, np.random.default_rng(SEED + n_steps))
        assert mean_z(run.log_weights, np.log(density.sum())) < z_limit(len(CASES) * len(N_STEPS))
        possible = density[tuple(run.states.T)] > 0
        assert (possible == (run.log_weights > -np.inf)).all()


@pytest.mark.parametrize("name", CASES)
def test_the_mean_inverse_weight_is_one_over_z(name):
    path, density = CASES[name]()
    rng = np.random.default_rng(SEED + 1)
    for n_steps in N_STEPS:
        back = anneal_back(path, linear(n_steps), exact_draws(density, 8192, rng), rng)
        forward = anneal(path, linear(n_steps), 16384, rng)
        share = (forward.log_weights > -np.inf).mean()  # of the base that leads to possible states
        ratio = np.exp(np.log(density.sum()) - back.log_weights)
        error = np.sqrt(ratio.var() / len(ratio) + share * (1 - share) / len(forward.log_weights))
        if error > 1e-12:
            assert abs(ratio.mean() - share) / error < z_limit(len(CASES) * len(N_STEPS))


def test_draws_that_are_not_exact_are_found_out():
    path, density = spin_case()
    rng = np.random.default_rng(SEED + 2)
    wrong = rng.integers(0, 2, (8192, 6))
    back = anneal_back(path, linear(3), wrong, rng)
    assert mean_z(-back.log_weights, -np.log(density.sum())) > 2 * z_limit(100)


def by_hand(path, density, betas, rng, broken=""):
    """The forward run of spins in steps: moves by the compiled sweep, weights by the definition."""
    sizes = density.shape
    states, log_weights = path.forward(np.array([0.0, 1.0]), rng)[1], np.full(512, path.log_z0)
    base = path.arrays.base
    for k in range(1, len(betas)):

        def ratio(rows, k=k):
            spins = 2.0 * rows - 1
            return (betas[k] - betas[k - 1]) * (path.log_value(rows) - path.constant - spins @ base)

        weighed = ratio(states)
        beta = betas[min(k + 1, len(betas) - 1)] if broken == "moves" else betas[k]
        states = one_sweep(path, beta, states, rng, is_reversed=False)
        log_weights = log_weights + (ratio(states) if broken == "weights" else weighed)
    assert sizes == (2,) * path.n_variables
    return log_weights


def one_sweep(path, beta, states, rng, is_reversed):
    plan = np.full(3, beta)  # no weight, one sweep
    if isinstance(path, SpinPath):
        from doxa.inference.spins.words import WORK_SIZE, aligned, aligned_zeros, fresh_streams

        parts = pack_spins(states), aligned(fresh_streams(rng)), aligned_zeros(WORK_SIZE)
        return path._anneal(plan, is_reversed, 1, *parts)[1]
    return path._anneal(plan, is_reversed, 1, states.copy(), rng)[1]


@pytest.mark.parametrize("broken", ["", "weights", "moves"])
def test_weights_made_by_hand(broken):
    path, density = spin_case()
    rng = np.random.default_rng(SEED + 3)
    runs = [by_hand(path, density, linear(3), rng, broken) for _ in range(24)]
    z = mean_z(np.concatenate(runs), np.log(density.sum()))
    assert z < z_limit(3) if not broken else z > 2 * z_limit(3)


def sweep_matrix(density, order):
    """Heat bath of the variables in this order."""
    n = density.size
    matrix = np.eye(n)
    for i in order:
        move = np.zeros((n, n))
        conditional = density / density.sum(axis=i, keepdims=True)
        for state in range(n):
            at = list(np.unravel_index(state, density.shape))
            for s in range(density.shape[i]):
                at[i] = s
                move[state, np.ravel_multi_index(at, density.shape)] += conditional[tuple(at)]
        matrix = matrix @ move
    return matrix


def softened(path, beta, shape):
    """The density at beta, by the definition, from the cells of the kernel's tables or the fields of the spins."""
    rows = np.indices(shape).reshape(len(shape), -1).T
    if isinstance(path, SpinPath):
        base = (2.0 * rows - 1) @ path.arrays.base
        return np.exp((1 - beta) * base + beta * (path.log_value(rows) - path.constant)).reshape(shape)
    grid, total, cell = np.indices(shape), np.zeros(shape), 0
    for factor in path.factors:
        own = slice(cell, cell + factor.log_values.size)
        table = (path.tables.low[own] + beta * path.tables.rise[own]).reshape(factor.log_values.shape)
        total = total + table[tuple(grid[v] for v in factor.variables)]
        cell += factor.log_values.size
    return np.exp(total)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("name", ["spins", "spins, other base", "tables"])
def test_a_sweep_is_its_matrix(name, is_reversed):
    path, density = CASES[name]()
    rng, beta = np.random.default_rng(SEED + 4), 0.6
    n = density.ndim
    order = range(n)[::-1] if is_reversed else range(n)
    target = softened(path, beta, density.shape)
    matrix = sweep_matrix(target, order)
    assert np.abs(target.ravel() @ matrix / target.sum() - target.ravel() / target.sum()).max() < 1e-14
    counts = np.zeros(matrix.shape, dtype=np.int64)
    for _ in range(60):
        before = np.stack([rng.integers(0, size, 512) for size in density.shape], axis=1).astype(np.int32)
        after = one_sweep(path, beta, before, rng, is_reversed)
        pairs = [np.ravel_multi_index(tuple(rows.T.astype(int)), density.shape) for rows in (before, after)]
        np.add.at(counts, tuple(pairs), 1)
    z, compared = compare_transitions(counts, matrix)
    assert compared > 50
    assert z < z_limit(compared * 6)
    wrong = sweep_matrix(softened(path, beta + 0.3, density.shape), order)
    assert compare_transitions(counts, wrong)[0] > z_limit(compared * 6)


def test_every_class_of_thresholds():
    """Strong fields and couplings take the other way to the thresholds; couplings of one size, and all different."""
    rng = np.random.default_rng(SEED + 5)
    for scale in (0.3, 200.0):
        for couplings in (np.full(12, scale), rng.normal(0, scale, 12)):
            network = ising_grid(3, 3, coupling=couplings, field=rng.normal(0, scale, 9))
            path = SpinPath(network.edges, network.couplings, network.fields)
            states = rng.integers(0, 2, (512, 9)).astype(np.uint8)
            after = one_sweep(path, 1.0, states, rng, is_reversed=False)
            last = 2.0 * after - 1
            field = network.fields[8] + last[:, [7, 5]] @ network.couplings[[5, 11]]
            p = 1 / (1 + np.exp(np.clip(-2 * field, -700, 700)))
            gap = (after[:, 8] - p).sum()
            assert abs(gap) <= z_limit(4) * np.sqrt((p * (1 - p)).sum()) + 1e-9


def test_variances_are_those_of_the_log_weights():
    for path, _ in (spin_case(), table_case()):
        run = anneal(path, linear(20), path.block, np.random.default_rng(SEED))
        finite = run.log_weights[run.log_weights > -np.inf]
        if len(finite) == path.block:
            assert run.variances[-1] == pytest.approx(finite.var(ddof=1))
        assert (run.variances >= 0).all()


@pytest.mark.parametrize("case", [spin_case, table_case])
def test_seed_and_workers(case):
    path, density = case()
    runs = [anneal(path, linear(5), 1100, np.random.default_rng(7), workers=workers) for workers in (1, 3)]
    assert (runs[0].log_weights == runs[1].log_weights).all()
    assert (runs[0].states == runs[1].states).all()
    assert len(runs[0].log_weights) == -(-1100 // path.block) * path.block
    draws = exact_draws(density, 700, np.random.default_rng(1))
    backs = [anneal_back(path, linear(5), draws, np.random.default_rng(7), workers=workers) for workers in (1, 3)]
    assert (backs[0].log_weights == backs[1].log_weights).all()
    assert len(backs[0].log_weights) == 700
    assert (anneal(path, linear(5), 64, np.random.default_rng(8)).log_weights[:64] != runs[0].log_weights[:64]).any()


def test_schedules():
    for betas in (linear(7), geometric(7)):
        assert len(betas) == 8
        assert betas[0] == 0
        assert betas[-1] == 1
        assert (np.diff(betas) > 0).all()
    path, _ = spin_case()
    run = anneal(path, linear(50), 2048, np.random.default_rng(SEED))
    schedule = adapted(run, 30)
    assert (np.diff(schedule.betas) > 0).all()
    again = anneal(path, schedule.betas, 2048, np.random.default_rng(SEED + 1))
    assert again.variances[-1] < 1.5 * schedule.variance


def test_an_adapted_schedule_beats_a_linear_one():
    network = ising_grid(6, 6, coupling=4.0)  # all happens at small beta
    path = SpinPath(network.edges, network.couplings, network.fields)
    pilot = anneal(path, linear(400), 512, np.random.default_rng(SEED))
    after = anneal(path, adapted(pilot, 400).betas, 512, np.random.default_rng(SEED + 1))
    assert after.variances[-1] < 0.7 * pilot.variances[-1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpinPath([[0, 1]], 0.1, [0.0, 0.0], [0.0]), r"base has shape \(1,\) but there are 2 sites"),
        (lambda: SpinPath([[0, j] for j in range(1, 9)], np.arange(1.0, 9), np.zeros(9)), "more than 64 classes"),
        (lambda: TablePath((2,), [Factor((0,), np.full(2, -np.inf))]), "-inf everywhere"),
        (lambda: TablePath((2,), [], depth=0.0), "depth is 0.0; it must be a positive"),
        (lambda: TablePath((2,), [], [[1.0, 0.0]]), r"base\[0\] is \[1.0, 0.0\]; it must be 2 positive"),
        (lambda: TablePath((2, 2), [], [[0.5, 0.5]]), "base has 1 entries"),
        (
            lambda: TablePath((2,), [Factor((0,), np.zeros(2))], {0: 1}),
            r"factors\[0\] is of variable 1; it is over \(0,\)",
        ),
        (lambda: TablePath((2, 2), [Factor((0,), np.zeros(2))], {0: 0}), "one conditional distribution"),
        (lambda: anneal(spin_case()[0], [0.0, 0.5], 2, np.random.default_rng()), "rise from 0.0 to 1.0"),
        (lambda: anneal(spin_case()[0], linear(2), 1, np.random.default_rng()), "n is 1; it must be at least 2"),
        (lambda: anneal_back(spin_case()[0], linear(2), [[0, 1]], np.random.default_rng()), r"it must be \(n, 6\)"),
        (lambda: pack_spins(np.zeros((3, 2))), r"it must be \(512, n\)"),
        (lambda: geometric(3, 1.0), "first is 1.0"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_base_with_a_cycle():
    pair = np.log(np.full((2, 2), 0.5))
    path = TablePath((2, 2), [Factor((0, 1), pair), Factor((1, 0), pair)], {0: 1, 1: 0})
    with pytest.raises(ArgumentError, match="cycle"):
        path.forward(linear(2), np.random.default_rng())
