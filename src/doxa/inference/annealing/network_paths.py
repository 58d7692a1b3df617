"""Paths that end at a network given evidence: Ising networks as spins, directed networks from their own prior.

The likeliest states by simulated annealing: chains that grow cold, for networks too wide for an exact answer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.inference.annealing.path import Path, cool
from doxa.inference.annealing.spins import SpinPath
from doxa.inference.annealing.tables import TablePath
from doxa.inference.flat import ancestral, cut, log_of
from doxa.inference.problem import prepare
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork, Factor
from doxa.models.ising import IsingNetwork
from doxa.models.markov import MarkovNetwork

__all__ = ["NetworkPath", "coldest", "condition_spins", "directed_path", "spin_path", "spins_or_tables"]


class NetworkPath(NamedTuple):
    """A path and what its columns are in the network."""

    path: Path
    variables: tuple[int, ...]  # of the network, by column
    states: tuple[NDArray[np.intp], ...]  # positions in the network of each column's states
    base: str  # in words

    def encode(self, row: NDArray[np.intp]) -> NDArray[np.intp]:
        """The columns' states of a complete state of the network, shape (n_variables,); -1 where there is none."""
        found = [np.flatnonzero(kept == row[v]) for v, kept in zip(self.variables, self.states, strict=True)]
        return np.array([at[0] if at.size else -1 for at in found], dtype=np.intp)


def known_spins(evidence: Evidence) -> dict[int, int]:
    """States of the spins that were observed, or of which soft evidence leaves one."""
    left = {v: int(up > 0) for v, (down, up) in evidence.soft.items() if min(down, up) == 0}
    return left | evidence.hard


def condition_spins(network: IsingNetwork, evidence: Evidence) -> tuple[IsingNetwork, tuple[int, ...]]:
    """The Ising network of the spins that were not observed, evidence in its fields and constant; and which they are.

    A soft likelihood (a, b) of the states -1 and +1 is a field of ln(b / a) / 2 and a constant of ln(a b) / 2; where
    one of the two is 0, the spin is known.
    """
    states, constant = known_spins(evidence), network.constant
    fields = network.fields.copy()
    for v, (down, up) in ((v, likelihood.tolist()) for v, likelihood in evidence.soft.items()):
        if v in states:
            constant += math.log((down, up)[states[v]])
        else:
            fields[v] += math.log(up / down) / 2
            constant += (math.log(up) + math.log(down)) / 2
    n, spins = len(fields), np.zeros(len(fields))
    spins[list(states)] = [2.0 * state - 1.0 for state in states.values()]
    ends, known = network.edges, spins != 0
    both = known[ends].all(axis=1)
    constant += float(fields @ spins) + float(network.couplings[both] @ spins[ends[both]].prod(axis=1))
    for side in (0, 1):
        mixed = known[ends[:, side]] & ~known[ends[:, 1 - side]]
        np.add.at(fields, ends[mixed, 1 - side], network.couplings[mixed] * spins[ends[mixed, side]])
    number = np.cumsum(~known) - 1
    left = ~known[ends].any(axis=1)
    made = IsingNetwork(
        number[ends[left]], network.couplings[left].copy(), fields[~known], network.states[0], constant=constant
    )
    return made, tuple(np.arange(n)[~known].tolist())


def spin_path(network: IsingNetwork, evidence: Evidence) -> NetworkPath | None:
    """The path of an Ising network given evidence, from spins in their fields; None where nothing is free."""
    left, free = condition_spins(network, evidence)
    if not free:
        return None
    path = spins_or_tables(left, left.constant)
    base = "independent spins" if isinstance(path, SpinPath) else "uniform states"
    return NetworkPath(path, free, (np.arange(2),) * len(free), base)


def spins_or_tables(left: IsingNetwork, constant: float = 0.0) -> SpinPath | TablePath:
    """From independent spins in their fields; by tables where couplings at one spin are of too many sizes."""
    try:
        return SpinPath(left.edges, left.couplings, left.fields, constant=constant)
    except ArgumentError:
        return TablePath(left.n_states, left.factors)


def directed_path(network: CategoricalNetwork, evidence: Evidence) -> NetworkPath | None:
    """The path from the prior of the unobserved ancestors of the evidence to their posterior; None if there are none.

    Observed parents are put into the tables, which stay conditional distributions of the unobserved nodes: the base.
    What observed nodes and soft evidence contribute are likelihoods, which beta brings in.
    """
    relevant = ancestral(network.parents, evidence.variables)
    hard = evidence.hard
    free = [v for v in sorted(relevant) if v not in hard]
    if not free:
        return None
    number = {v: i for i, v in enumerate(free)}
    factors: list[Factor] = []
    base: dict[int, int] = {}
    for v in sorted(relevant):
        variables, log_values = network.factors[v]
        if v in number:
            base[len(factors)] = number[v]
        left, table = cut(log_values, variables, hard)
        factors.append(Factor(tuple(number[u] for u in left), table))
    for v, likelihood in evidence.soft.items():
        log_values = log_of(likelihood)
        factors.append(Factor((number[v],), log_values) if v in number else Factor((), log_values[hard[v]]))
    sizes = [len(network.states[v]) for v in free]
    return NetworkPath(
        TablePath(sizes, factors, base), tuple(free), tuple(map(np.arange, sizes)), "the network's own prior"
    )


_AS_GOOD = 1e-9  # nats, relative to the size of the sum: two orders of summation differ by less


class Coldest(NamedTuple):
    """The best states that were met."""

    row: NDArray[np.intp]  # (n_variables,) positions of the network's states
    log_probability: float  # nats, evidence included
    n_restarts: int
    n_found: int  # of the restarts that ended at states as likely


def coldest(network: DiscreteNetwork, evidence: Evidence, sweeps: int, restarts: int, seed: int) -> Coldest:
    """Cool chains from independent starts and take the best of their ends, which must be possible."""
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
        made, known = spin_path(network, evidence), known_spins(evidence)
        row = np.full(len(network.states), -1, dtype=np.intp)
        row[list(known)] = list(known.values())
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
