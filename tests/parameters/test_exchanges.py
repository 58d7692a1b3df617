"""Exchanges of hidden nodes' labels in every method, against quadrature; and as a kernel where they are no symmetry."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from parameter_cases import bimodal_on_grid, grid_of

import doxa
from doxa import LogisticNetwork
from doxa.errors import ArgumentError
from doxa.models.logistic_parts import independent_parts
from doxa.parameters import methods
from doxa.parameters.approximate import approximate
from doxa.parameters.joint_target import JointTarget, Symmetry, images_of
from doxa.parameters.kernels import independence as exchange_room
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.kernels.independence import Exchanging
from doxa.parameters.kernels.kernel import start_at
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.sampling.importance_proposals import Mixture
from support.checks import z_limit

METHODS = ["hmc", "flip", "independence", "block", "random_walk", "mixture"]


@cache
def mirrored():
    """A hidden node with two observed children whose biases are known: two coefficients, each sign as probable."""
    network = LogisticNetwork({"a": ["h"], "b": ["h"]}, bias=0.4, prior_scale=2.0, roots={"h": 0.5})
    table = network.simulate(150, {"a": [2.0], "b": [1.5]}, np.random.default_rng(3)).select(["a", "b"])
    (part,) = independent_parts(network, table)
    return network, table, grid_of(JointTarget(network, part, table), (-12.0, -12.0), (12.0, 12.0), 600)


DRAWS = {"hmc": 150, "independence": 2000, "random_walk": 3500}  # a walk takes longer to agree about sizes


def fitted(method, draws):
    network, table, _ = mirrored()
    return doxa.fit(network, table, method=method, chains=2, draws=draws, seed=1)


def z_of(fit):
    """Errors of the share of positive signs and of both second moments, in their own standard errors."""
    _, _, grid = mirrored()
    draws = np.concatenate([fit.draws("a"), fit.draws("b")], axis=-1)
    numbers = np.concatenate([draws[..., :1] > 0, draws**2], axis=-1)
    exact_of = np.column_stack([grid.points[:, 0] > 0, grid.points**2])
    exact = grid.probability @ exact_of
    from arviz_stats.base import array_stats

    errors = [array_stats.mcse(numbers[..., k], chain_axis=0, draw_axis=1) for k in range(3)]
    return np.abs((numbers.mean(axis=(0, 1)) - exact) / np.array(errors)).max()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_visits_both_images(method):
    fit = fitted(method, DRAWS.get(method, 400))
    assert fit.report.symmetries == ("the values of 'h' can be exchanged",)
    assert fit.converged
    assert z_of(fit) < z_limit(3)


@pytest.mark.parametrize("method", ["hmc", "random_walk"])
def test_without_exchanges_and_jumps_local_kernels_stay_where_they_are(monkeypatch, method):
    monkeypatch.setattr(methods, "_with_exchanges", lambda found, rung: rung)
    monkeypatch.setattr(methods, "_jumping", lambda found, kernel: kernel)
    assert not fitted(method, 150).converged


def test_a_walk_is_shaped_as_a_mode_and_not_as_all_modes_together():
    """In a mode one coefficient is large where the other is small; from mode to mode both change their signs."""
    network, table, grid = mirrored()
    (part,) = independent_parts(network, table)
    found = approximate(network, part, table, None, np.random.default_rng(1))
    walk = methods.METHODS["random_walk"](found, np.random.default_rng(2)).kernel.kernels[1]
    assert (walk.cholesky @ walk.cholesky.T)[0, 1] < 0
    assert grid.probability @ grid.points.prod(axis=1) > 0


# --- the kernel: walkers that begin at exact draws are at exact draws after some steps


def drift(kernel, seed=0, n=4000, steps=12):
    """Largest z over means, squares and the lighter mode's share, where the exchange is no symmetry."""
    (_, _, target, grid), rng = bimodal_on_grid(seed), np.random.default_rng(4)
    chosen = rng.choice(len(grid.points), size=n, p=grid.probability)
    thetas = grid.points[chosen] + 0.1 * (rng.random((n, 2)) - 0.5)
    walkers, _ = kernel.run(target, start_at(target, thetas), steps, rng)
    exact_of = np.column_stack([grid.points[:, 0] < 0, grid.points, grid.points**2])
    numbers = np.column_stack([walkers.thetas[:, 0] < 0, walkers.thetas, walkers.thetas**2])
    exact = grid.probability @ exact_of
    sd = np.sqrt(grid.probability @ (exact_of - exact) ** 2)
    return np.abs((numbers.mean(axis=0) - exact) / (sd / np.sqrt(n))).max()


