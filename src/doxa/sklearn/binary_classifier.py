"""What the classifiers share: labels, design matrices, and the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from doxa.errors import ArgumentError
from doxa.models.logistic_regression import LogisticRegressionProblem, make_problem
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["BinaryClassifier", "check_labels", "check_two_classes"]

_Floats = NDArray[np.float64]


class BinaryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A logistic regression of two classes with a Gaussian prior of scale ``prior_scale``."""

    classes_: NDArray[Any]
    prior_scale: float
    fit_intercept: bool

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each row, shape (n_samples,)."""
        decision = self.decision_function(X)
        return np.asarray(self.classes_[(decision > 0).astype(np.intp)])

    def decision_function(self, X: ArrayLike) -> _Floats:
        """Log odds of the second class, shape (n_samples,)."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike) -> _Floats:
        """Probabilities of both classes, shape (n_samples, 2)."""
        raise NotImplementedError

    def predict_log_proba(self, X: ArrayLike) -> _Floats:
        """Logarithms of `predict_proba`, nats; shape (n_samples, 2)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _whole_problem(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> LogisticRegressionProblem:
        """Check a training set, note its classes, and put its rows in an order that depends on their values alone."""
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        classes = np.unique(check_labels(labels))
        check_two_classes(classes)
        self.classes_ = classes
        design, sign = self._design(rows), self._sign(labels)
        order = _canonical_order(np.column_stack([design, sign]))
        return self._problem(design[order], sign[order], weight[order], None, collapse=True)

    def _problem(
        self, design: _Floats, sign: _Floats, weight: _Floats, before: GaussianPosterior | None, *, collapse: bool
    ) -> LogisticRegressionProblem:
        if not 0 < self.prior_scale < np.inf:
            raise ArgumentError(f"prior_scale is {self.prior_scale!r}; it must be above 0 and finite")
        mean, covariance = (0.0, float(self.prior_scale) ** 2) if before is None else (before.mean, before.covariance)
        return make_problem(
            design, sign, counts=weight, prior_mean=mean, prior_covariance=covariance, collapse=collapse
        )

    def _new_design(self, X: ArrayLike) -> _Floats:
        check_is_fitted(self)
        return self._design(validate_data(self, X, dtype=np.float64, reset=False))

    def _design(self, X: _Floats) -> _Floats:
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def _sign(self, y: NDArray[Any]) -> _Floats:
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


def _canonical_order(table: _Floats) -> NDArray[np.intp]:
    """An order of the rows that depends on their values alone."""
    values = np.ascontiguousarray(table + 0.0)  # -0.0 and 0.0 are one value
    return np.argsort(values.view(np.dtype((np.void, values.dtype.itemsize * values.shape[1]))).ravel(), kind="stable")
