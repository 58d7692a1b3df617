"""Fits that are kept in a file: shown, gone on with, killed, interrupted, short of space."""

from __future__ import annotations

import re
import signal

import numpy as np
import pandas as pd
import pytest
from cli_cases import QUICK as QUICK_LEARN
from cli_cases import files_in

import doxa
from doxa.sampling import runner
from support.run_files import draws_in, interrupted, signalled

QUICK = ["--draws", "40", "--seed", "1"]


@pytest.fixture(autouse=True)
def weather(tmp_path):
    (tmp_path / "graph.txt").write_text("wet: rain, cold\ncold: rain\n")
    rows = "no,dry,no\nyes,wet,no\nno,wet,yes\nyes,wet,yes\nno,dry,yes\nyes,dry,no\n"
    (tmp_path / "table.csv").write_text("rain,wet,cold\n" + rows * 8)
    return tmp_path / "table.csv"


@pytest.fixture
def kept_here(run):
    """Standard output of a fit in fit.doxa, which remembers this folder."""
    code, out, _ = run("fit", "graph.txt", "table.csv", *QUICK, "--store", "fit.doxa")
    assert code == 0
    return out


@pytest.fixture(scope="module")
def copies():
    """What that printed and its file, once a test has asked for them."""
    return []


@pytest.fixture
def kept(request, tmp_path, copies):
    """The same for a file that nobody goes on with: the folder that it remembers may be that of another test."""
    path = tmp_path / "fit.doxa"
    if not copies:
        copies += [request.getfixturevalue("kept_here"), path.read_bytes()]
    path.write_bytes(copies[1])
    return copies[0]


def test_show_prints_what_the_fit_printed_and_writes_summary_and_draws(run, kept, tmp_path):
    code, out, err = run("show", "fit.doxa")
    assert (code, out, err) == (0, kept, "")
    code, out, err = run("show", "fit.doxa", "--output", "summary.csv", "--draws", "draws.parquet")
    assert (code, err) == (0, "")
    assert out == kept + "\nAll 6 parameters are in summary.csv.\n\nAll 160 draws are in draws.parquet.\n"
    posterior = doxa.load("fit.doxa")
    assert pd.read_csv("summary.csv")["mean"].tolist() == pytest.approx(posterior.summary()["mean"].tolist())
    assert pd.read_parquet("draws.parquet").equals(posterior.to_frame())
    code, _, err = run("show", "fit.doxa", "--draws", "fit.doxa")
    assert code == 2


def test_a_fit_is_gone_on_with_to_the_draws_of_a_longer_one(run, kept_here, tmp_path):
    code, longer, err = run("fit", "--resume", "fit.doxa", "--draws", "90", "--output", "summary.csv")
    assert (code, err) == (0, "")
    assert "4 chains x 90 draws after 20 of warm-up; seed 1" in longer
    code, whole, _ = run("fit", "graph.txt", "table.csv", "--draws", "90", "--warmup", "20", "--seed", "1")
    assert longer == whole + "\nAll 6 parameters are in summary.csv.\n"
    assert run("show", "fit.doxa")[1] == whole


def test_averages_are_shown_and_gone_on_with(run):
    words = ["fit", "graph.txt", "table.csv", "--average", "20", "--warmup", "5", "--seed", "1"]
    code, whole, err = run(*words, "--draws", "30", "--store", "whole.doxa")
    assert (code, err) == (0, "")
    assert "4 chains x 30 averages of 20 draws after 5 of warm-up; seed 1" in whole
    assert run(*words, "--draws", "10", "--store", "fit.doxa")[0] == 0
    assert run("fit", "--resume", "fit.doxa", "--draws", "30") == (0, whole, "")
    code, out, err = run("show", "fit.doxa", "--draws", "draws.csv")
    assert (code, out) == (2, whole)
    said = "to_frame needs draws, and this fit has kept averages of 20 draws; fit with keep='draws' (as when left out)"
    assert err == f"doxa: {said}"
    code, _, err = run("report", "whole.doxa", "--output", "page.html")
    assert code == 2
    assert "with keep='draws'" in err


def test_resuming_can_ask_for_accuracy_instead(run, kept_here):
    code, out, _ = run("fit", "--resume", "fit.doxa", "--ess", "200", "--max-draws", "1600")
    assert code == 0
    assert re.search(r"4 chains x (1525|1600) draws", out)


def test_resuming_takes_the_table_and_the_graph_again(run, kept_here, tmp_path):
    (tmp_path / "table.csv").rename(tmp_path / "moved.csv")
    code, _, err = run("fit", "--resume", "fit.doxa")
    assert (code, err) == (2, f"doxa: source: no file 'table.csv' in '{tmp_path}'")
    assert run("fit", "--resume", "fit.doxa", "moved.csv") == (0, kept_here, "")
    (tmp_path / "same.txt").write_text("rain\ncold: rain\nwet: cold rain\n")
    assert run("fit", "same.txt", "moved.csv", "--resume", "fit.doxa") == (0, kept_here, "")
    (tmp_path / "other.txt").write_text("cold: rain\nwet: cold\n")
    code, _, err = run("fit", "other.txt", "moved.csv", "--resume", "fit.doxa")
    assert code == 2
    assert err == (
        "doxa: graph 'other.txt' is not that of the fit in 'fit.doxa': they differ at 'wet'; leave GRAPH out to go on "
        "with that fit, or begin another one with --store"
    )


