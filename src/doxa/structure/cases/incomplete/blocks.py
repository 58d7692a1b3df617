r"""Missing cells of one row that depend on each other: found, taken out of the counts, weighed, put back.

Given the graph and all other rows, two missing cells of a row are tied if a family holds both.  A *component* is a set
of missing cells joined by such ties; components of a row are independent of each other, and no family belongs to two of
them.  The *affected* families of a component are those of its cells and of their children.  With the row out of their
counts, a joint value of the cells weighs the product of the affected families' predictive probabilities, so a component
of few joint values is drawn exactly, by listing them.  For a chain at an inverse temperature below 1 all of this holds
with every predictive probability to that power: so the conditional distributions of the posterior to that power are.

Functions are compiled, trust their arguments and work in place.  ``i`` is the number of an incomplete row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, inlined
from doxa.arrays import Ints
from doxa.structure.cases.incomplete.families import (
    Families,
    add_case,
    case_probability,
    config_of,
    needs_recount,
    recount,
)
from doxa.structure.cases.incomplete.missing_cells import Completion

__all__ = [
    "MOST_JOINT",
    "RowWork",
    "end_of_block",
    "gather",
    "move_case",
    "n_joint",
    "row_work",
    "set_cell",
    "tie_cells",
    "to_power",
    "weigh_block",
]

MOST_JOINT = 64  # joint values that are listed; larger components are drawn a part at a time
_SMALL = 1e-150  # products are scaled up from here: hundreds of children would bring them to 0


@by_address
class RowWork(NamedTuple):
    """Work space of one chain."""

    cells: NDArray[np.int64]  # (n_nodes,): columns of the row's missing cells, parents first
    root: NDArray[np.int64]  # (n_nodes,): another cell of the same component, or the cell's own place
    owner: NDArray[np.int64]  # (n_nodes,): -1 between calls
    members: NDArray[np.int64]  # (n_nodes,): columns of one component
    affected: NDArray[np.int64]  # (n_nodes,): its families, members first
    place: NDArray[np.int64]  # (n_nodes,): a column's place in the block; -1 between calls
    block_families: NDArray[np.int64]  # (n_nodes,)
    digits: NDArray[np.int64]  # (n_nodes, width): state of each column of the block in each joint value
    offset: NDArray[np.int64]  # (width,); the width is MOST_JOINT, or the states of the column that has most
    weights: NDArray[np.float64]  # (width,)
    before: NDArray[np.int64]  # (n_nodes,): states of the component before a proposal
    beta: float  # inverse temperature: cells are drawn from the posterior to this power


def row_work(n_states: NDArray[np.int64], beta: float = 1.0) -> RowWork:
    """Fresh work space for columns with these numbers of states, at an inverse temperature."""
    n_nodes, width = len(n_states), max(MOST_JOINT, int(n_states.max()))

    def numbers(fill: int = 0) -> NDArray[np.int64]:
        return np.full(n_nodes, fill, dtype=np.int64)

    digits = np.zeros((n_nodes, width), dtype=np.int64)
    return RowWork(
        numbers(), numbers(), numbers(-1), numbers(), numbers(), numbers(-1), numbers(), digits,
        np.zeros(width, dtype=np.int64), np.zeros(width), numbers(), float(beta),
    )  # fmt: skip


@inlined
def to_power(probability: float, beta: float) -> float:
    """A probability to the power of the inverse temperature, which mostly is 1."""
    return probability if beta == 1.0 else probability**beta


@inlined
def set_cell(i: int, column: int, state: int, completion: Completion) -> None:
    """Write a missing cell."""
    completion.rows[i, column] = state
    completion.columns[column, completion.n_complete + i] = state


@inlined
def _top(root: Ints, a: int) -> int:
    while root[a] != a:
        a = root[a]
    return a


@hot
def tie_cells(i: int, completion: Completion, families: Families, work: RowWork) -> int:
    """List the row's missing cells, parents first, and tie those that share a family; return their number."""
    m = 0
    for number in range(completion.first[i], completion.first[i + 1]):
        column = completion.column[number]
        place = m
        while place > 0 and families.rank[work.cells[place - 1]] > families.rank[column]:
            work.cells[place] = work.cells[place - 1]
            place -= 1
        work.cells[place] = column
        m += 1
    for a in range(m):
        column = work.cells[a]
        work.root[a] = a
        _tie(a, column, work)
        for e in range(families.child_first[column], families.child_first[column + 1]):
            _tie(a, families.child[e], work)
    for a in range(m):
        column = work.cells[a]
        work.root[a] = _top(work.root, a)
        work.owner[column] = -1
        for e in range(families.child_first[column], families.child_first[column + 1]):
            work.owner[families.child[e]] = -1
    return m


