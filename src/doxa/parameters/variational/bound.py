r"""The bound of Jaakkola & Jordan (2000) on the logistic function, whose logarithm is quadratic in the logit.

With :math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)`, for every h and :math:`\xi` (eq. 7; de Freitas et al. 2001, eq.
6)

.. math:: \log g(h) \ge \log g(\xi) + (h - \xi) / 2 - \lambda(\xi) (h^2 - \xi^2),

with equality where :math:`\xi^2 = h^2`, as the left side is h / 2 plus a convex function of :math:`h^2` and the right
side its tangent.  (Eq. 6 prints the tanh term with the wrong sign; eq. 7 is right.)  What follows for posteriors is in
`doxa.parameters.variational.batch` and `doxa.parameters.variational.sequential`.

Expectations of log g and its derivatives under a Gaussian logit, to nine digits whatever its mean and variance.

Gauss-Hermite quadrature is exact to rounding where the logit's standard deviation s is small, but the poles of g at
:math:`\pm i \pi` slow it down as :math:`\exp(-c / s^2)`: with 32 nodes the error is 1e-9 at s = 1.5 and 1e-2 at s =
10. Beyond 1.5, log g is taken as min(h, 0), whose expectation is known, minus log(1 + exp(-|h|)), which decays like
exp(-|h|), so that Gauss-Laguerre quadrature of it against the now flat Gaussian density converges.  Separable data
need both.

One row under a Gaussian: the bound on its predictive probability, and the posterior that goes with it.

A row's signed logit h has a Gaussian law with mean m and variance v (Jaakkola & Jordan 2000, eq. 16), which is all that
matters of the d coefficients.  The bound makes its law given the outcome Gaussian too (eqs. 10 and 11), and xi is
chosen by EM (eq. 12 and appendix A), each step raising the bound on the predictive probability (eq. 14). That is a
bound on the probability under *this* Gaussian; if the Gaussian is itself an approximation to a posterior, it bounds
nothing about the true predictive.  Passing over many rows is in `doxa.parameters.variational.sequential`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, ndtr, roots_hermitenorm, roots_laguerre

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.sampling.gaussian import Gaussian

__all__ = [
    "LogisticExpectations",
    "RowBound",
    "expected_log_bound",
    "expected_log_logistic",
    "lambda_of",
    "log_logistic",
    "log_logistic_bound",
    "predictive_bound",
    "row_bound",
    "row_bound_at",
]


_TIERS = ((0.5, 12), (1.5, 32))  # up to this s, this many Gauss-Hermite nodes: values to 2e-13, 2e-10
_LAGUERRE_NODES = 32  # for s > 1.5: values to 4e-10


class LogisticExpectations(NamedTuple):
    """Expectations under h ~ N(mean, sd^2), each of shape (rows,)."""

    value: Floats  # E log g(h), nats
    slope: Floats  # E g(-h): the derivative of value in the mean
    curvature: Floats  # E g(h) g(-h): minus the second derivative in the mean; and -2 that in sd^2


def expected_log_logistic(mean: Floats, sd: Floats) -> LogisticExpectations:
    """Expectations of log g(h), g(-h) and g(h) g(-h) for h ~ N(mean, sd^2), elementwise."""
    out = np.empty((3, mean.size))
    least = -1.0
    for most, n_nodes in _TIERS:
        _fill(out, (sd > least) & (sd <= most), mean, sd, n_nodes)
        least = most
    wide = sd > least
    if wide.any():
        out[:, wide] = _laguerre(mean[wide], sd[wide])
    return LogisticExpectations(out[0], out[1], out[2])


def _fill(out: Floats, chosen: NDArray[np.bool_], mean: Floats, sd: Floats, n_nodes: int) -> None:
    if chosen.all():
        out[:] = _hermite(mean, sd, n_nodes)
    elif chosen.any():
        out[:, chosen] = _hermite(mean[chosen], sd[chosen], n_nodes)


def _hermite(mean: Floats, sd: Floats, n_nodes: int) -> Floats:
    nodes, weights = _hermite_rule(n_nodes)
    logits = nodes[:, None] * sd + mean  # (nodes, rows)
    small = np.exp(-np.abs(logits))
    one = 1 + small
    share = small / one  # g(-|h|)
    value = weights @ (np.minimum(logits, 0) - np.log1p(small))
    slope = weights @ np.where(logits > 0, share, 1 - share)
    curvature = weights @ (share / one)
    return np.stack([value, slope, curvature])


def _laguerre(mean: Floats, sd: Floats) -> Floats:
    nodes, rule = _laguerre_rule(_LAGUERRE_NODES)
    peak = 1 / (np.sqrt(2 * np.pi) * sd)
    right = peak * np.exp(-0.5 * ((nodes[:, None] - mean) / sd) ** 2)  # density at the nodes, (nodes, rows)
    left = peak * np.exp(-0.5 * ((nodes[:, None] + mean) / sd) ** 2)
    below = ndtr(-mean / sd)  # P(h < 0)
    at_zero = np.exp(-0.5 * (mean / sd) ** 2) * peak
    value = mean * below - sd * sd * at_zero - rule[0] @ (right + left)
    slope = below + rule[1] @ (right - left)
    return np.stack([value, slope, rule[2] @ (right + left)])


@cache
def _hermite_rule(n_nodes: int) -> tuple[Floats, Floats]:
    nodes, weights = roots_hermitenorm(n_nodes)
    return nodes, weights / weights.sum()


@cache
def _laguerre_rule(n_nodes: int) -> tuple[Floats, Floats]:
    """Nodes, and weights for integrals over h > 0 of the three functions times a smooth one; shape (3, nodes)."""
    nodes, weights = roots_laguerre(n_nodes)
    small = np.exp(-nodes)
    weights = weights / small
    share = small / (1 + small)
    return nodes, np.stack([weights * np.log1p(small), weights * share, weights * share / (1 + small)])


def log_logistic(h: ArrayLike) -> NDArray[np.float64]:
    """Logarithm (nats) of the logistic function 1 / (1 + exp(-h)), without overflow; any shape.

    Examples
    --------
    >>> log_logistic([-1000.0, 0.0]).round(4)
    array([-1.000e+03, -6.931e-01])
    """
    return np.asarray(log_expit(np.asarray(h, dtype=np.float64)))


def lambda_of(xi: ArrayLike) -> NDArray[np.float64]:
    r""":math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)` (below eq. 7): even in xi, and at most 1/8, its value at 0.

    Examples
    --------
    >>> lambda_of([0.0, 1.0, -1.0, 1e6]).round(9)
    array([1.25000000e-01, 1.15529289e-01, 1.15529289e-01, 2.50000000e-07])
    """
    size = np.maximum(np.abs(np.asarray(xi, dtype=np.float64)), 1e-8)  # the error there is xi^2 / 96, below rounding
    return np.asarray(np.tanh(size / 2) / (4 * size))


def log_logistic_bound(h: ArrayLike, xi: ArrayLike) -> NDArray[np.float64]:
    r"""Lower bound (nats) of log g(h) that touches it at :math:`h = \pm\xi` (eq. 7).

    Parameters
    ----------
    h, xi : array_like of float
        Signed logits and variational parameters; shapes that broadcast.

    Returns
    -------
    ndarray of float
        At most ``log_logistic(h)``.

    Examples
    --------
    >>> h = np.array([-2.0, 0.0, 2.0, 3.0])
    >>> (log_logistic(h) - log_logistic_bound(h, 2.0)).round(4) + 0.0
    array([0.    , 0.053 , 0.    , 0.0543])
    """
    h, xi = np.asarray(h, dtype=np.float64), np.asarray(xi, dtype=np.float64)
    return np.asarray(log_logistic(xi) + (h - xi) * (0.5 - lambda_of(xi) * (h + xi)))


def expected_log_bound(mean: ArrayLike, second_moment: ArrayLike, xi: ArrayLike) -> NDArray[np.float64]:
    """Expectation (nats) of `log_logistic_bound` under a law of h; largest where xi^2 is the second moment (eq. 46).

    Examples
    --------
    >>> xi = np.array([0.9, 1.0, 1.1])
    >>> expected_log_bound(0.6, 1.0, xi).argmax()
    np.int64(1)
    """
    mean, second, xi = (np.asarray(v, dtype=np.float64) for v in (mean, second_moment, xi))
    return np.asarray(log_logistic(xi) + (mean - xi) / 2 - lambda_of(xi) * (second - xi * xi))


_MOST_STEPS = 10_000  # EM needs about 10 for v up to 1, 200 for v = 1e4
_TOLERANCE = 1e-9  # relative, in xi; the bound is flat there, so its error is the square


class RowBound(NamedTuple):
    """A row's bound at its best xi, and the Gaussian law of its logit given the outcome."""

    xi: NDArray[np.float64]
    log_bound: NDArray[np.float64]  # nats
    mean: NDArray[np.float64]  # of h given the outcome
    variance: NDArray[np.float64]


def row_bound_at(xi: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: ArrayLike = 1.0) -> RowBound:
    r"""Bound and posterior of rows at given xi (eqs. 10, 11 and 14).

    Parameters
    ----------
    xi, mean, variance, weight : array_like of float
        Variational parameters; mean and variance (at least 0) of the signed logits h; how many times each outcome was
        seen. Shapes that broadcast.

    Returns
    -------
    RowBound
        ``log_bound`` is at most :math:`\log \int g(h)^n N(h; m, v)\, dh`, for any xi.

    Notes
    -----
    Eq. 14 with its two quadratic forms subtracted on paper: v may be 0, and nothing cancels where v is small.
    """
    xi, m, v, n = (np.asarray(a, dtype=np.float64) for a in (xi, mean, variance, weight))
    slope = lambda_of(xi)
    growth = 1 + 2 * slope * n * v
    log_bound = (
        n * (log_logistic(xi) - xi / 2 + slope * xi * xi)
        + n * (m + n * v / 4 - 2 * slope * m * m) / (2 * growth)
        - 0.5 * np.log(growth)
    )
    return RowBound(xi, np.asarray(log_bound), (m + n * v / 2) / growth, v / growth)


def row_bound(mean: ArrayLike, variance: ArrayLike, weight: ArrayLike = 1.0) -> RowBound:
    """Bound and posterior of rows at the best xi, found by EM (eq. 12); arguments and result as in `row_bound_at`.

    Examples
    --------
    >>> bound = row_bound(0.0, 1.0)  # the exact predictive probability is 1/2
    >>> float(np.exp(bound.log_bound).round(4)), float(bound.mean.round(3))
    (0.4965, 0.406)
    """
    m, v, n = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(mean, variance, weight))
    if (v < 0).any():
        raise ArgumentError(f"variance holds {v.min():g}; variances must not be negative")
    xi = np.sqrt(m * m + v)
    for _ in range(_MOST_STEPS):
        row = row_bound_at(xi, m, v, n)
        old, xi = xi, np.sqrt(row.mean**2 + row.variance)
        if (np.abs(xi - old) <= _TOLERANCE * xi).all():
            break
    return row_bound_at(xi, m, v, n)


def best_xi(mean: float, variance: float, weight: float) -> float:
    """What `row_bound` does, for one row in plain floats: thirty times faster there."""
    xi = math.sqrt(mean * mean + variance)
    pulled = mean + weight * variance / 2
    for _ in range(_MOST_STEPS):
        size = max(xi, 1e-8)
        growth = 1 + weight * variance * math.tanh(size / 2) / (2 * size)
        old, xi = xi, math.sqrt((pulled / growth) ** 2 + variance / growth)
        if abs(xi - old) <= _TOLERANCE * xi:
            break
    return xi


def predictive_bound(
    posterior: Gaussian, design: ArrayLike, sign: ArrayLike, offset: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Lower bound (nats) of each row's log predictive probability under a Gaussian over the coefficients (eq. 14).

    Parameters
    ----------
    posterior : Gaussian
        Law of the coefficients.
    design : array_like of float, shape (rows, d)
    sign : array_like, shape (rows,)
        Outcomes, -1 or +1.
    offset : float or array_like of float, shape (rows,), default=0.0

    Returns
    -------
    ndarray of float, shape (rows,)
        Bounds on the probability under ``posterior``; not on the true predictive where ``posterior`` approximates.
    """
    rows, signs = np.asarray(design, dtype=np.float64), np.asarray(sign, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != posterior.mean.size:
        raise ArgumentError(f"design has shape {rows.shape}; it must be (rows, {posterior.mean.size})")
    if signs.shape != rows.shape[:1] or (np.abs(signs) != 1).any():
        raise ArgumentError(f"sign has shape {signs.shape}; it must be ({len(rows)},) of -1 and +1")
    spread = rows @ posterior.cholesky
    mean = signs * (rows @ posterior.mean + np.asarray(offset, dtype=np.float64))
    return row_bound(mean, np.einsum("ij,ij->i", spread, spread)).log_bound
