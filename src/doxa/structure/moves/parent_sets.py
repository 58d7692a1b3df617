r"""Lists of parent sets in a compiled loop: draw one by its weight, and add up the weights, among those that fit.

A list holds the sets of `doxa.structure.families.score_table`, heaviest first.  Weights span thousands of nats, more
than a float does, so each is kept relative to its *level*, a step of 64 nats below the node's heaviest set.  A walk
along the list begins at the first set that fits; what is two levels below it is less than e^-64 of it, which no
rounding sees.

A draw is by inversion.  The walk stops as soon as the sets that are still to come cannot change the outcome, which is
known from the weight that is left: mostly after a handful of sets, and without approximation.

Of the sets that a walk meets some nine in ten do not fit.  They are passed over 64 at a time: for each such block of a
list and each node, one word says which of the block's sets hold the node.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa._jit import branching, hot, inlined, lowest_bit, popcount
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.moves.joint_parents import JointWork, joint_work, near_nodes

__all__ = [
    "ParentSets",
    "bound_log_sum",
    "draw_set",
    "edges_of_sets",
    "find_set",
    "laid_out",
    "log_bounds",
    "log_sum_of_sets",
    "no_parent_sets",
    "scale",
    "scaled",
    "sets_that_fit",
]

_LEVEL = 64.0  # nats
_NEXT = math.exp(-_LEVEL)
_BOUND = 1.0 + 1e-12  # what is left is a bound, whatever the rounding
_ROUNDING = 1e-17  # of a sum: what is smaller does not change it


@by_address
class ParentSets(NamedTuple):
    """The lists of all nodes as compiled loops take them."""

    first: NDArray[np.int64]  # (n_nodes + 1,): the sets of node i are numbers first[i] to first[i + 1] - 1
    heaviest: NDArray[np.int64]  # (n_sets,): number of the heaviest set of the same node
    sets: NDArray[np.uint64]  # (n_sets, n_words)
    weight: NDArray[np.float64]  # (n_sets,): beta times the log weight, falling within a node
    level: NDArray[np.int64]  # (n_sets,): steps of 64 nats below the node's heaviest
    scaled: NDArray[np.float64]  # (n_sets,): the weight relative to its level
    left: NDArray[np.float64]  # (n_sets,): what follows in this level and the next, relative to this level
    with_first: NDArray[np.int64]  # (n_nodes^2 + 1,): place i * n_nodes + j is where i's sets that hold j begin
    with_left: NDArray[np.float64]  # as ``left``, among them, heaviest first
    first_block: NDArray[np.int64]  # (n_nodes + 1,): as ``first``, in blocks of 64 sets
    holds: NDArray[np.uint64]  # (n_blocks, n_nodes): which of the block's sets hold the node
    union: NDArray[np.uint64]  # (n_blocks, n_words): the nodes that some set of the block holds
    cumulative: NDArray[np.float64]  # work space, as long as the longest list
    chosen: NDArray[np.int64]  # work space
    where: NDArray[np.int64]  # (n_nodes,): work space: number of each node's set, -1 if it is not listed
    reached: NDArray[np.uint64]  # (3, n_words): work space
    order: NDArray[np.int64]  # (4, n_nodes): work space
    joint: JointWork


@cache
def no_parent_sets(n_nodes: int, n_words: int) -> ParentSets:
    """Empty lists, for moves that use none, and leave them alone."""
    sets = np.zeros((0, n_words), dtype=np.uint64)
    return laid_out(np.zeros(n_nodes + 1, dtype=np.int64), sets, near_nodes(np.full((n_nodes, n_nodes), -np.inf)))


def scaled(
    first: NDArray[np.int64], sets: NDArray[np.uint64], log_weight: NDArray[np.float64], beta: float
) -> ParentSets:
    """Lists of sets, heaviest first, with their weights to the power ``beta``."""
    weight = beta * log_weight
    table = laid_out(first, sets, near_nodes(_values(unpack_rows(sets, len(first) - 1), weight, first)))
    table.weight[:] = weight
    scale(table)
    return table


def laid_out(first: NDArray[np.int64], sets: NDArray[np.uint64], near: NDArray[np.int64]) -> ParentSets:
    """Lists of sets without weights, and work space; ``near`` are the nodes that may join a node (`JointWork`)."""
    n, words, n_sets, sizes = len(first) - 1, sets.shape[1], len(sets), np.diff(first)
    number, parent = np.nonzero(unpack_rows(sets, n))
    held = np.bincount(np.repeat(np.arange(n), sizes)[number] * n + parent, minlength=n * n)
    first_block = np.cumsum([0, *(-(-sizes // 64))])
    longest, n_blocks = int(sizes.max(initial=0)), int(first_block[-1])
    return ParentSets(
        first, np.repeat(first[:-1], sizes), sets,
        np.zeros(n_sets), np.zeros(n_sets, dtype=np.int64), np.zeros(n_sets), np.zeros(n_sets),
        np.concatenate([[0], np.cumsum(held)]).astype(np.int64), np.zeros(len(number)), first_block,
        np.zeros((n_blocks, n), dtype=np.uint64), np.zeros((n_blocks, words), dtype=np.uint64), np.empty(longest),
        np.empty(longest, dtype=np.int64), np.full(n, -1, dtype=np.int64), np.zeros((3, words), dtype=np.uint64),
        np.zeros((4, n), dtype=np.int64), joint_work(near, words, -(-longest // 64)),
    )  # fmt: skip


def scale(table: ParentSets) -> None:
    """Split the weights, which fall within a node, into levels, and fill in all that follows from them, in place."""
    n, below = len(table.first) - 1, table.weight[table.heaviest] - table.weight
    table.level[:] = np.floor(below / _LEVEL)
    table.scaled[:] = np.exp(_LEVEL * table.level - below)
    settled(_fill)(table, np.zeros((2, n + 1), dtype=np.int64), np.zeros((2, n + 1)))


def _values(members: NDArray[np.bool_], weight: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """What node j is worth to node i, nats: its best set with j less its best set without; -inf where none has j."""
    n = len(first) - 1
    value = np.full((n, n), -np.inf)
    for node, (begin, end) in enumerate(itertools.pairwise(first)):
        held, own = members[begin:end], weight[begin:end, None]
        if end > begin:
            best_with = np.where(held, own, -np.inf).max(axis=0)
            best_without = np.where(held, -np.inf, own).max(axis=0)
            value[node] = np.where(np.isinf(best_without), np.inf, best_with - best_without)
    return value


def edges_of_sets(table: ParentSets) -> NDArray[np.uint64]:
    """The edges into its node that each set stands for, as adjacency rows, (n_sets, n_nodes, n_words)."""
    n = len(table.first) - 1
    into = pack_rows(np.eye(n, dtype=np.bool_))[np.repeat(np.arange(n), np.diff(table.first))]
    return unpack_rows(table.sets, n)[:, :, None] * into[:, None, :]


def sets_that_fit(table: ParentSets, node: int, avoid: NDArray[np.uint64], must: int = -1) -> NDArray[np.int64]:
    """Numbers of the node's sets that have no node of ``avoid`` and have ``must`` (if not -1)."""
    sets = table.sets[table.first[node] : table.first[node + 1]]
    fits = ~(sets & avoid).any(axis=1)
    if must >= 0:
        fits &= unpack_rows(sets, len(table.first) - 1)[:, must]
    found: NDArray[np.int64] = table.first[node] + np.flatnonzero(fits)
    return found


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


