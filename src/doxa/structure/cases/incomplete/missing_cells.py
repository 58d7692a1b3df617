"""Where cells are missing, in the form that compiled loops take: complete rows collapsed, incomplete rows one by one.

A chain over graphs and missing cells holds a *completion*: a value for every missing cell.  Equal complete rows stay
one row with a count.  Equal incomplete rows are separate cases: each has missing cells of its own.

**Order of the missing cells.**  Incomplete rows are taken in the order of the table's distinct rows, a row that occurs
c times c times in succession, and the missing cells of a row by column.  So the table's digest fixes the order.  The
k-th copy of a distinct row stands for the k-th row of the source that equals it (`MissingCells.source_row`).

`IncompleteData`: a table with missing cells, the score and the prior of graphs, as samplers and exact sums take them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import Address
from doxa.data import Table
from doxa.data.scaled import Scaled, scaled
from doxa.errors import ArgumentError, TableError
from doxa.models.bits import pack_rows
from doxa.structure.families.cache import FamilyScores, Memory, Scoring
from doxa.structure.families.counting import Rule
from doxa.structure.families.kind import FamilyKind, Scorer
from doxa.structure.families.scores import BDeu
from doxa.structure.priors import StructurePrior, uniform_prior

__all__ = [
    "Completion",
    "IncompleteData",
    "MissingCells",
    "completed_table",
    "completion_of",
    "completion_rows",
    "find_missing_cells",
    "put_cells",
    "read_cells",
]


P = ParamSpec("P")
R = TypeVar("R")


class SharedCells(NamedTuple):
    """Which of the missing cells are one unknown (`doxa.structure.cases.incomplete.shared_cells`)."""

    owner: NDArray[np.int64]  # (n_missing,): the number of the cell that stands for the unknown
    next_row: NDArray[np.int64]  # (n_incomplete,): the incomplete row of the next moment; -1 where there is none
    phase: NDArray[np.int64]  # (n_incomplete,): place in the stretch modulo n_phases
    n_phases: int
    width: int  # columns of a moment


class MissingCells(NamedTuple):
    """The missing cells of a table; see the module's notes for their order."""

    first: NDArray[np.int64]  # (n_incomplete + 1,): the cells of row i are numbers first[i] to first[i + 1] - 1
    column: NDArray[np.int64]  # (n_missing,)
    row: NDArray[np.int64]  # (n_missing,): number of the incomplete row
    source_row: NDArray[np.int64]  # (n_incomplete,): its row in the source
    n_complete: int  # distinct complete rows
    base: NDArray[np.int16]  # (n_nodes, n_complete + n_incomplete): the table by columns, -1 where missing
    weights: NDArray[np.int64]  # (n_complete + n_incomplete,): cases; 1 for incomplete rows
    n_states: NDArray[np.int64]  # (n_nodes,)
    missing_in: NDArray[np.uint64]  # (n_nodes, n_words): the incomplete rows without this column, as bit sets
    hidden: NDArray[np.int64]  # columns without a single value, declared as hidden
    is_number: NDArray[np.bool_]  # (n_missing,): which of the cells are numbers
    numbers: Scaled | None = None  # of the same rows, NaN where missing; None where no column holds numbers
    interventions: NDArray[np.int8] | None = None  # of the same rows, as `Table.mechanisms`
    shared: SharedCells | None = None  # where rows are moments with their past

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return len(self.column)

    @property
    def dtype(self) -> type[np.int8] | type[np.int16] | type[np.float64]:
        """What drawn cells are kept in: integers, or floats where some are numbers."""
        if self.is_number.any():
            return np.float64
        return np.int8 if int(self.n_states.max()) <= np.iinfo(np.int8).max else np.int16

    def check_values(self, cells: NDArray[Any], where: str) -> None:
        """Raise `ArgumentError` unless cells from a file, shape (..., n_missing), are states and numbers they may be.

        Examples
        --------
        >>> table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, [[0, 0], [1, -1]])
        >>> find_missing_cells(table).check_values(np.array([2]), "cells")
        Traceback (most recent call last):
            ...
        doxa.errors.ArgumentError: cells has the state 2 in a column of 2
        """
        if cells.shape[-1:] != (self.n_missing,):
            raise ArgumentError(f"{where} has the shape {list(cells.shape)}; {self.n_missing} cells are missing")
        whole = cells.dtype.kind != "f"
        if not (whole or np.isfinite(cells).all()):
            raise ArgumentError(f"{where} holds numbers that are not finite")
        of_states = ~self.is_number
        states = cells.reshape(math.prod(cells.shape[:-1]), self.n_missing)
        states, most = states if of_states.all() else states[:, of_states], self.n_states[self.column[of_states]]
        if whole and ((states.min(axis=0, initial=0) >= 0) & (states.max(axis=0, initial=0) < most)).all():
            return
        wrong = (states < 0) | (states >= most) | (states != np.rint(states))
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            raise ArgumentError(f"{where} has the state {states[row, place]:g} in a column of {most[place]}")


