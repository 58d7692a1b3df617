"""`Question`: what is asked of every network: an event or a column, what was seen, and what was set by intervention.

Columns and states as users name them, with close matches where a name is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.data.bins import codes_of_numbers
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.evidence import place_of_state
from doxa.models.gaussian import check_number
from doxa.text import near

__all__ = [
    "Question",
    "column_of",
    "column_of_numbers",
    "number_of",
    "read_question",
    "read_states",
    "state_of",
]


def column_of(argument: str, name: object, names: Sequence[str]) -> int:
    """Position of a column."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{argument} names {name!r}; names of columns are text")
    if name not in names:
        raise ArgumentError(f"{argument} names {name!r}, which is not a column; {near(name, names)}")
    return names.index(name)


def state_of(label: str, state: object, states: Sequence[str], cuts: Sequence[float] | None = None) -> int:
    """Position of a state; a whole number stands for the label it is written as, and a number in a column with cuts for
    its bin.
    """
    if cuts is not None and state not in states:
        number = number_of(state)
        if number is not None:
            if math.isnan(number):
                raise ArgumentError(f"{label} is {state!r}; leave the column out where it was not seen")
            return int(codes_of_numbers(cuts, np.array([number]))[0])
    return place_of_state(label, state, states)


def number_of(value: object) -> float | None:
    """The number that a value is or is written as; None where it is neither.

    Examples
    --------
    >>> number_of("45.2"), number_of(45), number_of("[18, 40)"), number_of(True)
    (45.2, 45.0, None, None)
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, float, np.integer, np.floating)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def read_states(
    argument: str,
    given: Any,
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    cuts: Mapping[str, Sequence[float]] | None = None,
) -> dict[int, Any]:
    """Positions of columns and of states, from ``{column: state}``; of columns with cuts also from numbers.

    Of a column without states, which holds numbers, the number.

    Examples
    --------
    >>> read_states("given", {"wet": "yes"}, ["rain", "wet"], [["no", "yes"]] * 2)
    {1: 1}
    >>> read_states("given", {"age": 45.2}, ["age"], [["< 18", ">= 18"]], {"age": (18.0,)})
    {0: 1}
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        what = "states" if all(states) else "numbers and states"
        raise ArgumentTypeError(f"{argument} is {given!r}; give a mapping of columns to {what}")
    found: dict[int, Any] = {}
    for name, value in given.items():
        j, label = column_of(argument, name, names), f"{argument}[{name!r}]"
        found[j] = (
            state_of(label, value, states[j], (cuts or {}).get(name)) if states[j] else check_number(label, value)
        )
    return found


class Question(NamedTuple):
    """A question, by positions."""

    target: tuple[int, ...]  # columns
    event: tuple[int, ...] | None  # their states; None: all states of one column
    given: dict[int, int]
    do: dict[int, int]
    labels: tuple[str, ...]  # what the probabilities are of: states of the column, or the event in words


def read_question(
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    target: str | Mapping[str, str | float],
    given: Mapping[str, str | float] | None = None,
    do: Mapping[str, str | float] | None = None,
    cuts: Mapping[str, Sequence[float]] | None = None,
) -> Question:
    """Check a question; ``cuts`` are those of columns that were cut into bins, of which numbers may be named.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a column or state is unknown, the target is empty or also given or set, or a column is both given and set.

    Examples
    --------
    >>> read_question(["rain", "wet"], [["no", "yes"]] * 2, {"wet": "yes"}, do={"rain": "no"})
    Question(target=(1,), event=(1,), given={}, do={0: 0}, labels=('wet=yes',))
    """
    seen = read_states("given", given, names, states, cuts)
    made = read_states("do", do, names, states, cuts)
    for j, state in made.items():
        if j in seen and seen[j] != state:
            raise ArgumentError(
                f"given says that {names[j]!r} is {states[j][seen[j]]!r} and do sets it to {states[j][state]!r}; these "
                "contradict each other: leave out one of them"
            )
        if j in seen:
            raise ArgumentError(
                f"{names[j]!r} is in given and in do; what is set by intervention is seen as well: leave it out of "
                "given"
            )
    if isinstance(target, str):
        columns, event = {column_of("target", target, names): 0}, None
    else:
        columns = read_states("target", target, names, states, cuts)
        event = tuple(columns.values())
        if not columns:
            raise ArgumentError("target is empty; name a column, or columns and their states")
    for j in columns:
        for argument, known in (("given", seen), ("do", made)):
            if j in known:
                raise ArgumentError(
                    f"target {names[j]!r} is also in {argument}, where it is {states[j][known[j]]!r}; "
                    "leave it out there"
                )
    if event is None:
        labels = tuple(states[next(iter(columns))])
    else:
        labels = (", ".join(f"{names[j]}={states[j][k]}" for j, k in columns.items()),)
    return Question(tuple(columns), event, seen, made, labels)


def column_of_numbers(rows: Table, k: int) -> NDArray[np.float64]:
    """Values of a column; of few different numbers, which were read as categories, by their labels."""
    if not rows.states[k]:
        assert rows.numbers is not None  # the column holds some
        return np.asarray(rows.numbers[rows.row_index, k])
    try:
        values = np.array([*map(float, rows.states[k]), np.nan])
    except ValueError:
        raise ArgumentError(
            f"rows has {rows.states[k][0]!r} in column {rows.names[k]!r}, which holds numbers; give numbers"
        ) from None
    return np.asarray(values[rows.codes[rows.row_index, k]])
