r"""Count many sets of columns at once, for score tables.

Every score here is a difference of two sums over counts, one over the cells of the family and one over the
configurations of its parents, and the first depends on the *set* {child} + parents alone:

.. math:: s(i, P) = T(P \cup \{i\}) - T(P) + \text{const}, \qquad T(C) = \sum_{c : N_c > 0} f_C(N_c),

with f(N) = ln Gamma(a + N) - ln Gamma(a) for BDeu (a = alpha / the number of possible cells of C) and K2, and
f(N) = N ln N for BIC.  A set of four columns, counted once, so serves four families of three parents.  Only for K2 has
the second sum another a than the first: the prior count times the number of states of the child, a few values.

A set is named by its number (`doxa.structure.families.set_numbers`).  In the order of numbers neighbours share all but
their smallest members: the labels of the rows under the shared members are built once.  What the counts are for is in
`doxa.structure.families.score_table`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.structure.families.counting import BDEU_RULE, BIC_RULE, CONSTANT_RULE, Rule, relabel
from doxa.structure.families.kind import Data
from doxa.structure.families.scores import log_ratio
from doxa.structure.families.set_numbers import LARGEST_NUMBER, binomials, largest_member, set_numbers

__all__ = ["SharedCounts", "Terms", "sum_terms"]

Terms = tuple[int, Floats, Floats, Floats, float]  # see `_terms`
_Work = tuple[Ints, NDArray[np.int32], Ints, Floats, NDArray[Any], NDArray[Any], Ints, Ints, Ints]  # see `_work`

_MOST_PRODUCTS, _MOST_TERMS = 4096, 2**21  # distinct a with a table; tabulated terms of all (16 MiB)
_FEWEST_CELLS, _MOST_CELLS = 2**18, 2**23  # of a table of counts, one a thread; more are renumbered by occurrence
_CHUNK = 4096  # sets that one thread counts at a time


class SharedCounts:
    """The sums T of sets of columns, counted when they are asked for and kept.

    Parameters
    ----------
    data : tuple of ndarray
        Columns, counts and numbers of states, as `FamilyScores.data` has them.
    rule : Rule
        Of BDeu, K2 or BIC.
    most_columns : int
        Largest sets that will be asked for; see `countable`.
    pool : ThreadPoolExecutor
        Where to count.
    """

    def __init__(self, data: Data, rule: Rule, most_columns: int, pool: ThreadPoolExecutor) -> None:
        columns, counts, n_states = data
        n_rows = int(counts.sum())
        weights = counts.astype(np.int32 if n_rows < 2**31 else np.int64)
        self.n_nodes, self.n_rows = len(n_states), n_rows
        self.binom = binomials(self.n_nodes, most_columns)
        self.rule = rule
        self.radices, self.radix_of = np.unique(n_states, return_inverse=True)
        self._data = (columns, weights, n_states)
        self._most, self._pool = most_columns, pool
        self._terms = _terms(self.rule, n_rows, self.radices, most_columns)
        self._work: list[_Work] = []
        self.n_counted = 0
        self._stores: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {0: self._of_nothing()}

    @staticmethod
    def countable(n_nodes: int, size: int) -> bool:
        """Whether the sets of so many columns have numbers that a machine word holds."""
        return math.comb(n_nodes, size) < LARGEST_NUMBER

    def numbers(self, members: NDArray[np.int64], base: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the sets of columns in the rows of ``members``, which rise, each joined with ``base``."""
        return set_numbers(members, self.binom, base)

    def has_all(self, size: int) -> bool:
        """Whether all sets of so many columns have been counted."""
        return size in self._stores and not self._stores[size][0].size

    def sums(self, size: int, numbers: NDArray[np.int64], column: int) -> NDArray[np.float64]:
        """Sums of counted sets.  Column 0 is for cells; K2 has one more for each number of states of a child."""
        keys, sums = self._stores[size]
        places = np.searchsorted(keys, numbers) if keys.size else numbers
        found: NDArray[np.float64] = sums[places, column]
        return found

    @property
    def n_bytes(self) -> int:
        """Memory of the sums, their numbers and the tables of logarithms."""
        stored = sum(keys.nbytes + sums.nbytes for keys, sums in self._stores.values())
        return int(stored + self._terms[1].nbytes + sum(array.nbytes for work in self._work for array in work))

    def count_all(self, size: int) -> None:
        """Count all sets of ``size`` columns."""
        if self.has_all(size):
            return
        total = math.comb(self.n_nodes, size)
        sums = np.empty((total, self._n_sums))
        self._count(size, sums, None)
        self._stores[size] = (np.empty(0, dtype=np.int64), sums)

    def count(self, size: int, numbers: Sequence[NDArray[np.int64]]) -> None:
        """Count the sets of ``size`` columns with these numbers, where it has not been done."""
        if self.has_all(size):
            return
        keys, sums = self._stores.get(size, (None, None))
        wanted = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *numbers]))
        wanted = wanted[np.diff(wanted, prepend=-1) > 0]  # `np.unique` hashes, which takes longer
        if keys is not None:
            wanted = np.setdiff1d(wanted, keys, assume_unique=True)
        if wanted.size == 0:
            return
        new = np.empty((wanted.size, self._n_sums))
        self._count(size, new, wanted)
        if keys is not None and sums is not None:
            wanted, new = np.concatenate([keys, wanted]), np.concatenate([sums, new])
            order = np.argsort(wanted, kind="stable")
            wanted, new = wanted[order], new[order]
        self._stores[size] = (wanted, new)

    @property
    def _n_sums(self) -> int:
        return 1 + len(self.radices) if self.rule.kind == CONSTANT_RULE else 1

    def _of_nothing(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The sums of the empty set: all cases in one cell."""
        if self.n_rows == 0:
            return np.empty(0, dtype=np.int64), np.zeros((1, self._n_sums))
        kind, _, log_alphas, _, log_weight = self._terms
        n = float(self.n_rows)
        if kind == BIC_RULE:
            sums = [n * math.log(n)]
        elif kind == BDEU_RULE:
            sums = [log_ratio(n, math.exp(log_weight), log_weight)]
        else:
            sums = [log_ratio(n, math.exp(a), a) for a in log_alphas.tolist()]
        return np.empty(0, dtype=np.int64), np.array([sums])

    def _count(self, size: int, sums: NDArray[np.float64], keys: NDArray[np.int64] | None) -> None:
        """Fill ``sums``; chunks go to the threads, and what each set gets depends on the set alone."""

        def task(first: int) -> None:
            last = min(first + _CHUNK, len(sums))
            numbers = np.arange(first, last, dtype=np.int64) if keys is None else keys[first:last]
            work = self._borrow()
            _count_sets(numbers, size, self.binom, self._data, self._terms, work, sums[first:last])
            self._work.append(work)

        list(self._pool.map(task, range(0, len(sums), _CHUNK)))
        self.n_counted += len(sums)

    def _borrow(self) -> _Work:
        try:
            return self._work.pop()
        except IndexError:
            return _work(self._data, self._most)


def _terms(rule: Rule, n_rows: int, radices: NDArray[np.int64], most_columns: int) -> tuple[Any, ...]:
    """Tables of f(N): (kind, (n_tables, n_terms), ln a of each, the number of cells each is for, log weight)."""
    products = np.array([1.0])
    if rule.kind == BDEU_RULE:
        newest = products
        for _ in range(most_columns):
            newest = np.unique(np.outer(newest, radices))
            larger = np.union1d(products, newest)
            if larger.size > _MOST_PRODUCTS:
                break
            products = larger
        log_alphas = rule.log_weight - np.log(products)
    elif rule.kind == CONSTANT_RULE:
        log_alphas = rule.log_weight + np.log(np.concatenate([[1], radices]))
    else:
        log_alphas = np.zeros(1)
    width = min(n_rows + 1, max(64, _MOST_TERMS // len(log_alphas)))
    tables = np.empty((len(log_alphas), width))
    _fill(tables, rule.kind == BIC_RULE, log_alphas)
    return rule.kind, tables, log_alphas, products, rule.log_weight


def _work(data: Data, most_columns: int) -> _Work:
    """Work arrays of `_count_sets`, one set a thread; the counts are left at zero by every use."""
    _, weights, n_states = data
    n_rows = weights.size
    capacity = max(_FEWEST_CELLS, 64, 2 * n_rows, min(n_rows * int(n_states.max()), _MOST_CELLS))
    slots = 1 << max(4, int(2 * n_rows - 1).bit_length())
    return (
        np.zeros(most_columns + 1, dtype=np.int64),  # members of the shared prefix, largest first
        np.zeros((most_columns + 1, n_rows), dtype=np.int32),  # labels of the rows under its first members
        np.ones(most_columns + 1, dtype=np.int64),  # how many labels
        np.ones(most_columns + 1),  # how many possible configurations
        np.zeros(capacity, dtype=weights.dtype),
        np.zeros(n_rows, dtype=weights.dtype),
        np.zeros(n_rows, dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
    )


@hot
def _term(n: int, likelihood: bool, log_alpha: float) -> float:
    number = float(n)
    return number * math.log(number) if likelihood else log_ratio(number, math.exp(log_alpha), log_alpha)


@hot
def _fill(tables: Floats, likelihood: bool, log_alphas: Floats) -> None:
    for row in range(tables.shape[0]):
        tables[row, 0] = 0.0
        for n in range(1, tables.shape[1]):
            tables[row, n] = _term(n, likelihood, log_alphas[row])


@hot
def _count_sets(keys: Ints, size: int, binom: Ints, data: Data, terms: Terms, work: _Work, sums: Floats) -> None:
    """Sums of the sets of ``size`` columns with the sorted numbers ``keys``, into ``sums``."""
    n_states = data[2]
    members, n_built = work[0], 0
    at = 0
    while at < keys.size:
        rest = keys[at]
        below = n_states.size
        for level in range(size - 1):
            member = largest_member(rest, size - level, below, binom)
            rest -= binom[member, size - level]
            below = member
            if level >= n_built or members[level] != member:
                n_built = level  # deeper levels were built on another member
                members[level] = member
                _extend(level, member, data, work)
                n_built += 1
        first = keys[at] - rest  # the number of the smallest member, binomial(c, 1), is c itself
        while at < keys.size and keys[at] - first < below:
            _count_one(size - 1, keys[at] - first, data, terms, work, sums[at])
            at += 1


@hot
def _extend(level: int, member: int, data: Data, work: _Work) -> None:
    """Labels of the rows under one more column; renumbered by occurrence where they grow too many."""
    columns, _, n_states = data
    labels, n_labels, n_possible, counts, cells, keys, names = (
        work[1], work[2], work[3], work[4], work[6], work[7], work[8],
    )  # fmt: skip
    radix = n_states[member]
    old, new, column = labels[level], labels[level + 1], columns[member]
    found = n_labels[level] * radix
    if found * radix <= counts.size:
        for row in range(column.size):
            new[row] = old[row] * radix + column[row]
    else:
        for row in range(column.size):
            cells[row] = np.int64(old[row]) * radix + column[row]
        found = relabel(cells, keys, names)
        for row in range(column.size):
            new[row] = cells[row]
    n_labels[level + 1] = found
    n_possible[level + 1] = n_possible[level] * radix


@hot
def _count_one(level: int, member: int, data: Data, terms: Terms, work: _Work, sums: Floats) -> None:
    """Sums of the prefix of ``level`` members and one more."""
    columns, weights, n_states = data
    labels, n_labels, n_possible, counts, values, cells = work[1][level], work[2], work[3], work[4], work[5], work[6]
    radix = n_states[member]
    column = columns[member]
    n_rows = column.size
    n_cells = n_labels[level] * radix
    if n_cells <= max(64, 2 * n_rows):
        for row in range(n_rows):
            counts[np.uint64(labels[row] * radix + column[row])] += weights[row]
        sum_terms(counts, n_cells, n_possible[level] * radix, terms, sums)
        counts[:n_cells] = 0
        return
    for row in range(n_rows):
        cells[row] = np.int64(labels[row]) * radix + column[row]
    if n_cells > counts.size:
        relabel(cells, work[7], work[8])
    for row in range(n_rows):
        counts[cells[row]] += weights[row]
    found = 0
    for row in range(n_rows):  # the cells are far between: gather those that occur
        if counts[cells[row]] > 0:
            values[found] = counts[cells[row]]
            counts[cells[row]] = 0
            found += 1
    sum_terms(values, found, n_possible[level] * radix, terms, sums)


@hot
def sum_terms(counts: NDArray[np.int32] | Ints, n_cells: int, n_possible: float, terms: Terms, sums: Floats) -> None:
    """The sums T of a set, from the counts of its cells in their order; cells without cases may be among them."""
    kind, tables, log_alphas, products, log_weight = terms
    if kind == BDEU_RULE:
        at, end = 0, products.size
        while at < end:
            middle = (at + end) >> 1
            if products[middle] < n_possible:
                at = middle + 1
            else:
                end = middle
        if at < products.size and products[at] == n_possible:
            sums[0] = _sum_of(counts, n_cells, tables[at], False, log_alphas[at])
        else:
            sums[0] = _sum_of(counts, n_cells, tables[0, :0], False, log_weight - math.log(n_possible))
    else:
        for k in range(sums.size):
            sums[k] = _sum_of(counts, n_cells, tables[k], kind == BIC_RULE, log_alphas[k])


@hot
def _sum_of(counts: NDArray[np.int32] | Ints, n_cells: int, table: Floats, likelihood: bool, log_alpha: float) -> float:
    total = 0.0
    for cell in range(n_cells):
        n = counts[cell]
        if n > 0:
            total += table[n] if n < table.size else _term(n, likelihood, log_alpha)
    return total
