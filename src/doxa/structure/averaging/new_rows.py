"""New rows for prediction: read, and coded as the table was that the posterior was learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.data.coding import EmptyColumnsError
from doxa.data.read import read_without_empty
from doxa.errors import ArgumentError
from doxa.structure.averaging.words import near

__all__ = ["NewRows", "extended", "read_rows"]


class NewRows(NamedTuple):
    """Distinct rows in the codes of the table they are held against."""

    codes: NDArray[np.int64]  # (n_distinct, n_columns); -1 missing; n_states of the column where the state is new
    row_index: NDArray[np.integer]  # (n_rows,): the distinct row of each row


def read_rows(rows: Any, names: Sequence[str], states: Sequence[Sequence[str]], unseen: str = "error") -> NewRows:
    """Code rows.

    Parameters
    ----------
    rows : Table, data frame or path
        Columns that are not there, or all missing, are missing in every row.
    names, states
        Of the table that the posterior was learned from.
    unseen : str
        ``"error"`` or ``"prior"``: what to do about a state that the table does not have.

    Raises
    ------
    ArgumentError
        If a column is unknown, or a state is and ``unseen`` is "error"; close matches are suggested.
    """
    if unseen not in ("error", "prior"):
        raise ArgumentError(f"unseen is {unseen!r}; it must be 'error' or 'prior'")
    table = rows if isinstance(rows, Table) else _read(rows)
    for name in table.names:
        if name not in names:
            raise ArgumentError(
                f"rows has the column {name!r}, which the posterior does not know; {near(name, names)}; leave it out"
            )
    codes = np.full((table.n_distinct, len(names)), -1, dtype=np.int64)
    for j, name in enumerate(table.names):
        column = names.index(name)
        known = list(states[column])
        places = []
        for k, label in enumerate(table.states[j]):
            if label not in known and unseen == "error" and (table.codes[:, j] == k).any():
                raise ArgumentError(
                    f"rows has {label!r} in column {name!r}, a state that the posterior was not learned with; "
                    f"{near(label, known)}; unseen='prior' gives it the prior's share"
                )
            places.append(known.index(label) if label in known else len(known))
        codes[:, column] = np.array([*places, -1])[table.codes[:, j]]
    return NewRows(codes, table.row_index)


def extended(table: Table, columns: Sequence[int]) -> Table:
    """The table with one more state in some columns, in which no row is."""
    states = [list(labels) for labels in table.states]
    for j in columns:
        label = "(unseen)"
        while label in states[j]:
            label += "'"
        states[j].append(label)
    return Table.from_codes(table.names, states, table.codes, table.counts)


def _read(rows: Any) -> Table:
    try:
        return read_without_empty(rows)
    except EmptyColumnsError:
        raise ArgumentError("rows has no cell that is observed; give at least one") from None
