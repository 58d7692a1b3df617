r"""Counts of families in the completed table of every draw.

A complete table is the same in all draws.  With missing cells a draw has states for them too, and only the rows in
which the family itself has a missing cell are counted anew for each draw.

The prior of a family's parameters, as the score of the graphs has it.

A table with q configurations of the parents and r states of the child has in every configuration a distribution
:math:`\theta_j \sim \mathrm{Dirichlet}(a, \dots, a)`; BDeu has :math:`a = \alpha / (qr)`, K2 its prior count.  Logistic
families have normal coefficients (`doxa.structure.averaging.logistic_families`).  BIC is no marginal likelihood under
any prior, so nothing follows from it about parameters: one has to be named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.data import Table
from doxa.data.large.table import OutOfCoreTable
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.scores import K2, BDeu, Score

__all__ = [
    "CompletedTable",
    "Family",
    "ParameterPrior",
    "cell_index",
    "cell_prior",
    "check_prior",
    "log_dirichlet",
    "parameter_prior",
]

Floats = NDArray[np.float64]


ParameterPrior: TypeAlias = BDeu | K2 | Logistic | FamilyMixture


def parameter_prior(score: Score, prior: ParameterPrior | None = None) -> ParameterPrior:
    """The prior of the parameters: that of the score, unless another is given.

    Raises
    ------
    ArgumentError
        If the score is BIC and none is given.
    ArgumentTypeError
        If ``prior`` is no score with a prior of parameters.

    Examples
    --------
    >>> parameter_prior(BDeu(2.0))
    BDeu(equivalent_sample_size=2.0)
    """
    known = (BDeu, K2, Logistic, FamilyMixture)
    if prior is not None:
        if not isinstance(prior, known):
            raise ArgumentTypeError(
                f"prior is {prior!r}; give BDeu(...) or K2(...) from doxa.structure, or Logistic(...) or "
                "FamilyMixture(...) from doxa.structure.families.logistic"
            )
        return prior
    if not isinstance(score, known):
        raise ArgumentError(
            "the graphs were learned with score='bic', which implies no prior of parameters; learn with 'bdeu' or "
            "'k2', or name one, as in prior=BDeu(1.0)"
        )
    return score


def check_prior(prior: ParameterPrior, table: Table) -> None:
    """Raise `ArgumentError` if the table has states that logistic families cannot have."""
    if not isinstance(prior, (BDeu, K2)):
        prior.check_states(table.names, table.n_states)


def cell_prior(prior: BDeu | K2, n_configurations: int, n_states: int) -> float:
    """Weight of the prior in each cell of a family, in cases.

    Examples
    --------
    >>> cell_prior(BDeu(1.0), 4, 2), cell_prior(K2(), 4, 2)
    (0.125, 1.0)
    """
    if isinstance(prior, BDeu):
        return prior.equivalent_sample_size / (n_configurations * n_states)
    return prior.prior_count


def log_dirichlet(alpha: Floats, rng: np.random.Generator) -> Floats:
    r"""Logarithms of Dirichlet draws, one for each vector along the last axis.

    Parameters
    ----------
    alpha : ndarray of float, shape (..., n_states)
        Positive.
    rng : numpy.random.Generator
        Advanced.

    Returns
    -------
    ndarray of float, shape (..., n_states)
        Nats; finite however small ``alpha`` is.

    Notes
    -----
    With G ~ Gamma(a + 1) and U uniform, :math:`G U^{1/a}` ~ Gamma(a) (Marsaglia & Tsang 2000).  A small ``a`` makes
    it underflow, and a distribution of nothing but zeros be 0/0; its logarithm does not.

    Examples
    --------
    >>> draw = log_dirichlet(np.full((2, 3), 1e-5), np.random.default_rng(1))
    >>> np.exp(draw).sum(axis=1).round(12).tolist(), bool(np.isfinite(draw).all())
    ([1.0, 1.0], True)
    """
    log_gamma = np.log(rng.standard_gamma(alpha + 1.0))
    log_gamma += np.log1p(-rng.random(alpha.shape)) / alpha
    log_gamma -= log_gamma.max(axis=-1, keepdims=True)
    log_gamma -= np.log(np.exp(log_gamma).sum(axis=-1, keepdims=True))
    return log_gamma


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
        codes, times = self._cells(columns)
        whole: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
        index = cell_index(codes[whole].T, sizes)
        static = np.bincount(index, weights=times[whole], minlength=size).astype(np.float64)
        if whole.all():
            return static.reshape(1, *shape)
        rows = np.flatnonzero(~whole[self.row_of])  # of the expanded table
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
        codes, times = self._cells(columns)
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
        codes, times = self._cells(columns)
        whole: NDArray[np.bool_] = np.all(codes >= 0, axis=1)
        known, place = np.unique(codes[whole], axis=0, return_inverse=True)
        of_known = np.bincount(place.ravel(), weights=times[whole], minlength=len(known)).astype(np.int64)
        rows = np.flatnonzero(~whole[self.row_of])  # of the expanded table
        drawn = np.stack([self.column(j, rows, draws) for j in columns], axis=-1)
        found = []
        for own in drawn:
            cells, cases = np.unique(own, axis=0, return_counts=True)
            found.append((np.concatenate([known, cells]).astype(np.int16), np.concatenate([of_known, cases])))
        return found

    def _cells(self, columns: list[int]) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """Cells of some columns, and how often they occur."""
        if not isinstance(self.table, OutOfCoreTable):
            return self.table.codes[:, columns], self.table.counts
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


def cell_index(codes: NDArray[np.integer] | list[NDArray[np.int64]], sizes: list[int]) -> NDArray[np.int64]:
    """Place of each row's cell in a family's table, from the codes of its columns; the last varies fastest.

    Examples
    --------
    >>> cell_index(np.array([[0, 1, 1], [2, 0, 1]]), [2, 3]).tolist()
    [2, 3, 4]
    """
    index = np.zeros(np.shape(codes[0]), dtype=np.int64)
    for column, size in zip(codes, sizes, strict=True):
        index = index * size + column
    return index
