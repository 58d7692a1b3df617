"""`Supports`: where factors are positive, which configurations they leave possible, and what moves connect these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.factors import Factor

__all__ = ["Supports"]

Block = tuple[int, ...]

_MOST_STATES = 2**15 - 1  # kept states are 16 bits wide


def check_n_states(n_states: Iterable[int]) -> tuple[int, ...]:
    """Return numbers of states, at least one each, as a tuple of at least one."""
    sizes = tuple(check_whole(f"n_states[{v}]", size, 1) for v, size in enumerate(n_states))
    if not sizes:
        raise ArgumentError("n_states is empty; there must be a variable to draw")
    for v, size in enumerate(sizes):
        if size > _MOST_STATES:
            raise ArgumentError(f"n_states[{v}] is {size}; a variable has at most {_MOST_STATES} states")
    return sizes


def check_factors(factors: Iterable[Factor], n_states: Sequence[int]) -> tuple[Factor, ...]:
    """Return factors as a tuple; their tables must be over the variables they name, with neither nan nor +inf."""
    given = tuple(factors)
    for f, (variables, log_values) in enumerate(given):
        for v in variables:
            if not 0 <= v < len(n_states):
                raise ArgumentError(
                    f"factors[{f}] has the variable {v}; those of n_states are 0 to {len(n_states) - 1}"
                )
            if variables.count(v) > 1:
                raise ArgumentError(f"factors[{f}] has the variable {v} twice; the variables of a factor differ")
        shape = tuple(n_states[v] for v in variables)
        if np.shape(log_values) != shape:
            raise ArgumentError(
                f"factors[{f}], over {variables}, has shape {np.shape(log_values)}; it must be {shape}, the numbers of "
                "states"
            )
        if not (log_values < np.inf).all():  # nan too
            raise ArgumentError(f"factors[{f}] contains nan or +inf; log values are finite, or -inf where impossible")
    return given


def check_block(block: Iterable[int], name: str, n_variables: int) -> Block:
    """Return a block, different variables in the order given, as a tuple of at least one."""
    if isinstance(block, (int, np.integer)):
        raise ArgumentTypeError(f"{name} is {block}; a block is a sequence of variables: ({block},)")
    members = tuple(check_whole(f"{name}[{j}]", v, 0) for j, v in enumerate(block))
    if not members:
        raise ArgumentError(f"{name} is empty; a block has at least one variable")
    for v in members:
        if v >= n_variables:
            raise ArgumentError(f"{name} has the variable {v}; there are {n_variables}, 0 to {n_variables - 1}")
        if members.count(v) > 1:
            raise ArgumentError(f"{name} has the variable {v} twice; the variables of a block differ")
    return members


def read_blocks(blocks: Iterable[Sequence[int]] | None, n_states: Sequence[int]) -> list[Block]:
    """Blocks that cover all variables, checked; each variable alone where there are none."""
    every = [(v,) for v in range(len(n_states))] if blocks is None else blocks
    read = [check_block(block, f"blocks[{b}]", len(n_states)) for b, block in enumerate(every)]
    check_covered(read, n_states)
    return read


def check_covered(blocks: Iterable[Block], n_states: Sequence[int]) -> None:
    """Raise unless every variable of two states or more is in a block."""
    covered = {v for block in blocks for v in block}
    for v, size in enumerate(n_states):
        if size > 1 and v not in covered:
            raise ArgumentError(f"no block has the variable {v}, so it would never move; add the block ({v},)")


Codes = NDArray[np.int64]


class Support(NamedTuple):
    """Where a factor is positive."""

    variables: tuple[int, ...]
    table: NDArray[np.bool_]  # an axis for each of them


class Supports:
    """The factors that have zeros, by variable."""

    def __init__(self, n_states: Sequence[int], supports: Iterable[Support]) -> None:
        self.n_states = tuple(n_states)
        self.supports = [support for support in supports if not support.table.all()]
        self.touching: list[list[int]] = [[] for _ in self.n_states]
        for f, (variables, _) in enumerate(self.supports):
            for v in variables:
                self.touching[v].append(f)

    @classmethod
    def of(cls, n_states: Sequence[int], factors: Iterable[Factor]) -> Supports:
        """Where the factors are positive."""
        return cls(n_states, [Support(factor.variables, factor.log_values > -np.inf) for factor in factors])

    def among(self, variables: Iterable[int]) -> list[Support]:
        """What each factor says of these variables alone, where it says anything: their states that can go together."""
        own = set(variables)
        found = []
        for f in sorted({f for v in own for f in self.touching[v]}):
            scope, table = self.supports[f]
            seen = any_over(table, [a for a, v in enumerate(scope) if v not in own])
            if not seen.all():
                found.append(Support(tuple(v for v in scope if v in own), seen))
        return found

    def configurations(self, variables: Sequence[int], most: int) -> Codes | None:
        """Configurations of some variables that no single factor forbids, rows (n, n_variables) in lexicographic order.

        None where there are more than ``most``, or while they are put together.
        """
        left = self.among(variables)
        placed: list[int] = []
        rows = np.zeros((1, 0), dtype=np.int64)
        while len(placed) < len(variables):
            waiting = [v for v in variables if v not in placed]
            v = min(waiting, key=lambda v: self._growth(v, placed, left)) if left else waiting[0]
            rows = self._extended(rows, v, placed, left)
            placed.append(v)
            if len(rows) > most:
                return None
        rows = rows[:, [placed.index(v) for v in variables]]
        return rows[np.lexsort(rows.T[::-1])] if len(variables) else rows

    def _growth(self, v: int, placed: list[int], left: list[Support]) -> float:
        """How many times as many rows there are, about, once ``v`` has joined."""
        growth = float(self.n_states[v])
        for scope, table in left:
            if v in scope:
                away = [a for a, w in enumerate(scope) if w != v and w not in placed]
                both = any_over(table, away)
                axis = [w for w in scope if w == v or w in placed].index(v)
                growth = min(growth, both.sum() / max(1, any_over(both, [axis]).sum()))
        return growth

    def _extended(self, rows: Codes, v: int, placed: list[int], left: list[Support]) -> Codes:
        """Rows with each state of ``v`` that goes with them."""
        size = self.n_states[v]
        wider = np.column_stack([np.repeat(rows, size, axis=0), np.tile(np.arange(size), len(rows))])
        column = {w: j for j, w in enumerate([*placed, v])}
        for scope, table in left:
            if v in scope:
                known = any_over(table, [a for a, w in enumerate(scope) if w not in column])
                wider = wider[known[tuple(wider[:, column[w]] for w in scope if w in column)]]
        return wider


def any_over(table: NDArray[np.bool_], axes: Iterable[int]) -> NDArray[np.bool_]:
    """Where there is a True along these axes, which go."""
    return np.asarray(np.logical_or.reduce(table, axis=tuple(axes)))


_MOST_AT_A_TIME = 2**22  # numbers in the table of candidates
_MOST_TRIED = 2**25  # such numbers in all: a fraction of a second


def number_rows(rows: Codes) -> Codes:
    """Give equal rows equal numbers."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, numbers = np.unique(numbers * (column.max(initial=0) + 1) + column, return_inverse=True)
    return numbers.reshape(-1)


