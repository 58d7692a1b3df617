"""Factor analysis of binary columns for scikit-learn: `doxa.parameters.variational.latent_trait` behind it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.parameters.variational.latent_trait import fit_latent_trait

__all__ = ["BinaryFactorAnalysis"]


class BinaryFactorAnalysis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A few normal factors behind binary columns: the latent trait model of Jaakkola & Jordan (2000, section 6).

    One or two factors are learned by maximum likelihood, by quadrature over them, where `fit_latent_trait` finds that
    affordable; more by the variational EM of the paper.

    Parameters
    ----------
    n_components : int, default=2
        Factors; at most the number of features.
    binarize : float or None, default=0.0
        A cell is 1 if it is above this; 0/1 and -1/+1 data come out as they should. None: cells must be 0 or 1.
        NaN is missing, and is integrated over, in either case.
    prior_scale : float or None, default=10.0
        Standard deviation of a Gaussian prior of loadings and biases; None for none.
    max_iter : int, default=5000
        Limit of the times that the posteriors of all rows are computed.
    tol : float, default=1e-8
        Stop when three iterations in a row raise the bound by less than this share of 1 + its size.

    Attributes
    ----------
    components_ : ndarray of float, shape (n_components, n_features)
        Loadings, turned to principal axes: orthogonal rows, the longest first, the largest entry of each positive.
    intercept_ : ndarray of float, shape (n_features,)
        Biases: the log odds of each column where all factors are 0.
    log_likelihood_bound_ : float
        Lower bound of the log likelihood of the data fitted to, nats; where ``model_.spacing`` is a number, the log
        likelihood itself.
    model_ : LatentTrait
        The fitted model, with its trace and more that it can be asked.
    n_iter_ : int
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> X = [[0, 0, 0], [1, 1, 1], [0, 0, np.nan], [1, 1, 0], [0, 1, 0], [1, 1, 1]]
    >>> model = BinaryFactorAnalysis(n_components=1).fit(X)
    >>> model.transform([[1, 1, 1], [np.nan, np.nan, np.nan]]).round(2) + 0.0
    array([[1.09],
           [0.  ]])
    >>> model.reconstruct([[1, 1, np.nan]]).round(2)
    array([[0.86, 0.95, 0.65]])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        binarize: float | None = 0.0,
        prior_scale: float | None = 10.0,
        max_iter: int = 5000,
        tol: float = 1e-8,
    ) -> None:
        self.n_components = n_components
        self.binarize = binarize
        self.prior_scale = prior_scale
        self.max_iter = max_iter
        self.tol = tol

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,  # noqa: ARG002
        sample_weight: ArrayLike | None = None,
    ) -> BinaryFactorAnalysis:
        """Learn loadings and biases.

        Parameters
        ----------
        X : array_like of float, shape (n_samples, n_features)
        y : object
            Not used.
        sample_weight : array_like of float, shape (n_samples,), optional
            How many times each row was seen.

        Returns
        -------
        BinaryFactorAnalysis
            Itself.
        """
        cells = self._cells(X, reset=True)
        weight = _check_sample_weight(sample_weight, cells, dtype=np.float64, ensure_non_negative=True)
        self.model_ = fit_latent_trait(
            cells,
            self.n_components,
            counts=weight,
            prior_scale=self.prior_scale,
            tolerance=self.tol,
            max_iterations=self.max_iter,
        )
        self.components_ = self.model_.loadings.T.copy()
        self.intercept_ = self.model_.biases.copy()
        self.log_likelihood_bound_ = self.model_.log_bound
        self.n_iter_ = self.model_.n_iterations
        if not self.model_.converged:
            warnings.warn(
                f"the bound was still rising after {self.n_iter_} iterations; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Posterior mean of each row's factors, shape (n_samples, n_components)."""
        check_is_fitted(self)
        return self.model_.posterior(self._cells(X)).mean

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Probability that each column is 1 where the factors are exactly ``X``, shape (n_samples, n_features)."""
        check_is_fitted(self)
        factors = np.asarray(X, dtype=np.float64)
        k = self.components_.shape[0]
        if factors.ndim != 2 or factors.shape[1] != k:
            raise ArgumentError(f"X has shape {factors.shape}; it must be (n_samples, {k}), a column for each factor")
        return np.asarray(expit(self.intercept_ + factors @ self.components_))

    def reconstruct(self, X: ArrayLike) -> Floats:
        """Probability that each cell is 1 given the observed cells of its row, shape (n_samples, n_features).

        Averaged over the posterior of the factors. For a missing cell this is its prediction.
        """
        check_is_fitted(self)
        return self.model_.probabilities(self._cells(X))

    def score_samples(self, X: ArrayLike) -> Floats:
        """Lower bound of the log probability of each row's observed cells, nats; shape (n_samples,)."""
        check_is_fitted(self)
        return self.model_.posterior(self._cells(X)).log_bound

    def score(self, X: ArrayLike, y: Any = None) -> float:  # noqa: ARG002
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _cells(self, X: ArrayLike, *, reset: bool = False) -> Floats:
        """0, 1 and NaN."""
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        present = values[~np.isnan(values)]
        if np.array_equal(np.unique(present), (-1.0, 0.0, 1.0)):
            raise ArgumentError("X holds -1, 0 and 1; missing cells are NaN here: np.where(X < 0, np.nan, X)")
        if self.binarize is not None:
            return np.where(np.isnan(values), np.nan, values > self.binarize)
        wrong = present[(present != 0) & (present != 1)]
        if wrong.size:
            raise ArgumentError(f"X holds {wrong[0]:g}; with binarize=None its cells are 0, 1 and NaN for missing")
        return np.asarray(values)
