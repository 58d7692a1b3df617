"""Gaussian proposals with tails and a share of the prior: draws have the density that is said, weights are bounded."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.parameters.kernels.defensive import Defensive
from doxa.parameters.kernels.flip import Flip
from doxa.parameters.kernels.gaussians import Normal, Student
from support.checks import SEED

NARROW = Normal(np.array([1.0, -2.0]), np.array([[1.5, 0.0], [0.9, 1.2]]))
PRIOR = Student(np.array([0.0, 1.0]), np.diag([6.0, 5.0]), np.inf)
LAWS = {
    "usual": Defensive(NARROW, PRIOR),
    "more": Defensive(NARROW, PRIOR, 0.3, 2.0, 0.2),
    "no prior": Defensive(NARROW, None, 0.3, 2.0),
    "long prior": Defensive(NARROW, Student(PRIOR.mean, PRIOR.cholesky, 5.0), 0.0, 1.3, 0.3),
}


AXIS = np.linspace(-60, 60, 1801)
GRID = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1).reshape(-1, 2)
CELL = (AXIS[1] - AXIS[0]) ** 2
EDGES = [0.0, 1.0, 3.0, 6.0, 12.0, 30.0, 100.0, 1000.0, np.inf]  # squared distances from the Gaussian's mean


def shares(points, weights=None):
    """How much lies at which distance."""
    distances = (NARROW.whiten(points) ** 2).sum(axis=1)
    return np.histogram(distances, EDGES, weights=weights)[0]


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_density_that_is_said(name):
    law, n = LAWS[name], 40_000
    seen = shares(law.sample(n, np.random.default_rng([SEED, 2])))
    said = shares(GRID, np.exp(law.log_density(GRID)) * CELL)
    assert said.sum() == pytest.approx(1.0, abs=1e-3)
    assert (np.abs(seen - n * said) < 5 * np.sqrt(n * said) + 5).all()
    twin = shares(GRID, np.exp(NARROW.log_density(GRID)) * CELL)  # as if there were neither tails nor prior
    assert (np.abs(seen - n * twin) > 5 * np.sqrt(n * twin) + 5).any()


def test_weights_are_bounded_by_the_share_of_the_prior():
    axis = np.linspace(-120, 120, 401)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    law = LAWS["usual"]
    assert (PRIOR.log_density(points) - law.log_density(points)).max() <= -np.log(law.share) + 1e-9
    assert (PRIOR.log_density(points) - NARROW.log_density(points)).max() > 1000


def test_flips_take_the_law_without_the_prior_alone():
    assert Flip(LAWS["no prior"]).gaussian is LAWS["no prior"]
    with pytest.raises(ArgumentError, match="not the same on both sides"):
        Flip(LAWS["more"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NARROW, PRIOR, 0.6, 1.3, 0.4), "sum 1 or more"),
        ((NARROW, PRIOR, -0.1), "may be negative"),
        ((NARROW, PRIOR, 0.1, 0.0), "width is 0.0"),
        ((NARROW, Student(np.zeros(1), np.eye(1), np.inf)), "2 coordinates, prior 1"),
    ],
)
def test_what_is_no_mixture_is_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Defensive(*arguments)
