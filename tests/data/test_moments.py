"""Numbers of sources too large to hold: the same scores, posteriors and answers as from the rows in memory."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import doxa
from doxa.data.large import open_source
from doxa.data.large.moments import rows_with_moments
from doxa.errors import ArgumentError, TableError
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.gaussian.kinds import BGe, ConditionalGaussian


def frame_of(n=400, seed=1):
    rng = np.random.default_rng(seed)
    sex, site = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.395, 0.005])
    age = rng.normal(50.0, 12.0, n)
    dose = 0.02 * age + (sex == "m") + rng.normal(size=n)
    level = 1e6 + 300.0 * dose * (site == "a") + 100.0 * rng.normal(size=n)
    return pd.DataFrame({"sex": sex, "age": age, "site": site, "dose": dose, "level": level})


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr("doxa.data.duck._LARGE_ROWS", 0)


def sources(frame, folder):
    """The same rows from everywhere."""
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet")
    pl.from_pandas(frame).write_parquet(folder / "by_polars.parquet")
    return {
        "csv": folder / "rows.csv",
        "parquet": folder / "rows.parquet",
        "duckdb": duckdb.sql(f"SELECT * FROM '{folder}/rows.parquet'"),
        "polars": pl.scan_parquet(folder / "by_polars.parquet"),
        "dask": pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3),
    }


def all_scores(table, kind):
    scores, names = FamilyScores(table, kind), table.names
    forbidden = kind.forbidden_edges(table.is_number)
    found = []
    for child in range(len(names)):
        others = [j for j in range(len(names)) if j != child and not forbidden[j, child]]
        for size in range(1 << len(others)):
            above = tuple(names[j] for k, j in enumerate(others) if size >> k & 1)
            found.append(scores.log_score(names[child], above))
    return np.array(found)


@pytest.mark.filterwarnings("ignore:Dask support is moving")
@pytest.mark.parametrize("kept", ["csv", "parquet", "duckdb", "polars", "dask"])
@pytest.mark.parametrize("columns", [None, ["age", "dose", "level"]])
def test_scores_from_moments_are_those_of_the_rows(tmp_path, kept, columns):
    frame = frame_of()
    source = sources(frame, tmp_path)[kept]
    rows = doxa.read_table(frame, columns=columns)
    with open_source(source, columns=columns) as opened:
        assert opened.numbers == ("age", "dose", "level")
        table = opened.try_table()
    assert (table.names, table.states, table.n_rows) == (rows.names, rows.states, rows.n_rows)
    assert table.n_distinct < rows.n_distinct
    kind = ConditionalGaussian() if columns is None else BGe()
    expected = all_scores(rows, kind)
    assert np.abs(all_scores(table, kind) - expected).max() < 1e-8
    spread = table.numbers.copy()
    wide = table.counts > np.median(table.counts)  # as if the weights of these had been left out of their distance
    spread[wide] *= 1.01
    twin = doxa.data.Table.from_codes(table.names, table.states, table.codes, table.counts, spread)
    assert np.abs(all_scores(twin, kind) - expected).max() > 1e-3


def test_rows_have_the_moments_that_were_asked_for():
    rng = np.random.default_rng(2)
    for n, p in [(1, 3), (2, 3), (3, 3), (6, 3), (7, 3), (40, 3), (10_001, 5), (4, 1)]:
        x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + 3.0
        around = x - x.mean(axis=0)
        rows, counts = rows_with_moments(n, x.mean(axis=0), around.T @ around)
        assert counts.sum() == n
        assert (counts > 0).all()
        assert len(rows) <= 2 * p + 1
        mean = counts @ rows / n
        assert mean == pytest.approx(x.mean(axis=0))
        assert (rows - mean).T @ (counts[:, None] * (rows - mean)) == pytest.approx(around.T @ around, abs=1e-9)


@pytest.mark.usefixtures("everything_is_large")
def test_posteriors_and_answers_from_moments_are_those_of_the_rows(tmp_path):
    frame = frame_of()
    posterior = doxa.learn(sources(frame, tmp_path)["parquet"])
    rows = doxa.learn(doxa.read_table(frame))
    assert posterior.options.score.name == "conditional_gaussian"
    mine, theirs = (one.edges().set_index(["source", "target"]).probability.sort_index() for one in (posterior, rows))
    pd.testing.assert_series_equal(mine, theirs, rtol=1e-6, atol=1e-9)
    asked = {"given": {"sex": "m"}, "do": {"age": 60.0}}
    mine, theirs = (one.query("dose", networks=200, **asked).distribution.mean for one in (posterior, rows))
    assert mine == pytest.approx(theirs, rel=0.02)
    effects = [one.effect("age", "dose") for one in (posterior, rows)]
    assert abs(effects[0].value - effects[1].value) < 4.9 * np.hypot(effects[0].mcse, effects[1].mcse)
    posterior.save(tmp_path / "run.doxa")
    again = doxa.load(tmp_path / "run.doxa", tmp_path / "rows.parquet")
    assert again.table.moments == posterior.table.moments
    doxa.report(posterior, tmp_path / "page.html")
    assert "moments" in repr(posterior.table)
    with pytest.raises(ArgumentError, match="only the moments are kept"):
        posterior.predictive_checks()
    with pytest.raises(ArgumentError, match="additive families are scored from rows"):
        doxa.learn(tmp_path / "rows.parquet", family="additive")
    with pytest.raises(TableError, match="learn from its moments"):
        doxa.read_table(tmp_path / "rows.parquet")


def test_numbers_far_from_zero_keep_their_digits_or_are_refused(tmp_path):
    rng = np.random.default_rng(3)
    x = 1e9 + 100.0 * rng.normal(size=500)
    frame = pd.DataFrame({"x": x, "y": x - 1e9 + rng.normal(size=500), "g": rng.choice(["u", "v"], 500)})
    rows = doxa.read_table(frame)
    for kept in ("parquet", "polars"):
        with open_source(sources(frame, tmp_path)[kept]) as opened:
            table = opened.try_table()
        assert np.abs(all_scores(table, ConditionalGaussian()) - all_scores(rows, ConditionalGaussian())).max() < 1e-3
    frame["x"] = 1e9 + 1e-6 * np.round(rng.normal(size=500))
    for kept in ("parquet", "polars"):
        with open_source(sources(frame, tmp_path)[kept]) as opened, pytest.raises(TableError, match="digits"):
            opened.try_table()
    frame["x"] = np.where(frame.g == "u", 0.0, 1.0) + 1e-7 * rng.normal(size=500)
    with open_source(sources(frame, tmp_path)["polars"]) as opened, pytest.raises(TableError, match="lose digits"):
        opened.try_table()
    with open_source(sources(frame, tmp_path)["parquet"]) as opened:
        table = opened.try_table()
    rows = doxa.read_table(frame)
    assert np.abs(all_scores(table, ConditionalGaussian()) - all_scores(rows, ConditionalGaussian())).max() < 1e-3


def test_what_has_no_moments_is_refused(tmp_path):
    frame = frame_of(200)
    holed = frame.copy()
    holed.loc[3, "dose"] = np.nan
    infinite = frame.copy()
    infinite.loc[3, "dose"] = np.inf
    numbered = frame.assign(number=np.arange(200) * 7)
    for bad, words in [
        (holed, r"missing cells, in the columns 'dose' \(1\)"),
        (infinite, "'dose' contains a number that is infinite"),
        (numbered, "'number'.*another whole number in each row"),
    ]:
        with pytest.raises(TableError, match=words), open_source(sources(bad, tmp_path)["parquet"]) as opened:
            opened.try_table()
    with open_source(sources(frame, tmp_path)["parquet"]) as opened, pytest.raises(TableError, match="configurations"):
        opened.try_table(10)
