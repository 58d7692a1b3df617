"""Arrays of words that begin where a cache line does: eight words at a time, others cost a third of the speed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["aligned", "aligned_zeros"]

_LINE = 64  # bytes


def aligned_zeros(n: int) -> NDArray[np.uint64]:
    """An array of ``n`` words 0."""
    room = np.zeros(n + _LINE // 8, dtype=np.uint64)
    skip = -(room.ctypes.data // 8) % (_LINE // 8)
    return room[skip : skip + n]


def aligned(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A copy of a flat array.

    Examples
    --------
    >>> copy = aligned(np.arange(3, dtype=np.uint64))
    >>> copy, copy.ctypes.data % 64
    (array([0, 1, 2], dtype=uint64), 0)
    """
    found = aligned_zeros(words.size)
    found[:] = words
    return found
