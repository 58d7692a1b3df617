"""`doxa show`, and runs that are kept in a file."""

from __future__ import annotations

import re

import pandas as pd
from cli_cases import QUICK, two_columns

import doxa


def test_a_run_can_be_kept_shown_and_gone_on_with(run, tmp_path):
    path = two_columns(tmp_path)
    code, out, _ = run("learn", path, *QUICK, "--store", "run.doxa")
    assert code == 0
    assert "4 chains x 60 draws" in out
    code, out, _ = run("show", "run.doxa")
    assert code == 0
    assert "4 chains x 60 draws" in out
    code, longer, _ = run("learn", "--resume", "run.doxa", "--draws", "90")
    assert code == 0
    assert "4 chains x 90 draws" in longer
    code, _, err = run("learn", path, *QUICK, "--store", "run.doxa")
    assert code == 2
    assert err.startswith(f"doxa: '{tmp_path}/run.doxa' exists already; continue that run (resume)")
    code, _, err = run("show", path)
    assert (code, err) == (2, f"doxa: '{path}' is not a run of doxa: it is not an SQLite database")


def test_show_writes_edges_and_draws(run, table, tmp_path):
    code, _, _ = run("learn", table, *QUICK, "--bins", "2", "--store", tmp_path / "run.doxa")
    assert code == 0
    code, out, err = run(
        "show", tmp_path / "run.doxa", "--output", tmp_path / "edges.csv", "--draws", tmp_path / "draws.parquet"
    )
    assert (code, err) == (0, "")
    posterior = doxa.load(tmp_path / "run.doxa")
    assert f"All {posterior.n_edges.size} draws are in" in out
    assert pd.read_parquet(tmp_path / "draws.parquet").equals(posterior.to_frame())
    assert len(pd.read_csv(tmp_path / "edges.csv")) == len(posterior.edges())
    code, _, err = run("show", tmp_path / "run.doxa", "--draws", tmp_path / "run.doxa")
    assert code == 2
    assert err.startswith("doxa: ")


def test_exact_probabilities_have_no_interval_and_joined_is_explained(run, table):
    code, out, _ = run("learn", table, "--columns", "rain", "--columns", "wet", "--seed", "1")
    assert code == 0
    assert re.search(r"^source +target +probability +joined$", out, re.MULTILINE)
    assert "95%" not in out
    assert "joined: the probability of an edge between the two in either direction\n" in out
    _, out, _ = run("learn", table, "--columns", "rain", "--columns", "wet", "--draws", "50", "--seed", "1")
    assert re.search(r"^source +target +probability +95% interval +ess +r_hat +joined$", out, re.MULTILINE)
