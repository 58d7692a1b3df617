"""How well a column is predicted from the others, in rows that the posterior has not seen.

Of a category the log probability of what it was; of a number the log density and the continuous ranked probability
score (Gneiting & Raftery, JASA 102, 2007): both are proper, so no other distribution than the true one does better on
the average.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data import Table
from doxa.data.table import collapsed
from doxa.data.transforms import transform_of
from doxa.errors import ArgumentError
from doxa.structure.averaging.number_draws import GaussianDraws
from doxa.structure.averaging.numbers import row_distributions
from doxa.structure.averaging.predict import predict_of
from doxa.structure.averaging.questions import column_of
from doxa.structure.learn import learn

__all__ = ["CrossValidation", "NumberCrossValidation", "cross_validate"]


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        return _described(self, int((self.codes >= 0).sum()), ("log_loss", "accuracy"))

    @property
    def _of_truth(self) -> Floats:
        seen = np.flatnonzero(self.codes >= 0)
        found: Floats = self.probabilities[seen, self.codes[seen]]
        return found


@dataclass(frozen=True, eq=False, repr=False)
class NumberCrossValidation:
    """Predictive distributions of a number in every row, by networks learned from the other folds.

    Attributes
    ----------
    target : str
    observed : ndarray of float, shape (n_rows,)
        What it was, in the unit of the column; nan where missing.
    mean, sd, lower, upper : ndarray of float, shape (n_rows,)
        Of the predictive distribution: mean, standard deviation and central 95%, in the unit of the column.
    log_density : ndarray of float, shape (n_rows,)
        Of what it was, nats, in the unit of the column; nan where missing.
    ranked_score : ndarray of float, shape (n_rows,)
        Continuous ranked probability score, in the unit of the column, least is best; nan where missing.
    """

    target: str
    observed: Floats
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    log_density: Floats
    ranked_score: Floats

    @property
    def log_loss(self) -> tuple[float, float]:
        """Mean of -log density(what it was), nats, over the rows, and its standard error over rows."""
        return _mean_and_error(-self.log_density[self._seen])

    @property
    def crps(self) -> tuple[float, float]:
        """Mean continuous ranked probability score over the rows, and its standard error over rows."""
        return _mean_and_error(self.ranked_score[self._seen])

    @property
    def root_mean_squared_error(self) -> tuple[float, float]:
        """Of the predictive means, in the unit of the column, and its standard error over rows, to first order."""
        square, error = _mean_and_error((self.observed - self.mean)[self._seen] ** 2)
        root = float(np.sqrt(square))
        return root, error / (2.0 * root) if root else 0.0

    @property
    def coverage(self) -> tuple[float, float]:
        """Share of rows where the number was in the central 95%, and its standard error over rows."""
        inside = (self.lower <= self.observed) & (self.observed <= self.upper)
        return _mean_and_error(inside[self._seen].astype(float))

    def __repr__(self) -> str:
        return _described(self, int(self._seen.sum()), ("log_loss", "crps", "root_mean_squared_error", "coverage"))

    @property
    def _seen(self) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(self.observed))


def cross_validate(
    table: Table, target: str, *, folds: int = 5, seed: int | None = None, **learning: Any
) -> CrossValidation | NumberCrossValidation:
    """Predict one column of every row from the row's other columns, by a posterior learned from the other folds.

    Parameters
    ----------
    table : Table
        Cells may be missing; so may features of the rows that are predicted.
    target : str
        A column, of categories or of numbers.
    folds : int, default=5
        Parts that the rows are divided into at random, at least 2.
    seed : int, optional
        Of the division, and of every run.
    **learning
        Options of `doxa.learn`.

    Returns
    -------
    CrossValidation, or NumberCrossValidation of a column of numbers

    Raises
    ------
    ArgumentError
        If the column is unknown, or folds are fewer than 2 or more than the rows.

    Notes
    -----
    Standard errors are those over rows as if they were independent; folds share rows to learn from, so they are
    somewhat too small.  A column of numbers takes about a second for each fold and each configuration of
    categories, and some 5 ms a row; 80 where categories depend on numbers.

    Examples
    --------
    >>> import doxa
    >>> found = cross_validate(doxa.datasets.load("reinis"), "smoke", folds=2, seed=1)
    >>> found.probabilities.shape
    (1841, 2)
    """
    if table.interventions is not None or learning.get("interventions") is not None:
        raise ArgumentError(
            "interventions are given, and rows in which columns were set cannot be held out for a prediction; learn "
            "from all rows, or cross-validate those in which nobody intervened"
        )
    if table.slices is not None or learning.get("time") is not None:
        raise ArgumentError(
            "time is given, and rows that are moments in time cannot be held out one by one; keep the last moments "
            "back, and hold posterior.forecast(given=...) against them"
        )
    column = column_of("target", target, table.names)
    folds = check_whole("folds", folds, 2)
    if folds > table.n_rows:
        raise ArgumentError(f"folds is {folds}, and there are {table.n_rows} rows; each fold needs a row")
    if table.states[column]:
        return _of_category(table, column, folds, seed, learning)
    return _of_number(table, column, folds, seed, learning)


def _of_category(
    table: Table, column: int, folds: int, seed: int | None, learning: Mapping[str, Any]
) -> CrossValidation:
    target = table.names[column]
    probabilities = np.full((table.n_rows, len(table.states[column])), np.nan)
    for train, test in _divided(table.n_rows, folds, seed):
        posterior = learn(_part(table, train), seed=seed, **learning)
        found = predict_of(posterior.network_draws(), _part(table, test), target)
        probabilities[test] = found["probability"].to_numpy().reshape(len(test), -1)
    truth = table.codes[table.row_index, column].astype(np.int64)
    probabilities[truth < 0] = np.nan
    return CrossValidation(target, probabilities, truth)


def _of_number(
    table: Table, column: int, folds: int, seed: int | None, learning: Mapping[str, Any]
) -> NumberCrossValidation:
    assert table.numbers is not None  # the column holds some
    target, observed = table.names[column], table.numbers[table.row_index, column]
    found = np.full((6, table.n_rows), np.nan)
    for train, test in _divided(table.n_rows, folds, seed):
        draws = learn(_part(table, train), seed=seed, **learning).network_draws()
        assert isinstance(draws, GaussianDraws)  # of such a table
        for row, one in zip(test.tolist(), row_distributions(draws, _part(table, test), target), strict=True):
            found[:4, row] = one.mean, one.sd, *one.interval()
            if not np.isnan(observed[row]):
                found[4:, row] = float(one.log_density(observed[row])), float(one.crps(observed[row]))
    return NumberCrossValidation(target, observed, *found)


def _divided(n_rows: int, folds: int, seed: int | None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    fold = np.random.default_rng(seed).permutation(np.arange(n_rows) % folds)
    for k in range(folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def _part(table: Table, rows: NDArray[np.intp]) -> Table:
    """Some rows, with the states of all; normal scores are those of these rows."""
    at = table.row_index[rows]
    numbers = {}
    if table.numbers is not None:
        numbers = {j: table.numbers[at, j] for j in np.flatnonzero(table.is_number).tolist()}
    columns = [table.codes[at, j] for j in range(table.n_columns)]
    transforms = {
        name: transform_of(name, own.method, numbers[table.names.index(name)]) for name, own in table.transforms.items()
    }
    return collapsed(table.names, table.states, columns, numbers=numbers or None, transforms=transforms)


def _described(found: CrossValidation | NumberCrossValidation, n_rows: int, scores: tuple[str, ...]) -> str:
    """The scores with their standard errors, a line each."""
    lines = ["{:24s}{:10.4g}  (standard error {:.2g})".format(name, *getattr(found, name)) for name in scores]
    return "\n".join([f"{found.target} of {n_rows} rows, each predicted by networks of the other folds", *lines])


def _mean_and_error(values: Floats) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
