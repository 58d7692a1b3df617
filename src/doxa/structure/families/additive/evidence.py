r"""The log evidence of a multinomial logistic family (`doxa.structure.families.additive.mode`), with its error.

First comes Laplace's approximation with its next term, a closed form of the derivatives at the mode
(`doxa.structure.families.additive.series`).  What that leaves is of the order of the term's square: a quarter of the
square of the sum of its two parts' sizes is taken for the standard error, which held in 2520 families of 50 to 3000
rows, where the largest error was twice that.  Where it is above the tolerance, the evidence is Laplace's approximation
times the mean of importance weights over fixed nodes, as for tables of two states
(`doxa.structure.families.logistic.evidence`): the axes are turned and stretched, and levels of nodes are added until
the standard error is at most the tolerance, or too much work.
"""

from __future__ import annotations

import math

from doxa._jit import hot, inlined
from doxa.arrays import Floats
from doxa.structure.families.additive.frame import stretch_axes, turn_frame
from doxa.structure.families.additive.mode import (
    BLOCK,
    MOST_IN_SERIES,
    MOST_ODDS_IN_SERIES,
    MultinomialWork,
    fill_root,
    find_multinomial_mode,
    odds_of,
    to_differences,
)
from doxa.structure.families.additive.products import LANES, add_dots, combine_rows
from doxa.structure.families.additive.series import second_order
from doxa.structure.families.logistic.evidence import mean_and_error, place_nodes, pool_parts, prior_frame
from doxa.structure.families.logistic.mode import solve_transposed
from doxa.structure.families.logistic.softplus import exponential, exponentials, logarithm
from doxa.structure.families.logistic.work import CHUNK, LogisticWork

__all__ = ["log_multinomial_evidence"]

_LARGE = 55.0  # of a logit whose exponential is multiplied
_FULL = 1e75  # eight factors more still fit a float
_LIKELY = -6.0  # nats: the prior is tried where one of its points in four hundred carries the likelihood
_MOST_WORK = 3e7  # nodes times cells times log odds: some thirty milliseconds


