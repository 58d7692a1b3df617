"""Bayesian logistic regression as scikit-learn classifiers: by draws from the posterior, or by a Gaussian
approximation.

The approximations are those of `doxa.parameters.variational`; Jaakkola & Jordan (2000) proposed the batch and the
sequential one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.parameters.regression import RegressionSample, sample_regression
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.bound import expected_log_logistic, predictive_bound
from doxa.parameters.variational.laplace import laplace_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.sequential import sequential_posterior
from doxa.sampling.gaussian import GaussianPosterior


class BinaryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A logistic regression of two classes with a Gaussian prior of scale ``prior_scale``."""

    classes_: NDArray[Any]
    prior_scale: float
    fit_intercept: bool

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each row, shape (n_samples,)."""
        decision = self.decision_function(X)
        return np.asarray(self.classes_[(decision > 0).astype(np.intp)])

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log odds of the second class, shape (n_samples,)."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of both classes, shape (n_samples, 2)."""
        raise NotImplementedError

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of `predict_proba`, nats; shape (n_samples, 2)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _training_set(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Floats, NDArray[Any], Floats]:
        """Rows, labels and weights, checked; the classes are noted."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        classes = np.unique(check_labels(labels))
        check_two_classes(classes)
        self.classes_ = classes
        return rows, labels, weight

    def _whole_problem(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> LogisticRegressionProblem:
        """A training set whose rows are in an order that depends on their values alone."""
        rows, labels, weight = self._training_set(X, y, sample_weight)
        design, sign = self._design(rows), self._sign(labels)
        order = _canonical_order(np.column_stack([design, sign]))
        return self._problem(design[order], sign[order], weight[order], None, collapse=True)

    def _problem(
        self, design: Floats, sign: Floats, weight: Floats, before: GaussianPosterior | None, *, collapse: bool
    ) -> LogisticRegressionProblem:
        if not 0 < self.prior_scale < np.inf:
            raise ArgumentError(f"prior_scale is {self.prior_scale!r}; it must be above 0 and finite")
        mean, covariance = (0.0, float(self.prior_scale) ** 2) if before is None else (before.mean, before.covariance)
        return make_problem(
            design, sign, counts=weight, prior_mean=mean, prior_covariance=covariance, collapse=collapse
        )

    def _new_design(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        return self._design(validate_data(self, X, dtype=np.float64, reset=False))

    def _design(self, X: Floats) -> Floats:
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def _sign(self, y: NDArray[Any]) -> Floats:
        return np.where(y == self.classes_[1], 1.0, -1.0)


def check_labels(y: NDArray[Any]) -> NDArray[Any]:
    """The labels, if they are of a classification into two; else scikit-learn's own error."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    return y


def check_two_classes(classes: NDArray[Any]) -> None:
    """Raise ArgumentError unless there are two."""
    if classes.size != 2:
        raise ArgumentError(
            f"there are {classes.size} classes ({', '.join(map(str, classes[:5]))}); there must be two: "
            "one class alone cannot be told from nothing"
        )


def _canonical_order(table: Floats) -> NDArray[np.intp]:
    """An order of the rows that depends on their values alone."""
    values = np.ascontiguousarray(table + 0.0)  # -0.0 and 0.0 are one value
    return np.argsort(values.view(np.dtype((np.void, values.dtype.itemsize * values.shape[1]))).ravel(), kind="stable")


_LOGITS = 2**22  # held at once: 32 MB


