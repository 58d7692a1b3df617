"""Sets of columns counted where they live: the counts, the passes, failures in the middle, and going on after them."""

import itertools
import math
import os
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxa.data import read_table
from doxa.data.large import SourceError, open_source, opening
from doxa.data.large.blocks import cover, members_of
from doxa.data.large.table import SetCounts, count_subset
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError, FileError

RADIX = [2, 3, 2, 4, 3, 2, 5, 2]


def frame_of(n_rows=1500, seed=1, missing_cells=0.05):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, RADIX, size=(n_rows, len(RADIX)))
    codes[:, 1] = (codes[:, 0] + (rng.random(n_rows) < 0.2)) % 3
    frame = pd.DataFrame({f"x{j}": np.char.add("s", column.astype(str)) for j, column in enumerate(codes.T)})
    return frame.mask(rng.random(frame.shape) < missing_cells)


def all_sets(n, size):
    return [s for k in range(size + 1) for s in itertools.combinations(range(n), k)]


def assert_counts_of(table, found):
    """Against brute force over the rows."""
    for one in found:
        rows = table.codes[:, list(one.columns)]
        cells, group = np.unique(rows, axis=0, return_inverse=True)
        if not one.columns:
            cells, group = np.empty((1, 0)), np.zeros(len(rows), dtype=int)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, group.ravel(), table.counts)
        assert np.array_equal(one.codes, cells)
        assert np.array_equal(one.counts, counts)
        assert one.n_states.tolist() == [RADIX[j] for j in one.columns]


@pytest.mark.parametrize(
    ("make", "cells_a_pass"), [*itertools.product(["parquet", "polars"], [2**22, 1000]), ("duckdb", 1), ("polars", 1)]
)
def test_counts_are_those_of_brute_force(tmp_path, make, cells_a_pass):
    frame = frame_of()
    frame.to_parquet(tmp_path / "t.parquet")
    source = {
        "parquet": tmp_path / "t.parquet",
        "polars": pl.from_pandas(frame).lazy(),
        "duckdb": duckdb.sql("FROM frame"),
    }[make]
    sets = all_sets(8, 2 if cells_a_pass == 1 else 3)[::-1]
    with open_source(source) as counted:
        found = counted.count_sets(sets, cells_a_pass=cells_a_pass)
    assert [one.columns for one in found] == sets
    assert_counts_of(read_table(frame), found)


@pytest.mark.parametrize("make", ["parquet", "duckdb"])
def test_passes_are_few_and_made_once(tmp_path, monkeypatch, make):
    frame = frame_of()
    frame.to_parquet(tmp_path / "t.parquet")
    with open_source(tmp_path / "t.parquet" if make == "parquet" else duckdb.sql("FROM frame")) as counted:
        engine, passes = counted._engine, []
        whole = engine.count_blocks
        monkeypatch.setattr(engine, "count_blocks", lambda *a: passes.append(a[0]) or whole(*a))
        quads = list(itertools.combinations(counted.names, 4))
        first = counted.count_sets(quads)
        assert len(passes) == 1  # 70 sets, one block
        again = counted.count_sets([reversed(quad) for quad in quads])
        assert len(passes) == 1
        assert all(a is b for a, b in zip(first, again, strict=True))
        counted.count_sets(list(itertools.combinations(range(8), 5)), cells_a_pass=3000)
        assert 2 < len(passes) < 57  # 56 sets, several to a pass


@pytest.mark.parametrize("missing_cells", [0, 0.05])
def test_streams_of_several_parts_are_counted_whole(tmp_path, monkeypatch, missing_cells):
    frame = frame_of(9000, missing_cells=missing_cells)
    frame["many"] = [f"v{i % 300}" for i in range(9000)]  # codes of two bytes
    frame["cut"] = np.random.default_rng(8).normal(size=9000)
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(opening, "_VECTORS", 1)
    sets = [(0, 1, 6), (3, 8), (9, 2), (9, 8, 1)]
    with open_source(tmp_path / "t.parquet", bins={"cut": 4}) as counted:
        streamed = counted.count_sets(sets)
    with open_source(duckdb.sql("FROM frame"), bins={"cut": 4}) as counted:
        grouped = counted.count_sets(sets)
    for first, second in zip(streamed, grouped, strict=True):
        assert np.array_equal(first.codes, second.codes)
        assert np.array_equal(first.counts, second.counts)
        assert first.counts.sum() == 9000


