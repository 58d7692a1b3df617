r"""`Problem`: what is left of a network for an engine of inference, once evidence and question are known.

Observed variables are cut out of the factors, soft evidence is multiplied in, barren nodes and impossible states are
gone, and so is every variable with one state left.  The distribution of what remains is that of the network given the
evidence, with nothing approximated:

.. math:: p(x_V, e) = \exp(c) \prod_f \exp \ell_f(x_f).

In a directed network, a node that is neither observed nor asked for, and has no descendant that is, sums to one and can
be left out, together with its table.  What is then not connected to the question by factors, observed variables having
been cut out of them, is independent of it given the evidence: it counts in the log evidence alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentTypeError
from doxa.inference.flat import ancestral, check_positions, connected_parts, cut, log_of, over
from doxa.inference.propagation import impossible, supported_states
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork, Factor

__all__ = ["check_discrete", "prepare"]


def check_discrete(network: object) -> None:
    """Raise `ArgumentTypeError` unless an argument is a network of categories."""
    if not (hasattr(network, "states") and hasattr(network, "factors")):
        raise ArgumentTypeError(
            f"network is of type {type(network).__name__}; give a CategoricalNetwork or a MarkovNetwork, such as "
            "doxa.read_network makes"
        )


def parents_first(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> tuple[int, ...]:
    """Return ``nodes`` with parents before children; ties as given."""
    waiting = dict.fromkeys(nodes, 0)
    children: dict[int, list[int]] = {}
    for node in waiting:
        for parent in parents[node]:
            if parent in waiting:
                waiting[node] += 1
                children.setdefault(parent, []).append(node)
    order = [node for node, n_waiting in waiting.items() if not n_waiting]
    for node in order:  # grows as it goes
        for child in children.get(node, ()):
            waiting[child] -= 1
            if not waiting[child]:
                order.append(child)
    return tuple(order)


def merged(factors: Iterable[Factor]) -> list[Factor]:
    """Add every factor to the smallest one that has all its variables, if there is one.

    What is merged with what depends on variables and shapes alone, not on values; arguments are left as they are.
    """
    hosts: list[Factor] = []
    guests: dict[int, list[Factor]] = {}
    by_variable: dict[int, list[int]] = {}
    for factor in sorted(factors, key=lambda factor: -len(factor.variables)):
        lists = [by_variable.get(v, []) for v in factor.variables]
        fitting = [h for h in min(lists, key=len) if all(v in hosts[h].variables for v in factor.variables)]
        if fitting:
            guests.setdefault(min(fitting, key=lambda h: hosts[h].log_values.size), []).append(factor)
            continue
        for v in factor.variables:
            by_variable.setdefault(v, []).append(len(hosts))
        hosts.append(factor)
    return [_sum(host, guests[h]) if h in guests else host for h, host in enumerate(hosts)]


def _sum(host: Factor, guests: Sequence[Factor]) -> Factor:
    total = host.log_values.copy()
    for variables, log_values in guests:
        total += over(log_values, variables, host.variables)
    return Factor(host.variables, total)


Positions = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Problem:
    """A list of factors over the variables that are still free, and how they lie in the network; made by `prepare`.

    "Variable" without more is a position in the network; the factors number the free variables from 0, in the order of
    ``variables``.
    """

    variables: tuple[int, ...]  # free ones, increasing
    states: tuple[Positions, ...]  # of each of them, the network's positions of those left: at least two, increasing
    factors: tuple[Factor, ...]  # no scope lies within another; every free variable is in one at least
    fixed: Mapping[int, int]  # variables with one state left: observed, or implied by what was
    log_constant: float  # what is not in the factors, nats
    barren: tuple[int, ...]  # left out as nothing observed or asked depends on them, parents first: they follow tables
    rest: Problem | None  # free variables that the evidence makes independent of those asked for; its constant is 0
    sizes: tuple[int, ...]  # numbers of states in the network, of all its variables

    @property
    def n_states(self) -> tuple[int, ...]:
        """Number of states left of each free variable."""
        return tuple(len(states) for states in self.states)

    @cached_property
    def position(self) -> dict[int, int]:
        """Number among the free variables, by variable."""
        return {variable: i for i, variable in enumerate(self.variables)}

    def whole(self) -> Problem:
        """Return the problem with the rest put back: the log of its total is the log evidence."""
        if self.rest is None:
            return self
        variables = tuple(sorted(self.variables + self.rest.variables))
        new = {variable: i for i, variable in enumerate(variables)}
        states = dict(zip(self.variables + self.rest.variables, self.states + self.rest.states, strict=True))
        factors = [
            Factor(tuple(new[part.variables[i]] for i in factor.variables), factor.log_values)
            for part in (self, self.rest)
            for factor in part.factors
        ]
        every = tuple(states[v] for v in variables)
        return replace(self, variables=variables, states=every, factors=tuple(factors), rest=None)

    def expand(self, variable: int, probabilities: ArrayLike | None = None) -> NDArray[np.float64]:
        """The distribution of a variable, free or known, over all its states in the network, (..., n_states)."""
        if variable in self.fixed:
            known = np.zeros(self.sizes[variable])
            known[self.fixed[variable]] = 1.0
            return known
        given = np.asarray(probabilities, dtype=np.float64)
        full = np.zeros((*given.shape[:-1], self.sizes[variable]))
        full[..., self.states[self.position[variable]]] = given
        return full

    def decode(self, rows: ArrayLike) -> Positions:
        """Rows over the network's variables from rows (n, n_free); -1 for those neither free here nor fixed."""
        codes = np.asarray(rows)
        full = np.full((len(codes), len(self.sizes)), -1, dtype=np.intp)
        for i, (variable, states) in enumerate(zip(self.variables, self.states, strict=True)):
            full[:, variable] = states[codes[:, i]]
        for variable, state in self.fixed.items():
            full[:, variable] = state
        return full

    def encode(self, rows: ArrayLike) -> Positions:
        """Undo `decode`: -1 where a state is not left."""
        full = np.asarray(rows)
        codes = np.empty((len(full), len(self.variables)), dtype=np.intp)
        for i, (variable, states) in enumerate(zip(self.variables, self.states, strict=True)):
            number = np.full(self.sizes[variable], -1, dtype=np.intp)
            number[states] = np.arange(len(states))
            codes[:, i] = number[full[:, variable]]
        return codes


