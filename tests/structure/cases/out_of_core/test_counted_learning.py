"""`doxa.learn` where the distinct rows are too many: the same posterior, refusals in words, failures that go on."""

import itertools
import sqlite3

import duckdb
import numpy as np
import polars as pl
import pytest

import doxa
from doxa.data.large import OutOfCoreSource, OutOfCoreTable, SourceError, open_source
from doxa.errors import ArgumentError, FileError, TableError
from doxa.estimates.store import RunFileError
from doxa.structure import MarkovBlanket
from doxa.structure.averaging import counts as averaging_counts
from doxa.structure.cases.out_of_core import learning
from doxa.structure.cases.out_of_core import scores as families

N_COLUMNS, MOST = 6, 50
SAMPLED = {"draws": 40, "warmup": 20, "thin": 50, "chains": 2, "seed": 3, "max_parents": 2}


def frame(n_rows=700, seed=4):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, size=(n_rows, N_COLUMNS))
    codes[:, 1] = (codes[:, 0] + (rng.random(n_rows) < 0.2)) % 3
    codes[:, 3] = (codes[:, 1] + codes[:, 2] * (rng.random(n_rows) < 0.7)) % 3
    return pl.DataFrame({f"x{j}": [f"s{code}" for code in column] for j, column in enumerate(codes.T)})


@pytest.fixture(autouse=True)
def few_rows_are_held(monkeypatch):
    """A table of more than 50 distinct rows is too large."""
    whole = OutOfCoreSource.try_table
    monkeypatch.setattr(OutOfCoreSource, "try_table", lambda self: whole(self, MOST))


@pytest.fixture(scope="module")
def table():
    return doxa.read_table(frame())


def sources(folder):
    frame().write_parquet(folder / "t.parquet")
    rows = frame()  # noqa: F841, DuckDB looks for it by name
    yield pl.scan_parquet(folder / "t.parquet")
    yield duckdb.sql("FROM rows")
    with open_source(folder / "t.parquet") as opened:
        yield opened


def test_sums_over_graphs_are_the_same_from_every_source(table, tmp_path):
    exact = doxa.learn(table, max_parents=2, seed=1)
    for source in sources(tmp_path):
        found = doxa.learn(source, max_parents=2, seed=1)
        assert isinstance(found.table, OutOfCoreTable)
        assert np.array_equal(found.exact.edge_probabilities, exact.exact.edge_probabilities)
        assert found.log_evidence == exact.log_evidence
        assert np.array_equal(found.trace["rows"], exact.trace["rows"])
    assert found.edges().equals(exact.edges())


@pytest.mark.parametrize(
    "sampler",
    ["auto", "single_edge", "edge_gibbs", "emc3", MarkovBlanket(k=3), "parent_set_gibbs", "edge_reversal", "tempered"],
)
def test_every_sampler_draws_the_same_graphs(table, sampler):
    asked = SAMPLED | {"sampler": sampler, "required": [("x0", "x1")], "tiers": [["x0"], ["x4"]]}
    whole, counted = doxa.learn(table, **asked), doxa.learn(frame().lazy(), **asked)
    assert np.array_equal(whole.trace["rows"], counted.trace["rows"])
    assert np.array_equal(whole.log_score, counted.log_score)
    assert counted.cache.n_misses == 0


def test_queries_and_predictions_use_the_counts(table):
    whole, counted = doxa.learn(table, max_parents=2, seed=1), doxa.learn(frame().lazy(), max_parents=2, seed=1)
    first, second = (one.query("x3", given={"x0": "s1"}, do={"x2": "s2"}) for one in (whole, counted))
    assert [first[s].value for s in first] == [second[s].value for s in second]
    assert [first[s].credible_interval() for s in first] == [second[s].credible_interval() for s in second]
    rows = frame()[:5].drop("x3")
    assert whole.predict(rows, "x3").equals(counted.predict(rows, "x3"))
    assert whole.parent_tables("x3").equals(counted.parent_tables("x3"))
    assert next(iter(counted.networks(20))).names == table.names
    with pytest.raises(TableError, match="the rows of this table are not here"):
        counted.predictive_checks()


