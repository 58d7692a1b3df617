r"""The posterior of one logistic regression as a target: batches of points, through BLAS and one exponential a logit.

With c the cases of a row and h its signed logit, :math:`\sum c \ln g(h) = \sum c h / 2 - \sum c (|h| / 2 + \ln(1 +
e^{-|h|}))`.  The first sum is linear in theta; and where all c are 1, the logarithms of a thousand rows are one
logarithm of a product, which is at most :math:`2^{1000}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.kernels.targets import ValueAndGradient

__all__ = ["RegressionTarget"]

Floats: TypeAlias = NDArray[np.float64]

_FACTORS = 1000  # of a product; each is at most 2, and 2**1023 the largest double
_LOGITS = 2**16  # worked on at once: half a megabyte, which stays in the second cache


class RegressionTarget:
    """Log posterior density of the coefficients of one logistic regression, normalised but for the evidence.

    Parameters
    ----------
    problem : LogisticRegressionProblem

    Attributes
    ----------
    prior_spread : tuple of ndarray
        Mean (d,) and lower Cholesky factor (d, d) of the covariance of the prior, which is Gaussian.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> target = RegressionTarget(make_problem([[1.0]], [1], prior_covariance=1.0))
    >>> target.log_density(np.array([[0.0]])).round(4)  # log g(0) and the standard normal's peak
    array([-1.6121])
    """

    has_gaussian_prior: ClassVar[bool] = True

    def __init__(self, problem: LogisticRegressionProblem) -> None:
        self.problem = problem
        rows = problem.design * problem.sign[:, None]
        self._columns = np.ascontiguousarray(rows.T)  # (d, rows)
        self._rows = np.ascontiguousarray(rows)
        self._offset = problem.sign * problem.offset
        self._has_offset = bool(self._offset.any())
        self._counts = None if (problem.counts == 1).all() else np.asarray(problem.counts, dtype=np.float64)
        self._half = 0.5 * (problem.counts @ rows)
        self._half_offset = 0.5 * float(problem.counts @ self._offset)
        factor = cholesky(problem.prior_covariance, lower=True)
        self.prior_spread = np.asarray(problem.prior_mean, dtype=np.float64), factor
        self._whiten = np.ascontiguousarray(solve_triangular(factor, np.eye(len(factor)), lower=True).T)
        self._log_peak = float(-np.log(np.diag(factor)).sum() - 0.5 * len(factor) * np.log(2 * np.pi))

    @property
    def n_dimensions(self) -> int:
        """The number of coefficients."""
        return len(self._whiten)

    def log_density(self, thetas: Floats) -> Floats:
        """Log prior density plus log likelihood (nats), shape (n,), of points (n, d)."""
        residual = (thetas - self.problem.prior_mean) @ self._whiten
        value = thetas @ self._half - 0.5 * np.einsum("ij,ij->i", residual, residual)
        value += self._half_offset + self._log_peak
        for part in self._parts(len(thetas)):
            _, decay = self._sizes(thetas[part], value[part])
            value[part] -= self._log_sums(decay)
        return np.asarray(value)

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        """Log density (n,) and its gradient (n, d)."""
        residual = (thetas - self.problem.prior_mean) @ self._whiten
        value = thetas @ self._half - 0.5 * np.einsum("ij,ij->i", residual, residual)
        value += self._half_offset + self._log_peak
        gradient = self._half - residual @ self._whiten.T
        for part in self._parts(len(thetas)):
            logits, decay = self._sizes(thetas[part], value[part])
            slope = (1 - decay) / (1 + decay)  # tanh(|h| / 2), and g(-h) = (1 - tanh(h / 2)) / 2
            np.copysign(slope, logits, out=slope)
            if self._counts is not None:
                slope *= self._counts
            value[part] -= self._log_sums(decay)
            gradient[part] -= 0.5 * (slope @ self._rows)
        return ValueAndGradient(np.asarray(value), np.asarray(gradient))

    def _parts(self, n: int) -> Iterator[slice]:
        step = max(1, _LOGITS // max(1, len(self._rows)))
        return (slice(start, min(start + step, n)) for start in range(0, n, step))

    def _sizes(self, thetas: Floats, value: Floats) -> tuple[Floats, Floats]:
        """Logits h and exp(-|h|), shape (n, rows); takes the sum of c |h| / 2 from ``value``."""
        logits = thetas @ self._columns
        if self._has_offset:
            logits += self._offset
        size = np.abs(logits)
        value -= 0.5 * (size.sum(axis=1) if self._counts is None else size @ self._counts)
        return logits, np.exp(np.negative(size, out=size), out=size)

    def _log_sums(self, decay: Floats) -> Floats:
        """Sum of c log(1 + decay) over the rows; overwrites ``decay``."""
        if self._counts is not None:
            return np.asarray(np.log1p(decay, out=decay) @ self._counts)
        decay += 1
        starts = range(0, decay.shape[1], _FACTORS)
        products = [np.multiply.reduce(decay[:, start : start + _FACTORS], axis=1) for start in starts]
        return np.asarray(np.log(np.array(products).reshape(len(products), len(decay))).sum(axis=0))
