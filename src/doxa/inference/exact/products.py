"""`MatrixProduct`: instructions that are worth a call of BLAS, which multiplies ten times faster than loops do.

An instruction is a matrix product where each of its axes is shared by two or three of its tables: *rows* by the target
and x, *columns* by the target and y, *inner* axes by x and y, *batch* axes by all.  Its tables are put in that order,
multiplied, and the product is put back into the order of the target's axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MatrixProduct", "as_matrix_product"]

_LEAST_WORK = 256
_LEAST_REUSE = 2

Numbers = NDArray[np.float64]
Loop = tuple[int, int, int, int]  # size, strides of target, x and y

_BATCH, _ROW, _COLUMN, _INNER = (True, True, True), (True, True, False), (True, False, True), (False, True, True)


class MatrixProduct(NamedTuple):
    """How the three tables of an instruction become matrices: shapes of their axes, and the order of these."""

    shapes: tuple[tuple[int, ...], ...]  # of target, x and y in memory
    orders: tuple[
        tuple[int, ...], ...
    ]  # of the axes: (batch, row, column), (batch, row, inner), (batch, inner, column)
    n_batch: int
    n_rows: int
    n_columns: int
    n_inner: int

    @property
    def n_extra(self) -> int:
        """Numbers in the copies that a call makes, at most."""
        return sum(math.prod(shape) for shape in self.shapes)

    def run(self, target: Numbers, x: Numbers, y: Numbers, scale: float, *, swap: bool) -> None:
        """Set ``target`` to the products of x, y and scale, by which y is multiplied if ``swap``; all are flat."""
        left, right = x.reshape(self.shapes[1]).transpose(self.orders[1]), y.reshape(self.shapes[2])
        right = right.transpose(self.orders[2])
        if swap:
            right = np.multiply(right, scale, order="C")
        else:
            left = np.multiply(left, scale, order="C")
        left = left.reshape(self.n_batch, self.n_rows, self.n_inner)
        right = right.reshape(self.n_batch, self.n_inner, self.n_columns)
        view = target.reshape(self.shapes[0]).transpose(self.orders[0])
        view[...] = np.matmul(left, right).reshape(view.shape)


def as_matrix_product(loops: Sequence[Loop]) -> MatrixProduct | None:
    """The matrix product that an instruction is, or nothing if it is none or not worth it; innermost loop first."""
    kinds = [(loop[1] > 0, loop[2] > 0, loop[3] > 0) for loop in loops]
    if _INNER not in kinds or not {_BATCH, _ROW, _COLUMN, _INNER}.issuperset(kinds):
        return None
    sizes = [math.prod([loop[0] for loop, kind in zip(loops, kinds, strict=True) if kind == one]) for one in _KINDS]
    n_batch, n_rows, n_columns, n_inner = sizes
    moved = n_batch * (n_rows * n_columns + n_rows * n_inner + n_inner * n_columns)
    if n_rows * n_columns * n_inner < _LEAST_WORK or n_batch * n_rows * n_columns * n_inner < _LEAST_REUSE * moved:
        return None
    shapes, orders = [], []
    for table, order in enumerate(((_BATCH, _ROW, _COLUMN), (_BATCH, _ROW, _INNER), (_BATCH, _INNER, _COLUMN))):
        own = [at for at in reversed(range(len(loops))) if kinds[at][table]]  # outermost first, as in memory
        shapes.append(tuple([loops[at][0] for at in own]))
        orders.append(tuple(sorted(range(len(own)), key=lambda k: order.index(kinds[own[k]]))))
    return MatrixProduct(tuple(shapes), tuple(orders), n_batch, n_rows, n_columns, n_inner)


_KINDS = (_BATCH, _ROW, _COLUMN, _INNER)