class BayesianLogisticRegression(BinaryClassifier):
    """Logistic regression with a Gaussian prior, by Markov chain Monte Carlo; two classes.

    Parameters
    ----------
    prior_scale : float, default=10.0
        Standard deviation of the prior of every coefficient, the intercept among them; the prior mean is 0.
    fit_intercept : bool, default=True
        Add a column of ones.
    method : str, default="auto"
        As in `doxa.fit`: pilot draws choose the kernel, or a name does.
    draws : int, default=1000
        Kept from each chain, after half as many that are discarded.
    chains : int, default=4
        Independent chains; where steps need gradients, each is a group of eight.
    n_jobs : int, optional
        Chains that run at the same time; one for each core when left out.
    random_state : int, RandomState or None, default=None
        The same integer gives the same draws.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
    coef_, intercept_ : ndarray of float, shapes (1, n_features) and (1,)
        Posterior means.
    draws_ : ndarray of float, shape (n_chains, n_draws, d)
        Draws of the coefficients; the intercept is the last.
    covariance_ : ndarray of float, shape (d, d)
        Posterior covariance.
    method_ : str
        The kernel that was used; ``why_`` says what decided.
    acceptance_ : float
        Its mean acceptance probability.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    VariationalLogisticRegression : a Gaussian instead of draws.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"]
    >>> model = BayesianLogisticRegression(prior_scale=2.0, random_state=1).fit(X, y)
    >>> model.draws_.shape, model.coef_.round(1)
    ((4, 1000, 2), array([[2.4]]))
    >>> model.predict_proba([[0.5]]).round(2), model.predict_interval([[0.5]]).round(1)
    (array([[0.3, 0.7]]), array([[0.2, 1. ]]))
    """

    draws_: Floats
    sample_: RegressionSample

    def __init__(
        self,
        prior_scale: float = 10.0,
        fit_intercept: bool = True,
        method: str = "auto",
        draws: int = 1000,
        chains: int = 4,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.method = method
        self.draws = draws
        self.chains = chains
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BayesianLogisticRegression:
        """Draw from the posterior given these rows.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
        y : array_like, shape (n_samples,)
            Two different labels.
        sample_weight : array_like of float, shape (n_samples,), optional
            How many times each row was seen.

        Returns
        -------
        BayesianLogisticRegression
            Itself.
        """
        problem = self._whole_problem(X, y, sample_weight)
        self.sample_ = sample_regression(
            problem,
            method=self.method,
            chains=self.chains,
            draws=check_whole("draws", self.draws, 4),
            seed=int(check_random_state(self.random_state).randint(2**31)),
            workers=self.n_jobs,
            progress=False,
        )
        self.draws_ = self.sample_.draws
        flat = self._flat()
        n = self.n_features_in_
        mean = flat.mean(axis=0)
        self.coef_ = mean[None, :n]
        self.intercept_ = mean[n:] if self.fit_intercept else np.zeros(1)
        self.covariance_ = np.atleast_2d(np.cov(flat, rowvar=False))
        self.method_, self.why_, self.acceptance_ = self.sample_.method, self.sample_.why, self.sample_.acceptance
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log odds of the second class that `predict_proba` gives, shape (n_samples,)."""
        first, second = self.predict_proba(X).T
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(second) - np.log(first))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of both classes, averaged over the posterior's draws, shape (n_samples, 2)."""
        probabilities = [(expit(-part).mean(axis=1), expit(part).mean(axis=1)) for part in self._logits(X)]
        return np.concatenate([np.column_stack(pair) for pair in probabilities]) if probabilities else np.empty((0, 2))

    def predict_interval(self, X: ArrayLike, prob: float = 0.95) -> Floats:
        """Central interval of the probability of the second class over the posterior, shape (n_samples, 2).

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
        prob : float, default=0.95
            Posterior probability inside.

        Raises
        ------
        ArgumentError
            If ``prob`` is not between 0 and 1.
        """
        tail = (1 - check_prob(prob)) / 2
        ends = [np.quantile(part, (tail, 1 - tail), axis=1).T for part in self._logits(X)]
        return np.asarray(expit(np.concatenate(ends))) if ends else np.empty((0, 2))

    def log_evidence(self) -> Estimate:
        """Log marginal likelihood of the labels (nats), by bridge sampling, with its error."""
        return self.sample_.log_evidence

    def _flat(self) -> Floats:
        return self.draws_.reshape(-1, self.draws_.shape[-1])

    def _logits(self, X: ArrayLike) -> list[Floats]:
        """Logits of the rows (some rows, draws), in pieces."""
        design = self._new_design(X)
        flat = self._flat()
        step = max(1, _LOGITS // len(flat))
        return [design[start : start + step] @ flat.T for start in range(0, len(design), step)]


_METHODS: dict[str, Callable[..., GaussianPosterior]] = {
    "batch": batch_posterior,
    "optimal": optimal_posterior,
    "laplace": laplace_posterior,
}


class VariationalLogisticRegression(BinaryClassifier):
    """Logistic regression with a Gaussian prior and a Gaussian approximate posterior; two classes.

    Parameters
    ----------
    prior_scale : float, default=10.0
        Standard deviation of the prior of every coefficient, the intercept among them; the prior mean is 0.
    fit_intercept : bool, default=True
        Add a column of ones.
    method : {"optimal", "batch", "sequential", "laplace"}, default="optimal"
        "optimal": the Gaussian closest to the posterior, the most accurate of the four. "batch": the bound of Jaakkola
        & Jordan with all xi optimised together; on few rows and many features it is too sure. "sequential": their
        single pass over the rows, whose result depends on the order. "laplace": the Gaussian at the posterior's mode.
    max_iter : int, default=2000
        Limit of the iterations; "sequential" has none.
    tol : float, default=1e-8
        Tolerance of the method: `doxa.parameters.variational` says of what.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
    coef_, intercept_ : ndarray of float, shapes (1, n_features) and (1,)
        Posterior means.
    covariance_ : ndarray of float, shape (d, d)
        Posterior covariance; the intercept is the last of the d coefficients.
    log_evidence_ : float
        Of all data seen, nats: a lower bound or an estimate, as ``evidence_kind_`` says.
    evidence_kind_ : {"lower bound", "estimate"}
    posterior_ : GaussianPosterior
        The same Gaussian, to draw from and evaluate.
    n_iter_ : int
        Iterations; rows seen where the rows are taken one by one.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : one point, no uncertainty.

    Examples
    --------
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"]
    >>> model = VariationalLogisticRegression(prior_scale=2.0).fit(X, y)
    >>> model.coef_.round(3), model.posterior_.sd.round(3)
    (array([[2.408]]), array([1.144, 1.378]))
    >>> model.predict_proba([[0.5], [5.0]]).round(3)  # nearer to 1/2 than at the mean coefficients
    array([[0.297, 0.703],
           [0.025, 0.975]])
    """

    posterior_: GaussianPosterior
    log_evidence_: float
    evidence_kind_: str
    n_iter_: int

    def __init__(
        self,
        prior_scale: float = 10.0,
        fit_intercept: bool = True,
        method: str = "optimal",
        max_iter: int = 2000,
        tol: float = 1e-8,
    ) -> None:
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.method = method
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> VariationalLogisticRegression:
        """Approximate the posterior given these rows, whatever was seen before.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
        y : array_like, shape (n_samples,)
            Two different labels.
        sample_weight : array_like of float, shape (n_samples,), optional
            How many times each row was seen. A whole weight is a row repeated that often; except with "sequential",
            the order of the rows changes no digit.

        Returns
        -------
        VariationalLogisticRegression
            Itself.
        """
        if self.method != "sequential" and self.method not in _METHODS:
            raise ArgumentError(f"method is {self.method!r}; it must be one of {[*sorted(_METHODS), 'sequential']}")
        if self.method == "sequential":
            self._set(self._pass(*self._training_set(X, y, sample_weight), None))
            return self
        problem = self._whole_problem(X, y, sample_weight)
        posterior = _METHODS[self.method](problem, tolerance=self.tol, max_iterations=self.max_iter)
        self._set(posterior)
        if not posterior.converged:
            warnings.warn(
                f"{posterior.method} did not converge in {posterior.n_iterations} iterations; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> VariationalLogisticRegression:
        """Take in further rows one by one, the posterior so far being the prior (Jaakkola & Jordan, eqs. 10-12).

        The first call starts at the prior. Rows in one call or in many give the same posterior.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
        y : array_like, shape (n_samples,)
        classes : array_like, shape (2,), optional
            Both labels; needed in the first call.
        sample_weight : array_like of float, shape (n_samples,), optional
            Whole numbers: how many times each row is taken in, one after the other. Others: the power of its
            likelihood, with one xi for all of it.

        Returns
        -------
        VariationalLogisticRegression
            Itself.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ArgumentError("classes must be given in the first call of partial_fit: both labels, in any order")
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=first)
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        known = np.unique(np.asarray(classes)) if classes is not None else self.classes_
        check_two_classes(known)
        if not first and not np.array_equal(known, self.classes_):
            raise ArgumentError(f"classes is {known.tolist()}; earlier calls said {self.classes_.tolist()}")
        strange = np.setdiff1d(check_labels(labels), known)
        if strange.size:
            raise ArgumentError(f"y holds the label {strange[0]!r}, which is none of the classes {known.tolist()}")
        self.classes_ = known
        before = None if first else self.posterior_
        posterior = self._pass(rows, labels, weight, before)
        if before is None:
            self._set(posterior)
        else:
            total, kind, seen = self.log_evidence_ + posterior.log_evidence, self.evidence_kind_, self.n_iter_
            # the bounded likelihood so far is the evidence times the Gaussian; of other methods' Gaussians it is not
            kept = kind == "lower bound" and before.method in ("batch variational", "sequential variational")
            self._set(posterior)
            self.log_evidence_, self.n_iter_ = total, seen + posterior.n_iterations
            self.evidence_kind_ = "lower bound" if kept else "estimate"
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log odds of the second class that `predict_proba` gives, shape (n_samples,)."""
        mean, small = self._averaged(X)
        with np.errstate(divide="ignore"):
            odds = np.log1p(-small) - np.log(small)
        return np.where(mean > 0, odds, -odds)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of both classes, averaged over the posterior by quadrature, shape (n_samples, 2)."""
        mean, small = self._averaged(X)
        second = np.where(mean > 0, 1 - small, small)
        return np.column_stack([np.where(mean > 0, small, 1 - small), second])

    def predictive_log_bound(self, X: ArrayLike) -> Floats:
        """Lower bounds (nats) of the logarithms of `predict_proba` (Jaakkola & Jordan, eq. 14); shape (n_samples, 2).

        They are bounds under the approximate posterior, not under the true one.
        """
        design = self._new_design(X)
        ones = np.ones(len(design))
        return np.column_stack([predictive_bound(self.posterior_, design, sign * ones) for sign in (-1, 1)])

    def _pass(self, X: Floats, y: NDArray[Any], weight: Floats, before: GaussianPosterior | None) -> GaussianPosterior:
        problem = self._problem(self._design(X), self._sign(y), weight, before, collapse=False)
        whole = bool((weight == np.round(weight)).all())
        return sequential_posterior(problem, repeats="each" if whole else "weighted")

    def _set(self, posterior: GaussianPosterior) -> None:
        n = self.n_features_in_
        self.posterior_ = posterior
        self.coef_ = posterior.mean[None, :n].copy()
        self.intercept_ = posterior.mean[n:].copy() if self.fit_intercept else np.zeros(1)
        self.covariance_ = posterior.covariance.copy()
        self.log_evidence_ = posterior.log_evidence
        self.evidence_kind_ = posterior.evidence_kind
        self.n_iter_ = posterior.n_iterations

    def _averaged(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Mean of each row's logit, and the averaged probability of the class that is less probable."""
        design = self._new_design(X)
        mean, spread = design @ self.posterior_.mean, design @ self.posterior_.cholesky
        size = np.abs(mean)
        sd = np.sqrt(np.einsum("ij,ij->i", spread, spread))
        # averaging moves a probability towards 1/2, which bounds what quadrature's absolute error of 1e-9 could spoil
        return mean, np.clip(expected_log_logistic(size, sd).slope, expit(-size), 0.5)
