"""The variational approximation of section 3.3 for one observed child with a hidden and an observed parent.

One pass over the records as in figure 3, each with a xi and a probability lambda of its hidden cell, found by an inner
loop.  `printed_pass` takes lambda from eq. 8 as printed: logit(lambda) = x mu_h, x being the child.  That equation
drops the quadratic term, whose derivative in lambda is not zero, and the prior probability of the hidden parent, which
the paper leaves out of its model; so nothing in it knows that the parent is +1 with probability 0.6.
`doxa.variational.hidden` has the right update.  As in `de_freitas.published`, xi is fed back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from doxa.variational.bound import lambda_of
from doxa.variational.gaussian import Gaussian

__all__ = ["printed_pass"]

_MOST, _TOLERANCE = 1000, 1e-9


def printed_pass(
    observed: NDArray[np.float64],
    child: NDArray[np.float64],
    bias: float,
    prior_mean: NDArray[np.float64],
    prior_covariance: NDArray[np.float64],
) -> Gaussian:
    """Gaussian over (hidden, observed) after records (n,) of the observed parent and the child, both -1 or +1."""
    precision = np.linalg.inv(prior_covariance)
    pull = precision @ prior_mean
    mean, covariance = prior_mean.copy(), prior_covariance.copy()
    for x, y in zip(observed, child, strict=True):
        xi = np.inf
        for _ in range(_MOST):
            hidden = 2 * expit(y * mean[0]) - 1  # eq. 8
            first = np.array([hidden, x])
            second = np.array([[1.0, hidden * x], [hidden * x, 1.0]])
            old = xi
            xi = np.sqrt(bias**2 + 2 * bias * mean @ first + ((covariance + np.outer(mean, mean)) * second).sum())
            slope = float(lambda_of(xi))
            covariance = np.linalg.inv(precision + 2 * slope * second)
            mean = covariance @ (pull + (y / 2 - 2 * slope * bias) * first)
            if abs(xi - old) <= _TOLERANCE * xi:
                break
        precision = precision + 2 * slope * second
        pull = pull + (y / 2 - 2 * slope * bias) * first
    return Gaussian.from_covariance(mean, (covariance + covariance.T) / 2)
