"""`LogisticNetwork` against sums written out cell by cell."""

from __future__ import annotations

import pickle
from itertools import product
from math import exp, log, pi, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models import Dag, LogisticNetwork
from doxa.models.logistic_factors import RootFactor
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import MAX_CONFIGURATIONS, components_of_pattern, distinct_rows
from support.tables import table_of

ALARM = {"c": ["a", "b"], "d": ["c", "b"], "e": ["c"]}
ALARM_ROOTS = {"a": 0.3}
ALARM_THETAS = {
    "b": [0.8],
    "c": [-0.4, 1.3, -0.7],
    "d": [0.2, -1.9, 0.6],
    "e": [1.1, 0.5],
}


def chance_of_one(network, thetas, node, values):
    """P(node = 1 | values of its parents), written out from the definition."""
    theta = list(np.atleast_1d(thetas[node]))
    eta = theta.pop(0) if network.bias(node) is None else network.bias(node)
    for weight, parent in zip(theta, network.parents(node), strict=True):
        eta += weight * (values[parent] if network.coding == "01" else 2 * values[parent] - 1)
    return 1 / (1 + exp(-eta))


def chance_of_row(network, thetas, values):
    """Probability of values of all nodes."""
    probability = 1.0
    for node in network.names:
        if network.parents(node):
            one = chance_of_one(network, thetas, node, values)
            probability *= one if values[node] else 1 - one
    for block in network.root_blocks:
        if block.probabilities is None:
            one = thetas[block.nodes[0]][0]
            probability *= one if values[block.nodes[0]] else 1 - one
        else:
            probability *= block.probabilities[tuple(values[node] for node in block.nodes)]
    return probability


def chance_of_observed(network, thetas, observed):
    """Probability of some values, summed over all completions of the whole row."""
    hidden = [node for node in network.names if node not in observed]
    return sum(
        chance_of_row(network, thetas, {**observed, **dict(zip(hidden, cells, strict=True))})
        for cells in product((0, 1), repeat=len(hidden))
    )


@st.composite
def networks(draw, most=6):
    """A network of up to six nodes with every kind of bias, root and coding, and parameters for it."""
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = rng.random()
    names = [f"x{k}" for k in range(n)]
    order = rng.permutation(n)
    parents = {
        names[order[j]]: [names[order[i]] for i in rng.permutation(j) if rng.random() < density]
        for j in rng.permutation(n)
    }
    rootless = [name for name in names if parents[name]]
    roots = [name for name in parents if not parents[name]]
    bias = {name: float(rng.normal()) for name in rootless if rng.random() < 0.3}
    kind = rng.integers(4)
    if kind == 0:
        given_roots = rng.dirichlet(np.ones(2 ** len(roots))).reshape((2,) * len(roots))
    elif kind == 1 and len(roots) > 1:
        given_roots = {tuple(roots[1::-1]): rng.dirichlet(np.ones(4)).reshape(2, 2)}
    else:
        given_roots = {name: float(rng.uniform(0.05, 0.95)) for name in roots if rng.random() < 0.5}
    network = LogisticNetwork(parents, bias=bias, roots=given_roots, coding=draw(st.sampled_from(["pm1", "01"])))
    return network, random_thetas(network, rng), rng


def random_thetas(network, rng, shape=()):
    return {
        node: rng.random((*shape, 1))
        if node in network.roots
        else rng.normal(0, 1.5, (*shape, network.n_coefficients(node)))
        for node in network.parameters
    }


def random_table(network, rng, n_rows, missing):
    """Rows with any pattern of missing cells, of all or some of the nodes, with other columns between."""
    shown = [name for name in network.names if rng.random() < 0.85] or [network.names[0]]
    names = [*rng.permutation(shown), "other"]
    codes = rng.integers(0, 2, (n_rows, len(names)))
    codes[rng.random(codes.shape) < missing] = -1
    return table_of([str(name) for name in names], codes)


# ---- likelihood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["pm1", "01"])
@pytest.mark.parametrize("bias", ["learned", -0.6, {"c": 0.9}])
def test_likelihood_of_complete_rows_is_the_product_of_their_families(coding, bias):
    network = LogisticNetwork(ALARM, roots=ALARM_ROOTS, coding=coding, bias=bias)
    thetas = {node: value[len(value) - network.n_coefficients(node) :] for node, value in ALARM_THETAS.items()}
    rows = list(product((0, 1), repeat=5))
    counts = np.arange(1, 33)
    expected = [chance_of_row(network, thetas, dict(zip(network.names, row, strict=True))) for row in rows]
    table = table_of(network.names, rows, counts)
    assert network.log_marginal_rows(thetas, table) == pytest.approx(np.log(expected), abs=1e-13)
    assert network.log_likelihood(thetas, table) == pytest.approx(counts @ np.log(expected), rel=1e-13)
    assert sum(expected) == pytest.approx(1, abs=1e-14)


def test_likelihood_by_hand():
    network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.25}, bias=0.5)
    table = table_of(["a", "b"], [[1, 1], [0, 1], [0, 0]])
    by_hand = log(0.25 / (1 + exp(-2.5))) + log(0.75 / (1 + exp(1.5))) + log(0.75 / (1 + exp(-1.5)))
    assert network.log_likelihood({"b": [2.0]}, table) == pytest.approx(by_hand, rel=1e-15)
    in_01 = LogisticNetwork({"b": ["a"]}, roots={"a": 0.25}, bias=0.5, coding="01")
    by_hand = log(0.25 / (1 + exp(-2.5))) + log(0.75 / (1 + exp(-0.5))) + log(0.75 / (1 + exp(0.5)))
    assert in_01.log_likelihood({"b": [2.0]}, table) == pytest.approx(by_hand, rel=1e-15)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_codings_are_a_change_of_variables(seed, n_parents):
    rng = np.random.default_rng(seed)
    parents = {"y": [f"x{k}" for k in range(n_parents)]}
    change = np.diag(np.r_[1.0, np.full(n_parents, 2.0)])
    change[0, 1:] = -1.0  # (b, w) for -1 and +1 are (b - sum w, 2 w) for 0 and 1
    root = rng.normal(size=(n_parents + 1, n_parents + 1))
    mean, covariance = rng.normal(size=n_parents + 1), root @ root.T + np.eye(n_parents + 1)
    in_pm1 = LogisticNetwork(parents, prior_mean={"y": mean}, prior_covariance={"y": covariance})
    in_01 = LogisticNetwork(
        parents,
        prior_mean={"y": change @ mean},
        prior_covariance={"y": change @ covariance @ change.T},
        coding="01",
    )
    thetas = random_thetas(in_pm1, rng)
    moved = {**thetas, "y": change @ thetas["y"]}
    table = random_table(in_pm1, rng, 20, 0.3)
    assert in_01.log_likelihood(moved, table) == pytest.approx(in_pm1.log_likelihood(thetas, table), rel=1e-11)
    jacobian = n_parents * log(2)
    assert in_01.log_prior(moved) + jacobian == pytest.approx(in_pm1.log_prior(thetas), rel=1e-9)


