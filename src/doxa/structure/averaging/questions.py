"""`Question`: what is asked of every network: an event or a column, what was seen, and what was set by intervention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from doxa.errors import ArgumentError
from doxa.structure.averaging.words import column_of, read_states

__all__ = ["Question", "read_question"]


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
    target: str | Mapping[str, str | int],
    given: Mapping[str, str | int] | None = None,
    do: Mapping[str, str | int] | None = None,
) -> Question:
    """Check a question.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a column or state is unknown, the target is empty or also given or set, or a column is both given and set.

    Examples
    --------
    >>> read_question(["rain", "wet"], [["no", "yes"]] * 2, {"wet": "yes"}, do={"rain": "no"})
    Question(target=(1,), event=(1,), given={}, do={0: 0}, labels=('wet=yes',))
    """
    seen = read_states("given", given, names, states)
    made = read_states("do", do, names, states)
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
        columns = read_states("target", target, names, states)
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
