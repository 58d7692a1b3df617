r"""One Bayesian logistic regression with complete data: what every approximation is given.

Row t says that an outcome :math:`s_t \in \{-1, +1\}` had probability :math:`g(s_t (o_t + \theta^T x_t))`, g being the
logistic function, and that it was seen :math:`n_t` times; :math:`\theta` has a Gaussian prior (Jaakkola & Jordan 2000,
eqs. 1 and 15; their S is (s + 1) / 2).  The offset o is the fixed bias alpha of de Freitas et al. 2001, eq. 6.
Approximations are in `doxa.parameters.variational`; how a network's nodes become such problems is
`doxa.models.logistic`'s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["LogisticRegressionProblem", "make_problem"]


class LogisticRegressionProblem(NamedTuple):
    """Data and prior of one logistic regression; `make_problem` checks them."""

    design: NDArray[np.float64]  # (rows, d)
    sign: NDArray[np.float64]  # (rows,), the outcomes, -1 or +1
    counts: NDArray[np.float64]  # (rows,), how many cases each row stands for, > 0
    offset: NDArray[np.float64]  # (rows,), added to design @ theta
    prior_mean: NDArray[np.float64]  # (d,)
    prior_covariance: NDArray[np.float64]  # (d, d), positive definite


def make_problem(
    design: ArrayLike,
    sign: ArrayLike,
    counts: ArrayLike | None = None,
    offset: ArrayLike = 0.0,
    prior_mean: ArrayLike = 0.0,
    prior_covariance: ArrayLike = 100.0,
    *,
    collapse: bool = True,
) -> LogisticRegressionProblem:
    """Check the parts of a logistic regression and put equal rows together, in order of first appearance
    (``collapse``).

    ``design`` has shape (rows, d), d at least 1; there may be no rows.  ``sign`` are outcomes, -1 or +1, ``counts`` the
    cases that each row stands for (rows with 0 are left out), ``offset`` the fixed part of the logit.  A prior
    covariance that is a number or a vector holds variances of independent coefficients.
    """
    rows = _finite("design", design)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ArgumentError(f"design has shape {rows.shape}; it must be (rows, d) with d of at least 1")
    n_rows, d = rows.shape
    signs = _vector("sign", sign, n_rows, "row of design")
    if not np.isin(signs, (-1.0, 1.0)).all():
        bad = int(np.flatnonzero(np.abs(signs) != 1.0)[0])
        raise ArgumentError(f"sign[{bad}] is {signs[bad]:g}; outcomes are -1 or +1 (2 * y - 1 turns 0/1 into these)")
    cases = np.ones(n_rows) if counts is None else _vector("counts", counts, n_rows, "row of design")
    if (cases < 0).any():
        bad = int(np.argmin(cases))
        raise ArgumentError(f"counts[{bad}] is {cases[bad]:g}; counts of cases must not be negative")
    shifts = _vector("offset", offset, n_rows, "row of design", number=True)
    mean = _vector("prior_mean", prior_mean, d, "column of design", number=True)
    covariance = _prior_covariance(prior_covariance, d)
    kept = cases > 0
    if not kept.all():
        rows, signs, cases, shifts = rows[kept], signs[kept], cases[kept], shifts[kept]
    if collapse:
        rows, signs, cases, shifts = _collapse(rows, signs, cases, shifts)
    return LogisticRegressionProblem(rows, signs, cases, shifts, mean, covariance)


def _finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        array = np.array(values)
        if array.dtype.kind not in "biuf":
            raise ArgumentTypeError(f"{name} holds values of type {array.dtype}; it must hold real numbers")
        array = array.astype(np.float64)
    except ValueError as error:
        raise ArgumentError(f"{name} is not a rectangular array of numbers: {error}") from None
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        place = f"{name}[{', '.join(map(str, where))}]" if where else name
        raise ArgumentError(f"{place} is {array[where]}; every number must be finite")
    return array + 0.0  # -0.0 and 0.0 are one value


def _vector(name: str, values: ArrayLike, n: int, of: str, *, number: bool = False) -> NDArray[np.float64]:
    array = _finite(name, values)
    if number and array.ndim == 0:
        return np.full(n, float(array))
    if array.shape != (n,):
        raise ArgumentError(f"{name} has shape {array.shape}; it must be ({n},), one for each {of}")
    return array


def _prior_covariance(values: ArrayLike, d: int) -> NDArray[np.float64]:
    from scipy.linalg import cholesky

    covariance = _finite("prior_covariance", values)
    if covariance.ndim < 2:
        variances = _vector("prior_covariance", covariance, d, "column of design", number=True)
        if (variances <= 0).any():
            raise ArgumentError(f"prior_covariance holds a variance of {variances.min():g}; variances must be above 0")
        return np.diag(variances)
    if covariance.shape != (d, d):
        raise ArgumentError(f"prior_covariance has shape {covariance.shape}; it must be ({d}, {d}), as design has {d}")
    scale = np.sqrt(np.abs(np.diag(covariance)))
    if (np.abs(covariance - covariance.T) > 1e-10 * np.outer(scale, scale)).any():
        raise ArgumentError("prior_covariance is not symmetric; (C + C.T) / 2 makes it so")
    covariance = (covariance + covariance.T) / 2
    try:
        cholesky(covariance)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(covariance)[0]
        raise ArgumentError(
            f"prior_covariance is not positive definite: its smallest eigenvalue is {least:g}; it must be above 0"
        ) from None
    return covariance


def _collapse(
    design: NDArray[np.float64], sign: NDArray[np.float64], counts: NDArray[np.float64], offset: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    table = np.column_stack([design, sign, offset])
    _, first, group = np.unique(_hash_rows(table), return_index=True, return_inverse=True)
    if (table[first[group]] != table).any():  # a collision of hashes: compare whole rows, ten times slower
        _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    if first.size == len(table):
        return design, sign, counts, offset
    total = np.zeros(first.size)
    np.add.at(total, group.ravel(), counts)
    order = np.argsort(first)
    first = first[order]
    return design[first], sign[first], total[order], offset[first]


def _hash_rows(table: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row; the bits are mixed first, as those of -1.0 and 1.0 differ only in the highest."""
    hashes = np.zeros(len(table), dtype=np.uint64)
    for column in table.T:
        bits = np.ascontiguousarray(column).view(np.uint64) ^ hashes
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # the finaliser of splitmix64
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes = (bits ^ (bits >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
    return hashes
