"""Linear equations of an irreducible chain by the elimination of Grassmann, Taksar & Heyman (1985).

It never subtracts, and so keeps its relative accuracy however rarely the chain moves between its parts.
"""

from __future__ import annotations

import numpy as np

from doxa.testing.kernel_matrices.checks import Array

__all__ = ["eliminate", "poisson_solution", "stationary_law"]


def eliminate(matrix: Array) -> tuple[Array, Array]:
    """Watch an irreducible chain only on states 0..k-1, for k = n-1, ..., 1 (Grassmann, Taksar & Heyman 1985).

    Row k of the first array, up to its diagonal: moves from k of the chain that is watched on 0..k.  Column k, above:
    expected visits to k on each step from a lower state.  The second array: probability of leaving k downwards, summed
    rather than taken as 1 - P_kk, which is all the method does for its accuracy.
    """
    reduced, exits = matrix.copy(), np.ones(len(matrix))
    for k in range(len(matrix) - 1, 0, -1):
        exits[k] = reduced[k, :k].sum()
        reduced[:k, k] /= exits[k]
        reduced[:k, :k] += np.outer(reduced[:k, k], reduced[k, :k])
    return reduced, exits


def stationary_law(reduced: Array) -> Array:
    """The stationary distribution, from the first array of `eliminate`."""
    pi = np.ones(1)
    for k in range(1, len(reduced)):
        pi = np.append(pi, pi @ reduced[:k, k])
        pi /= pi.sum()  # so that it cannot overflow
    return pi


def poisson_solution(reduced: Array, exits: Array, centred: Array) -> Array:
    """Solve g - Pg = centred with g[0] = 0, by the same elimination.

    The second column is for rounding: what is left of the mean is found on the way, and taken off.
    """
    right = np.stack([centred, np.ones_like(centred)], axis=1)
    for k in range(len(reduced) - 1, 0, -1):
        right[:k] += np.outer(reduced[:k, k], right[k])
    g = np.zeros_like(right)
    for k in range(1, len(reduced)):
        g[k] = (right[k] + reduced[k, :k] @ g[:k]) / exits[k]
    solution: Array = g[:, 0] - right[0, 0] / right[0, 1] * g[:, 1]
    return solution
