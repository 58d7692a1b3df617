r"""What the evidence says about the variables above it, by belief propagation (Pearl 1988), loops or not.

A message to a parent is the likelihood of what lies below the child, by state of the parent, the other parents having
their current beliefs.  On networks without loops the messages are exact after a few rounds.  On others they are not,
but come close enough to make good proposals (Yuan & Druzdzel 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.importance.layout import Layout, Table

__all__ = ["Messages", "propagate"]

ENOUGH = 1e-4  # change of a message, of sum 1, below which another round is not worth its time

Floats = NDArray[np.float64]


class Messages(NamedTuple):
    """What is known of informed variables from below; likelihoods by state, scaled to sum 1."""

    below: Mapping[int, Floats]  # of everything below a variable, and of its own soft evidence and struck-out states
    single: Mapping[tuple[int, int], Floats]  # by (child, parent): of what lies below and at that child alone
    n_rounds: int


def propagate(layout: Layout, rounds: int = 10) -> Messages:
    """Pass messages down and up the informed part of a network.

    Parameters
    ----------
    layout : Layout
    rounds : int, default=10
        Most rounds, each down and up; fewer where messages have settled.

    Returns
    -------
    Messages
    """
    tables: dict[int, Table] = {v: layout.conditionals[v] for v in layout.informed}
    tables |= layout.findings
    order = [*layout.informed, *layout.findings]  # findings have no children here
    single = {(c, p): np.ones(layout.n_states[p]) for c in order for p in tables[c].variables if p != c}
    above = {v: np.ones(layout.n_states[v]) for v in layout.informed}
    children: dict[int, list[int]] = {v: [] for v in layout.informed}
    for c, p in single:
        children[p].append(c)
    n_rounds = 0
    for n_rounds in range(1, rounds + 1):  # noqa: B007
        for v in layout.informed:
            table = tables[v]
            above[v] = _scaled(_message(table, _incoming(table, v, above, single, children, layout), v))
        moved = 0.0
        for c in reversed(order):
            table = tables[c]
            for p in table.variables:
                if p != c:
                    incoming = _incoming(table, p, above, single, children, layout, child=c)
                    new = _scaled(_message(table, incoming, p))
                    moved = max(moved, float(np.abs(new - single[c, p]).max()))
                    single[c, p] = new
        if moved < ENOUGH:
            break
    below = {v: _below(v, single, children[v], layout) for v in layout.informed}
    return Messages(below, single, n_rounds)


def _incoming(
    table: Table,
    target: int,
    above: Mapping[int, Floats],
    single: Mapping[tuple[int, int], Floats],
    children: Mapping[int, list[int]],
    layout: Layout,
    child: int | None = None,
) -> dict[int, Floats]:
    """Messages into the table of ``child`` (of ``target`` itself when left out) from its variables but the target."""
    owner = target if child is None else child
    found = {}
    for v in table.variables:
        if v != target:
            below = _below(v, single, [c for c in children[v] if c != owner], layout)
            found[v] = below if v == owner else _scaled(above[v] * below)
    return found


def _below(v: int, single: Mapping[tuple[int, int], Floats], children: list[int], layout: Layout) -> Floats:
    product = layout.local[v]
    for c in children:
        product = _scaled(product * single[c, v])
    return _scaled(product)


def _message(table: Table, incoming: Mapping[int, Floats], target: int) -> Floats:
    """Sum of the table times the incoming messages over all variables but the target."""
    values = table.values
    axis = table.variables.index(target)
    for v in reversed(table.variables[axis + 1 :]):
        values = values @ incoming[v]
    for v in table.variables[:axis]:
        values = np.tensordot(incoming[v], values, axes=1)
    return np.asarray(values)


def _scaled(values: Floats) -> Floats:
    """To sum 1; all equal where nothing is left, as messages on loops may contradict each other."""
    total = float(values.sum())
    return values / total if total > 0 else np.full(values.shape, 1 / values.size)
