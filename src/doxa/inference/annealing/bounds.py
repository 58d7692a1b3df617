r"""Bounds on log Z from weights of known mean: Markov's inequality, sharpened by groups.

Forward weights w are not negative, independent, and have mean Z.  So has the mean of any group of them, m, and
Markov's inequality gives :math:`P(m \ge c Z) \le 1 / c`.  The means of g groups are independent, so

.. math:: P(\min_j m_j \ge c Z) \le c^{-g}, \qquad
          P \Big( \ln \min_j m_j + \frac{1}{g} \ln \alpha \ge \ln Z \Big) \le \alpha,

taking :math:`c = \alpha^{-1/g}`: a lower bound that fails with probability alpha at most, whatever the variance of the
weights and however few they are.  Inverse weights r of reverse runs that begin at exact draws have mean 1/Z or less,
and the same argument gives :math:`-\ln \min_j r_j - \frac{1}{g} \ln \alpha` as an upper bound.  Both together fail with
probability 2 alpha at most.

One group is the usual form (Grosse, Ghahramani & Adams 2015): the log of the mean weight itself exceeds log Z in about
half the runs, so ln 0.025 = -3.7 nats are added.  With g groups it is -3.7 / g, and what the smallest of g means lies
below the mean of all: more groups are better until they are too small.  Their number is to be chosen before the weights
are seen.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError

__all__ = ["best_groups", "lower_bound", "upper_bound"]

LEVEL = 0.025  # of each side: both hold with probability 0.95


def lower_bound(log_weights: ArrayLike, groups: int = 1, level: float = LEVEL) -> float:
    """A number below log Z with probability 1 - ``level`` at least.

    Parameters
    ----------
    log_weights : array_like, shape (n,)
        Of independent forward particles, nats; -inf is a weight of 0.
    groups : int, default=1
        At most n; chosen without a look at these weights.
    level : float, default=0.025
        Probability of failure, in (0, 1).

    Returns
    -------
    float
        Nats; -inf where a group has no weight.

    Raises
    ------
    ArgumentError
        If there are more groups than weights, or a number is out of range.

    Examples
    --------
    >>> round(lower_bound(np.zeros(100)), 3), round(lower_bound(np.zeros(100), groups=10), 3)
    (-3.689, -0.369)
    """
    return min(_group_means(log_weights, groups, level)) + math.log(level) / groups


def upper_bound(log_weights: ArrayLike, groups: int = 1, level: float = LEVEL) -> float:
    """A number above log Z with probability 1 - ``level`` at least.

    The weights are those of reverse runs that began at independent exact draws (`Reversed.log_weights`); parameters,
    errors and units are those of `lower_bound`.

    Examples
    --------
    >>> round(upper_bound(np.zeros(100), groups=10), 3)
    0.369
    """
    return -min(_group_means(-np.asarray(log_weights, dtype=np.float64), groups, level)) - math.log(level) / groups


def best_groups(n: int, variance: float, level: float = LEVEL) -> int:
    """Number of groups that makes the bound tightest, if log weights are normal with this variance.

    Examples
    --------
    >>> best_groups(512, 0.2), best_groups(512, 3.0), best_groups(1, 0.2)
    (24, 6, 1)
    """
    spread = math.sqrt(math.expm1(min(variance, 100.0)) / check_whole("n", n, 1))
    choices = [g for g in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if g <= max(1, n // 8)]
    return min(choices, key=lambda g: -math.log(level) / g + _normal_extreme(g) * spread * math.sqrt(g))


def _normal_extreme(g: int) -> float:
    """About the mean of the largest of g standard normal numbers."""
    from scipy.special import ndtri

    return float(ndtri((g - 0.375) / (g + 0.25)))  # Blom (1958)


def _group_means(log_values: ArrayLike, groups: int, level: float) -> list[float]:
    values: NDArray[np.float64] = np.asarray(log_values, dtype=np.float64)
    groups = check_whole("groups", groups, 1)
    if values.ndim != 1 or groups > values.size:
        raise ArgumentError(f"groups is {groups} and log_weights has shape {values.shape}; each group needs a weight")
    if np.isnan(values).any() or (values == np.inf).any():
        raise ArgumentError("log_weights contains nan or a number that is infinite on the wrong side")
    if not 0 < level < 1:
        raise ArgumentError(f"level is {level}; it must lie strictly between 0 and 1, such as 0.025")
    return [float(np.logaddexp.reduce(part)) - math.log(part.size) for part in np.array_split(values, groups)]
