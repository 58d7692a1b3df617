"""Small networks, their states one by one, and what the compiled kernel of `TableGibbs` says of a redraw."""

from __future__ import annotations

from functools import cache

import numpy as np

from doxa._jit import compiled
from doxa.inference.gibbs.kernels import redraw
from doxa.inference.problem import prepare
from doxa.inference.propagation import ImpossibleEvidenceError, determined
from doxa.inference.spins.words import uniform
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import Factor
from support.checks import SEED
from support.networks import load_network
from support.small_networks import random_categorical, random_evidence, random_markov


@compiled
def draw(streams, k):
    return uniform(streams, k)


def random_problems(n, seed=0, zeros=0.3, most_nodes=5):
    """(n_states, factors) of small networks given evidence, directed and not, with two variables or more."""
    rng = np.random.default_rng([SEED, seed])
    found = []
    while len(found) < n:
        make = random_categorical if len(found) % 2 else random_markov
        network = make(rng, most_nodes, zeros)
        try:
            problem = prepare(network, random_evidence(rng, network, 0.15)).whole()
        except ImpossibleEvidenceError:
            continue
        if len(problem.variables) >= 2 and joint_of(problem.n_states, problem.factors).any():
            found.append((problem.n_states, problem.factors))
    return found


def dense_problem(seed=0, n_states=(2, 3, 2, 2), zeros=0.0):
    """Pairs and one triple joined; the same whatever ``DOXA_TEST_SEED`` is, which moves the chains."""
    rng = np.random.default_rng([0, 77, seed])
    scopes = [(0, 1), (2, 1), (3, 0), (1, 3), (3, 2, 0), (2,)]
    factors = []
    for scope in scopes:
        table = rng.normal(size=[n_states[v] for v in scope])
        table[rng.random(table.shape) < zeros] = -np.inf
        factors.append(Factor(scope, table))
    return n_states, tuple(factors)


def log_joint_of(n_states, factors):
    """log p(x), an axis for each variable; not normalised."""
    grid = np.indices(n_states)
    total = np.zeros(n_states)
    for variables, log_values in factors:
        total = total + log_values[tuple(grid[v] for v in variables)]
    return total


def joint_of(n_states, factors):
    """p(x), the largest 1; zeros where nothing is possible."""
    total = log_joint_of(n_states, factors)
    return np.exp(total - total.max()) if np.isfinite(total.max()) else np.zeros(n_states)


def possible(n_states, factors):
    """All possible states, (n, n_variables), and their probabilities."""
    log_p = log_joint_of(n_states, factors)
    p = joint_of(n_states, factors)[log_p > -np.inf]
    return np.argwhere(log_p > -np.inf), p / p.sum()


def marginals_of(n_states, factors):
    p = joint_of(n_states, factors)
    p = p / p.sum()
    every = range(len(n_states))
    return np.concatenate([p.sum(axis=tuple(a for a in every if a != v)) for v in every])


def twin_matrix(block, n_states, factors):
    """Transitions of one redraw between all possible states, by the plain twin."""
    rows, _ = possible(n_states, factors)
    number = np.full(n_states, -1)
    number[tuple(rows.T)] = np.arange(len(rows))
    matrix = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        p = block_conditional(block, row, n_states, factors)
        for k in np.argwhere(p > 0):
            after = row.copy()
            after[list(block)] = k
            assert number[tuple(after)] >= 0
            matrix[i, number[tuple(after)]] += p[tuple(k)]
    return matrix


def kernel_matrix(sampler, block):
    """The same by the probabilities that the compiled kernel draws with."""
    layout = sampler._flat[0]
    b = sampler.scan.blocks.index(tuple(block))
    codes = sampler.tables[b].codes
    rows, _ = possible(sampler.n_states, sampler.factors)
    number = np.full(sampler.n_states, -1)
    number[tuple(rows.T)] = np.arange(len(rows))
    matrix = np.zeros((len(rows), len(rows)))
    work = np.empty(int(layout.n_configurations.max()))
    for i, row in enumerate(rows):
        sums = np.zeros(layout.n_sums)
        redraw(layout, row.astype(np.int64), b, 0.5, work, sums)
        own = sums[layout.sums_at[b] : layout.sums_at[b] + len(codes)]
        for code, p in zip(codes, own, strict=True):
            after = row.copy()
            after[list(block)] = code
            if p > 0:
                assert number[tuple(after)] >= 0
                matrix[i, number[tuple(after)]] += p
    return matrix


@cache
def reference_problem(name, n_observed, seed, prune=True):
    """A reference network given values of random nodes in a record drawn from it, without barren nodes or with them."""
    reference = load_network(name)
    tables = {}
    for child, node in enumerate(reference.dag.names):
        axes = np.argsort(reference.orders[child])
        table = reference.tables[child].transpose([*axes, len(axes)])
        tables[node] = table / table.sum(axis=-1, keepdims=True)
    network = CategoricalNetwork(
        Dag(reference.dag.adjacency, reference.dag.names),
        tables,
        dict(zip(reference.dag.names, reference.states, strict=True)),
    )
    row = reference.sample(1, seed).codes[0]
    chosen = np.sort(np.random.default_rng(seed).choice(len(row), n_observed, replace=False))
    observed = {int(v): int(row[v]) for v in chosen}
    return prepare(network, Evidence(observed, {}), [] if prune else None).whole()


def relations(factors):
    return [tuple(relation) for relation in determined(factors)]


def block_conditional(block, states, n_states, factors):
    """Distribution of a block given the other variables, as its definition has it; an axis for each of its own."""
    grid = np.indices([n_states[v] for v in block])
    total = np.zeros(grid.shape[1:])
    for variables, log_values in factors:
        if not set(variables).isdisjoint(block):
            total = total + log_values[tuple(grid[block.index(v)] if v in block else states[v] for v in variables)]
    weights = np.exp(total - total.max())
    return weights / weights.sum()


def redraw_block(block, states, u, n_states, factors):
    """States after a block is redrawn: the first configuration up to which the probabilities sum to more than ``u``."""
    p = block_conditional(block, states, n_states, factors)
    chosen = min(int(np.searchsorted(p.cumsum(), u, side="right")), int(np.flatnonzero(p)[-1]))
    after = states.copy()
    after[list(block)] = np.unravel_index(chosen, p.shape)
    return after
