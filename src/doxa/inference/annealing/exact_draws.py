"""Exact draws of a path's target, by whatever way is cheap enough: what proven upper bounds begin with.

*Elimination*, of narrow networks: summing a variable out multiplies the tables that it is in.  The product is kept:
given the variables eliminated later, it is the variable's conditional distribution, from which it is drawn on the way
back.  Where tables grow too wide the draw is refused before anything is summed.

*Coupling from the past* (Propp & Wilson 1996), of attractive Ising models.  Where no coupling is negative, a heat bath
that uses one random number for all states keeps their order: a state that was above another (has all its up spins up)
stays above it.  So the chain that began everywhere at time -T has one state at time 0 if those that began all up and
all down have met; that state does not depend on T any more, and is a draw of the model.  Starts are moved to the past,
T = 16, 32, 64, ..., and *the same random numbers are used again* at the same times; with fresh ones, or when the run is
stopped as soon as the two meet, states that meet quickly are favoured.  Couplings may be negative where turning over
some of the spins makes all positive: antiferromagnets on bipartite graphs, any signs on a tree.  Fields may have any
sign.  Cold models meet late: their log Z is bounded otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Words
from doxa.checks import check_whole
from doxa.errors import ArgumentError, DoxaError
from doxa.inference.annealing.path import Path
from doxa.inference.annealing.spins import N_CHAINS, SpinArrays, SpinPath, any_bit, digit_of, unpack_spins, write_masks
from doxa.inference.annealing.tables import TablePath
from doxa.inference.exact import tree
from doxa.inference.flat import over
from doxa.inference.spins.graph import SpinGraph, as_fields, spin_graph
from doxa.inference.spins.words import (
    MASKS,
    N_WORDS,
    aligned,
    aligned_zeros,
    fresh_streams,
    next_words,
    same,
    store,
)
from doxa.models.factors import Factor

__all__ = [
    "ExactDraws",
    "NotCoupledError",
    "TooWideError",
    "draw_by_coupling",
    "draw_by_elimination",
    "draw_exactly",
    "elimination_cost",
    "turn_over",
]

_ALL = 2**64 - 1
_DIGITS = 12  # of every comparison, from the main streams, needed or not; one in eight sites needs more
SPARE = MASKS + N_WORDS * 64  # in the work space: where the masks of the highest states begin


@hot
def couple_spins(
    spins: SpinArrays,
    thresholds: Words,
    n_sweeps: int,
    high: Words,
    low: Words,
    streams: Words,
    more: Words,
    work: Words,
) -> None:
    """Sweep the highest and the lowest states of 512 couplings with the same random numbers.

    What is drawn from ``streams`` depends on the number of sites and sweeps alone: a run that begins earlier, in other
    states, must do with the same numbers the same thing from here on.  Digits beyond the twelfth come from a stream
    of their own, ``more``, begun anew at every site from what the main streams hold then.
    """
    for _ in range(n_sweeps):
        for i in range(spins.n_classes.size):
            first, n_classes = spins.table[i], spins.n_classes[i]
            write_masks(spins, i, high, work)
            for c in range(N_WORDS * n_classes):
                work[SPARE + c] = work[MASKS + c]
            write_masks(spins, i, low, work)
            undecided = same(np.uint64(_ALL))
            up_high = undecided ^ undecided
            up_low, left_high, left_low = up_high, undecided, undecided
            for digit in range(64):
                if digit < _DIGITS:
                    u = next_words(streams)
                else:
                    if not any_bit(left_high | left_low):
                        break
                    if digit == _DIGITS:
                        for c in range(streams.size):
                            more[c] = ~streams[c]
                    u = next_words(more)
                t = digit_of(thresholds, first, n_classes, digit, SPARE, work)
                up_high = up_high | (left_high & t & ~u)
                left_high = left_high & ~(t ^ u)
                t = digit_of(thresholds, first, n_classes, digit, MASKS, work)
                up_low = up_low | (left_low & t & ~u)
                left_low = left_low & ~(t ^ u)
            store(high, N_WORDS * i, up_high)
            store(low, N_WORDS * i, up_low)


_FIRST = 16  # sweeps


class NotCoupledError(DoxaError):
    """The highest and the lowest chain did not meet within the time allowed."""


def turn_over(graph: SpinGraph) -> NDArray[np.float64] | None:
    """Signs g of the sites, +1 or -1, such that no J_ij g_i g_j is negative; None where there are none.

    Examples
    --------
    >>> turn_over(spin_graph(3, [[0, 1], [1, 2]], [-1.0, 2.0]))
    array([ 1., -1., -1.])
    >>> turn_over(spin_graph(3, [[0, 1], [1, 2], [2, 0]], -1.0)) is None
    True
    """
    signs = np.zeros(graph.n_sites)
    for root in range(graph.n_sites):
        if signs[root]:
            continue
        signs[root] = 1.0
        waiting = [root]
        while waiting:
            i = waiting.pop()
            for e in range(graph.starts[i], graph.starts[i + 1]):
                j, sign = graph.neighbours[e], signs[i] * np.sign(graph.strengths[e])
                if signs[j] == 0:
                    signs[j] = sign
                    waiting.append(int(j))
                elif signs[j] != sign:
                    return None
    return signs


def draw_by_coupling(
    edges: ArrayLike,
    couplings: ArrayLike,
    fields: ArrayLike,
    n: int,
    rng: np.random.Generator,
    *,
    doublings: int = 10,
) -> NDArray[np.uint8]:
    """Independent exact draws of an Ising model whose couplings can be made positive.

    Parameters
    ----------
    edges, couplings, fields
        As in `doxa.inference.annealing.SpinPath`.
    n : int
        Number of draws; made 512 at a time.
    rng : numpy.random.Generator
    doublings : int, default=10
        How often the start is moved twice as far into the past, from 16 sweeps on.

    Returns
    -------
    ndarray of uint8, shape (n, n_sites)
        1 is up.

    Raises
    ------
    ArgumentError
        If no turning over of spins makes the couplings positive.
    NotCoupledError
        If 512 pairs of chains did not all meet; the chains that did are not returned, as they are not of the model.

    Examples
    --------
    >>> draws = draw_by_coupling([[0, 1]], 0.5, [0.3, 0.0], 512, np.random.default_rng(1))
    >>> bool(abs(draws[:, 0].mean() - 1 / (1 + np.exp(-0.6))) < 0.06)
    True
    """
    n, doublings = check_whole("n", n, 1), check_whole("doublings", doublings, 0)
    given = as_fields(fields, 1)
    graph = spin_graph(len(given), edges, couplings)
    signs = turn_over(graph)
    if signs is None:
        raise ArgumentError(
            "couplings cannot be made positive by turning spins over (a cycle has an odd number of negative ones); "
            "coupling from the past needs that"
        )
    path = SpinPath(graph.edges, np.abs(graph.couplings), given * signs)
    parts = [_draw(path, rng, doublings) for _ in range(-(-n // N_CHAINS))]
    draws = np.concatenate(parts)[:n]
    return np.where(signs > 0, draws, 1 - draws).astype(np.uint8)


def _draw(path: SpinPath, rng: np.random.Generator, doublings: int) -> NDArray[np.uint8]:
    """512 draws."""
    size, thresholds = N_WORDS * path.n_variables, path.thresholds()
    work, more = aligned_zeros(SPARE + N_WORDS * 64), aligned_zeros(4 * N_WORDS)
    blocks: list[tuple[int, NDArray[np.uint64]]] = []  # sweeps and random streams, from the present to the past
    for doubling in range(doublings + 1):
        blocks.append((_FIRST << max(doubling - 1, 0), fresh_streams(rng)))
        high, low = aligned_zeros(size), aligned_zeros(size)
        high[:] = np.uint64(2**64 - 1)
        for n_sweeps, streams in reversed(blocks):
            couple_spins(path.arrays, thresholds, n_sweeps, high, low, aligned(streams), more, work)
        if (high == low).all():
            return unpack_spins(high)
    met = int(((unpack_spins(high) == unpack_spins(low)).all(axis=1)).sum())
    raise NotCoupledError(
        f"{N_CHAINS - met} of {N_CHAINS} pairs of chains did not meet within {_FIRST << doublings} sweeps; allow more "
        "doublings, or take the model as too cold for coupling from the past"
    )


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
            product = how.multiply(product, over(values, scope, axes))
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


def _order(n_states: Sequence[int], factors: Sequence[Factor], most: float = math.inf) -> tuple[list[int], int]:
    """An order of the variables and the numbers in all its tables: as given, or the smallest table first."""
    scopes = [*(factor.variables for factor in factors), *((v,) for v in range(len(n_states)))]
    found: list[tuple[list[int], int]] = []
    for score in (lambda variable, _: variable, lambda _, weight: weight):
        try:
            sizes = tree.eliminate(n_states, scopes, (), score, most)
            found.append((list(sizes), sum(sizes.values())))
        except tree.TooWideError as too_wide:
            found.append(([], too_wide.operations))
    return min(found, key=lambda order: order[1])


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
