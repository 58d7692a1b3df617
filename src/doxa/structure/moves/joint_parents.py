r"""`joint_parents_step`: redraw the parents of four nodes together, by their exact conditional posterior.

Columns that measure nearly the same thing hang together in rings: to turn one arc, the others must turn too, and what
lies between scores tens of nats less, too much for moves of one or two nodes and for all but hot chains.  A step that
redraws all of them at once goes through (Goudie & Mukherjee 2016).

Take the parents of the nodes S away.  For s in S let :math:`R_s` be s and its descendants in what is left.  A parent
set P of s that avoids :math:`R_s` has for *type* those other members t of S with P reaching into :math:`R_t`.  The
whole is without cycles exactly if the types, read as parents within S, are a graph without cycles.  So the sum over the
joint parent sets of S is a sum over the 543 graphs on four nodes,

.. math:: \sum_{H} \prod_{s \in S} W_s(pa_H(s)), \quad W_s(T) = \sum_{P\ \text{of type}\ T} w_s(P),

from which a graph H is drawn, and then a set of its type for every node.  Which nodes are taken together depends on
the lists and on chance, never on the graph: a node, and others that matter to it or to each other.

The sets are those of the node's list, the first 512 of it; as in `doxa.structure.moves.gibbs` a draw from a
part of the sets is exact whatever the part, and a step from a family outside it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined, lowest_bit, popcount
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import WorkingGraph, replace_parents

if TYPE_CHECKING:
    from doxa.structure.moves.parent_sets import ParentSets

__all__ = ["joint_parents_step", "joint_work", "near_nodes", "small_graphs"]

_NODES = 4
_NEAR = 6  # nodes that may join a node
_MOST_BLOCKS = 8  # of 64 sets each, of a node's list
_DEEPEST = 10  # levels of 64 nats below the first set that fits: what is deeper is nothing beside it
_LEAST = 1e-200  # a sum of products below this may lack some that were cut, each below 1e-237, and has lost digits


def small_graphs(n_nodes: int) -> NDArray[np.int64]:
    """Parents of each node, as bit sets, of all graphs without cycles on up to four nodes; shape (n_graphs, k).

    Examples
    --------
    >>> [small_graphs(n).shape for n in (1, 2, 3, 9)]
    [(1, 1), (3, 2), (25, 3), (543, 4)]
    """
    k = min(_NODES, n_nodes)
    grid = np.stack(np.meshgrid(*[np.arange(2**k)] * k, indexing="ij"), axis=-1).reshape(-1, k)
    own = 1 << np.arange(k)
    graphs = grid[((grid & own) == 0).all(axis=1)]
    left = np.full(len(graphs), 2**k - 1)  # nodes that have not been taken away, sources first
    for _ in range(k):
        source = ((graphs & left[:, None]) == 0) & ((left[:, None] & own) > 0)
        left &= ~(source * own).sum(axis=1)
    return np.ascontiguousarray(graphs[left == 0])


def near_nodes(value: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each node those that matter most to it or it to them, by a matrix of values, ``[i, j]`` of j for i."""
    n = len(value)
    both = np.fmax(value, value.T)
    np.fill_diagonal(both, -np.inf)
    return np.ascontiguousarray(np.argsort(-both, axis=1, kind="stable")[:, : min(_NEAR, n - 1)])


def joint_work(near: NDArray[np.int64], n_words: int) -> tuple[NDArray[Any], ...]:
    """What `joint_parents_step` needs beside the lists: near nodes, small graphs and work space of a chain's own."""
    graphs = small_graphs(len(near))
    k = graphs.shape[1]
    alike = np.append(np.flatnonzero(np.diff(graphs[:, :2], axis=0, prepend=-1).any(axis=1)), len(graphs))
    reach, meets = np.zeros((k, n_words), dtype=np.uint64), np.zeros((k, _MOST_BLOCKS, k), dtype=np.uint64)
    return near, graphs, alike, np.zeros(len(alike) - 1), np.zeros((k, 2**k)), reach, meets


