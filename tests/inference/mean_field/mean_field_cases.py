"""Networks for the tests of mean field, and the bound and its updates written out over all configurations."""

from __future__ import annotations

import numpy as np

from doxa.inference.mean_field import ImpossibleError, mean_field_problem
from doxa.inference.mean_field.problem import begin_at
from doxa.inference.mean_field.support import Ground
from doxa.models.ising import ising
from support.checks import SEED
from support.small_networks import joint, random_categorical, random_markov

ROUNDING = 1e-10


def random_network(k, zeros=0.3):
    """Directed and undirected ones in turn, of up to seven variables; with zeros, or none at all."""
    rng = np.random.default_rng([SEED, 60, k])
    if k % 2:
        return random_categorical(rng, zeros=zeros), rng
    return random_markov(rng, zeros=zeros), rng


def sizes(network):
    return [len(labels) for labels in network.states]


def log_z(network):
    with np.errstate(divide="ignore"):
        return float(np.log(joint(network).sum()))


def random_blocks(rng, n):
    """Disjoint blocks of one to three variables, some variables in none."""
    order, blocks = rng.permutation(n).tolist(), []
    while order and rng.random() < 0.8:
        size = int(rng.integers(1, 4))
        blocks.append(order[:size])
        order = order[size:]
    return blocks


def random_problem(k, zeros=0.3, structured=True):
    """A problem, and a random q with a finite bound; None where every configuration is impossible."""
    network, rng = random_network(k, zeros)
    n_states = sizes(network)
    blocks = random_blocks(rng, len(n_states)) if structured else None
    problem = mean_field_problem(n_states, network.factors, blocks)
    try:
        ground = Ground(problem.layout, problem.values, problem.base)
        return network, problem, begin_at(problem.layout, problem.values, problem.base, ground, "random", rng)
    except ImpossibleError:
        assert joint(network).sum() == 0
        return None


def problems(n, zeros=0.3, structured=True):
    """The possible ones of n random problems."""
    found = (random_problem(k, zeros, structured) for k in range(n))
    return [case for case in found if case is not None]


def log_joint(network):
    """Sum of all factors, an axis for each variable."""
    grid = np.indices(sizes(network))
    total = np.zeros(sizes(network))
    for variables, log_values in network.factors:
        total = total + log_values[tuple(grid[v] for v in variables)]
    return total


def product_of(problem, tables):
    """q over all variables, an axis for each."""
    q = np.ones(problem.n_states)
    for block, table in zip(problem.blocks, tables, strict=True):
        spread = np.transpose(table, np.argsort(block))
        q = q * spread.reshape([n if v in block else 1 for v, n in enumerate(problem.n_states)])
    return q


def elbo_written_out(network, problem, q):
    """sum of q log(p / q) over all configurations; -inf where q meets a forbidden one."""
    full, total = product_of(problem, problem.tables(q)), log_joint(network)
    there = full > 0
    return float((full[there] * (total[there] - np.log(full[there]))).sum())


def update_written_out(network, problem, q, block):
    """Best table of a block: the softmax of the mean of log p over the others."""
    tables = list(problem.tables(q))
    members = problem.blocks[block]
    tables[block] = np.ones_like(tables[block])
    weights, total = product_of(problem, tables), log_joint(network)
    terms = np.where(weights > 0, np.where(weights > 0, total, 0.0) * np.maximum(weights, 1e-300), 0.0)
    others = tuple(v for v in range(len(problem.n_states)) if v not in members)
    logits = terms.sum(axis=others).transpose(np.argsort(np.argsort(members)))
    new = np.exp(logits - logits.max())
    return new / new.sum()


def random_ising(k, n=7, scale=1.0, coding="pm1"):
    """A random graph with couplings of both signs and uneven fields."""
    rng = np.random.default_rng([SEED, 61, k])
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.5]
    couplings = scale * rng.normal(size=len(pairs))
    return ising(pairs, couplings, rng.normal(0.3, 0.5, size=n), coding=coding), rng
