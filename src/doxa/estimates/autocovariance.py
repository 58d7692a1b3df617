r"""Autocovariances of the draws, estimated directly: eq. 20 of the slides.

The variance of an average of dependent draws is a sum of autocovariances (Antal & Sárközy's slides, eq. 11),
:math:`\tau^2 = \gamma_0 + 2 \sum_{k \ge 1} \gamma_k`.  Here they are estimated; `doxa.estimates.long_run` weights
and adds them.

Geyer's initial sequences: where to stop adding autocovariances.

For a reversible chain the sums of neighbouring autocovariances :math:`\Gamma_k = \gamma_{2k} + \gamma_{2k+1}` are
positive, decreasing and convex in k (Geyer 1992, theorem 3.1).  Estimates that break this are noise: the sum is cut
where they turn negative, and the rest may be made decreasing, or convex as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.estimates._draws import as_chains, check_count

__all__ = ["autocovariance", "initial_sequence", "pooled_autocovariance"]


def initial_sequence(gamma: NDArray[np.float64], window: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    r"""Sum of autocovariances ``gamma``, shape (n_lags, ...), up to Geyer's cut, and how many are added (even, at least
    2).

    Geyer (1992), sec. 3.3.  Positive: pairs :math:`\hat\Gamma_k` up to the first that is not positive.  Monotone: the
    running minimum of these.  Convex: the greatest convex minorant of the monotone ones followed by a 0, which is what
    the cut says of the next one.  Each imposes those before it, and none is above the one before it.  Overestimates the
    variance in the limit, if anything, when the chain is reversible; for others the cut is a rule of thumb.
    """
    n_pairs = gamma.shape[0] // 2
    pairs = gamma[0 : 2 * n_pairs : 2] + gamma[1 : 2 * n_pairs : 2]
    kept = np.logical_and.accumulate(pairs > 0, axis=0)
    kept[0] = True  # positive in theory; 0 for constants and where two draws alternate exactly
    terms = np.where(kept, pairs, 0.0)
    if window != "initial-positive":
        terms = np.where(kept, np.minimum.accumulate(pairs, axis=0), 0.0)
    total = terms.sum(axis=0)
    if window == "initial-convex":
        columns = terms.reshape(n_pairs, -1)
        counts = kept.reshape(n_pairs, -1).sum(axis=0)
        sums = [_convex_sum(column[:count]) for column, count in zip(columns.T, counts, strict=True)]
        total = np.array(sums).reshape(total.shape)
    return np.asarray(2 * total - gamma[0]), np.asarray(2 * kept.sum(axis=0))


def _convex_sum(sequence: NDArray[np.float64]) -> float:
    """Sum of the greatest convex minorant of a sequence followed by a 0: the lower hull, from left to right."""
    heights = [*sequence.tolist(), 0.0]
    hull: list[int] = []
    for k, height in enumerate(heights):
        while len(hull) > 1:
            before, last = hull[-2], hull[-1]
            if (heights[last] - heights[before]) * (k - last) < (height - heights[last]) * (last - before):
                break
            hull.pop()
        hull.append(k)
    return float(np.interp(np.arange(sequence.size), hull, [heights[k] for k in hull]).sum())


def autocovariance(draws: ArrayLike, max_lag: int | None = None, *, published: bool = False) -> NDArray[np.float64]:
    r"""Autocovariances of each chain, by fast Fourier transform.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws,) or (n_chains, n_draws, ...)
        Finite numbers, at least 2 draws. Not modified.
    max_lag : int, optional
        Largest lag, at most ``n_draws - 1``, which is the default.
    published : bool, default=False
        Divide by N - k, as eq. 20 prints, instead of N.

    Returns
    -------
    ndarray of float, shape (max_lag + 1,) or (n_chains, max_lag + 1, ...)
        In the squared unit of the draws, by lag 0, 1, ..., ``max_lag``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the draws are too few or not finite numbers, or ``max_lag`` is out of range.

    Notes
    -----
    :math:`\hat\gamma_k = \frac{1}{N} \sum_{i=1}^{N-k} (Y_i - \bar Y)(Y_{i+k} - \bar Y)`.  The slides' eq. 20 divides by
    N - k and writes the true mean :math:`\bar f`, with which it would be unbiased; but the mean is not known, and
    around the sample mean both forms are too small by about :math:`\tau^2 / N`.  Dividing by N makes the sequence
    positive semidefinite, so that the Bartlett and Parzen sums of eq. 21 cannot be negative, and it keeps the last
    lags, of few products each, from shaking the sum.  :math:`\bar Y` is the mean over *all* chains (Agarwal & Vats
    2022): a chain that stays apart from the others then shows as an autocovariance that does not fade.

    Examples
    --------
    >>> autocovariance([1.0, 2.0, 3.0, 4.0], max_lag=2)
    array([ 1.25  ,  0.3125, -0.375 ])
    >>> autocovariance([1.0, 2.0, 3.0, 4.0], max_lag=2, published=True).round(4)
    array([ 1.25  ,  0.4167, -0.75  ])
    """
    chains = as_chains(draws, min_draws=2)
    n = chains.shape[1]
    lags = n - 1 if max_lag is None else check_count("max_lag", max_lag, 0, n - 1, "the number of draws less one")
    gamma = _lagged_products(chains - chains.mean(axis=(0, 1)), lags) / n
    if published:
        gamma *= (n / (n - np.arange(lags + 1.0))).reshape(-1, *(1,) * (chains.ndim - 2))
    return np.asarray(gamma[0] if np.ndim(draws) == 1 else gamma)


def pooled_autocovariance(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average of `autocovariance` over chains (n_chains, n_draws, ...), at every lag: shape (n_draws, ...)."""
    n_chains, n = chains.shape[:2]
    mean = chains.mean(axis=(0, 1))
    total: NDArray[np.float64] = np.zeros(chains.shape[1:])
    for chain in chains:  # one at a time: the transforms are twice as long as the chain, and complex
        total += _lagged_products((chain - mean)[np.newaxis], n - 1)[0]
    return np.asarray(total / (n_chains * n))


def _lagged_products(deviations: NDArray[np.float64], max_lag: int) -> NDArray[np.float64]:
    """Sums of products at lags 0 to ``max_lag``, along axis 1 (Wiener-Khinchin, padded against wrapping around)."""
    n = deviations.shape[1]
    size = 1 << (n + max_lag - 1).bit_length()
    spectrum = np.fft.rfft(deviations, size, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    products: NDArray[np.float64] = np.fft.irfft(power, size, axis=1)[:, : max_lag + 1]
    return products
