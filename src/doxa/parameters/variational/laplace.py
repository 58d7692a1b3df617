r"""Laplace's approximation: the posterior's mode, and the inverse of the negative Hessian there.

The log posterior is strictly concave thanks to the Gaussian prior, so it has one mode, separable data or not, and
Newton's method with backtracking reaches it from anywhere.  The update that expands row by row is
`doxa.parameters.variational.sequential`; the Gaussian that is best rather than local is
`doxa.parameters.variational.optimal`.

Maximum likelihood by the monotone algorithm of Jaakkola & Jordan (2000, appendix C).

Each step maximises the bound of `doxa.parameters.variational.bound` that touches the likelihood at the present
coefficients: :math:`\theta' = A^{-1} b`, :math:`A = \sum_t 2 n_t \lambda(\xi_t) x_t x_t^T`, :math:`b = \sum_t n_t (S_t
- 1/2) x_t`, :math:`\xi_t = |h_t|`.  (Eq. 68 prints H for x.)  The likelihood cannot fall, where Newton's method may
overshoot. Steps are extrapolated from the last few (`doxa.parameters.variational.whitened`) unless that lowers the
likelihood.

Where a hyperplane separates the outcomes there is no maximum: coefficients grow without end.  Whether one does is a
linear program, solved beforehand, so that divergence is told from slowness.  The prior plays no part here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.bound import lambda_of, log_logistic
from doxa.parameters.variational.whitened import Whitened, covariance_factor, extrapolate, to_posterior, whiten
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["MaximumLikelihood", "Mode", "find_mode", "find_separation", "laplace_posterior", "maximum_likelihood"]


_FEWEST = 2.0**-40  # a shorter step means that only rounding is left


class Mode(NamedTuple):
    """The mode in whitened coordinates and the Gaussian there."""

    mean: Floats  # (d,)
    factor: Floats  # (d, d), lower; factor factor' is the inverse of the negative Hessian
    weights: Floats  # (rows,), the negative Hessian is I + rows' diag(weights) rows
    n_iterations: int
    converged: bool
    trace: Floats  # log likelihood - u'u / 2 after each step, nats


def find_mode(problem: Whitened, tolerance: float = 1e-10, max_iterations: int = 100) -> Mode:
    """Newton's method with step halving from the prior mean; stops when it can gain less than ``tolerance`` nats."""
    rows, offset, counts = problem.rows, problem.offset, problem.counts
    mean = np.zeros(rows.shape[1])
    logits = offset.copy()
    value = float(counts @ log_logistic(logits))
    trace, converged = [value], False
    weights, factor = np.empty(0), np.empty((0, 0))
    for _ in range(max_iterations):
        slope, weights = _derivatives(logits)
        weights = counts * weights
        factor = covariance_factor(rows, weights)
        gradient = rows.T @ (counts * slope) - mean
        half = factor.T @ gradient
        gain = float(half @ half)  # twice what a full step would gain were the target quadratic
        if gain <= 2 * tolerance:
            converged = True
            break
        change = factor @ half
        logit_change = rows @ change
        size = 1.0
        while size > _FEWEST:
            new = mean + size * change
            new_logits = logits + size * logit_change
            new_value = float(counts @ log_logistic(new_logits)) - 0.5 * float(new @ new)
            if new_value >= value + 1e-4 * size * gain:
                break
            size /= 2
        else:
            converged = gain <= 1e-6  # cancellation in the sum hides the gain
            break
        mean, value = new, new_value
        logits = offset + rows @ mean
        trace.append(value)
    return Mode(mean, factor, weights, len(trace), converged, np.array(trace))


def laplace_posterior(
    problem: LogisticRegressionProblem, *, tolerance: float = 1e-10, max_iterations: int = 100
) -> GaussianPosterior:
    r"""Gaussian at the posterior's mode, with the inverse of the negative Hessian as its covariance.

    Parameters
    ----------
    problem : LogisticRegressionProblem
    tolerance : float, default=1e-10
        Stop when a Newton step would gain less than this (nats).
    max_iterations : int, default=100
        Limit of the Newton steps; each costs O(rows d^2).

    Returns
    -------
    GaussianPosterior
        ``log_evidence`` is Laplace's estimate (nats), which may lie on either side; ``trace`` the log likelihood plus
        the log prior relative to its peak, which never decreases.

    Raises
    ------
    ArgumentError
        If an option is out of range.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> fit = laplace_posterior(make_problem([[1.0]], [1], prior_covariance=1.0))
    >>> fit.mean.round(4), fit.sd.round(4)  # theta = g(-theta)
    (array([0.4011]), array([0.898]))
    """
    check_positive("tolerance", tolerance)
    max_iterations = check_whole("max_iterations", max_iterations, 1)
    whitened = whiten(problem)
    mode = find_mode(whitened, tolerance, max_iterations)
    return to_posterior(
        whitened,
        mode.mean,
        mode.factor,
        method="Laplace",
        log_evidence=float(mode.trace[-1] + np.log(np.diag(mode.factor)).sum()),
        evidence_kind="estimate",
        n_iterations=mode.n_iterations,
        converged=mode.converged,
        trace=mode.trace,
    )


def _derivatives(logits: Floats) -> tuple[Floats, Floats]:
    """Slope g(-h) and curvature g(h) g(-h) of log g; exact to rounding in both tails."""
    small = np.exp(-np.abs(logits))
    one = 1 + small
    return np.where(logits > 0, small, 1.0) / one, small / one**2


_DEPENDENT = 1e-12  # of the largest eigenvalue: columns that depend on each other to six digits
_STEPS_IF_SEPARATED = 25  # enough to see where the coefficients are going


