"""Counting by whatever engine is behind a lazy frame: Polars, Dask, PySpark, Ibis, through Narwhals.

Rows are grouped there by their cells as they are; the groups come back as an eager frame, whose columns become codes
by the rules of `doxa.data.series`, so that a lazy frame gives the states that the collected one gives.  Once the values
of the columns are known, many blocks of columns are counted together, see `doxa.data.large.lazy_counts`.

Codes of cells as expressions of Narwhals, so that an engine hands over small integers, not texts.

1 is a missing cell, states are from 2, and 0 is a value that was not there when the column was described.

Spark frames: Python workers turn the cells of a partition into counts of many blocks of columns, in one pass.

A group-by takes Spark some seconds for each block of 2 million rows; codes computed by Spark take longer than that.
What runs on the workers is sent there with the query, and needs NumPy and PyArrow, not doxa.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import NUMBER, Column, Kind, refuse_infinite
from doxa.data.large.blocks import cover, members_of
from doxa.data.large.engine import MANY_VALUES, Cells, Coding, Groups, Moments, Seen, changed, failures, rank
from doxa.data.large.lazy_counts import Asked, OutOfCore, count_here, count_partitions, describe_partitions, streaming
from doxa.data.options import LEAVE_OUT
from doxa.data.series import series_column
from doxa.errors import TableError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["LazyEngine", "Values", "bin_expression", "code_expression", "count_in_spark", "values_of"]

_SCHEMA = "block long, cell long, n long"


def count_in_spark(
    native: Any,
    codes_of: Sequence[Mapping[Any, int] | None],
    blocks: Sequence[tuple[int, ...]],
    radices: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
) -> tuple[list[Cells], int, int]:
    """Count blocks of columns; parameters and results as `doxa.data.large.lazy_counts.count_partitions`."""
    import narwhals.stable.v2 as nw

    maps = [None if one is None else dict(one) for one in codes_of]
    least = (2 - has_missing.astype(np.int64)).tolist()
    counting = _counting(maps, [list(block) for block in blocks], radices.tolist(), least)
    counted = native.mapInArrow(counting, _SCHEMA).groupBy("block", "cell").sum("n")
    frame = nw.from_native(counted.toDF("block", "cell", "n")).collect()
    block_of, cell, n = (np.asarray(frame[name].to_numpy()).astype(np.int64) for name in ("block", "cell", "n"))
    n_rows, n_bad = (int(n[(block_of == -1) & (cell == which)].sum()) for which in (0, 1))
    found = []
    for at, block in enumerate(blocks):
        table = np.zeros(math.prod(radices[list(block)].tolist()), dtype=np.int64)
        here = block_of == at
        table[cell[here]] = n[here]
        found.append(Cells(table, radices[list(block)], has_missing[list(block)]))
    return found, n_rows, n_bad


def _counting(
    maps: list[dict[Any, int] | None], blocks: list[list[int]], radices: list[int], least: list[int]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function that workers run; being local it is sent by value, so it names nothing of this module."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        def codes(column: Any, code_of: dict[Any, int] | None) -> Any:
            if code_of is None:
                return column.to_numpy(zero_copy_only=False).astype(np.int64)
            encoded = column.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            place = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
            known = [1 if value is None or value != value else code_of.get(value, 0) for value in values]  # NaN differs
            return np.array([*known, 1], dtype=np.int64)[place]

        sizes = [int(np.prod([radices[j] for j in block], dtype=np.int64)) for block in blocks]
        tables = [np.zeros(size, dtype=np.int64) for size in sizes]
        n_rows = n_bad = 0
        for batch in batches:
            columns = []
            for j, code_of in enumerate(maps):
                code = codes(batch.column(j), code_of) - least[j]
                n_bad += int(((code < 0) | (code >= radices[j])).sum())
                columns.append(code)
            n_rows += batch.num_rows
            if n_bad:
                continue
            for block, table in zip(blocks, tables, strict=True):
                key = columns[block[0]]
                for j in block[1:]:
                    key = key * radices[j] + columns[j]
                table += np.bincount(key, minlength=table.size)
        for at, table in [(-1, np.array([n_rows, n_bad], dtype=np.int64)), *enumerate(tables)]:
            cell = np.flatnonzero(table).astype(np.int64)
            arrays = [np.full(cell.size, at, dtype=np.int64), cell, table[cell]]
            yield pa.RecordBatch.from_arrays([pa.array(one) for one in arrays], names=["block", "cell", "n"])

    return count


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


_MOST_NUMBERS = 2**24  # distinct numbers of a column to be cut, which come here with their counts
_CELLS_AT_A_TIME = 2**18  # of a block that is grouped for the values of its columns
_GUESSED_FROM = 2**14  # rows
_FIRST_ROWS, _NEARLY_ALL = 2**20, 0.9  # looked at to tell whether rows repeat
_COUNT = "doxa n"
_LEAST_SPREAD = 1e-5  # of sums of squares about the mean, in those about the origin


class LazyEngine:
    """A lazy frame of Narwhals, whose columns may have other names there (``own``); see `doxa.data.large.engine`."""

    has_order = False

    def __init__(
        self,
        frame: nw.LazyFrame[Any],
        label: str,
        names: Sequence[str],
        missing: Sequence[str],
        own: Sequence[str] | None = None,
    ) -> None:
        self.label, self.names = label, tuple(names)
        self._own = list(names if own is None else own)
        self.n_rows = -1
        self._frame, self._missing = frame, missing
        self._count = _COUNT
        while self._count in self._own:
            self._count += "_"
        self._codings: list[Coding] = []
        self._values: dict[int, Values | None] = {}
        self._coded: list[nw.Expr | None] = []
        self._has_missing: list[bool] = []
        self._is_dask = frame.implementation.is_dask()
        self._has_workers = frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect()
        with failures(label, "it was opened"):
            self._parts = streaming(frame)
        # Tables of all possible cells take 8 bytes a cell.  Where each block is a pass, a failure loses fewer of them.
        counts_together = self._parts is not None or self._is_dask or self._has_workers
        self.cells_a_block, self.cells_a_pass = 2**15, 2**22 if counts_together else 2**20

    def describe(self) -> list[Seen]:
        """Count the rows, and fetch the values of every column with their counts, of many columns in one pass.

        Dask takes one pass.  Elsewhere how many columns go together is guessed from the first rows.  Distinct values
        are not asked for: Polars reads whole columns into memory for that, 1.9 GB where groups take 0.1 GB.
        """
        with failures(self.label, "its columns were described"):  # some engines refuse names before they are asked
            return self._described()

    def _described(self) -> list[Seen]:
        seen = self._describe_dask() if self._is_dask else self._describe_blocks()
        if not self.n_rows:
            return [Seen(Column(name, "text", 0, [], lambda: np.empty(0, dtype=np.int64)), 0) for name in self.names]
        for j in range(len(self.names)):
            if j not in seen:
                seen.update(self._describe_few((j,), MANY_VALUES) or {j: self._describe_many(j)})
        self._has_missing = [seen[j].n_present < self.n_rows for j in range(len(self.names))]
        return [seen[j] for j in range(len(self.names))]

    def _describe_dask(self) -> dict[int, Seen]:
        import narwhals.stable.v2 as nw

        with failures(self.label, "its values were counted"):
            native = self._frame.select(*(nw.col(own) for own in self._own)).to_native()
            self.n_rows, found = describe_partitions(native, MANY_VALUES)
        seen = {}
        for j, values in enumerate(found):
            if values is not None and self.n_rows:
                values.columns = [self._own[j], self._count]
                seen[j] = self._seen(nw.from_native(values, eager_only=True), j)
        return seen

    def _describe_blocks(self) -> dict[int, Seen]:
        import narwhals.stable.v2 as nw

        self.n_rows = int(self._collect(self._frame.select(nw.len()), "its rows were counted").row(0)[0])
        if not self.n_rows:
            return {}
        unique = [nw.col(own).n_unique().alias(f"u{j}") for j, own in enumerate(self._own)]
        row = self._collect(self._frame.head(_GUESSED_FROM).select(*unique), "its first rows were read").row(0)
        few = [j for j, number in enumerate(row) if number <= MANY_VALUES]
        seen: dict[int, Seen] = {}
        for block, _ in cover([1 << j for j in few], [math.log(number + 1) for number in row], _CELLS_AT_A_TIME):
            seen.update(self._describe_few(members_of(block), 4 * _CELLS_AT_A_TIME))
        return seen

    def _describe_few(self, members: Sequence[int], most: int) -> dict[int, Seen]:
        """Describe some columns by their groups; nothing if there are more than ``most`` of these."""
        import narwhals.stable.v2 as nw

        grouped = self._grouped([nw.col(self._own[j]) for j in members]).head(most + 1)
        frame = self._collect(grouped, "its values were counted")
        return {} if len(frame) > most else {j: self._seen(frame, j) for j in members}

    def _describe_many(self, j: int) -> Seen:
        """Describe a column with more values than a category has: fetch them if they are numbers that could be cut."""
        import narwhals.stable.v2 as nw

        name, own = self.names[j], self._own[j]
        counted = self._grouped([nw.col(own)]).select(nw.len())
        n_values = int(self._collect(counted, f"column {name!r} was described").row(0)[0])
        if not self._frame.collect_schema()[own].is_numeric():
            return Seen(Column(name, "text", n_values, None, lambda: np.empty(0, dtype=np.int64)), self.n_rows)
        if n_values > _MOST_NUMBERS:
            return self._describe_numbers(j, n_values)
        return self._seen(self._collect(self._grouped([nw.col(own)]), f"column {name!r} was described"), j)

    def _describe_numbers(self, j: int, n_values: int) -> Seen:
        """Describe a column of so many numbers that they are not fetched."""
        import narwhals.stable.v2 as nw

        name, number = self.names[j], nw.col(self._own[j])
        is_float = self._frame.collect_schema()[self._own[j]].is_float()
        present = ~number.is_null() & ~number.is_nan() if is_float else ~number.is_null()
        counted = self._frame.select(present.cast(nw.Int64).sum().alias("n"))
        n_present = int(self._collect(counted, f"column {name!r} was described").row(0)[0])

        def refuse(_ranks: Sequence[int]) -> NDArray[np.float64]:
            raise TableError(
                f"column {name!r} has {n_values} distinct numbers, more than the {_MOST_NUMBERS} that can be cut into "
                f"bins here; round them in the lazy frame, or {LEAVE_OUT}"
            )

        kind: Kind = "decimal" if is_float else "integer"
        column = Column(name, kind, n_values, None, lambda: np.empty(0, dtype=np.int64))
        return Seen(column, n_present, None, refuse)

    def _seen(self, frame: nw.DataFrame[Any], j: int) -> Seen:
        """Describe a column by the groups of a block that contains it."""
        own = self._own[j]
        if len(frame.columns) > 2:  # some rows in place of the groups of a block
            import narwhals.stable.v2 as nw

            frame = frame.group_by(own).agg(nw.col(self._count).sum())
        counts = self._counts(frame)
        if frame[own].dtype.is_float():  # first: these are distinct values, which stand in no row
            refuse_infinite(self.names[j], np.asarray(frame[own].drop_nulls().to_numpy()))
        column = series_column(frame[own], self.names[j], self._missing)
        self._values[j] = values_of(frame[own])
        numbers = None if column.numbers is None else column.numbers()
        if numbers is None:
            present = column.codes() >= 0
            return Seen(column, int(counts[present].sum()), counts)
        present = ~np.isnan(numbers)
        return Seen(column, int(counts[present].sum()), counts, partial(rank, numbers[present], counts[present]))

    def set_codings(self, codings: Sequence[Coding]) -> None:
        """Keep how cells become codes, and write it for those columns for which that can be done."""
        import narwhals.stable.v2 as nw

        self._codings = list(codings)
        self._coded = [None] * len(self.names)
        for j, (own, coding) in enumerate(zip(self._own, codings, strict=True)):
            values = self._values.get(j)
            if coding.cuts is not None:
                self._coded[j] = (bin_expression(own, coding.cuts, self._missing) + 2).cast(nw.Int16)
            elif values is not None:
                self._coded[j] = code_expression(own, values, coding)

    def group(self, blocks: Sequence[tuple[int, ...]], most: int) -> list[Groups | None]:
        """Group the rows by each block of columns, a pass each."""
        return [self._group(block, most) for block in blocks]

    def count_blocks(self, blocks: Sequence[tuple[int, ...]], most: int) -> Sequence[Groups | Cells | None]:
        """As `group`, in one pass where the engine can; another for each block with columns that are not coded."""
        together = [at for at, block in enumerate(blocks) if self._is_coded(block)]
        counted = self._count_together([blocks[at] for at in together]) if together else None
        if counted is None:
            return self.group(blocks, most)
        if counted.n_rows != self.n_rows and not counted.n_bad:
            raise changed(self.label, f"it had {self.n_rows} rows and has {counted.n_rows}")
        if counted.n_bad:
            self._coded = [None] * len(self.names)
            return self.group(blocks, most)  # which says what value is new, if one is
        found = dict(zip(together, counted.blocks, strict=True))
        return [found[at] if at in found else self._group(block, most) for at, block in enumerate(blocks)]

    def _is_coded(self, block: tuple[int, ...]) -> bool:
        n_cells = math.prod(len(self._codings[j].states) + self._has_missing[j] for j in block)
        return n_cells <= self.cells_a_pass and all(self._coded[j] is not None for j in block)

    def _count_together(self, blocks: Sequence[tuple[int, ...]]) -> OutOfCore | None:
        """Count in one pass; None where the engine has no way to do that."""
        named = sorted(set().union(*blocks))
        codes = [code for code in (self._coded[j] for j in named) if code is not None]
        at = {j: k for k, j in enumerate(named)}
        has_missing = np.array([self._has_missing[j] for j in named], dtype=np.bool_)
        radices = np.array([len(self._codings[j].states) for j in named], dtype=np.int64) + has_missing
        asked = Asked(codes, [tuple(at[j] for j in block) for block in blocks], radices, has_missing)
        with failures(self.label, "its rows were grouped"):
            if self._parts is not None:
                return count_here(self._frame, asked, self._parts)
            if self._is_dask:
                return OutOfCore(*count_partitions(*self._on_workers(named, codes), asked.blocks, radices, has_missing))
            if self._has_workers:
                try:
                    return OutOfCore(
                        *count_in_spark(*self._on_workers(named, codes), asked.blocks, radices, has_missing)
                    )
                except Exception:  # no PyArrow there, for one; what else is wrong shows when rows are grouped
                    self._has_workers = False
            return None

    def _on_workers(self, named: Sequence[int], codes: Sequence[nw.Expr]) -> tuple[Any, list[dict[Any, int] | None]]:
        """Some columns as the engine's own frame, and the codes of their values; None for a column of codes."""
        import narwhals.stable.v2 as nw

        cells: list[nw.Expr] = []
        codes_of: list[dict[Any, int] | None] = []
        for j, code in zip(named, codes, strict=True):
            values = self._values.get(j)
            is_cut = values is None or self._codings[j].cuts is not None
            cells.append((code if is_cut else nw.col(self._own[j])).alias(f"c{j}"))
            codes_of.append(None if is_cut or values is None else {**values.codes(self._codings[j])})
        return self._frame.select(*cells).to_native(), codes_of

    def extremes(self, numbers: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `doxa.data.large.engine.Engine.extremes`."""
        import narwhals.stable.v2 as nw

        asked = [
            getattr(nw.col(self._own[j]).cast(nw.Float64), which)().alias(f"{which}{k}")
            for k, j in enumerate(numbers)
            for which in ("min", "max")
        ]
        row = self._collect(self._frame.select(*asked), "the extremes of its numbers were found").row(0)
        return np.array(row[::2], dtype=np.float64), np.array(row[1::2], dtype=np.float64)

    def moments(
        self,
        categories: tuple[int, ...],
        numbers: tuple[int, ...],
        origin: NDArray[np.float64],
        power: NDArray[np.int64],
        most: int,
    ) -> Moments | None:
        """As `doxa.data.large.engine.Engine.moments`, from sums of products about the origin.

        Raises
        ------
        TableError
            If the spread within a group is so much smaller than its distance from the origin that digits are lost.
        """
        import narwhals.stable.v2 as nw

        p, doing = len(numbers), "the sums of products of its numbers were made"
        cells = [self._cell(j) for j in categories]
        parts = zip(numbers, origin.tolist(), power.tolist(), strict=True)
        shifted = [
            ((nw.col(self._own[j]).cast(nw.Float64) - first) * 0.5**exponent).alias(f"doxa z{k}")
            for k, (j, first, exponent) in enumerate(parts)
        ]
        pairs = [(a, b) for a in range(p) for b in range(a + 1)]
        products = [(nw.col(f"doxa z{a}") * nw.col(f"doxa z{b}")).alias(f"doxa s{a} {b}") for a, b in pairs]
        one = nw.lit(1).alias("doxa one")
        by = [self._own[j] for j in categories] or ["doxa one"]
        sums = [nw.col(f"doxa z{a}").sum() for a in range(p)] + [nw.col(f"doxa s{a} {b}").sum() for a, b in pairs]
        sums += [nw.col(f"doxa z{a}").min().alias(f"doxa min{a}") for a in range(p)]
        sums += [nw.col(f"doxa z{a}").max().alias(f"doxa max{a}") for a in range(p)]
        with failures(self.label, doing):
            chosen = self._frame.select(*cells, *shifted).with_columns(*products, one)
            grouped = chosen.group_by(*by).agg(nw.len().alias(self._count), *sums).head(most + 1)
        frame = self._collect(grouped, doing)
        if len(frame) > most:
            return None
        counts = self._counts(frame)
        codes = np.empty((counts.size, len(categories)), dtype=np.int16)
        for at, j in enumerate(categories):
            codes[:, at] = self._codes(frame[self._own[j]], j)
        total = np.stack([frame[f"doxa z{a}"].to_numpy() for a in range(p)], axis=1).astype(np.float64)
        means, found = total / counts[:, None], np.empty((counts.size, p, p))
        for a, b in pairs:
            found[:, a, b] = found[:, b, a] = frame[f"doxa s{a} {b}"].to_numpy()
        about = found.diagonal(axis1=1, axis2=2)
        found = found - counts[:, None, None] * means[:, :, None] * means[:, None, :]
        spread = found.diagonal(axis1=1, axis2=2)
        least, most_of = (
            np.stack([frame[f"doxa {which}{a}"].to_numpy() for a in range(p)], axis=1) for which in ("min", "max")
        )
        constant = least == most_of
        lost = np.argwhere(~constant & (spread < _LEAST_SPREAD * about))
        if len(lost):
            raise TableError(
                f"column {self.names[numbers[int(lost[0, 1])]]!r} varies so little within a configuration of the "
                "columns of categories, compared with its range, that sums of products lose digits here; give a "
                f"Parquet file or a relation of DuckDB, whose sums keep them, or {LEAVE_OUT}"
            )
        varies = ~constant
        return Moments(codes, counts, means, found * varies[:, :, None] * varies[:, None, :])

    def is_spread(self, most: int) -> bool:
        """Whether nearly all of the first rows are distinct, and as many of all rows would be too many."""
        if self.n_rows * _NEARLY_ALL <= 2 * most:
            return False
        n_first = min(most, _FIRST_ROWS)
        cells = [self._cell(j) for j in range(len(self.names))]
        found = self._collect(self._grouped(cells, n_first), "its distinct rows were estimated")
        return len(found) >= _NEARLY_ALL * n_first

    def _group(self, block: tuple[int, ...], most: int) -> Groups | None:
        doing = "its rows were grouped"
        with failures(self.label, doing):
            grouped = self._grouped([self._cell(j) for j in block]).head(most + 1)
        frame = self._collect(grouped, doing)
        if len(frame) > most:
            return None
        counts = self._counts(frame)
        codes = np.empty((counts.size, len(block)), dtype=np.int16)
        for at, j in enumerate(block):
            codes[:, at] = self._codes(frame[self._own[j]], j)
        return Groups(codes, counts, None)

    def _cell(self, j: int) -> nw.Expr:
        """What rows are grouped by: the cell, or its bin."""
        import narwhals.stable.v2 as nw

        cuts, own = self._codings[j].cuts, self._own[j]
        return nw.col(own) if cuts is None else bin_expression(own, cuts, self._missing).alias(own)

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