def test_a_stream_with_values_that_were_not_there(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": ["x", "y"], "b": ["x", "x"]}).to_parquet(path)
    with open_source(path) as counted:
        counted._engine._verify = lambda: None
        pd.DataFrame({"a": ["x", "z"], "b": ["x", "x"]}).to_parquet(path)
        with pytest.raises(SourceError, match="changed while it was counted: it has values that it had not"):
            counted.count_sets([[0, 1]])
        pd.DataFrame({"a": ["x", "x", "y"], "b": ["x"] * 3}).to_parquet(path)
        with pytest.raises(SourceError, match=r"it had 2 rows and has 3; .*0 of the 1 sets"):
            counted.count_sets([[0, 1]])


def test_how_states_occur_is_part_of_the_digest(tmp_path):
    for values in (["a", "b", "b"], ["a", "a", "b"]):
        pl.DataFrame({"x": values}).write_parquet(tmp_path / f"{values[1]}.parquet")
    digests = set()
    for name in "ab":
        with open_source(tmp_path / f"{name}.parquet") as counted:
            digests.add(counted.digest)
        with open_source(pl.scan_parquet(tmp_path / f"{name}.parquet")) as counted:
            digests.add(counted.digest)
    assert len(digests) == 2


def test_wide_tables_need_no_more_than_grouping_takes(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({f"x{j}": rng.choice(["a", "b"], 50) for j in range(70)})
    frame.to_parquet(tmp_path / "t.parquet")
    whole = read_table(frame)
    pairs = [(j, 69 - j) for j in range(35)]
    with open_source(tmp_path / "t.parquet") as counted:
        assert counted.table().digest == whole.digest
        for pair, one in zip(pairs, counted.count_sets(pairs), strict=True):
            rows = whole.codes[whole.row_index][:, list(pair)]
            assert [int((rows == cell).all(axis=1).sum()) for cell in one.codes] == one.counts.tolist()


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=9),
    st.lists(st.sets(st.integers(0, 8), min_size=1, max_size=5), max_size=30),
    st.integers(1, 500),
)
def test_blocks_contain_their_sets_within_the_bound(radices, sets, most):
    bits = {sum(1 << j for j in one if j < len(radices)) for one in sets} - {0}
    blocks = cover(sorted(bits), [math.log(radix) for radix in radices], most)
    assert sorted(one for _, served in blocks for one in served) == sorted(bits)
    for block, served in blocks:
        assert all(one & ~block == 0 for one in served)
        cells = math.prod(radices[j] for j in members_of(block))
        assert cells <= most or block in served  # a block beyond the bound is one set's own


def test_subsets_of_sparse_blocks_are_sorted_alike():
    rng = np.random.default_rng(7)
    n_states = np.full(14, 5)
    codes = np.unique(rng.integers(-1, 5, size=(300, 14)), axis=0).astype(np.int16)
    counts = rng.integers(1, 9, len(codes))
    block = SetCounts(tuple(range(14)), n_states, codes, counts)
    sparse = block.without(3)  # 6^13 cells: by sorting
    dense = count_subset(codes, counts, [0, 1], (0, 1), n_states[:2])
    assert np.array_equal(sparse.codes, np.unique(codes[:, [0, 1, 2, *range(4, 14)]], axis=0))
    assert sparse.counts.sum() == dense.counts.sum() == counts.sum()
    assert np.array_equal(dense.codes, np.unique(codes[:, :2], axis=0))
    with pytest.raises(ArgumentError, match="have missing cells"):
        block.index  # noqa: B018


def test_index_is_mixed_radix_with_the_last_fastest():
    frame = frame_of(missing_cells=0)
    with open_source(pl.from_pandas(frame).lazy()) as counted:
        (one,) = counted.count_sets([["x3", "x1", "x6"]])
    assert one.columns == (1, 3, 6)
    assert one.index.tolist() == [(a * 4 + b) * 5 + c for a, b, c in one.codes.tolist()]
    assert one.n_possible == 60
    parents = one.without(3)
    assert parents.columns == (1, 6)
    assert parents.counts.sum() == 1500


# -- failures --------------------------------------------------------------------------------------------------------


def failing_at(n_pass, frame):
    """A Polars frame that raises in its n-th pass, and later ones; the list counts the passes."""
    passes = []

    def look(batch):
        passes.append(1)
        if len(passes) == n_pass:
            raise OSError("worker lost")
        return batch

    return pl.from_pandas(frame).lazy().map_batches(look, schema=None, streamable=False), passes


def test_a_source_that_fails_midway_goes_on_when_asked_again(tmp_path):
    frame = frame_of(300)
    sets = list(itertools.combinations(range(8), 3))
    lazy, passes = failing_at(14, frame)
    with open_source(lazy, keep=tmp_path / "kept") as counted:
        opened = len(passes)
        assert opened < 14
        with pytest.raises(SourceError) as raised:
            counted.count_sets(sets, cells_a_pass=100)
        message = str(raised.value)
        assert message.startswith("source (a lazy frame of polars) failed while its rows were grouped: ")
        assert "worker lost" in message
        kept = int(message.split("; ")[-1].split(" of the 56 sets")[0])
        assert 0 < kept < 56
        failed_at = len(passes)
        found = counted.count_sets(sets, cells_a_pass=100)
        assert_counts_of(read_table(frame), found)
        n_passes = len(passes) - failed_at + (failed_at - opened - 1)
    fresh, passes = failing_at(10**6, frame)
    with open_source(fresh) as counted:
        opened = len(passes)
        counted.count_sets(sets, cells_a_pass=100)
        assert len(passes) - opened >= n_passes - 2  # what was kept was not counted again


