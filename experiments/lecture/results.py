"""What the comparison of Gibbs sampling and mean field on the Ising model computes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.mean_field.projections import Comparison
from lecture.grids import GIBBS, KINDS, Grid, compute_grid
from lecture.projections import Climbs, climbs_of_em, printed_conditional, project
from logistic_papers.script import progress

__all__ = ["Results", "compute", "gap", "mean_of"]

COUPLINGS = np.round(np.arange(0.0, 1.01, 0.05), 2)
INSTANCES = {"ferromagnet": 1, "glass": 5}


class Results(NamedTuple):
    """What is drawn and told."""

    grids: dict[tuple[str, float], list[Grid]]
    couplings: list[float]
    projections: list[Comparison]  # by coupling
    printed: tuple[float, float]
    climbs: Climbs


def compute(quick: bool) -> Results:
    couplings = [0.2, 0.9] if quick else COUPLINGS.tolist()
    sweeps = {name: n // 20 if quick else n for name, n in GIBBS.items()}
    compute_grid("glass", 0.1, 0, dict.fromkeys(GIBBS, 100))  # compiles
    grids = {}
    for kind in KINDS:
        for coupling in couplings:
            progress(f"{kind}, coupling {coupling}")
            n = 1 if quick else INSTANCES[kind]
            grids[kind, coupling] = [compute_grid(kind, coupling, seed, sweeps) for seed in range(n)]
    progress("projections and EM")
    climbs = climbs_of_em(2, 4) if quick else climbs_of_em(40, 25)
    return Results(grids, couplings, [project(j) for j in couplings], printed_conditional(), climbs)


def mean_of(results: Results, kind: str, quantity: str, method: str) -> NDArray[np.float64]:
    """Mean over the grids of a kind, by coupling."""
    return np.array(
        [np.mean([getattr(g, quantity)[method] for g in results.grids[kind, j]]) for j in results.couplings]
    )


def gap(results: Results, kind: str, method: str) -> NDArray[np.float64]:
    """Log Z less its bound, nats, by coupling."""
    return np.array([np.mean([g.log_z - g.bounds[method] for g in results.grids[kind, j]]) for j in results.couplings])
