"""What the zeros of factors say: impossible states, variables that others determine, evidence of probability zero.

A state is *supported* by a factor when the factor is positive somewhere in it.  States without support are struck out,
which may take the support from others, until nothing changes (arc consistency).  No possible state is ever struck out;
impossible ones may remain, where several factors forbid them only together.

A set of observations that conflicts is *minimal* when no part of it does.  Deleting one observation after another, each
for good if the others still conflict, always ends in such a set; smaller ones may exist, and where there are few to try
they are tried.  What is possible says an oracle, which must be monotone: what is impossible stays so with more
evidence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork, Factor

__all__ = ["ImpossibleEvidenceError"]

_MOST_TRIES = 500  # subsets tried for a smaller conflict: about what 30 pieces of evidence have of one and two


class ImpossibleEvidenceError(ArgumentError):
    """The evidence has probability zero.

    Attributes
    ----------
    conflict : tuple of str
        Names of variables whose evidence conflicts, a minimal set; empty where the network itself is impossible.
    """

    def __init__(self, message: str, conflict: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.conflict = conflict

    def __reduce__(self) -> tuple[type[ImpossibleEvidenceError], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.conflict)


def impossible(
    network: DiscreteNetwork, evidence: Evidence, is_possible: Callable[[Evidence], bool]
) -> ImpossibleEvidenceError:
    """The error that says which observations conflict.

    ``is_possible`` is False where evidence, a part of the one given, is known to have probability zero: by propagation,
    or by a log evidence of -inf.
    """
    found = minimal_conflict(evidence.variables, lambda part: is_possible(evidence.only(part)))
    names = tuple(network.names[v] for v in found)
    if not found:
        return ImpossibleEvidenceError("network has no possible configuration, whatever the evidence; check its zeros")
    words = _listing([_words(network, evidence, v) for v in found])
    verb = "have probability 0 together" if len(found) > 1 else "has probability 0"
    way_out = "leave out one of them" if len(found) > 1 else "leave it out"
    source = "given says" if all(v in evidence.hard for v in found) else "the evidence says"
    return ImpossibleEvidenceError(f"{source} that {words}, which {verb}; {way_out}", names)


def minimal_conflict(items: Iterable[int], is_possible: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """A set of items that is not possible though each of its parts is; of the least size where few need trying."""
    every = tuple(items)
    found = every
    for item in every:
        without = tuple(i for i in found if i != item)
        if not is_possible(without):
            found = without
    tries = _MOST_TRIES
    for size in range(1, len(found)):
        tries -= comb(len(every), size)
        if tries < 0:
            break
        smaller = next((part for part in combinations(every, size) if not is_possible(part)), None)
        if smaller is not None:
            return smaller
    return found


def _words(network: DiscreteNetwork, evidence: Evidence, variable: int) -> str:
    name, labels = network.names[variable], network.states[variable]
    if variable in evidence.hard:
        return f"{name!r} is {labels[evidence.hard[variable]]!r}"
    zero = [repr(label) for label, value in zip(labels, evidence.soft[variable], strict=True) if value == 0]
    return f"{name!r} is not {' or '.join(zero)}"


def _listing(words: list[str]) -> str:
    return " and ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + " and " + words[-1]


Positions = NDArray[np.intp]


class Determined(NamedTuple):
    """A variable that has at most one possible state for every configuration of some others."""

    variable: int
    others: tuple[int, ...]
    factor: int  # position of the factor that says so


class Narrowing:
    """States that are left of variables, and where the factors that have zeros are positive among these."""

    def __init__(self, factors: Sequence[Factor], left: dict[int, Positions]) -> None:
        self.factors = factors
        self.left = left  # states of each variable, increasing; all of a variable that has not lost any may be left out
        self.supports: dict[int, NDArray[np.bool_]] = {}  # by factor
        self.touching: dict[int, list[tuple[int, int]]] = {}  # by variable, such factors and its axis there
        for f, (variables, log_values) in enumerate(factors):
            support = log_values > -np.inf
            if not np.logical_and.reduce(support, axis=None):  # without zeros it will never strike out anything
                self.supports[f] = support
                for axis, variable in enumerate(variables):
                    self.touching.setdefault(variable, []).append((f, axis))

    def copy(self) -> Narrowing:
        """One that can be narrowed further on its own."""
        other = copy(self)
        other.left, other.supports = self.left.copy(), self.supports.copy()
        return other

    def keep(self, variable: int, kept: Positions) -> list[tuple[int, int]]:
        """Leave some of the states that a variable has; the factors that this may concern, and its axis there."""
        self.left[variable] = self.left[variable][kept] if variable in self.left else kept
        concerned = self.touching.get(variable, [])
        for f, axis in concerned:
            self.supports[f] = self.supports[f].take(kept, axis=axis)
        return concerned

    def settle(self, changed: Iterable[int]) -> bool:
        """Strike out states without support, from these factors on until nothing changes; whether all have some left.

        A factor is looked at again when a variable of it has lost states: with every look at least one state goes, so
        the work is at most the sum over factors of size times number of states; most are looked at once or twice.
        """
        waiting = deque(changed)
        queued = set(waiting)
        while waiting:
            f = waiting.popleft()
            queued.discard(f)
            for axis, variable in enumerate(self.factors[f].variables):
                support = self.supports[f]
                seen = np.logical_or.reduce(support, axis=_others(support.ndim, axis))
                kept = seen.nonzero()[0]
                if kept.size == seen.size:
                    continue
                if not kept.size:
                    return False
                for g, _ in self.keep(variable, kept):
                    if g != f and g not in queued:  # f itself loses nothing that it supported
                        waiting.append(g)
                        queued.add(g)
        return True


def supported_states(factors: Sequence[Factor]) -> dict[int, Positions] | None:
    """Strike out states without support until nothing changes.

    For variables that lose states, those that are left, increasing; None where a variable loses all.
    """
    narrowing = Narrowing(factors, {})
    return narrowing.left if narrowing.settle(narrowing.supports) else None


def determined(factors: Sequence[Factor]) -> tuple[Determined, ...]:
    """Find variables that a factor's zeros make functions of its other variables, by factor.

    In a directed network, a node whose table holds only zeros and ones is such a function of its parents; evidence on
    a child can make parents functions of each other.  A sampler that changes one variable at a time cannot move such a
    variable, nor, as a rule, the others: they belong in one block.
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
