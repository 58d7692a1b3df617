"""Bad questions, bad tables, bad rows: what is said about them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from averaging_cases import case, independent

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact import BudgetError
from doxa.structure.averaging import draw_networks, log_score, networks, parent_tables, predict, predictive, query
from support.tables import skewed_table


@pytest.fixture(scope="module")
def run():
    of = case()
    return independent(of, seed=1, n_draws=40), of.table


QUESTIONS = [
    ("x9", {}, {}, "target names 'x9', which is not a column; there are 'x0', 'x1', 'x2'"),
    ({"x0": "s7"}, {}, {}, "target['x0'] is 's7', which is not one of its states; there are 's0', 's1'"),
    ({}, {}, {}, "target is empty; name a column, or columns and their states"),
    ("x0", {"zzz": "s0"}, {}, "given names 'zzz', which is not a column; there are 'x0', 'x1', 'x2'"),
    ("x0", {"x1": "S1"}, {}, "given['x1'] is 'S1', which is not one of its states; close to it"),
    ("x0", {}, {"x1": 7}, "do['x1'] is 7, which is not one of its states; there are 's0', 's1', 's2'"),
    ("x0", {"x0": "s1"}, {}, "target 'x0' is also in given, where it is 's1'; leave it out there"),
    ({"x0": "s1"}, {}, {"x0": "s1"}, "target 'x0' is also in do, where it is 's1'; leave it out there"),
    ("x0", {"x1": "s1"}, {"x1": "s2"}, "given says that 'x1' is 's1' and do sets it to 's2'; these contradict"),
    ("x0", {"x1": "s1"}, {"x1": "s1"}, "'x1' is in given and in do; what is set by intervention is seen as well"),
]


@pytest.mark.parametrize("ask", [query, predictive])
@pytest.mark.parametrize(("target", "given", "do", "words"), QUESTIONS)
def test_bad_questions(run, ask, target, given, do, words):
    with pytest.raises(ArgumentError, match=re.escape(words)):
        ask(*run, target, given, do)


def test_types_of_questions(run):
    with pytest.raises(ArgumentTypeError, match="given is 'x1'; give a mapping of columns to states"):
        query(*run, "x0", "x1")
    with pytest.raises(ArgumentTypeError, match=re.escape("target is ['x0']; give a mapping")):
        query(*run, ["x0"])
    with pytest.raises(ArgumentTypeError, match=re.escape("given['x1'] is True; give the label of a state")):
        query(*run, "x0", {"x1": True})
    with pytest.raises(ArgumentTypeError, match="given names 3; names of columns are text"):
        query(*run, "x0", {3: "s0"})


def test_numbers_of_networks(run):
    with pytest.raises(ArgumentError, match="networks is 12; it must be at least 16, 4 of each of 4 chains"):
        query(*run, "x0", networks=12)
    with pytest.raises(ArgumentTypeError, match=re.escape("networks is 1.5; it must be a whole number")):
        query(*run, "x0", networks=1.5)
    assert query(*run, {"x0": "s0"}, networks=10**6).n_networks == 160
    assert len(list(networks(*run, 7))) == 7
    assert len(list(networks(*run, 10**6))) == 160


def test_another_table(run):
    posterior, table = run
    with pytest.raises(ArgumentError, match="the table has the columns 'x0', 'x1', the posterior the nodes"):
        query(posterior, table.select(["x0", "x1"]), "x0")
    other = skewed_table(3, 26, seed=5, n_states=3)
    with pytest.raises(ArgumentError, match="not the one that the posterior was learned from; its contents differ"):
        query(posterior, other, "x0")


def test_networks_too_wide_are_refused(run):
    with pytest.raises(BudgetError, match=r"network \d+ of 160, of which \d nodes matter to this question, would take"):
        query(*run, "x0", {"x2": "s0"}, exact_budget=3)


def test_families_too_large_to_list():
    names = [f"x{i}" for i in range(9)]
    states = [[str(k) for k in range(9)]] * 9
    codes = np.tile(np.arange(9)[:, None], 9)
    table = Table.from_codes(names, states, codes)
    edges = [(name, "x8") for name in names[:8]]
    posterior = doxa.learn(table, required=edges, max_parents=8, exact=False, draws=4, warmup=0, thin=1, seed=1)
    with pytest.raises(ArgumentError, match=r"the family of 'x8' with 8 parents has 3\.87e\+08 cells"):
        log_score(posterior, table, table)


def test_bad_rows(run):
    posterior, table = run
    with pytest.raises(
        ArgumentError, match="rows has the column 'x00', which the posterior does not know; close to it"
    ):
        predict(posterior, table, pd.DataFrame({"x00": ["s0", "s1"]}))
    with pytest.raises(ArgumentError, match="rows has 'S0' in column 'x0', a state that") as raised:
        log_score(posterior, table, pd.DataFrame({"x0": ["s1", "S0"]}))
    assert "close to it" in str(raised.value)
    assert "unseen='prior'" in str(raised.value)
    with pytest.raises(ArgumentError, match="unseen is 'drop'; it must be 'error' or 'prior'"):
        predict(posterior, table, table, unseen="drop")
    with pytest.raises(ArgumentError, match="target names 'y', which is not a column"):
        predict(posterior, table, table, "y")
    with pytest.raises(ArgumentError, match="rows has no cell that is observed"):
        predict(posterior, table, pd.DataFrame({"x0": [None, None]}))
    unused = Table.from_codes(["x0"], [["s0", "s1", "other"]], [[0], [1]])  # declared, but in no row
    assert len(log_score(posterior, table, unused).rows) == 2


def test_bad_nodes_of_tables(run):
    with pytest.raises(ArgumentError, match="node names 'x7', which is not a column"):
        parent_tables(*run, "x7")
    with pytest.raises(ArgumentError, match="prob is 95"):
        parent_tables(*run, "x0", prob=95)


def test_answers_read_well(run):
    answer = query(*run, "x1", {"x0": "s1"}, {"x2": "s0"})
    assert list(answer) == ["s0", "s1", "s2"]
    assert (answer.given, answer.do, answer.n_networks) == ({"x0": "s1"}, {"x2": "s0"}, 160)
    frame = answer.to_frame()
    assert list(frame.columns) == [
        "target", "state", "probability", "mcse", "ess", "lower", "upper", "sd", "credible_lower", "credible_upper",
    ]  # fmt: skip
    assert frame["probability"].sum() == pytest.approx(1)
    assert list(predictive(*run, "x1").to_frame().columns) == list(frame.columns)[:7]
    assert str(answer).startswith("x1 = s0  0.")
    with pytest.raises(ArgumentError, match="'s9' is no state of 'x1'; there are 's0', 's1', 's2'"):
        answer["s9"]
    event = query(*run, {"x1": "s0"})
    assert event.draws.shape == (4, 40)
    assert repr(event).startswith("AveragedProbability(value=0.")
    assert len(draw_networks(*run)) == 160
