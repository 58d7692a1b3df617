"""Columns of numbers in a table: what becomes one, from every source, and what tables do with them."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import doxa
from doxa import Table, read_table
from doxa.data.scaled import scaled
from doxa.data.table import check_categories
from doxa.errors import TableError

FRAME = pd.DataFrame(
    {
        "bmi": [18.5, 31.25, np.nan, 24.0, 18.5],
        "sex": ["f", "m", "m", None, "f"],
        "age": [30, 41, 52, 63, 30],
        "visits": list(range(30))[::7],
    }
)
MANY = pd.DataFrame({"steps": range(0, 80, 2), "dose": [float(5 * i) for i in range(40)], "few": [1, 2] * 20})


def test_numbers_are_the_same_from_every_source(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_parquet(tmp_path / "t.parquet")
    sources = [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), tmp_path / "t.csv", tmp_path / "t.parquet"]
    tables = [read_table(source) for source in sources]
    assert len({table.digest for table in tables}) == 1
    assert tables[0].is_number.tolist() == [True, False, False, False]
    assert tables[0].states[0] == ()
    assert tables[0].n_states.tolist() == [1, 2, 4, 5]


def test_whole_numbers_of_many_values_are_numbers():
    table = read_table(MANY)
    assert table.is_number.tolist() == [True, True, False]
    assert np.array_equal(table.numbers[:, :2], MANY[["steps", "dose"]].to_numpy(dtype=float))


def test_equal_rows_collapse_and_missing_numbers_are_missing():
    table = read_table(FRAME[["bmi", "sex", "age"]])
    assert (table.n_rows, table.n_distinct, table.counts.tolist()) == (5, 4, [2, 1, 1, 1])
    assert table.missing_by_column == {"bmi": 1, "sex": 1}
    assert table.codes[:, 0].tolist() == [0, 0, -1, 0]
    assert np.array_equal(table.numbers[table.row_index, 0], FRAME["bmi"], equal_nan=True)
    assert np.isnan(table.numbers[:, 1:]).all()


def test_columns_are_selected_with_their_numbers():
    table = read_table(FRAME)
    chosen = table.select(["age", "bmi"])
    assert np.array_equal(chosen.numbers[chosen.row_index, 1], FRAME["bmi"], equal_nan=True)
    assert table.select(["sex"]).numbers is None


def test_rows_differ_where_only_a_number_differs():
    table = Table.from_codes(["x"], [()], [[0]] * 3, numbers=[[0.1], [0.1 + 2**-60], [0.1 + 2**-50]])
    assert table.counts.tolist() == [2, 1]  # the second is the first, rounded


def test_the_digest_knows_numbers():
    one, other = (Table.from_codes(["x"], [()], [[0]], numbers=[[value]]) for value in (1.0, 2.0))
    assert one.digest != other.digest


def test_a_negative_zero_is_a_zero():
    table = Table.from_codes(["x"], [()], [[0], [0]], numbers=[[0.0], [-0.0]])
    assert table.counts.tolist() == [2]
    assert not np.signbit(table.numbers).any()


def test_infinite_numbers_are_refused():
    with pytest.raises(TableError, match=r"^numbers\[1, 0\], of column 'x', is infinite; numbers are finite$"):
        Table.from_codes(["x"], [()], [[0], [0]], numbers=[[1.0], [np.inf]])
    with pytest.raises(TableError, match=r"^column 'x' contains a number in row 2 that is infinite"):
        read_table(pd.DataFrame({"x": [0.5, np.inf]}))


def test_numbers_and_codes_must_agree():
    with pytest.raises(TableError, match=r"^numbers has shape \(1, 1\) and codes \(2, 1\); they must agree$"):
        Table.from_codes(["x"], [()], [[0], [0]], numbers=[[1.0]])


LAZY = {
    "relation": lambda: duckdb.from_arrow(pa.Table.from_pandas(FRAME, preserve_index=False)),
    "polars": lambda: pl.from_pandas(FRAME).lazy(),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_sources_with_numbers_are_read_into_memory(name):
    source = LAZY[name]()
    options = {"numbers": ["visits"], "drop": ["age"], "transform": {"visits": "log1p"}}
    for given in ({}, {"columns": ["bmi", "sex"]}, options):
        assert read_table(source, **given).digest == read_table(FRAME, **given).digest
    both = doxa.learn(source, draws=20, progress=False, seed=1), doxa.learn(FRAME, draws=20, progress=False, seed=1)
    assert both[0].options.data_digest == both[1].options.data_digest
    with doxa.data.large.open_source(source, columns=["sex"]) as counted:
        assert counted.n_rows == 5
    said = r"^column 'bmi' \(3 distinct numbers with decimals\): rows that are counted"
    with doxa.data.large.open_source(source) as counted, pytest.raises(TableError, match=said):
        counted.table()


def test_lazy_sources_of_too_many_numbers_are_refused(monkeypatch):
    monkeypatch.setattr("doxa.data.read.is_large", lambda n_rows, n_columns: n_rows * n_columns > 4)
    source = duckdb.sql("SELECT i + 0.5 AS x FROM range(30) r(i)")
    with pytest.raises(TableError, match=r"distinct numbers with decimals\): .*; of fewer rows than these 30, numbers"):
        read_table(source)
    with pytest.raises(TableError, match=r"^numbers is given, .*; of fewer rows than these 30, numbers would be held"):
        read_table(source, numbers=["x"])


def test_what_takes_categories_says_how_to_make_them():
    check_categories(read_table(MANY[["few"]]), "a network")
    with pytest.raises(TableError) as raised:
        check_categories(read_table(MANY), "a network")
    assert str(raised.value) == (
        "columns 'steps', 'dose': a network takes categories, and numbers are categories only if they are cut into "
        "bins, with bins=4 or bins={'steps': 4} (--bins 4 or --bins NAME=4); or leave out by naming the others with "
        "columns=[...] or --columns"
    )


@pytest.mark.parametrize(
    ("column", "right"),
    [
        ([1.0, 2.0, 3.0], [-1, 0, 1]),
        ([1e300, 2e300, 3e300], [-1, 0, 1]),
        ([-1e308, 0.0, 1e308], [-1, 0, 1]),
        ([5e-324, 10e-324, 15e-324], [-1, 0, 1]),
        ([1e9, 1e9 + 2**-20, 1e9 + 2**-19], [-1, 0, 1]),
        ([7.0, 7.0, 7.0], [0, 0, 0]),
        ([0.0, 0.0, 0.0], [0, 0, 0]),
        ([1.0, np.nan, 3.0], [-(0.5**0.5), np.nan, 0.5**0.5]),
    ],
)
def test_numbers_are_scaled_however_large_or_small(column, right):
    table = Table.from_codes(["x"], [()], [[0]] * 3, numbers=np.array(column)[:, None])
    values = scaled(table).values[0, table.row_index]
    assert np.allclose(values, right, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_a_column_of_numbers_that_nobody_saw_is_scaled_to_itself():
    table = Table.from_codes(["x", "y"], [(), ("a",)], [[-1, 0]], numbers=[[np.nan, np.nan]])
    assert np.isnan(scaled(table).values).all()


def test_scaling_counts_rows_as_often_as_they_occur():
    values = np.repeat([1.0, 2.0, 5.0], [3, 1, 2])[:, None]
    table = Table.from_codes(["x"], [()], np.zeros((6, 1), int), numbers=values)
    found = scaled(table)
    assert np.allclose(found.centre, values.mean(), rtol=1e-14)
    assert np.allclose(found.scale, values.std(ddof=1), rtol=1e-14)


def test_learning_takes_numbers_by_default():
    assert doxa.learn(read_table(MANY), seed=1).options.numbers == ("steps", "dose")
