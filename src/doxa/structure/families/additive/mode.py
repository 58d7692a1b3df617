r"""The mode of a multinomial logistic regression, the contrasts of categories, and the work space of one chain.

A node of K + 1 states has K log odds against its first state, each linear in the d columns x of the design: a one, the
numbers, and the contrasts of the categories (`fill_contrasts`).  With the coefficients :math:`T_{kj}` of column j in
log odds k,

.. math:: P(s = k \mid x) \propto e^{h_k}, \quad h_k = \sum_j T_{kj} x_j, \quad h_0 = 0, \qquad
   (T_{1j}, \dots, T_{Kj}) \sim N\big(0, \tfrac{\sigma^2}2 (I + J)\big) \text{ independently for all } j,

J being all ones.  So the log odds of any two states have the same prior, N(0, sigma^2) for each column, whichever state
is the first, and a node of two states has the prior of `doxa.structure.families.logistic.score.Logistic`.  With B the
Cholesky factor of that covariance and T = B u, u is standard normal; its mode is found by Newton's method.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats
from doxa.structure.families.logistic.mode import factorise, solve, solve_transposed
from doxa.structure.families.logistic.softplus import exponentials
from doxa.structure.families.logistic.work import CHUNK, LogisticWork

__all__ = [
    "LANES",
    "MOST_COEFFICIENTS",
    "MOST_IN_SERIES",
    "MOST_ODDS_IN_SERIES",
    "MultinomialWork",
    "dot",
    "fill_contrasts",
    "fill_root",
    "find_multinomial_mode",
    "multinomial_work",
    "normalise",
    "odds_at",
    "odds_of",
    "stride_of",
    "to_differences",
]

MOST_COEFFICIENTS = 64  # the fixed nodes have so many columns
LANES = 8  # cells that are added up side by side
MOST_IN_SERIES = 24  # coefficients: the tensor of third derivatives has their cube
MOST_ODDS_IN_SERIES = 20  # whose covariances fit the rows of `moved`
_MOST_STEPS, _FEWEST_HALVES = 100, 2.0**-30
_GAIN = 1e-7  # nats: the nodes' law need not be centred better


class MultinomialWork(NamedTuple):
    """Cells and work space of one chain; ``n_padded`` is a multiple of 8, and cells beyond the last have no cases."""

    x: Floats  # (n_columns, n_padded): the design, a column a row; rows beyond the last are 0 up to a multiple of 4
    counts: Floats  # (most K, n_padded): cases in each state but the first
    cases: Floats  # (n_padded,)
    share: Floats  # (most K, n_padded): probabilities of these states; before that, log odds
    logits: Floats  # (most K, n_padded): log odds at the mode
    along: Floats  # (most K, n_padded)
    top: Floats  # (n_padded,)
    part: Floats  # (n_padded,)
    root: Floats  # (most K, most K): B
    slopes: Floats  # (d,): of the linear part of the log likelihood, in T
    differences: Floats  # (d,): T
    hessian: Floats  # (d, d)
    moved: Floats  # (4 d, CHUNK): T of the nodes, rows of zeros after every log odds
    top_of_nodes: Floats  # (CHUNK,)
    most: Floats  # (d,)
    least: Floats  # (d,)
    spread: Floats  # (d, d): covariance of T under Laplace's Gaussian
    skewness: Floats  # (3, 24, 24, 24): the tensor of third derivatives, and work space


def multinomial_work(n_rows: int, n_columns: int, most_states: int) -> MultinomialWork:
    """Work space for a table of so many rows, designs of so many columns, and nodes of so many states."""
    padded = -(-max(1, n_rows) // LANES) * LANES
    k, d = max(1, most_states - 1), MOST_COEFFICIENTS
    wide = (k, padded)
    return MultinomialWork(
        np.zeros((n_columns + 4, padded)), np.zeros(wide), np.zeros(padded), np.zeros(wide), np.zeros(wide),
        np.zeros(wide), np.zeros(padded), np.zeros(padded), np.zeros((k, k)), np.zeros(d), np.zeros(d),
        np.zeros((d, d)), np.zeros((4 * d, CHUNK)), np.zeros(CHUNK), np.zeros(d), np.zeros(d), np.zeros((d, d)),
        np.zeros((3, MOST_IN_SERIES, MOST_IN_SERIES, MOST_IN_SERIES)),
    )  # fmt: skip


@hot
def fill_contrasts(column: NDArray[np.int16], n_states: int, rows: NDArray[np.int64], n: int, x: Floats) -> None:
    r"""The n_states - 1 contrasts of a category in the first ``n`` of these rows, into the rows of ``x``.

    Helmert's, each of which compares a state with those before it, times :math:`\sqrt 2`: two states are -1 and +1.
    With independent normal coefficients of the same variance v, the effects of any two states differ by N(0, 4v),
    however many states there are: their names and order mean nothing.
    """
    for k in range(1, n_states):
        unit = math.sqrt(2.0 / (k * (k + 1.0)))
        target = x[k - 1]
        for cell in range(n):
            code = column[rows[cell]]
            target[cell] = -unit if code < k else (k * unit if code == k else 0.0)


@hot
def fill_root(n_odds: int, scale: float, cells: MultinomialWork) -> None:
    """Cholesky factor of scale^2 (I + J) / 2: in each column all entries below the diagonal are the same."""
    for a in range(n_odds):
        # what is left of the matrix is (I + c J) / 2 with c = 1 / (a + 1)
        left = 1.0 / (a + 1.0)
        diagonal = math.sqrt(0.5 * (1.0 + left))
        for k in range(n_odds):
            cells.root[k, a] = 0.0 if k < a else scale * (diagonal if k == a else 0.5 * left / diagonal)


@inlined
def dot(a: Floats, b: Floats, n: int) -> float:
    """Sum of products of the first ``n`` entries, a multiple of 8, in eight lanes: the same on every machine."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for i in range(0, n, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


