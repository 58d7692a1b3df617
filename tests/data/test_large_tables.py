"""Tables that are counted where they live give what the same tables give when they are read whole."""

import datetime
import decimal
import itertools
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixed_frames import mixed_frame

import doxa.data.duck
from doxa.data import Table, read_table
from doxa.data.duck import double
from doxa.data.large import open_source
from doxa.errors import ArgumentError, ArgumentTypeError, TableError

BINS = {"q r": 4, "A": 3}


def odd_frame():
    """Names that differ only in case or need quotes."""
    return mixed_frame(("a", "A", "q r", 'b"', "f", "place"), ("x", "y'", 'é,"', "a\nb", "10"), 400)


def as_multiset(table):
    return sorted(map(tuple, np.c_[table.codes, table.counts].tolist()))


def rises(table):
    rows = table.codes.tolist()
    return rows == sorted(rows)


def lazies(frame):
    import dask
    import dask.dataframe as dd

    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        yield "duckdb", duckdb.sql("FROM arrow")
        yield "polars", pl.from_arrow(arrow).lazy()
        yield "dask", dd.from_pandas(frame, npartitions=3)


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(doxa.data.duck, "_LARGE_ROWS", 0)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("missing", [None, ["x", "-2", "-0.01"]])
def test_a_large_file_has_the_digest_of_the_same_file_read_whole(tmp_path, monkeypatch, name, missing):
    path = tmp_path / name
    frame = odd_frame()
    frame.to_parquet(path) if name.endswith("t") else frame.to_csv(path, index=False)
    whole = read_table(path, bins=BINS, missing=missing)
    monkeypatch.setattr(doxa.data.duck, "_LARGE_ROWS", 100)
    large = read_table(path, bins=BINS, missing=missing)
    assert (large.names, large.states, large.digest) == (whole.names, whole.states, whole.digest)
    assert (large.n_rows, large.missing_by_column) == (whole.n_rows, whole.missing_by_column)
    assert (whole.has_row_order, large.has_row_order) == (True, False)
    picked = read_table(path, columns=["f", "a"], missing=missing)
    assert picked.digest == large.select(["f", "a"]).digest


def test_lazy_frames_have_the_states_and_counts_of_the_collected_ones():
    frame = odd_frame().rename(columns={"A": "B"})  # names of relations disregard case: DuckDB has renamed it
    collected = {"duckdb": pa.Table.from_pandas(frame, preserve_index=False), "dask": frame}
    bins = {"q r": 4, "B": 3}
    for name, lazy in lazies(frame):
        whole = read_table(collected.get(name, collected["duckdb"]), bins=bins)
        table = read_table(lazy, bins=bins)
        assert (table.names, table.states) == (whole.names, whole.states), name
        assert as_multiset(table) == as_multiset(whole), name
        assert table.missing_by_column == whole.missing_by_column, name
        assert rises(table), name
        assert not table.has_row_order, name


@pytest.mark.parametrize("n_bins", [2, 7, 49, 93, 300])
def test_bins_are_those_of_all_the_rows(n_bins):
    rng = np.random.default_rng(n_bins)
    frame = pl.DataFrame({"v": rng.normal(size=997), "few": rng.integers(0, 30, 997)})
    whole = read_table(frame, bins=n_bins)
    for lazy in (frame.lazy(), duckdb.sql("FROM frame")):
        table = read_table(lazy, bins=n_bins)
        assert table.states == whole.states
        assert as_multiset(table) == as_multiset(whole)


def test_bins_of_repeated_values_and_of_every_form_are_those_of_all_the_rows():
    rng = np.random.default_rng(2)
    zeros = np.where(rng.random(3000) < 0.8, 0.0, rng.gamma(2, 3, 3000).round(2))
    frame = pl.DataFrame({"rain": zeros, "bmi": rng.normal(25, 4, 3000), "one": np.full(3000, 0.5)})
    bins = {"rain": 4, "bmi": [18.5, 25, 30], "one": 3}
    for asked in (bins, bins | {"bmi": "uniform:5"}, 4):
        whole = read_table(frame, bins=asked)
        assert whole.states[0][:1] == ("0",)
        assert len(whole.states[0]) == 4
        for lazy in (frame.lazy(), duckdb.sql("FROM frame")):
            table = read_table(lazy, bins=asked)
            assert (table.states, table.cuts) == (whole.states, whole.cuts)
            assert as_multiset(table) == as_multiset(whole)
    with pytest.raises(TableError, match="supervised, and the rows of this source are counted where they are"):
        read_table(frame.with_columns(k=pl.lit("a")).lazy(), bins={"rain": "supervised:k", "bmi": 2, "one": 2})


