"""Options of `read_table` that say what columns are: drop, numbers, categories, counts."""

import logging
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import doxa
from doxa import read_table
from doxa.data import large
from doxa.data.read import read_without_empty
from doxa.errors import ArgumentError, ArgumentTypeError, TableError

FRAME = pd.DataFrame(
    {
        "id": [f"r{i}" for i in range(30)],
        "age": [20 + i for i in range(30)],
        "dose": [0.5, 1.0, 1.5] * 10,
        "arm": [1, 2] * 15,
    }
)
CELLS = pd.DataFrame({"Sex": ["f", "f", "m", "m"], "Admitted": ["y", "n", "y", "n"], "Freq": [89, 0, 512, 313]})


@pytest.fixture(params=["frame", "csv", "parquet"])
def source_of(request, tmp_path):
    def make(frame):
        path = tmp_path / f"t.{request.param}"
        if request.param == "csv":
            frame.to_csv(path, index=False)
        elif request.param == "parquet":
            frame.to_parquet(path)
        return frame if request.param == "frame" else path

    return make


def test_columns_are_left_out(source_of):
    assert read_table(source_of(FRAME), drop=["id", "dose"]).names == ("age", "arm")
    assert read_table(read_table(source_of(FRAME), categories=["id"]), drop=["id"]).names == ("age", "dose", "arm")


def people(n=100):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "Unnamed: 0": range(n),
            "patient_id": rng.permutation(10**6)[:n],
            "name": [f"p{i}" for i in range(n - 5)] + ["twin"] * 5,
            "said": [f"a complaint of {k} days, in words of the patient" for k in np.arange(n) // 2],
            "income": rng.permutation(10**5)[:n],
            "year": range(1900, 1900 + n),
            "sex": ["f", "m"] * (n // 2),
        }
    )


def test_identifiers_and_free_text_are_left_out_and_the_log_says_so(source_of, caplog):
    with caplog.at_level(logging.WARNING, logger="doxa"):
        table = read_table(source_of(people()))
    assert table.names == ("income", "year", "sex")
    said = [record.getMessage() for record in caplog.records]
    assert said[1] == (
        "column 'patient_id' is left out: it looks like row numbers or identifiers, with 100 distinct values in 100 "
        "rows; numbers=['patient_id'] or --numbers keeps it"
    )
    assert [line.split("'")[1] for line in said] == ["Unnamed: 0", "patient_id", "name", "said"]
    assert said[3].endswith("with 50 distinct values in 100 rows; categories=['said'] or --categories keeps it")


@pytest.mark.parametrize(
    "options",
    [
        {"numbers": ["patient_id"]},
        {"categories": ["patient_id"]},
        {"columns": ["patient_id", "sex"]},
        {"bins": {"patient_id": 3}},
    ],
)
def test_who_names_an_identifier_has_it(options):
    assert "patient_id" in read_table(people(), **options).names
    assert "patient_id" not in read_table(people(), bins=3).names


def test_new_rows_keep_the_columns_that_are_known():
    assert read_without_empty(people(), known=["name"]).names == ("name", "income", "year", "sex")


def test_a_table_of_nothing_but_an_identifier_is_read():
    assert read_table(people()[["name"]]).names == ("name",)
    assert "name" in read_table(people(20)).names  # so few rows tell nothing


def test_columns_are_left_out_of_lazy_sources():
    assert read_table(pl.from_pandas(FRAME[["id", "arm"]]).lazy(), drop=["id"]).names == ("arm",)


def test_the_rule_of_what_is_what_is_overruled(source_of, caplog):
    with caplog.at_level(logging.WARNING, logger="doxa"):
        table = read_table(source_of(FRAME), drop=["id"], numbers=["arm"], categories=["dose", "age"])
    assert table.states == (tuple(str(20 + i) for i in range(30)), ("0.5", "1.0", "1.5"), ())
    assert table.numbers[:4, 2].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert "column 'arm' is taken as numbers, and has 2 distinct values" in caplog.text


def test_bins_of_all_columns_spare_those_that_are_named():
    table = read_table(FRAME, drop=["id"], bins=2, numbers=["age"], categories=["dose"])
    assert (table.states[0], len(table.states[1])) == ((), 3)


