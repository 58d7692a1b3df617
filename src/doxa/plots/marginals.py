"""Posteriors of single coefficients: draws beside the approximations, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.estimate import check_prob
from doxa.estimates.trace import Trace
from doxa.plots.columns import Column, Which, as_fit, fit_coefficient, read_column
from doxa.plots.laws import REACH, Law, exact_law, laws_of, own_or_given, places_in_part
from doxa.plots.style import BLACK, BLUE, LAW_LOOKS, Look, legend_below, name_axes, panels, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_marginals"]

Floats: TypeAlias = NDArray[np.float64]

_PER_ROW = 4
_MOST = 24  # panels
_CELLS = 400  # of a curve
_FLOOR = 0.07  # of the height: room for the interval below the curves


class _Panel(NamedTuple):
    column: Column
    laws: dict[str, Law]
    truth: Law | None


def plot_marginals(
    source: Any,
    which: Sequence[Which] | Which = None,
    *,
    approximation: Any = "own",
    exact: Any = None,
    prob: float | None = 0.95,
    bins: int = 40,
    limits: tuple[float, float] | None = None,
    legend: bool = True,
    axes: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Histograms of draws of coefficients, with the approximations' densities and an interval each.

    Parameters
    ----------
    source : ParameterPosterior, Trace, mapping of str to array_like, or array_like
        What `doxa.fit` returned; or draws, (chain, draw) under each name, or (chain, draw, coefficient).
    which : list, or one coefficient, optional
        Coefficients to show: ``("node", "coefficient")`` of a fit, else names or numbers.  By default all, at most 24.
    approximation : optional
        ``"own"`` for what the fit proposed from, where it has one; None for nothing; one approximation; or a mapping of
        names to several (at most 4).  An approximation is a Gaussian, a pair (mean, covariance), a t distribution or a
        mixture of such, over all coefficients of a node (or of its part of the posterior, or of the array); or, of one
        coefficient, a function from points (n, 1) to log densities, which need not be normalised.
    exact : optional
        The posterior itself, as a black line, of one coefficient only: a function from points (n, 1) to log densities;
        or the table of the fit, where the coefficient depends on no others.
    prob : float or None, default=0.95
        Mass of the central interval under the histogram, with a mark at the mean; None for none.
    bins : int, default=40
        Of each histogram.
    limits : (float, float), optional
        Ends of the axis, and of the histogram; by default the range of the draws and of the approximations.
    legend : bool, default=True
        Whether to draw one in ``axes[0]``, where ``axes`` is given; a new figure has one below.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, one for each coefficient; a new figure when left out.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (n_coefficients,)

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If there are no such coefficients, an approximation is over others, or an option is out of range.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> (ax,) = plot_marginals({"a": rng.normal(size=(4, 500))}, approximation={"normal": ([0.0], [[1.0]])})
    >>> ax.get_xlabel(), ax.get_legend_handles_labels()[1]
    ('a', ['draws', 'normal', '95% interval, mean'])
    """
    chosen = _chosen(source, which)
    bins = check_whole("bins", bins, 1)
    share = None if prob is None else check_prob(prob)
    if exact is not None and len(chosen) > 1:
        raise ArgumentError(f"exact is given for {len(chosen)} coefficients; draw them one at a time")
    if limits is not None and not (np.isfinite(limits).all() and limits[0] < limits[1]):
        raise ArgumentError(f"limits is {limits!r}; it must be two finite numbers, the smaller first")
    found = [_panel(source, one, chosen, approximation, exact) for one in chosen]
    if axes is None:
        figure, drawn = _new_axes(len(found))
    else:
        drawn = list(axes)
        if len(drawn) != len(found):
            raise ArgumentError(f"axes has {len(drawn)} entries for {len(found)} coefficients; give one for each")
    for ax, panel in zip(drawn, found, strict=True):
        _draw(ax, panel, share, bins, limits)
    for ax in drawn[::_PER_ROW]:
        ax.set_ylabel("density")
    if axes is None:
        legend_below(figure, drawn[0])
    elif legend:
        quiet_legend(drawn[0])
    return _as_array(drawn)


def _as_array(drawn: list[Axes]) -> NDArray[Any]:
    holder = np.empty(len(drawn), dtype=object)
    holder[:] = drawn
    return holder