def test_extreme_linear_predictors_stay_exact():
    network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.5}, bias=0.0)
    table = table_of(["a", "b"], [[1, 0], [1, 1], [0, 0], [1, -1], [-1, 1]])
    for size in (1e4, 1e8, 1e300):
        rows = network.log_marginal_rows({"b": [size]}, table)
        assert rows - log(0.5) == pytest.approx([-size, 0.0, 0.0, 0.0, 0.0], rel=1e-15, abs=1e-15)
        assert network.log_likelihood({"b": [-size]}, table) == pytest.approx(5 * log(0.5) - 2 * size, rel=1e-15)
    small = network.log_marginal_rows({"b": [40.0]}, table)
    assert small[1] - log(0.5) == pytest.approx(-exp(-40), rel=0.2)  # not rounded to log 1 before the sum


# ---- missing cells ----------------------------------------------------------------------------------------


@given(networks(), st.integers(0, 25), st.floats(0, 1))
@settings(max_examples=120, deadline=None)
def test_missing_cells_are_summed_out(made, n_rows, missing):
    network, thetas, rng = made
    table = random_table(network, rng, n_rows, missing)
    expected = []
    for row in table.codes:
        cells = {name: int(code) for name, code in zip(table.names, row, strict=True) if name != "other" and code >= 0}
        expected.append(log(chance_of_observed(network, thetas, cells)))
    likelihood = network.likelihood(table)
    assert likelihood.log_rows(thetas) == pytest.approx(np.array(expected), rel=1e-10, abs=1e-12)
    assert likelihood.log_likelihood(thetas) == pytest.approx(table.counts @ expected, rel=1e-10, abs=1e-11)


@given(networks(), st.floats(0, 0.8))
@settings(max_examples=50, deadline=None)
def test_a_batch_is_its_members(made, missing):
    network, _, rng = made
    table = random_table(network, rng, 15, missing)
    batch = random_thetas(network, rng, (4,))
    if not batch:
        return
    single = next(iter(batch))
    mixed = {**batch, single: batch[single][0]}
    likelihood = network.likelihood(table)
    for thetas in (batch, mixed) if len(batch) > 1 else (batch,):
        members = [{n: v if v.ndim == 1 else v[k] for n, v in thetas.items()} for k in range(4)]
        assert likelihood.log_likelihood(thetas) == pytest.approx([likelihood.log_likelihood(m) for m in members])
        assert likelihood.log_rows(thetas) == pytest.approx(np.array([likelihood.log_rows(m) for m in members]))
        assert network.log_prior(thetas) == pytest.approx([network.log_prior(m) for m in members])
        assert network.log_joint(thetas, table) == pytest.approx([network.log_joint(m, table) for m in members])


def test_a_large_batch_is_summed_in_pieces(monkeypatch):
    network = LogisticNetwork(ALARM, roots=ALARM_ROOTS)
    rng = np.random.default_rng(3)
    thetas, table = random_thetas(network, rng, (50,)), table_of(["d", "e"], [[0, 1], [1, 1], [1, -1]])
    whole = network.log_likelihood(thetas, table)
    monkeypatch.setattr("doxa.models.missing_sums._GATHER", 70)
    assert network.log_likelihood(thetas, table) == pytest.approx(whole, rel=1e-14)


def test_results_of_single_parameters_are_floats():
    network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.5})
    table = table_of(["a", "b"], [[1, -1]])
    thetas = {"b": [0.1, 0.2]}
    for value in (network.log_likelihood(thetas, table), network.log_prior(thetas), network.log_joint(thetas, table)):
        assert type(value) is float
    assert network.log_marginal_rows(thetas, table).shape == (1,)
    one = {"b": [[0.1, 0.2]]}
    assert network.log_likelihood(one, table).shape == network.log_joint(one, table).shape == (1,)
    assert network.log_marginal_rows(one, table).shape == (1, 1)


def components(network, missing):
    factors = network.likelihood.__self__._factors
    found = components_of_pattern(factors, frozenset(network.names.index(name) for name in missing))
    return [{network.names[v] for v in nodes} for nodes, _ in found]


def test_missing_cells_that_share_no_family_are_summed_apart():
    chain = LogisticNetwork({f"n{k + 1}": [f"n{k}"] for k in range(9)})
    assert components(chain, ["n2", "n6"]) == [{"n2"}, {"n6"}]
    assert components(chain, ["n2", "n3", "n5", "n7"]) == [{"n2", "n3"}, {"n5"}, {"n7"}]
    assert components(chain, ["n2", "n9"]) == [{"n2"}]  # the last has no descendants
    assert components(chain, ["n6", "n7", "n8", "n9"]) == []
    collider = LogisticNetwork({"c": ["a", "b"]})
    assert components(collider, ["a", "b"]) == [{"a", "b"}]
    assert components(collider, ["a", "b", "c"]) == []
    joint = LogisticNetwork({"c": ["a"], "d": ["b"]}, roots=np.full((2, 2), 0.25))
    assert components(joint, ["a", "b"]) == [{"a", "b"}]  # they share the joint table