@dataclass(frozen=True, eq=False)
class MaximumLikelihood:
    """Coefficients of largest likelihood, or how the search for them failed.

    Parameters
    ----------
    coefficients : ndarray of float, shape (d,)
        The last iterate. Where columns depend on each other, the shortest of many solutions (columns scaled to 1).
    log_likelihood : float
        At ``coefficients``, nats.
    n_iterations : int
    converged : bool
    separation : ndarray of float, shape (d,), or None
        A direction along which the likelihood of no row falls and that of some row grows without end; then there is
        no maximum, and ``coefficients`` are those of a search cut short on its way to infinity.
    trace : ndarray of float
        Log likelihood after each step, nats; it never decreases.
    """

    coefficients: Floats
    log_likelihood: float
    n_iterations: int
    converged: bool
    separation: Floats | None
    trace: Floats

    @property
    def verdict(self) -> str:
        """What became of the search, in words."""
        if self.separation is not None:
            return "no maximum: the outcomes are separable, and the coefficients grow without end along `separation`"
        return "converged" if self.converged else f"not converged after {self.n_iterations} iterations"


def maximum_likelihood(
    problem: LogisticRegressionProblem, *, tolerance: float = 1e-12, max_iterations: int = 10_000, memory: int = 8
) -> MaximumLikelihood:
    """Maximise the likelihood, ignoring the prior (Jaakkola & Jordan 2000, appendix C).

    Parameters
    ----------
    problem : LogisticRegressionProblem
    tolerance : float, default=1e-12
        Stop when a step is sure to gain less than this share of 1 + the size of the log likelihood.
    max_iterations : int, default=10_000
        Limit of the steps; each costs O(rows d^2).
    memory : int, default=8
        Steps from which the next is extrapolated; 0 for the paper's algorithm.

    Returns
    -------
    MaximumLikelihood
        With ``separation`` set, and ``converged`` False, where there is no maximum.

    Raises
    ------
    ArgumentError
        If an option is out of range.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> maximum_likelihood(make_problem([[1.0], [1.0]], [1, -1], counts=[3, 1])).coefficients.round(4)  # log 3
    array([1.0986])
    >>> maximum_likelihood(make_problem([[1.0], [2.0]], [1, 1])).verdict
    'no maximum: the outcomes are separable, and the coefficients grow without end along `separation`'
    """
    check_positive("tolerance", tolerance)
    max_iterations = check_whole("max_iterations", max_iterations, 1)
    memory = check_whole("memory", memory, 0, "; 0 is the paper's algorithm")
    scale = _column_sizes(problem)
    rows, offset = problem.sign[:, None] * problem.design / scale, problem.sign * problem.offset
    separation = find_separation(problem)
    limit = max_iterations if separation is None else min(max_iterations, _STEPS_IF_SEPARATED)
    theta = np.zeros(rows.shape[1])
    value = float(problem.counts @ log_logistic(offset))
    trace, converged = [value], False
    past: list[tuple[Floats, Floats]] = []
    for _ in range(limit):
        change, gain = _step(rows, problem.counts, offset + rows @ theta)
        if gain <= tolerance * (1 + abs(value)):
            converged = separation is None
            break
        past = [*past, (change, theta + change)][-memory - 1 :]
        point = extrapolate([step for step, _ in past], [end for _, end in past])
        new = float(problem.counts @ log_logistic(offset + rows @ point))
        if new < value and len(past) > 1:
            past, point = [], theta + change
            new = float(problem.counts @ log_logistic(offset + rows @ point))
        if new < value:  # only by rounding
            converged = separation is None
            break
        theta, value = point, new
        trace.append(value)
    return MaximumLikelihood(theta / scale, value, len(trace) - 1, converged, separation, np.array(trace))


def _step(rows: Floats, counts: Floats, logits: Floats) -> tuple[Floats, float]:
    """The step A^-1 (b - A theta), where b - A theta is the gradient, and half its length in A: the least it gains."""
    small = np.exp(-np.abs(logits))
    gradient = rows.T @ (counts * np.where(logits > 0, small, 1.0) / (1 + small))
    curvature = (rows * (2 * counts * lambda_of(logits))[:, None]).T @ rows
    values, vectors = eigh(curvature, check_finite=False)
    kept = values > _DEPENDENT * values[-1]  # the shortest step, where columns depend on each other
    pushes = vectors[:, kept].T @ gradient
    return vectors[:, kept] @ (pushes / values[kept]), 0.5 * float(pushes @ (pushes / values[kept]))


def _column_sizes(problem: LogisticRegressionProblem) -> Floats:
    """The largest size in each column, by which it is divided; 1 for a column of zeros."""
    largest = np.abs(problem.design).max(axis=0, initial=0.0)
    return np.where(largest == 0, 1.0, largest)


def find_separation(problem: LogisticRegressionProblem) -> Floats | None:
    """A direction b, shape (d,), with s_t x_t' b >= 0 for all rows and > 0 for some, or None if there is none.

    It exists exactly where the likelihood has no maximum (Albert & Anderson 1984: complete or quasi-complete
    separation).  Margins below 1e-5 of a row's largest value count as 0.
    """
    from scipy.optimize import linprog

    scale = _column_sizes(problem)
    rows = problem.sign[:, None] * problem.design / scale
    size = np.abs(rows).max(axis=1)
    rows = rows[size > 0] / size[size > 0, None]
    if len(rows) == 0:
        return None
    found = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1), method="highs")
    if found.x is None:
        return None
    margins = rows @ found.x
    if margins.max() <= 1e-5 or margins.min() < -1e-6:
        return None
    return np.asarray(found.x / scale) + 0.0
