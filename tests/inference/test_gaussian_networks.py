"""Conditional Gaussian networks against dense linear algebra and sums over every configuration of all categories."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact import NormalMixture, conditional_distribution, gaussian
from doxa.inference.exact.gaussian import Networks, condition, condition_each, log_density
from doxa.models import Dag, GaussianNetwork, Regression
from doxa.models.separation import requisite_families


def random_network(seed, n=7, categories=(0, 2, 3)):
    """Every other edge of an order there, at most; categories depend on categories alone."""
    rng = np.random.default_rng(seed)
    names = [f"v{j}" for j in range(n)]
    edges = [
        (names[i], names[j])
        for j in range(n)
        for i in range(j)
        if rng.random() < 0.55 and not (j in categories and i not in categories)
    ]
    dag = Dag.from_edges(edges, names)
    states = {names[j]: ["a", "b", "c"][: 2 + j % 2] for j in categories}
    tables, regressions = {}, {}
    for name in names:
        shape = tuple(len(states[p]) for p in dag.parents(name) if p in states)
        if name in states:
            tables[name] = rng.dirichlet(np.ones(len(states[name])), size=shape)
        else:
            on = [p for p in dag.parents(name) if p not in states]
            regressions[name] = Regression(
                rng.normal(size=shape), rng.normal(size=(*shape, len(on))), rng.gamma(2.0, size=shape) + 0.1
            )
    return GaussianNetwork(dag, regressions, tables, states)


def components(network, made=None):
    """Of every configuration of all categories: states, probability, mean and covariance of all numbers."""
    made = made or {}
    cut = network.do(made) if made else network
    categories = [v for v, labels in enumerate(cut.states) if labels]
    numbers = [v for v, labels in enumerate(cut.states) if not labels]
    for states in product(*(range(len(cut.states[v])) for v in categories)):
        state = dict(zip(categories, states, strict=True))
        p = 1.0
        for v in categories:
            p *= cut.tables[cut.names[v]][tuple(state[u] for u in (*cut.parents[v], v))]
        b, c, d = np.zeros((len(numbers), len(numbers))), np.zeros(len(numbers)), np.zeros(len(numbers))
        for i, v in enumerate(numbers):
            regression = cut.regressions[cut.names[v]]
            at = tuple(state[u] for u in cut.parents[v] if u in state)
            c[i], d[i] = regression.intercept[at], regression.sd[at] ** 2
            for slope, u in zip(
                regression.coefficients[at], [u for u in cut.parents[v] if u not in state], strict=True
            ):
                b[i, numbers.index(u)] = slope
        inverse = np.linalg.inv(np.eye(len(numbers)) - b)
        yield state, p, numbers, inverse @ c, inverse @ np.diag(d) @ inverse.T


def brute(network, target, given, made):
    """Weights, means and variances of a number, or probabilities of states, by listing everything."""
    position = network.names.index
    weights, means, variances, states = [], [], [], []
    for state, p, numbers, mean, covariance in components(network, made):
        seen = [numbers.index(position(v)) for v in given if not network.states[position(v)]]
        if any(network.states[u][state[u]] != given.get(network.names[u], network.states[u][state[u]]) for u in state):
            continue
        x = np.array([given[network.names[numbers[i]]] for i in seen])
        if seen:
            p *= multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).pdf(x)
        weights.append(p)
        if network.states[position(target)]:
            states.append(state[position(target)])
            continue
        t = numbers.index(position(target))
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, t]) if seen else np.zeros(0)
        means.append(mean[t] + gain @ (x - mean[seen]))
        variances.append(covariance[t, t] - gain @ covariance[seen, t])
    return np.array(weights), np.array(means), np.array(variances), states


QUESTIONS = [
    ("v6", {}, {}),
    ("v6", {"v1": 0.4, "v4": -1.0}, {}),
    ("v1", {"v6": 0.7, "v0": "a", "v3": "c"}, {}),
    ("v5", {"v6": 0.7}, {"v4": 2.0}),
    ("v4", {"v2": "b"}, {"v0": "b", "v1": -1.5}),
    ("v1", {"v4": 0.3, "v5": 0.2, "v6": 0.1}, {"v3": "a"}),
]


def is_same(network, question, listed=None):
    """Whether the answer is that of listing; of listing for another question, where one is given."""
    target, given, made = question
    weights, means, variances, _ = brute(network, *(question if listed is None else listed))
    weights = weights / weights.sum()
    mean = weights @ means
    sd = np.sqrt(weights @ (variances + (means - mean) ** 2))
    found = conditional_distribution(network, target, given, made)
    points = np.array([-3.0, 0.1, 2.5])
    density = norm.pdf(points[:, None], means, np.sqrt(variances)) @ weights
    above = weights @ norm.sf(0.5, means, np.sqrt(variances))
    return (
        abs(found.mean - mean) < 1e-9 * max(1, abs(mean))
        and abs(found.sd - sd) < 1e-9 * max(1, sd)
        and np.allclose(found.density(points), density, rtol=1e-9, atol=1e-14)
        and abs(found.probability(above=0.5) - above) < 1e-9
        and abs(weights @ norm.cdf(found.quantile(0.3), means, np.sqrt(variances)) - 0.3) < 1e-9
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_number_has_the_distribution_of_dense_algebra_and_listing(question, seed):
    assert is_same(random_network(seed), question)


def test_the_check_rejects_other_evidence_and_seeing_in_place_of_doing():
    network = random_network(1)
    target, given, made = QUESTIONS[3]
    assert not is_same(network, QUESTIONS[3], listed=(target, given | made, {}))
    assert not is_same(network, QUESTIONS[1], listed=("v6", {"v1": 0.4, "v4": 1.0}, {}))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("given", "made"), [({}, {}), ({"v6": 0.7, "v2": "a"}, {}), ({"v5": 2.0}, {"v0": "a"})])
def test_a_category_below_numbers_has_the_probabilities_of_listing(given, made, seed):
    network = random_network(seed)
    weights, _, _, states = brute(network, "v3", given, made)
    exact = np.bincount(states, weights=weights, minlength=3) / weights.sum()
    found = conditional_distribution(network, "v3", given, made)
    assert np.abs(np.array(list(found.values())) - exact).max() < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_rows_have_their_density_with_holes_and_without(seed):
    network = random_network(seed)
    table = network.simulate(30, seed=seed)
    codes, numbers = table.codes[table.row_index].astype(int), table.numbers[table.row_index]
    assert np.abs(log_density(network, codes, numbers) - network.log_density(codes, numbers)).max() < 1e-9
    rng = np.random.default_rng(seed)
    gone = rng.random(codes.shape) < 0.4
    codes, numbers = np.where(gone, -1, codes), np.where(gone, np.nan, numbers)
    found = log_density(network, codes, numbers)
    for row in range(30):
        total = 0.0
        for state, p, own, mean, covariance in components(network):
            if all(codes[row, v] in (-1, k) for v, k in state.items()):
                seen = [i for i, v in enumerate(own) if not np.isnan(numbers[row, v])]
                at = numbers[row, [own[i] for i in seen]]
                total += p * (multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).pdf(at) if seen else 1.0)
        assert abs(found[row] - np.log(total)) < 1e-9


def test_records_follow_the_network():
    network = random_network(2)
    table = network.simulate(40_000, seed=1)
    numbers = table.numbers[table.row_index]
    for j, labels in enumerate(network.states):
        if not labels:
            exact = conditional_distribution(network, network.names[j])
            z = (numbers[:, j].mean() - exact.mean) / (exact.sd / np.sqrt(40_000))
            assert abs(z) < 5
            assert abs((numbers[:, j] < exact.quantile(0.2)).mean() - 0.2) < 5 * 0.4 / np.sqrt(40_000)


def test_far_evidence_keeps_its_digits():
    """Two configurations, seen 200 standard deviations away: weights underflow, their logarithms do not."""
    dag = Dag.from_edges([("k", "x")])
    network = GaussianNetwork(
        dag, {"x": Regression([0.0, 1.0], [[], []], [1.0, 1.0])}, {"k": [0.5, 0.5]}, {"k": ["n", "y"]}
    )
    found = conditional_distribution(network, "k", given={"x": -200.0})
    assert np.isclose(found["y"], np.exp(-200.5), rtol=1e-9)
    assert found["n"] == 1.0


def test_a_mixture_is_a_distribution():
    two = NormalMixture([0.3, 0.7], [-1.0, 40.0], [0.5, 3.0])
    assert np.isclose(quad(two.density, -10, 70, points=[-1, 40])[0], 1.0, atol=1e-9)
    assert np.isclose(quad(lambda x: x * two.density(x), -10, 70, points=[-1, 40])[0], two.mean)
    for p in (1e-12, 0.3, 0.5, 1 - 1e-12):
        assert np.isclose(two.probability(below=two.quantile(p)), p, rtol=1e-8)
    assert np.isclose(two.probability(above=150.0), 0.7 * norm.sf(110 / 3), rtol=1e-12)
    low, high = two.interval(0.9)
    assert np.isclose(two.probability(between=(low, high)), 0.9)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"between": (3.0, 1.0)}, ArgumentError, "the lower end comes first"),
        ({"above": float("nan")}, ArgumentError, "neither above nor below"),
        ({"above": "tall"}, ArgumentTypeError, "give a number"),
        ({"between": 3.0}, ArgumentTypeError, "two numbers"),
        ({}, ArgumentError, "give one of them"),
    ],
)
def test_bad_thresholds_are_named(asked, error, words):
    with pytest.raises(error, match=words):
        NormalMixture([1.0], [0.0], [1.0]).probability(**asked)


@pytest.mark.parametrize(
    ("target", "given", "do", "error", "words"),
    [
        ("v1", {"v4": "fifty"}, None, ArgumentTypeError, "holds numbers"),
        ("v1", {"v4": float("nan")}, None, ArgumentError, "finite"),
        ("v1", {"v0": "z"}, None, ArgumentError, "its states are"),
        ("v1", {"v1": 3.0}, None, ArgumentError, "two of target, given and do"),
        ("v9", None, None, ArgumentError, "not a node"),
        ("v1", None, {"v9": 1.0}, ArgumentError, "not a node"),
    ],
)
def test_bad_questions_are_named(target, given, do, error, words):
    with pytest.raises(error, match=words):
        conditional_distribution(random_network(0), target, given, do)


def test_networks_that_do_not_fit_are_refused():
    dag = Dag.from_edges([("x", "k")])
    with pytest.raises(ArgumentError, match="from a number to a category"):
        GaussianNetwork(dag, {"x": Regression(0.0, [], 1.0)}, {"k": [[0.5, 0.5]]}, {"k": ["a", "b"]})
    line = Dag.from_edges([("x", "y")])
    with pytest.raises(ArgumentError, match="neither a regression nor a table"):
        GaussianNetwork(line, {"x": Regression(0.0, [], 1.0)})
    with pytest.raises(ArgumentError, match="must be finite and not negative"):
        GaussianNetwork(line, {"x": Regression(0.0, [], -1.0), "y": Regression(0.0, [1.0], 1.0)})
    with pytest.raises(ArgumentError, match=r"shape \(2,\); it must be \(1,\)"):
        GaussianNetwork(line, {"x": Regression(0.0, [], 1.0), "y": Regression(0.0, [1.0, 2.0], 1.0)})
    named = GaussianNetwork(line, {"x": Regression(0.0, {}, 1.0), "y": Regression(0.0, {"x": 1.0}, 1.0)})
    assert pickle.loads(pickle.dumps(named)) == named


ASKED_OF_MANY = {
    "a number": ([4], {}, [], {}),
    "numbers below what was seen": ([6, 1], {2: 1}, [5], {}),
    "a category": ([3], {}, [4, 6], {}),
    "both": ([0, 5], {3: 0}, [1], {}),
    "set": ([6], {}, [1], {4: 0.7, 2: 1}),
    "nothing": ([], {0: 1}, [1, 4, 5, 6], {}),
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("question", ASKED_OF_MANY)
@pytest.mark.parametrize("at_once", [gaussian._AT_ONCE, 1])
def test_many_networks_as_one_by_one(question, whole, at_once, monkeypatch):
    """Networks of many graphs and orders, in some of which a configuration is impossible."""
    monkeypatch.setattr(gaussian, "_AT_ONCE", at_once)
    targets, given, columns, do = ASKED_OF_MANY[question]
    made = [random_network(seed, categories=(0, 2, 3)) for seed in range(12)]
    never = {**made[1].tables, "v0": np.array([1.0, 0.0]) if not given.get(0) else np.array([0.0, 1.0])}
    states = {name: own for name, own in zip(made[1].names, made[1].states, strict=True) if own}
    made.append(GaussianNetwork(made[1].dag, made[1].regressions, never, states))
    values = np.random.default_rng(1).normal(size=(3, len(columns)))
    families = [requisite_families(one.parents, targets, [*given, *columns], do, whole=whole) for one in made]

    def parameters(family, members):
        assert all(family in families[t] for t in members)
        name = made[0].names[family[0]]
        if made[0].states[family[0]]:
            return np.stack([made[t].tables[name] for t in members])
        return Regression(*(np.stack(part) for part in zip(*(made[t].regressions[name] for t in members), strict=True)))

    place = np.stack([np.argsort(one.order) for one in made])
    distinct = list(dict.fromkeys(families))
    which = np.array([distinct.index(own) for own in families])
    networks = Networks(made[0].states, distinct, which, place, parameters)
    found = condition_each(networks, targets, given, columns, values, do)
    for network, one in zip(made, found, strict=True):
        right = condition(network, targets, given, columns, values, do, whole=whole)
        possible = [one.configurations.tolist().index(own) for own in right.configurations.tolist()]
        rest = np.delete(np.exp(one.log_weights), possible, axis=1)
        assert one.listed == right.listed
        assert not rest.any()
        np.testing.assert_allclose(one.log_evidence, right.log_evidence, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(one.log_weights[:, possible], right.log_weights, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(one.means[:, possible], right.means, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(one.sds[possible], right.sds, rtol=1e-11)
