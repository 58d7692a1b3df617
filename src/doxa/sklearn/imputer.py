"""Missing cells filled in by the posterior over belief networks, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, check_random_state, validate_data

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data.table import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.inference.exact.gaussian import condition
from doxa.sklearn.belief_networks import (
    BeliefNetworkEstimator,
    Cells,
    coded,
    most_states_of_numbers,
    table_of,
)
from doxa.sklearn.coded_columns import CategoryColumn, category_flags, is_missing, learn_column, unlike
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.numbers import log_evidence_of
from doxa.structure.averaging.posterior import Posterior
from doxa.structure.averaging.predict import predict_of

__all__ = ["BeliefNetworkImputer"]


class BeliefNetworkImputer(TransformerMixin, BeliefNetworkEstimator):  # type: ignore[misc]
    """Fills missing cells by belief networks over all columns, averaged over the posterior.

    Graphs, parameters and missing cells are all averaged over (`doxa.learn`).  Cells are assumed to be missing at
    random.  Texts, booleans and categories of a data frame are states; numbers are linear regressions with normal
    scatter, in each configuration of the parents that are categories.

    `fit_transform` fills the table that is learned from by the posterior of its own missing cells, in which every row
    is counted once.  `transform` takes its rows for new cases, and fills each by the predictive distribution given what
    is observed in it; rows of the training table would be counted twice there.

    Parameters
    ----------
    strategy : {"mean", "draw"}, default="mean"
        What stands in a cell that was missing: its posterior mean, and of a category the most probable state; or one
        draw, in which all cells of the table are from the same network and agree with each other.  Means are too
        regular to be taken for data: after them scatter is too small.  For multiple imputation fill in by draws with
        several ``random_state``, or take ``posterior_.completed_tables(n)``.
    equivalent_sample_size : float, default=1.0
        Weight of the prior of categories, in cases; tables of numbers alone have none.
    max_parents : int or None, default=None
        Largest number of parents of every node; any number if None.
    prior : {"sparse", "uniform", "in_degree"}, default="sparse"
        Of graphs, as for `doxa.learn`.
    edge_log_odds : float, default=0.0
        Added to the log prior of a graph for each of its edges; negative for sparser graphs.
    categorical_features : {"auto", "from_dtype"}, default="auto"
        Which columns are categories: texts, booleans, categories of a data frame, and whole numbers of at most 20
        different values, which are so filled in by one of these; with "from_dtype" the last are numbers.
    chains : int, default=4
        Independent chains, started far apart.
    draws : int, optional
        Graphs and tables kept from each chain.  When left out, 60; of a table without missing cells 250, or all graphs
        are summed over where the columns are at most 10.
    warmup : int, optional
        Draws discarded before that; half of ``draws`` when left out.
    until : Until, optional
        An accuracy at which to stop, instead of ``draws``.
    networks : int, default=400
        About how many networks new rows are averaged over.
    n_jobs : int, optional
        Chains that run at the same time; one for each core when left out.
    random_state : int, RandomState or None, default=None
        The same integer gives the same draws.

    Attributes
    ----------
    posterior_ : Posterior
        As `doxa.learn` gives it: ``posterior_.edges()``, ``posterior_.impute()`` with errors, and much more.
    states_ : dict of str to tuple of str
        The states of every column that is used, none of a number.  Columns that never vary in the training rows are
        not used, and filled with their only value.
    converged_ : bool or None
        Whether the chains agree by the strict rules of `doxa.learn`, about every edge.
    verdict_ : str
        The same in words, with the numbers.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Columns of which every cell is missing are left out of the result, as scikit-learn's imputers do, with a warning.  A
    category of a new row that the training rows do not have stays as it is, and says nothing about other cells.

    A draw for a new row is that of a network, which counts by the density of what was observed, and then of the row's
    missing cells one after the other, each given those before.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> X = np.repeat(rng.standard_normal((60, 1)), 2, axis=1) + 0.1 * rng.standard_normal((60, 2))
    >>> X[:2, 0] = np.nan
    >>> imputer = BeliefNetworkImputer(random_state=1)
    >>> filled = imputer.fit_transform(X)
    >>> bool(np.abs(filled[:2, 0] - X[:2, 1]).max() < 0.3)
    True
    >>> imputer.transform([[np.nan, 1.0]]).round(0)
    array([[1., 1.]])
    """

    posterior_: Posterior

    def __init__(
        self,
        strategy: str = "mean",
        *,
        equivalent_sample_size: float = 1.0,
        max_parents: int | None = None,
        prior: str = "sparse",
        edge_log_odds: float = 0.0,
        categorical_features: str = "auto",
        chains: int = 4,
        draws: int | None = None,
        warmup: int | None = None,
        until: Until | None = None,
        networks: int = 400,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.strategy = strategy
        self.equivalent_sample_size = equivalent_sample_size
        self.max_parents = max_parents
        self.prior = prior
        self.edge_log_odds = edge_log_odds
        self.categorical_features = categorical_features
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.until = until
        self.networks = networks
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> BeliefNetworkImputer:  # noqa: ARG002
        """Learn the posterior of a table.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            Numbers, texts, booleans or categories; NaN, None and ``pandas.NA`` are missing.
        y : object
            Not used.

        Returns
        -------
        BeliefNetworkImputer
            Itself.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If an option is out of range, or every cell is missing.

        Warns
        -----
        UserWarning
            If every cell of a column is missing.
        ConvergenceWarning
            If the chains sit in different modes.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Any:  # noqa: ARG002
        """Learn the posterior of a table, and fill in its own missing cells.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`.
        y : object
            Not used.

        Returns
        -------
        ndarray or data frame, shape (n_samples, n_features)
            What was observed stays as it was.  Raises and warns as `fit`.
        """
        cells = self._fit(X)
        posterior, names = self.posterior_, self.posterior_.names
        found: dict[tuple[int, int], Any] = {}
        if posterior.table.n_missing:
            if self.strategy == "mean":
                found = self._best(posterior.impute(networks=self.networks))
            else:
                frame = posterior.completed_tables(1)[0]
                rows, columns = np.nonzero(posterior.table.codes[posterior.table.row_index] < 0)
                values = [frame[name].to_numpy() for name in names]
                found = {(i, k): values[k][i] for i, k in zip(rows.tolist(), columns.tolist(), strict=True)}
        return self._filled(X, cells, found)

    def transform(self, X: ArrayLike) -> Any:
        """Fill in new rows, each given what is observed in it.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`; any cells may be missing.

        Returns
        -------
        ndarray or data frame, shape (n_samples, n_features)
            What was observed stays as it was.
        """
        check_is_fitted(self)
        cells = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
        table = self._draws.completed.table
        rows = self._padded(coded(self._used, cells), len(cells))
        rows = Cells(np.where(rows.codes >= table.n_states, -1, rows.codes), rows.numbers)
        wanted = np.zeros(rows.codes.shape, dtype=np.bool_)
        for k, (j, _) in enumerate(self._used):
            wanted[:, k] = is_missing(cells[:, j])
        some = np.flatnonzero(wanted.any(axis=1))
        found: dict[tuple[int, int], Any] = {}
        if some.size:
            part = Cells(rows.codes[some], rows.numbers[some])
            if self.strategy == "mean":
                made = self._best(predict_of(self._draws, self._table(part)))
            else:
                made = self._drawn(part, wanted[some])
            found = {(int(some[i]), k): value for (i, k), value in made.items() if wanted[some[i], k]}
        return self._filled(X, cells, found)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns that `transform` gives.

        Parameters
        ----------
        input_features : array_like of str, optional
            Names of the columns of the input, where it has none of its own.

        Returns
        -------
        ndarray of str, shape (n_features_out,)
        """
        check_is_fitted(self)
        names: NDArray[Any] = np.asarray(_check_feature_names_in(self, input_features))
        return np.asarray(names[self._kept])

    def _fit(self, X: ArrayLike) -> NDArray[Any]:
        """`fit`, which gives the cells."""
        if self.strategy not in ("mean", "draw"):
            raise ArgumentError(f"strategy is {self.strategy!r}; it must be 'mean' or 'draw'")
        most_integers = most_states_of_numbers(self.categorical_features)
        check_whole("networks", self.networks, 1)
        flags = category_flags(X)
        cells: NDArray[Any] = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan")
        once = np.ones(len(cells), dtype=np.int64)
        columns = self._learn_columns(
            cells,
            lambda j, name: learn_column(
                name, cells[:, j], once, None, flags is not None and flags[j], most_integers=most_integers
            ),
            stacklevel=5,
        )
        self._kept = np.array([j for j, _ in columns])
        self._used = [one for one in columns if one.column.varies]
        self._constants = {j: cells[~is_missing(cells[:, j]), j][0] for j, column in columns if not column.varies}
        self.states_ = {column.name: column.labels for _, column in self._used}
        table = self._table(self._padded(coded(self._used, cells), len(cells)))
        self.posterior_ = self._learn(table, self.equivalent_sample_size, sampled=bool(table.n_missing))
        self._draws: Any = draw_networks(self.posterior_, table, self.networks)
        return cells

    def _table(self, rows: Cells) -> Table:
        """A table of rows; a network has two nodes at least, so constants stand in where too few columns vary."""
        names, states = [*self.states_], [*self.states_.values()]
        while len(names) < rows.codes.shape[1]:
            names.append(unlike("constant", names))
            states.append(("always",))
        return table_of(names, states, rows)

    def _padded(self, rows: Cells, n_rows: int) -> Cells:
        more = max(0, 2 - len(self._used))
        return Cells(
            np.column_stack([rows.codes, np.zeros((n_rows, more), dtype=np.int64)]),
            np.column_stack([rows.numbers, np.full((n_rows, more), np.nan)]),
        )

    def _best(self, answers: pd.DataFrame) -> dict[tuple[int, int], Any]:
        """Mean or most probable label of each cell, by row and column of the table."""
        place = {name: k for k, name in enumerate(self.posterior_.names)}
        columns = answers["column"].map(place).to_numpy()
        rows, best = answers["row"].to_numpy(), answers["probability"].to_numpy(dtype=np.float64)
        found: dict[tuple[int, int], Any] = {}
        if "mean" in answers:
            means = answers["mean"].to_numpy(dtype=np.float64)
            for at in np.flatnonzero(np.isnan(best)).tolist():
                found[int(rows[at]), int(columns[at])] = float(means[at])
        labels = answers["state"].to_numpy()
        for at in np.argsort(-best, kind="stable").tolist():  # the largest is the first; NaN come last
            if not np.isnan(best[at]):
                found.setdefault((int(rows[at]), int(columns[at])), labels[at])
        return found

    def _drawn(self, rows: Cells, wanted: NDArray[np.bool_]) -> dict[tuple[int, int], Any]:
        """One draw of the wanted cells of each row together, from the predictive distribution."""
        draws, seed = self._draws, int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng([seed, 1])  # apart from that of the run over graphs
        if draws.completed.table.numbers is not None:
            return _drawn_in_networks(draws, self._table(rows), rows, wanted, rng)
        found: dict[tuple[int, int], Any] = {}
        for k in np.flatnonzero(wanted.any(axis=0)).tolist():
            here, labels = np.flatnonzero(wanted[:, k]), draws.states[k]
            part = self._table(Cells(rows.codes[here], rows.numbers[here]))
            probabilities = predict_of(draws, part, draws.names[k])["probability"].to_numpy().reshape(len(here), -1)
            rows.codes[here, k] = [_state(rng, own) for own in probabilities]
            found.update({(i, k): labels[rows.codes[i, k]] for i in here.tolist()})
        return found

    def _filled(self, X: Any, cells: NDArray[Any], found: dict[tuple[int, int], Any]) -> Any:
        """The cells with what was found; labels of categories as the values they stand for."""
        column_at = {j: k for k, (j, _) in enumerate(self._used)}
        by_column: dict[int, list[tuple[int, Any]]] = {k: [] for k in range(len(self._used))}
        for (i, k), value in found.items():
            if k < len(self._used):
                by_column[k].append((i, value))
        made: list[NDArray[Any]] = []
        for j in self._kept.tolist():
            values = cells[:, j].copy()
            if j in self._constants:
                values[is_missing(values)] = self._constants[j]
            else:
                k = column_at[j]
                column = self._used[k].column
                if by_column[k] and values.dtype.kind in "iub":
                    values = values.astype(np.float64)
                for i, value in by_column[k]:
                    values[i] = column.value_of[value] if isinstance(column, CategoryColumn) else value
            made.append(values)
        if _pandas_is_wanted(self):
            return self._frame(X, made)
        return np.column_stack(made)

    def _frame(self, X: Any, columns: list[NDArray[Any]]) -> pd.DataFrame:
        """A frame with the types of that which came in: those of numbers that were filled in are floats."""
        names = self.get_feature_names_out()
        index = getattr(X, "index", None) if isinstance(X, pd.DataFrame) else None
        made = {name: pd.Series(values, index=index) for name, values in zip(names, columns, strict=True)}
        frame = pd.DataFrame(made, index=index)
        if isinstance(X, pd.DataFrame):
            numbers = {self.feature_names_in_[j] for j, column in self._used if not column.labels}
            for name in names:
                frame[name] = frame[name].astype(np.float64 if name in numbers else X.dtypes[name])
        return frame


def _drawn_in_networks(
    draws: Any, table: Table, rows: Cells, wanted: NDArray[np.bool_], rng: np.random.Generator
) -> dict[tuple[int, int], Any]:
    """The same of a table with numbers: a network by what was observed, then cell by cell within it."""
    log_weights = log_evidence_of(draws, table)
    weights = np.exp(log_weights - log_weights.max(axis=0))
    found: dict[tuple[int, int], Any] = {}
    for i in range(len(wanted)):
        if not wanted[i].any():
            continue
        network = draws.all[_state(rng, weights[:, i])]
        seen = np.flatnonzero(rows.codes[i] >= 0).tolist()
        states = {j: int(rows.codes[i, j]) for j in seen if not draws.is_number[j]}
        numbers = {j: float(rows.numbers[i, j]) for j in seen if draws.is_number[j]}
        for k in np.flatnonzero(wanted[i]).tolist():
            values = np.array([[*numbers.values()]], dtype=np.float64).reshape(1, -1)
            given = condition(network, (k,), states, [*numbers], values, {})
            if draws.is_number[k]:
                own = given.mixture()
                which = _state(rng, own.weights)
                numbers[k] = found[i, k] = float(own.means[which] + own.sds[which] * rng.standard_normal())
            else:
                states[k] = _state(rng, given.state_probabilities(k, draws.n_states[k])[0])
                found[i, k] = draws.states[k][states[k]]
    return found


def _state(rng: np.random.Generator, weights: Floats) -> int:
    """A position, by weights that need not sum to one."""
    ends = np.cumsum(weights)
    return min(int(np.searchsorted(ends, rng.random() * ends[-1], side="right")), len(ends) - 1)


def _pandas_is_wanted(estimator: Any) -> bool:
    """Whether `set_output`, of the estimator or of scikit-learn, asks for frames of pandas."""
    own = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    return bool((own or sklearn.get_config()["transform_output"]) == "pandas")
