"""`doxa warm-up`: what it compiles is what questions need, and it says where that is kept."""

from __future__ import annotations

import re

import numpy as np

import doxa
from doxa.progress import following


def compiled_by(question):
    """How many functions a question has to compile."""
    with following(False) as status:
        question()
    return status.n_compiled


def coins(n_columns, missing_cells=False):
    rows = np.random.default_rng(1).integers(0, 2, size=(40, n_columns)).astype(object)
    if missing_cells:
        rows[::7, 1] = None
    import pandas as pd

    return doxa.read_table(pd.DataFrame(rows, columns=[f"c{j}" for j in range(n_columns)]).astype("Int64"))


QUESTIONS = {
    "summed": lambda: doxa.learn(coins(5), seed=2),
    "sampled": lambda: doxa.learn(coins(7), exact=False, draws=20, seed=2),
    "missing_cells": lambda: doxa.learn(coins(4, missing_cells=True), draws=20, seed=2),
    "logistic": lambda: doxa.learn(coins(4), family="logistic", exact=False, draws=20, seed=2),
    "gibbs": lambda: doxa.infer(doxa.ising_grid(3, 5, coupling=0.2), "X0_1", method="gibbs", draws=20, seed=2),
}


def test_questions_have_nothing_left_to_compile(run):
    code, out, err = run("warm-up")
    assert (code, [line for line in err.splitlines() if "summing over all graphs" not in line]) == (0, [])
    assert len(re.findall(r"^(?:read|learn|fit|infer)\b.* \d+ +\d+\.\d$", out, re.MULTILINE)) == 8
    assert re.search(
        r"^(Nothing was left to compile: all is|Compiled \d+ functions in \d+ seconds; they are kept) ", out, re.M
    )
    assert {name: compiled_by(question) for name, question in QUESTIONS.items()} == dict.fromkeys(QUESTIONS, 0)
    code, out, _ = run("warm-up")
    assert (code, out.splitlines()[-1].partition(":")[0]) == (0, "Nothing was left to compile")


def test_what_was_not_warmed_up_would_be_seen():
    from numba import njit

    assert compiled_by(lambda: njit(lambda x: x + 1)(1)) == 1


def test_a_cache_that_cannot_be_kept_is_said(run, monkeypatch):
    monkeypatch.setattr("doxa._jit.cache_folder", lambda: None)
    monkeypatch.setattr(
        "doxa.cli.first_steps._QUESTIONS", {"infer": lambda: doxa.infer(doxa.ising_grid(2, 2, coupling=0.4))}
    )
    code, out, _ = run("warm-up")
    assert code == 0
    assert "cannot be kept" in out
    assert "NUMBA_CACHE_DIR" in out