def test_families_beyond_the_budget_are_refused_before_they_are_counted(monkeypatch):
    rng = np.random.default_rng(1)
    wide = pl.DataFrame({f"x{j}": rng.choice(["a", "b", "c"], 120) for j in range(40)}).lazy()
    monkeypatch.setattr(OutOfCoreSource, "count_sets", None)
    with pytest.raises(ArgumentError) as raised:
        doxa.learn(wide, prior="uniform")
    assert str(raised.value).startswith("max_parents allows up to 39 parents, 22 trillion families with ")
    assert "the table has 120 rows, more of them distinct than are held in memory" in str(raised.value)
    assert (
        str(raised.value).endswith("max_parents=4 would do, with 3.7 million families with 592 million cells") is False
    )
    assert "at most 2 million families, 67 million cells and 10 parents are; max_parents=3 would do" in str(
        raised.value
    )
    with pytest.raises(ArgumentError, match="max_parents allows up to 4 parents"):
        doxa.learn(wide, max_parents=4)
    with pytest.raises(ArgumentError, match="max_parents allows up to 39 parents"):
        doxa.learn(wide, prior="uniform", max_parents={"x1": 2})
    monkeypatch.setattr(families, "MOST_CELLS", 50)
    with pytest.raises(ArgumentError, match="read fewer columns"):
        doxa.learn(wide, max_parents=2)


def test_what_takes_rows_is_refused(tmp_path):
    missing_cells = frame().with_columns(pl.when(pl.col("x2") == "s1").then(pl.col("x5")).alias("x5"))
    with pytest.raises(TableError, match=r"missing cells, in the columns 'x5' \(\d+\); .* take.*rows: leave these col"):
        doxa.learn(missing_cells.lazy(), max_parents=2)
    for declared in ({"indicator": ["x1"]}, {"hidden": {"u": 2}}):
        with pytest.raises(
            ArgumentError, match="indicator, hidden, interventions or time is given, but the distinct rows"
        ):
            doxa.learn(frame().lazy(), max_parents=2, **declared)
    for wrong in ({"sampler": "gibs"}, {"required": [("x0", "y")]}, {"draws": 1}, {"prior": "flat"}):
        with pytest.raises(ArgumentError):  # before any pass
            doxa.learn(frame().lazy(), max_parents=2, **wrong)


# -- failures, and runs that are kept --------------------------------------------------------------------------------


@pytest.fixture
def passes(monkeypatch):
    """Blocks that are counted, at most 100 cells a pass; the pass whose number is put into the list fails."""
    from doxa.data.large.lazy_engine import LazyEngine

    counted, whole, sets = [], LazyEngine.count_blocks, OutOfCoreSource.count_sets
    monkeypatch.setattr(OutOfCoreSource, "count_sets", lambda self, asked: sets(self, asked, cells_a_pass=100))

    def counting(self, blocks, most):
        counted.append(len(blocks))
        if len(counted) in failing:
            raise SourceError("worker lost")
        return whole(self, blocks, most)

    failing = []
    monkeypatch.setattr(LazyEngine, "count_blocks", counting)
    return counted, failing


