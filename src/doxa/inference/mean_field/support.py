"""Where a product of blocks can stand among the zeros of a network.

A product q has a finite bound only if its support, a product of sets of states, holds no forbidden configuration.
Hard constraints between blocks often leave only small products, at worst single configurations (a = b leaves two of
the four): the bound is then the log of the largest such part of Z at most.  Coordinate ascent never leaves out a state
that is possible given the others' support, so a start with a possible product is all it needs.  Finding one is as hard
as finding a possible configuration at all; it is sought by propagation and backtracking.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.inference.mean_field.kernels import fill_slots, scratch
from doxa.inference.mean_field.layout import Layout
from doxa.inference.mean_field.support_kernels import FOUND, IMPOSSIBLE, Left, begin, cut_down, find, propagate

__all__ = ["Ground", "ImpossibleError", "SearchStoppedError", "survey"]

_Floats = NDArray[np.float64]
_DECISIONS = 100_000  # besides 20 for each block


class ImpossibleError(ArgumentError):
    """Every configuration has probability 0."""


class SearchStoppedError(ArgumentError):
    """No possible configuration was found in the decisions allowed."""


class Ground:
    """Zeros of the factors over a layout; made by `survey`.

    Attributes
    ----------
    possible : ndarray of bool, shape (n_q,)
        States of the blocks that no single factor rules out, nor several one after the other.
    has_zeros : ndarray of bool, shape (n_factors,)
    is_free : bool
        Whether every product of possible states is possible.
    """

    def __init__(self, layout: Layout, values: _Floats, base: NDArray[np.int64]) -> None:
        self.layout, self.values, self.base = layout, values, base
        zeros = np.isneginf(values)
        self.has_zeros = (
            np.array(
                [zeros[base[f] + layout.entries[a:b]].any() for f, (a, b) in enumerate(_pairs(layout.entry_start))],
                dtype=bool,
            )
            if zeros.any()
            else np.zeros(len(base), dtype=bool)
        )
        left = self._begin()
        self.possible = left.alive.astype(bool)
        coupled = np.diff(layout.factor_start) > 1
        self.is_free = not (self.has_zeros & coupled).any()

    def product(self, preference: _Floats) -> NDArray[np.bool_]:
        """A product of sets of states without a forbidden configuration, shape (n_q,).

        Parameters
        ----------
        preference : ndarray, shape (n_q,)
            Tables of the blocks, positive: states with more are kept rather.

        Raises
        ------
        SearchStoppedError, ImpossibleError
        """
        if self.is_free:
            return self.possible
        return self.around(self.configuration(preference), preference)

    def configuration(self, preference: _Floats) -> NDArray[np.int64]:
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

    def around(self, configuration: NDArray[np.int64], preference: _Floats) -> NDArray[np.bool_]:
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


def survey(layout: Layout, values: _Floats, base: NDArray[np.int64]) -> Ground:
    """Look at the zeros of factors with flat log ``values``, those of factor f beginning at ``base[f]``.

    Raises
    ------
    ImpossibleError
        If it is plain that no configuration is possible.
    """
    return Ground(layout, values, base)


def _pairs(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
