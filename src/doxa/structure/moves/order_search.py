r"""Searches for graphs that no move of the samplers would come to, for starts and for audits.

Over orders (`search_orders`).

Given an order of the nodes, the best graph that respects it takes for each node the heaviest of its listed sets within
the nodes before it (`doxa.structure.families.score_table`: no list lacks the best set that was computed, whatever the
order).  The search takes one node out of the order and puts it where the whole gains most, node after node, until none
gains (Teyssier & Koller 2005, with insertions in place of swaps of neighbours).  One such step changes the parents of
many nodes together, which single edges, whole parent sets and reversals cannot.

It starts from given graphs and from random orders, then again and again from the best order with a few nodes exchanged
(iterated local search), and stops when nothing has been gained for long, or when its looks at the lists have been as
many as was allowed: counted work, so that what it finds depends on the table and the seed alone.

For large parent sets whose parts are worth nothing, from many parents downwards (`with_large_family`).

Lists of parent sets grow from small sets (`doxa.structure.families.score_table`).  Where not all sets can be computed,
a large one without any good part, such as the columns of a parity check, is never met.  Here the parents of a node are
taken as large as its limits allow, at random among the nodes that may come before it, and are left out one by one,
always the one without which the family weighs most, as long as that helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import n_words, unpack_rows
from doxa.structure.families.cache import CacheArrays, FamilyScores, Scoring, family_log_score
from doxa.structure.graph import count_bits, has_bit, reach, replace_parents, toggle_bit, working_graph
from doxa.structure.limits import Limits, may_add
from doxa.structure.moves.changes import cache_is_full
from doxa.structure.moves.parent_sets import ParentSets, draw_set, find_set
from doxa.structure.moves.starts import random_order

__all__ = [
    "FoundGraph",
    "search_orders",
    "with_large_family",
]


_GAIN = 1e-9  # nats: smaller differences are rounding
_LOOKS = 24_000_000  # half a second on one core
_KICKS_A_NODE = 30  # without a gain, after which there is hardly more to be had
_RANDOM_ORDERS = 24
_LARGEST_KICK = 6


class FoundGraph(NamedTuple):
    """The best graph that a search has found."""

    rows: NDArray[np.uint64]  # (n_nodes, n_words): adjacency rows as bit sets
    log_score: float  # nats, the log prior included, times the lists' inverse temperature


def search_orders(
    table: ParentSets,
    rng: np.random.Generator,
    graphs: Iterable[NDArray[np.uint64]] = (),
    *,
    random_orders: int = _RANDOM_ORDERS,
    looks: int = _LOOKS,
) -> FoundGraph | None:
    """The best graph that insertions in orders reach.

    Parameters
    ----------
    table : ParentSets
        Lists of parent sets with their weights; their work space is used.
    rng : numpy.random.Generator
    graphs : iterable of ndarray of uint64, each of shape (n_nodes, n_words)
        Adjacency rows of graphs whose orders to start from.
    random_orders : int
        Further starts.
    looks : int
        Looks at blocks of 64 listed sets, in all passes but the first from each start.

    Returns
    -------
    FoundGraph or None
        None if no order lets every node have one of its listed sets, as when the limits require long chains of edges
        and no graph was given.
    """
    n = len(table.first) - 1
    work = (np.zeros(n_words(n), dtype=np.uint64), np.empty((3, n + 1)), np.empty(n, dtype=np.int64))
    best, best_score = np.arange(n, dtype=np.int64), -np.inf
    starts = [random_order(rng, unpack_rows(rows, n)) for rows in graphs]
    starts += [rng.permutation(n) for _ in range(random_orders)]
    passes = max(len(starts), looks // (3 * n * max(n, int(table.first_block[-1]))))
    patience = _KICKS_A_NODE * n
    while passes > 0 and patience > 0:
        patience -= not starts
        order = starts.pop() if starts else _kicked(best, rng)
        score = -np.inf
        while passes > 0:
            after = _pass(table, order, rng.permutation(n), *work)
            passes -= 1
            if not after > score + _GAIN:
                break
            score = after
        if score > best_score + _GAIN:
            best, best_score, patience = order, score, _KICKS_A_NODE * n
    if best_score == -np.inf:
        return None
    rows = np.zeros((n, n_words(n)), dtype=np.uint64)
    _graph_of(table, best, work[0], rows)
    return FoundGraph(rows, float(best_score))


def _kicked(order: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """An order in which a few nodes, somewhere, stand in another one."""
    kicked = order.copy()
    size = min(len(order), 3 + int(rng.integers(_LARGEST_KICK)))
    where = rng.choice(len(order), size, replace=False)
    kicked[where] = kicked[rng.permutation(where)]
    return kicked


@hot
def _best(table: ParentSets, node: int, avoid: Words) -> int:
    """Number of the heaviest listed set of the node without a node of ``avoid``; -1 if there is none."""
    return int(draw_set(table, node, avoid, -1, 0.0, np.inf)[0])


@hot
def _weight(table: ParentSets, node: int, avoid: Words) -> float:
    number = _best(table, node, avoid)
    return table.weight[number] if number >= 0 else -np.inf


@hot
def _flip(avoid: Words, node: int) -> None:
    avoid[node >> 6] ^= np.uint64(1) << np.uint64(node & 63)


@hot
def _forbid_all(avoid: Words, n: int) -> None:
    avoid[:] = np.uint64(0)
    for node in range(n):
        _flip(avoid, node)


@hot
def _pass(table: ParentSets, order: Ints, nodes: Ints, avoid: Words, sums: Floats, rest: Ints) -> float:
    """Take out each of ``nodes`` and put it in the best place of ``order``; return the score of the whole after that.

    ``sums[0, k]`` is what the node has at place k, ``sums[1]`` and ``sums[2]`` are the others' weights where the node
    comes after them, added up from the beginning, and where it comes before them, from the end.
    """
    n = order.size
    score = -np.inf
    for turn in range(n):
        moved = nodes[turn]
        k = 0
        for place in range(n):
            if order[place] != moved:
                rest[k] = order[place]
                k += 1
        _forbid_all(avoid, n)
        sums[0, 0] = _weight(table, moved, avoid)
        sums[1, 0] = 0.0
        for k in range(n - 1):
            sums[1, k + 1] = sums[1, k] + _weight(table, rest[k], avoid)
            _flip(avoid, rest[k])
            sums[0, k + 1] = _weight(table, moved, avoid)
        _flip(avoid, moved)  # now it comes before the others
        sums[2, n - 1] = 0.0
        for k in range(n - 2, -1, -1):
            _flip(avoid, rest[k])
            sums[2, k] = sums[2, k + 1] + _weight(table, rest[k], avoid)
        best, score = n - 1, -np.inf
        for k in range(n):
            total = sums[0, k] + sums[1, k] + sums[2, k]
            if total > score:
                best, score = k, total
        for k in range(best):
            order[k] = rest[k]
        order[best] = moved
        for k in range(best, n - 1):
            order[k + 1] = rest[k]
    return score


@hot
def _graph_of(table: ParentSets, order: Ints, avoid: Words, rows: Words) -> None:
    """Write the adjacency rows of the best graph of an order."""
    n = order.size
    _forbid_all(avoid, n)
    for place in range(n):
        node = order[place]
        number = _best(table, node, avoid)
        for parent in range(n):
            if (table.sets[number, parent >> 6] >> np.uint64(parent & 63)) & np.uint64(1):
                rows[parent, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
        _flip(avoid, node)


_STARTS = 4  # of each node
_MOST_PARENTS = 12  # to begin with
_MOST_CELLS = 40_000_000  # rows that are counted, all families together: some tenths of a second


def with_large_family(
    scores: FamilyScores, limits: Limits, table: ParentSets, rows: NDArray[np.uint64], rng: np.random.Generator
) -> NDArray[np.uint64] | None:
    """The graph with one node's parents replaced by an unlisted set that beats all listed ones; None if none is found.

    Parameters
    ----------
    scores : FamilyScores
    limits : Limits
    table : ParentSets
        The lists, at inverse temperature 1; their work space is used.
    rows : ndarray of uint64, shape (n_nodes, n_words)
        Adjacency rows of a graph.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of uint64, shape (n_nodes, n_words), or None
        The best of the graphs that were found: without cycles, within the limits.
    """
    if not scores.score.is_counted:
        return None
    graph = working_graph(rows)
    n = len(rows)
    left = _MOST_CELLS // max(1, len(scores.data[1]))
    best = np.zeros((1, n_words(n)), dtype=np.uint64)
    gain, where = 0.0, -1
    with scores.borrow() as (cache, scoring):
        for start in range(_STARTS):
            for node in rng.permutation(n).tolist():
                if left <= 0:
                    break
                reach(graph[1], node, node, node, table.reached[0])
                listed = int(draw_set(table, node, table.reached[0], -1, 0.0, np.inf)[0])
                below = unpack_rows(table.reached[0][None], n)[0]
                others = [other for other in rng.permutation(n).tolist() if other != node and not below[other]]
                found = np.array(limits.required[node])[None]
                if listed < 0 or (found & table.reached[0]).any():
                    continue
                if start == 0:  # what the node has, and more
                    found |= graph[0][node]
                members = np.zeros((n, n_words(n)), dtype=np.uint64)
                members[node] = found[0]
                for other in others:
                    room = count_bits(members, node) < _MOST_PARENTS and not has_bit(members, node, other)
                    if room and may_add(limits, members, node, other):
                        toggle_bit(members, node, other)
                left -= count_bits(members, node) ** 2 // 2
                weight = np.empty(1)
                while not _leave_out(node, members, limits, cache.arrays, scoring, weight):
                    cache.grow()
                more = float(weight[0] - table.weight[listed])
                if more > gain + 1e-9 and find_set(table, node, members[node]) < 0:
                    gain, where, best[0] = more, node, members[node]
    if where < 0:
        return None
    replace_parents(graph, where, best[0])
    return graph[1]


@hot
def _leave_out(node: int, members: Words, limits: Limits, cache: CacheArrays, scoring: Scoring, weight: Floats) -> bool:
    """Leave out parents as long as that helps; False when the cache should grow first."""
    n = members.shape[0]
    weight[0] = family_log_score(node, members[node], cache, scoring)
    while True:
        best, least = weight[0], -1
        for other in range(n):
            if has_bit(members, node, other) and not has_bit(limits.required, node, other):
                if cache_is_full(cache):
                    return False
                toggle_bit(members, node, other)
                without = family_log_score(node, members[node], cache, scoring)
                toggle_bit(members, node, other)
                if without >= best:
                    best, least = without, other
        if least < 0:
            return True
        toggle_bit(members, node, least)
        weight[0] = best
