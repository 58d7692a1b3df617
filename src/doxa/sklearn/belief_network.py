"""A belief network over features and class, averaged over its posterior, as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.stopping import Until
from doxa.sklearn.belief_networks import (
    BeliefNetworkEstimator,
    Cells,
    UsedColumn,
    coded,
    table_of,
    whole_weights,
)
from doxa.sklearn.class_probabilities import ClassProbabilities, class_probabilities
from doxa.sklearn.coded_columns import CodedColumn, MeasuredColumn, category_flags, is_missing, learn_column, unlike
from doxa.structure.averaging.draws import draw_networks
from doxa.structure.averaging.posterior import Posterior
from doxa.structure.averaging.predict import predict_of
from doxa.structure.averaging.whole_rows import log_states_of_rows, takes_whole_rows

__all__ = ["BeliefNetworkClassifier"]


_CASES = 5.0  # prior weight of each class


_NUMBERS = ("bins", "conditional_gaussian", "additive", "auto")


class _Member(NamedTuple):
    """Features and networks under one choice of what becomes of numbers."""

    used: list[UsedColumn]
    draws: Any
    probabilities: ClassProbabilities | None  # None where columns hold numbers


class BeliefNetworkClassifier(ClassifierMixin, BeliefNetworkEstimator):  # type: ignore[misc]
    """Classification by belief networks over all features and the class, averaged over the posterior.

    Graphs, parameters and missing cells are all averaged over (`doxa.learn`), and the probabilities of the classes are
    predictive ones: a network counts as much as it makes the features of the row probable.  Features may be missing, in
    training and in new rows; they are assumed to be missing at random, and summed out.

    Texts, booleans and categories of a data frame are states, as are whole numbers if they take at most 20 different
    values.  All other numbers are cut into bins of about equal weight, learned from the training rows; values beyond
    the first and last cut belong to the bins at the ends.  With ``numbers="conditional_gaussian"`` they stay numbers:
    each a linear regression on its parents in each configuration of those that are categories, the class among these.
    With ``numbers="additive"`` the class may also depend on numbers, by a logistic or multinomial regression.  Several
    choices may be named: then each is learned, and their probabilities of the classes are averaged with equal weights.
    Where one form of the model is too sure of itself, another seldom is in the same rows.

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
    numbers : {"bins", "conditional_gaussian", "additive", "auto"} or a tuple of these, default="bins"
        What becomes of features that are numbers: bins, or regressions with normal scatter, as ``family`` of
        `doxa.learn` has them: the class above the numbers, above or below, or a sum over both.  Of several, in a
        tuple, probabilities are averaged.
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
        that no case was in, or is an error.  Beside features that stay numbers "prior" takes it for a missing cell.
    n_jobs : int, optional
        Chains that run at the same time; one for each core when left out.
    random_state : int, RandomState or None, default=None
        The same integer gives the same draws.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
    posterior_ : Posterior
        As `doxa.learn` gives it: ``posterior_.edges()`` and much more.  Columns have the features' names (``"x0"`` and
        so on without such); the class is the last.  Where ``numbers`` names several choices, that of the first.
    posteriors_ : dict of str to Posterior
        Of every choice that ``numbers`` names.
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
    posteriors_: dict[str, Posterior]

    def __init__(
        self,
        equivalent_sample_size: float | None = None,
        *,
        max_parents: int | None = 3,
        prior: str = "uniform",
        edge_log_odds: float = 0.0,
        numbers: str | tuple[str, ...] = "bins",
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
        self.numbers = numbers
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
        counts = whole_weights(_check_sample_weight(sample_weight, cells, dtype=np.float64))
        here = counts > 0
        cells, labels, counts = cells[here], labels[here], counts[here]
        self.classes_, target = np.unique(labels, return_inverse=True)
        self._members: list[_Member] = []
        self.posteriors_ = {}
        for kind in self._kinds():
            self._fit_one(kind, cells, target, counts, flags, named)
        self.posterior_ = next(iter(self.posteriors_.values()))
        return self

    def _kinds(self) -> tuple[str, ...]:
        return (self.numbers,) if isinstance(self.numbers, str) else tuple(self.numbers)

    def _fit_one(
        self,
        kind: str,
        cells: NDArray[Any],
        target: NDArray[Any],
        counts: NDArray[np.int64],
        flags: list[bool] | None,
        named: Any,
    ) -> None:
        """Learn with one choice of what becomes of numbers."""
        bins = self.bins if kind == "bins" else None
        columns = self._learn_columns(
            cells,
            lambda j, name: learn_column(name, cells[:, j], counts, bins, flags is not None and flags[j]),
            stacklevel=5,
        )
        used = [one for one in columns if one.column.varies] or columns[:1]
        names = [column.name for _, column in used]
        class_name = unlike(named if isinstance(named, str) and named else "class", names)
        classes: list[str] = []
        for value in self.classes_.tolist():
            classes.append(unlike(str(value), classes))
        states = {column.name: column.labels for _, column in used}
        table = table_of([*names, class_name], [*states.values(), tuple(classes)], _rows(used, cells, target), counts)
        own = self.equivalent_sample_size
        posterior = self._learn(
            table,
            _CASES * len(self.classes_) if own is None else own,
            family=None if kind == "bins" else kind,
        )
        draws = draw_networks(posterior, table, self.networks)
        probabilities = None if table.is_number.any() else ClassProbabilities(draws)
        self._members.append(_Member(used, draws, probabilities))
        self.posteriors_[kind] = posterior
        if len(self._members) == 1:
            self.class_name_, self.states_ = class_name, states

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
        found = [self._probabilities(member, cells) for member in self._members]
        return found[0] if len(found) == 1 else np.mean(found, axis=0)

    def _probabilities(self, member: _Member, cells: NDArray[Any]) -> Floats:
        """Of the classes, under one choice of what becomes of numbers."""
        used, draws, probabilities = member
        rows = _rows(used, cells, np.full(len(cells), -1))
        if self.unseen == "error":
            for k, (j, column) in enumerate(used):
                self._refuse_unseen(column, cells[:, j], rows.codes[:, k])
        if probabilities is not None:
            return class_probabilities(probabilities, rows.codes)
        table = draws.completed.table
        known = Cells(np.where(rows.codes >= table.n_states, -1, rows.codes), rows.numbers)
        found = np.empty((len(cells), len(self.classes_)))
        whole = (known.codes[:, :-1] >= 0).all(axis=1) & takes_whole_rows(draws)
        if whole.any():
            logs = log_states_of_rows(draws, known.codes[whole], known.numbers[whole], len(table.names) - 1)
            found[whole] = np.exp(logs)
        if not whole.all():
            new = table_of([*table.names], [*table.states], Cells(known.codes[~whole], known.numbers[~whole]))
            rest = predict_of(draws, new, table.names[-1])["probability"].to_numpy()
            found[~whole] = rest.reshape(-1, len(self.classes_))
        return found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of `predict_proba`, nats; shape (n_samples, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _check_options(self) -> None:
        check_whole("bins", self.bins, 2)
        check_whole("networks", self.networks, 1)
        if self.unseen not in ("prior", "error"):
            raise ArgumentError(f"unseen is {self.unseen!r}; it must be 'prior' or 'error'")
        kinds = self._kinds() if isinstance(self.numbers, (str, tuple, list)) else ()
        if not kinds or len(set(map(str, kinds))) < len(kinds) or any(kind not in _NUMBERS for kind in kinds):
            raise ArgumentError(
                f"numbers is {self.numbers!r}; it must be one of {', '.join(map(repr, _NUMBERS))}, or a tuple of "
                "different ones, whose probabilities are averaged"
            )

    def _refuse_unseen(self, column: CodedColumn, values: NDArray[Any], codes: NDArray[np.int64]) -> None:
        new = np.flatnonzero((codes == len(column.labels)) & (not isinstance(column, MeasuredColumn)))
        if new.size:
            raise ArgumentError(
                f"feature {column.name!r} has {values[new[0]]!r} in row {new[0]}, which the training rows do not; "
                "unseen='prior' gives it the prior's share"
            )


def _rows(used: list[UsedColumn], cells: NDArray[Any], target: NDArray[Any]) -> Cells:
    """The rows with the class as the last column."""
    codes, numbers = coded(used, cells)
    return Cells(np.column_stack([codes, target]), np.column_stack([numbers, np.full(len(cells), np.nan)]))


def _present(labels: NDArray[Any]) -> NDArray[Any]:
    """The labels, if none is missing: scikit-learn looks for NaN alone."""
    if labels.dtype.kind == "O" and is_missing(labels).any():
        raise ArgumentError("Input y contains NaN or None; every row needs its class: leave out those without")
    return labels
