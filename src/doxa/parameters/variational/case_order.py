"""The order in which a single pass takes the cases of a table, which collapsed rows do not have.

Each case of a pass meets what the cases before it left, so the order matters, and equal cases in a row are the worst of
all orders (`doxa.parameters.variational.sequential`).  A table that was read row by row has an order; one that was
counted, or made from counts, has none that means anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError

if TYPE_CHECKING:
    from doxa.data import Table

__all__ = ["ORDERS", "CaseOrder", "Order", "check_order", "order_cases"]

Order: TypeAlias = Literal["auto", "table", "random"]
ORDERS: tuple[Order, ...] = ("auto", "table", "random")


class CaseOrder(NamedTuple):
    """The cases of a table, one after another."""

    rows: NDArray[np.intp]  # (n_rows,), the distinct row of each case
    drawn: bool  # whether chance chose the order


def order_cases(table: Table, order: Order, rng: np.random.Generator) -> CaseOrder:
    """Put the cases of a table in an order.

    Parameters
    ----------
    table : Table
    order : {"auto", "table", "random"}
        As they stand in the table's source, or in an order that is drawn.  ``"auto"`` is the first, unless the source's
        order is not known, or equal rows stand together, as in a table made from counts: then the second.
    rng : numpy.random.Generator
        Advanced only if an order is drawn.

    Raises
    ------
    ArgumentError
        If ``order`` is none of these.
    TableError
        If ``order="table"`` and the table does not know it.

    Examples
    --------
    >>> from doxa.data import Table
    >>> rows = Table.from_codes(["a"], [["0", "1"]], [[0], [1], [0]])
    >>> order_cases(rows, "auto", np.random.default_rng(1))
    CaseOrder(rows=array([0, 1, 0]), drawn=False)
    >>> counted = Table.from_codes(["a"], [["0", "1"]], [[0], [1]], [3, 2])
    >>> order_cases(counted, "auto", np.random.default_rng(1))
    CaseOrder(rows=array([1, 0, 0, 0, 1]), drawn=True)
    """
    check_order(order)
    if order == "table" or (order == "auto" and table.has_row_order and not _in_blocks(table)):
        return CaseOrder(table.row_index.astype(np.intp), drawn=False)
    blocks = np.repeat(np.arange(table.n_distinct), table.counts)
    return CaseOrder(rng.permutation(blocks), drawn=True)


def check_order(order: str) -> None:
    """Raise ArgumentError unless there is an order of this name."""
    if order not in ORDERS:
        raise ArgumentError(f"order is {order!r}; it must be one of {', '.join(map(repr, ORDERS))}")


def _in_blocks(table: Table) -> bool:
    """Whether all equal rows stand together, and some are equal; a single distinct row has but one order."""
    changes = np.count_nonzero(np.diff(table.row_index))
    return table.n_rows > table.n_distinct > 1 and changes == table.n_distinct - 1