@hot
def to_differences(n_odds: int, d: int, u: Floats, cells: MultinomialWork) -> None:
    """T = B u into ``cells.differences``."""
    for k in range(n_odds):
        for j in range(d):
            total = 0.0
            for a in range(k + 1):
                total += cells.root[k, a] * u[a * d + j]
            cells.differences[k * d + j] = total


@hot
def odds_of(n_odds: int, d: int, n: int, cells: MultinomialWork, out: Floats) -> None:
    """Log odds of every cell by ``cells.differences``."""
    for k in range(n_odds):
        target, first = out[k], cells.differences[k * d]
        for cell in range(n):
            target[cell] = first
        for j in range(1, d):
            size, column = cells.differences[k * d + j], cells.x[j]
            for cell in range(n):
                target[cell] += size * column[cell]


@hot
def normalise(n_odds: int, n: int, cells: MultinomialWork) -> float:
    """Log odds in ``cells.share`` become probabilities; the sum over the cases of log(1 + sum of exp(h))."""
    share, top, part, cases = cells.share, cells.top, cells.part, cells.cases
    for cell in range(n):
        top[cell] = 0.0
    for k in range(n_odds):
        source = share[k]
        for cell in range(n):
            top[cell] = source[cell] if source[cell] > top[cell] else top[cell]
    total = 0.0
    for cell in range(n):
        total += cases[cell] * top[cell]
    for k in range(n_odds):
        source = share[k]
        for cell in range(n):
            part[cell] = source[cell] - top[cell]
            source[cell] = 1.0
        exponentials(part[:n], source[:n])
    for cell in range(n):
        top[cell] = -top[cell]
        part[cell] = 1.0
    exponentials(top[:n], part[:n])
    for k in range(n_odds):
        source = share[k]
        for cell in range(n):
            part[cell] += source[cell]
    for k in range(n_odds):
        source = share[k]
        for cell in range(n):
            source[cell] = np.divide(source[cell], part[cell])
    product = 1.0
    for cell in range(n):  # one logarithm for many cells
        if cases[cell] == 1.0:
            product *= part[cell]
            if product > 1e200:
                total += math.log(product)
                product = 1.0
        elif cases[cell] > 0.0:
            total += cases[cell] * math.log(part[cell])
    return total + math.log(product)


@hot
def _objective(n_odds: int, d: int, n: int, u: Floats, cells: MultinomialWork) -> float:
    """Log likelihood less half the squared length of u; probabilities into ``cells.share``."""
    to_differences(n_odds, d, u, cells)
    total = 0.0
    for i in range(n_odds * d):
        total += cells.slopes[i] * cells.differences[i] - 0.5 * u[i] * u[i]
    odds_of(n_odds, d, n, cells, cells.share)
    return total - normalise(n_odds, n, cells)


