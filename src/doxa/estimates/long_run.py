r"""The long-run variance of a chain: autocovariances weighted and added (eqs. 11 and 21 of the slides).

:math:`\tau^2 = \gamma_0 + 2 \sum_{k \ge 1} \gamma_k` decides the error of an ergodic average (slides, eq. 12), but the
estimated :math:`\hat\gamma_k` cannot simply be added: over all lags they sum to exactly 0, whatever the chain.
Either a lag window fades them out (Bartlett, Parzen, Tukey-Hanning: `doxa.estimates.windows`) or they are cut where
they stop making sense (Geyer 1992: `doxa.estimates.autocovariance`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates._draws import as_chains, is_constant
from doxa.estimates.autocovariance import initial_sequence, pooled_autocovariance
from doxa.estimates.estimate import Estimate
from doxa.estimates.intervals import StudentInterval
from doxa.estimates.windows import ORDER, WINDOWS, Window, default_bandwidth, lag_weights

__all__ = ["bandwidth_of", "integrated_autocorrelation_time", "long_run_variance", "windowed_error"]

MIN_DRAWS = 4  # two pairs of autocovariances
LARGEST_CENTRING = 0.5  # of the variance may be given back; a chain that loses more is shorter than its memory


class _LongRun(NamedTuple):
    """What the public functions return parts of; arrays of the quantities' shape."""

    long_run: NDArray[np.float64]  # tau^2; nan for constants, and where the windowed sum is not positive
    variance: NDArray[np.float64]  # gamma_0, unbiased for independent draws
    df: NDArray[np.float64]  # degrees of freedom of tau^2


def long_run_variance(
    draws: ArrayLike, window: Window = "initial-monotone", bandwidth: float | None = None
) -> NDArray[np.float64]:
    r"""Long-run variance of the draws: what the variance of their mean is, times their number.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws,) or (n_chains, n_draws, ...)
        Finite numbers, at least 4 draws. Not modified.
    window : str, default="initial-monotone"
        A lag window ("bartlett", "parzen", "tukey-hanning") or one of Geyer's sequences ("initial-positive",
        "initial-monotone", "initial-convex").
    bandwidth : float, optional
        Lag from which on a lag window is 0, at least 1 (which uses no autocovariance but lag 0) and at most
        ``n_draws``; by default, `default_bandwidth` with the autocovariances up to Geyer's cut as pilot. Geyer's
        sequences choose their own length and take none.

    Returns
    -------
    ndarray of float, shape (...)
        :math:`\hat\tau^2` of each quantity, in the squared unit of the draws; nan for one that never moved, and where
        the weighted sum is not positive (only Tukey-Hanning's may be).

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the draws are too few or not finite numbers, the window is unknown, or the bandwidth is out of range.

    Notes
    -----
    Slides, eq. 21: :math:`\hat\tau^2 = \hat\gamma_0 + 2\sum_{k \ge 1} w(k)\,\hat\gamma_k`.  Erratum: the slides print
    :math:`\hat\gamma_0` under the sum, which would be a multiple of the variance, blind to dependence.  Autocovariances
    are taken around the mean of all chains, so that chains that disagree enlarge the sum.  Around an estimated mean
    :math:`E\hat\gamma_k \approx (1 - |k|/n)(\gamma_k - \tau^2/n_{all})`; the sum is divided by :math:`1 - \sum_k w(k)
    (1 - |k|/n)/n_{all}`, exact for independent draws (where it is the n - 1 of a sample variance) and right to first
    order for others; by no less than 1/2.

    Geyer's sums are kept above :math:`\hat\gamma_0 / \log_{10} n_{all}`, the limit that Stan and ArviZ put on the
    effective sample size.  Where draws alternate, the sum is a small difference of large numbers, and forcing the
    sequence down makes it negative: on an AR(1) of -0.9, 1000 draws, intervals covered 10 to
    57% without the limit.

    Examples
    --------
    >>> rng = np.random.default_rng(4)
    >>> draws = np.zeros(20000)
    >>> for t in range(1, draws.size):  # AR(1): the long-run variance is 1 / (1 - 0.8)^2 = 25
    ...     draws[t] = 0.8 * draws[t - 1] + rng.normal()
    >>> for window in WINDOWS:
    ...     print(f"{window:17}{float(long_run_variance(draws, window)):.1f}")
    bartlett         25.4
    parzen           25.4
    tukey-hanning    25.3
    initial-positive 24.8
    initial-monotone 24.8
    initial-convex   24.6
    """
    return _long_run(as_chains(draws, MIN_DRAWS), window, bandwidth).long_run


def integrated_autocorrelation_time(
    draws: ArrayLike, window: Window = "initial-monotone", bandwidth: float | None = None
) -> NDArray[np.float64]:
    r"""Draws that are worth one independent draw.

    Parameters
    ----------
    draws, window, bandwidth
        As in `long_run_variance`.

    Returns
    -------
    ndarray of float, shape (...)
        :math:`\tau^2 / \gamma_0 = 1 + 2\sum_k \rho_k` of each quantity; 1 for independent draws, less where they
        alternate. n draws are worth n over this number. nan where the long-run variance is.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As `long_run_variance`.

    Notes
    -----
    Slides, eq. 11, over :math:`\sigma^2`.  (Part of the physics literature calls half of this number by the same name.)

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000, 2)).repeat(5, axis=1)  # every draw five times
    >>> integrated_autocorrelation_time(draws).round(1)
    array([5.1, 5.1])
    """
    result = _long_run(as_chains(draws, MIN_DRAWS), window, bandwidth)
    return np.asarray(result.long_run / np.where(result.variance > 0, result.variance, np.nan))


