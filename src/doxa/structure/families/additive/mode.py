r"""The mode of a multinomial logistic regression, the contrasts of categories, and the work space of one chain.

A node of K + 1 states has K log odds against its first state, each linear in the d columns x of the design: a one, the
numbers, and the contrasts of the categories (`fill_contrasts`).  With the coefficients :math:`T_{kj}` of column j in
log odds k,

.. math:: P(s = k \mid x) \propto e^{h_k}, \quad h_k = \sum_j T_{kj} x_j, \quad h_0 = 0, \qquad
   (T_{1j}, \dots, T_{Kj}) \sim N\big(0, \tfrac{\sigma^2}2 (I + J)\big) \text{ independently for all } j,

J being all ones.  So the log odds of any two states have the same prior, N(0, sigma^2) for each column, whichever state
is the first, and a node of two states has the prior of `doxa.structure.families.logistic.score.Logistic`.  With B the
Cholesky factor of that covariance and T = B u, u is standard normal; its mode is found by Newton's method.

It begins at Fisher's linear discriminant: the log odds of normal columns with one covariance in all states, which the
columns' sums of products say.  Two or three steps are then left of six.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats
from doxa.structure.families.additive.products import LANES, add_dots, add_products, combine_rows
from doxa.structure.families.logistic.mode import factorise, solve, solve_transposed
from doxa.structure.families.logistic.softplus import exponential, logarithm
from doxa.structure.families.logistic.work import CHUNK, LogisticWork

__all__ = [
    "BLOCK",
    "MOST_COEFFICIENTS",
    "MOST_IN_SERIES",
    "MOST_ODDS_IN_SERIES",
    "MultinomialWork",
    "fill_contrasts",
    "fill_root",
    "find_multinomial_mode",
    "multinomial_work",
    "normalise",
    "odds_of",
    "to_differences",
]

MOST_COEFFICIENTS = 64  # the fixed nodes have so many columns
BLOCK = 256  # cells whose columns stay in the nearest cache
MOST_IN_SERIES = 24  # coefficients: the tensor of third derivatives has their cube
MOST_ODDS_IN_SERIES = 20  # whose covariances fit the rows of `moved`
_MOST_STEPS, _FEWEST_HALVES = 100, 2.0**-30
_GAIN = 1e-5  # nats left: what the last step changes is known to the first order
_LARGE = 60.0  # of a log odds whose exponential is taken as it is


class MultinomialWork(NamedTuple):
    """Cells and work space of one chain; ``n_padded`` is a multiple of 8, and cells beyond the last have no cases."""

    x: Floats  # (n_columns, n_padded): the design, a column a row
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
    moved: Floats  # (4 d, CHUNK): T of the nodes
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
    for begin in range(0, n, BLOCK):
        for k in range(n_odds):
            combine_rows(cells.differences[k * d :], cells.x, d, (begin, min(BLOCK, n - begin)), out[k, begin:])


@hot
def normalise(n_odds: int, n: int, cells: MultinomialWork) -> float:
    """Log odds in ``cells.share`` become probabilities; the sum over the cases of log(1 + sum of exp(h))."""
    total = 0.0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        if _largest(n_odds, begin, end, cells) > _LARGE:
            total += _normalise_large(n_odds, begin, end, cells)
            continue
        part, cases = cells.part[: end - begin], cells.cases[begin:end]
        for cell in range(part.size):
            part[cell] = 1.0
        for k in range(n_odds):
            own = cells.share[k, begin:end]
            for cell in range(part.size):
                own[cell] = exponential(own[cell])
                part[cell] += own[cell]
        logs = cells.top[: end - begin]
        for cell in range(part.size):
            logs[cell] = cases[cell] * logarithm(part[cell])
            part[cell] = np.divide(1.0, part[cell])
        total += _sum_of(logs)
        for k in range(n_odds):
            own = cells.share[k, begin:end]
            for cell in range(part.size):
                own[cell] *= part[cell]
    return total


@hot
def _largest(n_odds: int, begin: int, end: int, cells: MultinomialWork) -> float:
    """The largest size of a log odds in ``cells.share``, by halves."""
    top = cells.top[: end - begin]
    for cell in range(top.size):
        top[cell] = 0.0
    for k in range(n_odds):
        own = cells.share[k, begin:end]
        for cell in range(top.size):
            size = abs(own[cell])
            top[cell] = size if size > top[cell] else top[cell]
    size = top.size
    while size > 1:
        half = (size + 1) // 2
        first, second = top[: size - half], top[half:size]
        for cell in range(first.size):
            first[cell] = second[cell] if second[cell] > first[cell] else first[cell]
        size = half
    return top[0]  # type: ignore[no-any-return]


@hot
def _sum_of(values: Floats) -> float:
    """Their sum, by halves, which changes them: the loop is one of vector instructions."""
    size = values.size
    while size > 1:
        half = (size + 1) // 2
        first, second = values[: size - half], values[half:size]
        for cell in range(first.size):
            first[cell] += second[cell]
        size = half
    return values[0]  # type: ignore[no-any-return]


@hot
def _normalise_large(n_odds: int, begin: int, end: int, cells: MultinomialWork) -> float:
    """`normalise` of cells with log odds whose exponentials might not fit a float."""
    share, total = cells.share, 0.0
    for cell in range(begin, end):
        top = 0.0
        for k in range(n_odds):
            top = max(top, share[k, cell])
        part = math.exp(-top)
        for k in range(n_odds):
            share[k, cell] = math.exp(share[k, cell] - top)
            part += share[k, cell]
        for k in range(n_odds):
            share[k, cell] /= part
        if cells.cases[cell] > 0.0:
            total += cells.cases[cell] * (top + math.log(part))
    return total


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
def find_multinomial_mode(
    n_odds: int, d: int, n: int, scale: float, cells: MultinomialWork, work: LogisticWork
) -> tuple[float, float]:
    """A point next to the mode into ``work.mean``, the Cholesky factor of the precision there into ``work.precision``.

    Returns the log posterior at that point, and twice what it still gains to the mode, at most 1e-5; the step that is
    left is in ``work.step``.
    """
    size = n_odds * d
    mean, trial, step = work.mean, work.trial, work.step
    n_cases = _discriminant(n_odds, d, n, scale, cells, work)
    value = _objective(n_odds, d, n, mean, cells)
    if not value > -n_cases * math.log(n_odds + 1.0):  # what no column at all says
        for i in range(size):
            mean[i] = 0.0
        value = _objective(n_odds, d, n, mean, cells)
    gain = 0.0
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
            gain = 0.0
            for i in range(size):
                step[i] = 0.0
            break
        for i in range(size):
            mean[i] = trial[i]
        value = new
    return value, gain


@hot
def _discriminant(n_odds: int, d: int, n: int, scale: float, cells: MultinomialWork, work: LogisticWork) -> float:
    """Fisher's linear discriminant, as u, into ``work.mean``; returns the number of cases.

    Slopes of the log odds are W^-1 (m_k - m_0), with the columns' means in each state and their covariance W within
    states; the prior counts as if it were the covariance of some more cases.
    """
    within, sums, ridge = cells.spread, cells.differences, 4.0 / (scale * scale)
    for i in range(d):
        for j in range(i + 1):
            within[i, j] = 0.0
    for begin in range(0, n, BLOCK):
        for i in range(d):
            add_products(cells.cases[begin:], cells.x, i, i + 1, (begin, min(BLOCK, n - begin)), within[i])
    n_cases = within[0, 0]
    first = work.step  # of the first state: cases, sums; then means
    for j in range(d):
        first[j] = within[j, 0]
        for k in range(n_odds):
            sums[k * d + j] = cells.slopes[k * d + j]
            first[j] -= sums[k * d + j]
    for k in range(-1, n_odds):
        own = first if k < 0 else sums[k * d :]
        share = 1.0 / own[0] if own[0] > 0.5 else 0.0
        for i in range(1, d):
            for j in range(1, i + 1):
                within[i, j] -= share * own[i] * own[j]
        for j in range(1, d):
            own[j] *= share
    for i in range(1, d):
        for j in range(1, i + 1):
            work.precision[i - 1, j - 1] = within[i, j] / ridge + (1.0 if i == j else 0.0)
    factorise(work.precision, d - 1)
    base, mean = 0.0, work.mean
    for k in range(-1, n_odds):
        own = first if k < 0 else sums[k * d :]
        length = _solve_within(d, n_cases / ridge, own, work)
        base = length if k < 0 else base
        if k >= 0:
            mean[k * d] = math.log((own[0] + 0.5) / (first[0] + 0.5)) - 0.5 * (length - base)
            for j in range(1, d):
                mean[k * d + j] = work.trial[j - 1]
        else:
            for j in range(1, d):
                work.centre[j] = work.trial[j - 1]
    for k in range(n_odds):
        for j in range(1, d):
            mean[k * d + j] -= work.centre[j]
    for k in range(n_odds):  # u = B^-1 T
        for j in range(d):
            for a in range(k):
                mean[k * d + j] -= cells.root[k, a] * mean[a * d + j]
            mean[k * d + j] /= cells.root[k, k]
    return n_cases  # type: ignore[no-any-return]


@hot
def _solve_within(d: int, scale: float, means: Floats, work: LogisticWork) -> float:
    """The inverse of W times the means, into ``work.trial``; the product with the means."""
    found = work.trial
    for j in range(d - 1):
        found[j] = scale * means[j + 1]
    solve(work.precision, d - 1, found)
    solve_transposed(work.precision, d - 1, found)
    length = 0.0
    for j in range(d - 1):
        length += found[j] * means[j + 1]
    return length


@hot
def _newton_step(n_odds: int, d: int, n: int, cells: MultinomialWork, work: LogisticWork) -> None:
    """Gradient into ``work.trial``, factor of the precision, its inverse times the gradient into ``work.step``."""
    size, root, hessian = n_odds * d, cells.root, cells.hessian
    gradient, half, precision = work.trial, work.axes, work.precision
    _add_up(n_odds, d, n, cells, work.step)
    for a in range(n_odds):  # to u: B' H B + I
        for i in range(d):
            total = 0.0
            for k in range(a, n_odds):
                total += root[k, a] * (cells.slopes[k * d + i] - work.step[k * d + i])
            gradient[a * d + i] = total - work.mean[a * d + i]
            for column_of in range(size):
                total = 0.0
                for k in range(a, n_odds):
                    total += root[k, a] * hessian[k * d + i, column_of]
                half[a * d + i, column_of] = total
    for row in range(size):
        for b in range(row // d + 1):
            for j in range(min(d, row + 1 - b * d)):
                total = 1.0 if b * d + j == row else 0.0
                for k in range(b, n_odds):
                    total += half[row, k * d + j] * root[k, b]
                precision[row, b * d + j] = total
    factorise(precision, size)
    for i in range(size):
        work.step[i] = gradient[i]
    solve(precision, size, work.step)
    solve_transposed(precision, size, work.step)


@hot
def _add_up(n_odds: int, d: int, n: int, cells: MultinomialWork, expected: Floats) -> None:
    """Of the columns, sums weighted by the probabilities, into ``expected``, and second derivatives in T."""
    hessian, share = cells.hessian, cells.share
    for i in range(n_odds * d):
        expected[i] = 0.0
        for j in range(n_odds * d):
            hessian[i, j] = 0.0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        span = (begin, end - begin)
        part, weight, cases = cells.part[: end - begin], cells.top[: end - begin], cells.cases[begin:end]
        for k in range(n_odds):
            own = share[k, begin:end]
            for cell in range(part.size):
                part[cell] = cases[cell] * own[cell]
            add_dots(part, cells.x, d, span, expected[k * d :])
            for other in range(k + 1):
                with_one, less = share[other, begin:end], 1.0 if other == k else 0.0
                for cell in range(part.size):
                    weight[cell] = part[cell] * (less - with_one[cell])
                for i in range(d):
                    add_products(weight, cells.x, i, i + 1, span, hessian[k * d + i, other * d :])
    for k in range(n_odds):
        for other in range(k + 1):
            for i in range(d):
                for j in range(i + 1):
                    found = hessian[k * d + i, other * d + j]
                    hessian[k * d + j, other * d + i] = found
                    hessian[other * d + i, k * d + j] = hessian[other * d + j, k * d + i] = found
