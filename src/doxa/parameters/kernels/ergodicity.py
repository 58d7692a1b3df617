r"""How fast independence Metropolis-Hastings converges, at worst: Corollary 1 of de Freitas et al. 2001, corrected.

With weights w = posterior / proposal bounded by beta, the chain is within :math:`2 (1 - 1/\beta)^n` of the posterior in
total variation after n steps, wherever it began; with unbounded weights it is not even geometrically ergodic
(Mengersen & Tweedie 1996, Theorem 2.1; their norm is twice the largest difference of probabilities).  For a prior
:math:`N(\mu_0, \Sigma_0)`, a likelihood L and a proposal N(m, S),

.. math:: w(\theta) = \frac{L(\theta)}{p(D)} \sqrt{\frac{|S|}{|\Sigma_0|}} \exp\left[
   -\tfrac12 (\theta - \mu_0)^T \Sigma_0^{-1} (\theta - \mu_0) + \tfrac12 (\theta - m)^T S^{-1} (\theta - m) \right].

The paper's beta is the exponential alone: it lacks the factor before it, with sup L for L.  And equal variances with
different means, which it allows, leave the exponential unbounded.  Every approximation of a logistic posterior in doxa
has the prior's precision plus something, so S is smaller than :math:`\Sigma_0`, log w grows as a square while log L
falls linearly at most, and the chain is never geometrically ergodic.  A share of the prior in the proposal
(`with_prior`) makes w at most sup L / (share p(D)).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, isfinite, isnan, log, log1p
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.sampling.importance_proposals import Mixture, Proposal

__all__ = ["Ergodicity", "gaussian_ergodicity", "mixture_ergodicity", "with_prior"]

Evidence: TypeAlias = Literal["lower bound", "estimate"]
Verdict: TypeAlias = Literal["uniform", "not geometric", "cannot tell"]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Ergodicity:
    r"""What is known of the worst rate of an independence chain.

    Parameters
    ----------
    verdict : {"uniform", "not geometric", "cannot tell"}
        Whether the rate is bounded wherever the chain begins.
    log_beta : float
        Logarithm of beta, the bound on the weights (nats); infinite unless the verdict is "uniform".
    guaranteed : bool
        Whether ``log_beta`` is a bound. With a *lower bound* on the evidence it is, as p(D) stands in the denominator:
        the true weights are smaller and the true rate is better. With an estimate it is an estimate.

    Notes
    -----
    The bound is for the worst start. From a draw of the proposal a chain may do far better than a beta of e^50 says.

    Examples
    --------
    >>> rate = Ergodicity("uniform", float(np.log(4)), guaranteed=True)
    >>> round(rate.distance(10), 4), round(rate.steps_to(0.01), 1)
    (0.1126, 18.4)
    >>> print(rate)
    uniformly ergodic: within 2 (1 - 1 / beta)^n of the posterior after n steps, log beta <= 1.386
    """

    verdict: Verdict
    log_beta: float
    guaranteed: bool

    @property
    def log_rate(self) -> float:
        """log(1 - 1 / beta), at most 0: what each step adds to the logarithm of the distance."""
        return _log_rate(self.log_beta)

    def distance(self, n_steps: int) -> float:
        """Bound on the total variation norm after so many steps from anywhere; at most 2, which says nothing."""
        n_steps = check_whole("n_steps", n_steps, 0)
        return 2.0 if n_steps == 0 else 2.0 * exp(n_steps * self.log_rate)

    def steps_to(self, distance: float) -> float:
        """Steps that are enough, from anywhere, for this total variation norm (above 0); may be infinite."""
        if not distance > 0:
            raise ArgumentError(f"distance is {distance!r}; it must be above 0")
        if distance >= 2:
            return 0.0
        if self.log_beta > 700:  # beyond the range of floats
            return inf
        return float(np.float64(log(distance / 2)) / self.log_rate) if self.log_rate > -inf else 1.0

    def __str__(self) -> str:
        if self.verdict == "uniform":
            sign = "<=" if self.guaranteed else "about"
            return (
                "uniformly ergodic: within 2 (1 - 1 / beta)^n of the posterior after n steps, "
                f"log beta {sign} {self.log_beta:.3f}"
            )
        if self.verdict == "not geometric":
            return (
                "not geometrically ergodic: the proposal's tails are thinner than the prior's, so weights are unbounded"
            )
        return (
            "cannot tell: the ratio of prior and proposal is unbounded, but the likelihood may fall as fast as it grows"
        )


def with_prior(gaussian: Proposal, prior: Proposal, share: float) -> Mixture:
    r"""The proposal (1 - share) N(m, S) + share N(mu_0, Sigma_0), whose weights are bounded.

    Parameters
    ----------
    gaussian, prior : Proposal
        The approximation and the prior, both with normalised densities.
    share : float
        Between 0 and 1. About this share of the draws is wasted.

    Returns
    -------
    Mixture

    Raises
    ------
    ArgumentError
        If ``share`` is not between 0 and 1.
    """
    _check_share(share)
    return Mixture([gaussian, prior], [1 - share, share])


def mixture_ergodicity(
    share: float, max_log_likelihood: float, log_evidence: float, evidence_kind: Evidence
) -> Ergodicity:
    r"""Rate of the independence chain that proposes from the prior with probability ``share`` (`with_prior`).

    Parameters
    ----------
    share : float
        Between 0 and 1.
    max_log_likelihood : float
        log sup L or more, nats. For discrete data 0 is always right, as probabilities are at most 1.
    log_evidence : float
        log p(D) (nats), or what stands for it.
    evidence_kind : {"lower bound", "estimate"}
        What ``log_evidence`` is; see `Ergodicity`.

    Returns
    -------
    Ergodicity
        beta = sup L / (share p(D)).

    Raises
    ------
    ArgumentError
        If ``share`` is out of range, a number is not finite, the evidence exceeds the largest likelihood (it is a mean
        of likelihoods), or ``evidence_kind`` is neither.

    Examples
    --------
    >>> print(mixture_ergodicity(0.1, -4.0, -6.0, "lower bound"))  # 2 + log(10)
    uniformly ergodic: within 2 (1 - 1 / beta)^n of the posterior after n steps, log beta <= 4.303
    """
    _check_share(share)
    ratio = _log_ratio(max_log_likelihood, log_evidence, evidence_kind)
    return Ergodicity("uniform", ratio - log(share), evidence_kind == "lower bound")


def gaussian_ergodicity(
    gaussian: GaussianProposal,
    prior: GaussianProposal,
    max_log_likelihood: float,
    log_evidence: float,
    evidence_kind: Evidence,
) -> Ergodicity:
    r"""Rate of the independence chain that proposes from a Gaussian alone, the prior being Gaussian: Corollary 1.

    Parameters
    ----------
    gaussian, prior : GaussianProposal
        ``mean`` (d,) and ``cholesky`` (d, d) of the approximation and of the prior.
    max_log_likelihood, log_evidence, evidence_kind
        As in `mixture_ergodicity`.

    Returns
    -------
    Ergodicity
        "not geometric" where the proposal is narrower than the prior in some direction: it is so if the log likelihood
        falls at most linearly there, as that of logistic networks does. Where some direction has the prior's variance
        but not its mean, and none is narrower, the ratio grows linearly: "cannot tell".

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As `mixture_ergodicity`, and if a Gaussian is none or the two differ in their coordinates.

    Notes
    -----
    In coordinates where the prior is N(0, I) and S is diagonal with variances :math:`\lambda_i`, the proposal's mean
    being :math:`\delta`, the exponent is a sum of :math:`-y_i^2 / 2 + (y_i - \delta_i)^2 / 2 \lambda_i`, whose largest
    value is :math:`\delta_i^2 / 2 (\lambda_i - 1)` if :math:`\lambda_i > 1`.

    Examples
    --------
    >>> class Normal:
    ...     def __init__(self, mean, sd):
    ...         self.mean, self.cholesky = np.array([mean]), np.array([[sd]])
    ...
    ...     sample = log_density = None
    >>> prior = Normal(0.0, 1.0)
    >>> print(gaussian_ergodicity(Normal(0.5, 0.8), prior, -4.0, -6.0, "lower bound").verdict)
    not geometric
    >>> wide = gaussian_ergodicity(Normal(0.5, 1.5), prior, -4.0, -6.0, "estimate")
    >>> round(wide.log_beta, 4)  # 2 + log(1.5) + 0.25 / 2.5
    2.5055
    """
    ratio = _log_ratio(max_log_likelihood, log_evidence, evidence_kind)
    check_gaussian("gaussian", gaussian)
    check_gaussian("prior", prior)
    if len(gaussian.mean) != len(prior.mean):
        raise ArgumentError(f"gaussian has {len(gaussian.mean)} coordinates, prior {len(prior.mean)}")
    variances, shift = _relative(gaussian, prior)
    equal = np.abs(variances - 1) <= _ROUNDING
    if (~equal & (variances < 1)).any():
        return Ergodicity("not geometric", inf, guaranteed=True)
    if (equal & (np.abs(shift) > _ROUNDING)).any():
        return Ergodicity("cannot tell", inf, guaranteed=True)
    wider = ~equal
    largest = 0.5 * (shift[wider] ** 2 / (variances[wider] - 1)).sum()
    log_beta = ratio + 0.5 * float(np.log(variances[wider]).sum()) + float(largest)
    return Ergodicity("uniform", log_beta, evidence_kind == "lower bound")


def _relative(gaussian: GaussianProposal, prior: GaussianProposal) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances and means (d,) of the Gaussian along its axes, where the prior is standard normal."""
    factor = solve_triangular(prior.cholesky, gaussian.cholesky, lower=True)
    axes, lengths, _ = np.linalg.svd(factor)
    mean = solve_triangular(prior.cholesky, np.asarray(gaussian.mean) - prior.mean, lower=True)
    return lengths**2, axes.T @ mean


