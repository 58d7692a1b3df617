"""`OutOfCoreScores`: scores of all families within the limits, made beforehand from counts of sets of columns.

Samplers look scores up in a cache.  Here it holds every family that is possible, shared by all chains and never written
again, so that samplers, starts and exact sums run on it unchanged.  Each set of columns is scored as a table of its
own, by the code that scores families of tables in memory: up to 4096 cells the scores are the same to the last bit.

`OutOfCoreSums`: the sums T of `doxa.structure.families.shared_counts`, from counts made where the data live.

Which sets of columns the families of a run need, and what it costs to count them, before they are counted.

A family of a node and its parents needs the set of them all, and the set of the parents.  Nothing is screened: every
family within the limits is counted, or none is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.data.large.table import OutOfCoreTable, SizedCounts
from doxa.models.bits import n_words
from doxa.structure.families.cache import CacheArrays, FamilyScores, ScoreCache, Scoring, store_score
from doxa.structure.families.counting import CountingScratch, Rule, counting_scratch
from doxa.structure.families.family_weights import list_nodes
from doxa.structure.families.kind import Data
from doxa.structure.families.scores import family_log_marginal
from doxa.structure.families.set_numbers import subsets
from doxa.structure.families.shared_counts import SharedCounts, Terms, sum_terms
from doxa.structure.limits import Limits, is_legal_family
from doxa.structure.priors import family_log_prior
from doxa.text import many

__all__ = ["FamilyCost", "OutOfCoreScores", "OutOfCoreSums", "fits", "needed_sets", "predicted_cost"]

MOST_FAMILIES = 2_000_000  # some seconds to score, 100 MB of scores
MOST_CELLS = 2**26  # of all counts together: 10 to 20 bytes each
MOST_PARENTS = 10  # sets of more columns have no numbers in 62 bits where there are many nodes


class FamilyCost(NamedTuple):
    """What the families within some limits take."""

    n_families: int
    n_cells: float  # possible cells of all families, a bound on what is counted and held
    most_parents: int

    def __str__(self) -> str:
        return f"{many(self.n_families)} families with {many(self.n_cells)} cells"


def predicted_cost(limits: Limits, n_states: NDArray[np.int64], n_rows: int) -> FamilyCost:
    """Families within the limits, and their cells, at most one a row each; nothing is listed.

    Of a cap on configurations only the number of parents that it leaves is known without listing: with one, the numbers
    are bounds.

    Examples
    --------
    >>> from doxa.structure.limits import capped
    >>> print(predicted_cost(capped([2] * 40), np.full(40, 3), 10**8))
    31 thousand families with 814 thousand cells
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


_DENSE = 2**20  # possible cells of a set that are filled in their order; more are summed as they stand


class OutOfCoreSums(SharedCounts):
    """Sums of the sets of columns that a table has counts of; NaN for all others.

    Cells are added up in the order of tables in memory, so that the sums are the same to the last bit wherever these
    fill a table of all possible cells.
    """

    def __init__(
        self, sizes: Mapping[int, SizedCounts], data: Data, rule: Rule, most_columns: int, pool: ThreadPoolExecutor
    ) -> None:
        self._sizes = sizes
        super().__init__(data, rule, most_columns, pool)

    def _count(self, size: int, sums: NDArray[np.float64], keys: NDArray[np.int64] | None) -> None:
        sums[:] = np.nan
        if size not in self._sizes:
            return
        sized, n_states = self._sizes[size], self._data[2]
        radices = n_states[sized.members]
        own = np.empty((len(sized.members), sums.shape[1]))
        largest = int(radices.prod(axis=1, dtype=np.float64).max(initial=1.0))
        filled = np.zeros(min(largest, _DENSE), dtype=np.int64)
        _sum_sets(sized, radices, self._terms, filled, own)
        numbers = self.numbers(sized.members, np.empty(0, dtype=np.int64))  # rising: sets are in their order
        wanted = np.arange(len(sums)) if keys is None else keys
        place = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        found = numbers[place] == wanted
        sums[found] = own[place[found]]
        self.n_counted += int(found.sum())


@hot
def _sum_sets(sized: SizedCounts, radices: Ints, terms: Terms, filled: Ints, sums: Floats) -> None:
    """Sums of all sets of one size; ``filled`` is left at zero."""
    first, codes, counts = sized.first, sized.codes, sized.counts
    size = radices.shape[1]
    for k in range(radices.shape[0]):
        begin, end = first[k], first[k + 1]
        n_possible = 1.0
        for j in range(size):
            n_possible *= radices[k, j]
        if n_possible > filled.size:
            sum_terms(counts[begin:end], end - begin, n_possible, terms, sums[k])
            continue
        n_cells = int(n_possible)
        for row in range(begin, end):
            label = 0
            for j in range(size - 1, -1, -1):  # the last column slowest
                label = label * radices[k, j] + codes[row, j]
            filled[label] = counts[row]
        sum_terms(filled, n_cells, n_possible, terms, sums[k])
        filled[:n_cells] = 0


