"""Delimited texts: what is written is what is read, byte for byte."""

import csv
import gzip
import io
import logging
import random
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doxa.data import layout, read_table
from doxa.data.coding import MAX_INTEGERS
from doxa.data.options import MISSING


def rows_of(table, at=slice(None)):
    """Write the rows of a table out again, or those at some places, None where missing."""
    labels = [(*states, None) for states in table.states]
    return [[labels[j][code] for j, code in enumerate(row)] for row in table.codes[table.row_index[at]].tolist()]


def read(folder, content, name="t.csv", **options):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


# Cells that invite mistakes, next to any text at all.
ALPHABET = [
    "a",
    "é",
    "日",
    " ",
    "\t",
    '"',
    '""',
    "'",
    ",",
    ";",
    "|",
    "\n",
    "\r",
    "\r\n",
    "\\",
    "#",
    "\x00",
    "\u2028",
    "0",
]
texts = st.one_of(
    st.sampled_from(["", "NA", "NaN", "null", "?", "yes", "TRUE", "None", "c0", "*", "[x]", "01", "1", "1.0", "-"]),
    st.lists(st.sampled_from(ALPHABET), max_size=5).map("".join),
    st.text(st.characters(codec="utf-8"), max_size=8),
)


@st.composite
def tables(draw):
    n_columns, n_rows = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    names = draw(st.lists(texts.filter(bool), min_size=n_columns, max_size=n_columns, unique=True))
    cell = st.one_of(texts, texts, texts, st.none())
    rows = draw(st.lists(st.lists(cell, min_size=n_columns, max_size=n_columns), min_size=n_rows, max_size=n_rows))
    for j in range(n_columns):
        if all(row[j] is None for row in rows):
            rows[0][j] = "present"
        rows[0][j] = "no number" if rows[0][j] is None or re.fullmatch(r"[\s\d.+-]*", rows[0][j]) else rows[0][j]
    return names, rows


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def written(text, always):
    """Write a cell or a name, quoted where a reader could not tell otherwise."""
    if text is None:
        return ""
    needs = text in MISSING or re.search(r'[,;|\t\r\n"]', text) is not None
    return quoted(text) if needs or always else text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tables(),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_what_is_written_is_read(tmp_path, table, delimiter, end, always, mark, ends):
    names, rows = table
    delimiter = delimiter if len(names) > 1 else ","
    lines = [delimiter.join(written(text, always) for text in line) for line in [names, *rows]]
    ends = ends or lines[-1] == ""  # a blank last line is a row only if it is ended
    content = ("\ufeff" if mark else "") + end.join(lines) + (end if ends else "")
    found = read(tmp_path, content)
    assert found.names == tuple(names)
    assert rows_of(found) == rows
    for j, states in enumerate(found.states):
        assert set(states) == {row[j] for row in rows} - {None}


def test_yes_stays_yes_and_a_quoted_token_stays_a_value(tmp_path):
    table = read(tmp_path, 'a,b,c\nyes,NA,"NA"\nno,"NA",\nTRUE,t,""\n')
    assert table.states == (("TRUE", "no", "yes"), ("NA", "t"), ("", "NA"))
    assert rows_of(table) == [["yes", None, "NA"], ["no", "NA", None], ["TRUE", "t", ""]]


def test_the_tokens_are_matched_exactly_and_can_be_replaced(tmp_path):
    content = "a,b\nNA,1\nna,2\n NA,3\n?,4\n,5\nNaN,6\nnull,7\nNULL,8\n-9,9\n"
    column = [row[0] for row in rows_of(read(tmp_path, content))]
    assert column == [None, "na", " NA", None, None, None, None, "NULL", "-9"]
    column = [row[0] for row in rows_of(read(tmp_path, content, missing="-9"))]
    assert column == ["NA", "na", " NA", "?", None, "NaN", "null", "NULL", None]
    column = [row[0] for row in rows_of(read(tmp_path, content, missing=[]))]
    assert column == ["NA", "na", " NA", "?", None, "NaN", "null", "NULL", "-9"]
    assert read(tmp_path, "a,b\nit's,x\ny,x\n", missing=["it's"]).n_missing == 1


