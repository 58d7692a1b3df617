"""Gibbs sampling and mean field on grids of 10 x 10 spins, against exact marginals and log Z by contraction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.gelman_rubin import rank_r_hat
from doxa.inference.exact import plan_contraction
from doxa.inference.mean_field import mean_field
from doxa.inference.mean_field.ising import ising_mean_field
from doxa.inference.spins import IsingGibbs, IsingModel
from doxa.models.ising import IsingNetwork, ising_grid
from doxa.sampling.driver import Schedule, sample

__all__ = ["CHAINS", "FIELD", "GIBBS", "KINDS", "METHODS", "SIDE", "Grid", "compute_grid", "make_grid"]

Floats: TypeAlias = NDArray[np.float64]

SIDE, CHAINS = 10, 4
FIELD = 0.005  # of the ferromagnet: its two modes weigh 0.73 and 0.27 where all spins agree
KINDS = ("ferromagnet", "glass")
GIBBS = {"short": 1000, "long": 20_000}  # sweeps of each chain, a tenth of them dropped
METHODS = ("mean field", "rows as blocks", "Gibbs, short", "Gibbs, long")
_THIN = 10


class Grid(NamedTuple):
    """One grid at one coupling."""

    kind: str
    coupling: float
    log_z: float  # nats
    errors: dict[str, float]  # mean over sites of |P(up) - exact|
    seconds: dict[str, float]  # CPU
    bounds: dict[str, float]  # on log Z, nats
    spread: float  # of the bounds that naive starts reach, nats
    falls: float  # largest fall of a bound from one sweep to the next; 0 if none
    magnetisation: tuple[float, float]  # root mean square of the spins' means: exact, mean field
    paths: Floats  # (chain, draw) mean spin, the long chains
    r_hat: dict[str, float]


def make_grid(kind: str, coupling: float, seed: int) -> IsingNetwork:
    """A ferromagnet in a weak field, or couplings of random sign and random fields."""
    if kind == "ferromagnet":
        return ising_grid(SIDE, SIDE, coupling=coupling, field=FIELD)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 2 * SIDE * (SIDE - 1))
    return ising_grid(SIDE, SIDE, coupling=coupling * signs, field=rng.normal(0.0, 0.3, (SIDE, SIDE)))


def compute_grid(kind: str, coupling: float, seed: int, sweeps: dict[str, int]) -> Grid:
    """Everything about one grid."""
    network = make_grid(kind, coupling, seed)
    n = len(network.fields)
    exact = plan_contraction([2] * n, [f.variables for f in network.factors]).run(network.factors)
    up = np.array([p[1] for p in exact.marginals])
    errors, seconds, r_hat, paths = {}, {}, {}, np.zeros((CHAINS, 0))

    begin = time.process_time()
    naive = ising_mean_field(network, seed=seed, starts=8)
    seconds["mean field"] = time.process_time() - begin
    begin = time.process_time()
    rows = [list(range(SIDE * r, SIDE * (r + 1))) for r in range(SIDE)]
    joined = mean_field([2] * n, network.factors, blocks=rows, seed=seed, max_sweeps=200)
    seconds["rows as blocks"] = time.process_time() - begin
    model = IsingModel(network.edges, network.couplings, network.fields)
    for name, length in sweeps.items():
        begin = time.process_time()
        kept = length // _THIN
        trace = sample(
            IsingGibbs(model, thin=_THIN), Schedule(CHAINS, kept - kept // 10, kept // 10), seed=seed, workers=1
        )
        seconds[f"Gibbs, {name}"] = time.process_time() - begin
        errors[f"Gibbs, {name}"] = _error(trace["up"].mean(axis=(0, 1)), up)
        paths = np.asarray(trace["magnetisation"])
        r_hat[name] = float(np.ravel(rank_r_hat(paths))[0])
    errors["mean field"] = _error(naive.marginals[:, 1], up)
    errors["rows as blocks"] = _error(np.array([p[1] for p in joined.marginals]), up)
    reached = [start.log_z_bound for start in naive.starts]
    return Grid(
        kind, coupling, exact.log_z, errors, seconds,
        {"mean field": naive.log_z_bound, "rows as blocks": joined.log_z_bound},
        float(np.ptp(reached)), _worst_fall([naive.bounds, joined.bounds]),
        (_size(2 * up - 1), _size(naive.magnetisation)), paths, r_hat,
    )  # fmt: skip


def _error(found: Floats, exact: Floats) -> float:
    return float(np.abs(found - exact).mean())


def _size(means: Floats) -> float:
    return float(np.sqrt((means**2).mean()))


def _worst_fall(traces: Sequence[Floats]) -> float:
    return max(0.0, *(float(-np.diff(trace).min(initial=0.0)) for trace in traces))
