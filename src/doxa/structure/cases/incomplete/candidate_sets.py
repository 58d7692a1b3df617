r"""Listed parent sets, weighed again on every new completion: a cost that grows with the missing cells, not with the
table.

Moves that redraw whole parent sets draw from lists (`doxa.structure.moves.parent_sets`).  *Which* sets are listed does
not matter for exactness, so the lists stay; their *weights* must be those of the completion at hand.

A score is a difference of two sums over counts, of which each depends on a set of columns alone
(`doxa.structure.families.shared_counts`): that of a family and that of its parents.  Each such set is counted once.
Where another set has one column more, its counts are summed over the states of that column.  For the others the counts
of the rows that have none of the columns missing are kept: they never change.  Weighing adds the rest, which is found
by joining the bit sets of the rows without each column, and looks logarithms of Gamma functions up in a table.  Where a
set has few cells, its rows are counted 64 at a time, by the bit sets of the rows that have each state.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa._jit import branching, hot, inlined, lowest_bit, popcount
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import unpack_rows
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData
from doxa.structure.families.cache import CacheArrays, Scoring, counted_log_score, store_score
from doxa.structure.families.counting import CONSTANT_RULE
from doxa.structure.families.scores import log_ratio
from doxa.structure.moves.joint_parents import near_nodes
from doxa.structure.moves.parent_sets import ParentSets, laid_out, scale

__all__ = ["ColumnSets", "FamilyLists", "arrange", "family_lists", "fill_cache", "list_layout", "weigh_lists"]

_MOST_CELLS = 4096  # cells of a set of columns whose counts are kept
_ROW_IN_WORDS = 2  # how many words are joined in the time that a column of a row takes
_MOST_KEPT = 2**25  # cells of all sets together: 256 MB
_MOST_TABULATED = 4096  # cases: logarithms for larger counts are computed when they are needed


@by_address
class Bits(NamedTuple):
    """Which incomplete rows of a completion have which states, and work space to join them in."""

    first_state: NDArray[np.int64]  # (n_nodes + 1,): the states of node i are rows first_state[i] and after of ``rows``
    rows: NDArray[np.uint64]  # (n_states of all nodes, words of 64 incomplete rows)
    joined: NDArray[np.uint64]  # (columns of the largest set, words): rows that have the first so many states
    state: NDArray[np.int64]  # (columns of the largest set,)


@by_address
class ColumnSets(NamedTuple):
    """The sets of columns that are counted, each after those with more columns.  The first column changes fastest."""

    column_first: NDArray[np.int64]  # (n_counted + 1,)
    column: NDArray[np.int64]  # rising
    stride: NDArray[np.int64]  # the column's factor in the number of a cell
    cell_first: NDArray[np.int64]  # (n_counted + 1,): where its cells begin
    kept: NDArray[np.int64]  # of all cells: cases whose columns are known; 0 where they are not needed
    counts: NDArray[np.int64]  # of all cells: work space
    source: NDArray[np.int64]  # (n_counted,): a set with one more column, to sum over; -1 where rows are counted
    summed: NDArray[np.int64]  # (n_counted, 2): stride and states of that column
    by_bits: NDArray[np.bool_]  # (n_counted,): whether rows are counted 64 at a time


@by_address
class FamilyLists(NamedTuple):
    """Listed sets of all nodes, and of each the counts that do not depend on the completion."""

    first: NDArray[np.int64]  # (n_nodes + 1,): the sets of node i are numbers first[i] to first[i + 1] - 1
    node: NDArray[np.int64]  # (n_sets,)
    sets: NDArray[np.uint64]  # (n_sets, n_words)
    log_prior: NDArray[np.float64]  # (n_sets,): share in the log prior of the graph
    family: NDArray[np.int64]  # (n_sets,): its set of columns, the node's own among them; -1 if it is not counted here
    of_cells: NDArray[np.int64]  # (n_sets,): place in ``sums`` of the sum over the family's cells
    of_configs: NDArray[np.int64]  # (n_sets,): of the sum over its configurations
    columns: ColumnSets
    sum_of: NDArray[np.int64]  # (n_sums,): a set of columns
    table_of: NDArray[np.int64]  # (n_sums,): row of ``ratios``
    sums: NDArray[np.float64]  # (n_sums,): work space
    log_weights: NDArray[np.float64]  # (n_tables,): log a of each row of ``ratios``
    ratios: NDArray[np.float64]  # (n_tables, n): ln Gamma(a + N) - ln Gamma(a) for N cases
    missing_in: NDArray[np.uint64]  # as `MissingCells.missing_in`
    bits: Bits  # work space

    @property
    def n_sets(self) -> int:
        """Number of sets, of all nodes together."""
        return len(self.node)

    def with_own_work_space(self) -> FamilyLists:
        """The same lists, for another thread."""
        own = {name: getattr(self.bits, name).copy() for name in Bits._fields[1:]}
        columns = self.columns._replace(counts=self.columns.counts.copy())
        return self._replace(columns=columns, sums=self.sums.copy(), bits=self.bits._replace(**own))


def family_lists(data: IncompleteData, node: NDArray[np.int64], sets: NDArray[np.uint64]) -> FamilyLists:
    """Lists of these parent sets.

    Parameters
    ----------
    data : IncompleteData
    node : ndarray of int64, shape (n_sets,)
        The child of each, rising.
    sets : ndarray of uint64, shape (n_sets, n_words)
        The parents, as bit sets; no set of a node twice.
    """
    missing_cells, rule, n = data.missing_cells, data.rule, data.n_nodes
    r = missing_cells.n_states
    log_q: NDArray[np.float64] = unpack_rows(sets, n).astype(np.float64) @ np.log(r)
    log_cell = np.full(len(node), rule.log_weight)
    if rule.kind != CONSTANT_RULE:
        log_cell -= log_q + np.log(r[node])
    # Rounded, so that equal weights come out as one table: log a enters as exp(log a), and 1e-12 of it is nothing.
    both = np.round(np.concatenate([log_cell, log_cell + np.log(r[node])]), 12)
    log_weights, tables = np.unique(both, return_inverse=True)
    numbers, parents, family = _column_sets(data, node, sets, log_q)
    columns = _lay_out(numbers, r, missing_cells.missing_in.shape[1])
    counted = family >= 0
    wanted = np.concatenate(
        [
            np.column_stack([family, tables[: len(node)]])[counted],
            np.column_stack([parents, tables[len(node) :]])[counted],
        ]
    )
    sums, which = np.unique(wanted, axis=0, return_inverse=True)
    place = np.full((2, len(node)), -1, dtype=np.int64)
    place[:, counted] = which.reshape(2, -1)
    n_rows, most_columns = missing_cells.missing_in.shape[1], 1 + int(np.diff(columns.column_first).max(initial=0))
    members, (by_in_degree, edge_log_odds) = unpack_rows(sets, n), data.prior.arrays
    log_prior = by_in_degree[members.sum(axis=1)] + (members * edge_log_odds.T[node]).sum(axis=1)
    lists = FamilyLists(
        np.searchsorted(node, np.arange(n + 1)).astype(np.int64), node, np.ascontiguousarray(sets),
        log_prior, family, place[0].copy(), place[1].copy(), columns,
        np.ascontiguousarray(sums[:, 0]), np.ascontiguousarray(sums[:, 1]), np.zeros(len(sums)), log_weights,
        np.zeros((len(log_weights), min(data.table.n_rows, _MOST_TABULATED) + 1)), missing_cells.missing_in,
        Bits(
            np.concatenate([[0], np.cumsum(r)]).astype(np.int64), np.zeros((int(r.sum()), n_rows), dtype=np.uint64),
            np.zeros((most_columns, n_rows), dtype=np.uint64), np.zeros(most_columns, dtype=np.int64),
        ),
    )  # fmt: skip
    is_kept = columns.source < 0
    is_kept[family[counted]] = True  # `doxa.structure.cases.incomplete.joint_counts` asks for them
    _prepare(lists, is_kept, missing_cells.base, missing_cells.weights)
    return lists


def _column_sets(
    data: IncompleteData, node: NDArray[np.int64], sets: NDArray[np.uint64], log_q: NDArray[np.float64]
) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64]]:
    """Sets of columns to count, as bits, those of more columns first; and of each listed set the numbers of its parents
    and of its family among them, -1 where it has too many cells or is not scored from counts.
    """
    r = data.missing_cells.n_states
    small = (log_q + np.log(r[node]) <= np.log(_MOST_CELLS) + 1e-9) & data.score.is_dirichlet
    found: dict[int, int] = {}
    masks = np.full((2, len(node)), -1, dtype=object)
    left = _MOST_KEPT
    for s in np.flatnonzero(small).tolist():
        parents = sum(int(word) << 64 * w for w, word in enumerate(sets[s].tolist()))
        own, q = parents | 1 << int(node[s]), round(math.exp(log_q[s]))
        new = (parents not in found) * q + (own not in found) * q * int(r[node[s]])
        if new <= left:
            left -= new
            found[parents], found[own] = parents.bit_count(), own.bit_count()
            masks[0, s], masks[1, s] = parents, own
    ordered = sorted(found, key=lambda mask: (-found[mask], mask))
    number = {mask: k for k, mask in enumerate(ordered)} | {-1: -1}
    parents_of, family = (np.array([number[mask] for mask in row], dtype=np.int64) for row in masks)
    return ordered, parents_of, family


def _lay_out(masks: list[int], n_states: NDArray[np.int64], n_words: int) -> ColumnSets:
    """All but the counts that are kept, and which sets are counted how."""
    members = [[j for j in range(mask.bit_length()) if mask >> j & 1] for mask in masks]
    sizes = np.array([len(own) for own in members], dtype=np.int64)
    column_first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    strides = [np.cumprod([1, *n_states[own]]) for own in members]
    n_cells = np.array([int(own[-1]) for own in strides], dtype=np.int64)
    source, summed = np.full(len(masks), -1, dtype=np.int64), np.ones((len(masks), 2), dtype=np.int64)
    number = {mask: k for k, mask in enumerate(masks)}
    least = n_cells + 2 * n_words * np.minimum(n_cells, 64 * sizes)  # operations: counting rows takes about as many
    for k, (mask, own) in enumerate(zip(masks, members, strict=True)):
        for j, stride in zip(own, strides[k], strict=False):
            subset = number.get(mask & ~(1 << j), -1)
            if subset >= 0 and n_cells[k] < least[subset]:
                least[subset], source[subset], summed[subset] = n_cells[k], k, (stride, n_states[j])
    cell_first = np.concatenate([[0], np.cumsum(n_cells)]).astype(np.int64)
    nothing = np.zeros(int(cell_first[-1]), dtype=np.int64)
    return ColumnSets(
        column_first, np.array([j for own in members for j in own], dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *(own[:-1] for own in strides)]).astype(np.int64), cell_first,
        nothing, nothing.copy(), source, summed, np.zeros(len(masks), dtype=np.bool_),
    )  # fmt: skip


@branching
def _prepare(lists: FamilyLists, is_kept: NDArray[np.bool_], base: NDArray[np.int16], weights: Ints) -> None:
    """Fill tables of logarithms, and the counts of rows whose columns are known; choose how others are counted."""
    for table in range(lists.log_weights.size):
        log_alpha = lists.log_weights[table]
        for cases in range(1, lists.ratios.shape[1]):
            lists.ratios[table, cases] = log_ratio(float(cases), np.exp(log_alpha), log_alpha)
    sets, n_words = lists.columns, lists.missing_in.shape[1]
    kept, column, strides = sets.kept, sets.column, sets.stride
    for c in range(sets.source.size):
        if not is_kept[c]:
            continue
        first, begin, end = sets.cell_first[c], sets.column_first[c], sets.column_first[c + 1]
        n_open = 0
        for w in range(n_words):
            n_open += popcount(_open_rows(c, w, lists))
        cost_of_bits = 2 * (sets.cell_first[c + 1] - first) * n_words
        sets.by_bits[c] = cost_of_bits < n_open * (end - begin) * _ROW_IN_WORDS
        for row in range(base.shape[1]):
            cell, whole = first, True
            for e in range(begin, end):
                state = base[column[e], row]
                whole = whole and state >= 0
                cell += strides[e] * state
            if whole:
                kept[cell] += weights[row]


@branching
def weigh_lists(completion: Completion, scoring: Scoring, lists: FamilyLists, parents: Words, weight: Floats) -> None:
    """Fill ``weight`` with the log weights of all sets in a completion: score and log prior.

    ``scoring`` is `IncompleteData.scoring`, ``parents`` work space of shape (n_words,).
    """
    _list_states(completion.rows, lists.bits)
    sets, sums = lists.columns, lists.sums
    for c in range(sets.source.size):
        if sets.source[c] >= 0:
            _sum_out(c, sets)
            continue
        counts, kept = sets.counts, sets.kept
        for cell in range(sets.cell_first[c], sets.cell_first[c + 1]):
            counts[cell] = kept[cell]
        if sets.by_bits[c]:
            _count_by_bits(c, lists)
        else:
            _count_row_by_row(c, completion.rows, lists)
    for k in range(sums.size):
        sums[k] = _sum_ratios(lists.sum_of[k], lists.table_of[k], lists)
    for s in range(lists.node.size):
        if lists.family[s] >= 0:
            weight[s] = sums[lists.of_cells[s]] - sums[lists.of_configs[s]] + lists.log_prior[s]
        else:
            for w in range(parents.size):
                parents[w] = lists.sets[s, w]
            weight[s] = counted_log_score(lists.node[s], parents, scoring)


@branching
def fill_cache(lists: FamilyLists, weight: Floats, words: Words, cache: CacheArrays) -> None:
    """Store the weights of all listed families as their scores; ``words`` is work space of shape (n_words,)."""
    for s in range(lists.node.size):
        for w in range(words.size):
            words[w] = lists.sets[s, w]
        store_score(lists.node[s], words, weight[s], cache)


@hot
def _list_states(rows: NDArray[np.int16], bits: Bits) -> None:
    """Which incomplete rows have which states."""
    bits.rows[:] = np.uint64(0)
    for i in range(rows.shape[0]):
        bit = np.uint64(1) << np.uint64(i & 63)
        for column in range(rows.shape[1]):
            bits.rows[bits.first_state[column] + rows[i, column], i >> 6] |= bit


@inlined
def _open_rows(c: int, w: int, lists: FamilyLists) -> np.uint64:
    """Which of 64 incomplete rows lack a column of the set, as bits."""
    word = np.uint64(0)
    for e in range(lists.columns.column_first[c], lists.columns.column_first[c + 1]):
        word |= lists.missing_in[lists.columns.column[e], w]
    return word


@hot
def _sum_out(c: int, sets: ColumnSets) -> None:
    """Count a set of columns by summing over a column of a set that has one more."""
    counts, first, begin = sets.counts, sets.cell_first[c], sets.cell_first[sets.source[c]]
    stride, r = sets.summed[c, 0], sets.summed[c, 1]
    for block in range(first, sets.cell_first[c + 1], stride):
        for inside in range(stride):
            total = 0
            for state in range(r):
                total += counts[begin + inside + state * stride]
            counts[block + inside] = total
        begin += stride * r


@hot
def _count_by_bits(c: int, lists: FamilyLists) -> None:
    """Add the rows that lack a column of a set to its counts, cell by cell.

    The states of the last columns are joined first, and change slowest: cells come in their order.
    """
    joined, state, of_state, first_state = lists.bits.joined, lists.bits.state, lists.bits.rows, lists.bits.first_state
    counts, columns = lists.columns.counts, lists.columns.column
    begin, end = lists.columns.column_first[c], lists.columns.column_first[c + 1]
    last, n_words = end - begin - 1, joined.shape[1]
    if last < 0:
        return  # no column: no row lacks one
    for w in range(n_words):
        joined[0, w] = _open_rows(c, w, lists)
    cell, level = lists.columns.cell_first[c], 0
    state[0] = 0
    while level >= 0:
        column = columns[end - 1 - level]
        at = first_state[column] + state[level]
        if at == first_state[column + 1]:
            level -= 1
            if level >= 0:
                state[level] += 1
        elif level < last:
            for w in range(n_words):
                joined[level + 1, w] = joined[level, w] & of_state[at, w]
            level += 1
            state[level] = 0
        else:
            found = 0
            for w in range(n_words):
                found += popcount(joined[level, w] & of_state[at, w])
            counts[cell] += found
            cell += 1
            state[level] += 1


@hot
def _count_row_by_row(c: int, rows: NDArray[np.int16], lists: FamilyLists) -> None:
    """The same, where the cells are many."""
    counts, columns, strides = lists.columns.counts, lists.columns.column, lists.columns.stride
    first, begin, end = lists.columns.cell_first[c], lists.columns.column_first[c], lists.columns.column_first[c + 1]
    for w in range(lists.missing_in.shape[1]):
        word = _open_rows(c, w, lists)
        while word != np.uint64(0):
            i = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            place = first
            for e in range(begin, end):
                place += strides[e] * rows[i, columns[e]]
            counts[place] += 1


@hot
def _sum_ratios(c: int, table: int, lists: FamilyLists) -> float:
    """Sum over the cells of a set, of which N cases each, of ln Gamma(a + N) - ln Gamma(a)."""
    counts, ratios, log_alpha = lists.columns.counts, lists.ratios, lists.log_weights[table]
    total = 0.0
    for cell in range(lists.columns.cell_first[c], lists.columns.cell_first[c + 1]):
        cases = counts[cell]
        if cases < ratios.shape[1]:
            total += ratios[table, cases]
        else:
            total += log_ratio(float(cases), np.exp(log_alpha), log_alpha)
    return total


def list_layout(lists: FamilyLists) -> ParentSets:
    """Everything that does not depend on the weights; `arrange` fills in the rest.  One for each chain."""
    n, sizes = len(lists.first) - 1, np.diff(lists.first)
    before = np.concatenate([np.zeros((1, n)), np.cumsum(unpack_rows(lists.sets, n), axis=0)])
    share = (before[lists.first[1:]] - before[lists.first[:-1]]) / np.maximum(sizes, 1)[:, None]
    return laid_out(lists.first, lists.sets.copy(), near_nodes(share))


def arrange(
    table: ParentSets, lists: FamilyLists, weight: NDArray[np.float64], order: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Sort the lists by these weights, heaviest first, and fill in all that follows from them, in place.

    Returns the number in the lists of each set in the order of the table.  ``order`` is what an earlier call returned,
    and is overwritten: where weights have changed little, little is sorted.
    """
    if order is None:
        order = np.lexsort((-weight, lists.node))
    settled(_sort)(lists.first, weight, order)
    table.sets[:] = lists.sets[order]
    table.weight[:] = weight[order]
    scale(table)
    return order


@hot
def _sort(first: Ints, weight: Floats, order: Ints) -> None:
    """Sort the sets of each node by insertion, heaviest first; of the same weight the first listed first."""
    for node in range(first.size - 1):
        for k in range(first[node] + 1, first[node + 1]):
            here = order[k]
            place = k
            while place > first[node]:
                before = order[place - 1]
                if weight[before] > weight[here] or (weight[before] == weight[here] and before < here):
                    break
                order[place] = before
                place -= 1
            order[place] = here
