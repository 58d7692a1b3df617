"""Relations read off many graphs at once, on bit sets: descendants, Markov blankets, equivalence classes.

What `doxa.models.Dag` does for one graph is done here for all graphs of a sample, compiled; the tests hold the two to
each other.  The equivalence class is found by the edge labelling of Chickering (1995, section 4).  There, the first
edge into a node that is looked at, the one from its topologically last parent, settles all edges into that node: so one
look for each node is enough.  Where somebody intervened, classes are smaller: see `class_rows`.

Graphs are adjacency rows, uint64 of shape (n_graphs, n_nodes, n_words), as in `doxa.models.bits`.  They are not
modified; relations have the same shape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError
from doxa.models.bits import n_words, pack_rows

__all__ = [
    "bit_totals",
    "blanket_rows",
    "class_rows",
    "count_differing_pairs",
    "descendant_rows",
    "label_rows",
    "sum_over_bits",
    "wide_shares",
]


def descendant_rows(rows: Words) -> Words:
    """Descendants of every node of every graph: bit j of row i is set when there is a directed path from i to j.

    Raises
    ------
    ArgumentError
        If a graph has a cycle.

    Examples
    --------
    >>> descendant_rows(np.array([[[2], [4], [0]]], dtype=np.uint64)).ravel()  # 0 -> 1 -> 2
    array([6, 4, 0], dtype=uint64)
    """
    rows = np.ascontiguousarray(rows)
    out = np.zeros_like(rows)
    waiting, order = np.empty((2, rows.shape[1]), dtype=np.int64)
    _refuse_cycle(_descendants(rows, out, waiting, order))
    return out


def blanket_rows(rows: Words) -> Words:
    """Markov blankets of all nodes of every graph.

    Bit j of row i is set when j is a parent, a child or another parent of a child of i; the relation is symmetric.

    Examples
    --------
    >>> blanket_rows(np.array([[[4], [4], [0]]], dtype=np.uint64)).ravel()  # 0 -> 2 <- 1
    array([6, 5, 3], dtype=uint64)
    """
    rows = np.ascontiguousarray(rows)
    out = np.zeros_like(rows)
    _blankets(rows, out, np.empty(rows.shape[1:], dtype=np.uint64))
    return out


def class_rows(rows: Words, targets: NDArray[np.bool_] | None = None) -> tuple[Words, Words]:
    """The completed partially directed graph of every graph's equivalence class.

    Parameters
    ----------
    rows : ndarray of uint64, shape (n_graphs, n_nodes, n_words)
    targets : ndarray of bool, shape (n_sets, n_nodes), optional
        Sets of nodes on which somebody intervened together, beside rows in which nobody did.  The classes are then
        interventional: graphs whose interventions have the same consequences, too (Hauser & Buehlmann 2012).

    Returns
    -------
    directed : ndarray of uint64, same shape
        Compelled edges: bit j of row i for i -> j.
    undirected : ndarray of uint64, same shape
        Reversible edges: bit j of row i and bit i of row j for i -- j.

    Raises
    ------
    ArgumentError
        If a graph has a cycle.

    Examples
    --------
    >>> directed, undirected = class_rows(np.array([[[2], [4], [0]]], dtype=np.uint64))  # 0 -> 1 -> 2
    >>> directed.ravel(), undirected.ravel()
    (array([0, 0, 0], dtype=uint64), array([2, 5, 2], dtype=uint64))
    >>> class_rows(np.array([[[2], [4], [0]]], dtype=np.uint64), np.array([[False, True, False]]))[0].ravel()
    array([2, 4, 0], dtype=uint64)
    """
    if targets is not None and len(targets):
        return _interventional(rows, targets)
    rows = np.ascontiguousarray(rows)
    directed, undirected = np.zeros_like(rows), np.zeros_like(rows)
    parents, compelled = np.empty((2, *rows.shape[1:]), dtype=np.uint64)
    waiting, order, place = np.empty((3, rows.shape[1]), dtype=np.int64)
    _refuse_cycle(_classes(rows, directed, undirected, parents, compelled, waiting, order, place))
    return directed, undirected


def _interventional(rows: Words, targets: NDArray[np.bool_]) -> tuple[Words, Words]:
    """`class_rows` where sets of nodes were intervened on.

    Each set gets a node above it, and two nodes that are not joined above that, so that its edges are compelled.
    Graphs are of one interventional class when the graphs with these nodes are of one class (Yang, Katcoff & Uhler
    2018).
    """
    n_graphs, n, words = rows.shape
    total = n + 3 * len(targets)
    wider = np.zeros((n_graphs, total, n_words(total)), dtype=np.uint64)
    wider[:, :n, :words] = rows
    added = np.zeros((3 * len(targets), total), dtype=np.bool_)
    added[::3, :n] = targets
    for above in (1, 2):
        added[above::3, n::3] = np.eye(len(targets), dtype=np.bool_)
    wider[:, n:] = pack_rows(added)
    directed, undirected = class_rows(wider)
    return np.ascontiguousarray(directed[:, :n, :words]), np.ascontiguousarray(undirected[:, :n, :words])


def bit_totals(rows: Words, weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Total weight of the graphs that have each bit set, shape (n_nodes, n_nodes).

    Examples
    --------
    >>> bit_totals(np.array([[[2], [0]], [[0], [1]]], dtype=np.uint64), np.array([3, 5]))
    array([[0, 3],
           [5, 0]])
    """
    n_nodes = rows.shape[1]
    out = np.zeros((n_nodes, n_nodes), dtype=np.int64)
    _bit_totals(np.ascontiguousarray(rows), np.ascontiguousarray(weights, dtype=np.int64), out)
    return out


