"""Bayesian logistic regression by draws from the posterior, as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.validation import check_random_state

from doxa.checks import check_whole
from doxa.estimates.estimate import Estimate, check_prob
from doxa.parameters.regression import RegressionSample, sample_regression
from doxa.sklearn.binary_classifier import BinaryClassifier

__all__ = ["BayesianLogisticRegression"]

_Floats = NDArray[np.float64]

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

    draws_: _Floats
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

    def decision_function(self, X: ArrayLike) -> _Floats:
        """Log odds of the second class that `predict_proba` gives, shape (n_samples,)."""
        first, second = self.predict_proba(X).T
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(second) - np.log(first))

    def predict_proba(self, X: ArrayLike) -> _Floats:
        """Probabilities of both classes, averaged over the posterior's draws, shape (n_samples, 2)."""
        chances = [(expit(-part).mean(axis=1), expit(part).mean(axis=1)) for part in self._logits(X)]
        return np.concatenate([np.column_stack(pair) for pair in chances]) if chances else np.empty((0, 2))

    def predict_interval(self, X: ArrayLike, prob: float = 0.95) -> _Floats:
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

    def _flat(self) -> _Floats:
        return self.draws_.reshape(-1, self.draws_.shape[-1])

    def _logits(self, X: ArrayLike) -> list[_Floats]:
        """Logits of the rows (some rows, draws), in pieces."""
        design = self._new_design(X)
        flat = self._flat()
        step = max(1, _LOGITS // len(flat))
        return [design[start : start + step] @ flat.T for start in range(0, len(design), step)]
