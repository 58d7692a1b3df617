"""`OutOfCoreSource`: a table that stays where it is, and the counts that it is asked for.

From the distinct values of columns to their states, by the rules of `doxa.data.coding`.

Those rules want rows.  They are given specimens: one row for each value of each column, in which the other columns
are missing; a column to be cut is ranked by the engine.

Counts of many sets of columns from those of one block that contains them.

A table of 11 ternary columns has 177 147 cells, and 165 subsets of three.  Summed over one column at a time, each sum
shared by all the subsets that lack the column, these cost some twelve times what it costs to go over the table once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.bins import Binning
from doxa.data.coding import Column, code_table, refuse_numbers
from doxa.data.large.blocks import Block, cover, members_of
from doxa.data.large.engine import Cells, Coding, Engine, Groups, Seen, SourceError, changed, unseen
from doxa.data.large.kept import KeptCounts, Known
from doxa.data.large.table import OutOfCoreTable, SetCounts, count_subset
from doxa.data.options import near
from doxa.data.table import Table, collapsed
from doxa.errors import ArgumentError, ArgumentTypeError, TableError

__all__ = ["Marginals", "OutOfCoreSource", "SourceError", "find_codings"]

_DENSE = 2**22  # cells of a table that groups are put into, and no more than
_SPARSE = 16  # cells for each group
_KEPT = 2**20  # cells of a sum that is held for others to start from


class Marginals:
    """Counts of the subsets of a block, whose columns ``members`` rise; ``n_states`` are those of all columns."""

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


def find_codings(seen: Sequence[Seen], bins: Binning | Mapping[str, Binning] | None) -> list[Coding]:
    """States of every column and the codes of its values, or a `TableError` that names what is no category."""
    sizes = [1 if one.column.labels is None else max(1, one.column.codes().size) for one in seen]
    ends = np.cumsum(sizes)
    rows = [slice(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]
    columns = [_specimens(one, int(ends[-1]), part) for one, part in zip(seen, rows, strict=True)]
    held = [j for j, one in enumerate(columns) if not _holds_numbers(one, bins)]
    if not held:
        return [_OF_NUMBERS] * len(columns)
    table = code_table([columns[j] for j in held], bins)
    codes = table.codes[table.row_index]
    cuts = [None if name not in table.cuts else np.array(table.cuts[name]) for name in table.names]
    found = {j: Coding(table.states[at], codes[rows[j], at], cuts[at]) for at, j in enumerate(held)}
    return [found.get(j, _OF_NUMBERS) for j in range(len(columns))]


_OF_NUMBERS = Coding((), np.empty(0, dtype=np.int16), None)


def _holds_numbers(column: Column, bins: Binning | Mapping[str, Binning] | None) -> bool:
    """Whether a column holds numbers that are not cut into bins."""
    is_cut = column.name in bins if isinstance(bins, Mapping) else bins is not None
    return column.needs_bins and not is_cut


def _specimens(seen: Seen, n_rows: int, part: slice) -> Column:
    """The column as `code_table` takes it: a row for each value in ``part``, and missing elsewhere."""

    def codes() -> NDArray[np.integer[Any]]:
        return _placed(seen.column.codes().astype(np.int64), n_rows, part, -1)

    ranked = None if seen.ranked is None else (seen.n_present, seen.ranked)
    return dataclasses.replace(seen.column, codes=codes, numbers=lambda: np.full(n_rows, np.nan), ranked=ranked)


def _placed(values: NDArray[Any], n_rows: int, part: slice, absent: Any) -> NDArray[Any]:
    rows = np.full(n_rows, absent, dtype=values.dtype)
    rows[part.start : part.start + values.size] = values
    return rows


_MOST_DISTINCT = 2**23  # rows of a table that is held in memory: 270 MB for twelve columns


class OutOfCoreSource:
    """A table that is counted where it lives; made by `open_source`.  States are those that `doxa.read_table` would
    find.

    A failure of the source, or a change of it that shows, is a `SourceError`; what was counted before it is kept, and
    asking again goes on from there.
    """

    def __init__(self, engine: Engine, bins: Binning | Mapping[str, Binning] | None, keep: Any = None) -> None:
        self._engine = engine
        self._closed = weakref.finalize(self, engine.close)
        try:
            seen = engine.describe()
            codings = find_codings(_some_rows(engine, seen), bins)
            engine.set_codings(codings)
            self._seen = seen
            self.names, self.n_rows = engine.names, engine.n_rows
            self.states = tuple(coding.states for coding in codings)
            cut = [(name, c.cuts) for name, c in zip(self.names, codings, strict=True) if c.cuts is not None]
            self._cuts = {name: tuple(cuts.tolist()) for name, cuts in cut}
            self._n_missing = [engine.n_rows - one.n_present for one in seen]
            n_each = [_of_states(one, coding) for one, coding in zip(seen, codings, strict=True)]
            self._known = Known(self.names, self.states, self.n_rows, tuple(self._n_missing), tuple(n_each))
            self._lock = threading.RLock()
            self._kept = KeptCounts(self._known, keep)
        except BaseException:
            self.close()
            raise

    @property
    def n_states(self) -> NDArray[np.int64]:
        """Number of states of each column, shape (n_columns,)."""
        return np.array([len(labels) for labels in self.states], dtype=np.int64)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that hold numbers."""
        return tuple(name for name, labels in zip(self.names, self.states, strict=True) if not labels)

    @property
    def n_missing(self) -> int:
        """Number of missing cells, over all rows."""
        return sum(self._n_missing)

    @property
    def missing_by_column(self) -> dict[str, int]:
        """Number of missing cells of each column that has any."""
        return {name: number for name, number in zip(self.names, self._n_missing, strict=True) if number}

    @property
    def digest(self) -> str:
        """SHA-256 of what is known without counting sets, in hexadecimal: not of the cells.

        Names, states, numbers of rows and missing cells, and how often each state occurs (not of columns that are cut
        into bins).  The digest of `counted_table` covers all counts that scores are made of.
        """
        return hashlib.sha256(self._known.to_json().encode("ascii")).hexdigest()

    def table(self, most_distinct: int = _MOST_DISTINCT) -> Table:
        """The distinct rows with their counts, in one pass: all that learning needs; at most ``most_distinct`` are
        held.

        They are in order of first occurrence where the source is a file, so that the table has the digest of the table
        read whole; otherwise they rise.
        """
        if self.numbers:
            refuse_numbers([one.column for one in self._seen if one.column.name in self.numbers])
        found = self.try_table(most_distinct)
        if found is None:
            raise TableError(
                f"{self._engine.label} has more than {most_distinct} distinct rows, too many to hold in memory; "
                "read fewer columns with columns=[...] or --columns, or give the source itself to doxa.learn, with "
                "max_parents, which counts families where they are; doxa.data.large.open_source(...).count_sets(...) "
                "counts any sets"
            )
        return found

    def try_table(self, most_distinct: int = _MOST_DISTINCT) -> Table | None:
        """As `table`, but None where there are more distinct rows.

        Where columns hold numbers, rows that have their moments stand for the rows; see `doxa.data.large.moments`.
        """
        if self.numbers:
            return self._of_moments(most_distinct)
        possible = math.prod(len(states) + bool(n) for states, n in zip(self.states, self._n_missing, strict=True))
        with self._lock:
            if min(possible, self.n_rows) > most_distinct and self._engine.is_spread(most_distinct):
                return None
            (found,) = self._engine.group([tuple(range(len(self.names)))], most_distinct)
        if found is None:
            return None
        self._check(found)
        order = np.lexsort(found.codes.T[::-1]) if found.first is None else np.argsort(found.first)
        columns = [found.codes[order, j] for j in range(len(self.names))]
        return collapsed(self.names, self.states, columns, found.counts[order], in_order=False, cuts=self._cuts)

    def _of_moments(self, most_rows: int) -> Table:
        from doxa.data.large.moments import table_of_moments

        if self.n_missing:
            listed = ", ".join(f"{name!r} ({count})" for name, count in self.missing_by_column.items())
            raise TableError(
                f"{self._engine.label} has {self.n_rows} rows, more than are held in memory, columns of numbers, and "
                f"missing cells, in the columns {listed}; missing cells are drawn row by row, which takes the rows: "
                "leave these columns out, fill the cells or remove the rows in the source, or give fewer rows"
            )
        ids = [one.column.name for one in self._seen if one.column.kind == "integer"
               and one.column.name in self.numbers and one.column.n_distinct == self.n_rows]  # fmt: skip
        if ids:
            raise TableError(
                f"column {ids[0]!r} of {self._engine.label} has another whole number in each row, as row numbers and "
                "identifiers have; leave it out with columns=[...] or --columns"
            )
        with self._lock:
            return table_of_moments(self._engine, self.states, most_rows)

    def counted_table(self, sets: Iterable[Sequence[str] | Sequence[int]]) -> OutOfCoreTable:
        """The counts of some sets of columns as a table without rows, for `doxa.learn`.

        Parameters, errors and passes as `count_sets`; no cell may be missing.
        """
        if self.n_missing:
            raise TableError(f"{self._engine.label} has {self.n_missing} missing cells, and counts alone hold none")
        return OutOfCoreTable(self.names, self.states, self.n_rows, self.count_sets(sets))

    def keep_in(self, path: str | os.PathLike[str]) -> None:
        """Keep counted sets in a file of ours from now on; what it holds of this source is not counted again."""
        with self._lock:
            self._kept = KeptCounts(self._known, path)

    def count_sets(
        self, sets: Iterable[Sequence[str] | Sequence[int]], *, cells_a_pass: int | None = None
    ) -> list[SetCounts]:
        """Count sets of columns (names or positions), many in one pass, in the order asked; each is counted once, and
        kept.

        ``cells_a_pass`` bounds the cells that one pass has to hold; a set that may have more has a pass of its own.
        When left out, 2**25 for files, at 8 bytes each, and 2**20 where an engine groups rows, at some 100 bytes each.
        """
        asked = [self._as_bits(columns) for columns in sets]
        with self._lock:
            wanted = [columns for columns in dict.fromkeys(asked) if columns not in self._kept]
            log_cells = [
                math.log(len(states) + bool(n)) for states, n in zip(self.states, self._n_missing, strict=True)
            ]
            most = self._engine.cells_a_pass if cells_a_pass is None else cells_a_pass
            blocks = cover(wanted, log_cells, min(most, self._engine.cells_a_block))
            batches = _batches(blocks, log_cells, most)
            done = 0
            for batch in batches:
                try:
                    self._count(batch, most)
                except SourceError as error:
                    raise SourceError(
                        f"{error}; {done} of the {len(wanted)} sets that were asked for are counted and kept, and "
                        "asking again goes on from there"
                    ) from error
                done += sum(len(served) for _, served in batch)
            return [self._kept[columns] for columns in asked]

    def close(self) -> None:
        """Let go of the source; counts already handed out stay."""
        self._closed()

    def __enter__(self) -> OutOfCoreSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        columns = "1 column" if len(self.names) == 1 else f"{len(self.names)} columns"
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows} rows"
        cells = "1 missing cell" if self.n_missing == 1 else f"{self.n_missing or 'no'} missing cells"
        return f"OutOfCoreSource({rows} x {columns}, {cells})"

    def _as_bits(self, columns: Sequence[str] | Sequence[int]) -> int:
        if isinstance(columns, str):
            raise ArgumentTypeError(f"sets holds {columns!r}; a set is a list of names: [{columns!r}]")
        bits = 0
        for column in columns:
            if isinstance(column, str):
                if column not in self.names:
                    raise ArgumentError(f"sets names {column!r}, which is no column{near(column, self.names)}")
                position = self.names.index(column)
            else:
                position = int(column)
            if not 0 <= position < len(self.names):
                raise ArgumentError(f"sets holds the column {position}; columns are 0 to {len(self.names) - 1}")
            if bits >> position & 1:
                raise ArgumentError(f"sets has a set with the column {self.names[position]!r} twice")
            bits |= 1 << position
        return bits

    def _count(self, batch: Sequence[Block], most: int) -> None:
        """Count the sets of some blocks in one pass, and keep them together."""
        new: dict[int, SetCounts] = {}
        asked = [(columns, served) for columns, served in batch if columns]
        blocks = [members_of(columns) for columns, _ in asked]
        found = self._engine.count_blocks(blocks, max(most, _MOST_DISTINCT)) if blocks else []
        for (columns, served), groups in zip(asked, found, strict=True):
            members = members_of(columns)
            if groups is None:
                raise TableError(
                    f"columns {[self.names[j] for j in members]} have more than {max(most, _MOST_DISTINCT)} distinct "
                    "rows; ask for smaller sets (max_parents)"
                )
            if isinstance(groups, Groups):
                self._check(groups)
            marginals = Marginals(groups, members, self.n_states)
            new.update((one, marginals.of(one)) for one in served)
        for columns, _ in batch:
            if not columns:
                codes, counts = np.empty((1, 0), dtype=np.int16), np.array([self.n_rows], dtype=np.int64)
                new[0] = SetCounts((), np.empty(0, dtype=np.int64), codes, counts)
        self._kept.add(new)

    def _check(self, found: Groups) -> None:
        if unseen(found.codes):
            raise changed(self._engine.label, "it has values that it had not")


def _some_rows(engine: Engine, seen: list[Seen]) -> list[Seen]:
    if not engine.n_rows:
        raise TableError(f"{engine.label} has columns but no rows")
    return seen


def _of_states(seen: Seen, coding: Coding) -> tuple[int, ...]:
    """How often each state of a column occurs, as far as the first passes tell."""
    if coding.cuts is not None or not coding.states or seen.n_each is None:
        return ()
    n_each = np.zeros(len(coding.states) + 1, dtype=np.int64)  # missing cells are last
    np.add.at(n_each, coding.codes[: seen.n_each.size], seen.n_each)
    return tuple(n_each[:-1].tolist())


def _batches(blocks: Sequence[Block], log_cells: Sequence[float], most: float) -> list[list[Block]]:
    """Share the blocks among passes, each within the bound on cells."""
    batches: list[list[Block]] = []
    room = 0.0
    for block in blocks:
        cells = math.exp(min(700.0, sum(log_cells[j] for j in members_of(block[0]))))
        if not batches or cells > room:
            batches.append([])
            room = most
        batches[-1].append(block)
        room -= cells
    return batches
