r"""The bound of Jaakkola & Jordan (2000) on the logistic function, whose logarithm is quadratic in the logit.

With :math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)`, for every h and :math:`\xi` (eq. 7; de Freitas et al. 2001, eq.
6)

.. math:: \log g(h) \ge \log g(\xi) + (h - \xi) / 2 - \lambda(\xi) (h^2 - \xi^2),

with equality where :math:`\xi^2 = h^2`, as the left side is h / 2 plus a convex function of :math:`h^2` and the right
side its tangent.  (Eq. 6 prints the tanh term with the wrong sign; eq. 7 is right.)  What follows for posteriors is in
`doxa.parameters.variational.predictive`, `doxa.parameters.variational.batch` and
`doxa.parameters.variational.sequential`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit

__all__ = ["expected_log_bound", "lambda_of", "log_logistic", "log_logistic_bound"]


def log_logistic(h: ArrayLike) -> NDArray[np.float64]:
    """Logarithm (nats) of the logistic function 1 / (1 + exp(-h)), without overflow; any shape.

    Examples
    --------
    >>> log_logistic([-1000.0, 0.0]).round(4)
    array([-1.000e+03, -6.931e-01])
    """
    return np.asarray(log_expit(np.asarray(h, dtype=np.float64)))


def lambda_of(xi: ArrayLike) -> NDArray[np.float64]:
    r""":math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)` (below eq. 7): even in xi, and at most 1/8, its value at 0.

    Examples
    --------
    >>> lambda_of([0.0, 1.0, -1.0, 1e6]).round(9)
    array([1.25000000e-01, 1.15529289e-01, 1.15529289e-01, 2.50000000e-07])
    """
    size = np.maximum(np.abs(np.asarray(xi, dtype=np.float64)), 1e-8)  # the error there is xi^2 / 96, below rounding
    return np.asarray(np.tanh(size / 2) / (4 * size))


def log_logistic_bound(h: ArrayLike, xi: ArrayLike) -> NDArray[np.float64]:
    r"""Lower bound (nats) of log g(h) that touches it at :math:`h = \pm\xi` (eq. 7).

    Parameters
    ----------
    h, xi : array_like of float
        Signed logits and variational parameters; shapes that broadcast.

    Returns
    -------
    ndarray of float
        At most ``log_logistic(h)``.

    Examples
    --------
    >>> h = np.array([-2.0, 0.0, 2.0, 3.0])
    >>> (log_logistic(h) - log_logistic_bound(h, 2.0)).round(4) + 0.0
    array([0.    , 0.053 , 0.    , 0.0543])
    """
    h, xi = np.asarray(h, dtype=np.float64), np.asarray(xi, dtype=np.float64)
    return np.asarray(log_logistic(xi) + (h - xi) * (0.5 - lambda_of(xi) * (h + xi)))


def expected_log_bound(mean: ArrayLike, second_moment: ArrayLike, xi: ArrayLike) -> NDArray[np.float64]:
    """Expectation (nats) of `log_logistic_bound` under a law of h; largest where xi^2 is the second moment (eq. 46).

    Examples
    --------
    >>> xi = np.array([0.9, 1.0, 1.1])
    >>> expected_log_bound(0.6, 1.0, xi).argmax()
    np.int64(1)
    """
    mean, second, xi = (np.asarray(v, dtype=np.float64) for v in (mean, second_moment, xi))
    return np.asarray(log_logistic(xi) + (mean - xi) / 2 - lambda_of(xi) * (second - xi * xi))
