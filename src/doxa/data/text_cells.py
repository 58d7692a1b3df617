r"""Delimited texts, their cells read by DuckDB.

DuckDB reads the cells and nothing else: every option is given, nothing is sniffed, and the number of
rows is held against our own count.  `new_line` alone is left to it: given as "\r\n", DuckDB 2.0 reads
no rows.  It finds the line end in the header, so a header with a line end inside a name, or behind a
byte-order mark, is first replaced by a plain one; so is one longer than the lines DuckDB takes.

Delimited texts, read as tables.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doxa.data.coding import code_table
from doxa.data.duck import count_rows, database, is_large, literal, load, possible, unglobbed, untyped_column
from doxa.data.layout import Layout, opened, read_layout
from doxa.data.options import check_bins, check_columns
from doxa.data.table import Table
from doxa.errors import ArgumentError, TableError

__all__ = ["cells_of_text", "read_text"]

_MAX_HEADER = 1 << 20  # bytes; DuckDB takes no line of more than 2 MB


def cells_of_text(path: Path, layout: Layout, missing: Sequence[str], folder: Path) -> str:
    """Write the call of DuckDB that reads the cells of a text as they are, into columns c0, c1, ...."""
    has_lines = any("\n" in name or "\r" in name for name in layout.names)
    if layout.scan.has_mark or has_lines or layout.scan.header_end > _MAX_HEADER:
        path = _with_plain_header(path, layout, folder)
    cells = ", ".join(f"'c{j}': 'VARCHAR'" for j in range(len(layout.names)))
    tokens = ", ".join(literal(token) for token in dict.fromkeys(["", *_unquoted(missing, layout.delimiter)]))
    options = {
        "columns": f"{{{cells}}}",
        "delim": literal(layout.delimiter),
        "quote": literal('"'),
        "escape": literal('"'),
        "nullstr": f"[{tokens}]",
        "compression": literal("gzip" if path.suffix.lower() == ".gz" else "none"),
        "parallel": "false" if layout.scan.quoted_line_ends else "true",
        "header": "true",
        "strict_mode": "true",
        **dict.fromkeys(["auto_detect", "allow_quoted_nulls", "null_padding", "ignore_errors"], "false"),
        **dict.fromkeys(["normalize_names", "hive_partitioning", "filename"], "false"),
    }
    given = ", ".join(f"{option}={value}" for option, value in options.items())
    return f"read_csv({literal(unglobbed(path))}, {given})"


def _unquoted(missing: Sequence[str], delimiter: str) -> list[str]:
    """Return the tokens that an unquoted cell can be; DuckDB takes no others.

    A quote in the middle of an unquoted cell is a character, but DuckDB takes no token that has one.
    """
    outside = [token for token in possible(missing) if not {delimiter, "\n", "\r"} & set(token)]
    tokens = [token for token in outside if not token.lstrip(" ").startswith('"')]
    wrong = [token for token in tokens if '"' in token]
    if wrong:
        raise ArgumentError(
            f"missing contains {wrong[0]!r}; a text with a quote in it cannot be compared with the cells of a "
            "delimited text: write another one in those cells, or give the table as a frame"
        )
    return tokens


def _with_plain_header(path: Path, layout: Layout, folder: Path) -> Path:
    """Copy a text into ``folder``, its header replaced by c0, c1, ..."""
    plain = layout.delimiter.join(f"c{j}" for j in range(len(layout.names)))
    copy = folder / "copy.csv"
    with opened(path) as source, copy.open("wb") as target:
        source.seek(layout.scan.header_end)
        target.write(plain.encode() + layout.scan.line_end)
        shutil.copyfileobj(source, target, 1 << 20)
    return copy


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
