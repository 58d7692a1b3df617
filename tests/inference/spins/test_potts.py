"""Potts chains beside enumeration."""

from __future__ import annotations

import pickle
from functools import reduce
from itertools import product

import numpy as np
import pytest
from ising_cases import grid_edges
from scipy.special import softmax, stdtrit

from doxa.errors import ArgumentError
from doxa.inference.spins import PottsBitParallel, PottsGibbs, PottsModel
from doxa.inference.spins.chain import _pick, _weigh
from doxa.sampling.driver import Schedule, sample
from doxa.testing import cycle_matrix, gibbs_matrix, mixture_matrix
from support.checks import FALSE_ALARM, SEED, compare_transitions, z_limit


def potts(edges, n, q, seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    return PottsModel(edges, rng.normal(0.2, scale, len(edges)), rng.normal(0, 0.5, (n, q)))


MODELS = {
    "one site": PottsModel([], [], [[0.3, -0.2, 0.9]]),
    "triangle": potts([[0, 1], [2, 1], [0, 2]], 3, 3),
    "isolated": PottsModel([[0, 2]], 0.8, [[0.0, 0.5], [0.3, 0.0], [0.0, -0.4]]),
    "2 x 2": PottsModel(grid_edges(2, 2), 0.6, np.tile([0.1, 0.0, -0.1], (4, 1))),
    "no coupling": PottsModel([[0, 1]], 0.0, [[0.0, 0.5, 1.0], [0.3, 0.0, 0.2]]),
    "strong": PottsModel([[0, 1], [1, 2]], [50.0, -50.0], [[0.0, 0.3], [0.0, 0.0], [0.1, 0.0]]),
    "too far to multiply": PottsModel([[0, 1], [1, 2]], [0.4, -0.6], [[0.0, 0.3, -900.0], [0.0] * 3, [0.1, 0.0, 0.2]]),
}
SCANS = ("coloured", "cyclic", "random")


def all_states(model):
    return np.array(list(product(range(model.n_states), repeat=model.n_sites)))


def number(model, states):
    return (states @ model.n_states ** np.arange(model.n_sites)[::-1]).astype(np.intp)


def exact(model):
    x = all_states(model)
    log_p = model.fields[np.arange(model.n_sites), x].sum(axis=1)
    for (i, j), coupling in zip(model.graph.edges, model.graph.couplings, strict=True):
        log_p += coupling * (x[:, i] == x[:, j])
    return softmax(log_p)


def kernel_matrices(sampler):
    """A matrix for each site in the order of the scan, from the compiled weights."""
    order, model = sampler._numbered
    is_tame = bool(model.is_tame.all())
    own = model.fields - model.fields.max(axis=1, keepdims=True)
    weights = (np.exp(own), np.exp(model.graph.strengths)) if is_tame else (own, model.graph.strengths)
    x, work = all_states(sampler.model), np.zeros(model.n_states)
    found = []
    for t, i in enumerate(order):
        matrix = np.zeros((len(x), len(x)))
        for k, states in enumerate(x):
            total = _weigh(model.graph, weights, is_tame, states[order].astype(np.int16), t, work)
            after = np.repeat(states[None], model.n_states, axis=0)
            after[:, i] = np.arange(model.n_states)
            matrix[k, number(model, after)] = work / total
        found.append(matrix)
    return found


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("name", MODELS)
def test_a_sweep(name, scan):
    model = MODELS[name]
    sampler = PottsGibbs(model, scan, keep_states=True)
    p, each = exact(model), kernel_matrices(sampler)
    joint = p.reshape((model.n_states,) * model.n_sites)
    for i, matrix in zip(sampler.order, each, strict=True):
        assert np.abs(p @ matrix - p).max() < 1e-12
        if name != "too far to multiply":  # there p has zeros
            assert np.abs(matrix - gibbs_matrix(joint, int(i))).max() < 1e-12
    n = model.n_sites
    whole = np.linalg.matrix_power(mixture_matrix(each), n) if scan == "random" else cycle_matrix(each)
    state = sampler.init(np.random.default_rng(SEED))
    _, draws, _ = sampler.run(state, 40_000, np.random.default_rng(0))
    path = number(model, np.concatenate([state.states[None], draws["states"]]))
    counts = np.bincount(path[:-1] * len(p) + path[1:], minlength=len(p) ** 2).reshape(len(p), -1)
    z, compared = compare_transitions(counts, whole)
    assert z < z_limit(max(compared, 1))  # strong couplings leave nothing to chance, but every move is a possible one
    if name in ("triangle", "2 x 2", "isolated"):
        assert compared > len(p)
        broken = PottsGibbs(PottsModel(model.graph.edges, -model.graph.couplings, model.fields), scan)
        z, compared = compare_transitions(counts, reduce(np.matmul, kernel_matrices(broken)))
        assert z > z_limit(compared)
    assert np.abs(draws["energy"] - model.energy(draws["states"])).max() < 1e-10
    shares = (draws["states"][:, :, None] == np.arange(model.n_states)).mean(axis=1)
    assert np.abs(draws["shares"] - shares).max() < 1e-14


@pytest.mark.parametrize("scan", SCANS)
def test_marginals(scan):
    model = potts(grid_edges(3, 2), 6, 3, seed=1)
    sampler = PottsGibbs(model, scan, thin=2)
    state, _, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 100, np.random.default_rng(0))
    _, draws, _ = sampler.run(state, 40_000, np.random.default_rng(0))
    x = all_states(model)
    for weights, is_right in ((exact(model), True), (exact(potts(grid_edges(3, 2), 6, 3, seed=2)), False)):
        truth = np.stack([weights @ (x == a) for a in range(3)], axis=1)
        means = draws["probability"].reshape(50, -1, 6, 3).mean(axis=1)
        z = (means.mean(axis=0) - truth) / (means.std(axis=0, ddof=1) / np.sqrt(50))
        assert (np.abs(z).max() < stdtrit(49, 1 - FALSE_ALARM / (2 * z.size))) == is_right
    assert np.abs(draws["probability"].sum(axis=2) - 1).max() < 1e-12


