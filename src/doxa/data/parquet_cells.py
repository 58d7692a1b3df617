"""The columns of a Parquet file: names, types, and the expressions by which DuckDB loads their cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from doxa.data.duck import literal, possible, said, unglobbed
from doxa.data.number import decimal_texts
from doxa.data.options import LEAVE_OUT, shown
from doxa.errors import TableError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["NUMBER_TYPES", "cell_of", "n_parquet_rows", "parquet_columns", "refuse_type"]

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
    return int(connection.execute(query).fetchall()[0][0])


def _types(connection: DuckDBPyConnection, path: Path, source: str) -> list[str]:
    """Return the type of each column, as DuckDB writes it."""
    import duckdb

    try:
        return [str(row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]  # noqa: S608
    except duckdb.Error as error:
        raise TableError(
            f"source {str(path)!r} is not a Parquet file, or is damaged; DuckDB says: {said(error)}"
        ) from error


def _stored(connection: DuckDBPyConnection, path: Path) -> tuple[list[str], list[str]]:
    """Return the names of the columns as the file has them, and the types that are stored.

    DuckDB renames columns that differ in case.
    """
    schema = f"SELECT name, type, coalesce(num_children, 0) FROM parquet_schema({literal(unglobbed(path))})"  # noqa: S608
    nodes = connection.execute(schema).fetchall()[1:]  # without the root; a tree, depth first
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
