r"""Regressions that offers of missing cells are made of, where columns hold numbers.

A family of a number is fitted by the posterior means of its regressions, one for each configuration of its parents that
are categories, to the rows in which a column c is observed.  Given all other cells of a row, the families of c and its
children are then normal densities of c, and so is their product: with residual variances :math:`v_f`, coefficients
:math:`b_f` of c in its children and :math:`r_f` what is left of these without it,

.. math:: v^{-1} = v_c^{-1} + \sum_f b_f^2 / v_f, \qquad m = v \Big(\mu_c / v_c + \sum_f b_f r_f / v_f\Big).

Values are offered from Student's t about m with scale :math:`\sqrt v` and as many degrees of freedom as there are
rows, from 4 to 100: the tails of what the score says, its parameters integrated out.  Children that are categories
move the centre and raise the precision (`doxa.structure.cases.incomplete.category_regressions`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.structure.cases.incomplete.category_regressions import CategoryFits, slope_and_curvature
from doxa.structure.cases.incomplete.missing_cells import Completion
from doxa.structure.cases.incomplete.shared_cells import later_row
from doxa.structure.families.gaussian.box import GaussianRule, GaussianWork, add_up, factorise, gaussian_work, sort_rows
from doxa.structure.graph import has_bit

__all__ = ["Regressions", "fit_regression", "is_own", "log_density", "offer_number", "regressions"]

_MOST_PARENTS = 63
_NEWTON_STEPS = 4


@by_address
class Regressions(NamedTuple):
    """The fits of one chain, and work space."""

    rule: GaussianRule  # the prior
    gaussian: GaussianWork
    config: NDArray[np.int64]  # (n_rows,)
    n_numbers: NDArray[np.int64]  # (n_nodes,): parents that are numbers
    numbers: NDArray[np.int64]  # (n_nodes, most)
    n_categories: NDArray[np.int64]  # (n_nodes,)
    categories: NDArray[np.int64]  # (n_nodes, most)
    fits: NDArray[np.float64]  # (n_nodes, most): intercept, slopes and residual variance of each configuration
    is_fitted: NDArray[np.int64]  # (n_nodes,): whether a number, or a category below numbers, has a fit


def regressions(
    values: NDArray[np.float64], is_number: NDArray[np.bool_], rule: GaussianRule, most_fits: int
) -> Regressions:
    """Fresh work space; of no columns if there are no numbers."""
    n, n_rows = values.shape
    most = min(_MOST_PARENTS, n)
    gaussian = gaussian_work(values, is_number)._replace(first=np.zeros(max(n_rows, most_fits) + 1, dtype=np.int64))
    return Regressions(
        rule, gaussian, np.zeros(n_rows, dtype=np.int64), np.zeros(n, dtype=np.int64),
        np.zeros((n, most), dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros((n, most), dtype=np.int64),
        np.zeros((n, most_fits)), np.zeros(n, dtype=np.int64),
    )  # fmt: skip


@hot
def fit_regression(node: int, parents: Words, completion: Completion, weights: Ints, work: Regressions) -> bool:
    """Fit a number's family to rows with these weights; False if it has too many parents or configurations."""
    gaussian, fits = work.gaussian, work.fits[node]
    p, n_categories, size = 0, 0, 1
    work.config[:] = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if p + n_categories == work.numbers.shape[1]:
                return False
            if gaussian.is_number[parent] != 0:
                work.numbers[node, p] = parent
                p += 1
            else:
                work.categories[node, n_categories] = parent
                n_categories += 1
                size *= completion.n_states[parent]
                if size > fits.size:
                    return False
                for row in range(work.config.size):
                    work.config[row] = work.config[row] * completion.n_states[parent] + completion.columns[parent, row]
    work.n_numbers[node], work.n_categories[node] = p, n_categories
    stride = p + 2
    if size * stride > fits.size:
        return False
    for i in range(p):
        gaussian.members[i] = work.numbers[node, i]
    gaussian.members[p] = node
    sort_rows(work.config, size, gaussian)
    for label in range(size):
        _regress(gaussian.first[label], gaussian.first[label + 1], p, weights, work, fits[label * stride :])
    return True


@hot
def _regress(begin: int, end: int, p: int, weights: Ints, work: Regressions, fit: Floats) -> None:
    """Posterior means of intercept and slopes, and a residual variance, from some rows, into ``fit``."""
    gaussian, rule = work.gaussian, work.rule
    n_cases = 0.0
    for place in range(begin, end):
        n_cases += weights[gaussian.order[place]]
    fit[: p + 1] = 0.0
    fit[p + 1] = rule.scale / (rule.freedom + p + 1.0)
    if n_cases == 0.0:
        return
    add_up(begin, end, p + 1, weights, gaussian)
    matrix, mean = gaussian.matrix, gaussian.mean
    shrunk = n_cases * rule.mean_weight / (n_cases + rule.mean_weight)
    for i in range(p + 1):
        for j in range(i + 1):
            matrix[i, j] += shrunk * mean[i] * mean[j]
        matrix[i, i] += rule.scale
    factorise(matrix, p + 1, rule.scale)
    centre = mean[p]
    for i in range(p - 1, -1, -1):
        slope = matrix[p, i]
        for k in range(i + 1, p):
            slope -= matrix[k, i] * fit[k + 1]
        fit[i + 1] = slope / matrix[i, i]
        centre -= fit[i + 1] * mean[i]
    fit[0] = centre * n_cases / (n_cases + rule.mean_weight)
    fit[p + 1] = matrix[p, p] ** 2 / (n_cases + rule.freedom + p + 1.0)


