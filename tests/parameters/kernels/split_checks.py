"""Skewed targets with gradients that can be drawn from exactly, and the same trajectories accepted or made wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_checks import Banana, HalfLine, Skew, check_path
from numpy.typing import NDArray
from scipy.special import expit

from doxa.errors import ArgumentError
from doxa.models.logistic_factors import log_logistic
from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.kernels.kernel import Path, TargetError, ValueAndGradient, Walkers, start_at
from doxa.parameters.kernels.trajectory import Phase, Whitening
from doxa.parameters.samplers import ChainSampler
from doxa.sampling.driver import Schedule, sample
from doxa.sampling.gaussian import Gaussian

Floats = NDArray[np.float64]


class SmoothSkew(Skew):
    """The logarithm of a gamma variable."""

    def value_and_gradient(self, thetas):
        with np.errstate(over="ignore"):
            return ValueAndGradient(self.log_density(thetas), self.shape - np.exp(thetas))


class SmoothBanana(Banana):
    def value_and_gradient(self, thetas):
        u, v = thetas.T
        with np.errstate(over="ignore"):
            away = (v - 0.4 * u**2 - u) / 0.49
            gradient = np.column_stack([self.u.shape - np.exp(u) + away * (0.8 * u + 1), -away])
        return ValueAndGradient(self.log_density(thetas), gradient)


class TwoSlopes:
    """An asymmetric double exponential: density exp(2 x) below 0, exp(-x) above, so a kink at 0."""

    n_dimensions = 1

    def sample(self, n, rng):
        up = rng.random((n, 1)) < 2 / 3
        size = rng.standard_exponential((n, 1))
        return np.where(up, size, -size / 2)

    def log_density(self, thetas):
        return np.where(thetas > 0, -thetas, 2 * thetas)[:, 0]

    def value_and_gradient(self, thetas):
        return ValueAndGradient(self.log_density(thetas), np.where(thetas > 0, -1.0, 2.0))


class SmoothHalfLine(HalfLine):
    """Gamma(2), whose gradient is not a number where it has no density."""

    def value_and_gradient(self, thetas):
        gradient = np.where(thetas > 0, 1 / np.where(thetas > 0, thetas, 1.0) - 1, np.nan)
        return ValueAndGradient(self.log_density(thetas), gradient)


class LogisticPosterior:
    """Log likelihood + log prior of a logistic regression, normalised, from the problem as it stands."""

    def __init__(self, problem: LogisticRegressionProblem) -> None:
        self.problem = problem
        self.n_dimensions = problem.design.shape[1]
        self.prior = Gaussian.from_covariance(problem.prior_mean, problem.prior_covariance)
        self.precision = self.prior.precision()
        self.rows = problem.sign[:, None] * problem.design
        self.offset = problem.sign * problem.offset
        self.n_evaluated = 0

    def log_density(self, thetas):
        self.n_evaluated += len(thetas)
        return log_logistic(self.offset + thetas @ self.rows.T) @ self.problem.counts + self.prior.log_density(thetas)

    def value_and_gradient(self, thetas):
        logits = self.offset + thetas @ self.rows.T
        pull = (expit(-logits) * self.problem.counts) @ self.rows - (thetas - self.prior.mean) @ self.precision
        return ValueAndGradient(self.log_density(thetas), pull)


def two_coefficients() -> LogisticPosterior:
    """Six cases, a prior that matters: skewed and correlated."""
    design = [[1.0, 0.5], [1.0, -2.0], [1.0, 3.0], [1.0, 1.0], [1.0, 2.0], [1.0, 0.0]]
    return LogisticPosterior(make_problem(design, [1, -1, 1, 1, 1, -1], prior_covariance=[[9.0, 2.0], [2.0, 4.0]]))


TWO_AXES = [
    np.array([-12.0, -3.5, -2.0, -1.0, -0.2, 0.8, 2.0, 12.0]),
    np.array([-4.0, 0.2, 0.8, 1.3, 1.8, 2.4, 3.2, 10.0]),
]


class AsTarget:
    """A Gaussian as the target."""

    def __init__(self, gaussian: Gaussian) -> None:
        self.gaussian = gaussian
        self.n_dimensions = gaussian.mean.size

    def sample(self, n, rng):
        return self.gaussian.sample(n, rng)

    def log_density(self, thetas):
        return self.gaussian.log_density(thetas)

    def value_and_gradient(self, thetas):
        return ValueAndGradient(self.log_density(thetas), -(thetas - self.gaussian.mean) @ self.gaussian.precision())


class Broken:
    """Returns whatever it was told to."""

    def __init__(self, value, gradient, d=2):
        self.value, self.gradient, self.n_dimensions = value, gradient, d

    def log_density(self, thetas):
        return np.zeros(len(thetas))

    def value_and_gradient(self, thetas):
        return ValueAndGradient(*(np.asarray(part) for part in (self.value, self.gradient)))


BROKEN: list[tuple[Any, type[Exception], str]] = [
    (Broken(np.zeros(3), np.zeros((3, 1))), TargetError, r"has shapes \(3,\) and \(3, 1\); return one number and one"),
    (
        Broken([0.0, np.nan, 0.0], np.zeros((3, 2))),
        TargetError,
        r"the log density is nan at \[0. 0.\]; it must be fini",
    ),
    (Broken([0.0, np.inf, 0.0], np.zeros((3, 2))), TargetError, "the log density is inf at"),
    (Broken(np.zeros(3), np.full((3, 2), np.nan)), TargetError, r"the gradient is \[nan nan\] at"),
    (Broken(np.zeros(3), np.zeros((3, 2)), d=3), ArgumentError, "target has 3 coordinates, but .* was made for 2"),
]


def differences(target, thetas: Floats) -> Floats:
    """Central differences of the log density."""
    h = 1e-5
    shifts = h * np.eye(thetas.shape[1])
    return np.array([target.log_density(thetas + e) - target.log_density(thetas - e) for e in shifts]).T / (2 * h)


@dataclass(frozen=True)
class Wrong:
    """Trajectories by ``trajectory(target, phase, momenta, rng)``, accepted with or without the kinetic term."""

    whitening: Whitening
    trajectory: Callable[..., tuple[Phase, Floats]]
    kinetic: bool = True

    def run(self, target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        phase = self.whitening.begin(target, walkers.thetas)
        parts = []
        for _ in range(n_steps):
            momenta = rng.standard_normal(phase.y.shape)
            end, final = self.trajectory(target, phase, momenta, rng)
            log_ratio = end.value - phase.value
            if self.kinetic:
                log_ratio = log_ratio + 0.5 * (momenta**2 - final**2).sum(axis=1)
            accepted = np.log1p(-rng.random(len(log_ratio))) < log_ratio
            pairs = zip(end, phase, strict=True)
            phase = Phase(*(np.where(accepted[:, None] if a.ndim > 1 else accepted, a, b) for a, b in pairs))
            parts.append((phase.thetas, phase.value, np.exp(np.minimum(log_ratio, 0.0))))
        return Walkers(phase.thetas, phase.value), Path(*(np.array(part) for part in zip(*parts, strict=True)))


def log_volume(trajectory: Callable[[Floats, Floats], tuple[Floats, Floats]], y: Floats, v: Floats) -> float:
    """Logarithm of the Jacobian determinant of (y, v) -> (y', v') at one point, by central differences."""
    h, d = 1e-5, y.size
    at = np.concatenate([y, v])
    shifted = np.concatenate([at + h * np.eye(2 * d), at - h * np.eye(2 * d)])
    ends = np.concatenate(trajectory(shifted[:, :d], shifted[:, d:]), axis=1)
    return float(np.linalg.slogdet((ends[: 2 * d] - ends[2 * d :]) / (2 * h))[1])


def check_reproducible(kernel, target, start) -> None:
    """The same draws again, whole or in blocks, and by the driver whatever its workers."""
    walkers = start_at(target, start.sample(5, np.random.default_rng(0)))
    once, twice = (kernel.run(target, walkers, 7, np.random.default_rng(3)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(once[1], twice[1], strict=True))
    check_path(target, *once, 7)
    sampler = ChainSampler(target, kernel, start, walkers=4, thin=2)
    whole = sample(sampler, Schedule(2, 300, 10), seed=4, workers=1)
    parts = sample(sampler, Schedule(2, 300, 10), seed=4, workers=2, block=37)
    assert np.array_equal(whole["theta"], parts["theta"])
    assert whole["theta"].shape == (2, 300, 4, target.n_dimensions)