def windowed_error(draws: ArrayLike, window: Window = "parzen", bandwidth: float | None = None) -> Estimate:
    r"""The mean of one quantity, with the error that its autocovariances give.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws,) or (n_chains, n_draws)
        Finite numbers, at least 4 draws. Not modified.
    window, bandwidth
        As in `long_run_variance`.

    Returns
    -------
    Estimate
        Mean of all draws, :math:`\sqrt{\hat\tau^2 / n}` and an interval by Student's t. The error is nan where the
        long-run variance is.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        As `long_run_variance`; or if there is more than one quantity.

    Notes
    -----
    Slides, eqs. 12 and 21.  :math:`\hat\tau^2` has about :math:`n / \sum_k w(k)^2` degrees of freedom, k from -b to b
    (Priestley 1981, halved since the frequency is 0); Geyer's sequences count as weights of 1 up to their
    cut.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 500)).repeat(5, axis=1)
    >>> print(windowed_error(draws), windowed_error(draws, "initial-convex"))
    -0.03 +/- 0.02 -0.03 +/- 0.02
    """
    chains = as_chains(draws, MIN_DRAWS)
    if chains.ndim > 2:
        message = f"draws has shape {chains.shape}; one estimate is of one quantity, (draw,) or (chain, draw)"
        raise ArgumentError(message)
    result = _long_run(chains, window, bandwidth)
    value, long_run, variance = float(chains.mean()), float(result.long_run), float(result.variance)
    if np.isnan(long_run):
        return Estimate(value, np.nan, np.nan)
    law = StudentInterval(float(result.df))
    return Estimate(value, float(np.sqrt(long_run / chains.size)), chains.size * variance / long_run, law=law)


def _long_run(chains: NDArray[np.float64], window: Window, bandwidth: float | None) -> _LongRun:
    """Long-run variance, variance and degrees of freedom of every quantity."""
    if window not in WINDOWS:
        message = f"window is {window!r}; it must be one of {', '.join(map(repr, WINDOWS))}"
        raise ArgumentError(message)
    m, n = chains.shape[:2]
    gamma = pooled_autocovariance(chains)
    gamma[:, is_constant(chains)] = 0.0
    variance = gamma[0] * m * n / (m * n - 1)
    if window not in ORDER:
        if bandwidth is not None:
            message = f"bandwidth is {bandwidth!r} with window {window!r}, which finds its own; leave it out"
            raise ArgumentError(message)
        raw, n_lags = initial_sequence(gamma, window)
        raw = np.maximum(raw, gamma[0] / max(1.0, float(np.log10(m * n))))
        squares = 2.0 * n_lags - 1
        reach = n_lags - 1.0
        lost = (1 + 2 * reach - reach * (reach + 1) / n) / (m * n)
    else:
        width = bandwidth_of(gamma, window, bandwidth, m)
        lag = np.arange(n, dtype=np.float64).reshape(-1, *(1,) * (gamma.ndim - 1))[: int(np.ceil(width.max()))]
        weights = lag_weights(window, lag / width)
        doubled = np.where(lag > 0, 2.0, 1.0) * weights
        raw = (doubled * gamma[: lag.shape[0]]).sum(axis=0)
        squares = (doubled * weights).sum(axis=0)
        lost = (doubled * (1 - lag / n)).sum(axis=0) / (m * n)
    long_run = raw / (1 - np.minimum(lost, LARGEST_CENTRING))
    df = np.maximum(m * n / squares - 1, 1.0)
    return _LongRun(np.where(long_run > 0, long_run, np.nan), variance, df)


def bandwidth_of(
    gamma: NDArray[np.float64], window: Window, bandwidth: float | None, n_chains: int
) -> NDArray[np.float64]:
    """The bandwidth asked for, from 1 to ``n_draws``, or the default one of every quantity, in draws.

    ``gamma`` are autocovariances of shape (n_draws, ...), pooled over ``n_chains``.
    """
    n = gamma.shape[0]
    if bandwidth is None:
        pilot, n_lags = initial_sequence(gamma, "initial-monotone")
        lag = np.arange(n, dtype=np.float64).reshape(-1, *(1,) * (gamma.ndim - 1))
        moment = 2 * (np.where(lag < n_lags, gamma, 0.0) * lag ** ORDER[window]).sum(axis=0)
        scale = np.where(pilot > 0, pilot, gamma[0])  # the variance where draws alternate so that the pilot is lost
        return default_bandwidth(window, np.abs(moment) / np.where(scale > 0, scale, np.inf), n, n_chains)
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, (int, float, np.integer, np.floating)):
        message = f"bandwidth is {bandwidth!r}; it must be a number of draws"
        raise ArgumentTypeError(message)
    if not 1 <= bandwidth <= n:
        message = f"bandwidth is {bandwidth}; it must be from 1 to {n} (the draws of a chain)"
        raise ArgumentError(message)
    return np.full(gamma.shape[1:], float(bandwidth))
