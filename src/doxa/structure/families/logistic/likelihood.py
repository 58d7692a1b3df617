r"""The log likelihood of many coefficients at once: sums of softplus, or logs of products of their exponentials.

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
from typing import Any

from doxa._jit import hot, inlined
from doxa.structure.families.logistic.softplus import exponentials, softplus, subtract_softplus

__all__ = ["add_log_likelihood"]

_FEW = 24.0  # cases: up to here at most eight multiplications
_WORTH = 3  # such cells for each coefficient: the exponentials take that long
_TAME = 30.0  # of the sizes of a cell's terms: the exponents are at most twice as large, as `exponentials` takes them
_FULL = 690.0  # nats: a product beyond exp(709) is no float


@hot
def add_log_likelihood(n: int, n_cells: int, n_parents: int, scale: float, columns: Any, work: Any) -> None:
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
                _multiply(row, int(cases), n, n_parents, columns, parents, work.growth, logits, product)
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
def _add_linear_part(n: int, n_cells: int, n_parents: int, scale: float, columns: Any, work: Any) -> bool:
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
def _take_exponentials(n: int, n_parents: int, scale: float, work: Any) -> bool:
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
def _largest_logit(row: int, n_parents: int, scale: float, columns: Any, parents: Any, most: Any, least: Any) -> float:
    total = most[0]
    for j in range(n_parents):
        total += most[j + 1] if columns[parents[j], row] != 0 else -least[j + 1]
    return scale * total  # type: ignore[no-any-return]


@inlined
def _multiply(
    row: int, cases: int, n: int, n_parents: int, columns: Any, parents: Any, growth: Any, factor: Any, product: Any
) -> None:
    """Multiply the product by (1 + exp(logit)) to the power ``cases``, by squares."""
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
def _take_logarithm(product: Any, exponents: Any) -> None:
    for p in range(product.size):
        exponents[p] -= math.log(product[p])
        product[p] = 1.0
