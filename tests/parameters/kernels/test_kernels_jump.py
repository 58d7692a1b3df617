"""Jumps between modes keep the target, of modes of different shapes and masses too; a volume left out is seen."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.parameters.kernels import Jump, RandomWalk, cycle
from doxa.parameters.kernels import independence as room
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.kernels.kernel import Function, start_at
from doxa.sampling.importance_proposals import Mixture
from support.checks import SEED, z_limit

SHAPES = [
    ([-8.0, 0.0], [[1.0, 0.0], [0.5, 0.3]]),
    ([6.0, 4.0], [[0.4, 0.0], [0.0, 1.5]]),
    ([0.0, 9.0], [[2.0, 0], [1, 1]]),
]
MODES = [Student(np.array(mean), np.array(root), 6.0) for mean, root in SHAPES]  # of heavier tails than Gaussians
LAW = Mixture(MODES, [0.6, 0.3, 0.1])
TARGET = Function(LAW.log_density, 2)


def drift(kernel, n=6000, steps=10):
    """Largest z over masses, means and squares of walkers that began at exact draws."""
    rng = np.random.default_rng([SEED, 3])
    walkers, _ = kernel.run(TARGET, start_at(TARGET, LAW.sample(n, rng)), steps, rng)
    fresh = np.asarray(LAW.sample(400_000, rng))

    def numbers(x):
        nearest = ((x[:, None] - np.array([mode.mean for mode in MODES])) ** 2).sum(axis=2).argmin(axis=1)
        return np.column_stack([nearest == 0, nearest == 1, np.tanh(x / 4), x * np.exp(-np.abs(x))])

    ours, exact = numbers(walkers.thetas), numbers(fresh)
    error = exact.std(axis=0) * np.sqrt(1 / n + 1 / len(fresh))
    return np.abs((ours.mean(axis=0) - exact.mean(axis=0)) / error).max()


def test_jumps_keep_the_target():
    assert drift(Jump(MODES)) < z_limit(6)
    assert drift(cycle(Jump(MODES), RandomWalk(0.7))) < z_limit(6)


def test_a_volume_left_out_would_be_seen(monkeypatch):
    whole = room.decide
    monkeypatch.setattr(room, "decide", lambda target, now, proposed, _, rng: whole(target, now, proposed, 0.0, rng))
    assert drift(Jump(MODES)) > z_limit(6)


def test_chains_that_begin_in_one_mode_find_the_masses_of_all():
    rng = np.random.default_rng([SEED, 4])
    begin = start_at(TARGET, np.tile(MODES[2].mean, (8, 1)))
    _, path = cycle(Jump(MODES), RandomWalk(0.7)).run(TARGET, begin, 4000, rng)
    nearest = ((path.thetas[500:, :, None] - np.array([m.mean for m in MODES])) ** 2).sum(axis=3).argmin(axis=2)
    exact = np.asarray(LAW.sample(400_000, rng))
    masses = np.bincount(((exact[:, None] - [m.mean for m in MODES]) ** 2).sum(axis=2).argmin(axis=1)) / len(exact)
    found = np.array([(nearest == k).mean(axis=0) for k in range(3)])  # of each walker
    z = (found.mean(axis=1) - masses) / (found.std(axis=1, ddof=1) / np.sqrt(8))
    assert np.abs(z).max() < 5.4  # of a t distribution with 7 degrees of freedom: one in a thousand


def test_a_jump_needs_two_modes():
    with pytest.raises(ArgumentError, match="gaussians has 1; a jump is between two modes at least"):
        Jump(MODES[:1])
