"""Autocovariances of a quantity, and the weights they have in the error of its mean: eqs. 20 and 21 of the slides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.autocovariance import autocovariance, initial_sequence, pooled_autocovariance
from doxa.estimates.long_run import MIN_DRAWS, bandwidth_of, integrated_autocorrelation_time
from doxa.estimates.windows import ORDER, WINDOWS, Window, lag_weights
from doxa.plots.columns import Which, read_column
from doxa.plots.style import BLACK, BLUE, GREY, RED, axes_or_new, name_axes, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_autocovariances"]

Floats: TypeAlias = NDArray[np.float64]

_MOST_CHAINS = 12  # with a line each
_BEYOND = 1.6  # lags shown, over the reach of the window


class _Weights(NamedTuple):
    values: Floats  # (n_lags,)
    reach: float  # lag from which on they are 0


def plot_autocovariances(
    source: Any,
    which: Which = None,
    *,
    window: Window = "initial-monotone",
    bandwidth: float | None = None,
    max_lag: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Autocovariances over lags, and the weights they have in the error of the mean.

    Parameters
    ----------
    source, which
        As in `plot_traces`.
    window : str, default="initial-monotone"
        As in `doxa.estimates.long_run.long_run_variance`: ``"bartlett"``, ``"parzen"``, ``"tukey-hanning"``, or one of
        Geyer's sequences, ``"initial-positive"``, ``"initial-monotone"``, ``"initial-convex"``.
    bandwidth : float, optional
        Lag from which on a lag window is 0; by default as there.
    max_lag : int, optional
        Last lag shown; by default 1.6 times the reach of the window.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Stems are the autocovariances of all chains, thin lines those of each (up to 12), the dashed line the window's
        weights times the variance; the title has the integrated autocorrelation time.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If there is no such quantity, it never moved, the chains have fewer than 4 draws, or an option is out of range.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000)).repeat(5, axis=1)  # every draw five times
    >>> plot_autocovariances(draws, window="parzen").get_title()
    'Autocovariances: 5.0 draws are worth one'
    """
    column = read_column(source, which)
    n_chains, n_draws = column.draws.shape
    if n_draws < MIN_DRAWS:
        raise ArgumentError(f"the chains have {n_draws} draws; autocovariances need at least {MIN_DRAWS}")
    if column.draws.min() == column.draws.max():
        raise ArgumentError(f"{column.label} is {column.draws[0, 0]:g} in every draw; it has no autocovariances")
    if window not in WINDOWS:
        raise ArgumentError(f"window is {window!r}; it must be one of {', '.join(map(repr, WINDOWS))}")
    time = float(integrated_autocorrelation_time(column.draws, window, bandwidth))  # checks the bandwidth
    gamma = pooled_autocovariance(column.draws)
    weights = window_weights(gamma, window, bandwidth, n_chains)
    if max_lag is None:
        last = min(n_draws - 1, int(np.ceil(_BEYOND * weights.reach)) + 2)
    else:
        last = check_whole("max_lag", max_lag, 1)
    if last >= n_draws:
        raise ArgumentError(f"max_lag is {last}; it must be below the {n_draws} draws of a chain")
    ax = axes_or_new(ax, "plot_autocovariances", (6.0, 3.2))
    lags = np.arange(last + 1)
    if 1 < n_chains <= _MOST_CHAINS:
        for number, chain in enumerate(autocovariance(column.draws, last)):
            label = "each chain, around the common mean" if number == 0 else None
            ax.plot(lags, chain, color=GREY, linewidth=0.6, label=label, zorder=1)
    ax.vlines(lags, 0.0, gamma[: last + 1], color=BLUE, linewidth=max(0.4, min(3.0, 150 / last)), label="all chains")
    ax.plot(lags, gamma[0] * weights.values[: last + 1], color=RED, linestyle="--", label=f"weights ({window})")
    ax.axhline(0.0, color=BLACK, linewidth=0.7)
    ax.margins(x=0.01)
    worth = f"{time:.1f} draws are worth one" if np.isfinite(time) else "the weighted sum is not positive"
    name_axes(ax, "lag, draws", f"autocovariance of {column.label}", f"Autocovariances: {worth}")
    quiet_legend(ax)
    return ax


def window_weights(gamma: Floats, window: Window, bandwidth: float | None, n_chains: int) -> _Weights:
    """Weights of the autocovariances ``gamma`` (n_draws,), as `doxa.estimates.long_run` takes them.

    Geyer's sequences count as 1 up to their cut; making them monotone or convex lowers some terms besides.
    """
    n = gamma.size
    lag = np.arange(n, dtype=np.float64)
    if window not in ORDER:
        _, n_lags = initial_sequence(gamma, window)
        return _Weights((lag < n_lags).astype(np.float64), float(n_lags))
    width = float(bandwidth_of(gamma, window, bandwidth, n_chains))
    return _Weights(lag_weights(window, lag / width), width)
