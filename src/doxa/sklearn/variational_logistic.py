"""Bayesian logistic regression by a Gaussian approximation, as a scikit-learn classifier.

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
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data

from doxa.errors import ArgumentError
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.expectations import expected_log_logistic
from doxa.parameters.variational.laplace import laplace_posterior
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.predictive import predictive_bound
from doxa.parameters.variational.sequential import sequential_posterior
from doxa.sampling.gaussian import GaussianPosterior
from doxa.sklearn.binary_classifier import BinaryClassifier, check_labels, check_two_classes

__all__ = ["VariationalLogisticRegression"]

_Floats = NDArray[np.float64]
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
            rows, labels = validate_data(self, X, y, dtype=np.float64)
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
            classes = np.unique(check_labels(labels))
            check_two_classes(classes)
            self.classes_ = classes
            self._set(self._pass(rows, labels, weight, None))
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

    def decision_function(self, X: ArrayLike) -> _Floats:
        """Log odds of the second class that `predict_proba` gives, shape (n_samples,)."""
        mean, small = self._averaged(X)
        with np.errstate(divide="ignore"):
            odds = np.log1p(-small) - np.log(small)
        return np.where(mean > 0, odds, -odds)

    def predict_proba(self, X: ArrayLike) -> _Floats:
        """Probabilities of both classes, averaged over the posterior by quadrature, shape (n_samples, 2)."""
        mean, small = self._averaged(X)
        second = np.where(mean > 0, 1 - small, small)
        return np.column_stack([np.where(mean > 0, small, 1 - small), second])

    def predictive_log_bound(self, X: ArrayLike) -> _Floats:
        """Lower bounds (nats) of the logarithms of `predict_proba` (Jaakkola & Jordan, eq. 14); shape (n_samples, 2).

        They are bounds under the approximate posterior, not under the true one.
        """
        design = self._new_design(X)
        ones = np.ones(len(design))
        return np.column_stack([predictive_bound(self.posterior_, design, sign * ones) for sign in (-1, 1)])

    def _pass(
        self, X: _Floats, y: NDArray[Any], weight: _Floats, before: GaussianPosterior | None
    ) -> GaussianPosterior:
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

    def _averaged(self, X: ArrayLike) -> tuple[_Floats, _Floats]:
        """Mean of each row's logit, and the averaged probability of the class that is less probable."""
        design = self._new_design(X)
        mean, spread = design @ self.posterior_.mean, design @ self.posterior_.cholesky
        size = np.abs(mean)
        sd = np.sqrt(np.einsum("ij,ij->i", spread, spread))
        # averaging moves a probability towards 1/2, which bounds what quadrature's absolute error of 1e-9 could spoil
        return mean, np.clip(expected_log_logistic(size, sd).slope, expit(-size), 0.5)