def _log_rate(log_beta: float) -> float:
    """log(1 - exp(-log_beta)) for log_beta >= 0, without loss at either end."""
    if log_beta <= 0:
        return -inf
    return log(-expm1(-log_beta)) if log_beta < 0.7 else log1p(-exp(-log_beta))


def _log_ratio(max_log_likelihood: float, log_evidence: float, evidence_kind: str) -> float:
    """log(sup L / p(D)), nats."""
    if evidence_kind not in ("lower bound", "estimate"):
        raise ArgumentError(
            f"evidence_kind is {evidence_kind!r}; it must be 'lower bound' or 'estimate'; upper bounds prove nothing"
        )
    for name, value in (("max_log_likelihood", max_log_likelihood), ("log_evidence", log_evidence)):
        if isnan(value) or not isfinite(value):
            raise ArgumentError(f"{name} is {value!r}; it must be a finite number of nats")
    if log_evidence > max_log_likelihood:
        raise ArgumentError(
            f"log_evidence is {log_evidence:.6g}, above max_log_likelihood, {max_log_likelihood:.6g}; the evidence is "
            "a mean of likelihoods, so it cannot exceed their largest"
        )
    return max_log_likelihood - log_evidence


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ArgumentError(f"share is {share!r}; it must lie between 0 and 1, such as 0.05")
