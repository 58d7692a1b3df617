"""The best graph of all that lists of parent sets allow: `best_graph`.

Of few nodes through all their subsets (Silander & Myllymaki 2006): the best graph on a set of nodes has a last node,
with the heaviest of its listed sets within the others, and the best graph on these.  It is NumPy alone, so that nothing
is compiled for it.  Of more nodes it is what a search over orders finds (`doxa.structure.moves.order_search`).

`best_scores_with_edges`: what the best graph scores that has an edge i -> j, for every edge.  The nodes before j are
some set with i in it, j's parents the heaviest listed set with i within these, and the nodes after j have the best
that is left to them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from doxa.models.bits import pack_rows
from doxa.structure.moves.order_search import FoundGraph, search_orders
from doxa.structure.moves.parent_sets import ParentSets

__all__ = ["best_graph", "best_of_all", "best_scores_with_edges", "heaviest_within", "takes_all_orders"]

Heaviest = tuple[NDArray[np.float64], NDArray[np.int64]]

_FEW = 15  # nodes: some hundredths of a second, and tenths for all edges


def best_graph(
    table: ParentSets,
    rng: np.random.Generator,
    graphs: Iterable[NDArray[np.uint64]] = (),
    *,
    looks: int | None = None,
) -> FoundGraph | None:
    """The best graph on few nodes, else the best that `search_orders` finds, from these graphs among others.

    Returns
    -------
    FoundGraph or None
        None if the lists allow no graph, or the search found none.
    """
    if takes_all_orders(len(table.first) - 1):
        return best_of_all(table)
    return search_orders(table, rng, graphs, looks=looks)


def takes_all_orders(n_nodes: int) -> bool:
    """Whether the nodes are few enough for what looks at all their subsets."""
    return n_nodes <= _FEW


def best_of_all(
    table: ParentSets, edge: tuple[int, int] | None = None, heaviest: Heaviest | None = None
) -> FoundGraph | None:
    """The best graph, whatever the order, or the best that has an edge; of equally good ones always the same.

    Time and memory grow as n 2^n.  Who asks for many of them gives ``heaviest``, what `heaviest_within` finds.
    """
    n = len(table.first) - 1
    weight, number = heaviest_within(table) if heaviest is None else heaviest
    if edge is not None:
        (i, j), weight, number = edge, weight.copy(), number.copy()
        weight[j : j + 1], number[j : j + 1] = heaviest_within(table, i, j)
    best, last = _best_first(weight)
    if best[-1] == -np.inf:
        return None
    adjacency, left = np.zeros((n, n), dtype=np.bool_), 2**n - 1
    while left:
        node = int(last[left])
        left ^= 1 << node
        parents = int(table.sets[number[node, left], 0])
        adjacency[[j for j in range(n) if parents >> j & 1], node] = True
    return FoundGraph(pack_rows(adjacency), float(best[-1]))


def best_scores_with_edges(table: ParentSets, heaviest: Heaviest) -> NDArray[np.float64]:
    """What the best graph scores that has the edge i -> j, (n_nodes, n_nodes); minus infinity where none has it."""
    n = len(table.first) - 1
    weight, _ = heaviest
    (first, _), (after, _) = _best_first(weight), _best_first(weight, backwards=True)
    every, found = np.arange(2**n), np.full((n, n), -np.inf)
    for i in range(n):
        with_it, _ = heaviest_within(table, i)
        for j in range(n):
            if i != j:
                before = every[(every >> i & 1 == 1) & (every >> j & 1 == 0)]
                found[i, j] = (first[before] + with_it[j, before] + after[before | 1 << j]).max()
    return found


def _best_first(
    weight: NDArray[np.float64], *, backwards: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What the best graph on each set of nodes weighs, and its last node.

    Backwards: what the nodes outside each set weigh at best that come after those in it, and the first of them.
    """
    n = len(weight)
    every, nodes = np.arange(2**n), np.arange(n)[:, None]
    size = np.bitwise_count(every)
    best, which = np.full(2**n, -np.inf), np.zeros(2**n, dtype=np.int64)
    best[-1 if backwards else 0] = 0.0
    for k in range(n - 1, -1, -1) if backwards else range(1, n + 1):
        sets = every[size == k]
        others = sets ^ (1 << nodes)
        if backwards:
            total = np.where(others > sets, best[others] + weight[nodes, sets], -np.inf)
        else:
            total = np.where(others < sets, best[others] + weight[nodes, others], -np.inf)
        which[sets], best[sets] = total.argmax(axis=0), total.max(axis=0)
    return best, which


def heaviest_within(table: ParentSets, parent: int | None = None, node: int | None = None) -> Heaviest:
    """Weight and number of the heaviest listed set of each node, or one, (row) within a set of nodes (column).

    Of the sets that hold ``parent``, if it is given; minus infinity and -1 for none.
    """
    n = len(table.first) - 1
    begin, end = (0, n) if node is None else (node, node + 1)
    rows = np.repeat(np.arange(end - begin), np.diff(table.first[begin : end + 1]))
    listed = np.arange(table.first[begin], table.first[end])
    own = table.sets[listed, 0].astype(np.int64)
    if parent is not None:
        has_it = own >> parent & 1 == 1
        rows, listed, own = rows[has_it], listed[has_it], own[has_it]
    weight, number = np.full((end - begin, 2**n), -np.inf), np.full((end - begin, 2**n), -1)
    weight[rows, own], number[rows, own] = table.weight[listed], listed
    for bit in range(n):
        of_weight, of_number = (array.reshape(end - begin, -1, 2, 2**bit) for array in (weight, number))
        is_heavier = of_weight[:, :, 0] > of_weight[:, :, 1]
        for array in (of_weight, of_number):
            array[:, :, 1] = np.where(is_heavier, array[:, :, 0], array[:, :, 1])
    return weight, number
