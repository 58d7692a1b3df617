"""Bridge sampling against known integrals, with an error that covers; pilots, and mixtures fitted to targets."""

from __future__ import annotations

import numpy as np
import pytest
from parameter_cases import bimodal_on_grid

from doxa.errors import ArgumentError
from doxa.estimates.bridge import bridge
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.pilot import judge_pilot, run_pilot, tail_shape
from doxa.parameters.population import curvature_at, find_modes, fit_mixture, mixture_at
from support.checks import z_limit


def normal_weights(rng, *, correlation=0.0, off_by=0.0, n=400):
    """Log weights of a standard normal, times e^off_by, against N(0.3, 1.2^2): at draws of both."""
    inside = rng.standard_normal((4, n))
    if correlation:
        noise = np.sqrt(1 - correlation**2)
        for t in range(1, n):
            inside[:, t] = correlation * inside[:, t - 1] + noise * inside[:, t]
    outside = 0.3 + 1.2 * rng.standard_normal(n)

    def log_weight(x):
        return off_by - 0.5 * x**2 + 0.5 * ((x - 0.3) / 1.2) ** 2 + np.log(1.2)

    return log_weight(inside), log_weight(outside)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_bridge_covers_the_log_integral(correlation):
    rng = np.random.default_rng(7)
    z = []
    for _ in range(150):
        estimate = bridge(*normal_weights(rng, correlation=correlation, off_by=-500.0))
        z.append((estimate.value + 500.0) / estimate.mcse)
    z = np.array(z)
    assert abs(z.mean()) < z_limit(1) / np.sqrt(150) + 0.1
    assert 0.75 < z.std() < 1.25  # a standard error of 0.06
    # the broken twin: draws taken for independent
    if correlation:
        shuffled = []
        for _ in range(60):
            inside, outside = normal_weights(rng, correlation=0.95)
            mixed = rng.permutation(inside.ravel()).reshape(inside.shape)
            estimate = bridge(mixed, outside)
            shuffled.append(estimate.value / estimate.mcse)
        assert np.std(shuffled) > 1.3


@pytest.mark.parametrize(
    ("inside", "outside", "said"),
    [
        (np.zeros((2, 3)), np.zeros(5), "shapes"),
        (np.zeros(9), np.zeros(5), "shapes"),
        (np.full((2, 9), -np.inf), np.zeros(5), "not a number"),
        (np.zeros((2, 9)), np.array([0.0, np.nan]), "not a number"),
        (np.zeros((2, 9)), np.full(4, -np.inf), "none of 4 draws"),
    ],
)
def test_weights_that_tell_nothing_are_refused(inside, outside, said):
    with pytest.raises(ArgumentError, match=said):
        bridge(inside, outside)


@pytest.mark.parametrize("df", [1.0, 4.0, np.inf])
def test_a_student_s_density_is_that_of_its_draws(df):
    law = Student(np.array([1.0, -2.0]), np.array([[1.5, 0.0], [0.5, 0.7]]), df)
    rng = np.random.default_rng(3)
    draws = law.sample(200_000, rng)
    axes = [np.linspace(-7, 9, 400), np.linspace(-7, 3, 400)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    density = np.exp(law.log_density(points)) * cell
    shares = [(draws[:, 0] < 0).mean(), ((draws**2).sum(axis=1) < 4).mean()]
    exact = [density[points[:, 0] < 0].sum(), density[(points**2).sum(axis=1) < 4].sum()]
    box = (np.abs(draws[:, 0] - 1) < 8) & (np.abs(draws[:, 1] + 2) < 5)
    assert density.sum() == pytest.approx(box.mean(), abs=5 * 0.5 / np.sqrt(200_000) + 0.01)
    assert shares[1] == pytest.approx(exact[1], abs=0.006)
    if df > 1:
        assert shares[0] == pytest.approx(exact[0], abs=0.01)


def test_no_degrees_of_freedom_are_refused():
    with pytest.raises(ArgumentError, match="df is 0"):
        Student(np.zeros(1), np.eye(1), 0.0)


def test_the_tail_s_shape_is_found():
    rng = np.random.default_rng(4)
    for k, low, high in (
        (0.2, 0.14, 0.26),
        (0.5, 0.44, 0.56),
        (0.8, 0.6, 0.8),
    ):
        found = [tail_shape(-k * np.log(rng.random(4000))) for _ in range(20)]
        assert low < np.mean(found) < high
    assert tail_shape(np.zeros(100)) == -np.inf


def test_a_pilot_tells_good_from_bad():
    rng = np.random.default_rng(5)
    good, bad = Student(np.zeros(3), np.eye(3), np.inf), Student(np.zeros(3), 0.4 * np.eye(3), np.inf)
    assert run_pilot(_Normal(), good, rng).efficiency == pytest.approx(1.0)
    assert not run_pilot(_Normal(), bad, rng).good
    assert judge_pilot(np.full(50, -np.inf)).efficiency == 0.0


class _Normal:
    n_dimensions = 3

    def log_density(self, thetas):
        return -0.5 * (thetas**2).sum(axis=1)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_mixture_learns_a_posterior_with_two_modes(seed):
    _, _, target, grid = bimodal_on_grid(seed)
    rng = np.random.default_rng(seed)
    modes = find_modes(target, 3 * rng.standard_normal((16, 2)))
    assert len(modes) == 2
    for mode in modes:
        assert np.abs(target.value_and_gradient(mode.mean[None]).gradient).max() < 1e-3
    first = mixture_at(modes)
    before = run_pilot(target, first, rng)
    mixture, after = fit_mixture(target, first, rng)
    assert after.efficiency > max(0.5, before.efficiency)
    draws = np.asarray(mixture.sample(20_000, rng))
    weights = np.exp(target.log_density(draws) - mixture.log_density(draws))
    minor = weights[draws[:, 0] < 0].sum() / weights.sum()
    exact = grid.probability[grid.points[:, 0] < 0].sum()
    # a ratio of means: its error from the weights
    error = np.sqrt((weights**2 * ((draws[:, 0] < 0) - minor) ** 2).sum()) / weights.sum()
    assert abs(minor - exact) < 5 * error < 0.03


def test_curvature_of_a_gaussian_is_its_precision():
    class Bent:
        n_dimensions = 2
        precision = np.array([[3.0, 1.0], [1.0, 2.0]])

        def log_density(self, thetas):
            return -0.5 * np.einsum("ni,ij,nj->n", thetas, self.precision, thetas)

        def value_and_gradient(self, thetas):
            return self.log_density(thetas), -thetas @ self.precision

    factor = curvature_at(Bent(), np.array([0.3, -0.2]))
    np.testing.assert_allclose(factor @ factor.T, np.linalg.inv(Bent.precision), rtol=1e-6)