def classes(rows: Codes, blocks: Iterable[Block]) -> Codes:
    """Number the classes of configurations, rows, that moves within blocks of columns connect; shape (n,)."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(rows)
    ends, n_nodes = [np.zeros(0, dtype=np.int64)], n
    for block in blocks:  # rows that agree outside of a block are joined to a node of their own
        groups = number_rows(np.delete(rows, list(block), axis=1))
        ends.append(n_nodes + groups)
        n_nodes += int(groups.max(initial=-1)) + 1
    there = np.concatenate(ends)
    here = np.tile(np.arange(n), len(ends) - 1)
    links = coo_matrix((np.ones(len(there), dtype=np.int8), (here, there)), shape=(n_nodes, n_nodes))
    _, numbers = connected_components(links, directed=False)
    return np.unique(numbers[:n], return_inverse=True)[1].reshape(-1)


def reached(
    start: Codes, variables: Sequence[int], supports: Supports, blocks: Iterable[Block], most: int
) -> set[bytes] | None:
    """All configurations that moves within blocks of columns lead to from a possible one, as bytes.

    The columns are ``variables``, which supports do not join to others.  None where more than ``most`` are reached, or
    a block has more.
    """
    place = {v: j for j, v in enumerate(variables)}
    moves: list[tuple[list[int], Codes, list[tuple[list[int], NDArray[np.bool_]]]]] = []
    for block in blocks:
        own = [variables[j] for j in block]
        codes = supports.configurations(own, most)
        if codes is None:
            return None
        tests = [supports.supports[f] for f in sorted({f for v in own for f in supports.touching[v]})]
        moves.append((list(block), codes, [([place.get(v, -1) for v in scope], table) for scope, table in tests]))
    seen = {start.tobytes()}
    frontier, n_left = start[None], _MOST_TRIED
    while len(frontier):
        new: list[Codes] = []
        for columns, codes, own_tests in moves:
            for part in np.array_split(frontier, 1 + frontier.size * len(codes) // _MOST_AT_A_TIME):
                wider = np.repeat(part, len(codes), axis=0)
                wider[:, columns] = np.tile(codes, (len(part), 1))
                n_left -= wider.size
                for places, table in own_tests:
                    wider = wider[table[tuple(wider[:, j] if j >= 0 else 0 for j in places)]]
                for row in wider:
                    key = row.tobytes()
                    if key not in seen:
                        seen.add(key)
                        new.append(row)
                if len(seen) > most or n_left < 0:
                    return None
        frontier = np.array(new, dtype=np.int64).reshape(-1, len(variables))
    return seen
