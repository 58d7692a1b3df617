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

from doxa._jit import hot, lowest_bit, popcount
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import WorkingGraph, replace_parents

if TYPE_CHECKING:
    from doxa.structure.moves.parent_sets import ParentSets

__all__ = ["joint_parents_step", "joint_work", "near_nodes", "small_graphs"]

_NODES = 4
_NEAR = 6  # nodes that may join a node
_MOST_SETS = 512  # of a node's list
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
    return near, graphs, np.zeros(len(graphs)), np.zeros((k, 2**k)), np.zeros((k, n_words), dtype=np.uint64)


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
def _type_of(parents: Words, reach: Words, k: int) -> int:
    """Which of the k reaches a set meets, as bits."""
    found = 0
    for s in range(k):
        for w in range(parents.size):
            if parents[w] & reach[s, w] != np.uint64(0):
                found |= 1 << s
                break
    return found


@hot
def _sum_types(table: ParentSets, nodes: Ints, reach: Words, k: int, sums: Floats) -> bool:
    """Fill ``sums[s]`` with the sums of weights by type; False if a node's set is not there.

    Each is relative to the heaviest of the node's sets that may be taken: the heaviest of all can be hundreds of nats
    above it, and products of four such numbers are less than a float can hold.
    """
    for s in range(k):
        node = nodes[s]
        first, last = _part(table, node)
        if table.where[node] < first or table.where[node] >= last:
            return False
        sums[s, :] = 0.0
        top, unit = -1, 1.0
        for number in range(first, last):
            kind = _type_of(table.sets[number], reach, k)
            if not kind >> s & 1:
                top, unit = _unit(table, number, top, unit)
                if unit == 0.0:
                    break
                sums[s, kind] += unit * table.scaled[number]
    return True


@hot
def _part(table: ParentSets, node: int) -> tuple[int, int]:
    """The part of a node's list that is looked at: from the first number to before the second."""
    first = table.first[node]
    return first, min(table.first[node + 1], first + _MOST_SETS)


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
def _draw_graph(graphs: Ints, sums: Floats, weights: Floats, rng: np.random.Generator) -> int:
    """Number of a graph on the nodes, drawn by its weight; -1 if all weights are too small for a float.

    That is so, or not, for all graphs that the step could come from or go to, so to stay then changes no answer.
    """
    total = 0.0
    for h in range(graphs.shape[0]):
        weight = 1.0
        for s in range(graphs.shape[1]):
            weight *= sums[s, graphs[h, s]]
        total += weight
        weights[h] = total
    if total < _LEAST:
        return -1
    target = rng.random() * total
    low, high = 0, graphs.shape[0] - 1
    while low < high:
        middle = (low + high) >> 1
        if weights[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@hot
def _draw_of_type(
    table: ParentSets, node: int, s: int, kind: int, reach: Words, k: int, total: float, rng: np.random.Generator
) -> int:
    """A set of the node of this type, drawn by its weight; ``total`` is their sum."""
    target = rng.random() * total
    first, last = _part(table, node)
    found, top, unit = -1, -1, 1.0
    for number in range(first, last):
        own = _type_of(table.sets[number], reach, k)
        if not own >> s & 1:
            top, unit = _unit(table, number, top, unit)
            if unit == 0.0:
                break
            if own == kind:
                found = number
                target -= unit * table.scaled[number]
                if target < 0.0:
                    break
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
    near, graphs, weights, sums, reach = table.joint
    k = graphs.shape[1]
    nodes, inside = table.order[0], table.reached[0]
    if near.shape[0] < 2:
        return nothing
    _choose(near, nodes, k, rng)
    inside[:] = np.uint64(0)
    for s in range(k):
        inside[nodes[s] >> 6] |= np.uint64(1) << np.uint64(nodes[s] & 63)
    for s in range(k):
        _reach_outside(graph[1], nodes[s], inside, reach[s])
    if not _sum_types(table, nodes, reach, k, sums):
        return nothing
    drawn = _draw_graph(graphs, sums, weights, rng)
    if drawn < 0:
        return nothing
    more, changed = 0, False
    for s in range(k):
        node = nodes[s]
        kind = graphs[drawn, s]
        number = _draw_of_type(table, node, s, kind, reach, k, sums[s, kind], rng)
        if number != table.where[node]:
            changed = True
            for w in range(inside.size):
                more += popcount(table.sets[number, w]) - popcount(graph[0][node, w])
            replace_parents(graph, node, table.sets[number])
            table.where[node] = number
            local[node] = family_log_score(node, graph[0][node], cache, scoring)
    return more if changed else nothing