@given(networks(), st.integers(0, 63))
@settings(max_examples=80, deadline=None)
def test_components_are_those_of_the_graph_of_shared_families(made, mask):
    network, _, _ = made
    missing = {name for k, name in enumerate(network.names) if mask >> k & 1}
    scopes = [{node, *network.parents(node)} for node in network.names if network.parents(node)]
    children = [{node} for node in network.names if network.parents(node)]
    scopes += [set(block.nodes) for block in network.root_blocks]
    children += [set(block.nodes) for block in network.root_blocks]
    kept = list(zip(scopes, children, strict=True))
    while True:  # take out factors whose nodes nobody needs, until nothing changes
        fewer = [
            (s, c) for s, c in kept if not c <= missing or any(c & (other - own) for other, own in kept if own != c)
        ]
        if len(fewer) == len(kept):
            break
        kept = fewer
    left = set().union(*(s & missing for s, _ in kept)) if kept else set()
    expected = []
    while left:
        group = {left.pop()}
        while any(s & group and (s & missing) - group for s, _ in kept):
            group = group.union(*(s & missing for s, _ in kept if s & group))
        left -= group
        expected.append(group)
    found = components(network, missing)
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_factorised_sums_reach_where_whole_rows_cannot():
    chain = LogisticNetwork({f"n{k + 1}": [f"n{k}"] for k in range(80)}, roots={"n0": 0.4}, bias=0.3)
    rng = np.random.default_rng(8)
    thetas = random_thetas(chain, rng)
    codes = np.where(np.arange(81) % 2, rng.integers(0, 2, (3, 81)), -1)  # 41 missing cells a row
    table = table_of(chain.names, codes[:, [int(name[1:]) for name in chain.names]])
    assert chain.likelihood(table).n_configurations <= 41 * 4 * 2
    expected = []
    for row in codes:  # the forward recursion along the chain
        forward = np.array([0.6, 0.4])
        for k in range(1, 81):
            one = 1 / (1 + np.exp(-(0.3 + thetas[f"n{k}"][0] * np.array([-1.0, 1.0]))))
            forward = np.array([forward @ (1 - one), forward @ one])
            if row[k] >= 0:
                forward[1 - row[k]] = 0.0
        expected.append(log(forward.sum()))
    assert chain.log_marginal_rows(thetas, table) == pytest.approx(expected, rel=1e-12)


def test_hidden_leaves_cost_nothing():
    parents = {"y": ["x"], **{f"leaf{k}": ["y", "x"] for k in range(60)}}
    network = LogisticNetwork(parents, roots={"x": 0.2})
    likelihood = network.likelihood(table_of(["x", "y"], [[1, 0], [0, 1]]))
    assert likelihood.n_configurations == 0
    thetas = random_thetas(network, np.random.default_rng(1))
    small = LogisticNetwork({"y": ["x"]}, roots={"x": 0.2})
    assert likelihood.log_likelihood(thetas) == small.log_likelihood(
        {"y": thetas["y"]}, table_of(["x", "y"], [[1, 0], [0, 1]])
    )


def test_all_that_can_be_seen_has_probability_one_in_all():
    network = LogisticNetwork(ALARM, roots=ALARM_ROOTS)
    table = table_of(["d", "a", "e"], list(product((0, 1), repeat=3)))
    assert np.exp(network.log_marginal_rows(ALARM_THETAS, table)).sum() == pytest.approx(1, abs=1e-14)


def test_the_limit_of_configurations_is_the_one_stated():
    wide = {"y": [f"x{k}" for k in range(20)]}
    table = table_of(["y"], [[1], [1]])
    likelihood = LogisticNetwork(wide).likelihood(table)
    assert likelihood.n_configurations == MAX_CONFIGURATIONS == 2**20
    with pytest.raises(ArgumentError) as refused:
        LogisticNetwork(wide).likelihood(table_of(["y"], [[1], [0]]))
    assert str(refused.value) == (
        "table needs sums over at least 2,097,152 hidden configurations, and the limit is 1,048,576; the last counted "
        "are of 20 missing cells that share families ('x0', 'x1', 'x2', 'x3', 'x4', 'x5', ... 14 more): observe some "
        "of them, leave out the rows that miss most, or take hidden nodes out of the network"
    )
    hopeless = {"y": [f"x{k}" for k in range(500)]}
    with pytest.raises(ArgumentError, match="are of 500 missing cells"):
        LogisticNetwork(hopeless).likelihood(table)


# ---- collapsing -------------------------------------------------------------------------------------------


