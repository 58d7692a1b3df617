"""The compiled pass over a text against a plain reading of the same bytes, and DuckDB's count against it."""

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data import layout as scan
from doxa.data import read_table
from doxa.errors import TableError


def plain(content, n_cells):
    """Count the rows of a text by regular expressions; a word for what is wrong, if anything is."""
    cell = r'"(?:[^"]|"")*"|(?! *")[^,\r\n]*'
    records, place = [], 0
    while place < len(content):
        found = re.compile(rf"({cell})(,|\r\n|\n|\r|$(?![\r\n]))").match(content, place)
        if not found:
            return "wrong"
        if not records or records[-1][-1] != ",":
            records.append([])
        else:
            records[-1].pop()
        records[-1] += [found.group(1), found.group(2)]
        place = found.end()
    if records and records[-1][-1] == ",":
        records[-1][-1:] = ["", ""]
    if len({record[-1] for record in records} - {""}) > 1:
        return "wrong"
    blanks = [record[:-1] == [""] for record in records]
    while n_cells > 1 and blanks and blanks[-1]:
        blanks.pop()
        records.pop()
    if any(len(record) - 1 != n_cells for record in records) or (n_cells > 1 and any(blanks)):
        return "wrong"
    return max(len(records) - 1, 0)


contents = st.lists(
    st.sampled_from(["a", "b", ",", ",", "\n", "\n", "\n", "\r\n", "\r", '"', '"x"', '""', " ", "é"]), max_size=14
).map("".join)


@settings(max_examples=600, deadline=None)
@given(contents, st.integers(1, 3))
def test_the_pass_agrees_with_a_plain_reading(content, n_cells):
    try:
        found = scan.scan(io.BytesIO(content.encode()), "t.csv", ",", n_cells).n_rows
    except TableError:
        found = "wrong"
    assert found == plain(content, n_cells)


@settings(max_examples=200, deadline=None)
@given(contents, st.integers(1, 3), st.integers(1, 5))
def test_the_pass_does_not_depend_on_where_blocks_end(content, n_cells, block):
    def outcome():
        try:
            return scan.scan(io.BytesIO(content.encode()), "t.csv", ",", n_cells)
        except TableError as error:
            return str(error)

    whole = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_BLOCK", block)
        assert outcome() == whole


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 22])
def test_what_the_pass_finds(monkeypatch, block):
    monkeypatch.setattr(scan, "_BLOCK", block)
    found = scan.scan(io.BytesIO(b'\xef\xbb\xbf"a\n",b\r\n1,2\r\n3,"\r\n"'), "t.csv", ",", 2)
    assert found == scan.Scan(n_rows=2, header_end=11, line_end=b"\r\n", has_mark=True, quoted_line_ends=True)
    found = scan.scan(io.BytesIO(b"a,b\n1,2\n\n"), "t.csv", ",", 2)
    assert found == scan.Scan(n_rows=1, header_end=4, line_end=b"\n", has_mark=False, quoted_line_ends=False)
    assert scan.scan(io.BytesIO(b"a\r"), "t.csv", ",", 1).line_end == b"\r"


def test_duckdb_is_held_to_the_count(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("doxa.data.layout.count_rows", lambda _: 1)
    with pytest.raises(TableError) as raised:
        read_table("t.csv")
    assert str(raised.value) == "source 't.csv' has 2 rows, of which DuckDB reads 1"
