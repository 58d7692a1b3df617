"""Mixtures fitted by weighted draws: they get better, and find what ascents did not."""

from __future__ import annotations

import numpy as np
from parameter_cases import bimodal

from doxa.models.logistic_parts import independent_parts
from doxa.parameters.approximate import approximate
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.kernels.kernel import Function
from doxa.parameters.pilot import run_pilot
from doxa.parameters.population import Mode, fit_mixture, grow_mixture, mixture_at

WIDE = Student(np.zeros(2), 5.0 * np.eye(2), 5.0)


def banana(thetas):
    """x standard normal times two, y = x^2 / 2 plus noise."""
    x, y = thetas.T
    return -(x**2) / 8 - 2 * (y - x**2 / 2) ** 2


BENT = Function(banana, 2)
START = mixture_at([Mode(np.zeros(2), 0.0, np.diag([2.0, 0.5]))])


def test_components_are_split_until_they_follow_a_bend():
    rng = np.random.default_rng(1)
    one, _ = fit_mixture(BENT, START, rng, wide=WIDE)
    many, told = grow_mixture(BENT, START, rng, WIDE)
    before, after = (run_pilot(BENT, mixture, rng, 20_000) for mixture in (one, many))
    assert len(many.components) > 4
    assert after.efficiency > 1.5 * before.efficiency
    assert after.efficiency > 0.8 * told.efficiency  # what was told was not luck


def test_the_wide_component_stays_as_it_is():
    grown, _ = grow_mixture(BENT, START, np.random.default_rng(2), WIDE)
    assert grown.components[-1] is WIDE
    assert grown.weights[-1] == 0.1
    thetas = np.random.default_rng(3).uniform(-50, 50, (1000, 2))
    assert (grown.log_density(thetas) >= np.log(0.1) + WIDE.log_density(thetas) - 1e-12).all()


def test_as_many_components_as_allowed():
    grown, _ = grow_mixture(BENT, START, np.random.default_rng(2), WIDE, most=2)
    assert len(grown.components) <= 3


def test_a_mode_that_climbs_missed_is_found_by_wide_draws(monkeypatch):
    from doxa.parameters import approximate as room

    network, table = bimodal(1)
    (part,) = independent_parts(network, table)
    far = np.array([[5.0, 0.5]])  # one ascent, to the major mode
    monkeypatch.setattr(room, "_starts", lambda *_: far)
    found = approximate(network, part, table, None, np.random.default_rng(1))
    assert len(found.modes) == 2
    monkeypatch.setattr(room, "_modes", lambda target, starts, _: room.find_modes(target, starts))
    assert len(approximate(network, part, table, None, np.random.default_rng(1)).modes) == 1


def test_the_prior_of_a_joint_target_has_its_spread():
    network, table = bimodal(0)
    (part,) = independent_parts(network, table)
    mean, cholesky = JointTarget(network, part, table).prior_spread
    prior = network.prior("y")
    assert np.allclose(mean, prior.mean)
    assert np.allclose(cholesky @ cholesky.T, prior.covariance)