def wide_shares(rows: Words, log_states: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """How often each node has parents with more configurations than exp(``most``), shape (n_nodes,).

    Examples
    --------
    >>> wide_shares(np.array([[[2], [0]], [[0], [0]]], dtype=np.uint64), np.log([3.0, 2.0]), np.log(2.0))
    array([0. , 0.5])
    """
    found = np.zeros(rows.shape[1], dtype=np.int64)
    _count_wide(np.ascontiguousarray(rows), log_states, most + 1e-9, np.empty(rows.shape[1]), found)
    return np.asarray(found / max(1, len(rows)))


def sum_over_bits(rows: Words, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of ``values[i, j]`` over the set bits of every graph, shape (n_graphs,).

    Examples
    --------
    >>> sum_over_bits(np.array([[[2], [0]], [[0], [1]]], dtype=np.uint64), np.array([[0.0, 0.5], [0.25, 0.0]]))
    array([0.5 , 0.25])
    """
    out = np.zeros(len(rows))
    _sum_over_bits(np.ascontiguousarray(rows), np.ascontiguousarray(values, dtype=np.float64), out)
    return out


def count_differing_pairs(rows: Words, graph: Words) -> NDArray[np.int64]:
    """Pairs of nodes whose state in ``graph`` is another than in each of many graphs.

    Parameters
    ----------
    rows : ndarray of uint64, shape (n_graphs, n_nodes, n_words)
        The two bits of a pair, [i, j] and [j, i], are its state: none, one or the other direction, or both.
    graph : ndarray of uint64, shape (n_nodes, n_words)

    Returns
    -------
    ndarray of int64, shape (n_graphs,)

    Examples
    --------
    >>> count_differing_pairs(np.array([[[2], [0]]], dtype=np.uint64), np.array([[0], [1]], dtype=np.uint64))
    array([1])
    """
    out = np.zeros(len(rows), dtype=np.int64)
    differs = np.empty(graph.shape, dtype=np.uint64)
    _differing_pairs(np.ascontiguousarray(rows), np.ascontiguousarray(graph), differs, out)
    return out


def label_rows(words: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number different rows in order of appearance.

    Parameters
    ----------
    words : ndarray of uint64, shape (n, ...)

    Returns
    -------
    first : ndarray of int, shape (n_different,)
        Position of the first row of each kind.
    label : ndarray of int, shape (n,)
        Kind of each row.

    Examples
    --------
    >>> label_rows(np.array([[7], [2], [7]], dtype=np.uint64))
    (array([0, 1]), array([0, 1, 0]))
    """
    flat = np.ascontiguousarray(words).reshape(len(words), -1)
    keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.ravel()]


def _refuse_cycle(graph: int) -> None:
    if graph >= 0:
        raise ArgumentError(f"rows[{graph}] has a cycle; every graph must be acyclic")


@hot
def _topological(children: Words, waiting: Ints, order: Ints) -> int:
    """Fill ``order`` with parents before children; return how many nodes are on no cycle and below none."""
    n, n_words = children.shape
    waiting[:] = 0
    for i in range(n):
        for w in range(n_words):
            word = children[i, w]
            while word != np.uint64(0):
                waiting[64 * w + lowest_bit(word)] += 1
                word &= word - np.uint64(1)
    found = 0
    for i in range(n):
        if waiting[i] == 0:
            order[found] = i
            found += 1
    head = 0
    while head < found:
        i = order[head]
        head += 1
        for w in range(n_words):
            word = children[i, w]
            while word != np.uint64(0):
                j = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                waiting[j] -= 1
                if waiting[j] == 0:
                    order[found] = j
                    found += 1
    return found


@hot
def _transpose(children: Words, parents: Words) -> None:
    n, n_words = children.shape
    parents[:] = np.uint64(0)
    for i in range(n):
        for w in range(n_words):
            word = children[i, w]
            while word != np.uint64(0):
                j = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                parents[j, i >> 6] |= np.uint64(1) << np.uint64(i & 63)


@hot
def _descendants(rows: Words, out: Words, waiting: Ints, order: Ints) -> int:
    """Returns the first graph with a cycle, or -1."""
    n_graphs, n, n_words = rows.shape
    for graph in range(n_graphs):
        if _topological(rows[graph], waiting, order) < n:
            return graph
        for position in range(n - 1, -1, -1):  # children before parents
            i = order[position]
            for w in range(n_words):
                word = rows[graph, i, w]
                out[graph, i, w] |= word
                while word != np.uint64(0):
                    j = 64 * w + lowest_bit(word)
                    word &= word - np.uint64(1)
                    for v in range(n_words):
                        out[graph, i, v] |= out[graph, j, v]
    return -1


@hot
def _blankets(rows: Words, out: Words, parents: Words) -> None:
    n_graphs, n, n_words = rows.shape
    for graph in range(n_graphs):
        _transpose(rows[graph], parents)
        for i in range(n):
            for w in range(n_words):
                word = rows[graph, i, w]
                out[graph, i, w] |= word | parents[i, w]
                while word != np.uint64(0):
                    j = 64 * w + lowest_bit(word)
                    word &= word - np.uint64(1)
                    for v in range(n_words):
                        out[graph, i, v] |= parents[j, v]
            out[graph, i, i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))


