"""The factorised bound for one observation whose parents have *any* joint distribution, as figure 8 needs it.

`doxa.parameters.variational.hidden` keeps the cells of a joint table together, whatever the form of q, so its mean
field is not the paper's here.  S = 1 was seen; parents s are 0 or 1 with probabilities P(s); theta is N(0, Sigma).
With one xi, and E for means under q,

    log P(D) >= entropy of q + E log P(s) + log g(xi) - xi / 2 + lambda xi^2 + log of the integral of
                exp(E[s]' theta / 2 - lambda theta' E[s s'] theta) N(theta; 0, Sigma),

which is a Gaussian integral with the posterior of eqs. 53 and 54.  Each q_k is set to its best value in turn (eq. 66),
each xi^2 to the mean of (theta' s)^2 (eq. 46 under q); with a xi for each configuration, to theirs.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from doxa.parameters.variational.bound import lambda_of, log_logistic

__all__ = ["configurations", "mean_field_bound"]

Floats: TypeAlias = NDArray[np.float64]
_FLOOR = -800.0  # for log 0: q vanishes there
_SURE = 0.98  # of a start at a configuration
_MOST, _TOLERANCE = 5000, 1e-12


class _Fit(NamedTuple):
    log_bound: float
    score: Floats  # (32,), what q maximises the mean of, besides the entropy
    squares: Floats  # (32,), posterior means of (theta' s)^2


def configurations(n: int) -> Floats:
    """All of 0 and 1, shape (2^n, n), the last parent varying fastest."""
    return np.array(list(product((0.0, 1.0), repeat=n)))


def mean_field_bound(
    probabilities: Floats, covariance: Floats, xi: Literal["row", "configuration"], rng: np.random.Generator
) -> float:
    """Best bound (nats) from starts at the marginals, at the likeliest configurations, and at random."""
    s = configurations(len(covariance))
    likely = s[np.argsort(-probabilities)[:3]]
    starts = [probabilities @ s, *(np.where(one > 0, _SURE, 1 - _SURE) for one in likely), *rng.random((2, s.shape[1]))]
    return max(_climb(np.clip(start, 1e-6, 1 - 1e-6), s, probabilities, covariance, xi) for start in starts)


def _climb(cells: Floats, s: Floats, probabilities: Floats, covariance: Floats, xi: str) -> float:
    with np.errstate(divide="ignore"):
        log_prior = np.maximum(np.log(probabilities), _FLOOR)
    squares = np.einsum("ij,jk,ik->i", s, covariance, s)
    value = -np.inf
    for _ in range(_MOST):
        q = _joint(cells, s)
        roots = np.sqrt(squares) if xi == "configuration" else np.full(len(s), np.sqrt(q @ squares))
        fit = _fit(q, s, roots, log_prior, covariance)
        if fit.log_bound - value < _TOLERANCE:
            break
        value, squares = fit.log_bound, fit.squares
        for k in range(s.shape[1]):
            rest = _joint(np.delete(cells, k), np.delete(s, k, axis=1))
            ones = s[:, k] == 1
            cells[k] = expit((rest * fit.score)[ones].sum() - (rest * fit.score)[~ones].sum())
    return float(value)


def _joint(cells: Floats, s: Floats) -> Floats:
    return np.where(s == 1, cells, 1 - cells).prod(axis=1)


def _fit(q: Floats, s: Floats, xi: Floats, log_prior: Floats, covariance: Floats) -> _Fit:
    slope = lambda_of(xi)
    precision = np.linalg.inv(covariance) + 2 * (s * (q * slope)[:, None]).T @ s
    posterior = np.linalg.inv(precision)
    mean = posterior @ (q @ s) / 2
    logits = s @ mean
    squares = logits**2 + np.einsum("ij,jk,ik->i", s, posterior, s)
    rest = log_prior + log_logistic(xi) - xi / 2 + slope * xi**2
    _, log_det = np.linalg.slogdet(posterior @ np.linalg.inv(covariance))
    log_bound = -xlogy(q, q).sum() + q @ rest + 0.5 * log_det + 0.5 * mean @ precision @ mean
    return _Fit(float(log_bound), rest + logits / 2 - slope * squares, squares)
