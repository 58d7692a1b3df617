r"""Score tables: for every node the parent sets that matter, with their log weights, heaviest first.

Moves that redraw a whole parent set (`doxa.structure.parent_sets`) need a list to draw from.  The list of a node holds
all legal sets up to a few parents, and larger ones where the data ask for them, without those that a smaller set beats
by far.  The weight of a set is what `doxa.structure.cache.family_log_score` returns: score and share in the log prior.

**Sets left out.**  A set P is left out when a proper subset Q of it weighs :math:`k` nats more (``keep_within``).  Take
the graphs that give node i the parents P, and give it Q in each of them.  Removing edges closes no cycle, different
graphs stay different, and each gains the factor :math:`e^{w(Q) - w(P)} \ge e^k`.  So

.. math:: P(pa(i) = P \mid D) \le e^{w(P) - w(Q)} \, P(pa(i) = Q \mid D).

With Q(P) the heaviest subset, the graphs in which i uses any set left out have together at most the probability
:math:`\sum_Q P(pa(i) = Q \mid D) \sum_{P: Q(P) = Q} e^{w(P) - w(Q)} \le \max_Q \sum_{P: Q(P) = Q} e^{w(P) - w(Q)}`, and
the sum of this over the nodes is reported as ``info.pruned_mass``; it is never more than the number of sets left out
times :math:`e^{-k}`.  The heaviest subset is itself in the list, since nothing within it beats it.  Sets that were not
computed, for their size or for want of being candidates, are not in this bound.

No sampler relies on it: other moves reach all families, and a draw from a part of the sets is exact whatever the part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.cache import FamilyScores
from doxa.structure.counting import counting_scratch
from doxa.structure.limits import Limits
from doxa.structure.priors import family_log_prior
from doxa.structure.scores import BIC_RULE, CONSTANT_RULE, family_log_marginal
from doxa.structure.shared_counts import SharedCounts, set_number, subsets

__all__ = ["ScoreTable", "ScoreTableInfo", "build_score_table"]

_ROW_VISITS = 34_000_000_000  # families times distinct rows: some ten to fifteen seconds on one core
_FAMILIES_A_SET = 4  # families of three parents that one counted set serves
_MORE_COLUMNS = 8  # beyond max_size: no larger sets are counted
_MOST_EXTENDED = 64  # sets of a node that get one more parent, in each round
_EXTENDED_SHARE = 32  # of max_families: how many sets that gives in all rounds


class ScoreTableInfo(NamedTuple):
    """What was computed for a table and what it costs."""

    max_size: int  # all sets up to this size were computed, over all nodes or over the candidates
    complete_size: int  # up to this many parents besides the required ones, over all nodes that are allowed
    largest_size: int  # number of parents of the largest set computed
    candidates: NDArray[np.uint64]  # (n_nodes, n_words): the nodes from which larger sets were made
    n_computed: int  # families
    n_counted: int  # sets of columns that had to be counted for them
    n_kept: int
    n_pruned: int
    pruned_mass: float  # bound on the posterior probability of graphs that use a pruned set
    n_bytes: int  # held by the table
    n_bytes_counting: int  # held while it was built, at the end


class ScoreTable(NamedTuple):
    """Parent sets of every node with their log weights; see the module's notes."""

    first: NDArray[np.int64]  # (n_nodes + 1,): the sets of node i are numbers first[i] to first[i + 1] - 1
    sets: NDArray[np.uint64]  # (n_sets, n_words): parents as bit sets
    log_weight: NDArray[np.float64]  # (n_sets,): nats, falling within each node
    info: ScoreTableInfo


