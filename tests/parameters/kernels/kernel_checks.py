"""Skewed targets that can be drawn from exactly, and what is compared: one step from there, many from elsewhere."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from doxa.estimates.store import RunHeader, create_run, open_writer
from doxa.models.logistic_factors import log_logistic
from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.kernels.kernel import Function, Kernel, start_at
from doxa.sampling.driver import Schedule, run_chains
from doxa.sampling.gaussian import Gaussian
from support.run_files import contents

Floats = NDArray[np.float64]


class Skew:
    """The logarithm of a gamma variable of this shape: a long tail to the left."""

    def __init__(self, shape=1.5):
        self.shape = shape
        self.n_dimensions = 1

    def sample(self, n, rng):
        return np.log(rng.gamma(self.shape, size=(n, 1)))

    def log_density(self, thetas):
        u = thetas[:, 0]
        with np.errstate(over="ignore"):
            return self.shape * u - np.exp(u) - gammaln(self.shape)


class Banana:
    """u as in Skew, and v normal about 0.4 u^2 + u."""

    n_dimensions = 2

    def __init__(self):
        self.u = Skew(2.0)

    def sample(self, n, rng):
        u = self.u.sample(n, rng)
        return np.column_stack([u, 0.4 * u**2 + u + 0.7 * rng.standard_normal((n, 1))])

    def log_density(self, thetas):
        u, v = thetas.T
        return self.u.log_density(thetas) - 0.5 * ((v - 0.4 * u**2 - u) / 0.7) ** 2 - np.log(0.7 * np.sqrt(2 * np.pi))


class HalfLine:
    """Gamma(2), which has no density at or below 0."""

    n_dimensions = 1

    def sample(self, n, rng):
        return rng.gamma(2.0, size=(n, 1))

    def log_density(self, thetas):
        x = thetas[:, 0]
        inside = x > 0
        return np.where(inside, np.log(np.where(inside, x, 1.0)) - x, -np.inf)


NEAR_SKEW = Gaussian(np.array([0.3]), np.array([[0.9]]))
NEAR_BANANA = Gaussian(np.array([0.2, 0.8]), np.array([[0.9, 0.0], [0.7, 1.0]]))


class Compared(NamedTuple):
    z: float
    n: int  # quantities compared


def invariance(kernel: Kernel, target, rng, n=20_000, steps=1) -> Compared:
    """Largest z-value of the changes in mean of bounded functions, from exact draws to after some steps."""
    before = target.sample(n, rng)
    after, path = kernel.run(target, start_at(target, before), steps, rng)
    check_path(target, after, path, steps)
    middle, low, high = np.quantile(before, [0.5, 0.1, 0.9], axis=0)
    edges = np.quantile(before, np.linspace(0, 1, 9)[1:-1], axis=0)

    def functions(thetas: Floats) -> Floats:
        score = np.tanh(2 * (thetas - middle) / (high - low))
        products = [score[:, i] * score[:, j] for i in range(score.shape[1]) for j in range(i + 1)]
        bins = [(thetas[:, i] > edge).astype(float) for i in range(score.shape[1]) for edge in edges[:, i]]
        return np.column_stack([score, *products, *bins])

    change = functions(after.thetas) - functions(before)
    error = change.std(axis=0) / np.sqrt(n)
    z = np.divide(change.mean(axis=0), error, out=np.zeros_like(error), where=error > 0)
    return Compared(float(np.abs(z).max()), z.size)


def convergence(kernel: Kernel, target, axes: list[Floats], start: Floats, steps, rng, n=20_000) -> Compared:
    """Largest z-value of the frequencies of the grid's cells after many steps of n walkers from one point."""
    probabilities = cell_probabilities(target, axes)
    after, _ = kernel.run(target, start_at(target, np.tile(start, (n, 1))), steps, rng)
    inside = [np.append(-np.inf, np.append(axis[1:-1], np.inf)) for axis in axes]
    counts, _ = np.histogramdd(after.thetas, bins=inside)
    expected = n * probabilities
    usable = expected >= 30
    z = (counts - expected)[usable] / np.sqrt(expected * (1 - probabilities))[usable]
    return Compared(float(np.abs(z).max()), z.size)


def cell_probabilities(target, axes: list[Floats], step=0.04) -> Floats:
    """By the midpoint rule; the outermost cells must reach to where there is nothing."""
    points, widths, begins = [], [], []
    for axis in axes:
        numbers = np.ceil(np.diff(axis) / step).astype(int)
        cells = [a + (b - a) * (np.arange(n) + 0.5) / n for (a, b), n in zip(pairwise(axis), numbers, strict=True)]
        points.append(np.concatenate(cells))
        widths.append(np.repeat(np.diff(axis) / numbers, numbers))
        begins.append(np.concatenate([[0], numbers.cumsum()[:-1]]))
    density = np.exp(target.log_density(np.stack(np.meshgrid(*points, indexing="ij"), -1).reshape(-1, len(axes))))
    mass = density.reshape([p.size for p in points]) * reduce(np.multiply.outer, widths)
    for k, begin in enumerate(begins):
        mass = np.add.reduceat(mass, begin, axis=k)
    return mass / mass.sum()


SKEW_AXES = [np.array([-14.0, -3.0, -2.0, -1.2, -0.6, -0.1, 0.3, 0.7, 1.1, 1.5, 3.5])]
BANANA_AXES = [
    np.array([-12.0, -1.5, -0.7, -0.1, 0.4, 0.8, 1.2, 3.5]),
    np.array([-6.0, -0.7, 0.0, 0.7, 1.4, 2.2, 60.0]),
]


def check_path(target, walkers, path, steps):
    n, d = walkers.thetas.shape
    assert path.thetas.shape == (steps, n, d)
    assert path.log_density.shape == path.acceptance.shape == (steps, n)
    assert np.array_equal(path.thetas[-1], walkers.thetas)
    assert np.array_equal(path.log_density[-1], walkers.log_density)
    values = target.log_density(path.thetas.reshape(-1, d)).reshape(steps, n)
    np.testing.assert_allclose(path.log_density, values, rtol=1e-9, atol=1e-9)
    assert ((path.acceptance >= 0) & (path.acceptance <= 1)).all()


def paper_problem(d, seed=0, n_rows=1000) -> LogisticRegressionProblem:
    """De Freitas et al. 2001, section 5.1: parents -1 or +1, coefficients uniform, bias 0.5, prior N(0, 100 I)."""
    rng = np.random.default_rng([seed, d])
    theta, design = 1 - rng.random(d), rng.choice([-1.0, 1.0], (n_rows, d))
    sign = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-(0.5 + design @ theta))), 1, -1)
    return make_problem(design, sign, offset=0.5, prior_covariance=100.0)


def logistic_target(problem: LogisticRegressionProblem) -> Function:
    """Log likelihood + normalised log prior."""
    prior = Gaussian.from_covariance(problem.prior_mean, problem.prior_covariance)
    rows, offset = problem.sign[:, None] * problem.design, problem.sign * problem.offset
    return Function(
        lambda thetas: log_logistic(offset + thetas @ rows.T) @ problem.counts + prior.log_density(thetas),
        problem.design.shape[1],
    )


def kept_run(path, sampler, *draws):
    """All that is in the file of a run that is gone on with until it has so many draws each time."""
    for number, n in enumerate(draws):
        header = RunHeader("toy", {}, "no data", {}, 2, thin=1, entropy=4, created="today")
        with create_run(path, header) if number == 0 else open_writer(path, header) as store:
            run_chains(sampler, Schedule(2, n, 30), seed=4, workers=1, store=store)
    return contents(path)