def test_bins_of_a_column_with_very_many_numbers(tmp_path):
    frame = pd.DataFrame({"v": np.random.default_rng(0).normal(size=20_000), "w": ["a", "b"] * 10_000})
    frame.loc[::9, "v"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    whole = read_table(frame, bins=5)
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", pl.from_pandas(frame).lazy()):
        with open_source(source, bins=5) as counted:
            table = counted.table()
            assert counted.missing_by_column == whole.missing_by_column
        assert (table.states, as_multiset(table)) == (whole.states, as_multiset(whole))


def test_numbers_are_written_as_they_are():
    """DuckDB 1 reads a decimal without quotes as a DECIMAL, and rounds some of these when it makes a DOUBLE of it."""
    rng = np.random.default_rng(2)
    numbers = [*rng.normal(size=500), *np.exp(rng.uniform(-300, 300, 200)), 0.0, -0.0, 5e-324, 1.7e308, 1e16 + 2]
    asked = ", ".join(double(float(number)) for number in numbers)
    (found,) = duckdb.sql(f"SELECT {asked}").fetchall()
    assert list(found) == numbers


def test_a_lazy_frame_of_an_old_polars_is_refused(monkeypatch):
    frame = pl.DataFrame({"a": ["x", "y", "x"]})
    monkeypatch.setattr(pl, "__version__", "1.29.5")
    with pytest.raises(ArgumentError, match=r"lazy frame of Polars 1\.29\.5; .* pip install 'polars>=1\.30', or give "):
        read_table(frame.lazy())
    assert read_table(frame).n_rows == 3
    monkeypatch.setattr(pl, "__version__", "1.30.0rc1")
    assert read_table(frame.lazy()).n_rows == 3


def test_enums_and_categoricals_keep_their_order():
    import dask.dataframe as dd

    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ha''p,py', 'never', '?')")
        relation = connection.sql("SELECT unnest(['sad', NULL, 'ha''p,py', '?'])::mood AS mood, 'a' AS b")
        table = read_table(relation)
        assert table.states == read_table(relation.df()).states == (("sad", "ha'p,py", "never"), ("a",))
        assert (table.codes.tolist(), table.counts.tolist()) == ([[-1, 0], [0, 0], [1, 0]], [2, 1, 1])
        assert connection.sql("SHOW ALL TABLES").fetchall() == []  # nothing is created in the user's database
    frame = pd.DataFrame({"c": pd.Categorical(["v", "u", None], ["v", "w", "u"])})
    enum = pl.LazyFrame({"c": pl.Series(["v", "u", None], dtype=pl.Enum(["v", "w", "u"]))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sources = enum, dd.from_pandas(frame, npartitions=1)
        assert [read_table(source).states for source in sources] == [(("v", "w", "u"),)] * 2


def test_types_of_a_relation():
    with duckdb.connect() as connection:
        relation = connection.sql(
            "SELECT 2.50::DECIMAL(9,2) AS d, 'NaN'::FLOAT AS f, 18446744073709551615::UBIGINT AS u, true AS b "
            "UNION ALL SELECT NULL, 0.5, 0, NULL UNION ALL SELECT 3, 0.25, 1, NULL"
        )
        table = read_table(relation, bins={"d": 2, "f": 2}, missing=["1"])
        assert table.states == (
            ("[2.5, 3)", "[3, 3]"),
            ("[0.25, 0.5)", "[0.5, 0.5]"),
            ("0", "18446744073709551615"),
            ("True",),
        )
        whole = read_table(relation.pl(), bins={"d": 2, "f": 2}, missing=["1"])
        assert (table.states, as_multiset(table)) == (whole.states, as_multiset(whole))


@pytest.mark.usefixtures("everything_is_large")
def test_refusals_are_those_of_tables_read_whole(tmp_path, monkeypatch):
    many = {"id": [f"r{i}" for i in range(5000)]}
    frames = [
        (pd.DataFrame(many, columns=["id"]), None),
        (pd.DataFrame({"id": many["id"][:1500]}), None),
        (pd.DataFrame({"a": pd.Series([None, None], dtype="str"), "b": ["x", "y"]}), None),
        (pd.DataFrame({"a": [1.0, np.inf], "b": ["x", "y"]}), {"a": 2}),
    ]
    for frame, cut in frames:
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_parquet(tmp_path / "t.parquet", index=False)
        arrow = pa.Table.from_pandas(frame, preserve_index=False)
        for source in (
            tmp_path / "t.csv",
            tmp_path / "t.parquet",
            pl.from_arrow(arrow).lazy(),
            duckdb.sql("FROM arrow"),
        ):
            read_whole = source if isinstance(source, type(tmp_path)) else arrow
            monkeypatch.setattr(doxa.data.duck, "_LARGE_ROWS", 2**24)
            with pytest.raises(TableError) as whole:
                read_table(read_whole, bins=cut)
            monkeypatch.setattr(doxa.data.duck, "_LARGE_ROWS", 0)
            with pytest.raises(TableError) as large:
                read_table(source, bins=cut)
            assert str(large.value) == str(whole.value).replace(" in row 2", "")  # where counted, rows have no order


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\nx,y\nx\n", "line 3 has 1 cell and the header has 2"),
        ("a,b\nx,y,\n", "line 2 has 3 cells"),
        ("a,b\nx,y\n\nx,y\n", "line 3 is blank"),
        ('a,b\nx,"y\n', "the quote opened on line 2 is never closed"),
    ],
)
def test_ragged_lines_of_a_large_text_are_refused(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError, match=words):
        read_table(tmp_path / "t.csv")


def test_things_that_cannot_be_counted_are_named(tmp_path):
    with pytest.raises(ArgumentTypeError, match=r"source is a DataFrame; give a path, what connection\.sql"):
        open_source(pd.DataFrame({"a": ["x"]}))
    with duckdb.connect() as connection:
        with pytest.raises(TableError, match="column 'd' is of type DATE, which makes no categories"):
            read_table(connection.sql("SELECT DATE '2020-01-01' AS d"))
        with pytest.raises(TableError, match="source has the columns 'a' more than once"):
            read_table(connection.sql("SELECT 1 AS a, 2 AS a"))
        with pytest.raises(TableError, match="has columns but no rows"):
            read_table(connection.sql("SELECT 'x' AS a WHERE false"))
        with pytest.raises(ArgumentError, match="columns names 'b', which is no column"):
            read_table(connection.sql("SELECT 'x' AS a"), columns=["b"])
    with pytest.raises(TableError, match="has columns but no rows"):
        read_table(pl.LazyFrame({"a": []}, schema={"a": pl.String}))
    with pytest.raises(TableError, match="column 'd' is of type Date"):
        read_table(pl.LazyFrame({"d": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(TableError, match="source: column 1 of 1 has no name"):
        read_table(pl.LazyFrame({"": ["x"]}))
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(TableError, match="is not a Parquet file, or is damaged"):
        open_source(tmp_path / "t.parquet")


def test_exact_decimals_of_lazy_frames():
    frame = pl.DataFrame({"d": [decimal.Decimal("2.00"), decimal.Decimal("3.00"), None], "i": [2**63, 1, 2]})
    for lazy in (frame.lazy(), duckdb.sql("FROM frame")):
        assert read_table(lazy).states == read_table(frame).states == (("2", "3"), ("1", "2", str(2**63)))


def test_a_table_without_order_says_so_and_does_the_rest():
    frame = odd_frame()
    table = read_table(pl.from_pandas(frame[["a", "f"]]).lazy())
    with pytest.raises(TableError, match="the order of the 400 rows is not known"):
        table.row_index  # noqa: B018
    with_order = Table.from_codes(table.names, table.states, table.codes, table.counts)
    assert with_order.digest == table.digest
    assert with_order.row_index.size == 400
    one = table.select(["f"])
    assert (one.digest, one.has_row_order) == (with_order.select(["f"]).digest, False)
    assert repr(one) == repr(with_order.select(["f"]))


def test_too_many_distinct_rows_for_a_table(tmp_path):
    codes = np.array(list(itertools.product(range(3), repeat=6)))
    frame = pd.DataFrame({f"x{j}": column for j, column in enumerate(codes.T)})
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (tmp_path / "t.parquet", pl.from_pandas(frame).lazy()):
        with open_source(source) as counted:
            assert counted.table(729).n_distinct == 729
            assert counted.try_table(728) is None
            with pytest.raises(TableError, match=r"has more than 728 distinct rows.*count_sets"):
                counted.table(728)


def test_parquet_of_many_row_groups_keeps_the_order_of_first_occurrence(tmp_path):
    codes = np.random.default_rng(5).integers(0, 6, size=(5000, 3))
    arrow = pa.table({f"x{j}": column.astype(str) for j, column in enumerate(codes.T)})
    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=64)
    with open_source(tmp_path / "t.parquet") as counted:
        assert counted.table().digest == read_table(arrow).digest


def test_learning_from_a_lazy_frame_is_learning_from_the_table():
    import doxa

    whole = doxa.datasets.load("reinis")
    labels = {
        name: np.array(states)[whole.codes[whole.row_index, j]]
        for j, (name, states) in enumerate(zip(whole.names, whole.states, strict=True))
    }
    lazy = pl.DataFrame(labels).lazy()
    found, exact = (doxa.learn(source).edges().set_index(["source", "target"]).sort_index() for source in (lazy, whole))
    assert np.allclose(found["probability"], exact["probability"], rtol=0, atol=1e-12)
