"""Queries against sums over all graphs: per network to rounding, averaged within their errors."""

from __future__ import annotations

import numpy as np
import pytest
from averaging_cases import (
    case,
    conditional,
    exact_predictive,
    independent,
    joint_of,
    mean_joint,
    parent_lists,
    posterior_of_conditional,
    posterior_of_draws,
)

import doxa
from doxa.inference.exact import Budget
from doxa.models import CategoricalNetwork, Dag
from doxa.structure.averaging import draw_networks, predictive, query
from doxa.structure.averaging.conditional import conditional_draws, weighted_conditionals
from doxa.structure.averaging.questions import read_question
from doxa.structure.families.scores import BIC, K2, BDeu
from support.checks import SEED, worst_z, z_limit

QUESTIONS = [
    ("x0", {}, {}),
    ("x1", {"x0": "s1"}, {}),
    ("x0", {"x2": "s0"}, {}),
    ("x1", {"x0": "s0", "x2": "s1"}, {}),
    ("x2", {}, {"x1": "s2"}),
    ("x2", {"x0": "s1"}, {"x1": "s0"}),
]


def positions(table, mapping):
    return {table.names.index(name): table.states[table.names.index(name)].index(s) for name, s in mapping.items()}


def all_graphs():
    """A run that visits each of the 25 graphs four times."""
    of = case()
    which = np.tile(np.arange(len(of.listed.rows)), (4, 1))
    return of, draw_networks(posterior_of_draws(of, which), of.table, None)


@pytest.mark.parametrize(("target", "given", "do"), QUESTIONS)
def test_every_drawn_network_gives_the_answer_of_plain_listing_and_of_infer(target, given, do):
    of, draws = all_graphs()
    question = read_question(of.table.names, of.table.states, target, given, do)
    found = conditional_draws(draws, question, Budget())
    seen, made = positions(of.table, given), positions(of.table, do)
    j = of.table.names.index(target)
    for t in range(25):
        network = draws.network(t)
        tables = [network.tables[name] for name in network.names]
        joint = joint_of(parent_lists(draws.rows[t]), tables, list(draws.n_states), made)
        assert np.abs(found.drawn[t] - conditional(joint, j, seen | made)).max() < 1e-12
        if not do:
            inferred = doxa.infer(network, target, given=given, method="exact").probabilities(target)
            assert np.abs(found.drawn[t] - inferred).max() < 1e-12


@pytest.mark.parametrize(("target", "given", "do"), QUESTIONS)
def test_one_new_row_has_the_probability_of_the_network_of_mean_parameters(target, given, do):
    of, draws = all_graphs()
    found = weighted_conditionals(draws, read_question(of.table.names, of.table.states, target, given, do), Budget())
    seen, made = positions(of.table, given), positions(of.table, do)
    j = of.table.names.index(target)
    for t, rows in enumerate(of.listed.rows):
        joint = mean_joint(of, rows, made)
        evidence = joint[tuple((seen | made).get(k, slice(None)) for k in range(3))].sum()
        assert abs(found.log_evidence[t] - np.log(evidence)) < 1e-11
        assert np.abs(found.conditional[t] - conditional(joint, j, seen | made)).max() < 1e-12


def test_parameters_integrate_out_of_one_new_row():
    """The proof in words, checked: the mean over drawn networks of p(row) is p(row) of mean parameters."""
    of, _ = all_graphs()
    graph = int(np.argmax(np.bitwise_count(of.listed.rows).sum(axis=(1, 2))))  # three edges
    draws = draw_networks(posterior_of_draws(of, np.full((4, 1000), graph)), of.table, None)
    row = np.array([[0, 1, 0]])
    chances = np.array([np.exp(draws.network(t).log_probability(row)[0]) for t in range(0, len(draws), 2)])
    error = chances.std() / np.sqrt(len(chances))
    assert abs(chances.mean() - mean_joint(of, of.listed.rows[graph], {})[0, 1, 0]) < z_limit(1) * error
    twice = (chances**2).mean()  # two equal new rows: the first teaches about the second
    assert twice > 1.2 * chances.mean() ** 2


