"""Score tables of logistic families: as large as a budget of counted work allows, whatever the threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from doxa.models.bits import unpack_rows
from doxa.structure.families import score_table
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.logistic.score import family_cost
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import capped
from support.tables import skewed_table


def all_to_all(n):
    return capped([n - 1] * n)


def cost_of(table, score, n_rows):
    """What computing the small sets and the candidates' cost, by the estimate; the choice of candidates counts too."""
    n, complete = len(table.first) - 1, table.info.complete_size
    number = unpack_rows(table.info.candidates, n).sum(axis=1)
    small = sum(n * math.comb(n - 1, k) * family_cost(score, k, n_rows) for k in range(complete + 1))
    large = sum(
        math.comb(int(c), k) * family_cost(score, k, n_rows)
        for c in number
        for k in range(complete + 1, table.info.max_size + 1)
    )
    return small * (1 if complete == table.info.max_size else 2), large


@pytest.mark.parametrize("score", [Logistic(), FamilyMixture()], ids=lambda score: score.name)
@pytest.mark.parametrize(("budget", "complete"), [(8_000, 1), (60_000, 2), (500_000, 3)])
def test_logistic_lists_are_as_large_as_a_budget_of_counted_work_allows(score, budget, complete, monkeypatch):
    monkeypatch.setattr(score_table, "_WORK", budget)
    scores = FamilyScores(skewed_table(14, 60, seed=1), score)
    tables = [build_score_table(scores, all_to_all(14), keep_within=8.0, workers=workers) for workers in (1, 3)]
    for a, b in zip(tables[0][:3], tables[1][:3], strict=True):
        np.testing.assert_array_equal(a, b)
    info = tables[0].info
    assert info._replace(candidates=None) == tables[1].info._replace(candidates=None)
    assert info.complete_size == complete
    small, large = cost_of(tables[0], score, len(scores.data[1]))
    assert small + large <= budget
    if complete == 3:
        return  # the budget does not bind
    assert small + large >= 0.5 * budget  # what is left would not do for one candidate more
    assert 3 <= unpack_rows(info.candidates, 14).sum(axis=1).min() < 13
    # the broken twin: families counted at one price, as when the bound was one of their number, are too many
    monkeypatch.setattr(type(score), "cost", lambda *_: family_cost(score, 1, 60))
    blind = build_score_table(scores, all_to_all(14), keep_within=8.0)
    assert sum(cost_of(blind, score, len(scores.data[1]))) > budget


def test_extension_of_logistic_lists_stays_within_its_share_of_the_work(monkeypatch):
    scores = FamilyScores(skewed_table(12, 400, seed=1), Logistic())
    free = build_score_table(scores, all_to_all(12), max_size=3, keep_within=8.0, extend_within=math.inf)
    assert free.info.largest_size > 6
    monkeypatch.setattr(score_table, "_SHARE", 10**9)
    tight = build_score_table(scores, all_to_all(12), max_size=3, keep_within=8.0, extend_within=math.inf)
    assert tight.info.largest_size == 3
