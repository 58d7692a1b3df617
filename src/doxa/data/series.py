"""Columns of frames of any make (pandas, Polars, PyArrow), through Narwhals.

What Narwhals does not tell is asked of the frame itself: the categories of a categorical, in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import Column, spread
from doxa.data.number import as_python, column_of_numbers, is_number_type, missing_numbers, number_column
from doxa.data.options import LEAVE_OUT
from doxa.data.table import MAX_STATES, plain
from doxa.errors import TableError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["frame_names", "series_column"]


def frame_names(names: list[Any]) -> list[str]:
    """Return the names of a frame's columns as plain texts, or refuse them."""
    for position, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise TableError(
                f"source: the name of column {position} is {name!r}, of type {type(name).__name__}; names are text: "
                "frame.columns = frame.columns.astype(str)"
            )
        if not name:
            raise TableError(f"source: column {position} of {len(names)} has no name; give it one")
    if not names:
        raise TableError("source has no columns")
    return [plain(name) for name in names]


def series_column(series: nw.Series[Any], name: str, missing: Sequence[str]) -> Column:
    """Describe a column by its type."""
    import narwhals.stable.v2 as nw

    kind = series.dtype
    if _holds_objects(series):  # Narwhals types such a column by its first hundred rows
        return _object_column(series, name, missing)
    if isinstance(kind, nw.Categorical | nw.Enum):
        return _categorical_column(series, name, missing)
    if kind == nw.String:
        return _label_column(name, series, missing)
    if not _holds_machine_numbers(series):
        return _object_column(series, name, missing)
    is_missing = np.asarray(series.is_null().to_numpy(), dtype=np.bool_)
    return number_column(name, series.drop_nulls().to_numpy(), is_missing, missing)


def _holds_objects(series: nw.Series[Any]) -> bool:
    """Whether a column is one of pandas that may hold objects of any types."""
    return series.implementation.is_pandas_like() and bool(series.to_native().dtype == object)


def _holds_machine_numbers(series: nw.Series[Any]) -> bool:
    """Whether a column is of a type that NumPy has; exact decimals and integers of 128 bits are not."""
    import narwhals.stable.v2 as nw

    if series.implementation.is_pandas_like() and series.to_native().dtype == np.float16:  # Narwhals 2.0 knows it not
        return True
    return series.dtype.is_numeric() and not isinstance(series.dtype, nw.Decimal | nw.Int128 | nw.UInt128)


def _label_column(name: str, series: nw.Series[Any], missing: Sequence[str]) -> Column:
    """Describe a column of texts; its nulls are missing, and so are the tokens."""
    is_missing = np.asarray(series.is_null().to_numpy(), dtype=np.bool_)
    return _text_column(name, series.drop_nulls().to_list(), is_missing, missing)


def _recoded(
    name: str, kind: Any, labels: list[str], codes: NDArray[Any], missing: Sequence[str], also: Container[str] = ()
) -> Column:
    """Describe a column of codes into labels, those of the labels that are tokens (or in ``also``) made missing."""
    kept = [label for label in labels if label not in missing and label not in also]
    if len(kept) < len(labels):
        place = {label: j for j, label in enumerate(kept)}
        code_of = np.array([*(place.get(label, -1) for label in labels), -1], dtype=np.int64)
        codes = code_of[codes]
    n_distinct = len(kept) if kind == "text" else np.unique(codes[codes >= 0]).size
    if kind == "text" and n_distinct > MAX_STATES:
        return Column(name, kind, n_distinct, None, lambda: codes)
    return Column(name, kind, n_distinct, kept, lambda: codes)


def _categorical_column(series: nw.Series[Any], name: str, missing: Sequence[str]) -> Column:
    """Describe a categorical with its own categories, those that never occur included.

    A Polars Categorical has none of its own (Polars keeps one pool for all columns): it is text.
    """
    import narwhals.stable.v2 as nw

    native: Any = series.to_native()
    if series.implementation.is_polars():
        if not isinstance(series.dtype, nw.Enum):
            return _label_column(name, series, missing)
        categories = list(series.dtype.categories)
        place = {category: j for j, category in enumerate(categories)}
        codes = np.array([place.get(value, -1) for value in series.to_list()], dtype=np.int64)
    elif series.implementation.is_pyarrow():
        categories, codes = _arrow_categories(name, native)
    elif hasattr(native, "cat"):
        categories, codes = list(native.cat.categories), np.asarray(native.cat.codes, dtype=np.int64)
    else:  # a dictionary of Arrow's in a frame of pandas
        categories, codes = _arrow_categories(name, native.array.__arrow_array__())
    labels = [plain(category) if isinstance(category, str) else str(category) for category in categories]
    if len(set(labels)) < len(labels):
        raise TableError(f"column {name!r} has two categories that are written alike; rename one of them")
    is_token = missing_numbers(missing)
    pairs = zip(labels, categories, strict=True)
    also = {label for label, category in pairs if is_number_type(type(category)) and is_token(as_python(category))}
    return _recoded(name, "ordered", labels, codes, missing, also)


def _arrow_categories(name: str, column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the categories of a dictionary column and the place of every row among them, -1 if missing.

    Every chunk has a dictionary of its own, which may hold a null, a NaN or one value twice.
    """
    from pyarrow import types

    if types.is_nested(column.type.value_type):
        raise _no_categories(name, str(column.type))
    place: dict[Any, int] = {}
    codes = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        absent = [value is None or value != value for value in values]  # NaN differs from itself
        found = [-1 if no else place.setdefault(value, len(place)) for value, no in zip(values, absent, strict=True)]
        rows = chunk.indices.cast("int64").fill_null(len(values)).to_numpy(zero_copy_only=False)
        codes.append(np.array([*found, -1], dtype=np.int64)[rows])
    return list(place), np.concatenate(codes)


def _object_column(series: nw.Series[Any], name: str, missing: Sequence[str]) -> Column:
    """Describe a column by the types of all its values: texts, booleans, numbers, or refuse it."""
    is_missing = np.asarray(series.is_null().to_numpy(), dtype=np.bool_)
    present = list(itertools.compress(series.to_list(), ~is_missing))
    types = set(map(type, present))
    if types and (series.dtype.is_temporal() or series.dtype.is_nested()):
        raise _no_categories(name, str(series.dtype))
    if all(issubclass(kind, str) for kind in types):
        return _text_column(name, present, is_missing, missing)
    if types <= {bool, np.bool_}:
        return _text_column(name, [str(bool(value)) for value in present], is_missing, missing)
    if all(is_number_type(kind) for kind in types):
        return column_of_numbers(name, present, is_missing, missing)
    if len(types) == 1:
        raise _no_categories(name, types.pop().__name__)
    raise TableError(
        f"column {name!r} mixes {' and '.join(sorted(kind.__name__ for kind in types))}; "
        f"make its values of one type (text: .astype(str)), or {LEAVE_OUT}"
    )


def _text_column(name: str, present: list[str], is_missing: NDArray[np.bool_], missing: Sequence[str]) -> Column:
    """Describe a column of texts, those present given in order.

    They are numbered by a dictionary, for pandas 2 cuts texts at a NUL before it compares them.
    """
    place = {text: j for j, text in enumerate(dict.fromkeys(present))}
    codes = np.fromiter(map(place.__getitem__, present), dtype=np.int64, count=len(present))
    return _recoded(name, "text", [plain(text) for text in place], spread(codes, is_missing, np.int64(-1)), missing)


def _no_categories(name: str, kind: str) -> TableError:
    return TableError(
        f"column {name!r} is of type {kind}, which makes no categories; turn it into text or numbers, or {LEAVE_OUT}"
    )
