r"""`fold`: strike out states that can always be exchanged for another, without changing what is connected.

Let S be the configurations that no factor forbids, and let a and c be states of a variable such that every
configuration of S with a stays in S when a becomes c.  Exchanging them, r: S -> S, is a move of that variable alone, so
every configuration is connected to its image; and two that differ within a block have images that differ within it.  So
S is connected by moves within the blocks if and only if r(S), the configurations without a, is.  Repeated until nothing
changes this often leaves one configuration, or small parts that can be listed.  (Neighbourhood substitutability:
Freuder 1991; dismantling: Brightwell & Winkler 2000, for connectivity by single moves.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.gibbs.supports import Support, Supports

__all__ = ["Folded", "fold"]


class Folded(NamedTuple):
    """What is left of supports."""

    left: tuple[NDArray[np.int64], ...]  # states of each variable, increasing; none where nothing is possible
    supports: Supports  # over the numbers of these states; factors without zeros have gone
    exchanges: tuple[tuple[int, int, int], ...]  # (variable, from, to), in the order in which they were made

    def image(self, states: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the states that a possible configuration has after all exchanges."""
        x = np.array(states, dtype=np.int64)
        for v, a, c in self.exchanges:
            if x[v] == a:
                x[v] = c
        return np.array([int(np.searchsorted(left, state)) for left, state in zip(self.left, x, strict=True)])


def fold(supports: Supports) -> Folded:
    """Strike out states as long as there are any to be exchanged.

    Examples
    --------
    >>> chain = Support((0, 1), np.array([[True, True, False], [False, True, True], [False, False, True]]))
    >>> [left.tolist() for left in fold(Supports([3, 3], [chain])).left]
    [[1], [1]]
    """
    left = [np.arange(size) for size in supports.n_states]
    tables = [support.table for support in supports.supports]
    exchanges: list[tuple[int, int, int]] = []
    waiting = {v: None for v, touching in enumerate(supports.touching) if touching}
    free = [v for v, touching in enumerate(supports.touching) if not touching]
    for v in free:
        exchanges += [(v, int(a), 0) for a in left[v][1:]]
        left[v] = left[v][:1]
    while waiting:
        v = next(iter(waiting))
        del waiting[v]
        if not len(left[v]):
            continue
        target = _targets(v, supports, tables, len(left[v]))
        kept = np.flatnonzero(target == np.arange(len(target)))
        if len(kept) == len(target):
            continue
        exchanges += [(v, int(left[v][a]), int(left[v][c])) for a, c in enumerate(target) if c not in (a, -1)]
        left[v] = left[v][kept]
        for f in supports.touching[v]:
            scope = supports.supports[f].variables
            tables[f] = tables[f].take(kept, axis=scope.index(v))
            waiting |= dict.fromkeys(scope)
    scopes = [support.variables for support in supports.supports]
    rest = [Support(scope, table) for scope, table in zip(scopes, tables, strict=True)]
    return Folded(tuple(left), Supports([len(own) for own in left], rest), tuple(exchanges))


def _targets(v: int, supports: Supports, tables: list[NDArray[np.bool_]], size: int) -> NDArray[np.intp]:
    """For each state of ``v``, one that is kept and that it can always be exchanged for: itself where it is kept.

    -1 where a state is impossible, so that no configuration has it.
    """
    can = np.ones((size, size), dtype=bool)
    possible = np.ones(size, dtype=bool)
    for f in supports.touching[v]:
        rows = np.moveaxis(tables[f], supports.supports[f].variables.index(v), 0).reshape(size, -1)
        can &= rows.astype(np.float32) @ ~rows.T == 0  # of the places where a is possible, none forbids c
        possible &= rows.any(axis=1)
    target = np.arange(size)
    for a in range(size):
        others = [c for c in np.flatnonzero(can[a]) if c != a and target[c] == c]
        if not possible[a]:
            target[a] = -1
        elif others:
            target[target == a] = others[0]
    return target
