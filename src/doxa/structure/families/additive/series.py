r"""The term of Laplace's approximation that comes next, and what it leaves.

Along a change of the log odds from the mode, the log posterior is normal but for its third and fourth cumulants,
:math:`\kappa_3` and :math:`\kappa_4`, summed over the cases.  Under Laplace's Gaussian the weight of a change and its
mirror image has the mean :math:`1 + E[\kappa_3^2] / 72 - E[\kappa_4] / 24` and terms of higher order.  Both
expectations have a closed form in the derivatives at the mode.
"""

from __future__ import annotations

import math

from doxa._jit import hot, inlined
from doxa.arrays import Floats
from doxa.structure.families.additive.mode import LANES, MultinomialWork, dot, to_differences
from doxa.structure.families.logistic.work import CHUNK, LogisticWork

__all__ = ["second_order"]


@hot
def second_order(n_odds: int, d: int, n_cells: int, cells: MultinomialWork, work: LogisticWork) -> tuple[float, float]:
    """Logarithm of the mean weight to the second order (nats), and the standard error that it is taken to have."""
    size, spread, growth = n_odds * d, cells.spread, cells.hessian
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
    n = -(-n_cells // LANES) * LANES
    of_third = _expected_square(n_odds, d, n, cells) / 72.0
    of_fourth = _expected_fourth(n_odds, d, n, cells) / 24.0
    error = 0.25 * (abs(of_third) + abs(of_fourth)) ** 2
    return math.log1p(max(of_third - of_fourth, -0.9)), error


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
    """`_expected_fourth` of some cells, side by side: their covariances stand in the rows of ``cells.moved``."""
    own, x, end = cells.moved, cells.x, begin + size
    n_pairs = n_odds * (n_odds + 1) // 2
    part, centre, rest = own[n_pairs + n_odds], own[n_pairs + n_odds + 1], own[n_pairs + n_odds + 2]
    first, value = own[n_pairs + n_odds + 3], own[n_pairs + n_odds + 4]
    for k in range(n_odds):
        for other in range(k + 1):
            target = own[k * (k + 1) // 2 + other]
            target[:size] = 0.0
            for i in range(d):
                row, along = cells.spread[k * d + i], x[i, begin:end]
                for c in range(size):
                    part[c] = row[other * d]
                for j in range(1, d):
                    slope, column = row[other * d + j], x[j, begin:end]
                    for c in range(size):
                        part[c] += slope * column[c]
                for c in range(size):
                    target[c] += part[c] * along[c]
    centre[:size] = 0.0
    rest[:size] = 1.0
    for k in range(n_odds):
        mean, share = own[n_pairs + k], cells.share[k, begin:end]
        mean[:size] = 0.0
        for other in range(n_odds):
            source = own[max(k, other) * (max(k, other) + 1) // 2 + min(k, other)]
            of_other = cells.share[other, begin:end]
            for c in range(size):
                mean[c] += of_other[c] * source[c]
        for c in range(size):
            centre[c] += share[c] * mean[c]
            rest[c] -= share[c]
    for c in range(size):
        of_rest = rest[c] * centre[c]
        first[c] = of_rest
        value[c] = of_rest * centre[c] - 2.0 * of_rest * of_rest
    for k in range(n_odds):
        mean, share = own[n_pairs + k], cells.share[k, begin:end]
        square = own[k * (k + 1) // 2 + k]
        for c in range(size):
            variance, away = square[c] - 2.0 * mean[c] + centre[c], centre[c] - mean[c]
            first[c] += share[c] * variance
            value[c] += share[c] * (variance * variance - 4.0 * rest[c] * away * away)
        for other in range(k + 1):
            source, of_other = own[k * (k + 1) // 2 + other], cells.share[other, begin:end]
            other_mean, times = own[n_pairs + other], 2.0 if other == k else 4.0
            for c in range(size):
                both = source[c] - mean[c] - other_mean[c] + centre[c]
                value[c] -= times * share[c] * of_other[c] * both * both
    total, cases = 0.0, cells.cases[begin:end]
    for c in range(size):
        total += cases[c] * (value[c] - first[c] * first[c])
    return total


@hot
def _expected_square(n_odds: int, d: int, n: int, cells: MultinomialWork) -> float:
    """Expected square of the sum of third cumulants of changes that are normal."""
    size, spread = n_odds * d, cells.spread
    tensor, one, two = cells.skewness[0], cells.skewness[1], cells.skewness[2]
    _fill_skewness(n_odds, d, n, cells)
    for a in range(size):
        for b in range(size):
            source, target = tensor[a, b], one[a, b]
            for f in range(size):
                target[f] = 0.0
            for c in range(size):
                for f in range(size):
                    target[f] += source[c] * spread[c, f]
    for a in range(size):
        for e in range(size):
            target = two[a, e]
            for f in range(size):
                target[f] = 0.0
            for b in range(size):
                for f in range(size):
                    target[f] += spread[b, e] * one[a, b, f]
    total, along = 0.0, cells.differences
    for f in range(size):
        along[f] = 0.0
    for a in range(size):
        for e in range(size):
            for f in range(size):
                along[f] += spread[a, e] * tensor[a, e, f]
        for g in range(size):
            for e in range(size):
                part = 0.0
                for f in range(size):
                    part += tensor[g, e, f] * two[a, e, f]
                total += spread[a, g] * part
    straight = 0.0
    for a in range(size):
        for b in range(size):
            straight += along[a] * spread[a, b] * along[b]
    return 6.0 * total + 9.0 * straight


@hot
def _fill_skewness(n_odds: int, d: int, n: int, cells: MultinomialWork) -> None:
    """Third derivatives of the log likelihood in T, without their sign, into ``cells.skewness[0]``."""
    tensor, share, weight, scaled = cells.skewness[0], cells.share, cells.part, cells.top
    for k in range(n_odds):
        for other in range(k + 1):
            for third in range(other + 1):
                for cell in range(n):
                    a, b, c = share[k, cell], share[other, cell], share[third, cell]
                    value = 2.0 * a * b * c
                    if k == other:
                        value -= a * c
                    if other == third:
                        value -= a * b
                    if k == third:
                        value += a - a * b
                    weight[cell] = cells.cases[cell] * value
                for i in range(d):
                    for j in range(i + 1):
                        for cell in range(n):
                            scaled[cell] = weight[cell] * cells.x[i, cell] * cells.x[j, cell]
                        for m in range(j + 1):
                            _put(tensor, (k, other, third), (i, j, m), d, dot(scaled, cells.x[m], n))


@inlined
def _put(tensor: Floats, odds: tuple[int, int, int], at: tuple[int, int, int], d: int, value: float) -> None:
    """The same for every order of the log odds and every order of the columns."""
    a, b, c = odds
    i, j, m = at
    for k, other, third in ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
        for x, y, z in ((i, j, m), (i, m, j), (j, i, m), (j, m, i), (m, i, j), (m, j, i)):
            tensor[k * d + x, other * d + y, third * d + z] = value
