r"""The Gaussian closest to the posterior: the one whose bound E_q[log joint] + entropy is largest.

As each row sees the coefficients through its logit alone, the expectation is a sum of one-dimensional integrals
(`doxa.parameters.variational.bound`).  The bound is concave in the mean and the Cholesky factor, so there is one
optimum, and there the precision is :math:`\Sigma_0^{-1} + \sum_t n_t E[g(h_t) g(-h_t)] x_t x_t^T` (Opper & Archambeau
2009).  A natural-gradient step of size r moves the weights a share r of the way to those expectations and the mean by r
times :math:`\Sigma_{new}` times its gradient (Khan & Rue 2023); r = 1 is a Newton step.  Plain iteration diverges where
the data are separable, so a step that does not raise the bound is halved, and steps are extrapolated from the last few
(`doxa.parameters.variational.whitened`) where that raises the bound: a third of the iterations on separable data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from doxa.arrays import Floats
from doxa.checks import check_positive, check_whole
from doxa.errors import ArgumentError
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.bound import expected_log_logistic
from doxa.parameters.variational.laplace import find_mode
from doxa.parameters.variational.whitened import (
    Whitened,
    covariance_factor,
    divergence,
    extrapolate,
    row_variances,
    to_posterior,
    whiten,
)
from doxa.sampling.gaussian import Gaussian, GaussianPosterior

__all__ = ["OptimalState", "elbo", "init", "optimal_posterior", "step"]

_SMALLEST = 2.0**-40
_TINY = 1e-300  # weights underflow to 0 where logits are beyond 700


class OptimalState(NamedTuple):
    """A Gaussian in whitened coordinates, its bound, and where the natural gradient points."""

    mean: Floats  # (d,)
    weights: Floats  # (rows,), the precision is I + rows' diag(weights) rows
    factor: Floats  # (d, d), lower; factor factor' is the covariance
    elbo: float  # nats
    gradient: Floats  # (d,), of the bound in the mean
    next_weights: Floats  # (rows,)


def init(problem: Whitened, mean: Floats, weights: Floats, factor: Floats | None = None) -> OptimalState:
    """State at a mean and weights; ``factor`` saves its computation."""
    if factor is None:
        factor = covariance_factor(problem.rows, weights)
    logit = problem.offset + problem.rows @ mean
    expected = expected_log_logistic(logit, np.sqrt(row_variances(problem.rows, factor)))
    bound = float(problem.counts @ expected.value) - divergence(mean, factor)
    gradient = problem.rows.T @ (problem.counts * expected.slope) - mean
    return OptimalState(mean, weights, factor, bound, gradient, problem.counts * expected.curvature)


def step(problem: Whitened, state: OptimalState, size: float = 1.0) -> OptimalState:
    """One natural-gradient step of this size, at most 1; if small enough, it raises the bound."""
    weights = (1 - size) * state.weights + size * state.next_weights
    factor = covariance_factor(problem.rows, weights)
    mean = state.mean + size * (factor @ (factor.T @ state.gradient))
    return init(problem, mean, weights, factor)


def elbo(problem: LogisticRegressionProblem, gaussian: Gaussian) -> float:
    r"""Lower bound (nats) of the log evidence by any Gaussian q: E_q[log joint] + entropy of q.

    Parameters
    ----------
    problem : LogisticRegressionProblem
    gaussian : Gaussian
        Over the d coefficients.

    Returns
    -------
    float
        The log evidence minus the Kullback-Leibler divergence of q from the posterior; exact to 1e-9 a case.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> problem = make_problem([[1.0]], [1], prior_covariance=1.0)
    >>> round(elbo(problem, Gaussian.from_covariance([0.4], [[0.8]])), 4)  # the log evidence is -0.6931
    -0.6936
    """
    whitened = whiten(problem)
    if gaussian.mean.shape != whitened.prior_mean.shape:
        raise ArgumentError(
            f"gaussian has {gaussian.mean.size} coefficients; the problem has {whitened.prior_mean.size}"
        )
    root = whitened.prior_cholesky
    mean = solve_triangular(root, gaussian.mean - whitened.prior_mean, lower=True)
    factor = np.tril(solve_triangular(root, gaussian.cholesky, lower=True))
    logit = whitened.offset + whitened.rows @ mean
    value = expected_log_logistic(logit, np.sqrt(row_variances(whitened.rows, factor))).value
    return float(whitened.counts @ value) - divergence(mean, factor)


def optimal_posterior(
    problem: LogisticRegressionProblem, *, tolerance: float = 1e-8, max_iterations: int = 500, memory: int = 6
) -> GaussianPosterior:
    r"""The Gaussian with the least Kullback-Leibler divergence to the posterior.

    Parameters
    ----------
    problem : LogisticRegressionProblem
    tolerance : float, default=1e-8
        Stop when a full step raises the bound by less than this (nats) and the next promises little more.
    max_iterations : int, default=500
        Limit of the number of Gaussians tried; each costs O(rows d^2).
    memory : int, default=6
        Steps from which the next is extrapolated; 0 for the plain natural gradient.

    Returns
    -------
    GaussianPosterior
        ``log_evidence`` is a lower bound (nats), exact to 1e-9 a case; ``trace`` the bound from Laplace's Gaussian
        onwards, which never decreases.

    Raises
    ------
    ArgumentError
        If an option is out of range.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> fit = optimal_posterior(make_problem([[1.0]], [1], prior_covariance=1.0))
    >>> fit.mean.round(3), fit.sd.round(3), round(fit.log_evidence, 4)  # exact: 0.413, 0.911, -0.6931
    (array([0.413]), array([0.91]), -0.6932)
    """
    check_positive("tolerance", tolerance)
    max_iterations = check_whole("max_iterations", max_iterations, 1)
    memory = check_whole("memory", memory, 0, "; 0 is the plain natural gradient")
    whitened = whiten(problem)
    mode = find_mode(whitened, tolerance=1e-6)
    state = init(whitened, mode.mean, mode.weights, mode.factor)
    trace, n_iterations, size, converged = [state.elbo], 0, 1.0, False
    past: list[_Step] = []
    while n_iterations < max_iterations and not converged:
        past = [*past, _full_step(state, mode.factor)][-memory - 1 :]
        n_iterations += 1
        extrapolated = len(past) > 2
        new = _extrapolate(whitened, past) if extrapolated else step(whitened, state, size)
        gain = new.elbo - state.elbo
        if gain >= 0:
            full = extrapolated or size == 1.0
            converged = full and gain <= tolerance and _promise(whitened, new) <= 100 * tolerance
            state = new
            trace.append(state.elbo)
            size = size if extrapolated else min(1.0, 2 * size)
        elif extrapolated:
            past = []
        elif size <= _SMALLEST or _promise(whitened, state) <= tolerance:
            converged = _promise(whitened, state) <= 1e-6  # rounding in the sum over cases hides what is left
            break
        else:
            past, size = past[:-1], size / 2
    return to_posterior(
        whitened,
        state.mean,
        state.factor,
        method="optimal Gaussian",
        log_evidence=state.elbo,
        evidence_kind="lower bound",
        n_iterations=n_iterations,
        converged=converged,
        trace=np.array(trace),
    )


class _Step(NamedTuple):
    """A full step: where it ends, (mean, log weights), and by how much it changes them, means in Laplace's units."""

    change: Floats  # (d + rows,)
    end: Floats  # (d + rows,)


def _full_step(state: OptimalState, scale: Floats) -> _Step:
    shift = state.factor @ (state.factor.T @ state.gradient)
    old, new = np.log(state.weights + _TINY), np.log(state.next_weights + _TINY)
    change = np.concatenate([solve_triangular(scale, shift, lower=True, check_finite=False), new - old])
    return _Step(change, np.concatenate([state.mean + shift, new]))


def _extrapolate(problem: Whitened, past: list[_Step]) -> OptimalState:
    point = extrapolate([step.change for step in past], [step.end for step in past])
    d = problem.rows.shape[1]
    log_weights = np.minimum(point[d:], np.log(problem.counts / 4 + _TINY))  # no expectation of g(h) g(-h) is above 1/4
    return init(problem, point[:d], np.exp(log_weights))


def _promise(problem: Whitened, state: OptimalState) -> float:
    """Nats that a full step would gain were the bound quadratic: by the mean, and by the covariance."""
    half = state.factor.T @ state.gradient
    spread = problem.rows @ state.factor
    gap = (spread * (state.next_weights - state.weights)[:, None]).T @ spread
    return 0.5 * float(half @ half) + 0.25 * float((gap * gap).sum())
