"""The best graph of all that lists of parent sets allow: `best_graph`.

Of few nodes through all their subsets (Silander & Myllymaki 2006): the best graph on a set of nodes has a last node,
with the heaviest of its listed sets within the others, and the best graph on these.  It is NumPy alone, so that nothing
is compiled for it.  Of more nodes it is what a search over orders finds (`doxa.structure.moves.order_search`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from doxa.models.bits import pack_rows
from doxa.structure.moves.order_search import FoundGraph, search_orders
from doxa.structure.moves.parent_sets import ParentSets

__all__ = ["best_graph", "best_of_all"]

_FEW = 11  # nodes: some milliseconds


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
    if len(table.first) - 1 <= _FEW:
        return best_of_all(table)
    return search_orders(table, rng, graphs, looks=looks)


def best_of_all(table: ParentSets) -> FoundGraph | None:
    """The best graph, whatever the order; of equally good ones always the same.  Time and memory grow as n 2^n."""
    n = len(table.first) - 1
    weight, number = _heaviest_within(table)
    every = np.arange(2**n)
    size = np.bitwise_count(every)
    best, last = np.full(2**n, -np.inf), np.zeros(2**n, dtype=np.int64)
    best[0] = 0.0
    for k in range(1, n + 1):
        sets = every[size == k]
        without = sets ^ (1 << np.arange(n)[:, None])  # of nodes in the set; of others it is larger, and not used
        total = np.where(without < sets, best[without] + weight[np.arange(n)[:, None], without], -np.inf)
        last[sets] = total.argmax(axis=0)
        best[sets] = total.max(axis=0)
    if best[-1] == -np.inf:
        return None
    adjacency, left = np.zeros((n, n), dtype=np.bool_), 2**n - 1
    while left:
        node = int(last[left])
        left ^= 1 << node
        parents = int(table.sets[number[node, left], 0])
        adjacency[[j for j in range(n) if parents >> j & 1], node] = True
    return FoundGraph(pack_rows(adjacency), float(best[-1]))


def _heaviest_within(table: ParentSets) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Weight and number of the heaviest listed set of a node (row) within a set of nodes (column); -inf for none."""
    n = len(table.first) - 1
    weight, number = np.full((n, 2**n), -np.inf), np.full((n, 2**n), -1)
    node = np.repeat(np.arange(n), np.diff(table.first))
    own = table.sets[:, 0].astype(np.int64) if n else node
    weight[node, own], number[node, own] = table.weight, np.arange(len(node))
    for bit in range(n):
        of_weight, of_number = (array.reshape(n, -1, 2, 2**bit) for array in (weight, number))
        is_heavier = of_weight[:, :, 0] > of_weight[:, :, 1]
        for array in (of_weight, of_number):
            array[:, :, 1] = np.where(is_heavier, array[:, :, 0], array[:, :, 1])
    return weight, number