def build_score_table(
    scores: FamilyScores,
    limits: Limits,
    *,
    max_size: int = 3,
    max_families: int | None = None,
    keep_within: float = 16.0,
    extend_within: float = 10.0,
    workers: int = 1,
) -> ScoreTable:
    """List the parent sets of every node, without those that a subset beats by far.

    Parameters
    ----------
    scores : FamilyScores
    limits : Limits
        Families that they forbid are not listed.
    max_size : int, default=3
        All sets up to so many parents are computed.  A node with more required parents starts from these.
    max_families : int, optional
        Where there are more families than this, sets with more parents than ``info.complete_size`` are made
        from candidates alone, as many a node as the bound allows: those whose best small set weighs most.  Counting is
        then shared less, so a quarter of the bound is used.  By default 17 million for up to 2000 distinct rows (some
        ten seconds on one core; 100 nodes are then complete up to three parents), fewer in proportion for more rows.
    keep_within : float, default=16.0
        A set is left out if a proper subset weighs so many nats more; ``math.inf`` keeps all.
    extend_within : float, default=10.0
        The largest sets of a node, where they are within so many nats of its best, also get one more parent, and
        so on while anything is kept, up to ``max_size`` + 7; at most 64 sets of a node in each round.
    workers : int, default=1
        Threads.  The table does not depend on them.

    Returns
    -------
    ScoreTable

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is out of its range.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> from doxa.structure.limits import capped
    >>> table = build_score_table(FamilyScores(datasets.load("reinis")), capped([5] * 6), keep_within=4.0)
    >>> table.info.n_computed, table.info.n_kept
    (156, 46)
    """
    max_size = check_whole("max_size", max_size, 0)
    keep_within, extend_within = _nats("keep_within", keep_within), _nats("extend_within", extend_within)
    if max_families is None:
        max_families = _ROW_VISITS // max(2000, len(scores.data[1]))
    max_families = check_whole("max_families", max_families, 1)
    with ThreadPoolExecutor(check_whole("workers", workers, 1)) as pool:
        return _Builder(scores, limits, max_size, max_families, keep_within, extend_within, pool).build()