_SPACE = 4  # slots for each family: a window of 16 is then hardly ever full


@dataclass(eq=False)
class OutOfCoreScores(FamilyScores):
    """`FamilyScores` of a `OutOfCoreTable`: every family within the limits, and no other.

    Parameters
    ----------
    table : OutOfCoreTable
        With the counts of all sets that `doxa.structure.cases.out_of_core.scores.needed_sets` lists for the limits.
    score, prior
        As for `FamilyScores`.
    limits : Limits
    """

    table: OutOfCoreTable
    limits: Limits = field(kw_only=True)
    _ready: ScoreCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        families = predicted_cost(self.limits, self.table.n_states, self.table.n_rows).n_families
        capacity = 1 << max(8, int(_SPACE * families / self.n_nodes).bit_length())
        self._ready = self._filled(capacity)
        while self._ready.statistics[1]:  # a window was full: one node has more families than the others
            capacity *= 2
            self._ready = self._filled(capacity)
        self._all = [self._ready]

    def _rows(self) -> tuple[NDArray[Any], ...]:
        # Of no use: one row for compiled loops to have something of the right type.
        n = self.n_nodes
        return np.zeros((n, 1), dtype=np.int16), np.array([self.table.n_rows]), self.table.n_states

    @contextmanager
    def borrow(self) -> Iterator[tuple[ScoreCache, Scoring]]:
        """The one cache, which holds all that may be asked for; what it does not hold would be NaN."""
        nothing = Rule(self.rule.kind, np.nan, np.nan)
        yield self._ready, Scoring.of(self.data, nothing, self.prior.arrays)
        assert not self._ready.statistics[0], "a family beyond the limits was asked for"

    def shared_counts(self, most_columns: int, pool: ThreadPoolExecutor) -> SharedCounts:
        """Sums for score tables, from the counts."""
        return OutOfCoreSums(self.table.sizes, self.data, self.rule, most_columns, pool)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_all": self._all}  # the cache cannot be made again from anything smaller

    def _filled(self, capacity: int) -> ScoreCache:
        cache = ScoreCache(self.n_nodes, 0)  # never grows
        cache.allocate(capacity)
        n_states, rule, prior = self.table.n_states, self.rule, self.prior.arrays
        words, local = np.zeros(n_words(self.n_nodes), dtype=np.uint64), np.zeros(1, dtype=np.uint64)
        for size, sized in self.table.sizes.items():
            if size:
                scratch = _scratch(sized)
                radices, rules = n_states[sized.members], (self.limits, rule, prior)
                _score_sets(sized, sized.codes.T, radices, rules, scratch, words, local, cache.arrays)
        return cache


def _scratch(sized: SizedCounts) -> CountingScratch:
    """Work arrays for the largest set; as in memory, tables of up to 4096 cells are filled in their order."""
    return counting_scratch(int(np.diff(sized.first).max(initial=1)))


@hot
def _score_sets(
    sized: SizedCounts,
    columns: NDArray[np.integer[Any]],
    radices: Ints,
    rules: tuple[Limits, Rule, tuple[Floats, Floats]],
    scratch: CountingScratch,
    words: Words,
    local: Words,
    cache: CacheArrays,
) -> None:
    """Store the scores of the families that have all columns of a set, for all sets of one size."""
    limits, rule, prior = rules
    config, cell, counts, keys, names, box = scratch
    members, first, weights = sized.members, sized.first, sized.counts
    size = members.shape[1]
    for k in range(members.shape[0]):
        begin, end = first[k], first[k + 1]
        data = (columns[:, begin:end], weights[begin:end], radices[k])
        own = (config[: end - begin], cell[: end - begin], counts, keys, names, box)
        for c in range(size):
            child = members[k, c]
            words[:] = 0
            for j in range(size):
                if j != c:
                    words[members[k, j] >> 6] |= np.uint64(1) << np.uint64(members[k, j] & 63)
            if is_legal_family(limits, child, words):
                local[0] = (np.uint64(1) << np.uint64(size)) - np.uint64(1) - (np.uint64(1) << np.uint64(c))
                score = family_log_marginal(c, local, data, rule, own) + family_log_prior(child, words, prior)
                store_score(child, words, score, cache)