@hot
def find_multinomial_mode(n_odds: int, d: int, n: int, cells: MultinomialWork, work: LogisticWork) -> float:
    """Mode into ``work.mean``, Cholesky factor of the precision there into ``work.precision``; returns the peak."""
    size = n_odds * d
    mean, trial, step = work.mean, work.trial, work.step
    for i in range(size):
        mean[i] = 0.0
    value = _objective(n_odds, d, n, mean, cells)
    for _ in range(_MOST_STEPS):
        _newton_step(n_odds, d, n, cells, work)
        gain = 0.0
        for i in range(size):
            gain += step[i] * trial[i]  # the gradient is in `trial`
        if gain < _GAIN:
            break
        length, new = 1.0, value
        while length > _FEWEST_HALVES:
            for i in range(size):
                trial[i] = mean[i] + length * step[i]
            new = _objective(n_odds, d, n, trial, cells)
            if new >= value + 1e-4 * length * gain:
                break
            length *= 0.5
        if length <= _FEWEST_HALVES:  # rounding is all that is left to gain
            _objective(n_odds, d, n, mean, cells)
            break
        for i in range(size):
            mean[i] = trial[i]
        value = new
    to_differences(n_odds, d, mean, cells)
    odds_of(n_odds, d, n, cells, cells.logits)
    return value


@hot
def _newton_step(n_odds: int, d: int, n: int, cells: MultinomialWork, work: LogisticWork) -> None:
    """Gradient into ``work.trial``, factor of the precision, its inverse times the gradient into ``work.step``."""
    size, root, hessian = n_odds * d, cells.root, cells.hessian
    gradient, half, precision = work.trial, work.axes, work.precision
    part, top, share, cases = cells.part, cells.top, cells.share, cells.cases
    for k in range(n_odds):
        own = share[k]
        for cell in range(n):
            part[cell] = cases[cell] * own[cell]
        for j in range(d):
            work.step[k * d + j] = cells.slopes[k * d + j] - dot(part, cells.x[j], n)
        for other in range(k + 1):
            with_one = share[other]
            less = 1.0 if other == k else 0.0
            for cell in range(n):
                top[cell] = part[cell] * (less - with_one[cell])
            for i in range(d):
                column = cells.x[i]
                scaled = cells.along[0]
                for cell in range(n):
                    scaled[cell] = top[cell] * column[cell]
                for j in range(i + 1):
                    found = dot(scaled, cells.x[j], n)
                    hessian[k * d + i, other * d + j] = hessian[k * d + j, other * d + i] = found
                    hessian[other * d + i, k * d + j] = hessian[other * d + j, k * d + i] = found
    for a in range(n_odds):  # to u: B' H B + I
        for i in range(d):
            total = 0.0
            for k in range(a, n_odds):
                total += root[k, a] * work.step[k * d + i]
            gradient[a * d + i] = total - work.mean[a * d + i]
            for column_of in range(size):
                total = 0.0
                for k in range(a, n_odds):
                    total += root[k, a] * hessian[k * d + i, column_of]
                half[a * d + i, column_of] = total
    for row in range(size):
        for b in range(n_odds):
            for j in range(d):
                if b * d + j > row:
                    continue
                total = 1.0 if b * d + j == row else 0.0
                for k in range(b, n_odds):
                    total += half[row, k * d + j] * root[k, b]
                precision[row, b * d + j] = total
    factorise(precision, size)
    for i in range(size):
        work.step[i] = gradient[i]
    solve(precision, size, work.step)
    solve_transposed(precision, size, work.step)


@inlined
def stride_of(d: int) -> int:
    """Rows of ``cells.moved`` for one of the log odds: the one, and other columns by fours."""
    return 1 + 4 * ((d + 2) // 4)


@inlined
def odds_at(cell: int, n_nodes: int, first: int, stride: int, cells: MultinomialWork, out: Floats) -> None:
    """One of the cell's log odds at every node; the rows of ``cells.moved`` begin at ``first``."""
    moved, x = cells.moved, cells.x
    source = moved[first]
    for p in range(n_nodes):
        out[p] = source[p]
    for j in range(1, stride, 4):
        x0, x1, x2, x3 = x[j, cell], x[j + 1, cell], x[j + 2, cell], x[j + 3, cell]
        m0, m1, m2, m3 = moved[first + j], moved[first + j + 1], moved[first + j + 2], moved[first + j + 3]
        for p in range(n_nodes):
            out[p] += (x0 * m0[p] + x1 * m1[p]) + (x2 * m2[p] + x3 * m3[p])
