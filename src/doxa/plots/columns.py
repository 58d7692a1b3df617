"""One quantity out of whatever holds draws of it, and the autocovariances of one with their weights (slides, eqs.
20-21).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.long_run import (
    MIN_DRAWS,
    ORDER,
    WINDOWS,
    Window,
    autocovariance,
    bandwidth_of,
    initial_sequence,
    integrated_autocorrelation_time,
    lag_weights,
    pooled_autocovariance,
)
from doxa.estimates.trace import Trace
from doxa.plots.style import BLACK, BLUE, GREY, RED, axes_or_new, name_axes, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from doxa.parameters.posterior import ParameterPosterior

__all__ = ["Column", "Which", "as_fit", "plot_autocovariances", "read_column"]

Which: TypeAlias = str | int | tuple[Any, ...] | None

_OF_STRUCTURES = ("log_score", "n_edges")


class Column(NamedTuple):
    """Draws of one quantity."""

    label: str
    draws: Floats  # (chain, draw)
    thin: int = 1  # steps of the sampler for each draw
    n_warmup: int = 0  # steps before the first kept draw


def read_column(source: Any, which: Which = None) -> Column:
    """Read one quantity of a posterior, a trace, a mapping of arrays, or an array (chain, draw) or (chain, draw,
    coefficient).

    ``which`` is ``("node", "coefficient")`` or ``"node: coefficient"`` of a fit; ``"log_score"`` or ``"n_edges"`` of a
    structure posterior; a name of a trace or a mapping, or a tuple of it and indices; the number of a coefficient of an
    array with three axes.
    """
    fit = as_fit(source)
    if fit is not None:
        node, label = fit_coefficient(fit, which)
        place = fit.network.coefficients(node).index(label)
        trace = fit.trace
        return Column(f"{node}: {label}", fit.draws(node)[..., place], trace.thin, trace.n_warmup)
    if hasattr(source, "log_score") and hasattr(source, "n_edges"):
        if which not in _OF_STRUCTURES:
            raise ArgumentError(f"which is {which!r}; of a posterior over graphs it must be 'log_score' or 'n_edges'")
        trace = source.trace
        label = "log score, nats" if which == "log_score" else "edges in the graph"
        return Column(label, _checked(getattr(source, which), label), trace.thin, trace.n_warmup)
    if isinstance(source, (Trace, Mapping)):
        return _of_names(source, which)
    return _of_array(source, which)


def as_fit(source: Any) -> ParameterPosterior | None:
    """The source, if it is what `doxa.fit` returned; ArgumentError if that has kept no draws."""
    if isinstance(source, (np.ndarray, list, tuple, Trace, Mapping)):
        return None
    from doxa.parameters.averages import ParameterAverages
    from doxa.parameters.posterior import ParameterPosterior

    if isinstance(source, ParameterAverages):
        raise ArgumentError(f"source has kept {source.kept}, and a plot is of draws; fit with keep='draws'")
    return source if isinstance(source, ParameterPosterior) else None


def fit_coefficient(fit: ParameterPosterior, which: Which) -> tuple[str, str]:
    """Node and name of a coefficient of a fit."""
    known = [(node, label) for node in fit.network.parameters for label in fit.network.coefficients(node)]
    for node, label in known:
        if which in ((node, label), f"{node}: {label}"):
            return node, label
    some = ", ".join(map(repr, known[:6])) + (", ..." if len(known) > 6 else "")
    raise ArgumentError(f"{which!r} is no coefficient of this fit; name one as (node, coefficient): {some}")


def _of_names(source: Trace | Mapping[str, Any], which: Which) -> Column:
    names = source.names if isinstance(source, Trace) else tuple(source)
    if which is None and len(names) == 1:
        which = names[0]
    name, *indices = which if isinstance(which, tuple) else (which,)
    if name not in names:
        raise ArgumentError(f"{name!r} is not among the draws; there are {', '.join(map(repr, names))}")
    array = np.asarray(source[name])
    label = f"{name}[{', '.join(map(str, indices))}]" if indices else str(name)
    if indices:
        try:
            array = array[(slice(None), slice(None), *indices)]
        except IndexError as error:
            raise ArgumentError(f"{which!r}: {error}; draws of {name!r} have shape {array.shape}") from None
    if isinstance(source, Trace):
        return Column(label, _checked(array, label), source.thin, source.n_warmup)
    return Column(label, _checked(array, label))


def _of_array(source: Any, which: Which) -> Column:
    array = np.asarray(source)
    if array.ndim == 3:
        if isinstance(which, bool) or not isinstance(which, (int, np.integer)):
            raise ArgumentTypeError(
                f"which is {which!r}; of draws (chain, draw, coefficient) it is a coefficient's number"
            )
        if not 0 <= which < array.shape[2]:
            raise ArgumentError(f"which is {which}; coefficients are 0..{array.shape[2] - 1}")
        return Column(f"coefficient {which}", _checked(array[:, :, which], "draws"))
    if which is not None:
        raise ArgumentError(
            f"which is {which!r}, but draws has shape {array.shape}, which has no coefficients; omit it"
        )
    return Column("value", _checked(array, "draws"))


def _checked(draws: Any, name: str) -> Floats:
    try:
        array = np.asarray(draws, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} is not an array of numbers; give draws of shape (n_chains, n_draws)") from None
    if array.ndim != 2 or array.size == 0:
        raise ArgumentError(f"{name} has shape {array.shape}; it must be (n_chains, n_draws), at least one of each")
    if not np.isfinite(array).all():
        chain, draw = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ArgumentError(f"{name}[{chain}, {draw}] is {array[chain, draw]}; every draw must be finite")
    return array


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
