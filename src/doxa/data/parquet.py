"""Parquet files, through DuckDB.

The types are those of the file.  Parquet holds no ordered categories (a dictionary there is a way of
storing texts), so texts are sorted; read a frame where the order of the categories matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import Column, code_table
from doxa.data.duck import count_rows, database, is_large, literal, load, text_column, unglobbed, untyped_column
from doxa.data.number import number_column
from doxa.data.options import check_bins, check_columns
from doxa.data.parquet_cells import NUMBER_TYPES, cell_of, n_parquet_rows, parquet_columns, refuse_type
from doxa.data.table import Table
from doxa.errors import TableError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["read_parquet"]


def read_parquet(path: Path, columns: Any, missing: Sequence[str], bins: Any) -> Table:
    """Read a Parquet file; the options are those of `doxa.read_table`, ``missing`` already checked."""
    with database() as (connection, _):
        source = f"read_parquet({literal(unglobbed(path))}, hive_partitioning=false)"
        all_names, types, stored = parquet_columns(connection, path, source)
        chosen = check_columns(columns, all_names)
        names = [all_names[j] for j in chosen]
        n_bins = check_bins(bins, names)
        for name, j in zip(names, chosen, strict=True):
            refuse_type(name, types[j], stored[j])
        if is_large(n_parquet_rows(connection, path), len(chosen)):
            from doxa.data.large.opening import open_parquet

            with open_parquet(path, names, missing, bins) as counted:
                return counted.table()
        aliases = ", ".join(f"c{j}" for j in range(len(all_names)))
        selected = [f"{cell_of(f'c{j}', types[j], missing)} AS c{k}" for k, j in enumerate(chosen)]
        load(connection, path, selected, f"{source} AS source({aliases})")
        if not count_rows(connection):
            raise TableError(f"source {str(path)!r} has columns but no rows")
        described = [
            _column(connection, f"c{k}", name, types[j], missing)
            for k, (name, j) in enumerate(zip(names, chosen, strict=True))
        ]
        return code_table(described, n_bins)


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
