"""The flip: exact with the weights of pairs and no others, nearly always accepted; and its stream of weighted draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_checks import (
    BANANA_AXES,
    NEAR_BANANA,
    NEAR_SKEW,
    SKEW_AXES,
    Banana,
    HalfLine,
    Skew,
    convergence,
    invariance,
    logistic_target,
    paper_problem,
)
from scipy.special import expit

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels import flip as module
from doxa.parameters.kernels.flip import Flip, draw_pairs, flip_weights
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import Function, Path, Walkers, start_at
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture
from support.checks import SEED, z_limit

NEAR_HALF = Gaussian(np.array([1.7]), np.array([[1.5]]))
CASES = [(Skew(), NEAR_SKEW), (Banana(), NEAR_BANANA), (HalfLine(), NEAR_HALF)]


def rng_of(seed):
    return np.random.default_rng([SEED, 120, seed])


@pytest.mark.parametrize(("target", "gaussian"), CASES)
@pytest.mark.parametrize("steps", [1, 4])
def test_steps_keep_the_target(target, gaussian, steps):
    z, n = invariance(Flip(gaussian), target, rng_of(1), steps=steps)
    assert z < z_limit(n)


@dataclass(frozen=True)
class PlainWeights:
    """Broken twin: the side is picked first, and the point accepted with w'/w, w = p/q."""

    gaussian: Gaussian

    def run(self, target, walkers, n_steps, rng):
        assert n_steps == 1
        n = len(walkers.thetas)
        pairs = draw_pairs(target, self.gaussian, n, rng)
        up = rng.random(n) < expit(pairs.log_plus - pairs.log_minus)
        thetas = np.where(up[:, None], pairs.plus, pairs.minus)
        values = np.where(up, pairs.log_plus, pairs.log_minus)
        log_ratio = values - pairs.log_proposal - walkers.log_density + self.gaussian.log_density(walkers.thetas)
        accepted = np.log(rng.random(n)) < log_ratio
        thetas = np.where(accepted[:, None], thetas, walkers.thetas)
        values = np.where(accepted, values, walkers.log_density)
        return Walkers(thetas, values), Path(thetas[None], values[None], np.exp(np.minimum(log_ratio, 0))[None])


@pytest.mark.parametrize(("target", "gaussian"), CASES[:2])
def test_plain_weights_are_noticed(target, gaussian):
    z, n = invariance(PlainWeights(gaussian), target, rng_of(2))
    assert z > z_limit(n)


@pytest.mark.parametrize(("target", "gaussian"), CASES[:2])
@pytest.mark.parametrize("broken", ["sides at random", "reflection forgotten"])
def test_broken_flips_are_noticed(monkeypatch, target, gaussian, broken):
    if broken == "sides at random":
        monkeypatch.setattr(module, "expit", lambda x: np.full(np.shape(x), 0.5))
    else:  # W of the walkers without p(2m - theta)

        def values_at(target, thetas):
            return target.log_density(thetas) if len(thetas) == 160_000 else np.full(len(thetas), -np.inf)

        monkeypatch.setattr(module, "values_at", values_at)
    z, n = invariance(Flip(gaussian), target, rng_of(3), n=80_000)
    assert z > z_limit(n)


@pytest.mark.parametrize(("target", "gaussian", "axes"), [(*CASES[0], SKEW_AXES), (*CASES[1], BANANA_AXES)])
def test_walkers_from_afar_reach_the_grid(target, gaussian, axes):
    wide = Gaussian(gaussian.mean, 1.5 * gaussian.cholesky)  # thin tails are left slowly
    z, n = convergence(Flip(wide), target, axes, gaussian.mean + 1, 60, rng_of(4), n=6000)
    assert z < z_limit(n)


def test_what_is_symmetric_about_another_point_makes_equal_weights():
    """The target's log density is the Gaussian's plus an odd function: the sum of both sides need not vary."""
    q = Gaussian(np.array([1.0, -2.0]), np.array([[1.0, 0.0], [0.5, 2.0]]))
    slope = np.array([1.5, -0.7])

    def log_density(thetas):  # q times 2 g(s . (theta - m)): the two sides' masses sum to 2q
        return q.log_density(thetas) - np.logaddexp(0, -(thetas - q.mean) @ slope)

    target = Function(log_density, 2)
    walkers = start_at(target, np.array([[3.0, 1.0], [-2.0, 0.0]]))
    _, path = Flip(q).run(target, walkers, 500, rng_of(5))
    np.testing.assert_allclose(path.acceptance, 1, atol=1e-9)
    _, plain = Independence(q).run(target, walkers, 500, rng_of(5))
    assert plain.acceptance.mean() < 0.8


