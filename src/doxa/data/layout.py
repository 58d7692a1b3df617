r"""Delimited texts read as tables: layout, names and number of rows by our own pass, byte by byte, the cells by DuckDB.

DuckDB renames and invents names, and its reader, even in strict mode, skips blank lines, swallows an extra empty cell
at the end of a line and strips blanks before an opening quote.  Our pass reads the header, refuses such lines with
their number and counts the rows, so that what DuckDB then reads can be held against the count.

DuckDB is given every option; nothing is sniffed.  `new_line` alone is left to it: given as "\r\n", DuckDB 2.0 reads no
rows.  It finds the line end in the header, so a header with a line end inside a name, or behind a byte-order mark, is
first replaced by a plain one; so is one longer than the lines DuckDB takes.
"""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from doxa._jit import compiled
from doxa.data.coding import Reading, code_table
from doxa.data.duck import (
    count_rows,
    database,
    is_large,
    literal,
    load,
    possible,
    unglobbed,
    untyped_column,
    with_decimal_points,
)
from doxa.data.options import shown
from doxa.data.table import Table
from doxa.errors import ArgumentError, TableError

__all__ = ["DELIMITERS", "Layout", "Scan", "cells_of_text", "opened", "read_layout", "read_text", "scan"]

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

_BLOCK = 1 << 22  # bytes read at a time
# Where in a record the machine is.
_START, _BLANKS, _PLAIN, _QUOTED, _CLOSING = range(5)
# Line ends seen outside quotes, as bits.
_LF, _CRLF, _CR = 1, 2, 4
# What is wrong.
_RAGGED, _BLANK_LINE, _BLANK_BEFORE_QUOTE, _TEXT_AFTER_QUOTE, _MIXED_ENDS, _OPEN_QUOTE = range(1, 7)
# The entries of the machine's state, an array because it goes on from block to block.
_PHASE, _PREVIOUS, _LINE, _RECORD_LINE, _BLANK_AT, _CELLS, _RECORDS = range(7)
_ENDS, _QUOTED_ENDS, _POSITION, _HEADER_END, _FAULT, _FAULT_LINE, _SIZE = range(7, 14)


class Scan(NamedTuple):
    """What the pass found in a text without fault."""

    n_rows: int  # records after the header
    header_end: int  # bytes up to the first row, byte-order mark included
    line_end: bytes  # b"\n" where there is none
    has_mark: bool  # whether the text begins with a byte-order mark
    quoted_line_ends: bool  # whether a cell contains a line end


def scan(stream: BinaryIO, path: str, delimiter: str, n_cells: int) -> Scan:
    """Go once over a delimited text, or raise a `TableError` that names the first wrong line."""
    state = np.zeros(_SIZE, dtype=np.int64)
    state[[_LINE, _RECORD_LINE]] = 1
    start = stream.read(len(codecs.BOM_UTF8))
    has_mark = start == codecs.BOM_UTF8
    if has_mark:
        start, state[_POSITION] = b"", len(codecs.BOM_UTF8)
    for block in _utf8_blocks(start, stream, path, state):
        _run(np.frombuffer(block, dtype=np.uint8), ord(delimiter), n_cells, state)
        _refuse(state, path, delimiter, n_cells)
    _finish(n_cells, state)
    _refuse(state, path, delimiter, n_cells)
    line_end = {_CRLF: b"\r\n", _CR: b"\r"}.get(int(state[_ENDS]), b"\n")
    n_rows = max(int(state[_RECORDS]) - 1, 0)
    return Scan(n_rows, int(state[_HEADER_END]), line_end, has_mark, bool(state[_QUOTED_ENDS]))


def _utf8_blocks(start: bytes, stream: BinaryIO, path: str, state: NDArray[np.int64]) -> Iterator[bytes]:
    """Go on from ``start`` in blocks of bytes, checking that they are UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    while block := start or stream.read(_BLOCK):
        start = b""
        held = len(decoder.getstate()[0])  # bytes of a character that the last block broke off
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            _refuse_encoding(path, error, int(state[_LINE]) + block[: max(error.start - held, 0)].count(b"\n"))
        yield block
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        _refuse_encoding(path, error, int(state[_LINE]))


def _refuse_encoding(path: str, error: UnicodeDecodeError, line: int) -> None:
    raise TableError(
        f"source {path!r} is not UTF-8 text: line {line} contains the byte 0x{error.object[error.start]:02x}; "
        "convert the file to UTF-8 (a spreadsheet saves it as 'CSV UTF-8')"
    ) from None


def _refuse(state: NDArray[np.int64], path: str, delimiter: str, n_cells: int) -> None:
    """Turn the machine's fault, if any, into words."""
    fault, line = int(state[_FAULT]), int(state[_FAULT_LINE])
    cells = f"{state[_CELLS]} {'cell' if state[_CELLS] == 1 else 'cells'}"
    words = {
        _RAGGED: f"line {line} has {cells} and the header has {n_cells} (separated by {DELIMITERS[delimiter]}); "
        "correct the line, or put a cell that contains the separator in quotes",
        _BLANK_LINE: f"line {line} is blank and rows follow; a blank line is no row: remove it",
        _BLANK_BEFORE_QUOTE: f"line {line} has a blank before a quote; a quoted cell begins with its quote: "
        "remove the blank",
        _TEXT_AFTER_QUOTE: f"line {line} has text after a closing quote; a quote inside a quoted cell is written twice",
        _MIXED_ENDS: f"line {line} ends in another way than the lines before; save the file with one kind of line end",
        _OPEN_QUOTE: f"the quote opened on line {line} is never closed",
    }
    if fault:
        raise TableError(f"source {path!r}: {words[fault]}")


