"""Columns that a table does not have and an analysis declares: whether a cell is missing, and what nobody saw.

An *indicator* says of every row whether a cell is missing there.  Where cells are missing at random it adds nothing; it
is for columns whose absence may itself tell something (a test that is only made of the ill).  Whether cells are absent
because of what they hold no table can tell: `own_absence` lists these edges.  A *hidden* column is missing in every
row: a cause that was not measured, with a number of states that the user chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.options import near
from doxa.data.table import MAX_STATES, Table, plain
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["declared", "extended", "own_absence", "with_hidden", "with_indicators"]


def declared(table: Table, indicator: Iterable[str] = (), hidden: Mapping[str, int] | None = None) -> Table:
    """A table with the columns that are declared; those that it has by these names already are left alone."""
    new = [name for name in _names("indicator", indicator) if _indicator_of(name) not in table.names]
    made = with_indicators(table, new)
    return made if hidden is None or hidden == {} else with_hidden(made, hidden)


def own_absence(indicator: Iterable[str]) -> list[tuple[str, str]]:
    """Edges between columns and the indicators of their own absence, in both directions.

    Where the indicator says ``yes`` the column's value is never seen, so a posterior of such an edge rests on the prior
    and on completions between which chains pass with difficulty.
    """
    pairs = [(name, _indicator_of(name)) for name in _names("indicator", indicator)]
    return [edge for column, absent in pairs for edge in ((column, absent), (absent, column))]


def with_indicators(table: Table, columns: Iterable[str]) -> Table:
    """The table with a column ``"<name> is missing"`` of states ``no`` and ``yes`` for each of some columns."""
    names = _names("indicator", columns)
    added, labels = [], []
    for name in names:
        if name not in table.names:
            raise ArgumentError(f"indicator names {name!r}, which is not a column{near(name, table.names)}")
        missing = table.codes[:, table.names.index(name)] < 0
        if not missing.any():
            raise ArgumentError(f"indicator names {name!r}, which has no missing cell; leave it out of indicator=")
        if missing.all():
            raise ArgumentError(
                f"indicator names {name!r}, which is missing in every row: its absence distinguishes nothing"
            )
        added.append(missing.astype(np.int16))
        labels.append(("no", "yes"))
    return extended(table, "indicator", [_indicator_of(name) for name in names], labels, added)


def with_hidden(table: Table, hidden: Mapping[str, int]) -> Table:
    """The table with columns that are missing in every row, of states ``"0"``, ``"1"``, ..., by name and number of
    states.

    A column of the table that has nothing but missing cells may be named too, and gets its states.
    """
    if not isinstance(hidden, Mapping):
        raise ArgumentTypeError(f"hidden is {hidden!r}; it maps names to numbers of states: hidden={{'cause': 2}}")
    for name, n_states in hidden.items():
        if not isinstance(n_states, int) or isinstance(n_states, bool):
            raise ArgumentTypeError(f"hidden[{name!r}] is {n_states!r}; it must be a whole number of states")
        if not 2 <= n_states <= MAX_STATES:
            raise ArgumentError(f"hidden[{name!r}] is {n_states}; a hidden column has 2 to {MAX_STATES} states")
    names = _names("hidden", hidden)
    labels = {name: tuple(map(str, range(hidden[name]))) for name in names}
    there = [name for name in names if name in table.names]
    for name in there:
        if (table.codes[:, table.names.index(name)] >= 0).any():
            raise ArgumentError(f"hidden names {name!r}, a column that has values; give the hidden column another name")
    states = tuple(labels.get(name, own) for name, own in zip(table.names, table.states, strict=True))
    new = [name for name in names if name not in table.names]
    empty = np.full(table.n_distinct, -1, dtype=np.int16)
    return extended(replace(table, states=states), "hidden", new, [labels[name] for name in new], [empty] * len(new))


def _indicator_of(name: str) -> str:
    return f"{name} is missing"


def _names(argument: str, names: Any) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentTypeError(f"{argument} is {names!r}; give names of columns in a list")
    found = list(names)
    for name in found:
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"{argument} holds {name!r}; a column's name is a text that is not empty")
        if found.count(name) > 1:
            raise ArgumentError(f"{argument} names {name!r} twice")
    return [plain(name) for name in found]


def extended(
    table: Table,
    argument: str,
    names: Sequence[str],
    states: Sequence[tuple[str, ...]],
    columns: Sequence[NDArray[np.int16]],
) -> Table:
    """The table with more columns of categories, a code for each distinct row; ``argument`` asked for them."""
    for name in names:
        if name in table.names:
            raise ArgumentError(f"{argument} would add the column {name!r}, and there is one; rename that")
    if not names:
        return table
    codes = np.ascontiguousarray(np.column_stack([table.codes, *columns]), dtype=np.int16)
    codes.setflags(write=False)
    numbers = table.numbers
    if numbers is not None:
        numbers = np.column_stack([numbers, np.full((len(codes), len(names)), np.nan)])
        numbers.setflags(write=False)
    return replace(table, names=(*table.names, *names), states=(*table.states, *states), codes=codes, numbers=numbers)
