"""Every engine counts what brute force over the rows counts: one pass for many blocks, whatever the cells are.

Ibis and PySpark are tried where they are installed.
"""

import itertools
import os
import shutil
import sys
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from mixed_frames import mixed_frame

import doxa
from doxa.data import read_table
from doxa.data.large import OutOfCoreSource, OutOfCoreTable, SourceError, lazy_engine, open_source, opening
from doxa.data.large import lazy_engine as lazy_spark
from doxa.data.large.engine import Groups
from doxa.data.large.lazy_engine import LazyEngine
from doxa.data.large.source import Marginals
from doxa.data.large.table import count_subset
from doxa.data.large.tally import Tally
from doxa.errors import ArgumentError, TableError

BINS = {"cut me": 4}
ENGINES = ["duckdb", "polars", "dask", "ibis", "ibis on polars", "spark"]


def frame_of(n_rows=600):
    """Names that need quotes, and a column of many values."""
    names, words = ("a.b", "select", "cut me", '`b"', "f", "k"), ("x", "y'", 'é,"', "10", "9")
    return mixed_frame(names, words, n_rows, many="many")


@pytest.fixture(scope="module")
def spark():
    pyspark = pytest.importorskip("pyspark.sql")
    pytest.importorskip("pyarrow")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.codegen.wholeStage", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    if before is None:
        del os.environ["PYSPARK_PYTHON"]
    else:
        os.environ["PYSPARK_PYTHON"] = before


@pytest.fixture
def lazy(request, tmp_path):
    """A function from a frame of pandas to the same rows in an engine."""

    def make(engine, frame):
        path = str(tmp_path / "rows.parquet")
        if engine == "spark":
            frame.to_parquet(path, row_group_size=100, index=False)
            return request.getfixturevalue("spark").read.parquet(path)
        if engine == "duckdb":
            return duckdb.sql("FROM frame")
        if engine == "polars":
            return pl.from_pandas(frame, nan_to_null=False).lazy()
        if engine == "dask":
            return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
        ibis = pytest.importorskip("ibis")
        if engine == "ibis":
            frame.to_parquet(path, index=False)
            return ibis.duckdb.connect().read_parquet(path)
        return ibis.polars.connect({"rows": pl.from_pandas(frame)}).table("rows")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield make


def assert_counts_of(table, found):
    for one in found:
        cells, group = np.unique(table.codes[:, list(one.columns)], axis=0, return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, group.ravel(), table.counts)
        assert np.array_equal(one.codes, cells)
        assert np.array_equal(one.counts, counts)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_counts_what_brute_force_counts(lazy, engine):
    frame = frame_of()
    whole = read_table(frame, bins=BINS)
    sets = [one for size in (0, 1, 2, 3) for one in itertools.combinations(range(7), size)]
    with open_source(lazy(engine, frame), bins=BINS) as counted:
        assert (counted.names, counted.states) == (whole.names, whole.states)
        assert (counted.n_rows, counted.missing_by_column) == (whole.n_rows, whole.missing_by_column)
        found = counted.count_sets(sets)
        digest = counted.digest
    assert [one.columns for one in found] == sets
    assert_counts_of(whole, found[1:])
    with open_source(pl.from_pandas(frame, nan_to_null=False).lazy(), bins=BINS) as counted:
        assert counted.digest == digest


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_groups_no_rows_to_count_columns_of_few_values(lazy, engine, monkeypatch):
    if engine == "polars" and not hasattr(pl.LazyFrame, "collect_batches"):
        pytest.skip("this Polars gives no batches, so each block is a pass")
    frame = frame_of().drop(columns="many")
    with open_source(lazy(engine, frame), bins=BINS) as counted:
        if isinstance(counted._engine, LazyEngine):
            monkeypatch.setattr(LazyEngine, "_group", lambda *_: pytest.fail("a pass for each block"))
        else:
            monkeypatch.setattr(type(counted._engine), "_group", lambda *_: pytest.fail("groups, not a stream"))
        found = counted.count_sets(itertools.combinations(range(6), 2), cells_a_pass=2**20)
    assert_counts_of(read_table(frame, bins=BINS), found)


