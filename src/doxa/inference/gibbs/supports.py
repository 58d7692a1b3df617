"""`Supports`: where factors are positive, which configurations they leave possible, and what moves connect these.

A chain may begin at a state of positive probability, given or searched for.  The search gives the variables states one
after another, those with the fewest left first, each by chance, more often those that agree with the mean of its
factors; what a choice makes impossible is struck out (arc consistency), and a choice that leaves a variable without
states is taken back.  Where zeros are many, finding a state is as hard as the hardest puzzles: the search has an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError
from doxa.inference.flat import log_of
from doxa.inference.propagation import Narrowing
from doxa.models.factors import Factor

__all__ = ["NoStartError", "Supports", "find_state"]

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


States = NDArray[np.int64]

_FIRST_PATIENCE = 50  # dead ends before the search begins anew; doubles every time


class NoStartError(DoxaError, RuntimeError):
    """No state of positive probability was found, or there is none."""


def log_density_at(factors: Iterable[Factor], states: ArrayLike) -> float:
    """Sum of the log factors at one state, nats."""
    x = np.asarray(states)
    return float(sum(log_values[tuple(x[list(variables)])] for variables, log_values in factors))


def pick_state(
    starts: ArrayLike | Callable[[np.random.Generator], ArrayLike],
    weights: ArrayLike | None,
    n_states: Sequence[int],
    rng: np.random.Generator,
) -> States:
    """One of the given states by its weight, or what the function returns; checked."""
    if callable(starts):
        if weights is not None:
            raise ArgumentError("start_weights belong to an array of starts, and starts is a function; leave them out")
        return check_states(np.asarray(starts(rng))[None], "what starts returned", n_states).reshape(-1)
    rows = check_states(np.asarray(starts), "starts", n_states)
    if weights is None:
        return np.asarray(rows[int(rng.integers(len(rows)))])
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(rows),):
        raise ArgumentError(f"start_weights has shape {shares.shape} but starts has {len(rows)} rows; give one each")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise ArgumentError("start_weights must be finite numbers of at least 0, not all 0")
    return np.asarray(rows[int(rng.choice(len(rows), p=shares / shares.sum()))])


def check_states(rows: NDArray[Any], name: str, n_states: Sequence[int]) -> States:
    """Return rows of states, or raise an error that names the entry at fault."""
    if rows.ndim != 2 or rows.shape[1] != len(n_states) or not len(rows):
        shape = rows.shape[1:] if name != "starts" else rows.shape
        rule = f"({len(n_states)},)" if name != "starts" else f"(n, {len(n_states)}) with n of at least 1"
        raise ArgumentError(f"{name} has shape {shape}; it must be {rule}, a column for every variable")
    if rows.dtype.kind not in "iu":
        raise ArgumentTypeError(f"{name} has dtype {rows.dtype}; states are whole numbers")
    wrong = np.argwhere((rows < 0) | (rows >= np.array(n_states)))
    if len(wrong):
        i, v = wrong[0]
        raise ArgumentError(
            f"{name} has state {rows[i, v]} for the variable {v}, which has {n_states[v]}: 0 to {n_states[v] - 1}"
        )
    return rows.astype(np.int64)


def find_state(
    n_states: Sequence[int], factors: Sequence[Factor], rng: np.random.Generator, most_dead_ends: int = 5000
) -> States:
    """Search for a state of positive probability.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    rng : numpy.random.Generator
        Advanced; other random numbers give other states.
    most_dead_ends : int, default=5000
        Choices that are taken back before the search is given up.

    Returns
    -------
    ndarray of int, shape (n_variables,)

    Raises
    ------
    NoStartError
        If none was found; the message says whether there is none.

    Examples
    --------
    >>> differ = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)
    >>> pairs = [Factor(pair, differ) for pair in ((0, 1), (1, 2), (0, 2))]
    >>> sorted(find_state([3, 3, 3], pairs, np.random.default_rng(0)).tolist())
    [0, 1, 2]
    """
    left = check_whole("most_dead_ends", most_dead_ends, 1)
    patience = min(_FIRST_PATIENCE, left)
    near: list[list[Factor]] = [[] for _ in n_states]
    for factor in factors:
        for v in factor.variables:
            near[v].append(factor)
    root = Narrowing(factors, {v: np.arange(size) for v, size in enumerate(n_states)})
    never = any(not variables and log_value == -np.inf for variables, log_value in factors)
    if never or not root.settle(root.supports):
        raise NoStartError("there is no state of positive probability: the zeros of the factors exclude every one")
    while left > 0:
        found, dead_ends = _search(root, near, rng, patience)
        if found is not None:
            return found
        if dead_ends < patience:
            raise NoStartError("there is no state of positive probability: the search has tried all there are")
        left -= dead_ends
        patience = min(2 * patience, left)
    raise NoStartError(
        f"no state of positive probability was found with {most_dead_ends} choices taken back; give starts, or remove "
        "zeros"
    )


def _search(
    root: Narrowing, near: Sequence[Sequence[Factor]], rng: np.random.Generator, patience: int
) -> tuple[States | None, int]:
    """A state, if one is found before so many dead ends; and the number of these.  ``near`` are factors by variable."""
    rank = rng.random(len(root.left))
    stack = [_branch(root.copy(), near, rank, rng)]
    dead_ends = 0
    while stack and dead_ends < patience:
        here, v, order = stack[-1]
        if v < 0:
            return np.array([left[0] for left in here.left.values()], dtype=np.int64), dead_ends
        if not order:
            stack.pop()
            continue
        place = order.pop()
        there = here.copy() if order else here
        if there.settle(f for f, _ in there.keep(v, np.array([place]))):
            stack.append(_branch(there, near, rank, rng))
        else:
            dead_ends += 1
    return None, dead_ends


def _branch(
    here: Narrowing, near: Sequence[Sequence[Factor]], rank: NDArray[np.float64], rng: np.random.Generator
) -> tuple[Narrowing, int, list[int]]:
    """The variable to choose for, -1 when all are chosen, and its states, the first to be tried last."""
    sizes = np.array([len(left) for left in here.left.values()])
    if (sizes == 1).all():
        return here, -1, []
    v = int(np.lexsort((rank, np.where(sizes == 1, np.iinfo(np.int64).max, sizes)))[0])
    keys = rng.exponential(size=sizes[v]) / _weights(here, v, near[v])  # ascending: one by one without replacement
    return here, v, [int(place) for place in np.argsort(-keys)]


def _weights(here: Narrowing, v: int, factors: Sequence[Factor]) -> NDArray[np.float64]:
    """How well each state of ``v`` agrees with the mean of its factors over what is left; the largest is 1."""
    log_weight = np.zeros(len(here.left[v]))
    for variables, table in factors:
        for axis, w in enumerate(variables):
            if len(here.left[w]) < table.shape[axis]:
                table = table.take(here.left[w], axis=axis)
        rows = np.moveaxis(table, variables.index(v), 0).reshape(len(log_weight), -1)
        highest = rows.max()
        log_weight += log_of(np.exp(rows - highest).sum(axis=1))
    return np.asarray(np.exp(np.maximum(log_weight - log_weight.max(), -30.0)))
