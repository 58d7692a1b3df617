"""Sixty-four Potts chains at a time, beside a plain twin, enumeration and the Ising law."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from ising_cases import Xoshiro, conditionals, grid_edges, scan_matrix, uneven_grid
from scipy.special import softmax, stdtrit
from test_potts import all_states, exact, number, potts

from doxa.errors import ArgumentError
from doxa.inference.spins import PottsBitParallel, PottsGibbs, PottsModel, unpack_potts_lanes
from doxa.sampling.driver import Schedule, sample
from doxa.testing import cycle_matrix, gibbs_matrix
from support.checks import FALSE_ALARM, SEED, compare_transitions, z_limit

NEVER = -np.inf
MODELS = {
    "two states": potts([[0, 1], [2, 1], [0, 2]], 3, 2, seed=4),
    "triangle": potts([[0, 1], [2, 1], [0, 2]], 3, 3),
    "2 x 2, four states": potts(grid_edges(2, 2), 4, 4, seed=2),
    "five states": potts([[0, 1], [1, 2]], 3, 5, seed=5),
    "even": PottsModel(grid_edges(2, 2), 0.6, np.tile([0.1, 0.0, -0.1], (4, 1))),
    "isolated": PottsModel([[0, 2]], 0.8, [[0.0, 0.5], [0.3, 0.0], [0.0, -0.4]]),
    "one site": PottsModel([], [], [[0.3, -0.2, 0.9]]),
    "strong field": PottsModel([[0, 1], [1, 2]], [0.7, -0.4], [[0.0, 9.0, 0.0], [40.0, 0.0, 41.0], [0.0, 0.2, -500.0]]),
    "strong coupling": PottsModel([[0, 1], [1, 2]], [50.0, -50.0], [[0.0, 0.3], [0.0, 0.0], [0.1, 0.0]]),
    "too far to multiply": PottsModel([[0, 1], [1, 2]], [0.4, -0.6], [[0.0, 0.3, -900.0], [0.0] * 3, [0.1, 0.0, 0.2]]),
    "forbidden": PottsModel([[0, 1], [1, 2]], [0.9, -0.6], [[0.0, 0.3, NEVER], [NEVER, 0, NEVER], [NEVER, 0.0, 0.2]]),
    "forbidden and far": PottsModel([[0, 1]], [0.9], [[0.0, 0.3, NEVER], [NEVER, -800.0, -800.5]]),
}
LIVELY = ("two states", "triangle", "2 x 2, four states", "five states", "even", "isolated")


def weights_of(model, i, states, broken=None):
    """Weights as the kernel multiplies or adds them, rounded alike."""
    graph = model.graph
    own = model.fields[i] - model.fields[i].max()
    is_tame = model.is_tame[i]
    found = [np.exp(h) if is_tame else h for h in own]
    for e in range(graph.starts[i], graph.starts[i + 1]):
        strength = -graph.strengths[e] if broken == "sign" else graph.strengths[e]
        a = states[graph.neighbours[e]]
        found[a] = found[a] * np.exp(strength) if is_tame else found[a] + strength
    if not is_tame:
        found = [math.exp(weight - max(found)) for weight in found]
    return found[::-1] if broken == "field" else found


def sweep(sampler, states, random):
    """The twin of one sweep: states (64, n) in place."""
    order, model = sampler._numbered
    states[:] = states[:, order]
    for i in range(model.n_sites):
        u = [random.uniform(lane % 8) for lane in range(64)]
        for lane in range(64):
            reached = np.cumsum(weights_of(model, i, states[lane]))
            states[lane, i] = int(np.argmax(u[lane] * reached[-1] < reached))
    states[:, order] = states.copy()


def scan(model, order, broken=None):
    """A matrix for each site in the order of the scan, from the twin's weights."""
    x, found = all_states(model), []
    for i in order:
        matrix = np.zeros((len(x), len(x)))
        for k, states in enumerate(x):
            after = np.repeat(states[None], model.n_states, axis=0)
            after[:, i] = np.arange(model.n_states)
            weights = np.array(weights_of(model, i, states, broken))
            matrix[k, number(model, after)] = weights / weights.sum()
        found.append(matrix)
    return found


def run(sampler, n_steps, seed=SEED):
    state = sampler.init(np.random.default_rng(seed))
    after, draws, info = sampler.run(state, n_steps, np.random.default_rng(0))
    return state, after, draws, info


