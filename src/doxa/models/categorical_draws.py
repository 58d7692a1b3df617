"""Records drawn from a directed network: every node given its parents, all records at once.

Also the blanking of cells at random, which makes the records incomplete without saying anything by it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["blank", "draw_records"]


def draw_records(
    n: int,
    order: Sequence[int],
    parents: Sequence[Sequence[int]],
    tables: Sequence[NDArray[np.float64]],
    rng: np.random.Generator,
) -> NDArray[np.int16]:
    """Draw n complete records of positions of states, shape (n, n_nodes), one uniform a cell, node after node.

    Nodes are in ``order``, and the last axis of a node's table is its own; a state of probability 0 is never drawn.
    """
    codes = np.zeros((n, len(tables)), dtype=np.int16, order="F")
    for node in order:
        n_states = tables[node].shape[-1]
        thresholds = _thresholds(tables[node].reshape(-1, n_states))
        row = np.zeros(n, dtype=np.intp)
        for parent, size in zip(parents[node], tables[node].shape, strict=False):
            row = row * size + codes[:, parent]
        u = rng.random(n)
        for k in range(n_states - 1):
            codes[:, node] += u >= thresholds[row, k]
    return codes


def blank(codes: NDArray[np.int16], share: float, rng: np.random.Generator) -> None:
    """Set every cell to -1 with probability ``share``, in place."""
    for j in range(codes.shape[1]):
        codes[rng.random(len(codes)) < share, j] = -1


def _thresholds(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums, raised from the last possible state on: rounding must not reach an impossible one."""
    n_states = rows.shape[1]
    last = n_states - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)
    return np.where(np.arange(n_states) >= last[:, None], np.inf, np.cumsum(rows, axis=1))
