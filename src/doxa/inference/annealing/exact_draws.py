"""Exact draws of a path's target, by whatever way is cheap enough: what proven upper bounds begin with.

Exact draws of narrow networks: sum variables out one by one, then draw them in the opposite order.

Eliminating a variable multiplies the tables that it is in and sums over it.  The product is kept: given the variables
eliminated later, it is the variable's conditional distribution.  Where tables grow too wide the draw is refused before
anything is summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.annealing.coupling import NotCoupledError, draw_by_coupling, turn_over
from doxa.inference.annealing.path import Path
from doxa.inference.annealing.spins import SpinPath
from doxa.inference.annealing.tables import TablePath
from doxa.models.factors import Factor

__all__ = ["ExactDraws", "TooWideError", "draw_by_elimination", "draw_exactly", "elimination_cost"]

Floats = NDArray[np.float64]


class TooWideError(ArgumentError):
    """The tables of an elimination would be too large."""


class _Kept(NamedTuple):
    variable: int
    others: tuple[int, ...]
    table: Floats  # its own axis, then the others'; proportional to the probabilities, or their logarithms


def elimination_cost(n_states: Sequence[int], factors: Sequence[Factor], most: float = math.inf) -> int:
    """Numbers that an elimination keeps, all tables together, known before it begins; exact up to ``most``.

    Examples
    --------
    >>> pair = np.zeros((2, 2))
    >>> elimination_cost((2, 2, 2), [Factor((0, 1), pair), Factor((1, 2), pair)])
    10
    """
    return _order(n_states, factors, most)[1]


def draw_by_elimination(
    n_states: Sequence[int], factors: Sequence[Factor], n: int, rng: np.random.Generator, *, most: int = 2**25
) -> NDArray[np.int32]:
    """Independent exact draws of a network.

    Parameters
    ----------
    n_states : sequence of int
    factors : sequence of Factor
    n : int
        Number of draws.
    rng : numpy.random.Generator
    most : int, default=2**25
        Numbers that all tables together may have, eight bytes each.

    Returns
    -------
    ndarray of int32, shape (n, n_variables)

    Raises
    ------
    TooWideError
        If the tables are larger than ``most``.
    ArgumentError
        If no state is possible.

    Examples
    --------
    >>> same = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    >>> rows = draw_by_elimination((2, 2), [Factor((0, 1), same)], 5, np.random.default_rng(1))
    >>> bool((rows[:, 0] == rows[:, 1]).all())
    True
    """
    n = check_whole("n", n, 1)
    order, cost = _order(n_states, factors, most)
    if cost > most:
        raise TooWideError(
            f"exact draws of this network would keep more than {most} numbers; allow more, observe more variables, or "
            "do without exact draws"
        )
    for how in (_NUMBERS, _LOGARITHMS):
        kept = _eliminate(n_states, factors, order, how)
        if kept is not None:
            return _draw_back(n, len(n_states), kept, how, rng)
    raise ArgumentError("no state of this network is possible; there is nothing to draw")


class _Arithmetic(NamedTuple):
    """Numbers, or logarithms where their range is too small."""

    read: Callable[[Floats], Floats]  # from logarithms
    multiply: Callable[[Floats, Floats], Floats]
    total: Callable[[Floats], Floats]  # over the first axis
    plain: Callable[[Floats], Floats]  # columns in proportion to probabilities
    least: float  # a table whose largest entry is smaller is out of range


def _log_sum(values: Floats) -> Floats:
    """Log of the sum of exponentials over the first axis."""
    peak = values.max(axis=0)
    safe = np.where(np.isneginf(peak), 0.0, peak)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.exp(values - safe).sum(axis=0)))


_NUMBERS = _Arithmetic(
    lambda v: np.exp(v - v.max()), np.multiply, lambda v: np.asarray(v.sum(axis=0)), lambda v: v, 1e-150
)
_LOGARITHMS = _Arithmetic(lambda v: v, np.add, _log_sum, lambda v: np.exp(v - v.max(axis=0)), -math.inf)


def _eliminate(
    n_states: Sequence[int], factors: Sequence[Factor], order: Sequence[int], how: _Arithmetic
) -> list[_Kept] | None:
    """Tables of all variables, in order; None where one is out of range, or nothing is possible."""
    tables = [(f.variables, how.read(f.log_values)) for f in factors if f.variables]
    kept = []
    for variable in order:
        own = sorted([table for table in tables if variable in table[0]], key=lambda table: table[1].size)
        tables = [table for table in tables if variable not in table[0]]
        # its own axis, those of small tables, then the largest table's others as they lie in memory: loops stay long
        axes = tuple(dict.fromkeys([variable, *[v for scope, _ in own for v in scope]]))
        others = axes[1:]
        product = how.read(np.zeros([n_states[variable]] + [1] * len(others)))
        for scope, values in own:  # small ones first
            product = how.multiply(product, _aligned(values, scope, axes))
        peak = float(product.max())
        if not peak > how.least:
            return None
        kept.append(_Kept(variable, others, product))
        sums = how.total(product)
        tables.append((others, sums / peak if how is _NUMBERS else sums))
    return kept


def _draw_back(
    n: int, n_variables: int, kept: list[_Kept], how: _Arithmetic, rng: np.random.Generator
) -> NDArray[np.int32]:
    states = np.zeros((n, n_variables), dtype=np.int32)
    for variable, others, table in reversed(kept):
        at: tuple[Any, ...] = (slice(None), *[states[:, v] for v in others])
        columns = how.plain(np.broadcast_to(table[at].reshape(len(table), -1), (len(table), n)))
        sums = np.cumsum(columns, axis=0)
        states[:, variable] = np.minimum((sums <= rng.random(n) * sums[-1]).sum(axis=0), len(table) - 1)
    return states


def _aligned(values: Floats, scope: tuple[int, ...], axes: tuple[int, ...]) -> Floats:
    """A view with the axes in order, and axes of length 1 for variables it is not over."""
    order = sorted(range(len(scope)), key=lambda k: axes.index(scope[k]))
    sizes = dict(zip(scope, values.shape, strict=True))
    return values.transpose(order).reshape([sizes.get(v, 1) for v in axes])


def _order(n_states: Sequence[int], factors: Sequence[Factor], most: float = math.inf) -> tuple[list[int], int]:
    """An order of the variables and the numbers in all its tables: as given, or the smallest table first."""
    as_given = _walk(n_states, factors, most, greedy=False)
    greedy = _walk(n_states, factors, most, greedy=True)
    return min(as_given, greedy, key=lambda found: found[1])


def _walk(n_states: Sequence[int], factors: Sequence[Factor], most: float, *, greedy: bool) -> tuple[list[int], int]:
    """Eliminate on paper; stops beyond ``most``."""
    near: list[set[int]] = [set() for _ in n_states]
    for variables, _ in factors:
        for v in variables:
            near[v].update(u for u in variables if u != v)

    def size(v: int) -> int:
        return math.prod(n_states[u] for u in near[v]) * n_states[v]

    waiting = {v: size(v) for v in range(len(n_states))}
    order: list[int] = []
    cost = 0
    while waiting and cost <= most:
        v = min(waiting, key=lambda u: (waiting[u], u)) if greedy else next(iter(waiting))
        cost += waiting.pop(v)
        order.append(v)
        for u in near[v]:
            near[u] |= near[v]
            near[u] -= {u, v}
        for u in near[v]:
            waiting[u] = size(u)
    return order, cost


_CHEAP, _MOST = 2**22, 2**25  # numbers that an elimination keeps
_MOST_VARIABLES = 1500  # finding an order takes their square
_DOUBLINGS = 8  # coupling from the past: up to 4096 sweeps


class ExactDraws(NamedTuple):
    """Draws, and how they were made; or why there are none."""

    draws: NDArray[Any] | None  # (n, n_variables)
    how: str


def draw_exactly(path: Path, n: int, rng: np.random.Generator) -> ExactDraws:
    """Draw the target: by elimination where that is cheap, by coupling from the past, by a larger elimination.

    Examples
    --------
    >>> path = SpinPath([[0, 1], [1, 2]], 0.5, [0.1, 0.0, 0.0])
    >>> found = draw_exactly(path, 4, np.random.default_rng(1))
    >>> found.draws.shape, found.how
    ((4, 3), 'elimination')
    """
    n_states, factors = _factors(path)
    narrow = len(n_states) <= _MOST_VARIABLES
    cost = elimination_cost(n_states, factors, _MOST) if narrow else _MOST + 1
    if cost <= _CHEAP:
        return ExactDraws(draw_by_elimination(n_states, factors, n, rng), "elimination")
    why = "the network is too wide for elimination"
    if isinstance(path, SpinPath) and turn_over(path.graph) is not None:
        model = path.graph.edges, path.graph.couplings, path.arrays.fields
        try:
            return ExactDraws(draw_by_coupling(*model, n, rng, doublings=_DOUBLINGS), "coupling from the past")
        except NotCoupledError as error:
            why = f"{why}, and coupling from the past too slow: {str(error).split(';')[0]}"
    if cost <= _MOST:
        return ExactDraws(draw_by_elimination(n_states, factors, n, rng, most=_MOST), "elimination")
    return ExactDraws(None, why)


def _factors(path: Path) -> tuple[list[int], list[Factor]]:
    if isinstance(path, TablePath):
        return list(path.n_states), list(path.factors)
    assert isinstance(path, SpinPath)
    same = np.array([[1.0, -1.0], [-1.0, 1.0]])
    pairs = zip(path.graph.edges.tolist(), path.graph.couplings, strict=True)
    made = [Factor((i, j), coupling * same) for (i, j), coupling in pairs]
    fields = np.multiply.outer(path.arrays.fields, [-1.0, 1.0])
    return [2] * path.n_variables, made + [Factor((i,), field) for i, field in enumerate(fields)]
