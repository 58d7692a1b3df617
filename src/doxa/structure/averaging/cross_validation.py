"""How well a column is predicted from the others, in rows that the posterior has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.data import Table
from doxa.data.table import collapsed
from doxa.errors import ArgumentError
from doxa.structure.averaging.predict import predict_of
from doxa.structure.averaging.questions import column_of
from doxa.structure.learn import learn

__all__ = ["CrossValidation", "cross_validate"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Predictions of every row by networks learned from the other folds.

    Attributes
    ----------
    target : str
    probabilities : ndarray of float, shape (n_rows, n_states)
        Of the target's states; nan in rows where the target is missing.
    codes : ndarray of int, shape (n_rows,)
        What the target was; -1 where missing.
    """

    target: str
    probabilities: Floats
    codes: NDArray[np.int64]

    @property
    def log_loss(self) -> tuple[float, float]:
        """Mean of -log p(what it was), nats, over the rows, and its standard error over rows."""
        return _mean_and_error(-np.log(self._of_truth))

    @property
    def accuracy(self) -> tuple[float, float]:
        """Share of rows where the most probable state was right, and its standard error over rows."""
        seen = self.codes >= 0
        return _mean_and_error((self.probabilities[seen].argmax(axis=1) == self.codes[seen]).astype(float))

    @property
    def _of_truth(self) -> Floats:
        seen = np.flatnonzero(self.codes >= 0)
        found: Floats = self.probabilities[seen, self.codes[seen]]
        return found


def cross_validate(
    table: Table, target: str, *, folds: int = 5, seed: int | None = None, **learning: Any
) -> CrossValidation:
    """Predict one column of every row from the row's other columns, by a posterior learned from the other folds.

    Parameters
    ----------
    table : Table
        Cells may be missing; so may features of the rows that are predicted.
    target : str
        A column.
    folds : int, default=5
        Parts that the rows are divided into at random, at least 2.
    seed : int, optional
        Of the division, and of every run.
    **learning
        Options of `doxa.learn`.

    Raises
    ------
    ArgumentError
        If the column is unknown, or folds are fewer than 2 or more than the rows.

    Examples
    --------
    >>> import doxa
    >>> found = cross_validate(doxa.datasets.load("reinis"), "smoke", folds=2, seed=1)
    >>> found.probabilities.shape
    (1841, 2)
    """
    column = column_of("target", target, table.names)
    folds = check_whole("folds", folds, 2)
    if folds > table.n_rows:
        raise ArgumentError(f"folds is {folds}, and there are {table.n_rows} rows; each fold needs a row")
    codes = table.codes[table.row_index]
    probabilities = np.full((len(codes), len(table.states[column])), np.nan)
    for train, test in _divided(len(codes), folds, seed):
        posterior = learn(_part(table, codes[train]), seed=seed, **learning)
        found = predict_of(posterior.network_draws(), _part(table, codes[test]), target)
        probabilities[test] = found["probability"].to_numpy().reshape(len(test), -1)
    truth = codes[:, column].astype(np.int64)
    probabilities[truth < 0] = np.nan
    return CrossValidation(target, probabilities, truth)


def _divided(n_rows: int, folds: int, seed: int | None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    fold = np.random.default_rng(seed).permutation(np.arange(n_rows) % folds)
    for k in range(folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def _part(table: Table, codes: NDArray[np.int16]) -> Table:
    """Some rows, with the states of all."""
    return collapsed(table.names, table.states, [codes[:, j] for j in range(codes.shape[1])])


def _mean_and_error(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
