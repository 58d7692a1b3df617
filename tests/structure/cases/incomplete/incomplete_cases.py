"""Tiny incomplete tables, and the cell moves as transition matrices over all pairs of a graph and a completion.

The matrices come from the compiled functions that the loops call; what they are held to is listed by the oracle, which
knows nothing of moves.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa.data import Table
from doxa.estimates import Trace
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.indicators import diagnose_indicators
from doxa.structure import K2, BDeu
from doxa.structure.cases.incomplete import IncompleteData, JointPosterior, enumerate_joint
from doxa.structure.cases.incomplete.blocks import gather, move_case, row_work, tie_cells, weigh_block
from doxa.structure.cases.incomplete.families import case_probability, config_of, families_of
from doxa.structure.cases.incomplete.missing_cells import completion_of
from doxa.structure.cases.incomplete.sweep import log_fixed
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits, make_limits
from doxa.structure.priors import make_prior
from support.checks import worst_z
from support.tables import skewed_table

Matrix = NDArray[np.float64]

LIMITED = {"required": [("x1", "x2")], "forbidden": [("x2", "x0")], "max_parents": {"x2": 1}}
CASES: dict[str, dict[str, Any]] = {
    "BDeu": {},
    "K2": {"score": K2(0.5)},
    "limits, odds": {"limits": LIMITED, "prior": {"edge_log_odds": {("x0", "x1"): 0.9}}},
    "configurations, sparse": {"limits": {"max_configurations": 4}, "prior": {"kind": "sparse"}},
    "a row of which nothing is known": {"missing_cells": [(0, 0), (0, 1), (0, 2)]},
    "equal incomplete rows": {"missing_cells": [(0, 1), (1, 1)], "equal": True},
}


def with_missing_cells(table: Table, missing_cells: list[tuple[int, int]]) -> Table:
    """The table with these cells (row of the source, column) missing."""
    codes = np.array(table.codes[table.row_index])
    for row, column in missing_cells:
        codes[row, column] = -1
    return Table.from_codes(table.names, table.states, codes)


def blanked(table: Table, share: float, seed: int) -> Table:
    """The table with each cell missing with this probability."""
    rng = np.random.default_rng(seed)
    codes = np.array(table.codes[table.row_index])
    codes[rng.random(codes.shape) < share] = -1
    return Table.from_codes(table.names, table.states, codes)


@cache
def case(name: str) -> tuple[IncompleteData, Limits, JointPosterior]:
    """A problem of three columns (2, 3 and 2 states), nine rows, two or three missing cells, and its exact answer."""
    recipe = CASES[name]
    table = skewed_table(3, 9, seed=3, n_states=3)
    if recipe.get("equal"):
        codes = np.array(table.codes[table.row_index])
        codes[1] = codes[0]
        table = Table.from_codes(table.names, table.states, codes)
    table = with_missing_cells(table, recipe.get("missing_cells", [(0, 1), (0, 2), (4, 0)]))
    prior = make_prior(table.names, **{"kind": "uniform", **recipe.get("prior", {})})
    data = IncompleteData(table, recipe.get("score", BDeu(2.0)), prior)
    limits = make_limits(table.names, n_states=table.n_states, **recipe.get("limits", {}))
    return data, limits, enumerate_joint(data, limits)


def number_of(exact: JointPosterior, cells: NDArray[Any]) -> int:
    """Place of a completion among the oracle's."""
    place = 0
    for state, r in zip(cells.tolist(), exact.n_states.tolist(), strict=True):
        place = place * r + state
    return int(place)


def states_of(exact: JointPosterior) -> list[tuple[int, int]]:
    """All pairs (graph, completion), in the order of ``exact.probability.ravel()``."""
    return list(product(range(len(exact.rows)), range(len(exact.cells))))


class Standing:
    """A graph and a completion with the counts that the loops keep."""

    def __init__(self, data: IncompleteData, exact: JointPosterior, graph: int, completion: int) -> None:
        self.data, self.exact, self.graph = data, exact, graph
        self.completion = completion_of(data.missing_cells, exact.cells[completion])
        self.families = families_of(working_graph(exact.rows[graph])[0], self.completion, data.rule)
        self.work = row_work(data.missing_cells.n_states)

    def components(self, i: int) -> list[tuple[int, int]]:
        """For each component of a row its root and the number of the row's missing cells."""
        m = settled(tie_cells)(i, self.completion, self.families, self.work)
        return [(a, m) for a in range(m) if self.work.root[a] == a]

    def take(self, i: int, a: int, m: int, out: bool = True) -> tuple[int, int]:
        """Take a component out of the counts."""
        settled(tie_cells)(i, self.completion, self.families, self.work)
        size, n_affected = settled(gather)(a, m, self.families, self.work)
        if out:
            settled(move_case)(i, n_affected, -1, self.completion, self.families, self.work)
        return size, n_affected

    def after(self, i: int, columns: NDArray[Any], states: Any) -> int:
        """Number of the pair in which these cells of row i have these states."""
        missing_cells = self.data.missing_cells
        cells = self.completion.rows[missing_cells.row, missing_cells.column].copy()
        for column, state in zip(columns, states, strict=True):
            cells[(missing_cells.row == i) & (missing_cells.column == column)] = state
        return self.graph * len(self.exact.cells) + number_of(self.exact, cells)


