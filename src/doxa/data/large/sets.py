"""The counts of a set of columns: which combinations of states occur, and how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.data.collapse import group_rows
from doxa.errors import ArgumentError

__all__ = ["SetCounts", "count_subset"]

_DENSE = 2**20  # cells of a table that is filled rather than sorted


@dataclass(frozen=True, eq=False)
class SetCounts:
    """Counts of the cells of a set of columns that occur.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns, rising.
    n_states : ndarray of int64, shape (n_members,)
        Number of states of each.
    codes : ndarray of int16, shape (n_cells, n_members)
        The cells that occur, rising; -1 is missing.
    counts : ndarray of int64, shape (n_cells,)
        How many rows each has, at least one.
    """

    columns: tuple[int, ...]
    n_states: NDArray[np.int64]
    codes: NDArray[np.int16]
    counts: NDArray[np.int64]

    @property
    def n_possible(self) -> int:
        """Number of cells that are possible: the product of the numbers of states, of any size."""
        product = 1
        for number in self.n_states.tolist():
            product *= number
        return product

    @property
    def index(self) -> NDArray[np.int64]:
        """The number of each cell in mixed radix, the last column fastest; rising.

        Raises
        ------
        ArgumentError
            If cells are missing, or the numbers are beyond 64 bits.
        """
        if (self.codes < 0).any():
            raise ArgumentError(f"columns {list(self.columns)} have missing cells; only complete columns have an index")
        if self.n_possible > 2**62:
            raise ArgumentError(f"columns {list(self.columns)} have {self.n_possible} cells, too many to number")
        index = np.zeros(self.counts.size, dtype=np.int64)
        for j, radix in enumerate(self.n_states.tolist()):
            index = index * radix + self.codes[:, j]
        return index

    def without(self, column: int) -> SetCounts:
        """The counts of the set without one of its columns, a family's parents for example.

        Examples
        --------
        >>> codes = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int16)
        >>> SetCounts((3, 5), np.array([2, 2]), codes, np.array([4, 1, 7])).without(5).counts.tolist()
        [5, 7]
        """
        if column not in self.columns:
            raise ArgumentError(f"column is {column}, which is none of the set's columns {list(self.columns)}")
        kept = [at for at, j in enumerate(self.columns) if j != column]
        return count_subset(self.codes, self.counts, kept, tuple(self.columns[at] for at in kept), self.n_states[kept])


def count_subset(
    codes: NDArray[np.int16],
    counts: NDArray[np.int64],
    positions: list[int],
    columns: tuple[int, ...],
    n_states: NDArray[np.int64],
) -> SetCounts:
    """Counts of some columns of a counted block: those at ``positions`` of ``codes``."""
    radices = (n_states + 1).tolist()
    n_cells = 1
    for radix in radices:
        n_cells *= radix
    if n_cells > _DENSE:
        return _by_sorting(codes[:, positions], counts, columns, n_states)
    keys = np.zeros(counts.size, dtype=np.int64)
    for at, radix in zip(positions, radices, strict=True):
        keys = keys * radix + (codes[:, at] + 1)
    # Sums in floats are exact: they are whole and below 2^53.
    dense = np.bincount(keys, weights=counts, minlength=n_cells)
    found = np.flatnonzero(dense)
    cells = np.empty((found.size, len(radices)), dtype=np.int16)
    rest = found
    for at in range(len(radices) - 1, -1, -1):
        rest, cells[:, at] = rest // radices[at], rest % radices[at] - 1
    return SetCounts(columns, n_states, cells, dense[found].astype(np.int64))


def _by_sorting(
    codes: NDArray[np.int16], counts: NDArray[np.int64], columns: tuple[int, ...], n_states: NDArray[np.int64]
) -> SetCounts:
    order = np.lexsort(codes.T[::-1])
    ordered = [np.ascontiguousarray(column) for column in codes[order].T]
    first, group = group_rows(ordered, counts.size)
    total = np.bincount(group, weights=counts[order], minlength=first.size).astype(np.int64)
    return SetCounts(columns, n_states, codes[order[first]], total)