@by_address
class Completion(NamedTuple):
    """A completed table as compiled loops take it; they change it in place."""

    columns: NDArray[np.int16]  # (n_nodes, n_complete + n_incomplete)
    rows: NDArray[np.int16]  # (n_incomplete, n_nodes): the incomplete rows again, a row's cells side by side
    weights: NDArray[np.int64]
    n_states: NDArray[np.int64]
    n_complete: int
    first: NDArray[np.int64]  # as `MissingCells.first`
    column: NDArray[np.int64]  # as `MissingCells.column`
    numbers: NDArray[np.float64]  # (n_nodes, n_complete + n_incomplete): scaled; of no columns where none holds numbers
    interventions: NDArray[np.int8]  # (n_complete + n_incomplete, n_nodes), or of no rows: where families are others
    next_row: NDArray[np.int64]  # (n_incomplete,), as `SharedCells.next_row`, or of no rows
    width: int  # columns of a moment


def find_missing_cells(table: Table, hidden: Sequence[str] = ()) -> MissingCells:
    """The missing cells of a table.

    Parameters
    ----------
    table : Table
        At least two columns and one row.
    hidden : sequence of str, default=()
        Columns that nobody observed; every cell of them is missing, and their states are declared.

    Raises
    ------
    TableError
        If a column without any value is not declared as hidden, or there are fewer than two columns or no rows.
    ArgumentError
        If a hidden column is unknown, or has values.

    Examples
    --------
    >>> table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, [[0, -1], [1, 1], [0, -1], [-1, 0]])
    >>> missing_cells = find_missing_cells(table)
    >>> missing_cells.source_row.tolist(), missing_cells.row.tolist(), missing_cells.column.tolist()
    ([0, 2, 3], [0, 1, 2], [1, 1, 0])
    """
    codes, counts = table.codes, table.counts
    _check(table, hidden)
    incomplete = np.flatnonzero((codes < 0).any(axis=1))
    complete = np.flatnonzero((codes >= 0).all(axis=1))
    expanded = np.repeat(incomplete, counts[incomplete])
    grouped = np.argsort(table.row_index, kind="stable")  # rows of the source, distinct row by distinct row
    source_row = grouped[np.isin(table.row_index[grouped], incomplete)].astype(np.int64)
    rows = codes[expanded]
    row, column = np.nonzero(rows < 0)
    first = np.concatenate([[0], np.cumsum((rows < 0).sum(axis=1))]).astype(np.int64)
    base = np.array(np.concatenate([codes[complete], rows]).T, order="C")
    weights = np.concatenate([counts[complete], np.ones(len(expanded), dtype=np.int64)])
    scaling, is_number = None, np.zeros(len(column), dtype=np.bool_)
    if table.numbers is not None:
        whole = scaled(table)
        is_number = ~np.isnan(whole.scale[column])
        taken = np.concatenate([complete, expanded])
        scaling = whole._replace(values=np.ascontiguousarray(whole.values[:, taken]))
    declared = np.array([table.names.index(name) for name in hidden], dtype=np.int64)
    return MissingCells(
        first, column.astype(np.int64), row.astype(np.int64), source_row, len(complete), base, weights, table.n_states,
        pack_rows((rows < 0).T), np.sort(declared), is_number, scaling,
        None if table.mechanisms is None else np.ascontiguousarray(table.mechanisms[completion_rows(table)]),
        _shared(table, source_row, row, column),
    )  # fmt: skip


