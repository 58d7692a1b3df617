r"""Searches for graphs that no move of the samplers would come to, for starts and for audits.

Over orders (`search_orders`).

Given an order of the nodes, the best graph that respects it takes for each node the heaviest of its listed sets within
the nodes before it (`doxa.structure.families.score_table`: no list lacks the best set that was computed, whatever the
order).  The search takes one node out of the order and puts it where the whole gains most, node after node, until none
gains (Teyssier & Koller 2005, with insertions in place of swaps of neighbours).  One such step changes the parents of
many nodes together, which single edges, whole parent sets and reversals cannot.

What a node is worth elsewhere depends on the nodes that its list names and on those whose lists name it, its *links*,
and on no others.  So only these are weighed anew, and after a gain only the links of the node that moved are looked at
again: in large sparse tables a step costs what hangs together with the node, however many columns there are.  Of places
that are equally good one is taken by chance, which lets the search wander between equal orders.

It starts from given graphs and from random orders, then again and again from the best order with a few linked nodes
exchanged (iterated local search), and stops when nothing has been gained for long, or when its looks at the lists have
been as many as was allowed: counted work, so that what it finds depends on the table and the seed alone.

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

from doxa._by_address import by_address
from doxa._jit import compact, hot
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import n_words, unpack_rows
from doxa.structure.families.cache import CacheArrays, FamilyScores, Scoring, family_log_score
from doxa.structure.graph import WorkingGraph, count_bits, has_bit, reach, replace_parents, toggle_bit, working_graph
from doxa.structure.limits import Limits, may_add
from doxa.structure.moves.changes import cache_is_full
from doxa.structure.moves.parent_sets import ParentSets, draw_set, find_set
from doxa.structure.moves.starts import random_order

__all__ = [
    "FoundGraph",
    "nearby_optima",
    "search_orders",
    "with_large_family",
]


_GAIN = 1e-9  # nats: smaller differences are rounding
_LOOKS = 24_000_000  # half a second to a second on one core; as many again for every hundred columns more
_KICKS_A_NODE = 30  # without a gain, after which there is hardly more to be had
_RANDOM_ORDERS = 24
_LARGEST_KICK = 8
_NO_SET = -1e12  # nats, in place of minus infinity: of two orders that lack sets, the one that lacks fewer is better


class FoundGraph(NamedTuple):
    """The best graph that a search has found."""

    rows: NDArray[np.uint64]  # (n_nodes, n_words): adjacency rows as bit sets
    log_score: float  # nats, the log prior included, times the lists' inverse temperature


@by_address
class _Links(NamedTuple):
    """Which nodes have to do with which by the lists, and the search's work space."""

    first: NDArray[np.int64]  # (n_nodes + 1,): node i's links are linked[first[i] : first[i + 1]]
    linked: NDArray[np.int64]
    kind: NDArray[np.int64]  # 1: that node's list names this one; 2: this one's list names that; 3: both
    mark: NDArray[np.int64]  # (n_nodes,): kinds of the node that is being placed
    avoid: NDArray[np.uint64]  # (n_words,)
    queue: NDArray[np.int64]  # (2, n_nodes): nodes to be placed, in a ring; which nodes are in it
    place: NDArray[np.int64]  # (n_nodes,): of each node in the order
    looks: NDArray[np.int64]  # (1,): looks at the lists so far


