r"""Exact draws of attractive Ising models: coupling from the past (Propp & Wilson 1996).

Where no coupling is negative, a heat bath that uses one random number for all states keeps their order: a state that
was above another (has all its up spins up) stays above it.  So the chain that began everywhere at time -T has one state
at time 0 if those that began all up and all down have met; that state does not depend on T any more, and is a draw of
the model.  Starts are moved to the past, T = 16, 32, 64, ..., and *the same random numbers are used again* at the same
times; with fresh ones, or when the run is stopped as soon as the two meet, states that meet quickly are favoured.

Couplings may be negative where turning over some of the spins makes all positive: antiferromagnets on bipartite
graphs, any signs on a tree.  Fields may have any sign.  Cold models meet late: their log Z is bounded otherwise.

Loops of `doxa.inference.annealing.coupling`: the highest and the lowest states of 512 monotone couplings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot, inlined
from doxa.checks import check_whole
from doxa.errors import ArgumentError, DoxaError
from doxa.inference.annealing.spin_kernels import N_CHAINS, any_bit, write_masks
from doxa.inference.annealing.spins import SpinPath, unpack_spins
from doxa.inference.spins.aligned import aligned, aligned_zeros
from doxa.inference.spins.graph import SpinGraph, as_fields, spin_graph
from doxa.inference.spins.masks import MASKS
from doxa.inference.spins.random_words import fresh_streams, next_words
from doxa.inference.spins.words import N_WORDS, chosen, load, same, store

__all__ = ["SPARE", "NotCoupledError", "couple_spins", "draw_by_coupling", "turn_over"]

_ALL = 2**64 - 1
_DIGITS = 12  # of every comparison, from the main streams, needed or not; one in eight sites needs more
SPARE = MASKS + N_WORDS * 64  # in the work space: where the masks of the highest states begin


@hot
def couple_spins(
    spins: Any, thresholds: Any, n_sweeps: int, high: Any, low: Any, streams: Any, more: Any, work: Any
) -> None:
    """Sweep both states with the same random numbers.

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
                t = _digit(thresholds, first, n_classes, digit, SPARE, work)
                up_high = up_high | (left_high & t & ~u)
                left_high = left_high & ~(t ^ u)
                t = _digit(thresholds, first, n_classes, digit, MASKS, work)
                up_low = up_low | (left_low & t & ~u)
                left_low = left_low & ~(t ^ u)
            store(high, N_WORDS * i, up_high)
            store(low, N_WORDS * i, up_low)


@inlined
def _digit(thresholds: Any, first: int, n_classes: int, digit: int, masks: int, work: Any) -> Any:
    found = same(np.uint64(0))
    for m in range(n_classes):
        table = same(thresholds[first + m])
        found = found | chosen(load(work, masks + N_WORDS * m), table, np.uint64(63 - digit))
    return found


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
