"""Numbers of sets: a set of columns is named by its place in colexicographic order.

That is sum_k binomial(c_k, k) for members c_1 < c_2 < ..., so that lists of sets are sorted arrays of integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Ints

__all__ = ["LARGEST_NUMBER", "binomials", "largest_member", "set_numbers", "subsets"]

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
    found = np.zeros((1, 0), dtype=np.int64)
    for k in range(size):  # those whose largest member is m are the first comb(m, k) of the sets of k, each with m
        count = np.array([math.comb(m, k) for m in range(n)], dtype=np.int64)
        rest = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        found = np.column_stack([found[rest], np.repeat(np.arange(n), count)])
    return found


def set_numbers(members: Ints, binom: Ints, base: Sequence[int] | Ints = ()) -> Ints:
    """Numbers of the sets in the rows of ``members``, which rise, each joined with other columns, ``base``.

    Examples
    --------
    >>> set_numbers(subsets(5, 3), binomials(5, 3))
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    >>> set_numbers(np.array([[0, 3], [3, 4]]), binomials(5, 3), [1])
    array([1, 8])
    """
    others = np.sort(np.asarray(base, dtype=np.int64))
    below = 1 + np.searchsorted(others, np.arange(len(binom)))  # of the others, and 1, by column
    numbers, columns = np.zeros(len(members), dtype=np.int64), np.ascontiguousarray(members.T)
    for k, column in enumerate(columns):
        numbers += binom[np.arange(len(binom)), np.minimum(below + k, binom.shape[1] - 1)][column]
    for j, other in enumerate(others.tolist()):
        rank = np.full(len(members), 1 + j)
        for column in columns:
            rank += column < other
        numbers += binom[other][rank]
    return numbers


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