@pytest.mark.parametrize("name", MODELS)
def test_the_twin_draws_the_same(name):
    sampler = PottsBitParallel(MODELS[name])
    state, after, _, info = run(sampler, 3)
    states, random = unpack_potts_lanes(state.words), Xoshiro(state.streams)
    for _ in range(3):
        sweep(sampler, states, random)
    assert (unpack_potts_lanes(after.words) == states).all()
    assert (after.streams == random.streams).all()
    assert info == {"updates": 64 * MODELS[name].n_sites * 3}
    assert (np.bitwise_or.reduce(after.words, axis=1) == np.uint64(2**64 - 1)).all()  # every chain in one state
    assert (np.bitwise_count(after.words).sum(axis=1) == 64).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_sweep_leaves_the_distribution_as_it_is(name):
    model = MODELS[name]
    sampler = PottsBitParallel(model, keep_states=True)
    p, each = exact(model), scan(model, sampler.order)
    for i, matrix in zip(sampler.order, each, strict=True):
        assert np.abs(p @ matrix - p).max() < 1e-12
        if name in LIVELY:
            joint = p.reshape((model.n_states,) * model.n_sites)
            assert np.abs(matrix - gibbs_matrix(joint, int(i))).max() < 1e-12
    state, _, draws, _ = run(sampler, 8000)
    path = number(model, paths(state, draws))
    counts = np.bincount((path[:, :-1] * len(p) + path[:, 1:]).ravel(), minlength=len(p) ** 2).reshape(len(p), -1)
    z, compared = compare_transitions(counts, cycle_matrix(each))
    assert z < z_limit(max(compared, 1))
    if name in LIVELY:
        assert compared > len(p)
        for broken in ("sign", "field"):
            z, compared = compare_transitions(counts, reduce(np.matmul, scan(model, sampler.order, broken)))
            assert z > z_limit(compared)
    states = unpack_potts_lanes(draws["states"])
    assert np.abs(draws["energy"].T - model.energy(states)).max() < 1e-10
    shares = (states[..., None] == np.arange(model.n_states)).mean(axis=2)
    assert np.abs(np.moveaxis(draws["shares"], 1, 0) - shares).max() < 1e-14


def paths(state, draws):
    """States (64, steps + 1, n), the start included."""
    return unpack_potts_lanes(np.concatenate([state.words[None], draws["states"]]))


@pytest.mark.parametrize("broken", [False, True])
def test_two_states_are_the_ising_law(broken):
    """A coupling J of spins is one of 2 J of states that agree; a twin without the 2 is told apart."""
    ising = uneven_grid(2, 2)
    factor = 1 if broken else 2
    fields = np.stack([-ising.fields, ising.fields], axis=1)
    sampler = PottsBitParallel(PottsModel(ising.graph.edges, factor * ising.graph.couplings, fields), keep_states=True)
    state, _, draws, _ = run(sampler, 3000)
    path = number(sampler.model, paths(state, draws))
    spins = 2 * all_states(sampler.model) - 1
    matrix = scan_matrix(4, sampler.order, conditionals(ising, spins))
    counts = np.bincount((path[:, :-1] * 16 + path[:, 1:]).ravel(), minlength=256).reshape(16, 16)
    z, compared = compare_transitions(counts, matrix)
    assert compared > 100
    assert (z > z_limit(compared)) == broken


def largest_correlation(states):
    """Of any two chains' energies and states: z-values; states (64, draws, ...), independent draws."""
    flat = (states - states.mean(axis=1, keepdims=True)) / states.std(axis=1, keepdims=True)
    found = flat @ flat.T / flat.shape[1]
    return np.abs(found[np.triu_indices(64, 1)]).max() * np.sqrt(flat.shape[1])


