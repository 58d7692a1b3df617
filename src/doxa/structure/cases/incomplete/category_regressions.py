r"""Regressions of categories on numbers, that offers of missing cells are made of.

A family of a category with numbers among its parents is fitted by a multinomial logistic regression on them all to the
rows in which a column c is observed: log odds :math:`h_k = \theta_k^T x`, k = 1, ..., K, against the first state, with
the numbers, and indicators of the states of other parents, in x.  The fit need not be the mode: offers are accepted by
scores.  So it takes steps of Boehning's bound (Annals of the Institute of Statistical Mathematics 44, 1992), whose
curvature is the same at every step,

.. math:: \theta \leftarrow \theta + 2 (I + J) \, (Y - P)^T X \, (X^T X + \lambda I)^{-1},

with Y - P what is left of the indicators of the states, and J all ones.

A missing number c among the parents then has, beside the normal densities of
`doxa.structure.cases.incomplete.regressions`, the slopes and curvatures of these log probabilities, and the offers are
centred by Newton's method.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, lowest_bit
from doxa.arrays import Ints, Words
from doxa.structure.cases.incomplete.missing_cells import Completion
from doxa.structure.families.gaussian.box import factorise
from doxa.structure.families.logistic.mode import solve, solve_transposed

__all__ = ["CategoryFits", "category_fits", "fit_category", "log_probability", "slope_and_curvature"]

_MOST_COLUMNS = 48  # of a design: larger families say nothing
_STEPS = 25
_RIDGE = 0.5  # in rows, for each coefficient


@by_address
class CategoryFits(NamedTuple):
    """The fits of one chain, and work space."""

    is_number: NDArray[np.int64]  # (n_nodes,)
    n_parents: NDArray[np.int64]  # (n_nodes,)
    parents: NDArray[np.int64]  # (n_nodes, most)
    theta: NDArray[np.float64]  # (n_nodes, most odds, most columns): intercept first
    design: NDArray[np.float64]  # (most columns, n_rows)
    left: NDArray[np.float64]  # (most odds + 1, n_rows)
    products: NDArray[np.float64]  # (most columns, most columns)
    step: NDArray[np.float64]  # (most odds, most columns)
    odds: NDArray[np.float64]  # (most odds,): of one row


def category_fits(is_number: NDArray[np.bool_], n_states: NDArray[np.int64], n_rows: int) -> CategoryFits:
    """Fresh work space; of no columns if there are no numbers, or nothing else."""
    n, some = len(n_states), bool(is_number.any()) and not bool(is_number.all())
    most = min(_MOST_COLUMNS, 1 + int(np.maximum(1, n_states - 1).sum())) if some else 0
    odds, rows = (max(1, int(n_states.max()) - 1), n_rows) if some else (0, 0)
    return CategoryFits(
        is_number.astype(np.int64), np.zeros(n, dtype=np.int64), np.zeros((n, most), dtype=np.int64),
        np.zeros((n if some else 0, odds, most)), np.zeros((most, rows)), np.zeros((odds + 1, rows)),
        np.zeros((most, most)), np.zeros((odds, most)), np.zeros(odds),
    )  # fmt: skip


@hot
def fit_category(node: int, parents: Words, completion: Completion, weights: Ints, fits: CategoryFits) -> bool:
    """Fit a category's family to rows with these weights; False if its design has too many columns."""
    n_states, columns, x = completion.n_states, completion.columns, fits.design
    n_odds, n = n_states[node] - 1, weights.size
    d, p = 1, 0
    for row in range(n):
        x[0, row] = 1.0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            width = 1 if fits.is_number[parent] != 0 else n_states[parent] - 1
            if d + width > x.shape[0]:
                return False
            fits.parents[node, p] = parent
            p += 1
            for k in range(width):
                for row in range(n):
                    if fits.is_number[parent] != 0:
                        x[d, row] = completion.numbers[parent, row]
                    else:
                        x[d, row] = 1.0 if columns[parent, row] == k + 1 else 0.0
                d += 1
    fits.n_parents[node] = p
    products, theta = fits.products, fits.theta[node]
    for i in range(d):
        for j in range(i + 1):
            total = _RIDGE if i == j else 0.0
            for row in range(n):
                total += weights[row] * x[i, row] * x[j, row]
            products[i, j] = total
    factorise(products, d, _RIDGE)
    theta[:] = 0.0
    for _ in range(_STEPS):
        _step(node, n_odds, d, columns[node], weights, fits)
        for k in range(n_odds):
            for j in range(d):
                theta[k, j] += fits.step[k, j]
    return True


