"""Marginals of Ising models by heat bath: spins need no tables, and grids are done 64 sites at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doxa.estimates.averages import AverageDiagnostics
from doxa.estimates.estimate import Estimate
from doxa.inference.answers import Answer, certain, certain_answer
from doxa.inference.chains import Running, run_to_accuracy
from doxa.mcmc.annealing import condition_spins
from doxa.mcmc.ising import IsingGibbs, IsingGrid, IsingModel
from doxa.models.evidence import Evidence
from doxa.models.ising import IsingNetwork

__all__ = ["answer_by_spins", "certain_spin"]

_THIN = 50  # sweeps behind each kept draw: what a grid's marginals cost is paid once a draw
_SITES_PER_BLOCK = 10**9  # updates between two commits: a second or less


def answer_by_spins(network: IsingNetwork, evidence: Evidence, query: Sequence[int], running: Running) -> Answer:
    """Marginals with Monte Carlo errors; observed spins become fields on their neighbours."""
    left, free = condition_spins(network, evidence)
    place = {v: i for i, v in enumerate(free)}
    known = {v: certain_spin(v, evidence) for v in query if v not in place}
    if not free:
        return certain_answer("gibbs", known)
    model = IsingModel(left.edges, left.couplings, left.fields)
    sampler = _sampler(network, model, len(free) == len(network.names))
    names = [f"{network.names[v]} = {network.states[v][1]}" for v in free]
    run = run_to_accuracy(
        sampler,
        running,
        len(free),
        names.__getitem__,
        scalar="energy",
        probability="up",
        steps_per_block=max(1, _SITES_PER_BLOCK // len(free)),
    )
    estimates = {v: known[v] if v in known else _both(run.marginals, place[v]) for v in query}
    return Answer("gibbs", estimates, None, run.converged, run.verdict, run.numbers)


def _sampler(network: IsingNetwork, model: IsingModel, whole: bool) -> Any:
    shape = network.shape
    if whole and shape is not None and not (network.periodic and (shape[0] % 2 or shape[1] % 2)):
        return IsingGrid(model, shape, thin=_THIN)
    return IsingGibbs(model, thin=_THIN)


def certain_spin(v: int, evidence: Evidence) -> list[Estimate]:
    """Of a spin that was observed, or of which soft evidence leaves one state."""
    state = evidence.hard[v] if v in evidence.hard else int(evidence.soft[v][1] > 0)
    return certain(float(state == s) for s in range(2))


def _both(marginals: AverageDiagnostics, k: int) -> list[Estimate]:
    """Down and up: one error, and intervals that mirror each other."""
    down = marginals._replace(value=1 - marginals.value, skew=-marginals.skew)
    return [down.estimate(k), marginals.estimate(k)]
