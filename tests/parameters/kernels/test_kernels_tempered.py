"""Tempered transitions: exact with the weights of the whole path and reversed kernels, and across modes far apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_checks import NEAR_BANANA, NEAR_SKEW, Banana, HalfLine, Skew, invariance
from numpy.typing import NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels import tempered_transitions as module
from doxa.parameters.kernels.blocks import BlockIndependence
from doxa.parameters.kernels.combined import cycle
from doxa.parameters.kernels.kernel import (
    Function,
    Path,
    SmoothTarget,
    ValueAndGradient,
    Walkers,
    run_lockstep,
    start_at,
)
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.parameters.kernels.tempered_transitions import (
    SmoothTempered,
    Tempered,
    TemperedTransitions,
    at_power,
    tempered,
)
from doxa.sampling.gaussian import Gaussian
from doxa.sampling.importance_proposals import Mixture
from support.checks import SEED, z_limit

LADDER = (1.0, 0.5, 0.2, 0.05)
HALF = Gaussian(np.array([2.0]), np.array([[3.0]]))


def rng_of(seed):
    return np.random.default_rng([SEED, 150, seed])


def widening(beta):
    return RandomWalk(1.0 / max(beta, 0.1) ** 0.5)


# --- exactness


@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        (tempered(widening, LADDER), Skew()),
        (tempered(widening, LADDER, steps=3), Banana()),
        (tempered(RandomWalk(1.0), (1.0, 0.3)), HalfLine()),
        (tempered(widening, (*LADDER, 0.0), NEAR_SKEW), Skew()),
        (tempered(widening, (1.0, 0.4, 0.0), HALF), HalfLine()),
        (tempered(BlockIndependence(NEAR_BANANA, 1), (1.0, 0.6, 0.3), NEAR_BANANA), Banana()),
        (cycle(RandomWalk(0.5), tempered(widening, LADDER)), Banana()),
    ],
)
def test_a_transition_keeps_the_target(kernel, target):
    z, n = invariance(kernel, target, rng_of(1))
    assert z < z_limit(n)


class Unweighted(TemperedTransitions):
    """Broken twin: what was gained and lost on the way does not count."""

    def _passes(self, log_ratio, rng):
        return np.ones(len(log_ratio), dtype=bool)


class UpsideDown(TemperedTransitions):
    """Broken twin: gains for losses."""

    def _passes(self, log_ratio, rng):
        return super()._passes(-log_ratio, rng)


class EndsOnly(TemperedTransitions):
    """Broken twin: accepts by the plain ratio of the target, as if the path were a symmetric proposal."""

    def run(self, target, walkers, n_steps, rng):
        def step(walkers):
            ends, _ = Unweighted(self.kernels, self.ladder).run(target, walkers, 1, rng)
            log_ratio = ends.log_density - walkers.log_density
            accepted = np.log(rng.random(len(log_ratio))) < log_ratio
            return module.take(accepted, ends, walkers), np.exp(np.minimum(log_ratio, 0))

        return run_lockstep(step, walkers, n_steps)


@pytest.mark.parametrize("twin", [Unweighted, UpsideDown, EndsOnly])
@pytest.mark.parametrize("target", [Skew(), Banana()])
def test_broken_transitions_are_noticed(twin, target):
    ladder = LADDER[:3]
    z, n = invariance(twin([widening(beta) for beta in ladder[1:]], ladder), target, rng_of(2), n=60_000)
    assert z > z_limit(n)


# --- kernels that are not reversible: three states on a circle, of which each step favours one direction


THREE = np.array([0.5, 0.3, 0.2])


class ThreeStates:
    n_dimensions = 1

    def sample(self, n, rng):
        return rng.choice(3, size=n, p=THREE)[:, None].astype(float)

    def log_density(self, thetas):
        return np.log(THREE)[thetas[:, 0].astype(int)]


@dataclass(frozen=True)
class Carousel:
    """Flows p_i P_ij between the states, more in one direction than back."""

    against: bool = False

    def matrix(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        flow = np.full((3, 3), p.min() / 2)
        flow[[0, 1, 2], [1, 2, 0]] *= 0.9
        flow[[1, 2, 0], [0, 1, 2]] *= 0.1
        np.fill_diagonal(flow, 0)
        np.fill_diagonal(flow, p - flow.sum(axis=1))
        return (flow.T if self.against else flow) / p[:, None]

    def run(self, target, walkers, n_steps, rng):
        assert n_steps == 1
        p = np.exp(target.log_density(np.arange(3.0)[:, None]))
        cumulative = self.matrix(p / p.sum())[walkers.thetas[:, 0].astype(int)].cumsum(axis=1)
        thetas = (rng.random(len(cumulative))[:, None] > cumulative[:, :2]).sum(axis=1)[:, None].astype(float)
        values = target.log_density(thetas)
        return Walkers(thetas, values), Path(thetas[None], values[None], np.ones((1, len(values))))

    def reversed(self):
        return Carousel(not self.against)


@dataclass(frozen=True)
class StubbornCarousel(Carousel):
    """Broken twin: claims to be reversible."""

    def reversed(self):
        return self


def counts_after(kernel, n=200_000):
    target, rng = ThreeStates(), rng_of(3)
    after, _ = kernel.run(target, start_at(target, target.sample(n, rng)), 1, rng)
    counts = np.bincount(after.thetas[:, 0].astype(int), minlength=3)
    return np.abs((counts - n * THREE) / np.sqrt(n * THREE * (1 - THREE))).max()


def test_kernels_that_are_not_reversible_are_reversed_on_the_way_down():
    assert counts_after(Carousel()) < z_limit(3)
    assert counts_after(tempered(Carousel(), (1.0, 0.6, 0.2))) < z_limit(3)
    assert counts_after(tempered(StubbornCarousel(), (1.0, 0.6, 0.2))) > z_limit(3)


# --- modes


def two_modes(d, apart=7.0):
    """A quarter of the mass at -apart, with twice the sd, and the rest at +apart."""
    low, high = Gaussian(np.full(d, -apart), 2 * np.eye(d)), Gaussian(np.full(d, apart), np.eye(d))
    return Function(Mixture([low, high], [0.25, 0.75]).log_density, d)


@pytest.mark.parametrize("d", [1, 2])
def test_modes_get_their_mass_from_a_start_in_one(d):
    target = two_modes(d)
    reference = Gaussian(np.zeros(d), 8.0 * np.eye(d))
    kernel = cycle(
        RandomWalk(1.5), tempered(lambda b: RandomWalk(1.5 / (b + 0.03) ** 0.5), np.linspace(1, 0, 16) ** 2, reference)
    )
    start = start_at(target, np.full((1000, d), 7.0))
    after, _ = kernel.run(target, start, 40, rng_of(4))
    share = (after.thetas[:, 0] < 0).mean()
    assert abs(share - 0.25) < z_limit(1) * np.sqrt(0.25 * 0.75 / 1000)
    walked, _ = RandomWalk(1.5).run(target, start, 200, rng_of(5))
    assert (walked.thetas[:, 0] < 0).mean() < 0.05  # what plain walks do


# --- tempered targets


class SmoothSkew(Skew):
    def value_and_gradient(self, thetas):
        return ValueAndGradient(self.log_density(thetas), self.shape - np.exp(thetas))


def test_tempered_targets_are_powers():
    x = np.array([[-2.0], [0.5]])
    skew = Skew()
    np.testing.assert_allclose(Tempered(skew, 0.3).log_density(x), 0.3 * skew.log_density(x))
    np.testing.assert_allclose(Tempered(skew, 1.0, NEAR_SKEW).log_density(x), skew.log_density(x))
    flat = Tempered(skew, 0.0, NEAR_SKEW).log_density(x)
    assert np.diff(flat) == pytest.approx(np.diff(NEAR_SKEW.log_density(x)))
    mixed = Tempered(skew, 0.3, NEAR_SKEW).log_density(x)
    expected = 0.3 * skew.log_density(x) + 0.7 * NEAR_SKEW.log_density(x)
    assert np.diff(mixed) == pytest.approx(np.diff(expected))
    outside = Tempered(HalfLine(), 0.0, HALF).log_density(np.array([[-1.0], [1.0]]))
    assert outside[0] == -np.inf
    assert np.isfinite(outside[1])


@pytest.mark.parametrize("reference", [None, NEAR_SKEW])
def test_gradients_are_slopes(reference):
    smooth = at_power(SmoothSkew(), 0.4, reference)
    assert isinstance(smooth, SmoothTarget)
    x, h = np.array([[-2.0], [0.5], [1.0]]), 1e-6
    value, gradient = smooth.value_and_gradient(x)
    np.testing.assert_allclose(value, smooth.log_density(x))
    slope = (smooth.log_density(x + h) - smooth.log_density(x - h)) / (2 * h)
    np.testing.assert_allclose(gradient[:, 0], slope, rtol=1e-6)
    assert not isinstance(at_power(Skew(), 0.4, reference), SmoothTarget)


def test_gradients_of_correlated_references_are_slopes():
    class Flat:
        n_dimensions = 2

        def log_density(self, thetas):
            return np.zeros(len(thetas))

        def value_and_gradient(self, thetas):
            return ValueAndGradient(np.zeros(len(thetas)), np.zeros_like(thetas))

    smooth = at_power(Flat(), 0.25, NEAR_BANANA)
    assert isinstance(smooth, SmoothTempered)
    x = np.array([[1.0, -2.0], [0.3, 0.4]])
    slope = [(smooth.log_density(x + h) - smooth.log_density(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(smooth.value_and_gradient(x).gradient, np.transpose(slope), rtol=1e-6)


# --- bad input


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tempered(RandomWalk(), [0.9, 0.5]), ArgumentError, "it must begin at 1 and fall"),
        (lambda: tempered(RandomWalk(), [1.0]), ArgumentError, r"ladder is \[1\.0\]; it must begin at 1 and fall"),
        (lambda: tempered(RandomWalk(), [1.0, 0.5, 0.5]), ArgumentError, "begin at 1 and fall"),
        (lambda: tempered(RandomWalk(), [1.0, np.nan]), ArgumentError, "begin at 1 and fall"),
        (
            lambda: tempered(RandomWalk(), [1.0, 0.0]),
            ArgumentError,
            "ladder ends at 0; it must end above 0, or at 0 with",
        ),
        (lambda: tempered(RandomWalk(), [1.0, -0.5], NEAR_SKEW), ArgumentError, r"ladder ends at -0\.5"),
        (
            lambda: tempered(3, [1.0, 0.5]),
            ArgumentTypeError,
            "kernel is 3; give a kernel, or a function from beta to one",
        ),
        (lambda: tempered(lambda beta: beta, [1.0, 0.5]), ArgumentTypeError, r"kernel is 0\.5; give a kernel"),
        (lambda: tempered(RandomWalk(), [1.0, 0.5], steps=0), ArgumentError, "steps is 0; it must be at least 1"),
        (lambda: TemperedTransitions([RandomWalk()], [1, 0.5, 0.2]), ArgumentError, "1 kernels for 2 rungs after"),
        (lambda: Tempered(Skew(), 1.5), ArgumentError, r"beta is 1\.5; it must be above 0 \(0 needs a reference\)"),
        (lambda: Tempered(Skew(), 0.0), ArgumentError, r"beta is 0\.0; it must be above 0 \(0 needs a reference\) and"),
        (
            lambda: Tempered(Skew(), np.nan, NEAR_SKEW),
            ArgumentError,
            "beta is nan; it must be at least 0 and at most 1",
        ),
        (lambda: Tempered(Skew(), 0.5, NEAR_BANANA), ArgumentError, "reference has 2 coordinates; the target has 1"),
        (lambda: Tempered(Skew(), 0.5, object()), ArgumentTypeError, "reference is of type object, which has no mean"),
    ],
)
def test_what_leads_nowhere_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
