"""Evidence of probability zero: the error, and the search for a small set of observations that conflict.

A set is *minimal* when it conflicts and no part of it does.  Deleting one observation after another, each for good if
the others still conflict, always ends in such a set; smaller ones may exist, and where there are few to try they are
tried.  What is possible says an oracle, which must be monotone: what is impossible stays so with more evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from math import comb

from doxa.errors import ArgumentError
from doxa.models.evidence import Evidence
from doxa.models.factors import DiscreteNetwork

__all__ = ["ImpossibleEvidenceError", "impossible", "minimal_conflict"]

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
    """Make the error that says which observations conflict.

    Parameters
    ----------
    network : DiscreteNetwork
    evidence : Evidence
        Of probability zero, as far as ``is_possible`` can tell.
    is_possible : callable
        False where evidence, a part of the one above, is known to have probability zero: by propagation, or by a log
        evidence of -inf.

    Returns
    -------
    ImpossibleEvidenceError
        To be raised.

    Examples
    --------
    >>> from doxa.models.markov import MarkovNetwork
    >>> network = MarkovNetwork({"a": ["0", "1"], "b": ["0", "1"]}, [])
    >>> evidence = Evidence({0: 1, 1: 0}, {})
    >>> print(impossible(network, evidence, lambda part: len(part.hard) < 2))
    given says that 'a' is '1' and 'b' is '0', which have probability 0 together; leave out one of them
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
    """Find a set of items that is not possible though each of its parts is; of the least size where few need trying.

    Parameters
    ----------
    items : iterable of int
        Not possible together.
    is_possible : callable
        Of a tuple of items, in the order of ``items``; monotone.

    Returns
    -------
    tuple of int
        In the order of ``items``.

    Examples
    --------
    >>> minimal_conflict(range(6), lambda part: not {1, 4} <= set(part))
    (1, 4)
    """
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
