"""The table every question is asked of: columns of categories and of numbers, identical rows held once with a count.

Codes count the states of a column of categories from 0 and are -1 where the cell is missing; the states' labels
stand beside them.  A column of numbers has no states, the code 0 where it is observed, and its values beside the codes.
How cells become codes is not here (`doxa.data.coding`), nor is any file or frame.

Identical rows are one row with a count.  Rows become keys by mixed radix, a column at a time; whenever the next column
would overflow the key, the keys are replaced by their ranks (there are at most as many as rows) and the product goes
on.  Nothing is hashed, so no two rows are ever confused, and the order is that of first occurrence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.data.options import LEAVE_OUT_MANY, check_columns, shown
from doxa.data.slices import Slices
from doxa.data.transforms import Transform
from doxa.errors import TableError
from doxa.text import counted

__all__ = ["MAX_STATES", "Table", "check_categories", "collapsed", "group_rows", "plain"]

_LARGEST_KEY = 2**62


def group_rows(columns: Sequence[NDArray[np.integer[Any]]], n_rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Group equal rows of columns of codes: where each first occurs, increasing, and the group of every row."""
    keys = np.zeros(n_rows, dtype=np.int64)
    n_keys = 1
    for codes in columns:
        radix = int(codes.max(initial=-1)) + 2  # -1 is a digit too
        if n_keys * radix > _LARGEST_KEY:
            distinct, keys = np.unique(keys, return_inverse=True)
            n_keys = distinct.size
        keys = keys * radix + (codes.astype(np.int64) + 1)
        n_keys *= radix
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[group]


