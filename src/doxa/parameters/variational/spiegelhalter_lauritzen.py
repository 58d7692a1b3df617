r"""The one-pass update of Spiegelhalter & Lauritzen (1990), as Jaakkola & Jordan (2000, eqs. 17 and 18) describe it.

Each row's log likelihood is expanded to second order at the mean of the Gaussian before it: :math:`\Sigma_{post}^{-1}
= \Sigma^{-1} + \hat p (1 - \hat p) x x^T`, :math:`\mu_{post} = \mu + (S - \hat p) \Sigma_{post} x`. Nothing is
optimised and nothing bounded; it is here for comparison.  Laplace's method proper, which expands at the posterior's
mode, is `doxa.parameters.variational.laplace`.
"""

from __future__ import annotations

import math

from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.one_pass import Repeats, one_pass
from doxa.sampling.gaussian import GaussianPosterior

__all__ = ["spiegelhalter_lauritzen_posterior"]


def spiegelhalter_lauritzen_posterior(
    problem: LogisticRegressionProblem, *, repeats: Repeats = "each"
) -> GaussianPosterior:
    """Gaussian posterior of one pass of second-order expansions (Jaakkola & Jordan 2000, eqs. 17 and 18).

    Parameters
    ----------
    problem : LogisticRegressionProblem
        Its rows are taken in the order they have, and the result depends on it.
    repeats : {"each", "weighted"}, default="each"
        A row with count c is seen c times in a row (counts must be whole), or once with weight c.

    Returns
    -------
    GaussianPosterior
        ``log_evidence`` is an estimate (nats), the sum of the integrals of the expanded likelihoods (in ``trace``).

    Raises
    ------
    ArgumentError
        If ``repeats`` is neither, or "each" and a count is not whole.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> fit = spiegelhalter_lauritzen_posterior(make_problem([[1.0]], [1], prior_covariance=1.0))
    >>> fit.mean.round(3), fit.covariance.round(3)  # 0.5 / 1.25 and 1 / 1.25
    (array([0.4]), array([[0.8]]))
    """
    return one_pass(problem, _rule, repeats=repeats, method="Spiegelhalter-Lauritzen", evidence_kind="estimate")


def _rule(mean: float, variance: float, weight: float) -> tuple[float, float, float]:
    small = math.exp(-abs(mean))
    failure = (small if mean > 0 else 1.0) / (1 + small)  # g(-mean): 1 - p_hat for the outcome that was seen
    slope, curvature = weight * failure, weight * small / (1 + small) ** 2
    log_likelihood = weight * (min(mean, 0.0) - math.log1p(small))
    growth = 1 + curvature * variance
    log_predictive = log_likelihood + 0.5 * slope**2 * variance / growth - 0.5 * math.log(growth)
    return curvature, slope + curvature * mean, log_predictive
