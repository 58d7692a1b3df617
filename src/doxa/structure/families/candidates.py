"""Which nodes the larger sets of a node are made from, where not all can be computed.

Half of them are those whose best set weighs most, of all sets that are small enough to be computed.  Such a node may
matter for what another one brings, and a parent that tells little by itself is not among them, for every node that is
near the good ones is before it.  So the best sets are grown, parent by parent among all nodes, and the other half are
the nodes that added most to any set on the way (as the candidates of Friedman, Nachman & Pe'er 1999 are chosen anew
given the parents that were found).  The best sets may hold nodes that come after the node in every good graph: where an
order is known, the best sets among the nodes before it are grown as well, and a quarter are what added most there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from doxa.structure.families.family_weights import FamilyWeights, NodeFamilies

__all__ = ["choose_candidates"]


def choose_candidates(
    weights: FamilyWeights,
    nodes: Sequence[NodeFamilies],
    complete: int,
    sizes: Iterable[int],
    *,
    number: int,
    grown: int,
    order: NDArray[np.int64] | None,
    pool: ThreadPoolExecutor,
) -> None:
    """Write the candidates of every node that may have more than ``complete`` free parents, and its grown sets.

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
    order : ndarray of int64, shape (n_nodes,), or None
        Of the nodes in a good graph: as many sets again are grown among the nodes before a node.
    pool : ThreadPoolExecutor
    """
    place = None if order is None else np.argsort(order)
    larger = [node for node in nodes if node.n_listed > complete]
    growing = list(pool.map(lambda node: _Growing(weights, node, complete, grown, place), larger))
    for size in sizes if grown else ():
        active = [own for own in growing if own.node.n_listed >= size]
        weights.count([(own.node, own.extend()) for own in active])
        list(pool.map(_Growing.take, active))
    for own in growing:
        own.node.candidates = own.chosen(number)
        own.node.grown = own.grown


class _Growing:
    """The heaviest sets of a node, which grow by a parent at a time, and what each node was worth to it."""

    def __init__(
        self,
        weights: FamilyWeights,
        node: NodeFamilies,
        complete: int,
        most: int,
        place: NDArray[np.int64] | None,
    ) -> None:
        self.weights, self.node, self.most = weights, node, most
        self.before = None if place is None else place < place[node.child]
        n = weights.scores.n_nodes
        # weight of the best complete set with a node; what it added to a set; the same among the nodes before
        self.best, self.gain, self.gain_before = np.full((3, n), -np.inf)
        for size in range(1, complete + 1):
            free = weights.sets_over(node.free, size)
            weight = weights.weigh(node, free)
            for column in free.T:
                np.maximum.at(self.best, column, weight)
        self.sets, self.weight = self._kept(free, weight)
        self.grown: list[NDArray[np.int64]] = []  # sets of each larger size that were kept

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
        gain = weight - self.weight[self.base]
        np.maximum.at(self.gain, self.added, gain)
        if self.before is not None:
            inside = self.before[self.sets].all(axis=1)
            np.maximum.at(self.gain_before, self.added[inside], gain[inside])
        self.sets, self.weight = self._kept(self.sets, weight)
        self.grown.append(self.sets)

    def _kept(
        self, sets: NDArray[np.int64], weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The heaviest of these sets, and of those among the nodes before."""
        kept = self._heaviest(sets, weight, np.arange(len(sets)))
        if self.before is not None:
            inside = np.flatnonzero(self.before[sets].all(axis=1))
            kept = np.union1d(kept, self._heaviest(sets, weight, inside))
        return sets[kept], weight[kept]

    def _heaviest(
        self, sets: NDArray[np.int64], weight: NDArray[np.float64], of: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Numbers of the heaviest of some sets, each once: a set may have grown from as many as it has parents."""
        order = of[np.argsort(-weight[of], kind="stable")][: self.most * sets.shape[1]]
        _, first = np.unique(sets[order], axis=0, return_index=True)
        heaviest: NDArray[np.int64] = order[np.sort(first)][: self.most]
        return heaviest

    def chosen(self, number: int) -> NDArray[np.int64]:
        """The candidates, rising; where an order is known, a quarter for what they added to nodes before."""
        by_gain = 0 if np.isneginf(self.gain).all() else number // 2
        before = by_gain // 2 if self.before is not None else 0
        chosen = np.empty(0, dtype=np.int64)
        for value, most in ((self.best, number - by_gain), (self.gain_before, before), (self.gain, number)):
            others = np.setdiff1d(self.node.free, chosen)
            others = others[np.argsort(-value[others], kind="stable")]
            chosen = np.append(chosen, others[: min(most, number - len(chosen))])
        return np.sort(chosen)
