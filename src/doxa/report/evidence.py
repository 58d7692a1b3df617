"""Evidence on convergence: traces, ranks, and how far chains agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.ranks import rank_shares
from doxa.report.numbers import decimals, significant

if TYPE_CHECKING:
    from doxa.estimates.diagnostics import RealDiagnosis
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["MOST_POINTS", "evidence"]

MOST_POINTS = 2000  # of a trace, over all chains


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


def _ranks(draws: NDArray[np.float64]) -> list[Any]:
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
