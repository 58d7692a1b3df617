r"""How a fit was drawn: methods of its parts, acceptance, weights, tours between regenerations.

**Weights from the draws.**  With p the posterior of a part, normalised by its estimated evidence, and q the
approximation, draws of the posterior have the weights w = p / q.  As :math:`E_p[w] = E_q[w^2]` and :math:`E_q[w] = 1`,
one over their mean is the efficiency of q, effective draws a draw.  Where q misses a region, draws in it have large
weights, which pilot draws from q cannot show.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.regenerative import Tours, cut_tours, regenerative_estimate
from doxa.report.numbers import decimal, decimals, rounded, significant

if TYPE_CHECKING:
    from doxa.parameters.posterior import ParameterPosterior
    from doxa.parameters.report import PartReport

__all__ = ["MOST_TOURS", "fit_method", "log_weights", "tours"]

_MOST_PARTS = 400
_MOST_WEIGHTS = 6  # parts whose weights are drawn
_WEIGHED = 4000  # draws that are weighed
_BINS = 40
MOST_TOURS = 30  # lengths of tours that are drawn, in bins where they are longer
_MOST_TOUR_ROWS = 200
_MOST_TOURED = 6  # parts whose tours are shown
_NOT_WEIGHED = ("exact", "variational", "augmentation")


def fit_method(posterior: ParameterPosterior) -> dict[str, Any]:
    """``parts``, ``weights`` of those that have them, ``tours`` of those that regenerate; ``evidence``, in words."""
    report = posterior.completed_report
    total, bound = report.log_evidence, report.bound
    return {
        "parts": [_part(posterior, k, part) for k, part in enumerate(report.parts[:_MOST_PARTS])],
        "n_parts": len(report.parts),
        "weights": _weights(posterior),
        "tours": _tours(posterior),
        "evidence": "" if math.isnan(total.value) else str(total),
        "bound": None if math.isnan(bound) else round(bound, 4),
    }


def _part(posterior: ParameterPosterior, k: int, part: PartReport) -> dict[str, Any]:
    rates = posterior.acceptance_rates(k)
    return {
        "nodes": list(part.nodes),
        "method": part.method,
        "why": part.why,
        "approximation": part.approximation,
        "acceptance": decimal(rates.mean(), 4),
        "lowest": decimal(rates.min(), 4),
        "highest": decimal(rates.max(), 4),
        "efficiency": None if part.method in ("exact", "augmentation") else decimal(part.efficiency, 3),
        "tail": None if math.isinf(part.tail) else decimal(part.tail, 2),
        "evidence": decimal(part.log_evidence, 4),
        "error": rounded(part.log_evidence_mcse, 2),
    }


def log_weights(posterior: ParameterPosterior, k: int) -> Floats | None:
    """Log posterior density less log density of the approximation, both normalised, at draws of part k; nats.

    None where the part has no approximation, no weights, or an evidence that is not known.
    """
    part = posterior.completed_report.parts[k]
    if part.method in _NOT_WEIGHED or not math.isfinite(part.log_evidence):
        return None
    try:
        proposal = posterior.approximation(part.nodes[0])
    except ArgumentError:
        return None
    theta, log_density = posterior.trace[f"{k}.theta"], posterior.trace[f"{k}.log_density"]
    step = max(1, log_density.size // _WEIGHED)
    step = min(step, posterior.n_draws)
    points = theta[:, ::step].reshape(-1, theta.shape[-1])
    inside = log_density[:, ::step].ravel()
    return np.asarray(inside - part.log_evidence - proposal.log_density(points))


def _weights(posterior: ParameterPosterior) -> list[dict[str, Any]]:
    found = []
    for k in range(len(posterior.report.parts)):
        if (weights := log_weights(posterior, k)) is not None:
            peak = weights.max()
            log_mean = float(peak + np.log(np.mean(np.exp(weights - peak))))
            found.append((math.exp(-log_mean), k, weights))
    worst = sorted(found, key=lambda entry: entry[:2])[:_MOST_WEIGHTS]
    return [_weight_histogram(k, efficiency, weights) for efficiency, k, weights in worst]


def _weight_histogram(k: int, efficiency: float, weights: Floats) -> dict[str, Any]:
    low, high = min(-0.05, float(weights.min())), max(0.05, float(weights.max()))
    counts, _ = np.histogram(weights, bins=_BINS, range=(low, high))
    return {
        "part": k,
        "efficiency": decimal(min(1.0, efficiency), 3),
        "largest": rounded(math.exp(min(700.0, weights.max())), 3),
        "range": significant([low, high], 5),
        "share": decimals(counts / weights.size, 4),
    }


def _tours(posterior: ParameterPosterior) -> list[dict[str, Any]]:
    """Of the parts that regenerate most rarely."""
    marks = {k: f"{k}.regenerated" for k in range(len(posterior.report.parts))}
    rates = [(posterior.trace[name].mean(), k) for k, name in marks.items() if name in posterior.trace.names]
    return [tours(posterior, k) for _, k in sorted(rates)[:_MOST_TOURED]]


def tours(posterior: ParameterPosterior, k: int) -> dict[str, Any]:
    """Tours of part k: how many, how long, and means of the parameters with the errors that tours tell."""
    part = posterior.report.parts[k]
    starts = posterior.trace[f"{k}.regenerated"][..., 0]
    lengths = cut_tours(np.zeros(starts.shape), starts).lengths
    refits = int(posterior.trace[f"{k}.refitted"].sum()) if f"{k}.refitted" in posterior.trace.names else 0
    found: dict[str, Any] = {"part": k, "n": int(lengths.size), "refits": refits, "rows": [], "note": ""}
    if lengths.size < 2:
        return found | {"note": "Fewer than two tours were completed: run longer."}
    edges = np.unique(np.round(np.linspace(1, lengths.max() + 1, min(MOST_TOURS, int(lengths.max())) + 1)).astype(int))
    counts, _ = np.histogram(lengths, bins=edges)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rows = [
            _tour_row(posterior, node, j, starts)
            for node in part.nodes
            for j in range(posterior.network.n_coefficients(node))
        ]
    note = next((str(warning.message) for warning in said if issubclass(warning.category, UserWarning)), "")
    return found | {
        "mean": decimal(lengths.mean(), 2),
        "longest": int(lengths.max()),
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "rows": rows[:_MOST_TOUR_ROWS],
        "note": note,
    }


def _tour_row(posterior: ParameterPosterior, node: str, j: int, starts: NDArray[np.bool_]) -> list[Any]:
    """Node, parameter, mean by tours, its error by tours, and that of the chains."""
    label = posterior.network.coefficients(node)[j]
    made: Tours = cut_tours(posterior.draws(node)[..., j], starts)
    estimate = regenerative_estimate(made.sums, made.lengths).estimate
    plain = posterior.coefficient(node, label).mcse
    return [node, label, *significant([estimate.value], 5), *significant([estimate.mcse, plain], 2)]
