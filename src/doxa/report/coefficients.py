"""The parameters of a fit: their table, their densities with the approximation's, their traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.report.approximations import marginal_density
from doxa.report.numbers import decimals, significant
from doxa.report.packing import packed
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["BINS", "MOST_DRAWN", "MOST_POINTS", "coefficients", "histogram_range", "kept_draws"]

MOST_DRAWN = 200  # parameters whose densities and traces are drawn
MOST_POINTS = 30_000  # of all traces together: 60 kB
_MOST_OF_ONE = 1200  # points of one trace, over all chains
_LEAST_OF_CHAIN = 16
BINS = 48
_TAIL = 5e-4  # of the draws, on either side, may lie outside of what is drawn

Floats = NDArray[np.float64]


def coefficients(posterior: ParameterPosterior) -> dict[str, Any]:
    """Columns over all parameters, and ``drawn``: what is drawn of those that are slowest to agree.

    Returns
    -------
    dict
        ``nodes``, and of every parameter ``node``, ``label``, ``places`` (decimals worth showing), ``mean``, ``sd``,
        ``low``, ``high``, ``mcse``, ``ess``, ``r_hat``.  ``drawn`` maps the place of a parameter among these to its
        densities and traces; ``steps`` are the draws that the traces show.
    """
    frame = posterior.summary()
    nodes = list(posterior.network.parameters)
    chosen = _slowest(frame)
    shown = kept_draws(posterior.n_chains, posterior.n_draws, len(chosen))
    labels = {node: posterior.network.coefficients(node) for node in nodes}
    place = [(node, j) for node in nodes for j in range(len(labels[node]))]
    drawn = {str(k): _drawn(posterior, *place[k], shown) for k in chosen}
    return {
        "nodes": nodes,
        "node": [nodes.index(node) for node, _ in place],
        "label": list(frame["coefficient"]),
        **_columns(frame),
        "n_chains": posterior.n_chains,
        "n_draws": posterior.n_draws,
        "steps": shown.tolist(),
        "drawn": drawn,
    }


def kept_draws(n_chains: int, n_draws: int, n_parameters: int) -> NDArray[np.intp]:
    """Draws at even distances that traces show, so that all of them have room.

    Examples
    --------
    >>> kept_draws(4, 1000, 3).size, kept_draws(4, 100, 3).size
    (250, 100)
    """
    room = min(_MOST_OF_ONE, MOST_POINTS // max(1, n_parameters))
    most = max(_LEAST_OF_CHAIN, room // n_chains)
    return np.arange(0, n_draws, -(-n_draws // most))


def histogram_range(draws: Floats, inside: tuple[float, float] = (-np.inf, np.inf)) -> tuple[float, float]:
    """Ends of what is drawn of a parameter: nearly all of its draws, and a margin, within its own limits."""
    low, high = np.quantile(draws, [_TAIL, 1 - _TAIL])
    margin = 0.06 * (high - low) if high > low else max(1e-6, 0.01 * abs(high))
    return max(inside[0], float(low - margin)), min(inside[1], float(high + margin))


def _slowest(frame: pd.DataFrame) -> list[int]:
    """All parameters, or those that fared worst in R-hat and in effective draws, half of each; in order."""
    if len(frame) <= MOST_DRAWN:
        return list(range(len(frame)))
    by_r_hat = np.argsort(-frame["r_hat"].fillna(np.inf).to_numpy(), kind="stable")
    by_ess = np.argsort(frame["ess"].to_numpy(), kind="stable")
    ranked = dict.fromkeys(np.stack([by_r_hat, by_ess], axis=1).ravel().tolist())
    return sorted(list(ranked)[:MOST_DRAWN])


def _columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    spread = frame["sd"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.where(spread > 0, 2 - np.floor(np.log10(spread)), 3)
    places = np.clip(np.nan_to_num(places, nan=3), 0, 9).astype(int)
    found: dict[str, list[Any]] = {"places": places.tolist()}
    for short, name in (("mean", "mean"), ("sd", "sd"), ("low", "lower"), ("high", "upper")):
        found[short] = [decimals([value], k)[0] for value, k in zip(frame[name], places.tolist(), strict=True)]
    return found | {
        "mcse": significant(frame["mcse"], 2),
        "ess": decimals(frame["ess"], 0),
        "r_hat": decimals(frame["r_hat"], 4),
    }


def _drawn(posterior: ParameterPosterior, node: str, j: int, shown: NDArray[np.intp]) -> dict[str, Any]:
    draws = posterior.draws(node)[..., j]
    probability = node in posterior.network.roots
    low, high = histogram_range(draws, (0.0, 1.0) if probability else (-np.inf, np.inf))
    counts, _ = np.histogram(draws, bins=BINS, range=(low, high))
    density = counts / (draws.size * (high - low) / BINS)
    at = np.linspace(low, high, 2 * BINS + 1)
    curve, why = _curve(posterior, node, j, at, probability)
    top = float(max(density.max(), 0.0 if curve is None else curve.max()))
    kept = draws[:, shown]
    ends = float(kept.min()), float(kept.max())
    return {
        "range": significant([low, high], 6),
        "top": significant([top], 6)[0],
        "outside": significant([1 - counts.sum() / draws.size], 2)[0],
        "density": packed(density, 0.0, top),
        "curve": "" if curve is None else packed(curve, 0.0, top),
        "why": why,
        "ends": significant(ends, 6),
        "trace": packed(kept, *ends),
    }


def _curve(
    posterior: ParameterPosterior, node: str, j: int, at: Floats, probability: bool
) -> tuple[Floats | None, str]:
    """Density of the approximation; or None, and why there is none."""
    try:
        proposal = posterior.approximation(node)
    except ArgumentError as error:
        return None, printable(str(error))
    before = posterior.part(node).nodes
    column = sum(posterior.network.n_coefficients(other) for other in before[: before.index(node)])
    return marginal_density(proposal, column + j, at, probability=probability), ""
