"""Blocks of a user's own for Gibbs sampling: read by name, checked, and laid over what is left of the network.

Riggelsen, ch. 4, section 2.1.6: blocks may overlap, and which of them is redrawn may depend on time, on chance and on
values outside the block; never on what it redraws (`doxa.inference.gibbs.scans` says why).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact_answers import positions
from doxa.inference.gibbs import ByValue, Connectivity, Scan, connectivity, cyclic, random_blocks
from doxa.inference.gibbs.supports import Supports
from doxa.inference.problem import Problem
from doxa.models.factors import DiscreteNetwork

__all__ = ["ChosenBy"]

SCANS = ("in_order", "reversed", "random")
_MOST_CONFIGURATIONS = 4096  # of a block, as `TableGibbs` allows

Block: TypeAlias = tuple[int, ...]
Entry: TypeAlias = Block | ByValue


@dataclass(frozen=True)
class ChosenBy:
    """Blocks of which the state of a variable chooses; stands in the place of a block in ``infer(blocks=...)``.

    Parameters
    ----------
    variable : str
        What chooses.  Another block redraws it.
    blocks : mapping of str to sequence of sequence of str
        By the label of each of its states, the blocks that are redrawn one after another; there may be none.  None of
        them has the variable itself: a choice that depends on what is redrawn leads chains elsewhere.

    Examples
    --------
    >>> import doxa
    >>> grid = doxa.ising_grid(2, 2, coupling=0.4, field=0.1)
    >>> rest = ["X0_1", "X1_0", "X1_1"]
    >>> chosen = ChosenBy("X0_0", {"1": [rest], "-1": [[name] for name in rest]})
    >>> found = doxa.infer(grid, "X0_0", method="gibbs", blocks=[["X0_0"], chosen], seed=1)
    >>> exact = doxa.infer(grid, "X0_0", method="exact")
    >>> bool(abs(found["X0_0"]["1"].value - exact["X0_0"]["1"].value) < 4 * found["X0_0"]["1"].mcse)
    True
    """

    variable: str
    blocks: Mapping[str, Sequence[Sequence[str]]] = field(hash=False)


class Plan(NamedTuple):
    """What the user asked for, by position in the network."""

    entries: tuple[Entry, ...] | None  # None: doxa's own blocks
    order: str  # of `SCANS`
    weights: tuple[float, ...] | None = None  # of the entries, where they are drawn by chance


def read_plan(network: DiscreteNetwork, blocks: Any, scan: Any) -> Plan | None:
    """Blocks and scan, checked; None where neither is given."""
    if blocks is None and scan is None:
        return None
    entries = None
    if blocks is not None:
        given = _listed(blocks, "blocks", "blocks, each a sequence of variables")
        if not given:
            raise ArgumentError("blocks is empty; give at least one block, or leave it out")
        entries = tuple(_read_entry(network, entry, f"blocks[{b}]") for b, entry in enumerate(given))
    if scan is None or isinstance(scan, str):
        if scan is not None and scan not in SCANS:
            names = ", ".join(map(repr, SCANS))
            raise ArgumentError(f"scan is {scan!r}; it must be one of {names}, or a weight for each block")
        return Plan(entries, scan or "in_order")
    if entries is None:
        raise ArgumentError("scan has weights but there are no blocks to weigh; give blocks=")
    return Plan(entries, "random", _read_weights(scan, len(entries)))


def scan_of(plan: Plan, network: DiscreteNetwork, problem: Problem, default: Sequence[Block]) -> Scan:
    """The scan over the free variables of a problem: what was observed is left out of blocks, choices are made by it.

    ``default`` are blocks for a plan that has none, numbered as the problem's variables are.
    """
    entries: list[tuple[Entry, float]] = [(block, 1.0) for block in default]
    if plan.entries is not None:
        entries = []
        for b, entry in enumerate(plan.entries):
            weight = 1.0 if plan.weights is None else plan.weights[b]
            entries += [(one, weight) for one in _laid_over(entry, network, problem, f"blocks[{b}]")]
        _check_all(entries, network, problem)
    taken = [entry for entry, _ in entries]
    if plan.order == "random":
        weights = [weight for _, weight in entries]
        return random_blocks(taken, weights)
    return cyclic(_turned(entry) for entry in reversed(taken)) if plan.order == "reversed" else cyclic(taken)


def connected_by(scan: Scan, problem: Problem) -> Connectivity:
    """Whether the blocks of a scan connect all possible states, where values choose some of them."""
    n_states, factors = problem.n_states, problem.factors
    choices = [entry for entry in scan.entries if isinstance(entry, ByValue)]
    every = connectivity(n_states, factors, scan.blocks)
    if not choices or every.answer is False:
        return every
    always = [entry for entry in scan.entries if not isinstance(entry, ByValue)]
    for choice in choices:
        always += [block for block in choice.lists[0] if all(block in own for own in choice.lists)]
    if {v for block in always for v in block} == set(range(len(n_states))):
        found = connectivity(n_states, factors, always)
        if found.answer:
            return found
    if all((f.log_values > -np.inf).all() for f in factors) and _all_reached(always, choices, len(n_states)):
        return every._replace(answer=True)
    return every._replace(answer=None, reason="values choose the blocks, and may keep some from ever being redrawn")


def _all_reached(always: Sequence[Block], choices: Sequence[ByValue], n: int) -> bool:
    """Without zeros: whether every variable is redrawn by a block that variables before it can bring about."""
    free = {v for block in always for v in block}
    grown = True
    while grown:
        reached = [choice for choice in choices if choice.variable in free]
        new = {v for choice in reached for own in choice.lists for block in own for v in block} - free
        free |= new
        grown = bool(new)
    return len(free) == n


def _listed(given: Any, name: str, what: str) -> list[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ArgumentTypeError(f"{name} is {given!r}; give a sequence of {what}")
    return list(given)


def _read_entry(network: DiscreteNetwork, entry: Any, name: str) -> Entry:
    if not isinstance(entry, ChosenBy):
        return _read_block(network, entry, name)
    (chooser,) = positions(network, entry.variable, f"the variable of {name}")
    labels = [str(label) for label in network.states[chooser]]
    if not isinstance(entry.blocks, Mapping):
        raise ArgumentTypeError(f"the blocks of {name} are a {type(entry.blocks).__name__}; give blocks by state")
    by_label = {str(label): blocks for label, blocks in entry.blocks.items()}
    for label in by_label:
        if label not in labels:
            raise ArgumentError(f"{name} has blocks for {label!r}, which is no state of {entry.variable!r}: {labels}")
    lists = []
    for label in labels:
        if label not in by_label:
            raise ArgumentError(
                f"{name} has no blocks for the state {label!r} of {entry.variable!r}, which chooses; give them, or []"
            )
        where = f"{name}[{label!r}]"
        own = _listed(by_label[label], where, "blocks, each a sequence of variables")
        lists.append(tuple(_read_block(network, block, f"{where}[{j}]") for j, block in enumerate(own)))
        if any(chooser in block for block in lists[-1]):
            raise ArgumentError(
                f"{where} redraws {entry.variable!r}, which chooses the blocks; chains would settle elsewhere; leave "
                "it out of them, and give it a block of its own"
            )
    return ByValue(chooser, tuple(lists))


def _read_block(network: DiscreteNetwork, block: Any, name: str) -> Block:
    members = _listed(block, name, "variables; a block of one is [name]")
    if not members:
        raise ArgumentError(f"{name} is empty; a block has at least one variable")
    return tuple(positions(network, members, name))


def _read_weights(scan: Any, n: int) -> tuple[float, ...]:
    given = _listed(scan, "scan", f"weights, or one of {', '.join(map(repr, SCANS))}")
    if len(given) != n:
        raise ArgumentError(f"scan has {len(given)} weights but there are {n} blocks; give one for each")
    weights = []
    for b, weight in enumerate(given):
        try:
            weights.append(float(weight))
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"scan[{b}] is {weight!r}; a weight is a number") from None
        if not (weights[-1] >= 0 and math.isfinite(weights[-1])):
            raise ArgumentError(f"scan[{b}] is {weights[-1]:g}; a weight is a finite number of at least 0")
    if not 0 < math.fsum(weights) < math.inf:
        raise ArgumentError(f"the weights of scan sum to {math.fsum(weights):g}; at least one must be positive")
    return tuple(weights)


def _laid_over(entry: Entry, network: DiscreteNetwork, problem: Problem, name: str) -> list[Entry]:
    """What is left of an entry once evidence is known; blocks of which nothing is left are gone."""
    if not isinstance(entry, ByValue):
        own = tuple(problem.position[v] for v in entry if v in problem.position)
        return [own] if own else []
    v = entry.variable
    if v in problem.fixed:
        blocks = entry.lists[problem.fixed[v]]
        return [one for block in blocks for one in _laid_over(block, network, problem, name)]
    if v not in problem.position:
        raise ArgumentError(
            f"{name} is chosen by {network.names[v]!r}, which bears on nothing that was asked for and is left out; ask "
            "for it too, or give these blocks without a choice"
        )
    left = [entry.lists[state] for state in problem.states[problem.position[v]]]
    lists = tuple(
        tuple(tuple(problem.position[u] for u in block if u in problem.position) for block in own) for own in left
    )
    lists = tuple(tuple(block for block in own if block) for own in lists)
    return [ByValue(problem.position[v], lists)] if any(lists) else []


def _check_all(entries: Sequence[tuple[Entry, float]], network: DiscreteNetwork, problem: Problem) -> None:
    """Every free variable is in a block that can be taken, and no block is too large."""
    supports = Supports.of(problem.n_states, problem.factors)
    covered = set()
    for entry, weight in entries:
        blocks = [block for own in entry.lists for block in own] if isinstance(entry, ByValue) else [entry]
        for block in blocks:
            if supports.configurations(block, _MOST_CONFIGURATIONS) is None:
                names = [network.names[problem.variables[i]] for i in block]
                raise ArgumentError(
                    f"the block {names} has more than {_MOST_CONFIGURATIONS} possible configurations; make it smaller"
                )
            covered |= set(block) if weight > 0 else set()
    for i, v in enumerate(problem.variables):
        if i not in covered:
            name = network.names[v]
            raise ArgumentError(f"no block has {name!r}, so it would never move; add the block [{name!r}]")


def _turned(entry: Entry) -> Entry:
    return ByValue(entry.variable, tuple(own[::-1] for own in entry.lists)) if isinstance(entry, ByValue) else entry
