"""What the zeros of factors say: states that are impossible, and variables that others determine.

A state is *supported* by a factor when the factor is positive somewhere in it.  States without support are struck out,
which may take the support from others, until nothing changes (arc consistency).  No possible state is ever struck out;
impossible ones may remain, where several factors forbid them only together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models.factors import Factor

__all__ = ["Determined", "determined", "supported_states"]

Positions = NDArray[np.intp]


class Determined(NamedTuple):
    """A variable that has at most one possible state for every configuration of some others."""

    variable: int
    others: tuple[int, ...]
    factor: int  # position of the factor that says so


def supported_states(factors: Sequence[Factor]) -> dict[int, Positions] | None:
    """Strike out states without support until nothing changes.

    Parameters
    ----------
    factors : sequence of Factor

    Returns
    -------
    dict of int to ndarray of int, or None
        For variables that lose states, those that are left, increasing; None where a variable loses all.

    Notes
    -----
    A factor is looked at again when a variable of it has lost states: with every look at least one state goes, so the
    work is at most the sum over factors of size times number of states; most factors are looked at once or twice.

    Examples
    --------
    >>> same = np.log([[1.0, 0.0], [0.0, 1.0]], where=[[True, False], [False, True]], out=np.full((2, 2), -np.inf))
    >>> supported_states([Factor((0, 1), same), Factor((1,), np.array([0.0, -np.inf]))])
    {1: array([0]), 0: array([0])}
    """
    supports: dict[int, NDArray[np.bool_]] = {}
    touching: dict[int, list[tuple[int, int]]] = {}
    for f, (variables, log_values) in enumerate(factors):
        support = log_values > -np.inf
        if not np.logical_and.reduce(support, axis=None):  # without zeros it will never strike out anything
            supports[f] = support
            for axis, variable in enumerate(variables):
                touching.setdefault(variable, []).append((f, axis))
    left: dict[int, Positions] = {}
    waiting, queued = deque(supports), set(supports)
    while waiting:
        f = waiting.popleft()
        queued.discard(f)
        for axis, variable in enumerate(factors[f].variables):
            seen = np.logical_or.reduce(supports[f], axis=_others(supports[f].ndim, axis))
            kept = seen.nonzero()[0]
            if kept.size == seen.size:
                continue
            if not kept.size:
                return None
            left[variable] = left[variable][kept] if variable in left else kept
            for g, place in touching[variable]:
                supports[g] = supports[g].take(kept, axis=place)
                if g != f and g not in queued:  # f itself loses nothing that it supported
                    waiting.append(g)
                    queued.add(g)
    return left


def determined(factors: Sequence[Factor]) -> tuple[Determined, ...]:
    """Find variables that a factor's zeros make functions of its other variables.

    In a directed network, a node whose table holds only zeros and ones is such a function of its parents; evidence on
    a child can make parents functions of each other.  A sampler that changes one variable at a time cannot move such a
    variable, nor, as a rule, the others: they belong in one block.

    Parameters
    ----------
    factors : sequence of Factor
        Of a network or of a prepared `Problem`.

    Returns
    -------
    tuple of Determined
        By factor, then in the order of its variables.

    Examples
    --------
    >>> xor = np.array([[[0.0, -np.inf], [-np.inf, 0.0]], [[-np.inf, 0.0], [0.0, -np.inf]]])
    >>> [(d.variable, d.others) for d in determined([Factor((4, 7, 9), xor)])]
    [(4, (7, 9)), (7, (4, 9)), (9, (4, 7))]
    """
    found = []
    for f, (variables, log_values) in enumerate(factors):
        support = log_values > -np.inf
        n_possible = np.count_nonzero(support)
        for axis, variable in enumerate(variables):
            if n_possible * support.shape[axis] > support.size or support.shape[axis] == 1:  # more than one a line
                continue
            if np.count_nonzero(support, axis=axis).max() <= 1:
                found.append(Determined(variable, variables[:axis] + variables[axis + 1 :], f))
    return tuple(found)


@cache
def _others(n_axes: int, axis: int) -> tuple[int, ...]:
    return tuple(a for a in range(n_axes) if a != axis)