@pytest.mark.parametrize(("target", "given", "do"), QUESTIONS)
def test_predictive_probabilities_agree_with_the_sum_over_all_graphs(target, given, do):
    of = case()
    posterior = independent(of, seed=SEED + 2)
    found = predictive(posterior, of.table, target, given, do, networks=None)
    exact = exact_predictive(of, of.table.names.index(target), positions(of.table, given), positions(of.table, do))
    values = np.array([e.value for e in found.values()])
    assert abs(values.sum() - 1) < 1e-9
    errors = np.array([e.mcse for e in found.values()])
    assert worst_z(values, exact, errors) < z_limit(3 * len(QUESTIONS))
    assert errors.max() < 0.02


@pytest.mark.parametrize(("target", "given", "do"), QUESTIONS)
def test_query_agrees_with_the_mean_over_graphs_and_parameters(target, given, do):
    of = case()
    found = query(independent(of, seed=SEED + 3, n_draws=400), of.table, target, given, do, networks=None)
    seen, made = positions(of.table, given), positions(of.table, do)
    n = 8000
    exact, own = posterior_of_conditional(
        25, 5, of.table.names.index(target), tuple(seen.items()), tuple(made.items()), n
    )
    values = np.array([e.value for e in found.values()])
    errors = np.hypot([e.mcse for e in found.values()], own)
    assert worst_z(values, exact, errors) < z_limit(3 * len(QUESTIONS))
    assert errors.max() < 0.02


@pytest.mark.parametrize(
    ("rows", "seed", "target", "given"),
    [(25, 9, 2, {0: 0, 1: 1}), (25, 8, 0, {1: 0, 2: 0}), (8, 2, 0, {1: 1, 2: 0})],
)
def test_the_two_questions_differ_where_the_evidence_teaches(rows, seed, target, given):
    """A rare row makes graphs and parameters likely under which it is not rare: answers are not to be exchanged."""
    of = case(3, rows, seed)
    mean, own = posterior_of_conditional(rows, seed, target, tuple(given.items()), (), 8000)
    new_case = exact_predictive(of, target, given, {})
    limit = z_limit(12)
    posterior = independent(of, seed=SEED + 4, n_draws=500)
    words = {of.table.names[j]: of.table.states[j][k] for j, k in given.items()}
    asked = query(posterior, of.table, of.table.names[target], words, networks=None)
    told = predictive(posterior, of.table, of.table.names[target], words, networks=None)
    asked_values, told_values = (np.array([e.value for e in answer.values()]) for answer in (asked, told))
    asked_errors = np.hypot([e.mcse for e in asked.values()], own)
    told_errors = np.array([e.mcse for e in told.values()])
    assert worst_z(asked_values, mean, asked_errors) < limit
    assert worst_z(told_values, new_case, told_errors) < limit
    assert worst_z(asked_values, new_case, asked_errors) > limit
    assert worst_z(told_values, mean, told_errors) > limit


def test_an_event_of_two_columns():
    of = case()
    posterior = independent(of, seed=SEED + 5)
    event = predictive(posterior, of.table, {"x0": "s1", "x2": "s0"}, {"x1": "s1"}, networks=None)
    joint = sum(p * mean_joint(of, rows, {}) for p, rows in zip(of.listed.probability, of.listed.rows, strict=True))
    exact = joint[1, 1, 0] / joint[:, 1, :].sum()
    assert abs(event.value - exact) < z_limit(1) * event.mcse
    asked = query(posterior, of.table, {"x0": "s1", "x2": "s0"}, {"x1": "s1"})
    assert asked.draws.shape == (4, 250)
    assert asked.n_networks == 1000


