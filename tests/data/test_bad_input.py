"""The catalogue of bad tables: each is refused with one message, given here in full but for what several share."""

import gzip
import os
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from doxa.data import read_table
from doxa.errors import ArgumentError, FileError, TableError
from support.refusals import IDENTIFIER, NO_CATEGORIES, NO_STATES, refusal

EMPTY = "source 't.csv' is empty; the first line holds the names of the columns"
SPLIT = "correct the line, or put a cell that contains the separator in quotes"
UTF8 = "convert the file to UTF-8 (a spreadsheet saves it as 'CSV UTF-8')"


def lines(header, cells):
    return "\n".join([header, *(f"{cell},x" for cell in cells)]).encode()


TEXTS = {
    "empty": (b"", EMPTY),
    "blank lines": (b"\n\n \n", EMPTY),
    "byte-order mark alone": (b"\xef\xbb\xbf", EMPTY),
    "first line blank": (
        b"\na,b\n1,2\n",
        "source 't.csv': line 1 is blank; the first line holds the names of the columns",
    ),
    "header only": (b"a,b\n", "source 't.csv' has a header but no rows"),
    "header without line end": (b"a,b", "source 't.csv' has a header but no rows"),
    "same names": (
        b"a,b,a,b,c\n1,2,3,4,5\n",
        "source 't.csv': the header has 'a', 'b' more than once; names of columns must differ",
    ),
    "nameless column": (
        b"a,,c\n1,2,3\n",
        "source 't.csv': column 2 of 3 has no name in the header; give it one (or remove the column)",
    ),
    "quoted empty name": (
        b'a,""\n1,2\n',
        "source 't.csv': column 2 of 2 has no name in the header; give it one (or remove the column)",
    ),
    "too few cells": (
        b"a,b,c\n1,2,3\n4,5\n6,7,8\n",
        f"source 't.csv': line 3 has 2 cells and the header has 3 (separated by commas); {SPLIT}",
    ),
    "one cell": (
        b"a,b\n1,2\n3",
        f"source 't.csv': line 3 has 1 cell and the header has 2 (separated by commas); {SPLIT}",
    ),
    "too many cells": (
        b"a;b\n1;2\n3;4;5\n",
        f"source 't.csv': line 3 has 3 cells and the header has 2 (separated by semicolons); {SPLIT}",
    ),
    "an empty cell too many": (
        b"a,b\n1,2\n3,4,\n",
        f"source 't.csv': line 3 has 3 cells and the header has 2 (separated by commas); {SPLIT}",
    ),
    "lines are counted through quoted ones": (
        b'a,b\r\n"1\n\n1",2\r\n3\r\n',
        f"source 't.csv': line 5 has 1 cell and the header has 2 (separated by commas); {SPLIT}",
    ),
    "blank line": (
        b"a,b\n1,2\n\n3,4\n",
        "source 't.csv': line 3 is blank and rows follow; a blank line is no row: remove it",
    ),
    "blank after header": (
        b"a,b\n\n3,4\n",
        "source 't.csv': line 2 is blank and rows follow; a blank line is no row: remove it",
    ),
    "latin-1": (b"a,b\n1,2\n3,\xe9\n", f"source 't.csv' is not UTF-8 text: line 3 contains the byte 0xe9; {UTF8}"),
    "latin-1 header": (b"\xe9,b\n1,2\n", f"source 't.csv' is not UTF-8 text: line 1 contains the byte 0xe9; {UTF8}"),
    "utf-16": (
        "a,b\n1,2\n".encode("utf-16-le").join([b"\xff\xfe", b""]),
        f"source 't.csv' is not UTF-8 text: line 1 contains the byte 0xff; {UTF8}",
    ),
    "cut within a character": (
        b"a,b\n1,\xc3",
        f"source 't.csv' is not UTF-8 text: line 2 contains the byte 0xc3; {UTF8}",
    ),
    "open quote": (b'a,b\n1,2\n"x,2\n3,4\n', "source 't.csv': the quote opened on line 3 is never closed"),
    "text after a quote": (
        b'a,b\n"x"y,2\n',
        "source 't.csv': line 2 has text after a closing quote; a quote inside a quoted cell is written twice",
    ),
    "blank before a quote": (
        b'a,b\n1, "x"\n',
        "source 't.csv': line 2 has a blank before a quote; a quoted cell begins with its quote: remove the blank",
    ),
    "two kinds of line end": (
        b"a,b\n1,2\n3,4\r\n5,6\n",
        "source 't.csv': line 3 ends in another way than the lines before; save the file with one kind of line end",
    ),
    "header that can be split twice": (
        b"a;b,c;d\n1;2,3;4\n",
        "source 't.csv': the header can be split into 2 by commas or 3 by semicolons; "
        "put names that contain a separator in quotes",
    ),
    "a column all missing": (b"a,b\n1,\n2,NA\n", f"column 'b': {NO_STATES}"),
    "columns all missing": (b"a,b\n?,\n,NA\n", f"columns 'a', 'b': {NO_STATES}"),
    "an identifier": (
        lines("id,b", [f"r{i}" for i in range(10_000)] * 2),
        f"column 'id' has 10000 distinct values, and {IDENTIFIER}",
    ),
    "a state too many": (
        lines("id,b", [f"r{i}" for i in range(1001)] * 2),
        f"column 'id' has 1001 distinct values, and {IDENTIFIER}",
    ),
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("content", "message"), TEXTS.values(), ids=TEXTS.keys())
def test_texts(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    assert refusal(TableError, "t.csv") == message


@pytest.mark.parametrize("position", [1, (1 << 22) - 1, 1 << 22, (1 << 22) + 1])
def test_a_bad_byte_is_found_wherever_blocks_end(tmp_path, position):
    filler = b"x,y\n" * (position // 4) + b"x" * (position % 4)
    (tmp_path / "t.csv").write_bytes((b"a,b\n" + filler)[:position] + "é".encode()[:1] + b",1\n")
    line = 1 + (position // 4 if position >= 4 else 0)
    message = f"source 't.csv' is not UTF-8 text: line {line} contains the byte 0xc3; {UTF8}"
    assert refusal(TableError, "t.csv") == message


def test_a_character_across_blocks_is_read(tmp_path):
    filler = b"x,y\n" * ((1 << 20) - 2)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + filler + b"xx" + "é".encode() + b",y\n" + b"z" + "é,y".encode())
    assert (tmp_path / "t.csv").read_bytes()[(1 << 22) - 2 : 1 << 22] == "é".encode()
    assert read_table("t.csv").states == (("x", "xxé", "zé"), ("y",))


def test_files_that_do_not_open(tmp_path):
    (tmp_path / "patient.csv").write_text("a\n1\n")
    assert refusal(FileError, "patients.csv") == (
        f"source: no file 'patients.csv' in {str(tmp_path)!r}; did you mean 'patient.csv'?"
    )
    assert refusal(FileError, "zzz.csv") == f"source: no file 'zzz.csv' in {str(tmp_path)!r}"
    assert refusal(FileError, "no/t.csv") == (
        f"source: no file 't.csv' in {str(tmp_path / 'no')!r}; there is no such folder"
    )
    (tmp_path / "d.csv").mkdir()
    assert refusal(FileError, "d.csv") == "source 'd.csv' is a folder; name a file in it"
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert refusal(FileError, "loop.csv").startswith("source 'loop.csv' cannot be opened: ")
    assert refusal(FileError, "a\0.csv") == (
        "source 'a\\x00.csv' cannot be opened: no name of a file contains a NUL character"
    )


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "t.csv").write_text("a\n1\n")
    monkeypatch.setattr("pathlib.Path.open", refuse)
    assert refusal(FileError, "t.csv") == "source 't.csv' cannot be opened: Permission denied"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "fifo.csv")
    (tmp_path / "link.csv").symlink_to("fifo.csv")
    for name in ("fifo.csv", "link.csv"):
        assert refusal(FileError, name) == (
            f"source {name!r} is a named pipe, not a regular file; save its content in a file and name that"
        )
    (tmp_path / "device.csv").symlink_to(os.devnull)
    assert refusal(FileError, "device.csv").startswith("source 'device.csv' is a device, not a regular file; ")
    (tmp_path / "t.csv").write_text("a\nx\n")
    (tmp_path / "good.csv").symlink_to("t.csv")
    assert read_table("good.csv").states == (("x",),)


