"""`doxa learn`: answers, options that reach the run, and what is written."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from cli_cases import QUICK, files_in, two_columns

import doxa
from support.run_files import interrupted


def test_learn_prints_edges_and_verdict(run, tmp_path):
    code, out, err = run("learn", two_columns(tmp_path), *QUICK)
    assert (code, err) == (0, "")
    assert "24 rows x 2 columns" in out
    assert "rain" in out
    assert re.search(r"^(Converged|Not converged|Cannot tell): ", out, re.MULTILINE)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_output_holds_every_edge(run, tmp_path, ending):
    target = tmp_path / f"edges.{ending}"
    code, out, _ = run("learn", two_columns(tmp_path), *QUICK, "--output", target)
    assert code == 0
    assert f"All 2 edges are in {target}." in out
    frame = {"csv": pd.read_csv, "json": lambda p: pd.DataFrame(json.loads(p.read_text())), "parquet": pd.read_parquet}[
        ending
    ](target)
    assert list(frame.columns) == ["source", "target", "probability", "mcse", "ess", "r_hat"]
    assert len(frame) == 2
    again = doxa.learn(tmp_path / "two.csv", draws=60, warmup=10, thin=5, seed=1).edges()
    assert frame["probability"].tolist() == pytest.approx(again["probability"].tolist())
    assert files_in(tmp_path) == sorted([target.name, "two.csv"])  # no temporary file is left


def test_options_reach_the_run(run, table):
    code, out, _ = run(
        "learn", table, *QUICK, "--columns", "wet", "--columns", "age", "--bins", "age=2", "--chains", "3",
        "--sampler", "markov_blanket", "--max-parents", "0", "--equivalent-sample-size", "2.5", "--workers", "2",
    )  # fmt: skip
    assert code == 0
    assert "30 rows x 2 columns; BDeu score, equivalent sample size 2.5" in out
    assert "at most 0 parents" in out
    assert "MarkovBlanket(k=5, w=0.95" in out
    assert "3 chains x 60 draws, one every 5 steps, after 50 steps of warm-up" in out


def test_one_number_bins_every_numeric_column(run, table):
    assert run("learn", table, *QUICK, "--bins", "3")[0] == 0


def test_missing_tokens_can_be_named(run, tmp_path):
    path = two_columns(tmp_path, "rain,wet\n" + "no,no\nyes,-\nno,NA\n" * 5)
    code, out, _ = run("impute", path, "--draws", "20", "--seed", "1", "--missing", "-")
    assert code == 0
    assert "5 missing cells in 15 rows" in out
    code, out, _ = run("learn", path, *QUICK, "--missing", "nothing")
    assert code == 0
    assert "15 rows x 2 columns" in out


def test_names_cannot_steer_the_terminal(run, tmp_path):
    path = two_columns(tmp_path, '"[red]a*\x1b[31m","q""u\note"\n' + "no,no\nyes,yes\nno,yes\n" * 5)
    code, out, _ = run("learn", path, *QUICK)
    assert code == 0
    assert "\x1b" not in out
    assert "[red]a*\\x1b[31m" in out
    assert 'q"u\\note' in out


GOOD_FILES = {
    "one row": "a,b\nx,y\n",
    "constant column": "a,b\n" + "x,1\nx,2\n" * 5,
    "star and quote in names": '"a*","q""uote"\n' + "x,y\ny,y\n" * 4,
    "quoted newline": '"two\nlines",b\n' + '"x\ny",z\nu,v\n' * 4,
    "byte-order mark": "\ufeffa,b\n" + "1,2\n2,1\n" * 4,
}


@pytest.mark.parametrize("name", GOOD_FILES)
def test_odd_but_sound_files_are_learnt_from(run, tmp_path, name):
    code, out, err = run("learn", two_columns(tmp_path, GOOD_FILES[name]), *QUICK)
    assert (code, err) == (0, "")
    assert "2 columns" in out
    assert "\ufeff" not in out


@pytest.mark.parametrize("columns", ["30", "80"])
def test_long_names_are_never_cut(run, tmp_path, monkeypatch, columns):
    names = [f"a_really_quite_long_name_of_a_column_number_{k}" for k in range(2)]
    path = two_columns(tmp_path, ",".join(names) + "\n" + "no,no\nyes,yes\nno,yes\n" * 8)
    monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = run("learn", path, *QUICK)
    assert code == 0
    assert re.search(rf"^({names[0]}  {names[1]}|{names[1]}  {names[0]})  +\d", out, re.MULTILINE)
    assert "…" not in out


def test_accuracy_and_limits_can_be_asked_for(run, tmp_path):
    path = two_columns(tmp_path)
    code, out, _ = run("learn", path, "--seed", "1", "--mcse", "0.02", "--ess", "100", "--r-hat", "1.05")
    assert code == 0
    assert "as accurate as asked" in out
    code, out, _ = run("learn", path, "--seed", "1", "--mcse", "0.00001", "--max-draws", "600", "--max-seconds", "60")
    assert code == 0
    assert "4 chains x 600 draws" in out
    assert "The run stopped at its limit (max_draws)" in out


def test_written_files_have_the_usual_permissions_and_links_stay_links(run, tmp_path):
    path, target, link = two_columns(tmp_path), tmp_path / "target.csv", tmp_path / "link.csv"
    assert run("learn", path, *QUICK, "--output", target)[0] == 0
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert run("learn", path, *QUICK, "--output", link)[0] == 0
    assert link.is_symlink()
    assert target.read_text().startswith("source,target,")
    assert target.stat().st_mode & 0o777 == 0o640


def test_an_interruption_says_what_was_done_and_writes_nothing(tmp_path):
    two_columns(tmp_path)
    words = ["learn", "two.csv", "--draws", "2000000", "--thin", "2000", "--output", "edges.csv"]
    code, out, err = interrupted(tmp_path, *words)
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert "interrupted" in err
    assert err.rstrip().endswith("nothing was written")
    assert files_in(tmp_path) == ["two.csv"]
