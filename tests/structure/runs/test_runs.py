"""Runs kept in files: gone on with to the same draws, after a kill as well; refused when they do not fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.store import LeaseHeldError, RunFileError, RunHeader, create_run, open_reader, open_writer
from doxa.structure import MarkovBlanket
from doxa.structure.moves.sampler import GraphStarts
from support.tables import skewed_table

ARRAYS = ("rows", "log_score", "n_edges")


@pytest.fixture
def table():
    return skewed_table(4, 50, seed=7)


def assert_same_draws(one, two):
    for name in ARRAYS:
        assert np.array_equal(one.trace[name], two.trace[name]), name


@pytest.mark.parametrize("sampler", ["single_edge", MarkovBlanket(k=2, published=True)], ids=str)
@pytest.mark.parametrize("warmup", [30, None])
def test_a_longer_run_goes_on_to_the_same_draws(table, tmp_path, sampler, warmup):
    path = tmp_path / "run.doxa"
    options = {"sampler": sampler, "warmup": warmup, "thin": 7, "seed": 3}
    doxa.learn(table, draws=40, store=path, **options)
    doxa.resume(path, table, draws=41)
    more = doxa.resume(path, table, draws=100)
    whole = doxa.learn(table, draws=100, **{**options, "warmup": 20 if warmup is None else warmup})
    assert_same_draws(more, whole)
    assert more.trace.info["accepted"].tolist() == whole.trace.info["accepted"].tolist()
    assert_same_draws(doxa.load(path), whole)


def test_a_stopping_rule_goes_on_to_the_same_end(table, tmp_path):
    path = tmp_path / "run.doxa"
    short, far = doxa.Until(mcse=0.03, ess=50, r_hat=1.2), doxa.Until(mcse=0.005)
    doxa.learn(table, until=short, thin=5, seed=4, store=path)
    assert_same_draws(doxa.resume(path, table, until=far), doxa.learn(table, until=far, thin=5, seed=4))


def test_what_was_finished_is_not_run_again(table, tmp_path):
    path = tmp_path / "run.doxa"
    first = doxa.learn(table, draws=40, seed=3, store=path)
    assert_same_draws(doxa.resume(path, table), first)


def test_load_gives_the_same_answers(table, tmp_path):
    path = tmp_path / "run.doxa"
    made = doxa.learn(table, draws=400, seed=3, store=path, max_parents=2, sampler="markov_blanket")
    loaded = doxa.load(path)
    assert loaded.edges().equals(made.edges())
    assert loaded.summary() == made.summary()
    assert loaded.options == made.options
    assert loaded.sampler == made.sampler


def test_the_table_is_read_again_when_it_is_not_given(table, tmp_path, monkeypatch):
    source = tmp_path / "table.csv"
    codes = table.codes[table.row_index]
    lines = [",".join(table.names), *(",".join(f"s{code}" for code in row) for row in codes)]
    source.write_text("\n".join(lines) + "\n")
    made = doxa.learn(source, draws=20, seed=3, store=tmp_path / "run.doxa")
    monkeypatch.chdir(tmp_path.parent)
    assert_same_draws(doxa.resume(tmp_path / "run.doxa"), made)
    source.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(RunFileError, match="data"):
        doxa.resume(tmp_path / "run.doxa")


def test_differences_are_refused_by_name(table, tmp_path):
    path = tmp_path / "run.doxa"
    doxa.learn(table, draws=20, seed=3, store=path)
    with pytest.raises(RunFileError, match=r"exists already; continue that run \(resume\), choose another name"):
        doxa.learn(table, draws=20, seed=3, store=path)
    other = Table.from_codes(table.names, table.states, table.codes, table.counts + 1)
    with pytest.raises(RunFileError, match="data"):
        doxa.resume(path, other)
    renamed = Table.from_codes(("a", "b", "c", "d"), table.states, table.codes, table.counts)
    with pytest.raises(RunFileError, match="is a run over the columns x0, x1, x2, x3; the table now has a, b, c, d"):
        doxa.resume(path, renamed)
    with pytest.raises(ArgumentError, match="does not say where its table came from; give the table again"):
        doxa.resume(path)
    with pytest.raises(ArgumentError, match="both say when to stop"):
        doxa.resume(path, table, draws=10, until=doxa.Until())
    with open_reader(path) as reader:
        header = reader.header
    assert header.options["draws"] == 20  # nothing of the refused attempts was kept


def test_a_second_writer_is_refused_and_readers_are_welcome(table, tmp_path):
    path = tmp_path / "run.doxa"
    doxa.learn(table, draws=20, seed=3, store=path)
    with open_writer(path):
        with pytest.raises(LeaseHeldError):
            doxa.resume(path, table, draws=30)
        assert doxa.load(path).trace.n_draws == 20
    assert doxa.resume(path, table, draws=30).trace.n_draws == 30


def test_other_kinds_and_strange_options_are_refused(tmp_path):
    toy = RunHeader("toy", {}, "none", {}, 1)
    with create_run(tmp_path / "toy.doxa", toy):
        pass
    with pytest.raises(RunFileError, match="holds a run of the kind 'toy', not of graphs"):
        doxa.load(tmp_path / "toy.doxa")
    with create_run(tmp_path / "odd.doxa", RunHeader("structure", {"nodes": "ab"}, "none", {}, 1)):
        pass
    with pytest.raises(RunFileError, match="is not a run that doxa wrote: its option n_rows is missing"):
        doxa.load(tmp_path / "odd.doxa")
    (tmp_path / "empty.doxa").touch()
    with pytest.raises(RunFileError):
        doxa.load(tmp_path / "empty.doxa")


def test_a_sampler_of_one_s_own_cannot_be_kept(table, tmp_path):
    class Mine(MarkovBlanket):
        name = "mine"

    with pytest.raises(ArgumentError, match="only doxa's own samplers can be kept in a run file"):
        doxa.learn(table, sampler=Mine(), draws=10, store=tmp_path / "run.doxa")
    assert not (tmp_path / "run.doxa").exists()


def test_a_file_keeps_why_its_run_stopped(table, tmp_path):
    path = tmp_path / "run.doxa"
    made = doxa.learn(table, until=doxa.Until(mcse=1e-6, max_draws=600), seed=1, store=path)
    assert made.stop.reason == "max_draws"
    assert doxa.load(path).stop == made.stop
    assert doxa.load(path).verdict == made.verdict
    more = doxa.resume(path, table, draws=700)
    assert doxa.load(path).stop == more.stop
    assert more.stop.reason == "draws"


def test_chains_in_the_form_of_another_version_are_read_and_not_gone_on_with(tmp_path, monkeypatch):
    class Older(NamedTuple):
        rows: np.ndarray
        position: int

    made = doxa.learn(skewed_table(4, 40, seed=1), sampler="single_edge", draws=20, seed=1, store=tmp_path / "r.doxa")
    monkeypatch.setattr(GraphStarts, "start_at", lambda _sampler, rows, *_: Older(rows, 0))
    with pytest.raises(RunFileError, match=r"r.doxa' holds chains in the form of another version of doxa"):
        doxa.resume(tmp_path / "r.doxa", skewed_table(4, 40, seed=1), draws=40)
    assert doxa.load(tmp_path / "r.doxa").edges().equals(made.edges())
