"""A bound on the weights of a part's independent proposals: corollary 1 of de Freitas et al. (2001), corrected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

from doxa.parameters.kernels.ergodicity import mixture_ergodicity
from doxa.parameters.regression_target import RegressionTarget
from doxa.parameters.variational.optimal import elbo

if TYPE_CHECKING:
    from doxa.models.logistic_regression import LogisticRegressionProblem
    from doxa.parameters.approximate import Approximated
    from doxa.parameters.cascade import Rung

__all__ = ["log_beta", "max_log_likelihood"]


def log_beta(found: Approximated, rung: Rung) -> float:
    """Bound on the log weights (nats) of a regression's independent proposals; infinite for anything else.

    The likelihood is at most that of the saturated model, and any Gaussian's variational bound is below the evidence.
    """
    share = 0.0 if rung.reach is None else rung.reach.share
    if rung.method != "independence" or not share or not isinstance(found.target, RegressionTarget):
        return np.inf
    problem, gaussian = found.target.problem, found.proposal
    largest = max_log_likelihood(problem)
    return mixture_ergodicity(share, largest, min(elbo(problem, gaussian), largest), "lower bound").log_beta


def max_log_likelihood(problem: LogisticRegressionProblem) -> float:
    """Log likelihood (nats) where each distinct row has a probability of its own: no less than any.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> problem = make_problem([[1.0], [1.0]], [1, -1], counts=[3, 1])
    >>> round(max_log_likelihood(problem), 4)  # 3 log(3 / 4) + log(1 / 4)
    -2.2493
    """
    rows = np.column_stack([problem.design, problem.offset])
    _, place = np.unique(rows, axis=0, return_inverse=True)
    place = place.reshape(-1)
    ones = np.bincount(place, weights=problem.counts * (problem.sign > 0))
    zeros = np.bincount(place, weights=problem.counts * (problem.sign < 0))
    total = ones + zeros
    return float((xlogy(ones, ones / total) + xlogy(zeros, zeros / total)).sum())
