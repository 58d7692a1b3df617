"""One redraw of a block as its definition has it: what the compiled loop is held to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.models.factors import Factor

__all__ = ["block_conditional", "redraw_block"]


def block_conditional(
    block: Sequence[int], states: NDArray[np.int64], n_states: Sequence[int], factors: Iterable[Factor]
) -> NDArray[np.float64]:
    """Distribution of a block given the other variables, shape (n_states of its variables...).

    Parameters
    ----------
    block : sequence of int
    states : ndarray of int, shape (n_variables,)
        Possible; those of the block do not matter.
    n_states : sequence of int
    factors : iterable of Factor

    Examples
    --------
    >>> pair = Factor((0, 1), np.log([[0.4, 0.1], [0.1, 0.4]]))
    >>> block_conditional([0], np.array([0, 1]), [2, 2], [pair]).round(3)
    array([0.2, 0.8])
    """
    grid = np.indices([n_states[v] for v in block])
    total = np.zeros(grid.shape[1:])
    for variables, log_values in factors:
        if not set(variables).isdisjoint(block):
            total = total + log_values[tuple(grid[block.index(v)] if v in block else states[v] for v in variables)]
    weights = np.exp(total - total.max())
    return np.asarray(weights / weights.sum())


def redraw_block(
    block: Sequence[int], states: NDArray[np.int64], u: float, n_states: Sequence[int], factors: Iterable[Factor]
) -> NDArray[np.int64]:
    """States after a block is redrawn with the number ``u`` from [0, 1).

    The configuration is the first, the last variable of the block changing fastest, up to which the probabilities sum
    to more than ``u``.
    """
    p = block_conditional(block, states, n_states, factors)
    chosen = min(int(np.searchsorted(p.cumsum(), u, side="right")), int(np.flatnonzero(p)[-1]))
    after = states.copy()
    after[list(block)] = np.unravel_index(chosen, p.shape)
    return after
