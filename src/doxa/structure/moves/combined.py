"""`Cycle`: several moves in turn, each for a number of steps.

Every move keeps the posterior, so taking them in turn does too, and each can do what the others cannot.  A turn should
last some hundred steps or more: changing over costs some 30 millionths of a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["Cycle"]


@dataclass(frozen=True)
class Cycle:
    """Moves taken in turn.

    Parameters
    ----------
    moves : sequence of (move, steps)
        Each for so many steps, then the next; after the last the first again.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no move, or a number of steps is not whole or below 1.

    Examples
    --------
    >>> from doxa.structure import MarkovBlanket, SingleEdge
    >>> Cycle([(SingleEdge(), 500), (MarkovBlanket(), 100)]).cycle_length(3)
    5400
    """

    moves: Sequence[tuple[Any, int]]

    name: ClassVar[str] = "cycle"

    def __post_init__(self) -> None:
        form = "it holds pairs (move, steps): [(SingleEdge(), 1000)]"
        if not isinstance(self.moves, Iterable):
            raise ArgumentTypeError(f"moves is {self.moves!r}; {form}")
        checked = []
        for entry in self.moves:
            if not isinstance(entry, Sequence) or len(entry) != 2 or not _is_move(entry[0]):
                raise ArgumentTypeError(f"moves holds {entry!r}; {form}")
            checked.append((entry[0], check_whole("steps", entry[1], 1)))
        if not checked:
            raise ArgumentError("moves is empty; give at least one pair (move, steps)")
        object.__setattr__(self, "moves", tuple(checked))

    @property
    def bias(self) -> str | None:
        """What is wrong with the answers of one of the moves, if something is."""
        return next((move.bias for move, _ in self.moves if move.bias is not None), None)

    @property
    def uses_table(self) -> bool:
        """Whether one of the moves draws from lists of parent sets."""
        return any(move.uses_table for move, _ in self.moves)

    def cycle_length(self, n_nodes: int) -> int:
        """Steps after which the kernel repeats itself: every move is at the beginning of its own cycle again."""
        own = ((move.cycle_length(n_nodes), steps) for move, steps in self.moves)
        rounds = (length // math.gcd(length, steps) for length, steps in own)
        return math.lcm(*rounds) * sum(steps for _, steps in self.moves)

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        n = len(work.local)
        while first < n_steps:
            number, rounds, within = self._turn(work.position + first)
            move, steps = self.moves[number]
            end = min(n_steps, first + steps - within)
            own = (rounds * steps + within) % move.cycle_length(n)
            done = move.advance(work._replace(position=own - first), first, end, rng)
            if done < end:
                return int(done)
            first = end
        return n_steps

    def _turn(self, position: int) -> tuple[int, int, int]:
        """Whose turn it is: number of the move, rounds done before, and steps done in this turn."""
        rounds, within = divmod(position, sum(steps for _, steps in self.moves))
        number = 0
        while within >= self.moves[number][1]:
            within -= self.moves[number][1]
            number += 1
        return number, rounds, within


def _is_move(value: object) -> bool:
    return hasattr(value, "advance") and not isinstance(value, type)
