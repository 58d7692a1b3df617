"""Exact answers from `learn`: when they are given, that they are right, and what a posterior does with them."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import doxa
from doxa import datasets
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store import RunFileError
from doxa.models import Dag
from doxa.structure.exact.dag_budget import ExactCost
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import K2
from doxa.structure.limits import capped, make_limits
from doxa.structure.posterior.exact_answer import ExactStructurePosterior, KeptSums
from doxa.structure.priors import PRIORS, make_prior
from support.checks import z_limit
from support.tables import skewed_table


@pytest.fixture(scope="module")
def small():
    table = skewed_table(4, 60, seed=3, n_states=3)
    return doxa.learn(table, prior="uniform", seed=2), enumerate_posterior(FamilyScores(table))


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
    asked = {"prior": "uniform", "max_parents": 1, "edge_log_odds": -1.0, "exact": True}
    limited = doxa.learn(skewed_table(4, 60, seed=3, n_states=3), **asked)
    listed = enumerate_posterior(FamilyScores(skewed_table(4, 60, seed=3, n_states=3)), capped([1, 1, 1, 1]))
    n_edges = np.bitwise_count(listed.rows).sum(axis=(1, 2))
    direct = np.logaddexp.reduce(listed.log_score - n_edges) - np.logaddexp.reduce(-1.0 * n_edges)
    assert limited.log_marginal_likelihood.value == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("kind", PRIORS)
def test_scores_priors_and_limits_are_in_the_sum(kind):
    table = skewed_table(4, 60, seed=3, n_states=3)
    knowledge = {"required": [("x0", "x2")], "forbidden": [("x3", "x1")], "max_parents": {"x2": 2}}
    posterior = doxa.learn(table, score=K2(0.5), prior=kind, exact=True, **knowledge)
    scores = FamilyScores(table, K2(0.5), make_prior(table.names, kind))
    listed = enumerate_posterior(scores, make_limits(table.names, **knowledge))
    np.testing.assert_allclose(posterior.edge_diagnostics.probability, listed.edge_probabilities, atol=1e-12)
    assert posterior.edge("x0", "x2").value == pytest.approx(1.0)
    assert posterior.edge("x3", "x1").value == 0.0
    assert "K2 score, prior count 0.5" in posterior.summary()
    assert "1 required edge, 1 forbidden edge" in posterior.summary()


def test_by_default_the_prior_is_sparse_and_parents_have_no_more_configurations_than_rows():
    table = skewed_table(4, 5, seed=3, n_states=3)
    posterior = doxa.learn(table, exact=True)
    limits = make_limits(table.names, n_states=table.n_states, max_configurations=5)
    sparse = FamilyScores(table, prior=make_prior(table.names, "sparse"))
    listed = enumerate_posterior(sparse, limits)
    found = posterior.edge_diagnostics.probability
    np.testing.assert_allclose(found, listed.edge_probabilities, atol=1e-12)
    others = [enumerate_posterior(sparse), enumerate_posterior(FamilyScores(table), limits)]  # no cap; no prior
    assert all(np.abs(found - other.edge_probabilities).max() > 1e-4 for other in others)
    evidence = np.logaddexp.reduce(listed.log_score)
    one = doxa.data.Table.from_codes(table.names, table.states, [[0, 0, 0, 0]])  # scores every graph alike
    graphs = enumerate_posterior(FamilyScores(one, prior=make_prior(table.names, "sparse")), limits)
    alike = enumerate_posterior(FamilyScores(one)).log_score[0]
    of_graphs = np.logaddexp.reduce(graphs.log_score) - alike
    assert posterior.log_marginal_likelihood.value == pytest.approx(evidence - of_graphs, rel=1e-12)
    assert posterior.summary().startswith(
        "5 rows x 4 columns; BDeu score, equivalent sample size 1; sparse prior over graphs; any number of parents "
        "with at most 5 configurations\n"
    )


def noise(seed, n_rows=1000, n_columns=12, n_bins=4):
    """Independent normal columns in bins of equal numbers of rows."""
    values = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    codes = values.argsort(axis=0).argsort(axis=0) * n_bins // n_rows
    names, states = [f"x{j}" for j in range(n_columns)], [[f"s{k}" for k in range(n_bins)]] * n_columns
    return doxa.data.Table.from_codes(names, states, codes)


@pytest.mark.parametrize("seed", [7, 8])
def test_by_default_noise_has_no_edges(seed):
    posterior = doxa.learn(noise(seed), seed=1)
    assert posterior.verdict.startswith("Exact")
    assert posterior.expected_edges.value < 0.5


def test_under_the_uniform_prior_noise_has_many_edges():
    assert doxa.learn(noise(7), prior="uniform", seed=1).expected_edges.value > 20


def test_sums_are_made_where_they_are_cheap_and_nothing_of_sampling_is_asked():
    table = datasets.load("reinis")
    assert doxa.learn(table).sampler.name == "exact"
    assert doxa.learn(table, exact=False, draws=20).sampler.name == "auto"
    assert doxa.learn(table, draws=20).sampler.name == "auto"
    assert doxa.learn(table, sampler="single_edge", draws=20).sampler.name == "single_edge"
    again = [doxa.learn(table, seed=5).trace["rows"] for _ in range(2)]
    assert np.array_equal(*again)


def test_a_sum_beyond_the_budget_is_made_only_when_asked_for(monkeypatch, caplog):
    monkeypatch.setattr("doxa.structure.exact.dag_budget.BUDGET", ExactCost(100, 10**9))
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


def same_exact_answers(loaded, posterior):
    assert loaded.verdict == posterior.verdict
    assert loaded.edges().equals(posterior.edges())
    assert loaded.ancestors().equals(posterior.ancestors())
    assert loaded.log_marginal_likelihood == posterior.log_marginal_likelihood
    assert loaded.graphs(3) == posterior.graphs(3)
    for name in posterior.names:
        own = posterior.parent_sets(name, most=1000)
        assert loaded.parent_sets(name, most=1000).equals(own[own["probability"] > 1e-12])
    assert np.array_equal(loaded.trace["rows"], posterior.trace["rows"])


def test_an_exact_posterior_is_saved_and_loaded_as_exact(small, tmp_path):
    posterior, _ = small
    posterior.save(tmp_path / "exact.doxa")
    loaded = doxa.load(tmp_path / "exact.doxa")
    assert loaded.edge("x0", "x1").exact
    same_exact_answers(loaded, posterior)
    loaded.save(tmp_path / "again.doxa")
    same_exact_answers(doxa.load(tmp_path / "again.doxa"), posterior)


def test_store_and_exact_answers_go_together(tmp_path):
    table = datasets.load("reinis")
    posterior = doxa.learn(table, exact=True, seed=1, store=tmp_path / "run.doxa")
    assert posterior.edge("smoke", "phys").exact
    loaded = doxa.load(tmp_path / "run.doxa", table)
    same_exact_answers(loaded, posterior)
    assert loaded.query({"smoke": "yes"}) == posterior.query({"smoke": "yes"})
    with pytest.raises(RunFileError, match="holds an exact answer, a sum over all graphs: there is nothing to go on"):
        doxa.resume(tmp_path / "run.doxa", table)
    with pytest.raises(RunFileError, match="exists already"):
        doxa.learn(table, seed=1, store=tmp_path / "run.doxa")
    with pytest.raises(RunFileError, match="does not exist; create it first"):
        doxa.learn(table, seed=1, store=tmp_path / "nowhere" / "run.doxa")


def test_a_sum_over_missing_cells_is_stored_too(tmp_path):
    rows = np.array([[0, 0, 1], [1, 1, 0], [0, -1, 1], [1, 1, 1], [-1, 0, 0]])
    table = doxa.Table.from_codes(["a", "b", "c"], [["no", "yes"]] * 3, rows)
    posterior = doxa.learn(table, seed=1, store=tmp_path / "run.doxa")
    assert "all 4 completions" in posterior.verdict
    loaded = doxa.load(tmp_path / "run.doxa", table)
    assert loaded.verdict == posterior.verdict
    assert loaded.edges().equals(posterior.edges())
    assert loaded.impute().equals(posterior.impute())


@pytest.mark.parametrize(
    "spoilt",
    [
        None,
        {},
        {"edges": [[0.0]]},
        {"edges": [[0.0, 2.0], [0.0, 0.0]]},
        {"edges": "many"},
        {"log_evidence": "inf"},
        {"n_completions": 0},
        {"parent_sets": [[[1], [0.5]]]},
        {"parent_sets": [[[9], [0.5]], [[0], [1.0]]]},
        {"parent_sets": [[[1, 0], [0.5]], [[0], [1.0]]]},
    ],
)
def test_sums_of_another_form_are_refused(spoilt, tmp_path, monkeypatch):
    posterior = doxa.learn(skewed_table(2, 20, seed=3), seed=1)
    whole = KeptSums.of(posterior.exact, posterior.names).to_json()
    assert KeptSums.from_json(whole, posterior.names).to_json() == whole
    stored = whole | spoilt if spoilt else spoilt
    monkeypatch.setattr(KeptSums, "to_json", lambda self: stored)
    posterior.save(tmp_path / "run.doxa")
    with pytest.raises(RunFileError, match="is not a run that doxa wrote: its option 'sums' has no such form"):
        doxa.load(tmp_path / "run.doxa")


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
            "exact is True, but sampler, draws, warmup, thin or until is given too: they belong to sampling; "
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
