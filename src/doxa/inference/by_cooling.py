"""The likeliest states by simulated annealing: chains that grow cold, for networks too wide for an exact answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.inference.annealing import TablePath, cool, spin_path
from doxa.inference.problem import prepare
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork
from doxa.models.ising import IsingNetwork
from doxa.models.markov import MarkovNetwork

__all__ = ["Coldest", "coldest"]

_AS_GOOD = 1e-9  # nats, relative to the size of the sum: two orders of summation differ by less


class Coldest(NamedTuple):
    """The best states that were met."""

    row: NDArray[np.intp]  # (n_variables,) positions of the network's states
    log_probability: float  # nats, evidence included
    n_restarts: int
    n_found: int  # of the restarts that ended at states as likely


def coldest(network: DiscreteNetwork, evidence: Evidence, sweeps: int, restarts: int, seed: int) -> Coldest:
    """Cool chains from independent starts and take the best of their ends.

    Raises
    ------
    ImpossibleEvidenceError
        If the evidence is found to have probability zero.
    ArgumentError
        If no chain ended at a possible state.
    """
    row, log_values = _cooled(network, evidence, sweeps, restarts, np.random.default_rng(seed))
    best = log_values.max()
    if best == -np.inf:
        raise ArgumentError(
            f"no possible state was found in {len(log_values)} restarts of {sweeps} sweeps; try method='exact', or "
            "more sweeps"
        )
    as_good = log_values >= best - _AS_GOOD * max(1.0, abs(best))
    return Coldest(row, _log_probability(network, evidence, row), len(log_values), int(as_good.sum()))


def _cooled(
    network: DiscreteNetwork, evidence: Evidence, sweeps: int, restarts: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The best states over all variables of the network; and the log values that the restarts ended at."""
    if isinstance(network, IsingNetwork):
        made = spin_path(network, evidence)
        row = np.full(len(network.states), -1, dtype=np.intp)
        for v, likelihood in evidence.soft.items():
            row[v] = int(likelihood[1] > 0)  # where one state is left
        for v, state in evidence.hard.items():
            row[v] = state
        if made is None:
            return row, np.zeros(1)
        found = cool(made.path, sweeps, restarts, rng)
        for column, (v, states) in enumerate(zip(made.variables, made.states, strict=True)):
            row[v] = states[found.states[column]]
        return row, found.log_values
    problem = prepare(network, evidence)
    if not problem.variables:
        return problem.decode(np.empty((1, 0), dtype=np.intp))[0], np.zeros(1)
    found = cool(TablePath(problem.n_states, problem.factors), sweeps, restarts, rng)
    return problem.decode(found.states[None])[0], found.log_values


def _log_probability(network: DiscreteNetwork, evidence: Evidence, row: NDArray[np.intp]) -> float:
    """Of the states with the evidence: from the network itself, not from what was left of it."""
    if isinstance(network, CategoricalNetwork):
        total = float(network.log_probability(row[None])[0])
    else:
        assert isinstance(network, MarkovNetwork)
        total = float(network.log_potential(row[None])[0])
    return total + sum(float(np.log(likelihood[row[v]])) for v, likelihood in evidence.soft.items())
