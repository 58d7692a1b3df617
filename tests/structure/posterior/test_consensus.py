"""Graphs and classes that stand for a sample, against exact sums and brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.posterior.consensus import _add_edges
from support.checks import SEED
from support.posteriors import independent_draws, posterior_of_dags
from support.tables import skewed_table

NAMES = ("x0", "x1", "x2", "x3")


@pytest.fixture(scope="module")
def exact():
    return enumerate_posterior(FamilyScores(skewed_table(4, 100, seed=58)))


@pytest.fixture(scope="module")
def classes(exact):
    """Exact probability of every class."""
    found = {}
    for rows, p in zip(exact.rows, exact.probability, strict=True):
        cpdag = Dag.from_rows(rows, NAMES).cpdag()
        found[cpdag] = found.get(cpdag, 0.0) + p
    return found


def test_the_most_probable_class_is_the_exact_one(exact, classes):
    posterior = independent_draws(exact, seed=SEED, n_draws=5000)
    best = posterior.most_probable_class()
    first, second = sorted(classes.values(), reverse=True)[:2]
    assert first - second > 0.02  # or else the draws could not tell
    assert classes[best.cpdag] == first
    low, high = best.frequency.interval(0.9999)
    assert low <= first <= high
    assert best.ranked_by == "frequency"
    same = posterior.feature(lambda dag: dag.cpdag() == best.cpdag)
    assert best.frequency == same
    members = [rows for rows in exact.rows if Dag.from_rows(rows, NAMES).cpdag() == best.cpdag]
    assert 1 < best.n_graphs <= len(members)
    scores = [s for rows, s in zip(exact.rows, exact.log_score, strict=True) if any((rows == m).all() for m in members)]
    assert best.log_score == pytest.approx(scores[0], abs=1e-9)
    # The class of the best graph is another: to rank by the score alone fails the same check.
    alone = posterior.graphs(1)[0].dag.cpdag()
    assert classes[alone] < first - 0.02


def test_where_frequencies_are_equal_the_score_decides():
    graphs = [Dag.from_edges([(a, b)], ["a", "b", "c"]) for a, b in [("a", "b"), ("b", "c"), ("a", "c")]]
    graphs.append(Dag.from_edges([("a", "b"), ("c", "b")], ["a", "b", "c"]))
    best = posterior_of_dags(graphs, [-7.0, -3.0, -5.0, -9.0]).most_probable_class()
    assert best.cpdag == graphs[1].cpdag()
    assert (best.log_score, best.n_graphs, best.ranked_by) == (-3.0, 1, "log_score")


def test_where_the_score_differs_within_a_class_the_frequency_decides():
    one, other = (Dag.from_edges([pair], ["a", "b", "c"]) for pair in [("a", "b"), ("b", "a")])
    rare = Dag.from_edges([("a", "c")], ["a", "b", "c"])
    best = posterior_of_dags([one, other, one, other, rare, rare, one, rare], [-4, -5, -4, -5, -1, -1, -4, -1])
    found = best.most_probable_class()
    assert found.cpdag == one.cpdag()
    assert (found.log_score, found.n_graphs, found.ranked_by) == (None, 2, "frequency")


CYCLE = [
    Dag.from_edges([("a", "b"), ("b", "c")], ["a", "b", "c"]),
    Dag.from_edges([("b", "c"), ("c", "a")], ["a", "b", "c"]),
    Dag.from_edges([("c", "a"), ("a", "b")], ["a", "b", "c"]),
]


def test_a_median_graph_with_a_cycle_says_so():
    posterior = posterior_of_dags([*CYCLE, CYCLE[0]], repeat=5)  # a -> b and b -> c at 3/4, c -> a at 1/2
    median = posterior.median_probability_graph()
    assert median.acyclic
    assert median.edges == (("a", "b"), ("b", "c"))
    assert median.dag == CYCLE[0]
    posterior = posterior_of_dags([*CYCLE, *CYCLE, CYCLE[0]], repeat=5)  # c -> a at 4/7
    median = posterior.median_probability_graph()
    assert not median.acyclic
    assert median.dag is None
    assert median.edges == (("a", "b"), ("b", "c"), ("c", "a"))
    assert median.closing == (("c", "a"),)
    assert posterior.consensus() == CYCLE[0]


def test_no_set_of_edges_loses_less_than_the_median_graph():
    posterior = independent_draws(enumerate_posterior(FamilyScores(skewed_table(3, 40, seed=3))), seed=SEED)
    p = posterior.edge_diagnostics.probability
    pairs = [(i, j) for i, j in product(range(3), repeat=2) if i != j]

    def loss(edges):
        return sum(1 - p[pair] if pair in edges else p[pair] for pair in pairs)

    best = min((tuple(np.array(pairs)[list(chosen)].tolist()) for chosen in subsets(6)), key=lambda e: loss(as_set(e)))
    median = posterior.median_probability_graph()
    assert {tuple(posterior.names.index(x) for x in edge) for edge in median.edges} == as_set(best)


def subsets(n):
    return ([k for k in range(n) if number >> k & 1] for number in range(2**n))


def as_set(edges):
    return {tuple(edge) for edge in edges}


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
def test_edges_are_added_as_long_as_there_is_no_cycle(n, seed, threshold):
    probability = np.round(np.random.default_rng(seed).random((n, n)), 2)  # with ties
    np.fill_diagonal(probability, 0.0)
    kept, closing = _add_edges(probability, threshold)
    adjacency = np.zeros((n, n), dtype=np.bool_)
    by_hand = []
    for i, j in sorted(np.argwhere(probability > threshold).tolist(), key=lambda edge: -probability[tuple(edge)]):
        adjacency[i, j] = True
        try:
            Dag(adjacency)
        except ArgumentError:
            adjacency[i, j] = False
        else:
            by_hand.append((i, j))
    assert kept == by_hand
    assert set(kept) | set(closing) == as_set(np.argwhere(probability > threshold).tolist())


def test_the_consensus_has_the_nodes_of_the_posterior(exact):
    posterior = independent_draws(exact, seed=SEED)
    for threshold in (0.05, 0.3, np.float64(0.5), 0.95):
        dag = posterior.consensus(threshold)
        assert dag.names == posterior.names
        assert all(posterior.edge(*edge).value > threshold for edge in dag.edges)


@pytest.mark.parametrize("threshold", [0, 1, -0.1, 1.5, float("nan")])
def test_a_threshold_is_a_probability(exact, threshold):
    with pytest.raises(ArgumentError) as refused:
        independent_draws(exact, seed=SEED, n_draws=4).consensus(threshold)
    assert str(refused.value) == (
        f"threshold is {threshold}; edges with a probability above it are kept, so it must lie strictly between 0 "
        "and 1, such as 0.5"
    )


@pytest.mark.parametrize("threshold", ["0.5", None, True])
def test_a_threshold_is_a_number(exact, threshold):
    with pytest.raises(ArgumentTypeError, match=r"^threshold is .*; it must be a number strictly between 0 and 1$"):
        independent_draws(exact, seed=SEED, n_draws=4).consensus(threshold)
