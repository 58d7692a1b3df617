"""Counting by whatever engine is behind a lazy frame: Polars, Dask, PySpark, Ibis, through Narwhals.

Rows are grouped there by their cells as they are; the groups come back as an eager frame, whose columns become codes
by the rules of `doxa.data.frames`, so that a lazy frame gives the states that the collected one gives.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import NUMBER, Column
from doxa.data.frames import series_column
from doxa.data.large.blocks import cover, members_of
from doxa.data.large.engine import MANY_VALUES, Coding, Groups, Seen, rank
from doxa.data.large.errors import changed, failures
from doxa.data.options import LEAVE_OUT
from doxa.errors import TableError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["LazyEngine"]

_MOST_NUMBERS = 2**24  # distinct numbers of a column to be cut, which come here with their counts
_CELLS_AT_A_TIME = 2**18  # of a block that is grouped for the values of its columns
_GUESSED_FROM = 2**14  # rows
_FIRST_ROWS, _NEARLY_ALL = 2**20, 0.9  # looked at to tell whether rows repeat
_COUNT = "doxa n"


class LazyEngine:
    """A lazy frame of Narwhals; see `doxa.data.large.engine`."""

    has_order = False
    cells_a_block, cells_a_pass = 2**15, 2**20

    def __init__(self, frame: nw.LazyFrame[Any], label: str, names: Sequence[str], missing: Sequence[str]) -> None:
        self.label, self.names = label, tuple(names)
        self.n_rows = -1
        self._frame, self._missing = frame, missing
        self._count = _COUNT
        while self._count in self.names:
            self._count += "_"
        self._codings: list[Coding] = []

    def describe(self) -> list[Seen]:
        """Count the rows; then fetch the values of every column with their counts, of many columns in one pass.

        How many columns go together is guessed from the first rows.  Distinct values are not asked for: Polars reads
        whole columns into memory for that, 1.9 GB of twelve short texts in 10 million rows, where groups take 0.1 GB.
        """
        import narwhals.stable.v2 as nw

        self.n_rows = int(self._collect(self._frame.select(nw.len()), "its rows were counted").row(0)[0])
        if not self.n_rows:
            return [Seen(Column(name, "text", 0, [], lambda: np.empty(0, dtype=np.int64)), 0) for name in self.names]
        unique = [nw.col(name).n_unique().alias(f"u{j}") for j, name in enumerate(self.names)]
        row = self._collect(self._frame.head(_GUESSED_FROM).select(*unique), "its first rows were read").row(0)
        few = [j for j, number in enumerate(row) if number <= MANY_VALUES]
        seen: dict[int, Seen] = {}
        for block, _ in cover([1 << j for j in few], [math.log(number + 1) for number in row], _CELLS_AT_A_TIME):
            seen.update(self._describe_few(members_of(block), 4 * _CELLS_AT_A_TIME))
        for j in range(len(self.names)):
            if j not in seen:
                seen.update(self._describe_few((j,), MANY_VALUES) or {j: self._describe_many(j)})
        return [seen[j] for j in range(len(self.names))]

    def _describe_few(self, members: Sequence[int], most: int) -> dict[int, Seen]:
        """Describe some columns by their groups; nothing if there are more than ``most`` of these."""
        import narwhals.stable.v2 as nw

        grouped = self._grouped([nw.col(self.names[j]) for j in members]).head(most + 1)
        frame = self._collect(grouped, "its values were counted")
        return {} if len(frame) > most else {j: self._seen(frame, j) for j in members}

    def _describe_many(self, j: int) -> Seen:
        """Describe a column with more values than a category has: fetch them if they are numbers that could be cut."""
        import narwhals.stable.v2 as nw

        name = self.names[j]
        counted = self._grouped([nw.col(name)]).select(nw.len())
        n_values = int(self._collect(counted, f"column {name!r} was described").row(0)[0])
        if not self._frame.collect_schema()[name].is_numeric():
            return Seen(Column(name, "text", n_values, None, lambda: np.empty(0, dtype=np.int64)), self.n_rows)
        if n_values > _MOST_NUMBERS:
            raise TableError(
                f"column {name!r} has {n_values} distinct numbers, more than the {_MOST_NUMBERS} that can be cut into "
                f"bins here; round them in the lazy frame, or {LEAVE_OUT}"
            )
        return self._seen(self._collect(self._grouped([nw.col(name)]), f"column {name!r} was described"), j)

    def _seen(self, frame: nw.DataFrame[Any], j: int) -> Seen:
        """Describe a column by the groups of a block that contains it."""
        counts = self._counts(frame)
        column = series_column(frame[self.names[j]], self.names[j], self._missing)
        numbers = None if column.numbers is None else column.numbers()
        if numbers is None:
            present = column.codes() >= 0
            return Seen(column, int(counts[present].sum()), counts)
        present = ~np.isnan(numbers)
        return Seen(column, int(counts[present].sum()), None, partial(rank, numbers[present], counts[present]))

    def set_codings(self, codings: Sequence[Coding]) -> None:
        """Keep how cells become codes."""
        self._codings = list(codings)

    def group(self, blocks: Sequence[tuple[int, ...]], most: int) -> list[Groups | None]:
        """Group the rows by each block of columns, a pass each."""
        return [self._group(block, most) for block in blocks]

    def count_blocks(self, blocks: Sequence[tuple[int, ...]], most: int) -> list[Groups | None]:
        """As `group`."""
        return self.group(blocks, most)

    def is_spread(self, most: int) -> bool:
        """Whether nearly all of the first rows are distinct, and as many of all rows would be too many."""
        if self.n_rows * _NEARLY_ALL <= 2 * most:
            return False
        n_first = min(most, _FIRST_ROWS)
        cells = [self._cell(j) for j in range(len(self.names))]
        found = self._collect(self._grouped(cells, n_first), "its distinct rows were estimated")
        return len(found) >= _NEARLY_ALL * n_first

    def _group(self, block: tuple[int, ...], most: int) -> Groups | None:
        grouped = self._grouped([self._cell(j) for j in block])
        frame = self._collect(grouped.head(most + 1), "its rows were grouped")
        if len(frame) > most:
            return None
        counts = self._counts(frame)
        codes = np.empty((counts.size, len(block)), dtype=np.int16)
        for at, j in enumerate(block):
            codes[:, at] = self._codes(frame[self.names[j]], j)
        return Groups(codes, counts, None)

    def _cell(self, j: int) -> nw.Expr:
        """What rows are grouped by: the cell, or its bin."""
        import narwhals.stable.v2 as nw

        cuts, cell = self._codings[j].cuts, nw.col(self.names[j])
        if cuts is None:
            return cell
        number = cell.cast(nw.Float64)
        present = ~(number.is_null() | number.is_nan())
        tokens = [float(text) for text in self._missing if _is_number(text)]
        if tokens:
            present = present & ~number.is_in(tokens)
        terms = [nw.lit(0, dtype=nw.Int64), *((number >= cut).cast(nw.Int64) for cut in cuts.tolist())]
        while len(terms) > 1:  # by pairs, for engines bound how deep an expression nests
            terms = [sum(terms[k + 1 : k + 2], terms[k]) for k in range(0, len(terms), 2)]
        (code,) = terms
        return nw.when(present).then(code).otherwise(nw.lit(-1, dtype=nw.Int64)).alias(self.names[j])

    def _codes(self, series: nw.Series[Any], j: int) -> NDArray[np.int16]:
        coding, name = self._codings[j], self.names[j]
        if coding.cuts is not None:
            return np.asarray(series.to_numpy()).astype(np.int16)
        column = series_column(series, name, self._missing)
        place = {state: code for code, state in enumerate(coding.states)}
        new = [label for label in column.labels or [] if label not in place]
        if new or column.labels is None:
            raise changed(self.label, f"column {name!r} has the value {(new or ['a number'])[0]!r}, which it had not")
        code_of = np.array([*(place[label] for label in column.labels), -1], dtype=np.int16)
        codes: NDArray[np.int16] = code_of[column.codes()]
        return codes

    def _grouped(self, cells: Sequence[nw.Expr], n_first: int | None = None) -> nw.LazyFrame[Any]:
        import narwhals.stable.v2 as nw

        chosen = (self._frame if n_first is None else self._frame.head(n_first)).select(*cells)
        return chosen.group_by(*chosen.collect_schema().names()).agg(nw.len().alias(self._count))

    def _counts(self, frame: nw.DataFrame[Any]) -> NDArray[np.int64]:
        counts = np.asarray(frame[self._count].to_numpy()).astype(np.int64)
        if counts.sum() != self.n_rows:
            raise changed(self.label, f"it had {self.n_rows} rows and has {counts.sum()}")
        return counts

    def _collect(self, frame: nw.LazyFrame[Any], doing: str) -> nw.DataFrame[Any]:
        options: dict[str, Any] = {}
        if frame.implementation.is_polars() and "engine" in inspect.signature(frame.to_native().collect).parameters:
            options["engine"] = "streaming"  # the other one reads the whole frame into memory
        with failures(self.label, doing):
            return frame.collect(**options)

    def close(self) -> None:
        """Nothing here is ours."""


def _is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text) is not None
