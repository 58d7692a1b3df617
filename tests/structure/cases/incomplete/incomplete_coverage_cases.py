"""Runs on small incomplete tables that decide for themselves when to stop, and what the sum over everything says.

Answers are exact, but for one: a conditional probability that is not linear in the parameters is averaged over 300 000
independent draws of graph, cells and parameters, which leaves it an error of some .0005.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from incomplete_cases import blanked
from numpy.typing import NDArray

import doxa
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.estimate import Estimate
from doxa.estimates.indicators import Status, diagnose_indicators
from doxa.estimates.stopping import Until
from doxa.models.bits import unpack_rows
from doxa.structure.averaging.draws import N_NETWORKS
from doxa.structure.averaging.posterior import Posterior
from doxa.structure.cases.incomplete import IncompleteData, JointPosterior, enumerate_joint
from support.checks import SEED
from support.tables import skewed_table

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]  # low, value, high, effective draws, promised

UNTIL = Until(mcse=0.02, ess=50, r_hat=1.1)
KINDS = ("edges", "cells, as drawn", "cells, imputed", "query", "query, do", "query, given", "predictive")
LEAST = 10  # ess p (1 - p) from which an interval should not be too wide either
_REFERENCE = 300_000


class Problem(NamedTuple):
    """A table with missing cells, and the number of structure steps between draws."""

    n: int
    n_rows: int
    share: float
    thin: int
    sampler: str = "auto"


PROBLEMS = {
    "3 columns, 10%": Problem(3, 40, 0.1, 23, "single_edge"),
    "3 columns, 30%": Problem(3, 14, 0.3, 23, "single_edge"),
    "4 columns, 20%": Problem(4, 16, 0.2, 40, "single_edge"),
    "4 columns, 20%, auto": Problem(4, 16, 0.2, 40),
}


class Answer(NamedTuple):
    """What is known of a problem: by kind, values of all its quantities."""

    table: Any
    exact: dict[str, Floats]


class Held(NamedTuple):
    """One run, by kind of quantity."""

    inside: dict[str, NDArray[np.bool_]]  # whether the interval holds the answer
    halved: dict[str, NDArray[np.bool_]]  # whether one half as wide does
    promised: dict[str, NDArray[np.bool_]]  # whether the quantity is not called 'cannot tell'
    common: dict[str, NDArray[np.bool_]]  # and has ess p (1 - p) of at least 10
    told: bool  # whether the run is not called 'cannot tell'
    draws: int  # of each chain


# --- answers ---------------------------------------------------------------------------------------------------------


@cache
def answer(problem: Problem) -> Answer:
    """Sums over all graphs and completions."""
    table = blanked(skewed_table(problem.n, problem.n_rows, seed=7), problem.share, seed=3)
    data = IncompleteData(table)
    joint = enumerate_joint(data)
    families = _families(data, joint)
    mean = {do: np.zeros([2] * problem.n) for do in (False, True)}
    for graph, weight in enumerate(joint.probability):
        parents = _parents(joint, graph)
        for do in mean:
            tables = [_means(families[child, parents[child]]) for child in range(problem.n)]
            mean[do] += np.tensordot(weight, _product(tables, parents, do), axes=(0, 0))
    first, last = 0, problem.n - 1
    pair = mean[False].sum(axis=tuple(range(1, last)))
    exact = {
        "edges": joint.edge_probabilities[~np.eye(problem.n, dtype=bool)],
        "cells, as drawn": joint.cell_probabilities[:, 0],
        "cells, imputed": joint.cell_probabilities[:, 0],
        "query": np.array([pair[:, 0].sum()]),
        "query, do": np.array([np.moveaxis(mean[True], last, 0)[0].sum()]),
        "query, given": np.array([_conditional(joint, families, first, last)]),
        "predictive": np.array([pair[0, 0] / pair[0].sum()]),
    }
    return Answer(table, exact)


def _parents(joint: JointPosterior, graph: int) -> list[tuple[int, ...]]:
    adjacency = unpack_rows(joint.rows[graph], joint.rows.shape[1])
    return [tuple(np.flatnonzero(column).tolist()) for column in adjacency.T]


def _families(data: IncompleteData, joint: JointPosterior) -> dict[tuple[int, tuple[int, ...]], Floats]:
    """Counts and prior weights by completion, states of the parents and of the child; all columns are binary."""
    missing_cells, n = data.missing_cells, data.n_nodes
    columns = np.repeat(missing_cells.base[None].astype(np.int64), len(joint.cells), axis=0)
    columns[:, missing_cells.column, missing_cells.n_complete + missing_cells.row] = joint.cells
    found = {}
    for graph in range(len(joint.rows)):
        for child, group in enumerate(_parents(joint, graph)):
            if (child, group) not in found:
                code = columns[:, child].copy()
                for place, parent in enumerate(reversed(group), start=1):
                    code += columns[:, parent] << place
                size = 2 ** (1 + len(group))
                code += size * np.arange(len(code))[:, None]
                weights = np.broadcast_to(missing_cells.weights, code.shape)
                counts = np.bincount(code.ravel(), weights.ravel(), minlength=size * len(code))
                found[child, group] = counts.reshape([-1, *[2] * (1 + len(group))]) + 1.0 / size  # BDeu of one case
    assert n == len(data.table.names)
    return found


def _means(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _product(tables: list[Floats], parents: list[tuple[int, ...]], do: bool = False) -> Floats:
    """Joint probabilities by case (first axis) and states; ``do`` sets the first node to its first state."""
    n = len(tables)
    total = np.ones([len(tables[0]), *[2] * n])
    for child, (group, table) in enumerate(zip(parents, tables, strict=True)):
        if do and child == 0:
            total[:, 1] = 0.0
            continue
        axes = [*group, child]
        moved = table.transpose([0, *(1 + np.argsort(axes))])
        total *= moved.reshape([len(table), *(2 if j in axes else 1 for j in range(n))])
    return total


def _conditional(joint: JointPosterior, families: dict[Any, Floats], given: int, target: int) -> float:
    """E P(target = 0 | given = 0) over graphs, cells and parameters, by independent draws."""
    rng = np.random.default_rng(11)
    drawn = rng.choice(joint.probability.size, size=_REFERENCE, p=joint.probability.ravel())
    graphs, completions = np.divmod(drawn, joint.probability.shape[1])
    total = 0.0
    for graph in np.unique(graphs).tolist():
        which, parents = completions[graphs == graph], _parents(joint, graph)
        tables = []
        for child, group in enumerate(parents):
            gamma = rng.standard_gamma(families[child, group][which])
            tables.append((gamma + 1e-300) / (gamma + 1e-300).sum(axis=-1, keepdims=True))
        p = _product(tables, parents)
        p = p.sum(axis=tuple(1 + j for j in range(p.ndim - 1) if j not in (given, target)))
        both = p[:, 0, 0]  # given comes first
        total += float((both / p[:, 0].sum(axis=1)).sum())
    return total / _REFERENCE


# --- runs ------------------------------------------------------------------------------------------------------------


def run(problem: Problem, number: int, networks: int = N_NETWORKS) -> Held:
    """One run, as users make it, and its intervals of 95%; queries average over so many networks."""
    known = answer(problem)
    posterior = doxa.learn(
        known.table, prior="uniform", sampler=problem.sampler, until=UNTIL, thin=problem.thin, warmup=60,
        seed=10**6 * SEED + number, workers=1, progress=False,
    )  # fmt: skip
    intervals = _intervals(posterior, problem.n, networks)
    inside, halved, promised, common = {}, {}, {}, {}
    for kind, (low, value, high, ess, told) in intervals.items():
        exact = known.exact[kind]
        promised[kind] = told
        inside[kind] = (low <= exact) & (exact <= high)
        halved[kind] = (value - (value - low) / 2 <= exact) & (exact <= value + (high - value) / 2)
        common[kind] = told & (ess * exact * (1 - exact) >= LEAST)
    return Held(inside, halved, promised, common, posterior.converged is not None, posterior.trace.n_draws)


def _intervals(posterior: Posterior, n: int, networks: int) -> dict[str, Interval]:
    off = ~np.eye(n, dtype=bool)
    d = posterior.edge_diagnostics
    found = {"edges": (d.lower[off], d.probability[off], d.upper[off], d.ess[off], d.status[off] != Status.CANNOT_TELL)}
    d = diagnose_indicators(IndicatorCounts.from_draws(posterior.trace["cells"] == 0), posterior.reference_ess)
    found["cells, as drawn"] = (d.lower, d.probability, d.upper, d.ess, d.status != Status.CANNOT_TELL)
    value, error = _imputed(posterior, networks)
    worth = np.maximum(value * (1 - value), 1e-12) / error**2
    every = np.ones(len(value), dtype=bool)
    found["cells, imputed"] = (value - 1.96 * error, value, value + 1.96 * error, worth, every)
    first, last = {"x0": "s0"}, {f"x{n - 1}": "s0"}
    for kind, answered in (
        ("query", posterior.query(last, networks=networks)),
        ("query, do", posterior.query(last, do=first, networks=networks)),
        ("query, given", posterior.query(last, given=first, networks=networks)),
        ("predictive", posterior.predictive(last, given=first, networks=networks)),
    ):
        assert isinstance(answered, Estimate)
        low, high = np.array(answered.interval())[:, None]
        found[kind] = (low, np.array([answered.value]), high, np.array([answered.ess]), np.ones(1, dtype=bool))
    return found


def _imputed(posterior: Posterior, networks: int) -> tuple[Floats, Floats]:
    """Probability of the first state of each missing cell, and its error, in the order of the draws."""
    frame = posterior.impute(networks=networks)
    frame = frame[frame["state"] == "s0"]  # by row of the source, then column
    missing_cells = IncompleteData(posterior.table).missing_cells
    place = np.lexsort((missing_cells.column, missing_cells.source_row[missing_cells.row])).argsort()
    return frame["probability"].to_numpy()[place], frame["mcse"].to_numpy()[place]
