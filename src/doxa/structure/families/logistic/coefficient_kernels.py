r"""Loops over the coefficients of one logistic family: which weights occur, exact draws, mean probabilities.

All of them work on the law that `doxa.structure.families.logistic.evidence.choose_law` left in ``work``: at the point
that a standard normal z is moved to, `weigh` says how many times denser the posterior is than that law, up to a
constant.
"""

from __future__ import annotations

import math
from typing import Any

from doxa._jit import hot
from doxa.structure.families.logistic.evidence import weigh
from doxa.structure.families.logistic.work import CHUNK

__all__ = ["FREEDOM", "accept", "largest_weight", "sum_probabilities"]

FREEDOM = 6.0  # degrees of freedom


@hot
def largest_weight(
    safety: float, n_cells: int, n_parents: int, scale: float, peak: float, columns: Any, work: Any
) -> tuple[float, float, float]:
    """Largest weights of the first and of the second half of the nodes of ``work``.

    The third number is the share of the second half's weights that lies above ``safety`` times the first's largest.
    """
    n = work.nodes.value.shape[1]
    most_first, most_second, total, excess = 0.0, 0.0, 0.0, 0.0
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        weigh(first, last, n_cells, n_parents, scale, peak, columns, work, FREEDOM)
        for p in range(last - first):
            weight = work.weights[p]
            if 2 * (first + p) < n:
                most_first = max(most_first, weight)
            else:
                most_second = max(most_second, weight)
                total += weight
                excess += max(weight - safety * most_first, 0.0)
    return most_first, most_second, excess / total if total > 0.0 else 1.0


@hot
def accept(
    each: int, uniforms: Any, bound: float, n_cells: int, n_parents: int, scale: float, peak: float, columns: Any,
    work: Any, found: Any, coefficients: Any,
) -> tuple[float, float]:  # fmt: skip
    """Take for every draw the first of its ``each`` proposals that rejection lets through.

    The proposals are the nodes of ``work``, ``each`` for a draw, with a uniform number for each.  Returns the sum of
    the weights, and of what they exceed ``bound`` by.
    """
    total, excess, n = 0.0, 0.0, work.nodes.value.shape[1]
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        weigh(first, last, n_cells, n_parents, scale, peak, columns, work, FREEDOM)
        for p in range(last - first):
            weight = work.weights[p]
            total += weight
            excess += max(weight - bound, 0.0)
            k = (first + p) // each
            if not found[k] and uniforms[first + p] * bound < weight:
                found[k] = True
                for i in range(n_parents + 1):
                    coefficients[k, i] = scale * work.moved[i, p]
    return total, excess


@hot
def sum_probabilities(
    n_nodes: int, n_cells: int, n_parents: int, scale: float, peak: float, columns: Any, work: Any, sums: Any,
    shares: Any,
) -> None:  # fmt: skip
    """Sums of weights, and of weights times P(second state), over each part of the nodes.

    ``sums`` (n_parts,) and ``shares`` (n_parts, 2**n_parents), the last parent varying fastest, are 0 before.
    """
    n_parts, logits = sums.size, work.logits
    for first in range(0, n_nodes, CHUNK):
        last = min(first + CHUNK, n_nodes)
        weigh(first, last, n_cells, n_parents, scale, peak, columns, work, 0.0)
        for p in range(last - first):
            sums[(first + p) * n_parts // n_nodes] += work.weights[p]
        for c in range(shares.shape[1]):
            for p in range(last - first):
                logits[p] = work.moved[0, p]
            for j in range(n_parents):
                sign = 1.0 if c >> (n_parents - 1 - j) & 1 else -1.0
                for p in range(last - first):
                    logits[p] += sign * work.moved[j + 1, p]
            for p in range(last - first):
                share = work.weights[p] / (1.0 + math.exp(-scale * logits[p]))
                shares[(first + p) * n_parts // n_nodes, c] += share
