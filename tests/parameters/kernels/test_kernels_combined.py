"""Mixtures and cycles are the compositions that they say, in bulk or not, and keep the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_checks import BANANA_AXES, NEAR_BANANA, Banana, Skew, convergence, invariance

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.blocks import BlockIndependence, block
from doxa.parameters.kernels.combined import CycleKernel, MixtureKernel, cycle, mixture
from doxa.parameters.kernels.flip import Flip
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import Path, reverse, start_at, take
from doxa.parameters.kernels.random_walk import RandomWalk
from doxa.parameters.kernels.tempered_transitions import tempered
from doxa.parameters.samplers import ChainSampler
from support.checks import SEED, z_limit

GLOBAL, LOCAL = BlockIndependence(NEAR_BANANA, 1), RandomWalk(0.7)
VAR_MIX = mixture(GLOBAL, block(LOCAL, [[0], [1]]), weights=[0.4, 0.6])
NESTED = cycle(mixture(LOCAL, Flip(NEAR_BANANA)), VAR_MIX, Independence(NEAR_BANANA))


def rng_of(seed):
    return np.random.default_rng([SEED, 130, seed])


@dataclass(frozen=True)
class Shift:
    """Not a kernel of any target: adds a number to every coordinate, and counts how often it was asked."""

    by: float
    calls: list

    def run(self, target, walkers, n_steps, rng):
        self.calls.append(n_steps)
        thetas = walkers.thetas + self.by * np.arange(1, n_steps + 1)[:, None, None]
        values = np.stack([target.log_density(x) for x in thetas])
        return start_at(target, thetas[-1]), Path(thetas, values, np.full(values.shape, self.by))


# --- composition


def test_a_mixture_is_the_kernels_drawn_one_at_a_time():
    banana = Banana()
    start = start_at(banana, banana.sample(5, rng_of(1)))
    _, bulk = mixture(GLOBAL, LOCAL, weights=[0.3, 0.7]).run(banana, start, 40, rng_of(2))
    rng, walkers = rng_of(2), start
    for t, choice in enumerate(rng.choice(2, size=40, p=[0.3, 0.7])):
        walkers, path = (GLOBAL, LOCAL)[choice].run(banana, walkers, 1, rng)
        assert np.array_equal(path.thetas[0], bulk.thetas[t])
        assert np.array_equal(path.acceptance[0], bulk.acceptance[t])


def test_a_mixture_runs_in_bulk_and_keeps_its_shares():
    skew, ones, tens = Skew(), [], []
    kernel = mixture(Shift(1e-3, ones), Shift(1e-6, tens), weights=[0.25, 0.75])
    after, path = kernel.run(skew, start_at(skew, np.zeros((3, 1))), 4000, rng_of(3))
    n_ones = sum(ones)
    assert n_ones + sum(tens) == 4000
    assert abs(n_ones - 1000) < z_limit(1) * np.sqrt(4000 * 0.25 * 0.75)
    assert len(tens) < 0.3 * sum(tens)  # runs of 4 on average
    np.testing.assert_allclose(after.thetas, n_ones * 1e-3 + (4000 - n_ones) * 1e-6)
    assert path.thetas.shape == (4000, 3, 1)
    assert np.array_equal(path.acceptance[:, 0] == 1e-3, np.diff(path.thetas[:, 0, 0], prepend=0) > 5e-4)


def test_a_kernel_without_weight_is_never_run():
    skew, calls = Skew(), []
    mixture(RandomWalk(), Shift(9.0, calls), weights=[1.0, 0.0]).run(
        skew, start_at(skew, np.zeros((1, 1))), 50, rng_of(4)
    )
    assert calls == []


def test_a_cycle_is_its_kernels_in_turn():
    banana = Banana()
    start = start_at(banana, banana.sample(5, rng_of(5)))
    _, swept = cycle(GLOBAL, LOCAL, LOCAL).run(banana, start, 10, rng_of(6))
    rng, walkers = rng_of(6), start
    for t in range(10):
        passed = []
        for kernel in (GLOBAL, LOCAL, LOCAL):
            walkers, path = kernel.run(banana, walkers, 1, rng)
            passed.append(path.acceptance[0])
        assert np.array_equal(swept.thetas[t], walkers.thetas)
        np.testing.assert_allclose(swept.acceptance[t], np.mean(passed, axis=0), rtol=1e-15)


def test_reversal_turns_cycles_round_and_leaves_the_rest():
    a, b = RandomWalk(1.0), RandomWalk(2.0)
    assert reverse(a) is a
    assert reverse(cycle(a, b)).kernels == (b, a)
    assert reverse(mixture(a, cycle(a, b))).kernels[1].kernels == (b, a)
    assert reverse(cycle(a, BlockIndependence(NEAR_BANANA, 1))).kernels[0].blocks == ((1,), (0,))


# --- exactness


@pytest.mark.parametrize("kernel", [VAR_MIX, NESTED, mixture(LOCAL, GLOBAL, cycle(LOCAL, GLOBAL))])
@pytest.mark.parametrize("steps", [1, 5])
def test_steps_keep_the_target(kernel, steps):
    z, n = invariance(kernel, Banana(), rng_of(7), steps=steps)
    assert z < z_limit(n)


@dataclass(frozen=True)
class ChosenByPlace:
    """Broken twin: the kernel depends on where the walker stands."""

    def run(self, target, walkers, n_steps, rng):
        assert n_steps == 1
        far, path = RandomWalk(3.0).run(target, walkers, 1, rng)
        near, _ = RandomWalk(0.3).run(target, walkers, 1, rng)
        after = take(walkers.thetas[:, 0] > 0, far, near)
        return after, Path(after.thetas[None], after.log_density[None], path.acceptance)


def test_a_choice_that_depends_on_the_place_is_noticed():
    for target in (Skew(), Banana()):
        z, n = invariance(ChosenByPlace(), target, rng_of(8))
        assert z > z_limit(n)


@pytest.mark.parametrize("kernel", [VAR_MIX, NESTED])
def test_walkers_from_afar_reach_the_grid(kernel):
    z, n = convergence(kernel, Banana(), BANANA_AXES, np.array([1.5, 2.0]), 60, rng_of(9), n=4000)
    assert z < z_limit(n)


# --- under the driver

EVERY_KERNEL = [
    LOCAL,
    block(LOCAL, [[0], [1]], "random"),
    GLOBAL,
    BlockIndependence(NEAR_BANANA, [[1], [0]], "marginal", "random"),
    Flip(NEAR_BANANA),
    VAR_MIX,
    NESTED,
    tempered(LOCAL, [1.0, 0.5]),
]


@pytest.mark.parametrize("kernel", EVERY_KERNEL)
def test_draws_do_not_depend_on_the_driver_s_blocks(kernel):
    sampler = ChainSampler(Banana(), kernel, NEAR_BANANA, walkers=3, thin=2)
    runs = []
    for blocks in ([300], [2] * 5 + [290], [256, 44]):
        rng = rng_of(10)
        state, parts = sampler.init(rng), []
        for n_steps in blocks:
            state, draws, _ = sampler.run(state, n_steps, rng)
            parts.append(draws)
        runs.append({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    for run in runs[1:]:
        for name, values in run.items():
            assert np.array_equal(values, runs[0][name])
    assert np.unique(runs[0]["theta"][..., 0]).size > 100


# --- bad input


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mixture(), ArgumentError, "kernels is empty; give at least one kernel"),
        (lambda: cycle(), ArgumentError, "kernels is empty"),
        (lambda: cycle(LOCAL, 3), ArgumentTypeError, r"kernels\[1\] is 3; give a kernel, such as RandomWalk\(0\.5\)"),
        (lambda: mixture(RandomWalk), ArgumentTypeError, r"kernels\[0\] is <class"),
        (lambda: mixture(LOCAL, GLOBAL, weights=[1.0]), ArgumentError, r"weights has shape \(1,\), but there are 2"),
        (
            lambda: mixture(LOCAL, GLOBAL, weights=[1.5, -0.5]),
            ArgumentError,
            r"weights\[1\] is -0\.5; .* not be negative",
        ),
        (lambda: mixture(LOCAL, GLOBAL, weights=[np.nan, 0.5]), ArgumentError, r"weights\[0\] is nan"),
        (lambda: mixture(LOCAL, GLOBAL, weights=[0.5, 0.6]), ArgumentError, r"weights sum to 1\.1; they must sum to 1"),
        (
            lambda: cycle(LOCAL, GLOBAL).scaled(2.0),
            ArgumentTypeError,
            "of type BlockIndependence, which has no step to tune",
        ),
    ],
)
def test_what_is_no_combination_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_combinations_are_values():
    made = mixture(LOCAL, GLOBAL)
    assert isinstance(made, MixtureKernel)
    assert isinstance(cycle(made), CycleKernel)
    assert made.kernels == (LOCAL, GLOBAL)
    with pytest.raises(ValueError, match="read-only"):
        made.weights[0] = 1.0
    both = cycle(RandomWalk(1.0), RandomWalk(2.0, coordinates=[0]))
    assert [k.scale for k in both.scaled(3.0).kernels] == [3.0, 6.0]
    assert both.best_acceptance(5) == pytest.approx((0.234 + 0.206 / 5 + 0.44) / 2)
    mixed = mixture(*both.kernels, weights=[0.25, 0.75])
    assert mixed.best_acceptance(5) == pytest.approx(0.25 * (0.234 + 0.206 / 5) + 0.75 * 0.44)
    assert [k.scale for k in mixed.scaled(3.0).kernels] == [3.0, 6.0]
    assert mixed.whitened(np.eye(5)).kernels[1].scale == 2.38