def test_another_table_is_refused(run, kept_here, tmp_path):
    text = (tmp_path / "table.csv").read_text()
    (tmp_path / "table.csv").write_text(text + "yes,wet,yes\n")
    code, out, err = run("fit", "--resume", "fit.doxa", "--draws", "90")
    assert (code, out) == (2, "")
    assert "it was started in another way" in err
    assert run("show", "fit.doxa")[1] == kept_here


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--method", "flip"], "--method"),
        (["--prior-scale", "10"], "--prior-scale"),
        (["--chains", "4"], "--chains"),
        (["--seed", "1"], "--seed"),
        (["--columns", "wet"], "--columns"),
        (["--store", "other.doxa"], "--store"),
    ],
)
def test_what_belongs_to_the_start_is_refused_on_resuming(run, kept, words, option):
    code, out, err = run("fit", "--resume", "fit.doxa", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"doxa: Invalid value for {option}: --resume goes on with a fit")
    assert run("show", "fit.doxa")[1] == kept


def test_fits_and_runs_over_graphs_are_told_apart(run, kept):
    assert run("learn", "table.csv", *QUICK_LEARN, "--store", "run.doxa")[0] == 0
    code, out, err = run("learn", "--resume", "fit.doxa")
    assert (code, out) == (2, "")
    assert err == "doxa: 'fit.doxa' holds a fit of parameters; go on with it by: doxa fit --resume fit.doxa"
    code, out, err = run("fit", "--resume", "run.doxa")
    assert (code, out) == (2, "")
    assert err == "doxa: 'run.doxa' holds a run over graphs; go on with it by: doxa learn --resume run.doxa"
    assert run("show", "fit.doxa")[1] == kept
    assert "source  target" in run("show", "run.doxa")[1]


def test_names_that_are_taken_or_no_runs_are_refused(run, kept, tmp_path):
    code, _, err = run("fit", "graph.txt", "table.csv", *QUICK, "--store", "fit.doxa")
    assert code == 2
    assert err.startswith(f"doxa: '{tmp_path}/fit.doxa' exists already; continue that run (resume)")
    code, _, err = run("fit", "--resume", "table.csv")
    assert (code, err) == (2, f"doxa: '{tmp_path}/table.csv' is not a run of doxa: it is not an SQLite database")
    code, _, err = run("fit", "--resume", "nothing.doxa")
    assert (code, err) == (2, f"doxa: there is no run file '{tmp_path}/nothing.doxa'")
    doxa.load("fit.doxa").save("saved.doxa")
    code, _, err = run("fit", "--resume", "saved.doxa", "table.csv")
    assert code == 2
    assert "holds a saved posterior, without the states of its chains" in err


def stopped(path, *words, **options):
    return signalled(path, *words, block=2**8, **options)


def test_what_was_stopped_ends_as_if_nobody_had(run, tmp_path):
    words = ["fit", "graph.txt", "table.csv", "--draws", "6000", "--warmup", "300", "--seed", "3", "--workers", "1"]
    killed = stopped(tmp_path / "fit.doxa", *words, "--store", "fit.doxa", send=signal.SIGKILL)
    assert killed == (-signal.SIGKILL, "", "")
    path, stored = tmp_path / "fit.doxa", draws_in(tmp_path / "fit.doxa")
    assert 0 < stored < 6000
    code, out, err = stopped(tmp_path / "fit.doxa", "fit", "--resume", "fit.doxa", send=signal.SIGINT, after=stored)
    assert (code, out) == (130, "")
    assert re.fullmatch(
        r"doxa: interrupted after \d+ of 6000 draws of each of the 4 chains; warm-up was done; "
        r"go on with it by: doxa fit --resume fit\.doxa\n", err
    ), err  # fmt: skip
    assert stored < draws_in(path) < 6000
    code, out, err = run("fit", "--resume", "fit.doxa")
    assert (code, err) == (0, "")
    assert out == run(*words, "--store", "whole.doxa")[1]
    one, other = doxa.load(path).trace, doxa.load(tmp_path / "whole.doxa").trace
    assert one.names == other.names
    assert all(np.array_equal(one[name], other[name]) for name in one.names)


def test_a_full_disk_is_said_and_the_fit_goes_on_once_there_is_space(run, kept_here, tmp_path, monkeypatch):
    commit = runner.Runner.commit

    def commit_to_a_full_disk(self):
        self.store._connection.execute("PRAGMA max_page_count = 1")  # it cannot grow any more
        commit(self)

    with monkeypatch.context() as patched:
        patched.setattr(runner.Runner, "commit", commit_to_a_full_disk)
        code, out, err = run("fit", "--resume", "fit.doxa", "--draws", "4000")
    assert (code, out) == (2, "")
    assert err.startswith(f"doxa: '{tmp_path}/fit.doxa' cannot be written: the disk is full ")
    assert "the file holds 40 draws of each chain" in err
    code, out, _ = run("fit", "--resume", "fit.doxa", "--draws", "4000")
    assert code == 0
    assert "4 chains x 4000 draws" in out


def test_an_interruption_of_a_fit_that_is_not_kept_writes_nothing(tmp_path):
    words = ["fit", "graph.txt", "table.csv", "--draws", "50000000", "--output", "summary.csv"]
    code, out, err = interrupted(tmp_path, *words)
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert err.startswith("doxa: interrupted")
    assert err.endswith("; nothing was written\n")
    assert files_in(tmp_path) == ["graph.txt", "table.csv"]