def test_probability_is_the_conditional_at_the_moment_of_drawing():
    model = potts(grid_edges(3, 2), 6, 4, seed=3)
    for scan in SCANS:
        sampler = PottsGibbs(model, scan, keep_states=True)
        state = sampler.init(np.random.default_rng(SEED))
        _, draws, _ = sampler.run(state, 20, np.random.default_rng(0))
        coupled = np.zeros((6, 6))
        for (i, j), coupling in zip(model.graph.edges, model.graph.couplings, strict=True):
            coupled[i, j] = coupled[j, i] = coupling
        before = state.states.copy()
        for step, after in enumerate(draws["states"]):
            if scan == "random":
                before[:] = after
            for i in sampler.order:
                agreeing = (before[:, None] == np.arange(4)).T @ coupled[i]
                assert draws["probability"][step, i] == pytest.approx(softmax(model.fields[i] + agreeing), abs=1e-14)
                before[i] = after[i]


def test_states_of_weight_zero_are_never_picked():
    work = np.array([0.0, 0.3, 0.0, 0.2, 0.0])
    assert [_pick(work, u) for u in (0.0, 0.29, 0.3, 0.49, 0.5, 0.6)] == [1, 1, 3, 3, 3, 3]


def test_strong_couplings_freeze():
    model = PottsModel(grid_edges(3, 3), 1000.0, np.tile([0.0, 0.0, 5000.0], (9, 1)))
    sampler = PottsGibbs(model)
    state, draws, _ = sampler.run(sampler.init(np.random.default_rng(SEED)), 5, np.random.default_rng(0))
    assert (state.states == 2).all()
    assert np.isfinite(draws["energy"]).all()


@pytest.mark.parametrize("kind", [PottsGibbs, PottsBitParallel])
def test_runs_depend_on_the_seed_alone(kind):
    make = lambda: kind(potts(grid_edges(3, 4), 12, 3), thin=3, keep_states=True)  # noqa: E731
    whole = sample(make(), Schedule(2, 40, 10), seed=7, workers=1)
    for options in ({"workers": 2}, {"workers": 1, "block": 1}):
        other = sample(make(), Schedule(2, 40, 10), seed=7, **options)
        for key in whole.names:
            assert (whole[key] == other[key]).all()
    sampler = make()
    sampler.run(sampler.init(np.random.default_rng(1)), 3, np.random.default_rng(0))
    assert "_numbered" not in pickle.loads(pickle.dumps(sampler)).__dict__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], [[0.0], [0.0]]), "fields has 1 states a site; there must be 2 to 32767"),
        (([], [], [0.0, 0.0]), "fields has shape (2,); it must be (n_sites, n_states), with at least one site"),
        (([[0, 0]], 1.0, [[0.0, 0.0]]), "edges[0] joins site 0 with itself, which changes nothing; leave it out"),
        (
            ([], [], [[0.0, np.nan]]),
            "fields[0][1] is nan; it must be finite: leave out a site whose state is known, and add its couplings to "
            "the fields",
        ),
    ],
)
def test_bad_models(arguments, message):
    with pytest.raises(ArgumentError) as raised:
        PottsModel(*arguments)
    assert str(raised.value) == message


def test_bad_samplers():
    model = MODELS["triangle"]
    with pytest.raises(ArgumentError, match="scan is 'odd'; it must be one of 'coloured', 'cyclic', 'random'"):
        PottsGibbs(model, "odd")
    with pytest.raises(ArgumentError, match="thin is 0; it must be at least 1"):
        PottsGibbs(model, thin=0)
