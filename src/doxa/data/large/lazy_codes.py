"""Codes of cells as expressions of Narwhals, so that an engine hands over small integers, not texts.

1 is a missing cell, states are from 2, and 0 is a value that was not there when the column was described.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import NUMBER
from doxa.data.large.engine import Coding

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["Values", "bin_expression", "code_expression", "values_of"]

_MOST_VALUES = 64  # each costs a comparison a cell; with more of them, rows are grouped by the cells as they are


Value = str | bool | int | float | None


class Values(NamedTuple):
    """The values that a column was described by, in the order of their codes; None is missing."""

    values: list[Value]
    is_float: bool

    def codes(self, coding: Coding) -> dict[Value, int]:
        """The code of each value, 1 for one that means missing; 0.0 and -0.0 are one, as where cells are compared."""
        pairs = zip(self.values, coding.codes.tolist(), strict=False)
        return {value: code + 2 for value, code in pairs if value is not None}


def values_of(series: nw.Series[Any]) -> Values | None:
    """The values of a described column; None if they are too many, or of types that are not written as literals.

    Texts, booleans, numbers of machine types, and categories are written so.
    """
    import narwhals.stable.v2 as nw

    kind = series.dtype
    is_named = isinstance(kind, nw.String | nw.Boolean | nw.Categorical | nw.Enum)
    is_number = kind.is_numeric() and not isinstance(kind, nw.Decimal | nw.Int128 | nw.UInt128)
    if not (is_named or is_number) or len(series) > _MOST_VALUES:
        return None
    absent = np.asarray(series.is_null().to_numpy(), dtype=np.bool_).tolist()
    pairs = zip(series.to_list(), absent, strict=True)
    values = [None if is_absent or value != value else value for value, is_absent in pairs]  # NaN differs from itself
    types = {type(value) for value in values if value is not None}
    return Values(values, kind.is_float()) if types <= {str} or types <= {bool} or types <= {int, float} else None


def code_expression(name: str, found: Values, coding: Coding) -> nw.Expr:
    """The code of a cell, from the values that the column was described by."""
    import narwhals.stable.v2 as nw

    code_of = found.codes(coding)
    cell = nw.col(name)
    absent = cell.is_null() | cell.is_nan() if found.is_float else cell.is_null()
    terms = [(cell == nw.lit(value)).cast(nw.Int16) * code for value, code in code_of.items()]
    code = _sum([nw.lit(0, dtype=nw.Int16), *terms])
    return nw.when(absent).then(nw.lit(1, dtype=nw.Int16)).otherwise(code).cast(nw.Int16)


def bin_expression(name: str, cuts: NDArray[np.float64], missing: Sequence[str]) -> nw.Expr:
    """The number of cuts that are not above a cell, -1 where it is missing."""
    import narwhals.stable.v2 as nw

    number = nw.col(name).cast(nw.Float64)
    present = ~(number.is_null() | number.is_nan())
    tokens = [float(text) for text in missing if re.fullmatch(NUMBER, text) is not None]
    if tokens:
        present = present & ~number.is_in(tokens)
    code = _sum([nw.lit(0, dtype=nw.Int64), *((number >= cut).cast(nw.Int64) for cut in cuts.tolist())])
    return nw.when(present).then(code).otherwise(nw.lit(-1, dtype=nw.Int64))


def _sum(terms: list[nw.Expr]) -> nw.Expr:
    """Add by pairs, for engines bound how deep an expression nests."""
    while len(terms) > 1:
        terms = [sum(terms[k + 1 : k + 2], terms[k]) for k in range(0, len(terms), 2)]
    return terms[0]
