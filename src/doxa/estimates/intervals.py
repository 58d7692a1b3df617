r"""Intervals for Monte Carlo averages: Student's t, a two-state chain's, and the bound for a state never left.

A 0/1 quantity near 0 or 1 has no use for ``value +/- 2 mcse``: that leaves [0, 1] and has no width where the chain
never switched.  The two-state interval is the posterior of p = a / (a + b), where the chain leaves 0 at rate a and 1 at
rate b, after its counts are divided by a dispersion: the effective counts of Korn & Graubard (1998).  The dispersion
itself (what a two-state chain cannot explain) is found in `doxa.estimates.batches`; nothing here sees draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "StudentInterval",
    "TwoStateInterval",
    "UnmetInterval",
    "UnseenInterval",
    "student_quantile",
    "switching_rates",
    "tail_widths",
    "two_state_bounds",
    "unmet_bound",
    "unmet_error",
    "unseen_bound",
    "unseen_error",
]

# Pseudo-switches on each rate: Beta(1/4, 1/4).  Jeffreys' 1/2 on each of two rates is 1 on their ratio and makes a
# single visit look better known than it is; over p drawn from four priors, visits seen at most once were covered in
# 83-95% of runs with 1/2 and in 85-97% with 1/4.
RATE_PRIOR = 0.25


def student_quantile(df: ArrayLike, prob: float) -> NDArray[np.float64]:
    """Half-width in standard errors of a central interval of Student's t; ``inf`` degrees of freedom are the normal."""
    from scipy.special import ndtri, stdtrit

    df = np.asarray(df, dtype=np.float64)
    order = 0.5 + prob / 2
    finite = np.isfinite(df)
    quantile: NDArray[np.float64] = np.where(finite, stdtrit(np.where(finite, df, 1.0), order), ndtri(order))
    return quantile


