"""Paths that end at a network given evidence: Ising networks as spins, directed networks from their own prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.inference.annealing.path import Path
from doxa.inference.annealing.spins import SpinPath
from doxa.inference.annealing.tables import TablePath
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import Factor
from doxa.models.ising import IsingNetwork

__all__ = ["NetworkPath", "condition_spins", "directed_path", "spin_path"]


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


def condition_spins(network: IsingNetwork, evidence: Evidence) -> tuple[IsingNetwork, tuple[int, ...]]:
    """The Ising network of the spins that were not observed, evidence in its fields and constant; and which they are.

    A soft likelihood (a, b) of the states -1 and +1 is a field of ln(b / a) / 2 and a constant of ln(a b) / 2; where
    one of the two is 0, the spin is known.

    Examples
    --------
    >>> from doxa.models.ising import ising
    >>> left, free = condition_spins(ising([[0, 1], [1, 2]], [0.5, 0.7], [0.1, 0.0, 0.0]), Evidence({0: 1}, {}))
    >>> left.fields, left.edges.tolist(), left.constant, free
    (array([0.5, 0. ]), [[0, 1]], 0.1, (1, 2))
    """
    hard, constant = dict(evidence.hard), network.constant
    fields = network.fields.copy()
    for v, (down, up) in ((v, likelihood.tolist()) for v, likelihood in evidence.soft.items()):
        if v not in hard and min(down, up) > 0:
            fields[v] += math.log(up / down) / 2
            constant += (math.log(up) + math.log(down)) / 2
        else:
            state = hard.setdefault(v, int(up > 0))
            constant += math.log((down, up)[state])
    n, spins = len(fields), np.zeros(len(fields))
    spins[list(hard)] = [2.0 * state - 1.0 for state in hard.values()]
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
    states = (np.arange(2),) * len(free)
    try:
        path: Path = SpinPath(left.edges, left.couplings, left.fields, constant=left.constant)
    except ArgumentError:  # too many different couplings at one spin
        return NetworkPath(TablePath(left.n_states, left.factors), free, states, "uniform states")
    return NetworkPath(path, free, states, "independent spins")


def directed_path(network: CategoricalNetwork, evidence: Evidence) -> NetworkPath | None:
    """The path from the prior of the unobserved ancestors of the evidence to their posterior; None if there are none.

    Observed parents are put into the tables, which stay conditional distributions of the unobserved nodes: the base.
    What observed nodes and soft evidence contribute are likelihoods, which beta brings in.
    """
    relevant, waiting = set(evidence.variables), list(evidence.variables)
    while waiting:
        new = [p for p in network.parents[waiting.pop()] if p not in relevant]
        relevant.update(new)
        waiting += new
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
        cut = log_values[tuple(hard.get(u, slice(None)) for u in variables)]
        factors.append(Factor(tuple(number[u] for u in variables if u not in hard), np.asarray(cut)))
    with np.errstate(divide="ignore"):
        for v, likelihood in evidence.soft.items():
            log_values = np.log(likelihood)
            factors.append(Factor((number[v],), log_values) if v in number else Factor((), log_values[hard[v]]))
    sizes = [len(network.states[v]) for v in free]
    return NetworkPath(
        TablePath(sizes, factors, base), tuple(free), tuple(map(np.arange, sizes)), "the network's own prior"
    )