def _new_axes(n: int) -> tuple[Any, list[Axes]]:
    """A figure with axes for ``n`` panels."""
    columns = min(n, _PER_ROW)
    figure, grid = panels(-(-n // _PER_ROW), columns, width=max(4.6, 2.9 * columns), height=2.6)
    for empty in grid.ravel()[n:]:
        empty.set_axis_off()
    return figure, list(grid.ravel()[:n])


def _chosen(source: Any, which: Sequence[Which] | Which) -> list[Which]:
    """The coefficients asked for, or all."""
    fit = as_fit(source)
    if which is not None:
        if isinstance(which, list):
            chosen: list[Which] = list(which)
        else:
            chosen = [which]  # type: ignore[list-item]
    elif fit is not None:
        chosen = [(node, label) for node in fit.network.parameters for label in fit.network.coefficients(node)]
    elif isinstance(source, (Trace, Mapping)):
        chosen = list(source.names if isinstance(source, Trace) else source)
    else:
        chosen = list(range(np.shape(source)[2])) if np.ndim(source) == 3 else [None]
    if not 0 < len(chosen) <= _MOST:
        raise ArgumentError(f"{len(chosen)} coefficients are to be drawn; choose 1 to {_MOST} of them with which=[...]")
    return chosen


def _panel(source: Any, one: Which, chosen: list[Which], approximation: Any, exact: Any) -> _Panel:
    column = read_column(source, one)
    fit = as_fit(source)
    named = [] if fit is None else [fit_coefficient(fit, one)]

    def given() -> dict[str, Law]:
        place, size = [0], 1
        if fit is not None:
            place, size = places_in_part(fit, named)
        elif isinstance(one, int) and np.ndim(source) == 3:
            place, size = [one], np.shape(source)[2]
        elif isinstance(source, (Trace, Mapping)):
            place, size = [chosen.index(one)], len(chosen)
        return laws_of(approximation, place, size)

    laws: dict[str, Law] = own_or_given(fit, named, approximation, given)
    if exact is None:
        return _Panel(column, laws, None)
    if callable(exact):
        return _Panel(column, laws, laws_of({"exact": exact}, [0], 1)["exact"])
    if fit is None:
        raise ArgumentError(f"exact is {type(exact).__name__}; for draws it must be a function of points (n, 1)")
    return _Panel(column, laws, exact_law(fit, named, exact))


def _draw(ax: Axes, panel: _Panel, share: float | None, bins: int, limits: tuple[float, float] | None) -> None:
    draws = panel.column.draws.ravel()
    low, high = limits if limits is not None else _ends(draws, panel.laws)
    heights, edges = np.histogram(draws, bins=bins, range=(low, high))
    density = heights / (draws.size * (edges[1] - edges[0]))  # draws outside of the limits are counted in the whole
    ax.stairs(density, edges, fill=True, color=BLUE, alpha=0.3, label="draws")
    x = np.linspace(low, high, _CELLS)
    curves = [*zip(panel.laws, panel.laws.values(), LAW_LOOKS, strict=False)]
    if panel.truth is not None:
        curves.insert(0, ("posterior", panel.truth, Look(BLACK, "-")))
    lines = [(name, _density(law, x), look) for name, law, look in curves]
    if share is not None:
        _interval(ax, draws, share, max([density.max(), *(y.max() for _, y, _ in lines)]))
    for name, y, look in lines:
        ax.plot(x, y, color=look.colour, linestyle=look.line, linewidth=1.4, label=name)
    ax.set_xlim(low, high)
    name_axes(ax, panel.column.label, "")


def _interval(ax: Axes, draws: Floats, share: float, top: float) -> None:
    """The central interval and the mean, below the curves."""
    ends = np.quantile(draws, (0.5 - share / 2, 0.5 + share / 2))
    mean = float(draws.mean())
    low = -0.6 * _FLOOR * top
    ax.errorbar(
        [mean], [low], xerr=[[max(0.0, mean - ends[0])], [max(0.0, ends[1] - mean)]], fmt="o", color=BLACK,
        markersize=3.5, linewidth=1.2, capsize=2, label=f"{100 * share:g}% interval, mean",
    )  # fmt: skip
    ax.set_ylim(-1.6 * _FLOOR * top, 1.06 * top)
    ax.axhline(0.0, color="0.6", linewidth=0.6)
    ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.06 * top])


def _density(law: Law, x: Floats) -> Floats:
    log_density = law.log_density(x[:, None])
    if law.normalised:
        return np.asarray(np.exp(log_density))
    heights = np.exp(log_density - log_density.max())
    return np.asarray(heights / np.trapezoid(heights, x))


def _ends(draws: Floats, laws: dict[str, Law]) -> tuple[float, float]:
    low, high = float(draws.min()), float(draws.max())
    room = 0.05 * (high - low) if high > low else 0.5
    low, high = low - room, high + room
    for law in laws.values():
        if law.gaussian is not None:
            mean, reach = float(law.gaussian.mean[0]), REACH * float(law.gaussian.sd[0])
            low, high = min(low, mean - reach), max(high, mean + reach)
    return low, high
