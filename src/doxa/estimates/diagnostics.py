r"""The diagnostics of draws, by one name each: what was found elsewhere in this room, gathered for users.

Every function says in its docstring where its formula comes from, and ``docs/diagnostics.md`` what it can and cannot
see.  Real quantities: `diagnose_real`, which doxa itself uses, and the classical methods, each alone.  0/1 quantities
belong to `doxa.estimates.indicators`.

Geweke's z: does the beginning of a chain agree with its end?

Slides, eqs. 17-18, after Geweke (1992).  The average of an early stretch and of a late one are nearly independent and
normal once the chain is stationary; their difference over its standard error is then standard normal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates._draws import as_chains
from doxa.estimates.autocovariance import autocovariance
from doxa.estimates.batch_means import batch_means_error
from doxa.estimates.bounds import (
    bernstein_bound,
    bernstein_known_variance,
    hoeffding_bound,
    hoeffding_draws,
    mean_error_bound,
)
from doxa.estimates.gelman_rubin import GelmanRubin, gelman_rubin, rank_r_hat
from doxa.estimates.long_run import integrated_autocorrelation_time, long_run_variance, windowed_error
from doxa.estimates.real import RealDiagnosis, diagnose_real
from doxa.estimates.regenerative import RegenerativeEstimate, Tours, cut_tours, regenerative_estimate
from doxa.estimates.windows import WINDOWS, Window, default_bandwidth, lag_weights

__all__ = [
    "WINDOWS",
    "GelmanRubin",
    "RealDiagnosis",
    "RegenerativeEstimate",
    "Tours",
    "Window",
    "autocovariance",
    "batch_means_error",
    "bernstein_bound",
    "bernstein_known_variance",
    "cut_tours",
    "default_bandwidth",
    "diagnose_real",
    "gelman_rubin",
    "geweke_z",
    "hoeffding_bound",
    "hoeffding_draws",
    "integrated_autocorrelation_time",
    "lag_weights",
    "long_run_variance",
    "mean_error_bound",
    "rank_r_hat",
    "regenerative_estimate",
    "windowed_error",
]

MIN_SEGMENT = 4  # draws of which a long-run variance can be had


def geweke_z(
    draws: ArrayLike,
    first: float = 0.1,
    last: float = 0.5,
    window: Window = "initial-monotone",
    bandwidth: float | None = None,
) -> NDArray[np.float64]:
    r"""Difference between the early and the late average of each chain, in standard errors.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws,) or (n_chains, n_draws, ...)
        Finite numbers, after warm-up; both stretches need at least 4 draws. Not modified.
    first, last : float, default=0.1, 0.5
        Shares of the chain in the early and the late stretch (N_b / N and N_a / N), positive, together at most 1.
    window, bandwidth
        How the long-run variance of each stretch is estimated, as in `doxa.estimates.long_run.long_run_variance`.

    Returns
    -------
    ndarray of float, shape (n_chains, ...), or () for one axis of draws
        :math:`z_G` of each chain; about standard normal in a stationary one. A stretch that never moved has variance 0:
        z is nan if neither moved and they agree, infinite if they do not.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the draws are too few or not finite numbers, shares are out of range, or the window is unknown.

    Notes
    -----
    :math:`z_G = (\bar Y_b - \bar Y_a) / \sqrt{\hat\tau_b^2 / N_b + \hat\tau_a^2 / N_a}`.  Erratum: eq. 18 writes
    :math:`\widehat{Var}(Y_b) + \widehat{Var}(Y_a)`, which must be variances of the *averages*, and of dependent draws.
    With :math:`s^2 / N` instead, an AR(1) of coefficient 0.9 gives z a standard deviation of 4.4: two
    stationary chains of three lie beyond 1.96.  Geweke uses the spectral density at 0, which is the long-run variance
    over :math:`2\pi`.

    The normal limit is one of long stretches: with fewer than some 50 effective draws in the shorter one, z has
    heavier tails (docs/diagnostics.md gives numbers).

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> draws = rng.normal(size=(3, 1000))
    >>> draws[2] += np.exp(-np.arange(1000) / 50)  # not warmed up
    >>> geweke_z(draws).round(1)
    array([-0.2, -0.7,  4.3])
    """
    chains = as_chains(draws, MIN_SEGMENT)
    n = chains.shape[1]
    for name, share in (("first", first), ("last", last)):
        if isinstance(share, bool) or not isinstance(share, (int, float, np.integer, np.floating)):
            message = f"{name} is {share!r}; it must be a share of the chain, such as 0.1"
            raise ArgumentTypeError(message)
    if not (first > 0 and last > 0 and first + last <= 1 + 1e-12):
        message = f"first is {first} and last {last}; they must be positive shares that add up to at most 1"
        raise ArgumentError(message)
    n_first, n_last = int(first * n + 1e-9), int(last * n + 1e-9)
    if min(n_first, n_last) < MIN_SEGMENT:
        message = (
            f"{n} draws with first={first} and last={last} leave {n_first} and {n_last}; "
            f"each stretch needs at least {MIN_SEGMENT}: run longer, or take larger shares"
        )
        raise ArgumentError(message)
    early, late = chains[:, :n_first], chains[:, n - n_last :]
    variance = _error_square(early, window, bandwidth) + _error_square(late, window, bandwidth)
    with np.errstate(divide="ignore", invalid="ignore"):  # stretches that never moved, as documented
        z = (early.mean(axis=1) - late.mean(axis=1)) / np.sqrt(variance)
    return np.asarray(z[0] if np.ndim(draws) == 1 else z)


def _error_square(stretch: NDArray[np.float64], window: Window, bandwidth: float | None) -> NDArray[np.float64]:
    """Squared error of each chain's average: chains are moved to the trailing axes, for none lends to another."""
    apart = np.moveaxis(stretch, 0, 1)[np.newaxis]
    long_run = long_run_variance(apart, window, bandwidth)
    constant = stretch.min(axis=1) == stretch.max(axis=1)
    return np.asarray(np.where(constant, 0.0, long_run) / stretch.shape[1])
