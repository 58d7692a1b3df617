"""Data augmentation: posteriors against exact marginalisation, one step against the joint distribution, symmetry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from augmentation_cases import (
    batch_z,
    chains,
    mirrored,
    paired_z,
    part_of,
    random_thetas,
    small_samplers,
    table_of,
    truth_of,
)
from parameter_cases import bimodal, blanked, grid_of

from doxa import LogisticNetwork
from doxa.models.logistic_factors import expit
from doxa.models.logistic_parts import independent_parts
from doxa.parameters import augmentation
from doxa.parameters.augmentation import AugmentationSampler, AugmentationState
from doxa.parameters.hidden_cells import block_weights
from doxa.parameters.joint_target import JointTarget
from support.checks import SEED


class Exact(NamedTuple):
    sampler: AugmentationSampler
    cut: np.ndarray
    expected: np.ndarray  # of `quantities`

    def z(self, n_chains, n_steps):
        draws = chains(self.sampler, n_chains, n_steps, SEED)
        theta, cells = draws["theta"][:, :, 0], draws["cells"].mean(axis=2, keepdims=True)
        return batch_z(quantities(theta, self.cut, cells), self.expected)


def quantities(theta, cut, cells):
    """Moments of two coefficients, how often each is below a cut, and how many cells are 1."""
    return np.concatenate([theta, theta**2, theta[..., :1] * theta[..., 1:], theta < cut, cells], axis=-1)


def exact(sampler, low, high, cut, chance):
    """From a grid; ``chance`` gives P(cell = 1) for points, averaged over the cells."""
    n = 241
    grid = grid_of(JointTarget(sampler.network, sampler.part, sampler.table), low, high, n)
    step = (np.array(high) - low) / (n - 1)
    between = low + step * (
        np.floor((np.array(cut) - low) / step) + 0.5
    )  # halfway between points, so that sums are good
    values = quantities(grid.points, between, chance(grid.points)[:, None])
    return Exact(sampler, between, grid.probability @ values)


def one_parent_missing(**options):
    """y with parents a and b, few distinct rows, a missing in most: equal incomplete rows abound."""
    rng = np.random.default_rng([SEED, 1])
    network = LogisticNetwork({"y": ["a", "b"]}, prior_scale=2.0, bias=0.3, roots={"a": 0.4, "b": 0.7})
    table = network.simulate(40, {"y": [1.2, -0.5]}, rng)
    codes = table.codes[table.row_index].copy()
    missing = rng.random(40) < 0.7
    codes[missing, network.names.index("a")] = -1
    table = table_of(network, codes)
    (part,) = independent_parts(network, table)
    y, _, b = (2.0 * codes[missing][:, network.names.index(name)] - 1 for name in "yab")

    def chance(points):
        rest = 0.3 + points[:, 1:] * b
        one, zero = (q * expit(y * (rest + x * points[:, :1])) for x, q in ((1, 0.4), (-1, 0.6)))
        return (one / (one + zero)).mean(axis=1)

    return exact(
        AugmentationSampler(network, part, table, keep_cells=True, **options), [-6, -5], [11, 5], [2.0, 0.0], chance
    )


def hidden_parent():
    """Two modes of different mass, and a prior and a root that are not symmetric."""
    network, table = bimodal(0)
    (part,) = independent_parts(network, table)
    codes = table.codes[table.row_index]
    x, y = (2.0 * codes[:, table.names.index(name)] - 1 for name in "xy")

    def chance(points):
        rest = 2.0 + points[:, 1:] * x
        one, zero = (q * expit(y * (rest + h * points[:, :1])) for h, q in ((1, 0.6), (-1, 0.4)))
        return (one / (one + zero)).mean(axis=1)

    return exact(AugmentationSampler(network, part, table, keep_cells=True), [-9, -9], [13, 11], [0.0, -1.0], chance)


@pytest.mark.parametrize("case", [one_parent_missing, hidden_parent])
def test_posteriors_are_those_of_exact_marginalisation(case):
    z, limit = case().z(3, 700)
    assert z < limit


@pytest.mark.slow
@pytest.mark.parametrize("case", [one_parent_missing, hidden_parent])
def test_posteriors_are_those_of_exact_marginalisation_in_long_runs(case):
    z, limit = case().z(4, 15_000)
    assert z < limit


def test_equal_incomplete_rows_drawn_together_are_found_out(monkeypatch):
    real = augmentation.flip

    def together(batch, values, logits, steps, theta, uniforms):
        log_weights, _ = block_weights(batch, values, logits, steps, theta)
        _, first, same = np.unique(log_weights.round(9), axis=1, return_index=True, return_inverse=True)
        real(batch, values, logits, steps, theta, uniforms[first[same.ravel()]])

    monkeypatch.setattr(augmentation, "flip", together)
    z, limit = one_parent_missing().z(3, 400)
    assert z > limit


def test_an_exchange_of_labels_that_is_always_taken_is_found_out(monkeypatch):
    monkeypatch.setattr(augmentation, "_is_accepted", lambda log_ratio, uniform: True)
    z, limit = hidden_parent().z(3, 300)
    assert z > limit


JOINT = LogisticNetwork(
    {"x": ["h"], "y": ["h", "x", "u"], "w": ["y", "h"]}, prior_mean=0.5, prior_scale=1.2, bias={"w": -0.3}
)
ROWS = 16  # with a few rows, parameters drawn from their prior would hide what the cells are drawn from


def one_step(n, rng):
    """Statistics before and after one step that begins at a draw from the posterior of parameters and hidden cells.

    Parameters come from the prior and the table from the parameters; blanked cells keep their values in the state.  The
    coefficients of `h` have one mean and change their signs together, so their sum shows a wrong exchange best.
    """
    network = JOINT
    blank = np.random.default_rng(3).random((ROWS, len(network.names))) < 0.25  # the same cells every time
    blank[:, network.names.index("h")] = True
    before, after = [], []
    for _ in range(n):
        thetas = {
            node: rng.uniform(size=1)
            if node in network.roots
            else rng.multivariate_normal(*network.prior(node), method="cholesky")
            for node in network.parameters
        }
        full = network.simulate(ROWS, thetas, rng)
        codes = full.codes[full.row_index]
        table = table_of(network, np.where(blank, -1, codes))
        part = part_of("h", network, table)
        sampler = AugmentationSampler(network, part, table)
        state = AugmentationState(sampler.packing.pack(thetas), truth_of(sampler, codes))
        for found, (theta, cells) in ((before, state), (after, sampler.run(state, 1, rng)[0])):
            density = sampler.log_density(theta, cells)
            products = np.outer(theta, theta)[np.triu_indices(4, 1)]
            of_h = sum(theta[k] for k, label in enumerate(sampler.packing.labels) if label[1] == "h")
            found.append([*theta, *theta**2, density, cells.mean(), *products, of_h])
    return np.array(before), np.array(after)


def test_one_step_keeps_the_joint_distribution():
    z, limit = paired_z(*one_step(400, np.random.default_rng([SEED, 2])))
    assert z < limit


@pytest.mark.slow
def test_one_step_keeps_the_joint_distribution_in_many_replicates():
    z, limit = paired_z(*one_step(6500, np.random.default_rng([SEED, 3])))
    assert z < limit


def test_cells_drawn_without_their_children_are_found_out(monkeypatch):
    real = augmentation.flip

    def without_children(batch, values, logits, steps, theta, uniforms):
        real(batch, values, logits, 0 * steps, theta, uniforms)

    monkeypatch.setattr(augmentation, "flip", without_children)
    z, limit = paired_z(*one_step(250, np.random.default_rng([SEED, 2])))
    assert z > limit


def positive_share(sampler):
    """The z of one chain's share of positive signs against 1/2."""
    draws = chains(sampler, 1, 400, SEED, warmup=20)["theta"][:, :, 0]
    weight = sampler.packing.labels.index(("x", "h"))
    return batch_z((draws[:, :, weight : weight + 1] > 0).astype(float), np.array([0.5]))


