"""Which sets of columns the families of a run need, and what it costs to count them, before they are counted.

A family of a node and its parents needs the set of them all, and the set of the parents.  Nothing is screened: every
family within the limits is counted, or none is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.structure.families.family_weights import list_nodes
from doxa.structure.families.set_numbers import subsets
from doxa.structure.limits import Limits

__all__ = ["FamilyCost", "fits", "needed_sets", "predicted_cost"]

MOST_FAMILIES = 2_000_000  # some seconds to score, 100 MB of scores
MOST_CELLS = 2**26  # of all counts together: 10 to 20 bytes each
MOST_PARENTS = 10  # sets of more columns have no numbers in 62 bits where there are many nodes


class FamilyCost(NamedTuple):
    """What the families within some limits take."""

    n_families: int
    n_cells: float  # possible cells of all families, a bound on what is counted and held
    most_parents: int

    def __str__(self) -> str:
        return f"{_short(self.n_families)} families with {_short(self.n_cells)} cells"


def predicted_cost(limits: Limits, n_states: NDArray[np.int64], n_rows: int) -> FamilyCost:
    """Families within the limits, and their cells, at most one a row each; nothing is listed.

    Of a cap on configurations only the number of parents that it leaves is known without listing: with one, the numbers
    are bounds.

    Examples
    --------
    >>> from doxa.structure.limits import capped
    >>> print(predicted_cost(capped([2] * 40), np.full(40, 3), 10**8))
    31240 families with 814440 cells
    """
    n_families, n_cells, most = 0, 0.0, 0
    for node in list_nodes(limits, len(n_states)):
        fixed = math.prod(n_states[[*node.required.tolist(), node.child]].tolist())
        by_size = _elementary(n_states[node.free].tolist(), node.most_free)
        for size, product in enumerate(by_size):
            number = math.comb(len(node.free), size)
            n_families += number
            n_cells += min(float(product) * fixed, float(number) * n_rows)
        most = max(most, len(node.required) + node.most_free)
    return FamilyCost(n_families, n_cells, most)


def fits(cost: FamilyCost) -> bool:
    """Whether so much is counted."""
    return cost.n_families <= MOST_FAMILIES and cost.n_cells <= MOST_CELLS and cost.most_parents <= MOST_PARENTS


def needed_sets(limits: Limits) -> list[NDArray[np.int64]]:
    """The sets of columns that scores of all families within the limits need.

    Returns
    -------
    list of ndarray of int64, shape (n_sets, size)
        One for each size from 0, members rising.

    Examples
    --------
    >>> from doxa.structure.limits import capped
    >>> [len(sets) for sets in needed_sets(capped([2, 1, 1, 1]))]
    [1, 4, 6, 3]
    """
    n = len(limits.max_parents)
    nodes = list_nodes(limits, n)
    largest = 1 + max(len(node.required) + node.most_free for node in nodes)
    if limits.only_caps and len(set(limits.max_parents.tolist())) == 1:
        return [subsets(n, size) for size in range(largest + 1)]
    found: list[list[NDArray[np.int64]]] = [[] for _ in range(largest + 1)]
    for node in nodes:
        for base in (node.required, np.append(node.required, node.child)):
            for size in range(node.most_free + 1):
                free = node.free[subsets(len(node.free), size)]
                free = free[node.legal(free, limits.log_states)]
                members = np.concatenate([free, np.broadcast_to(base, (len(free), len(base)))], axis=1)
                found[members.shape[1]].append(np.sort(members, axis=1))
    return [
        np.unique(np.concatenate(sets), axis=0) if sets else np.empty((0, size), dtype=np.int64)
        for size, sets in enumerate(found)
    ]


def _elementary(values: Sequence[int], most: int) -> list[int]:
    """Elementary symmetric sums: of the products of all sets of so many of the values, in whole numbers.

    Examples
    --------
    >>> _elementary([2, 3, 5], 2)
    [1, 10, 31]
    """
    sums = [1, *[0] * most]
    for value in values:
        for size in range(most, 0, -1):
            sums[size] += value * sums[size - 1]
    return sums


def _short(number: float) -> str:
    """A million and more as '1.2e+06'."""
    return f"{number:.0f}" if number < 10**6 else f"{number:.1e}"
