"""Posteriors whose graphs are drawn from the enumerated one, and what sums over all graphs say, by other means."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import doxa
from doxa.data import Table
from doxa.estimates.trace import Trace
from doxa.models.bits import unpack_rows
from doxa.structure import SingleEdge
from doxa.structure.exact.enumeration import GraphPosterior, enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.scores import K2
from doxa.structure.posterior.structure_posterior import StructurePosterior
from support.tables import skewed_table


class Case(NamedTuple):
    table: Table
    listed: GraphPosterior
    options: Any
    score: FamilyKind


@cache
def case(n_nodes: int = 3, n_rows: int = 25, seed: int = 5, n_states: int = 3, score: str = "bdeu") -> Case:
    """Few rows, so that graphs and parameters are uncertain; node 1 has ``n_states`` states."""
    table = skewed_table(n_nodes, n_rows, seed, n_states)
    options = doxa.learn(table, draws=4, warmup=0, thin=1, score=score, seed=1).options
    return Case(table, enumerate_posterior(FamilyScores(table, options.score)), options, options.score)


def posterior_of_draws(of: Case, which: NDArray[np.intp], entropy: int = 1) -> StructurePosterior:
    """A run that visited these of the listed graphs, (chain, draw)."""
    rows = of.listed.rows[which]
    trace = Trace(
        {
            "rows": rows,
            "log_score": of.listed.log_score[which],
            "n_edges": np.bitwise_count(rows).sum(axis=(2, 3)).astype(np.int32),
        },
        entropy=entropy,
        info={name: np.full(len(rows), 9) for name in ("proposed", "accepted")},
    )
    return StructurePosterior(of.table.names, trace, SingleEdge(), of.options)


def independent(of: Case, seed: int, n_draws: int = 1000, n_chains: int = 4) -> StructurePosterior:
    rng = np.random.default_rng(seed)
    which = rng.choice(len(of.listed.probability), size=(n_chains, n_draws), p=of.listed.probability)
    return posterior_of_draws(of, which, seed)


def alpha_of(score: FamilyKind, q: int, r: int) -> float:
    return score.prior_count if isinstance(score, K2) else score.equivalent_sample_size / (q * r)


def parent_lists(rows: NDArray[np.uint64]) -> list[list[int]]:
    n = len(rows)
    adjacency = unpack_rows(rows, n)
    return [[p for p in range(n) if adjacency[p, child]] for child in range(n)]


def family_weights(of: Case, child: int, parents: list[int]) -> dict[tuple[int, ...], NDArray[np.float64]]:
    """Counts and prior by states of the parents, row after row: slow and plain."""
    sizes = of.table.n_states
    r, q = int(sizes[child]), int(np.prod(sizes[parents])) if parents else 1
    weights = {key: np.full(r, alpha_of(of.score, q, r)) for key in product(*(range(sizes[p]) for p in parents))}
    for row, count in zip(of.table.codes, of.table.counts, strict=True):
        weights[tuple(int(row[p]) for p in parents)][row[child]] += count
    return weights


def joint_of(parents: list[list[int]], tables: list[Any], sizes: list[int], do: dict[int, int]) -> NDArray[np.float64]:
    """p(x) by state of every node, from ``tables[child][states of parents]``, by listing all states."""
    total = np.zeros(sizes)
    for states in product(*map(range, sizes)):
        if any(states[j] != k for j, k in do.items()):
            continue
        p = 1.0
        for child, group in enumerate(parents):
            if child not in do:
                p *= tables[child][tuple(states[j] for j in group)][states[child]]
        total[states] = p
    return total


def mean_joint(of: Case, rows: NDArray[np.uint64], do: dict[int, int]) -> NDArray[np.float64]:
    """p(new row | graph, data)."""
    parents = parent_lists(rows)
    tables = [
        {key: w / w.sum() for key, w in family_weights(of, child, group).items()} for child, group in enumerate(parents)
    ]
    return joint_of(parents, tables, of.table.n_states.tolist(), do)


def conditional(joint: NDArray[np.float64], target: int, given: dict[int, int]) -> NDArray[np.float64]:
    """p(target | given)."""
    index = tuple(given.get(j, slice(None)) for j in range(joint.ndim))
    left = [j for j in range(joint.ndim) if j not in given]
    cut = joint[index]
    summed = cut.sum(axis=tuple(k for k, j in enumerate(left) if j != target))
    return summed / summed.sum()


def exact_predictive(of: Case, target: int, given: dict[int, int], do: dict[int, int]) -> NDArray[np.float64]:
    """p(target | given, do, D): one joint, of all graphs, and then the condition."""
    joint = sum(p * mean_joint(of, rows, do) for p, rows in zip(of.listed.probability, of.listed.rows, strict=True))
    return conditional(np.asarray(joint), target, given)


@cache
def posterior_of_conditional(
    of_rows: int, seed: int, target: int, given: tuple[tuple[int, int], ...], do: tuple[tuple[int, int], ...], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and its error of p(target | given, do, theta, G), by fine Monte Carlo over theta for every graph."""
    of = case(3, of_rows, seed)
    rng = np.random.default_rng(99)
    sizes = of.table.n_states.tolist()
    mean, variance = np.zeros(sizes[target]), np.zeros(sizes[target])
    states = np.array(list(product(*map(range, sizes))))
    for p, rows in zip(of.listed.probability, of.listed.rows, strict=True):
        joint = np.ones((n, len(states)))
        for child, group in enumerate(parent_lists(rows)):
            if child in dict(do):
                joint *= states[:, child] == dict(do)[child]
                continue
            drawn = {key: rng.dirichlet(w, size=n) for key, w in family_weights(of, child, group).items()}
            for c, s in enumerate(states):
                joint[:, c] *= drawn[tuple(int(s[j]) for j in group)][:, s[child]]
        agrees = np.all([states[:, j] == k for j, k in given], axis=0) if given else np.ones(len(states), dtype=bool)
        top = np.stack([joint[:, agrees & (states[:, target] == k)].sum(axis=1) for k in range(sizes[target])], axis=1)
        found = top / top.sum(axis=1, keepdims=True)
        mean += p * found.mean(axis=0)
        variance += p**2 * found.var(axis=0) / n
    return mean, np.sqrt(variance)