def test_both_signs_of_a_hidden_node_are_seen_equally_often():
    z, limit = positive_share(mirrored())
    assert z < limit


def test_without_exchanges_a_chain_stays_with_one_sign():
    sampler = mirrored()
    sampler.completed.exchanges = ()
    z, limit = positive_share(sampler)
    assert z > limit


@pytest.mark.parametrize("coding", ["pm1", "01"])
def test_an_exchange_of_labels_is_its_own_inverse_and_leaves_the_likelihood(coding):
    sampler = mirrored(coding, prior_mean={"y": [0.3, -0.2]})
    table = sampler.completed
    rng = np.random.default_rng(5)
    (exchange,) = table.exchanges
    assert abs(np.linalg.det(exchange.matrix)) == pytest.approx(1.0)
    theta, cells = rng.normal(size=7), rng.integers(0, 2, sampler.cell_rows.size).astype(np.int8)
    values = table.cells.extended(cells)
    other, changed = exchange.apply(theta, values)
    back, unchanged = exchange.apply(other, changed)
    np.testing.assert_allclose(back, theta, atol=1e-15)
    assert np.array_equal(unchanged, values)
    assert (changed[: cells.size] == 1 - cells).all()

    def log_prior(vector):
        return sampler.network.log_prior(sampler.packing.unpack(vector))

    change = table.log_density(other, changed) - table.log_density(theta, values)
    assert change == pytest.approx(log_prior(other) - log_prior(theta), abs=1e-9)
    assert abs(change) > 0.01


