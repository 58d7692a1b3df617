"""Weighted draws in networks whose categories depend on numbers, against integrals on a grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact.gaussian import Conditioned
from doxa.inference.exact.gaussian import condition as exactly
from doxa.inference.importance import numbers
from doxa.inference.importance.numbers import Weighted, condition
from doxa.models import Dag, GaussianNetwork, LogOdds, Regression

X, Y, G, H = range(4)
NAMES = ("x", "y", "g", "h")


def network():
    """x -> y, x -> g, and h of three states below x and g."""
    return GaussianNetwork(
        Dag.from_edges([("x", "y"), ("x", "g"), ("x", "h"), ("g", "h")], NAMES),
        {"x": Regression(0.5, [], 1.5), "y": Regression(1.0, [0.8], 1.0)},
        states={"g": ["no", "yes"], "h": ["a", "b", "c"]},
        log_odds={"g": LogOdds([-0.4], [[1.2]]), "h": LogOdds([[0.1, -0.3], [0.6, 0.2]], [[[0.5], [-0.7]]] * 2)},
    )


def joint(given_y=None):
    """Points of x, and the density of x, g and h there, and of y where it was seen: shape (n, 2, 3)."""
    x = np.linspace(-9, 10, 4001)
    density = norm.pdf(x, 0.5, 1.5) * (1.0 if given_y is None else norm.pdf(given_y, 1 + 0.8 * x, 1.0)) * (x[1] - x[0])
    g = expit(-0.4 + 1.2 * x)
    odds = np.stack([np.zeros((len(x), 2)), *(
        np.array([0.1, 0.6]) + 0.5 * x[:, None], np.array([-0.3, 0.2]) - 0.7 * x[:, None])], axis=-1)  # fmt: skip
    h = np.exp(odds) / np.exp(odds).sum(axis=-1, keepdims=True)
    return x, density[:, None, None] * np.stack([1 - g, g], axis=1)[:, :, None] * h


def asked(targets, given=None, columns=(), values=(), do=None, seed=1, whole=True):
    return condition(
        network(), targets, given or {}, list(columns), np.array([values], dtype=float), do or {},
        np.random.default_rng(seed), whole=whole,
    )  # fmt: skip


@pytest.mark.parametrize("y", [None, 2.5])
def test_a_number_below_its_evidence(y):
    """Mean, spread and density of evidence, over seeds: the error of one answer is what the seeds show."""
    x, p = joint(y)
    p = p[:, 1, 2]
    mean = x @ p / p.sum()
    sd = np.sqrt((x - mean) ** 2 @ p / p.sum())
    columns, values = ([], []) if y is None else ([Y], [y])
    found = [asked([X], {G: 1, H: 2}, columns, values, seed=seed) for seed in range(30)]
    for own, right in (
        ([one.mixture().mean for one in found], mean),
        ([one.mixture().sd for one in found], sd),
        ([np.exp(one.log_evidence[0]) for one in found], p.sum()),
    ):
        assert abs(np.mean(own) - right) < 4 * np.std(own) / np.sqrt(len(own)) + 0.002 * right
    assert min(one.effective[0] for one in found) >= 200


def test_evidence_that_is_forgotten_fails_the_same_check():
    x, p = joint()
    p = p.sum(axis=(1, 2))
    prior_mean = x @ p / p.sum()
    own = [asked([X], {G: 1, H: 2}, seed=seed).mixture().mean for seed in range(10)]
    assert abs(np.mean(own) - prior_mean) > 4 * np.std(own) / np.sqrt(len(own)) + 0.002


def test_categories_given_a_number_above_and_below():
    _, p = joint(2.5)
    own = np.array([asked([G, H], {}, [Y], [2.5], seed=seed).state_probabilities(H, 3)[0] for seed in range(20)])
    right = p.sum(axis=(0, 1)) / p.sum()
    assert own.mean(axis=0) == pytest.approx(right, abs=4 * own.std(axis=0).max() / np.sqrt(20))
    both = [asked([G, H], {}, [Y], [2.5], seed=seed).event_probability([G, H], [1, 0]) for seed in range(20)]
    assert np.mean(both) == pytest.approx(p[:, 1, 0].sum() / p.sum(), abs=4 * np.std(both) / np.sqrt(20))
    seen = asked([G], {}, [X], [1.0])
    assert seen.state_probabilities(G, 2)[0, 1] == pytest.approx(expit(0.8), abs=1e-12)
    assert seen.log_weights.shape == (1, 1)  # nothing is left to draw


def test_categories_are_summed_out_where_nothing_else_is_left():
    """g given x and h, which depends on it: exact, and so is the density of the evidence."""
    found = asked([G], {H: 2}, [X, Y], [1.0, 2.0])
    odds = np.array([[0.0, 0.6, -1.0], [0.0, 1.1, -0.5]])
    h = np.exp(odds[:, 2]) / np.exp(odds).sum(axis=1)
    both = np.array([1 - expit(0.8), expit(0.8)]) * h
    assert found.state_probabilities(G, 2)[0] == pytest.approx(both / both.sum(), abs=1e-12)
    density = norm.pdf(1.0, 0.5, 1.5) * norm.pdf(2.0, 1.8, 1.0)
    assert found.log_evidence[0] == pytest.approx(np.log(density * both.sum()), abs=1e-12)
    assert found.effective[0] == np.inf
    pair = asked([G, H], {}, [X], [1.0], whole=False)
    assert pair.event_probability([G, H], [1, 2]) == pytest.approx(both[1], abs=1e-12)


def event(found, category, state, above):
    """Probability that a category has a state and the number among the targets is above a threshold."""
    means, sds = found.components(0)
    return found.event_probability([category], [state], norm.sf(above, means, sds))


def test_events_are_exact_where_nothing_else_is_left():
    """A category that nothing depends on counts by its probability: its one drawn state is not the answer."""
    alone = asked([G], {}, [X], [1.0])
    assert alone.event_probability([G], [1]) == pytest.approx(expit(0.8), abs=1e-12)
    assert abs(alone._replace(shares={}).event_probability([G], [1]) - expit(0.8)) > 0.1
    odds = np.array([[0.0, 0.6, -1.0], [0.0, 1.1, -0.5]])
    h = np.array([1 - expit(0.8), expit(0.8)]) @ (np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True))
    assert event(asked([H, Y], {}, [X], [1.0]), H, 2, 2.0) == pytest.approx(h[2] * norm.sf(2.0, 1.8, 1.0), abs=1e-12)


def test_events_of_a_category_and_a_number_below_evidence():
    x, p = joint()
    share = p[:, 1, :].sum(axis=1)
    right = share @ norm.sf(2.0, 1 + 0.8 * x, 1.0)
    own = [event(asked([G, Y], seed=seed), G, 1, 2.0) for seed in range(20)]
    assert np.mean(own) == pytest.approx(right, abs=4 * np.std(own) / np.sqrt(20))
    apart = share.sum() * (p.sum(axis=(1, 2)) @ norm.sf(2.0, 1 + 0.8 * x, 1.0))  # as if they were independent
    assert abs(np.mean(own) - apart) > 8 * np.std(own) / np.sqrt(20)


def test_a_number_that_evidence_does_not_depend_on_is_a_mixture():
    """y given g: its scatter about every drawn x is exact, so its quantiles are smooth."""
    x, p = joint()
    share = p[:, 1].sum(axis=1)
    found = [asked([Y], {G: 1}, seed=seed).mixture() for seed in range(20)]
    for low in (0.0, 2.0, 4.0):
        right = share @ norm.sf(low, 1 + 0.8 * x, 1.0) / share.sum()
        own = [one.probability(above=low) for one in found]
        assert np.mean(own) == pytest.approx(right, abs=4 * np.std(own) / np.sqrt(20) + 1e-4)


@pytest.mark.parametrize(("alone", "is_biased"), [(False, False), (True, True)])
def test_smoothed_draws_do_not_move_probabilities_of_many_networks(alone, is_biased):
    """A number cut off by what was seen: a kernel that makes one density smooth is seen in the mean of 300."""
    steep = GaussianNetwork(
        Dag.from_edges([("x", "g")]), {"x": Regression(0.0, [], 1.0)}, states={"g": ["n", "y"]},
        log_odds={"g": LogOdds([-4.0], [[6.0]])},
    )  # fmt: skip
    x = np.linspace(-8, 8, 16001)
    p = norm.pdf(x) * expit(6 * x - 4)
    exact = p[x > 0.3].sum() / p.sum()
    own = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        found = condition(steep, [0], {1: 1}, [], np.empty((1, 0)), {}, rng)
        own.append(found.mixture(alone=alone).probability(above=0.3))
    z = (np.mean(own) - exact) / (np.std(own) / np.sqrt(300))
    assert (abs(z) > 6) == is_biased


def test_what_is_set_says_nothing_of_its_causes():
    found = asked([X], do={G: 1.0}, whole=False)
    assert isinstance(found, Conditioned)  # the category is out of the question: the answer is exact
    assert (found.mixture().mean, found.mixture().sd) == (0.5, 1.5)
    own = [asked([H], do={X: 1.0, G: 1.0}, seed=seed).state_probabilities(H, 3)[0] for seed in range(5)]
    odds = np.exp([0.0, 0.6 + 0.5, 0.2 - 0.7])
    assert np.mean(own, axis=0) == pytest.approx(odds / odds.sum(), abs=0.02)


def test_several_rows_at_once_are_rows_of_their_own():
    values = np.array([[2.5], [-1.0], [0.3]])
    found = condition(network(), [X], {G: 1}, [Y], values, {}, np.random.default_rng(2), whole=True)
    assert isinstance(found, Weighted)
    for row, (y,) in enumerate(values):
        x, p = joint(y)
        p = p[:, 1].sum(axis=1)
        assert found.mixture(row).mean == pytest.approx(x @ p / p.sum(), abs=0.25)
        assert found.log_evidence[row] == pytest.approx(np.log(p.sum()), abs=0.15)


def test_answers_that_need_no_category_are_exact():
    found = asked([Y], {}, [X], [1.0], whole=False)
    assert isinstance(found, Conditioned)
    right = exactly(network(), [Y], {}, [X], np.array([[1.0]]), {})
    assert found.mixture().mean == right.mixture().mean == pytest.approx(1.8)
    with pytest.raises(ArgumentError, match="depends on 'g', a category that depends on numbers"):
        exactly(network(), [X], {G: 1}, [], np.zeros((1, 0)), {})


def test_more_draws_are_made_of_unlikely_evidence():
    usual, unlikely = (asked([X], {G: 1}, [Y], [y]) for y in (1.0, 9.5))
    assert unlikely.log_weights.shape[1] > usual.log_weights.shape[1]
    assert unlikely.log_weights.shape[1] <= numbers._MOST


def test_records_have_the_probabilities_of_the_network():
    table = network().simulate(20_000, seed=3)
    codes, values = table.codes[table.row_index], table.numbers[table.row_index]
    near = np.abs(values[:, X] - 1.0) < 0.1
    assert codes[near, G].mean() == pytest.approx(expit(0.8), abs=0.05)
    log_p = network().log_density(codes[:4], values[:4])
    for row, log in enumerate(log_p):
        x, y, g, h = values[row, X], values[row, Y], codes[row, G], codes[row, H]
        odds = np.array([0.0, *(np.array([[0.1, -0.3], [0.6, 0.2]])[g] + np.array([0.5, -0.7]) * x)])
        right = norm.logpdf(x, 0.5, 1.5) + norm.logpdf(y, 1 + 0.8 * x, 1.0)
        right += np.log(expit((2 * g - 1) * (-0.4 + 1.2 * x))) + odds[h] - np.log(np.exp(odds).sum())
        assert log == pytest.approx(right, abs=1e-12)


def test_networks_say_what_is_wrong_with_log_odds():
    dag = Dag.from_edges([("x", "g")])
    line, states = {"x": Regression(0.0, [], 1.0)}, {"g": ["n", "y"]}
    with pytest.raises(ArgumentError, match="which has a table"):
        GaussianNetwork(dag, line, {"g": [0.5, 0.5]}, states)
    with pytest.raises(ArgumentError, match="log odds and a regression or a table"):
        GaussianNetwork(dag, line, {"g": [0.5, 0.5]}, states, {"g": ([0.0], [[1.0]])})
    with pytest.raises(ArgumentError, match="the coefficients of log_odds"):
        GaussianNetwork(dag, line, None, states, {"g": ([0.0], [1.0])})
    with pytest.raises(ArgumentTypeError, match=r"give LogOdds\(intercept, coefficients\)"):
        GaussianNetwork(dag, line, None, states, {"g": 1.0})
    with pytest.raises(ArgumentError, match="fewer than two labels"):
        GaussianNetwork(dag, line, None, None, {"g": ([0.0], [[1.0]])})
    made = GaussianNetwork(dag, line, None, states, {"g": ([0.0], [[1.0]])})
    assert made == GaussianNetwork(dag, line, None, states, {"g": LogOdds([0.0], [[1.0]])})
    assert made.do({"g": "y"}).dag.n_edges == 0
