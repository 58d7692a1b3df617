"""What becomes a category: the rules that turn columns of any source into states and codes.

A source (`doxa.data.duck` for files, `doxa.data.series` for frames) hands over a `Column`: what its
cells are, its distinct values, and how to fetch the rows.  The rules here are the same for all of them.  How numbers
are cut into bins is not here (`doxa.data.bins`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from doxa.data.bins import Binning, Cuts, Rank, check_bins, codes_of_numbers, find_cuts, informative_cuts, rank_in
from doxa.data.options import LEAVE_OUT, LEAVE_OUT_MANY, MISSING, Among, check_columns, near, shown
from doxa.data.table import MAX_STATES, Table, collapsed
from doxa.data.transforms import check_transforms, transform_of
from doxa.errors import ArgumentError, TableError
from doxa.text import in_message

MAX_INTEGERS = 20  # an integer column with more distinct values is a measurement, not a category

# Numbers as they are written in text files, for Python's re and DuckDB's RE2 alike.  "3.0" is an integer
# because pandas writes so the integers of a column that has missing cells.
INTEGER = r"[ \t]*[+-]?[0-9]+([.]0*)?[ \t]*"
NUMBER = r"[ \t]*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)[ \t]*"

Kind = Literal["text", "ordered", "integer", "decimal"]

_FEW = 3  # distinct values of a column of numbers: it may well be a category
_NEARLY_ALL = 0.9  # of the rows: texts of which so many differ tell rows apart
_LONG = 30  # characters of a cell: sentences
_YEARS = range(1500, 2200)  # whole numbers that follow each other and are no numbers of rows
_NAME_OF_IDENTIFIER = re.compile(r"(.*[^a-z])?(id|ids|identifier|index|key|rownames?|uuid|unnamed: \d+)", re.IGNORECASE)

_log = logging.getLogger("doxa")


def _in_message(record: logging.LogRecord) -> bool:
    """Notices repeat names and cells as errors do: cut, and without control characters."""
    record.msg, record.args = in_message(record.getMessage()), ()
    return True


_log.addFilter(_in_message)


@dataclass(frozen=True)
class Reading:
    """How a table is read: the options of `doxa.read_table`, which `choose` holds against the names of the columns."""

    columns: Any = None
    missing: tuple[str, ...] = MISSING
    bins: Any = None
    drop: Any = None
    numbers: Any = None
    categories: Any = None
    counts: str | None = None
    transform: Any = None
    known: frozenset[str] = frozenset()  # columns that are never taken for identifiers

    def choose(self, names: Sequence[str]) -> tuple[list[int], Binning | dict[str, Binning] | None]:
        """Positions of the columns that are read, that of counts among them, and the bins of those that are cut."""
        among = isinstance(self.columns, Among)
        chosen = self.columns.there(names) if among else check_columns(self.columns, names)
        if self.drop is not None:
            dropped = check_columns(self.drop, names, "drop")
            both = [names[j] for j in dropped if j in chosen] if self.columns is not None else []
            if both:
                raise ArgumentError(f"columns and drop both name {both[0]!r}; take it out of one of them")
            chosen = [j for j in chosen if j not in dropped]
            if not chosen:
                raise ArgumentError("drop names every column; leave one in")
        if self.counts is not None:
            if self.counts not in names:
                raise ArgumentError(f"counts names {self.counts!r}, which is no column{near(str(self.counts), names)}")
            where = names.index(self.counts)
            chosen = [*(j for j in chosen if j != where), where]
        read = [names[j] for j in chosen if names[j] != self.counts]
        bins = check_bins(self.bins, read)
        named = {
            "bins": list(bins) if isinstance(bins, dict) else [],
            "numbers": [] if self.numbers is None else [read[j] for j in check_columns(self.numbers, read, "numbers")],
            "categories": []
            if self.categories is None
            else [read[j] for j in check_columns(self.categories, read, "categories")],
        }
        for name in check_transforms(self.transform, read):
            for option in ("bins", "categories"):
                if name in named[option]:
                    raise ArgumentError(f"transform and {option} both name {name!r}; only numbers are transformed")
        for (one, ours), (other, theirs) in combinations(named.items(), 2):
            for name in ours:
                if name in theirs:
                    raise ArgumentError(f"{one} and {other} both name {name!r}; a column is one or the other")
        return chosen, bins

    def refuse_where_counted(self) -> None:
        """Raise `ArgumentError` if something is asked that rows counted where they are cannot have."""
        for name in ("numbers", "categories", "counts", "transform"):
            if getattr(self, name) is not None:
                raise ArgumentError(
                    f"{name} is given, and the rows of this source are counted where they are, without it; give a "
                    "table that is held in memory, or leave it out"
                )


@dataclass(frozen=True)
class Column:
    """One column of a source."""

    name: str
    kind: Kind  # "ordered": the source fixes the states and their order
    n_distinct: int  # distinct values present
    labels: Sequence[str] | None  # distinct values in any order ("ordered": the states); None beyond MAX_STATES
    codes: Callable[[], NDArray[np.integer[Any]]]  # place in `labels` of every row, -1 if missing
    numbers: Callable[[], NDArray[np.float64]] | None = None  # value of every row, NaN if missing
    ranked: tuple[int, Rank] | None = None  # cells present and how to rank them, where rows are not at hand

    @property
    def is_number(self) -> bool:
        """Whether the column can be cut into bins."""
        return self.kind in ("integer", "decimal")

    @property
    def needs_bins(self) -> bool:
        """Whether the column is no category unless it is cut into bins."""
        return self.kind == "decimal" or (self.kind == "integer" and self.n_distinct > MAX_INTEGERS)


def code_table(
    columns: Sequence[Column],
    bins: Binning | Mapping[str, Binning] | None,
    reading: Reading | None = None,
    n_rows: int | None = None,
) -> Table:
    """Code the columns and collapse identical rows.

    Columns that are no categories and not cut into bins hold numbers.  Columns that look like identifiers are left out,
    and the log says so.  Without ``n_rows``, rows are counted where they are: numbers and identifiers are refused.
    """
    times = None
    asked_for = Reading() if reading is None else reading
    if asked_for.counts is not None:
        times = _times(next(column for column in columns if column.name == asked_for.counts))
        columns = [column for column in columns if column.name != asked_for.counts]
    if n_rows is not None:
        columns = _without_identifiers(columns, bins, asked_for, n_rows)
    _refuse_empty(columns)
    scales = asked_for.transform or {}
    asked, kept = {*(asked_for.numbers or ()), *scales}, asked_for.categories or ()
    binning = {c.name: None if c.name in asked or c.name in kept else _bins_of(c, bins) for c in columns}
    of_numbers = [c for c in columns if c.name in asked or (_needs_bins(c, binning) and c.name not in kept)]
    if n_rows is None:
        refuse_numbers(of_numbers)
    for column in columns:
        if binning[column.name] is None and column not in of_numbers:
            _refuse_many_states(column)
    names = tuple(column.name for column in columns)
    values = {
        names.index(c.name): _numbers_of(c, "transform" if c.name in scales else "numbers", asked_for.known)
        for c in of_numbers
    }
    coded: dict[int, tuple[tuple[str, ...], NDArray[np.int16]]] = {
        j: ((), np.where(np.isnan(numbers), -1, 0).astype(np.int16)) for j, numbers in values.items()
    }
    cuts: dict[str, tuple[float, ...]] = {}
    measured: dict[str, NDArray[np.float64]] = {}
    categories = [j for j in range(len(columns)) if j not in values]
    for j in sorted(categories, key=lambda j: _is_supervised(binning[names[j]])):  # their targets before these
        column, own = columns[j], binning[names[j]]
        if own is None:
            coded[j] = _code(column)
        else:
            assert column.numbers is not None
            measured[column.name] = column.numbers()
            if n_rows is not None:
                refuse_infinite(column.name, measured[column.name], np.arange(n_rows))
            if _is_supervised(own) and n_rows is None:
                raise TableError(
                    f"the bins of column {column.name!r} are supervised, and the rows of this source are counted where "
                    "they are; give cuts, a number of bins, or a table that is held in memory"
                )
            target = _target(own, names, coded, values, binning) if own.method == "supervised" else None
            found = _cut(column, own, measured[column.name], target)
            cuts[column.name] = tuple(found.cuts.tolist())
            coded[j] = found.labels, codes_of_numbers(found.cuts, measured[column.name])
    codes = [coded[j][1] for j in range(len(columns))]
    transforms = {
        names[j]: transform_of(names[j], scales[names[j]], column, times)
        for j, column in values.items()
        if names[j] in scales
    }
    if times is not None:
        rows = np.flatnonzero(times)
        codes, times = [part[rows] for part in codes], times[rows]
        values = {j: part[rows] for j, part in values.items()}
        measured = {name: np.repeat(part[rows], times) for name, part in measured.items()}
    states = tuple(coded[j][0] for j in range(len(columns)))
    return collapsed(names, states, codes, times, numbers=values, cuts=cuts, measured=measured, transforms=transforms)


def _is_supervised(binning: Binning | None) -> bool:
    return binning is not None and binning.method == "supervised"


def _target(
    binning: Binning,
    names: Sequence[str],
    coded: Mapping[int, tuple[tuple[str, ...], NDArray[np.int16]]],
    values: Mapping[int, Any],
    others: Mapping[str, Binning | None],
) -> NDArray[np.int16]:
    """The codes of the column that supervised cuts are to tell of."""
    if binning.target not in names:
        raise TableError(f"bins are supervised by {binning.target!r}, which was left out; name it in categories=[...]")
    at = names.index(binning.target)
    if at in values or _is_supervised(others[binning.target]):
        what = "holds numbers" if at in values else "is cut by another column itself"
        raise TableError(
            f"bins are supervised by {binning.target!r}, which {what}; name a column of categories, or cut it by bins "
            "of its own"
        )
    return coded[at][1]


def _cut(column: Column, binning: Binning, numbers: NDArray[np.float64], target: NDArray[np.int16] | None) -> Cuts:
    n_present, ranked = rank_in(numbers) if column.ranked is None else column.ranked
    refuse_infinite(column.name, ranked([0, n_present - 1]))
    informative = None if target is None else partial(informative_cuts, numbers, target)
    return find_cuts(column.name, binning, n_present, ranked, informative)


def _without_identifiers(
    columns: Sequence[Column],
    bins: Binning | Mapping[str, Binning] | None,
    reading: Reading,
    n_rows: int,
) -> list[Column]:
    """Leave out columns that tell rows apart, but for those that the user names, and unless there are no others."""
    named = {
        *reading.known,
        *(reading.transform or ()),
        *(reading.columns or ()),
        *(reading.numbers or ()),
        *(reading.categories or ()),
    }
    named |= set(bins) if isinstance(bins, Mapping) else set()
    left_out = [c for c in columns if c.name not in named and _looks_like_identifier(c, n_rows)]
    if len(left_out) == len(columns):
        return list(columns)
    for column in left_out:
        keyword = "numbers" if column.is_number else "categories"
        _log.warning(
            "column %r is left out: it looks like %s, with %d distinct values in %d rows; %s=[%r] or --%s keeps it",
            *(column.name, "row numbers or identifiers" if column.is_number else "identifiers or free text"),
            *(column.n_distinct, n_rows, keyword, column.name, keyword),
        )
    return [column for column in columns if column not in left_out]


def _looks_like_identifier(column: Column, n_rows: int) -> bool:
    if column.n_distinct <= MAX_INTEGERS or column.kind == "decimal":
        return False
    if column.kind == "integer":
        if column.n_distinct < n_rows or column.numbers is None:
            return False
        numbers = column.numbers()
        low, high = float(numbers.min()), float(numbers.max())
        is_count = low % 100 in (0, 1) and high - low == n_rows - 1 and not (low in _YEARS and high in _YEARS)
        return is_count or _NAME_OF_IDENTIFIER.fullmatch(column.name) is not None
    labels = column.labels
    if labels is not None and 2 * sum(re.fullmatch(NUMBER, label) is not None for label in labels) > len(labels):
        return False  # numbers with some odd texts among them, which the user is told
    if column.n_distinct >= _NEARLY_ALL * n_rows:
        return True
    is_long = labels is not None and sum(map(len, labels)) >= _LONG * len(labels)
    return is_long and 2 * column.n_distinct >= n_rows


def _needs_bins(column: Column, binning: Mapping[str, Binning | None]) -> bool:
    return column.needs_bins and binning[column.name] is None


def _times(column: Column) -> NDArray[np.int64]:
    """How often each row occurs."""
    numbers = column.numbers() if column.is_number and column.numbers is not None else np.array([np.nan])
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 2**53)))
    if wrong.size:
        value = f"{numbers[wrong[0]]:g} in row {wrong[0] + 1}" if column.is_number else "no number"
        raise TableError(f"counts names {column.name!r}, which has {value}; counts are whole numbers, 0 or more")
    if not numbers.any():
        raise TableError(f"counts names {column.name!r}, whose counts are all 0; there is no row")
    return numbers.astype(np.int64)


def _numbers_of(column: Column, option: str = "numbers", known: Collection[str] = ()) -> NDArray[np.float64]:
    """Value of every row of a column of numbers, NaN if missing."""
    if not column.is_number or column.numbers is None:
        raise TableError(f"{option} names {column.name!r}, whose values are not numbers; leave it out of {option}")
    numbers = column.numbers()
    refuse_infinite(column.name, numbers, np.arange(len(numbers)))
    if column.n_distinct <= _FEW and column.name not in known:
        _log.warning("column %r is taken as numbers, and has %d distinct values", column.name, column.n_distinct)
    return numbers


def kind_of_texts(name: str, labels: Sequence[str]) -> Kind:
    """Say what the distinct cells of an untyped column are.

    Integers written in two ways ("1" and "01") would have to be renamed to be one state: text, unless over 20 differ.
    """
    numbers = [label for label in labels if re.fullmatch(NUMBER, label)]
    if len(numbers) < len(labels):
        if len(numbers) > MAX_INTEGERS:
            odd = sorted(set(labels) - set(numbers))
            _log.warning(
                "column %r is read as text: %d of its %d distinct values are numbers, but not %s; "
                "if that means missing, say so with missing=[...] or --missing",
                *(name, len(numbers), len(labels), shown(odd)),
            )
        return "text"
    if not all(re.fullmatch(INTEGER, label) for label in labels):
        return "decimal"
    if len(labels) <= MAX_INTEGERS and len({Decimal(label.strip()) for label in labels}) < len(labels):
        return "text"
    return "integer"


def spread(values: NDArray[Any], is_missing: NDArray[np.bool_], absent: Any) -> NDArray[Any]:
    """Put the present values back in their rows."""
    rows = np.full(is_missing.size, absent, dtype=values.dtype)
    rows[~is_missing] = values
    return rows


def refuse_infinite(name: str, numbers: NDArray[Any], rows: NDArray[np.intp] | None = None) -> None:
    """Refuse numbers that no bin can hold; ``rows`` are the rows that they stand in, where these are known."""
    if numbers.dtype.kind == "f" and np.isinf(numbers).any():
        place = "" if rows is None else f" in row {int(rows[np.isinf(numbers)].min()) + 1}"
        raise TableError(
            f"column {name!r} contains a number{place} that is infinite or too large for a float; "
            f"write missing cells as empty, or {LEAVE_OUT}"
        )


def _bins_of(column: Column, bins: Binning | Mapping[str, Binning] | None) -> Binning | None:
    """How a column is to be cut, None if it is not."""
    if bins is None or isinstance(bins, Binning):
        return bins if column.needs_bins else None
    if column.name in bins and not column.is_number and column.n_distinct:
        raise TableError(f"bins names {column.name!r}, whose values are not numbers; only numbers can be cut into bins")
    return bins.get(column.name)


def _code(column: Column) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """States and codes of a column of categories."""
    assert column.labels is not None
    order = _order(column.kind, column.labels)
    code_of = np.full(len(order) + 1, -1, dtype=np.int16)  # its last entry serves -1
    code_of[order] = np.arange(len(order), dtype=np.int16)
    return tuple(column.labels[place] for place in order), code_of[column.codes()]


def _order(kind: Kind, labels: Sequence[str]) -> list[int]:
    """Order the states: texts as Python sorts them, numbers by size, the rest as they come."""
    places = range(len(labels))
    if kind in ("integer", "decimal"):
        return sorted(places, key=lambda place: Decimal(labels[place].strip()))
    return sorted(places, key=lambda place: labels[place]) if kind == "text" else list(places)


class EmptyColumnsError(TableError):
    """Some columns (``empty`` of all ``names``) have no value, and so no states; ``n_rows`` is 0 where rows were not
    read.
    """

    def __init__(self, message: str, names: list[str], empty: list[str], n_rows: int = 0) -> None:
        super().__init__(message)
        self.names = names
        self.empty = empty
        self.n_rows = n_rows


class NumbersCountedError(TableError):
    """Rows that are counted where they are have columns of numbers."""


def _refuse_empty(columns: Sequence[Column]) -> None:
    empty = [column.name for column in columns if not column.n_distinct]
    if empty:
        raise EmptyColumnsError(
            f"{_columns(len(empty))} {shown(empty)}: every cell is missing, so there are no states; "
            f"{LEAVE_OUT_MANY}, or say with missing=[...] or --missing which texts mean missing",
            [column.name for column in columns],
            empty,
            len(columns[0].codes()),
        )


def refuse_numbers(columns: Sequence[Column]) -> None:
    """Raise `NumbersCountedError` if there is any of these columns."""
    if not columns:
        return
    described = ", ".join(f"{column.name!r} ({_numbers_seen(column)})" for column in columns[:10])
    rest = f" and {len(columns) - 10} more" if len(columns) > 10 else ""
    raise NumbersCountedError(
        f"{_columns(len(columns))} {described}{rest}: rows that are counted where they are hold categories, and "
        f"numbers are categories only if they are integers of at most {MAX_INTEGERS} distinct values; cut into "
        f"quantile bins with bins=4 or bins={{{columns[0].name!r}: 4}} (--bins 4 or --bins NAME=4), or "
        f"{LEAVE_OUT_MANY}; doxa.learn and doxa learn take such a source as it is, and learn from its moments"
    )


def _numbers_seen(column: Column) -> str:
    distinct = f"{column.n_distinct} distinct {'integer' if column.kind == 'integer' else 'number'}"
    return distinct + ("s" if column.n_distinct > 1 else "") + (" with decimals" if column.kind == "decimal" else "")


def _refuse_many_states(column: Column) -> None:
    n_states = column.n_distinct if column.labels is None else len(column.labels)
    if n_states > MAX_STATES:
        raise TableError(
            f"column {column.name!r} has {n_states} distinct values, and a category at most {MAX_STATES}: "
            f"it looks like an identifier or free text; {LEAVE_OUT}, or group its values first"
        )


def _columns(number: int) -> str:
    return "column" if number == 1 else "columns"
