"""The moves by name: ``sampler="..."`` to an object, and a move to plain settings and back, for run files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from doxa.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from doxa.sampling.runner import Sampler
    from doxa.structure.families.cache import FamilyScores
    from doxa.structure.limits import Limits
    from doxa.structure.moves.sampler import StructureMove

__all__ = ["MOVES", "check_move", "move_from_settings", "move_settings", "sampler_of"]


_STEPS_A_SWAP = 1000  # between two offers of places: fewer and calls from Python cost more than the steps

_CLASSES = {
    "auto": "Auto",
    "single_edge": "SingleEdge",
    "edge_gibbs": "EdgeGibbs",
    "emc3": "EMC3",
    "markov_blanket": "MarkovBlanket",
    "parent_set_gibbs": "ParentSetGibbs",
    "edge_reversal": "EdgeReversal",
    "tempered": "Tempered",
    "cycle": "Cycle",
    "exact": "Exact",
}


class _Moves(Mapping[str, type[Any]]):
    """Each move's class under its name, imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Any]:
        kind = _CLASSES[name]  # first: a name from a file must be ours before anything is imported by it
        module = "combined" if name == "cycle" else name
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
    if isinstance(sampler, type) or not hasattr(sampler, "advance"):
        raise ArgumentTypeError(
            f"sampler is {sampler!r}; it must be a name ({', '.join(map(repr, named))}) or a move such as SingleEdge()"
        )
    return sampler


def sampler_of(move: StructureMove, scores: FamilyScores, limits: Limits, thin: int) -> Sampler[Any]:
    """The sampler that runs a move on data."""
    from doxa.structure.moves.auto import Auto
    from doxa.structure.moves.escalation import EscalatingSampler
    from doxa.structure.moves.sampler import StructureSampler
    from doxa.structure.moves.tempered import Tempered

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
    >>> from doxa.structure.moves.emc3 import EMC3
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
        if name == "cycle":
            given["moves"] = [(move_from_settings(part), steps) for part, steps in given["moves"]]
        elif name == "tempered":
            given["move"] = move_from_settings(given["move"])
        made: StructureMove = MOVES[name](**given)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ArgumentError(f"the run's sampler cannot be made again: {error}") from error
    return made


def _as_lists(value: Any) -> Any:
    """JSON has lists, not tuples."""
    return [_as_lists(item) for item in value] if isinstance(value, (tuple, list)) else value
