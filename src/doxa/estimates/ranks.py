"""Ranks of draws, chain by chain: what a rank plot shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["rank_shares"]


def rank_shares(draws: NDArray[np.float64], bins: int = 20) -> NDArray[np.float64]:
    """Share of each chain's draws in each bin of ranks over all chains, times the number of bins: 1 if chains agree.

    Rank plots: Vehtari et al. (2021).  Draws that tie share the ranks that they take up together evenly, so that a
    quantity of few values makes no comb.  From (n_chains, n_draws) to (n_chains, bins).
    """
    n_chains, n_draws = draws.shape
    _, kind, size = np.unique(draws.ravel(), return_inverse=True, return_counts=True)
    end = np.cumsum(size) / draws.size  # of the ranks of each value, as shares of all ranks
    begin = end - size / draws.size
    edges = np.arange(bins + 1) / bins
    reach = np.clip(edges[None, :], begin[:, None], end[:, None])
    share = np.diff(reach, axis=1) / (end - begin)[:, None]  # of each value in each bin
    kind = kind.reshape(n_chains, n_draws)
    counts = np.stack([np.bincount(chain, minlength=size.size) for chain in kind])
    found: NDArray[np.float64] = counts @ share * bins / n_draws
    return found
