r"""`EdgeReversal`: turn an edge round and redraw the parents of both its ends (Grzegorczyk & Husmeier 2008).

A step picks one of the E edges, i -> j, and takes away all parents of i and of j.  Then i gets a new parent set that
has j in it, and j a new one, each drawn by weight from the sets of a list that close no cycle.  With
:math:`Z_i` the sum of the weights of i's sets that fit, and :math:`Z_i^{j}` of those that hold j, the step is accepted
with probability

.. math:: \min\Big\{1, \frac{E}{E'} \cdot \frac{Z_i^{j}\, Z_j}{Z_j^{i}\, Z_i}\Big\},

where :math:`Z_j` is taken with i's new parents in place, and :math:`Z_j^{i}`, :math:`Z_i` on the way back.  As in
`doxa.structure.moves.gibbs` the lists need not be complete: a step from a family outside them is rejected,
and none leads there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa._jit import hot, inlined
from doxa.arrays import Floats, Words
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import WorkingGraph, count_bits, reach, rebuild, replace_parents, working_graph
from doxa.structure.moves.changes import cache_is_full, edge_number, keep
from doxa.structure.moves.parent_sets import (
    ParentSets,
    bound_log_sum,
    draw_set,
    edges_of_sets,
    find_set,
    log_bounds,
    log_sum_of_sets,
    sets_that_fit,
)
from doxa.structure.moves.sampler import Steady, Work

if TYPE_CHECKING:
    from doxa.testing import Proposal

__all__ = ["EdgeReversal", "edge_reversal_step"]

_ROUGH = 0.1  # share of a sum that a first look leaves out
_MARGIN = 1e-12  # nats: what rounding may have done to a bound


@dataclass(frozen=True)
class EdgeReversal(Steady):
    """Edge reversal with both parent sets redrawn; see the module's notes.

    Alone it cannot join or part nodes from the empty graph: combine it with other moves, as ``"auto"`` does.
    """

    name: ClassVar[str] = "edge_reversal"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = True

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        done = settled(_advance, work.scoring.address)(work, first, n_steps, rng)
        settled(rebuild)(work.graph)
        return done

    def proposals(self, rows: NDArray[np.uint64], table: ParentSets) -> Iterator[Proposal[NDArray[np.uint64]]]:
        """Every graph that one step can propose, with its probability and the log Hastings term."""
        from doxa.testing import Proposal  # checks alone list what a step can propose

        graph, bits, edges_of = working_graph(rows), pack_rows(np.eye(len(rows), dtype=np.bool_)), edges_of_sets(table)
        find, log_sum = settled(find_set), settled(log_sum_of_sets)
        edges = np.argwhere(unpack_rows(rows, len(rows))).tolist()
        for i, j in edges:
            now_i, now_j = find(table, i, graph[0][i]), find(table, j, graph[0][j])
            if now_i < 0 or now_j < 0:
                continue
            _reach(graph[1], i, j, table.reached)
            below_i, below_j, both = table.reached.copy()
            bare = rows & ~(bits[i] | bits[j])
            sum_i, sum_j = log_sum(table, i, below_i, j), log_sum(table, j, both | bits[i], -1)
            back_j, back_i = log_sum(table, j, below_j, i), log_sum(table, i, both | bits[j], -1)
            log_back = table.weight[now_i] - back_i + table.weight[now_j] - back_j
            new_j = sets_that_fit(table, j, both | bits[i])
            for new_i in sets_that_fit(table, i, below_i, j):
                after = bare | edges_of[new_i] | edges_of[new_j]
                log_q = table.weight[new_i] - sum_i + table.weight[new_j] - sum_j
                log_hastings = log_back - log_q + np.log(len(edges) / np.bitwise_count(after).sum(axis=(1, 2)))
                for one, probability, term in zip(after, np.exp(log_q) / len(edges), log_hastings, strict=True):
                    yield Proposal(one, float(probability), float(term))


@hot
def _reach(children: Words, i: int, j: int, reached: Words) -> None:
    """Fill rows 0 and 1 with the descendants of i and j in the graph in which neither has parents, row 2 with both."""
    reach(children, i, i, j, reached[0])
    reach(children, j, i, j, reached[1])
    for w in range(children.shape[1]):
        reached[2, w] = reached[0, w] | reached[1, w]


@inlined
def _is_accepted(table: ParentSets, i: int, j: int, below: float, low: float, high: float) -> bool:
    """Whether ``below`` is under the log ratio of the sums; the rows of `_reach` are at hand.

    ``low`` and ``high`` are bounds of the sums of the way there.  Those of the way back are at least the weights of
    the sets as they are.  This and rough bounds settle most cases; the others are settled by the whole lists.
    """
    below_i, below_j, both = table.reached[0], table.reached[1], table.reached[2]
    bit_i = np.uint64(1) << np.uint64(i & 63)
    bit_j = np.uint64(1) << np.uint64(j & 63)
    least_i, least_j = table.weight[table.where[i]], table.weight[table.where[j]]
    if below >= high - least_i - least_j + _MARGIN:
        return False
    for tolerance in (_ROUGH, 0.0):
        if tolerance == 0.0:
            low = high = bound_log_sum(table, i, below_i, j, 0.0)[0]
            both[i >> 6] |= bit_i
            low = high = low + bound_log_sum(table, j, both, -1, 0.0)[0]
            both[i >> 6] &= ~bit_i
        less_j, more_j = bound_log_sum(table, j, below_j, i, tolerance)
        if below >= high - least_i - less_j + _MARGIN:
            return False
        both[j >> 6] |= bit_j
        less_i, more_i = bound_log_sum(table, i, both, -1, tolerance)
        both[j >> 6] &= ~bit_j
        if below < low - more_i - more_j - _MARGIN:
            return True
        if below >= high - less_i - less_j + _MARGIN:
            return False
        low, high = low - more_i - more_j, high - less_i - less_j
    return bool(below < low)


@hot
def edge_reversal_step(
    graph: WorkingGraph,
    local: Floats,
    n_edges: int,
    cache: CacheArrays,
    scoring: Scoring,
    table: ParentSets,
    rng: np.random.Generator,
) -> int:
    """One reversal of a graph of ``n_edges`` edges; returns their number if accepted, else -1."""
    parents, children = graph[0], graph[1]
    where, reached = table.where, table.reached
    if n_edges == 0:
        return -1
    i, j = edge_number(children, int(rng.random() * n_edges))
    if where[i] < 0 or where[j] < 0:
        return -1
    _reach(children, i, j, reached)
    new_i, begin, total, rest = draw_set(table, i, reached[0], j, rng.random(), _ROUGH)
    if new_i < 0:
        return -1
    low, high = log_bounds(table, i, begin, total, rest)
    reached[2, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    new_j, begin, total, rest = draw_set(table, j, reached[2], -1, rng.random(), _ROUGH)
    reached[2, i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))
    if new_j < 0:
        return -1
    less, more = log_bounds(table, j, begin, total, rest)
    n_after = n_edges - count_bits(parents, i) - count_bits(parents, j)
    n_after += count_bits(table.sets, new_i) + count_bits(table.sets, new_j)
    below = np.log1p(-rng.random()) + np.log(n_after / n_edges)
    if not _is_accepted(table, i, j, below, low + less, high + more):
        return -1
    replace_parents(graph, i, table.sets[new_i])
    replace_parents(graph, j, table.sets[new_j])
    where[i], where[j] = new_i, new_j
    local[i] = family_log_score(i, parents[i], cache, scoring)
    local[j] = family_log_score(j, parents[j], cache, scoring)
    return int(n_after)


@hot
def _advance(work: Work, first: int, n_steps: int, rng: np.random.Generator) -> int:
    graph, local, cache, scoring, table = work.graph, work.local, work.cache, work.scoring, work.table
    n_edges = 0
    for node in range(local.size):
        table.where[node] = find_set(table, node, graph[0][node])
        n_edges += count_bits(graph[0], node)
    for step in range(first, n_steps):
        if cache_is_full(cache):
            return step
        after = edge_reversal_step(graph, local, n_edges, cache, scoring, table, rng)
        if after >= 0:
            n_edges = after
            work.info[1] += 1
        work.info[0] += 1
        keep(work, step)
    return n_steps