def search_orders(
    table: ParentSets,
    rng: np.random.Generator,
    graphs: Iterable[NDArray[np.uint64]] = (),
    *,
    random_orders: int = _RANDOM_ORDERS,
    looks: int | None = None,
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
    looks : int, optional
        Looks at blocks of 64 listed sets, by default 24 million for every hundred nodes.  Every start is brought to
        where no insertion gains, however many that takes.

    Returns
    -------
    FoundGraph or None
        None if no order that was met lets every node have one of its listed sets, as may be when the limits require
        long chains of edges and no graph was given.
    """
    n = len(table.first) - 1
    looks = _LOOKS * max(1, n // 100) if looks is None else looks
    links = _links(table)
    starts = [random_order(rng, unpack_rows(rows, n)) for rows in graphs]
    starts += [rng.permutation(n) for _ in range(random_orders)]
    best, spare, best_score = np.arange(n, dtype=np.int64), np.arange(n, dtype=np.int64), -np.inf
    for order in reversed(starts):
        score = _improved(table, links, order, spare, rng.permutation(n), (0, looks), rng)
        if score > best_score + _GAIN:
            best, best_score = order, score
    _improved(table, links, best, spare, spare[:0], (_KICKS_A_NODE * n, looks), rng)
    rows = np.zeros((n, n_words(n)), dtype=np.uint64)
    score = _graph_of(table, best, links.avoid, rows)
    return FoundGraph(rows, float(score)) if score > -np.inf else None


def nearby_optima(
    table: ParentSets, rng: np.random.Generator, graphs: Iterable[NDArray[np.uint64]], *, looks: int
) -> list[FoundGraph]:
    """Graphs of the orders at which insertions end, begun at those of given graphs with a few linked nodes exchanged.

    Where modes differ in parts of the columns, a random order has many parts wrong at once, one near a best graph few.

    Parameters
    ----------
    table : ParentSets
        Lists of parent sets with their weights; their work space is used.
    rng : numpy.random.Generator
    graphs : iterable of ndarray of uint64, each of shape (n_nodes, n_words)
        Adjacency rows.
    looks : int
        Looks at blocks of 64 listed sets after which no further order is tried.

    Returns
    -------
    list of FoundGraph
        Each graph once, as it was met.
    """
    n = len(table.first) - 1
    links = _links(table)
    orders = [random_order(rng, unpack_rows(rows, n)) for rows in graphs]
    order, found = np.empty(n, dtype=np.int64), dict[bytes, FoundGraph]()
    for k in range(_KICKS_A_NODE * n):
        if links.looks[0] >= looks:
            break
        _improved(table, links, orders[k % len(orders)], order, order[:0], (1, looks), rng)
        rows = np.zeros((n, n_words(n)), dtype=np.uint64)
        score = float(_graph_of(table, order, links.avoid, rows))
        if score > -np.inf:
            found.setdefault(rows.tobytes(), FoundGraph(rows, score))
    return list(found.values())


def _links(table: ParentSets) -> _Links:
    n = len(table.first) - 1
    names = np.diff(table.with_first).reshape(n, n) > 0  # [i, j]: i's list names j
    kind = names.T + 2 * names
    at, linked = np.nonzero(kind)
    return _Links(
        np.searchsorted(at, np.arange(n + 1)).astype(np.int64), linked.astype(np.int64),
        kind[at, linked].astype(np.int64), np.zeros(n, dtype=np.int64), np.zeros(n_words(n), dtype=np.uint64),
        np.zeros((2, n), dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64),
    )  # fmt: skip


@hot
def _best(table: ParentSets, node: int, avoid: Words) -> int:
    """Number of the heaviest listed set of the node without a node of ``avoid``; -1 if there is none."""
    return int(draw_set(table, node, avoid, -1, 0.0, np.inf)[0])


@hot
def _weight(table: ParentSets, node: int, links: _Links) -> float:
    """Weight of the heaviest set of a node without a node of ``links.avoid``."""
    number = _best(table, node, links.avoid)
    links.looks[0] += table.first_block[node + 1] - table.first_block[node]
    return table.weight[number] if number >= 0 else _NO_SET


@hot
def _flip(avoid: Words, node: int) -> None:
    avoid[node >> 6] ^= np.uint64(1) << np.uint64(node & 63)


@hot
def _forbid_all(avoid: Words, n: int) -> None:
    avoid[:] = np.uint64(0)
    for node in range(n):
        _flip(avoid, node)


@hot
def _score_of(table: ParentSets, links: _Links, order: Ints) -> float:
    """Sum of the weights of the best sets within an order."""
    _forbid_all(links.avoid, order.size)
    score = 0.0
    for k in range(order.size):
        score += _weight(table, order[k], links)
        _flip(links.avoid, order[k])
    return score


@hot
def _put(order: Ints, links: _Links, node: int, there: int) -> None:
    """Move a node to another place of the order; those between make room."""
    here = links.place[node]
    step = 1 if there > here else -1
    for k in range(here, there, step):
        order[k] = order[k + step]
        links.place[order[k]] = k
    order[there] = node
    links.place[node] = there


@hot
def _insert(table: ParentSets, links: _Links, order: Ints, node: int, rng: np.random.Generator) -> float:
    """Put a node where the whole gains most, and return by how much; of places that are equally good, in any.

    At place k the node has what the nodes before k allow it, and the nodes from k on have what it gives them.  Both
    change at its links alone: between two of them all places are alike.
    """
    n = order.size
    avoid, mark = links.avoid, links.mark
    for k in range(links.first[node], links.first[node + 1]):
        mark[links.linked[k]] = links.kind[k]
    _forbid_all(avoid, n)
    links.looks[0] += n >> 4  # for the walk along the order
    own, lost = _weight(table, node, links), 0.0
    here, begin, current = links.place[node], 0, -np.inf
    best, alike, there = -np.inf, 0, 0
    k = 0  # place among the others
    for place in range(n):
        other = order[place]
        if other == node:
            continue
        if mark[other] != 0:  # the places from ``begin`` to k are alike
            if begin <= here <= k:
                current = own - lost
            best, alike, there = _among(own - lost, begin, k + 1, (best, alike, there), rng)
            begin = k + 1
            if mark[other] & 1:
                lost -= _weight(table, other, links)
                _flip(avoid, node)
                lost += _weight(table, other, links)
                _flip(avoid, node)
        _flip(avoid, other)
        if mark[other] & 2:
            own = _weight(table, node, links)
        mark[other] = 0
        k += 1
    if begin <= here:
        current = own - lost
    best, alike, there = _among(own - lost, begin, n, (best, alike, there), rng)
    _put(order, links, node, there)
    return best - current if best > current + _GAIN else 0.0


@hot
def _among(
    value: float, begin: int, end: int, so_far: tuple[float, int, int], rng: np.random.Generator
) -> tuple[float, int, int]:
    """The best value yet, how many places have it, and one of them, each alike; ``end`` is not among the new ones."""
    best, alike, there = so_far
    if value < best - _GAIN:
        return best, alike, there
    if value > best + _GAIN:
        best, alike = value, 0
    alike += end - begin
    if rng.random() * alike < end - begin:
        there = begin + int(rng.random() * (end - begin))
    return best, alike, there


@hot
def _improve(table: ParentSets, links: _Links, order: Ints, waiting: int, rng: np.random.Generator) -> float:
    """Place ``waiting`` nodes of the queue, and the links of those that gain; return the gain."""
    n, gained = order.size, 0.0
    queue, is_in = links.queue[0], links.queue[1]
    at = 0
    while waiting > 0:
        node = queue[at]
        at = at + 1 if at + 1 < n else 0
        waiting -= 1
        is_in[node] = 0
        gain = _insert(table, links, order, node, rng)
        if gain > 0.0:
            gained += gain
            for k in range(links.first[node], links.first[node + 1]):
                other = links.linked[k]
                if is_in[other] == 0:
                    is_in[other] = 1
                    queue[(at + waiting) % n] = other
                    waiting += 1
    return gained


@hot
def _exchange(links: _Links, order: Ints, rng: np.random.Generator) -> int:
    """Exchange the places of a few nodes that are linked, and fill the queue with them and their links."""
    n = order.size
    queue, is_in = links.queue[0], links.queue[1]
    size = min(n, 3 + int(rng.random() * (_LARGEST_KICK - 2)))
    found = 0
    while found < size:
        node = int(rng.random() * n)
        if found > 0 and rng.random() < 0.9:  # one that is linked, if there is any
            near = queue[int(rng.random() * found)]
            degree = links.first[near + 1] - links.first[near]
            if degree > 0:
                node = links.linked[links.first[near] + int(rng.random() * degree)]
        if is_in[node] == 0:
            is_in[node] = 1
            queue[found] = node
            found += 1
    for k in range(size - 1, 0, -1):
        one, two = queue[k], queue[int(rng.random() * (k + 1))]
        links.place[one], links.place[two] = links.place[two], links.place[one]
        order[links.place[one]], order[links.place[two]] = one, two
    for k in range(size):
        for link in range(links.first[queue[k]], links.first[queue[k] + 1]):
            other = links.linked[link]
            if is_in[other] == 0:
                is_in[other] = 1
                queue[found] = other
                found += 1
    return found


@compact
def _improved(
    table: ParentSets,
    links: _Links,
    best: Ints,
    order: Ints,
    nodes: Ints,
    most: tuple[int, int],
    rng: np.random.Generator,
) -> float:
    """Improve ``best`` in place, these of its nodes looked at first, in this order; then from itself with a few nodes
    exchanged, again and again, for at most so many such kicks in vain, and looks.  Returns the score.
    """
    n = best.size
    for k in range(nodes.size):
        links.place[best[k]] = k
        links.queue[0, k] = nodes[k]
        links.queue[1, k] = 1
    _improve(table, links, best, nodes.size, rng)
    best_score, left = _score_of(table, links, best), most[0]
    while left > 0 and links.looks[0] < most[1] and n > 2:
        for k in range(n):
            order[k] = best[k]
            links.place[best[k]] = k
        waiting = _exchange(links, order, rng)
        _improve(table, links, order, waiting, rng)
        score = _score_of(table, links, order)
        left -= 1
        if score >= best_score - _GAIN:
            if score > best_score + _GAIN:
                left = most[0]
            best_score = score
            for k in range(n):
                best[k] = order[k]
    return best_score


@compact
def _graph_of(table: ParentSets, order: Ints, avoid: Words, rows: Words) -> float:
    """Write the adjacency rows of the best graph of an order; return its score, minus infinity if there is none."""
    n = order.size
    score = 0.0
    _forbid_all(avoid, n)
    for place in range(n):
        node = order[place]
        number = _best(table, node, avoid)
        if number < 0:
            return -np.inf
        score += table.weight[number]
        for parent in range(n):
            if (table.sets[number, parent >> 6] >> np.uint64(parent & 63)) & np.uint64(1):
                rows[parent, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
        _flip(avoid, node)
    return score


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
    n = len(rows)
    members, order = np.zeros((n, n_words(n)), dtype=np.uint64), np.empty(n, dtype=np.int64)
    above = _Above(working_graph(rows), table, limits, order, members, np.empty(1), np.zeros(1, dtype=np.int64))
    left = _MOST_CELLS // max(1, len(scores.data[1]))
    best = np.zeros((1, n_words(n)), dtype=np.uint64)
    gain, where = 0.0, -1
    with scores.borrow() as (cache, scoring):
        for start in range(_STARTS):
            for node in rng.permutation(n).tolist():
                if left <= 0:
                    break
                order[:] = rng.permutation(n)
                while not _from_above(above, node, start == 0, cache.arrays, scoring):
                    cache.grow()
                left -= int(above.counted[0])
                more = float(above.gain[0])
                if more > gain + 1e-9 and find_set(table, node, members[node]) < 0:
                    gain, where, best[0] = more, node, members[node]
    if where < 0:
        return None
    replace_parents(above.graph, where, best[0])
    return above.graph[1]


@by_address
class _Above(NamedTuple):
    """What `_from_above` needs to know, and what it finds."""

    graph: WorkingGraph
    table: ParentSets
    limits: Limits
    order: NDArray[np.int64]  # (n_nodes,): in which nodes are offered as parents
    members: NDArray[np.uint64]  # (n_nodes, n_words): the parents that are left, in the node's own row
    gain: NDArray[np.float64]  # (1,): what they weigh more than the best listed set that closes no cycle
    counted: NDArray[np.int64]  # (1,): families, about


@compact
def _from_above(above: _Above, node: int, and_more: bool, cache: CacheArrays, scoring: Scoring) -> bool:
    """Give a node many parents, beside those that it has or the required ones alone, and leave out those that weigh
    nothing; False when the cache should grow first.
    """
    graph, table, limits, members, avoid = above.graph, above.table, above.limits, above.members, above.table.reached[0]
    above.gain[0], above.counted[0] = -np.inf, 0
    reach(graph[1], node, node, node, avoid)
    listed = _best(table, node, avoid)
    meets = np.uint64(0)
    for w in range(avoid.size):
        members[node, w] = limits.required[node, w]
        meets |= members[node, w] & avoid[w]
    if listed < 0 or meets != np.uint64(0):
        return True
    if and_more:
        for w in range(avoid.size):
            members[node, w] |= graph[0][node, w]
    for place in range(above.order.size):
        other = above.order[place]
        if other == node or (avoid[other >> 6] >> np.uint64(other & 63)) & np.uint64(1):
            continue
        room = count_bits(members, node) < _MOST_PARENTS and not has_bit(members, node, other)
        if room and may_add(limits, members, node, other):
            toggle_bit(members, node, other)
    above.counted[0] = count_bits(members, node) ** 2 // 2
    if not _leave_out(node, members, limits, cache, scoring, above.gain):
        return False
    above.gain[0] -= table.weight[listed]
    return True


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
