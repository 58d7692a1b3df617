r"""The diagnostics of draws, by one name each: what was found elsewhere in this room, gathered for users.

Every function says in its docstring where its formula comes from, and ``docs/diagnostics.md`` what it can and cannot
see.  Real quantities: `diagnose_real`, which doxa itself uses, and the classical methods, each alone.  0/1 quantities
belong to `doxa.estimates.indicators`.

Geweke's z (slides, eqs. 17-18, after Geweke 1992): does the beginning of a chain agree with its end?  The average of
an early stretch and of a late one are nearly independent and normal once the chain is stationary; their difference
over its standard error is then standard normal.

Bounds on the error of an average of independent draws of a bounded function, true at any number of draws (slides,
"Consistency and convergence speed I", eqs. 4 and 5): Hoeffding's inequality, a bound on the mean error, and
Bernstein's inequality, which uses the variance.  With the variance estimated, Maurer & Pontil's (2009) form is the one
to use in practice.  None of these holds for the draws of a Markov chain, which are not independent: they serve exact
samplers, and weights or draws that are independent by construction.
"""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates._draws import as_chains, check_count, finite_array, first_entry
from doxa.estimates.batches import batch_means_error
from doxa.estimates.estimate import check_prob
from doxa.estimates.gelman_rubin import GelmanRubin, gelman_rubin, rank_r_hat
from doxa.estimates.long_run import (
    WINDOWS,
    Window,
    autocovariance,
    default_bandwidth,
    integrated_autocorrelation_time,
    lag_weights,
    long_run_variance,
    windowed_error,
)
from doxa.estimates.real import RealDiagnosis, diagnose_real
from doxa.estimates.regenerative import RegenerativeEstimate, Tours, cut_tours, regenerative_estimate

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


def hoeffding_bound(n: int, prob: float = 0.95, width: float = 1.0) -> float:
    r"""Half-width around the average of n independent bounded draws that holds the mean with a given probability.

    Parameters
    ----------
    n : int
        Independent draws, at least 1.
    prob : float, default=0.95
        Least probability that the mean lies within the half-width.
    width : float, default=1.0
        Largest possible value of the function less its smallest, positive.

    Returns
    -------
    float
        In the unit of ``width``; may exceed it, and then says nothing.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is out of range or not a number.

    Notes
    -----
    Slides, eq. 4 (Hoeffding 1963, theorem 2), solved for :math:`\epsilon`: :math:`2\exp(-2\epsilon^2 N / width^2) =
    \delta = 1 - prob`, so :math:`\epsilon = width\sqrt{\ln(2/\delta) / (2N)}`.

    Examples
    --------
    >>> round(hoeffding_bound(1000), 4)  # whatever the probability; sqrt(1/4 / 1000) * 1.96 would be 0.031
    0.0429
    """
    n = check_count("n", n, 1)
    return _positive("width", width) * sqrt(_log_term(prob, 2) / (2 * n))


def hoeffding_draws(half_width: float, prob: float = 0.95, width: float = 1.0) -> int:
    r"""Independent draws that `hoeffding_bound` needs for a given half-width.

    Parameters
    ----------
    half_width : float
        Half-width wanted, positive, in the unit of ``width``.
    prob, width
        As in `hoeffding_bound`.

    Returns
    -------
    int
        The smallest n with ``hoeffding_bound(n, prob, width) <= half_width``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is out of range or not a number.

    Notes
    -----
    Slides, the last inequality of eq. 4: :math:`N \ge width^2 \ln(2/\delta) / (2\epsilon^2)`.

    Examples
    --------
    >>> hoeffding_draws(0.01)
    18445
    """
    half_width = _positive("half_width", half_width)
    n = max(1, ceil((_positive("width", width) / half_width) ** 2 * _log_term(prob, 2) / 2))
    while n > 1 and hoeffding_bound(n - 1, prob, width) <= half_width:  # a last digit may have rounded up
        n -= 1
    while hoeffding_bound(n, prob, width) > half_width:
        n += 1
    return n


def mean_error_bound(n: int, width: float = 1.0) -> float:
    r"""Bound on the *mean* distance between the average of n independent bounded draws and their mean.

    Parameters
    ----------
    n : int
        Independent draws, at least 1.
    width : float, default=1.0
        Largest possible value of the function less its smallest, positive.

    Returns
    -------
    float
        ``width / (2 sqrt(n))``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is out of range or not a number.

    Notes
    -----
    Slides, eq. 5: :math:`E|\hat f_N - \bar f| \le \sqrt{c_0/N}`, with :math:`c_0` not given.  It is not Bernstein's
    inequality, beside whose name it stands, and needs no tail bound: by Jensen :math:`E|\cdot| \le \sqrt{E(\cdot)^2} =
    \sqrt{Var f / N}`, so :math:`c_0 = Var f`, at most 1/4 on [0, 1] (Popoviciu).  Integrating eq. 4 gives
    only :math:`c_0 = (1 + \ln 2)/2 = 0.85`.

    Examples
    --------
    >>> mean_error_bound(100)
    0.05
    """
    n = check_count("n", n, 1)
    return _positive("width", width) / (2 * sqrt(n))


