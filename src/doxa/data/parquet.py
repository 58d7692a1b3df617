"""Parquet files, through DuckDB.

The types are those of the file.  Parquet holds no ordered categories (a dictionary there is a way of
storing texts), so texts are sorted; read a frame where the order of the categories matters.

The columns of a Parquet file: names, types, and the expressions by which DuckDB loads their cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import Column, Reading, code_table
from doxa.data.duck import (
    count_rows,
    database,
    is_large,
    literal,
    load,
    possible,
    said,
    text_column,
    unglobbed,
    untyped_column,
)
from doxa.data.number import decimal_texts, number_column
from doxa.data.options import LEAVE_OUT, shown
from doxa.data.table import Table
from doxa.errors import TableError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["NUMBER_TYPES", "cell_of", "n_parquet_rows", "parquet_columns", "read_parquet", "refuse_type"]

NUMBER_TYPES = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"} | {
    "FLOAT",
    "DOUBLE",
}
# DuckDB's 2.50, 2.00 and -.50 (of a DECIMAL(2,2)) become 2.5, 2 and -0.5, as `decimal_texts` writes the tokens.
_AS_PYTHON_WRITES = [("^(-?)[.]", "\\10."), ("([.][0-9]*?)0+$", "\\1"), ("[.]$", "")]


def parquet_columns(connection: DuckDBPyConnection, path: Path, source: str) -> tuple[list[str], list[str], list[str]]:
    """Return names, DuckDB's types and stored types of the columns that ``source``, a call, reads from a file."""
    types = _types(connection, path, source)
    names, stored = _stored(connection, path)
    return names, types, stored


def n_parquet_rows(connection: DuckDBPyConnection, path: Path) -> int:
    """Return the number of rows that a file says it has."""
    query = f"SELECT num_rows FROM parquet_file_metadata({literal(unglobbed(path))})"  # noqa: S608
    return int(_asked(connection, path, query)[0][0])


def _asked(connection: DuckDBPyConnection, path: Path, query: str) -> list[tuple[Any, ...]]:
    """What DuckDB answers about a file; `TableError` if it cannot read it."""
    import duckdb

    try:
        return connection.execute(query).fetchall()
    except duckdb.Error as error:
        raise TableError(
            f"source {str(path)!r} is not a Parquet file, or is damaged; DuckDB says: {said(error)}"
        ) from error


def _types(connection: DuckDBPyConnection, path: Path, source: str) -> list[str]:
    """Return the type of each column, as DuckDB writes it."""
    return [str(row[1]) for row in _asked(connection, path, f"DESCRIBE SELECT * FROM {source}")]  # noqa: S608


def _stored(connection: DuckDBPyConnection, path: Path) -> tuple[list[str], list[str]]:
    """Return the names of the columns as the file has them, and the types that are stored.

    DuckDB renames columns that differ in case.
    """
    schema = f"SELECT name, type, coalesce(num_children, 0) FROM parquet_schema({literal(unglobbed(path))})"  # noqa: S608
    nodes = _asked(connection, path, schema)[1:]  # without the root; a tree, depth first
    names: list[str] = []
    stored: list[str] = []
    below = 0  # nodes still to come below a nested column
    for name, kind, n_children in nodes:
        if not below:
            names.append(name)
            stored.append(str(kind))
        below += n_children - (1 if below else 0)
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise TableError(f"source {str(path)!r} has {shown(repeated)} more than once; names of columns must differ")
    if "" in names:
        raise TableError(f"source {str(path)!r}: column {names.index('') + 1} of {len(names)} has no name; give it one")
    return names, stored


def _is_number(kind: str) -> bool:
    return kind in NUMBER_TYPES or kind.startswith("DECIMAL")


def refuse_type(name: str, kind: str, stored: str = "") -> None:
    """Refuse a column of DuckDB's type ``kind`` (stored in a file as ``stored``) that makes no categories."""
    if kind == "DOUBLE" and stored.endswith("BYTE_ARRAY"):
        raise TableError(
            f"column {name!r} is a decimal of more than 38 digits, which DuckDB would round; "
            f"store it with fewer digits, or {LEAVE_OUT}"
        )
    if not _is_number(kind) and kind not in ("VARCHAR", "BOOLEAN"):
        raise TableError(
            f"column {name!r} is of type {kind}, which makes no categories; "
            f"turn it into text or numbers, or {LEAVE_OUT}"
        )


def cell_of(cell: str, kind: str, missing: Sequence[str]) -> str:
    """Write the expression that loads a cell: decimals as texts, booleans as Python writes them."""
    if kind in NUMBER_TYPES:
        return cell
    text, tokens = cell, possible(missing)
    if kind == "BOOLEAN":
        text = f"CASE WHEN {cell} THEN 'True' WHEN NOT {cell} THEN 'False' END"
    if kind.startswith("DECIMAL"):
        text, tokens = cell + "::VARCHAR", decimal_texts(missing)
        for pattern, written in _AS_PYTHON_WRITES:
            text = f"regexp_replace({text}, '{pattern}', '{written}')"
    listed = ", ".join(literal(token) for token in tokens)
    return f"CASE WHEN {text} NOT IN ({listed}) THEN {text} END" if tokens else text


def read_parquet(path: Path, reading: Reading) -> Table:
    """Read a Parquet file."""
    missing = reading.missing
    with database() as (connection, _):
        source = f"read_parquet({literal(unglobbed(path))}, hive_partitioning=false)"
        all_names, types, stored = parquet_columns(connection, path, source)
        chosen, n_bins = reading.choose(all_names)
        names = [all_names[j] for j in chosen]
        for name, j in zip(names, chosen, strict=True):
            refuse_type(name, types[j], stored[j])
        if is_large(n_parquet_rows(connection, path), len(chosen)):
            from doxa.data.large.opening import open_parquet

            reading.refuse_where_counted()
            with open_parquet(path, names, missing, reading.bins) as counted:
                return counted.table()
        aliases = ", ".join(f"c{j}" for j in range(len(all_names)))
        selected = [f"{cell_of(f'c{j}', types[j], missing)} AS c{k}" for k, j in enumerate(chosen)]
        load(connection, path, selected, f"{source} AS source({aliases})")
        n_rows = count_rows(connection)
        if not n_rows:
            raise TableError(f"source {str(path)!r} has columns but no rows")
        described = [
            _column(connection, f"c{k}", name, types[j], missing)
            for k, (name, j) in enumerate(zip(names, chosen, strict=True))
        ]
        return code_table(described, n_bins, reading, n_rows)


def _column(connection: DuckDBPyConnection, cell: str, name: str, kind: str, missing: Sequence[str]) -> Column:
    """Describe a column."""
    if kind.startswith("DECIMAL"):
        return untyped_column(connection, cell, name)
    if kind not in NUMBER_TYPES:
        return text_column(connection, cell, name, lambda _: "text", lambda: "text")
    rows = connection.execute(f"SELECT {cell} AS numbers FROM cells").fetchnumpy()  # noqa: S608
    numbers: NDArray[Any] = np.ma.asarray(rows["numbers"])
    is_missing = np.ma.getmaskarray(numbers)
    return number_column(name, np.ma.getdata(numbers)[~is_missing], is_missing, missing)