def prepare(
    network: DiscreteNetwork,
    evidence: Evidence | None = None,
    query: Iterable[int] | None = None,
    *,
    propagate: bool = True,
) -> Problem:
    """Reduce a network to what a question depends on; ImpossibleEvidenceError where the evidence is found to be so.

    ``query`` are variables asked for; all when left out, so that none is barren.  With ``()`` and directed networks,
    what is left is the evidence and its ancestors, all of it in ``rest``: `Problem.whole` has it together.  Without
    ``propagate`` impossible states are not struck out, and variables and shapes of the factors depend on which
    variables are observed or asked for and not on what was observed.
    """
    given = evidence if evidence is not None else Evidence({}, {})
    sizes = tuple(map(len, network.states))
    asked = set(range(len(sizes))) if query is None else check_positions("query", query, len(sizes))
    relevant, barren = _relevant(network, given, asked)
    reduced = _reduce(network, given, relevant, propagate)
    if reduced is None:
        raise impossible(network, given, lambda part: _is_possible(network, part))
    factors, states, fixed, log_constant = reduced
    free = [v for v in relevant if v not in fixed]
    parts = connected_parts(free, [factor.variables for factor in factors])
    part = {v: k for k, own in enumerate(parts) for v in own}
    wanted = {part[v] for v in asked if v in part}
    sides = []
    for side in (True, False):
        own = [v for v in free if (part[v] in wanted) is side]
        mine = [f for f in factors if (part[f.variables[0]] in wanted) is side]
        sides.append(_numbered(own, states, mine))
    rest = Problem(*sides[1], fixed, 0.0, barren, None, sizes) if sides[1][0] else None
    return Problem(*sides[0], fixed, log_constant, barren, rest, sizes)


