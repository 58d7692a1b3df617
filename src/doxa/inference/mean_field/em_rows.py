"""Rows of a table that miss cells, as `doxa.inference.mean_field.em` reads them: by the cells they miss.

Hidden nodes without an observed descendant sum out: they and their tables are left out of a row's bound, which they
would only loosen.  Rows that miss the same cells share a `Layout`; each has its own q and its own places in the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.inference.mean_field.kernels import Scratch, add_counts, bounds, scratch, sweep_rows
from doxa.inference.mean_field.layout import Layout, Scope, lay_out
from doxa.inference.mean_field.starts import begin_at
from doxa.inference.mean_field.support import ImpossibleError, survey
from doxa.models.categorical import CategoricalNetwork

__all__ = ["Rows", "code_table", "group_rows", "table_starts"]

_Floats = NDArray[np.float64]
_MOST_NUMBERS = 2**27  # of all q together: a gigabyte


@dataclass(eq=False)
class Rows:
    """Rows that miss the same cells."""

    layout: Layout
    base: NDArray[np.int64]  # (n, n_factors) where each row's part of each table begins
    counts: _Floats  # (n,) cases
    first: NDArray[np.int64]  # (n,) a row of the source, for messages
    hidden: tuple[int, ...]  # nodes, as the layout numbers them
    q: _Floats  # (n, n_q)
    work: Scratch

    def place(self, values: _Floats, rng: np.random.Generator) -> None:
        """Begin at uniform tables, or where these meet what the network forbids, at what mean field tempers to.

        Raises
        ------
        ArgumentError
            If a row has probability 0.
        """
        sizes = np.diff(self.layout.block_start)
        self.q[:] = np.repeat(1.0 / sizes, sizes)
        for k in np.flatnonzero(np.isneginf(self.bounds(values))):
            try:
                ground = survey(self.layout, values, self.base[k])
                if self.q.shape[1]:
                    self.q[k] = begin_at(self.layout, values, self.base[k], ground, "tempered", rng)
            except ImpossibleError:
                raise ArgumentError(
                    f"table has row {self.first[k]}, counted from 0, which has probability 0 in network; "
                    f"give tables without zeros where the records are not"
                ) from None

    def improve(self, values: _Floats, max_sweeps: int, tolerance: float) -> None:
        """E-step: sweep every row until it settles."""
        changes = np.zeros(len(self.q))
        sweeps = max_sweeps if self.layout.is_coupled else 1
        sweep_rows(self.layout, values, self.base, self.q, changes, sweeps, tolerance, self.work)
        assert (changes >= 0).all(), "a row was left without a possible state, which no update can do"

    def bounds(self, values: _Floats) -> _Floats:
        """Lower bound on each row's log probability, shape (n,), nats."""
        out = np.zeros((len(self.q), 3))
        bounds(self.layout, values, self.base, self.q, out, self.work)
        return out[:, 0]

    def add(self, counts: _Floats) -> None:
        """Add the expected cases to ``counts``, which lies as the tables do."""
        add_counts(self.layout, self.base, self.q, self.counts, counts, self.work)


def code_table(network: CategoricalNetwork, table: Table) -> NDArray[np.int64]:
    """Codes of a table's distinct rows in the network's states, shape (n_distinct, n_nodes); -1 where missing."""
    position = {name: i for i, name in enumerate(network.names)}
    codes = np.full((table.n_distinct, len(position)), -1, dtype=np.int64)
    for j, (name, labels) in enumerate(zip(table.names, table.states, strict=True)):
        if name not in position:
            raise ArgumentError(
                f"table has the column {name!r}, which is no node of network; choose columns with select"
            )
        known = {label: k for k, label in enumerate(network.states[position[name]])}
        for label in labels:
            if label not in known:
                raise ArgumentError(
                    f"table column {name!r} has the state {label!r}, which the node has not; "
                    f"its states are {', '.join(map(repr, list(known)[:8]))}"
                )
        codes[:, position[name]] = np.array([*(known[label] for label in labels), -1])[table.codes[:, j]]
    return codes


def table_starts(network: CategoricalNetwork) -> NDArray[np.int64]:
    """Where each node's table begins in the flat array of all, shape (n_nodes + 1,)."""
    return np.concatenate([[0], np.cumsum([t.size for t in network.tables.values()])]).astype(np.int64)