@hot
def _classes(
    rows: Words,
    directed: Words,
    undirected: Words,
    parents: Words,
    compelled: Words,
    waiting: Ints,
    order: Ints,
    place: Ints,
) -> int:
    """Returns the first graph with a cycle, or -1."""
    n_graphs, n, n_words = rows.shape
    for graph in range(n_graphs):
        if _topological(rows[graph], waiting, order) < n:
            return graph
        _transpose(rows[graph], parents)
        for position in range(n):
            place[order[position]] = position
        compelled[:] = np.uint64(0)  # compelled[y]: the parents of y whose edge into y is compelled
        for position in range(n):
            y = order[position]
            _label_into(y, parents, compelled, place)
            for w in range(n_words):
                word = parents[y, w]
                while word != np.uint64(0):
                    x = 64 * w + lowest_bit(word)
                    low = word & (~word + np.uint64(1))
                    word ^= low
                    if compelled[y, w] & low != np.uint64(0):
                        directed[graph, x, y >> 6] |= np.uint64(1) << np.uint64(y & 63)
                    else:
                        undirected[graph, x, y >> 6] |= np.uint64(1) << np.uint64(y & 63)
                        undirected[graph, y, w] |= low
    return -1


@hot
def _label_into(y: int, parents: Words, compelled: Words, place: Ints) -> None:
    """Label all edges into ``y``, those into its ancestors being labelled: fill ``compelled[y]``."""
    n_words = parents.shape[1]
    x = -1  # the last parent of y in topological order
    for w in range(n_words):
        word = parents[y, w]
        while word != np.uint64(0):
            candidate = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if x < 0 or place[candidate] > place[x]:
                x = candidate
    if x < 0:
        return
    every = False  # a compelled w -> x with w no parent of y, or a parent of y that is none of x
    for w in range(n_words):
        itself = np.uint64(1) << np.uint64(x & 63) if w == x >> 6 else np.uint64(0)
        if compelled[x, w] & ~parents[y, w] != np.uint64(0) or parents[y, w] & ~parents[x, w] & ~itself != np.uint64(0):
            every = True
    for w in range(n_words):
        compelled[y, w] = parents[y, w] if every else compelled[x, w]


@hot
def _bit_totals(rows: Words, weights: Ints, out: Ints) -> None:
    for graph in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            for w in range(rows.shape[2]):
                word = rows[graph, i, w]
                while word != np.uint64(0):
                    out[i, 64 * w + lowest_bit(word)] += weights[graph]
                    word &= word - np.uint64(1)


@hot
def _count_wide(rows: Words, log_states: Floats, most: float, logs: Floats, found: Ints) -> None:
    for graph in range(rows.shape[0]):
        logs[:] = 0.0
        for i in range(rows.shape[1]):
            for w in range(rows.shape[2]):
                word = rows[graph, i, w]
                while word != np.uint64(0):
                    logs[64 * w + lowest_bit(word)] += log_states[i]
                    word &= word - np.uint64(1)
        for node in range(rows.shape[1]):
            found[node] += logs[node] > most


@hot
def _sum_over_bits(rows: Words, values: Floats, out: Floats) -> None:
    for graph in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            for w in range(rows.shape[2]):
                word = rows[graph, i, w]
                while word != np.uint64(0):
                    out[graph] += values[i, 64 * w + lowest_bit(word)]
                    word &= word - np.uint64(1)


@hot
def _differing_pairs(rows: Words, graph: Words, differs: Words, out: Ints) -> None:
    n_graphs, n, n_words = rows.shape
    for number in range(n_graphs):
        for i in range(n):
            for w in range(n_words):
                differs[i, w] = rows[number, i, w] ^ graph[i, w]
        count = 0
        for i in range(n):
            bit = np.uint64(1) << np.uint64(i & 63)
            for w in range(n_words):
                word = differs[i, w]
                while word != np.uint64(0):
                    j = 64 * w + lowest_bit(word)
                    word &= word - np.uint64(1)
                    if i < j or differs[j, i >> 6] & bit == np.uint64(0):  # a pair with two differing bits counts once
                        count += 1
        out[number] = count
