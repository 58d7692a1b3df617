"""Which columns to group together, so that many sets of columns are counted in few passes.

The counts of a set follow from those of any block that contains it.  A block of nine ternary columns has at most 19 683
cells and serves all its 84 subsets of three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "cover", "members_of"]

_LACKING = 0.1  # smaller ones do as well (137 blocks for the triples of 40 ternary columns), 0.6 makes a fifth more

Block = tuple[int, list[int]]  # the columns as bits, and the sets that it serves


def cover(sets: Sequence[int], log_cells: Sequence[float], most_cells: float) -> list[Block]:
    """Blocks that contain the sets of columns, given as bits, each block with the sets it serves.

    A block has up to ``most_cells`` cells (``log_cells`` of each column, a missing cell being a value); a larger set is
    a block of its own.
    """
    ordered = sorted(sets, key=lambda columns: (-columns.bit_count(), columns))
    members = [members_of(columns) for columns in ordered]
    left = _Left(members, np.array(log_cells, dtype=np.float64))
    blocks: list[Block] = []
    while left.sets.size:
        block, served = left.take(members[left.sets[0]], math.log(most_cells) + 1e-9)
        blocks.append((sum(1 << j for j in block), sorted(ordered[k] for k in served)))
    return blocks


class _Left:
    """The sets that no block serves yet, and the columns of each, as pairs."""

    def __init__(self, members: Sequence[tuple[int, ...]], log_cells: NDArray[np.float64]) -> None:
        self.sets = np.arange(len(members))
        self._log_cells = log_cells
        self._sizes = np.array([len(one) for one in members], dtype=np.int64)
        self._set_of = np.repeat(self.sets, self._sizes)
        self._column_of = np.array([j for one in members for j in one], dtype=np.int64)

    def take(self, first: Sequence[int], limit: float) -> tuple[list[int], list[int]]:
        """Make a block of a set and of the columns that bring most others in, one by one; return what it serves."""
        inside = np.zeros(len(self._log_cells), dtype=np.bool_)
        inside[list(first)] = True
        absent = self._sizes - np.bincount(self._set_of[inside[self._column_of]], minlength=len(self._sizes))
        room = limit - self._log_cells[inside].sum()
        while True:
            # A set that lacks one column is worth 1, and each further column it lacks takes a share of that.
            worth = _LACKING ** (absent[self._set_of] - 1.0)
            gain = np.bincount(self._column_of, weights=worth, minlength=len(inside))
            gain[inside | (self._log_cells > room)] = 0.0
            best = int(np.argmax(gain / np.maximum(self._log_cells, 1e-3)))
            if not gain[best]:
                break
            inside[best] = True
            room -= self._log_cells[best]
            absent[self._set_of[self._column_of == best]] -= 1
        is_served = absent[self.sets] == 0
        served = self.sets[is_served].tolist()
        self.sets = self.sets[~is_served]
        kept = absent[self._set_of] > 0
        self._set_of, self._column_of = self._set_of[kept], self._column_of[kept]
        return np.flatnonzero(inside).tolist(), served


def members_of(columns: int) -> tuple[int, ...]:
    """The columns of a set given as bits, rising."""
    members = []
    while columns:
        low = columns & -columns
        members.append(low.bit_length() - 1)
        columns ^= low
    return tuple(members)
