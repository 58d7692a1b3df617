"""Log weights of many families of a node at once, from counts that the nodes share.

The weight of a parent set is what `doxa.structure.families.cache.family_log_score` returns: score and share in the log
prior. The nodes of a `FamilyWeights` ask for their sets together, so that each set of columns is counted once
(`doxa.structure.families.shared_counts`), and then weigh them node by node, on threads.  Which sets are worth it is in
`doxa.structure.families.score_table`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa._jit import hot
from doxa.arrays import Floats, Words
from doxa.models.bits import pack_rows
from doxa.structure.families.cache import FamilyScores, Scoring, counted_log_score
from doxa.structure.families.counting import BIC_RULE, CONSTANT_RULE
from doxa.structure.families.kind import Scorer, raise_caught
from doxa.structure.families.set_numbers import subsets
from doxa.structure.families.shared_counts import SharedCounts
from doxa.structure.limits import Limits

__all__ = ["FamilyWeights", "NodeFamilies", "list_nodes", "score_families"]

_ALL_COUNTED = 3  # free parents: where limits cap configurations, larger sets are counted only if they are legal
_MORE_COLUMNS = 8  # beyond max_size: no larger sets are counted


@dataclass
class NodeFamilies:
    """One node's families: its required parents and any of the free ones."""

    child: int
    required: NDArray[np.int64]
    free: NDArray[np.int64]  # rising
    most_free: int  # the cap less the required
    n_listed: int  # sizes 0 to this, in free parents, are listed in full
    candidates: NDArray[np.int64]  # of the free: what larger sets are made from
    log_room: float  # log of the configurations that free parents may have; infinite: any number
    grown: list[NDArray[np.int64]] = field(default_factory=list)  # good sets of free parents, by size

    def legal(self, free: NDArray[np.int64], log_states: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which sets of free parents, one a row, have no more configurations than the limits allow."""
        if math.isinf(self.log_room):
            return np.ones(len(free), dtype=np.bool_)
        return np.asarray(log_states[free].sum(axis=1) <= self.log_room)


def list_nodes(limits: Limits, max_size: int) -> list[NodeFamilies]:
    """The families of every node that ``limits`` allow, listed up to ``max_size`` parents; all free are candidates."""
    allowed, required = limits.allowed_edges, limits.required_edges
    nodes = []
    for child, most in enumerate(limits.most_parents.tolist()):
        needed = np.flatnonzero(required[:, child])
        free = np.flatnonzero(allowed[:, child] & ~required[:, child])
        most_free = most - len(needed)
        listed = max(0, min(max_size - len(needed), most_free))
        room = float(limits.max_log_configs[child] - limits.log_states[needed].sum())
        nodes.append(NodeFamilies(child, needed, free, most_free, listed, free, room))
    return nodes


class FamilyWeights:
    """Counts what families need, and weighs them; see the module's notes.

    Parameters
    ----------
    scores : FamilyScores
    max_size : int
        Sets up to so many parents are counted, and somewhat larger ones as far as numbers of sets fit 62 bits.
    pool : ThreadPoolExecutor
        Counting is spread over its threads.  Weighing may be called from any of them.
    """

    def __init__(self, scores: FamilyScores, max_size: int, pool: ThreadPoolExecutor) -> None:
        n = scores.n_nodes
        self.scores = scores
        assert scores.prior is not None  # FamilyScores sees to it
        self.prior = scores.prior.arrays
        columns = 1
        while columns < min(n, max_size + _MORE_COLUMNS) and SharedCounts.countable(n, columns + 1):
            columns += 1
        self.most_columns = columns
        self.log_states = np.log(scores.data[2].astype(np.float64))
        self.counts = scores.shared_counts(columns, pool)
        self._of_thread = threading.local()
        self._subsets: dict[tuple[int, int], NDArray[np.int64]] = {}  # nodes ask for the same ones in turn

    def sets_over(self, pool: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """All sets of one size over the nodes of ``pool``, shape (n_sets, size)."""
        key = len(pool), size
        if key not in self._subsets:
            self._subsets[key] = subsets(*key)
        return pool[self._subsets[key]]

    def count_level(self, size: int, pools: Sequence[tuple[NodeFamilies, NDArray[np.int64]]]) -> None:
        """Count what the sets of ``size`` free parents from each node's pool need."""
        if not self.scores.score.is_counted:
            return  # nothing is shared: families are scored when they are weighed
        wanted = [(node, pool) for node, pool in pools if size <= node.n_listed]
        totals: dict[int, int] = {}
        for node, pool in wanted:
            for columns in (len(node.required) + size, len(node.required) + size + 1):
                totals[columns] = totals.get(columns, 0) + math.comb(len(pool), size)
        n = self.scores.n_nodes
        few = size > _ALL_COUNTED and any(np.isfinite(node.log_room) for node, _ in wanted)
        for columns, total in totals.items():
            if columns <= self.most_columns and math.comb(n, columns) <= total and not few:
                self.counts.count_all(columns)

        def legal(node: NodeFamilies, pool: NDArray[np.int64]) -> tuple[NodeFamilies, NDArray[np.int64]]:
            free = self.sets_over(pool, size)
            return node, free[node.legal(free, self.log_states)]

        self.count(
            legal(node, pool)
            for node, pool in wanted
            if not all(self.counts.has_all(len(node.required) + size + k) for k in (0, 1))
        )

    def count(self, families: Iterable[tuple[NodeFamilies, NDArray[np.int64]]]) -> None:
        """Count what these sets of free parents need, where it has not been counted."""
        if not self.scores.score.is_counted:
            return
        numbers: dict[int, list[NDArray[np.int64]]] = {}
        for node, free in families:
            for base in (node.required, np.append(node.required, node.child)):
                columns = len(base) + free.shape[1]
                if columns <= self.most_columns and not self.counts.has_all(columns):
                    numbers.setdefault(columns, []).append(self.counts.numbers(free, base))
        for columns, arrays in sorted(numbers.items()):
            self.counts.count(columns, arrays)

    def weigh(self, node: NodeFamilies, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log weights of sets of free parents, each with the required ones, from what has been counted."""
        if not len(free):  # a size of which there was nothing to count
            return np.empty(0)
        n_states, rule = self.scores.data[2], self.scores.rule
        n_parents = len(node.required) + free.shape[1]
        if n_parents + 1 > self.most_columns or not self.scores.score.is_counted:
            return self._weigh_one_by_one(node, free)
        of_child = 1 + int(self.counts.radix_of[node.child]) if rule.kind == CONSTANT_RULE else 0
        cells = self.counts.sums(n_parents + 1, self.counts.numbers(free, np.append(node.required, node.child)), 0)
        weight: NDArray[np.float64] = cells - self.counts.sums(
            n_parents, self.counts.numbers(free, node.required), of_child
        )
        if rule.kind == BIC_RULE:
            n_configs = n_states[free].prod(axis=1, dtype=np.float64) * n_states[node.required].prod(dtype=np.float64)
            weight -= 0.5 * rule.log_cases * n_configs * (n_states[node.child] - 1.0)
        by_in_degree, edge_log_odds = self.prior
        odds = edge_log_odds[:, node.child]
        weight += odds[free].sum(axis=1) + odds[node.required].sum() + by_in_degree[n_parents]
        return weight

    def words(self, node: NodeFamilies, free: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Sets of free parents, each with the required ones, as bit sets."""
        members = np.zeros((len(free), self.scores.n_nodes), dtype=np.bool_)
        members[:, node.required] = True
        np.put_along_axis(members, free, True, axis=1)
        return pack_rows(members)

    def _weigh_one_by_one(self, node: NodeFamilies, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """For nodes with many required parents."""
        weight = np.empty(len(free))
        scoring, scorer = self._scoring_of_this_thread()
        settled(score_families, scoring.address)(node.child, self.words(node, free), scoring, weight)
        raise_caught(scorer)
        return weight

    def _scoring_of_this_thread(self) -> tuple[Scoring, Scorer | None]:
        """What scores families one by one: it has work space, which threads do not share."""
        if not hasattr(self._of_thread, "made"):
            scorer = self.scores.score.scorer(self.scores.data, self.scores.numbers, fixed=True)
            self._of_thread.made = Scoring.of(self.scores.data, self.scores.rule, self.prior, scorer), scorer
        made: tuple[Scoring, Scorer | None] = self._of_thread.made
        return made


@hot
def score_families(child: int, sets: Words, scoring: Scoring, weight: Floats) -> None:
    """Log weights of the child with each parent set, one a row."""
    for row in range(sets.shape[0]):
        weight[row] = counted_log_score(child, sets[row], scoring)
