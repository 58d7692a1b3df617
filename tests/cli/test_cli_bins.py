"""Bins on the command line: their forms, and numbers that are asked about afterwards."""

import numpy as np
import pandas as pd
import pytest

import doxa
from doxa.cli.words import parse_bins


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (None, None),
        (["4"], 4),
        (["uniform:4"], "uniform:4"),
        (["age=4", "bmi=18.5,25,30"], {"age": 4, "bmi": [18.5, 25.0, 30.0]}),
        (["age=uniform:4", "dose=0.5"], {"age": "uniform:4", "dose": [0.5]}),
        (["age=18,"], {"age": [18.0]}),
        (["x=1=supervised:kind"], {"x=1": "supervised:kind"}),
    ],
)
def test_forms(words, parsed):
    assert parse_bins("--bins", words) == parsed


def test_a_number_that_is_asked_about_is_cut_as_the_table_was(run, tmp_path):
    rng = np.random.default_rng(8)
    length = np.round(rng.normal(44, 5, 300), 1)
    frame = pd.DataFrame({"length": length, "kind": np.where(length + rng.normal(0, 2, 300) > 45, "big", "small")})
    frame.to_csv("t.csv", index=False)
    frame[["length"]][:50].to_csv("rows.csv", index=False)
    words = ["--bins", "length=40,45,50", "--draws", 200, "--warmup", 200, "--chains", 2, "--seed", 1]
    asked = ["--query", "kind=big", "--given", "length=45.2"]
    code, out, _ = run("learn", "t.csv", *words, "--store", "run.doxa", *asked)
    posterior = doxa.load("run.doxa")
    assert code == 0
    assert posterior.table.cuts == {"length": (40.0, 45.0, 50.0)}
    assert str(posterior.query({"kind": "big"}, given={"length": "[45, 50)"})) in out
    assert run("predict", "run.doxa", "rows.csv", "--target", "kind", "--output", "found.csv")[0] == 0
    found, expected = pd.read_csv("found.csv"), posterior.predict(frame[["length"]][:50], "kind")
    assert np.allclose(found["probability"], expected["probability"], atol=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["age=4", "age=1.5,2"], "column 'age' is given twice"),
        (["age=1.5,x"], "'age=1.5,x' should be cuts with commas between them, as in --bins bmi=18.5,25,30"),
        (["4", "age=1.5,2"], "'4' should be NAME=NUMBER, as in --bins age=4"),
    ],
)
def test_bad_forms(run, table, words, message):
    code, _, err = run("learn", table, *(part for word in words for part in ("--bins", word)))
    assert (code, err) == (2, f"doxa: Invalid value for --bins: {message}; see doxa --help")


def test_a_fit_reads_its_table_by_the_same_options(run):
    counts = [("f", "y", 89), ("f", "n", 19), ("m", "y", 512), ("m", "n", 313), ("x", "n", 2)]
    pd.DataFrame(counts, columns=["Sex", "Admitted", "Freq"]).to_csv("t.csv", index=False)
    pd.DataFrame([("Sex", "Admitted")], columns=["source", "target"]).to_csv("g.csv", index=False)
    code, out, _ = run("fit", "g.csv", "t.csv", "--counts", "Freq", "--categories", "Sex")
    assert code == 0
    assert "935 rows x 2 nodes; no missing cells" in out
    assert "5 rows x 2 nodes" in run("fit", "g.csv", "t.csv", "--drop", "Freq")[1]
