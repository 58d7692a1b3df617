"""`scaled`: columns of numbers centred and divided by their standard deviations, however large or small they are.

Columns with a transform (`doxa.data.transforms`) are transformed first.  Copies of the past have the scale of the
present: a missing cell that is both has one value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.table import Table
from doxa.data.transforms import Transform

__all__ = ["Scaled", "scaled"]


class Scaled(NamedTuple):
    """Scaled numbers: ``values = (numbers - centre) / scale``, of transformed ones where there is a transform."""

    values: NDArray[np.float64]  # (n_columns, n_distinct); NaN where missing, and in columns of categories
    centre: NDArray[np.float64]  # (n_columns,): means of the observed numbers; NaN in columns of categories
    scale: NDArray[np.float64]  # (n_columns,): their standard deviations, with n - 1; 1 for a constant
    transforms: tuple[Transform | None, ...]  # of each column

    def restored(self, values: NDArray[np.float64], columns: NDArray[np.integer]) -> NDArray[np.float64]:
        """Scaled values of some columns, (..., n), in the columns' own units."""
        numbers = values * self.scale[columns] + self.centre[columns]
        for at, j in enumerate(columns.tolist()):
            own = self.transforms[j]
            if own is not None:
                numbers[..., at] = own.inverse(numbers[..., at])
        return np.asarray(numbers)


def scaled(table: Table, like: Scaled | None = None) -> Scaled:
    """Scale the columns of numbers of a table by their observed cells, or as those of another; a constant becomes 0.

    Numbers are divided by a power of 2 first, and their first is taken away, so that neither squares of 1e300 nor the
    last digits of 1e9 + 1e-6 are lost.

    Examples
    --------
    >>> table = Table.from_codes(["x"], [()], [[0], [0], [0]], numbers=[[1.0], [2.0], [3.0]])
    >>> [part.ravel().tolist() for part in scaled(table)[:3]]
    [[-1.0, 0.0, 1.0], [2.0], [1.0]]
    """
    n = table.n_columns
    if like is not None:
        assert table.numbers is not None  # for there are numbers in the other
        numbers = _transformed(table.numbers, like.transforms)
        return like._replace(values=np.ascontiguousarray(((numbers - like.centre) / like.scale).T))
    transforms = tuple(table.transforms.get(name) for name in table.names)
    values, centre, scale = np.full((n, table.n_distinct), np.nan), np.full(n, np.nan), np.full(n, np.nan)
    for j in np.flatnonzero(table.is_number).tolist():
        assert table.numbers is not None  # for there are columns of numbers
        column = _transformed(table.numbers[:, j : j + 1], transforms[j : j + 1])[:, 0]
        if j >= table.n_present:
            own = j % table.n_present
            values[j], centre[j], scale[j] = (column - centre[own]) / scale[own], centre[own], scale[own]
            continue
        seen = ~np.isnan(column)
        times = table.counts[seen].astype(np.float64)
        if not seen.any():
            centre[j], scale[j] = 0.0, 1.0
            continue
        power = int(np.frexp(np.abs(column[seen]).max())[1])
        small = np.ldexp(column, -power)  # exact
        first = float(small[seen][0])
        shifted = small - first
        mean = float((times * shifted[seen]).sum()) / float(times.sum())
        around = shifted - mean
        around -= float((times * around[seen]).sum()) / float(times.sum())  # what rounding left
        spread = float(np.sqrt((times * around[seen] ** 2).sum() / max(1.0, float(times.sum()) - 1.0)))
        constant = spread == 0.0
        values[j] = np.where(seen, 0.0, np.nan) if constant else around / spread
        centre[j], scale[j] = np.ldexp(first + mean, power), 1.0 if constant else np.ldexp(spread, power)
    return Scaled(values, centre, scale, transforms)


def _transformed(numbers: NDArray[np.float64], transforms: tuple[Transform | None, ...]) -> NDArray[np.float64]:
    """Columns of numbers, those with a transform transformed."""
    if not any(transforms):
        return numbers
    columns = [
        column if own is None else own.forward(column) for column, own in zip(numbers.T, transforms, strict=True)
    ]
    return np.column_stack(columns)
