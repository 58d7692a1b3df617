r"""Listed parent sets, weighed again on every new completion: a cost that grows with the missing cells, not with the
table.

Moves that redraw whole parent sets draw from lists (`doxa.structure.moves.parent_sets`).  *Which* sets are listed does
not matter for exactness, so the lists stay; their *weights* must be those of the completion at hand.  For each listed
family the counts of the rows that have none of its columns missing are kept: they never change.  Weighing adds the
others, which are found by joining the bit sets of the rows without each column, and looks logarithms of Gamma functions
up in a table.  Where a family has few cells, its rows are counted 64 at a time, by the bit sets of the rows that have
each state.

`ParentSets` made anew from fresh weights: as `doxa.structure.moves.parent_sets.scaled` makes them, compiled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import branching, hot, inlined, lowest_bit, popcount
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import unpack_rows
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData
from doxa.structure.families.cache import CacheArrays, Scoring, counted_log_score, store_score
from doxa.structure.families.counting import CONSTANT_RULE
from doxa.structure.families.scores import log_ratio
from doxa.structure.moves.joint_parents import joint_work, near_nodes
from doxa.structure.moves.parent_sets import ParentSets
from doxa.structure.priors import family_log_prior

__all__ = ["FamilyLists", "arrange", "family_lists", "fill_cache", "list_layout", "weigh_lists"]

_MOST_CELLS = 4096  # cells of a family whose counts are kept
_ROW_IN_WORDS = 2  # how many words are joined in the time that a column of a row takes
_MOST_KEPT = 2**25  # cells of all families together: 256 MB
_MOST_TABULATED = 4096  # cases: logarithms for larger counts are computed when they are needed


class Bits(NamedTuple):
    """Which incomplete rows of a completion have which states, and work space to join them in."""

    first_state: NDArray[np.int64]  # (n_nodes + 1,): the states of node i are rows first_state[i] and after of ``rows``
    rows: NDArray[np.uint64]  # (n_states of all nodes, words of 64 incomplete rows)
    joined: NDArray[np.uint64]  # (columns of the largest family, words): rows that have the first so many states
    state: NDArray[np.int64]  # (columns of the largest family,)


class FamilyLists(NamedTuple):
    """Listed sets of all nodes, and of each the counts that do not depend on the completion."""

    first: NDArray[np.int64]  # (n_nodes + 1,): the sets of node i are numbers first[i] to first[i + 1] - 1
    node: NDArray[np.int64]  # (n_sets,)
    sets: NDArray[np.uint64]  # (n_sets, n_words)
    member_first: NDArray[np.int64]  # (n_sets + 1,)
    member: NDArray[np.int64]  # the parents
    stride: NDArray[np.int64]  # the parent's factor in the number of a cell; the child's is 1
    n_cells: NDArray[np.int64]  # (n_sets,): q r; 0 if the family's counts are not kept
    kept_first: NDArray[np.int64]  # (n_sets,): where its counts begin
    kept: NDArray[np.int64]
    log_prior: NDArray[np.float64]  # (n_sets,): share in the log prior of the graph
    cell_table: NDArray[np.int64]  # (n_sets,): row of ``ratios`` for cells
    config_table: NDArray[np.int64]  # (n_sets,): and for configurations
    log_weights: NDArray[np.float64]  # (n_tables,): log a of each row of ``ratios``
    ratios: NDArray[np.float64]  # (n_tables, n): ln Gamma(a + N) - ln Gamma(a) for N cases
    missing_in: NDArray[np.uint64]  # as `MissingCells.missing_in`
    by_bits: NDArray[np.bool_]  # (n_sets,): whether rows are counted 64 at a time
    scratch: NDArray[np.int64]  # (_MOST_CELLS,): work space
    bits: Bits  # work space

    @property
    def n_sets(self) -> int:
        """Number of sets, of all nodes together."""
        return len(self.node)

    def with_own_work_space(self) -> FamilyLists:
        """The same lists, for another thread."""
        own = {name: getattr(self.bits, name).copy() for name in Bits._fields[1:]}
        return self._replace(scratch=self.scratch.copy(), bits=self.bits._replace(**own))


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
    members = unpack_rows(sets, n)
    member = np.nonzero(members)[1]
    sizes = members.sum(axis=1)
    log_q = members @ np.log(r)
    exact = (log_q + np.log(r[node]) <= np.log(_MOST_CELLS) + 1e-9) & data.score.is_dirichlet
    n_cells = np.where(exact, np.rint(np.exp(np.where(exact, log_q, 0.0))).astype(np.int64) * r[node], 0)
    kept_first = np.concatenate([[0], np.cumsum(n_cells)])[:-1].astype(np.int64)
    n_cells[kept_first + n_cells > _MOST_KEPT] = 0
    member_first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    log_cell = np.full(len(node), rule.log_weight)
    if rule.kind != CONSTANT_RULE:
        log_cell -= log_q + np.log(r[node])
    # Rounded, so that equal weights come out as one table: log a enters as exp(log a), and 1e-12 of it is nothing.
    both = np.round(np.concatenate([log_cell, log_cell + np.log(r[node])]), 12)
    log_weights, which = np.unique(both, return_inverse=True)
    n_rows, most_columns = missing_cells.missing_in.shape[1], 1 + int(sizes.max(initial=0))
    log_prior = np.array([family_log_prior(int(c), s, data.prior.arrays) for c, s in zip(node, sets, strict=True)])
    lists = FamilyLists(
        np.searchsorted(node, np.arange(n + 1)).astype(np.int64), node, np.ascontiguousarray(sets), member_first,
        member.astype(np.int64), np.zeros(len(member), dtype=np.int64), n_cells, kept_first,
        np.zeros(int(np.max(kept_first + n_cells, initial=0)), dtype=np.int64), log_prior.reshape(len(node)),
        which[: len(node)].astype(np.int64), which[len(node) :].astype(np.int64), log_weights,
        np.zeros((len(log_weights), min(data.table.n_rows, _MOST_TABULATED) + 1)), missing_cells.missing_in,
        np.zeros(len(node), dtype=np.bool_), np.zeros(_MOST_CELLS, dtype=np.int64),
        Bits(
            np.concatenate([[0], np.cumsum(r)]).astype(np.int64), np.zeros((int(r.sum()), n_rows), dtype=np.uint64),
            np.zeros((most_columns, n_rows), dtype=np.uint64), np.zeros(most_columns, dtype=np.int64),
        ),
    )  # fmt: skip
    _prepare(lists, missing_cells.base, missing_cells.weights, r)
    return lists


@branching
def _prepare(lists: FamilyLists, base: NDArray[np.int16], weights: Ints, n_states: Ints) -> None:
    """Fill factors, tables of logarithms, and the counts of rows whose family is complete."""
    for table in range(lists.log_weights.size):
        log_alpha = lists.log_weights[table]
        for cases in range(1, lists.ratios.shape[1]):
            lists.ratios[table, cases] = log_ratio(float(cases), np.exp(log_alpha), log_alpha)
    for s in range(lists.node.size):
        stride = n_states[lists.node[s]]
        begin, end = lists.member_first[s], lists.member_first[s + 1]
        for e in range(begin, end):
            lists.stride[e] = stride
            stride *= n_states[lists.member[e]]
        if lists.n_cells[s] == 0:
            continue
        n_open = 0
        for w in range(lists.missing_in.shape[1]):
            n_open += popcount(_open_rows(s, w, lists))
        cost_of_bits = 2 * lists.n_cells[s] * lists.missing_in.shape[1]
        lists.by_bits[s] = cost_of_bits < n_open * (end - begin + 1) * _ROW_IN_WORDS
        for row in range(base.shape[1]):
            cell = np.int64(base[lists.node[s], row])
            whole = cell >= 0
            for e in range(begin, end):
                state = base[lists.member[e], row]
                whole = whole and state >= 0
                cell += lists.stride[e] * state
            if whole:
                lists.kept[lists.kept_first[s] + cell] += weights[row]


@branching
def weigh_lists(completion: Completion, scoring: Scoring, lists: FamilyLists, parents: Words, weight: Floats) -> None:
    """Fill ``weight`` with the log weights of all sets in a completion: score and log prior.

    ``scoring`` is `IncompleteData.scoring`, ``parents`` work space of shape (n_words,).
    """
    _list_states(completion.rows, lists.bits)
    for s in range(lists.node.size):
        if lists.n_cells[s] == 0:
            for w in range(parents.size):
                parents[w] = lists.sets[s, w]
            weight[s] = counted_log_score(lists.node[s], parents, scoring)
        else:
            first = lists.kept_first[s]
            for cell in range(lists.n_cells[s]):
                lists.scratch[cell] = lists.kept[first + cell]
            if lists.by_bits[s]:
                _count_by_bits(s, lists)
            else:
                _count_row_by_row(s, completion.rows, lists)
            weight[s] = _score_set(s, completion.n_states[lists.node[s]], lists) + lists.log_prior[s]


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
def _open_rows(s: int, w: int, lists: FamilyLists) -> np.uint64:
    """Which of 64 incomplete rows lack a column of the family, as bits."""
    word = lists.missing_in[lists.node[s], w]
    for e in range(lists.member_first[s], lists.member_first[s + 1]):
        word |= lists.missing_in[lists.member[e], w]
    return word  # type: ignore[no-any-return]


@hot
def _count_by_bits(s: int, lists: FamilyLists) -> None:
    """Add the rows that lack a column of a listed family to the counts in the work space, cell by cell.

    The states of the last parents are joined first, and change slowest: cells come in their order.
    """
    joined, state, of_state, first_state = lists.bits.joined, lists.bits.state, lists.bits.rows, lists.bits.first_state
    begin, end = lists.member_first[s], lists.member_first[s + 1]
    last, n_words = end - begin, joined.shape[1]
    for w in range(n_words):
        joined[0, w] = _open_rows(s, w, lists)
    cell, level = 0, 0
    state[0] = 0
    while level >= 0:
        column = lists.node[s] if level == last else lists.member[end - 1 - level]
        at = first_state[column] + state[level]
        if at == first_state[column + 1]:
            level -= 1
            state[level] += 1  # of level -1: the last place, which nobody reads
        elif level < last:
            for w in range(n_words):
                joined[level + 1, w] = joined[level, w] & of_state[at, w]
            level += 1
            state[level] = 0
        else:
            found = 0
            for w in range(n_words):
                found += popcount(joined[level, w] & of_state[at, w])
            lists.scratch[cell] += found
            cell += 1
            state[level] += 1


@hot
def _count_row_by_row(s: int, rows: NDArray[np.int16], lists: FamilyLists) -> None:
    """The same, where the cells are many."""
    node, begin, end = lists.node[s], lists.member_first[s], lists.member_first[s + 1]
    for w in range(lists.missing_in.shape[1]):
        word = _open_rows(s, w, lists)
        while word != np.uint64(0):
            i = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            place = np.int64(rows[i, node])
            for e in range(begin, end):
                place += lists.stride[e] * rows[i, lists.member[e]]
            lists.scratch[place] += 1


@hot
def _score_set(s: int, r: int, lists: FamilyLists) -> float:
    """Log marginal likelihood of the family whose counts are in the work space."""
    counts = lists.scratch
    of_cell, of_config = lists.cell_table[s], lists.config_table[s]
    score = 0.0
    for begin in range(0, lists.n_cells[s], r):
        total = 0
        for cell in range(begin, begin + r):
            if counts[cell] > 0:
                score += _ratio(counts[cell], of_cell, lists)
                total += counts[cell]
        if total > 0:
            score -= _ratio(total, of_config, lists)
    return score


@hot
def _ratio(cases: int, table: int, lists: FamilyLists) -> float:
    if cases < lists.ratios.shape[1]:
        return lists.ratios[table, cases]  # type: ignore[no-any-return]
    log_alpha = lists.log_weights[table]
    return log_ratio(float(cases), np.exp(log_alpha), log_alpha)


_LEVEL = 64.0  # nats: as in `doxa.structure.moves.parent_sets`
_NEXT = math.exp(-_LEVEL)
_BOUND = 1.0 + 1e-12  # what is left is a bound, whatever the rounding


def list_layout(lists: FamilyLists) -> ParentSets:
    """Everything that does not depend on the weights; `arrange` fills in the rest.  One for each chain."""
    n, words = len(lists.first) - 1, lists.sets.shape[1]
    sizes = np.diff(lists.first)
    before = np.zeros((lists.n_sets + 1, n), dtype=np.int64)
    np.cumsum(unpack_rows(lists.sets, n), axis=0, out=before[1:])
    held = before[lists.first[1:]] - before[lists.first[:-1]]
    first_block = np.cumsum([0, *(-(-sizes // 64))])
    longest = int(sizes.max(initial=0))
    n_sets, n_blocks = lists.n_sets, int(first_block[-1])
    return ParentSets(
        lists.first, lists.sets.copy(), np.zeros(n_sets), np.zeros(n_sets, dtype=np.int64), np.zeros(n_sets),
        np.zeros(n_sets), np.cumsum([0, *held.ravel()]), np.zeros(int(held.sum())), first_block,
        np.zeros((n_blocks, n), dtype=np.uint64), np.zeros((n_blocks, words), dtype=np.uint64), np.empty(longest),
        np.empty(longest, dtype=np.int64), np.full(n, -1, dtype=np.int64), np.zeros((3, words), dtype=np.uint64),
        np.zeros((4, n), dtype=np.int64),
        joint_work(near_nodes(held / np.maximum(sizes, 1)[:, None]), words, -(-longest // 64)),
    )  # fmt: skip


def arrange(table: ParentSets, lists: FamilyLists, weight: NDArray[np.float64]) -> None:
    """Sort the lists by these weights, heaviest first, and fill in all that follows from them, in place."""
    n = len(lists.first) - 1
    order = np.lexsort((-weight, lists.node))
    table.sets[:] = lists.sets[order]
    table.weight[:] = weight[order]
    starts = lists.first[:-1][np.diff(lists.first) > 0]
    below = np.zeros(lists.n_sets)
    below[:] = np.repeat(table.weight[starts], np.diff(np.append(starts, lists.n_sets))) - table.weight
    table.level[:] = np.floor(below / _LEVEL)
    table.scaled[:] = np.exp(_LEVEL * table.level - below)
    _fill(table, np.zeros((2, n + 1), dtype=np.int64), np.zeros((2, n + 1)))


@branching
def _fill(table: ParentSets, numbers: Ints, sums: Floats) -> None:
    """What is left after each set, in its node's list and in the lists of those that hold a node; blocks of 64."""
    n = table.first.size - 1
    level, place = numbers
    table.holds[:] = np.uint64(0)
    table.union[:] = np.uint64(0)
    for node in range(n):
        level[:] = -1
        for j in range(n):
            place[j] = table.with_first[node * n + j + 1]
        for number in range(table.first[node + 1] - 1, table.first[node] - 1, -1):
            inside = number - table.first[node]
            block = table.first_block[node] + (inside >> 6)
            bit = np.uint64(1) << np.uint64(inside & 63)
            here, value = table.level[number], table.scaled[number]
            table.left[number] = _pass(n, here, value, level, sums)
            for w in range(table.sets.shape[1]):
                word = table.sets[number, w]
                table.union[block, w] |= word
                while word != np.uint64(0):
                    j = 64 * w + lowest_bit(word)
                    word &= word - np.uint64(1)
                    table.holds[block, j] |= bit
                    place[j] -= 1
                    table.with_left[place[j]] = _pass(j, here, value, level, sums)


@hot
def _pass(j: int, here: int, value: float, level: Ints, sums: Floats) -> float:
    """Go up one set in list j: return what is left below it, relative to its level, and add it."""
    of_level, of_next = sums
    if level[j] != here:
        of_next[j] = _NEXT * of_level[j] if level[j] == here + 1 else 0.0
        of_level[j] = 0.0
        level[j] = here
    left = (of_level[j] + of_next[j]) * _BOUND
    of_level[j] += value
    return left  # type: ignore[no-any-return]