def redraw_matrix(
    data: IncompleteData, exact: JointPosterior, i: int, *, out: bool = True, single: bool = False
) -> list[Matrix]:
    """One matrix for each place in the row: component (or cell, ``single``) number k is drawn given the rest.

    ``out=False`` leaves the row in the counts: a broken kernel.
    """
    n_rounds = data.n_nodes
    matrices = [np.zeros((exact.probability.size, exact.probability.size)) for _ in range(n_rounds)]
    for number, (graph, completion) in enumerate(states_of(exact)):
        standing = Standing(data, exact, graph, completion)
        blocks = []
        for a, m in standing.components(i):
            size, n_affected = standing.take(i, a, m, out)
            members = standing.work.members[:size].copy()
            for begin in range(size if single else 1):
                end = begin + 1 if single else size
                joint = settled(weigh_block)(i, begin, end, standing.completion, standing.families, standing.work)
                weights = standing.work.weights[:joint] / standing.work.weights[:joint].sum()
                states = standing.work.digits[begin:end, :joint].T.copy()
                blocks.append([(standing.after(i, members[begin:end], s), w) for s, w in zip(states, weights)])  # noqa: B905
            if out:
                settled(move_case)(i, n_affected, 1, standing.completion, standing.families, standing.work)
        for k in range(n_rounds):
            for target, weight in blocks[k] if k < len(blocks) else [(number, 1.0)]:
                matrices[k][number, target] += weight
    return matrices


def independence_matrix(data: IncompleteData, exact: JointPosterior, i: int, *, accept: bool = True) -> Matrix:
    """The independence move of every component of row i, one component at random; ``accept=False`` accepts all."""
    matrix = np.zeros((exact.probability.size, exact.probability.size))
    for number, (graph, completion) in enumerate(states_of(exact)):
        standing = Standing(data, exact, graph, completion)
        components = standing.components(i)
        for a, m in components:
            size, n_affected = standing.take(i, a, m)
            work, families, made = standing.work, standing.families, standing.completion
            members = work.members[:size].copy()
            codes = made.rows[i]
            old = codes.copy()
            before = settled(log_fixed)(i, size, n_affected, made, families, work)
            for states in product(*(range(int(data.missing_cells.n_states[c])) for c in members)):
                codes[:] = old
                q = 1.0
                for column, state in zip(members.tolist(), states, strict=True):
                    config, r = settled(config_of)(column, codes, families), int(data.missing_cells.n_states[column])
                    q *= settled(case_probability)(column, config, state, r, families)
                    codes[column] = state
                log_ratio = settled(log_fixed)(i, size, n_affected, made, families, work) - before
                chance = q * min(1.0, np.exp(log_ratio)) if accept else q
                codes[:] = old
                target = standing.after(i, members, states)
                matrix[number, target] += chance / len(components)
                matrix[number, number] += (q - chance) / len(components)
            settled(move_case)(i, n_affected, 1, made, families, work)
    return matrix


def deviations(
    data: IncompleteData, trace: Trace, exact: JointPosterior, least_ess: float = 400
) -> tuple[float, float, int]:
    """Worst z-values of edges and of cells, and how many were compared."""
    off = (exact.edge_probabilities > 1e-3) & (exact.edge_probabilities < 1 - 1e-3)
    edges = diagnose_indicators(IndicatorCounts.from_words(trace["rows"], data.n_nodes))
    states = np.arange(exact.cell_probabilities.shape[1])
    cells = diagnose_indicators(IndicatorCounts.from_draws(trace["cells"][..., None] == states))
    free = (exact.cell_probabilities > 1e-3) & (exact.cell_probabilities < 1 - 1e-3)
    assert (edges.ess[off] > least_ess).all(), "too few effective draws for the errors to mean anything"
    assert (cells.ess[free] > least_ess).all(), "too few effective draws for the errors to mean anything"
    return (
        worst_z(edges.probability[off], exact.edge_probabilities[off], edges.mcse[off]),
        worst_z(cells.probability[free], exact.cell_probabilities[free], cells.mcse[free]),
        int(off.sum() + free.sum()),
    )
