"""`read_or_open`: a table read if its distinct rows can be held, or opened where it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doxa.data.duck import database, is_large, literal, unglobbed
from doxa.data.layout import read_layout
from doxa.data.parquet import n_parquet_rows, parquet_columns
from doxa.data.paths import check_opens, is_parquet
from doxa.data.read import read_table
from doxa.data.table import Table

if TYPE_CHECKING:
    from doxa.data.large.source import OutOfCoreSource

__all__ = ["read_or_open"]


def read_or_open(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    missing: str | Sequence[str] | None = None,
    bins: int | Mapping[str, int] | None = None,
    keep: str | os.PathLike[str] | None = None,
) -> Table | OutOfCoreSource:
    """Read a table as `doxa.read_table` does, or open it where its distinct rows are too many to hold.

    Parameters
    ----------
    source
        As `doxa.read_table` takes it, or a `OutOfCoreSource`.
    columns, missing, bins
        As there.
    keep : path, optional
        As for `open_source`; looked at if the source is left open.

    Returns
    -------
    Table or OutOfCoreSource
        What is open is to be closed by the caller.
    """
    if isinstance(source, Table) or not _may_be_large(source, 0 if columns is None else len(columns)):
        return read_table(source, columns=columns, missing=missing, bins=bins)
    from doxa.data.large.opening import open_source
    from doxa.data.large.source import OutOfCoreSource

    if isinstance(source, OutOfCoreSource):
        found = source.try_table()
        return source if found is None else found  # with the file that it was opened with
    with ExitStack() as held:
        opened = held.enter_context(open_source(source, columns=columns, missing=missing, bins=bins))
        found = opened.try_table()
        if found is not None:
            return found
        if keep is not None:
            opened.keep_in(keep)
        held.pop_all()
    return opened


def _may_be_large(source: Any, n_columns: int) -> bool:
    """Whether a source is open or lazy, or a file that `doxa.read_table` would count where it is; 0 columns are all."""
    if not isinstance(source, str | os.PathLike):
        import narwhals.stable.v2 as nw

        is_open = hasattr(source, "try_table")  # a `OutOfCoreSource`, whose module is imported when one is made
        return is_open or isinstance(nw.from_native(source, pass_through=True), nw.LazyFrame)
    path = Path(source)
    check_opens(path)
    if is_parquet(path):
        with database() as (connection, _):
            names, _, _ = parquet_columns(connection, path, f"read_parquet({literal(unglobbed(path))})")
            n_rows = n_parquet_rows(connection, path)
        return is_large(n_rows, n_columns or len(names))
    is_packed = path.suffix.lower() == ".gz"
    n_bytes = path.stat().st_size * (1032 if is_packed else 1)  # deflate makes nothing smaller than that
    if not is_large(n_bytes, 1):  # a cell takes a byte or more, its delimiter
        return False
    layout = read_layout(path)
    return is_large(layout.scan.n_rows, n_columns or len(layout.names))