@inlined
def _tie(a: int, family: int, work: RowWork) -> None:
    if work.owner[family] < 0:
        work.owner[family] = a
        return
    here, there = _top(work.root, a), _top(work.root, work.owner[family])
    if here < there:
        work.root[there] = here
    else:
        work.root[here] = there


@hot
def gather(a: int, m: int, families: Families, work: RowWork) -> tuple[int, int]:
    """Fill members and affected families of the component whose root is ``a``; return how many there are."""
    size = 0
    for b in range(a, m):
        if work.root[b] == a:
            work.members[size] = work.cells[b]
            work.affected[size] = work.cells[b]
            work.owner[work.cells[b]] = 0
            size += 1
    n_affected = size
    for k in range(size):
        column = work.members[k]
        for e in range(families.child_first[column], families.child_first[column + 1]):
            child = families.child[e]
            if work.owner[child] < 0:
                work.owner[child] = 0
                work.affected[n_affected] = child
                n_affected += 1
    for k in range(n_affected):
        work.owner[work.affected[k]] = -1
    return size, n_affected


@hot
def move_case(i: int, n_affected: int, weight: int, completion: Completion, families: Families, work: RowWork) -> None:
    """Take the row out of the affected families (weight -1) or put it back (1)."""
    codes = completion.rows[i]
    for k in range(n_affected):
        node = work.affected[k]
        add_case(node, config_of(node, codes, families), codes[node], weight, completion.n_states[node], families)
        if weight > 0 and needs_recount(node, families):
            recount(node, completion, families)


@inlined
def n_joint(begin: int, end: int, completion: Completion, work: RowWork) -> int:
    """Number of joint values of members ``begin`` to ``end``; above MOST_JOINT, some number above it."""
    joint = 1
    for k in range(begin, end):
        joint *= int(completion.n_states[work.members[k]])
        if joint > MOST_JOINT:
            return joint
    return joint


@inlined
def end_of_block(begin: int, size: int, completion: Completion, work: RowWork) -> int:
    """End of the longest block of members from ``begin`` whose joint values can be listed; one member at least."""
    end = begin + 1
    joint = completion.n_states[work.members[begin]]
    while end < size and joint * completion.n_states[work.members[end]] <= MOST_JOINT:
        joint *= completion.n_states[work.members[end]]
        end += 1
    return end


@hot
def _lay_out(begin: int, end: int, completion: Completion, families: Families, work: RowWork) -> tuple[int, int]:
    """Fill places, digits and the block's families; return the numbers of joint values and of families."""
    joint, n_families = 1, 0
    for k in range(begin, end):
        column = work.members[k]
        r = completion.n_states[column]
        work.place[column] = k
        for c in range(joint * r):
            work.digits[k, c] = c // joint
        for other in range(begin, k):
            for c in range(joint, joint * r):
                work.digits[other, c] = work.digits[other, c - joint]
        joint *= r
        if work.owner[column] < 0:
            work.owner[column] = 0
            work.block_families[n_families] = column
            n_families += 1
        for e in range(families.child_first[column], families.child_first[column + 1]):
            child = families.child[e]
            if work.owner[child] < 0:
                work.owner[child] = 0
                work.block_families[n_families] = child
                n_families += 1
    return joint, n_families


@hot
def weigh_block(i: int, begin: int, end: int, completion: Completion, families: Families, work: RowWork) -> int:
    """Weigh the joint values of members ``begin`` to ``end``, given the rest of the row, which is out of the counts.

    Returns the number of joint values; their weights at ``work.beta``, up to a factor, are in ``work.weights``, their
    states in ``work.digits``.
    """
    codes = completion.rows[i]
    joint, n_families = _lay_out(begin, end, completion, families, work)
    for c in range(joint):
        work.weights[c] = 1.0
    for k in range(n_families):
        node = work.block_families[k]
        base = 0
        for c in range(joint):
            work.offset[c] = 0
        for e in range(families.parent_first[node], families.parent_first[node + 1]):
            parent, stride = families.parent[e], families.stride[e]
            if work.place[parent] < 0:
                base += stride * codes[parent]
            else:
                for c in range(joint):
                    work.offset[c] += stride * work.digits[work.place[parent], c]
        own, r, largest = work.place[node], completion.n_states[node], 0.0
        for c in range(joint):
            state = work.digits[own, c] if own >= 0 else int(codes[node])
            work.weights[c] *= to_power(case_probability(node, base + work.offset[c], state, r, families), work.beta)
            largest = max(largest, work.weights[c])
        if largest < _SMALL:
            for c in range(joint):
                work.weights[c] *= 1.0 / _SMALL
    for k in range(n_families):
        work.owner[work.block_families[k]] = -1
    for k in range(begin, end):
        work.place[work.members[k]] = -1
    return joint