def test_rows_occur_as_often_as_counts_say(source_of):
    table = read_table(source_of(CELLS), counts="Freq")
    assert table.names == ("Sex", "Admitted")
    assert (table.n_rows, table.n_distinct) == (914, 3)
    found = dict(zip(map(tuple, table.codes.tolist()), table.counts.tolist(), strict=True))
    assert found == {(0, 1): 89, (1, 1): 512, (1, 0): 313}
    repeated = read_table(CELLS.loc[CELLS.index.repeat(CELLS["Freq"]), ["Sex", "Admitted"]].reset_index(drop=True))
    assert repeated.digest == table.digest
    assert np.array_equal(repeated.row_index, table.row_index)


def test_counts_go_with_numbers_and_chosen_columns():
    table = read_table(CELLS.assign(score=[0.5, 0.1, 0.7, 0.2]), columns=["score"], counts="Freq")
    assert (table.names, table.n_rows) == (("score",), 914)
    assert sorted(table.numbers[:, 0]) == [0.2, 0.5, 0.7]


def test_learning_from_counts_is_learning_from_rows(tmp_path):
    CELLS.to_csv(tmp_path / "t.csv", index=False)
    one = doxa.learn(read_table(tmp_path / "t.csv", counts="Freq"), seed=1)
    other = doxa.learn(CELLS.loc[CELLS.index.repeat(CELLS["Freq"]), ["Sex", "Admitted"]], seed=1)
    assert one.log_evidence == other.log_evidence


BAD = [
    ({"drop": ["ag"]}, "drop names 'ag', which is no column; did you mean 'age'?"),
    ({"drop": "age"}, "drop is 'age'; give a list of names: drop=['age']"),
    ({"drop": ["id", "age", "dose", "arm"]}, "drop names every column; leave one in"),
    ({"drop": ["age"], "columns": ["age"]}, "columns and drop both name 'age'; take it out of one of them"),
    ({"numbers": ["id"]}, "numbers names 'id', whose values are not numbers; leave it out of numbers"),
    ({"numbers": ["age"], "bins": {"age": 2}}, "bins and numbers both name 'age'; a column is one or the other"),
    ({"categories": ["age"], "numbers": ["age"]}, "numbers and categories both name 'age'; a column is one or the"),
    ({"counts": "n"}, "counts names 'n', which is no column"),
    ({"counts": "dose"}, "counts names 'dose', which has 0.5 in row 1; counts are whole numbers, 0 or more"),
    ({"counts": "id"}, "counts names 'id', which has no number; counts are whole numbers, 0 or more"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_what_is_refused(options, message):
    with pytest.raises((ArgumentError, TableError, ArgumentTypeError)) as raised:
        read_table(FRAME, **options)
    assert str(raised.value).startswith(message)


def test_counts_of_nothing_are_refused():
    with pytest.raises(TableError, match=r"^counts names 'Freq', whose counts are all 0; there is no row$"):
        read_table(CELLS.assign(Freq=0), counts="Freq")


OF_ROWS = [{"numbers": ["x"]}, {"categories": ["x"]}, {"counts": "x"}]


@pytest.mark.parametrize("option", OF_ROWS)
def test_what_rows_that_are_counted_where_they_are_cannot_have(option, monkeypatch):
    monkeypatch.setattr("doxa.data.read.is_large", lambda *_: True)
    source = duckdb.sql("SELECT i AS x, i AS y FROM range(5) r(i)")
    for read in (read_table, large.read_or_open):
        with pytest.raises(
            TableError, match=f"^{next(iter(option))} is given, and the rows of this source are counted"
        ):
            read(source, **option)


@pytest.mark.parametrize("option", OF_ROWS)
def test_lazy_rows_that_fit_in_memory_have_them(option):
    source = duckdb.sql("SELECT i AS x, i + 1 AS y FROM range(5) r(i)")
    held = read_table(pd.DataFrame({"x": range(5), "y": range(1, 6)}), **option)
    assert read_table(source, **option).digest == large.read_or_open(source, **option).digest == held.digest


def test_a_notebook_without_a_progress_bar_is_no_obstacle(tmp_path):
    """There DuckDB refuses the setting whatever its value."""
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    connect = duckdb.connect

    class Notebook:
        def __init__(self, *arguments, **options):
            self.inner = connect(*arguments, **options)

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def execute(self, query, *rest):
            if "progress_bar" in query:
                raise duckdb.InvalidInputException("ipywidgets is not installed")
            return self.inner.execute(query, *rest)

    with patch("duckdb.connect", Notebook):
        assert read_table(tmp_path / "t.csv", columns=["arm"]).n_rows == 30