def test_a_name_of_a_file_that_is_not_utf8(tmp_path):
    name = os.fsdecode(b"\xff.csv")
    assert refusal(FileError, name) == f"source {name!r} cannot be opened: its name is not UTF-8; rename it"


def test_an_open_quote_in_the_header_of_a_long_file(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_bytes(b'a,"b\n' + b"1,2\n" * 300_000)
    assert refusal(TableError, "t.csv") == "source 't.csv': the quote opened on line 1 is never closed"
    monkeypatch.setattr("doxa.data.layout._MAX_HEADER", 1000)
    message = refusal(TableError, "t.csv")
    assert message == "source 't.csv': the quote opened on line 1 is not closed within 1000 characters"


def test_files_of_another_kind(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    assert refusal(ArgumentError, "t.xlsx") == (
        "source 't.xlsx': the end of the name must say what the file is: "
        ".csv, .tsv, .tab, .txt (also with .gz), .parquet or .pq"
    )
    (tmp_path / "t.csv.gz").write_bytes(b"a,b\n1,2\n")
    assert refusal(TableError, "t.csv.gz") == (
        "source 't.csv.gz' is not a gzip file, or is damaged: Not a gzipped file (b'a,')"
    )
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n")[:-9])
    assert refusal(TableError, "t.csv.gz") == (
        "source 't.csv.gz' is not a gzip file, or is damaged: "
        "Compressed file ended before the end-of-stream marker was reached"
    )


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1" + b"x" * 50])
def test_files_that_are_not_parquet(tmp_path, content):
    (tmp_path / "t.parquet").write_bytes(content)
    said = refusal(TableError, "t.parquet")
    assert said.startswith("source 't.parquet' is not a Parquet file, or is damaged; DuckDB says: Invalid Input Error:")


@pytest.mark.parametrize("name", [b"duckdb_schema", b"DuckDB version"], ids=["of the schema", "of the program"])
def test_parquet_files_with_a_damaged_name_in_their_metadata(tmp_path, name):
    """The columns are sound: DuckDB describes them, and stumbles where it is asked for the schema or the rows."""
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 'n' AS a, 1.5 AS b) TO '{path}' (FORMAT parquet)")
        whole = path.read_bytes()
        assert whole.count(name) == 1
        path.write_bytes(whole.replace(name, b"\xff" * len(name)))
        connection.execute(f"DESCRIBE SELECT * FROM read_parquet('{path}')")
    said = refusal(TableError, "t.parquet")
    assert said.startswith("source 't.parquet' is not a Parquet file, or is damaged; DuckDB says: Invalid Input Error:")


def test_parquet_tables(tmp_path):
    def write(table):
        pq.write_table(table, tmp_path / "t.parquet")

    write(pa.table([[1], [2], [3]], names=["x", "y", "x"]))
    assert refusal(TableError, "t.parquet") == "source 't.parquet' has 'x' more than once; names of columns must differ"
    write(pa.table([[1], [2]], names=["x", ""]))
    assert refusal(TableError, "t.parquet") == "source 't.parquet': column 2 of 2 has no name; give it one"
    write(pa.table({"x": pa.array([], pa.int64())}))
    assert refusal(TableError, "t.parquet") == "source 't.parquet' has columns but no rows"
    write(pa.table({"s": [{"a": 1, "b": {"c": 2}}], "when": [date(2020, 1, 1)], "x": ["u"]}))
    assert (
        refusal(TableError, "t.parquet", columns=["x", "when"])
        == f"column 'when' is of type DATE, which {NO_CATEGORIES}"
    )
    assert read_table("t.parquet", columns=["x"]).states == (("u",),)
