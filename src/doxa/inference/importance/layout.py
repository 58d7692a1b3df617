r"""`Layout`: what importance sampling draws of a directed network, in what order, and what it counts.

Only ancestors of the evidence and of the question are kept.  Those of the evidence are *informed*: their draws are
weighted, and a proposal may differ from the network's own tables.  The others follow their tables, given the informed
ones, and no weight depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.flat import ancestral, check_positions, cut, log_of, over
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence

__all__ = ["Layout", "lay_out"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table over variables that are drawn, evidence having been cut out of it."""

    variables: tuple[int, ...]  # positions in the network, in the order of the axes
    values: Floats  # not logarithms

    def over(self, scope: tuple[int, ...]) -> Floats:
        """The values with an axis for each of ``scope``, of length 1 where the table does not depend on it."""
        return over(self.values, self.variables, scope)

    def logarithms(self) -> Table:
        """The table with logarithms of its values, nats."""
        return Table(self.variables, log_of(self.values))


@dataclass(frozen=True, eq=False)
class Layout:
    """Made by `lay_out`; variables are positions in the network.

    Attributes
    ----------
    network : CategoricalNetwork
    evidence : Evidence
    informed : tuple of int
        Ancestors of the evidence that are not observed for certain (soft evidence is not), parents first.
    barren : tuple of int
        Others that the question depends on, parents first.
    query : tuple of int
        What is counted, increasing; observed variables are not.
    conditionals : mapping of int to Table
        P(v | parents) of informed and barren variables v, v on the last axis.
    findings : mapping of int to Table
        P(observed state | parents) of observed variables that have parents which are drawn; none for the others.
    local : mapping of int to ndarray
        For informed variables with soft evidence its likelihood by state; for all of them 0 in states struck out.
    log_constant : float
        Log probability (nats) of the evidence that does not depend on what is drawn.
    """

    network: CategoricalNetwork
    evidence: Evidence
    informed: tuple[int, ...]
    barren: tuple[int, ...]
    query: tuple[int, ...]
    conditionals: Mapping[int, Table]
    findings: Mapping[int, Table]
    local: Mapping[int, Floats]
    log_constant: float

    @property
    def n_states(self) -> tuple[int, ...]:
        """Number of states of each variable of the network."""
        return self.network.n_states

    @property
    def is_weightless(self) -> bool:
        """Whether every draw has the same weight, whatever is drawn: nothing observed depends on it."""
        return not self.informed

    def likelihood(self, v: int) -> Floats:
        """Soft evidence on an informed variable, by state; 1 in all without."""
        return self.evidence.soft.get(v, np.ones(self.n_states[v]))


def lay_out(
    network: CategoricalNetwork,
    evidence: Evidence | None = None,
    query: Iterable[int] | None = None,
    supported: Mapping[int, Any] | None = None,
) -> Layout:
    """Find out what must be drawn.

    Parameters
    ----------
    network : CategoricalNetwork
    evidence : Evidence, optional
        As `doxa.models.evidence.read_evidence` makes.
    query : iterable of int, optional
        Positions of the variables asked for; all when left out.
    supported : mapping of int to array_like of bool, optional
        By variable, which states are possible given the evidence; shape (n_states,).  Proposals leave the others out.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a position is not of the network, a mask has another shape or strikes out every state, or an observation
        has probability 0 whatever the other variables are.
    """
    if not isinstance(network, CategoricalNetwork):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; importance sampling draws parents before children, so it "
            f"needs a CategoricalNetwork"
        )
    given = evidence if evidence is not None else Evidence({}, {})
    n = len(network.names)
    asked = set(range(n)) if query is None else check_positions("query", query, n)
    check_positions("evidence", given.variables, n)
    position = {name: v for v, name in enumerate(network.names)}
    order = [position[name] for name in network.dag.topological_order()]
    above = ancestral(network.parents, given.variables)
    informed = tuple(v for v in order if v in above and v not in given.hard)
    needed = ancestral(network.parents, asked | above)
    barren = tuple(v for v in order if v in needed and v not in above)
    masks = _masks(network, supported or {}, informed)
    conditionals = {v: _cut(network, given, v) for v in informed + barren}
    findings, log_constant = {}, 0.0
    for v, state in given.hard.items():
        table = _cut(network, given, v)
        values = table.values[..., state] * (given.soft[v][state] if v in given.soft else 1.0)
        if not values.any():
            raise ArgumentError(
                f"evidence says that {network.names[v]!r} is {network.states[v][state]!r}, which has probability 0 "
                f"given the other evidence; leave out one of them"
            )
        if values.ndim:
            findings[v] = Table(table.variables[:-1], values)
        else:
            log_constant += math.log(float(values))
    local = {v: masks[v] * given.soft.get(v, 1.0) for v in informed}
    for v, values in local.items():
        if not values.any():
            raise ArgumentError(
                f"supported and the evidence leave no state of {network.names[v]!r}, so the evidence has probability 0"
            )
    kept = tuple(sorted(asked - given.hard.keys()))
    return Layout(network, given, informed, barren, kept, conditionals, findings, local, log_constant)


def _cut(network: CategoricalNetwork, evidence: Evidence, v: int) -> Table:
    """P(v | parents) with the observed parents in their states; v stays, observed or not."""
    parents, values = cut(network.tables[network.names[v]], network.parents[v], evidence.hard)
    return Table((*parents, v), values)


def _masks(
    network: CategoricalNetwork, supported: Mapping[int, Any], informed: tuple[int, ...]
) -> dict[int, NDArray[np.float64]]:
    check_positions("supported", supported, len(network.names))
    masks = {v: np.ones(network.n_states[v]) for v in informed}
    for v, mask in supported.items():
        states = np.asarray(mask)
        if states.shape != (network.n_states[v],) or states.dtype != np.bool_:
            raise ArgumentError(
                f"supported[{v}] has shape {states.shape} and type {states.dtype}; it must be a truth value for each "
                f"of the {network.n_states[v]} states of {network.names[v]!r}"
            )
        if v in masks:
            masks[v] = states.astype(np.float64)
    return masks