def test_a_run_whose_source_fails_goes_on_from_what_is_kept(tmp_path, passes):
    counted, failing = passes
    unbroken = doxa.learn(frame().lazy(), **SAMPLED)
    n_passes = len(counted)
    assert n_passes > 5
    counted.clear()
    failing.append(4)
    store = tmp_path / "run.doxa"
    with pytest.raises(SourceError, match=r"worker lost; \d+ of the 42 sets .*are counted and kept"):
        doxa.learn(frame().lazy(), **SAMPLED, store=store)
    assert not store.exists()
    assert (tmp_path / "run.doxa.counts").exists()
    made = len(counted) - 1
    found = doxa.learn(frame().lazy(), **SAMPLED, store=store)
    assert len(counted) - made - 1 <= n_passes - made + 1  # the failed pass again, and those after it
    assert np.array_equal(found.trace["rows"], unbroken.trace["rows"])
    counted.clear()
    with pytest.raises(RunFileError, match="exists"):
        doxa.learn(frame().lazy(), **SAMPLED, store=store)
    # the counts are kept with the run: nothing needs the source any more
    loaded, more = doxa.load(store), doxa.resume(store, draws=60)
    assert loaded.table.digest == found.table.digest == unbroken.table.digest
    assert loaded.query("x1")["s0"].value == found.query("x1")["s0"].value
    assert more.n_edges.shape == (2, 60)
    assert counted == []


def test_a_run_without_its_counts_takes_the_source_again(tmp_path, table):
    store = tmp_path / "run.doxa"
    made = doxa.learn(frame().lazy(), **SAMPLED, store=store)
    (tmp_path / "run.doxa.counts").unlink()
    assert np.array_equal(doxa.load(store).trace["rows"], made.trace["rows"])  # graphs need no table
    assert doxa.load(store, frame().lazy()).query("x1")["s0"].value == made.query("x1")["s0"].value
    with pytest.raises(ArgumentError, match="not the one that the posterior was learned from"):
        doxa.load(store, frame(seed=5).lazy())
    assert not (tmp_path / "run.doxa.counts").exists()
    assert doxa.resume(store, frame().lazy(), draws=50).n_edges.shape == (2, 50)
    with pytest.raises(RunFileError, match="data"):
        doxa.resume(store, frame(600).lazy(), draws=55)
    with pytest.raises(ArgumentError, match="is a run over the columns x0, x1"):
        doxa.load(store, frame().lazy().select("x1", "x0", "x2", "x3", "x4"))
    with pytest.raises(RunFileError):
        doxa.resume(store, table, draws=60)  # of the same rows, but with a digest of rows


def test_counts_that_another_run_left_are_not_taken(tmp_path):
    store = tmp_path / "run.doxa"
    doxa.learn(frame(seed=5).lazy(), **SAMPLED, store=store)
    store.unlink()
    with pytest.raises(FileError, match=r"run\.doxa\.counts' holds counts of another source"):
        doxa.learn(frame().lazy(), **SAMPLED, store=store)
    small = frame()[:30].lazy()
    doxa.learn(small, **SAMPLED, store=store)  # held in memory: the file is not looked at
    assert not isinstance(doxa.load(store, small).table, OutOfCoreTable)
    with sqlite3.connect(tmp_path / "run.doxa.counts") as connection:
        connection.execute("UPDATE source SET known = '[1]'")
    connection.close()
    with pytest.raises(FileError, match="cannot be used"):
        learning.table_of(tmp_path / "run.doxa.counts", [(0,)])


def test_a_source_that_is_given_open_stays_open_and_keeps(tmp_path, passes):
    counted, _ = passes
    with open_source(frame().lazy(), keep=tmp_path / "kept") as source:
        doxa.learn(source, **SAMPLED)
        n_passes = len(counted)
        doxa.learn(source, **SAMPLED)
        assert len(counted) == n_passes
        source.count_sets(list(itertools.combinations(range(N_COLUMNS), 3)))
    with open_source(frame().lazy(), keep=tmp_path / "kept") as again:
        assert isinstance(doxa.learn(again, **SAMPLED).table, OutOfCoreTable)
        assert len(counted) == n_passes


def test_counts_of_a_table_in_memory_and_of_counts_are_one_function(table):
    limits = doxa.structure.limits.capped([2] * N_COLUMNS)
    with open_source(frame().lazy()) as source:
        held = learning.count_table(source, limits)
    draws = np.arange(2)
    for family in [(0, ()), (3, (1, 2)), (1, (0,))]:
        first, second = (averaging_counts.CompletedTable(one).counts(family, draws) for one in (table, held))
        assert np.array_equal(first, second)
