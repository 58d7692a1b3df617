"""`open_source`: files, relations and lazy frames, made ready to be counted where they are; `read_or_open`: or read."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.bins import check_bins
from doxa.data.duck import database, is_large, literal, unglobbed
from doxa.data.large.duck_engine import DuckEngine
from doxa.data.large.engine import changed, failures
from doxa.data.large.source import OutOfCoreSource
from doxa.data.layout import Layout, cells_of_text, read_layout
from doxa.data.number import marks_of
from doxa.data.options import check_columns, check_missing, check_opens, is_parquet
from doxa.data.parquet import NUMBER_TYPES, cell_of, n_parquet_rows, parquet_columns, refuse_type
from doxa.data.read import read_table
from doxa.data.series import frame_names
from doxa.data.table import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.text import a_kind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

__all__ = ["open_lazy", "open_parquet", "open_relation", "open_source", "open_text", "read_or_open"]

_OLDEST_POLARS = 1, 30


def read_or_open(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    missing: str | Sequence[str] | None = None,
    bins: int | str | Mapping[str, Any] | None = None,
    keep: str | os.PathLike[str] | None = None,
    **more: Any,
) -> Table | OutOfCoreSource:
    """Read a table as `doxa.read_table` does, or open it where its distinct rows are too many to hold; then it is to be
    closed.  ``more`` are further options of `doxa.read_table`, which a source that is opened does not take.
    """
    if isinstance(source, Table) or not _may_be_large(source, 0 if columns is None else len(columns)):
        return read_table(source, columns=columns, missing=missing, bins=bins, **more)
    given = [name for name, value in more.items() if value is not None]
    is_opened = hasattr(source, "try_table")
    if given and not is_opened and not isinstance(source, str | os.PathLike):
        return read_table(source, columns=columns, missing=missing, bins=bins, **more)
    if given:
        raise ArgumentError(
            f"{given[0]} is given, and the rows of this source are counted where they are, without it; name the "
            "columns to be read with columns, or give a table that is held in memory"
        )
    from doxa.data.large.source import OutOfCoreSource

    if isinstance(source, OutOfCoreSource):
        found = source.try_table()
        return source if found is None else found  # with the file that it was opened with
    with ExitStack() as held:
        opened = held.enter_context(open_source(source, columns=columns, missing=missing, bins=bins))
        if opened.numbers and not is_large(opened.n_rows, len(opened.names)):
            return read_table(source, columns=columns, missing=missing, bins=bins)
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


Stream = Callable[[str, str], Iterator[Mapping[str, NDArray[Any]]]]


_WIDE = {"HUGEINT": "DECIMAL", "UHUGEINT": "DECIMAL"}  # what sum() gives; NumPy has no such integers
_VECTORS = 64  # of 2048 rows, at a time
_MACHINE = {
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}


def open_source(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    missing: str | Sequence[str] | None = None,
    bins: int | str | Mapping[str, Any] | None = None,
    keep: str | os.PathLike[str] | None = None,
) -> OutOfCoreSource:
    """Open a table that is counted where it lives, whatever its size: to be closed, or used in a ``with`` statement.

    ``source`` is a delimited text or Parquet file, what ``connection.sql(...)`` of DuckDB returns, or a lazy frame that
    Narwhals knows (Polars, Dask, PySpark, Ibis); the other options are those of `doxa.read_table`, whose rules for
    states are followed.  Counted sets are kept in the file ``keep``, so that another process goes on from them.

    A delimited text is first copied, as Parquet, into a temporary folder.  Files are counted by a DuckDB of our own,
    with 2 GB of memory and a temporary folder beyond them.  A relation is counted by the connection that it belongs to,
    under the settings made there (``SET memory_limit = '2GB'``); nothing is created in that database.
    """
    tokens = check_missing(missing)
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        check_opens(path)
        if is_parquet(path):
            return open_parquet(path, columns, tokens, bins, keep)
        return open_text(path, read_layout(path), columns, tokens, bins, keep)
    import duckdb

    if isinstance(source, duckdb.DuckDBPyRelation):
        return open_relation(source, columns, tokens, bins, keep)
    return open_lazy(source, columns, tokens, bins, keep)


def open_text(
    path: Path, layout: Layout, columns: Any, missing: Sequence[str], bins: Any, keep: Any = None
) -> OutOfCoreSource:
    """Copy the cells of a delimited text into a Parquet file of our own, and count that."""
    chosen = check_columns(columns, layout.names)
    names = [layout.names[j] for j in chosen]
    n_bins = check_bins(bins, names)
    label = f"source {str(path)!r}"
    with _opened() as (held, connection, folder):
        copy = folder / "cells.parquet"
        selected = ", ".join(f"c{j} AS c{k}" for k, j in enumerate(chosen))
        verify = _unchanged(path)
        with failures(label, "its cells were copied"):
            cells = cells_of_text(path, layout, missing, folder)
            connection.execute(f"COPY (SELECT {selected} FROM {cells}) TO {literal(str(copy))} (FORMAT parquet)")  # noqa: S608
        verify()
        call = f"read_parquet({literal(unglobbed(copy))}, file_row_number=true)"
        query = f"SELECT *, file_row_number AS place FROM {call}"  # noqa: S608
        kinds = [""] * len(names)
        # The copy is our own and does not change.
        stream = _streaming(connection, query)
        engine = DuckEngine(connection.sql(query), label, names, kinds, missing, True, lambda: None, held.close, stream)
        counted = OutOfCoreSource(engine, n_bins, keep)
        if counted.n_rows != layout.scan.n_rows:
            raise TableError(f"{label} has {layout.scan.n_rows} rows, of which DuckDB reads {counted.n_rows}")
    return counted


def open_parquet(path: Path, columns: Any, missing: Sequence[str], bins: Any, keep: Any = None) -> OutOfCoreSource:
    """Count a Parquet file where it is."""
    label = f"source {str(path)!r}"
    with _opened() as (held, connection, _):
        verify = _unchanged(path)
        call = f"read_parquet({literal(unglobbed(path))}, hive_partitioning=false"
        all_names, types, stored = parquet_columns(connection, path, call + ")")
        chosen = check_columns(columns, all_names)
        names = [all_names[j] for j in chosen]
        n_bins = check_bins(bins, names)
        for name, j in zip(names, chosen, strict=True):
            refuse_type(name, types[j], stored[j])
        # Aliases are by position; the number of the row comes last, whatever the columns are called.
        aliases = ", ".join([*(f"s{j}" for j in range(len(all_names))), "place"])
        cells = ", ".join(f"{_cell(f's{j}', types[j], missing)} AS c{k}" for k, j in enumerate(chosen))
        query = f"SELECT {cells}, place FROM {call}, file_row_number=true) AS source({aliases})"  # noqa: S608
        kinds, stream = [types[j] for j in chosen], _streaming(connection, query)
        engine = DuckEngine(connection.sql(query), label, names, kinds, missing, True, verify, held.close, stream)
        return OutOfCoreSource(engine, n_bins, keep)


def open_relation(
    source: DuckDBPyRelation, columns: Any, missing: Sequence[str], bins: Any, keep: Any = None
) -> OutOfCoreSource:
    """Count a relation by the connection that it belongs to."""
    label = "source (a DuckDB relation)"
    with failures(label, "its columns were asked for"):
        all_names, types = list(source.columns), [_WIDE.get(str(kind), str(kind)) for kind in source.types]
    repeated = [name for name in dict.fromkeys(all_names) if all_names.count(name) > 1]
    if repeated:
        listed = ", ".join(map(repr, repeated))
        raise TableError(f"source has the columns {listed} more than once; names of columns must differ")
    if "" in all_names:
        raise TableError(f"source: column {all_names.index('') + 1} of {len(all_names)} has no name; give it one")
    chosen = check_columns(columns, all_names)
    names = [all_names[j] for j in chosen]
    n_bins = check_bins(bins, names)
    for name, j in zip(names, chosen, strict=True):
        if not types[j].startswith("ENUM"):
            refuse_type(name, types[j])
    cells = ", ".join(f"{_cell(f'#{j + 1}', types[j], missing)} AS c{k}" for k, j in enumerate(chosen))
    with failures(label, "its columns were chosen"):
        relation = source.project(cells)
    kinds, stream = [types[j] for j in chosen], _streaming_relation(relation)
    engine = DuckEngine(relation, label, names, kinds, missing, False, lambda: None, lambda: None, stream)
    return OutOfCoreSource(engine, n_bins, keep)


def open_lazy(source: Any, columns: Any, missing: Sequence[str], bins: Any, keep: Any = None) -> OutOfCoreSource:
    """Count a lazy frame that Narwhals knows, by the engine behind it."""
    import narwhals.stable.v2 as nw

    from doxa.data.large.lazy_engine import LazyEngine

    frame = nw.from_native(source, pass_through=True)
    if not isinstance(frame, nw.LazyFrame):
        raise ArgumentTypeError(
            f"source is {a_kind(source)}; give a path, what connection.sql(...) of DuckDB returns, "
            "or a lazy frame that Narwhals knows"
        )
    if frame.implementation.is_duckdb():
        return open_relation(frame.to_native(), columns, missing, bins, keep)
    if frame.implementation.is_polars():
        _refuse_old_polars()
    label = f"source (a lazy frame of {frame.implementation.value})"
    with failures(label, "its columns were asked for"):
        schema = dict(frame.collect_schema())
    all_names = frame_names(list(schema))
    chosen = check_columns(columns, all_names)
    names = [all_names[j] for j in chosen]
    own = names
    if frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect():  # reads dots in names as fields
        own = [f"c{j}" for j in chosen]
        with failures(label, "its columns were named"):
            frame = nw.from_native(frame.to_native().toDF(*(f"c{j}" for j in range(len(all_names)))))
    return OutOfCoreSource(LazyEngine(frame, label, names, missing, own), check_bins(bins, names), keep)


def _refuse_old_polars() -> None:
    """Refuse a Polars whose streaming engine is not there yet: the other one reads the whole frame into memory."""
    import polars as pl

    release = tuple(int(part) for part in re.findall(r"\d+", pl.__version__)[:2])
    if release < _OLDEST_POLARS:
        least = ".".join(map(str, _OLDEST_POLARS))
        raise ArgumentError(
            f"source is a lazy frame of Polars {pl.__version__}; it is counted by the streaming engine of {least} and "
            f"later: pip install 'polars>={least}', or give frame.collect()"
        )


def _cell(cell: str, kind: str, missing: Sequence[str]) -> str:
    """Write the expression for a cell, NULL where a token says that it is missing; texts remain as they are."""
    if kind.startswith("ENUM") or kind == "VARCHAR":
        return f"{cell}::VARCHAR"
    if kind not in NUMBER_TYPES:
        return cell_of(cell, kind, missing)
    marks = ", ".join(f"'{mark}'::{kind}" for mark in marks_of(missing, np.dtype(_MACHINE[kind])).tolist())
    return f"CASE WHEN {cell} IN ({marks}) THEN NULL ELSE {cell} END" if marks else cell


def _streaming(connection: DuckDBPyConnection, query: str) -> Stream:
    """Say how the rows of a query are had some at a time, by a connection of our own."""

    def stream(cells: str, coded: str) -> Iterator[Mapping[str, NDArray[Any]]]:
        with connection.cursor() as cursor:
            cursor.execute(f"WITH rows AS ({query}) SELECT {coded} FROM (SELECT {cells} FROM rows)")  # noqa: S608
            while True:
                part = cursor.fetch_df_chunk(_VECTORS)
                if not len(part):
                    return
                yield {str(name): part[name].to_numpy() for name in part}

    return stream


def _streaming_relation(relation: DuckDBPyRelation) -> Stream | None:
    """As `_streaming`, by the connection that a relation belongs to; None where there is no PyArrow to do it."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    # DuckDB 1.4 has the other name only.
    name = "to_arrow_reader" if "to_arrow_reader" in dir(type(relation)) else "fetch_record_batch"

    def stream(cells: str, coded: str) -> Iterator[Mapping[str, NDArray[Any]]]:
        for part in getattr(relation.project(cells).project(coded), name)(2048 * _VECTORS):
            yield {column: part[column].to_numpy() for column in part.schema.names}

    return stream


def _unchanged(path: Path) -> Callable[[], None]:
    """Remember what a file is now, and return the check that it still is."""

    def now() -> tuple[int, int, int]:
        try:
            found = path.stat()
        except OSError as error:
            raise changed(f"source {str(path)!r}", f"it cannot be opened any more ({error.strerror})") from error
        return found.st_ino, found.st_size, found.st_mtime_ns

    before = now()

    def verify() -> None:
        if now() != before:
            raise changed(f"source {str(path)!r}", "the file was written")

    return verify


@contextmanager
def _opened() -> Iterator[tuple[ExitStack, DuckDBPyConnection, Path]]:
    """Open a database of our own, which stays open unless the block fails."""
    held = ExitStack()
    connection, folder = held.enter_context(database())
    try:
        yield held, connection, folder
    except BaseException:
        held.close()
        raise
