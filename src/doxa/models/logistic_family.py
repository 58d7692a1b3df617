"""A node with its parents, alone: values of the parents, and the regression of the node on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models.logistic_factors import LogisticFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.models.logistic_rows import binary_codes, distinct_rows

__all__ = ["complete_regression", "family_regression", "ordered_regression", "parent_values"]

Bits = NDArray[np.int8]


def parent_values(values: ArrayLike, n_parents: int) -> NDArray[np.generic]:
    """Check values of the parents of one node: codes or probabilities, shape (n, n_parents)."""
    matrix = np.asarray(values)
    if matrix.dtype.kind not in "buif":
        raise ArgumentTypeError(f"values has dtype {matrix.dtype}; it must hold numbers")
    if matrix.ndim != 2 or matrix.shape[1] != n_parents:
        raise ArgumentError(f"values has shape {matrix.shape}; it must be (n, {n_parents}), a column for every parent")
    inside = (matrix >= 0) & (matrix <= 1)  # NaN is not
    if not inside.all():
        wrong = matrix[~inside][0]
        raise ArgumentError(
            f"values contains {wrong}; give codes 0 and 1 (or probabilities of 1): the coding is applied here"
        )
    return matrix


def family_regression(
    factor: LogisticFactor, codes: Bits, counts: NDArray[np.int64], prior: GaussianPrior
) -> LogisticRegressionProblem:
    """The regression of a child on its parents in the rows in which its family, ``codes`` (n, family), is complete."""
    whole = (codes >= 0).all(axis=1)
    configurations, index = distinct_rows(codes[whole])
    cases = np.bincount(index, weights=counts[whole], minlength=len(configurations)).astype(np.float64, copy=False)
    design, offset = factor.design(configurations[:, :-1])
    sign = 2.0 * configurations[:, -1].astype(np.float64) - 1.0
    return LogisticRegressionProblem(design, sign, cases, offset, *prior)


def ordered_regression(factor: LogisticFactor, codes: Bits, prior: GaussianPrior) -> LogisticRegressionProblem:
    """The same with equal cases apart: a row for each row of ``codes`` (n, family) that is complete, in their order."""
    complete = codes[(codes >= 0).all(axis=1)]
    design, offset = factor.design(complete[:, :-1])
    sign = 2.0 * complete[:, -1].astype(np.float64) - 1.0
    return LogisticRegressionProblem(design, sign, np.ones(len(complete)), offset, *prior)


def complete_regression(
    factor: LogisticFactor, family: Sequence[str], table: Table, prior: GaussianPrior
) -> LogisticRegressionProblem:
    """The regression of a child on its parents in all rows, all complete; ``family`` is the factor's scope."""
    codes = binary_codes(table, family)
    cells = {name: int(table.counts[codes[:, k] < 0].sum()) for k, name in enumerate(family)}
    lacking = {name: count for name, count in cells.items() if count}
    if lacking:
        shown = ", ".join(f"{name!r} ({count} of {table.n_rows} rows)" for name, count in lacking.items())
        raise TableError(
            f"table has missing cells in the family of {factor.node!r}: {shown}; a regression needs all of them, "
            f"log_likelihood and likelihood sum over what is missing"
        )
    return family_regression(factor, codes, table.counts, prior)
