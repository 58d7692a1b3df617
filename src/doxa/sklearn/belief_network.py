"""A belief network over features and class, averaged over its posterior, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.data.table import Table
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.sklearn.class_probabilities import ClassProbabilities, class_probabilities
from doxa.sklearn.coded_columns import CodedColumn, category_flags, is_missing, learn_column, unlike
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.posterior import Posterior
from doxa.structure.cases.incomplete.cells_sampler import usual_steps
from doxa.structure.learn import learn

__all__ = ["BeliefNetworkClassifier"]


_SUMMED = 10  # columns up to which summing over all graphs is quicker than sampling
_CASES = 5.0  # prior weight of each class
_DRAWS, _INCOMPLETE_DRAWS = 250, 60  # of each chain; between two of the latter, missing cells are redrawn
_APART = 1.1  # R-hat of the log score: chains that sit in different modes


class BeliefNetworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classification by belief networks over all features and the class, averaged over the posterior.

    Graphs, parameters and missing cells are all averaged over (`doxa.learn`), and the probabilities of the classes are
    predictive ones: a network counts as much as it makes the features of the row probable.  Features may be missing, in
    training and in new rows; they are assumed to be missing at random, and summed out.

    Texts, booleans and categories of a data frame are states, as are whole numbers if they take at most 20 different
    values.  All other numbers are cut into bins of about equal weight, learned from the training rows; values beyond
    the first and last cut belong to the bins at the ends.

    Parameters
    ----------
    equivalent_sample_size : float, optional
        Weight of the BDeu prior, in cases; when left out, 5 for each class.  That is more than `doxa.learn` takes:
        tables that are filled in smoothly predict better, though more edges are found.
    max_parents : int or None, default=3
        Largest number of parents of every node; any number if None.  With few rows and many states BDeu takes sets of
        parents so large that every row has its own configuration for better than none.
    prior : {"uniform", "sparse", "in_degree"}, default="uniform"
        Of graphs, as for `doxa.learn`.
    edge_log_odds : float, default=0.0
        Added to the log prior of a graph for each of its edges; negative for sparser graphs.
    bins : int, default=5
        Most bins that a feature of numbers is cut into.
    chains : int, default=4
        Independent chains, started far apart.
    draws : int, optional
        Graphs kept from each chain.  When left out, 250, and 60 where cells are missing; where none is, and features
        and class are at most 10 columns, all graphs are summed over instead of sampling.
    warmup : int, optional
        Draws discarded before that; half of ``draws`` when left out.
    until : Until, optional
        An accuracy at which to stop, instead of ``draws``.
    networks : int, default=400
        About how many networks to average over.
    unseen : {"prior", "error"}, default="prior"
        A state in new rows that the training rows do not have gets the prior's share, as one more state of its feature
        that no case was in, or is an error.
    n_jobs : int, optional
        Chains that run at the same time; one for each core when left out.
    random_state : int, RandomState or None, default=None
        The same integer gives the same draws.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
    posterior_ : Posterior
        As `doxa.learn` gives it: ``posterior_.edges()`` and much more.  Columns have the features' names (``"x0"`` and
        so on without such); the class is the last.
    class_name_ : str
        The name of its column: that of ``y`` if it has one, else "class".
    states_ : dict of str to tuple of str
        The states of every feature that is used.  Features that never vary in the training rows are not: they say
        nothing about the class.
    converged_ : bool or None
        Whether the chains agree by the strict rules of `doxa.learn`, about every edge; probabilities of classes are
        good well before.  None where that cannot be told.
    verdict_ : str
        The same in words, with the numbers.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Identical rows are one row with a count, so rows may come in any order.  Weights of samples are counts.

    Examples
    --------
    >>> X = [["red", 1.5], ["red", None], ["blue", 8.1], ["blue", 9.0], ["red", 2.5], ["blue", 7.7]] * 3
    >>> X = np.array(X, dtype=object)
    >>> y = ["apple", "apple", "plum", "plum", "apple", "plum"] * 3
    >>> model = BeliefNetworkClassifier(draws=50, random_state=1).fit(X, y)
    >>> model.predict(np.array([["red", 1.0], [None, 8.0]], dtype=object))
    array(['apple', 'plum'], dtype='<U5')
    """

    classes_: NDArray[Any]
    posterior_: Posterior

    def __init__(
        self,
        equivalent_sample_size: float | None = None,
        *,
        max_parents: int | None = 3,
        prior: str = "uniform",
        edge_log_odds: float = 0.0,
        bins: int = 5,
        chains: int = 4,
        draws: int | None = None,
        warmup: int | None = None,
        until: Until | None = None,
        networks: int = 400,
        unseen: str = "prior",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.equivalent_sample_size = equivalent_sample_size
        self.max_parents = max_parents
        self.prior = prior
        self.edge_log_odds = edge_log_odds
        self.bins = bins
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.until = until
        self.networks = networks
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BeliefNetworkClassifier:
        """Draw networks from the posterior given these rows.

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            Numbers, texts, booleans or categories; NaN, None and ``pandas.NA`` are missing.
        y : array_like, shape (n_samples,)
            Labels; none missing.
        sample_weight : array_like, shape (n_samples,), optional
            How many times each row was seen: whole numbers.

        Returns
        -------
        BeliefNetworkClassifier
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
        self._check_options()
        flags, named = category_flags(X), getattr(y, "name", None)
        cells, labels = validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")
        check_classification_targets(_present(labels))
        counts = _whole_weights(_check_sample_weight(sample_weight, cells, dtype=np.float64))
        here = counts > 0
        cells, labels, counts = cells[here], labels[here], counts[here]
        self.classes_, target = np.unique(labels, return_inverse=True)
        columns = self._learn_columns(cells, counts, flags)
        table = self._table(columns, cells, target, counts, named)
        self._used = [(j, column) for j, column in columns if column.name in table.names[:-1]]
        self.class_name_ = table.names[-1]
        self.states_ = dict(zip(table.names[:-1], table.states[:-1], strict=True))
        self.posterior_ = self._learn(table)
        self._chances = ClassProbabilities(draw_networks(self.posterior_, table, self.networks))
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predictive probability of every class, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array_like or data frame, shape (n_samples, n_features)
            As for `fit`; any cells may be missing.

        Raises
        ------
        ArgumentError
            If a state was never seen and ``unseen`` is "error".
        BudgetError
            If so many features of a row are missing that exact inference is too costly in some network.
        """
        check_is_fitted(self)
        cells = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=False)
        codes = np.full((len(cells), len(self._used) + 1), -1, dtype=np.int64)
        for k, (j, column) in enumerate(self._used):
            codes[:, k] = column.code(cells[:, j])
            if self.unseen == "error":
                self._refuse_unseen(column, cells[:, j], codes[:, k])
        return class_probabilities(self._chances, codes)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of `predict_proba`, nats; shape (n_samples, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @property
    def converged_(self) -> bool | None:
        """Whether the chains agree; None where that cannot be told."""
        return self.posterior_.converged

    @property
    def verdict_(self) -> str:
        """The same in words."""
        return self.posterior_.verdict

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _check_options(self) -> None:
        check_whole("bins", self.bins, 2)
        check_whole("networks", self.networks, 1)
        if self.unseen not in ("prior", "error"):
            raise ArgumentError(f"unseen is {self.unseen!r}; it must be 'prior' or 'error'")

    def _learn_columns(
        self, cells: NDArray[Any], counts: NDArray[np.int64], flags: list[bool] | None
    ) -> list[tuple[int, CodedColumn]]:
        """Features that vary, with their places; one of the others if none does."""
        names: list[str] = []
        for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(cells.shape[1])]):
            names.append(unlike(str(name) or "feature", names))
        all_columns = [
            learn_column(name, cells[:, j], counts, self.bins, flags is not None and flags[j])
            for j, name in enumerate(names)
        ]
        n_seen = [(column.code(cells[:, j]) >= 0).any() for j, column in enumerate(all_columns)]
        empty = [name for name, seen in zip(names, n_seen, strict=True) if not seen]
        if len(empty) == len(names):
            raise ArgumentError("every cell of X is missing; there is nothing to learn from")
        if empty:
            warnings.warn(f"every cell is missing in {', '.join(empty)}, which will not be used", stacklevel=3)
        pairs = [(j, column) for j, column in enumerate(all_columns) if n_seen[j]]
        return [(j, column) for j, column in pairs if len(column.labels) > 1] or pairs[:1]

    def _table(
        self,
        columns: list[tuple[int, CodedColumn]],
        cells: NDArray[Any],
        target: NDArray[np.intp],
        counts: NDArray[np.int64],
        named: Any,
    ) -> Table:
        """The table to learn from, its rows in an order that depends on their values alone."""
        names = [column.name for _, column in columns]
        states: list[str] = []
        for value in self.classes_.tolist():
            states.append(unlike(str(value), states))
        own = unlike(named if isinstance(named, str) and named else "class", names)
        codes = np.column_stack([*(column.code(cells[:, j]) for j, column in columns), target])
        distinct, place = np.unique(codes, axis=0, return_inverse=True)
        times = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(times, place.ravel(), counts)
        return Table.from_codes([*names, own], [*(column.labels for _, column in columns), states], distinct, times)

    def _learn(self, table: Table) -> Posterior:
        n, own = len(table.names), self.equivalent_sample_size
        asked = any(value is not None for value in (self.draws, self.warmup, self.until))
        exact = not asked and not table.n_missing and n <= _SUMMED
        draws = self.draws
        if draws is None and self.until is None and not exact:
            draws = _INCOMPLETE_DRAWS if table.n_missing else _DRAWS
        posterior = learn(
            table,
            equivalent_sample_size=_CASES * len(self.classes_) if own is None else own,
            max_parents=self.max_parents,
            prior=self.prior,
            edge_log_odds=self.edge_log_odds or None,
            exact=None if exact else False,
            chains=self.chains,
            draws=draws,
            warmup=self.warmup,
            thin=usual_steps(n) if table.n_missing else None,
            until=self.until,
            seed=int(check_random_state(self.random_state).randint(2**31)),
            workers=self.n_jobs,
            progress=False,
        )
        if not exact and self.chains > 1 and posterior.log_score_diagnosis.r_hat > _APART:
            warnings.warn(posterior.verdict, ConvergenceWarning, stacklevel=3)
        return posterior

    def _refuse_unseen(self, column: CodedColumn, values: NDArray[Any], codes: NDArray[np.int64]) -> None:
        new = np.flatnonzero(codes == len(column.labels))
        if new.size:
            raise ArgumentError(
                f"feature {column.name!r} has {values[new[0]]!r} in row {new[0]}, which the training rows do not; "
                "unseen='prior' gives it the prior's share"
            )


def _present(labels: NDArray[Any]) -> NDArray[Any]:
    """The labels, if none is missing: scikit-learn looks for NaN alone."""
    if labels.dtype.kind == "O" and is_missing(labels).any():
        raise ArgumentError("Input y contains NaN or None; every row needs its class: leave out those without")
    return labels


def _whole_weights(weight: Floats) -> NDArray[np.int64]:
    counts = weight.astype(np.int64)
    wrong = np.flatnonzero((counts != weight) | (weight < 0))
    if wrong.size:
        raise ArgumentError(
            f"sample_weight[{wrong[0]}] is {weight[wrong[0]]:g}; weights say how many times a row was seen: whole "
            "numbers, 0 or more"
        )
    if not counts.any():
        raise ArgumentError("sample_weight is 0 everywhere; at least one row must be seen")
    return counts