def test_only_nodes_that_are_observed_nowhere_have_an_exchange():
    assert len(mirrored().completed.exchanges) == 1
    assert all(not sampler.completed.exchanges for sampler in small_samplers("parents"))
    assert {len(sampler.completed.exchanges) for sampler in small_samplers("hidden chain")} == {2}


def importance_means(target, draws, rng, n=8000):
    """Means by importance sampling from a t distribution with the draws' moments, and their errors."""
    mean, root = draws.mean(axis=0), np.linalg.cholesky(1.2 * np.cov(draws.T))
    d, df = mean.size, 8.0
    scale = np.sqrt(df / rng.chisquare(df, n))[:, None]
    noise = rng.standard_normal((n, d)) * scale
    points = mean + noise @ root.T
    log_q = -0.5 * (df + d) * np.log1p((noise**2).sum(axis=1) / df)
    log_w = np.concatenate([target.log_density(part) for part in np.array_split(points, 20)]) - log_q
    weight = np.exp(log_w - log_w.max())
    weight /= weight.sum()
    means = weight @ points
    return means, np.sqrt((weight[:, None] ** 2 * (points - means) ** 2).sum(axis=0))


def test_means_of_nine_parameters_are_those_of_exact_marginalisation():
    network = LogisticNetwork({"y": ["a", "b", "c", "d"], "c": ["a"]}, prior_scale=2.0)
    rng = np.random.default_rng([SEED, 6])
    table = blanked(network.simulate(200, random_thetas(network, rng), rng), 0.15, rng)
    (part,) = independent_parts(network, table)
    draws = chains(AugmentationSampler(network, part, table), 2, 800, SEED, warmup=50)["theta"][:, :, 0]
    target = JointTarget(network, part, table)
    means, errors = importance_means(target, draws.reshape(-1, draws.shape[-1]), rng)
    _, limit = batch_z(draws, means)
    batches = draws.reshape(2 * 20, 40, -1).mean(axis=1)
    own = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    assert (np.abs(batches.mean(axis=0) - means) < limit * np.hypot(own, errors)).all()
    assert (errors < 0.05 * draws.std(axis=(0, 1))).all()


def test_a_part_without_hidden_cells_is_drawn_too():
    network = LogisticNetwork({"y": ["a"]}, bias=0.2, roots={"a": 0.5}, prior_scale=3.0)
    table = network.simulate(15, {"y": [1.0]}, np.random.default_rng([SEED, 7]))
    (part,) = independent_parts(network, table)
    sampler = AugmentationSampler(network, part, table, keep_cells=True)
    grid = grid_of(JointTarget(network, part, table), [-10], [14], 2001)
    draws = chains(sampler, 2, 600, SEED, warmup=20)
    z, limit = batch_z(draws["theta"][:, :, 0], grid.mean)
    assert z < limit
    assert draws["cells"].shape == (2, 600, 0)


@pytest.mark.slow
def test_twenty_parents_in_five_thousand_rows_with_a_fifth_missing():
    """Too many configurations to sum out; the simulated coefficients come back, and chains from wide starts agree."""
    names = [f"x{k}" for k in range(20)]
    network = LogisticNetwork({"y": names})
    rng = np.random.default_rng([SEED, 9])
    truth = np.concatenate([[0.5], rng.uniform(-0.8, 0.8, 20)])
    full = network.simulate(5000, {"y": truth} | {name: [0.4] for name in names}, rng)
    table = blanked(full, 0.2, rng)
    (part,) = independent_parts(network, table)
    draws = chains(AugmentationSampler(network, part, table), 2, 600, SEED, warmup=100)["theta"][:, :, 0]
    place = slice(0, 21)
    assert part.nodes[0] == "y"
    mean, sd = draws.mean(axis=(0, 1))[place], draws.std(axis=(0, 1))[place]
    assert np.abs((mean - truth) / sd).max() < 5
    assert np.abs(np.diff(draws.mean(axis=1), axis=0)[0, place] / sd).max() < 0.5
