"""Random-walk Metropolis: exact in one and two dimensions, moving only what it is told to, refusing what is no step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_checks import BANANA_AXES, SKEW_AXES, Banana, HalfLine, Skew, cell_probabilities, convergence, invariance
from scipy.special import gammaln, ndtr

from doxa.errors import ArgumentError
from doxa.parameters.kernels.kernel import Function, TargetError, decide, run_lockstep, start_at
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED, z_limit

SHAPE = np.array([[1.0, 0.0], [0.9, 0.6]])


def rng_of(seed):
    return np.random.default_rng([SEED, 100, seed])


@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        (RandomWalk(1.5), Skew()),
        (RandomWalk(1.2), HalfLine()),
        (RandomWalk(0.8), Banana()),
        (RandomWalk(1.2, SHAPE), Banana()),
        (RandomWalk(1.2, SHAPE, [1]), Banana()),
    ],
)
def test_a_step_keeps_the_target(kernel, target):
    z, n = invariance(kernel, target, rng_of(1))
    assert z < z_limit(n)


@dataclass(frozen=True)
class GrowingWalk:
    """Broken twin: longer steps further right, without the Hastings term."""

    def run(self, target, walkers, n_steps, rng):
        def step(walkers):
            noise = rng.standard_normal(walkers.thetas.shape)
            return decide(target, walkers, walkers.thetas + np.exp(0.3 * walkers.thetas) * noise, 0.0, rng)

        return run_lockstep(step, walkers, n_steps)


@dataclass(frozen=True)
class Unrejected:
    """Broken twin: every proposal is accepted."""

    def run(self, target, walkers, n_steps, rng):
        def step(walkers):
            proposed = walkers.thetas + 0.3 * rng.standard_normal(walkers.thetas.shape)
            return start_at(target, proposed), np.ones(len(proposed))

        return run_lockstep(step, walkers, n_steps)


@pytest.mark.parametrize("twin", [GrowingWalk(), Unrejected()])
@pytest.mark.parametrize("target", [Skew(), Banana()])
def test_broken_walks_are_noticed(twin, target):
    z, n = invariance(twin, target, rng_of(2))
    assert z > z_limit(n)


@pytest.mark.parametrize(
    ("kernel", "target", "axes", "steps"),
    [(RandomWalk(2.0), Skew(), SKEW_AXES, 80), (RandomWalk(1.3, SHAPE), Banana(), BANANA_AXES, 150)],
)
def test_walkers_from_afar_reach_the_grid(kernel, target, axes, steps):
    start = np.full(target.n_dimensions, 3.0)
    z, n = convergence(kernel, target, axes, start, steps, rng_of(3))
    assert z < z_limit(n)
    z, n = convergence(kernel, target, axes, start, 3, rng_of(3))  # not yet
    assert z > z_limit(n)


def test_the_steps_of_some_coordinates_are_those_given_the_others():
    covariance = np.array([[2.0, 0.7, -0.4], [0.7, 1.0, 0.3], [-0.4, 0.3, 1.5]])
    flat = Function(lambda x: np.zeros(len(x)), 3)
    walk = RandomWalk(0.5, np.linalg.cholesky(covariance), [2, 0])
    n = 100_000
    after, path = walk.run(flat, start_at(flat, np.zeros((n, 3))), 1, rng_of(4))
    assert (path.acceptance == 1).all()
    assert (after.thetas[:, 1] == 0).all()
    given = Gaussian.from_covariance(np.zeros(3), covariance).conditional([2, 0], [0.0]).covariance
    error = np.sqrt(given.diagonal()[:, None] * given.diagonal() + given**2) / np.sqrt(n)
    assert (np.abs(4 * np.cov(after.thetas[:, [2, 0]].T) - given) < z_limit(3) * error).all()
    assert (np.abs(given - covariance[np.ix_([2, 0], [2, 0])]) > z_limit(3) * error).any()  # of the marginal it is not


def test_kernels_are_values():
    walk = RandomWalk(0.5, SHAPE)
    assert walk.scaled(4.0).scale == 2.0
    assert walk.scaled(4.0).cholesky is not SHAPE
    assert walk.whitened(np.eye(2)).scale == pytest.approx(2.38 / np.sqrt(2))
    assert walk.within([1]).whitened(np.eye(2)).scale == pytest.approx(2.38)
    assert walk.within(np.array([1])).coordinates == (1,)
    with pytest.raises(ValueError, match="read-only"):
        walk.cholesky[0, 0] = 2.0


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10, 50])
def test_the_goal_is_near_the_acceptance_of_the_longest_jumps(d):
    """On N(0, I): mean squared jump and acceptance as integrals over the length r of a standard step."""
    r = np.linspace(0, np.sqrt(d) + 8, 4001)[1:]
    density = np.exp((d - 1) * np.log(r) - r * r / 2 - (d / 2 - 1) * np.log(2) - gammaln(d / 2))
    density /= density.sum()
    sizes = np.linspace(0.1, 3, 1000)[:, None]
    passed = 2 * ndtr(-sizes * r / 2)
    best = np.argmax((sizes * r) ** 2 * passed @ density[:, None], axis=0)[0]
    acceptance = float(passed[best] @ density)
    assert RandomWalk().best_acceptance(d) == pytest.approx(acceptance, abs=0.015)
    if d == 1:
        assert acceptance == pytest.approx(0.44, abs=0.005)
    if d == 50:
        assert acceptance == pytest.approx(0.234, abs=0.01)


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), r"scale is 0\.0; it must be a finite number above 0"),
        ((np.inf,), "scale is inf; it must be a finite number above 0"),
        ((np.nan,), "scale is nan"),
        ((1.0, np.ones(3)), r"cholesky has shape \(3,\); it must be \(3, 3\)"),
        ((1.0, 2.0), r"cholesky has shape \(\); it must be \(d, d\)"),
        ((1.0, np.ones((2, 2))), "cholesky must be lower triangular and finite with a positive diagonal"),
        ((1.0, -np.eye(2)), "positive diagonal"),
        ((1.0, np.eye(2), [0, 2]), r"coordinates is \[0, 2\]; indices are 0\.\.1"),
        ((1.0, None, [0, 0]), r"coordinates is \[0, 0\]; it must name at least one coordinate, each once"),
        ((1.0, None, [-1]), r"coordinates is \[-1\]; indices start at 0"),
        ((1.0, None, []), r"coordinates is \[\]; it must name at least one"),
    ],
)
def test_what_is_no_walk_is_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        RandomWalk(*arguments)


def test_a_target_of_another_size_is_refused():
    target = Skew()
    walkers = start_at(target, np.zeros((3, 1)))
    with pytest.raises(ArgumentError, match="target has 1 coordinates, but RandomWalk was made for 2"):
        RandomWalk(1.0, np.eye(2)).run(target, walkers, 1, rng_of(5))
    with pytest.raises(ArgumentError, match=r"coordinates is \(1,\); indices are 0\.\.0"):
        RandomWalk(1.0, None, [1]).run(target, walkers, 1, rng_of(5))


def test_a_density_that_is_no_number_is_an_error():
    broken = Function(lambda x: np.where(x[:, 0] > 2, np.nan, 0.0), 1)
    with pytest.raises(TargetError, match="the log density is nan at"):
        RandomWalk(1.0).run(broken, start_at(broken, np.zeros((10, 1))), 100, rng_of(6))


# --- the checks themselves


@pytest.mark.parametrize(("target", "axes"), [(Skew(), SKEW_AXES), (Banana(), BANANA_AXES)])
def test_the_grid_agrees_with_exact_draws(target, axes):
    """No kernel: walkers that begin at draws and stay."""
    n = 400_000
    probabilities = cell_probabilities(target, axes)
    inside = [np.append(-np.inf, np.append(axis[1:-1], np.inf)) for axis in axes]
    counts, _ = np.histogramdd(target.sample(n, rng_of(7)), bins=inside)
    usable = n * probabilities >= 30
    z = ((counts - n * probabilities) / np.sqrt(n * probabilities * (1 - probabilities)))[usable]
    assert np.abs(z).max() < z_limit(z.size)
