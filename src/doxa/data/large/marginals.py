"""Counts of many sets of columns from those of one block that contains them.

A table of 11 ternary columns has 177 147 cells, and 165 subsets of three.  Summed over one column at a time, each sum
shared by all the subsets that lack the column, these cost some twelve times what it costs to go over the table once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.data.large.blocks import members_of
from doxa.data.large.engine import Cells, Groups
from doxa.data.large.sets import SetCounts, count_subset

__all__ = ["Marginals"]

_DENSE = 2**22  # cells of a table that groups are put into, and no more than
_SPARSE = 16  # cells for each group
_KEPT = 2**20  # cells of a sum that is held for others to start from


class Marginals:
    """Counts of the subsets of a block.

    Parameters
    ----------
    found : Groups or Cells
        Of the block.
    members : sequence of int
        The columns of the block, rising.
    n_states : ndarray of int64, shape (n_columns of the table,)
        Number of states of every column.

    Examples
    --------
    >>> groups = Groups(np.array([[0, 1], [1, 0], [1, 1]], dtype=np.int16), np.array([4, 1, 7]), None)
    >>> one = Marginals(groups, [2, 5], np.full(6, 2)).of(0b000100)
    >>> one.columns, one.codes.tolist(), one.counts.tolist()
    ((2,), [[0], [1]], [4, 8])
    """

    def __init__(self, found: Groups | Cells, members: Sequence[int], n_states: NDArray[np.int64]) -> None:
        self._members, self._n_states, self._groups = tuple(members), n_states, found
        cells = found if isinstance(found, Cells) else _cells_of(found, n_states[list(members)])
        self._cells = cells
        if cells is not None:
            whole = sum(1 << j for j in members)
            self._has_missing = dict(zip(members, cells.has_missing.tolist(), strict=True))
            self._tables = {whole: cells.table.reshape(cells.radices)}

    def of(self, columns: int) -> SetCounts:
        """The counts of a subset, given as bits."""
        members = members_of(columns)
        n_states = self._n_states[list(members)]
        if self._cells is None:
            assert isinstance(self._groups, Groups)
            positions = [self._members.index(j) for j in members]
            return count_subset(self._groups.codes, self._groups.counts, positions, members, n_states)
        table = np.atleast_1d(self._table(columns))  # of no columns, a number
        found = np.nonzero(table)
        codes = np.empty((found[0].size, len(members)), dtype=np.int16)
        for at, j in enumerate(members):
            codes[:, at] = found[at] - self._has_missing[j]
        return SetCounts(members, n_states, codes, table[found])

    def _table(self, columns: int) -> NDArray[np.int64]:
        """Sum over the other columns, the first of them first: over slow axes, while the table is large."""
        if columns in self._tables:
            return self._tables[columns]
        last = next(j for j in reversed(self._members) if not columns >> j & 1)
        larger = columns | 1 << last
        table: NDArray[np.int64] = self._table(larger).sum(axis=members_of(larger).index(last))
        if table.size <= _KEPT:
            self._tables[columns] = table
        return table


def _cells_of(groups: Groups, n_states: NDArray[np.int64]) -> Cells | None:
    """Groups as a table of all possible cells; None where that would be mostly zeros."""
    has_missing: NDArray[np.bool_] = np.any(groups.codes < 0, axis=0)
    radices = n_states + has_missing
    n_cells = math.prod(radices.tolist())
    if n_cells > min(_DENSE, _SPARSE * groups.counts.size):
        return None
    keys = np.zeros(groups.counts.size, dtype=np.int64)
    for codes, radix, first in zip(groups.codes.T, radices.tolist(), has_missing.tolist(), strict=True):
        keys = keys * radix + codes + first
    table = np.zeros(n_cells, dtype=np.int64)
    np.add.at(table, keys, groups.counts)  # a group may be there more than once: cells of one code, or of parts
    return Cells(table, radices, has_missing)