@given(st.integers(0, 30), st.integers(0, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_distinct_rows_put_together_again(n_bits, n_rows, seed):
    bits = np.random.default_rng(seed).integers(0, 2, (n_rows, n_bits)).astype(np.int8)
    bits[: n_rows // 2] = bits[n_rows - n_rows // 2 :]
    distinct, index = distinct_rows(bits)
    assert np.array_equal(distinct[index], bits)
    assert len({row.tobytes() for row in distinct}) == len(distinct) == len({row.tobytes() for row in bits})


@pytest.mark.parametrize("n_parents", [1, 3, 10, 25, 70])
@pytest.mark.parametrize("bias", ["learned", 0.7])
def test_a_regression_holds_what_its_rows_hold(n_parents, bias):
    names = [f"x{k}" for k in range(n_parents)]
    network = LogisticNetwork({"y": names}, bias=bias)
    rng = np.random.default_rng(n_parents)
    codes = (rng.random((400, n_parents + 1)) < 0.2).astype(int)
    codes = codes[rng.integers(0, 400, 900)]
    problem = network.regression("y", table_of([*names, "y"], codes))
    theta = rng.normal(size=problem.design.shape[1])
    x = 2.0 * codes - 1.0
    eta = x[:, :-1] @ theta + 0.7 if bias == 0.7 else theta[0] + x[:, :-1] @ theta[1:]
    by_rows = -np.log1p(np.exp(-x[:, -1] * eta)).sum()
    collapsed = problem.counts @ -np.log1p(np.exp(-problem.sign * (problem.design @ theta + problem.offset)))
    assert collapsed == pytest.approx(by_rows, rel=1e-12)
    assert problem.counts.sum() == 900
    assert len(problem.counts) == len(np.unique(codes, axis=0)) <= 2 ** (n_parents + 1)
    assert np.array_equal(problem.prior_mean, np.zeros(len(theta)))
    assert np.array_equal(problem.prior_covariance, 100 * np.eye(len(theta)))


def test_regressions_and_roots_make_up_the_log_joint():
    network = LogisticNetwork(ALARM, roots=ALARM_ROOTS, prior_mean=0.5, prior_scale=2.0)
    table = network.simulate(300, ALARM_THETAS, np.random.default_rng(4))
    total = 0.0
    for node in ("c", "d", "e"):
        problem = network.regression(node, table)
        theta = np.array(ALARM_THETAS[node])
        total += problem.counts @ -np.logaddexp(0, -problem.sign * (problem.design @ theta + problem.offset))
        deviation = theta - problem.prior_mean
        total -= 0.5 * deviation @ np.linalg.solve(problem.prior_covariance, deviation)
        total -= 0.5 * np.linalg.slogdet(2 * pi * problem.prior_covariance)[1]
    ones = {name: int(table.counts[table.codes[:, table.names.index(name)] == 1].sum()) for name in "ab"}
    total += sum(ones[n] * log(p) + (300 - ones[n]) * log(1 - p) for n, p in (("a", 0.3), ("b", 0.8)))
    assert network.log_joint(ALARM_THETAS, table) == pytest.approx(total, rel=1e-12)


def test_a_regression_ignores_what_is_missing_elsewhere():
    network = LogisticNetwork({"b": ["a"], "c": ["b", "z"]})
    table = table_of(["a", "b", "c"], [[0, 1, -1], [1, 1, 0], [0, 1, -1]])
    problem = network.regression("b", table)
    assert problem.counts.tolist() == [2, 1]
    with pytest.raises(TableError) as refused:
        network.regression("c", table)
    assert str(refused.value) == (
        "table has missing cells in the family of 'c': 'z' (3 of 3 rows), 'c' (2 of 3 rows); a regression needs all of "
        "them, log_likelihood and likelihood sum over what is missing"
    )


def test_the_fields_of_a_regression_keep_their_order():
    assert LogisticRegressionProblem._fields == (
        "design", "sign", "counts", "offset", "prior_mean", "prior_covariance"
    )  # fmt: skip


def test_an_empty_table_says_nothing():
    network = LogisticNetwork(ALARM)
    table = table_of(network.names, np.empty((0, 5), dtype=int))
    thetas = random_thetas(network, np.random.default_rng(0))
    assert network.log_likelihood(thetas, table) == 0.0
    assert network.log_marginal_rows(thetas, table).shape == (0,)
    assert network.regression("c", table).design.shape == (0, 3)
    assert network.simulate(0, thetas, np.random.default_rng(0)).n_rows == 0


# ---- priors and roots -------------------------------------------------------------------------------------


def test_priors_as_numbers_vectors_and_mappings():
    network = LogisticNetwork(
        {"c": ["a", "b"], "d": ["c"], "e": ["a"]},
        prior_mean={"c": {"b": 2.0}, "d": [1.0, -1.0]},
        prior_scale={"c": 0.5, "d": {"bias": 3.0}},
        prior_covariance={"e": [[2.0, 0.5], [0.5, 1.0]]},
    )
    assert network.prior("c").mean.tolist() == [0.0, 0.0, 2.0]
    assert network.prior("d").mean.tolist() == [1.0, -1.0]
    assert network.prior("e").mean.tolist() == [0.0, 0.0]
    assert network.prior("c").covariance.tolist() == (0.25 * np.eye(3)).tolist()
    assert network.prior("d").covariance.tolist() == np.diag([9.0, 100.0]).tolist()
    assert network.prior("e").covariance.tolist() == [[2.0, 0.5], [0.5, 1.0]]


def test_log_prior_is_the_gaussian_density():
    covariance = np.array([[2.0, 0.9], [0.9, 1.0]])
    network = LogisticNetwork({"b": ["a"]}, prior_mean={"b": [1.0, -1.0]}, prior_covariance={"b": covariance})
    theta = np.array([0.3, 0.4])
    deviation = theta - [1.0, -1.0]
    density = exp(-0.5 * deviation @ np.linalg.inv(covariance) @ deviation) / (
        2 * pi * np.sqrt(np.linalg.det(covariance))
    )
    assert network.log_prior({"b": theta, "a": [0.9]}) == pytest.approx(log(density), rel=1e-12)  # Beta(1, 1) is 1


def test_a_learned_root_has_its_probability_as_parameter():
    network = LogisticNetwork({"b": ["a"]}, bias=0.0)
    assert network.coefficients("a") == ("probability",)
    assert network.parameters == ("b", "a")
    table = table_of(["a", "b"], [[1, 1], [0, 1]])
    rows = network.log_marginal_rows({"b": [0.0], "a": [0.2]}, table)
    assert np.exp(rows) == pytest.approx([0.1, 0.4])
    at_the_end = network.log_marginal_rows({"b": [0.0], "a": [1.0]}, table)
    assert at_the_end.tolist() == [pytest.approx(log(0.5)), -np.inf]


def test_root_probabilities_in_every_form():
    parents = {"y": ["a", "b", "c"]}
    joint = np.arange(1.0, 9.0).reshape(2, 2, 2) / 36
    thetas = {"y": [0.1, 0.2, -0.3, 0.4]}
    table = table_of(["a", "b", "c"], list(product((0, 1), repeat=3)))
    whole = LogisticNetwork(parents, roots=joint)
    assert np.exp(whole.log_marginal_rows(thetas, table)) == pytest.approx(joint.ravel())
    turned = LogisticNetwork(parents, roots={("c", "a", "b"): joint.transpose(2, 0, 1)})
    assert np.exp(turned.log_marginal_rows(thetas, table)) == pytest.approx(joint.ravel())
    partly = LogisticNetwork(parents, roots={("c", "a"): [[0.1, 0.2], [0.3, 0.4]], "b": "learned"})
    assert partly.parameters == ("y", "b")
    assert [block.nodes for block in partly.root_blocks] == [("c", "a"), ("b",)]
    expected = [[0.1, 0.2], [0.3, 0.4]]
    rows = np.exp(partly.log_marginal_rows({**thetas, "b": [0.7]}, table))
    assert rows == pytest.approx([expected[c][a] * (0.7 if b else 0.3) for a, b, c in product((0, 1), repeat=3)])
    assert LogisticNetwork(parents, roots="learned").parameters == ("y", "a", "b", "c")


def test_zeros_of_a_joint_table_make_rows_impossible_and_nothing_else():
    network = LogisticNetwork({"y": ["a", "b"]}, roots=[[0.5, 0.0], [0.0, 0.5]])
    table = table_of(["a", "b", "y"], [[0, 1, 1], [0, -1, 1], [-1, -1, 1], [1, 0, -1]])
    thetas = {"y": [0.0, 0.0, 0.0]}
    assert np.exp(network.log_marginal_rows(thetas, table)) == pytest.approx([0.0, 0.25, 0.5, 0.0])
    assert network.log_likelihood(thetas, table) == -np.inf
    never = LogisticNetwork({"y": ["a", "b"]}, roots=[[0.0, 0.0], [0.5, 0.5]])  # whatever the missing cell is
    assert np.exp(never.log_marginal_rows(thetas, table)) == pytest.approx([0.0, 0.0, 0.5, 0.5])
    possible = table_of(["a", "b", "y"], [[0, -1, 1], [-1, -1, 1]])
    assert network.log_likelihood(thetas, possible) == pytest.approx(log(0.125))


# ---- construction -----------------------------------------------------------------------------------------


def test_a_network_from_a_mapping_edges_or_a_graph():
    by_mapping = LogisticNetwork({"c": ["b", "a"], "a": []})
    assert by_mapping.names == ("c", "a", "b")
    assert by_mapping.parents("c") == ("b", "a")
    assert by_mapping.coefficients("c") == ("bias", "b", "a")
    by_edges = LogisticNetwork([("b", "c"), ("a", "c")])
    assert by_edges.names == ("b", "c", "a")
    assert by_edges.parents("c") == ("b", "a")
    dag = Dag.from_edges([("b", "c"), ("a", "c")], nodes=["a", "b", "c"])
    by_dag = LogisticNetwork(dag)
    assert by_dag.dag is dag
    assert by_dag.parents("c") == ("a", "b")
    assert by_dag.roots == ("a", "b")
    assert LogisticNetwork(iter([("b", "c")])).parents("c") == ("b",)


def test_accessors():
    network = LogisticNetwork(ALARM, bias={"d": -1.0}, roots=ALARM_ROOTS, coding="01")
    assert network.coding == "01"
    assert network.bias("c") is None
    assert network.bias("d") == -1.0
    assert network.coefficients("d") == ("c", "b")
    assert [network.n_coefficients(node) for node in network.names] == [3, 2, 2, 0, 1]
    assert network.names == ("c", "d", "e", "a", "b")
    assert repr(network) == "LogisticNetwork(5 nodes, 3 with parents, coding='01')"
    assert doxa.LogisticNetwork is LogisticNetwork
    lonely = LogisticNetwork({"bias": []})
    assert repr(lonely) == "LogisticNetwork(1 node, 0 with parents, coding='pm1')"
    assert LogisticNetwork({"y": ["bias"]}, bias=0.0).coefficients("y") == ("bias",)


def test_what_is_given_is_not_kept_and_what_is_returned_is_no_handle():
    covariance, joint = np.eye(2), np.full((2,), 0.5)
    network = LogisticNetwork({"b": ["a"]}, prior_covariance={"b": covariance}, roots=joint)
    table, thetas = table_of(["a"], [[1]]), {"b": np.array([0.0, 1.0])}
    before = network.log_joint(thetas, table)
    covariance[:], joint[:] = 7.0, 0.9
    network.prior("b").mean[:] = 5.0
    network.regression("b", table_of(["a", "b"], [[1, 1]])).prior_covariance[:] = 3.0
    assert network.log_joint(thetas, table) == before
    assert thetas["b"].tolist() == [0.0, 1.0]


def test_networks_and_likelihoods_can_be_sent_to_a_worker():
    network = LogisticNetwork(ALARM, roots=ALARM_ROOTS)
    likelihood = network.likelihood(table_of(["a", "d"], [[1, 0], [-1, 1]]))
    sent = pickle.loads(pickle.dumps(likelihood))
    assert sent.log_likelihood(ALARM_THETAS) == likelihood.log_likelihood(ALARM_THETAS)
    assert pickle.loads(pickle.dumps(network)).log_prior(ALARM_THETAS) == network.log_prior(ALARM_THETAS)


def test_design_in_both_codings():
    values = [[0, 1], [1, 1]]
    design, offset = LogisticNetwork({"c": ["a", "b"]}).design("c", values)
    assert design.tolist() == [[1, -1, 1], [1, 1, 1]]
    assert offset.tolist() == [0, 0]
    design, offset = LogisticNetwork({"c": ["a", "b"]}, coding="01", bias=2).design("c", np.array(values, dtype=bool))
    assert design.tolist() == [[0, 1], [1, 1]]
    assert offset.tolist() == [2, 2]
    expected, _ = LogisticNetwork({"c": ["a", "b"]}).design("c", [[0.25, 0.5]])
    assert expected.tolist() == [[1, -0.5, 0]]


def test_the_second_state_is_one_and_a_lone_state_says_what_it_is():
    network = LogisticNetwork({"b": ["a"]}, roots={"a": 0.2}, bias=1.0)
    thetas = {"b": [2.0]}
    for label, probability in [("no", 0.8), ("yes", 0.2), ("1", 0.2), ("TRUE", 0.2), ("0", 0.8), ("other", 0.8)]:
        lone = Table.from_codes(["a"], [[label]], [[0], [-1]])
        assert np.exp(network.log_marginal_rows(thetas, lone)) == pytest.approx([probability, 1.0])
    turned = Table.from_codes(["a"], [["yes", "no"]], [[0]])
    assert np.exp(network.log_marginal_rows(thetas, turned)) == pytest.approx([0.8])


# ---- simulation -------------------------------------------------------------------------------------------


def worst_z(table, network, thetas):
    """Largest |z| of the frequencies of all rows against their probabilities."""
    count = {tuple(row): int(n) for row, n in zip(table.codes.tolist(), table.counts, strict=True)}
    worst = 0.0
    for row in product((0, 1), repeat=len(network.names)):
        p = chance_of_row(network, thetas, dict(zip(network.names, row, strict=True)))
        n = table.n_rows
        worst = max(worst, abs(count.get(row, 0) - n * p) / np.sqrt(n * p * (1 - p)))
    return worst


@pytest.mark.parametrize("roots", [ALARM_ROOTS, {("b", "a"): [[0.1, 0.5], [0.3, 0.1]]}])
@pytest.mark.parametrize("coding", ["pm1", "01"])
def test_simulated_frequencies_are_the_probabilities(coding, roots):
    network = LogisticNetwork(ALARM, roots=roots, coding=coding)
    thetas = {node: ALARM_THETAS[node] for node in network.parameters}
    table = network.simulate(200_000, thetas, np.random.default_rng(20))
    assert table.names == network.names
    assert table.n_rows == 200_000
    bound = -ndtri(1e-6 / (2 * 32))
    assert worst_z(table, network, thetas) < bound
    other = LogisticNetwork(ALARM, roots=roots, coding="01" if coding == "pm1" else "pm1")
    assert worst_z(other.simulate(200_000, thetas, np.random.default_rng(20)), network, thetas) > bound
    flipped = {**thetas, "d": [-value for value in thetas["d"]]}
    assert worst_z(network.simulate(200_000, flipped, np.random.default_rng(20)), network, thetas) > bound


def test_simulation_is_of_the_seed_and_its_states_are_those_asked_for():
    network = LogisticNetwork(ALARM, roots=ALARM_ROOTS)
    one = network.simulate(50, ALARM_THETAS, np.random.default_rng(5))
    two = network.simulate(50, ALARM_THETAS, np.random.default_rng(5), states=("no", "yes"))
    assert one.states == (("0", "1"),) * 5
    assert two.states == (("no", "yes"),) * 5
    assert np.array_equal(one.codes, two.codes)
    assert np.array_equal(one.row_index, two.row_index)
    assert not np.array_equal(one.codes, network.simulate(50, ALARM_THETAS, np.random.default_rng(6)).codes)


def test_impossible_cells_of_a_joint_table_are_never_drawn():
    network = LogisticNetwork({"y": ["a", "b"]}, roots=[[0.0, 0.4], [0.6, 0.0]])
    table = network.simulate(5000, {"y": [0.0, 0.0, 0.0]}, np.random.default_rng(1)).select(["a", "b"])
    assert sorted(table.codes.tolist()) == [[0, 1], [1, 0]]
    assert prod(table.counts) > 0
    table = np.array([[0.0, 0.3], [0.7, 0.0]])
    ends = np.array([0.0, 0.3, np.nextafter(1.0, 0.0)])  # uniforms at the edges of the cells
    drawn = RootFactor(None, (0, 1), (0, 1), table).draw(np.zeros((3, 2), dtype=np.int8), {}, ends)
    assert drawn.tolist() == [[0, 1], [1, 0], [1, 0]]


# ---- refusals ---------------------------------------------------------------------------------------------

PAIR = {"b": ["a"]}
SIMPLE = LogisticNetwork(PAIR, roots={"a": 0.5})
LEARNED = LogisticNetwork(PAIR)
ROWS = table_of(["a", "b"], [[0, 1]])
RNG = np.random.default_rng(0)


def make(parents=PAIR, **options):
    return lambda: LogisticNetwork(parents, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (make({}), "parents is empty; a network has at least one node"),
        (make(Dag(np.zeros((0, 0)))), "parents is a graph without nodes; a network has at least one"),
        (make({"": ["a"]}), "parents names a node ''; names of nodes are text that is not empty"),
        (make({"b": ["a", "c", "a"]}), "parents of 'b' name 'a' more than once; name every parent once"),
        (make([("a", "b"), ("a", "b")]), "parents of 'b' name 'a' more than once; name every parent once"),
        (make(["ab"]), "parents contains 'ab'; an edge is a pair (parent, child)"),
        (make([("a", "b", "c")]), "parents contains ('a', 'b', 'c'); an edge is a pair (parent, child)"),
        (
            make({"b": ["a"], "a": ["c"], "c": ["b"], "d": ["a"]}),
            "parents has the cycle b -> c -> a -> b; remove one of its edges",
        ),
        (make({"a": ["a"]}), "parents has the cycle a -> a; remove one of its edges"),
        (
            make({"b": ["bias"]}),
            "parents of 'b' name a node 'bias', the label of the first coefficient; "
            "rename the node, or give bias={'b': number}",
        ),
        (make(coding="0/1"), "coding is '0/1'; it must be 'pm1' (parents -1 and +1) or '01' (parents 0 and 1)"),
        (make(coding=1), "coding is 1; it must be 'pm1' (parents -1 and +1) or '01' (parents 0 and 1)"),
        (make(bias="fixed"), "bias is 'fixed'; it must be 'learned' or a number"),
        (make(bias=np.nan), "bias is nan; it must be finite"),
        (
            make(bias={"a": 1.0}),
            "bias names 'a', which has no parents and so no coefficients; its probability is given by roots",
        ),
        (make(bias={"x": 1.0}), "bias names 'x', which is not a node of the network; those with parents are 'b'"),
        (make(bias={"b": np.inf}), "bias['b'] is inf; it must be finite"),
        (make(prior_mean=np.inf), "prior_mean is inf; it must be finite"),
        (make(prior_mean={"b": [0, np.nan]}), "prior_mean['b'] contains NaN or infinity; every entry must be finite"),
        (
            make(prior_mean={"b": [0, 1, 2]}),
            "prior_mean['b'] has shape (3,); it must be (2,), a number for each of 'bias', 'a'",
        ),
        (make(prior_mean={"b": {"c": 1}}), "prior_mean['b'] names 'c'; the coefficients are 'bias', 'a'"),
        (
            make(prior_mean={"a": 1}),
            "prior_mean names 'a', which has no parents and so no coefficients; its probability is given by roots",
        ),
        (
            make(prior_scale={"c": 1}),
            "prior_scale names 'c', which is not a node of the network; those with parents are 'b'",
        ),
        (
            make({"a": []}, prior_scale={"c": 1}),
            "prior_scale names 'c', which is not a node of the network; those with parents are none",
        ),
        (
            make(prior_scale=0.0),
            "prior_scale of coefficient 'bias' of 'b' is 0; a standard deviation is positive, "
            "and its square neither 0 nor infinite",
        ),
        (
            make(prior_scale={"b": {"a": -1.0}}),
            "prior_scale of coefficient 'a' of 'b' is -1; a standard deviation is positive, "
            "and its square neither 0 nor infinite",
        ),
        (
            make(prior_scale=1e-200),
            "prior_scale of coefficient 'bias' of 'b' is 1e-200; a standard deviation is positive, "
            "and its square neither 0 nor infinite",
        ),
        (
            make(prior_scale=1e200),
            "prior_scale of coefficient 'bias' of 'b' is 1e+200; a standard deviation is positive, "
            "and its square neither 0 nor infinite",
        ),
        (
            make(prior_covariance={"b": [[1.0]]}),
            "prior_covariance['b'] has shape (1, 1); it must be (2, 2), a row and a column for each of 'bias', 'a'",
        ),
        (
            make(prior_covariance={"b": [[1, 2], [2, 1]]}),
            "prior_covariance['b'] is not positive definite: its smallest eigenvalue, -1, is 0 up to rounding or less; "
            "every combination of coefficients needs a variance above 0",
        ),
        (
            make(prior_covariance={"b": [[1, 0], [0, -2]]}),
            "prior_covariance['b'] is not positive definite: its smallest eigenvalue, -2, is 0 up to rounding or less; "
            "every combination of coefficients needs a variance above 0",
        ),
        (
            make(prior_covariance={"b": [[1, 0.5], [0.4, 1]]}),
            "prior_covariance['b'] is not symmetric: [0, 1] is 0.5 and [1, 0] is 0.4; "
            "a covariance is the same both ways",
        ),
        (
            make(prior_covariance={"b": [[1, np.nan], [np.nan, 1]]}),
            "prior_covariance['b'] contains NaN or infinity; every entry must be finite",
        ),
        (
            make(prior_covariance={"a": [[1.0]]}),
            "prior_covariance names 'a', which has no parents and so no coefficients; "
            "its probability is given by roots",
        ),
        (
            make(prior_scale={"b": 1}, prior_covariance={"b": np.eye(2)}),
            "prior_scale and prior_covariance both name 'b'; give one of them",
        ),
        (make(roots={"a": 0.0}), "roots['a'] is 0; P(a = 1) lies strictly between 0 and 1"),
        (make(roots={"a": 1}), "roots['a'] is 1; P(a = 1) lies strictly between 0 and 1"),
        (make(roots={"a": np.nan}), "roots['a'] is nan; it must be finite"),
        (make(roots={"a": "half"}), "roots['a'] is 'half'; it must be 'learned' or P(a = 1)"),
        (make(roots={"b": 0.5}), "roots names 'b', which is not a parentless node; those are 'a'"),
        (
            make({"c": ["a", "b"]}, roots={"a": 0.5, ("a", "b"): np.full((2, 2), 0.25)}),
            "roots names 'a' more than once; every node has one distribution",
        ),
        (
            make(roots={("a", "a"): np.full((2, 2), 0.25)}),
            "roots names 'a' more than once; every node has one distribution",
        ),
        (make(roots="fixed"), "roots is 'fixed'; the only word it takes is 'learned'"),
        (make(roots=[0.2, 0.7]), "roots sums to 0.9; a joint table sums to 1: divide it by its sum"),
        (make(roots=[1.2, -0.2]), "roots contains -0.2; probabilities are not negative"),
        (make(roots=0.5), "roots has shape (); it must be (2,), an axis of length 2 for each of 'a'"),
        (make(roots=[0.5, np.nan]), "roots contains NaN or infinity; every entry must be finite"),
        (
            make({"c": ["a", "b"]}, roots={("b", "a"): [0.5, 0.5]}),
            "roots[('b', 'a')] has shape (2,); it must be (2, 2), an axis of length 2 for each of 'b', 'a'",
        ),
        (lambda: SIMPLE.parents("z"), "node 'z' is not in the network; its nodes are 'b', 'a'"),
        (lambda: SIMPLE.prior("a"), "node 'a' has no parents, so no regression; its distribution is in root_blocks"),
        (
            lambda: SIMPLE.regression("a", ROWS),
            "node 'a' has no parents, so no regression; its distribution is in root_blocks",
        ),
        (
            lambda: SIMPLE.design("b", [0, 1]),
            "values has shape (2,); it must be (n, 1), a column for every parent",
        ),
        (
            lambda: SIMPLE.design("b", [[1], [-1]]),
            "values contains -1; give codes 0 and 1 (or probabilities of 1): the coding is applied here",
        ),
        (
            lambda: SIMPLE.design("b", [[np.nan]]),
            "values contains nan; give codes 0 and 1 (or probabilities of 1): the coding is applied here",
        ),
        (lambda: SIMPLE.log_prior({}), "thetas lacks 'b'; it needs a number for each of 'bias', 'a'"),
        (
            lambda: LEARNED.log_likelihood({"b": [0, 0]}, ROWS),
            "thetas lacks 'a'; it needs a number for each of 'probability'",
        ),
        (
            lambda: SIMPLE.log_prior({"b": [0, 0], "a": [0.5]}),
            "thetas names 'a', whose probability is given by roots; leave it out",
        ),
        (
            lambda: SIMPLE.log_prior({"b": [0, 0], "z": [0.5]}),
            "thetas names 'z', which is not in the network; its nodes are 'b', 'a'",
        ),
        (
            lambda: SIMPLE.log_prior({"b": [0, 0, 0]}),
            "thetas['b'] has shape (3,); it must be (2,) or (n_batch, 2), a number for each of 'bias', 'a'",
        ),
        (
            lambda: LEARNED.log_prior({"b": [0, 0], "a": 0.5}),
            "thetas['a'] has shape (); it must be (1,) or (n_batch, 1), a number for each of 'probability'",
        ),
        (
            lambda: SIMPLE.log_prior({"b": [0, np.inf]}),
            "thetas['b'] contains NaN or infinity; every entry must be finite",
        ),
        (lambda: LEARNED.log_prior({"b": [0, 0], "a": [1.5]}), "thetas['a'] contains 1.5; P(a = 1) lies from 0 to 1"),
        (
            lambda: LEARNED.log_prior({"b": np.zeros((3, 2)), "a": np.full((2, 1), 0.5)}),
            "thetas has 2 vectors for 'a' and 3 for 'b'; a batch has as many for every node, or a single vector",
        ),
        (
            lambda: SIMPLE.simulate(5, {"b": [[0, 0]]}, RNG),
            "thetas holds a batch; simulate draws under one vector a node: pick one of them",
        ),
        (lambda: SIMPLE.simulate(-1, {"b": [0, 0]}, RNG), "n is -1; it must be at least 0"),
        (
            lambda: SIMPLE.simulate(5, {"b": [0, 0]}, RNG, states=("no",)),
            "states is ('no',); give two labels, of 0 and of 1",
        ),
        (lambda: SIMPLE.simulate(5, {"b": [0, 0]}, RNG, states=None), "states is None; give two labels, of 0 and of 1"),
        (
            lambda: SIMPLE.simulate(5, {"b": [0, 0]}, RNG, states="01"),
            "states is '01'; give two labels, of 0 and of 1",
        ),
        (
            lambda: SIMPLE.likelihood(Table.from_codes(["a", "b"], [["x", "y", "z"], ["0", "1"]], [[2, 1]])),
            "table column 'a' has 3 states ('x', 'y', 'z'), and the nodes of a logistic network have two; "
            "merge its states, read numbers with bins={'a': 2}, take the node out of the network, or fit tables: "
            "family='categorical'",
        ),
        (
            lambda: SIMPLE.likelihood(table_of(["p", "q"], [[0, 1]])),
            "table has no column of the network's: its columns are 'p', 'q', and the nodes 'b', 'a'; "
            "rename the columns",
        ),
    ],
)
def test_bad_values_are_refused(call, message):
    with pytest.raises(ArgumentError) as refused:
        call()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            make("b"),
            "parents is 'b'; give a mapping of each child to its parents, a Dag, or edges (parent, child)",
        ),
        (make(3), "parents is 3; give a mapping of each child to its parents, a Dag, or edges (parent, child)"),
        (make({"b": "ac"}), "parents['b'] is 'ac'; give a list of names: ['ac']"),
        (make({"b": 3}), "parents['b'] is 3; give a list of names"),
        (make({"b": [3]}), "parents['b'] names the node 3; names of nodes are text"),
        (make([("a", 1)]), "parents names the node 1; names of nodes are text"),
        (make(prior_mean=[0, 1]), "prior_mean is [0, 1]; give a number, or a vector for each node: {node: vector}"),
        (make(prior_scale="wide"), "prior_scale is 'wide'; it must be a number"),
        (make(prior_scale={"b": ["wide", 1]}), "prior_scale['b'] is ['wide', 1]; it must be an array of numbers"),
        (make(prior_covariance=np.eye(2)), "prior_covariance is of type ndarray; give a mapping of nodes to matrices"),
        (make(bias=True), "bias is True; it must be a number"),
        (make(roots={"a": None}), "roots['a'] is None; it must be a number"),
        (
            lambda: SIMPLE.log_prior([0, 0]),
            "thetas is of type list; give a mapping of nodes to vectors",
        ),
        (lambda: SIMPLE.log_prior({"b": ["x", 0]}), "thetas['b'] is ['x', 0]; it must be an array of numbers"),
        (lambda: SIMPLE.design("b", [["x"]]), "values has dtype <U1; it must hold numbers"),
        (
            lambda: SIMPLE.simulate(5, {"b": [0, 0]}, 7),
            "rng is 7; it must be a numpy.random.Generator, as numpy.random.default_rng(1) makes, or left out for a "
            "seed: seed=1",
        ),
        (
            lambda: SIMPLE.likelihood([[0, 1]]),
            "table is of type list; it must be a Table: doxa.read_table makes one of a file or frame",
        ),
    ],
)
def test_bad_types_are_refused(call, message):
    with pytest.raises(ArgumentTypeError) as refused:
        call()
    assert str(refused.value) == message


def test_variances_of_very_different_size_are_lawful():
    covariance = np.diag([1e-20, 1e12])
    network = LogisticNetwork(PAIR, prior_covariance={"b": covariance})
    assert np.array_equal(network.prior("b").covariance, covariance)
    with pytest.raises(ArgumentError, match="not positive definite"):
        LogisticNetwork(PAIR, prior_covariance={"b": np.ones((2, 2))})
