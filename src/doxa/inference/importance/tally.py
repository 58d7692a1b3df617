r"""`Tally`: sums of powers of weights by cell, of any number of draws, and the largest weights.

Weights are summed relative to a reference, :math:`w' = \exp(\ln w - r)`, so that nothing over- or underflows whatever
the evidence.  Tallies of different draws add up; added in the same order they give the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.importance.kernels import N_POWERS
from doxa.sampling.importance_weights import pareto_k

__all__ = ["Tally", "add_tallies", "block_tally", "tail_shape"]

# Pareto k is fitted to the largest 3 sqrt(n) weights, here of at most 250,000 draws: of more draws the 1500 largest
# weights are a tail further out.  The error of k is then about (1 + k) / sqrt(1500), or 0.04.
TAIL_DRAWS = 250_000
N_LARGEST = 1501  # the tail and its foot

Floats = NDArray[np.float64]


class Tally(NamedTuple):
    """Sums over draws; columns of ``cells`` and ``totals`` are powers 1 to 4 of the weights over exp(reference)."""

    n: int
    n_zero: int  # draws of weight 0
    reference: float  # nats; -inf where every weight is 0
    cells: Floats  # (n_cells, 4)
    totals: Floats  # (4,)
    largest: Floats  # log weights (nats) of the up to 1501 largest that are not 0, not sorted


def block_tally(log_weights: Floats, reference: float, sums: Floats) -> Tally:
    """Tally of a block of draws, from what `doxa.inference.importance.kernels.draw_block` made of it."""
    met = log_weights[log_weights > -np.inf]
    weights = np.exp(met - reference)  # summed without BLAS, whose rounding depends on the number of threads
    squares = weights * weights
    totals = np.array([part.sum() for part in (weights, squares, squares * weights, squares * squares)])
    return Tally(log_weights.size, log_weights.size - met.size, reference, sums.sum(axis=0), totals, _largest(met))


def add_tallies(a: Tally, b: Tally) -> Tally:
    """Tally of the draws of both.

    Examples
    --------
    >>> one = block_tally(np.zeros(2), 0.0, np.full((1, 3, 4), 2.0))
    >>> both = add_tallies(one, block_tally(np.full(2, np.log(2.0)), np.log(2.0), np.full((1, 3, 4), 1.0)))
    >>> (both.cells[0] * np.exp(both.reference * np.arange(1, 5))).round(12)  # 2 + 2^j
    array([ 4.,  6., 10., 18.])
    """
    n, n_zero = a.n + b.n, a.n_zero + b.n_zero
    if b.reference == -math.inf:
        return a._replace(n=n, n_zero=n_zero)
    if a.reference == -math.inf:
        return b._replace(n=n, n_zero=n_zero)
    reference = max(a.reference, b.reference)
    j = np.arange(1, N_POWERS + 1)
    ours, theirs = np.exp(j * (a.reference - reference)), np.exp(j * (b.reference - reference))
    return Tally(
        n, n_zero, reference, a.cells * ours + b.cells * theirs, a.totals * ours + b.totals * theirs,
        _largest(np.concatenate([a.largest, b.largest])),
    )  # fmt: skip


def tail_shape(tally: Tally) -> float:
    """Pareto k of the weights (`doxa.sampling.importance_weights.pareto_k`); nan where all are 0."""
    if not tally.largest.size:
        return math.nan
    log_weights = np.full(min(tally.n, TAIL_DRAWS), -np.inf)
    log_weights[: tally.largest.size] = tally.largest
    return pareto_k(log_weights)


def _largest(log_weights: Floats) -> Floats:
    if log_weights.size <= N_LARGEST:
        return log_weights
    return np.partition(log_weights, log_weights.size - N_LARGEST)[-N_LARGEST:]
