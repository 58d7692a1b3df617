"""A belief network over features and a number, averaged over its posterior, as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data.table import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.sklearn.belief_networks import (
    BeliefNetworkEstimator,
    Cells,
    coded,
    most_states_of_numbers,
    table_of,
    whole_weights,
)
from doxa.sklearn.coded_columns import category_flags, learn_column, unlike
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.numbers import NumberAnswer, NumberQuestion, number_answer, row_distributions
from doxa.structure.averaging.posterior import Posterior
from doxa.structure.averaging.predict import log_score_of, predict_of

__all__ = ["BeliefNetworkRegressor"]


class BeliefNetworkRegressor(RegressorMixin, BeliefNetworkEstimator):  # type: ignore[misc]
    """Prediction of a number by belief networks over all features and the number, averaged over the posterior.

    Graphs, parameters and missing cells are all averaged over (`doxa.learn`); a network counts as much as it makes the
    features of the row probable.  Features may be missing, in training and in new rows; they are assumed to be missing
    at random, and summed out.  A number is a linear regression with normal scatter on its parents, in each
    configuration of those that are categories; no edge leads from a number to a category.

    Parameters
    ----------
    equivalent_sample_size : float, default=1.0
        Weight of the prior of categories, in cases; tables of numbers alone have none.
    max_parents : int or None, default=None
        Largest number of parents of every node; any number if None.
    prior : {"sparse", "uniform", "in_degree"}, default="uniform"
        Of graphs, as for `doxa.learn`.
    edge_log_odds : float, default=0.0
        Added to the log prior of a graph for each of its edges; negative for sparser graphs.
    categorical_features : {"from_dtype", "auto"}, default="from_dtype"
        Which features are categories: texts, booleans and categories of a data frame; with "auto" also whole numbers
        of at most 20 different values.
    chains : int, default=4
        Independent chains, started far apart.
    draws : int, optional
        Graphs kept from each chain.  When left out, 250, and 60 where cells are missing; where none is, and features
        and target are at most 10 columns, all graphs are summed over instead of sampling.
    warmup : int, optional
        Draws discarded before that; half of ``draws`` when left out.
    until : Until, optional
        An accuracy at which to stop, instead of ``draws``.
    networks : int, default=400
        About how many networks to average over.
    n_jobs : int, optional
        Chains that run at the same time; one for each core when left out.
    random_state : int, RandomState or None, default=None
        The same integer gives the same draws.

    Attributes
    ----------
    posterior_ : Posterior
        As `doxa.learn` gives it: ``posterior_.edges()`` and much more.  The target is the last column.
    target_name_ : str
        The name of its column: that of ``y`` if it has one, else "target".
    states_ : dict of str to tuple of str
        The states of every feature that is used, none of a number.  Features that never vary in the training rows are
        not used.
    converged_ : bool or None
        Whether the chains agree by the strict rules of `doxa.learn`, about every edge.
    verdict_ : str
        The same in words, with the numbers.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    BeliefNetworkClassifier : the same where the target is a class.

    Notes
    -----
    Identical rows are one row with a count, so rows may come in any order.  Weights of samples are counts.  A category
    in a new row that the training rows do not have counts as missing.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> X = rng.standard_normal((50, 2))
    >>> y = 3 + 2 * X[:, 0] + rng.standard_normal(50)
    >>> model = BeliefNetworkRegressor(random_state=1).fit(X, y)
    >>> mean, sd = model.predict([[1.0, np.nan], [np.nan, np.nan]], return_std=True)
    >>> mean.round(0), sd.round(0)
    (array([5., 3.]), array([1., 2.]))
    """

    posterior_: Posterior

    def __init__(
        self,
        equivalent_sample_size: float = 1.0,
        *,
        max_parents: int | None = None,
        prior: str = "uniform",
        edge_log_odds: float = 0.0,
        categorical_features: str = "from_dtype",
        chains: int = 4,
        draws: int | None = None,
        warmup: int | None = None,
        until: Until | None = None,
        networks: int = 400,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BeliefNetworkRegressor:
        """Draw networks from the posterior given these rows.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            Numbers, texts, booleans or categories; NaN, None and ``pandas.NA`` are missing.
        y : array_like of float, shape (n_samples,)
            Numbers; none missing.
        sample_weight : array_like, shape (n_samples,), optional
            How many times each row was seen: whole numbers.

        Returns
        -------
        BeliefNetworkRegressor
            Itself.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If an option is out of range, a weight is not whole, or every cell is missing.

        Warns
        -----
        UserWarning
            If every cell of a feature is missing.
        ConvergenceWarning
            If the chains sit in different modes.
        """
        most_integers = most_states_of_numbers(self.categorical_features)
        check_whole("networks", self.networks, 1)
        flags, named = category_flags(X), getattr(y, "name", None)
        cells, target = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan", y_numeric=True)
        counts = whole_weights(_check_sample_weight(sample_weight, cells, dtype=np.float64))
        here = counts > 0
        cells, target, counts = cells[here], np.asarray(target[here], dtype=np.float64), counts[here]
        columns = self._learn_columns(
            cells,
            lambda j, name: learn_column(
                name, cells[:, j], counts, None, flags is not None and flags[j], most_integers=most_integers
            ),
        )
        self._used = [one for one in columns if one.column.varies] or columns[:1]
        names = [column.name for _, column in self._used]
        self.target_name_ = unlike(named if isinstance(named, str) and named else "target", names)
        self.states_ = {column.name: column.labels for _, column in self._used}
        table = table_of(
            [*names, self.target_name_], [*self.states_.values(), ()], self._with_target(cells, target), counts
        )
        self.posterior_ = self._learn(table, self.equivalent_sample_size)
        self._draws: Any = draw_networks(self.posterior_, table, self.networks)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Mean of the predictive distribution of each row, in the unit of the target.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`; any cells may be missing.
        return_std : bool, default=False
            Whether to give the standard deviation, too: scatter of cases, and what the data leave open.

        Returns
        -------
        ndarray of float, shape (n_samples,)
            With ``return_std`` two of them: means and standard deviations.
        """
        found = predict_of(self._fitted_draws(), self._rows(X), self.target_name_)
        mean = np.asarray(found["mean"], dtype=np.float64)
        return (mean, np.asarray(found["sd"], dtype=np.float64)) if return_std else mean

    def predict_distribution(self, X: ArrayLike) -> list[NumberAnswer]:
        """The predictive distribution of each row: quantiles, probabilities beyond thresholds, density.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`; any cells may be missing.

        Returns
        -------
        list of NumberAnswer
            As `doxa.Posterior.predictive` gives it, one for each row; every row takes some milliseconds.
        """
        draws, rows = self._fitted_draws(), self._rows(X)
        codes, numbers = rows.codes[rows.row_index], rows.numbers
        assert numbers is not None  # the target is one
        numbers = numbers[rows.row_index]
        found = []
        target = len(draws.names) - 1
        for code, number in zip(codes, numbers, strict=True):
            given = {j: float(number[j] if draws.is_number[j] else code[j]) for j in range(target) if code[j] >= 0}
            question = NumberQuestion((target,), None, given, {})
            found.append(number_answer(draws, question, weighted=True))
        return found  # type: ignore[return-value]  # the target is a number

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.025, 0.5, 0.975)) -> Floats:
        """Quantiles of the predictive distribution of each row, in the unit of the target.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`; any cells may be missing.
        quantiles : array_like of float, shape (n_quantiles,), default=(0.025, 0.5, 0.975)
            Between 0 and 1, both excluded.

        Returns
        -------
        ndarray of float, shape (n_samples, n_quantiles)

        Raises
        ------
        ArgumentError
            If a quantile is not between 0 and 1.
        """
        levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise ArgumentError(f"quantiles is {quantiles!r}; it must hold numbers between 0 and 1, as in (0.1, 0.9)")
        each = row_distributions(self._fitted_draws(), self._rows(X), self.target_name_)
        return np.array([[one.quantile(float(p)) for p in levels] for one in each]).reshape(-1, levels.size)

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log of the predictive density of each row's target, log p(y | features, data).

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`; any cells may be missing.
        y : array_like of float, shape (n_samples,)
            The numbers that were seen.

        Returns
        -------
        ndarray of float, shape (n_samples,)
            Nats, per unit of the target.  Their mean is a proper score: the higher, the better the predictions.

        Raises
        ------
        ArgumentError
            If ``y`` has another length, or holds what is no finite number.
        """
        draws = self._fitted_draws()
        features = self._rows(X)
        target = np.asarray(y, dtype=np.float64)
        if target.shape != (features.n_rows,) or not np.isfinite(target).all():
            raise ArgumentError(
                f"y has shape {target.shape} for {features.n_rows} rows of X; it must hold one finite number for each"
            )
        joint, alone = (log_score_of(draws, rows).rows for rows in (self._rows(X, target), features))
        return np.asarray(joint["log_probability"] - alone["log_probability"], dtype=np.float64)

    def _fitted_draws(self) -> Any:
        check_is_fitted(self)
        return self._draws

    def _rows(self, X: ArrayLike, target: Floats | None = None) -> Table:
        """New rows as a table; a category that was never seen is missing."""
        cells = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
        table = self._draws.completed.table
        own = np.full(len(cells), np.nan) if target is None else target
        codes, numbers = self._with_target(cells, own)
        known = Cells(np.where(codes >= table.n_states, -1, codes), numbers)
        return table_of([*table.names], [*table.states], known)

    def _with_target(self, cells: NDArray[Any], target: Floats) -> Cells:
        codes, numbers = coded(self._used, cells)
        own = np.where(np.isnan(target), -1, 0)
        return Cells(np.column_stack([codes, own]), np.column_stack([numbers, target]))
