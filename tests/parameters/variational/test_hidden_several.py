"""Several starts: mirrored optima, relabelling, mixtures of Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_cases import common_cause, problem_of, random_network, random_table, random_thetas

from doxa.models import LogisticNetwork
from doxa.parameters.variational.hidden import hidden_posterior, hidden_posteriors, joint_gaussian, mixture_weights
from doxa.parameters.variational.hidden.starts import draw_coefficients, relabelled
from support.checks import SEED


def test_exchanging_the_states_of_a_hidden_node_gives_the_mirrored_optimum():
    network, table = common_cause()
    fits = hidden_posteriors(network, table, starts=4, seed=SEED)
    one, other = fits[:2]
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-5)
    for node in "abc":
        mirrored = one.gaussians[node].mean.copy()
        mirrored[1] *= -1
        assert np.allclose(other.gaussians[node].mean, mirrored, atol=1e-3)
    assert one.roots["h"] == pytest.approx(other.roots["h"][::-1], abs=0.05)
    cells = (
        one.cell_probabilities()[:, network.names.index("h")] + other.cell_probabilities()[:, network.names.index("h")]
    )
    assert np.allclose(cells, 1.0, atol=1e-3)
    assert mixture_weights([one, other]) == pytest.approx([0.5, 0.5], abs=1e-4)


def test_two_hidden_nodes_with_the_same_neighbours_can_be_exchanged():
    network = LogisticNetwork({"a": ["h", "k"], "b": ["h", "k"], "c": ["h", "k"]}, prior_scale=1.5)
    rng = np.random.default_rng(SEED)
    thetas = {"a": [0.0, 2.0, 0.3], "b": [0.5, -1.5, 1.0], "c": [0.0, 0.2, 1.8], "h": [0.4], "k": [0.6]}
    table = network.simulate(500, thetas, rng).select(["a", "b", "c"])
    fit = hidden_posterior(network, table, rng=rng)
    start = {node: gaussian.mean[[0, 2, 1]] for node, gaussian in fit.gaussians.items()}
    start |= {"h": [fit.roots["k"][0] / 502], "k": [fit.roots["h"][0] / 502]}
    swapped = hidden_posterior(network, table, start=start)
    assert swapped.log_evidence == pytest.approx(fit.log_evidence, abs=1e-4)
    assert swapped.gaussians["b"].mean == pytest.approx(fit.gaussians["b"].mean[[0, 2, 1]], abs=0.02)


def test_relabelling_leaves_the_likelihood():
    for k in range(20):
        rng = np.random.default_rng([SEED, k])
        network = random_network(rng)
        hidden = [int(v) for v in rng.permutation(len(network.names))[:2]]
        if any(network.names[v] in block.nodes for v in hidden for block in network.root_blocks):
            continue  # its probability would change too
        if any(network.parents(n) and network.bias(n) is not None for n in network.names):
            continue
        shown = [name for v, name in enumerate(network.names) if v not in hidden]
        table = random_table(network, rng, 10, 0.1, n_hidden=0).select(shown)
        thetas = random_thetas(network, rng)
        problem = problem_of(network, table)
        turned = thetas | relabelled(problem, {n: thetas[n] for n in thetas if n not in network.roots}, hidden)
        assert network.log_likelihood(turned, table) == pytest.approx(network.log_likelihood(thetas, table), rel=1e-12)


def test_starts_depend_on_the_generator_alone():
    network, table = common_cause(100)
    one, other = (hidden_posterior(network, table, rng=np.random.default_rng(3)) for _ in range(2))
    assert one.log_evidence == other.log_evidence
    assert hidden_posterior(network, table).log_evidence == hidden_posterior(network, table).log_evidence
    seeds = [[fit.log_evidence for fit in hidden_posteriors(network, table, starts=3, seed=5)] for _ in range(2)]
    assert seeds[0] == seeds[1]


def test_optima_are_sorted_and_different():
    network = LogisticNetwork({"y": ["h", "o"]}, prior_mean=3.0, prior_scale=3.0, bias=2.0, roots={"h": 0.6, "o": 0.5})
    table = network.simulate(50, {"y": [2.0, -1.0]}, np.random.default_rng(2)).select(["o", "y"])
    fits = hidden_posteriors(network, table, starts=6, seed=SEED)
    bounds = [fit.log_evidence for fit in fits]
    assert bounds == sorted(bounds, reverse=True)
    assert len(fits) == 2
    weights = mixture_weights(fits)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] / weights[1] == pytest.approx(np.exp(bounds[0] - bounds[1]))


def test_without_missing_cells_there_is_one_optimum():
    network = LogisticNetwork({"y": ["x"]})
    table = network.simulate(30, {"y": [0.0, 1.0], "x": [0.5]}, np.random.default_rng(SEED))
    assert len(hidden_posteriors(network, table, seed=1)) == 1


def test_the_joint_gaussian_is_that_of_all_nodes():
    network, table = common_cause(60)
    fit = hidden_posterior(network, table)
    joint = joint_gaussian(fit)
    assert fit.labels == (("a", "bias"), ("a", "h"), ("b", "bias"), ("b", "h"), ("c", "bias"), ("c", "h"), ("c", "o"))
    assert np.array_equal(joint.mean[4:], fit.gaussians["c"].mean)
    assert np.allclose(joint.covariance[4:, 4:], fit.gaussians["c"].covariance)
    assert (joint.covariance[:2, 2:] == 0).all()
    draws = joint.sample(5, np.random.default_rng(0))
    parts = (
        fit.gaussians[n].log_density(draws[:, part])
        for n, part in zip("abc", (slice(2), slice(2, 4), slice(4, 7)), strict=True)
    )
    assert np.allclose(joint.log_density(draws), sum(parts))


def test_draws_of_starts_have_their_spread():
    network, table = common_cause(300)
    problem = problem_of(network, table)
    rng = np.random.default_rng(SEED)
    draws = np.array([draw_coefficients(problem, rng)["c"] for _ in range(2000)])
    assert np.abs(draws.mean(axis=0)).max() < 5 / np.sqrt(2000)
    assert np.allclose(draws.std(axis=0), 1.0, atol=5 / np.sqrt(2 * 2000))  # the prior's 2, cut down
