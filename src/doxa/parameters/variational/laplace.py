r"""Laplace's approximation: the posterior's mode, and the inverse of the negative Hessian there.

The log posterior is strictly concave thanks to the Gaussian prior, so it has one mode, separable data or not, and
Newton's method with backtracking reaches it from anywhere.  The update that expands row by row is
`doxa.parameters.variational.sequential`; the Gaussian that is best rather than local is
`doxa.parameters.variational.optimal`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_positive, check_whole
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.whitened import Whitened, covariance_factor, to_posterior, whiten
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["Mode", "find_mode", "laplace_posterior"]

_Floats = NDArray[np.float64]
_FEWEST = 2.0**-40  # a shorter step means that only rounding is left


class Mode(NamedTuple):
    """The mode in whitened coordinates and the Gaussian there."""

    mean: _Floats  # (d,)
    factor: _Floats  # (d, d), lower; factor factor' is the inverse of the negative Hessian
    weights: _Floats  # (rows,), the negative Hessian is I + rows' diag(weights) rows
    n_iterations: int
    converged: bool
    trace: _Floats  # log likelihood - u'u / 2 after each step, nats


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


def _derivatives(logits: _Floats) -> tuple[_Floats, _Floats]:
    """Slope g(-h) and curvature g(h) g(-h) of log g; exact to rounding in both tails."""
    small = np.exp(-np.abs(logits))
    one = 1 + small
    return np.where(logits > 0, small, 1.0) / one, small / one**2
