"""`doxa impute`, `doxa predict`, and questions to `doxa learn`."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

QUICK = ["--draws", "20", "--seed", "1"]


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("party,crime,aid\n" + "r,y,n\nd,n,y\nr,y,\nd,,y\nr,n,n\nd,n,y\n,y,n\n" * 5)
    return path


def test_learn_answers_questions(run, votes):
    words = ["--query", "party=r", "--query", "aid", "--given", "crime=y"]
    code, out, err = run("learn", votes, *QUICK, *words)
    assert (code, err) == (0, "")
    assert "where crime = y was seen:" in out
    assert "party = r" in out
    assert "aid = n" in out
    assert "aid = y" in out
    assert "what the data leave open" in out


def test_learn_sets_by_intervention(run, votes):
    code, out, _ = run("learn", votes, *QUICK, "--query", '{"party": "r"}', "--do", "crime=y")
    assert code == 0
    assert "where crime = y was set:" in out
    assert "party = r " in out


def test_learn_prints_slopes_of_numbers(run, votes, tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=60), "k": rng.choice(["n", "y"], 60)})
    frame["y"] = 2 * frame["x"] + rng.normal(0, 0.1, 60)
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    code, out, _ = run("learn", tmp_path / "numbers.csv", "--seed", "1", "--slopes")
    assert code == 0
    assert re.search(r"x +y +0\.\d+ +(1\.9|2\.0)\d+ \+/- 0\.\d+", out)
    assert "In units of the target a unit of the source" in out
    code, out, _ = run("learn", votes, *QUICK, "--slopes")
    assert code == 0
    assert "No column holds numbers, so there are no slopes." in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--given", "crime=y"], "Invalid value for --given: it needs a question: --query party=republican"),
        (["--query", "party=r", "--do", "crime"], "Invalid value for --do: 'crime' should be VARIABLE=..."),
        (["--hidden", "2"], "Invalid value for --hidden: '2' should be NAME=STATES, as in cause=2"),
    ],
)
def test_questions_refused(run, votes, words, message):
    code, out, err = run("learn", votes, *QUICK, *words)
    assert code == 2
    assert out == ""
    assert err.startswith(f"doxa: {message}")


def test_impute_a_table_and_a_run(run, votes, tmp_path):
    code, out, err = run("impute", votes, *QUICK, "--output", "cells.csv", "--completed", "full.csv")
    assert (code, err) == (0, "")
    assert "15 missing cells in 35 rows" in out
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert list(cells.columns) == ["row", "column", "state", "probability", "mcse"]
    assert len(cells) == 30
    full = pd.read_csv(tmp_path / "full.csv")
    assert full.shape == (35, 3)
    assert not full.isna().any().any()
    assert run("learn", votes, *QUICK, "--store", "run.doxa")[0] == 0
    code, again, _ = run("impute", "run.doxa")
    assert code == 0
    assert again.splitlines()[:6] == out.splitlines()[:6]
    code, _, err = run("impute", "run.doxa", "--seed", "2")
    assert code == 2
    assert err.startswith("doxa: Invalid value for --seed: 'run.doxa' is a run that was made already")


def test_predict_rows(run, votes, tmp_path):
    (tmp_path / "new.csv").write_text("party,crime,aid\n,y,n\n,n,\n")  # the target's column is empty
    code, out, err = run("predict", votes, "new.csv", "--target", "party", *QUICK, "--output", "p.csv")
    assert (code, err) == (0, "")
    found = pd.read_csv(tmp_path / "p.csv")
    assert found["column"].tolist() == ["party"] * 4
    assert found["probability"].between(0, 1).all()
    assert "All predictions are in p.csv." in out
    (tmp_path / "odd.csv").write_text("crime,aid\nmaybe,n\n")
    code, _, err = run("predict", votes, "odd.csv", "--target", "party", *QUICK)
    assert code == 2
    assert "rows has 'maybe' in column 'crime', a state that the posterior was not learned with" in err
    assert run("predict", votes, "odd.csv", "--target", "party", *QUICK, "--unseen", "prior")[0] == 0


def test_learn_prints_effects(run, votes):
    code, out, _ = run("learn", votes, *QUICK, "--effect", "crime,party", "--effect", "party,crime")
    assert code == 0
    assert "Effect of crime (n to y) on P(party = r), averaged over" in out
    assert "Effect of party (d to r) on P(crime = y), averaged over" in out
    code, out, _ = run("learn", votes, *QUICK, "--effect", "all")
    assert code == 0
    assert re.search(r"of +from +to +on +effect", out)
    assert "every common cause of the columns is a column" in out
    code, _, err = run("learn", votes, *QUICK, "--effect", "crime")
    assert code != 0
    assert "'crime' should be SOURCE,TARGET" in err


def test_learn_takes_moments_in_time(run, tmp_path):
    rng = np.random.default_rng(1)
    x = np.cumsum(rng.random((6, 12)) < 0.3, axis=1) % 2
    frame = pd.DataFrame({"who": np.repeat(list("abcdef"), 12), "day": np.tile(np.arange(12), 6), "x": x.ravel()})
    frame["y"] = np.where(rng.random(72) < 0.8, frame["x"], 1 - frame["x"])
    frame.to_csv(tmp_path / "days.csv", index=False)
    words = ["--time", "day", "--unit", "who", "--lags", "1", "--effect", "x [t-1],x", "--forecast", "2"]
    code, out, err = run("learn", tmp_path / "days.csv", *QUICK, *words, "--store", tmp_path / "run.doxa")
    assert (code, err) == (0, "")
    assert "66 rows x 2 columns and their past (moments by 'day' in steps of 1, units by 'who'; 1 lag;" in out
    assert re.search(r"x \[t-1\] +x +", out)
    assert "Effect of x (0 to 1) on P(x = 1), averaged over" in out
    assert re.search(r"unit +after +ahead +column +state +probability", out)
    code, out, _ = run("learn", tmp_path / "days.csv", "--resume", tmp_path / "run.doxa", "--draws", "40")
    assert code == 0
    assert "66 rows x 2 columns and their past" in out
    code, out, _ = run("learn", tmp_path / "days.csv", *QUICK, *words[:4], "--effect", "all")
    assert re.search(r"x \[t-1\] +0 +1 +P\(x = 1\)", out)
    code, _, err = run("learn", tmp_path / "days.csv", *QUICK, "--forecast", "2")
    assert code != 0
    assert "--time, the column of times" in re.sub(r"\s+", " ", err)
    code, _, err = run("learn", tmp_path / "days.csv", *QUICK, "--time", "day")
    assert code != 0
    assert "if the rows are of several units, name their column" in re.sub(r"\s+", " ", err)