def group_rows(
    network: CategoricalNetwork, table: Table, blocks: Sequence[Sequence[int]] | None, max_block_states: int
) -> list[Rows]:
    """Group the distinct rows of a table by the cells they miss; rows that miss all are left out.

    ``blocks`` are sets of nodes whose missing cells keep a joint table; None for whatever is needed to be exact.
    """
    codes = code_table(network, table)
    first = np.full(table.n_distinct, table.n_rows, dtype=np.int64)
    np.minimum.at(first, table.row_index, np.arange(table.n_rows))
    missing, which = np.unique(codes < 0, axis=0, return_inverse=True)
    groups, n_numbers = [], 0
    for k, pattern in enumerate(missing):
        rows = np.flatnonzero(which.ravel() == k)
        if pattern.all():
            continue
        group = _group(network, codes[rows], pattern, blocks, max_block_states)
        n_numbers += len(rows) * group[0].n_q
        if n_numbers > _MOST_NUMBERS:
            raise ArgumentError(
                f"missing cells need joint tables of more than {_MOST_NUMBERS} numbers; "
                f"use e_step='mean_field', or smaller blocks"
            )
        layout, base, hidden = group
        q = np.zeros((len(rows), layout.n_q))
        counts = table.counts[rows].astype(np.float64)
        groups.append(Rows(layout, base, counts, first[rows], hidden, q, scratch(layout)))
    return groups


def _group(
    network: CategoricalNetwork,
    codes: NDArray[np.int64],
    pattern: NDArray[np.bool_],
    blocks: Sequence[Sequence[int]] | None,
    max_block_states: int,
) -> tuple[Layout, NDArray[np.int64], tuple[int, ...]]:
    """Layout, bases and hidden nodes of rows with one pattern of missing cells."""
    sizes, starts = network.n_states, table_starts(network)
    relevant = _ancestral(network.parents, np.flatnonzero(~pattern).tolist())
    hidden = tuple(v for v in relevant if pattern[v])
    number = {v: i for i, v in enumerate(hidden)}
    scopes, bases = [], []
    for node in relevant:
        family = (*network.parents[node], node)
        strides = [math.prod(sizes[v] for v in family[axis + 1 :]) for axis in range(len(family))]
        own = [(number[v], stride) for v, stride in zip(family, strides, strict=True) if v in number]
        scopes.append(Scope(tuple(v for v, _ in own), tuple(stride for _, stride in own)))
        seen = [(v, stride) for v, stride in zip(family, strides, strict=True) if v not in number]
        bases.append(starts[node] + sum(codes[:, v] * stride for v, stride in seen))
    chosen = _components(len(hidden), scopes) if blocks is None else _cut(blocks, number)
    for block in chosen:
        size = math.prod(sizes[hidden[v]] for v in block)
        if size > max_block_states:
            names = ", ".join(repr(network.names[hidden[v]]) for v in block[:6]) + (", ..." if len(block) > 6 else "")
            raise ArgumentError(
                f"missing cells of {names} have {size} joint states, and max_block_states is {max_block_states}; "
                f"use e_step='mean_field', or smaller blocks"
            )
    layout = lay_out([sizes[v] for v in hidden], scopes, chosen)
    return layout, np.stack(np.broadcast_arrays(*bases), axis=1).astype(np.int64), hidden


def _ancestral(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> list[int]:
    """Nodes and all their ancestors, increasing."""
    found, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(parents[node])
    return sorted(found)


def _cut(blocks: Sequence[Sequence[int]], number: dict[int, int]) -> list[tuple[int, ...]]:
    cut = [tuple(number[v] for v in block if v in number) for block in blocks]
    kept = [block for block in cut if block]
    inside = {v for block in kept for v in block}
    return kept + [(v,) for v in range(len(number)) if v not in inside]


def _components(n: int, scopes: Iterable[Scope]) -> list[tuple[int, ...]]:
    """Hidden nodes that some table joins, directly or by others."""
    leader = list(range(n))

    def find(v: int) -> int:
        while leader[v] != v:
            leader[v] = leader[leader[v]]
            v = leader[v]
        return v

    for scope in scopes:
        for v in scope.variables[1:]:
            leader[find(v)] = find(scope.variables[0])
    members: dict[int, list[int]] = {}
    for v in range(n):
        members.setdefault(find(v), []).append(v)
    return [tuple(block) for block in members.values()]
