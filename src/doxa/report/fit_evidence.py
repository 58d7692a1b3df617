"""Evidence that a fit has converged: log densities of its parts, ranks of what agrees least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.ranks import rank_shares
from doxa.parameters.diagnosis import chains_of
from doxa.report.coefficients import kept_draws
from doxa.report.numbers import decimals, significant

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["MOST_TRACES", "fit_evidence"]

MOST_TRACES = 4  # of log densities
_MOST_PARTS = 200
_MOST_RANKS = 4  # parameters


def fit_evidence(posterior: ParameterPosterior) -> dict[str, Any]:
    """Log densities of the parts, diagnosed; traces of the slowest; ranks of the parameters with the largest R-hat.

    Returns
    -------
    dict
        ``parts``, each with ``nodes`` and its numbers; ``traces``: of the slowest parts, ``part`` and ``chains``, at
        the draws ``steps``; ``ranks``: ``parameter`` (its place in the summary) and ``chains``.
    """
    parts, traces = [], []
    shown = kept_draws(posterior.n_chains, posterior.n_draws, 1)
    for k, part in enumerate(posterior.report.parts[:_MOST_PARTS]):
        found = diagnose_real(posterior.log_density(part.nodes[0]))
        parts.append(
            {
                "nodes": list(part.nodes),
                "mean": decimals([found.estimate.value], 2)[0],
                "mcse": significant([found.estimate.mcse], 2)[0],
                "ess": decimals([found.bulk_ess], 0)[0],
                "r_hat": decimals([found.r_hat], 4)[0],
            }
        )
        traces.append((float(np.nan_to_num(found.bulk_ess)), k))
    slowest = [k for _, k in sorted(traces)[:MOST_TRACES]]
    return {
        "parts": parts,
        "steps": shown.tolist(),
        "traces": [
            {
                "part": k,
                "chains": [decimals(chain[shown], 2) for chain in chains_of(posterior.trace[f"{k}.log_density"])],
            }
            for k in slowest
        ],
        "ranks": _ranks(posterior),
    }


def _ranks(posterior: ParameterPosterior) -> list[dict[str, Any]]:
    """Of the parameters whose chains agree least."""
    if posterior.n_chains == 1:
        return []
    frame = posterior.summary()
    order = np.argsort(-frame["r_hat"].fillna(np.inf).to_numpy(), kind="stable")[:_MOST_RANKS]
    place = [(node, j) for node in posterior.network.parameters for j in range(posterior.network.n_coefficients(node))]
    found = []
    for k in order.tolist():
        node, j = place[k]
        shares = rank_shares(posterior.draws(node)[..., j])
        found.append({"parameter": k, "chains": [decimals(chain, 2) for chain in shares]})
    return found