def _shared(
    table: Table, source_row: NDArray[np.int64], row: NDArray[np.intp], column: NDArray[np.intp]
) -> SharedCells | None:
    """Which missing cells are one unknown, given the incomplete rows in the source, and row and column of each cell."""
    slices = table.slices
    if slices is None:
        return None
    number = np.full(len(slices.previous), -1, dtype=np.int64)
    number[source_row] = np.arange(len(source_row))
    previous = slices.previous[source_row]
    before = np.where(previous >= 0, number[previous], -1)
    next_row = np.full(len(source_row), -1, dtype=np.int64)
    next_row[before[before >= 0]] = np.flatnonzero(before >= 0)
    cell = np.full((len(source_row), table.n_columns), -1, dtype=np.int64)
    cell[row, column] = np.arange(len(row))
    owner, is_copy = np.arange(len(row)), (column >= slices.width) & (previous[row] >= 0)
    for lag in range(1, slices.lags + 1):
        own = np.flatnonzero(is_copy & (column // slices.width == lag))
        owner[own] = owner[cell[before[row[own]], column[own] - slices.width]]
    age = np.arange(len(slices.previous)) - slices.stretch
    n_phases = slices.lags + 1
    return SharedCells(owner, next_row, age[source_row] % n_phases, n_phases, slices.width)


def missing_cells_of(table: Table) -> MissingCells:
    """`find_missing_cells` of a table that was learned from: a column without any value was declared as hidden."""
    return find_missing_cells(table, _without_values(table))


def _without_values(table: Table) -> list[str]:
    return [name for name, count in table.missing_by_column.items() if count == table.n_rows]


def _check(table: Table, hidden: Sequence[str]) -> None:
    if len(table.names) < 2:
        raise TableError(f"table has only the column {table.names[0]!r}; a structure needs at least two columns")
    if not table.n_rows:
        raise TableError("table has no rows; there is nothing to complete")
    if isinstance(hidden, str):
        raise ArgumentError(f"hidden is {hidden!r}; it is a list of names: hidden=[{hidden!r}]")
    empty = _without_values(table)
    for name in hidden:
        if name not in table.names:
            raise ArgumentError(f"hidden names {name!r}, which is not a column of the table")
        if name not in empty:
            raise ArgumentError(
                f"hidden names {name!r}, which has values; a hidden column has none: take it out of hidden, its "
                "missing cells are drawn all the same"
            )
    for name in table.names:
        if name in empty and name not in hidden:
            raise TableError(
                f"column {name!r} has no value at all; leave it out, or declare it with hidden=[{name!r}] if it stands "
                "for something that nobody observed"
            )


def completion_of(missing_cells: MissingCells, cells: NDArray[Any]) -> Completion:
    """The completed table with these values of the missing cells; a copy.

    Parameters
    ----------
    missing_cells : MissingCells
    cells : array of int or float, shape (n_missing,)
        States and scaled numbers, in the order of the missing cells.
    """
    numbers, done, shared = missing_cells.numbers, missing_cells.interventions, missing_cells.shared
    columns = missing_cells.base.copy()
    made = Completion(
        columns, np.ascontiguousarray(columns[:, missing_cells.n_complete :].T), missing_cells.weights,
        missing_cells.n_states, missing_cells.n_complete, missing_cells.first, missing_cells.column,
        np.zeros((0, 0)) if numbers is None else numbers.values.copy(),
        np.zeros((0, 0), dtype=np.int8) if done is None else done.copy(),
        np.zeros(0, dtype=np.int64) if shared is None else shared.next_row,
        len(columns) if shared is None else shared.width,
    )  # fmt: skip
    put_cells(made, missing_cells, cells)
    return made


def put_cells(completion: Completion, missing_cells: MissingCells, cells: NDArray[Any]) -> None:
    """Write values of the missing cells into a completion, in place; cells that are one unknown get one value."""
    if missing_cells.shared is not None:
        cells = cells[missing_cells.shared.owner]
    is_number, place = missing_cells.is_number, missing_cells.n_complete + missing_cells.row
    codes = np.where(is_number, 0, cells).astype(np.int16)
    completion.columns[missing_cells.column, place] = codes
    completion.rows[missing_cells.row, missing_cells.column] = codes
    if is_number.any():
        completion.numbers[missing_cells.column[is_number], place[is_number]] = cells[is_number]


def read_cells(completion: Completion, missing_cells: MissingCells) -> NDArray[Any]:
    """Values of the missing cells in a completion, in their order; undoes `put_cells`."""
    codes: NDArray[np.int16] = completion.rows[missing_cells.row, missing_cells.column]
    if missing_cells.numbers is None:
        return codes
    is_number = missing_cells.is_number
    if not is_number.any():
        return codes
    place = missing_cells.n_complete + missing_cells.row
    return np.where(is_number, completion.numbers[missing_cells.column, place], codes)


def completed_table(table: Table, missing_cells: MissingCells, cells: NDArray[Any]) -> Table:
    """The table with its missing cells filled in; rows in another order."""
    completion, scaling = completion_of(missing_cells, cells), missing_cells.numbers
    order = completion_rows(table)
    done = missing_cells.interventions
    if scaling is None or table.numbers is None:
        return Table.from_codes(table.names, table.states, completion.columns.T, completion.weights, None, done)
    drawn = scaling.restored(completion.numbers.T, np.arange(table.n_columns))
    numbers = np.where(np.isnan(table.numbers[order]), drawn, table.numbers[order])  # what was seen stays as it was
    return Table.from_codes(table.names, table.states, completion.columns.T, completion.weights, numbers, done)


def completion_rows(table: Table) -> NDArray[np.intp]:
    """The table's row of each row of a completion: complete rows, then incomplete ones, expanded."""
    incomplete = (table.codes < 0).any(axis=1)
    expanded = np.repeat(np.flatnonzero(incomplete), table.counts[incomplete])
    return np.concatenate([np.flatnonzero(~incomplete), expanded])


@dataclass(eq=False)
class IncompleteData:
    """A table with missing cells, assumed missing at random, and how its completions are scored.

    Parameters
    ----------
    table : Table
        At least two columns; no column without values but the hidden ones.
    score : FamilyKind, default=BDeu(1.0)
        Any that is a probability of the data.
    prior : StructurePrior, optional
        Uniform over graphs when left out.
    hidden : sequence of str, default=()
        Columns that nobody observed.

    Raises
    ------
    ArgumentError
        If the score is `BIC`, columns have states that the score cannot have, or ``hidden`` does not fit the table.
    TableError
        If a column has no values and is not declared as hidden, or there are fewer than two columns.

    Examples
    --------
    >>> table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, [[0, 0], [1, 1], [0, 0], [1, -1]])
    >>> IncompleteData(table).missing_cells.n_missing
    1
    """

    table: Table
    score: FamilyKind = field(default_factory=BDeu)
    prior: StructurePrior = None  # type: ignore[assignment]  # filled in below: it needs the table
    hidden: Sequence[str] = ()
    missing_cells: MissingCells = field(init=False, repr=False)
    remember: Memory = field(init=False, repr=False, default_factory=Memory)

    def __post_init__(self) -> None:
        if not self.score.is_probability:
            raise ArgumentError(
                f"score is {self.score!r}, which is no probability of the data, so it says nothing about missing "
                "cells; take BDeu() or K2() for a table with missing cells"
            )
        self.missing_cells = find_missing_cells(self.table, self.hidden)
        if self.missing_cells.interventions is not None:
            from doxa.structure.families.intervened import intervened  # compiled on import

            self.score = intervened(self.score, self.missing_cells.interventions)
        self.score.check_columns(self.table.names, self.missing_cells.n_states, self.table.is_number)
        if self.prior is None:
            self.prior = uniform_prior(self.n_nodes)

    @property
    def n_nodes(self) -> int:
        """Number of columns."""
        return len(self.table.names)

    @property
    def rule(self) -> Rule:
        """The score as compiled loops take it."""
        return self.score.rule(self.table.n_rows)

    def scoring(self, completion: Completion) -> tuple[Scoring, Scorer | None]:
        """What counts and scores families in a completion, and what it calls for that, to be kept as long."""
        data = (completion.columns, completion.weights, completion.n_states)
        scorer = self.score.scorer(data, None if self.table.numbers is None else completion.numbers)
        return Scoring.of(data, self.rule, self.prior.arrays, scorer), scorer

    def address_of(self, function: Callable[P, R]) -> Address[P, R]:
        """Where a loop stands that all chains on this table call with arguments of the same kinds."""
        found: Address[P, R] = self.remember.made.setdefault(("address", function), Address(function))
        return found

    def completed(self, cells: NDArray[Any]) -> FamilyScores:
        """The scores of one completion."""
        table = completed_table(self.table, self.missing_cells, cells)
        return FamilyScores(table, self.score, self.prior, like=self.missing_cells.numbers)
