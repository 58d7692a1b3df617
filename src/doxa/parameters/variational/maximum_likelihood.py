r"""Maximum likelihood by the monotone algorithm of Jaakkola & Jordan (2000, appendix C).

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

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from doxa.checks import check_positive, check_whole
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.bound import lambda_of, log_logistic
from doxa.parameters.variational.whitened import extrapolate

__all__ = ["MaximumLikelihood", "find_separation", "maximum_likelihood"]

_Floats = NDArray[np.float64]
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

    coefficients: _Floats
    log_likelihood: float
    n_iterations: int
    converged: bool
    separation: _Floats | None
    trace: _Floats

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
    scale = np.abs(problem.design).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    rows, offset = problem.sign[:, None] * problem.design / scale, problem.sign * problem.offset
    separation = find_separation(problem)
    limit = max_iterations if separation is None else min(max_iterations, _STEPS_IF_SEPARATED)
    theta = np.zeros(rows.shape[1])
    value = float(problem.counts @ log_logistic(offset))
    trace, converged = [value], False
    past: list[tuple[_Floats, _Floats]] = []
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


def _step(rows: _Floats, counts: _Floats, logits: _Floats) -> tuple[_Floats, float]:
    """The step A^-1 (b - A theta), where b - A theta is the gradient, and half its length in A: the least it gains."""
    small = np.exp(-np.abs(logits))
    gradient = rows.T @ (counts * np.where(logits > 0, small, 1.0) / (1 + small))
    curvature = (rows * (2 * counts * lambda_of(logits))[:, None]).T @ rows
    values, vectors = eigh(curvature, check_finite=False)
    kept = values > _DEPENDENT * values[-1]  # the shortest step, where columns depend on each other
    pushes = vectors[:, kept].T @ gradient
    return vectors[:, kept] @ (pushes / values[kept]), 0.5 * float(pushes @ (pushes / values[kept]))


def find_separation(problem: LogisticRegressionProblem) -> _Floats | None:
    """A direction b, shape (d,), with s_t x_t' b >= 0 for all rows and > 0 for some, or None if there is none.

    It exists exactly where the likelihood has no maximum (Albert & Anderson 1984: complete or quasi-complete
    separation).  Margins below 1e-5 of a row's largest value count as 0.
    """
    from scipy.optimize import linprog

    scale = np.abs(problem.design).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
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