def learnable(n_rows=500):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, size=(n_rows, 6))
    codes[:, 1] = (codes[:, 0] + (rng.random(n_rows) < 0.2)) % 3
    codes[:, 3] = (codes[:, 1] + codes[:, 2] * (rng.random(n_rows) < 0.7)) % 3
    return pd.DataFrame({f"x{j}": [f"s{code}" for code in column] for j, column in enumerate(codes.T)})


@pytest.mark.parametrize("engine", ENGINES)
def test_learning_gives_the_posterior_of_the_table_in_memory(lazy, engine, monkeypatch):
    frame = learnable()
    exact = doxa.learn(read_table(frame), max_parents=2, seed=1)
    held = doxa.learn(lazy(engine, frame), max_parents=2, seed=1)  # distinct rows are few
    assert not isinstance(held.table, OutOfCoreTable)
    assert np.allclose(held.exact.edge_probabilities, exact.exact.edge_probabilities, rtol=0, atol=1e-12)
    whole = OutOfCoreSource.try_table
    monkeypatch.setattr(OutOfCoreSource, "try_table", lambda self: whole(self, 50))
    found = doxa.learn(lazy(engine, frame), max_parents=2, seed=1)
    assert isinstance(found.table, OutOfCoreTable)
    assert np.array_equal(found.exact.edge_probabilities, exact.exact.edge_probabilities)
    assert found.log_evidence == exact.log_evidence
    missing_cells = frame.assign(x5=frame["x5"].astype(object).where(frame["x2"] != "s1", None))
    with pytest.raises(TableError, match=r"missing cells, in the columns 'x5' \(\d+\); .* leave these columns out"):
        doxa.learn(lazy(engine, missing_cells), max_parents=2)
    with pytest.raises(ArgumentError, match="max_parents"):
        doxa.learn(lazy(engine, frame), max_parents={"x9": 2})


@pytest.mark.parametrize("engine", ["polars", "dask", "ibis", "spark"])
def test_a_value_that_was_not_there_is_named(lazy, engine):
    frame = learnable(60)
    later = frame.assign(x0=["s9", *frame["x0"][1:]])
    with open_source(lazy(engine, frame)) as counted:
        own = dict(zip(frame.columns, counted._engine._own, strict=True))  # Spark's are others
        counted._engine._frame = _wrapped(lazy(engine, later), own)
        with pytest.raises(SourceError, match="column 'x0' has the value 's9', which it had not; open it again"):
            counted.count_sets([[0, 1], [2, 3]])
        counted._engine._frame = _wrapped(lazy(engine, frame[:-1]), own)
        with pytest.raises(SourceError, match="it had 60 rows and has 59"):
            counted.count_sets([[2, 3]])


def _wrapped(native, own):
    import narwhals.stable.v2 as nw

    return nw.from_native(native).rename(own)


def test_what_spark_sends_to_its_workers_counts():
    """Without Spark: the function on batches of Arrow, its rows added up."""
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"s": ["u", None, "v", "u"] * 9, "f": [1.0, np.nan, 0.0, -0.0] * 9, "c": [2, 3, 4, 2] * 9})
    batches = pa.Table.from_pandas(frame, preserve_index=False).to_batches(max_chunksize=5)
    maps = [{"u": 2, "v": 3}, {1.0: 3, 0.0: 2}, None]
    count = lazy_spark._counting(maps, [[0, 1], [2]], [3, 3, 3], [1, 1, 2])
    rows = [tuple(row.values()) for part in count(batches) for row in part.to_pylist()]
    # (u, 1), (missing, missing), (v, 0) and (u, -0.0), the missing cell being the first of three values
    assert sorted(rows) == [(-1, 0, 36), (0, 0, 9), (0, 4, 9), (0, 5, 9), (0, 7, 9), (1, 0, 18), (1, 1, 9), (1, 2, 9)]
    unknown = lazy_spark._counting([{"u": 2}, maps[1], None], [[0]], [3, 3, 3], [1, 1, 2])
    assert (-1, 1) in {tuple(row.values())[:2] for part in unknown(batches) for row in part.to_pylist()}


def test_spark_without_python_workers_groups_the_rows(lazy, monkeypatch):
    frame = learnable(100)

    def no_workers(*_):
        raise RuntimeError("No module named 'pyarrow'")

    monkeypatch.setattr(lazy_engine, "count_in_spark", no_workers)
    with open_source(lazy("spark", frame)) as counted:
        found = counted.count_sets([[0, 1], [3, 4, 5]])
    assert_counts_of(read_table(frame), found)


