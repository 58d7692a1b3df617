"""Identical rows are one row with a count: the exact grouping of the rows of a coded table.

Rows become keys by mixed radix, a column at a time; whenever the next column would overflow the
key, the keys are replaced by their ranks (there are at most as many as rows) and the product goes
on.  Nothing is hashed, so no two rows are ever confused, and the order is that of first occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["group_rows"]

_LARGEST_KEY = 2**62


def group_rows(columns: Sequence[NDArray[np.int16]], n_rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Group equal rows of columns of codes: where each first occurs, increasing, and the group of every row."""
    keys = np.zeros(n_rows, dtype=np.int64)
    n_keys = 1
    for codes in columns:
        radix = int(codes.max(initial=-1)) + 2  # -1 is a digit too
        if n_keys * radix > _LARGEST_KEY:
            distinct, keys = np.unique(keys, return_inverse=True)
            n_keys = distinct.size
        keys = keys * radix + (codes.astype(np.int64) + 1)
        n_keys *= radix
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[group]
