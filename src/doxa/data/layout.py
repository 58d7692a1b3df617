"""How a delimited text is to be read: its delimiter, the names in its header, the number of its rows.

The header is read here and not by DuckDB, which renames and invents names.
"""

from __future__ import annotations

import gzip
import io
import itertools
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from doxa.data.options import shown
from doxa.data.scan import DELIMITERS, Scan, scan
from doxa.errors import TableError

__all__ = ["Layout", "opened", "read_layout"]

_MAX_HEADER = 1 << 24  # characters


class Layout(NamedTuple):
    """What must be known of a delimited text before its cells are read."""

    names: tuple[str, ...]
    delimiter: str
    scan: Scan


def opened(path: Path) -> BinaryIO:
    """Open a file for reading bytes, through gzip if its name ends in ``.gz``."""
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def read_layout(path: Path) -> Layout:
    """Read the header, choose the delimiter, and go over the rows once."""
    try:
        return _layout(path)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise TableError(f"source {str(path)!r} is not a gzip file, or is damaged: {error}") from error


def _layout(path: Path) -> Layout:
    with opened(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        header = _record(text)
        if header.count('"') % 2 and text.read(1):
            raise TableError(
                f"source {str(path)!r}: the quote opened on line 1 is not closed within {_MAX_HEADER} characters"
            )
        first = _record(text)
        is_empty = not header.strip() and not first.strip() and not any(line.strip() for line in text)
    if is_empty:
        raise TableError(f"source {str(path)!r} is empty; the first line holds the names of the columns")
    if not header.strip("\r\n"):
        raise TableError(f"source {str(path)!r}: line 1 is blank; the first line holds the names of the columns")
    delimiter = _delimiter(path, header, first)
    names = _cells(header, delimiter)
    with opened(path) as stream:
        found = scan(stream, str(path), delimiter, len(names))
    _check_names(path, names)
    if not found.n_rows:
        raise TableError(f"source {str(path)!r} has a header but no rows")
    return Layout(tuple(names), delimiter, found)


def _record(text: io.TextIOWrapper) -> str:
    """Read lines until their quotes are paired; just the first line if they never are, or not for long."""
    lines = [text.readline()]
    n_quotes, size = lines[0].count('"'), len(lines[0])
    while n_quotes % 2:
        line = text.readline()
        lines.append(line)
        n_quotes, size = n_quotes + line.count('"'), size + len(line)
        if not line or size > _MAX_HEADER:
            return lines[0]
    return "".join(lines)


def _cells(record: str, delimiter: str) -> list[str]:
    """Split one record; a quote inside an unquoted cell is an ordinary character.

    The csv module would do, but for its limit on the length of a cell, which belongs to the whole process.
    What follows a closing quote is left away here: `scan` refuses it.
    """
    cell = re.compile(rf'"((?:[^"]++|"")*+)"?[^{re.escape(delimiter)}\r\n]*|([^{re.escape(delimiter)}\r\n]*)')
    cells, place = [], 0
    while found := cell.match(record, place):
        quoted, plain = found.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not record.startswith(delimiter, found.end()):
            break
        place = found.end() + 1
    return cells


def _delimiter(path: Path, header: str, first: str) -> str:
    """Choose the delimiter: a tab for .tsv and .tab, else the one that splits the header.

    If several do, it is the one that also splits the first row into as many cells.
    """
    if {".tsv", ".tab"} & {suffix.lower() for suffix in path.suffixes[-2:]}:
        return "\t"
    outside = "".join(itertools.islice(header.split('"'), 0, None, 2))  # what stands outside quotes
    splitting = [delimiter for delimiter in DELIMITERS if delimiter in outside]
    if len(splitting) > 1:
        n_cells = {delimiter: len(_cells(header, delimiter)) for delimiter in splitting}
        agreeing = [delimiter for delimiter in splitting if len(_cells(first, delimiter)) == n_cells[delimiter]]
        if len(agreeing) != 1:
            counts = " or ".join(f"{number} by {DELIMITERS[delimiter]}" for delimiter, number in n_cells.items())
            raise TableError(
                f"source {str(path)!r}: the header can be split into {counts}; "
                "put names that contain a separator in quotes"
            )
        return agreeing[0]
    return splitting[0] if splitting else ","


def _check_names(path: Path, names: list[str]) -> None:
    """Refuse names that are empty or the same: they would have to be invented."""
    for position, name in enumerate(names, start=1):
        if not name:
            raise TableError(
                f"source {str(path)!r}: column {position} of {len(names)} has no name in the header; give it one "
                "(or remove the column)"
            )
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise TableError(
            f"source {str(path)!r}: the header has {shown(repeated)} more than once; names of columns must differ"
        )
