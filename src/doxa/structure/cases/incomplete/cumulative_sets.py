"""`ParentSets` made anew from fresh weights: as `doxa.structure.moves.parent_sets.scaled` makes them, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.models.bits import unpack_rows
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists
from doxa.structure.moves.joint_parents import joint_work, near_nodes
from doxa.structure.moves.parent_sets import ParentSets

__all__ = ["arrange", "list_layout"]

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
        joint_work(near_nodes(held / np.maximum(sizes, 1)[:, None]), words),
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


@hot
def _fill(table: Any, numbers: Any, sums: Any) -> None:
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
def _pass(j: int, here: int, value: float, level: Any, sums: Any) -> float:
    """Go up one set in list j: return what is left below it, relative to its level, and add it."""
    of_level, of_next = sums
    if level[j] != here:
        of_next[j] = _NEXT * of_level[j] if level[j] == here + 1 else 0.0
        of_level[j] = 0.0
        level[j] = here
    left = (of_level[j] + of_next[j]) * _BOUND
    of_level[j] += value
    return left  # type: ignore[no-any-return]
