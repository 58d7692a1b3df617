"""Where a product of blocks can stand among the zeros of a network.

A product q has a finite bound only if its support, a product of sets of states, holds no forbidden configuration.
Hard constraints between blocks often leave only small products, at worst single configurations (a = b leaves two of
the four): the bound is then the log of the largest such part of Z at most.  Coordinate ascent never leaves out a state
that is possible given the others' support, so a start with a possible product is all it needs.  Finding one is as hard
as finding a possible configuration at all; it is sought by propagation and backtracking.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError
from doxa.inference.mean_field.layout import Layout, fill_slots, next_entry, scratch

__all__ = ["ImpossibleError", "SearchStoppedError"]

IMPOSSIBLE, FOUND, STOPPED = 0, 1, -1

_Positions = NDArray[np.int64]


class Left(NamedTuple):
    """States that are left, and work space."""

    alive: NDArray[np.uint8]  # (n_q,) of the blocks' joint states
    slot_count: _Positions  # living states of the block, by state of the slot
    block_left: _Positions  # (n_blocks,) living states
    block_of: _Positions  # (n_q,)
    slot_block: _Positions  # (n_slots,)
    has_zeros: NDArray[np.uint8]  # (n_factors,)
    trail: _Positions  # (n_q,) states struck out, in order
    n_trail: _Positions  # (1,)
    queue: _Positions  # (n_factors,) a ring
    queue_ends: _Positions  # (2,) where it begins, and how many wait
    queued: NDArray[np.uint8]  # (n_factors,)
    supported: NDArray[np.uint8]  # states of all slots
    at: _Positions  # (most slots of a factor + 1,)


def begin(layout: Layout, has_zeros: NDArray[np.bool_]) -> Left:
    """All states left; every factor with zeros waits to be looked at."""
    n_factors = len(has_zeros)
    block_size, slots = np.diff(layout.block_start), np.diff(layout.touching)
    slot_block = np.repeat(np.arange(layout.n_blocks), slots)
    count = np.zeros(layout.slot_start[-1], dtype=np.int64)
    for slot, block in enumerate(slot_block):
        first = layout.map_start[slot]
        mapped = layout.maps[first : first + block_size[block]]
        np.add.at(count, layout.slot_start[slot] + mapped, 1)
    waiting = np.flatnonzero(has_zeros)
    queue = np.zeros(n_factors + 1, dtype=np.int64)
    queue[: len(waiting)] = waiting
    return Left(
        alive=np.ones(layout.n_q, dtype=np.uint8),
        slot_count=count,
        block_left=block_size.copy(),
        block_of=np.repeat(np.arange(layout.n_blocks), block_size),
        slot_block=slot_block,
        has_zeros=has_zeros.astype(np.uint8),
        trail=np.zeros(layout.n_q, dtype=np.int64),
        n_trail=np.zeros(1, dtype=np.int64),
        queue=queue,
        queue_ends=np.array([0, len(waiting)]),
        queued=has_zeros.astype(np.uint8),
        supported=np.zeros(layout.slot_start[-1], dtype=np.uint8),
        at=np.zeros(int(np.diff(layout.factor_start).max(initial=0)) + 1, dtype=np.int64),
    )


@hot
def _strike(layout: Layout, left: Left, position: int) -> None:
    """Take a state of a block away."""
    block = left.block_of[position]
    left.alive[position] = 0
    left.block_left[block] -= 1
    left.trail[left.n_trail[0]] = position
    left.n_trail[0] += 1
    state = position - layout.block_start[block]
    for slot in range(layout.touching[block], layout.touching[block + 1]):
        left.slot_count[layout.slot_start[slot] + layout.maps[layout.map_start[slot] + state]] -= 1
        factor = layout.slot_factor[slot]
        if left.has_zeros[factor] and not left.queued[factor]:
            left.queued[factor] = 1
            left.queue[(left.queue_ends[0] + left.queue_ends[1]) % left.queue.size] = factor
            left.queue_ends[1] += 1


@hot
def _restore(layout: Layout, left: Left, mark: int) -> None:
    """Give back what was struck out since the trail was ``mark`` long."""
    while left.n_trail[0] > mark:
        left.n_trail[0] -= 1
        position = left.trail[left.n_trail[0]]
        block = left.block_of[position]
        left.alive[position] = 1
        left.block_left[block] += 1
        state = position - layout.block_start[block]
        for slot in range(layout.touching[block], layout.touching[block + 1]):
            left.slot_count[layout.slot_start[slot] + layout.maps[layout.map_start[slot] + state]] += 1


@inlined
def _is_alive(layout: Layout, left: Left, first: int, k: int) -> bool:
    for i in range(k):
        if left.slot_count[layout.slot_start[layout.factor_slots[first + i]] + left.at[i]] == 0:
            return False
    return True


@hot
def _strike_slot(layout: Layout, left: Left, slot: int, a: int) -> None:
    """Take away all states of a block that agree with a state of its slot."""
    block = left.slot_block[slot]
    start = layout.block_start[block]
    for s in range(layout.block_start[block + 1] - start):
        if left.alive[start + s] and layout.maps[layout.map_start[slot] + s] == a:
            _strike(layout, left, start + s)


@hot
def propagate(layout: Layout, values: Floats, base: Ints, left: Left) -> bool:
    """Strike out states without support until nothing changes; False where a block has none left."""
    while left.queue_ends[1] > 0:
        factor = left.queue[left.queue_ends[0]]
        left.queue_ends[0] = (left.queue_ends[0] + 1) % left.queue.size
        left.queue_ends[1] -= 1
        left.queued[factor] = 0
        first = layout.factor_start[factor]
        k = layout.factor_start[factor + 1] - first
        for i in range(k):
            slot = layout.factor_slots[first + i]
            left.at[i] = 0
            for a in range(layout.slot_start[slot], layout.slot_start[slot + 1]):
                left.supported[a] = 0
        entry, is_possible, more = layout.entry_start[factor], False, True
        while more:
            if values[base[factor] + layout.entries[entry]] > -np.inf and _is_alive(layout, left, first, k):
                is_possible = True
                for i in range(k):
                    left.supported[layout.slot_start[layout.factor_slots[first + i]] + left.at[i]] = 1
            entry += 1
            more = next_entry(layout, first, k, left.at) >= 0
        if not is_possible:
            _forget(left)
            return False
        for i in range(k):
            slot = layout.factor_slots[first + i]
            start = layout.slot_start[slot]
            for a in range(layout.slot_start[slot + 1] - start):
                if left.slot_count[start + a] > 0 and not left.supported[start + a]:
                    _strike_slot(layout, left, slot, a)
    return True


@inlined
def _forget(left: Left) -> None:
    """Empty the queue."""
    while left.queue_ends[1] > 0:
        left.queued[left.queue[left.queue_ends[0]]] = 0
        left.queue_ends[0] = (left.queue_ends[0] + 1) % left.queue.size
        left.queue_ends[1] -= 1


@inlined
def _fewest(left: Left) -> int:
    """The block with the fewest states above one; -1 where all have one."""
    best, fewest = -1, 0
    for block in range(left.block_left.size):
        n = left.block_left[block]
        if n > 1 and (best < 0 or n < fewest):
            best, fewest = block, n
    return best


@hot
def find(
    layout: Layout, values: Floats, base: Ints, left: Left, preference: Floats, stack: Ints, marks: Ints, limit: int
) -> int:
    """Decide block after block, with propagation and back again, until one configuration is left.

    ``preference`` (n_q,) says which state of a block is tried first, the largest; ``limit`` is the most decisions.
    """
    depth, decisions = 0, 0
    if not propagate(layout, values, base, left):
        return IMPOSSIBLE
    while True:
        block = _fewest(left)
        if block < 0:
            return FOUND
        if decisions == limit:
            return STOPPED
        decisions += 1
        start, end = layout.block_start[block], layout.block_start[block + 1]
        tried = -1
        for position in range(start, end):
            if left.alive[position] and (tried < 0 or preference[position] > preference[tried]):
                tried = position
        stack[depth], marks[depth] = tried, left.n_trail[0]
        depth += 1
        for position in range(start, end):
            if left.alive[position] and position != tried:
                _strike(layout, left, position)
        while not propagate(layout, values, base, left):
            if depth == 0:
                return IMPOSSIBLE
            depth -= 1
            _restore(layout, left, marks[depth])
            _strike(layout, left, stack[depth])


@hot
def cut_down(layout: Layout, values: Floats, base: Ints, left: Left, kept: Ints, slot_q: Floats) -> None:
    """Strike out states until no factor is 0 anywhere in the product of those left.

    The configuration ``kept`` (state by slot) stays; of the other coordinates of a forbidden entry the one of smallest
    probability goes.
    """
    for factor in range(layout.factor_start.size - 1):
        first = layout.factor_start[factor]
        k = layout.factor_start[factor + 1] - first
        if not left.has_zeros[factor]:
            continue
        for i in range(k):
            left.at[i] = 0
        entry, more = layout.entry_start[factor], True
        while more:
            if values[base[factor] + layout.entries[entry]] == -np.inf and _is_alive(layout, left, first, k):
                least = -1
                for i in range(k):
                    slot = layout.factor_slots[first + i]
                    if left.at[i] == kept[slot]:
                        continue
                    mass = slot_q[layout.slot_start[slot] + left.at[i]]
                    other = layout.factor_slots[first + max(least, 0)]
                    if least < 0 or mass < slot_q[layout.slot_start[other] + left.at[max(least, 0)]]:
                        least = i
                _strike_slot(layout, left, layout.factor_slots[first + least], left.at[least])
            entry += 1
            more = next_entry(layout, first, k, left.at) >= 0


_DECISIONS = 100_000  # besides 20 for each block


class ImpossibleError(ArgumentError):
    """Every configuration has probability 0."""


class SearchStoppedError(ArgumentError):
    """No possible configuration was found in the decisions allowed."""


class Ground:
    """Zeros of the factors over a layout."""

    def __init__(self, layout: Layout, values: Floats, base: NDArray[np.int64]) -> None:
        self.layout, self.values, self.base = layout, values, base
        zeros = np.isneginf(values)
        self.has_zeros = np.zeros(len(base), dtype=bool)
        if zeros.any():
            for f, (start, end) in enumerate(pairwise(layout.entry_start.tolist())):
                self.has_zeros[f] = zeros[base[f] + layout.entries[start:end]].any()
        left = self._begin()
        self.possible = left.alive.astype(bool)  # (n_q,): not ruled out by a factor, nor by one after another
        coupled = np.diff(layout.factor_start) > 1
        # whether every product of possible states is possible
        self.is_free = not (self.has_zeros & coupled).any()

    def product(self, preference: Floats) -> NDArray[np.bool_]:
        """A product of sets of states, (n_q,), without a forbidden configuration; of larger ``preference`` rather."""
        if self.is_free:
            return self.possible
        return self.around(self.configuration(preference), preference)

    def configuration(self, preference: Floats) -> NDArray[np.int64]:
        """A possible configuration, state by block, by search."""
        left, n = self._begin(), self.layout.n_blocks
        stack, marks = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        limit = _DECISIONS + 20 * n
        status = find(self.layout, self.values, self.base, left, preference, stack, marks, limit)
        if status == IMPOSSIBLE:
            raise ImpossibleError("factors give every configuration the probability 0; there is nothing to approximate")
        if status != FOUND:
            raise SearchStoppedError(
                f"factors forbid so much that no possible configuration was found in {limit} decisions; "
                f"give one as start, or put variables that constrain each other in one block"
            )
        return np.flatnonzero(left.alive) - self.layout.block_start[:-1]

    def around(self, configuration: NDArray[np.int64], preference: Floats) -> NDArray[np.bool_]:
        """A product of sets that holds a configuration, a possible one, given as state by block."""
        layout, left = self.layout, self._begin()
        work = scratch(layout)
        fill_slots(layout, preference * left.alive, work)
        first = layout.map_start + np.repeat(configuration, np.diff(layout.touching))
        cut_down(layout, self.values, self.base, left, layout.maps[first], work.slot_q)
        return left.alive.astype(bool)

    def _begin(self) -> Left:
        left = begin(self.layout, self.has_zeros)
        if not propagate(self.layout, self.values, self.base, left):
            raise ImpossibleError("factors give every configuration the probability 0; there is nothing to approximate")
        return left
