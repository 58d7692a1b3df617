"""Searches that know what moves do not: over orders, and from large parent sets downwards."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from doxa.data import Table
from doxa.models import Dag
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import capped, make_limits
from doxa.structure.moves.best_graph import best_of_all, heaviest_within
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.order_search import nearby_optima, search_orders, with_large_family
from doxa.structure.moves.parent_sets import no_parent_sets, scaled
from doxa.structure.moves.starts import smallest_graph
from support.tables import skewed_table

LIMITS = {
    "none": {},
    "cap 1": {"max_parents": 1},
    "caps": {"max_parents": {"x0": 1, "x2": 2}},
    "configurations": {"max_configurations": 4},
    "required": {"required": [("x3", "x0"), ("x0", "x1")], "forbidden": [("x2", "x1")]},
    "tiers": {"tiers": [["x3", "x1"], ["x0", "x2"]], "max_parents": 2},
}


def problem(n, seed, **limits):
    table = skewed_table(n, 70, seed=seed, n_states=3)
    return FamilyScores(table), make_limits(table.names, n_states=table.n_states, **limits)


def is_within(rows, limits):
    """Whether a graph has no cycle, what is required, and no more and no other parents than allowed."""
    n = len(rows)
    adjacency = unpack_rows(rows, n)
    Dag(adjacency)  # raises if there is a cycle
    return (
        (adjacency | ~limits.required_edges).all()
        and not (adjacency & ~limits.allowed_edges).any()
        and (adjacency.sum(axis=0) <= limits.max_parents).all()
        and (limits.log_states @ adjacency <= limits.max_log_configs + 1e-9).all()
    )


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize(("n", "seed"), [(4, 0), (4, 1), (5, 2), (5, 3)])
def test_the_search_finds_the_best_of_all_graphs_within_the_limits(name, n, seed):
    scores, limits = problem(n, seed, **LIMITS[name])
    listed = enumerate_posterior(scores, limits)
    table = parent_sets(scores, limits, 1.0)
    found = search_orders(table, np.random.default_rng(seed), [smallest_graph(limits)])
    assert found.log_score == pytest.approx(listed.log_score.max(), abs=1e-9)
    assert found.log_score == pytest.approx(float(local_weights(scores, found.rows[None]).sum()), abs=1e-9)
    assert is_within(found.rows, limits)


def test_a_longer_search_finds_no_less_and_one_order_alone_often_less():
    gains = []
    for seed in range(6):
        scores, limits = FamilyScores(skewed_table(12, 200, seed=seed)), capped([11] * 12)
        lists = parent_sets(scores, limits, 1.0)
        settings = ({"random_orders": 1, "looks": 0}, {"looks": 0}, {"looks": 10**6})
        found = [search_orders(lists, np.random.default_rng(7), **how) for how in settings]
        assert all(is_within(graph.rows, limits) for graph in found)
        gains.append(np.diff([graph.log_score for graph in found]))
    assert np.min(gains) > -1e-9
    assert np.max(gains, axis=0)[0] > 0.1


def test_a_search_follows_from_its_seed_and_leaves_its_graphs_alone():
    table = skewed_table(12, 200, seed=4)
    scores, limits = FamilyScores(table), capped([3] * 12)
    lists = parent_sets(scores, limits, 1.0)
    given = smallest_graph(limits)
    before = given.copy()
    one, two = (search_orders(lists, np.random.default_rng(7), [given], looks=60_000) for _ in range(2))
    assert np.array_equal(one.rows, two.rows)
    assert one.log_score == two.log_score
    assert np.array_equal(given, before)
    assert is_within(one.rows, limits)


def test_required_chains_without_a_graph_to_start_from_may_have_no_order():
    names = [f"x{i}" for i in range(9)]
    scores = FamilyScores(skewed_table(9, 50, seed=1))
    limits = make_limits(names, required=list(pairwise(names)), n_states=[2] * 9)
    table = parent_sets(scores, limits, 1.0)
    assert search_orders(table, np.random.default_rng(0), random_orders=1, looks=0) is None
    found = search_orders(table, np.random.default_rng(0), [smallest_graph(limits)])
    assert is_within(found.rows, limits)
    assert search_orders(no_parent_sets(4, 1), np.random.default_rng(0)) is None


def optima_of_all_orders(lists):
    """Graphs of the orders that no insertion betters, with their scores, by going through all orders."""
    n = len(lists.first) - 1
    weight, number = heaviest_within(lists)

    def graph(order):
        adjacency = np.zeros((n, n), dtype=bool)
        for place, node in enumerate(order):
            before = sum(1 << other for other in order[:place])
            adjacency[:, node] = int(lists.sets[number[node, before], 0]) >> np.arange(n) & 1
        return pack_rows(adjacency).tobytes()

    score = {
        order: sum(weight[node, sum(1 << other for other in order[:place])] for place, node in enumerate(order))
        for order in permutations(range(n))
    }

    def betters(order):
        for node in order:
            others = tuple(other for other in order if other != node)
            yield from (score[(*others[:place], node, *others[place:])] for place in range(n))

    return {graph(order): own for order, own in score.items() if max(betters(order)) <= own + 1e-9}


@pytest.mark.parametrize("seed", range(8))
def test_all_graphs_that_no_insertion_betters_are_met_near_the_best(seed):
    scores, limits = FamilyScores(skewed_table(5, 300, seed=seed)), capped([4] * 5)
    lists = parent_sets(scores, limits, 1.0)
    best, expected = best_of_all(lists), optima_of_all_orders(lists)
    found = nearby_optima(lists, np.random.default_rng(1), [best.rows], looks=10**6)
    met = {one.rows.tobytes(): one.log_score for one in found}
    assert len(met) == len(found)
    assert max(met.values()) == pytest.approx(best.log_score)
    assert {rows: met[rows] for rows in expected} == pytest.approx(expected)
    for one in found:
        assert one.log_score == pytest.approx(float(local_weights(scores, one.rows[None]).sum()), abs=1e-9)
        assert is_within(one.rows, limits)
    few = nearby_optima(lists, np.random.default_rng(1), [best.rows], looks=1)
    assert len(few) <= 1


# --- large parent sets -----------------------------------------------------------------------------------------------


def parity_scores():
    codes = np.random.default_rng(1).integers(0, 2, (100, 5))
    codes[:, 4] = codes[:, :4].sum(axis=1) % 2
    return FamilyScores(Table.from_codes([f"x{i}" for i in range(5)], [["a", "b"]] * 5, codes))


def lists_of(scores, limits, max_size):
    table = build_score_table(scores, limits, max_size=max_size, keep_within=8.0)
    return scaled(table.first, table.sets, table.log_weight, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_parity_is_found_from_many_parents_downwards(seed):
    scores, limits = parity_scores(), capped([4] * 5)
    empty = smallest_graph(limits)
    found = with_large_family(scores, limits, lists_of(scores, limits, 2), empty, np.random.default_rng(seed))
    adjacency = unpack_rows(found, 5)
    assert is_within(found, limits)
    assert adjacency.sum() == 4
    assert adjacency.sum(axis=0).max() == 4  # any of the five is the parity of the others
    gain = local_weights(scores, found[None]).sum() - local_weights(scores, empty[None]).sum()
    assert gain > 20
    assert not empty.any()


def test_complete_lists_leave_nothing_to_find():
    scores, limits = parity_scores(), capped([4] * 5)
    for rows in (smallest_graph(limits), pack_rows(np.triu(np.ones((5, 5), dtype=bool), 1))):
        found = with_large_family(scores, limits, lists_of(scores, limits, 4), rows, np.random.default_rng(0))
        assert found is None


def test_large_families_obey_the_limits():
    scores = parity_scores()
    names = scores.names
    short = capped([3] * 5)  # the parity has four parents
    assert (
        with_large_family(scores, short, lists_of(scores, short, 2), smallest_graph(short), np.random.default_rng(0))
        is None
    )
    limits = make_limits(names, required=[("x4", "x0")], forbidden=[("x0", "x2"), ("x3", "x1")], n_states=[2] * 5)
    found = with_large_family(
        scores, limits, lists_of(scores, limits, 2), smallest_graph(limits), np.random.default_rng(0)
    )
    assert is_within(found, limits)
    assert unpack_rows(found, 5).sum(axis=0).max() == 4