def _relevant(network: DiscreteNetwork, evidence: Evidence, asked: set[int]) -> tuple[list[int], tuple[int, ...]]:
    """Variables that evidence or question depend on, increasing; and the others, parents first."""
    every = range(len(network.states))
    if not isinstance(network, CategoricalNetwork) or len(asked) == len(every):
        return list(every), ()
    kept = ancestral(network.parents, asked.union(evidence.variables))
    return sorted(kept), parents_first(network.parents, [v for v in every if v not in kept])


def _is_possible(network: DiscreteNetwork, evidence: Evidence) -> bool:
    """Whether propagation leaves it so."""
    return _reduce(network, evidence, _relevant(network, evidence, set())[0], propagate=True) is not None


def _reduce(
    network: DiscreteNetwork, evidence: Evidence, relevant: list[int], propagate: bool
) -> tuple[list[Factor], dict[int, Positions], dict[int, int], float] | None:
    """Factors in the network's numbers, states left of the free variables, fixed variables, log constant; or None."""
    factors, log_constant = _observed(network, evidence, relevant)
    states = {v: np.arange(len(network.states[v])) for v in relevant if v not in evidence.hard}
    gone = {v: np.zeros(1, dtype=np.intp) for v, kept in states.items() if len(kept) == 1}
    found = supported_states(factors) if propagate else {}
    while found is not None:
        states |= {v: states[v][kept] for v, kept in found.items()}
        before, constant = _restricted(factors, gone | found)
        log_constant += constant
        factors = merged(before)
        old = {id(factor.log_values) for factor in before}  # all consistent by now; what was added up may not be
        if not propagate or supported_states([f for f in factors if id(f.log_values) not in old]) == {}:
            break
        found = supported_states(factors)
    if found is None or log_constant == -math.inf:
        return None
    fixed = evidence.hard | {v: int(kept[0]) for v, kept in states.items() if len(kept) == 1}
    free = {v: kept for v, kept in states.items() if len(kept) > 1}
    seen = {v for factor in factors for v in factor.variables}
    factors += [Factor((v,), np.zeros(len(kept))) for v, kept in free.items() if v not in seen]
    return factors, free, dict(sorted(fixed.items())), log_constant


def _observed(network: DiscreteNetwork, evidence: Evidence, relevant: list[int]) -> tuple[list[Factor], float]:
    """Factors without the observed variables, with soft evidence; and the log of what became a number."""
    hard = evidence.hard
    every = network.factors
    if isinstance(network, CategoricalNetwork):
        every = tuple(every[v] for v in relevant)  # one factor a node, in node order
    factors = []
    log_constant = 0.0
    for factor in every:
        is_apart = hard.keys().isdisjoint(factor.variables)
        factors.append(factor if is_apart else Factor(*cut(factor.log_values, factor.variables, hard)))
    for v, likelihood in evidence.soft.items():
        if v in hard:
            log_constant += math.log(likelihood[hard[v]])
        else:
            factors.append(Factor((v,), log_of(likelihood)))
    return factors, log_constant


def _restricted(factors: list[Factor], left: Mapping[int, Positions]) -> tuple[list[Factor], float]:
    """Factors over the states that are left, without variables that have one; and the log of what became a number."""
    smaller = []
    log_constant = 0.0
    for factor in factors:
        rest = factor if left.keys().isdisjoint(factor.variables) else _restrict(factor, left)
        if rest.variables:
            smaller.append(rest)
        else:
            log_constant += float(rest.log_values)
    return smaller, log_constant


def _restrict(factor: Factor, left: Mapping[int, Positions]) -> Factor:
    """The factor over the states that are left, without variables that have one."""
    table = factor.log_values
    own = []
    for v in factor.variables:
        kept = left.get(v)
        if kept is None:
            own.append(v)
        elif len(kept) == 1:
            table = table.take(kept[0], axis=len(own))
        else:
            table = table.take(kept, axis=len(own))
            own.append(v)
    return Factor(tuple(own), np.asarray(table))


def _numbered(
    variables: list[int], states: Mapping[int, Positions], factors: list[Factor]
) -> tuple[tuple[int, ...], tuple[Positions, ...], tuple[Factor, ...]]:
    number = {v: i for i, v in enumerate(variables)}
    renamed = tuple(Factor(tuple(number[v] for v in f.variables), f.log_values) for f in factors)
    return tuple(variables), tuple(states[v] for v in variables), renamed
