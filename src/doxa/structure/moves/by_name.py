"""The moves by name: ``sampler="..."`` to an object, and a move to plain settings and back, for run files.

And two that are made of others or stand in the place of one.

`Cycle`: several moves in turn, each for a number of steps.

Every move keeps the posterior, so taking them in turn does too, and each can do what the others cannot.  A turn should
last some hundred steps or more: changing over costs some 30 millionths of a second.

`Exact`: what stands in the place of a move where graphs were summed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.schema import By, Many, Within, made_of_fields

if TYPE_CHECKING:
    import numpy as np

    from doxa.sampling.runner import Sampler
    from doxa.structure.families.cache import FamilyScores
    from doxa.structure.limits import Limits
    from doxa.structure.moves.sampler import StructureMove

__all__ = ["MOVES", "Cycle", "Exact", "check_move", "move_from_settings", "move_settings", "sampler_of"]


_STEPS_A_SWAP = 1000  # between two offers of places: fewer and calls from Python cost more than the steps

_CLASSES = {  # module and class
    "auto": ("auto", "Auto"),
    "single_edge": ("single_edge", "SingleEdge"),
    "edge_gibbs": ("gibbs", "EdgeGibbs"),
    "emc3": ("single_edge", "EMC3"),
    "markov_blanket": ("markov_blanket", "MarkovBlanket"),
    "parent_set_gibbs": ("gibbs", "ParentSetGibbs"),
    "edge_reversal": ("edge_reversal", "EdgeReversal"),
    "tempered": ("tempered", "Tempered"),
    "cycle": ("by_name", "Cycle"),
    "exact": ("by_name", "Exact"),
}


class _Moves(Mapping[str, type[Any]]):
    """Each move's class under its name, imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Any]:
        module, kind = _CLASSES[name]  # first: a name from a file must be ours before anything is imported by it
        found: type[Any] = getattr(import_module(f"doxa.structure.moves.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


MOVES = _Moves()


def check_move(sampler: str | StructureMove) -> StructureMove:
    """The move that ``sampler=`` means.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If it is neither a name nor a move.
    """
    named = [name for name in MOVES if name not in ("cycle", "exact")]
    if isinstance(sampler, str):
        if sampler not in named:
            raise ArgumentError(f"sampler is {sampler!r}; it must be one of {', '.join(map(repr, named))}")
        made: StructureMove = MOVES[sampler]()
        return made
    if not _is_move(sampler):
        raise ArgumentTypeError(
            f"sampler is {sampler!r}; it must be a name ({', '.join(map(repr, named))}) or a move such as SingleEdge()"
        )
    return sampler


def sampler_of(move: StructureMove, scores: FamilyScores, limits: Limits, thin: int) -> Sampler[Any]:
    """The sampler that runs a move on data."""
    from doxa.structure.moves.auto import Auto
    from doxa.structure.moves.sampler import StructureSampler
    from doxa.structure.moves.tempered import EscalatingSampler, Tempered

    if isinstance(move, Tempered):
        return move.sampler(scores, limits, thin)
    sampler = StructureSampler(move, scores, limits, thin)
    return EscalatingSampler((sampler,), thin, max(1, _STEPS_A_SWAP // thin)) if isinstance(move, Auto) else sampler


def move_settings(move: StructureMove) -> dict[str, Any]:
    """A move as plain data.

    Raises
    ------
    ArgumentError
        If the move is not one of doxa's own: another could not be made again from a file.

    Examples
    --------
    >>> from doxa.structure.moves.single_edge import EMC3
    >>> move_settings(EMC3())
    {'name': 'emc3', 'covered_arc_reversals': 10, 'published': False}
    """
    if MOVES.get(move.name) is not type(move):
        raise ArgumentError(f"sampler is {move!r}; only doxa's own samplers can be kept in a run file")
    settings: dict[str, Any] = {"name": move.name}
    for field in dataclasses.fields(move):  # type: ignore[arg-type]
        value = getattr(move, field.name)
        if move.name == "cycle":
            value = [[move_settings(part), steps] for part, steps in value]
        elif move.name == "tempered" and field.name == "move":
            value = move_settings(value)
        settings[field.name] = _as_lists(value)
    return settings


def move_from_settings(settings: Any) -> StructureMove:
    """Undo `move_settings`.

    Raises
    ------
    ArgumentError
        If it is not what `move_settings` returns.
    """
    name = settings.get("name") if isinstance(settings, dict) else None
    if not isinstance(name, str) or name not in MOVES:
        raise ArgumentError(f"the run uses the sampler {name!r}, which this version does not know")
    given = {field: value for field, value in settings.items() if field != "name"}
    try:
        made: StructureMove = made_of_fields(MOVES[name], given, "the run's sampler")
    except RecursionError:
        raise ArgumentError("the run's sampler is of moves in moves, too many to be followed") from None
    return made


def _as_lists(value: Any) -> Any:
    """JSON has lists, not tuples."""
    return [_as_lists(item) for item in value] if isinstance(value, (tuple, list)) else value


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
    _in_file: ClassVar[dict[str, Any]] = {
        "moves": Annotated[
            tuple[tuple[Annotated[Any, By(move_from_settings)], Annotated[int, Within(1, 2**40)]], ...], Many(1, 1000)
        ]
    }

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


@dataclass(frozen=True)
class Exact:
    """Takes the place of a sampler in a posterior that was summed and not sampled."""

    name: ClassVar[str] = "exact"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = False

    def cycle_length(self, n_nodes: int) -> int:  # noqa: ARG002
        """Nothing is repeated."""
        return 1

    def advance(self, *_: Any) -> int:
        """Refuse: independent draws have no next step."""
        raise ArgumentError("sampler is Exact(), whose draws are independent; choose another to go on, or exact=True")
