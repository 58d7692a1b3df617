"""The families that a change of graph and cells touches, counted without the rows whose cells are let go.

See `doxa.structure.cases.incomplete.joint_proposals`.  Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, inlined, lowest_bit
from doxa.arrays import Ints, Words
from doxa.models.bits import n_words
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData
from doxa.structure.families.counting import CONSTANT_RULE, Rule
from doxa.structure.graph import is_in

__all__ = ["MOST_VALUES", "JointWork", "Side", "add_row", "joint_work", "lay_out"]

MOST_VALUES = 64  # joint values of a row's cells
_MOST_COUNTS = 2**16  # of all families that are touched


@by_address
class Side(NamedTuple):
    """The families that the cells touch, under one of the two graphs, and their counts."""

    size: NDArray[np.int64]  # (1,): how many families
    node: NDArray[np.int64]  # (n_nodes,)
    changed: NDArray[np.bool_]  # (n_nodes,): whether the two graphs differ in this family
    parent_first: NDArray[np.int64]  # (n_nodes + 1,)
    parent: NDArray[np.int64]  # (n_nodes**2,)
    stride: NDArray[np.int64]  # (n_nodes**2,): the parent's factor in the number of a configuration
    count_first: NDArray[np.int64]  # (n_nodes + 1,): a configuration has a count for each state, and their sum
    counts: NDArray[np.int64]  # (_MOST_COUNTS,)
    prior_cell: NDArray[np.float64]  # (n_nodes,): a_ijk
    prior_config: NDArray[np.float64]  # (n_nodes,): a_ij
    open: NDArray[np.int64]  # (n_nodes,): families that hold a missing cell of the row at hand
    closed: NDArray[np.int64]  # (n_nodes,): places of the row at hand in the others


@by_address
class JointWork(NamedTuple):
    """Work space of one chain."""

    columns: NDArray[np.uint64]  # (n_words,): C
    rows: NDArray[np.int64]  # (n_incomplete,): the rows of z
    is_out: NDArray[np.uint64]  # the same as a bit set
    codes: NDArray[np.int64]  # (n_nodes,): the row at hand
    cells: NDArray[np.int64]  # (n_nodes,): columns of its missing cells in C
    values: NDArray[np.int64]  # (n_incomplete,): the joint value of each row of z, a number in mixed radix
    weights: NDArray[np.float64]  # (MOST_VALUES,)
    here: Side
    there: Side
    beta: float  # inverse temperature: the target is the posterior to this power


def joint_work(data: IncompleteData, beta: float = 1.0) -> JointWork:
    """Fresh work space, at an inverse temperature."""
    n, n_incomplete = data.n_nodes, len(data.missing_cells.first) - 1

    def whole(size: int) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)

    def side() -> Side:
        return Side(
            whole(1), whole(n), np.zeros(n, dtype=np.bool_), whole(n + 1), whole(n * n), whole(n * n), whole(n + 1),
            whole(_MOST_COUNTS), np.zeros(n), np.zeros(n), whole(n), whole(n),
        )  # fmt: skip

    return JointWork(
        np.zeros(n_words(n), dtype=np.uint64), whole(n_incomplete),
        np.zeros(data.missing_cells.missing_in.shape[1], dtype=np.uint64), whole(n), whole(n), whole(n_incomplete),
        np.zeros(MOST_VALUES), side(), side(), float(beta),
    )  # fmt: skip


@hot
def lay_out(
    before: tuple[Words, Ints],
    after: tuple[Words, Ints],
    completion: Completion,
    lists: FamilyLists,
    rule: Rule,
    work: JointWork,
) -> int:
    """Find C, the rows of z, and the touched families under both graphs, counted without these rows.

    ``before`` and ``after`` are graphs: the parents of every node as bit sets, and the number of each set in ``lists``,
    -1 if it is not listed.  Returns the number of rows, or -1 if the families are too large to be counted here.
    """
    columns = work.columns
    columns[:] = np.uint64(0)
    for node in range(completion.n_states.size):
        differs = False
        for w in range(columns.size):
            differs = differs or before[0][node, w] != after[0][node, w]
        if differs:
            columns[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
    n_rows = _find_rows(completion, lists.missing_in, work)
    if not _list_families(before[0], after[0], completion.n_states, rule, work.columns, work.here):
        return -1
    if not _list_families(after[0], before[0], completion.n_states, rule, work.columns, work.there):
        return -1
    for f in range(work.here.size[0]):
        _count(f, before[1][work.here.node[f]], completion, lists, work, work.here)
    for f in range(work.there.size[0]):
        if work.there.changed[f]:
            _count(f, after[1][work.there.node[f]], completion, lists, work, work.there)
        else:
            _copy(f, work.here, work.there)
    return n_rows


@hot
def _find_rows(completion: Completion, missing_in: Words, work: JointWork) -> int:
    """List the rows of z."""
    work.is_out[:] = np.uint64(0)
    n_rows = 0
    for v in range(missing_in.shape[1]):
        word = np.uint64(0)
        for w in range(work.columns.size):
            left = work.columns[w]
            while left != np.uint64(0):
                word |= missing_in[64 * w + lowest_bit(left), v]
                left &= left - np.uint64(1)
        while word != np.uint64(0):
            i = 64 * v + lowest_bit(word)
            word &= word - np.uint64(1)
            joint = 1
            for number in range(completion.first[i], completion.first[i + 1]):
                column = completion.column[number]
                if is_in(work.columns, column) and joint <= MOST_VALUES:
                    joint *= completion.n_states[column]
            if joint <= MOST_VALUES:
                work.rows[n_rows] = i
                work.is_out[v] |= np.uint64(1) << np.uint64(i & 63)
                n_rows += 1
    return n_rows


@hot
def _list_families(parents: Words, others: Words, n_states: Ints, rule: Rule, columns: Words, side: Side) -> bool:
    """Fill all but the counts, which are set to 0; False if there would be too many."""
    size, edge, n_counts = 0, 0, 0
    for node in range(parents.shape[0]):
        touched, changed = is_in(columns, node), False
        for w in range(columns.size):
            touched = touched or parents[node, w] & columns[w] != np.uint64(0)
            changed = changed or parents[node, w] != others[node, w]
        if not touched:
            continue
        r = n_states[node]
        side.node[size], side.changed[size] = node, changed
        side.parent_first[size], side.count_first[size] = edge, n_counts
        stride = 1
        for w in range(columns.size):
            word = parents[node, w]
            while word != np.uint64(0):
                parent = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                side.parent[edge], side.stride[edge] = parent, stride
                edge += 1
                stride *= n_states[parent]
                if n_counts + stride * (r + 1) > _MOST_COUNTS:
                    return False
        n_counts += stride * (r + 1)
        log_cell = rule.log_weight
        if rule.kind != CONSTANT_RULE:
            log_cell -= np.log(stride) + np.log(r)
        side.prior_cell[size], side.prior_config[size] = np.exp(log_cell), np.exp(log_cell + np.log(r))
        size += 1
    side.size[0], side.parent_first[size], side.count_first[size] = size, edge, n_counts
    side.counts[:n_counts] = 0
    return True


@hot
def _count(f: int, number: int, completion: Completion, lists: FamilyLists, work: JointWork, side: Side) -> None:
    """Count a family in the rows that are left in; where it is listed, only rows with its cells missing are visited."""
    node, first = side.node[f], side.count_first[f]
    r = completion.n_states[node]
    if number < 0 or lists.family[number] < 0:
        for row in range(completion.columns.shape[1]):
            i = row - completion.n_complete
            if i < 0 or not is_in(work.is_out, i):
                add_row(f, completion.columns[:, row], completion.weights[row], r, side)
        return
    c, stride = lists.family[number], 1  # of the node's own column
    for e in range(lists.columns.column_first[c], lists.columns.column_first[c + 1]):
        if lists.columns.column[e] == node:
            stride = lists.columns.stride[e]
    kept, counts = lists.columns.kept, side.counts
    begin, place = lists.columns.cell_first[c], first
    while place < side.count_first[f + 1]:
        for inside in range(begin, begin + stride):
            total = 0
            for state in range(r):
                cases = kept[inside + state * stride]
                counts[place + state] = cases
                total += cases
            counts[place + r] = total
            place += r + 1
        begin += stride * r
    for v in range(lists.missing_in.shape[1]):
        missing = lists.missing_in[node, v]
        for e in range(side.parent_first[f], side.parent_first[f + 1]):
            missing |= lists.missing_in[side.parent[e], v]
        word = missing ^ work.is_out[v]  # missing and left in: not kept; known and taken out: kept
        while word != np.uint64(0):
            bit = word & ~(word - np.uint64(1))
            word ^= bit
            add_row(f, completion.rows[64 * v + lowest_bit(bit)], 1 if missing & bit != np.uint64(0) else -1, r, side)


@inlined
def add_row(f: int, codes: NDArray[np.int16] | Ints, weight: int, r: int, side: Side) -> None:
    """Count a row in a family so many times."""
    config = 0
    for e in range(side.parent_first[f], side.parent_first[f + 1]):
        config += side.stride[e] * codes[side.parent[e]]
    place = side.count_first[f] + config * (r + 1)
    side.counts[place + codes[side.node[f]]] += weight
    side.counts[place + r] += weight


@hot
def _copy(f: int, source: Side, side: Side) -> None:
    """The counts of a family that both graphs have."""
    node = side.node[f]
    for g in range(source.size[0]):
        if source.node[g] == node:
            shift = source.count_first[g] - side.count_first[f]
            for place in range(side.count_first[f], side.count_first[f + 1]):
                side.counts[place] = source.counts[place + shift]
