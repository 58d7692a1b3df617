"""Where a chain may begin: at a state of positive probability, given or searched for.

The search gives the variables states one after another, those with the fewest left first, each by chance, more often
those that agree with the mean of its factors; what a choice makes impossible is struck out (arc consistency), and a
choice that leaves a variable without states is taken back.  Where zeros are many, finding a state is as hard as the
hardest puzzles: the search has an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError
from doxa.inference.gibbs.supports import any_over
from doxa.models.factors import Factor

__all__ = ["NoStartError", "find_state"]

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
    root = _Narrowing(n_states, factors)
    if not root.settle(range(len(root.tables))):
        raise NoStartError("there is no state of positive probability: the zeros of the factors exclude every one")
    while left > 0:
        found, dead_ends = _search(root, rng, patience)
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


class _Narrowing:
    """States left of each variable, and the factors over them."""

    def __init__(self, n_states: Sequence[int], factors: Sequence[Factor]) -> None:
        self.scopes = [factor.variables for factor in factors]
        self.tables = [factor.log_values for factor in factors]
        self.left = [np.arange(size) for size in n_states]
        self.touching: list[list[tuple[int, int]]] = [[] for _ in n_states]
        for f, scope in enumerate(self.scopes):
            for axis, v in enumerate(scope):
                self.touching[v].append((f, axis))

    def copy(self) -> _Narrowing:
        """One that can be narrowed further on its own."""
        other = object.__new__(_Narrowing)
        other.scopes, other.touching = self.scopes, self.touching
        other.tables, other.left = self.tables.copy(), self.left.copy()
        return other

    def choose(self, v: int, place: int) -> bool:
        """Leave one state of ``v``; return whether every variable still has one."""
        return self._keep(v, np.array([place])) and self.settle(f for f, _ in self.touching[v])

    def _keep(self, v: int, places: NDArray[np.intp]) -> bool:
        self.left[v] = self.left[v][places]
        for f, axis in self.touching[v]:
            self.tables[f] = self.tables[f].take(places, axis=axis)
        return len(places) > 0

    def settle(self, changed: Iterable[int]) -> bool:
        """Strike out what these factors, and those that this changes, exclude."""
        waiting = deque(changed)
        queued = set(waiting)
        while waiting:
            f = waiting.popleft()
            queued.discard(f)
            for axis, v in enumerate(self.scopes[f]):
                support = self.tables[f] > -np.inf
                places = np.flatnonzero(any_over(support, [a for a in range(support.ndim) if a != axis]))
                if len(places) < len(self.left[v]):
                    if not self._keep(v, places):
                        return False
                    fresh = [g for g, _ in self.touching[v] if g != f and g not in queued]
                    waiting.extend(fresh)
                    queued.update(fresh)
            if not self.scopes[f] and self.tables[f] == -np.inf:
                return False
        return True

    def weights(self, v: int) -> NDArray[np.float64]:
        """How well each state of ``v`` agrees with the mean of its factors over what is left; the largest is 1."""
        log_weight = np.zeros(len(self.left[v]))
        for f, axis in self.touching[v]:
            table = np.moveaxis(self.tables[f], axis, 0).reshape(len(log_weight), -1)
            highest = table.max()
            with np.errstate(divide="ignore"):
                log_weight += np.log(np.exp(table - highest).sum(axis=1))
        return np.asarray(np.exp(np.maximum(log_weight - log_weight.max(), -30.0)))


def _search(root: _Narrowing, rng: np.random.Generator, patience: int) -> tuple[States | None, int]:
    """A state, if one is found before so many dead ends; and the number of these."""
    rank = rng.random(len(root.left))
    stack = [_branch(root.copy(), rank, rng)]
    dead_ends = 0
    while stack and dead_ends < patience:
        here, v, order = stack[-1]
        if v < 0:
            return np.array([left[0] for left in here.left], dtype=np.int64), dead_ends
        if not order:
            stack.pop()
            continue
        place = order.pop()
        there = here.copy() if order else here
        if there.choose(v, place):
            stack.append(_branch(there, rank, rng))
        else:
            dead_ends += 1
    return None, dead_ends


def _branch(here: _Narrowing, rank: NDArray[np.float64], rng: np.random.Generator) -> tuple[_Narrowing, int, list[int]]:
    """The variable to choose for, -1 when all are chosen, and its states, the first to be tried last."""
    sizes = np.array([len(left) for left in here.left])
    if (sizes == 1).all():
        return here, -1, []
    v = int(np.lexsort((rank, np.where(sizes == 1, np.iinfo(np.int64).max, sizes)))[0])
    keys = rng.exponential(size=sizes[v]) / here.weights(v)  # ascending: drawn one by one without replacement
    return here, v, [int(place) for place in np.argsort(-keys)]