@hot
def _listed(table: ParentSets, node: int, block: int) -> np.uint64:
    """The bits of a block behind which there are sets: all but those after the end of the node's list."""
    behind = 64 * (table.first_block[node + 1] - block) - (-(table.first[node + 1] - table.first[node]) & 63)
    return ~np.uint64(0) if behind >= 64 else (np.uint64(1) << np.uint64(behind)) - np.uint64(1)


@hot
def find_set(table: ParentSets, node: int, parents: Words) -> int:
    """Number of the set in the node's list, -1 if it is not there."""
    for block in range(table.first_block[node], table.first_block[node + 1]):
        same = _listed(table, node, block)
        for w in range(parents.size):
            word = parents[w] | table.union[block, w]
            while word != np.uint64(0) and same != np.uint64(0):
                other = lowest_bit(word)
                word &= word - np.uint64(1)
                holds = table.holds[block, 64 * w + other]
                same &= holds if (parents[w] >> np.uint64(other)) & np.uint64(1) else ~holds
        if same != np.uint64(0):
            return int(table.first[node] + 64 * (block - table.first_block[node]) + lowest_bit(same))
    return -1


@inlined
def draw_set(
    table: ParentSets, node: int, avoid: Words, must: int, u: float, tolerance: float
) -> tuple[int, int, float, float]:
    """Draw a set that has no node of ``avoid`` and has ``must`` (if not -1) by weight, with 0 <= u < 1.

    Returns the set's number, -1 if none fits, and what `log_bounds` makes bounds of the sum of the weights from.
    The walk along the list goes on until what is left is at most ``tolerance`` of the sum.
    """
    found, pointer, begin, unit = 0, 0, 0, 1.0
    total, rest = 0.0, 0.0
    place = table.with_first[node * (table.first.size - 1) + must] if must >= 0 else 0
    for block in range(table.first_block[node], table.first_block[node + 1]):
        listed = table.holds[block, must] if must >= 0 else _listed(table, node, block)
        fits = listed
        for w in range(avoid.size):
            word = avoid[w] & table.union[block, w]
            while word != np.uint64(0) and fits != np.uint64(0):
                fits &= ~table.holds[block, 64 * w + lowest_bit(word)]
                word &= word - np.uint64(1)
        base = table.first[node] + 64 * (block - table.first_block[node])
        while fits != np.uint64(0):
            number = base + lowest_bit(fits)
            if found == 0:
                begin = table.level[number]
            below = table.level[number] - begin
            if below > 1:
                return table.chosen[pointer], begin, total, 0.0
            unit = 1.0 if below == 0 else _NEXT
            total += unit * table.scaled[number]
            table.cumulative[found] = total
            table.chosen[found] = number
            found += 1
            while table.cumulative[pointer] < u * total:
                pointer += 1
            if must < 0:
                rest = unit * table.left[number]
            else:
                earlier = listed & ((fits & (~fits + np.uint64(1))) - np.uint64(1))
                rest = unit * table.with_left[place + popcount(earlier)]
            if rest <= tolerance * total and table.cumulative[pointer] >= u * (total + rest):
                return table.chosen[pointer], begin, total, rest
            fits &= fits - np.uint64(1)
        if must >= 0:
            place += popcount(listed)
    return (table.chosen[pointer] if found > 0 else -1), begin, total, 0.0


@inlined
def log_bounds(table: ParentSets, node: int, begin: int, total: float, rest: float) -> tuple[float, float]:
    """Bounds of the log of a sum of weights, from what `draw_set` returned; both -inf if no set fits."""
    if total == 0.0:
        return -np.inf, -np.inf
    low = table.weight[table.first[node]] - _LEVEL * begin + np.log(total)
    return low, low + rest / total


@hot
def bound_log_sum(table: ParentSets, node: int, avoid: Words, must: int, tolerance: float) -> tuple[float, float]:
    """Bounds of the log of the sum of the weights of the sets that fit; both -inf if none does.

    The walk along the list stops when what is left is at most ``tolerance`` of the sum.
    """
    _, begin, total, rest = draw_set(table, node, avoid, must, 0.0, tolerance)
    return log_bounds(table, node, begin, total, rest)


@hot
def log_sum_of_sets(table: ParentSets, node: int, avoid: Words, must: int) -> float:
    """Log of the sum of the weights of the sets that fit; -inf if none does."""
    return bound_log_sum(table, node, avoid, must, _ROUNDING)[0]