def test_integers_are_sorted_by_size_as_they_are_written(tmp_path):
    assert read(tmp_path, "a,b\n10,x\n9,x\n-1,x\n+2,x\n,x\n").states[0] == ("-1", "+2", "9", "10")
    assert read(tmp_path, "a,b\n10.0,x\n9.0,x\n").states[0] == ("9.0", "10.0")  # as pandas writes them beside blanks
    assert read(tmp_path, "a,b\n10, 3\n9, 20\n").states == (("9", "10"), (" 3", " 20"))
    wide = "9" * 5000
    assert read(tmp_path, f"a\n{wide}\n10\n").states[0] == ("10", wide)
    assert len(read(tmp_path, "a\n" + "".join(f"{i}\n" for i in range(MAX_INTEGERS))).states[0]) == MAX_INTEGERS


def test_one_number_written_in_two_ways_stays_two_texts(tmp_path):
    assert read(tmp_path, "a,b\n10,x\n01,x\n9,x\n1,x\n").states[0] == ("01", "1", "10", "9")


def test_a_stray_text_among_numbers_is_pointed_out(tmp_path, caplog):
    content = "age\n" + "".join(f"{i}\n" for i in range(30)) + "nan\n"
    with caplog.at_level(logging.WARNING, logger="doxa"):
        assert len(read(tmp_path, content).states[0]) == 31
    assert [record.getMessage() for record in caplog.records] == [
        "column 'age' is read as text: 30 of its 31 distinct values are numbers, but not 'nan'; "
        "if that means missing, say so with missing=[...] or --missing"
    ]
    caplog.clear()
    read(tmp_path, "age\n1\n2\nx\n")
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b\n1,x\n"),
        ("t.csv", "a;b\n1;x\n"),
        ("t.txt", "a\tb\n1\tx\n"),
        ("t.csv", "a|b\n1|x\n"),
        ("t.TSV", "a\tb\n1\tx\n"),
        ("t.tab", "a\tb\n1\tx\n"),
        ("t.csv", '"a"\t"b"\n1\tx\n'),
    ],
)
def test_delimiters(tmp_path, name, content):
    table = read(tmp_path, content, name)
    assert (table.names, table.states) == (("a", "b"), (("1",), ("x",)))


def test_the_delimiter_is_not_looked_for_inside_quotes(tmp_path):
    assert read(tmp_path, '"a;b",c\n1,2\n').names == ("a;b", "c")
    assert read(tmp_path, 'x,"a;b"\n1,p;q\n').names == ("x", "a;b")
    assert read(tmp_path, "x,y\tb\n1\t2\n", "t.tsv").names == ("x,y", "b")
    assert read(tmp_path, "a;b,c;d\n1;2;3\n").names == ("a", "b,c", "d")  # the first row decides
    assert read(tmp_path, "a b\n1 2\n").names == ("a b",)


def test_odd_names(tmp_path):
    table = read(tmp_path, 'a*,"say ""b""",A*,a"b,select,c0, x \n1,2,3,4,5,6,7\n')
    assert table.names == ("a*", 'say "b"', "A*", 'a"b', "select", "c0", " x ")
    assert rows_of(table) == [["1", "2", "3", "4", "5", "6", "7"]]
    chosen = read_table(tmp_path / "t.csv", columns=["c0", "A*"])
    assert (chosen.names, rows_of(chosen)) == (("c0", "A*"), [["6", "3"]])


@pytest.mark.parametrize("form", ["{},b\n1,2\n", '"{}",b\n1,2\n', '"{}\n",b\n1,2\n'])
def test_names_of_any_length(tmp_path, form):
    limit = csv.field_size_limit()
    name = "n" * 3_000_000
    table = read(tmp_path, form.format(name))
    assert (table.names, table.states) == ((form.split(",")[0].strip('"').format(name), "b"), (("1",), ("2",)))
    assert csv.field_size_limit() == limit


@given(st.lists(texts, min_size=1), st.sampled_from(",;\t|"), st.sampled_from(["", "\n", "\r\n", "\r"]), st.booleans())
def test_records_are_split_as_by_the_csv_module(cells, delimiter, end, always):
    record = delimiter.join(written(cell, always) for cell in cells) + end
    expected = next(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter), [""])
    assert layout._cells(record, delimiter) == (expected or [""])


def test_a_quote_inside_an_unquoted_cell_is_a_character(tmp_path):
    assert rows_of(read(tmp_path, 'a,b\n5" pipe,""""\n')) == [['5" pipe', '"']]


