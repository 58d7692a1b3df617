r"""Changes of single edges that take the missing cells of a column along, for any kind of family.

Edges and missing cells hold each other up: cells that were drawn with an edge speak for it, and a number whose family
has many parents may fit the few rows of each configuration closely.  Here the cells are let go.  A candidate edge is
drawn as for `doxa.structure.moves.single_edge.SingleEdge`, and one of its two nodes, c.  With :math:`k_G(x)` the law
from which all missing cells of c (of one phase, where rows share them) are offered on a graph G
(`doxa.structure.cases.incomplete.scored_sweeps`), which says nothing of the values they have, the new
graph and new cells are offered together and accepted with probability

.. math:: \min\Big\{1, \frac{p(G', X')\, k_G(x)\, q(G \mid G')}{p(G, X)\, k_{G'}(x')\, q(G' \mid G)}\Big\}.

Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

import math

import numpy as np

from doxa._jit import branching, hot
from doxa.arrays import Floats, Ints, Words
from doxa.structure.cases.incomplete.missing_cells import Completion
from doxa.structure.cases.incomplete.regressions import offer_number
from doxa.structure.cases.incomplete.scored_sweeps import (
    CellWork,
    draw_state,
    first_of_phase,
    fit_column,
    freedom_of,
    is_number_column,
    list_rows,
    weigh_rows,
)
from doxa.structure.cases.incomplete.shared_cells import is_touched, set_number, set_shared
from doxa.structure.families.cache import Scoring, counted_log_score
from doxa.structure.graph import ADD, DELETE, ILLEGAL, REVERSE, WorkingGraph, apply_change, candidate_kind
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.single_edge import draw_pair, list_edges, log_hastings, update_edges

__all__ = ["move_edges"]

Lists = tuple[Ints, Floats]  # the edges, as columns, and the log proposals of `single_edge`


@branching
def move_edges(
    graph: WorkingGraph, limits: Limits, lists: Lists, completion: Completion, scoring: Scoring, work: CellWork,
    n_steps: int, rng: np.random.Generator,
) -> tuple[int, int]:  # fmt: skip
    """So many candidate edges; how many were legal, and how many accepted."""
    edges, log_q = lists
    n_edges, tried, taken = list_edges(graph[1], edges), 0, 0
    for _ in range(n_steps):
        u = rng.random()
        i, j = draw_pair(graph[1], edges, n_edges, u, rng.random())
        while i < 0:
            i, j = draw_pair(graph[1], edges, n_edges, u, rng.random())
        column = i if rng.random() < 0.5 else j
        kind = candidate_kind(graph, limits, i, j)
        if kind == ILLEGAL:
            continue
        tried += 1
        of_edges = log_hastings(log_q, kind, n_edges)
        phase = int(rng.random() * (work.cut.shape[1] - 1)) if work.cut.shape[1] > 2 else 0
        if _move_edge((kind, i, j, column, phase), graph, of_edges, completion, scoring, work, rng):
            n_edges = update_edges(edges, n_edges, kind, i, j)
            taken += 1
    return tried, taken


@hot
def _move_edge(
    change: tuple[int, int, int, int, int], graph: WorkingGraph, log_ratio: float, completion: Completion,
    scoring: Scoring, work: CellWork, rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Offer a change of an edge and new cells of a column; whether it was accepted."""
    kind, i, j, column, phase = change
    parents, local = graph[0], work.local
    has_cells = first_of_phase(column, phase + 1, work) > first_of_phase(column, phase, work)
    has_cells = has_cells and work.is_hidden[column] == 0
    if has_cells:
        list_rows(column, work)
        log_ratio += _offer_cells(column, phase, parents, completion, work, False, rng)
    apply_change(graph, kind, i, j)
    if has_cells:
        log_ratio -= _offer_cells(column, phase, parents, completion, work, True, rng)
    for node in range(local.size):
        if _is_changed(node, change, parents, completion, has_cells):
            work.fresh[node] = counted_log_score(node, parents[node], scoring)
            log_ratio += work.beta * (work.fresh[node] - local[node])
    if accepts(rng, log_ratio):
        for node in range(local.size):
            if _is_changed(node, change, parents, completion, has_cells):
                local[node] = work.fresh[node]
        return True
    if kind == REVERSE:
        apply_change(graph, REVERSE, j, i)
    else:
        apply_change(graph, DELETE if kind == ADD else ADD, i, j)
    if has_cells:
        _put_back(column, phase, completion, work)
    return False


@hot
def _is_changed(
    node: int, change: tuple[int, int, int, int, int], parents: Words, completion: Completion, has_cells: bool
) -> bool:
    kind, i, j, column, _ = change
    if node == j or (kind == REVERSE and node == i):
        return True
    return has_cells and is_touched(node, column, parents, completion)


@hot
def _offer_cells(
    column: int, phase: int, parents: Words, completion: Completion, work: CellWork, draws: bool,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """Log density of what stands in the column's missing cells, or of new cells that are drawn and written there.

    The cells are those of one phase: no two of them stand in a row together.
    """
    first, end = first_of_phase(column, phase, work), first_of_phase(column, phase + 1, work)
    fit_column(column, first, end, parents, completion, work)
    log_density = 0.0
    if is_number_column(column, work):
        freedom = freedom_of(work)
        for place in range(first, end):
            i, row = work.row[place], completion.n_complete + work.row[place]
            centre, scale = offer_number(column, i, parents, completion, work.numbers, work.categories)
            if draws:
                work.old[place - work.first[column]] = completion.numbers[column, row]
                set_number(i, column, centre + scale * rng.standard_t(freedom), completion)
            x = (completion.numbers[column, row] - centre) / scale
            log_density -= 0.5 * (freedom + 1.0) * math.log1p(x * x / freedom) + math.log(scale)
        return log_density
    weigh_rows(column, first, end, parents, completion, work)
    for place in range(first, end):
        i, k = work.row[place], place - work.first[column]
        state: int = completion.rows[i, column]
        if draws:
            work.before[k] = state
            state = draw_state(work.log_offer, k, completion.n_states[column], rng)
            set_shared(i, column, state, completion)
        log_density += work.log_offer[k, state]
    return log_density


@hot
def _put_back(column: int, phase: int, completion: Completion, work: CellWork) -> None:
    first = work.first[column]
    for place in range(first_of_phase(column, phase, work), first_of_phase(column, phase + 1, work)):
        i = work.row[place]
        if is_number_column(column, work):
            set_number(i, column, work.old[place - first], completion)
        else:
            set_shared(i, column, work.before[place - first], completion)
