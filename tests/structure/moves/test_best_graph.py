"""The best graph of few nodes, against a list of all graphs; of more, what the search finds."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import capped, make_limits
from doxa.structure.moves import best_graph as module
from doxa.structure.moves.best_graph import best_graph, best_of_all, best_scores_with_edges, heaviest_within
from doxa.structure.moves.listing import lists_are_complete, parent_sets
from doxa.structure.moves.order_search import search_orders
from doxa.structure.moves.parent_sets import no_parent_sets, scaled
from support.tables import skewed_table

LIMITS = {
    "none": {},
    "cap 1": {"max_parents": 1},
    "configurations": {"max_configurations": 4},
    "required": {"required": [("x3", "x0"), ("x0", "x1")], "forbidden": [("x2", "x1")]},
    "tiers": {"tiers": [["x3", "x1"], ["x0", "x2"]], "max_parents": 2},
}


def lists_of(n, seed, **limits):
    table = skewed_table(n, 70, seed=seed, n_states=3)
    scores, limits = FamilyScores(table), make_limits(table.names, n_states=table.n_states, **limits)
    return scores, limits, parent_sets(scores, limits, 1.0)


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_no_graph_is_better(name, seed):
    scores, limits, lists = lists_of(4, seed, **LIMITS[name])
    found, listed = best_of_all(lists), enumerate_posterior(scores, limits)
    assert found.log_score == pytest.approx(listed.log_score.max(), abs=1e-9)
    assert found.log_score == pytest.approx(float(local_weights(scores, found.rows[None]).sum()), abs=1e-9)
    assert found.rows.tobytes() in {rows.tobytes() for rows in listed.rows}  # a graph within the limits


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_no_graph_with_an_edge_is_better(name, seed):
    """All scores, but for edges that the lists leave out, which are 8 nats below what is listed."""
    scores, limits, lists = lists_of(4, seed, **LIMITS[name])
    listed, heaviest = enumerate_posterior(scores, limits), heaviest_within(lists)
    found = best_scores_with_edges(lists, heaviest)
    adjacency = unpack_rows(listed.rows, 4)
    checked = 0
    for i, j in np.argwhere(~np.eye(4, dtype=bool)).tolist():
        having = adjacency[:, i, j]
        exact = listed.log_score[having].max(initial=-np.inf)
        graph = best_of_all(lists, (i, j), heaviest)
        assert found[i, j] <= exact + 1e-9
        assert (graph is None) == np.isneginf(found[i, j])
        if graph is not None:
            assert unpack_rows(graph.rows, 4)[i, j]
            assert graph.log_score == pytest.approx(found[i, j], abs=1e-9)
        if exact > listed.log_score.max() - 7:
            assert found[i, j] == pytest.approx(exact, abs=1e-9)
            checked += 1
    assert checked > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_search_over_orders_finds_nothing_better(seed):
    _, _, lists = lists_of(9, seed)
    assert best_of_all(lists).log_score >= search_orders(lists, np.random.default_rng(seed)).log_score - 1e-9


def test_no_order_may_be_possible():
    """Lists in which every node has a parent; and no lists at all."""
    sets = pack_rows(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool))
    assert best_of_all(scaled(np.arange(4), sets, np.zeros(3), 1.0)) is None
    assert best_of_all(no_parent_sets(4, 1)) is None
    one = scaled(np.array([0, 2, 3, 4]), np.vstack([sets[:1] & np.uint64(0), sets]), np.zeros(4), 1.0)
    assert unpack_rows(best_of_all(one).rows, 3).tolist() == [[False, False, True], [False] * 3, [False, True, False]]


def test_more_nodes_are_searched(monkeypatch):
    _, _, lists = lists_of(6, 1)
    best = best_of_all(lists)
    monkeypatch.setattr(module, "_FEW", 5)
    monkeypatch.setattr(module, "best_of_all", lambda _: pytest.fail("not by all subsets"))
    assert best_graph(lists, np.random.default_rng(1)).log_score == pytest.approx(best.log_score, abs=1e-9)


def test_lists_are_complete_where_all_families_were_computed():
    scores, limits = FamilyScores(skewed_table(6, 60, seed=1)), capped([5] * 6)
    assert lists_are_complete(scores, limits)
    scores = FamilyScores(skewed_table(6, 60, seed=1))
    table = build_score_table(scores, limits, max_size=2)
    scores.remember("score table", limits, lambda: table)  # as of a table of too many columns
    assert not lists_are_complete(scores, limits)
    assert lists_are_complete(scores, capped([2] * 6))
