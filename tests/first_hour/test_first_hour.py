"""A newcomer's first hour: everyday tables of many kinds, from a file to an answer, a picture and files to hand on.

Each goes through the command line as a user types it: learn, with a report, a list of edges and a run file; then the
run file is opened again.  Tables are those that scikit-learn ships, or simulated alike.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

import doxa
from doxa import cli

RNG = np.random.default_rng(20)


class Kind(NamedTuple):
    """A kind of table."""

    frame: Callable[[], pd.DataFrame]
    words: tuple[str, ...] = ()  # further options
    columns: int | None = None  # that are learned from; all of the frame's
    said: tuple[str, ...] = ()  # on the way
    file: str = "t.csv"


def yes_no(n: int = 300) -> pd.DataFrame:
    smokes, sex = RNG.random(n) < 0.3, RNG.random(n) < 0.5
    ill = RNG.random(n) < np.where(smokes, 0.6, 0.2)
    named = {"smokes": smokes, "ill": ill, "female": sex}
    return pd.DataFrame({name: np.where(column, "yes", "no") for name, column in named.items()})


def with_holes(frame: pd.DataFrame, share: float = 0.05) -> pd.DataFrame:
    return frame.mask(RNG.random(frame.shape) < share)


def clinical(n: int = 200) -> pd.DataFrame:
    frame = yes_no(n)
    frame["age"] = RNG.integers(20, 80, n)
    frame["pressure"] = (100 + 0.5 * frame["age"] + 10 * (frame["smokes"] == "yes") + RNG.normal(0, 8, n)).round(1)
    return frame


def zero_inflated(n: int = 300) -> pd.DataFrame:
    frame = yes_no(n)
    frame["rain"] = np.where(RNG.random(n) < 0.7, 0.0, RNG.gamma(2, 3, n)).round(2)
    return frame


def likert(n: int = 150, items: int = 12) -> pd.DataFrame:
    mood = RNG.normal(size=n)
    answers = np.clip(np.round(3 + mood[:, None] + RNG.normal(size=(n, items))), 1, 5).astype(int)
    return pd.DataFrame(answers, columns=[f"item {i + 1}" for i in range(items)])


def many_levels(n: int = 400) -> pd.DataFrame:
    return yes_no(n).assign(region=[f"region {k:02}" for k in RNG.integers(0, 40, n)])


def with_identifiers(n: int = 120) -> pd.DataFrame:
    frame = yes_no(n)
    frame.insert(0, "Unnamed: 0", np.arange(n))
    return frame.assign(
        name=[f"person {k}" for k in range(n)], note=[f"remark {k} of the nurse on duty" for k in range(n)]
    )


def one_hot(n: int = 200) -> pd.DataFrame:
    return pd.get_dummies(pd.Series(RNG.choice(list("abc"), n)), prefix="kind").assign(seen=RNG.random(n) < 0.5)


def dates(n: int = 100) -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=n, freq="D").strftime("%Y-%m-%d")
    return yes_no(n).assign(day=days)


def counts() -> pd.DataFrame:
    rows = [(s, a, d) for s in ("f", "m") for a in ("y", "n") for d in ("A", "B", "C")]
    return pd.DataFrame(rows, columns=["Sex", "Admitted", "Dept"]).assign(
        Freq=[89, 17, 202, 19, 8, 391, 512, 353, 120, 313, 207, 205]
    )


def scikit(name: str, n_columns: int | None = None) -> Callable[[], pd.DataFrame]:
    def frame() -> pd.DataFrame:
        bunch = getattr(datasets, f"load_{name}")(as_frame=True)
        return bunch.frame if n_columns is None else bunch.frame.iloc[:, :n_columns]

    return frame


BRIEF = ("--draws", "150", "--chains", "2")
KINDS = {
    "two answers": Kind(yes_no),
    "two answers with holes": Kind(lambda: with_holes(yes_no(80)), BRIEF),
    "a small trial with holes": Kind(lambda: with_holes(yes_no(14), 0.15)),
    "a tab-separated file": Kind(yes_no, file="t.tsv"),
    "a file of semicolons and decimal commas": Kind(
        clinical, said=("column 'pressure' is read with decimal commas",), file="decimal.csv"
    ),
    "a packed file": Kind(yes_no, file="t.csv.gz"),
    "a Parquet file": Kind(lambda: yes_no().astype("category"), file="t.parquet"),
    "a file with a byte order mark": Kind(yes_no, file="bom.csv"),
    "a clinical table": Kind(clinical),
    "a clinical table with holes": Kind(lambda: with_holes(clinical(60)), BRIEF),
    "a clinical table in bins": Kind(clinical, ("--bins", "3")),
    "body mass in classes": Kind(
        lambda: yes_no().assign(bmi=RNG.normal(26, 4, 300).round(1)), ("--bins", "bmi=18.5,25,30")
    ),
    "rain, mostly none": Kind(zero_inflated, ("--bins", "4"), said=("0 has one of its own",)),
    "numbers alone": Kind(scikit("diabetes", 6)),
    "flowers": Kind(scikit("iris")),
    "wines": Kind(scikit("wine", 8)),
    "tumours": Kind(scikit("breast_cancer", 12), BRIEF),
    "pixels": Kind(lambda: scikit("digits")().iloc[:400, 18:38], ("--bins", "uniform:3", *BRIEF)),
    "exercise, twenty men": Kind(scikit("linnerud")),
    "a questionnaire": Kind(likert),
    "many regions": Kind(many_levels),
    "identifiers and free text": Kind(with_identifiers, columns=3, said=("column 'name' is left out",)),
    "one column for each kind": Kind(one_hot),
    "days": Kind(dates, columns=3, said=("column 'day' is left out",)),
    "a table of counts": Kind(counts, ("--counts", "Freq"), columns=3),
    "a constant and a copy": Kind(lambda: yes_no().assign(site="A", again=lambda frame: frame["ill"])),
    "names of any alphabet": Kind(lambda: yes_no().set_axis(["raucht, ja?", 'krank "sehr"', "\u6027\u522b"], axis=1)),
    "missing marked by -9": Kind(
        lambda: yes_no(60).assign(score=np.where(RNG.random(60) < 0.1, -9, RNG.integers(1, 4, 60))),
        ("--missing", "-9", *BRIEF),
    ),
    "numbers of very different sizes": Kind(
        lambda: clinical().assign(
            cells=lambda frame: 1e9 * frame["age"] + RNG.normal(0, 1e8, 200), trace=RNG.normal(0, 1e-7, 200)
        )
    ),
    "sums of other columns": Kind(lambda: scikit("diabetes", 4)().assign(total=lambda frame: frame.sum(axis=1))),
    "more columns than rows": Kind(lambda: pd.DataFrame(RNG.integers(0, 2, (15, 24))), BRIEF),
}


def write(frame: pd.DataFrame, name: str) -> None:
    """Write a table as its kind of file."""
    if name == "decimal.csv":
        frame.to_csv(name, index=False, sep=";", decimal=",")
    elif name.endswith("parquet"):
        frame.to_parquet(name)
    elif name == "bom.csv":
        frame.to_csv(name, index=False, encoding="utf-8-sig")
    elif name.endswith("gz"):
        with gzip.open(name, "wt", encoding="utf-8") as file:
            frame.to_csv(file, index=False)
    else:
        frame.to_csv(name, index=False, sep="\t" if name.endswith("tsv") else ",")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Call the command in a folder of its own; return exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["doxa", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("name", KINDS)
def test_from_a_file_to_an_answer_a_picture_and_files(run, name):
    kind = KINDS[name]
    frame = kind.frame()
    frame.columns = frame.columns.astype(str)
    write(frame, kind.file)
    files = ("--store", "run.doxa", "--output", "edges.csv", "--report", "page.html")
    code, out, err = run("learn", kind.file, *kind.words, *files, "--seed", "1")
    assert code == 0, err
    n = len(frame.columns) if kind.columns is None else kind.columns
    assert f" x {n} columns" in out
    assert any(word in out for word in ("Exact:", "Converged:", "Not converged:", "Cannot tell:"))
    for line in kind.said:
        assert line in err
    edges = pd.read_csv("edges.csv")
    assert len(edges) == n * (n - 1)
    assert edges["probability"].between(0, 1).all()
    page = Path("page.html").read_text(encoding="utf-8")
    assert "</html>" in page
    again = doxa.load("run.doxa")
    assert len(again.names) == n
    shown = again.edges()
    assert shown["probability"].tolist() == pytest.approx(edges["probability"].tolist(), abs=1e-9)
    assert run("show", "run.doxa")[0] == 0


def test_numbers_and_missing_cells_are_answered_from_the_run_file(run):
    frame = with_holes(clinical(80))
    frame.to_csv("t.csv", index=False)
    assert run("learn", "t.csv", "--bins", "age=40,60", "--drop", "pressure", *BRIEF, "--store", "run.doxa")[0] == 0
    assert run("impute", "run.doxa", "--completed", "whole.csv")[0] == 0
    whole = pd.read_csv("whole.csv")
    seen = frame["age"].notna()
    assert not whole.isna().any().any()
    assert np.array_equal(whole["age"][seen], frame["age"][seen])
    frame[["age", "smokes"]][:20].to_csv("rows.csv", index=False)
    assert run("predict", "run.doxa", "rows.csv", "--target", "ill", "--output", "ill.csv")[0] == 0
    assert pd.read_csv("ill.csv").groupby("row")["probability"].sum().to_numpy() == pytest.approx(np.ones(20))
