"""Answers of many columns: no table of all pairs by surprise, and memory that is said beforehand."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError
from doxa.structure.posterior import features
from doxa.structure.runs import plan


@pytest.fixture(scope="module")
def posterior():
    return doxa.learn(doxa.datasets.load("reinis"), exact=False, draws=200, seed=1)


@pytest.mark.parametrize("answer", ["edges", "adjacencies", "cpdag_edges", "ancestors", "markov_blankets"])
def test_least_and_where_select_rows_of_the_whole_frame(posterior, answer):
    asked = getattr(posterior, answer)
    whole = asked()
    ends = list(whole.columns[:2])
    for least in (0.0, 0.05, 0.3):
        assert asked(least=least).equals(whole[whole["probability"] >= least].reset_index(drop=True))
    for where in ("smoke", ["smoke", "family"]):
        near = whole[ends].isin([where] if isinstance(where, str) else where).any(axis=1)
        assert 0 < near.sum() < len(whole)
        assert asked(where=where).equals(whole[near].reset_index(drop=True))


def test_pairs_that_no_graph_has_are_left_out_where_there_are_very_many(posterior, monkeypatch):
    whole = posterior.edges()
    assert (whole["probability"] == 0).any()
    monkeypatch.setattr(features, "MOST_ROWS", 20)
    assert posterior.edges().equals(whole[whole["probability"] > 0].reset_index(drop=True))
    assert posterior.edges(least=0.0).equals(whole)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"least": 2}, "least is 2; it must be a probability, from 0 to 1"),
        ({"least": True}, "least is True"),
        ({"where": "smoek"}, "where names 'smoek', which is not a node; the nodes are 'smoke'"),
    ],
)
def test_what_is_not_there_cannot_be_selected(posterior, how, message):
    with pytest.raises(ArgumentError, match=message):
        posterior.edges(**how)


def test_a_run_that_does_not_fit_is_refused_with_the_number_of_columns_that_does(monkeypatch):
    monkeypatch.setattr(plan, "physical_memory", lambda: 3_000_000_000)
    plan.check_memory(500, 4, None)
    with pytest.raises(
        ArgumentError, match=r"table has 1000 columns: 4 chains .* take about .* this machine has 3 GB; "
    ):
        plan.check_memory(1000, 4, None)
    with pytest.raises(ArgumentError) as caught:
        plan.check_memory(1000, 4, None)
    fits = int(str(caught.value).split("; ")[1].split()[0])
    assert plan.sampling_bytes(fits, 4, None) <= 3_000_000_000 < plan.sampling_bytes(fits + 1, 4, None)
    plan.check_memory(fits, 4, None)
    monkeypatch.setattr(plan, "physical_memory", lambda: None)
    plan.check_memory(100_000, 4, None)


def test_memory_grows_with_what_is_drawn():
    sizes = [plan.sampling_bytes(n, 4, draws) for n, draws in ((300, 1000), (600, 1000), (600, 2000))]
    assert np.all(np.diff(sizes) > 0)
