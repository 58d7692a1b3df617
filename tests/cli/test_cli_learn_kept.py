"""`doxa learn --resume`: what may change, and what belongs to the start of a run."""

from __future__ import annotations

import pytest
from cli_cases import QUICK, two_columns

import doxa

COLUMNS = ["--columns", "rain", "--columns", "wet"]


@pytest.fixture
def kept(run, tmp_path):
    """What is printed of a run kept in ``run.doxa``."""
    two_columns(tmp_path)
    code, _, err = run("learn", "two.csv", *QUICK, "--store", "run.doxa")
    assert (code, err) == (0, "")
    return run("show", "run.doxa")[1]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--sampler", "emc3"], "--sampler"),
        (["--sampler", "auto"], "--sampler"),  # the default, but it was asked for
        (["--seed", "1"], "--seed"),
        (["--chains", "4"], "--chains"),
        (["--warmup", "10"], "--warmup"),
        (["--thin", "5"], "--thin"),
        (["--max-parents", "1"], "--max-parents"),
        (["--score", "k2"], "--score"),
        (["--edge-log-odds", "-1"], "--edge-log-odds"),
        (["--forbidden", "wet,rain"], "--forbidden"),
        (["--hidden", "cause=2"], "--hidden"),
        (["--sample"], "--exact or --sample"),
        (["--columns", "wet"], "--columns"),
    ],
)
def test_what_belongs_to_the_start_is_refused_on_resuming(run, kept, words, option):
    code, out, err = run("learn", "--resume", "run.doxa", "--draws", "90", *words)
    assert (code, out) == (2, "")
    assert err == (
        f"doxa: Invalid value for {option}: --resume goes on with a run as it was started; leave {option} out, or "
        "begin another run with --store; see doxa --help"
    )
    assert run("show", "run.doxa")[1] == kept


def test_how_the_table_is_read_may_be_said_where_the_table_is_named(run, kept):
    code, _, err = run("learn", "two.csv", "--resume", "run.doxa", "--draws", "90", *COLUMNS)
    assert (code, err) == (0, "")
    assert doxa.load("run.doxa").n_edges.shape[1] == 90
    assert run("show", "run.doxa")[1] != kept


def test_the_accuracy_of_a_run_may_change_also_to_the_default_one(run, kept):
    code, _, err = run("learn", "--resume", "run.doxa", "--mcse", "0.01", "--max-draws", "4000")
    assert (code, err) == (0, "")
    mcse = doxa.load("run.doxa").edges()["mcse"]
    assert mcse.max() <= 0.01
    code, _, err = run("learn", "two.csv", "--draws", "60", "--mcse", "0.01")
    assert code == 2
    assert err.startswith("doxa: Invalid value for --mcse: --draws says when to stop, too; give one of them")
