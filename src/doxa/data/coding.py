"""What becomes a category: the rules that turn columns of any source into states and codes.

A source (`doxa.data.duck` for files, `doxa.data.series` for frames) hands over a `Column`: what its
cells are, its distinct values, and how to fetch the rows.  The rules here are the same for all of them.

Quantile bins: how a numeric column becomes categories when the user asks for it.

The cuts are values of the column, so that every bin holds at least one row; where the values are all
different the bins are those of the ordinary (interpolated) quantiles.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from doxa.data.options import LEAVE_OUT, LEAVE_OUT_MANY, shown
from doxa.data.table import MAX_STATES, Table, collapsed
from doxa.errors import TableError


def cut(name: str, numbers: NDArray[np.float64], n_bins: int) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Cut a column of numbers (nan is missing) into quantile bins: labels by interval, and the bin of every row or -1.

    There are fewer than ``n_bins`` where quantiles coincide, and the log says so.  The last interval contains its end.
    """
    present = numbers[~np.isnan(numbers)]
    low, high = float(present.min()), float(present.max())
    quantiles = np.quantile(present, np.arange(1, n_bins) / n_bins, method="higher")
    cuts = np.unique(quantiles[quantiles > low])
    if cuts.size == 0:
        raise TableError(
            f"column {name!r} cannot be cut into {n_bins} bins: its quantiles are all {low:g}, which leaves one bin; "
            f"ask for more bins, or {LEAVE_OUT}"
        )
    if cuts.size + 1 < n_bins:
        _log.warning(
            "column %r is cut into %d bins, not %d: some of its quantiles coincide", name, cuts.size + 1, n_bins
        )
    codes = np.where(np.isnan(numbers), -1, np.searchsorted(cuts, numbers, side="right")).astype(np.int16)
    return _interval_labels(np.array([low, *cuts, high])), codes


def _interval_labels(edges: NDArray[np.float64]) -> tuple[str, ...]:
    """Write intervals with as many digits as keep different edges apart, six at least."""
    texts: list[str] = []
    for digits in range(6, 18):
        texts = [_number_text(float(edge), digits) for edge in edges]
        if len(set(texts)) == np.unique(edges).size:
            break
    intervals = [f"[{left}, {right})" for left, right in itertools.pairwise(texts)]
    return (*intervals[:-1], intervals[-1][:-1] + "]")


def _number_text(number: float, digits: int) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.{digits}g}"


MAX_INTEGERS = 20  # an integer column with more distinct values is a measurement, not a category

# Numbers as they are written in text files, for Python's re and DuckDB's RE2 alike.  "3.0" is an integer
# because pandas writes so the integers of a column that has missing cells.
INTEGER = r"[ \t]*[+-]?[0-9]+([.]0*)?[ \t]*"
NUMBER = r"[ \t]*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)[ \t]*"

Kind = Literal["text", "ordered", "integer", "decimal"]

_log = logging.getLogger("doxa")


@dataclass(frozen=True)
class Column:
    """One column of a source."""

    name: str
    kind: Kind  # "ordered": the source fixes the states and their order
    n_distinct: int  # distinct values present
    labels: Sequence[str] | None  # distinct values in any order ("ordered": the states); None beyond MAX_STATES
    codes: Callable[[], NDArray[np.integer[Any]]]  # place in `labels` of every row, -1 if missing
    numbers: Callable[[], NDArray[np.float64]] | None = None  # value of every row, NaN if missing

    @property
    def is_number(self) -> bool:
        """Whether the column can be cut into bins."""
        return self.kind in ("integer", "decimal")

    @property
    def needs_bins(self) -> bool:
        """Whether the column is no category unless it is cut into bins."""
        return self.kind == "decimal" or (self.kind == "integer" and self.n_distinct > MAX_INTEGERS)