def test_counts_in_a_file_serve_another_process(tmp_path):
    frame = frame_of(300)
    sets = list(itertools.combinations(range(8), 3))
    lazy, _ = failing_at(14, frame)
    with open_source(lazy, keep=tmp_path / "kept") as counted, pytest.raises(SourceError):
        counted.count_sets(sets, cells_a_pass=100)
    with sqlite3.connect(tmp_path / "kept") as connection:
        (n_kept,) = connection.execute("SELECT count(*) FROM sets").fetchone()
    connection.close()
    assert 0 < n_kept < 56
    with open_source(pl.from_pandas(frame).lazy(), keep=tmp_path / "kept") as counted:
        asked = []
        engine, group = counted._engine, counted._engine.group
        engine.group = lambda blocks, most: asked.extend(blocks) or group(blocks, most)
        found = counted.count_sets(sets, cells_a_pass=10)
        assert len(asked) <= 56 - n_kept
    assert_counts_of(read_table(frame), found)
    with pytest.raises(FileError, match="holds counts of another source"):
        open_source(pl.from_pandas(frame[["x0", "x1"]]).lazy(), keep=tmp_path / "kept")
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(FileError, match="cannot be used"):
        open_source(pl.from_pandas(frame).lazy(), keep=tmp_path / "text")


def test_a_failure_while_a_table_is_read_is_clean():
    lazy, _ = failing_at(2, frame_of(50))
    with pytest.raises(SourceError, match=r"source \(a lazy frame of polars\) failed while .*worker lost"):
        read_table(lazy)


def test_a_closed_connection():
    connection = duckdb.connect()
    relation = connection.sql("SELECT i % 3 AS a, i % 2 AS b FROM range(12) AS r(i)")
    counted = open_source(relation)
    counted.count_sets([[0]])
    connection.close()
    with pytest.raises(SourceError, match=r"source \(a DuckDB relation\) failed .*closed; 0 of the 1 sets") as raised:
        counted.count_sets([[0, 1], [0]])
    assert isinstance(raised.value, DoxaError)
    assert counted.count_sets([[0]])[0].counts.tolist() == [4, 4, 4]  # what is kept is served
    with pytest.raises(SourceError, match="source \\(a DuckDB relation\\) failed while"):
        read_table(relation)


def test_a_relation_whose_data_change_between_passes():
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS x, i % 2 AS y FROM range(10) AS r(i)")
        counted = open_source(connection.table("t"))
        connection.execute("INSERT INTO t VALUES ('a', 1)")
        with pytest.raises(SourceError, match="changed while it was counted: it had 10 rows and has 11"):
            counted.table()
        connection.execute("DELETE FROM t WHERE rowid = 10")
        connection.execute("UPDATE t SET x = 'new' WHERE rowid = 3")
        with pytest.raises(SourceError, match="changed while it was counted: it has values that it had not"):
            counted.count_sets([[0]])


def test_a_lazy_frame_whose_file_changes_between_passes(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"x": ["a", "b"]}).write_parquet(path)
    with open_source(pl.scan_parquet(path)) as counted:
        pl.DataFrame({"x": ["a", "c"]}).write_parquet(path)
        with pytest.raises(SourceError, match="column 'x' has the value 'c', which it had not"):
            counted.table()
        path.unlink()
        with pytest.raises(SourceError, match="failed while its rows were grouped"):
            counted.table()


def test_a_file_that_changes_between_passes(tmp_path):
    path = tmp_path / "t.parquet"
    frame_of(50).to_parquet(path)
    with open_source(path) as counted:
        os.utime(path, ns=(0, 0))
        with pytest.raises(SourceError, match=r"changed while it was counted: the file was written; open it again"):
            counted.table()
        path.unlink()
        with pytest.raises(SourceError, match=r"it cannot be opened any more \(No such file or directory\)"):
            counted.table()


def test_a_text_is_copied_and_may_go(tmp_path):
    path = tmp_path / "t.csv"
    frame_of(50).to_csv(path, index=False)
    digest = read_table(path).digest
    with open_source(path) as counted:
        path.unlink()
        assert counted.table().digest == digest


def test_sets_that_are_none():
    with open_source(pl.LazyFrame({"smoke": ["y", "n"], "heart": ["y", "n"]})) as counted:
        for sets, kind, words in [
            (["smoke"], ArgumentTypeError, r"sets holds 'smoke'; a set is a list of names: \['smoke'\]"),
            ([["smokes"]], ArgumentError, "sets names 'smokes', which is no column; did you mean 'smoke'"),
            ([[2]], ArgumentError, "sets holds the column 2; columns are 0 to 1"),
            ([[0, "smoke"]], ArgumentError, "sets has a set with the column 'smoke' twice"),
        ]:
            with pytest.raises(kind, match=words):
                counted.count_sets(sets)
        assert repr(counted) == "OutOfCoreSource(2 rows x 2 columns, no missing cells)"
        assert counted.count_sets([[]])[0].counts.tolist() == [2]
