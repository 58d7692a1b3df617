r"""Effective draws of one quantity as Stan and ArviZ count them (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021).

With :math:`\hat\gamma_t` the autocovariances around each chain's own mean, averaged over chains, W the mean of the
chains' variances and :math:`\widehat{var}^+` that of `doxa.estimates.gelman_rubin.gelman_rubin`, the autocorrelation at
lag t > 0 is :math:`\hat\rho_t = 1 - (W - \hat\gamma_t) / \widehat{var}^+` (eq. 10), so chains that are apart are
correlated at every lag.  Pairs :math:`\hat P_k = \hat\rho_{2k} + \hat\rho_{2k+1}` are added up to the first that is not
positive, none above the one before it (Geyer 1992); where that one begins with a positive autocorrelation, this is
added, too.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.long_run import lagged_products

__all__ = ["bulk_ess", "effective_draws", "halves", "mean_error", "normal_scores"]

_STILL = 1e-15  # spread below which draws are the same number
_MOST_KEPT = 2**16  # draws whose normal scores are kept for the next as many


def halves(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first and the last half of each chain (n_chains, n_draws, ...); the middle of an odd number is left out."""
    n = chains.shape[1] // 2
    return np.concatenate([chains[:, :n], chains[:, -n:]])


def normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Each value as :math:`\Phi^{-1}((r - 3/8) / (n + 1/4))`, r its rank among all n; tied ones share a mean rank.

    >>> normal_scores(np.array([[3.0, 1.0], [2.0, 2.0]])).round(2)
    array([[ 1.05, -1.05],
           [ 0.  ,  0.  ]])
    """
    order = np.argsort(values, axis=None)
    ordered = values.ravel()[order]
    differs = ordered[1:] != ordered[:-1]
    scores = np.empty(values.size)
    if differs.all():
        scores[order] = _kept_scores(values.size) if values.size <= _MOST_KEPT else _scores_of_all(values.size)
        return scores.reshape(values.shape)
    begin = np.flatnonzero(np.append(True, differs))
    size = np.diff(begin, append=values.size)
    scores[order] = np.repeat(_scores(begin + (size + 1) / 2, values.size), size)
    return scores.reshape(values.shape)


def _scores(rank: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    from scipy.special import ndtri

    return np.asarray(ndtri((rank - 3 / 8) / (n + 1 / 4)))


def _scores_of_all(n: int) -> NDArray[np.float64]:
    return _scores(np.arange(1.0, n + 1), n)


_kept_scores = functools.lru_cache(maxsize=8)(_scores_of_all)


def effective_draws(chains: NDArray[np.float64]) -> float:
    """How many independent draws would tell as much of the mean; see the module's notes.

    Parameters
    ----------
    chains : ndarray of float, shape (n_chains, n_draws)
        At least 2 draws, as they are: neither split nor turned into ranks.

    Returns
    -------
    float
        At most n log10(n) of n draws, where they alternate; n for constant draws, of which nothing can be told.
    """
    n_chains, n = chains.shape
    if np.ptp(chains) < _STILL:
        return float(chains.size)
    means = chains.mean(axis=1)
    gamma = lagged_products(chains - means[:, None], n - 1).mean(axis=0) / n
    within = gamma[0] * n / (n - 1)
    var_plus = gamma[0] + (means.var(ddof=1) if n_chains > 1 else 0.0)
    rho = 1.0 - (within - gamma) / var_plus
    rho[0] = 1.0
    pairs = rho[0 : n - n % 2 : 2] + rho[1::2]
    last = max(0, (n - 3) // 2)  # the pair that is not added whole: the first that is not positive, or this
    stops = np.flatnonzero(pairs[: last + 1] <= 0.0)
    stop = int(stops[0]) if stops.size else last
    half = rho[2 * stop] if rho[2 * stop] > 0.0 or pairs[stop] >= 0.0 else 0.0
    tau = -1.0 + 2.0 * np.minimum.accumulate(pairs[:stop]).sum() + half
    return float(chains.size / max(tau, 1.0 / np.log10(chains.size)))


def bulk_ess(chains: NDArray[np.float64]) -> float:
    """Effective draws of the normal scores of the ranks, chains split: one number for the middle of the distribution.

    Of draws (n_chains, n_draws), at least 4 of each chain.
    """
    return effective_draws(normal_scores(halves(chains)))


def mean_error(chains: NDArray[np.float64]) -> float:
    """Standard error of the mean by the effective draws of split chains (n_chains, n_draws), at least 4 of each."""
    return float(chains.std(ddof=1) / np.sqrt(effective_draws(halves(chains))))
