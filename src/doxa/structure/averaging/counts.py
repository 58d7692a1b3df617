r"""Counts of families in the completed table of every draw.

A complete table is the same in all draws.  With missing cells a draw has states for them too, and only the rows in
which the family itself has a missing cell are counted anew for each draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.data import Table
from doxa.data.large.table import OutOfCoreTable
from doxa.data.table import check_categories
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.families.kind import FamilyKind, FamilyParameters, Stream
from doxa.structure.families.tables import cell_index

if TYPE_CHECKING:
    from doxa.structure.families.logistic.parameters import LogisticFamily

__all__ = ["CompletedTable", "Family", "FamilyOverCompletions", "parameter_prior"]


def parameter_prior(score: FamilyKind, prior: FamilyKind | None, table: Table) -> FamilyKind:
    """The prior of the parameters: that of the score, unless another is given.

    Raises
    ------
    ArgumentError
        If the score is no probability and none is given, or the table has states that the prior cannot have.
    ArgumentTypeError
        If ``prior`` is no score with a prior of parameters.

    Examples
    --------
    >>> import doxa
    >>> parameter_prior(doxa.structure.BDeu(2.0), None, doxa.datasets.load("reinis"))
    BDeu(equivalent_sample_size=2.0)
    """
    made = score if prior is None else prior
    if not (isinstance(made, FamilyKind) and made.takes_numbers):
        check_categories(table, "an average over such parameters")
    if not isinstance(made, FamilyKind) or (prior is not None and not made.is_probability):
        raise ArgumentTypeError(
            f"prior is {prior!r}; give BDeu(...) or K2(...) from doxa.structure, or Logistic(...) or "
            "FamilyMixture(...) from doxa.structure.families.logistic"
        )
    if not made.is_probability:
        own, named = ("'bge'", "BGe()") if made.takes_numbers else ("'bdeu' or 'k2'", "BDeu(1.0)")
        raise ArgumentError(
            f"the graphs were learned with score={made.name!r}, which implies no prior of parameters; learn with "
            f"{own}, or name one, as in prior={named}"
        )
    made.check_columns(table.names, table.n_states, table.is_number)
    return made


Family = tuple[int, tuple[int, ...]]  # a node and its parents, increasing

_MOST_CELLS = 2**24  # of one family: 128 MB
_FEW_CELLS = 2**12  # of one family: counting all is quicker than sorting those that occur
_AT_ONCE = 2**22  # cells of completed rows, or counts, held at once


@dataclass(frozen=True, eq=False)
class CompletedTable:
    """A table, and the states of its missing cells in every draw.

    Parameters
    ----------
    table : Table
    cells : ndarray of int, shape (n_draws, n_missing), optional
        States of the missing cells, ordered by row of the table expanded by its counts, then column.  None where no
        cell is missing.

    Raises
    ------
    ArgumentError
        If cells are missing and no draws of them are given, or not as many.
    """

    table: Table
    cells: NDArray[np.integer] | None = None

    def __post_init__(self) -> None:
        n_missing = self.table.n_missing
        if self.cells is None:
            if n_missing:
                raise ArgumentError(
                    f"the table has {n_missing} missing cells and the posterior has no draws of them; it was learned "
                    "from another table"
                )
        elif self.cells.ndim != 2 or self.cells.shape[1] != n_missing:
            raise ArgumentError(
                f"draws of cells have shape {self.cells.shape}; they must be (draw, {n_missing}), a state for each "
                "missing cell of the table"
            )

    def counts(self, family: Family, draws: NDArray[np.intp]) -> NDArray[np.float64]:
        """Cases of every cell of a family.

        Parameters
        ----------
        family : tuple of int and tuple of int
            Child and parents.
        draws : ndarray of int, shape (n,)
            Which draws.

        Returns
        -------
        ndarray of float, shape (1 or n, n_configurations, n_states)
            One for all draws where they agree; the last parent varies fastest.

        Raises
        ------
        ArgumentError
            If the family has too many cells to list.
        """
        columns = [*family[1], family[0]]
        sizes = self.table.n_states[columns].tolist()
        size = math.prod(sizes)
        if size > _MOST_CELLS:
            raise ArgumentError(
                f"the family of {self.table.names[family[0]]!r} with {len(family[1])} parents has {size:.2e} cells; "
                f"at most {_MOST_CELLS} are listed: learn with fewer max_parents"
            )
        shape = (size // sizes[-1], sizes[-1])
        codes, times = self._cells(columns, family[0])
        whole: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
        index = cell_index(codes[whole].T, sizes)
        static = np.bincount(index, weights=times[whole], minlength=size).astype(np.float64)
        if whole.all():
            return static.reshape(1, *shape)
        rows = np.flatnonzero((~whole & (times > 0))[self.row_of])  # of the expanded table
        counted = np.empty((len(draws), size))
        step = max(1, _AT_ONCE // max(size, len(rows) * len(columns)))
        for first in range(0, len(draws), step):
            chosen = draws[first : first + step]
            index = cell_index([self.column(j, rows, chosen) for j in columns], sizes)
            index = index + np.arange(len(chosen))[:, None] * size
            found = np.bincount(index.ravel(), minlength=len(chosen) * size)
            counted[first : first + step] = found.reshape(len(chosen), size) + static
        return counted.reshape(len(draws), *shape)

    def occurring(self, family: Family) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """The cells of a family that occur in a complete table: child and parents (n_cells, 1 + n_parents), and cases.

        Parents may be so many that their configurations cannot be listed.
        """
        columns = [family[0], *family[1]]
        sizes = self.table.n_states[columns].tolist()
        codes, times = self._cells(columns, family[0])
        codes, times = codes[times > 0], times[times > 0]
        if math.prod(sizes) > _FEW_CELLS:
            codes, place = np.unique(codes, axis=0, return_inverse=True)
            return codes, np.bincount(place.ravel(), weights=times).astype(np.int64)
        counted = np.bincount(cell_index(codes.T, sizes), weights=times)
        occur = np.flatnonzero(counted)
        return np.stack(np.unravel_index(occur, sizes), axis=1).astype(np.int16), counted[occur].astype(np.int64)

    def has_missing_cells(self, family: Family) -> bool:
        """Whether a cell of the family is missing."""
        if not self.table.n_missing:
            return False
        return any(self.table.missing_by_column.get(self.table.names[j], 0) > 0 for j in (family[0], *family[1]))

    def occurring_in(
        self, family: Family, draws: NDArray[np.intp]
    ) -> list[tuple[NDArray[np.int16], NDArray[np.int64]]]:
        """As `occurring`, in the completed table of each draw; equal cells come in one order."""
        columns = [family[0], *family[1]]
        codes, times = self._cells(columns, family[0])
        whole: NDArray[np.bool_] = np.all(codes >= 0, axis=1) & (times > 0)
        known, place = np.unique(codes[whole], axis=0, return_inverse=True)
        of_known = np.bincount(place.ravel(), weights=times[whole], minlength=len(known)).astype(np.int64)
        rows = np.flatnonzero((~whole & (times > 0))[self.row_of])  # of the expanded table
        drawn = np.stack([self.column(j, rows, draws) for j in columns], axis=-1)
        found = []
        for own in drawn:
            cells, cases = np.unique(own, axis=0, return_counts=True)
            found.append((np.concatenate([known, cells]).astype(np.int16), np.concatenate([of_known, cases])))
        return found

    def _cells(self, columns: list[int], child: int) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """Cells of some columns, and how often they occur where nobody intervened on the child."""
        if not isinstance(self.table, OutOfCoreTable):
            return self.table.codes[:, columns], self.table.own_counts(child)
        held = self.table.select([self.table.names[j] for j in columns])
        return held.codes, held.counts

    def column(self, j: int, rows: NDArray[np.intp], draws: NDArray[np.intp]) -> NDArray[np.int64]:
        """Completed cells of a column, in some rows of the expanded table: shape (n_draws, n_rows)."""
        own = self.table.codes[self.row_of[rows], j].astype(np.int64)
        codes = np.broadcast_to(own, (len(draws), len(rows)))
        missing_cells = np.flatnonzero(own < 0)
        if not missing_cells.size:
            return codes
        assert self.cells is not None
        codes = codes.copy()
        codes[:, missing_cells] = self.cells[np.ix_(draws, self.missing_cell_of[rows[missing_cells], j])]
        return codes

    @cached_property
    def row_of(self) -> NDArray[np.intp]:
        """The table's distinct row of each row of the expanded table, shape (n_rows,)."""
        return np.repeat(np.arange(self.table.n_distinct), self.table.counts)

    @cached_property
    def missing_cell_of(self) -> NDArray[np.intp]:
        """Number of each missing cell of the expanded table, -1 elsewhere; shape (n_rows, n_columns)."""
        missing_cells = self.table.codes[self.row_of] < 0
        number = np.full(missing_cells.shape, -1, dtype=np.intp)
        number[missing_cells] = np.arange(int(missing_cells.sum()))
        return number

    @cached_property
    def source_row(self) -> NDArray[np.intp]:
        """The source's row of each row of the expanded table, shape (n_rows,)."""
        return np.argsort(self.table.row_index, kind="stable")