def test_a_mark_and_lines_in_the_header(tmp_path):
    table = read(tmp_path, '\ufeff"a\r\n\r\nb","c\n"\r\n"x\n",NA\r\ny,z\r\n')
    assert table.names == ("a\r\n\r\nb", "c\n")
    assert rows_of(table) == [["x\n", None], ["y", "z"]]
    assert read(tmp_path, "\ufeffa,b\n1,2\n").names == ("a", "b")


def test_small_tables(tmp_path):
    assert repr(read(tmp_path, "a,b\n1,x")) == "Table(1 row (1 distinct) x 2 columns, no missing cells)"
    assert read(tmp_path, "a,b\n1,x\n1,y\n").states == (("1",), ("x", "y"))  # a constant column has one state
    assert rows_of(read(tmp_path, 'a\nx\n\n""\n\n')) == [["x"], [None], [""], [None]]  # one column: each line a row
    assert rows_of(read(tmp_path, "a,b\n1,x\n\n\n")) == [["1", "x"]]  # blank lines at the end are no rows


@pytest.mark.parametrize(
    "name", ["a*b.csv", "a?.csv", "[ab].csv", "a[b.csv", "it's.csv", "{a,b}.csv", "k=v.csv", "~.csv"]
)
def test_file_names_are_taken_literally(tmp_path, name):
    for other in ("aab.csv", "ab.csv", "a.csv", "b.csv"):
        (tmp_path / other).write_text("other\nwrong\n")
    assert read(tmp_path, "right\nvalue\n", name).states == (("value",),)


def test_folder_names_make_no_columns(tmp_path):
    folder = tmp_path / "year=2020" / "[x]*"
    folder.mkdir(parents=True)
    assert read(folder, "a\nx\n").names == ("a",)


def test_gzip(tmp_path):
    content = gzip.compress('\ufeff"a\nb",c\n1,"x\ny"\n'.encode())
    assert rows_of(read(tmp_path, content, "t.csv.gz")) == [["1", "x\ny"]]
    assert rows_of(read(tmp_path, gzip.compress(b"a\tb\n1\t2\n"), "t.tsv.gz")) == [["1", "2"]]


@pytest.mark.parametrize("with_lines", [False, True])
def test_the_order_of_rows_does_not_depend_on_threads(tmp_path, monkeypatch, with_lines):
    import duckdb

    rng = np.random.default_rng(3)
    n_rows = 300_000  # several of DuckDB's buffers and row groups
    value = ["a", "bb", "", '"q, ""r"""', '"x\ny"' if with_lines else "xy"]
    ends = [f"{','.join(cells)},{'w' * 100}" for cells in product(value, repeat=3)]
    picked = rng.integers(0, len(value), size=(n_rows, 3))
    body = "\n".join(f"s{i // 400},{ends[k]}" for i, k in enumerate((picked @ [25, 5, 1]).tolist()))
    path = tmp_path / "t.csv"
    path.write_text("serial,u,v,w,wide\n" + body + "\n")
    connect, found = duckdb.connect, []
    for threads in (1, 4):

        def limited(database, config, threads=threads):
            return connect(database, config={**config, "threads": threads})

        monkeypatch.setattr(duckdb, "connect", limited)
        found.append(read_table(path))
    one, four = found
    assert one.digest == four.digest
    assert np.array_equal(one.row_index, four.row_index)
    labels = ["a", "bb", None, 'q, "r"', "x\ny" if with_lines else "xy"]
    tried = random.Random(4).sample(range(n_rows), 1000)
    for i, row in zip(tried, rows_of(four, tried), strict=True):
        assert row == [f"s{i // 400}", *(labels[k] for k in picked[i]), "w" * 100]


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(tmp_path)
    read(tmp_path, '\ufeff"a\n",b\n1,2\n')
    assert list(temporary.iterdir()) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["t.csv", "tmp"]


def test_decimal_commas_where_cells_are_separated_otherwise(tmp_path, caplog):
    (tmp_path / "t.csv").write_text("x;y;z;n\n1,5;1,2,3;a,b;3\n-2;4;c;4\n\n".replace("\n\n", "\n"))
    with caplog.at_level(logging.WARNING, logger="doxa"):
        table = read_table(tmp_path / "t.csv", numbers=["x"])
    assert table.numbers[:, 0].tolist() == [1.5, -2.0]
    assert table.states[1:] == (("1,2,3", "4"), ("a,b", "c"), ("3", "4"))  # not numbers, or without commas
    assert caplog.records[0].getMessage() == "column 'x' is read with decimal commas: 1.5 for '1,5'"
