r"""One row under a Gaussian: the bound on its predictive probability, and the posterior that goes with it.

A row's signed logit h has a Gaussian law with mean m and variance v (Jaakkola & Jordan 2000, eq. 16), which is all that
matters of the d coefficients.  The bound of `doxa.parameters.variational.bound` makes its law given the outcome
Gaussian too (eqs. 10 and 11), and xi is chosen by EM (eq. 12 and appendix A), each step raising the bound on the
predictive probability (eq. 14). That is a bound on the probability under *this* Gaussian; if the Gaussian is itself an
approximation to a posterior, it bounds nothing about the true predictive.  Passing over many rows is in
`doxa.parameters.variational.sequential`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.parameters.variational.bound import lambda_of, log_logistic
from doxa.sampling.gaussian import Gaussian

__all__ = ["RowBound", "predictive_bound", "row_bound", "row_bound_at"]

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
