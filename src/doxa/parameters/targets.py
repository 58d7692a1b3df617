r"""The posterior of one logistic regression as a target: batches of points, through BLAS and one exponential a logit.

With c the cases of a row and h its signed logit, the log likelihood is :math:`-\sum c \ln(1 + e^{-h})`.  Where all c
are 1, the logarithms of a hundred rows are one logarithm of a product.  Points lie along the last axis, so that
products run over whole lines of the cache.  A product overflows where rows are as improbable as :math:`e^{-5}` each:
there, far from any posterior, the sum is found term by term.

`RootPosterior`: the exact posterior of a learned root that hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import betaln

from doxa.arrays import Floats
from doxa.estimates.trace import Trace
from doxa.models.logistic_factors import log_logistic
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.kernels.kernel import ValueAndGradient

__all__ = ["RegressionTarget", "RootPosterior", "log_gamma_draws"]


_TINY = float(np.finfo(np.float64).tiny)
_DOUBLINGS = 7  # rows of a product: 128, as it may reach e^709
_ROWS, _AT_ONCE = 1024, 2**16  # rows, and logits: half a megabyte, which stays in the second cache


class RegressionTarget:
    """Log posterior density of the coefficients of one logistic regression, normalised but for the evidence."""

    has_gaussian_prior: ClassVar[bool] = True

    def __init__(self, problem: LogisticRegressionProblem) -> None:
        self.problem = problem
        rows = problem.design * problem.sign[:, None]
        self._columns = np.ascontiguousarray(rows.T)  # (d, rows)
        self._negative = -np.column_stack([rows, problem.sign * problem.offset])  # (rows, d + 1)
        self._counts = None if (problem.counts == 1).all() else np.asarray(problem.counts, dtype=np.float64)
        self._slope_at_0_odds = np.asarray(problem.counts @ rows)
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
        log_prior = self._log_peak - 0.5 * np.einsum("ij,ij->i", residual, residual)
        return np.asarray(log_prior + self._log_likelihoods(thetas))

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        """Log density (n,) and its gradient (n, d)."""
        residual = (thetas - self.problem.prior_mean) @ self._whiten
        gradient = self._slope_at_0_odds - residual @ self._whiten.T
        value = self._log_peak - 0.5 * np.einsum("ij,ij->i", residual, residual)
        return ValueAndGradient(value + self._log_likelihoods(thetas, gradient), gradient)

    def _log_likelihoods(self, thetas: Floats, gradient: Floats | None = None) -> Floats:
        """Log likelihoods of points (n, d), shape (n,); adds to ``gradient`` (n, d) how it differs from all odds 0."""
        n_rows, n = len(self._negative), len(thetas)
        columns, value = np.vstack([thetas.T, np.ones(n)]), np.zeros(n)
        at_once = min(n, _AT_ONCE // max(1, min(n_rows, _ROWS)))
        work = np.empty(min(n_rows, _ROWS) * at_once)
        with np.errstate(over="ignore", divide="ignore"):
            for points, rows in product(_pieces(n, at_once), _pieces(n_rows, _ROWS)):
                shape = rows.stop - rows.start, points.stop - points.start
                odds = work[: shape[0] * shape[1]].reshape(shape)
                np.exp(np.matmul(self._negative[rows], columns[:, points], out=odds), out=odds)
                odds += 1
                if gradient is None:
                    value[points] -= self._log_sums(odds, rows)
                    continue
                np.reciprocal(odds, out=odds)
                weighted = odds if self._counts is None else odds * self._counts[rows, None]
                gradient[points] -= (self._columns[:, rows] @ weighted).T
                value[points] += self._log_sums(odds, rows)
        far = np.flatnonzero(~np.isfinite(value))
        if far.size:
            value[far] = -(self.problem.counts @ np.logaddexp(0.0, self._negative @ columns[:, far]))
        return value

    def _log_sums(self, factors: Floats, rows: slice) -> Floats:
        """Sums of c log(factor), shape (n,), over the factors (rows, n) of some rows, which are overwritten."""
        if self._counts is not None:
            return np.asarray(self._counts[rows] @ np.log(factors, out=factors))
        for _ in range(_DOUBLINGS):  # whole halves at a time: quick for few points, too
            half, odd = divmod(len(factors), 2)
            if half:
                last = factors[-1]
                factors = np.multiply(factors[:half], factors[half : 2 * half], out=factors[:half])
                if odd:
                    factors[0] *= last
        return np.asarray(np.log(factors).sum(axis=0))


def _pieces(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, max(1, size)))


def log_gamma_draws(shapes: Floats | float, rng: np.random.Generator, size: int | None = None) -> Floats:
    """Logarithms of gamma variables, which may be smaller than numbers are: then of the smallest number."""
    return np.asarray(np.log(np.maximum(rng.standard_gamma(shapes, size), _TINY)))


@dataclass(frozen=True)
class RootPosterior:
    """Posterior of a root observed in every row that tells of it: Beta(1 + ones, 1 + zeros), as a law of the logit.

    Examples
    --------
    >>> root = RootPosterior(3, 1)
    >>> root.sample(4, np.random.default_rng(1)).shape, round(root.log_evidence, 4)  # 1 / 20
    ((4, 1), -2.9957)
    """

    ones: int
    zeros: int
    n_dimensions: int = 1

    @property
    def log_evidence(self) -> float:
        """Log probability (nats) of the observed cells."""
        return float(betaln(1 + self.ones, 1 + self.zeros))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent logits, shape (n, 1)."""
        one, zero = (log_gamma_draws(1.0 + cases, rng, n) for cases in (self.ones, self.zeros))
        return (one - zero)[:, None]

    def chains(self, trace: Trace, k: int) -> Floats:
        """Independent logits, (chain, draw, 1), beside other parts of a run, this one being part k of them.

        No chain need draw them, so they are made when they are asked for; more draws begin with those of fewer.
        """
        theta = next(trace[name] for name in trace.names if name.endswith(".theta"))
        n_chains, n_draws = theta.shape[0] * theta.shape[2], theta.shape[1]
        rng = np.random.default_rng(np.random.SeedSequence(trace.entropy, spawn_key=(k, 3)))
        shapes = np.broadcast_to([1.0 + self.ones, 1.0 + self.zeros], (n_draws, n_chains, 2))
        logs = log_gamma_draws(shapes, rng)
        return np.asarray((logs[..., 0] - logs[..., 1]).T[..., None])

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats) of logits (n, 1)."""
        logits = thetas[:, 0]
        return (1 + self.ones) * log_logistic(logits) + (1 + self.zeros) * log_logistic(-logits) - self.log_evidence
