"""Delimited texts, read as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doxa.data.coding import code_table
from doxa.data.duck import count_rows, database, is_large, load, untyped_column
from doxa.data.layout import read_layout
from doxa.data.options import check_bins, check_columns
from doxa.data.table import Table
from doxa.data.text_cells import cells_of_text
from doxa.errors import TableError

__all__ = ["read_text"]


def read_text(path: Path, columns: Any, missing: Sequence[str], bins: Any) -> Table:
    """Read a delimited text; the options are those of `doxa.read_table`, ``missing`` already checked."""
    layout = read_layout(path)
    chosen = check_columns(columns, layout.names)
    names = [layout.names[j] for j in chosen]
    n_bins = check_bins(bins, names)
    if is_large(layout.scan.n_rows, len(chosen)):
        from doxa.data.large.opening import open_text

        with open_text(path, layout, columns, missing, bins) as counted:
            return counted.table()
    with database() as (connection, folder):
        source = cells_of_text(path, layout, missing, folder)
        load(connection, path, [f"c{j} AS c{k}" for k, j in enumerate(chosen)], source)
        n_rows = count_rows(connection)
        if n_rows != layout.scan.n_rows:
            raise TableError(f"source {str(path)!r} has {layout.scan.n_rows} rows, of which DuckDB reads {n_rows}")
        return code_table([untyped_column(connection, f"c{k}", name) for k, name in enumerate(names)], n_bins)
