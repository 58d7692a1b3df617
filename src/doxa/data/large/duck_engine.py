"""Counting by DuckDB: Parquet files, relations of the user's own database.

Nothing is created in a user's database; everything is a query on the relation.  Rows are grouped by their cells as they
are, and only the groups are coded: DuckDB groups twelve columns of texts as fast as it computes one number from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import INTEGER, NUMBER, Column, Kind, kind_of_texts, refuse_infinite
from doxa.data.duck import double, literal
from doxa.data.large.engine import MANY_VALUES, Cells, Coding, Groups, Moments, Seen, changed, failures, rank
from doxa.data.number import number_column
from doxa.data.parquet import NUMBER_TYPES, cell_of
from doxa.data.table import MAX_STATES

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

__all__ = ["DuckEngine"]

_AT_A_TIME = 48  # columns in one query with grouping(), which takes 63
_FLOATS = {"FLOAT", "DOUBLE"}


@dataclass
class _Cells:
    """A column inside DuckDB."""

    name: str
    kind: str  # type, as DuckDB writes it; "" for a text that may be numbers
    values: NDArray[Any] | None = None  # the distinct ones, without NULL and NaN
    coding: Coding | None = None
    has_missing: bool = True


class DuckEngine:
    """A relation whose columns are c0, c1, ..., and ``place`` if it has an order.

    Missing cells are NULL, or NaN in floats, or one of the texts ``missing`` in columns of texts: to look for these in
    each cell would cost DuckDB more than to group them.  A kind is DuckDB's type before `cell_of` was applied, ``""``
    for an untyped text.  ``verify`` raises if the source has changed; it is called before and after every pass.
    ``stream``, where there is one, gives the columns of the outer of two projections some rows at a time, and blocks
    are counted as rows stream by.
    """

    def __init__(
        self,
        relation: DuckDBPyRelation,
        label: str,
        names: Sequence[str],
        kinds: Sequence[str],
        missing: Sequence[str],
        has_order: bool,
        verify: Callable[[], None],
        close: Callable[[], None],
        stream: Callable[[str, str], Iterator[Mapping[str, NDArray[Any]]]] | None = None,
    ) -> None:
        self.label, self.names, self.has_order, self.close = label, tuple(names), has_order, close
        self.n_rows = -1
        self._relation, self._verify, self._missing, self._stream = relation, verify, missing, stream
        # Where DuckDB groups: of 20 million rows a block of 729 cells takes it 0.5 s and one of 531 441 takes 4.6 s, so
        # nine ternary columns cost least for each of their subsets of three or four.  Tables in memory are of that
        # size too, to stay in the cache.
        self.cells_a_block, self.cells_a_pass = 2**15, 2**20 if stream is None else 2**25
        self._cells = [_Cells(name, kind) for name, kind in zip(names, kinds, strict=True)]

    # -- the first passes --------------------------------------------------------------------------------------------

    def describe(self) -> list[Seen]:
        """Count the rows and find the values of every column: two passes, one more if a column has very many."""
        about = ", ".join(f"approx_count_distinct(c{j}) AS a{j}" for j in range(len(self.names)))
        (row,) = self._ask("its rows were counted", lambda r: r.aggregate(f"count(*) AS n, {about}").fetchall())
        self.n_rows = int(row[0])
        # The estimate is off by some 15%; a column just beyond the limit is fetched or not, and refused either way.
        few = [j for j, number in enumerate(row[1:]) if number <= MANY_VALUES]
        seen: dict[int, Seen] = {}
        for start in range(0, len(few), _AT_A_TIME):
            seen.update(self._describe_few(few[start : start + _AT_A_TIME]))
        for j in range(len(self.names)):
            if j not in seen:
                seen[j] = self._describe_many(j)
        for j, cells in enumerate(self._cells):
            cells.has_missing = seen[j].n_present < self.n_rows
        return [seen[j] for j in range(len(self.names))]

    def _describe_few(self, columns: Sequence[int]) -> dict[int, Seen]:
        cells = ", ".join(f"c{j}" for j in columns)
        sets = ", ".join(f"(c{j})" for j in columns)
        asked = f"grouping({cells}) AS g, {cells}, count(*) AS n", f"GROUPING SETS ({sets})"
        found = self._ask("the values of its columns were counted", lambda r: r.aggregate(*asked).fetchnumpy())
        seen = {}
        for at, j in enumerate(columns):
            here = np.flatnonzero(_plain(found["g"]) == _only(at, len(columns)))
            values, counts = np.ma.asarray(found[f"c{j}"])[here], _plain(found["n"])[here].astype(np.int64)
            self._hold_total(int(counts.sum()))
            present = ~np.ma.getmaskarray(values)
            if self._cells[j].kind in _FLOATS:
                present &= ~np.isnan(np.ma.filled(values, np.nan).astype(np.float64))
            seen[j] = self._seen(j, np.ma.getdata(values)[present], counts[present])
        return seen

    def _seen(self, j: int, values: NDArray[Any], counts: NDArray[np.int64]) -> Seen:
        cells = self._cells[j]
        cells.values = values
        if cells.kind in NUMBER_TYPES:
            refuse_infinite(cells.name, values)  # first: these are distinct values, which stand in no row
            column = number_column(cells.name, values, np.zeros(values.size, dtype=np.bool_), ())
            return Seen(column, int(counts.sum()), counts, partial(rank, values.astype(np.float64), counts))
        labels: list[str] = values.tolist()
        if not _is_untyped(cells.kind):
            return self._seen_texts(cells, labels, counts)
        kind = kind_of_texts(cells.name, labels)
        few = labels if len(labels) <= MAX_STATES else None
        column = Column(cells.name, kind, len(labels), few, lambda: np.arange(len(labels)))
        if not column.is_number:
            return Seen(column, int(counts.sum()), counts)
        return Seen(column, int(counts.sum()), counts, lambda ranks: rank(np.array(labels, np.float64), counts, ranks))

    def _seen_texts(self, cells: _Cells, values: list[str], counts: NDArray[np.int64]) -> Seen:
        """Describe a column of texts or of an enum, some of whose values are tokens."""
        is_enum = cells.kind.startswith("ENUM")
        labels = [label for label in (_categories(cells.kind) if is_enum else values) if label not in self._missing]
        place = {label: at for at, label in enumerate(labels)}
        codes = np.array([place.get(value, -1) for value in values], dtype=np.int64)
        few = labels if is_enum or len(labels) <= MAX_STATES else None
        column = Column(cells.name, "ordered" if is_enum else "text", int((codes >= 0).sum()), few, lambda: codes)
        return Seen(column, int(counts[codes >= 0].sum()), counts)

    def _describe_many(self, j: int) -> Seen:
        """Describe a column with more values than a category has, without fetching them."""
        cells, cell = self._cells[j], self._present(j)
        whole, number = f"coalesce(bool_and({cell} = floor({cell})), true)", "true"
        if cells.kind not in NUMBER_TYPES:
            whole, number = (f"bool_and(regexp_full_match({cell}, {literal(rule)}))" for rule in (INTEGER, NUMBER))
        asked = f"count({cell}), count(DISTINCT {cell}), {whole}, {number}"
        (row,) = self._ask(f"column {cells.name!r} was described", lambda r: r.aggregate(asked).fetchall())
        is_number = cells.kind in NUMBER_TYPES or (_is_untyped(cells.kind) and row[3])
        kind: Kind = "text" if not is_number else "integer" if row[2] else "decimal"
        column = Column(cells.name, kind, int(row[1]), None, lambda: np.empty(0, dtype=np.int64))
        return Seen(column, int(row[0]), None, partial(self._ranked, j) if is_number else None)

    def _ranked(self, j: int, ranks: Sequence[int]) -> NDArray[np.float64]:
        """The k-th smallest numbers of a column; DuckDB sorts it on disk where it must."""
        number = f"({self._present(j)})::DOUBLE"
        place = f"{number} AS v, row_number() OVER (ORDER BY {number} NULLS LAST) - 1 AS i"
        wanted = ", ".join(str(k) for k in sorted(set(ranks)))
        found = self._ask(
            f"the quantiles of column {self.names[j]!r} were found",
            lambda r: r.project(place).filter(f"i IN ({wanted})").fetchnumpy(),
        )
        numbers = dict(zip(_plain(found["i"]).tolist(), np.ma.filled(found["v"], np.nan).tolist(), strict=True))
        if len(numbers) < len(set(ranks)):
            raise changed(self.label, "rows are gone")
        return np.array([numbers[k] for k in ranks])

    # -- counting ----------------------------------------------------------------------------------------------------

    def set_codings(self, codings: Sequence[Coding]) -> None:
        """Keep how cells become codes."""
        for cells, coding in zip(self._cells, codings, strict=True):
            cells.coding = coding

    def group(self, blocks: Sequence[tuple[int, ...]], most: int) -> list[Groups | None]:
        """Group the rows by each block of columns; one pass for all blocks, unless they name very many columns."""
        named = sorted(set().union(*blocks))
        if len(named) <= _AT_A_TIME:
            return self._group(blocks, named, most)
        return [self._group([block], list(block), most)[0] for block in blocks]

    def count_blocks(self, blocks: Sequence[tuple[int, ...]], most: int) -> Sequence[Groups | Cells | None]:
        """As `group`, in one stream of rows."""
        named = sorted(set().union(*blocks))
        radices, has_missing = self._radices(named)
        at = {j: k for k, j in enumerate(named)}
        placed = [tuple(at[j] for j in block) for block in blocks]
        if self._stream is None or any(math.prod(radices[list(b)].tolist()) > self.cells_a_pass for b in placed):
            return self.group(blocks, most)
        from doxa.data.large.tally import Tally  # compiled on import

        tally = Tally(placed, radices, has_missing)
        cells = ", ".join(f"{self._cell(j)} AS c{j}" for j in named)
        # Unseen values are 0, missing cells 1, states from 2.
        coded = ", ".join(f"({self._code(j)} + 2)::{self._stored_as(j)} AS c{j}" for j in named)
        self._verify()
        with failures(self.label, "its rows were counted"):
            parts = self._stream(cells, coded)
            n_rows, n_bad = tally.add_parts(np.stack([part[f"c{j}"] for j in named]) for part in parts)
        if n_bad:
            raise changed(self.label, "it has values that it had not")
        self._hold_total(n_rows)
        self._verify()
        return tally.cells()

    def extremes(self, numbers: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `doxa.data.large.engine.Engine.extremes`."""
        asked = ", ".join(f"min({self._number(j)}), max({self._number(j)})" for j in numbers)
        (row,) = self._ask("the extremes of its numbers were found", lambda r: r.aggregate(asked).fetchall())
        return np.array(row[::2], dtype=np.float64), np.array(row[1::2], dtype=np.float64)

    def moments(
        self,
        categories: tuple[int, ...],
        numbers: tuple[int, ...],
        origin: NDArray[np.float64],
        power: NDArray[np.int64],
        most: int,
    ) -> Moments | None:
        """As `doxa.data.large.engine.Engine.moments`; DuckDB updates covariances case by case, so they keep digits."""
        p = len(numbers)
        cells = ", ".join(f"c{j}" for j in categories)
        shifted = [
            f"(({self._number(j)} - {double(first)}) * {double(0.5**exponent)}) AS z{k}"
            for k, (j, first, exponent) in enumerate(zip(numbers, origin.tolist(), power.tolist(), strict=True))
        ]
        prepared = ", ".join([*(f"{self._cell(j)} AS c{j}" for j in categories), *shifted])
        sums = [f"avg(z{a}) AS m{a}" for a in range(p)]
        sums += [f"covar_pop(z{a}, z{b}) AS s{a}_{b}" for a in range(p) for b in range(a + 1)]
        coded = [f"{self._code(j)} AS c{j}" for j in categories]
        kept = [*(f"m{a}" for a in range(p)), *(f"s{a}_{b}" for a in range(p) for b in range(a + 1))]

        def ask(relation: DuckDBPyRelation) -> dict[str, NDArray[Any]]:
            asked = ", ".join([*([cells] if cells else []), "count(*) AS n", *sums])
            grouped = relation.project(prepared).aggregate(asked, cells)
            result: dict[str, NDArray[Any]] = (
                grouped.project(", ".join([*coded, "n", *kept])).limit(most + 1).fetchnumpy()
            )
            return result

        found = self._ask("the sums of products of its numbers were made", ask)
        counts = _plain(found["n"]).astype(np.int64)
        if counts.size > most:
            return None
        self._hold_total(int(counts.sum()))
        codes = np.empty((counts.size, len(categories)), dtype=np.int16)
        for at, j in enumerate(categories):
            codes[:, at] = _plain(found[f"c{j}"])
        means = np.stack([_plain(found[f"m{a}"]) for a in range(p)], axis=1).astype(np.float64)
        products = np.empty((counts.size, p, p))
        for a in range(p):
            for b in range(a + 1):
                products[:, a, b] = products[:, b, a] = _plain(found[f"s{a}_{b}"]) * counts
        return Moments(codes, counts, means, products)

    def _number(self, j: int) -> str:
        """A cell of a column of numbers."""
        return f"({self._present(j)})::DOUBLE"

    def _radices(self, columns: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Number of values of some columns, and whether a missing cell is one of them."""
        n_states = [len(cells.coding.states) if cells.coding else 0 for cells in self._cells]
        has_missing = np.array([self._cells[j].has_missing for j in columns], dtype=np.bool_)
        return np.array([n_states[j] for j in columns], dtype=np.int64) + has_missing, has_missing

    def _stored_as(self, j: int) -> str:
        coding = self._cells[j].coding
        return "UTINYINT" if coding is not None and len(coding.states) < 250 else "USMALLINT"

    def is_spread(self, most: int) -> bool:
        """Whether the estimated number of distinct rows is above twice ``most``."""
        cells = ", ".join(f"{self._cell(j)}" for j in range(len(self.names)))
        asked = f"approx_count_distinct(hash({cells}))"
        (row,) = self._ask("its distinct rows were estimated", lambda r: r.aggregate(asked).fetchall())
        return int(row[0]) > 2 * most

    def _group(self, blocks: Sequence[tuple[int, ...]], named: list[int], most: int) -> list[Groups | None]:
        cells = ", ".join(f"c{j}" for j in named)
        sets = ", ".join("(" + ", ".join(f"c{j}" for j in block) + ")" for block in blocks)
        alone = len(blocks) == 1
        extra = ", min(place) AS place" if self.has_order else ""
        which = "0" if alone else f"grouping({cells})"
        by = cells if alone else f"GROUPING SETS ({sets})"
        prepared = ", ".join(f"{self._cell(j)} AS c{j}" for j in named) + (", place" if self.has_order else "")
        coded = ", ".join(f"{self._code(j)} AS c{j}" for j in named)
        limit = len(blocks) * (most + 1)

        def ask(relation: DuckDBPyRelation) -> dict[str, NDArray[Any]]:
            grouped = relation.project(prepared).aggregate(f"{which} AS g, {cells}, count(*) AS n{extra}", by)
            result: dict[str, NDArray[Any]] = (
                grouped.project(f"g, {coded}, n" + (", place" if extra else "")).limit(limit).fetchnumpy()
            )
            return result

        found = self._ask("its rows were grouped", ask)
        if alone:
            return [self._groups(found, blocks[0], slice(None), most, _plain(found["n"]).size)]
        marks = _plain(found["g"])
        full = marks.size >= limit
        groups = []
        for block in blocks:
            rows = np.flatnonzero(marks == _grouping(named, block))
            groups.append(self._groups(found, block, rows, most, most + 1 if full else rows.size))
        return groups

    def _groups(self, found: Any, block: tuple[int, ...], rows: Any, most: int, size: int) -> Groups | None:
        if size > most:
            return None
        counts = _plain(found["n"])[rows].astype(np.int64)
        self._hold_total(int(counts.sum()))
        codes = np.empty((counts.size, len(block)), dtype=np.int16)
        for at, j in enumerate(block):
            codes[:, at] = _plain(found[f"c{j}"])[rows]
        first = _plain(found["place"])[rows].astype(np.int64) if "place" in found else None
        return Groups(codes, counts, first)

    # -- expressions -------------------------------------------------------------------------------------------------

    def _present(self, j: int) -> str:
        """A cell, NULL where it is missing."""
        kind = self._cells[j].kind
        if kind in _FLOATS:
            return f"CASE WHEN NOT isnan(c{j}) THEN c{j} END"
        return cell_of(f"c{j}", kind, self._missing) if kind == "VARCHAR" else f"c{j}"

    def _cell(self, j: int) -> str:
        """What rows are grouped by: the cell, or its bin."""
        coding = self._cells[j].coding
        assert coding is not None
        if coding.cuts is None:
            return f"c{j}"
        number = f"({self._present(j)})::DOUBLE"
        return f"CASE WHEN {number} IS NOT NULL THEN {_bin_of(number, coding.cuts.tolist())} END"

    def _code(self, j: int) -> str:
        """The code of a group; -2 for a value that the column did not have when it was described."""
        cells, coding = self._cells[j], self._cells[j].coding
        assert coding is not None
        if coding.cuts is not None:
            return f"coalesce(c{j}, -1)::SMALLINT"
        assert cells.values is not None
        kind = cells.kind if cells.kind in NUMBER_TYPES else "VARCHAR"
        written = [literal(v) if kind == "VARCHAR" else f"'{v}'" for v in cells.values.tolist()]
        codes = ", ".join(str(code) for code in coding.codes[: len(written)].tolist())
        place = f"list_position([{', '.join(written)}]::{kind}[], c{j})"
        code = f"coalesce(([{codes}]::SMALLINT[])[{place}], -2)"
        absent = f"c{j} IS NULL OR isnan(c{j})" if kind in _FLOATS else f"c{j} IS NULL"
        return f"(CASE WHEN {absent} THEN -1 ELSE {code} END)::SMALLINT"

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask(self, doing: str, question: Callable[[DuckDBPyRelation], Any]) -> Any:
        self._verify()
        with failures(self.label, doing):
            answer = question(self._relation)
        self._verify()
        return answer

    def _hold_total(self, total: int) -> None:
        if total != self.n_rows:
            raise changed(self.label, f"it had {self.n_rows} rows and has {total}")


def _bin_of(number: str, cuts: Sequence[float], below: int = 0) -> str:
    """Write how many cuts are not above a number, by halving: DuckDB nests expressions 1000 deep at most."""
    if not cuts:
        return f"{below}::SMALLINT"
    half = len(cuts) // 2
    low, high = _bin_of(number, cuts[:half], below), _bin_of(number, cuts[half + 1 :], below + half + 1)
    return f"CASE WHEN {number} < {double(cuts[half])} THEN {low} ELSE {high} END"


def _plain(values: Any) -> NDArray[Any]:
    return np.asarray(np.ma.getdata(values))


def _only(at: int, n: int) -> int:
    """What grouping(...) of ``n`` columns says where only one is grouped by: a bit for each of the others."""
    return (1 << n) - 1 - (1 << (n - 1 - at))


def _grouping(named: Sequence[int], block: tuple[int, ...]) -> int:
    return sum(1 << (len(named) - 1 - at) for at, j in enumerate(named) if j not in block)


def _is_untyped(kind: str) -> bool:
    return not kind or kind.startswith("DECIMAL")


def _categories(kind: str) -> list[str]:
    """The values of an enum, from its type as DuckDB writes it."""
    return [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", kind[len("ENUM") :])]
