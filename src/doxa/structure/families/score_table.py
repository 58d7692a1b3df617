r"""Score tables: for every node the parent sets that matter, with their log weights, heaviest first.

Moves that redraw a whole parent set (`doxa.structure.moves.parent_sets`) need a list to draw from.  The list of a node
holds all legal sets, whatever their size, where these are few enough to be computed (some 20 columns, more where the
limits are narrow); else all up to three parents or more, and larger ones where the data ask for them.  Sets that a
smaller one beats by far are left out.  The weight of a set is what `doxa.structure.families.cache.family_log_score`
returns: score and share in the log prior.

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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.candidates import choose_candidates
from doxa.structure.families.family_weights import FamilyWeights, NodeFamilies, list_nodes
from doxa.structure.families.pruned_sets import (
    PrunedSets,
    add_grown,
    add_sets,
    growing_sets,
    list_sets,
    may_grow,
    more_sets,
    with_most_gain,
)
from doxa.structure.limits import Limits

__all__ = ["ScoreTable", "ScoreTableInfo", "build_score_table", "usual_size"]

_ROW_VISITS = 34_000_000_000  # families times distinct rows: some ten to fifteen seconds on one core
_WORK = 12_000_000  # as `family_cost` counts it: some ten seconds on one core
_FAMILIES_A_SET = 4  # families of three parents that one counted set serves
_GROWN = 8  # sets of a node that get one more parent of all nodes, for the choice of candidates
_MOST_EXTENDED = 512  # sets of a node that get one more parent, in each round
_A_ROUND = 0.6  # of what is left of the work: the first round has most to extend
_EXTENDED_SHARE = 32  # of max_families: how many sets that gives in all rounds
_SHARE = 4  # likewise, of work: sets that are extended are as good as any
_USUAL_SIZE = 3  # parents, where not more can be computed
_ENOUGH = 6  # parents up to which all sets are counted, and then larger ones made from those that are among the best:
_FEW_FAMILIES = 1_200_000  # under the sparse prior, which holds large sets down, where there are more families
_MOST_FAMILIES = 12_000_000  # of all sizes together: some four seconds on one core
_MOST_VISITS = 1_200_000_000  # counted sets times distinct rows: as long


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
    max_size: int | None = None,
    max_families: int | None = None,
    keep_within: float = 16.0,
    extend_within: float = 10.0,
    most_large: int | None = None,
    order: Callable[[ScoreTable], NDArray[np.int64] | None] | None = None,
    workers: int = 1,
) -> ScoreTable:
    """List the parent sets of every node, without those that a subset beats by far.

    Parameters
    ----------
    scores : FamilyScores
    limits : Limits
        Families that they forbid are not listed.
    max_size : int, optional
        All sets up to so many parents are computed.  A node with more required parents starts from these.  When left
        out, as many as some seconds allow, at least 3: all of 17 columns and 1000 rows, up to 4 of 37.  Under the
        sparse prior, which keeps larger families rare, more than 6 only where they take a second.  Kinds that are not
        counted have as many as take a second or two.
    max_families : int, optional
        Where there are more families than this, sets with more parents than ``info.complete_size`` are made from
        candidates alone, as many a node as the bound allows (`doxa.structure.families.candidates`).  Counting is then
        shared less, so a quarter of the bound is used, and all of it for the choice.  By default 17 million for up to
        2000 distinct rows (some ten seconds on one core; 100 nodes are then complete up to three parents), fewer in
        proportion for more rows.
        Kinds that are not counted are scored one by one, each at its `FamilyKind.cost`: by default their bound is one
        of work, again some ten seconds; 38 nodes of logistic families and 1000 rows are then complete up to three
        parents, and all of it is used for candidates.
    keep_within : float, default=16.0
        A set is left out if a proper subset weighs so many nats more; ``math.inf`` keeps all.
    extend_within : float, default=10.0
        The largest sets of a node, where they are within so many nats of its best or beat all their subsets, also get
        one more parent, and so on while anything is kept, up to ``max_size`` + 7; at most 512 sets of a node in each
        round, and no more than a share of ``max_families`` together.
    most_large : int, optional
        Of the sets of more than three parents besides the required ones, each node keeps at most so many, those
        that weigh most more than any proper subset.
    order : callable, optional
        What gives, from the table, an order of the nodes in a good graph, int64 of shape (n_nodes,), or None.  Where
        sets are made from candidates, the table is then made a second time with candidates that are chosen by this
        order too, for which two thirds of ``max_families`` are used.
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
    (192, 46)
    """
    max_size = usual_size(scores, limits) if max_size is None else check_whole("max_size", max_size, 0)
    most_large = None if most_large is None else check_whole("most_large", most_large, 0)
    keep_within, extend_within = _nats("keep_within", keep_within), _nats("extend_within", extend_within)
    budget = _budget(scores, None if max_families is None else check_whole("max_families", max_families, 1))
    with ThreadPoolExecutor(check_whole("workers", workers, 1)) as pool:
        return _Builder(scores, limits, max_size, budget, keep_within, extend_within, most_large, order, pool).build()


def usual_size(scores: FamilyScores, limits: Limits, most_families: int = _MOST_FAMILIES) -> int:
    """The largest number of parents, at least 3, up to which all families are at most so many and take some seconds."""
    n, n_rows, score = scores.n_nodes, len(scores.data[1]), scores.score
    nodes = list_nodes(limits, n)
    largest = max(len(node.required) + node.most_free for node in nodes)
    enough = max(_ENOUGH, *(len(node.required) for node in nodes)) if scores.prior.kind == "sparse" else n
    size = min(_USUAL_SIZE, largest)
    families = sets = 0
    work = 0.0
    for more in range(largest + 1):
        free = [more - len(node.required) for node in nodes]
        made = sum(
            math.comb(len(node.free), f) for node, f in zip(nodes, free, strict=True) if 0 <= f <= node.most_free
        )
        families, sets = families + made, sets + math.comb(n, more)
        work += made * score.cost(more, n_rows)
        visits = (sets + math.comb(n, more + 1)) * max(n_rows, 100) if score.is_counted else 0
        if families > most_families or visits > _MOST_VISITS or (work > _WORK / 8 and not score.is_counted):
            break
        if score.is_counted and more > enough and families > _FEW_FAMILIES:
            break
        size = max(size, more)
    return size


class _Budget(NamedTuple):
    """How much may be computed, and what a family costs, in the same unit."""

    most: int
    cost: Callable[[int], float]  # of a family with so many parents
    shared: int  # families that one counted set serves; 1 if each is scored by itself


def _budget(scores: FamilyScores, max_families: int | None) -> _Budget:
    n_rows = len(scores.data[1])
    score = scores.score
    if score.is_counted:
        most = _ROW_VISITS // max(2000, n_rows) if max_families is None else max_families
        return _Budget(most, lambda _: 1.0, _FAMILIES_A_SET)
    if max_families is not None:
        return _Budget(max_families, lambda _: 1.0, 1)
    return _Budget(_WORK, lambda n_parents: score.cost(n_parents, n_rows), 1)


def _nats(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not value >= 0.0:
        raise ArgumentError(f"{name} is {value!r}; it must be a number of nats, 0 or more")
    return float(value)


def _affordable(numbers: Sequence[int], costs: Sequence[float], left: float) -> int:
    """The most sets a node that can be extended for the work that is left; nodes with fewer leave theirs to others.

    >>> _affordable([1, 10, 100], [1.0, 1.0, 1.0], 51.0)
    40
    """
    low, high = 0, _MOST_EXTENDED
    while low < high:
        middle = (low + high + 1) // 2
        work = math.fsum(cost * min(number, middle) for number, cost in zip(numbers, costs, strict=True))
        low, high = (middle, high) if work <= left else (low, middle - 1)
    return low


class _Builder:
    """The stages of `build_score_table`."""

    def __init__(
        self,
        scores: FamilyScores,
        limits: Limits,
        max_size: int,
        budget: _Budget,
        keep_within: float,
        extend_within: float,
        most_large: int | None,
        order: Callable[[ScoreTable], NDArray[np.int64] | None] | None,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.max_size, self.budget, self.pool, self.most_large = max_size, budget, pool, most_large
        self.order_of = order
        self.keep_within, self.extend_within = keep_within, extend_within
        self.weights = FamilyWeights(scores, max_size, pool)
        self.nodes = list_nodes(limits, max_size)

    def build(self) -> ScoreTable:
        complete = self._complete_size()
        for size in range(complete + 1):
            self.weights.count_level(size, [(node, node.free) for node in self.nodes])
        self.n_counted = self.weights.counts.n_counted
        table = self._made(complete, None)
        if complete == self.max_size or self.order_of is None:
            return table
        order = self.order_of(table)
        return table if order is None else self._made(complete, order)

    def _made(self, complete: int, order: NDArray[np.int64] | None) -> ScoreTable:
        """All sets of up to ``complete`` free parents have been counted; an order helps to choose larger ones."""
        if complete < self.max_size:
            self._choose_candidates(complete, order)
            for size in range(complete + 1, self.max_size + 1):
                self.weights.count_level(size, [(node, node.candidates) for node in self.nodes])

        def task(node: NodeFamilies) -> PrunedSets:
            found = list_sets(self.weights, node, complete, self.keep_within)
            return add_grown(self.weights, node, found, self.keep_within)

        lists = list(self.pool.map(task, self.nodes))
        self._extend(lists)
        if self.most_large is not None:
            lists = [with_most_gain(found, self.most_large, _USUAL_SIZE) for found in lists]
        return self._table(lists, complete)

    # -- what to compute ---------------------------------------------------------------------------------------------

    def _complete_size(self) -> int:
        """Largest number of free parents for which all sets over all nodes are computed."""
        sizes = range(self.max_size + 1)
        work = [sum(self._work(node, len(node.free), f) for node in self.nodes) for f in sizes]
        if sum(work) <= self.budget.most:
            return self.max_size
        n = len(self.nodes)
        if self.budget.shared > 1:
            work = [min(number, float(math.comb(n, f + 1))) for f, number in enumerate(work)]
        affordable = np.cumsum(work) <= self.budget.most // (2 * self.budget.shared)
        return max(min(1, self.max_size), int(affordable[:-1].cumprod().sum()) - 1)

    def _work(self, node: NodeFamilies, n_free: int, size: int) -> float:
        """Of all sets of one size over so many free parents."""
        if size > node.n_listed:
            return 0.0
        return math.comb(n_free, size) * self._cost(node, size)

    def _cost(self, node: NodeFamilies, size: int) -> float:
        """Of a family with so many free parents."""
        return self.budget.cost(size + len(node.required))

    def _choose_candidates(self, complete: int, order: NDArray[np.int64] | None) -> None:
        """As many candidates a node as are affordable."""
        sizes = range(complete + 1, self.max_size + 1)
        each = max(1.0, math.fsum(len(node.free) * self._cost(node, size) for node in self.nodes for size in sizes))
        if self.budget.shared > 1:
            left = float(self.budget.most // self.budget.shared - self.n_counted)
            thorough = 0 if order is None else min(_MOST_EXTENDED, int(self.budget.most / (3.0 * each)))
            grown = min(int(self.budget.most / each), max(_GROWN, thorough))
        else:
            done = (self._work(node, len(node.free), size) for node in self.nodes for size in range(complete + 1))
            left = self.budget.most - 2.0 * math.fsum(done)  # those are weighed once more, for the choice
            grown = min(_GROWN, max(0, int(left / (_SHARE * each))))
            left -= grown * each
        number = 0
        while number < len(self.nodes):
            cost = sum(
                self._work(node, min(number + 1, len(node.free)), size)
                * (1 if size == complete + 1 or self.budget.shared == 1 else 2)
                for node in self.nodes
                for size in sizes
            )
            if cost > left:
                break
            number += 1
        choose_candidates(
            self.weights,
            self.nodes,
            complete,
            sizes,
            number=number,
            grown=grown,
            order=order,
            pool=self.pool,
        )

    # -- the lists ---------------------------------------------------------------------------------------------------

    def _extend(self, lists: list[PrunedSets]) -> None:
        """Add sets with more parents to the lists whose largest sets are among their best, or beat their parts."""
        share = _EXTENDED_SHARE if self.budget.shared > 1 else _SHARE
        left = float(self.budget.most // share)
        active = list(range(len(lists)))
        while active:
            active = [i for i in active if may_grow(self.weights, self.nodes[i], lists[i])]
            bases = list(self.pool.map(lambda i: growing_sets(lists[i], self.extend_within), active))
            costs = [len(self.nodes[i].candidates) * self._next_cost(i, lists) for i in active]
            most = _affordable([len(numbers) for numbers in bases], costs, left * _A_ROUND)
            chosen = [(i, numbers[:most]) for i, numbers in zip(active, bases, strict=True)]
            new = [(i, more_sets(self.weights, self.nodes[i], lists[i], numbers)) for i, numbers in chosen]
            new = [(i, free) for i, free in new if len(free)]
            left -= math.fsum(len(free) * self._next_cost(i, lists) for i, free in new)
            self.weights.count([(self.nodes[i], free) for i, free in new])

            def task(job: tuple[int, NDArray[np.int64]]) -> None:
                i, free = job
                lists[i] = add_sets(self.weights, self.nodes[i], lists[i], free, self.keep_within)

            list(self.pool.map(task, new))
            active = [i for i, _ in new]

    def _next_cost(self, i: int, lists: list[PrunedSets]) -> float:
        """Of a family of the node with one parent more than the largest computed."""
        return self._cost(self.nodes[i], lists[i].largest + 1)

    def _table(self, lists: Sequence[PrunedSets], complete: int) -> ScoreTable:
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
            n_counted=self.weights.counts.n_counted,
            n_kept=len(sets),
            n_pruned=n_computed - len(sets),
            pruned_mass=min(1.0, math.fsum(float(found.replaced.max()) for found in lists)),
            n_bytes=first.nbytes + sets.nbytes + log_weight.nbytes,
            n_bytes_counting=self.weights.counts.n_bytes,
        )
        return ScoreTable(first, sets, log_weight, info)
