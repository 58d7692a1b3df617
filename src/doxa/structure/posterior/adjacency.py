"""Undirected views of sampled graphs: each row of bits joined with its column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.estimates.counts import IndicatorCounts
from doxa.models.bits import pack_rows

__all__ = ["adjacency_counts", "symmetric_rows"]


def symmetric_rows(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Adjacency rows of the skeletons of graphs.

    Parameters
    ----------
    rows : ndarray of uint64, shape (..., n_nodes, n_words)
        Adjacency rows as bit sets.

    Returns
    -------
    ndarray of uint64, same shape
        Bit j of row i is set when i -> j or j -> i is an edge.

    Examples
    --------
    >>> symmetric_rows(np.array([[2], [0]], dtype=np.uint64)).ravel()
    array([2, 1], dtype=uint64)
    """
    out = np.array(rows, dtype=np.uint64)
    _symmetrise(np.ascontiguousarray(rows).reshape(-1, *rows.shape[-2:]), out.reshape(-1, *rows.shape[-2:]))
    return out


def adjacency_counts(rows: NDArray[np.uint64]) -> IndicatorCounts:
    """Counts of the adjacencies of draws (chain, draw, n_nodes, n_words), those of i < j at ``[i, j]``."""
    n = rows.shape[2]
    once = np.triu(np.ones((n, n), dtype=np.bool_), 1)  # each pair is counted once
    return IndicatorCounts.from_words(symmetric_rows(rows) & pack_rows(once), n)


@hot
def _symmetrise(rows: Any, out: Any) -> None:
    for graph in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            for w in range(rows.shape[2]):
                word = rows[graph, i, w]
                while word != np.uint64(0):
                    j = 64 * w + lowest_bit(word)
                    word &= word - np.uint64(1)
                    out[graph, j, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
