r"""The log evidence of a logistic family, with its error.

With u the coefficients over the prior's scale, m the mode and F a frame (`doxa.structure.families.logistic.mode`),

.. math:: P(d_i \mid d_{pa(i)}) = \int L(u) N(u; 0, I) du = e^{f(m)} |F| \, E_z \Big[
   e^{f(m + F y(z)) - f(m) + |z|^2 / 2} \prod_j y_j'(z_j) \Big], \quad f(u) = \log L(u) - |u|^2 / 2,

z standard normal: Laplace's approximation times the mean of importance weights.  The map :math:`y_j = c_j z_j + t_j
(\sqrt{1 + z_j^2} - 1)` is smooth and stretches the two sides of an axis differently.  The mean is over the nodes of
`doxa.structure.families.logistic.nodes`; levels are added until the standard error of its logarithm, from sixteen
shifted lattices, is at most the tolerance.  Where 2048 nodes do not get there and the evidence is not small, as it is
not for separable data under a wide prior, the prior itself is tried as the law of as many nodes, and the law with the
smaller error goes on.  Families without parents, and with one, need no nodes: theirs are integrals over single logits
(`doxa.structure.families.logistic.one_logit`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from doxa._jit import hot
from doxa.structure.families.logistic.cells import gather_cells
from doxa.structure.families.logistic.likelihood import add_log_likelihood
from doxa.structure.families.logistic.mode import axis_scales, choose_frame, find_mode
from doxa.structure.families.logistic.one_logit import log_one_logit
from doxa.structure.families.logistic.softplus import exponentials

__all__ = ["choose_law", "log_evidence", "weigh"]

_CHUNK = 128
_FEW_LEVELS, _ALL_LEVELS = 4, 64  # the fourth has 2048 nodes
_LIKELY = -6.0  # nats: one point of the prior in four hundred carries the likelihood
_MOST_WORK = 2e7  # four times cells times nodes: no level goes beyond, which is some ten milliseconds


@hot
def log_evidence(
    child: int, parents: Any, data: Any, scale: float, tolerance: float, work: Any
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
    n_cells: int, n_parents: int, scale: float, tolerance: float, columns: Any, work: Any
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
        _prior_frame(n_parents + 1, work)
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
def _laplace_frame(n_cells: int, n_parents: int, scale: float, columns: Any, work: Any) -> tuple[float, float]:
    """Laplace's Gaussian as the law of the nodes, its axes stretched; the peak and the log of its determinant."""
    peak = find_mode(n_cells, n_parents, scale, columns, work)
    log_determinant = choose_frame(n_cells, n_parents, scale, columns, work)
    axis_scales(n_cells, n_parents, scale, columns, work)
    return peak, log_determinant


@hot
def _prior_frame(d: int, work: Any) -> None:
    """The prior in the place of Laplace's Gaussian: better where data are separable and the prior is wide."""
    for i in range(d):
        work.mean[i] = work.tilt[i] = 0.0
        work.centre[i] = 1.0
        for j in range(d):
            work.frame[i, j] = 1.0 if i == j else 0.0


@hot
def _log_mean_weight(begin: int, end: int, arguments: Any) -> tuple[float, float, int]:
    """Levels ``begin`` to ``end``, as far as they are needed: log of the mean weight, its error, the nodes.

    What the levels before ``begin`` gave is still in ``work.sums``.
    """
    n_cells, n_parents, scale, peak, tolerance, columns, work = arguments
    levels, sums = work.nodes.levels, work.sums
    n_sums = sums.size
    log_mean, error, first = 0.0, 0.0, 0
    if begin == 0:
        sums[:] = 0.0
    else:
        first = levels[begin - 1]
        log_mean, error = _mean_and_error(sums, first)
    for level in range(begin, min(end, levels.size)):
        n_nodes = levels[level]
        if 4.0 * n_nodes * n_cells > _MOST_WORK and first > 0:
            break
        if level > 0:  # what were sixteen parts of the nodes are now four, or eight
            more = n_nodes // levels[level - 1]
            for part in range(n_sums):
                total = 0.0
                if part < n_sums // more:
                    for k in range(more):
                        total += sums[more * part + k]
                sums[part] = total
        while first < n_nodes:
            last = min(first + _CHUNK, n_nodes)
            weigh(first, last, n_cells, n_parents, scale, peak, columns, work, 0.0)
            for p in range(last - first):
                sums[(first + p) * n_sums // n_nodes] += work.weights[p]
            first = last
        log_mean, error = _mean_and_error(sums, n_nodes)
        if error <= tolerance:
            break
    return log_mean, error, first


@hot
def _mean_and_error(sums: Any, n_nodes: int) -> tuple[float, float]:
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
def weigh(
    first: int, last: int, n_cells: int, n_parents: int, scale: float, peak: float, columns: Any, work: Any,
    freedom: float,
) -> None:  # fmt: skip
    """Importance weights of the nodes ``first`` to ``last``, into ``work.weights``, and where they lie into ``moved``.

    The nodes have the normal law if ``freedom`` is 0, else Student's with so many degrees of freedom.
    """
    n, d = last - first, n_parents + 1
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