@compiled
def _run(block: NDArray[np.uint8], delimiter: int, n_cells: int, state: NDArray[np.int64]) -> None:
    """Run the machine over a block, stopping at the first fault."""
    phase, previous, line = state[_PHASE], state[_PREVIOUS], state[_LINE]
    for i in range(block.size):
        byte = block[i]
        is_end = byte == 10 or byte == 13
        after_cr = byte == 10 and previous == 13 and phase in (_QUOTED, _START)
        if previous == 13 and phase == _START:  # which kind of line end that was shows only now
            state[_ENDS] |= _CRLF if byte == 10 else _CR
        if is_end and not after_cr:
            line += 1
        if phase == _QUOTED:
            if byte == 34:
                phase = _CLOSING
            elif is_end:
                state[_QUOTED_ENDS] = 1
        elif is_end:
            if not after_cr:
                _end_record(phase, n_cells, state)
                state[_RECORD_LINE] = line
                phase = _START
                if byte == 10:
                    state[_ENDS] |= _LF
            if state[_RECORDS] == 1 and state[_BLANK_AT] == 0:
                state[_HEADER_END] = state[_POSITION] + i + 1
        elif byte == delimiter:
            state[_CELLS] += 1
            phase = _START
        elif byte == 34 and phase != _PLAIN:
            if phase == _BLANKS:
                state[_FAULT], state[_FAULT_LINE] = _BLANK_BEFORE_QUOTE, line
            phase = _QUOTED
        elif phase == _CLOSING:
            state[_FAULT], state[_FAULT_LINE] = _TEXT_AFTER_QUOTE, line
        elif byte != 32 or phase == _PLAIN:
            phase = _PLAIN
        else:
            phase = _BLANKS
        ends = state[_ENDS]
        if ends & (ends - 1) and state[_FAULT] == 0:  # two bits: two kinds
            state[_FAULT], state[_FAULT_LINE] = _MIXED_ENDS, line - 1
        previous = byte
        if state[_FAULT]:
            break
    state[_PHASE], state[_PREVIOUS], state[_LINE] = phase, previous, line
    state[_POSITION] += block.size


@compiled
def _end_record(phase: int, n_cells: int, state: NDArray[np.int64]) -> None:
    """Count the record that ends here, or find it wrong."""
    if phase == _START and state[_CELLS] == 0 and n_cells > 1:
        if state[_BLANK_AT] == 0:
            state[_BLANK_AT] = state[_RECORD_LINE]
        return
    state[_CELLS] += 1
    if state[_BLANK_AT]:
        state[_FAULT], state[_FAULT_LINE] = _BLANK_LINE, state[_BLANK_AT]
    elif state[_CELLS] != n_cells:
        state[_FAULT], state[_FAULT_LINE] = _RAGGED, state[_RECORD_LINE]
    else:
        state[_RECORDS] += 1
        state[_CELLS] = 0


def _finish(n_cells: int, state: NDArray[np.int64]) -> None:
    """End the last record, where no line end did, and settle a carriage return at the end."""
    if state[_PHASE] == _START and state[_PREVIOUS] == 13:
        state[_ENDS] |= _CR
        if state[_ENDS] != _CR:
            state[_FAULT], state[_FAULT_LINE] = _MIXED_ENDS, state[_LINE] - 1
    if state[_PHASE] == _QUOTED:
        state[_FAULT], state[_FAULT_LINE] = _OPEN_QUOTE, state[_RECORD_LINE]
    elif state[_PHASE] != _START or state[_CELLS]:
        _end_record(state[_PHASE], n_cells, state)
        if state[_RECORDS] == 1:
            state[_HEADER_END] = state[_POSITION]


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
    """Split one record; what follows a closing quote is left away here, as `scan` refuses it.

    The csv module would do, but for its limit on the length of a cell, which belongs to the whole process.
    """
    cell = re.compile(rf'"((?>[^"]++|"")*+)"?[^{re.escape(delimiter)}\r\n]*|([^{re.escape(delimiter)}\r\n]*)')
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


_MAX_HEADER_TEXT_CELLS = 1 << 20  # bytes; DuckDB takes no line of more than 2 MB


def cells_of_text(path: Path, layout: Layout, missing: Sequence[str], folder: Path) -> str:
    """Write the call of DuckDB that reads the cells of a text as they are, into columns c0, c1, ...."""
    has_lines = any("\n" in name or "\r" in name for name in layout.names)
    if layout.scan.has_mark or has_lines or layout.scan.header_end > _MAX_HEADER_TEXT_CELLS:
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


def read_text(path: Path, reading: Reading) -> Table:
    """Read a delimited text."""
    layout = read_layout(path)
    chosen, n_bins = reading.choose(layout.names)
    names = [layout.names[j] for j in chosen]
    if is_large(layout.scan.n_rows, len(chosen)):
        from doxa.data.large.opening import open_text

        reading.refuse_where_counted()
        with open_text(path, layout, names, reading.missing, reading.bins) as counted:
            return counted.table()
    with database() as (connection, folder):
        source = cells_of_text(path, layout, reading.missing, folder)
        load(connection, path, [f"c{j} AS c{k}" for k, j in enumerate(chosen)], source)
        n_rows = count_rows(connection)
        if n_rows != layout.scan.n_rows:
            raise TableError(f"source {str(path)!r} has {layout.scan.n_rows} rows, of which DuckDB reads {n_rows}")
        if layout.delimiter != ",":
            for k, name in enumerate(names):
                with_decimal_points(connection, f"c{k}", name)
        described = [untyped_column(connection, f"c{k}", name) for k, name in enumerate(names)]
        return code_table(described, n_bins, reading, n_rows)