def test_intervention_by_hand():
    """Confounder c of x and y, and x -> y: seeing and doing differ, and the adjustment formula gives the second."""
    dag = Dag.from_edges([("c", "x"), ("c", "y"), ("x", "y")])
    states = {name: ["0", "1"] for name in dag.names}
    truth = CategoricalNetwork(
        dag,
        {"c": [0.4, 0.6], "x": [[0.9, 0.1], [0.2, 0.8]], "y": [[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.1, 0.9]]]},
        states,
    )
    table = truth.simulate(400, np.random.default_rng(1))
    edges = [("c", "x"), ("c", "y"), ("x", "y")]
    posterior = doxa.learn(table, required=edges, draws=8, warmup=0, thin=1, seed=1)
    draws = draw_networks(posterior, table, None)
    done = query(posterior, table, {"y": "1"}, do={"x": "1"}, networks=None)
    seen = query(posterior, table, {"y": "1"}, given={"x": "1"}, networks=None)
    for t in range(0, 32, 5):
        c, x, y = (draws.network(t).tables[name] for name in "cxy")
        by_hand = sum(c[k] * y[k, 1, 1] for k in range(2))
        by_sight = sum(c[k] * x[k, 1] * y[k, 1, 1] for k in range(2)) / sum(c[k] * x[k, 1] for k in range(2))
        assert abs(done.draws.ravel()[t] - by_hand) < 1e-12
        assert abs(seen.draws.ravel()[t] - by_sight) < 1e-12
    assert seen.value - done.value > 0.05
    c, x, y = (draws.network(0, mean=True).tables[name] for name in "cxy")
    assert abs(done.value - sum(c[k] * y[k, 1, 1] for k in range(2))) < 1e-12  # one graph: no Monte Carlo noise at all
    past = query(posterior, table, {"c": "1"}, do={"x": "1"}, networks=None)
    assert abs(past.value - c[1]) < 1e-12  # what is done says nothing of causes


def test_networks_are_the_same_whatever_is_asked_and_in_which_order():
    of = case()
    posterior = independent(of, seed=1, n_draws=50)
    one = draw_networks(posterior, of.table, 80)
    two = draw_networks(posterior, of.table, 80)
    for t in range(10):
        assert one.network(t) == two.network(t)
    forwards = [query(posterior, of.table, name, networks=80).estimates for name in ("x0", "x2")]
    backwards = [query(posterior, of.table, name, networks=80).estimates for name in ("x2", "x0")]
    assert forwards == backwards[::-1]
    other = draw_networks(posterior, of.table, 80, seed=7)
    assert not np.allclose(other.network(0).tables["x0"], one.network(0).tables["x0"])
    assert one.network(0).dag == other.network(0).dag


def test_k2_draws_have_the_prior_of_k2():
    of = case(score="k2")
    draws = draw_networks(independent(of, seed=2, n_draws=2000), of.table, None)
    assert draws.prior == K2(1.0)
    t = 0
    family = (0, draws.parents[t][0])
    drawn = np.exp(draws.drawn_tables(family)).reshape(len(draws.users[family]), -1, 2)
    weights = draws.posterior_counts(family)[0]
    mean = weights / weights.sum(axis=1, keepdims=True)
    spread = np.sqrt(mean * (1 - mean) / (weights.sum(axis=1, keepdims=True) + 1))
    z = (drawn.mean(axis=0) - mean) / (spread / np.sqrt(len(drawn)))
    assert np.abs(z).max() < z_limit(z.size)
    assert np.abs(drawn.std(axis=0) / spread - 1).max() < 0.15


def test_bic_has_no_prior_of_parameters():
    of = case(score="bic")
    posterior = independent(of, seed=2, n_draws=50)
    with pytest.raises(doxa.DoxaError, match="score='bic', which implies no prior of parameters") as raised:
        query(posterior, of.table, "x0")
    assert "prior=BDeu(1.0)" in str(raised.value)
    assert 0 < query(posterior, of.table, {"x0": "s0"}, prior=BDeu(2.0)).value < 1
    with pytest.raises(doxa.DoxaError, match=r"prior is BIC\(\); give BDeu"):
        query(posterior, of.table, "x0", prior=BIC())
