"""Calibration: the goal is reached from anywhere, the shape is found, and nothing moves afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import NEAR_BANANA, Banana, HalfLine, Skew, invariance, logistic_target, paper_problem

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.blocks import BlockIndependence, block
from doxa.parameters.kernels.combined import cycle
from doxa.parameters.kernels.kernel import Function, Walkers, start_at
from doxa.parameters.kernels.random_walk import RandomWalk, calibrated, shrunk_cholesky
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED, z_limit


def rng_of(seed):
    return np.random.default_rng([SEED, 140, seed])


def fresh_acceptance(kernel, target, thetas, rng, steps=400):
    _, path = kernel.run(target, start_at(target, thetas), steps, rng)
    return float(path.acceptance.mean())


SD = np.array([1.0, 30.0, 1000.0])
STRETCHED = Gaussian.from_covariance(
    np.array([5.0, -100.0, 0.0]), SD[:, None] * np.array([[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1]]) * SD
)


@pytest.mark.parametrize("target", [Skew(), HalfLine(), Banana()])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("walkers", [1, 30])
def test_the_goal_is_reached_whatever_the_first_step(target, scale, walkers):
    rng = rng_of(1)
    start = start_at(target, target.sample(walkers, rng))
    kernel, report = calibrated(RandomWalk(scale), target, start, rng, n_steps=1000)
    assert report.reached
    assert report.goal == 0.234 + 0.206 / target.n_dimensions
    seen = fresh_acceptance(kernel, target, target.sample(2000, rng), rng, 5)
    assert seen == pytest.approx(report.goal, abs=0.06 if walkers == 30 else 0.12)


@pytest.mark.parametrize("goal", [0.15, 0.6, 0.9])
def test_any_goal_can_be_asked_for(goal):
    target, rng = Banana(), rng_of(2)
    kernel, report = calibrated(RandomWalk(), target, start_at(target, target.sample(30, rng)), rng, goal)
    assert report.reached
    assert fresh_acceptance(kernel, target, target.sample(2000, rng), rng, 5) == pytest.approx(goal, abs=0.05)


def test_acceptance_near_one_is_no_goal():
    """The slides increase the step until acceptance falls below 1: jumps would hardly be longer than nothing."""
    target, rng = Skew(), rng_of(3)
    jumps = []
    for goal in (None, 0.97):
        kernel, _ = calibrated(RandomWalk(), target, start_at(target, target.sample(30, rng)), rng, goal)
        before = target.sample(5000, rng)
        after, _ = kernel.run(target, start_at(target, before), 1, rng)
        jumps.append(((after.thetas - before) ** 2).mean())
    assert jumps[0] > 20 * jumps[1]


def test_coordinates_of_different_sizes_are_whitened():
    """Example 1 of the slides: with one length for all, the largest coordinate is hardly explored."""
    target, rng = Function(STRETCHED.log_density, 3), rng_of(4)
    start = start_at(target, np.zeros((20, 3)))  # five sds out
    kernel, report = calibrated(RandomWalk(), target, start, rng, n_steps=2000)
    assert report.reached
    np.testing.assert_allclose(np.sqrt(((kernel.cholesky) ** 2).sum(axis=1)), SD, rtol=0.4)
    relative = np.linalg.svd(np.linalg.solve(STRETCHED.cholesky, kernel.cholesky), compute_uv=False)
    assert relative[0] / relative[-1] < 2.5
    flat, blunt = calibrated(RandomWalk(), target, start, rng, n_steps=2000, whiten=False)
    assert flat.cholesky is None
    assert np.isnan(blunt.shrinkage)
    draws = STRETCHED.sample(500, rng)
    for k, least in ((kernel, 0.1), (flat, 0.0)):
        after, _ = k.run(target, start_at(target, draws), 1, rng)
        jump = ((after.thetas - draws) ** 2).mean(axis=0) / SD**2
        assert (jump > least).all()
    assert jump[2] < 1e-4


def test_the_paper_s_problem_in_twenty_dimensions():
    problem, rng = paper_problem(20), rng_of(5)
    target, gaussian = logistic_target(problem), optimal_posterior(problem)
    start = start_at(target, 0.5 * rng.standard_normal((16, 20)))
    kernel, report = calibrated(RandomWalk(), target, start, rng)
    assert report.acceptance == pytest.approx(0.2443, abs=0.03)
    relative = np.linalg.svd(np.linalg.solve(gaussian.cholesky, kernel.cholesky), compute_uv=False)
    assert relative[0] / relative[-1] < 3
    assert kernel.scale == pytest.approx(2.38 / np.sqrt(20), rel=0.25)


def test_walks_on_blocks_are_tuned_too():
    target, rng = Banana(), rng_of(6)
    start = start_at(target, target.sample(30, rng))
    kernel, report = calibrated(block(RandomWalk(), [[0], [1]]), target, start, rng)
    assert report.goal == 0.44
    assert report.reached
    assert len({part.scale for part in kernel.kernels}) == 1  # one factor for both


# --- lawful


def test_the_tuned_kernel_is_frozen_and_keeps_the_target():
    target, rng = Banana(), rng_of(7)
    first = RandomWalk()
    kernel, report = calibrated(first, target, start_at(target, target.sample(10, rng)), rng, n_steps=400)
    assert first.scale == 1.0
    z, n = invariance(kernel, target, rng)
    assert z < z_limit(n)
    paths = [kernel.run(target, report.walkers, 20, rng_of(8))[1] for _ in range(2)]
    assert np.array_equal(paths[0].thetas, paths[1].thetas)


def test_tuning_depends_on_its_generator_alone():
    target = Banana()
    start = start_at(target, target.sample(4, rng_of(9)))
    (a, first), (b, second) = (calibrated(RandomWalk(), target, start, rng_of(10), n_steps=200) for _ in range(2))
    assert a.scale == b.scale
    assert np.array_equal(a.cholesky, b.cholesky)
    assert np.array_equal(first.walkers.thetas, second.walkers.thetas)
    assert first.log_scales.shape == (200,)
    assert first.scale == pytest.approx(np.exp(first.log_scales[-50:].mean()))


def test_a_target_that_cannot_be_left_is_reported():
    target = Function(lambda x: np.where(np.abs(x[:, 0]) < 1e-300, 0.0, -np.inf), 1)
    _, report = calibrated(RandomWalk(), target, start_at(target, np.zeros((3, 1))), rng_of(11), n_steps=100)
    assert report.acceptance == 0
    assert not report.reached


# --- covariances


def test_covariances_are_shrunk_by_what_they_do_not_know():
    rng = rng_of(12)
    d = 30
    truth = Gaussian.from_covariance(np.zeros(d), 0.5 + 0.5 * np.eye(d))
    shares, errors = [], []
    for steps in (2, 20, 200):
        thetas = truth.sample(steps * 10, rng).reshape(steps, 10, d)
        factor, share = shrunk_cholesky(thetas)
        shares.append(share)
        errors.append(np.linalg.norm(factor @ factor.T - truth.covariance))
    assert shares[0] > 2 * shares[1] > 4 * shares[2] > 0
    assert errors[0] > errors[1] > errors[2]
    alone, share = shrunk_cholesky(truth.sample(400, rng)[:, None])  # one walker: stretches of its path
    assert 0 < share < 0.2
    assert np.linalg.norm(alone @ alone.T - truth.covariance) < 5


def test_autocorrelation_counts_as_ignorance():
    """The same number of points, but each repeated: broken is a rule that counts points."""
    rng = rng_of(13)
    points = STRETCHED.sample(200, rng)
    _, independent = shrunk_cholesky(points.reshape(20, 10, 3))
    _, repeated = shrunk_cholesky(np.repeat(points[:20].reshape(2, 10, 3), 10, axis=0))
    assert repeated > 2 * independent


def test_fewer_points_than_coordinates_still_make_a_factor():
    factor, share = shrunk_cholesky(np.array([[[0.0, 0.0, 0.0]], [[2.0, 4.0, -6.0]]]))
    assert share == pytest.approx(0.6)
    correlation = np.array([[1, 0.4, -0.4], [0.4, 1, -0.4], [-0.4, -0.4, 1]])
    np.testing.assert_allclose(factor @ factor.T, correlation * np.outer([1, 2, 3], [1, 2, 3]))


# --- bad input


@pytest.mark.parametrize(
    ("kernel", "options", "error", "message"),
    [
        (
            BlockIndependence(NEAR_BANANA, 1),
            {},
            ArgumentTypeError,
            "has no step to tune; calibrate the part that has one",
        ),
        (
            cycle(RandomWalk(), BlockIndependence(NEAR_BANANA, 1)),
            {},
            ArgumentTypeError,
            "of type BlockIndependence, which has no step",
        ),
        (
            RandomWalk(),
            {"goal": 1.0},
            ArgumentError,
            r"goal is 1\.0; a mean acceptance probability lies between 0 and 1",
        ),
        (RandomWalk(), {"goal": 0}, ArgumentError, "goal is 0; "),
        (RandomWalk(), {"n_steps": 99}, ArgumentError, "n_steps is 99; it must be at least 100"),
        (RandomWalk(), {"n_steps": 1e3}, ArgumentTypeError, r"n_steps is 1000\.0; it must be a whole number"),
    ],
)
def test_what_cannot_be_tuned_is_refused(kernel, options, error, message):
    target = Banana()
    with pytest.raises(error, match=message):
        calibrated(kernel, target, start_at(target, np.zeros((2, 2))), rng_of(14), **options)


def test_walkers_outside_are_refused():
    with pytest.raises(ArgumentError, match=r"walkers\[1\] has log density -inf; start where the target has mass"):
        calibrated(RandomWalk(), HalfLine(), Walkers(np.array([[1.0], [-1.0]]), np.array([-1.0, -np.inf])), rng_of(15))