@hot
def _fit_of(node: int, i: int, column: int, state: int, completion: Completion, work: Regressions) -> int:
    """Where the fit of incomplete row i begins, with this state in the column, if that is a category."""
    config = 0
    for k in range(work.n_categories[node]):
        parent = work.categories[node, k]
        code = state if parent == column else np.int64(completion.rows[i, parent])
        config = config * completion.n_states[parent] + code
    return config * (work.n_numbers[node] + 2)  # type: ignore[no-any-return]


@hot
def log_density(node: int, i: int, column: int, state: int, completion: Completion, work: Regressions) -> float:
    """Log density of the node's number in incomplete row i under the fit, with this state in a category's column."""
    at, fits, p = _fit_of(node, i, column, state, completion, work), work.fits[node], work.n_numbers[node]
    row = completion.n_complete + i
    left = completion.numbers[node, row] - fits[at]
    for k in range(p):
        left -= fits[at + 1 + k] * completion.numbers[work.numbers[node, k], row]
    return -0.5 * (math.log(fits[at + p + 1]) + left * left / fits[at + p + 1])  # type: ignore[no-any-return]


@hot
def is_own(node: int, row: int, completion: Completion) -> bool:
    """Whether nobody intervened on the node in a row of the completion."""
    return bool(completion.interventions.size == 0 or completion.interventions[row, node] == 0)


@hot
def offer_number(
    column: int, i: int, parents: Words, completion: Completion, work: Regressions, categories: CategoryFits
) -> tuple[float, float]:
    """Centre and scale of the offers of a number in incomplete row i."""
    precision, weighted, n_categories = 0.0, 0.0, 0
    later, at_column = i, column
    while later >= 0 and at_column < work.is_fitted.size:
        more = _normal_product(at_column, later, parents, completion, work)
        precision, weighted, n_categories = precision + more[0], weighted + more[1], n_categories + more[2]
        later, at_column = later_row(later, completion), at_column + completion.width
    if precision == 0.0:
        return 0.0, 1.0  # scaled numbers have this centre and this scale
    centre, whole = weighted / precision, precision
    for _ in range(_NEWTON_STEPS if n_categories > 0 else 0):
        slope, whole = precision * (weighted / precision - centre), precision
        later, at_column = i, column
        while later >= 0 and at_column < work.is_fitted.size:
            rise, bend = _of_categories(at_column, later, centre, parents, completion, (work, categories))
            slope += rise
            whole += bend
            later, at_column = later_row(later, completion), at_column + completion.width
        centre += slope / whole
    return centre, 1.0 / math.sqrt(whole)


@hot
def _normal_product(
    column: int, i: int, parents: Words, completion: Completion, work: Regressions
) -> tuple[float, float, int]:
    """Precision, precision times centre, and the number of categories, of the column's families in a row."""
    row = completion.n_complete + i
    precision, weighted, n_categories = 0.0, 0.0, 0
    for node in range(work.is_fitted.size):
        if (node != column and not has_bit(parents, node, column)) or work.is_fitted[node] == 0:
            continue
        if not is_own(node, row, completion):
            continue
        if work.gaussian.is_number[node] == 0:
            n_categories += 1
            continue
        at, fits, p = _fit_of(node, i, -1, 0, completion, work), work.fits[node], work.n_numbers[node]
        left, slope = -fits[at], 1.0
        if node != column:
            left, slope = left + completion.numbers[node, row], 0.0
        for k in range(p):
            parent = work.numbers[node, k]
            if parent == column:
                slope = fits[at + 1 + k]
            else:
                left -= fits[at + 1 + k] * completion.numbers[parent, row]
        variance = fits[at + p + 1]
        precision += slope * slope / variance
        weighted += (-left if node == column else slope * left) / variance
    return precision, weighted, n_categories


@hot
def _of_categories(
    column: int, i: int, value: float, parents: Words, completion: Completion, fits: tuple[Regressions, CategoryFits]
) -> tuple[float, float]:
    """Slope and curvature of the log probabilities of the categories below a number in a row."""
    work, categories = fits
    slope, whole = 0.0, 0.0
    for node in range(work.is_fitted.size):
        is_child = node != column and has_bit(parents, node, column)
        if not is_own(node, completion.n_complete + i, completion):
            continue
        if is_child and work.is_fitted[node] != 0 and work.gaussian.is_number[node] == 0:
            rise, bend = slope_and_curvature(node, i, column, value, completion, categories)
            slope += rise
            whole += bend
    return slope, whole