MAX_STATES = 1000  # a column with more distinct values names its rows rather than sorting them
_MAX_CODES = np.iinfo(np.int16).max


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A table of categories and numbers, with identical rows collapsed to counts.

    Made by `doxa.read_table` or `Table.from_codes`; never changed afterwards.  A table that was counted where it lives
    (a large file, a database, a lazy frame) has counts, but does not know in which order its rows were.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    states : tuple of tuple of str
        Labels of the states of each column, in the order of their codes; none for a column of numbers.
    codes : ndarray of int16, shape (n_distinct, n_columns)
        Distinct rows in order of first occurrence; -1 is missing, and 0 stands for every number.  Rising, where the
        source has no order.  Read-only, C-contiguous.
    counts : ndarray of int64, shape (n_distinct,)
        How many times each distinct row occurs.  Read-only.
    numbers : ndarray of float64, shape (n_distinct, n_columns), or None
        The values of columns of numbers, NaN where they are missing and in columns of categories; None where no column
        holds numbers.  Read-only.
    cuts : mapping of str to tuple of float
        Of the columns that were cut into bins, the cuts between these: a number's code is how many are not above it.
    measured : mapping of str to ndarray of float64, shape (n_rows,)
        The numbers of those columns in the rows of the source, NaN where they are missing; empty where only counts are
        kept.  Read-only.
    transforms : mapping of str to Transform
        The scales on which columns of numbers are learned from, where these are not their own.
    interventions : ndarray of int8, shape (n_distinct, n_columns), or None
        0 where a cell came about by itself, -1 where somebody set it, and 1 where somebody changed how it comes about
        (`doxa.data.interventions`); None where nobody intervened.  Read-only.
    moments : str or None
        None, if the rows are those of the source.  Else they only have their counts, means and sums of products in each
        configuration of the categories, and this is the digest of what they were made from
        (`doxa.data.large.moments`).
    slices : Slices or None
        What the rows have to do with each other, if they are moments in time with their past; else None.

    Examples
    --------
    >>> table = Table.from_codes(["rain", "wet"], [["no", "yes"]] * 2, [[0, 0], [1, 1], [0, 0], [1, -1]])
    >>> table
    Table(4 rows (3 distinct) x 2 columns, 1 missing cell)
    >>> table.counts.tolist(), table.row_index.tolist()
    ([2, 1, 1], [0, 1, 0, 2])
    """

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    codes: NDArray[np.int16]
    counts: NDArray[np.int64]
    _row_index: NDArray[np.int32] | NDArray[np.int64] | None
    numbers: NDArray[np.float64] | None = None
    cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    measured: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    interventions: NDArray[np.int8] | None = None
    moments: str | None = None
    slices: Slices | None = None

    @classmethod
    def from_codes(
        cls,
        names: Sequence[str],
        states: Sequence[Sequence[str]],
        codes: ArrayLike,
        counts: ArrayLike | None = None,
        numbers: ArrayLike | None = None,
        interventions: ArrayLike | None = None,
    ) -> Table:
        """Make a table from integer codes, and numbers where columns hold these.

        Parameters
        ----------
        names : sequence of str
            Names of the columns, all different.
        states : sequence of sequence of str
            Labels of the states of each column, in the order of their codes; none, ``()``, for columns of numbers.
        codes : array_like of int, shape (n, n_columns)
            From -1 (missing) to the number of states less one.  Copied.  Those of columns of numbers are not read.
        counts : array_like of int, shape (n,), optional
            How many times each row occurs, once each by default.  A row that occurs 0 times is no row.
        numbers : array_like of float, shape (n, n_columns), optional
            Values of columns of numbers, NaN where they are missing; other columns are not read.  Copied.
        interventions : array_like of int, shape (n, n_columns), optional
            -1 where the cell was set, 1 where somebody changed how it comes about, and 0 elsewhere.  Copied.

        Returns
        -------
        Table

        Raises
        ------
        TableError
            If names or labels repeat or are not text, or if shapes or codes do not agree with them.
        """
        columns_named, labels = tuple(names), tuple(tuple(column) for column in states)
        _check_labels(columns_named, labels)
        columns_named, labels = tuple(map(plain, columns_named)), tuple(tuple(map(plain, column)) for column in labels)
        matrix = np.asarray(codes)
        values = _check_numbers(numbers, matrix, columns_named, labels)
        if values:
            matrix = matrix.copy()
        for j, column in values.items():
            matrix[:, j] = np.where(np.isnan(column), -1, 0)
        _check_codes(matrix, columns_named, labels)
        times = np.ones(matrix.shape[0], dtype=np.int64) if counts is None else np.asarray(counts)
        _check_counts(times, matrix.shape[0])
        kept = np.flatnonzero(times)
        columns = [matrix[kept, j].astype(np.int16) for j in range(len(columns_named))]
        kept_numbers = {j: column[kept] for j, column in values.items()}
        done = None if interventions is None else _check_interventions(np.asarray(interventions), matrix, columns_named)
        return collapsed(
            columns_named,
            labels,
            columns,
            times[kept].astype(np.int64),
            numbers=kept_numbers,
            interventions=None if done is None else done[kept],
        )

    @property
    def has_row_order(self) -> bool:
        """Whether ``row_index`` can be asked for; False for tables that were counted where they live."""
        return self._row_index is not None

    @property
    def row_index(self) -> NDArray[np.int32] | NDArray[np.int64]:
        """For every row of the source, its row in ``codes``: int32 (int64 from 2**31 rows on), shape (n_rows,).

        Read-only.

        Raises
        ------
        TableError
            If the order of the rows is not known.
        """
        if self._row_index is None:
            raise TableError(
                f"the order of the {self.n_rows} rows is not known: they were counted where they are, and only "
                "distinct rows and counts were kept; give fewer rows where each row needs its own answer, or, if their "
                "order does not matter, Table.from_codes(table.names, table.states, table.codes, table.counts)"
            )
        return self._row_index

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, identical ones included."""
        return int(self.counts.sum())

    def own_counts(self, column: int) -> NDArray[np.int64]:
        """``counts``, and 0 where somebody intervened on the column, given by its position: shape (n_distinct,)."""
        if self.interventions is None:
            return self.counts
        return np.where(self.interventions[:, column] == 0, self.counts, 0)

    @property
    def mechanisms(self) -> NDArray[np.int8] | None:
        """How cells come about: ``interventions``; the past of moments, but for that of a stretch's first, as if set.

        So what happened at a moment counts once, where it was present.  None of complete tables in which nobody
        intervened, whose past says the same of all graphs.
        """
        if self.slices is None or self.slices.is_first is None:
            return self.interventions
        made = np.zeros(self.codes.shape, dtype=np.int8) if self.interventions is None else self.interventions.copy()
        made[:, self.n_present :] = np.where(self.slices.is_first[:, None], 0, -1)
        return made

    @property
    def n_unknown(self) -> int:
        """Number of missing cells; those that stand in several rows, as present and past, counted once."""
        if self.slices is None:
            return self.n_missing
        missing = (self.codes < 0)[self.row_index]
        later = self.slices.previous >= 0
        return int(missing[:, : self.n_present].sum() + missing[~later, self.n_present :].sum())

    @property
    def target_sets(self) -> tuple[tuple[str, ...], ...]:
        """Sets of columns on which somebody intervened in the same row; the empty one stands for rows without any."""
        if self.interventions is None:
            return ()
        found = np.unique(self.interventions != 0, axis=0)
        return tuple(tuple(self.names[j] for j in np.flatnonzero(one).tolist()) for one in found)

    @property
    def n_distinct(self) -> int:
        """Number of distinct rows."""
        return int(self.codes.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def n_present(self) -> int:
        """Number of columns, copies of the past not counted: those that can have parents."""
        return self.n_columns if self.slices is None else self.slices.width

    @cached_property
    def _n_states(self) -> NDArray[np.int64]:
        return np.array([max(1, len(labels)) for labels in self.states], dtype=np.int64)

    @property
    def n_states(self) -> NDArray[np.int64]:
        """Number of states of each column, shape (n_columns,); 1 for a column of numbers."""
        return self._n_states.copy()

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Which columns hold numbers, shape (n_columns,)."""
        return np.array([not labels for labels in self.states], dtype=np.bool_)

    @property
    def n_missing(self) -> int:
        """Number of missing cells, over all rows."""
        return int(self._missing.sum())

    @property
    def missing_by_column(self) -> dict[str, int]:
        """Number of missing cells of each column that has any."""
        return {name: int(count) for name, count in zip(self.names, self._missing, strict=True) if count}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, states, codes, counts, numbers and interventions, in hexadecimal.

        The same for the same content, whatever it was read from; another order of the rows that
        changes the order of first occurrences changes it.
        """
        shape = self.codes.shape if self.moments is None else self.moments  # how many rows have them is rounding
        labels = json.dumps([self.names, self.states, shape], ensure_ascii=True, separators=(",", ":"))
        content = hashlib.sha256(labels.encode("ascii"))
        if self.moments is not None:
            return content.hexdigest()
        content.update(self.codes.astype("<i2").tobytes())
        content.update(self.counts.astype("<i8").tobytes())
        if self.numbers is not None:
            content.update(self.numbers.astype("<f8").tobytes())
        if self.transforms:
            methods = sorted((name, transform.method) for name, transform in self.transforms.items())
            content.update(json.dumps(methods, ensure_ascii=True).encode("ascii"))
        if self.interventions is not None:
            content.update(b"interventions" + self.interventions.tobytes())
        if self.slices is not None:
            content.update(f"{self.slices.lags} lags".encode() + self.slices.previous.astype("<i8").tobytes())
        return content.hexdigest()

    def select(self, columns: Sequence[str]) -> Table:
        """Keep some of the columns, in the order given, and collapse again.

        Parameters
        ----------
        columns : sequence of str
            Names of columns.

        Returns
        -------
        Table

        Examples
        --------
        >>> table = Table.from_codes(["rain", "wet"], [["no", "yes"]] * 2, [[0, 0], [1, 1], [1, 0]])
        >>> table.select(["rain"])
        Table(3 rows (2 distinct) x 1 column, no missing cells)
        """
        positions = check_columns(columns, self.names)
        states = tuple(self.states[j] for j in positions)
        values = (
            {} if self.numbers is None else {k: self.numbers[:, j] for k, j in enumerate(positions) if not states[k]}
        )
        done = None if self.interventions is None else np.ascontiguousarray(self.interventions[:, positions])
        first, group = group_rows(_keys([self.codes[:, j] for j in positions], values, done), self.n_distinct)
        of_columns = {"cuts": self.cuts, "measured": self.measured, "transforms": self.transforms}
        return _frozen(
            tuple(self.names[j] for j in positions),
            states,
            self.codes[first][:, positions],
            _total(group, first.size, self.counts),
            None if self._row_index is None else group[self._row_index],
            {k: column[first] for k, column in values.items()},
            None if done is None else done[first],
            **{what: {name: own[name] for name in columns if name in own} for what, own in of_columns.items()},
        )

    def __repr__(self) -> str:
        rows, columns = counted(self.n_rows, "row"), counted(self.n_columns, "column")
        missing = counted(self.n_missing, "missing cell") if self.n_missing else "no missing cells"
        if self.moments is not None:
            return f"Table({rows}, of which the moments are kept, x {columns})"
        return f"Table({rows} ({self.n_distinct} distinct) x {columns}, {missing})"

    @cached_property
    def _missing(self) -> NDArray[np.int64]:
        """Missing cells of each column, shape (n_columns,)."""
        return np.array([self.counts[self.codes[:, j] < 0].sum() for j in range(self.n_columns)], dtype=np.int64)


def collapsed(
    names: tuple[str, ...],
    states: tuple[tuple[str, ...], ...],
    columns: Sequence[NDArray[np.int16]],
    counts: NDArray[np.int64] | None = None,
    *,
    in_order: bool = True,
    numbers: Mapping[int, NDArray[np.float64]] | None = None,
    interventions: NDArray[np.int8] | None = None,
    **of_columns: Mapping[str, Any],
) -> Table:
    """Make a table from checked columns of codes, one entry a row (or a row and its count).

    Unless ``in_order``, the table does not know the order of its rows.  ``numbers`` are values of columns by position,
    ``interventions`` has a row for each entry, and ``of_columns`` are ``cuts``, ``measured`` and ``transforms`` of
    `Table`.
    """
    n_rows = columns[0].size
    values = {} if numbers is None else numbers
    first, group = group_rows(_keys(columns, values, interventions), n_rows)
    codes = np.empty((first.size, len(columns)), dtype=np.int16)
    for j, column in enumerate(columns):
        codes[:, j] = column[first]
    times = np.ones(n_rows, dtype=np.int64) if counts is None else counts
    row_index = None if not in_order else group if counts is None else np.repeat(group, counts)
    kept = {j: column[first] for j, column in values.items()}
    total = _total(group, first.size, times)
    done = None if interventions is None else interventions[first]
    return _frozen(names, states, codes, total, row_index, kept, done, **of_columns)


def check_categories(table: Table, what: str, columns: Collection[str] | None = None) -> None:
    """Raise `TableError` if one of the columns holds numbers, which ``what``, a noun in the singular, cannot take."""
    pairs = zip(table.names, table.states, strict=True)
    named = [name for name, labels in pairs if not labels and (columns is None or name in columns)]
    if named:
        raise TableError(
            f"column{'s' * (len(named) > 1)} {shown(named)}: {what} takes categories, and numbers are categories only "
            f"if they are cut into bins, with bins=4 or bins={{{named[0]!r}: 4}} (--bins 4 or --bins NAME=4); "
            f"or {LEAVE_OUT_MANY}"
        )


def _keys(
    columns: Sequence[NDArray[np.int16]],
    numbers: Mapping[int, NDArray[np.float64]],
    interventions: NDArray[np.int8] | None = None,
) -> list[NDArray[np.integer[Any]]]:
    """Integers that differ where cells differ, or what was done to them: of numbers their ranks."""
    keys: list[NDArray[np.integer[Any]]] = list(columns)
    for j, values in numbers.items():
        keys[j] = np.where(columns[j] < 0, -1, np.unique(values, return_inverse=True)[1])
    return keys if interventions is None else [*keys, *interventions.T]


def plain(text: str) -> str:
    """Return a text as Python's own `str`, where it is of a type derived from it."""
    return str.__str__(text)


def _frozen(
    names: tuple[str, ...],
    states: tuple[tuple[str, ...], ...],
    codes: NDArray[np.int16],
    counts: NDArray[np.int64],
    row_index: NDArray[np.intp] | None,
    numbers: Mapping[int, NDArray[np.float64]],
    interventions: NDArray[np.int8] | None = None,
    **of_columns: Mapping[str, Any],
) -> Table:
    assert all(type(text) is str for texts in (names, *states) for text in texts)  # no np.str_, no pandas null
    own = np.ascontiguousarray(codes, dtype=np.int16)
    index: NDArray[np.int32] | NDArray[np.int64] | None = None
    if row_index is not None:
        index = row_index.astype(np.int32) if row_index.size < 2**31 else row_index.astype(np.int64)
        index.setflags(write=False)
    values = None
    if numbers:
        values = np.full(own.shape, np.nan)
        for j, column in numbers.items():
            values[:, j] = column + 0.0  # a negative zero is a zero
        values.setflags(write=False)
    for array in (own, counts, *(() if interventions is None else (interventions,))):
        array.setflags(write=False)
    for measurements in of_columns.get("measured", {}).values():
        measurements.setflags(write=False)
    made = Table(names, states, own, counts, index, values, **of_columns)  # type: ignore[arg-type]  # mappings
    return made if interventions is None else replace(made, interventions=interventions)


def _total(group: NDArray[np.intp], n_groups: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum the counts of each group in integers (a weighted bincount would sum in floats)."""
    total = np.zeros(n_groups, dtype=np.int64)
    np.add.at(total, group, counts)
    return total


def _check_labels(names: tuple[str, ...], states: tuple[tuple[str, ...], ...]) -> None:
    if not names:
        raise TableError("names is empty; a table has at least one column")
    if len(states) != len(names):
        raise TableError(
            f"states has {len(states)} entries and names has {len(names)}; give the states of every column"
        )
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise TableError(f"names[{position}] is {name!r}; a column's name is a text that is not empty")
        if name in seen:
            raise TableError(f"names[{position}] is {name!r} again; names must differ")
        seen.add(name)
    for name, labels in zip(names, states, strict=True):
        if len(labels) > _MAX_CODES:
            raise TableError(f"column {name!r} has {len(labels)} states; it needs 1 to {_MAX_CODES}")
        wrong = [label for label in labels if not isinstance(label, str)]
        if wrong:
            raise TableError(f"column {name!r} has the state {wrong[0]!r}; labels of states are text")
        if len(set(labels)) != len(labels):
            raise TableError(f"column {name!r} has two states of one label; labels must differ")


def _check_codes(codes: NDArray[np.generic], names: tuple[str, ...], states: tuple[tuple[str, ...], ...]) -> None:
    if codes.ndim != 2 or codes.shape[1] != len(names):
        raise TableError(f"codes has shape {codes.shape}; it must be (rows, {len(names)}), a column for every name")
    if codes.dtype.kind not in "iub":
        raise TableError(f"codes has dtype {codes.dtype}; codes are integers")
    for j, (name, labels) in enumerate(zip(names, states, strict=True)):
        column = codes[:, j].astype(object if codes.dtype == np.uint64 else np.int64)
        wrong = np.flatnonzero((column < -1) | (column >= max(1, len(labels))))
        if wrong.size:
            raise TableError(
                f"codes[{wrong[0]}, {j}] is {column[wrong[0]]}, and column {name!r} has {len(labels)} states; "
                f"codes are 0 to {len(labels) - 1}, or -1 for missing"
            )


def _check_numbers(
    numbers: ArrayLike | None, codes: NDArray[np.generic], names: tuple[str, ...], states: tuple[tuple[str, ...], ...]
) -> dict[int, NDArray[np.float64]]:
    """Values of the columns of numbers, by position."""
    positions = [j for j, labels in enumerate(states) if not labels]
    if not positions:
        return {}
    if numbers is None:
        raise TableError(f"column {names[positions[0]]!r} has no states and numbers is not given; give one of them")
    values = np.array(numbers, dtype=np.float64)
    if values.shape != codes.shape:
        raise TableError(f"numbers has shape {values.shape} and codes {codes.shape}; they must agree")
    for j in positions:
        infinite = np.flatnonzero(np.isinf(values[:, j]))
        if infinite.size:
            raise TableError(f"numbers[{infinite[0]}, {j}], of column {names[j]!r}, is infinite; numbers are finite")
    return {j: values[:, j] for j in positions}


def _check_interventions(
    interventions: NDArray[Any], codes: NDArray[np.generic], names: tuple[str, ...]
) -> NDArray[np.int8]:
    if interventions.shape != codes.shape:
        raise TableError(f"interventions has shape {interventions.shape} and codes {codes.shape}; they must agree")
    wrong = np.argwhere(~np.isin(interventions, (-1, 0, 1)))
    if len(wrong):
        i, j = wrong[0].tolist()
        raise TableError(f"interventions[{i}, {j}] is {interventions[i, j]}; it must be -1, 0 or 1")
    unseen = np.argwhere((interventions == -1) & (np.asarray(codes) < 0))
    if len(unseen):
        i, j = unseen[0].tolist()
        raise TableError(
            f"interventions[{i}, {j}] says that {names[j]!r} was set in this row, where it is missing; give the value "
            "that it was set to"
        )
    return interventions.astype(np.int8)


def _check_counts(counts: NDArray[np.generic], n_rows: int) -> None:
    if counts.shape != (n_rows,):
        raise TableError(f"counts has shape {counts.shape}; it must be ({n_rows},), a count for every row of codes")
    if counts.dtype.kind not in "iu":
        raise TableError(f"counts has dtype {counts.dtype}; counts are integers")
    negative = np.flatnonzero(counts.astype(np.int64) < 0)
    if negative.size:
        raise TableError(f"counts[{negative[0]}] is {counts[negative[0]]}; a count is not negative")
