"""Posteriors saved to a file and read back: equal, whole or not at all, and never gone on with in silence."""

from __future__ import annotations

import dataclasses
import os
import stat

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.stopping import Shortfall, StopReport
from doxa.estimates.store import RunFileError, RunWriter, open_reader
from doxa.estimates.trace import Trace
from doxa.structure import MarkovBlanket, StructurePosterior
from doxa.structure.runs import files as saving
from doxa.structure.runs.files import save_run
from support.tables import skewed_table

TABLE = skewed_table(4, 50, seed=7)
KINDS = {
    "fixed length": {"draws": 30, "thin": 7},
    "stopped when accurate": {"until": doxa.Until(mcse=0.03, ess=50, r_hat=1.2), "thin": 5},
    "stopped at its limit": {"until": doxa.Until(mcse=0.0001, max_draws=600), "thin": 3},
    "biased": {"sampler": MarkovBlanket(k=2, published=True), "draws": 40, "max_parents": 2},
    "without a warm-up": {"draws": 5, "warmup": 0, "chains": 1},
}


def learned(**options):
    return doxa.learn(TABLE, **{"sampler": "single_edge", "seed": 3, **options})


def with_(posterior, **changes):
    parts = ("names", "trace", "sampler", "options", "cache", "stop")
    return StructurePosterior(**{name: getattr(posterior, name) for name in parts} | changes)


def assert_equal(one, two):
    """All that a posterior is, but what the score caches of a process did."""
    assert one.names == two.names
    assert one.options == two.options
    assert one.sampler == two.sampler
    assert one.stop == two.stop
    assert one.trace.names == two.trace.names
    for name in one.trace.names:
        assert one.trace[name].dtype == two.trace[name].dtype
        assert np.array_equal(one.trace[name], two.trace[name])
    assert {name: values.tolist() for name, values in one.trace.info.items()} == {
        name: values.tolist() for name, values in two.trace.info.items()
    }
    for name in ("thin", "n_warmup", "entropy"):
        assert getattr(one.trace, name) == getattr(two.trace, name)
    assert one.edges().equals(two.edges())
    assert (one.verdict, one.converged, one.summary()) == (two.verdict, two.converged, two.summary())


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_posterior_loads_equal(tmp_path, kind):
    made = learned(**KINDS[kind])
    save_run(made, tmp_path / "run.doxa")
    assert_equal(doxa.load(tmp_path / "run.doxa"), made)
    assert [path.name for path in tmp_path.iterdir()] == ["run.doxa"]
    save_run(doxa.load(tmp_path / "run.doxa"), str(tmp_path / "again.doxa"))
    assert_equal(doxa.load(tmp_path / "again.doxa"), made)


def test_a_posterior_that_came_from_a_store_saves_too(tmp_path):
    made = learned(draws=30, store=tmp_path / "run.doxa")
    save_run(made, tmp_path / "made.doxa")
    save_run(doxa.load(tmp_path / "run.doxa"), tmp_path / "loaded.doxa")
    assert_equal(doxa.load(tmp_path / "made.doxa"), made)
    assert_equal(with_(doxa.load(tmp_path / "loaded.doxa"), stop=made.stop), made)


def test_what_is_worth_several_rounds_is_written_in_several(tmp_path, monkeypatch):
    made = learned(draws=30)
    seven_draws = 7 * 4 * (4 * 8 + 8 + 4)  # of four chains
    monkeypatch.setattr("doxa.estimates.store.saving._BYTES_OF_A_ROUND", seven_draws)
    save_run(made, tmp_path / "run.doxa")
    assert_equal(doxa.load(tmp_path / "run.doxa"), made)
    with open_reader(tmp_path / "run.doxa") as run:
        assert run._index.n_rounds == 1 + 5


def test_a_stop_report_keeps_every_bit(tmp_path):
    for number, stop in enumerate(
        [
            None,
            StopReport("draws", None, 0.1 + 0.2),
            StopReport("max_seconds", Shortfall("a -> b", "R-hat", np.inf, 1.01, np.inf), 1e-300),
        ]
    ):
        path = tmp_path / f"{number}.doxa"
        save_run(with_(learned(draws=5), stop=stop), path)
        assert doxa.load(path).stop == stop


def test_a_name_that_is_taken_is_refused(tmp_path):
    made, path = learned(draws=5), tmp_path / "run.doxa"
    path.write_text("mine")
    (tmp_path / "link.doxa").symlink_to(tmp_path / "nowhere")
    for name in ("run.doxa", "link.doxa"):
        with pytest.raises(RunFileError) as refused:
            save_run(made, tmp_path / name)
        assert str(refused.value) == (
            f"'{tmp_path / name}' exists already; choose another name, or delete the file first"
        )
    assert path.read_text() == "mine"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["link.doxa", "run.doxa"]