@hot
def _step(node: int, n_odds: int, d: int, own: NDArray[np.int16], weights: Ints, fits: CategoryFits) -> None:
    """One step of the bound, into ``fits.step``."""
    x, left, theta, products, step = fits.design, fits.left, fits.theta[node], fits.products, fits.step
    for row in range(weights.size):
        if weights[row] == 0:
            for k in range(n_odds):
                left[k, row] = 0.0
            continue
        top, total = 0.0, 0.0
        for k in range(n_odds):
            h = 0.0
            for j in range(d):
                h += theta[k, j] * x[j, row]
            left[k, row] = h
            top = max(top, h)
        for k in range(n_odds):
            left[k, row] = math.exp(left[k, row] - top)
            total += left[k, row]
        total += math.exp(-top)
        for k in range(n_odds):
            left[k, row] = weights[row] * ((1.0 if own[row] == k + 1 else 0.0) - left[k, row] / total)
    for k in range(n_odds):
        for j in range(d):
            total = -_RIDGE * theta[k, j]
            for row in range(weights.size):
                total += left[k, row] * x[j, row]
            step[k, j] = total
        solve(products, d, step[k])
        solve_transposed(products, d, step[k])
    for j in range(d):  # 2 (I + J)
        total = 0.0
        for k in range(n_odds):
            total += step[k, j]
        for k in range(n_odds):
            step[k, j] = 2.0 * (step[k, j] + total)


@hot
def log_probability(node: int, i: int, column: int, state: int, completion: Completion, fits: CategoryFits) -> float:
    """Log probability of the node's own cell in incomplete row i under the fit, with this state in the column."""
    own = state if node == column else np.int64(completion.rows[i, node])
    top, total = _fill_odds(node, i, column, state, completion, fits)
    return (fits.odds[own - 1] if own > 0 else 0.0) - top - math.log(total)


@hot
def _fill_odds(
    node: int, i: int, column: int, state: int, completion: Completion, fits: CategoryFits
) -> tuple[float, float]:
    """Log odds into ``fits.odds``; the largest, 0 at least, and the sum of 1 and their exponentials over its own."""
    theta, row, n_odds = fits.theta[node], completion.n_complete + i, completion.n_states[node] - 1
    for k in range(n_odds):
        h, d = theta[k, 0], 1
        for j in range(fits.n_parents[node]):
            parent = fits.parents[node, j]
            if fits.is_number[parent] != 0:
                h += theta[k, d] * completion.numbers[parent, row]
                d += 1
                continue
            code = state if parent == column else np.int64(completion.rows[i, parent])
            if code > 0:
                h += theta[k, d + code - 1]
            d += completion.n_states[parent] - 1
        fits.odds[k] = h
    top = 0.0
    for k in range(n_odds):
        top = max(top, fits.odds[k])
    total = math.exp(-top)
    for k in range(n_odds):
        total += math.exp(fits.odds[k] - top)
    return top, total


@hot
def slope_and_curvature(
    node: int, i: int, column: int, value: float, completion: Completion, fits: CategoryFits
) -> tuple[float, float]:
    """Of the log probability of the node's own cell in incomplete row i, where the column is ``value``."""
    n_odds, own, d = completion.n_states[node] - 1, np.int64(completion.rows[i, node]), 1
    for j in range(fits.n_parents[node]):
        parent = fits.parents[node, j]
        if parent == column:
            break
        d += 1 if fits.is_number[parent] != 0 else completion.n_states[parent] - 1
    place = completion.n_complete + i
    held = completion.numbers[column, place]
    completion.numbers[column, place] = value
    top, total = _fill_odds(node, i, -1, 0, completion, fits)
    completion.numbers[column, place] = held
    mean, square = 0.0, 0.0
    for k in range(n_odds):
        share, slope = math.exp(fits.odds[k] - top) / total, fits.theta[node, k, d]
        mean += share * slope
        square += share * slope * slope
    return (fits.theta[node, own - 1, d] if own > 0 else 0.0) - mean, square - mean * mean