@hot
def _choose(near: Ints, nodes: Ints, k: int, rng: np.random.Generator) -> None:
    """Draw k different nodes that are near each other."""
    n = near.shape[0]
    nodes[0] = int(rng.random() * n)
    for found in range(1, k):
        tries = 0
        while True:
            member = nodes[int(rng.random() * found)]
            other = near[member, int(rng.random() * near.shape[1])] if tries < 8 else int(rng.random() * n)
            tries += 1
            new = True
            for m in range(found):
                new = new and nodes[m] != other
            if new:
                nodes[found] = other
                break


@hot
def _reach_outside(children: Words, node: int, inside: Words, reached: Words) -> None:
    """Fill ``reached`` with a node and its descendants in the graph in which the nodes ``inside`` have no parents."""
    words = reached.size
    for w in range(words):
        reached[w] = children[node, w] & ~inside[w]
    waiting = True
    while waiting:
        waiting = False
        for w in range(words):
            word = reached[w]
            while word != np.uint64(0):
                other = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                for v in range(words):
                    new = children[other, v] & ~inside[v] & ~reached[v]
                    if new != np.uint64(0):
                        reached[v] |= new
                        waiting = True
    reached[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@hot
def _meet(table: ParentSets, node: int, reach: Words, k: int, meets: Words) -> None:
    """Which of the sets that are looked at meet each of the k reaches: a word for each block of 64 and each reach."""
    for b in range(_n_blocks(table, node)):
        block = table.first_block[node] + b
        for s in range(k):
            found = np.uint64(0)
            for w in range(reach.shape[1]):
                word = reach[s, w] & table.union[block, w]
                while word != np.uint64(0):
                    found |= table.holds[block, 64 * w + lowest_bit(word)]
                    word &= word - np.uint64(1)
            meets[b, s] = found


@hot
def _n_blocks(table: ParentSets, node: int) -> int:
    """Blocks of 64 sets that are looked at."""
    return min(table.first_block[node + 1] - table.first_block[node], _MOST_BLOCKS)  # type: ignore[no-any-return]


@hot
def _fitting(table: ParentSets, node: int, s: int, b: int, meets: Words) -> np.uint64:
    """The sets of a block, as bits, that do not meet the node's own reach."""
    behind = table.first[node + 1] - table.first[node] - 64 * b
    listed = ~np.uint64(0) if behind >= 64 else (np.uint64(1) << np.uint64(behind)) - np.uint64(1)
    return listed & ~meets[b, s]  # type: ignore[no-any-return]


@inlined
def _type_of(bit: np.uint64, b: int, k: int, meets: Words) -> int:
    """Which of the k reaches a set meets, as bits; the set is told by its block and its bit there."""
    found = 0
    for s in range(k):
        if meets[b, s] & bit != np.uint64(0):
            found |= 1 << s
    return found


@hot
def _sum_types(table: ParentSets, node: int, s: int, k: int, meets: Words, sums: Floats) -> None:
    """Fill ``sums`` with the sums of weights by type.

    Each is relative to the heaviest of the node's sets that may be taken: the heaviest of all can be hundreds of nats
    above it, and products of four such numbers are less than a float can hold.
    """
    sums[:] = 0.0
    top, unit = -1, 1.0
    for b in range(_n_blocks(table, node)):
        fits = _fitting(table, node, s, b, meets)
        while fits != np.uint64(0):
            bit = fits & (~fits + np.uint64(1))
            number = table.first[node] + 64 * b + lowest_bit(fits)
            top, unit = _unit(table, number, top, unit)
            if unit == 0.0:
                return
            sums[_type_of(bit, b, k, meets)] += unit * table.scaled[number]
            fits ^= bit


@hot
def _unit(table: ParentSets, number: int, top: int, unit: float) -> tuple[int, float]:
    """The first set that is met, and what a weight of this set's level is in units of that one's; lists fall."""
    if top < 0:
        return number, 1.0 / table.scaled[number]
    below = table.level[number] - table.level[top]
    if below == 0:
        return top, unit
    return top, np.exp(-64.0 * below) / table.scaled[top] if below < _DEEPEST else 0.0


@hot
def _draw_graph(graphs: Ints, alike: Ints, sums: Floats, until: Floats, rng: np.random.Generator) -> int:
    """Number of a graph on the nodes, drawn by its weight; -1 if all weights are too small for a float.

    That is so, or not, for all graphs that the step could come from or go to, so to stay then changes no answer.
    Graphs whose first two nodes have parents of no weight, which are most, are passed over together.
    """
    total = 0.0
    for group in range(until.size):
        first = alike[group]
        of_two = sums[0, graphs[first, 0]] * sums[1, graphs[first, 1]]
        if of_two > 0.0:
            for h in range(first, alike[group + 1]):
                weight = of_two
                for s in range(2, graphs.shape[1]):
                    weight *= sums[s, graphs[h, s]]
                total += weight
        until[group] = total
    if total < _LEAST:
        return -1
    target = min(rng.random() * total, total * (1.0 - 1e-15))
    low, high = 0, until.size - 1
    while low < high:
        middle = (low + high) >> 1
        if until[middle] > target:
            high = middle
        else:
            low = middle + 1
    total, last = until[low - 1] if low > 0 else 0.0, -1
    of_two = sums[0, graphs[alike[low], 0]] * sums[1, graphs[alike[low], 1]]
    for h in range(alike[low], alike[low + 1]):
        weight = of_two
        for s in range(2, graphs.shape[1]):
            weight *= sums[s, graphs[h, s]]
        total += weight
        if weight > 0.0:
            last = h
            if total > target:
                break
    return last


@hot
def _draw_of_type(
    table: ParentSets, node: int, s: int, kind: int, k: int, meets: Words, total: float, rng: np.random.Generator
) -> int:
    """A set of the node of this type, drawn by its weight; ``total`` is their sum."""
    target = rng.random() * total
    found, top, unit = -1, -1, 1.0
    for b in range(_n_blocks(table, node)):
        fits = _fitting(table, node, s, b, meets)
        if top >= 0:  # the first set that fits is met, the others are wanted only if they are of this type
            for t in range(k):
                fits &= meets[b, t] if kind >> t & 1 else ~meets[b, t]
        while fits != np.uint64(0):
            bit = fits & (~fits + np.uint64(1))
            number = table.first[node] + 64 * b + lowest_bit(fits)
            top, unit = _unit(table, number, top, unit)
            if unit == 0.0:
                return found
            if _type_of(bit, b, k, meets) == kind:
                found = number
                target -= unit * table.scaled[number]
                if target < 0.0:
                    return found  # type: ignore[no-any-return]
            fits ^= bit
    return found


@hot
def joint_parents_step(
    graph: WorkingGraph,
    local: Floats,
    cache: CacheArrays,
    scoring: Scoring,
    table: ParentSets,
    rng: np.random.Generator,
) -> int:
    """Redraw the parents of some nodes together; returns by how many the edges grew, or -2^30 if nothing changed.

    Closures are not kept.
    """
    nothing = -(1 << 30)
    near, graphs, alike, until, sums, reach, meets = table.joint
    k = graphs.shape[1]
    nodes, inside = table.order[0], table.reached[0]
    if near.shape[0] < 2:
        return nothing
    _choose(near, nodes, k, rng)
    inside[:] = np.uint64(0)
    for s in range(k):
        inside[nodes[s] >> 6] |= np.uint64(1) << np.uint64(nodes[s] & 63)
        number = table.where[nodes[s]] - table.first[nodes[s]]
        if number < 0 or number >= 64 * _MOST_BLOCKS:
            return nothing
    for s in range(k):
        _reach_outside(graph[1], nodes[s], inside, reach[s])
    for s in range(k):
        _meet(table, nodes[s], reach, k, meets[s])
        _sum_types(table, nodes[s], s, k, meets[s], sums[s])
    drawn = _draw_graph(graphs, alike, sums, until, rng)
    if drawn < 0:
        return nothing
    more, changed = 0, False
    for s in range(k):
        node = nodes[s]
        kind = graphs[drawn, s]
        number = _draw_of_type(table, node, s, kind, k, meets[s], sums[s, kind], rng)
        if number != table.where[node]:
            changed = True
            for w in range(inside.size):
                more += popcount(table.sets[number, w]) - popcount(graph[0][node, w])
            replace_parents(graph, node, table.sets[number])
            table.where[node] = number
            local[node] = family_log_score(node, graph[0][node], cache, scoring)
    return more if changed else nothing