def test_a_name_that_is_taken_meanwhile_is_refused(tmp_path, monkeypatch):
    path, commit = tmp_path / "run.doxa", RunWriter.commit

    def commit_and_lose_the_name(self, done):
        commit(self, done)
        path.write_text("mine")

    monkeypatch.setattr(RunWriter, "commit", commit_and_lose_the_name)
    with pytest.raises(RunFileError, match="exists already; choose another name"):
        save_run(learned(draws=5), path)
    assert path.read_text() == "mine"
    assert [item.name for item in tmp_path.iterdir()] == ["run.doxa"]


@pytest.mark.parametrize("at", [1, 2])
def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch, at):
    commit, calls = RunWriter.commit, []

    def commit_to_a_full_disk(self, done):
        calls.append(done)
        if len(calls) == at:
            self._connection.execute("PRAGMA max_page_count = 1")  # SQLite then finds the disk full
        commit(self, done)

    monkeypatch.setattr(RunWriter, "commit", commit_to_a_full_disk)
    with pytest.raises(RunFileError) as refused:
        save_run(learned(draws=2000), tmp_path / "run.doxa")
    assert str(refused.value) == (
        f"'{tmp_path / 'run.doxa'}' cannot be saved: database or disk is full. There is no such file, not even in "
        "part; make space or choose another folder, and save again"
    )
    assert list(tmp_path.iterdir()) == []
    save_run(learned(draws=5), tmp_path / "run.doxa")


def test_an_interruption_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupted(_self, _done):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunWriter, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_run(learned(draws=5), tmp_path / "run.doxa")
    assert list(tmp_path.iterdir()) == []


def test_where_there_are_no_hard_links_it_is_moved(tmp_path, monkeypatch):
    def no_links(_source, _target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    made = learned(draws=5)
    save_run(made, tmp_path / "run.doxa")
    assert_equal(doxa.load(tmp_path / "run.doxa"), made)
    assert [path.name for path in tmp_path.iterdir()] == ["run.doxa"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions as POSIX has them")
def test_a_saved_file_may_be_read_by_whom_other_files_may_be(tmp_path):
    before = os.umask(0o022)
    try:
        save_run(learned(draws=5), tmp_path / "run.doxa")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.doxa").stat().st_mode) == 0o644


def test_places_and_posteriors_that_cannot_be_saved(tmp_path):
    made = learned(draws=5)
    with pytest.raises(RunFileError, match="does not exist; create it first"):
        save_run(made, tmp_path / "no" / "run.doxa")
    with pytest.raises(ArgumentTypeError, match=r"path is 3; it must be the name of a file"):
        save_run(made, 3)
    with pytest.raises(
        RunFileError, match=r"cannot be saved: File name too long\. There is no such file, not even in part"
    ):
        save_run(made, tmp_path / ("long" * 100))

    class Mine(MarkovBlanket):
        name = "mine"

    with pytest.raises(ArgumentError, match="only doxa's own samplers can be kept in a run file"):
        save_run(with_(made, sampler=Mine()), tmp_path / "run.doxa")
    trace = Trace(made.trace.draws, info={"accepted": np.zeros((4, 2))})
    with pytest.raises(ArgumentError, match=r"info\['accepted'\] of the trace is no whole number a chain"):
        save_run(with_(made, trace=trace), tmp_path / "run.doxa")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_posterior_is_not_gone_on_with_and_the_way_out_is_named(tmp_path):
    path = tmp_path / "run.doxa"
    save_run(learned(draws=20, thin=7), path)
    before = path.read_bytes()
    for more in ({}, {"draws": 40}, {"until": doxa.Until()}):
        with pytest.raises(RunFileError) as refused:
            doxa.resume(path, TABLE, **more)
        assert str(refused.value) == (
            f"'{path}' holds a saved posterior, without the states of its chains: it can be read (doxa.load) but not "
            "gone on with. To make the run longer, make it again in a new file, with doxa.learn(table, seed=3, "
            "store=...) and the options it had; such a file can be gone on with"
        )
    assert path.read_bytes() == before
    # the way out leads there
    longer = learned(draws=40, warmup=10, thin=7, store=tmp_path / "longer.doxa")
    assert np.array_equal(longer.trace["rows"][:, :20], doxa.load(path).trace["rows"])


@pytest.mark.parametrize(
    "saved",
    [
        1, {}, [], {"stop": 1}, {"stop": {"reason": "draws"}},
        {"stop": {"reason": 1, "seconds": "0x0p+0", "held_back": None}},
        {"stop": {"reason": "draws", "seconds": "soon", "held_back": None}},
        {"stop": {"reason": "draws", "seconds": "0x1p+99999", "held_back": None}},
        {"stop": {"reason": "draws", "seconds": "0x0p+0", "held_back": ["a", "b", 1, 2, 3]}},
    ],
)  # fmt: skip
def test_a_stranger_s_file_is_refused_in_words(tmp_path, monkeypatch, saved):
    header = saving._header

    def strange(posterior):
        made = header(posterior)
        return dataclasses.replace(made, options={**made.options, "saved": saved})

    monkeypatch.setattr(saving, "_header", strange)
    save_run(learned(draws=5), tmp_path / "run.doxa")
    with pytest.raises(RunFileError, match=r"is not a run that doxa wrote: its option (saved|stop)[. ]"):
        doxa.load(tmp_path / "run.doxa")
