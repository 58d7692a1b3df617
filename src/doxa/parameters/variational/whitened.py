r"""A logistic regression in coordinates where the prior is standard and every outcome is a success.

With the prior's mean m and Cholesky factor L, :math:`\theta = m + L u` and u is standard normal a priori; with the
outcome's sign taken into the row, the likelihood is :math:`\prod_t g(h_t)^{n_t}`, h = offset + rows @ u.  Every
Gaussian of this room has the precision :math:`I + \sum_t w_t x_t x_t^T` there with weights w that are not negative, so
its smallest eigenvalue is at least 1 and no factorisation fails, whatever the columns.

Anderson's method: the next point of a fixed-point iteration, from its last few steps.

If a step takes x to f(x), the combination of past x whose changes f(x) - x cancel best points at the fixed point; the
same combination of their f(x) is where to go (Anderson 1965, with Walker & Ni's (2011) differences).  It guarantees
nothing: a caller that maximises a bound checks it, and takes the plain step where the extrapolated one falls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, qr
from scipy.linalg.lapack import dpotrf, dtrtri

from doxa.arrays import Floats
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.sampling.gaussian import GaussianPosterior

__all__ = [
    "Whitened",
    "conditioned",
    "covariance_factor",
    "divergence",
    "extrapolate",
    "row_variances",
    "to_posterior",
    "whiten",
]


def extrapolate(changes: list[NDArray[np.float64]], ends: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Where to go from the last of some points."""
    if len(ends) == 1 or ends[-1].size == 0:
        return ends[-1]
    apart = np.diff(np.array(changes), axis=0)
    gram = apart @ apart.T
    gram.flat[:: len(gram) + 1] += 1e-10 * np.trace(gram) + 1e-300  # keeps the shares finite; any shares are lawful
    shares = np.linalg.solve(gram, apart @ changes[-1])
    return np.asarray(ends[-1] - shares @ np.diff(np.array(ends), axis=0))


_WORST_PIVOT = 1e-8  # relative to the largest: half of the digits are left; QR of the rows keeps the other half


class Whitened(NamedTuple):
    """Rows of a problem in whitened coordinates."""

    rows: Floats  # (rows, d), times the outcome's sign
    offset: Floats  # (rows,), times the outcome's sign, with the prior mean's share
    counts: Floats  # (rows,)
    prior_mean: Floats  # (d,)
    prior_cholesky: Floats  # (d, d), lower


def whiten(problem: LogisticRegressionProblem) -> Whitened:
    """Change coordinates; new arrays."""
    root = cholesky(problem.prior_covariance, lower=True)
    rows = (problem.design * problem.sign[:, None]) @ root
    offset = problem.sign * (problem.offset + problem.design @ problem.prior_mean)
    return Whitened(rows, offset, np.asarray(problem.counts, dtype=np.float64), problem.prior_mean, root)


def covariance_factor(rows: Floats, weights: Floats) -> Floats:
    """Lower triangular F, positive diagonal, with F F' the inverse of I + rows' diag(weights) rows; shape (d, d)."""
    root = np.sqrt(weights)[:, None] * rows[:, ::-1]  # columns backwards, so that the inverse's factor is lower
    d = rows.shape[1]
    precision = root.T @ root
    precision.flat[:: d + 1] += 1.0
    largest = precision.diagonal().max()
    factor, failed = dpotrf(precision, lower=1)
    if failed or factor.diagonal().min() ** 2 < _WORST_PIVOT * largest:  # the sum has lost part of the prior's share
        (upper,) = qr(np.concatenate([root, np.eye(d)]), mode="r", check_finite=False)
        factor = upper[:d].T * np.where(np.diag(upper) < 0, -1.0, 1.0)
    inverse, _ = dtrtri(factor, lower=1)
    return np.ascontiguousarray(inverse[::-1, ::-1].T)


def conditioned(rows: Floats, offset: Floats, weights: Floats, pulls: Floats) -> tuple[Floats, Floats]:
    """Mean (d,) and factor (d, d) of the posterior where each row's log likelihood is -w h^2 / 2 + p h in its logit."""
    factor = covariance_factor(rows, weights)
    return factor @ (factor.T @ (rows.T @ (pulls - weights * offset))), factor


def row_variances(rows: Floats, factor: Floats) -> Floats:
    """Variance of each row's logit, shape (rows,)."""
    spread = rows @ factor
    return np.asarray(np.einsum("ij,ij->i", spread, spread))


def divergence(mean: Floats, factor: Floats) -> float:
    """Kullback-Leibler divergence (nats) of N(mean, F F') from the prior, N(0, I); not negative."""
    scale = np.diag(factor)
    # each log sum is of x^2 - 1 - log x^2 >= 0, so nothing cancels between coefficients
    spread = (scale * scale - 1 - 2 * np.log(scale)).sum() + (np.tril(factor, -1) ** 2).sum()
    return 0.5 * float(spread + mean @ mean)


def to_posterior(problem: Whitened, mean: Floats, factor: Floats, **found: Any) -> GaussianPosterior:
    """The Gaussian N(mean, F F') in the user's coordinates; ``found`` says how it was found."""
    root = problem.prior_cholesky
    return GaussianPosterior(problem.prior_mean + root @ mean, np.tril(root @ factor), **found)
