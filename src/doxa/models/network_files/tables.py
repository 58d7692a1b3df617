"""`Rows`: the rows of one table as they stand in a file, and what makes distributions of them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.numbers import Numbers
from doxa.models.network_files.source import shown

__all__ = ["Rows", "finish"]

_THREE_DECIMALS = 5e-4  # what rounding to three decimals moves one number by, at most
_COARSEST = 0.01
_DEFAULT = -1  # in place of a configuration


@dataclass(slots=True)
class Rows:
    """Rows of P(child | parents)."""

    numbers: Numbers
    first: int = 0  # of the numbers, which may go on with those of other tables
    n: int | None = None  # numbers; all if left out
    configurations: array[int] | None = None  # of the parents, for each row; all of them in order if left out
    default: Numbers | None = None  # the row of all other configurations
    child_first: bool = False  # the numbers of the child's first state stand before those of its second


def finish(draft: Draft, tables: Mapping[str, Rows]) -> CategoricalNetwork:
    """Make the network; refuses rows that are not distributions.

    A row of n numbers may miss 1 by n/2 units of the third decimal, but not by more than 0.01, and is divided by its
    sum: three thirds are published as 0.333.  A row that misses it by rounding alone is left as it stands, so that what
    was written is what is read.
    """
    checked = {child: _check(draft, child, rows) for child, rows in tables.items()}
    # only now: a default may stand for a million rows
    return draft.finish({child: own.expanded(draft.n_configurations(child)) for child, own in checked.items()})


class _Checked(NamedTuple):
    matrix: NDArray[np.float64]
    configurations: array[int] | None
    default: NDArray[np.float64] | None

    def expanded(self, n_configurations: int) -> NDArray[np.float64]:
        """P(child | parents), shape (n_configurations, n_states)."""
        if self.configurations is None:
            return self.matrix
        table = np.zeros((n_configurations, self.matrix.shape[1]))
        if self.default is not None:
            table[:] = self.default
        table[self.configurations] = self.matrix
        return table


def _check(draft: Draft, child: str, rows: Rows) -> _Checked:
    written = _Written(draft, child, rows)
    written.check_configurations(complete=rows.default is None)
    default = None
    if rows.default is not None:
        alone = Rows(rows.default, configurations=array("q", [_DEFAULT]))
        default = _Written(draft, child, alone).distributions()
    return _Checked(written.distributions(), rows.configurations, default)


class _Written:
    """The rows of a table, and what is said of them."""

    def __init__(self, draft: Draft, child: str, rows: Rows) -> None:
        self._draft, self._child = draft, child
        self._rows, self._states = rows, draft.states[child]
        shape = (len(self._states), -1) if rows.child_first else (-1, len(self._states))
        self._matrix = rows.numbers.array(rows.first, rows.n).reshape(shape)
        if rows.child_first:
            self._matrix = self._matrix.T

    def check_configurations(self, *, complete: bool) -> None:
        """Refuse a second row of one configuration, and rows that are missing if they should not be."""
        if self._rows.configurations is None:
            return
        found, first = np.unique(self._rows.configurations, return_index=True)
        if len(found) < len(self._rows.configurations):
            again = int(np.setdiff1d(np.arange(len(self._rows.configurations)), first)[0])
            self._refuse(f"there is a second row for {shown(self._child)}{self._given(again)}; take one away", again)
        if complete and len(found) < self._draft.n_configurations(self._child):
            gap = np.flatnonzero(found != np.arange(len(found)))
            given = self._draft.given(self._child, int(gap[0]) if gap.size else len(found))
            place = self._draft.families[self._child].place
            self._draft.source.refuse(f"the table of {shown(self._child)} has no row{given}, and no default", place)

    def distributions(self) -> NDArray[np.float64]:
        """The rows, divided by their sums where these miss 1 by more than rounding."""
        n_states = len(self._states)
        with np.errstate(over="ignore"):
            sums = self._matrix.sum(axis=1)
            wrong = np.abs(sums - 1) > min(n_states * _THREE_DECIMALS, _COARSEST) + 1e-9
        bad = ~(self._matrix >= 0) | (self._matrix > 1 + _COARSEST)
        if bad.any():
            row, state = np.argwhere(bad)[0].tolist()
            which = f"the probability of {shown(self._child)} = {shown(self._states[state])}{self._given(row)}"
            number = self._matrix[row, state]
            self._refuse(f"{which} is {number:.9g}; probabilities are numbers from 0 to 1", row, state)
        if wrong.any():
            row = int(np.argmax(wrong))
            which = f"the probabilities of {shown(self._child)}{self._given(row)}"
            self._refuse(f"{which} sum to {sums[row]:.9g}; they must sum to 1", row)
        # dividing by the sum leaves n errors of at most eps/2 each, and adding them up again as many
        divisors = np.where(np.abs(sums - 1) <= n_states * np.finfo(np.float64).eps, 1.0, sums)
        return np.abs(self._matrix / divisors[:, None])  # abs: -0 is 0

    def _given(self, row: int) -> str:
        configuration = row if self._rows.configurations is None else self._rows.configurations[row]
        return " in the row 'default'" if configuration == _DEFAULT else self._draft.given(self._child, configuration)

    def _refuse(self, cause: str, row: int, state: int = 0) -> None:
        n_rows, n_states = self._matrix.shape
        number = state * n_rows + row if self._rows.child_first else row * n_states + state
        self._draft.source.refuse(cause, self._rows.numbers.place(self._rows.first + number))