def code_table(columns: Sequence[Column], bins: int | Mapping[str, int] | None, *, take_numbers: bool = True) -> Table:
    """Code the columns and collapse identical rows.

    Columns that are no categories and not cut into bins hold numbers; unless ``take_numbers``, they are refused.
    """
    n_bins = {column.name: _bins_of(column, bins) for column in columns}
    _refuse_empty(columns)
    numbers = [column for column in columns if column.needs_bins and n_bins[column.name] is None]
    if not take_numbers:
        _refuse_numbers(numbers)
    for column in columns:
        if n_bins[column.name] is None and column not in numbers:
            _refuse_identifier(column)
    names = tuple(column.name for column in columns)
    values = {names.index(column.name): _numbers_of(column) for column in numbers}
    coded = [
        ((), np.where(np.isnan(values[j]), -1, 0).astype(np.int16)) if j in values else _code(column, n_bins[names[j]])
        for j, column in enumerate(columns)
    ]
    return collapsed(names, tuple(states for states, _ in coded), [codes for _, codes in coded], numbers=values)


def _numbers_of(column: Column) -> NDArray[np.float64]:
    """Value of every row of a column of numbers, NaN if missing."""
    assert column.numbers is not None  # what needs bins has numbers
    numbers = column.numbers()
    refuse_infinite(column.name, numbers)
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


def refuse_infinite(name: str, numbers: NDArray[Any]) -> None:
    """Refuse numbers that no bin can hold."""
    if numbers.dtype.kind == "f" and np.isinf(numbers).any():
        raise TableError(
            f"column {name!r} contains a number that is infinite or too large for a float; "
            f"write missing cells as empty, or {LEAVE_OUT}"
        )


def _bins_of(column: Column, bins: int | Mapping[str, int] | None) -> int | None:
    """Return the number of bins for a column, None if it is not to be cut."""
    if bins is None or isinstance(bins, int):
        return bins if column.needs_bins else None
    if column.name in bins and not column.is_number and column.n_distinct:
        raise TableError(f"bins names {column.name!r}, whose values are not numbers; only numbers can be cut into bins")
    return bins.get(column.name)


def _code(column: Column, n_bins: int | None) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    if n_bins is not None:
        assert column.numbers is not None
        numbers = column.numbers()
        refuse_infinite(column.name, numbers)
        return cut(column.name, numbers, n_bins)
    assert column.labels is not None
    order = _order(column.kind, column.labels)
    code_of = np.full(len(order) + 1, -1, dtype=np.int16)  # its last entry serves -1
    code_of[order] = np.arange(len(order), dtype=np.int16)
    return tuple(column.labels[place] for place in order), code_of[column.codes()]


def _order(kind: Kind, labels: Sequence[str]) -> list[int]:
    """Order the states: texts as Python sorts them, integers by size, the rest as they come."""
    places = range(len(labels))
    if kind == "integer":
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


def _refuse_numbers(columns: Sequence[Column]) -> None:
    if not columns:
        return
    described = ", ".join(f"{column.name!r} ({_numbers_seen(column)})" for column in columns[:10])
    rest = f" and {len(columns) - 10} more" if len(columns) > 10 else ""
    raise TableError(
        f"{_columns(len(columns))} {described}{rest}: rows that are counted where they are hold categories, and "
        f"numbers are categories only if they are integers of at most {MAX_INTEGERS} distinct values; cut into "
        f"quantile bins with bins=4 or bins={{{columns[0].name!r}: 4}} (--bins 4 or --bins NAME=4), or {LEAVE_OUT_MANY}"
    )


def _numbers_seen(column: Column) -> str:
    distinct = f"{column.n_distinct} distinct {'integer' if column.kind == 'integer' else 'number'}"
    return distinct + ("s" if column.n_distinct > 1 else "") + (" with decimals" if column.kind == "decimal" else "")


def _refuse_identifier(column: Column) -> None:
    n_states = column.n_distinct if column.labels is None else len(column.labels)
    if n_states > MAX_STATES:
        raise TableError(
            f"column {column.name!r} has {n_states} distinct values, and a category at most {MAX_STATES}: "
            f"it looks like an identifier; {LEAVE_OUT}, or group its values first"
        )


def _columns(number: int) -> str:
    return "column" if number == 1 else "columns"
