"""`Interventions`: what somebody did in the rows of a table, and the table that knows it.

A column of the table, or a mapping from its rows, names what was done in each row.  Where it names columns, their cells
were *set*, or, where an intervention is said to be imperfect, came about in a *changed* way.  Where nobody knows what
an intervention acts on, it becomes a column of its own, whose children are learned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.declared import extended
from doxa.data.options import near
from doxa.data.table import Table, collapsed
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.schema import Within, made_of_fields

__all__ = ["Interventions", "intervention_columns", "with_interventions"]

_WAY = "interventions='column', or interventions={row: 'name'}"


@dataclass(frozen=True)
class Interventions:
    """What was done in which rows, as a caller says it and a run file keeps it.

    Parameters
    ----------
    where : str or tuple of (row, names)
        The column that names it, or the rows of the source, from 0, with what was done in each.
    imperfect : bool or tuple of str, default=False
        Whether interventions change how a column comes about without setting it; or the columns for which they do.
    uncertain : bool, default=False
        Whether the names are of interventions whose targets are to be learned.
    """

    where: str | tuple[tuple[Annotated[int, Within(0)], tuple[str, ...]], ...]
    imperfect: bool | tuple[str, ...] = False
    uncertain: bool = False

    @classmethod
    def of(cls, interventions: Any, imperfect: Any = False, uncertain: Any = False) -> Interventions | None:
        """Check what `doxa.learn` was given; None where it was given nothing.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If something is of the wrong type, or options contradict each other.
        """
        if not isinstance(imperfect, bool):
            imperfect = _names("imperfect", imperfect)
        if not isinstance(uncertain, bool):
            raise ArgumentTypeError(f"uncertain_targets is {uncertain!r}; it must be True or False")
        if interventions is None:
            for name, value in (("imperfect", imperfect), ("uncertain_targets", uncertain)):
                if value:
                    raise ArgumentError(f"{name} is given without interventions; say where they were: {_WAY}")
            return None
        if imperfect and uncertain:
            raise ArgumentError(
                "imperfect and uncertain_targets are both given; an intervention of which the targets are learned "
                "changes them without setting them in any case: leave imperfect out"
            )
        if isinstance(interventions, str):
            return cls(interventions, imperfect, uncertain)
        if not isinstance(interventions, Mapping):
            raise ArgumentTypeError(f"interventions is {interventions!r}; give a column or a mapping: {_WAY}")
        rows = []
        for row, names in interventions.items():
            if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or row < 0:
                raise ArgumentError(f"interventions has the row {row!r}; rows are whole numbers from 0")
            rows.append((int(row), _names(f"interventions[{row}]", [names] if isinstance(names, str) else names)))
        return cls(tuple(sorted(rows)), imperfect, uncertain)

    @property
    def text(self) -> str:
        """In words."""
        where = f"named in {self.where!r}" if isinstance(self.where, str) else f"in {len(self.where)} rows"
        how = "; what they act on is learned" if self.uncertain else ""
        if self.imperfect:
            of = f" of {', '.join(self.imperfect)}" if isinstance(self.imperfect, tuple) else ""
            how = f"; they change how the columns{of} come about"
        return where + how

    def to_json(self) -> dict[str, Any]:
        """Plain data, for run files."""
        where = self.where if isinstance(self.where, str) else [[row, list(names)] for row, names in self.where]
        imperfect = self.imperfect if isinstance(self.imperfect, bool) else list(self.imperfect)
        return {"where": where, "imperfect": imperfect, "uncertain": self.uncertain}

    @classmethod
    def from_stored(cls, stored: Any, where: str) -> Interventions:
        """Undo `to_json`, trusting nothing; `ArgumentError` where it is something else."""
        asked = made_of_fields(cls, stored, where)
        made = cls.of(
            asked.where if isinstance(asked.where, str) else dict(asked.where), asked.imperfect, asked.uncertain
        )
        assert made is not None  # where is no None
        return made


def with_interventions(table: Table, done: Interventions | None) -> Table:
    """The table that knows what was done in its rows; the column that says so is left out.

    A table that knows it already is left alone.

    Raises
    ------
    ArgumentError
        If a column is unknown or holds numbers, a row is none of the table's, or a cell that was set is missing.
    """
    if done is None or table.interventions is not None or _has_columns(table, done):
        return table
    named, column, labels = _named(table, done)
    others = [name for name in named.names if name != column]
    of_row = named.codes[:, named.names.index(column)] + 1
    if done.uncertain:
        each = list(dict.fromkeys(name for names in labels for name in names))
        codes = [np.array([name in names for names in labels], dtype=np.int16)[of_row] for name in each]
        made = [_PREFIX + name for name in each]
        states = [("no", "yes")] * len(each)
        return extended(named, "interventions", made, states, codes).select([*others, *made])
    kinds = np.zeros((len(labels), len(others)), dtype=np.int8)
    changed = others if done.imperfect is True else list(done.imperfect or ())
    for k, names in enumerate(labels):
        for name in names:
            if name not in others:
                raise ArgumentError(
                    f"interventions names {name!r}, which is not a column{near(name, others)}; if it is an "
                    "intervention whose targets are to be learned, say uncertain_targets=True"
                )
            kinds[k, others.index(name)] = 1 if name in changed else -1
    if done.imperfect is not True:
        _check_imperfect(changed, others, kinds)
    cells = np.zeros(named.codes.shape, dtype=np.int8)
    cells[:, [named.names.index(name) for name in others]] = kinds[of_row]
    unseen = np.argwhere((cells == -1) & (named.codes < 0))
    if len(unseen):
        row, j = unseen[0].tolist()
        which = f"row {int(np.argmax(named.row_index == row))}" if named.has_row_order else "a row"
        raise ArgumentError(
            f"interventions says that {named.names[j]!r} was set in {which}, where its cell is missing; fill in the "
            f"value that it was set to, or take {named.names[j]!r} out there"
        )
    return replace(named, interventions=cells).select(others)


def _check_imperfect(changed: Sequence[str], names: Sequence[str], kinds: NDArray[np.int8]) -> None:
    for name in changed:
        if name not in names:
            raise ArgumentError(f"imperfect names {name!r}, which is not a column{near(name, names)}")
        if not (kinds[:, names.index(name)] == 1).any():
            raise ArgumentError(f"imperfect names {name!r}, on which no row has an intervention; take it out")


def intervention_columns(table: Table, done: Interventions | None) -> list[str]:
    """The columns that stand for interventions whose targets are learned; nothing leads to them."""
    if done is None or not done.uncertain:
        return []
    return [name for name in table.names if name.startswith(_PREFIX)]


_PREFIX = "intervention: "


def _has_columns(table: Table, done: Interventions) -> bool:
    return done.uncertain and any(name.startswith(_PREFIX) for name in table.names)


def _named(table: Table, done: Interventions) -> tuple[Table, str, list[tuple[str, ...]]]:
    """The table with a column that says what was done, its name, and what its codes stand for, from -1 on."""
    if isinstance(done.where, str):
        if done.where not in table.names:
            raise ArgumentError(
                f"interventions is {done.where!r}, which is not a column{near(done.where, table.names)}"
            )
        states = table.states[table.names.index(done.where)]
        if not states:
            raise ArgumentError(
                f"interventions is {done.where!r}, a column of numbers; its cells name columns, and are empty where "
                "nothing was done"
            )
        if table.n_columns < 3:
            raise ArgumentError(f"beside {done.where!r}, the column of interventions, the table needs two columns")
        return table, done.where, [(), *(_split(label, table.names) for label in states)]
    rows = table.row_index
    late = [row for row, _ in done.where if row >= len(rows)]
    if late:
        raise ArgumentError(f"interventions has the row {late[0]}, and the table has {len(rows)} rows, from 0 on")
    number: dict[tuple[str, ...], int] = {(): -1}
    codes = np.full(len(rows), -1, dtype=np.int16)
    for row, names in done.where:
        codes[row] = number.setdefault(names, len(number) - 1)
    column = "interventions"
    while column in table.names:
        column += "_"
    numbers = (
        {} if table.numbers is None else {j: table.numbers[rows, j] for j in np.flatnonzero(table.is_number).tolist()}
    )
    made = collapsed(
        (*table.names, column),
        (*table.states, tuple(map(str, range(len(number) - 1)))),
        [*(table.codes[rows, j] for j in range(table.n_columns)), codes],
        numbers=numbers,
        cuts=table.cuts,
        measured=table.measured,
        transforms=table.transforms,
    )
    return made, column, list(number)


def _split(label: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names in a cell: one, or several between commas or semicolons."""
    if label in names:
        return (label,)
    return tuple(dict.fromkeys(part.strip() for part in re.split("[,;]", label) if part.strip()))


def _names(argument: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentTypeError(f"{argument} is {names!r}; give names of columns in a list")
    found = tuple(names)
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise ArgumentTypeError(f"{argument} has {wrong[0]!r}; columns are named by text")
    return tuple(dict.fromkeys(found))