EXCHANGE = Exchanging(RandomWalk(1.0), [np.diag([-1.0, 1.0])], every=3)


def test_exchanges_that_are_no_symmetry_keep_the_target():
    assert drift(EXCHANGE) < z_limit(5)


@pytest.mark.parametrize("extra", [np.inf, np.log(2.0)], ids=["no ratio", "wrong determinant"])
def test_a_wrong_ratio_would_be_seen(monkeypatch, extra):
    whole = exchange_room.decide

    def broken(target, walkers, proposed, log_hastings, rng):
        moved = (proposed != walkers.thetas).any(axis=1)
        away = proposed[:, 0] < 0  # a determinant of 2 on the way there, of 1/2 on the way back
        term = np.where(moved, np.where(away, extra, -extra if np.isfinite(extra) else extra), 0.0)
        return whole(target, walkers, proposed, log_hastings + term, rng)

    monkeypatch.setattr(exchange_room, "decide", broken)
    assert drift(EXCHANGE, steps=60) > z_limit(5)


def test_maps_that_are_no_exchange_are_refused():
    with pytest.raises(ArgumentError, match=r"matrices\[0\] is not its own inverse"):
        Exchanging(RandomWalk(), [2 * np.eye(2)])
    with pytest.raises(ArgumentError, match="matrices is empty"):
        Exchanging(RandomWalk(), [])
    with pytest.raises(ArgumentError, match="every is 0"):
        Exchanging(RandomWalk(), [np.eye(1)], 0)


# --- images of what was found


def test_images_are_those_of_all_exchanges_together():
    rng = np.random.default_rng(1)
    one = Student(np.array([2.0, 5.0]), np.linalg.cholesky(np.array([[0.3, 0.1], [0.1, 0.2]])), 5.0)
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    exchanges = [Symmetry("", np.diag([-1.0, 1.0])), Symmetry("", np.diag([1.0, -1.0])), Symmetry("", swap)]
    whole = images_of(Mixture([one], [1.0]), exchanges)
    assert len(whole.components) == 8
    points = rng.normal(0, 4, (50, 2))
    for exchange in exchanges:
        np.testing.assert_allclose(whole.log_density(points @ exchange.matrix.T), whole.log_density(points), rtol=1e-9)


def test_one_search_finds_all_images():
    """Two hidden nodes with the same children: eight images of one mode, each of the same mass."""
    children = [f"y{k}" for k in range(4)]
    network = LogisticNetwork({c: ["h", "k"] for c in children}, prior_scale=2.0, roots={"h": 0.5, "k": 0.5})
    truth = {"y0": [0.3, 2.0, -0.4], "y1": [-0.2, 2.0, 0.5], "y2": [0.1, -0.4, 2.0], "y3": [0.0, 0.6, 2.2]}
    table = network.simulate(300, truth, np.random.default_rng(3)).select(children)
    (part,) = independent_parts(network, table)
    found = approximate(network, part, table, None, np.random.default_rng(1))
    assert len(found.symmetries) == 3
    assert len(found.proposal.components) == 8 * len(found.modes)
    points = np.random.default_rng(2).normal(0, 1, (20, found.target.n_dimensions))
    for exchange in found.symmetries:
        np.testing.assert_allclose(
            found.proposal.log_density(points @ exchange.matrix.T), found.proposal.log_density(points), rtol=1e-8
        )
