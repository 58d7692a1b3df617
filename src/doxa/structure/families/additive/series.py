r"""The second-order term of Laplace's approximation, as a control variate of its importance weights.

Along a change of the log odds from the mode, the log posterior is normal but for its third and fourth cumulants.  With
:math:`\kappa_3(z), \kappa_4(z)` their sums over the cases at a node z, the mean of the weights of z and -z is
:math:`1 + \kappa_3^2 / 72 - \kappa_4 / 24` and terms of higher order.  The expectation of this series under Laplace's
Gaussian has a closed form in the derivatives at the mode; what nodes must estimate is only what it leaves.
"""

from __future__ import annotations

from doxa._jit import hot, inlined
from doxa.arrays import Floats
from doxa.structure.families.additive.mode import LANES, MultinomialWork, dot, odds_at, stride_of, to_differences
from doxa.structure.families.logistic.work import LogisticWork

__all__ = ["expected_series", "sum_cumulants"]


@hot
def sum_cumulants(n_nodes: int, n_odds: int, d: int, n_cells: int, cells: MultinomialWork, work: LogisticWork) -> None:
    """Third and fourth cumulants of the change of the log odds, summed over the cases, at the first nodes."""
    stride, third, fourth = stride_of(d), cells.third[:n_nodes], cells.fourth[:n_nodes]
    change, centre = work.growth, work.logits[:n_nodes]
    two, four = work.product[:n_nodes], work.weighted[:n_nodes]
    for p in range(n_nodes):
        third[p] = fourth[p] = 0.0
    for cell in range(n_cells):
        cases, rest = cells.cases[cell], 1.0
        for p in range(n_nodes):
            centre[p] = 0.0
        for k in range(n_odds):
            share, base, own = cells.share[k, cell], cells.logits[k, cell], change[k]
            rest -= share
            odds_at(cell, n_nodes, k * stride, stride, cells, own)
            for p in range(n_nodes):
                own[p] -= base
                centre[p] += share * own[p]
        for p in range(n_nodes):
            square = centre[p] * centre[p]
            two[p] = rest * square
            four[p] = rest * square * square
            third[p] -= cases * rest * square * centre[p]
        for k in range(n_odds):
            share, own = cells.share[k, cell], change[k]
            for p in range(n_nodes):
                x = own[p] - centre[p]
                square = x * x
                two[p] += share * square
                four[p] += share * square * square
                third[p] += cases * share * square * x
        for p in range(n_nodes):
            fourth[p] += cases * (four[p] - 3.0 * two[p] * two[p])


@hot
def expected_series(n_odds: int, d: int, n_cells: int, cells: MultinomialWork, work: LogisticWork) -> float:
    """Expectation of what `_by_pairs` subtracts: third cumulant squared over 72, less the fourth over 24."""
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
    return _expected_square(n_odds, d, n, cells) / 72.0 - _expected_fourth(n_odds, d, n, cells) / 24.0


@hot
def _expected_fourth(n_odds: int, d: int, n: int, cells: MultinomialWork) -> float:
    r"""Fourth cumulants of changes that are normal: 3 (sum p_k C_kk^2 - (sum p_k C_kk)^2 - 2 sum p_k p_l C_kl^2).

    C is the covariance of the changes around their mean under the cell's probabilities p.
    """
    total = 0.0
    mean_of = cells.mean_of
    for cell in range(n):
        cases = cells.cases[cell]
        if cases == 0.0:
            continue
        own = cells.covariance
        for k in range(n_odds):
            for other in range(k + 1):
                value = 0.0
                for i in range(d):
                    row = cells.spread[k * d + i]
                    part = 0.0
                    for j in range(d):
                        part += row[other * d + j] * cells.x[j, cell]
                    value += part * cells.x[i, cell]
                own[k, other] = own[other, k] = value
        centre, rest = 0.0, 1.0
        for k in range(n_odds):
            value = 0.0
            for other in range(n_odds):
                value += cells.share[other, cell] * own[k, other]
            mean_of[k] = value
            centre += cells.share[k, cell] * value
            rest -= cells.share[k, cell]
        squares, first, pairs = rest * centre * centre, rest * centre, rest * rest * centre * centre
        for k in range(n_odds):
            share = cells.share[k, cell]
            variance = own[k, k] - 2.0 * mean_of[k] + centre
            squares += share * variance * variance
            first += share * variance
            pairs += 2.0 * rest * share * (centre - mean_of[k]) ** 2
            for other in range(n_odds):
                pairs += share * cells.share[other, cell] * (own[k, other] - mean_of[k] - mean_of[other] + centre) ** 2
        total += cases * (squares - first * first - 2.0 * pairs)
    return 3.0 * total


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