def bernstein_known_variance(n: int, variance: float, prob: float = 0.95, width: float = 1.0) -> float:
    r"""Half-width by Bernstein's inequality, where the variance of one draw is known, or an upper bound of it.

    Parameters
    ----------
    n : int
        Independent draws, at least 1.
    variance : float
        Variance of one draw, from 0 to ``width**2 / 4``.
    prob, width
        As in `hoeffding_bound`.

    Returns
    -------
    float
        In the unit of ``width``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is out of range or not a number.

    Notes
    -----
    Bernstein's inequality for :math:`|f - \bar f| \le R`, both sides: :math:`P(|\hat f_N - \bar f| \ge \epsilon) \le 2
    \exp\{-N\epsilon^2 / (2\sigma^2 + 2R\epsilon/3)\}`.  With :math:`L = \ln(2/\delta)` the right side is
    :math:`\delta` at the positive root of :math:`N\epsilon^2 - \frac23 RL\epsilon - 2L\sigma^2 = 0`.  R is ``width``
    here: the mean is not known to lie in the middle.  The slides name the inequality without giving it.

    Examples
    --------
    >>> round(bernstein_known_variance(1000, 0.01 * 0.99), 4)  # an event of probability 0.01
    0.0099
    """
    n = check_count("n", n, 1)
    width = _positive("width", width)
    variance = _number("variance", variance)
    if not 0 <= variance <= width**2 / 4 * (1 + 1e-12):
        raise ArgumentError(
            f"variance is {variance}; on an interval of width {width} it must be from 0 to {width**2 / 4}"
        )
    term = _log_term(prob, 2)
    half = width * term / 3
    return (half + sqrt(half**2 + 2 * n * term * variance)) / n


def bernstein_bound(values: ArrayLike, prob: float = 0.95, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
    r"""Half-width around the average of independent bounded draws, using their sample variance.

    Parameters
    ----------
    values : array_like of float, shape (n, ...)
        Independent draws along the first axis, at least 2, from ``low`` to ``high``. Not modified.
    prob : float, default=0.95
        Least probability that the mean lies within the half-width.
    low, high : float, default=0.0, 1.0
        Limits that the function cannot leave: known beforehand, not the smallest and largest draw.

    Returns
    -------
    ndarray of float, shape (...)
        Half-width for each quantity, in the unit of the values.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are too few values, one is not finite or outside the limits, or another argument is out of range.

    Notes
    -----
    Maurer & Pontil (2009), theorem 4: for values in [0, 1], with probability at least :math:`1 - \delta'`, the mean
    exceeds the average by at most :math:`\sqrt{2 V_n \ln(2/\delta')/n} + 7\ln(2/\delta') / (3(n-1))`, :math:`V_n` the
    sample variance.  Both sides together need :math:`\delta' = \delta/2`: the logarithm is of :math:`4/\delta`.
    Narrower than Hoeffding's where the standard deviation is well below half the width and n at least some hundreds.

    Examples
    --------
    >>> values = np.random.default_rng(0).random(5000) < 0.01
    >>> round(float(bernstein_bound(values)), 4), round(hoeffding_bound(5000), 4)
    (0.0063, 0.0192)
    """
    array = finite_array("values", values)
    if array.ndim < 1 or array.shape[0] < 2:
        raise ArgumentError(f"values has shape {array.shape}; it must be (draw, ...) with at least 2 draws")
    low, high = _number("low", low), _number("high", high)
    if not low < high:
        raise ArgumentError(f"low is {low} and high {high}; low must be less than high")
    outside = (array < low) | (array > high)
    if outside.any():
        raise ArgumentError(f"{first_entry('values', array, outside)}; all must lie from low={low} to high={high}")
    n, term = array.shape[0], _log_term(prob, 4)
    spread = np.sqrt(2 * array.var(axis=0, ddof=1) * term / n)
    return np.asarray(spread + 7 * (high - low) * term / (3 * (n - 1)))


def _log_term(prob: float, sides: int) -> float:
    """Logarithm of ``sides / delta``."""
    return log(sides / (1 - check_prob(prob)))


def _number(name: str, value: float) -> float:
    """Return a finite number, or raise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a number")
    if not np.isfinite(value):
        raise ArgumentError(f"{name} is {value}; it must be finite")
    return float(value)


def _positive(name: str, value: float) -> float:
    """Return a finite positive number, or raise."""
    value = _number(name, value)
    if value <= 0:
        raise ArgumentError(f"{name} is {value}; it must be positive")
    return value


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
            raise ArgumentTypeError(f"{name} is {share!r}; it must be a share of the chain, such as 0.1")
    if not (first > 0 and last > 0 and first + last <= 1 + 1e-12):
        raise ArgumentError(f"first is {first} and last {last}; they must be positive shares that add up to at most 1")
    n_first, n_last = int(first * n + 1e-9), int(last * n + 1e-9)
    if min(n_first, n_last) < MIN_SEGMENT:
        raise ArgumentError(
            f"{n} draws with first={first} and last={last} leave {n_first} and {n_last}; "
            f"each stretch needs at least {MIN_SEGMENT}: run longer, or take larger shares"
        )
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
