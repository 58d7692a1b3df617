"""Which nodes the larger sets of a node are made from, where not all can be computed.

Half of them are those whose best set weighs most, of all sets that are small enough to be computed.  Such a node may
matter for what another one brings, and a parent that tells little by itself is not among them, for every node that is
near the good ones is before it.  So the best sets are grown, parent by parent among all nodes, and the other half are
the nodes that added most to any set on the way (as the candidates of Friedman, Nachman & Pe'er 1999 are chosen anew
given the parents that were found).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from doxa.structure.families.family_weights import FamilyWeights, NodeFamilies
from doxa.structure.families.set_numbers import subsets

__all__ = ["choose_candidates"]


def choose_candidates(
    weights: FamilyWeights,
    nodes: Sequence[NodeFamilies],
    complete: int,
    sizes: Iterable[int],
    *,
    number: int,
    grown: int,
    pool: ThreadPoolExecutor,
) -> None:
    """Write the candidates of every node that may have more than ``complete`` free parents.

    Parameters
    ----------
    weights : FamilyWeights
        All sets of up to ``complete`` free parents have been counted.
    nodes : sequence of NodeFamilies
    complete : int
        At least 1.
    sizes : iterable of int
        Free parents of the sets that are grown, rising from ``complete + 1``.
    number : int
        Candidates a node; half of them, rounded up, are those of the best complete sets.
    grown : int
        Sets a node that get one more parent at each size, the heaviest; 0: all candidates are of complete sets.
    pool : ThreadPoolExecutor
    """
    larger = [node for node in nodes if node.n_listed > complete]
    growing = list(pool.map(lambda node: _Growing(weights, node, complete, grown), larger))
    for size in sizes if grown else ():
        active = [own for own in growing if own.node.n_listed >= size]
        weights.count((own.node, own.extend()) for own in active)
        list(pool.map(_Growing.take, active))
    for own in growing:
        own.node.candidates = own.chosen(number)


class _Growing:
    """The heaviest sets of a node, which grow by a parent at a time, and what each node was worth to it."""

    def __init__(self, weights: FamilyWeights, node: NodeFamilies, complete: int, most: int) -> None:
        self.weights, self.node, self.most = weights, node, most
        n = weights.scores.n_nodes
        self.best, self.gain = np.full((2, n), -np.inf)  # weight of the best complete set with a node; what it added
        for size in range(1, complete + 1):
            free = node.free[subsets(len(node.free), size)]
            weight = weights.weigh(node, free)
            for column in free.T:
                np.maximum.at(self.best, column, weight)
        heaviest = np.argsort(-weight, kind="stable")[:most]
        self.sets, self.weight = free[heaviest], weight[heaviest]

    def extend(self) -> NDArray[np.int64]:
        """The sets with one more parent, any of the node's; as free parents, (n_new, size + 1)."""
        n, size = len(self.best), self.sets.shape[1]
        present = np.zeros((len(self.sets), n), dtype=np.bool_)
        np.put_along_axis(present, self.sets, values=True, axis=1)
        base, added = np.nonzero(~present[:, self.node.free])
        added = self.node.free[added]
        free = np.sort(np.column_stack([self.sets[base], added]), axis=1).reshape(-1, size + 1)
        legal = self.node.legal(free, self.weights.log_states)
        self.base, self.added, self.sets = base[legal], added[legal], free[legal]
        return self.sets

    def take(self) -> None:
        """Weigh the extended sets, which have been counted, and go on from the heaviest."""
        weight = self.weights.weigh(self.node, self.sets)
        np.maximum.at(self.gain, self.added, weight - self.weight[self.base])
        order = np.argsort(-weight, kind="stable")
        _, first = np.unique(self.sets[order], axis=0, return_index=True)  # a set may have grown from several
        heaviest = order[np.sort(first)[: self.most]]
        self.sets, self.weight = self.sets[heaviest], weight[heaviest]

    def chosen(self, number: int) -> NDArray[np.int64]:
        free = self.node.free
        most = number if np.isneginf(self.gain).all() else (number + 1) // 2
        by_itself = free[np.argsort(-self.best[free], kind="stable")[:most]]
        others = np.setdiff1d(free, by_itself)
        by_gain = others[np.argsort(-self.gain[others], kind="stable")[: number - most]]
        return np.union1d(by_itself, by_gain)
