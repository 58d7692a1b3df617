r"""Sums over the parent sets of one node: what stands between the weights of families and sums over graphs.

Before the recursions, the weights of a node's parent sets become :math:`\alpha_i(R) = \sum_{P \subseteq R} w_i(P)`, a
sum over subsets for every set R of other nodes.  After them, the derivatives :math:`D_i(R)` become the posterior of its
parent sets, :math:`P(pa(i) = P) = w_i(P) \sum_{R \supseteq P} D_i(R) / A(V)`, by a sum over supersets.  Both take
(n - 1) 2^(n - 2) additions.  The symbols are those of `doxa.structure.exact.dag_sums`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot
from doxa.arrays import Floats
from doxa.sampling.workers import Threads
from doxa.structure.exact.dag_weights import DROP, POWERS, Families, SumSpace, add_into, plus

__all__ = ["Derivative", "SubsetSums", "family_probabilities", "minus", "subset_sums"]

Derivative = tuple[Floats, NDArray[np.int32]]  # D_i(R) / A(V): mantissas and exponents, (2^n, n) each


@by_address
class SubsetSums(NamedTuple):
    """alpha_i(R) as a pair of doubles times a power of two, each of shape (2^n, n); zero where i is in R."""

    high: NDArray[np.float64]  # 0 or in [0.5, 1)
    low: NDArray[np.float64]
    exponent: NDArray[np.int32]


def subset_sums(families: list[Families], threads: Threads) -> SubsetSums:
    """alpha_i(R) of every node i and every set R."""
    n = len(families)
    alpha = SubsetSums(np.zeros((2**n, n)), np.zeros((2**n, n)), np.zeros((2**n, n), dtype=np.int32))

    def sum_node(node: int) -> None:
        work = _work(n)
        _place(node, families[node], work)
        _sum_subsets(n - 1, work, POWERS)
        _write_column(node, n, work, alpha)

    threads.run(sum_node, range(n))
    return alpha


def family_probabilities(
    node: int, families: Families, alpha: SubsetSums, derivative: Derivative
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Posterior of the families of one node, by `doxa.structure.exact.dag_recursions.backward`'s derivatives.

    Returns the probability of each family, scaled to sum to 1; for every other node the probability that ``node`` is
    its ancestor; and how far the sums were from 1.
    """
    n = alpha.high.shape[1]
    work = _work(n)
    outsiders = np.zeros(n)
    total = _read_column(node, n, alpha, derivative, work, outsiders)
    _sum_supersets(n - 1, work, POWERS)
    probability = np.empty(len(families.masks))
    _weigh_families(node, families, work, probability)
    excess = max(abs(float(probability.sum()) - 1.0), abs(total - 1.0))
    probability /= probability.sum()
    return probability, np.minimum(outsiders, 1.0), excess


def _work(n: int) -> SumSpace:
    size = 2 ** (n - 1)
    return np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)


@hot
def minus(one: int, two: int, node: int, alpha: SubsetSums, powers: Floats) -> float:
    """(alpha_i(one) - alpha_i(two)) / alpha_i(one), for two within one; 0 where alpha_i(one) is 0."""
    a_h, a_l, a_e = alpha
    if a_h[one, node] == 0.0:
        return 0.0
    k = np.int64(a_e[two, node]) - np.int64(a_e[one, node])
    if a_h[two, node] == 0.0 or k <= -DROP:
        return 1.0
    scale = powers[k + DROP]
    high, _ = plus(a_h[one, node], a_l[one, node], -a_h[two, node] * scale, -a_l[two, node] * scale)
    return max(0.0, high / a_h[one, node])  # type: ignore[no-any-return]


@hot
def _squeeze(members: int, node: int) -> int:
    """The set without the bit of ``node``, higher bits moved down."""
    return (members >> (node + 1) << node) | (members & ((1 << node) - 1))


@hot
def _spread(members: int, node: int) -> int:
    """Undo `_squeeze`: a set without ``node``."""
    return (members >> node << (node + 1)) | (members & ((1 << node) - 1))


@hot
def _place(node: int, families: Families, work: SumSpace) -> None:
    masks, mantissa, exponent = families[0], families[1], families[2]
    for f in range(masks.size):
        at = _squeeze(masks[f], node)
        work[0][at], work[1][at], work[2][at] = mantissa[f], 0.0, exponent[f]


@hot
def _sum_subsets(n_bits: int, work: SumSpace, powers: Floats) -> None:
    """Every set's number becomes the sum over its subsets."""
    for bit in range(n_bits):
        half = 1 << bit
        for start in range(0, 1 << n_bits, 2 * half):
            for without in range(start, start + half):
                add_into(without + half, without, work, powers)


@hot
def _sum_supersets(n_bits: int, work: SumSpace, powers: Floats) -> None:
    """Every set's number becomes the sum over its supersets."""
    for bit in range(n_bits):
        half = 1 << bit
        for start in range(0, 1 << n_bits, 2 * half):
            for without in range(start, start + half):
                add_into(without, without + half, work, powers)


@hot
def _write_column(node: int, n: int, work: SumSpace, alpha: SubsetSums) -> None:
    for at in range(1 << (n - 1)):
        members = _spread(at, node)
        alpha[0][members, node], alpha[1][members, node] = work[0][at], work[1][at]
        alpha[2][members, node] = work[2][at]


@hot
def _read_column(
    node: int, n: int, alpha: SubsetSums, derivative: Derivative, work: SumSpace, outsiders: Floats
) -> float:
    """D_i into ``work``; adds P(the non-descendants of i are R) to all nodes outside R, and returns its sum."""
    total = 0.0
    for at in range(1 << (n - 1)):
        members = _spread(at, node)
        mantissa, exponent = derivative[0][members, node], derivative[1][members, node]
        work[0][at], work[2][at] = mantissa, exponent
        if mantissa > 0.0:
            probability = mantissa * alpha[0][members, node] * _power(exponent + alpha[2][members, node])
            total += probability
            if probability > 0.0:
                for other in range(n):
                    if other != node and not members >> other & 1:
                        outsiders[other] += probability
    return total


@hot
def _weigh_families(node: int, families: Families, work: SumSpace, probability: Floats) -> None:
    masks, mantissa, exponent = families[0], families[1], families[2]
    for f in range(masks.size):
        at = _squeeze(masks[f], node)
        probability[f] = mantissa[f] * work[0][at] * _power(exponent[f] + work[2][at])


@hot
def _power(exponent: int) -> float:
    return math.ldexp(1.0, max(exponent, -1074)) if exponent > -1074 else 0.0
