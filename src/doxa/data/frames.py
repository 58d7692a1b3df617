"""Frames of any make (pandas, Polars, PyArrow), and lazy ones, read through Narwhals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from doxa.data.coding import code_table
from doxa.data.options import check_bins, check_columns
from doxa.data.series import frame_names, series_column
from doxa.data.table import Table
from doxa.errors import ArgumentTypeError, TableError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = ["read_frame"]


def read_frame(source: Any, columns: Any, missing: Sequence[str], bins: Any) -> Table:
    """Read a frame, a lazy one by counting it where it lives; the options are those of `doxa.read_table`.

    ``missing`` has been checked.
    """
    import narwhals.stable.v2 as nw

    frame = _wrapped(source)
    if isinstance(frame, nw.LazyFrame):
        from doxa.data.large.opening import open_lazy

        with open_lazy(frame, columns, missing, bins) as counted:
            return counted.table()
    all_names = frame_names(list(frame.columns))
    chosen = check_columns(columns, all_names)
    names = [all_names[j] for j in chosen]
    n_bins = check_bins(bins, names)
    if not len(frame):
        raise TableError("source has columns but no rows")
    own_names = frame.columns  # as the frame spells them, an np.str_ perhaps
    return code_table([series_column(frame[own_names[j]], all_names[j], missing) for j in chosen], n_bins)


def _wrapped(source: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    """Wrap a frame, or say what to give instead."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(source)
    except DuplicateError:
        names = [str(name) for name in getattr(source, "column_names", None) or source.columns]
        repeated = ", ".join(repr(name) for name in dict.fromkeys(names) if names.count(name) > 1)
        raise TableError(f"source has the columns {repeated} more than once; names of columns must differ") from None
    except TypeError:
        raise ArgumentTypeError(
            f"source is a {type(source).__name__}; give a path, a Table, or a frame of pandas, Polars or PyArrow"
        ) from None
    return frame
