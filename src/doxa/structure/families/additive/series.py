r"""The term of Laplace's approximation that comes next, and what it leaves.

Along a change of the log odds from the mode, the log posterior is normal but for its third and fourth cumulants,
:math:`\kappa_3` and :math:`\kappa_4`, summed over the cases.  Under Laplace's Gaussian the weight of a change and its
mirror image has the mean :math:`1 + E[\kappa_3^2] / 72 - E[\kappa_4] / 24` and terms of higher order.  Both
expectations have a closed form in the derivatives at the mode.  They are taken a last small step of Newton's away from
it; what the step changes of the determinant is the third derivatives' share, to the first order.
"""

from __future__ import annotations

import math

from doxa._jit import hot, inlined
from doxa.arrays import Floats
from doxa.structure.families.additive.mode import BLOCK, MOST_IN_SERIES, MultinomialWork, to_differences
from doxa.structure.families.additive.products import LANES, add_dots, add_products, combine_rows
from doxa.structure.families.logistic.work import CHUNK, LogisticWork

__all__ = ["second_order"]


@hot
def second_order(n_odds: int, d: int, n_cells: int, cells: MultinomialWork, work: LogisticWork) -> tuple[float, float]:
    """What the next terms add to Laplace's approximation (nats), and the standard error that this is taken to have.

    The step that is left to the mode is in ``work.step``, as u.
    """
    size, spread, growth = n_odds * d, cells.spread, cells.hessian
    n = -(-n_cells // LANES) * LANES
    for axis in range(size):
        to_differences(n_odds, d, work.frame[axis], cells)
        for i in range(size):
            growth[i, axis] = cells.differences[i]
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for axis in range(size):
                total += growth[i, axis] * growth[j, axis]
            spread[i, j] = spread[j, i] = total
        for j in range(size, -(-size // LANES) * LANES):
            spread[i, j] = 0.0
    of_fourth = _expected_fourth(n_odds, d, n, cells) / 24.0
    to_differences(n_odds, d, work.step, cells)
    of_third, drift = _expected_square(n_odds, d, n, cells)
    of_third /= 72.0
    error = 0.25 * (abs(of_third) + abs(of_fourth)) ** 2
    return math.log1p(max(of_third - of_fourth, -0.9)) - 0.5 * drift, error


@hot
def _expected_fourth(n_odds: int, d: int, n: int, cells: MultinomialWork) -> float:
    r"""Fourth cumulants of changes that are normal: 3 (sum p_k C_kk^2 - (sum p_k C_kk)^2 - 2 sum p_k p_l C_kl^2).

    C is the covariance of the changes around their mean under a cell's probabilities p.
    """
    total = 0.0
    for begin in range(0, n, CHUNK):
        total += _fourth_of_cells(n_odds, d, begin, min(CHUNK, n - begin), cells)
    return 3.0 * total


@hot
def _fourth_of_cells(n_odds: int, d: int, begin: int, size: int, cells: MultinomialWork) -> float:
    """`_expected_fourth` of some cells, side by side: their covariances stand in the rows of ``cells.moved``.

    No loop writes to more than one array: the compiler would have too many pairs of arrays to tell apart.
    """
    own, end = cells.moved, begin + size
    n_pairs = n_odds * (n_odds + 1) // 2
    centre, rest = own[n_pairs + n_odds, :size], own[n_pairs + n_odds + 1, :size]
    first, value = own[n_pairs + n_odds + 2, :size], own[n_pairs + n_odds + 3, :size]
    _fill_covariances(n_odds, d, begin, size, cells)
    for c in range(size):
        centre[c] = 0.0
        rest[c] = 1.0
    for k in range(n_odds):
        mean, share = own[n_pairs + k, :size], cells.share[k, begin:end]
        for c in range(size):
            mean[c] = 0.0
        for other in range(n_odds):
            source, of_other = own[_pair(k, other), :size], cells.share[other, begin:end]
            for c in range(size):
                mean[c] += of_other[c] * source[c]
        for c in range(size):
            centre[c] += share[c] * mean[c]
        for c in range(size):
            rest[c] -= share[c]
    for c in range(size):
        first[c] = rest[c] * centre[c]
    for c in range(size):
        value[c] = first[c] * (centre[c] - 2.0 * first[c])
    for k in range(n_odds):
        mean, share, square = own[n_pairs + k, :size], cells.share[k, begin:end], own[_pair(k, k), :size]
        for c in range(size):
            first[c] += share[c] * (square[c] - 2.0 * mean[c] + centre[c])
        for c in range(size):
            variance, away = square[c] - 2.0 * mean[c] + centre[c], centre[c] - mean[c]
            value[c] += share[c] * (variance * variance - 4.0 * rest[c] * away * away)
        for other in range(k + 1):
            source, of_other = own[_pair(k, other), :size], cells.share[other, begin:end]
            other_mean, times = own[n_pairs + other, :size], 2.0 if other == k else 4.0
            for c in range(size):
                both = source[c] - mean[c] - other_mean[c] + centre[c]
                value[c] -= times * share[c] * of_other[c] * both * both
    total, cases = 0.0, cells.cases[begin:end]
    for c in range(size):
        total += cases[c] * (value[c] - first[c] * first[c])
    return total


@inlined
def _pair(k: int, other: int) -> int:
    return max(k, other) * (max(k, other) + 1) // 2 + min(k, other)


@hot
def _fill_covariances(n_odds: int, d: int, begin: int, size: int, cells: MultinomialWork) -> None:
    """Covariances of the changes of the cells' log odds, a row for each pair, into the first of ``cells.moved``."""
    x, spread, weights, end = cells.x, cells.spread, cells.least, begin + size
    part = cells.part[:size]
    for k in range(n_odds):
        for other in range(k + 1):
            target = cells.moved[_pair(k, other), :size]
            for c in range(size):
                target[c] = 0.0
            for i in range(d):
                for j in range(i):
                    weights[j] = spread[k * d + i, other * d + j] + spread[k * d + j, other * d + i]
                weights[i] = spread[k * d + i, other * d + i]
                combine_rows(weights, x, i + 1, (begin, size), part)
                along = x[i, begin:end]
                for c in range(size):
                    target[c] += part[c] * along[c]


@hot
def _expected_square(n_odds: int, d: int, n: int, cells: MultinomialWork) -> tuple[float, float]:
    """Expected square of the sum of third cumulants of changes that are normal; the change of -log of the determinant.

    The latter along ``cells.differences``.  The tensor and its product with a covariance are symmetric: of elements
    that are the same one is computed, and counted as often.
    """
    size, spread = n_odds * d, cells.spread
    wide = -(-size // LANES) * LANES
    tensor, one, two = cells.skewness[0], cells.skewness[1], cells.skewness[2]
    _fill_skewness(n_odds, d, n, cells)
    for a in range(size):
        for b in range(a + 1):
            combine_rows(tensor[a, b], spread, size, (0, wide), one[a, b])
            for f in range(wide):
                one[b, a, f] = one[a, b, f]
    for a in range(size):
        for e in range(size):
            upto, target = -(-(e + 1) // LANES) * LANES, two[a, e]
            combine_rows(spread[e], one[a], size, (0, upto), target)
            for f in range(e):
                target[f] *= 2.0
            for f in range(e + 1, MOST_IN_SERIES):
                target[f] = 0.0
    drift, total, trace, along = 0.0, 0.0, cells.least, cells.most
    for a in range(size):
        trace[a] = 0.0
        for e in range(size):
            for f in range(e + 1):
                trace[a] += (1.0 if e == f else 2.0) * spread[e, f] * tensor[a, e, f]
        drift += trace[a] * cells.differences[a]
        for g in range(a + 1):
            along[g] = 0.0
        add_dots(two[a], tensor, a + 1, (0, size * MOST_IN_SERIES), along)
        for g in range(a):
            total += 2.0 * spread[a, g] * along[g]
        total += spread[a, a] * along[a]
    straight = 0.0
    for a in range(size):
        for b in range(size):
            straight += trace[a] * spread[a, b] * trace[b]
    return 6.0 * total + 9.0 * straight, drift


@hot
def _fill_skewness(n_odds: int, d: int, n: int, cells: MultinomialWork) -> None:
    """Third derivatives of the log likelihood in T, without their sign, into ``cells.skewness[0]``."""
    size, tensor = n_odds * d, cells.skewness[0]
    for a in range(size):
        for b in range(size):
            for c in range(MOST_IN_SERIES):
                tensor[a, b, c] = 0.0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        weight, scaled = cells.part[: end - begin], cells.top[: end - begin]
        for k in range(n_odds):
            for other in range(k + 1):
                for third in range(other + 1):
                    _fill_weights(k, other, third, begin, weight, cells)
                    for i in range(d):
                        column = cells.x[i, begin:end]
                        for cell in range(weight.size):
                            scaled[cell] = weight[cell] * column[cell]
                        for j in range(i + 1):
                            target = tensor[k * d + i, other * d + j, third * d :]
                            add_products(scaled, cells.x, j, j + 1, (begin, end - begin), target)
    for k in range(n_odds):
        for other in range(k + 1):
            for third in range(other + 1):
                for i in range(d):
                    for j in range(i + 1):
                        for m in range(j + 1):
                            value = tensor[k * d + i, other * d + j, third * d + m]
                            _put(tensor, (k, other, third), (i, j, m), d, value)


@hot
def _fill_weights(k: int, other: int, third: int, begin: int, weight: Floats, cells: MultinomialWork) -> None:
    """Third cumulants of the states under the cells' probabilities, times cases."""
    end = begin + weight.size
    a, b, c = cells.share[k, begin:end], cells.share[other, begin:end], cells.share[third, begin:end]
    cases = cells.cases[begin:end]
    if k == third:
        for cell in range(weight.size):
            weight[cell] = cases[cell] * a[cell] * (1.0 - a[cell]) * (1.0 - 2.0 * a[cell])
    elif k == other:
        for cell in range(weight.size):
            weight[cell] = cases[cell] * a[cell] * c[cell] * (2.0 * a[cell] - 1.0)
    elif other == third:
        for cell in range(weight.size):
            weight[cell] = cases[cell] * a[cell] * b[cell] * (2.0 * b[cell] - 1.0)
    else:
        for cell in range(weight.size):
            weight[cell] = 2.0 * cases[cell] * a[cell] * b[cell] * c[cell]


@inlined
def _put(tensor: Floats, odds: tuple[int, int, int], at: tuple[int, int, int], d: int, value: float) -> None:
    """The same for every order of the log odds and every order of the columns."""
    a, b, c = odds
    i, j, m = at
    for k, other, third in ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
        for x, y, z in ((i, j, m), (i, m, j), (j, i, m), (j, m, i), (m, i, j), (m, j, i)):
            tensor[k * d + x, other * d + y, third * d + z] = value
