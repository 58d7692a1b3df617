"""Block updates: exact in either form and scan, of the right laws, and better with the conditional one."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import (
    BANANA_AXES,
    NEAR_BANANA,
    NEAR_SKEW,
    Banana,
    Skew,
    convergence,
    invariance,
    logistic_target,
    paper_problem,
)

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels import blocks as module
from doxa.parameters.kernels.blocks import BlockIndependence, block
from doxa.parameters.kernels.combined import CycleKernel, MixtureKernel
from doxa.parameters.kernels.gaussians import conditional_laws, marginal_laws
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import Function, start_at
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture
from support.checks import SEED, z_limit

FORMS = ("conditional", "marginal")
SCANS = ("cyclic", "random")
FIVE = Gaussian(
    np.arange(5.0), np.tril(np.random.default_rng(0).normal(size=(5, 5)), -1) + np.diag([1, 0.5, 2, 1, 0.7])
)


def rng_of(seed):
    return np.random.default_rng([SEED, 110, seed])


# --- exactness


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("blocks", [1, 2, [[1], [0, 1]]])
def test_a_step_keeps_the_target(form, scan, blocks):
    z, n = invariance(BlockIndependence(NEAR_BANANA, blocks, form, scan), Banana(), rng_of(1))
    assert z < z_limit(n)


def test_in_one_dimension_it_is_an_independence_step():
    z, n = invariance(BlockIndependence(NEAR_SKEW, 1), Skew(), rng_of(2))
    assert z < z_limit(n)


def without_hastings(mean, law, thetas, rng, *tails):
    proposed, log_hastings = PROPOSE(mean, law, thetas, rng, *tails)
    return proposed, np.zeros_like(log_hastings)


def hastings_upside_down(mean, law, thetas, rng, *tails):
    proposed, log_hastings = PROPOSE(mean, law, thetas, rng, *tails)
    return proposed, -log_hastings


def hastings_of_the_marginal(mean, law, thetas, rng, *tails):
    """Proposed given the rest, weighted as if the rest did not matter."""
    proposed, _ = PROPOSE(mean, law, thetas, rng, *tails)
    (blind,) = marginal_laws(NEAR_BANANA.cholesky, [law.block])
    new, old = ((x[:, law.block] - mean[law.block]) @ blind.inverse.T for x in (proposed, thetas))
    return proposed, 0.5 * ((new**2).sum(axis=1) - (old**2).sum(axis=1))


def hastings_without_tails(mean, law, thetas, rng, *tails):
    """Proposed with long tails, weighted as if there were none."""
    proposed, _ = PROPOSE(mean, law, thetas, rng, *tails)
    centre = mean[law.block] + (thetas[:, law.rest] - mean[law.rest]) @ law.gain.T
    new, old = ((x[:, law.block] - centre) @ law.inverse.T for x in (proposed, thetas))
    return proposed, 0.5 * ((new**2).sum(axis=1) - (old**2).sum(axis=1))


PROPOSE = module.propose_block


@pytest.mark.parametrize(
    ("form", "twin"),
    [
        ("conditional", without_hastings),
        ("marginal", without_hastings),
        ("conditional", hastings_upside_down),
        ("marginal", hastings_upside_down),
        ("conditional", hastings_of_the_marginal),
    ],
)
def test_broken_proposals_are_noticed(monkeypatch, form, twin):
    monkeypatch.setattr(module, "propose_block", twin)
    z, n = invariance(BlockIndependence(NEAR_BANANA, 1, form), Banana(), rng_of(3))
    assert z > z_limit(n)


def test_long_tails_are_in_the_hastings_term(monkeypatch):
    kernel = BlockIndependence(NEAR_BANANA, 1, tails=0.5, width=2.0)
    z, n = invariance(kernel, Banana(), rng_of(4))
    assert z < z_limit(n)
    monkeypatch.setattr(module, "propose_block", hastings_without_tails)
    z, n = invariance(kernel, Banana(), rng_of(4))
    assert z > z_limit(n)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scan", SCANS)
def test_walkers_from_afar_reach_the_grid(form, scan):
    wide = Gaussian(NEAR_BANANA.mean, 1.5 * NEAR_BANANA.cholesky)  # thin tails are left slowly
    kernel = BlockIndependence(wide, [[0], [1]], form, scan)
    steps = 80 if scan == "cyclic" else 200
    z, n = convergence(kernel, Banana(), BANANA_AXES, np.array([1.5, 2.0]), steps, rng_of(4), n=10_000)
    assert z < z_limit(n)


# --- the laws


@pytest.mark.parametrize("indices", [[0], [3, 1], [4, 0, 2], [0, 1, 2, 3, 4]])
def test_laws_are_those_of_the_gaussian(indices):
    index = np.array(indices)
    (ours,), theirs = conditional_laws(FIVE.cholesky, [index]), FIVE.conditional_map(index)
    assert np.array_equal(ours.rest, theirs.rest)
    np.testing.assert_allclose(ours.gain, theirs.gain, atol=1e-12)
    np.testing.assert_allclose(ours.factor, theirs.cholesky, atol=1e-12)
    (marginal,) = marginal_laws(FIVE.cholesky, [index])
    np.testing.assert_allclose(marginal.factor, FIVE.marginal(index).cholesky, atol=1e-12)
    assert not marginal.gain.any()
    for law in (ours, marginal):
        np.testing.assert_allclose(law.inverse @ law.factor, np.eye(index.size), atol=1e-12)


def test_proposals_have_the_density_that_the_hastings_term_says():
    rng = rng_of(5)
    thetas = FIVE.sample(6, rng)
    index = np.array([3, 1])
    (law,) = conditional_laws(FIVE.cholesky, [index])
    proposed, log_hastings = module.propose_block(FIVE.mean, law, thetas, rng)
    kept = np.delete(np.arange(5), index)
    assert np.array_equal(proposed[:, kept], thetas[:, kept])
    for k in range(6):
        q = FIVE.conditional(index, thetas[k, law.rest])
        old, new = q.log_density(np.stack([thetas[k, index], proposed[k, index]]))
        assert log_hastings[k] == pytest.approx(old - new, abs=1e-10)


def test_the_conditional_of_the_target_itself_is_a_gibbs_sampler():
    target = Function(FIVE.log_density, 5)
    walkers = start_at(target, FIVE.sample(50, rng_of(6)))
    kernel = BlockIndependence(FIVE, [[0, 3], [1, 2], [4]])
    _, path = kernel.run(target, walkers, 20, rng_of(7))
    np.testing.assert_allclose(path.acceptance, 1, atol=1e-9)
    kernel.__dict__["laws"] = (kernel.laws[0], kernel.laws[1]._replace(gain=kernel.laws[1].gain[::-1]))
    _, path = kernel.run(target, walkers, 20, rng_of(7))  # broken twin: rows of another block
    assert path.acceptance.mean() < 0.9


@pytest.mark.parametrize("d", [20])
def test_the_conditional_form_is_accepted_more_often_than_the_printed_one(d):
    """Section 4.2 on the problem of section 5.1, in blocks of five, with both Gaussians."""
    problem = paper_problem(d)
    target, optimal = logistic_target(problem), optimal_posterior(problem)
    walkers = start_at(target, optimal.sample(16, rng_of(8)))
    accepted = {}
    for name, gaussian in (("optimal", optimal), ("batch", batch_posterior(problem))):
        for form in FORMS:
            _, path = BlockIndependence(gaussian, 5, form).run(target, walkers, 60, rng_of(9))
            accepted[name, form] = path.acceptance[20:].mean()
    assert accepted["optimal", "conditional"] > 0.93
    assert accepted["optimal", "conditional"] > accepted["optimal", "marginal"] + 0.1
    assert accepted["batch", "conditional"] > accepted["batch", "marginal"]


# --- sweeps


def test_a_cyclic_step_moves_all_blocks_and_a_random_one_moves_one():
    target = Function(FIVE.log_density, 5)
    walkers = start_at(target, np.zeros((30, 5)))
    parts = [[0, 3], [1, 2], [4]]
    _, path = BlockIndependence(FIVE, parts).run(target, walkers, 4, rng_of(10))
    assert (np.diff(path.thetas, axis=0) != 0).all()
    _, path = BlockIndependence(FIVE, parts, scan="random").run(target, walkers, 300, rng_of(11))
    moved = (np.diff(path.thetas, axis=0) != 0).any(axis=1)
    patterns, counts = np.unique(moved, axis=0, return_counts=True)
    assert {tuple(np.flatnonzero(pattern)) for pattern in patterns} == {(0, 3), (1, 2), (4,)}
    assert (np.abs(counts - 299 / 3) < z_limit(3) * np.sqrt(299 * 2 / 9)).all()


def test_sizes_make_consecutive_blocks():
    assert BlockIndependence(FIVE, 2).blocks == ((0, 1), (2, 3), (4,))
    assert BlockIndependence(FIVE, 9).blocks == ((0, 1, 2, 3, 4),)
    assert BlockIndependence(FIVE, np.array([[0, 1], [2, 3], [4, 0]])).blocks == ((0, 1), (2, 3), (4, 0))
    assert BlockIndependence(FIVE, 2).reversed().blocks == ((4,), (2, 3), (0, 1))
    random = BlockIndependence(FIVE, 2, scan="random")
    assert random.reversed() is random


# --- the combinator


def test_walks_become_walks_on_blocks():
    swept = block(RandomWalk(0.3), [[0], [1]])
    assert isinstance(swept, CycleKernel)
    z, n = invariance(swept, Banana(), rng_of(12))
    assert z < z_limit(n)
    shaped = block(RandomWalk(0.9, NEAR_BANANA.cholesky), 1, scan="random")
    assert isinstance(shaped, MixtureKernel)
    z, n = invariance(shaped, Banana(), rng_of(13), steps=3)
    assert z < z_limit(n)


def test_independence_kernels_become_block_kernels():
    made = block(Independence(FIVE), 2, scan="random")
    assert isinstance(made, BlockIndependence)
    assert (made.form, made.scan, made.blocks) == ("conditional", "random", ((0, 1), (2, 3), (4,)))


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((FIVE, [[0, 1], [2, 4]]), ArgumentError, "blocks leave out coordinate 3 of 5, which would never move; add it"),
        ((FIVE, []), ArgumentError, "blocks leave out coordinate 0 of 5"),
        ((FIVE, [[0, 1], [2, 5]]), ArgumentError, r"blocks\[1\] is \[2, 5\]; indices are 0\.\.4"),
        ((FIVE, [[0, 0]]), ArgumentError, r"blocks\[0\] is \[0, 0\]; it must name at least one coordinate, each once"),
        ((FIVE, [[0.5]]), ArgumentError, r"blocks\[0\] is \[0\.5\]; it must name"),
        ((FIVE, 0), ArgumentError, "blocks is 0; it must be at least 1, or a sequence of sequences of indices"),
        ((FIVE, "ab"), ArgumentTypeError, "blocks is 'ab'; it must be a whole number"),
        ((FIVE, 1, "joint"), ArgumentError, "form is 'joint'; it must be 'conditional' or 'marginal'"),
        ((FIVE, 1, "marginal", "zigzag"), ArgumentError, "scan is 'zigzag'; it must be 'cyclic' or 'random'"),
        ((Mixture([FIVE], [1.0]), 1), ArgumentTypeError, "has no mean and no cholesky; give a Gaussian"),
        ((Gaussian(np.zeros(2), np.ones((2, 2))), 1), ArgumentError, r"gaussian\.cholesky must be lower triangular"),
        (
            (Gaussian(np.zeros(3), np.eye(2)), 1),
            ArgumentError,
            r"gaussian\.cholesky has shape \(2, 2\); it must be \(3",
        ),
        ((Gaussian(np.full(2, np.nan), np.eye(2)), 1), ArgumentError, r"gaussian\.mean has shape \(2,\); .* finite"),
    ],
)
def test_what_cannot_be_swept_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        BlockIndependence(*arguments)


def test_the_combinator_refuses_what_has_no_parts():
    with pytest.raises(ArgumentTypeError, match="cannot move a part of the coordinates; a RandomWalk can"):
        block(block(RandomWalk(), [[0], [1]]), 1)
    with pytest.raises(ArgumentError, match="blocks is 2, but the kernel does not know the number of coordinates"):
        block(RandomWalk(), 2)
    with pytest.raises(ArgumentError, match="blocks leave out coordinate 1 of 3"):
        block(RandomWalk(), [[0], [2]])
    with pytest.raises(ArgumentError, match="scan is 'up'"):
        block(RandomWalk(), [[0]], "up")
    with pytest.raises(ArgumentTypeError, match="gaussian is of type Mixture"):
        block(Independence(Mixture([FIVE], [1.0])), 2)


def test_targets_of_another_size_are_refused():
    skew = Skew()
    walkers = start_at(skew, np.zeros((2, 1)))
    with pytest.raises(ArgumentError, match="target has 1 coordinates, but BlockIndependence was made for 5"):
        BlockIndependence(FIVE, 2).run(skew, walkers, 1, rng_of(14))
    with pytest.raises(ArgumentError, match="target has 1 coordinates, but RandomWalk was made for 2"):
        block(RandomWalk(), [[0], [1]]).run(skew, walkers, 1, rng_of(14))
