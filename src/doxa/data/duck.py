"""What delimited texts and Parquet files share: a DuckDB database in memory and the columns of its one table.

Columns are c0, c1, ... inside DuckDB, whose names disregard case; the true names stay on our side.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import INTEGER, NUMBER, Column, Kind, kind_of_texts
from doxa.data.table import MAX_STATES
from doxa.errors import TableError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_COMMA_NUMBER = r"[ \t]*[+-]?[0-9]+(,[0-9]+)?[ \t]*"

_MEMORY = "2GB"  # beyond it DuckDB keeps its table in the temporary folder
# Beyond these a file is counted where it is, and the order of its rows is not kept: every row would cost 2 bytes a
# column and some 50 more while rows are compared, 3 GB together with DuckDB's share.
_LARGE_ROWS, _LARGE_CELLS = 2**24, 2**29


def is_large(n_rows: int, n_columns: int) -> bool:
    """Whether a file of so many rows is counted where it is."""
    return n_rows > _LARGE_ROWS or n_rows * n_columns > _LARGE_CELLS


@contextmanager
def database() -> Iterator[tuple[DuckDBPyConnection, Path]]:
    """Open a database in memory, with a folder of its own; both are gone afterwards."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="doxa-") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "preserve_insertion_order": True,
        }
        connection = duckdb.connect(":memory:", config=settings)
        try:
            with suppress(duckdb.Error):  # refused in a notebook without ipywidgets, where there is no bar
                connection.execute("SET enable_progress_bar = false")
            yield connection, Path(folder)
        finally:
            connection.close()


def load(connection: DuckDBPyConnection, path: Path, selected: Sequence[str], source: str) -> None:
    """Copy the selected columns into the table ``cells``, in the order of the rows."""
    import duckdb

    try:
        connection.execute(f"CREATE TABLE cells AS SELECT {', '.join(selected)} FROM {source}")  # noqa: S608
    except duckdb.Error as error:
        raise TableError(f"source {str(path)!r} cannot be read; DuckDB says: {said(error)}") from error


def count_rows(connection: DuckDBPyConnection) -> int:
    """Count the rows that were loaded."""
    return int(connection.execute("SELECT count(*) FROM cells").fetchall()[0][0])


def text_column(
    connection: DuckDBPyConnection,
    cell: str,
    name: str,
    kind_of_few: Callable[[Sequence[str]], Kind],
    kind_of_many: Callable[[], Kind],
) -> Column:
    """Describe a column of texts; what they are is asked of their distinct values, unless these are many."""
    distinct = f"SELECT DISTINCT {cell} FROM cells WHERE {cell} IS NOT NULL LIMIT {MAX_STATES + 1}"  # noqa: S608
    connection.execute(f"CREATE TYPE states_{cell} AS ENUM ({distinct})")
    labels: list[str] = connection.execute(f"SELECT enum_range(NULL::states_{cell})").fetchall()[0][0]
    codes, numbers = partial(_codes, connection, cell), partial(_numbers, connection, cell)
    if len(labels) <= MAX_STATES:
        return Column(name, kind_of_few(labels), len(labels), labels, codes, numbers)
    count = connection.execute(f"SELECT count(DISTINCT {cell}) FROM cells").fetchall()[0][0]  # noqa: S608
    return Column(name, kind_of_many(), count, None, codes, numbers)


def untyped_column(connection: DuckDBPyConnection, cell: str, name: str) -> Column:
    """Describe a column of texts that may all be numbers."""
    return text_column(connection, cell, name, partial(kind_of_texts, name), partial(_kind_of_many, connection, cell))


def with_decimal_points(connection: DuckDBPyConnection, cell: str, name: str) -> None:
    """Rewrite a column whose cells are all numbers, some of them with a decimal comma; the log says so."""
    no_number = f"NOT regexp_full_match({cell}, '{_COMMA_NUMBER}')"
    asked = f"count(*) FILTER ({no_number}), any_value({cell}) FILTER (contains({cell}, ','))"
    ((others, example),) = connection.execute(f"SELECT {asked} FROM cells").fetchall()  # noqa: S608
    if others or example is None:
        return
    connection.execute(f"UPDATE cells SET {cell} = replace({cell}, ',', '.')")  # noqa: S608
    point = example.replace(",", ".")
    logging.getLogger("doxa").warning(
        "column %r is read with decimal commas: %s for %r", name, point.strip(), example.strip()
    )


def _kind_of_many(connection: DuckDBPyConnection, cell: str) -> Kind:
    """Say what the cells of a column are, without fetching them."""
    every = f"SELECT bool_and(regexp_full_match({cell}, ?)) FROM cells"  # noqa: S608
    if connection.execute(every, [INTEGER]).fetchall()[0][0]:
        return "integer"
    return "decimal" if connection.execute(every, [NUMBER]).fetchall()[0][0] else "text"


def possible(tokens: Sequence[str]) -> list[str]:
    """Leave away the tokens that no file can hold: halves of UTF-16 characters, of which DuckDB takes none."""
    return [token for token in tokens if token.isascii() or not re.search("[\ud800-\udfff]", token)]


def unglobbed(path: Path) -> str:
    """Write a path so that DuckDB takes its characters as they are."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in str(path.absolute()))


def literal(text: str) -> str:
    """Write a text as an SQL expression; DuckDB 1 takes no NUL between quotes."""
    return "'" + text.replace("'", "''").replace("\0", "'||chr(0)||'") + "'"


def double(number: float) -> str:
    """Write a number as an SQL expression; without quotes DuckDB 1 reads a decimal, which it rounds to another."""
    return f"'{number!r}'::DOUBLE"


def said(error: Exception) -> str:
    """Return what DuckDB says, without the line it quotes and its hints at options that are not ours."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("Original Line")]
    return " ".join(lines[:2])[:300]


def _codes(connection: DuckDBPyConnection, cell: str) -> NDArray[np.integer[Any]]:
    """Fetch the place of every row's cell among the labels, -1 where missing."""
    place = f"coalesce(enum_code({cell}::states_{cell})::SMALLINT, -1::SMALLINT)"
    rows = connection.execute(f"SELECT {place} AS codes FROM cells").fetchnumpy()  # noqa: S608
    return np.asarray(rows["codes"])


def _numbers(connection: DuckDBPyConnection, cell: str) -> NDArray[np.float64]:
    """Fetch the number in every row's cell, NaN where missing."""
    rows = connection.execute(f"SELECT {cell}::DOUBLE AS numbers FROM cells").fetchnumpy()  # noqa: S608
    numbers: NDArray[np.float64] = np.ma.asarray(rows["numbers"], dtype=np.float64)
    return np.asarray(np.ma.filled(numbers, np.nan))