@hot
def log_multinomial_evidence(
    n_odds: int, d: int, n_cells: int, scale: float, tolerance: float, cells: MultinomialWork, work: LogisticWork
) -> tuple[float, float, int]:
    """Log evidence (nats) of the cells, its standard error, and the nodes; ``n_odds * d`` is at most 64."""
    size = n_odds * d
    n = -(-n_cells // LANES) * LANES
    fill_root(n_odds, scale, cells)
    for j in range(d):
        for cell in range(n_cells, n):
            cells.x[j, cell] = 0.0
    for cell in range(n_cells, n):
        cells.cases[cell] = 0.0
    for k in range(n_odds):
        for cell in range(n_cells, n):
            cells.counts[k, cell] = 0.0
        for j in range(d):
            cells.slopes[k * d + j] = 0.0
        for begin in range(0, n, BLOCK):
            add_dots(cells.counts[k, begin:], cells.x, d, (begin, min(BLOCK, n - begin)), cells.slopes[k * d :])
    peak, gain = find_multinomial_mode(n_odds, d, n, scale, cells, work)
    log_determinant = 0.0
    for i in range(size):
        log_determinant -= math.log(work.precision[i, i])
    for axis in range(size):
        ray = work.frame[axis]
        for i in range(size):
            ray[i] = 1.0 if i == axis else 0.0
        solve_transposed(work.precision, size, ray)
        work.centre[axis], work.tilt[axis] = 1.0, 0.0
    if size <= MOST_IN_SERIES and n_odds <= MOST_ODDS_IN_SERIES:
        term, error = second_order(n_odds, d, n_cells, cells, work)
        if error <= tolerance:
            return peak + 0.5 * gain + log_determinant + term, error, 0
    to_differences(n_odds, d, work.mean, cells)
    odds_of(n_odds, d, n, cells, cells.logits)
    turn_frame(n_odds, d, n, cells, work)
    stretch_axes(n_odds, d, n, cells, work)
    family = (n_odds, d, n_cells, tolerance, cells, work)
    value, error, n_nodes = _by_levels(peak, family)
    value += peak + log_determinant
    if error > tolerance and value > _LIKELY:
        prior_frame(size, work)
        of_prior, other_error, n_nodes = _by_levels(0.0, family)
        if other_error < error:
            return of_prior, other_error, n_nodes
    return value, error, n_nodes


@hot
def _add_log_likelihood(
    n_nodes: int, n_odds: int, d: int, n_cells: int, cells: MultinomialWork, work: LogisticWork
) -> None:
    """Add the log likelihood of each of the nodes in ``work.moved`` to ``work.exponents``."""
    exponents, product = work.exponents[:n_nodes], work.product[:n_nodes]
    logits, factor = work.logits[:n_nodes], work.weighted[:n_nodes]
    largest = 0.0  # that a log odds can be
    for k in range(n_odds):
        for j in range(d):
            target = cells.moved[k * d + j]
            for p in range(n_nodes):
                target[p] = 0.0
            for a in range(k + 1):
                size, source = cells.root[k, a], work.moved[a * d + j]
                for p in range(n_nodes):
                    target[p] += size * source[p]
            low = high = target[0]
            slope = cells.slopes[k * d + j]
            for p in range(n_nodes):
                low, high = min(low, target[p]), max(high, target[p])
                exponents[p] += slope * target[p]
            cells.least[k * d + j], cells.most[k * d + j] = low, high
    for p in range(n_nodes):
        product[p] = 1.0
    since = 0
    for cell in range(n_cells):
        _take_column(cell, d, cells, work)
        if cells.cases[cell] != 1.0 or _largest_odds(n_odds, d, cells, work) > _LARGE:
            _subtract_partition(cell, n_nodes, n_odds, d, cells, work)
            continue
        for p in range(n_nodes):
            factor[p] = 1.0
        for k in range(n_odds):
            combine_rows(work.step, cells.moved[k * d :], d, (0, CHUNK), work.logits)
            for p in range(n_nodes):
                factor[p] += exponential(logits[p])
        for p in range(n_nodes):
            product[p] *= factor[p]
        since += 1
        if since == 8:
            largest = 0.0
            for p in range(n_nodes):
                largest = product[p] if product[p] > largest else largest
            if largest > _FULL:
                _take_logarithm(product, exponents)
            since = 0
    _take_logarithm(product, exponents)


@inlined
def _take_column(cell: int, d: int, cells: MultinomialWork, work: LogisticWork) -> None:
    """The cell's part of the design, into ``work.step``."""
    for j in range(d):
        work.step[j] = cells.x[j, cell]


@inlined
def _largest_odds(n_odds: int, d: int, cells: MultinomialWork, work: LogisticWork) -> float:
    """No log odds of the cell in ``work.step`` is larger at any node."""
    largest = 0.0
    for k in range(n_odds):
        bound = 0.0
        for j in range(d):
            size = work.step[j]
            bound += max(size * cells.most[k * d + j], size * cells.least[k * d + j])
        largest = max(largest, bound)
    return largest


@hot
def _subtract_partition(
    cell: int, n_nodes: int, n_odds: int, d: int, cells: MultinomialWork, work: LogisticWork
) -> None:
    """Subtract the cases of a cell times log(1 + sum of exp(h)) from ``work.exponents``: many cases, or large odds."""
    cases = cells.cases[cell]
    top, factor, logits = cells.top_of_nodes[:n_nodes], work.weighted[:n_nodes], work.logits[:n_nodes]
    exponents = work.exponents[:n_nodes]
    for p in range(n_nodes):
        top[p] = 0.0
    for k in range(n_odds):
        combine_rows(work.step, cells.moved[k * d :], d, (0, CHUNK), work.logits)
        for p in range(n_nodes):
            top[p] = logits[p] if logits[p] > top[p] else top[p]
    for p in range(n_nodes):
        factor[p] = exponential(-top[p])
    for k in range(n_odds):
        if n_odds > 1:
            combine_rows(work.step, cells.moved[k * d :], d, (0, CHUNK), work.logits)
        for p in range(n_nodes):
            factor[p] += exponential(logits[p] - top[p])
    for p in range(n_nodes):
        exponents[p] -= cases * (top[p] + logarithm(factor[p]))


@hot
def _take_logarithm(product: Floats, exponents: Floats) -> None:
    for p in range(product.size):
        exponents[p] -= logarithm(product[p])
        product[p] = 1.0


@hot
def _by_levels(
    peak: float, family: tuple[int, int, int, float, MultinomialWork, LogisticWork]
) -> tuple[float, float, int]:
    """Log of the mean weight under the law that stands in ``work``, its error, the nodes."""
    n_odds, d, n_cells, tolerance, cells, work = family
    levels, sums, n_sums = work.nodes.levels, work.sums, work.sums.size
    log_mean, error, first = 0.0, math.inf, 0
    sums[:] = 0.0
    for level in range(levels.size):
        n_nodes = levels[level]
        if first > 0 and float(n_nodes) * n_cells * n_odds > _MOST_WORK:
            break
        if level > 0:
            pool_parts(sums, n_nodes // levels[level - 1])
        while first < n_nodes:
            last = min(first + CHUNK, n_nodes)
            place_nodes(first, last, n_odds * d, peak, work)
            _add_log_likelihood(last - first, n_odds, d, n_cells, cells, work)
            exponentials(work.exponents[: last - first], work.weights[: last - first])
            for p in range(last - first):
                sums[(first + p) * n_sums // n_nodes] += work.weights[p]
            first = last
        log_mean, error = mean_and_error(sums, n_nodes)
        if error <= tolerance:
            break
    return log_mean, error, first