def test_a_rejected_pair_may_change_sides():
    q = Gaussian(np.zeros(1), 0.2 * np.eye(1))  # far too narrow: from 3 no pair is accepted
    target = Function(lambda x: -0.5 * x[:, 0] ** 2 + 0.2 * x[:, 0], 1)
    _, path = Flip(q).run(target, start_at(target, np.full((1, 1), 3.0)), 4000, rng_of(6))
    assert set(path.thetas.ravel()) == {3.0, -3.0}
    share = (path.thetas > 0).mean()
    p = expit(1.2)
    assert abs(share - p) < z_limit(1) * np.sqrt(p * (1 - p) / 4000)  # independent: the side is drawn afresh


@pytest.mark.parametrize(("d", "least"), [(20, 0.98)])
def test_the_optimal_gaussian_is_nearly_always_accepted(d, least):
    """The problem of section 5.1 of de Freitas et al."""
    problem = paper_problem(d)
    target, gaussian = logistic_target(problem), optimal_posterior(problem)
    walkers = start_at(target, gaussian.sample(10, rng_of(7)))
    _, path = Flip(gaussian).run(target, walkers, 150, rng_of(8))
    assert path.acceptance.mean() > least
    _, plain = Independence(gaussian).run(target, walkers, 150, rng_of(8))
    assert path.acceptance.mean() > plain.acceptance.mean() + 0.03


# --- weighted draws


@pytest.mark.parametrize(("target", "gaussian"), CASES)
def test_weighted_draws_estimate_the_target(target, gaussian):
    wide = Gaussian(gaussian.mean, 1.8 * gaussian.cholesky)
    sample = flip_weights(target, wide, 10_000, rng_of(9))
    constant = sample.log_normalising_constant()
    assert abs(constant.value) < z_limit(1) * constant.mcse
    exact = target.sample(100_000, rng_of(10))
    for f in (lambda x: np.tanh(x[:, 0]), lambda x: (x[:, -1] > 1.0).astype(float)):
        estimate, truth = sample.expectation(f), f(exact)
        error = np.hypot(estimate.mcse, truth.std() / np.sqrt(truth.size))
        assert abs(estimate.value - truth.mean()) < z_limit(2) * error


def test_weights_of_the_point_alone_are_noticed():
    """Broken twin: p / q of the side picked."""
    wide = Gaussian(NEAR_SKEW.mean, 1.8 * NEAR_SKEW.cholesky)
    sample = flip_weights(Skew(), wide, 40_000, rng_of(9))
    alone = np.exp(sample.log_target - wide.log_density(sample.draws))
    assert abs(alone.mean() - 1) > z_limit(1) * alone.std() / np.sqrt(alone.size)


def test_pairs_outside_the_support_weigh_nothing():
    sample = flip_weights(HalfLine(), Gaussian(np.array([-1.0]), np.array([[5.0]])), 20_000, rng_of(11))
    outside = np.isneginf(sample.log_target)
    assert outside.any()
    assert (sample.draws[~outside] > 0).all()
    assert (sample.weights[outside] == 0).all()
    constant = sample.log_normalising_constant()
    assert abs(constant.value) < z_limit(1) * constant.mcse


# --- bad input


@dataclass(frozen=True)
class Lopsided(Gaussian):
    def log_density(self, thetas):
        return super().log_density(thetas) + 0.1 * np.asarray(thetas)[:, 0]


@pytest.mark.parametrize(
    ("proposal", "error", "message"),
    [
        (
            Mixture([NEAR_SKEW], [1.0]),
            ArgumentTypeError,
            "gaussian is of type Mixture, which has no mean and no cholesky",
        ),
        (object(), ArgumentTypeError, "has no mean and no cholesky and no sample and no log_density"),
        (Lopsided(np.zeros(1), np.eye(1)), ArgumentError, "density is not the same on both sides of its mean"),
    ],
)
def test_proposals_that_are_not_symmetric_are_refused(proposal, error, message):
    with pytest.raises(error, match=message):
        Flip(proposal)
    with pytest.raises(error, match=message):
        flip_weights(Skew(), proposal, 10, rng_of(12))


def test_sizes_are_checked():
    banana = Banana()
    with pytest.raises(ArgumentError, match="target has 2 coordinates, but Flip was made for 1"):
        Flip(NEAR_SKEW).run(banana, start_at(banana, np.zeros((1, 2))), 1, rng_of(13))
    with pytest.raises(ArgumentError, match="target has 2 coordinates, but Gaussian was made for 1"):
        flip_weights(banana, NEAR_SKEW, 10, rng_of(13))
    with pytest.raises(ArgumentError, match="n is 1; it must be at least 2"):
        flip_weights(Skew(), NEAR_SKEW, 1, rng_of(13))
