"""From the distinct values of columns to their states, by the rules of `doxa.data.coding`.

Those rules want rows.  They are given specimens: one row for each value of each column, in which the other columns
are missing; and in place of a column to be cut, a few numbers that have its quantiles.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import Column, code_table
from doxa.data.large.engine import Coding, Seen

__all__ = ["find_codings"]


def find_codings(seen: Sequence[Seen], bins: int | Mapping[str, int] | None) -> list[Coding]:
    """States of every column and the codes of its values, or a `TableError` that names what is no category."""
    specimens = [
        _Specimens(one, bins if bins is None or isinstance(bins, int) else bins.get(one.column.name)) for one in seen
    ]
    ends = np.cumsum([one.size for one in specimens])
    rows = [slice(int(end) - one.size, int(end)) for end, one in zip(ends, specimens, strict=True)]
    table = code_table([one.column(int(ends[-1]), part) for one, part in zip(specimens, rows, strict=True)], bins)
    codes = table.codes[table.row_index]
    return [
        Coding(states, codes[part, j], one.cuts)
        for j, (one, states, part) in enumerate(zip(specimens, table.states, rows, strict=True))
    ]


class _Specimens:
    """The rows that stand for one column."""

    def __init__(self, seen: Seen, n_bins: int | None) -> None:
        self._seen, self._n_bins = seen, n_bins if seen.ranked is not None else None
        n_values = 0 if seen.column.labels is None else seen.column.codes().size
        self.size = max(n_values, 1, 0 if self._n_bins is None else 4 * self._n_bins + 1)
        self.cuts: NDArray[np.float64] | None = None

    def column(self, n_rows: int, part: slice) -> Column:
        """The column as `code_table` takes it; all rows but those of ``part`` are missing."""

        def codes() -> NDArray[np.integer[Any]]:
            return _placed(self._seen.column.codes().astype(np.int64), n_rows, part, -1)

        def numbers() -> NDArray[np.float64]:
            return _placed(self._with_quantiles(), n_rows, part, np.nan)

        return dataclasses.replace(self._seen.column, codes=codes, numbers=numbers)

    def _with_quantiles(self) -> NDArray[np.float64]:
        """A few numbers with the least, the largest and the quantiles of the column.

        The quantile k / n of them, the (4 n k / n)-th or by rounding the next one, is that of the column.
        """
        n, last = self._n_bins, self._seen.n_present - 1
        assert n is not None
        assert self._seen.ranked is not None
        ranks = [0, *(math.ceil(last * quantile) for quantile in np.arange(1, n) / n), last]
        found = self._seen.ranked(ranks)
        between = found[1:-1]
        self.cuts = np.unique(between[between > found[0]])
        return np.repeat(found, 4)[2:-1]


def _placed(values: NDArray[Any], n_rows: int, part: slice, absent: Any) -> NDArray[Any]:
    rows = np.full(n_rows, absent, dtype=values.dtype)
    rows[part.start : part.start + values.size] = values
    return rows
