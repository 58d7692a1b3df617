"""How features become categories: learned from the rows fitted to, and used again for new rows.

Numbers are cut into bins of about equal weight, or stay numbers; texts, booleans, categories and a few different whole
numbers are taken as they are.  The codes are those of `doxa.data.Table`: from 0, and -1 where a cell is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Ints
from doxa.data.coding import MAX_INTEGERS
from doxa.data.options import shown
from doxa.data.table import MAX_STATES
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "CategoryColumn",
    "CodedColumn",
    "MeasuredColumn",
    "NumberColumn",
    "category_flags",
    "is_missing",
    "learn_column",
    "unlike",
]

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """A feature whose values are states, labels in the order of the codes; ``numeric``: 1 and 1.0 and "1" are one
    state.
    """

    name: str
    labels: tuple[str, ...]
    codes: dict[Hashable, int]
    numeric: bool

    @property
    def varies(self) -> bool:
        """Whether there is more than one state."""
        return len(self.labels) > 1

    @cached_property
    def value_of(self) -> dict[str, Hashable]:
        """The value that each label stands for."""
        return dict(zip(self.labels, self.codes, strict=True))

    def code(self, values: Values) -> Ints:
        """Codes, shape (n_rows,); the number of states where a value was never seen."""
        if self.numeric:
            numbers = _numbers(self.name, values)
            distinct, place = np.unique(numbers, return_inverse=True)
            found = [-1 if np.isnan(value) else self.codes.get(float(value), len(self.labels)) for value in distinct]
            return np.array(found, dtype=np.int64)[place]
        gone = is_missing(values)
        try:
            found = [
                -1 if out else self.codes.get(value, len(self.labels))
                for value, out in zip(values.tolist(), gone.tolist(), strict=True)
            ]
        except TypeError:
            raise _unhashable(self.name, values) from None
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A feature that is cut into intervals ``"< 1.5"``, ``"[1.5, 2)"``, ``">= 2"`` at rising ``cuts``, each in the one
    above.
    """

    name: str
    labels: tuple[str, ...]
    cuts: NDArray[np.float64]

    @property
    def varies(self) -> bool:
        """Whether there is more than one state."""
        return len(self.labels) > 1

    def code(self, values: Values) -> Ints:
        """Codes, shape (n_rows,)."""
        numbers = _numbers(self.name, values)
        return np.where(np.isnan(numbers), -1, np.searchsorted(self.cuts, numbers, side="right")).astype(np.int64)


@dataclass(frozen=True, eq=False)
class MeasuredColumn:
    """A feature that stays a column of numbers; ``varies``: the rows learned from have more than one of them."""

    name: str
    varies: bool
    labels: tuple[str, ...] = ()

    def code(self, values: Values) -> Ints:
        """0 where there is a number, shape (n_rows,)."""
        return np.where(np.isnan(self.measure(values)), -1, 0).astype(np.int64)

    def measure(self, values: Values) -> NDArray[np.float64]:
        """The numbers, NaN where missing, shape (n_rows,)."""
        return _numbers(self.name, values)


CodedColumn = CategoryColumn | NumberColumn | MeasuredColumn


def category_flags(X: Any) -> list[bool] | None:
    """Which columns of a data frame are categories by their type, whatever their values; None for what is no frame."""
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    kinds = (nw.Categorical, nw.Enum, nw.Boolean, nw.String)
    return [isinstance(frame.schema[name], kinds) for name in frame.columns]


def learn_column(
    name: str, values: Values, counts: Ints, bins: int | None, is_category: bool, most_integers: int = MAX_INTEGERS
) -> CodedColumn:
    """Learn what the states of a feature are, of values of any make (None, NaN and ``pandas.NA`` are missing).

    ``counts`` is how many times each row was seen, at least once; ``is_category`` makes every value a state, even if
    all are numbers, and ``most_integers`` is how many different whole numbers are states.  Other numbers stay numbers
    where ``bins`` is None.  A column is without states where every cell is missing.

    >>> ages = np.array([18.5, 25.0, np.nan, 40.0, 71.0])
    >>> column = learn_column("age", ages, np.ones(5, dtype=np.int64), bins=2, is_category=False)
    >>> column.labels, column.code(np.array([1.0, 40.0, 99.0, np.nan])).tolist()
    (('< 40', '>= 40'), [0, 1, 1, -1])
    """
    if is_category or not _are_numbers(values):
        return _category(name, values)
    numbers = _numbers(name, values)
    here = ~np.isnan(numbers)
    distinct, place = np.unique(numbers[here], return_inverse=True)
    if distinct.size <= most_integers and (distinct == np.round(distinct)).all():
        codes: dict[Hashable, int] = {float(value): k for k, value in enumerate(distinct)}
        return CategoryColumn(name, tuple(f"{value:.17g}" for value in distinct + 0.0), codes, numeric=True)
    if bins is None:
        return MeasuredColumn(name, varies=distinct.size > 1)
    weight = np.zeros(distinct.size, dtype=np.int64)
    np.add.at(weight, place, counts[here])
    cuts = distinct[_starts(weight, bins)]
    return NumberColumn(name, _interval_labels(cuts), cuts)


