"""Eager frames of any make (pandas, Polars, PyArrow), through Narwhals.

What Narwhals does not tell is asked of the frame itself: the categories of a categorical, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import Column, code_table, number_column
from doxa.data.options import check_bins, check_columns
from doxa.data.table import MAX_STATES, Table
from doxa.errors import ArgumentTypeError, TableError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["read_frame"]


def read_frame(source: Any, columns: Any, missing: Sequence[str], bins: Any) -> Table:
    """Read an eager frame; the options are those of `doxa.read_table`, ``missing`` already checked."""
    frame = _eager(source)
    all_names = _names(frame)
    chosen = check_columns(columns, all_names)
    names = [all_names[j] for j in chosen]
    n_bins = check_bins(bins, names)
    if not len(frame):
        raise TableError("source has columns but no rows")
    return code_table([_column(frame[name], name, missing) for name in names], n_bins)


def _eager(source: Any) -> nw.DataFrame[Any]:
    """Wrap a frame, or say what to give instead."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(source)
    except DuplicateError:
        names = [str(name) for name in getattr(source, "column_names", None) or source.columns]
        repeated = ", ".join(repr(name) for name in dict.fromkeys(names) if names.count(name) > 1)
        raise TableError(f"source has the columns {repeated} more than once; names of columns must differ") from None
    except TypeError:
        raise ArgumentTypeError(
            f"source is a {type(source).__name__}; give a path, a Table, or a frame of pandas, Polars or PyArrow"
        ) from None
    if isinstance(frame, nw.LazyFrame):
        collect = ".df()" if frame.implementation.is_duckdb() else ".collect()"
        raise ArgumentTypeError(f"source is lazy (a {type(source).__name__}); collect its rows first: source{collect}")
    eager: nw.DataFrame[Any] = frame
    return eager


def _names(frame: nw.DataFrame[Any]) -> list[str]:
    names = list(frame.columns)
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
    return names


def _column(series: nw.Series[Any], name: str, missing: Sequence[str]) -> Column:
    """Describe a column by its type."""
    import narwhals.stable.v2 as nw

    kind = series.dtype
    if isinstance(kind, nw.Categorical | nw.Enum):
        return _categorical_column(series, name, missing)
    if kind == nw.String:
        return _label_column(name, series.to_numpy(), missing)
    if kind == nw.Boolean:
        return _label_column(name, _booleans(series), missing)
    if isinstance(kind, nw.Decimal):
        series = series.cast(nw.Float64)
    elif not kind.is_numeric():
        return _object_column(series, name, missing)
    is_missing = series.is_null().to_numpy()
    return number_column(name, series.drop_nulls().to_numpy(), is_missing, missing)


def _label_column(name: str, values: NDArray[Any], missing: Sequence[str]) -> Column:
    """Describe a column of texts; what pandas calls null is missing, and so are the tokens."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    return _recoded(name, "text", list(distinct), codes, missing)


def _recoded(name: str, kind: Any, labels: list[str], codes: NDArray[Any], missing: Sequence[str]) -> Column:
    """Describe a column of codes into labels, those of the labels that are tokens made missing."""
    kept = [label for label in labels if label not in missing]
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
            return _label_column(name, np.array(series.to_list(), dtype=object), missing)
        categories, values = list(series.dtype.categories), series.to_list()
    elif series.implementation.is_pyarrow():
        chunks = native.unify_dictionaries().chunks
        categories, values = chunks[0].dictionary.to_pylist(), native.to_pylist()
    else:
        categories, values = list(native.cat.categories), None
    labels = [str(category) for category in categories]
    if len(set(labels)) < len(labels):
        raise TableError(f"column {name!r} has two categories that are written alike; rename one of them")
    if values is None:
        codes = np.asarray(native.cat.codes, dtype=np.int64)
    else:
        place = {category: j for j, category in enumerate(categories)}
        codes = np.array([place.get(value, -1) for value in values], dtype=np.int64)
    return _recoded(name, "ordered", labels, codes, missing)


def _object_column(series: nw.Series[Any], name: str, missing: Sequence[str]) -> Column:
    """Describe a column of Python objects that are of one type after all, or refuse it."""
    values = series.to_list()
    is_missing = np.asarray(series.is_null().to_numpy(), dtype=np.bool_)
    present = [value for value, absent in zip(values, is_missing, strict=True) if not absent]
    types = {type(value) for value in present}
    if types <= {bool, np.bool_}:
        return _label_column(name, _booleans(series), missing)
    if all(issubclass(kind, int | float | np.integer | np.floating) and kind is not bool for kind in types):
        return number_column(name, np.array(present), is_missing, missing)
    found = sorted(kind.__name__ for kind in types)
    if series.dtype.is_temporal() or series.dtype.is_nested():
        found = [str(series.dtype)]
    if len(found) > 1:
        raise TableError(
            f"column {name!r} mixes {' and '.join(found)}; make its values of one type (text: .astype(str)), "
            "or leave it out with columns=[...]"
        )
    raise TableError(
        f"column {name!r} is of type {found[0]}, which"
        " makes no categories; turn it into text or numbers, or leave it out with columns=[...]"
    )


def _booleans(series: nw.Series[Any]) -> NDArray[Any]:
    """Write booleans as Python does, None where missing."""
    is_missing = series.is_null().to_list()
    texts = [None if absent else str(bool(value)) for value, absent in zip(series.to_list(), is_missing, strict=True)]
    return np.array(texts, dtype=object)