def _nats(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not value >= 0.0:
        raise ArgumentError(f"{name} is {value!r}; it must be a number of nats, 0 or more")
    return float(value)


@dataclass
class _Node:
    """One node's families: its required parents and any of the free ones."""

    child: int
    required: NDArray[np.int64]
    free: NDArray[np.int64]  # rising
    most_free: int  # the cap less the required
    n_listed: int  # sizes 0 to this, in free parents, are listed in full
    candidates: NDArray[np.int64]  # of the free: what larger sets are made from


class _List(NamedTuple):
    """A node's sets while they are gathered, heaviest first."""

    sets: NDArray[np.uint64]
    log_weight: NDArray[np.float64]
    n_free: NDArray[np.int64]  # parents besides the required
    replaced: NDArray[np.float64]  # what the sets left out for this one have as probability, relative to it at most
    n_computed: int
    largest: int  # free parents of the largest set computed


class _Level(NamedTuple):
    """All sets of one size over some nodes, in colexicographic order."""

    place: NDArray[np.int64]  # (n_nodes,): of a node among these nodes, or -1
    best: NDArray[np.float64]  # (n_sets,): weight of the heaviest subset, the set itself included
    which: NDArray[np.int64]  # (n_sets,): its number among all sets of the node


class _Builder:
    """The stages of `build_score_table`."""

    def __init__(
        self,
        scores: FamilyScores,
        limits: Limits,
        max_size: int,
        max_families: int,
        keep_within: float,
        extend_within: float,
        pool: ThreadPoolExecutor,
    ) -> None:
        n = scores.n_nodes
        self.scores, self.max_size, self.max_families, self.pool = scores, max_size, max_families, pool
        assert scores.prior is not None  # FamilyScores sees to it
        self.prior = scores.prior.arrays
        self.keep_within, self.extend_within = keep_within, extend_within
        columns = 1
        while columns < min(n, max_size + _MORE_COLUMNS) and SharedCounts.countable(n, columns + 1):
            columns += 1
        self.most_columns = columns
        self.counts = SharedCounts(scores, columns, pool)
        self.nodes = _nodes(limits, max_size)

    def build(self) -> ScoreTable:
        complete = self._complete_size()
        for size in range(complete + 1):
            self._count_level(size, [node.free for node in self.nodes])
        if complete < self.max_size:
            self._choose_candidates(complete)
            for size in range(complete + 1, self.max_size + 1):
                self._count_level(size, [node.candidates for node in self.nodes])
        lists = list(self.pool.map(partial(self._list, complete=complete), self.nodes))
        self._extend(lists)
        return self._table(lists, complete)

    # -- what to compute ---------------------------------------------------------------------------------------------

    def _complete_size(self) -> int:
        """Largest number of free parents for which all sets over all nodes are computed."""
        families = [sum(self._n_sets(node, len(node.free), f) for node in self.nodes) for f in range(self.max_size + 1)]
        if sum(families) <= self.max_families:
            return self.max_size
        n = len(self.nodes)
        counted = np.cumsum([min(number, math.comb(n, f + 1)) for f, number in enumerate(families)])
        affordable = counted <= self.max_families // (2 * _FAMILIES_A_SET)
        return max(min(1, self.max_size), int(affordable[:-1].cumprod().sum()) - 1)

    @staticmethod
    def _n_sets(node: _Node, n_free: int, size: int) -> int:
        return math.comb(n_free, size) if size <= node.n_listed else 0

    def _choose_candidates(self, complete: int) -> None:
        """The most candidates a node that are affordable; those whose best set so far weighs most."""
        budget = self.max_families // _FAMILIES_A_SET - self.counts.n_counted
        sizes = range(complete + 1, self.max_size + 1)
        number = 0
        while number < len(self.nodes):
            cost = sum(
                self._n_sets(node, min(number + 1, len(node.free)), size) * (1 if size == complete + 1 else 2)
                for node in self.nodes
                for size in sizes
            )
            if cost > budget:
                break
            number += 1

        def choose(node: _Node) -> None:
            if node.n_listed <= complete:
                return
            value = np.full(len(self.nodes), -np.inf)
            for size in range(1, complete + 1):
                free = node.free[subsets(len(node.free), size)]
                weight = self._weigh(node, free)
                for column in free.T:
                    np.maximum.at(value, column, weight)
            order = np.argsort(-value[node.free], kind="stable")
            node.candidates = np.sort(node.free[order[:number]])

        list(self.pool.map(choose, self.nodes))

    # -- counts and weights ------------------------------------------------------------------------------------------

    def _count_level(self, size: int, pools: Sequence[NDArray[np.int64]]) -> None:
        """Count what the sets of ``size`` free parents need."""
        wanted = [(node, pool) for node, pool in zip(self.nodes, pools, strict=True) if size <= node.n_listed]
        totals: dict[int, int] = {}
        for node, pool in wanted:
            for columns in (len(node.required) + size, len(node.required) + size + 1):
                totals[columns] = totals.get(columns, 0) + math.comb(len(pool), size)
        n = len(self.nodes)
        for columns, total in totals.items():
            if columns <= self.most_columns and math.comb(n, columns) <= total:
                self.counts.count_all(columns)
        self._count(
            (node, pool[subsets(len(pool), size)])
            for node, pool in wanted
            if not all(self.counts.has_all(len(node.required) + size + k) for k in (0, 1))
        )

    def _count(self, families: Iterable[tuple[_Node, NDArray[np.int64]]]) -> None:
        """Count what these sets of free parents need, where it has not been counted."""
        numbers: dict[int, list[NDArray[np.int64]]] = {}
        for node, free in families:
            for base in (node.required, np.append(node.required, node.child)):
                columns = len(base) + free.shape[1]
                if columns <= self.most_columns and not self.counts.has_all(columns):
                    numbers.setdefault(columns, []).append(self.counts.numbers(free, base))
        for columns, arrays in sorted(numbers.items()):
            self.counts.count(columns, arrays)

    def _weigh(self, node: _Node, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log weights of sets of free parents, each with the required ones, from what has been counted."""
        n_states, rule = self.scores.data[2], self.scores.rule
        n_parents = len(node.required) + free.shape[1]
        if n_parents + 1 > self.most_columns:
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

    def _weigh_one_by_one(self, node: _Node, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """For nodes with many required parents."""
        weight = np.empty(len(free))
        scratch = counting_scratch(len(self.scores.data[1]))
        scoring = (self.scores.data, self.scores.rule, self.prior, scratch)
        _score_families(node.child, self._words(node, free), scoring, weight)
        return weight

    def _words(self, node: _Node, free: NDArray[np.int64]) -> NDArray[np.uint64]:
        members = np.zeros((len(free), len(self.nodes)), dtype=np.bool_)
        members[:, node.required] = True
        np.put_along_axis(members, free, True, axis=1)
        return pack_rows(members)

    # -- the lists ---------------------------------------------------------------------------------------------------

    def _list(self, node: _Node, complete: int) -> _List:
        """All sets of a node up to its listed size, less those that a subset beats by far."""
        level: _Level | None = None
        sets, weights, sizes, kept, left_out, gaps = [], [], [], [], [], []
        n_computed, largest = 0, 0
        for size in range(node.n_listed + 1):
            pool = node.free if size <= complete else node.candidates
            free = pool[subsets(len(pool), size)]
            weight = self._weigh(node, free)
            above, which = self._heaviest_proper_subset(free, level)
            keep = _is_kept(weight, above, self.keep_within)
            own = np.arange(n_computed, n_computed + len(free))
            place = np.full(len(self.nodes), -1, dtype=np.int64)
            place[pool] = np.arange(len(pool))
            level = _Level(place, np.maximum(weight, above), np.where(weight > above, own, which))
            sets.append(self._words(node, free[keep]))
            weights.append(weight[keep])
            sizes.append(np.full(int(keep.sum()), size, dtype=np.int64))
            kept.append(own[keep])
            left_out.append(which[~keep])
            gaps.append(weight[~keep] - above[~keep])
            n_computed += len(free)
            largest = size if len(free) else largest
        replaced = np.bincount(np.concatenate(left_out), np.exp(np.concatenate(gaps)), minlength=n_computed)
        found = _List(
            np.concatenate(sets),
            np.concatenate(weights),
            np.concatenate(sizes),
            replaced[np.concatenate(kept)].astype(np.float64),
            n_computed,
            largest,
        )
        return _heaviest_first(found)

    def _heaviest_proper_subset(
        self, free: NDArray[np.int64], level: _Level | None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Weight and number of each set's heaviest proper subset, by way of the sets with one parent less."""
        above, which = np.full(len(free), -np.inf), np.full(len(free), -1, dtype=np.int64)
        if level is not None:
            members = np.empty(free.shape[1], dtype=np.int64)
            _best_of_subsets(free, level, self.counts.binom, members, above, which)
        return above, which

    def _extend(self, lists: list[_List]) -> None:
        """Add sets with more parents to the lists whose largest sets are among their best."""
        budget = self.max_families // _EXTENDED_SHARE
        active = list(range(len(lists)))
        while active:
            most = min(_MOST_EXTENDED, budget // max(1, sum(len(self.nodes[i].candidates) for i in active)))
            new = [(i, self._one_more(self.nodes[i], lists[i], most)) for i in active]
            new = [(i, free) for i, free in new if len(free)]
            budget -= sum(len(free) for _, free in new)
            self._count([(self.nodes[i], free) for i, free in new])

            def task(job: tuple[int, NDArray[np.int64]]) -> None:
                lists[job[0]] = self._with(self.nodes[job[0]], lists[job[0]], job[1])

            list(self.pool.map(task, new))
            active = [i for i, _ in new]

    def _one_more(self, node: _Node, found: _List, most: int) -> NDArray[np.int64]:
        """Sets to add, as free parents: one more than the largest sets computed, where these are among the best."""
        size = found.largest
        near = (found.n_free == size) & (found.log_weight >= found.log_weight[0] - self.extend_within)
        bases = np.flatnonzero(near)[:most]
        largest = min(node.most_free, max(self.most_columns - 1 - len(node.required), 2))
        if size >= largest or not bases.size:
            return np.empty((0, size + 1), dtype=np.int64)
        present = unpack_rows(found.sets[bases], len(self.nodes))
        present[:, node.required] = False
        which, added = np.nonzero(~present[:, node.candidates])
        members = present[which]
        members[np.arange(len(which)), node.candidates[added]] = True
        words = pack_rows(members)
        words = words[np.lexsort(words.T)]
        new = np.append(True, (words[1:] != words[:-1]).any(axis=1))[: len(words)]
        return np.nonzero(unpack_rows(words[new], len(self.nodes)))[1].reshape(-1, size + 1)

    def _with(self, node: _Node, found: _List, free: NDArray[np.int64]) -> _List:
        """A list with those of the new sets that no listed subset beats by far."""
        weight, words = self._weigh(node, free), self._words(node, free)
        which = np.empty(len(free), dtype=np.int64)
        _first_subset(words, found.sets, which)  # the lists fall: the first is the heaviest
        above = found.log_weight[which]
        keep = _is_kept(weight, above, self.keep_within)
        more = np.bincount(which[~keep], np.exp(weight[~keep] - above[~keep]), minlength=len(found.replaced))
        replaced = found.replaced + more.astype(np.float64)
        n_kept = int(keep.sum())
        return _heaviest_first(
            _List(
                np.concatenate([found.sets, words[keep]]),
                np.concatenate([found.log_weight, weight[keep]]),
                np.concatenate([found.n_free, np.full(n_kept, free.shape[1], dtype=np.int64)]),
                np.concatenate([replaced, np.zeros(n_kept)]),
                found.n_computed + len(free),
                free.shape[1],
            )
        )

    def _table(self, lists: Sequence[_List], complete: int) -> ScoreTable:
        n = len(lists)
        first = np.concatenate([[0], np.cumsum([len(found.sets) for found in lists])]).astype(np.int64)
        sets = np.ascontiguousarray(np.concatenate([found.sets for found in lists]))
        log_weight = np.concatenate([found.log_weight for found in lists])
        candidates = np.zeros((n, n), dtype=np.bool_)
        for node in self.nodes:
            candidates[node.child, node.candidates] = candidates[node.child, node.required] = True
        n_computed = sum(found.n_computed for found in lists)
        info = ScoreTableInfo(
            max_size=self.max_size,
            complete_size=complete,
            largest_size=max(f.largest + len(node.required) for f, node in zip(lists, self.nodes, strict=True)),
            candidates=pack_rows(candidates),
            n_computed=n_computed,
            n_counted=self.counts.n_counted,
            n_kept=len(sets),
            n_pruned=n_computed - len(sets),
            pruned_mass=min(1.0, math.fsum(float(found.replaced.max()) for found in lists)),
            n_bytes=first.nbytes + sets.nbytes + log_weight.nbytes,
            n_bytes_counting=self.counts.n_bytes,
        )
        return ScoreTable(first, sets, log_weight, info)


def _nodes(limits: Limits, max_size: int) -> list[_Node]:
    allowed, required = limits.allowed_edges, limits.required_edges
    nodes = []
    for child, cap in enumerate(limits.max_parents.tolist()):
        needed = np.flatnonzero(required[:, child])
        free = np.flatnonzero(allowed[:, child] & ~required[:, child])
        most_free = min(cap - len(needed), len(free))
        nodes.append(_Node(child, needed, free, most_free, max(0, min(max_size - len(needed), most_free)), free))
    return nodes


def _is_kept(weight: NDArray[np.float64], above: NDArray[np.float64], keep_within: float) -> NDArray[np.bool_]:
    return weight > above - keep_within if math.isfinite(keep_within) else np.ones(len(weight), dtype=np.bool_)


def _heaviest_first(found: _List) -> _List:
    order = np.argsort(-found.log_weight, kind="stable")
    return found._replace(
        sets=found.sets[order],
        log_weight=found.log_weight[order],
        n_free=found.n_free[order],
        replaced=found.replaced[order],
    )


@hot
def _score_families(child: int, sets: Any, scoring: Any, weight: Any) -> None:
    data, rule, prior, scratch = scoring
    for row in range(sets.shape[0]):
        weight[row] = family_log_marginal(child, sets[row], data, rule, scratch)
        weight[row] += family_log_prior(child, sets[row], prior)


@hot
def _best_of_subsets(free: Any, level: Any, binom: Any, members: Any, above: Any, which: Any) -> None:
    size = free.shape[1]
    for row in range(free.shape[0]):
        for dropped in range(size):
            k = 0
            for j in range(size):
                if j != dropped:
                    members[k] = level.place[free[row, j]]
                    k += 1
            number = set_number(members, k, binom)
            if level.best[number] > above[row]:
                above[row] = level.best[number]
                which[row] = level.which[number]


@hot
def _first_subset(words: Any, sets: Any, which: Any) -> None:
    """For each bit set of ``words`` the first of ``sets`` that it contains."""
    for row in range(words.shape[0]):
        for k in range(sets.shape[0]):
            inside = True
            for w in range(words.shape[1]):
                if sets[k, w] & ~words[row, w]:
                    inside = False
                    break
            if inside:
                which[row] = k
                break