def tail_widths(df: ArrayLike, skew: ArrayLike, prob: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Widths below and above of a central interval, in standard errors: Student's t, more on the side of the skew.

    ``skew`` is 0 where both sides are alike; else its size :math:`\nu` is twice the number of visits that the scatter
    comes from, with a minus where they are to small values.  A sum over :math:`\lambda` visits of random (exponential)
    length has coefficient of variation :math:`\sqrt{2/\lambda}`, and its mean over the sum seen follows about
    :math:`F(2\lambda, 2\lambda)`, as the odds of a two-state chain do.  So that side is :math:`\tfrac{1}{2}
    \sqrt{\nu}\, (F_{\nu,\nu} - 1)` standard errors, if more than t: few visits seen are compatible with many more.
    Our derivation; its coverage is simulated in ``benchmarks/coverage_indicators.py`` and
    ``benchmarks/coverage_stopped.py``.
    """
    from scipy.special import fdtri

    symmetric = student_quantile(df, prob)
    skew = np.asarray(skew)
    few = np.where(skew == 0, 1.0, np.abs(skew))
    visits = np.where(skew == 0, 0.0, np.sqrt(few) / 2 * (fdtri(few, few, 0.5 + prob / 2) - 1))
    stretched = np.maximum(symmetric, visits)
    return np.where(skew < 0, stretched, symmetric), np.where(skew > 0, stretched, symmetric)


def switching_rates(
    n_zero: NDArray[np.float64], n_one: NDArray[np.float64], switches: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means of the rates of leaving 0 and 1 in one step, Beta(1/4, 1/4) prior on each.

    From the draws in each state that have a successor, and the switches in one direction: the mean of rises and falls.

    >>> switching_rates(np.array([90.0]), np.array([10.0]), np.array([5.0]))
    (array([0.05801105]), array([0.5]))
    """
    prior = RATE_PRIOR
    return (switches + prior) / (n_zero + 2 * prior), (switches + prior) / (n_one + 2 * prior)


def two_state_bounds(
    n_zero: ArrayLike,
    n_one: ArrayLike,
    switches: ArrayLike,
    dispersion: ArrayLike,
    df: ArrayLike,
    skew: ArrayLike,
    prob: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Central interval for the probability of state 1 of an over-dispersed two-state chain, in [0, 1].

    Counts are as in `switching_rates`.  ``dispersion`` is the variance of the sample mean over the two-state chain's,
    at least 1, with ``df`` degrees of freedom (``inf`` where that chain explains everything); ``skew`` as in
    `tail_widths`.

    All counts are divided by :math:`\phi' = \max(1, \phi\, (w / z)^2)`, w from `tail_widths`: Korn & Graubard's (1998)
    effective sample size.  Then :math:`a \sim \mathrm{Beta}(A, B)`, :math:`A = k/\phi' + 1/4`, :math:`B = (n_0 -
    k)/\phi' + 1/4`, likewise b, and each Beta is replaced by the Gamma distribution with its mean and coefficient of
    variation, shape :math:`A (A + B + 1) / B`, so that a / (a + b) has a quantile in closed form (an inverse incomplete
    beta function).  The approximation is exact in the two limits that matter: rare switches (Poisson) and many switches
    (normal logit).
    """
    from scipy.special import betaincinv

    n_zero, n_one, switches, dispersion = (
        np.asarray(x, dtype=np.float64) for x in (n_zero, n_one, switches, dispersion)
    )
    normal = student_quantile(np.inf, prob)
    below, above = tail_widths(df, skew, prob)
    tail = 0.5 - prob / 2
    bounds = []
    for width, order in ((below, tail), (above, 1 - tail)):
        factor = np.maximum(1.0, dispersion * (width / normal) ** 2)
        zero, one, left = n_zero / factor, n_one / factor, switches / factor
        shape_zero, shape_one = _gamma_shape(left, zero), _gamma_shape(left, one)
        # a / (a + b) = y w / (y w + 1 - y), y ~ Beta(shape_zero, shape_one); 1 - y by the mirrored call: exact in
        # both tails
        weight = (one + 2 * RATE_PRIOR) / (zero + 2 * RATE_PRIOR) * shape_one / shape_zero
        y, rest = betaincinv(shape_zero, shape_one, order), betaincinv(shape_one, shape_zero, 1 - order)
        bounds.append(y * weight / (y * weight + rest))
    return bounds[0], bounds[1]


def _gamma_shape(switches: NDArray[np.float64], exposure: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shape of the Gamma distribution with the coefficient of variation of Beta(switches + prior, stays + prior)."""
    left = switches + RATE_PRIOR
    stayed = np.maximum(exposure - switches, 0.0) + RATE_PRIOR
    return left * (left + stayed + 1) / stayed


def unseen_bound(ess: ArrayLike, prob: float = 0.95) -> NDArray[np.float64]:
    """Upper limit for the probability of a state never seen in ``ess`` effective draws, measured on quantities that
    switched.

    The quantile of Beta(1, ess + 1), the posterior under a uniform prior; at 95% close to 3 / ess, the rule of three
    (Hanley & Lippman-Hand 1983).
    """
    bound: NDArray[np.float64] = -np.expm1(np.log1p(-prob) / (np.asarray(ess, dtype=np.float64) + 1))
    return bound


def unseen_error(ess: ArrayLike) -> NDArray[np.float64]:
    """Root mean square of the probability of a state never seen, under the same Beta(1, ess + 1): the error of calling
    it 0.
    """
    ess = np.asarray(ess, dtype=np.float64)
    error: NDArray[np.float64] = np.sqrt(2 / ((ess + 2) * (ess + 3)))
    return error


def unmet_bound(ess: ArrayLike, prob: float = 0.95) -> NDArray[np.float64]:
    """Upper limit for the probability of all that the chains never met, as part of the error of an average.

    The quantile of Beta(1/4, ess + 1): the prior of switching rates, not the uniform one of `unseen_bound`, since a
    region that nobody asked about is a priori less likely to be there than a state that somebody did.

    >>> float(unmet_bound(1000).round(5))
    0.00121
    """
    from scipy.special import betaincinv

    bound: NDArray[np.float64] = betaincinv(RATE_PRIOR, np.asarray(ess, dtype=np.float64) + 1, prob)
    return bound


def unmet_error(ess: ArrayLike) -> NDArray[np.float64]:
    """Root mean square of the probability of all that the chains never met, under the same Beta(1/4, ess + 1).

    >>> float(unmet_error(1000).round(5))
    0.00056
    """
    a, b = RATE_PRIOR, np.asarray(ess, dtype=np.float64) + 1
    error: NDArray[np.float64] = np.sqrt(a * (a + 1) / ((a + b) * (a + b + 1)))
    return error


def _logistic(logit: float) -> float:
    """Inverse logit, without overflow."""
    return float(0.5 + 0.5 * np.tanh(logit / 2)) if logit > 0 else float(np.exp(logit) / (1 + np.exp(logit)))


@dataclass(frozen=True)
class StudentInterval:
    """``value +/- t(df) mcse``; on the logit scale for a mean known to lie in (0, 1); ``skew`` as in `tail_widths`."""

    df: float = np.inf
    unit: bool = False
    skew: float = 0.0

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:
        """Limits of the central interval around ``value``."""
        below, above = (float(width) * mcse for width in tail_widths(self.df, self.skew, prob))
        if self.unit and 0 < value < 1 and np.isfinite(mcse):
            logit, slope = np.log(value / (1 - value)), 1 / (value * (1 - value))
            return _logistic(logit - below * slope), _logistic(logit + above * slope)
        lower, upper = value - below, value + above
        return (max(lower, 0.0), min(upper, 1.0)) if self.unit and not np.isnan(mcse) else (lower, upper)


@dataclass(frozen=True)
class TwoStateInterval:
    """The interval of `two_state_bounds` for one quantity."""

    n_zero: float
    n_one: float
    switches: float
    dispersion: float
    df: float
    skew: float

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:  # noqa: ARG002 - one face
        """Limits of the central interval; ``value`` and ``mcse`` are implied by the counts."""
        lower, upper = two_state_bounds(
            self.n_zero, self.n_one, self.switches, self.dispersion, self.df, self.skew, prob
        )
        return float(lower), float(upper)


@dataclass(frozen=True)
class UnseenInterval:
    """One-sided interval for a 0/1 quantity that never switched, by effective draws measured elsewhere in the run.

    It is [0, 1] where these are 0, when nothing switched.
    """

    ess: float
    n_draws: int

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:  # noqa: ARG002 - one face
        """Limits of the interval that ends in the value seen."""
        if self.ess <= 0:
            return 0.0, 1.0
        bound = float(unseen_bound(self.ess, prob))
        return (0.0, bound) if value == 0 else (1.0 - bound, 1.0)


@dataclass(frozen=True)
class UnmetInterval:
    """The interval of a mean over what was met, wider by what may not have been met.

    With probability q outside of what the chains visited, the mean is (1 - q) m + q c, m the mean over the rest and c
    anything in [0, 1]; q is at most `unmet_bound`.  What is not known of m and what is not known of q are independent,
    so their half-widths are joined by the root of the sum of squares.
    """

    met: StudentInterval
    own_error: float
    ess: float

    def bounds(self, value: float, mcse: float, prob: float) -> tuple[float, float]:  # noqa: ARG002 - one face
        """Limits of the interval around ``value``."""
        if not self.ess > 0:
            return 0.0, 1.0
        low, high = self.met.bounds(value, self.own_error, prob)
        q = float(unmet_bound(self.ess, prob))
        below, above = np.hypot(value - low, q * value), np.hypot(high - value, q * (1 - value))
        return max(0.0, float(value - below)), min(1.0, float(value + above))
