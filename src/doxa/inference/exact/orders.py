"""Elimination orders: which variable to sum out next, by what the table made on the way would cost.

Summing out a variable multiplies all tables that hold it, so its neighbours become neighbours of each other.  The
*weight* of a variable is the number of states that it and its neighbours have together: the operations that summing
it out costs.  Taking the least weight first (Kjaerulff 1990) is fast, and hard to beat on networks; long regular
networks, such as grids, are better summed out as they are numbered; and small random changes of the weights find
another order, often a better one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

__all__ = ["TooWideError", "candidates", "eliminate"]

Score = Callable[[int, int], float]  # of a variable and its weight; least first

_TEMPERATURE = 0.3  # of the random changes, in bits; 0.1 to 0.6 do as well


class TooWideError(Exception):
    """An order would need a step of too many operations."""

    def __init__(self, operations: int) -> None:
        super().__init__(operations)
        self.operations = operations  # of that step


def candidates(n_states: Sequence[int]) -> Iterator[Score]:
    """Scores to try, in this order, without end."""
    yield lambda _, weight: weight
    yield lambda variable, _: variable
    for seed in count():
        yield _perturbed(n_states, seed)


def _perturbed(n_states: Sequence[int], seed: int) -> Score:
    """The logarithm of the weight, or for every other seed of what is left of it once summed, with Gumbel noise."""
    rng = random.Random(seed)  # noqa: S311 (its stream is the same in every version of Python)
    logs = [math.log2(size) * (seed % 2) for size in n_states]

    def score(variable: int, weight: int) -> float:
        noise = -math.log(-math.log(rng.random() or 0.5))
        return math.log2(weight) - logs[variable] - _TEMPERATURE * noise

    return score


def eliminate(
    n_states: Sequence[int], scopes: Sequence[Sequence[int]], keep: Sequence[int], score: Score, most: int
) -> list[int]:
    """Order the variables by taking the one of least score again and again.

    Parameters
    ----------
    n_states : sequence of int
        Of every variable.
    scopes : sequence of sequence of int
        Variables of every factor.
    keep : sequence of int
        Variables not to sum out.
    score : callable
        See `candidates`.
    most : int
        Weight that no variable may have when it is its turn.

    Raises
    ------
    TooWideError
        If one has.

    Examples
    --------
    >>> eliminate((2, 2, 2), [(0, 1), (0, 2)], [], lambda variable, weight: weight, 100)
    [1, 0, 2]
    """
    near: dict[int, set[int]] = {}
    for scope in scopes:
        for variable in scope:
            near.setdefault(variable, set()).update(scope)
    weights = {variable: math.prod([n_states[other] for other in others]) for variable, others in near.items()}
    for variable, others in near.items():
        others.discard(variable)
    left = dict.fromkeys(sorted(set(near).difference(keep)))
    heap = [(score(variable, weights[variable]), variable, weights[variable]) for variable in left]
    heapify(heap)
    order = []
    while heap:
        _, variable, weight = heappop(heap)
        if variable not in left or weight != weights[variable]:
            continue  # its weight has changed since
        if weight > most:
            raise TooWideError(weight)
        del left[variable]
        order.append(variable)
        clique = near.pop(variable)
        for other in clique:
            theirs = near[other]
            weight = weights[other] // n_states[variable]
            for new in clique - theirs:
                if new != other:
                    weight *= n_states[new]
            theirs |= clique
            theirs.discard(other)
            theirs.discard(variable)
            if weight != weights[other]:
                weights[other] = weight
                if other in left:
                    heappush(heap, (score(other, weight), other, weight))
    return order
