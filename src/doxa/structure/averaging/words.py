"""Columns and states as users name them, with close matches where a name is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["column_of", "near", "read_states", "state_of"]


def near(word: str, known: Sequence[str]) -> str:
    """Words that look alike, else the first few of what is known.

    Examples
    --------
    >>> near("Smoke", ["smoke", "phys"]), near("x", ["smoke", "phys"])
    ("close to it is 'smoke'", "there are 'smoke', 'phys'")
    """
    folded = {name.casefold(): name for name in reversed(known)}
    found = get_close_matches(word.casefold(), folded, n=3, cutoff=0.6)
    if found:
        return f"close to it {'is' if len(found) == 1 else 'are'} {', '.join(repr(folded[name]) for name in found)}"
    more = f", ... {len(known) - 8} more" if len(known) > 8 else ""
    return f"there are {', '.join(map(repr, known[:8]))}{more}"


def column_of(argument: str, name: object, names: Sequence[str]) -> int:
    """Position of a column."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{argument} names {name!r}; names of columns are text")
    if name not in names:
        raise ArgumentError(f"{argument} names {name!r}, which is not a column; {near(name, names)}")
    return names.index(name)


def state_of(label: str, state: object, states: Sequence[str]) -> int:
    """Position of a state; a whole number stands for the label it is written as."""
    if isinstance(state, (bool, np.bool_)) or not isinstance(state, (str, int, np.integer)):
        raise ArgumentTypeError(f"{label} is {state!r}; give the label of a state, such as {states[0]!r}")
    word = str(state)
    if word not in states:
        raise ArgumentError(f"{label} is {state!r}, which is not one of its states; {near(word, states)}")
    return states.index(word)


def read_states(argument: str, given: Any, names: Sequence[str], states: Sequence[Sequence[str]]) -> dict[int, int]:
    """Positions of columns and states from ``{column: state}``.

    Examples
    --------
    >>> read_states("given", {"wet": "yes"}, ["rain", "wet"], [["no", "yes"]] * 2)
    {1: 1}
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{argument} is {given!r}; give a mapping of columns to states")
    found = {}
    for name, state in given.items():
        j = column_of(argument, name, names)
        found[j] = state_of(f"{argument}[{name!r}]", state, states[j])
    return found