def is_missing(values: Values) -> NDArray[np.bool_]:
    """Where None, NaN or ``pandas.NA`` stands."""
    import pandas as pd

    return np.asarray(pd.isna(values), dtype=np.bool_)


def unlike(label: str, taken: Sequence[str]) -> str:
    """A label, with apostrophes if it is taken."""
    while label in taken:
        label += "'"
    return label


def _category(name: str, values: Values) -> CategoryColumn:
    gone = is_missing(values)
    try:
        distinct = set(values[~gone].tolist())
    except TypeError:
        raise _unhashable(name, values) from None
    if len(distinct) > MAX_STATES:
        raise ArgumentError(
            f"feature {name!r} has {len(distinct)} different values, and a category at most {MAX_STATES}: it looks "
            "like an identifier; leave it out, group its values, or make them numbers, which are cut into bins"
        )
    ordered = sorted(distinct, key=lambda value: (str(value), type(value).__name__))
    labels: list[str] = []
    for value in ordered:
        labels.append(unlike(str(value), labels))
    return CategoryColumn(name, tuple(labels), {value: k for k, value in enumerate(ordered)}, numeric=False)


def _starts(weight: Ints, bins: int) -> list[int]:
    """The distinct values at which intervals begin, but the first: as even in weight as ties allow.

    A value too heavy for its share is an interval of its own, and the rest is shared by the others, so that there are
    as many intervals as asked for, or one for each value.
    """
    found: list[int] = []
    begin = 0
    ends = np.cumsum(weight)
    for left in range(min(bins, weight.size), 1, -1):
        before = int(ends[begin - 1]) if begin else 0
        share = before + (int(ends[-1]) - before) / left
        last = weight.size - left  # leaves a value for each of the others
        k = int(np.abs(ends[begin : last + 1] - share).argmin())
        begin += k + 1
        found.append(begin)
    return found


def _interval_labels(cuts: NDArray[np.float64]) -> tuple[str, ...]:
    """Intervals, with as many digits as keep cuts apart, six at least."""
    if not cuts.size:
        return ("any",)
    texts: list[str] = []
    for digits in range(6, 18):
        texts = [f"{cut:.{digits}g}" for cut in cuts]
        if len(set(texts)) == cuts.size:
            break
    inner = [f"[{low}, {high})" for low, high in itertools.pairwise(texts)]
    return (f"< {texts[0]}", *inner, f">= {texts[-1]}")


def _are_numbers(values: Values) -> bool:
    if values.dtype.kind != "O":
        return values.dtype.kind in "fiu"
    present = values[~is_missing(values)].tolist()
    return all(isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) for value in present)


def _numbers(name: str, values: Values) -> NDArray[np.float64]:
    """Values as numbers, NaN where missing."""
    if values.dtype.kind == "O":
        numbers = np.full(len(values), np.nan)
        here = ~is_missing(values)
        try:
            numbers[here] = values[here].astype(np.float64)
        except (TypeError, ValueError):
            odd = [value for value in values[here].tolist() if not isinstance(value, Real)]
            raise ArgumentTypeError(
                f"feature {name!r} was fitted to numbers and has {shown(map(str, odd[:3]))}; an argument must be a "
                "string or a number of the kind fitted to"
            ) from None
    else:
        try:
            numbers = values.astype(np.float64)
        except ValueError as error:
            raise ArgumentTypeError(f"feature {name!r} was fitted to numbers, but {error}") from None
    if np.isinf(numbers).any():
        raise ArgumentError(f"feature {name!r} contains infinity; write NaN where a cell is missing")
    return numbers


def _unhashable(name: str, values: Values) -> ArgumentTypeError:
    for value in values.tolist():
        try:
            hash(value)
        except TypeError:
            break
    return ArgumentTypeError(
        f"feature {name!r} has the cell {value!r}, which cannot be a state; a cell must be a string or a number"
    )
