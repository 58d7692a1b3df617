"""The densities that fits draw from, against the plain formula, and their gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from parameter_cases import blanked
from scipy.special import log_expit

from doxa import LogisticNetwork, Table
from doxa.models.logistic_parts import independent_parts, part_regression, root_counts
from doxa.models.logistic_regression import make_problem
from doxa.parameters.joint_target import JointTarget, Packing
from doxa.parameters.targets import RegressionTarget


def problem_of(rng, rows, d, counts, offset):
    design = rng.choice([-1.0, 1.0], (rows, d)) if rows < 100 else rng.standard_normal((rows, d))
    root = np.eye(d) + 0.3 * rng.standard_normal((d, d))
    return make_problem(
        design,
        rng.choice([-1, 1], rows),
        counts=rng.integers(1, 5, rows) if counts else None,
        offset=rng.standard_normal(rows) if offset else 0.0,
        prior_mean=rng.standard_normal(d),
        prior_covariance=4 * root @ root.T,
    )


def plain_log_density(problem, thetas):
    logits = problem.sign * (thetas @ problem.design.T + problem.offset)
    away = thetas - problem.prior_mean
    precision = np.linalg.inv(problem.prior_covariance)
    constant = np.linalg.slogdet(2 * np.pi * problem.prior_covariance)[1]
    return log_expit(logits) @ problem.counts - 0.5 * (np.einsum("ni,ij,nj->n", away, precision, away) + constant)


def slopes(function, thetas, step=1e-5):
    columns = [function(thetas + step * e) - function(thetas - step * e) for e in np.eye(thetas.shape[1])]
    return np.stack(columns, axis=1) / (2 * step)


@pytest.mark.parametrize(
    ("rows", "d", "counts", "offset"),
    [(0, 2, False, False), (1, 1, False, True), (40, 3, True, True), (999, 7, False, False), (2305, 4, False, True)],
)
def test_a_regression_s_density_is_the_formula_s(rows, d, counts, offset):
    rng = np.random.default_rng([rows, d])
    problem = problem_of(rng, rows, d, counts, offset)
    target = RegressionTarget(problem)
    thetas = 2 * rng.standard_normal((90, d))
    expected = plain_log_density(problem, thetas)
    np.testing.assert_allclose(target.log_density(thetas), expected, rtol=1e-11, atol=1e-9)
    value, gradient = target.value_and_gradient(thetas)
    np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(gradient, slopes(target.log_density, thetas), rtol=1e-5, atol=1e-4)


def test_logits_of_ten_thousand_overflow_nowhere():
    rng = np.random.default_rng(5)
    problem = problem_of(rng, 60, 2, True, False)
    target = RegressionTarget(problem)
    thetas = np.array([[1e4, -1e4], [0.0, 1e4], [-1e4, 3.0]])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, gradient = target.value_and_gradient(thetas)
    np.testing.assert_allclose(value, plain_log_density(problem, thetas), rtol=1e-12)
    assert np.isfinite(gradient).all()


NETWORKS = [
    LogisticNetwork({"c": ["a", "b", "h"], "e": ["h"]}, prior_scale=2.0),
    LogisticNetwork({"c": ["a", "h"], "e": ["c", "h"]}, bias={"c": 0.4}, roots={"h": 0.3, "a": 0.6}, coding="01"),
    LogisticNetwork(
        {"c": ["a", "h"], "h": ["a"]}, prior_covariance={"c": [[2, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 3]]}, prior_mean=0.5
    ),
    LogisticNetwork({"c": ["a", "h"]}, roots={("a", "h"): [[0.1, 0.4], [0.3, 0.2]]}),
]


def parts_of(network, rng, n=80):
    thetas = {node: 0.8 * rng.standard_normal(network.n_coefficients(node)) for node in network.parameters}
    thetas |= {node: np.array([0.4]) for node in network.parameters if node in network.roots}
    table = blanked(network.simulate(n, thetas, rng), 0.15, rng, hide=["h"])
    return table, independent_parts(network, table)


@pytest.mark.parametrize("k", range(len(NETWORKS)))
def test_the_parts_densities_sum_to_the_network_s(k):
    """With the log Jacobian of each learned root's logit."""
    network, rng = NETWORKS[k], np.random.default_rng(k)
    table, parts = parts_of(network, rng)
    total, parameters = np.zeros(6), {}
    for part in parts:
        target = JointTarget(network, part, table)
        thetas = rng.standard_normal((6, target.n_dimensions))
        parameters |= target.packing.unpack(thetas)
        total += target.log_density(thetas)
        value, gradient = target.value_and_gradient(thetas)
        np.testing.assert_allclose(value, target.log_density(thetas), rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes(target.log_density, thetas), rtol=1e-5, atol=1e-5)
    jacobian = sum(np.log(p * (1 - p))[:, 0] for node, p in parameters.items() if node in network.roots)
    np.testing.assert_allclose(total, network.log_joint(parameters, table) + jacobian, rtol=1e-11)


def test_complete_families_are_parts_of_their_own():
    rng = np.random.default_rng(3)
    network = LogisticNetwork({"c": ["a", "b"], "d": ["b"], "e": ["d"]}, prior_scale=2.0)
    thetas = {"c": [0.1, 0.5, -0.5], "d": [0.2, 1.0], "e": [0.0, 0.7], "a": [0.5], "b": [0.5]}
    table = network.simulate(60, thetas, rng)
    assert [part.nodes for part in independent_parts(network, table)] == [("c",), ("d",), ("e",), ("a",), ("b",)]
    codes = table.codes[table.row_index].copy()
    codes[0, table.names.index("e")] = -1  # a leaf: it sums to one
    codes[1, table.names.index("d")] = -1  # ties its own family to its child's
    parts = independent_parts(network, Table.from_codes(table.names, table.states, codes))
    assert [(part.nodes, part.complete) for part in parts] == [
        (("c",), True), (("d", "e"), False), (("a",), True), (("b",), True),
    ]  # fmt: skip


def test_a_complete_part_leaves_out_rows_whose_missing_cells_tell_nothing():
    network = LogisticNetwork({"y": ["x"]}, prior_scale=2.0)
    rows = [[1, 1], [0, -1], [-1, -1], [1, 0]]
    table = Table.from_codes(["x", "y"], [("0", "1")] * 2, rows)
    parts = {part.nodes[0]: part for part in independent_parts(network, table)}
    problem = part_regression(network, parts["y"], table)
    assert sorted(problem.sign.tolist()) == [-1.0, 1.0]
    assert problem.counts.sum() == 2
    assert root_counts(network, "x", table) == (2, 1)


def test_packing_is_undone_by_unpacking():
    network = LogisticNetwork({"b": ["a"]}, prior_scale=2.0)
    packing = Packing(network, ("b", "a"))
    vectors = np.random.default_rng(1).standard_normal((4, 5, 3))
    np.testing.assert_allclose(packing.pack(packing.unpack(vectors)), vectors, rtol=1e-12)
