r"""The log evidence of a logistic family, with its error.

With u the coefficients over the prior's scale, m the mode and F a frame (`doxa.structure.families.logistic.mode`),

.. math:: P(d_i \mid d_{pa(i)}) = \int L(u) N(u; 0, I) du = e^{f(m)} |F| \, E_z \Big[
   e^{f(m + F y(z)) - f(m) + |z|^2 / 2} \prod_j y_j'(z_j) \Big], \quad f(u) = \log L(u) - |u|^2 / 2,

z standard normal: Laplace's approximation times the mean of importance weights.  The map :math:`y_j = c_j z_j + t_j
(\sqrt{1 + z_j^2} - 1)` is smooth and stretches the two sides of an axis differently.  The mean is over the nodes of
`doxa.structure.families.logistic.work`; levels are added until the standard error of its logarithm, from sixteen
shifted lattices, is at most the tolerance.  Where 2048 nodes do not get there and the evidence is not small, as it is
not for separable data under a wide prior, the prior itself is tried as the law of as many nodes, and the law with the
smaller error goes on.  Families without parents, and with one, need no nodes: theirs are integrals over single logits
(`doxa.structure.families.logistic.softplus`).

The log likelihood of many coefficients at once: sums of softplus, or logs of products of their exponentials.

.. math:: \log L(u) = \sum_c s_c h_c - \sum_c n_c \log(1 + e^{h_c})

with :math:`s_c` successes among the :math:`n_c` cases of cell c, whose logit is :math:`h_c = \sigma (u_0 \pm u_1 \pm
\dots)`.  The first sum is linear in u.  In the second, cells of few cases are taken together: :math:`e^{h_c}` is a
product of :math:`e^{2 \sigma u_j}` over the parents in their second state, :math:`\prod_c (1 + e^{h_c})^{n_c}` needs a
handful of multiplications a cell, and one logarithm serves for as many cells as a float holds.  That is some four times
faster than a softplus for each, and families with many parents have little else.  Where logits are so large that an
exponential might not fit, and in cells of many cases, it is the softplus.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.kind import Data
from doxa.structure.families.logistic.mode import axis_scales, choose_frame, find_mode
from doxa.structure.families.logistic.softplus import exponentials, log_one_logit, softplus, subtract_softplus
from doxa.structure.families.logistic.work import CHUNK, LogisticWork, gather_cells

__all__ = [
    "Family",
    "add_log_likelihood",
    "choose_law",
    "log_evidence",
    "mean_and_error",
    "place_nodes",
    "prior_frame",
    "weigh",
]

Family = tuple[int, int, float, float, NDArray[np.int16]]  # see `weigh`

_FEW = 24.0  # cases: up to here at most eight multiplications
_WORTH = 3  # such cells for each coefficient: the exponentials take that long
_TAME = 30.0  # of the sizes of a cell's terms: the exponents are at most twice as large, as `exponentials` takes them
_FULL = 690.0  # nats: a product beyond exp(709) is no float


@hot
def add_log_likelihood(
    n: int, n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork
) -> None:
    """Add the log likelihood of each of the ``n`` columns of ``work.moved`` to ``work.exponents``."""
    few = _add_linear_part(n, n_cells, n_parents, scale, columns, work)
    few = few and _take_exponentials(n, n_parents, scale, work)
    moved, logits, product, parents = work.moved, work.logits[:n], work.product[:n], work.parents
    exponents = work.exponents[:n]
    size = 0.0  # what the product's logarithm is at most
    for p in range(n):
        product[p] = 1.0
    for cell in range(n_cells):
        row, cases = work.row[cell], work.cases[cell]
        if few and cases <= _FEW:
            own = cases * softplus(_largest_logit(row, n_parents, scale, columns, parents, work.trial, work.step))
            if own <= _FULL:
                if size + own > _FULL:
                    _take_logarithm(product, exponents)
                    size = 0.0
                size += own
                _multiply(row, int(cases), n, (n_parents, columns, parents), work.growth, logits, product)
                continue
        target = moved[0]
        for p in range(n):
            logits[p] = scale * target[p]
        for j in range(n_parents):
            sign = scale if columns[parents[j], row] != 0 else -scale
            target = moved[j + 1]
            for p in range(n):
                logits[p] += sign * target[p]
        subtract_softplus(logits, cases, exponents)
    if size > 0.0:
        _take_logarithm(product, exponents)


@hot
def _add_linear_part(
    n: int, n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork
) -> bool:
    """Add what is linear in the coefficients; returns whether many cells have few cases."""
    slopes, exponents = work.trial, work.exponents
    for i in range(n_parents + 1):
        slopes[i] = 0.0
    few = 0
    for cell in range(n_cells):
        row, successes = work.row[cell], work.successes[cell]
        few += 1 if work.cases[cell] <= _FEW else 0
        slopes[0] += successes
        for j in range(n_parents):
            slopes[j + 1] += successes if columns[work.parents[j], row] != 0 else -successes
    for i in range(n_parents + 1):
        slope, target = scale * slopes[i], work.moved[i]
        for p in range(n):
            exponents[p] += slope * target[p]
    return few >= _WORTH * (n_parents + 1)


@hot
def _take_exponentials(n: int, n_parents: int, scale: float, work: LogisticWork) -> bool:
    """Fill ``work.growth``: row 0 for all parents in their first state, row j + 1 what the second state of j changes.

    Leaves the largest coefficients in ``work.trial`` and the smallest in ``work.step``; False if some are too large.
    """
    growth, logits, most, least = work.growth, work.logits, work.trial, work.step
    size = 0.0
    for i in range(n_parents + 1):
        target = work.moved[i]
        low = high = target[0]
        for p in range(n):
            low, high = min(low, target[p]), max(high, target[p])
        least[i], most[i] = low, high
        size += scale * max(-low, high)
    if size > _TAME:
        return False
    first = work.moved[0]
    for p in range(n):
        logits[p] = scale * first[p]
        growth[0, p] = 1.0
    for j in range(1, n_parents + 1):
        source, target = work.moved[j], growth[j]
        for p in range(n):
            logits[p] -= scale * source[p]
            work.weighted[p] = 2.0 * scale * source[p]
            target[p] = 1.0
        exponentials(work.weighted[:n], target[:n])
    exponentials(logits[:n], growth[0, :n])
    return True


@inlined
def _largest_logit(
    row: int, n_parents: int, scale: float, columns: NDArray[np.int16], parents: Ints, most: Floats, least: Floats
) -> float:
    total = most[0]
    for j in range(n_parents):
        total += most[j + 1] if columns[parents[j], row] != 0 else -least[j + 1]
    return scale * total  # type: ignore[no-any-return]


@inlined
def _multiply(
    row: int,
    cases: int,
    n: int,
    family: tuple[int, NDArray[np.int16], Ints],
    growth: Floats,
    factor: Floats,
    product: Floats,
) -> None:
    """Multiply the product by (1 + exp(logit)) to the power ``cases``, by squares."""
    n_parents, columns, parents = family
    first = growth[0]
    for p in range(n):
        factor[p] = first[p]
    for j in range(n_parents):
        if columns[parents[j], row] != 0:
            more = growth[j + 1]
            for p in range(n):
                factor[p] *= more[p]
    if cases == 1:
        for p in range(n):
            product[p] *= 1.0 + factor[p]
        return
    for p in range(n):
        factor[p] += 1.0
    while True:
        if cases & 1:
            for p in range(n):
                product[p] *= factor[p]
        cases >>= 1
        if cases == 0:
            return
        for p in range(n):
            factor[p] *= factor[p]


@hot
def _take_logarithm(product: Floats, exponents: Floats) -> None:
    for p in range(product.size):
        exponents[p] -= math.log(product[p])
        product[p] = 1.0


_FEW_LEVELS, _ALL_LEVELS = 4, 64  # the fourth has 2048 nodes
_LIKELY = -6.0  # nats: one point of the prior in four hundred carries the likelihood
_MOST_WORK = 2e7  # four times cells times nodes: no level goes beyond, which is some ten milliseconds


@hot
def log_evidence(
    child: int, parents: Words, data: Data, scale: float, tolerance: float, work: LogisticWork
) -> tuple[float, float, int]:
    """Log evidence (nats) of the family of ``child`` with the bit set ``parents``, its standard error, and the nodes.

    Every column of the family has at most two states; at most `MOST_PARENTS` parents.
    """
    columns, n_states = data[0], data[2]
    if n_states[child] < 2:
        return 0.0, 0.0, 0
    n_cells, n_parents = gather_cells(child, parents, data, work)
    if n_parents <= 1:
        # Bias plus and bias minus one coefficient are independent, each with twice the variance.
        deviation = scale * math.sqrt(1.0 + n_parents)
        total, error = 0.0, 0.0
        for cell in range(n_cells):
            value, gap = log_one_logit(work.successes[cell], work.cases[cell], deviation)
            total += value
            error += gap
        return total, error, 0
    if n_cells == 0:
        return 0.0, 0.0, 0
    law = choose_law(n_cells, n_parents, scale, tolerance, columns, work)
    return law[0], law[1], law[2]


@hot
def choose_law(
    n_cells: int, n_parents: int, scale: float, tolerance: float, columns: NDArray[np.int16], work: LogisticWork
) -> tuple[float, float, int, float]:
    """Log evidence, its error, the nodes, and the exponent that weights are relative to.

    After `gather_cells`.  The law of the nodes that was used is left in ``work`` (mean, frame, centre, tilt).
    """
    peak, log_determinant = _laplace_frame(n_cells, n_parents, scale, columns, work)
    arguments = (n_cells, n_parents, scale, peak, tolerance, columns, work)
    value, error, n_nodes = _log_mean_weight(0, _FEW_LEVELS, arguments)
    value += peak + log_determinant
    if error <= tolerance:
        return value, error, n_nodes, peak
    first = _FEW_LEVELS
    if value > _LIKELY:
        prior_frame(n_parents + 1, work)
        of_prior = (n_cells, n_parents, scale, 0.0, tolerance, columns, work)
        value, other_error, n_nodes = _log_mean_weight(0, _FEW_LEVELS, of_prior)
        if other_error <= tolerance:
            return value, other_error, n_nodes, 0.0
        if other_error < error:
            value, error, n_nodes = _log_mean_weight(_FEW_LEVELS, _ALL_LEVELS, of_prior)
            return value, error, n_nodes, 0.0
        _laplace_frame(n_cells, n_parents, scale, columns, work)
        first = 0
    value, error, n_nodes = _log_mean_weight(first, _ALL_LEVELS, arguments)
    return value + peak + log_determinant, error, n_nodes, peak


@hot
def _laplace_frame(
    n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork
) -> tuple[float, float]:
    """Laplace's Gaussian as the law of the nodes, its axes stretched; the peak and the log of its determinant."""
    peak = find_mode(n_cells, n_parents, scale, columns, work)
    log_determinant = choose_frame(n_cells, n_parents, scale, columns, work)
    axis_scales(n_cells, n_parents, scale, columns, work)
    return peak, log_determinant