class FamilyOverCompletions(FamilyParameters):
    """The posterior of one family over draws of the missing cells: a posterior for each completion.

    Draws whose completions agree in the columns of the family share one.

    Parameters
    ----------
    kind : FamilyKind
    cells : list of tuple of ndarray
        Of each draw that has the family, states of child and parents (n_cells, 1 + n_parents), and cases of each.
    sizes : sequence of int
        Numbers of states of the child and of its parents.
    stream : callable
        As for `LogisticFamily`; numbers beyond 2**32 are those of later completions.
    """

    def __init__(
        self,
        kind: FamilyKind,
        cells: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]],
        sizes: Sequence[int],
        stream: Stream,
    ) -> None:
        number: dict[bytes, int] = {}
        self._group = np.array([number.setdefault(_key(*own), len(number)) for own in cells])
        first = np.unique(self._group, return_index=True)[1].tolist()
        self._families = [
            kind.parameters(cells[k][0], cells[k][1], sizes, _later(stream, g)) for g, k in enumerate(first)
        ]
        self._shape = math.prod(sizes[1:]), sizes[0]

    @cached_property
    def logistic_probabilities(self) -> Floats:
        """Of the type, given the family and the completion of each draw, shape (n_users,)."""
        found: Floats = np.array([family.logistic_probability for family in self._logistic])[self._group]
        return found

    @property
    def excess(self) -> float:
        """As `LogisticFamily.excess`, averaged over the draws."""
        return float(np.mean([self._logistic[g].excess for g in self._group]))

    def coefficients(self, n: int) -> Floats:
        """Bias and coefficients, one draw for each completion in turn; nan where the type is a table."""
        first = self._logistic[0]
        found = np.empty((n, 1 + len(first.sizes)))
        for family, places in self._in_rotation(n):
            found[places] = family.coefficients(len(places))  # type: ignore[attr-defined]
        return found

    def log_tables(self, n: int) -> Floats:
        """Log P(child | parents), one draw for each completion in turn: shape (n, n_configurations, n_states)."""
        found = np.empty((n, *self._shape))
        for family, places in self._in_rotation(n):
            found[places] = family.log_tables(len(places))
        return found

    def log_mean_tables(self) -> Floats:
        """Log of the posterior means given each completion, shape (n_users, n_configurations, n_states)."""
        found: Floats = np.stack([family.log_means() for family in self._families])[self._group]
        return found

    def log_means(self) -> Floats:
        """Log of the posterior means over completions, shape (n_configurations, n_states)."""
        found: Floats = np.log(np.exp(self.log_mean_tables()).mean(axis=0))
        return found

    @property
    def _logistic(self) -> list[LogisticFamily]:
        return self._families  # type: ignore[return-value]  # asked only of kinds that have coefficients

    def _in_rotation(self, n: int) -> list[tuple[FamilyParameters, NDArray[np.intp]]]:
        """Each posterior with the places of the draws that come from it, out of ``n``."""
        group = self._group[np.arange(n) % len(self._group)]
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(self._families) + 1))
        places = [order[a:b] for a, b in pairwise(ends)]
        return [(family, own) for family, own in zip(self._families, places, strict=True) if len(own)]


def _key(codes: NDArray[np.integer], times: NDArray[np.integer]) -> bytes:
    """The same for the same cells, which are in one order."""
    return codes.tobytes() + times.tobytes()


_TABLES_AGAIN = 7  # purpose of draws of Dirichlet tables of later completions: that of the first, 0, has no numbers


def _later(stream: Stream, group: int) -> Stream:
    return lambda kind, number: stream(kind if kind or not group else _TABLES_AGAIN, number + (group << 32))