def test_a_relation_is_grouped_where_there_is_no_pyarrow(monkeypatch):
    frame = frame_of()  # noqa: F841, DuckDB looks for it by name
    sets = list(itertools.combinations(range(7), 2))
    with open_source(duckdb.sql("FROM frame"), bins=BINS) as counted:
        streamed = counted.count_sets(sets)
    monkeypatch.setattr(opening.importlib.util, "find_spec", lambda _: None)
    with open_source(duckdb.sql("FROM frame"), bins=BINS) as counted:
        assert counted._engine._stream is None
        grouped = counted.count_sets(sets)
    for one, other in zip(streamed, grouped, strict=True):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.counts, other.counts)


def test_a_relation_serves_other_queries_between_passes():
    with duckdb.connect() as connection:
        rows = connection.sql("SELECT i % 3 AS a, i % 2 AS b, i % 5 AS c FROM range(300000) AS r(i)")
        with open_source(rows) as counted:
            first = counted.count_sets([[0, 1]])
            assert connection.sql("SELECT 7").fetchall() == [(7,)]
            second = counted.count_sets([[0, 1, 2]])
        assert first[0].counts.tolist() == [50000] * 6
        assert second[0].counts.tolist() == [10000] * 30
        assert connection.sql("SHOW ALL TABLES").fetchall() == []


# -- tables of all possible cells ------------------------------------------------------------------------------------


def test_marginals_are_those_of_the_groups():
    rng = np.random.default_rng(2)
    n_states = np.array([9, 2, 3, 9, 4, 2, 3, 3])
    members = (1, 2, 4, 5, 7)
    codes = np.stack([rng.integers(-(j in (2, 7)), n_states[j], 4000) for j in members], axis=1).astype(np.int16)
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    groups = Groups(cells, counts, None)
    marginals, sparse = Marginals(groups, members, n_states), Marginals(groups, members, n_states)
    sparse._cells = None
    for size in range(6):
        for one in itertools.combinations(members, size):
            bits = sum(1 << j for j in one)
            direct = count_subset(cells, counts, [members.index(j) for j in one], one, n_states[list(one)])
            for found in (marginals.of(bits), sparse.of(bits)):
                assert found.columns == one
                assert np.array_equal(found.codes, direct.codes)
                assert np.array_equal(found.counts, direct.counts)
                assert np.array_equal(found.n_states, direct.n_states)


def test_a_damaged_cell_shows_in_its_marginals():
    # the twin of the equality above
    groups = Groups(np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int16), np.array([5, 6, 7]), None)
    marginals = Marginals(groups, (0, 1), np.array([2, 2]))
    marginals._cells.table[0] += 1
    assert marginals.of(0b01).counts.tolist() == [12, 7]
    assert marginals.of(0b10).counts.tolist() == [6, 13]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16])
def test_tallies_are_those_of_numpy(kind):
    rng = np.random.default_rng(6)
    radices, has_missing = np.array([2, 5, 3, 300]), np.array([False, True, True, False])
    radices[3] = 200 if kind is np.uint8 else 300
    part = np.stack(
        [rng.integers(2 - has, 2 - has + radix, 9001) for radix, has in zip(radices, has_missing, strict=True)]
    )
    blocks = [(0, 1, 2), (3,), (1, 3), ()]
    tally = Tally(blocks, radices, has_missing)
    assert tally.add_parts(iter(np.array_split(part.astype(kind), 3, axis=1))) == (9001, 0)
    codes = part - (2 - has_missing[:, None])
    for block, cells in zip(blocks[:3], tally.cells(), strict=False):
        direct = np.zeros(radices[list(block)], dtype=np.int64)
        np.add.at(direct, tuple(codes[list(block)]), 1)
        assert np.array_equal(cells.table, direct.ravel())
    part[1, 7] = 0
    assert Tally(blocks, radices, has_missing).add_parts([part.astype(kind)]) == (9001, 1)
    part[1, 7], part[0, 3] = 1, 4
    assert Tally(blocks, radices, has_missing).add_parts([part.astype(kind)]) == (9001, 1)
    with pytest.raises(ArgumentError, match=r"a block has at most 2147483648"):
        Tally([(0, 1)], np.array([2**16, 2**16]), np.zeros(2, dtype=bool))