@hot
def prior_frame(d: int, work: LogisticWork) -> None:
    """The prior in the place of Laplace's Gaussian: better where data are separable and the prior is wide."""
    for i in range(d):
        work.mean[i] = work.tilt[i] = 0.0
        work.centre[i] = 1.0
        for j in range(d):
            work.frame[i, j] = 1.0 if i == j else 0.0


@hot
def _log_mean_weight(
    begin: int, end: int, arguments: tuple[int, int, float, float, float, NDArray[np.int16], LogisticWork]
) -> tuple[float, float, int]:
    """Levels ``begin`` to ``end``, as far as they are needed: log of the mean weight, its error, the nodes.

    What the levels before ``begin`` gave is still in ``work.sums``.
    """
    n_cells, n_parents, scale, peak, tolerance, columns, work = arguments
    family = (n_cells, n_parents, scale, peak, columns)
    levels, sums = work.nodes.levels, work.sums
    n_sums = sums.size
    log_mean, error, first = 0.0, 0.0, 0
    if begin == 0:
        sums[:] = 0.0
    else:
        first = levels[begin - 1]
        log_mean, error = mean_and_error(sums, first)
    for level in range(begin, min(end, levels.size)):
        n_nodes = levels[level]
        if 4.0 * n_nodes * n_cells > _MOST_WORK and first > 0:
            break
        if level > 0:
            pool_parts(sums, n_nodes // levels[level - 1])
        while first < n_nodes:
            last = min(first + CHUNK, n_nodes)
            weigh(first, last, family, work, 0.0)
            for p in range(last - first):
                sums[(first + p) * n_sums // n_nodes] += work.weights[p]
            first = last
        log_mean, error = mean_and_error(sums, n_nodes)
        if error <= tolerance:
            break
    return log_mean, error, first


@hot
def pool_parts(sums: Floats, more: int) -> None:
    """Sums of parts of ``more`` times as many nodes: what were sixteen parts of all are now four, or eight."""
    for part in range(sums.size):
        total = 0.0
        if part < sums.size // more:
            for k in range(more):
                total += sums[more * part + k]
        sums[part] = total


@hot
def mean_and_error(sums: Floats, n_nodes: int) -> tuple[float, float]:
    """Log of the mean weight and its standard error, from the sums of the replicates."""
    n = sums.size
    mean = 0.0
    for r in range(n):
        mean += sums[r] / n
    square = 0.0
    for r in range(n):
        square += (sums[r] - mean) ** 2
    return math.log(mean * n / n_nodes), math.sqrt(square / (n * (n - 1.0))) / mean


@hot
def place_nodes(first: int, last: int, d: int, peak: float, work: LogisticWork) -> None:
    """Nodes as ``d`` coefficients, into ``work.moved``; of their weights all but the likelihood.

    The volume they stand for into ``work.weights``, the log of prior over normal density less ``peak`` into
    ``work.exponents``.
    """
    n = last - first
    nodes, moved, logits = work.nodes, work.moved, work.logits[:n]
    exponents, weights = work.exponents[:n], work.weights[:n]
    for p in range(n):
        exponents[p] = -peak
        weights[p] = 1.0
    for i in range(d):
        moved[i, :n] = work.mean[i]
    for axis in range(d):
        value, bend = nodes.value[axis, first:last], nodes.bend[axis, first:last]
        centre, tilt = work.centre[axis], work.tilt[axis]
        for p in range(n):
            logits[p] = centre * value[p] + tilt * bend[p]
            weights[p] *= centre + tilt * np.divide(value[p], 1.0 + bend[p])
            exponents[p] += 0.5 * value[p] * value[p]
        for i in range(d):
            size = work.frame[axis, i]
            target = moved[i]
            for p in range(n):
                target[p] += size * logits[p]
    for i in range(d):
        target = moved[i]
        for p in range(n):
            exponents[p] -= 0.5 * target[p] * target[p]


@hot
def weigh(first: int, last: int, family: Family, work: LogisticWork, freedom: float) -> None:
    """Importance weights of the nodes ``first`` to ``last``, into ``work.weights``, and where they lie into ``moved``.

    ``family`` is the numbers of cells and of parents, the prior's scale, the log density at the mode, and the columns.
    The nodes have the normal law if ``freedom`` is 0, else Student's with so many degrees of freedom.
    """
    n_cells, n_parents, scale, peak, columns = family
    n, d = last - first, n_parents + 1
    nodes, logits = work.nodes, work.logits[:n]
    exponents, weights = work.exponents[:n], work.weights[:n]
    place_nodes(first, last, d, peak, work)
    add_log_likelihood(n, n_cells, n_parents, scale, columns, work)
    if freedom > 0.0:
        for p in range(n):
            logits[p] = 0.0
        for axis in range(d):
            value = nodes.value[axis, first:last]
            for p in range(n):
                logits[p] += value[p] * value[p]
        for p in range(n):
            exponents[p] += 0.5 * ((freedom + d) * math.log1p(logits[p] / freedom) - logits[p])
    exponentials(exponents, weights)
