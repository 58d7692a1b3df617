"""Numbers of sets: a set of columns is named by its place in colexicographic order.

That is sum_k binomial(c_k, k) for members c_1 < c_2 < ..., so that lists of sets are sorted arrays of integers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Ints

__all__ = ["LARGEST_NUMBER", "binomials", "largest_member", "set_number", "set_numbers", "subsets"]

LARGEST_NUMBER = 2**62  # no set has this number or more


def binomials(n: int, k: int) -> NDArray[np.int64]:
    """binomial(i, j) for i up to n and j up to k, at most 2^62.

    Examples
    --------
    >>> binomials(4, 2)[4]
    array([1, 4, 6])
    """
    table = np.zeros((n + 1, k + 1), dtype=np.int64)
    table[:, 0] = 1
    for i in range(1, n + 1):
        table[i, 1:] = np.minimum(table[i - 1, :-1] + table[i - 1, 1:], LARGEST_NUMBER)
    return table


def subsets(n: int, size: int) -> NDArray[np.int64]:
    """All subsets of 0..n-1 of one size, their members rising, in colexicographic order.

    Examples
    --------
    >>> subsets(4, 2).tolist()
    [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]
    """
    found = np.empty((math.comb(n, size), size), dtype=np.int64)
    _fill_subsets(found)
    return found


@hot
def set_number(members: Ints, size: int, binom: Ints) -> int:
    """Number of the set of the first ``size`` members, which rise."""
    number = 0
    for k in range(size):
        number += binom[members[k], k + 1]
    return number


@hot
def _fill_subsets(found: Ints) -> None:
    size = found.shape[1]
    for row in range(found.shape[0]):
        if row == 0:
            for k in range(size):
                found[0, k] = k
            continue
        k = 0  # the smallest member that can rise does, those below it start again
        while k + 1 < size and found[row - 1, k] + 1 == found[row - 1, k + 1]:
            k += 1
        for j in range(size):
            found[row, j] = j if j < k else found[row - 1, j]
        found[row, k] = found[row - 1, k] + 1


@hot
def set_numbers(members: Ints, base: Ints, binom: Ints, merged: Ints, numbers: Ints) -> None:
    """Write the numbers of the sets in the rows of ``members``, each joined with ``base``; all members rise."""
    size, n_base = members.shape[1], base.size
    for row in range(members.shape[0]):
        i, j = 0, 0
        while i < size or j < n_base:
            if j == n_base or (i < size and members[row, i] < base[j]):
                merged[i + j] = members[row, i]
                i += 1
            else:
                merged[i + j] = base[j]
                j += 1
        numbers[row] = set_number(merged, size + n_base, binom)


@hot
def largest_member(number: int, size: int, below: int, binom: Ints) -> int:
    """Largest c < ``below`` with binomial(c, size) <= number."""
    low, high = size - 1, below - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if binom[middle, size] <= number:
            low = middle
        else:
            high = middle - 1
    return low
