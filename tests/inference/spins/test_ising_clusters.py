"""Swendsen-Wang: the step as a matrix, summed over all sets of bonds, and the compiled step beside it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from ising_cases import SMALL, all_spins, even_grid, exact, number, random_graph, uneven_grid
from scipy.special import expit, stdtrit

from doxa.inference.spins import IsingModel, SwendsenWang
from support.checks import FALSE_ALARM, SEED, compare_transitions, z_limit

STRONG_FIELDS = IsingModel([[0, 1], [1, 2], [2, 3], [3, 0]], [0.8, -0.3, 0.5, 0.9], [1.0, -0.7, 0.2, -0.4])
MODELS = {name: SMALL[name] for name in SMALL if name != "strong"} | {"strong fields": STRONG_FIELDS}


def clusters(n, bonds):
    """A label for every site, the same within a cluster."""
    label = list(range(n))
    for i, j in bonds:
        label = [label[i] if k == label[j] else k for k in label]
    return np.array(label)


def step_matrix(model, with_fields=True):
    """Sum over bonds of P(bonds | s) P(s' | bonds), and P(s_i' = +1 | bonds) averaged over the bonds of each state."""
    n, edges, couplings = model.n_sites, model.graph.edges, model.graph.couplings
    states = all_spins(n)
    matrix, up = np.zeros((2**n, 2**n)), np.zeros((2**n, n))
    for k, s in enumerate(states):
        agrees = couplings * s[edges[:, 0]] * s[edges[:, 1]] > 0
        p_bond = np.where(agrees, 1 - np.exp(-2 * np.abs(couplings)), 0)
        for bonds in product([False, True], repeat=len(edges)):
            p = np.prod(np.where(bonds, p_bond, 1 - p_bond))
            if p == 0:
                continue
            label = clusters(n, edges[np.array(bonds, dtype=bool)])
            names = np.unique(label)
            staying = [expit(2 * (model.fields * s)[label == name].sum()) if with_fields else 0.5 for name in names]
            for stays in product([False, True], repeat=len(names)):
                after = s * np.where(np.isin(label, names[np.array(stays)]), 1, -1)
                q = p * np.prod(np.where(stays, staying, 1 - np.array(staying)))
                matrix[k, number(after)] += q
                up[k] += q * (after > 0)
    return matrix, up


def path_of(model, n_steps):
    sampler = SwendsenWang(model, keep_spins=True)
    state = sampler.init(np.random.default_rng(SEED))
    _, draws, _ = sampler.run(state, n_steps, np.random.default_rng(0))
    spins = np.concatenate([state.spins[None] > 0, np.unpackbits(draws["spins"], axis=1, count=model.n_sites)])
    return number(spins), draws


@pytest.mark.parametrize("name", MODELS)
def test_a_step(name):
    model = MODELS[name]
    matrix, up = step_matrix(model)
    p, size = exact(model), 2**model.n_sites
    assert np.abs(p @ matrix - p).max() < 1e-12
    path, draws = path_of(model, 50_000)
    counts = np.bincount(path[:-1] * size + path[1:], minlength=size**2).reshape(size, size)
    z, compared = compare_transitions(counts, matrix)
    assert compared >= 2
    assert z < z_limit(compared)
    z, compared = compare_transitions(counts, step_matrix(model, with_fields=False)[0])
    assert z > z_limit(compared)
    for k in range(size):  # given the state, `up` has the mean that the sum over bonds has
        visits = draws["up"][path[:-1] == k]
        if len(visits) >= 100:
            error = np.maximum(visits.std(axis=0) / np.sqrt(len(visits)), 1e-12)
            assert (np.abs(visits.mean(axis=0) - up[k]) < z_limit(size * model.n_sites) * error).all()
    assert np.abs(draws["energy"] - model.energy(all_spins(model.n_sites))[path[1:]]).max() < 1e-12


@pytest.mark.parametrize("model", [uneven_grid(3, 3), even_grid(3, 3, coupling=0.6), random_graph(8, 20, seed=8)])
def test_marginals(model):
    _, draws = path_of(model, 40_000)
    p = exact(model)
    for values, truth, wrong in (
        (draws["up"], p @ (all_spins(model.n_sites) > 0), exact(IsingModel([], [], model.fields))),
        (draws["energy"], p @ model.energy(all_spins(model.n_sites)), None),
    ):
        means = values.reshape(50, 800, -1).mean(axis=1)
        error = means.std(axis=0, ddof=1) / np.sqrt(50)
        limit = stdtrit(49, 1 - FALSE_ALARM / (2 * means.shape[1]))
        assert (np.abs(means.mean(axis=0) - truth) / error).max() < limit
        if wrong is not None:
            broken = wrong @ (all_spins(model.n_sites) > 0)
            assert (np.abs(means.mean(axis=0) - broken) / error).max() > limit


def test_it_crosses_where_single_spins_do_not():
    """Below the critical temperature, without a field: up and down are equally probable."""
    sampler = SwendsenWang(even_grid(16, 16, periodic=True, coupling=0.6, field=0.0), marginals=False)
    _, draws, info = sampler.run(sampler.init(np.random.default_rng(SEED)), 400, np.random.default_rng(0))
    signs = np.sign(draws["magnetisation"][50:])
    assert (signs[1:] != signs[:-1]).mean() > 0.3
    assert np.abs(draws["magnetisation"][50:]).mean() > 0.9
    assert 400 < info["clusters"] < 400 * 256


def test_draws_do_not_depend_on_blocks():
    model = uneven_grid(4, 5)
    sampler = SwendsenWang(model, thin=2, keep_spins=True)
    state = sampler.init(np.random.default_rng(SEED))
    end, draws, _ = sampler.run(state, 40, np.random.default_rng(0))
    now, first, _ = sampler.run(state, 6, np.random.default_rng(0))
    now, second, _ = sampler.run(now, 34, np.random.default_rng(0))
    assert all((a == b).all() for a, b in zip(now, end, strict=True))
    for name, values in draws.items():
        assert (np.concatenate([first[name], second[name]]) == values).all()
