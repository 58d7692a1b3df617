"""Posteriors of one and of two coefficients, with the approximations beside or over the draws, and intervals.

Figures 14 to 16 of de Freitas et al. (2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import check_prob
from doxa.estimates.trace import Trace
from doxa.plots.columns import Column, Which, as_fit, fit_coefficient, read_column
from doxa.plots.laws import (
    REACH,
    DensityGrid,
    Law,
    ellipse,
    exact_law,
    laws_of,
    own_or_given,
    places_in_part,
    region_levels,
)
from doxa.plots.style import BLACK, BLUE, LAW_LOOKS, Look, axes_or_new, legend_below, name_axes, panels, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_bivariate", "plot_marginals"]


_PER_ROW = 4
_MOST = 24  # panels
_CELLS_MARGINALS = 400  # of a curve
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
    x = np.linspace(low, high, _CELLS_MARGINALS)
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


Shown: TypeAlias = Literal["points", "density", "none"]

_POINTS = 4000  # that are drawn; more hide each other
_CELLS = 160  # of a grid, along each axis
_LEAST = 8  # draws of which a density is estimated
_QUARTER = 0.6373  # width of the densest quarter of a standard normal: twice its quantile at 0.625


def plot_bivariate(
    source: Any,
    x: Which,
    y: Which,
    *,
    approximation: Any = "own",
    exact: Any = None,
    draws: Shown = "points",
    probs: Sequence[float] = (0.5, 0.9),
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    r"""Draws of two coefficients, and regions of highest density of the approximations over them.

    Parameters
    ----------
    source : ParameterPosterior, Trace, mapping of str to array_like, or array_like
        What `doxa.fit` returned; or draws, (chain, draw) under each name, or (chain, draw, coefficient).
    x, y : str, int or tuple
        The two coefficients: ``("node", "coefficient")`` of a fit, else a name or a number.
    approximation : optional
        ``"own"`` for what the fit proposed from, where it has one; None for nothing; one approximation; or a mapping of
        names to several (at most 4).  An approximation is a Gaussian, a pair (mean, covariance), a t distribution or a
        mixture of such, over all coefficients of a node (or of its part of the posterior, or of the array), or over x
        and y; a function from points (n, 2) to log densities, which need not be normalised; or a `DensityGrid`.
    exact : optional
        The posterior itself, drawn as black contours: the table of the fit, where the two coefficients depend on no
        others; a function from points (n, 2) to log densities; or a `DensityGrid`.
    draws : {"points", "density", "none"}, default="points"
        Draws as points, up to 4000 of them evenly chosen; their estimated density, by contours; or nothing.
    probs : sequence of float, default=(0.5, 0.9)
        Mass inside each region, strictly between 0 and 1.
    legend : bool, default=True
        Whether to draw one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Points are its first line; each ellipse of a Gaussian is a line, each other density a set of contours.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If there are no such coefficients, an approximation is over others, or an option is out of range.

    Notes
    -----
    Regions on a grid of 160 x 160 hold their share of the mass *inside the picture*.  The density of the draws is
    estimated by Gaussian kernels of Scott's width (1992), :math:`n^{-1/6}` standard deviations along each axis; these
    are taken from the densest quarter of the draws, since two modes far apart have a large one together.  Points
    show what was drawn and nothing else.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> sample = {"a": rng.normal(size=(4, 100)), "b": rng.normal(size=(4, 100))}
    >>> ax = plot_bivariate(sample, "a", "b", approximation={"normal": ([0, 0], np.eye(2))})
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('a', ['400 draws', 'normal'])
    """
    if draws not in get_args(Shown):
        raise ArgumentError(f"draws is {draws!r}; it must be 'points', 'density' or 'none'")
    shares = tuple(sorted({check_prob(prob) for prob in probs}))
    across, up = read_column(source, x), read_column(source, y)
    if across.draws.shape != up.draws.shape:
        raise ArgumentError(f"x has draws of shape {across.draws.shape} and y {up.draws.shape}; they must be alike")
    laws, truth = _laws(source, x, y, approximation, exact)
    sample = np.stack([across.draws.ravel(), up.draws.ravel()])
    ax = axes_or_new(ax, "plot_bivariate", (5.2, 4.6))
    if draws == "points":
        _points(ax, sample)
    box = _box(sample, [law.gaussian for law in laws.values() if isinstance(law, Law)])
    if draws == "density":
        _contours(ax, _kernel_density(sample, box), shares, Look(BLUE, "-"), f"{sample.shape[1]} draws", filled=True)
    if truth is not None:
        _region(ax, truth, shares, box, Look(BLACK, "-"), "posterior")
    for (name, law), look in zip(laws.items(), LAW_LOOKS, strict=False):
        _region(ax, law, shares, box, look, name)
    name_axes(ax, across.label, up.label)
    within = ", ".join(f"{100 * share:g}%" for share in shares)
    ax.set_title(f"Regions of highest density: {within}", fontsize=10)
    if legend:
        quiet_legend(ax)
    return ax


def _points(ax: Axes, sample: Floats) -> None:
    shown = sample[:, :: -(-sample.shape[1] // _POINTS)]
    label = f"{sample.shape[1]} draws" if shown.shape == sample.shape else f"{shown.shape[1]} of the draws"
    ax.plot(*shown, ".", color=BLUE, markersize=2.5, alpha=0.4, markeredgewidth=0, zorder=1)
    ax.plot([], [], ".", color=BLUE, markersize=6, markeredgewidth=0, label=label)  # seen in the legend


def _laws(
    source: Any, x: Which, y: Which, approximation: Any, exact: Any
) -> tuple[dict[str, Law | DensityGrid], Law | DensityGrid | None]:
    """Approximations by name, and the posterior itself."""
    fit = as_fit(source)
    columns = [] if fit is None else [fit_coefficient(fit, which) for which in (x, y)]
    named = own_or_given(fit, columns, approximation, lambda: _given(source, x, y, columns, approximation))
    if exact is None or isinstance(exact, DensityGrid):
        return named, None if exact is None else _checked_grid("exact", exact)
    if callable(exact):
        return named, laws_of({"exact": exact}, [0, 1], 2)["exact"]
    if fit is None:
        raise ArgumentTypeError(
            f"exact is {type(exact).__name__}; for draws it must be a function of points (n, 2) or a DensityGrid"
        )
    return named, exact_law(fit, columns, exact)


def _given(
    source: Any, x: Which, y: Which, columns: list[tuple[str, str]], approximation: Any
) -> dict[str, Law | DensityGrid]:
    """Approximations that the caller gave, over all coefficients or over x and y."""
    fit = as_fit(source)
    place, size = [0, 1], 2
    if fit is not None:
        place, size = places_in_part(fit, columns)
    elif not hasattr(source, "keys") and np.ndim(source) == 3 and isinstance(x, int) and isinstance(y, int):
        place, size = [x, y], np.shape(source)[2]
    if isinstance(approximation, DensityGrid):
        approximation = {"approximation": approximation}
    if not hasattr(approximation, "items"):
        return dict(laws_of(approximation, place, size))
    return {
        str(name): _checked_grid(name, law) if isinstance(law, DensityGrid) else laws_of({name: law}, place, size)[name]
        for name, law in approximation.items()
    }


def _region(ax: Axes, law: Law | DensityGrid, shares: tuple[float, ...], box: Floats, look: Look, label: str) -> None:
    """Outlines of the regions of one density."""
    if isinstance(law, DensityGrid):
        _contours(ax, law, shares, look, label)
        return
    if law.gaussian is not None:
        for number, share in enumerate(shares):
            name = label if number == 0 else None
            ax.plot(*ellipse(law.gaussian, share), linestyle=look.line, color=look.colour, linewidth=1.3, label=name)
        return
    x, y = (np.linspace(ends[0], ends[1], _CELLS) for ends in box)
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    _contours(ax, DensityGrid(x, y, law.log_density(points).reshape(_CELLS, _CELLS)), shares, look, label)


def _contours(
    ax: Axes, grid: DensityGrid, shares: tuple[float, ...], look: Look, label: str, *, filled: bool = False
) -> None:
    heights = np.maximum(grid.log_density - grid.log_density.max(), -700.0)
    levels = np.unique(region_levels(heights, shares))
    if filled:
        fill = ax.contourf(grid.x, grid.y, heights.T, levels=[*levels, 1.0], colors=[look.colour], alpha=0.15, zorder=0)
        fill.set_gid(f"{label}: filled")
    drawn = ax.contour(
        grid.x, grid.y, heights.T, levels=levels, colors=[look.colour], linestyles=[look.line], linewidths=1.1
    )  # fmt: skip
    drawn.set_gid(label)
    ax.plot([], [], color=look.colour, linestyle=look.line, linewidth=1.3, label=label)


def _box(sample: Floats, gaussians: list[Any]) -> Floats:
    """What a grid has to span, shape (2, 2): the draws with some room, and the Gaussians."""
    low, high = sample.min(axis=1), sample.max(axis=1)
    room = 0.15 * np.where(high > low, high - low, 1.0)
    low, high = low - room, high + room
    for gaussian in gaussians:
        if gaussian is not None:
            low = np.minimum(low, gaussian.mean - REACH * gaussian.sd)
            high = np.maximum(high, gaussian.mean + REACH * gaussian.sd)
    return np.stack([low, high], axis=1)


def _kernel_density(sample: Floats, box: Floats) -> DensityGrid:
    """Draws counted in cells, and blurred by a Gaussian kernel of Scott's width along each axis."""
    from scipy.ndimage import gaussian_filter

    n = sample.shape[1]
    spread = sample.std(axis=1)
    if n < _LEAST or not (spread > 0).all():
        raise ArgumentError(
            f"draws is 'density', but there are {n} draws with standard deviations {spread.round(6).tolist()}; a "
            f"density needs {_LEAST} draws that differ in both coefficients: use 'points'"
        )
    counts, x, y = np.histogram2d(sample[0], sample[1], bins=[_CELLS, _CELLS], range=box)
    widths = _mode_spread(sample) * n ** (-1 / 6) / ((box[:, 1] - box[:, 0]) / _CELLS)
    blurred = gaussian_filter(counts, np.maximum(widths, 0.5), mode="constant")
    with np.errstate(divide="ignore"):
        return DensityGrid((x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2, np.log(blurred))


def _mode_spread(sample: Floats) -> Floats:
    """Standard deviations (2,) of the Gaussians whose densest quarters are as wide as those of the draws.

    Not those of all draws, which two modes far apart make large.
    """
    ordered, n = np.sort(sample, axis=1), sample.shape[1]
    quarter = n // 4
    widths = (ordered[:, quarter:] - ordered[:, : n - quarter]).min(axis=1)
    return np.asarray(np.where(widths > 0, np.minimum(widths / _QUARTER, sample.std(axis=1)), sample.std(axis=1)))


def _checked_grid(name: Any, grid: DensityGrid) -> DensityGrid:
    x, y, heights = (np.asarray(part, dtype=np.float64) for part in grid)
    if heights.shape != (x.size, y.size) or min(heights.shape) < 2 or np.isnan(heights).any():
        raise ArgumentError(
            f"{name!r} is a grid of {x.size} x {y.size} points with log densities of shape {heights.shape}; the shape "
            "must be (number of x, number of y), at least (2, 2), without nan"
        )
    return DensityGrid(x, y, heights)