def test_chains_are_independent():
    model = potts(grid_edges(3, 2), 6, 3, seed=1)
    _, _, draws, _ = run(PottsBitParallel(model, thin=10, keep_states=True), 40_000)
    energy = draws["energy"].T.copy()
    assert largest_correlation(energy) < z_limit(64 * 63 // 2)
    states = unpack_potts_lanes(draws["states"])
    first = (states[:, :, 0] == 1).astype(float)
    assert largest_correlation(first) < z_limit(64 * 63 // 2)
    energy[63] = 0.9 * energy[63] + 0.3 * energy[5]
    assert largest_correlation(energy) > z_limit(64 * 63 // 2)
    assert len(np.unique(states[:, 0], axis=0)) > 20


@pytest.mark.parametrize("name", ["triangle", "five states", "forbidden", "too far to multiply"])
def test_probability_is_the_conditional_at_the_moment_of_drawing(name):
    model = MODELS[name]
    sampler = PottsBitParallel(model, keep_states=True)
    state, _, draws, _ = run(sampler, 20)
    coupled = np.zeros((model.n_sites,) * 2)
    for (i, j), coupling in zip(model.graph.edges, model.graph.couplings, strict=True):
        coupled[i, j] = coupled[j, i] = coupling
    path = paths(state, draws)
    before = path[:, 0].copy()
    for step in range(20):
        for i in sampler.order:
            agreeing = np.einsum("lja,j->la", before[:, :, None] == np.arange(model.n_states), coupled[i])
            found = softmax(model.fields[i] + agreeing, axis=1).reshape(8, 8, -1).mean(axis=0)
            assert draws["probability"][step, :, i] == pytest.approx(found, abs=1e-14)
            before[:, i] = path[:, step + 1, i]


def test_marginals():
    model = potts(grid_edges(3, 2), 6, 3, seed=1)
    trace = sample(PottsBitParallel(model, thin=5), Schedule(1, 2000, 20), seed=SEED)
    groups = trace["probability"][0].reshape(50, 40, 8, 6, 3).mean(axis=1).reshape(400, 6, 3)
    x = all_states(model)
    for weights, is_right in ((exact(model), True), (exact(potts(grid_edges(3, 2), 6, 3, seed=2)), False)):
        truth = np.stack([weights @ (x == a) for a in range(3)], axis=1)
        z = (groups.mean(axis=0) - truth) / (groups.std(axis=0, ddof=1) / np.sqrt(len(groups)))
        assert (np.abs(z).max() < stdtrit(399, 1 - FALSE_ALARM / (2 * z.size))) == is_right
    assert np.abs(trace["probability"].sum(axis=-1) - 1).max() < 1e-12


@pytest.mark.parametrize("name", ["2 x 2, four states", "forbidden", "too far to multiply"])
def test_draws_depend_on_neither_blocks_nor_thinning(name):
    sampler = PottsBitParallel(MODELS[name], keep_states=True)
    state, end, draws, _ = run(sampler, 60)
    now, blocks = state, []
    for size in (1, 0, 9, 50):
        now, block, _ = sampler.run(now, size, np.random.default_rng(1))
        blocks.append(block)
    assert all((a == b).all() for a, b in zip(now, end, strict=True))
    for key, values in draws.items():
        assert (np.concatenate([block[key] for block in blocks]) == values).all()
    thinned = PottsBitParallel(MODELS[name], thin=30, keep_states=True).run(state, 60, np.random.default_rng(1))[1]
    for key in ("energy", "shares", "states"):
        assert (thinned[key] == draws[key][29::30]).all()
    means = draws["probability"].reshape(2, 30, *draws["probability"].shape[1:]).mean(axis=1)
    assert np.abs(thinned["probability"] - means).max() < 1e-12
    bare = PottsBitParallel(MODELS[name], marginals=False).run(state, 10, np.random.default_rng(1))[1]
    assert sorted(bare) == ["energy", "shares"]
    assert (bare["energy"] == draws["energy"][:10]).all()


@pytest.mark.parametrize("make", [PottsGibbs, PottsBitParallel])
def test_forbidden_states_are_never_met(make):
    model = MODELS["forbidden"]
    state = make(model).init(np.random.default_rng(SEED))
    states = unpack_potts_lanes(state.words) if make is PottsBitParallel else state.states[None]
    assert np.isfinite(model.energy(states)).all()
    _, _, draws, _ = run(make(model, keep_states=True), 400)
    assert np.isfinite(draws["energy"]).all()
    assert (draws["probability"][..., model.fields == NEVER] == 0).all()
    starts = model.random_states(np.random.default_rng(SEED), 6000)
    share = (starts[:, [0, 2]] == [0, 1]).mean(axis=0)
    assert np.abs(share - 0.5).max() < z_limit(2) * np.sqrt(0.25 / 6000)


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="thin is 0; it must be at least 1"):
        PottsBitParallel(MODELS["triangle"], thin=0)
    with pytest.raises(ArgumentError) as raised:
        PottsModel([], [], [[0.0, 1.0], [NEVER, NEVER]])
    assert str(raised.value) == "fields[1] is -inf in every state; one at least must be possible"
    with pytest.raises(ArgumentError, match=r"fields\[0\]\[1\] is inf; it must be finite"):
        PottsModel([], [], [[0.0, np.inf]])
