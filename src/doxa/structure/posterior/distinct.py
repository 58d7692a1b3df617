"""The different graphs of a sample: what is worked out for each graph is worked out for these once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.structure.posterior.relations import label_rows

__all__ = ["distinct_graphs", "of_each"]


def distinct_graphs(rows: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The different graphs among draws (chain, draw, n_nodes, n_words), as they appear, and which of them each is.

    Examples
    --------
    >>> graphs, which = distinct_graphs(np.array([[[[2], [0]], [[0], [0]], [[2], [0]]]], dtype=np.uint64))
    >>> graphs[..., 0].tolist(), which.tolist()
    ([[2, 0], [0, 0]], [[0, 1, 0]])
    """
    flat = rows.reshape(-1, *rows.shape[2:])
    first, label = label_rows(flat)
    return flat[first], label.reshape(rows.shape[:2])


def of_each(values: NDArray[np.float64], which: NDArray[np.intp], n_graphs: int) -> NDArray[np.float64]:
    """The value of each different graph, from those of the draws (chain, draw)."""
    found = np.empty(n_graphs)
    found[which.ravel()] = values.ravel()
    return found
