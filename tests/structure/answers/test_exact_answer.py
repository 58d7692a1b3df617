"""Exact answers from `learn`: when they are given, that they are right, and what a posterior does with them."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import doxa
from doxa import datasets
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models import Dag
from doxa.structure.answers.exact_answer import ExactStructurePosterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import K2
from doxa.structure.limits import capped, make_limits
from doxa.structure.sums.dag_budget import ExactCost
from doxa.structure.sums.enumeration import enumerate_posterior
from support.checks import z_limit
from support.tables import skewed_table


@pytest.fixture(scope="module")
def small():
    table = skewed_table(4, 60, seed=3, n_states=3)
    return doxa.learn(table, seed=2), enumerate_posterior(FamilyScores(table))


def reached(rows, n):
    """Plain twin: which node leads to which."""
    adjacency = Dag.from_rows(rows, tuple(f"x{i}" for i in range(n))).adjacency
    paths = adjacency.copy()
    for _ in range(n):
        paths = paths | ((paths.astype(int) @ adjacency.astype(int)) > 0)
    return paths


def test_edges_adjacencies_ancestors_and_parents_are_those_of_all_graphs(small):
    posterior, listed = small
    assert isinstance(posterior, ExactStructurePosterior)
    np.testing.assert_allclose(posterior.edge_diagnostics.probability, listed.edge_probabilities, atol=1e-12)
    for row in posterior.edges().itertuples():
        i, j = posterior.names.index(row.source), posterior.names.index(row.target)
        assert row.probability == pytest.approx(listed.edge_probabilities[i, j], abs=1e-12)
        assert (row.mcse, row.ess) == (0.0, np.inf)
    edge = posterior.edge("x0", "x1")
    assert edge.exact
    assert edge.interval() == (edge.value, edge.value)
    joined = listed.edge_probabilities + listed.edge_probabilities.T
    np.testing.assert_allclose(posterior.adjacency_diagnostics.probability, joined, atol=1e-12)
    paths = sum(p * reached(rows, 4) for rows, p in zip(listed.rows, listed.probability, strict=True))
    for row in posterior.ancestors().itertuples():
        i, j = posterior.names.index(row.ancestor), posterior.names.index(row.descendant)
        assert row.probability == pytest.approx(paths[i, j], abs=1e-12)
    sets = posterior.parent_sets("x3", most=3)
    truth = {}
    for rows, p in zip(listed.rows, listed.probability, strict=True):
        parents = Dag.from_rows(rows, posterior.names).parents("x3")
        truth[parents] = truth.get(parents, 0.0) + p
    assert sets["probability"].tolist() == pytest.approx(sorted(truth.values(), reverse=True)[:3], abs=1e-12)
    assert [truth[parents] for parents in sets["parents"]] == pytest.approx(sets["probability"].tolist(), abs=1e-12)
    assert posterior.expected_edges.value == pytest.approx(listed.edge_probabilities.sum(), abs=1e-12)


def test_graphs_have_their_exact_probability_and_draws_are_independent(small):
    posterior, listed = small
    probability = {rows.tobytes(): p for rows, p in zip(listed.rows, listed.probability, strict=True)}
    for graph in posterior.graphs(5):
        assert graph.frequency.exact
        assert graph.frequency.value == pytest.approx(probability[graph.dag.rows.tobytes()], rel=1e-9)
    mean = posterior.feature(lambda dag: dag.n_edges)
    assert abs(mean.value - posterior.expected_edges.value) < z_limit(1) * mean.mcse
    assert mean.ess > 0.8 * posterior.n_edges.size
    scores = FamilyScores(skewed_table(4, 60, seed=3, n_states=3))
    dag = Dag.from_rows(posterior.trace["rows"][1, 7], posterior.names)
    expected = sum(scores.log_score(node, dag.parents(node)) for node in dag.names)
    assert posterior.log_score[1, 7] == pytest.approx(expected, rel=1e-12)


def test_the_marginal_likelihood_divides_by_the_number_of_graphs(small):
    posterior, listed = small
    direct = np.logaddexp.reduce(listed.log_score) - np.log(543)
    assert posterior.log_marginal_likelihood.value == pytest.approx(direct, rel=1e-12)
    limited = doxa.learn(skewed_table(4, 60, seed=3, n_states=3), max_parents=1, edge_log_odds=-1.0, exact=True)
    listed = enumerate_posterior(FamilyScores(skewed_table(4, 60, seed=3, n_states=3)), capped([1, 1, 1, 1]))
    n_edges = np.bitwise_count(listed.rows).sum(axis=(1, 2))
    direct = np.logaddexp.reduce(listed.log_score - n_edges) - np.logaddexp.reduce(-1.0 * n_edges)
    assert limited.log_marginal_likelihood.value == pytest.approx(direct, rel=1e-12)


def test_scores_priors_and_limits_are_in_the_sum():
    table = skewed_table(4, 60, seed=3, n_states=3)
    knowledge = {"required": [("x0", "x2")], "forbidden": [("x3", "x1")], "max_parents": {"x2": 2}}
    posterior = doxa.learn(table, score=K2(0.5), exact=True, **knowledge)
    listed = enumerate_posterior(FamilyScores(table, K2(0.5)), make_limits(table.names, **knowledge))
    np.testing.assert_allclose(posterior.edge_diagnostics.probability, listed.edge_probabilities, atol=1e-12)
    assert posterior.edge("x0", "x2").value == pytest.approx(1.0)
    assert posterior.edge("x3", "x1").value == 0.0
    assert "K2 score, prior count 0.5" in posterior.summary()
    assert "1 required edge, 1 forbidden edge" in posterior.summary()


def test_sums_are_made_where_they_are_cheap_and_nothing_of_sampling_is_asked():
    table = datasets.load("reinis")
    assert doxa.learn(table).sampler.name == "exact"
    assert doxa.learn(table, exact=False, draws=20).sampler.name == "auto"
    assert doxa.learn(table, draws=20).sampler.name == "auto"
    assert doxa.learn(table, sampler="single_edge", draws=20).sampler.name == "single_edge"
    again = [doxa.learn(table, seed=5).trace["rows"] for _ in range(2)]
    assert np.array_equal(*again)


def test_a_sum_beyond_the_budget_is_made_only_when_asked_for(monkeypatch, caplog):
    monkeypatch.setattr("doxa.structure.answers.exact_answer.BUDGET", ExactCost(100, 10**9))
    table = skewed_table(5, 40, seed=1)
    assert doxa.learn(table, seed=1).sampler.name == "auto"
    with caplog.at_level(logging.INFO, "doxa"):
        assert doxa.learn(table, seed=1, exact=True).sampler.name == "exact"
    assert "summing over all graphs: at most" in caplog.text


def test_the_verdict_says_what_is_exact(small):
    posterior, _ = small
    assert posterior.converged is True
    assert posterior.verdict.startswith("Exact: a sum over all graphs within the limits, with an error below ")
    assert posterior.stop.reason == "exact"
    assert "summed over all graphs; 4 x 2500 independent draws of graphs" in posterior.summary()


def test_an_exact_posterior_is_saved_as_its_draws(small, tmp_path):
    posterior, _ = small
    posterior.save(tmp_path / "exact.doxa")
    loaded = doxa.load(tmp_path / "exact.doxa")
    assert np.array_equal(loaded.trace["rows"], posterior.trace["rows"])
    assert loaded.verdict.startswith("Converged: independent draws from the exact posterior; the sums")
    edge = loaded.edge("x0", "x1")
    assert not edge.exact
    assert abs(edge.value - posterior.edge("x0", "x1").value) < z_limit(1) * edge.mcse


def test_comparing_two_exact_posteriors_divides_by_no_error(small):
    posterior, _ = small
    same = posterior.compare(posterior).edges
    assert (same["z"] == 0).all()
    other = posterior.compare(doxa.learn(skewed_table(4, 90, seed=8, n_states=3)))
    assert np.isinf(other.edges["z"]).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"exact": "yes"}, ArgumentTypeError, "exact is 'yes'; it must be True, False, or left out"),
        (
            {"exact": True, "draws": 100},
            ArgumentError,
            "exact is True, but sampler, draws, warmup, thin, until or store is given too: they belong to sampling; "
            "leave them out, or leave out exact",
        ),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error) as refused:
        doxa.learn(skewed_table(3, 10, seed=0), **options)
    assert str(refused.value) == message


def test_too_many_columns_for_a_sum_are_refused():
    table = skewed_table(25, 20, seed=1, density=0.1)
    with pytest.raises(ArgumentError, match="exact is True, but the table has 25 columns, and all graphs are summed"):
        doxa.learn(table, exact=True)
