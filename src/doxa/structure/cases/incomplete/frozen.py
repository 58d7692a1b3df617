r"""The frozen posterior that changes of the graph with missing cells summed out are proposed from.

It is that of a complete table (`doxa.structure.cases.incomplete.summed_out`), which has the mean and covariances of a
normal distribution without any graph, fitted to the table with its missing numbers (the EM algorithm: Dempster, Laird &
Rubin 1977).  Of numbers alone it is one with these moments, and as many rows as two columns are observed together on
average.  Beside categories, whose states are columns of 0 and 1 then, it has the rows that there are, and the expected
values, squares and products of the numbers that are missing.  A row stands once for each state of its missing
categories, and counts as much as that state is likely, for which the same normal distribution is asked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import branching, hot
from doxa.arrays import Floats, Ints
from doxa.data import Table
from doxa.structure.cases.incomplete.missing_cells import (
    IncompleteData,
    MissingCells,
)
from doxa.structure.cases.incomplete.scored_sampler import MOST_STATES, rows_together
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.gaussian.box import GaussianRule, factorise, sums_of_products
from doxa.structure.families.gaussian.kinds import ConditionalGaussian
from doxa.structure.families.logistic.mode import solve, solve_transposed
from doxa.structure.limits import Limits

__all__ = [
    "FrozenPosterior",
    "frozen_posterior",
    "missing_numbers",
    "observed_moments",
    "rule_of",
    "solve_in_place",
    "summed_categories",
]

_ROUNDS, _SETTLED = 200, 1e-6  # of EM; the largest change of a mean or covariance, in standard deviations
_LEAST_SHARE = 0.02  # of a state that is missing, where the normal distribution, which knows no bounds, expects less
_MOST_MOMENTS = 100  # columns of the normal distribution: without those of categories if there were more


class FrozenPosterior(NamedTuple):
    """The posterior that proposals come from, and its table: codes, counts and scaled numbers."""

    scores: FamilyScores
    columns: NDArray[np.int16]  # (n_nodes, n_rows)
    counts: Floats  # (n_rows,)
    values: Floats  # (n_nodes, n_rows)
    spread: Floats  # (n_last, n_nodes, n_nodes): covariances of the last rows, whose values are expected ones


def frozen_posterior(data: IncompleteData, limits: Limits) -> FrozenPosterior:
    """Made once a process; it follows from the table and the limits alone."""
    made: FrozenPosterior = data.remember(
        "frozen posterior",
        limits,
        lambda: _with_moments(data) if data.table.is_number.all() else _expected(data),
    )
    return made


def _with_moments(data: IncompleteData) -> FrozenPosterior:
    """Of a table of one row more than columns, each as often, with the moments of `observed_moments`.

    The rows are those of a cosine transform, which are orthogonal to each other and to a constant.
    """
    n, scaling = data.n_nodes, data.missing_cells.numbers
    assert scaling is not None
    mean, covariance = observed_moments(*_Columns.of(data).to_fit(data), rule_of(data).scale)
    factor = covariance.copy()
    factorise(factor, n, 1e-12)
    k, rows = n + 1, np.arange(n + 1)
    waves = math.sqrt(2.0 / k) * np.cos(np.pi * (2 * rows + 1) * np.arange(1, k)[:, None] / (2 * k))
    values = np.empty((n, k))
    for i in range(n):
        values[i] = mean[i] + math.sqrt(k) * (factor[i, : i + 1, None] * waves[: i + 1]).sum(axis=0)
    counts = np.full(k, max(1, round(rows_together(data) / k)))
    as_they_are = scaling._replace(centre=np.zeros(n), scale=np.ones(n), transforms=(None,) * n)
    table = Table.from_codes(data.table.names, data.table.states, np.zeros((k, n), dtype=int), counts, values.T)
    scores = FamilyScores(table, data.score, data.prior, like=as_they_are)
    codes = np.zeros((n, k), dtype=np.int16)
    return FrozenPosterior(scores, codes, counts.astype(np.float64), values, np.zeros((0, n, n)))


def _expected(data: IncompleteData) -> FrozenPosterior:
    """Of the table with what its missing cells are expected to be, squares and products among it."""
    from doxa.structure.cases.incomplete.expected import ExpectedKind  # compiled on import

    missing_cells, is_number = data.missing_cells, data.table.is_number
    assert missing_cells.numbers is not None
    n, n_complete, numbers = data.n_nodes, missing_cells.n_complete, np.flatnonzero(is_number)
    columns = _Columns.of(data)
    values, weights, cells = columns.to_fit(data)
    mean, covariance = observed_moments(values, weights, cells, rule_of(data).scale)
    _invert(covariance, np.zeros_like(covariance))
    found = [
        (states, weight, row[: len(numbers)], spread[: len(numbers), : len(numbers)])
        for i in range(len(missing_cells.source_row))
        for states, weight, row, spread in columns.rows_of(i, values[:, n_complete + i], data, (mean, covariance))
    ]
    codes = np.array([states for states, *_ in found], dtype=np.int16).reshape(len(found), n)
    in_rows = np.full((len(found), n), np.nan)
    in_rows[:, numbers] = [row for _, _, row, _ in found]
    all_codes = np.concatenate([missing_cells.base[:, :n_complete], codes.T], axis=1)
    all_values = np.concatenate([missing_cells.numbers.values[:, :n_complete], in_rows.T], axis=1)
    counts = np.concatenate([missing_cells.weights[:n_complete], [weight for _, weight, *_ in found]])
    of_rows = np.zeros((len(found), n, n))
    of_rows[:, numbers[:, None], numbers] = [spread for *_, spread in found]
    score = data.score
    assert isinstance(score, ConditionalGaussian)
    kind = ExpectedKind(score.equivalent_sample_size, score.alpha_mu, score.alpha_w, counts, of_rows)
    scaling = missing_cells.numbers
    table = Table.from_codes(
        data.table.names, data.table.states, all_codes.T, numbers=scaling.restored(all_values.T, np.arange(n))
    )
    scores = FamilyScores(table, kind, data.prior, like=scaling)
    # rows as they come: a table has equal ones once
    scores.data, scores.numbers = (all_codes, np.ones(len(counts), dtype=np.int64), missing_cells.n_states), all_values
    return FrozenPosterior(scores, all_codes, counts, all_values, of_rows)


class _Columns(NamedTuple):
    """Columns of a normal distribution: the numbers, and of each category its states but the first."""

    of_number: Ints  # (n_nodes,): of each node that is a number
    first: Ints  # (n_nodes,): of each node that is a category, its first column
    n_columns: int
    has_states: bool  # no, if there were too many

    @classmethod
    def of(cls, data: IncompleteData) -> _Columns:
        """Those of a table."""
        is_number, n_states = data.table.is_number, data.missing_cells.n_states
        sizes = np.where(is_number, 0, n_states - 1)
        n_numbers, has_states = int(is_number.sum()), bool(is_number.sum() + sizes.sum() <= _MOST_MOMENTS)
        n_columns = n_numbers + int(sizes.sum()) * has_states
        return cls(np.cumsum(is_number) - 1, n_numbers + np.cumsum(sizes) - sizes, n_columns, has_states)

    def of_category(self, node: int, n_states: Ints) -> list[int]:
        """Its columns."""
        return list(range(self.first[node], self.first[node] + n_states[node] - 1)) if self.has_states else []

    def to_fit(self, data: IncompleteData) -> tuple[Floats, Ints, Cells]:
        """The columns, with 0 in missing cells; cases; which are missing."""
        missing_cells, is_number = data.missing_cells, data.table.is_number
        assert missing_cells.numbers is not None
        columns = np.zeros((self.n_columns, len(missing_cells.weights)))
        columns[self.of_number[is_number]] = np.nan_to_num(missing_cells.numbers.values[is_number])
        for node in np.flatnonzero(~is_number).tolist():
            for state, column in enumerate(self.of_category(node, missing_cells.n_states), 1):
                columns[column] = missing_cells.base[node] == state
        first, missing = [0], []
        for i in range(len(missing_cells.source_row)):
            for node in missing_cells.column[missing_cells.first[i] : missing_cells.first[i + 1]].tolist():
                own = [int(self.of_number[node])] if is_number[node] else self.of_category(node, missing_cells.n_states)
                missing += own
            first.append(len(missing))
        cells = missing_cells.n_complete, np.array(first, dtype=np.int64), np.array(missing, dtype=np.int64)
        return columns, missing_cells.weights, cells

    def rows_of(
        self, i: int, row: Floats, data: IncompleteData, law: tuple[Floats, Floats]
    ) -> list[tuple[list[int], float, Floats, Floats]]:
        """States, weight, expected columns and their covariances of incomplete row i, for each state it may have."""
        missing_cells, is_number = data.missing_cells, data.table.is_number
        nodes = missing_cells.column[missing_cells.first[i] : missing_cells.first[i + 1]].tolist()
        n_states = missing_cells.n_states
        summed = summed_categories([node for node in nodes if not is_number[node]], n_states)
        states = missing_cells.base[:, missing_cells.n_complete + i].clip(0).tolist()
        unknown = {node: self.of_category(node, n_states) for node in nodes if not is_number[node]}
        numbers = [int(self.of_number[node]) for node in nodes if is_number[node]]
        found = [(states, 1.0, row.copy())]
        for node in sorted(unknown, key=lambda node: node not in summed):
            own, more = unknown.pop(node), []
            rest = sorted([*numbers, *own, *(column for columns in unknown.values() for column in columns)])
            for states, weight, values in found:
                expected, _ = _expected_given(values, rest, law)
                share = np.full(n_states[node], 1.0)
                if own:
                    share = np.append(1.0 - expected[own].sum(), expected[own])
                share = share.clip(_LEAST_SHARE)
                share /= share.sum()
                likely = range(n_states[node]) if node in summed else [int(share.argmax())]
                for state in likely:
                    with_state = values.copy()
                    with_state[own] = np.arange(1, n_states[node]) == state
                    chosen = [state if other == node else before for other, before in enumerate(states)]
                    more.append((chosen, weight * (share[state] if node in summed else 1.0), with_state))
            found = more
        return [(states, weight, *_expected_given(values, numbers, law)) for states, weight, values in found]


def _expected_given(row: Floats, missing: list[int], law: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """A row with the conditional means of these columns, and their covariances; ``law`` is mean and precision."""
    (mean, precision), m = law, len(row)
    values, spread, ends = row[:, None].copy(), np.zeros((m, m)), np.array([0, len(missing)])
    cells = 0, ends, np.array(missing, dtype=np.int64)
    _expect(values, cells, mean, precision, spread, (np.zeros((m, m)), np.zeros(m)))
    return values[:, 0], spread


def summed_categories(nodes: list[int], n_states: Ints) -> list[int]:
    """Which missing categories of a row are summed out: the first, and others while there are not too many states."""
    summed: list[int] = []
    for node in nodes:
        if not summed or math.prod(n_states[[*summed, node]].tolist()) <= MOST_STATES:
            summed.append(node)
    return summed


def rule_of(data: IncompleteData) -> GaussianRule:
    """The prior of the regressions."""
    made: GaussianRule = data.score.gaussian_rule(int(data.table.is_number.sum()), data.table.n_rows)
    return made


Cells = tuple[int, Ints, Ints]  # complete rows; where the missing numbers of the others begin, and their columns


def missing_numbers(missing_cells: MissingCells) -> Cells:
    """Those of a table."""
    is_number, n_incomplete = missing_cells.is_number, len(missing_cells.source_row)
    ends = np.cumsum(np.bincount(missing_cells.row[is_number], minlength=n_incomplete))
    return missing_cells.n_complete, np.append(0, ends), missing_cells.column[is_number]


def observed_moments(values: Floats, weights: Ints, cells: Cells, ridge: float) -> tuple[Floats, Floats]:
    """Mean and covariances of a normal distribution fitted to what was observed, by EM; ``ridge`` is added to sums.

    Conditional means are left in the missing cells of ``values``, (n_columns, n_rows).  No matrix is multiplied by
    BLAS, which adds up in another order on another processor.
    """
    n, total = len(values), float(weights.sum())
    mean, covariance, spread, space = np.zeros(n), np.eye(n), np.zeros((n, n)), (np.zeros((n, n)), np.zeros(n))
    for _ in range(_ROUNDS):
        sums, new_mean = sums_of_products(values, weights)
        new_covariance = (sums + spread + ridge * np.eye(n)) / total
        change = max(np.abs(new_mean - mean).max(), np.abs(new_covariance - covariance).max())
        mean, covariance = new_mean, new_covariance
        if change < _SETTLED:
            break
        precision = covariance.copy()
        _invert(precision, space[0])
        spread[:] = 0.0
        _expect(values, cells, mean, precision, spread, space)
    return mean, covariance


@branching
def _invert(matrix: Floats, space: Floats) -> None:
    """The inverse of a positive definite matrix, in place."""
    n = matrix.shape[0]
    factorise(matrix, n, 1e-12)
    space[:] = 0.0
    for j in range(n):  # the inverse of the factor, column by column
        for i in range(j, n):
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= matrix[i, k] * space[k, j]
            space[i, j] = value / matrix[i, i]
    for i in range(n):
        for j in range(n):
            matrix[i, j] = 0.0
            for k in range(max(i, j), n):
                matrix[i, j] += space[k, i] * space[k, j]


@hot
def _condition(
    i: int, values: Floats, cells: Cells, mean: Floats, precision: Floats, space: tuple[Floats, Floats]
) -> int:
    """Cholesky's factor of the precision of the row's missing cells, and what it takes to that of its distance."""
    (n_complete, first, column), (matrix, vector) = cells, space
    row, begin_of_row = n_complete + i, first[i]
    n_cells: int = first[i + 1] - begin_of_row
    for s in range(n_cells):
        cell = column[begin_of_row + s]
        vector[s] = 0.0
        for node in range(mean.size):
            vector[s] += precision[cell, node] * (values[node, row] - mean[node])
        for t in range(s + 1):
            matrix[s, t] = precision[cell, column[begin_of_row + t]]
    solve_in_place(matrix, vector, n_cells)
    return n_cells


@branching
def _expect(
    values: Floats, cells: Cells, mean: Floats, precision: Floats, spread: Floats, space: tuple[Floats, Floats]
) -> None:
    """Put conditional means into the missing cells, and add their conditional covariances to ``spread``."""
    (n_complete, first, column), (matrix, vector) = cells, space
    for i in range(first.size - 1):
        row, begin_of_row = n_complete + i, first[i]
        n_cells = _condition(i, values, cells, mean, precision, space)
        solve_transposed(matrix, n_cells, vector)
        for s in range(n_cells):
            values[column[begin_of_row + s], row] -= vector[s]
        for t in range(n_cells):  # the covariances, column by column
            for s in range(n_cells):
                vector[s] = 1.0 if s == t else 0.0
            solve(matrix, n_cells, vector)
            solve_transposed(matrix, n_cells, vector)
            for s in range(n_cells):
                spread[column[begin_of_row + s], column[begin_of_row + t]] += vector[s]


@hot
def solve_in_place(matrix: Floats, vector: Floats, size: int) -> None:
    """Cholesky's factor of a matrix and the solution of L u = y, both in place."""
    factorise(matrix, size, 1e-300)
    solve(matrix, size, vector)
