"""Random logistic regressions, and their exact posteriors on fine grids."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.variational.bound import log_logistic


class Exact(NamedTuple):
    log_evidence: float
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def sd(self):
        return np.sqrt(np.diag(self.covariance))


def random_problem(rng, n_rows, d, *, scale=1.0, prior_sd=3.0, binary=False, bias=0.5, counts=False, full=False):
    design = rng.choice([-1.0, 1.0], (n_rows, d)) if binary else rng.standard_normal((n_rows, d))
    theta = scale * rng.standard_normal(d)
    sign = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-(bias + design @ theta))), 1, -1)
    covariance = prior_sd**2 * np.eye(d)
    if full:
        root = np.eye(d) + 0.4 * rng.standard_normal((d, d))
        covariance = prior_sd**2 * root @ root.T
    return make_problem(
        design,
        sign,
        counts=rng.integers(1, 6, n_rows) if counts else None,
        offset=bias + 0.3 * rng.standard_normal(n_rows) if full else bias,
        prior_mean=0.5 * rng.standard_normal(d) if full else 0.0,
        prior_covariance=covariance,
    )


def log_joint(problem: LogisticRegressionProblem, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log likelihood + normalised log prior at each row of thetas."""
    away = thetas - problem.prior_mean
    _, log_det = np.linalg.slogdet(problem.prior_covariance)
    log_prior = -0.5 * (
        np.einsum("nd,nd->n", away @ np.linalg.inv(problem.prior_covariance), away)
        + log_det
        + thetas.shape[1] * np.log(2 * np.pi)
    )
    logits = problem.sign[:, None] * (problem.offset[:, None] + problem.design @ thetas.T)
    return log_prior + problem.counts @ log_logistic(logits)


def exact(problem: LogisticRegressionProblem, centre, sd, n: int | None = None, reach: float = 14.0) -> Exact:
    """By the trapezoidal rule over centre +- reach sd, in one or two dimensions: its error there is far below 1e-8."""
    d = len(centre)
    n = n or (6001 if d == 1 else 401)
    axes = [np.linspace(c - reach * s, c + reach * s, n) for c, s in zip(centre, sd, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    log_p = log_joint(problem, points)
    peak = log_p.max()
    p = np.exp(log_p - peak)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    mean = p @ points / p.sum()
    away = points - mean
    return Exact(float(np.log(p.sum() * cell) + peak), mean, (away * p[:, None]).T @ away / p.sum())


def expand(problem: LogisticRegressionProblem) -> LogisticRegressionProblem:
    """Each row as often as its count says."""
    times = problem.counts.astype(int)
    return problem._replace(
        design=np.repeat(problem.design, times, axis=0),
        sign=np.repeat(problem.sign, times),
        offset=np.repeat(problem.offset, times),
        counts=np.ones(times.sum()),
    )


def log_predictive(mean, variance):
    """log of the integral of g(h) N(h; mean, variance), by the trapezoidal rule; variance up to 64."""
    z = np.linspace(-12, 21, 1651)
    out = np.empty(len(mean))
    for start in range(0, len(mean), 1000):
        part = slice(start, start + 1000)
        log_f = log_logistic(mean[part, None] + np.sqrt(variance[part, None]) * z) - 0.5 * z * z
        peak = log_f.max(axis=1)
        out[part] = np.log(np.exp(log_f - peak[:, None]).sum(axis=1)) + peak
    return out + np.log(z[1] - z[0]) - 0.5 * np.log(2 * np.pi)
