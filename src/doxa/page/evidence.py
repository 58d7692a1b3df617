"""Evidence on convergence: traces, ranks, and how far chains agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.page.numbers import decimals, significant

if TYPE_CHECKING:
    from doxa.estimates.diagnostics import RealDiagnosis
    from doxa.structure.posterior import StructurePosterior

__all__ = ["MOST_POINTS", "evidence", "rank_shares"]

MOST_POINTS = 2000  # of a trace, over all chains
_BINS = 20  # of a rank plot

Floats = NDArray[np.float64]


def evidence(posterior: StructurePosterior) -> dict[str, Any]:
    """Traces and ranks of log score and number of edges, and their diagnoses."""
    n_chains, n_draws = posterior.n_edges.shape
    step = -(-n_draws * n_chains // MOST_POINTS)
    shown = np.arange(0, n_draws, step)
    log_score, n_edges = posterior.log_score, posterior.n_edges
    return {
        "step": int(step),
        "n_draws": n_draws,
        "draws": shown.tolist(),
        "log_score": [decimals(chain[shown], 2) for chain in log_score],
        "n_edges": [chain[shown].tolist() for chain in n_edges],
        "ranks": {
            "log_score": _ranks(np.round(log_score, 6)),
            "n_edges": _ranks(n_edges.astype(np.float64)),
        },
        "quantities": [
            _diagnosis("log score", posterior.log_score_diagnosis),
            _diagnosis("number of edges", posterior.n_edges_diagnosis),
        ],
    }


def rank_shares(draws: Floats, bins: int = _BINS) -> Floats:
    """Share of each chain's draws in each bin of ranks over all chains, times the number of bins: 1 if chains agree.

    Parameters
    ----------
    draws : ndarray of float, shape (n_chains, n_draws)
    bins : int, default=20

    Returns
    -------
    ndarray of float, shape (n_chains, bins)
        Rows have the mean 1.

    Notes
    -----
    Rank plots: Vehtari et al. (2021).  Draws that tie share the ranks that they take up together evenly, so that a
    quantity of few values makes no comb.

    Examples
    --------
    >>> rank_shares(np.array([[1.0, 2.0], [3.0, 4.0]]), bins=2)
    array([[2., 0.],
           [0., 2.]])
    >>> rank_shares(np.zeros((2, 10)), bins=2)
    array([[1., 1.],
           [1., 1.]])
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
    found: Floats = counts @ share * bins / n_draws
    return found


def _ranks(draws: Floats) -> list[Any]:
    return [decimals(chain, 3) for chain in rank_shares(draws)]


def _diagnosis(name: str, found: RealDiagnosis) -> dict[str, Any]:
    mean, mcse = found.estimate.value, found.estimate.mcse
    return {
        "name": name,
        "mean": decimals([mean], 2)[0],
        "mcse": significant([mcse], 2)[0],
        "ess": decimals([found.bulk_ess], 0)[0],
        "r_hat": decimals([found.r_hat], 4)[0],
    }
