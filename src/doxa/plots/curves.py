"""Numbers over a setting, one curve a method; repeated runs beside the truth; distributions as bars with errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.plots.style import BLACK, BLUE, GREEN, LOOKS, ORANGE, PINK, RED, Look, axes_or_new, name_axes, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Band", "plot_curves", "plot_marginal_bars", "plot_repeats"]

Tables: TypeAlias = Mapping[str, Mapping[str, Estimate]]

_FILLS = ((BLUE, ""), (ORANGE, "////"), (GREEN, "...."), (PINK, "xxxx"))  # told apart in black and white too
_HEIGHT = 0.8  # of the bars of a state, of the room between states
_GAP = 0.6  # between variables
_MOST = 60  # states


def plot_marginal_bars(
    results: Tables | Mapping[str, Tables],
    variables: Sequence[str] | str | None = None,
    *,
    prob: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """A bar for the probability of each state, with the interval of its Monte Carlo error.

    Parameters
    ----------
    results : Inference, or mapping of str to Inference
        What `doxa.infer` returned, or several such by name, at most 4, drawn beside each other.  Any mapping of
        variables to mappings of states to `Estimate` will do.
    variables : sequence of str, or str, optional
        Variables to show; by default all, of at most 60 states together.
    prob : float, default=0.95
        Nominal coverage of the intervals.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Bars lie on their side, the first variable on top.  Exact probabilities have no interval; those of unknown
        error (mean field) have pale bars.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If a variable is missing in a result, results have different states, or there is nothing or too much to draw.

    Examples
    --------
    >>> found = {"rain": {"no": Estimate(0.8, 0.01, 1600.0), "yes": Estimate(0.2, 0.01, 1600.0)}}
    >>> ax = plot_marginal_bars(found)
    >>> [label.get_text() for label in ax.get_yticklabels()], [float(bar.get_width()) for bar in ax.patches]
    (['rain = no', 'rain = yes'], [0.8, 0.2])
    """
    named, share = _named(results), check_prob(prob)
    first = next(iter(named.values()))
    asked = [variables] if isinstance(variables, str) else list(first if variables is None else variables)
    rows = _rows(named, asked)
    if not 0 < len(rows) <= _MOST:
        raise ArgumentError(f"{len(rows)} states are to be drawn; choose variables with 1 to {_MOST} states together")
    place = np.array([row + _GAP * asked.index(variable) for row, (variable, _) in enumerate(rows)])
    ax = axes_or_new(ax, "plot_marginal_bars", (6.0, 1.1 + 0.26 * (place[-1] + 1) * (1 + 0.25 * (len(named) - 1))))
    height = _HEIGHT / len(named)
    for number, (name, tables) in enumerate(named.items()):
        estimates = [tables[variable][state] for variable, state in rows]
        _draw(ax, place - _HEIGHT / 2 + height * (number + 0.5), height, estimates, share, number, name)
    ax.set_yticks(place, [f"{variable} = {state}" for variable, state in rows], parse_math=False)
    ax.set_ylim(place[-1] + 0.8, place[0] - 0.8)
    ax.set_xlim(0.0, 1.0)
    name_axes(ax, f"probability, with the {100 * share:g}% interval of its Monte Carlo error", "")
    if len(named) > 1:
        quiet_legend(ax, beside=True)
    return ax


def _named(results: Any) -> dict[str, Tables]:
    if not isinstance(results, Mapping):
        raise ArgumentTypeError(
            f"results is {type(results).__name__}; give what doxa.infer returned, or a dict of such"
        )
    if not results:
        raise ArgumentError("results is empty; give at least one")
    inner: Any = next(iter(results.values()))
    own = isinstance(inner, Mapping) and all(isinstance(value, Estimate) for value in inner.values())
    named = {"": results} if own else dict(results)
    for name, tables in named.items():
        if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
            raise ArgumentTypeError(
                f"results[{name!r}] is {type(tables).__name__}; it must be what doxa.infer returned"
            )
    if len(named) > len(_FILLS):
        raise ArgumentError(f"results has {len(named)} entries; at most {len(_FILLS)} can be told apart")
    return named


def _rows(named: Mapping[str, Tables], asked: list[str]) -> list[tuple[str, str]]:
    """Variables and states, in order; all results must have them."""
    first = next(iter(named.values()))
    for name, tables in named.items():
        for variable in asked:
            where = f" in results[{name!r}]" if name else ""
            if variable not in tables:
                raise ArgumentError(f"there is no {variable!r}{where}; there are {', '.join(map(repr, tables))}")
            if list(tables[variable]) != list(first[variable]):
                raise ArgumentError(
                    f"{variable!r} has the states {list(tables[variable])}{where} and {list(first[variable])} "
                    "elsewhere; only results with the same states can stand side by side"
                )
    return [(variable, state) for variable in asked for state in first[variable]]


def _draw(ax: Axes, place: Any, height: float, estimates: list[Estimate], share: float, number: int, name: str) -> None:
    """The bars of one result, and their intervals."""
    colour, hatch = _FILLS[number]
    unknown = [not np.isfinite(estimate.mcse) for estimate in estimates]
    bars = ax.barh(
        place, [e.value for e in estimates], height, color=colour, hatch=hatch, edgecolor="white", linewidth=0,
        label=name + (" (error unknown)" if any(unknown) else ""),
    )  # fmt: skip
    for bar, pale in zip(bars, unknown, strict=True):
        bar.set_alpha(0.35 if pale else 0.75)
    for estimate, at, pale in zip(estimates, place, unknown, strict=True):
        if not (estimate.exact or pale):
            low, high = estimate.interval(share)
            ax.plot([low, high], [at, at], color=BLACK, linewidth=1.1, solid_capstyle="butt", marker="|", markersize=4)


class Band(NamedTuple):
    """A curve with a range around it."""

    middle: ArrayLike  # (n,)
    low: ArrayLike  # (n,)
    high: ArrayLike  # (n,)

    @classmethod
    def over(cls, repeats: ArrayLike, middle: Callable[..., Any] = np.mean) -> Band:
        """Mean (or what ``middle`` computes), least and largest of repeated runs, shape (repeats, n).

        Examples
        --------
        >>> Band.over([[1.0, 2.0], [3.0, 6.0]])
        Band(middle=array([2., 4.]), low=array([1., 2.]), high=array([3., 6.]))
        """
        rows = np.asarray(repeats, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] < 1:
            raise ArgumentError(f"repeats has shape {rows.shape}; it must be (repeats, n), at least one of them")
        low, high = rows.min(axis=0), rows.max(axis=0)
        return cls(np.clip(middle(rows, axis=0), low, high), low, high)  # a mean of equal numbers may be rounded


def plot_curves(
    x: Sequence[Any] | NDArray[Any],
    curves: Mapping[str, ArrayLike | Band],
    *,
    looks: Mapping[str, Look] | None = None,
    exact: ArrayLike | None = None,
    bars: bool = False,
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A line for each method over a setting, such as the number of parents, a coupling, the number of draws.

    Parameters
    ----------
    x : array_like of float, or of str; shape (n,)
        Settings.  Words are set at equal distances, in the order given.
    curves : mapping of str to array_like of float, shape (n,), or Band
        Values by method; a `Band` has a range besides.
    looks : mapping of str to Look, optional
        Colour, line and mark of some of the methods; the others have those of `LOOKS`, in order.  Give the same to
        several panels.
    exact : float or array_like of float, shape (n,), optional
        The truth, in black.
    bars : bool, default=False
        Ranges as error bars at each setting, in place of shaded bands; methods then stand a little apart.
    x_label, y_label, title : str
        With units.
    legend : bool, default=True
        Whether to draw one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Scales are linear; ``ax.set_yscale("log")`` makes them others.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError
        If lengths differ, a range does not hold its middle, or there are more than 7 methods without a look.

    Examples
    --------
    >>> ax = plot_curves(["1", "10"], {"short": [0.4, 0.5], "long": Band([0.1, 0.2], [0, 0.1], [0.3, 0.3])}, exact=0.0)
    >>> [line.get_label() for line in ax.lines]
    ['short', 'long', 'exact']
    """
    settings = np.asarray(x)
    if settings.ndim != 1 or settings.size == 0:
        raise ArgumentError(f"x has shape {settings.shape}; it must be (n,) with at least one setting")
    chosen = _looks(curves, looks or {})
    words = settings.dtype.kind in "UO"
    place = np.arange(settings.size, dtype=np.float64) if words else settings.astype(np.float64)
    found = {name: _band(name, values, settings.size) for name, values in curves.items()}
    ax = axes_or_new(ax, "plot_curves", (6.4, 3.6))
    beside = _shifts(place, len(found)) if bars else np.zeros(len(found))
    for shift, (name, band) in zip(beside, found.items(), strict=True):
        _draw_curve(ax, name, place + shift, band, chosen[name], bars)
    if exact is not None:
        _draw_truth(ax, place, exact)
    if words:
        ax.set_xticks(place, settings.tolist(), parse_math=False)
    name_axes(ax, x_label, y_label, title)
    if legend:
        quiet_legend(ax)
    return ax


def _draw_curve(
    ax: Axes, name: str, place: Floats, band: tuple[Floats, Floats | None, Floats | None], look: Look, bars: bool
) -> None:
    middle, low, high = band
    style: dict[str, Any] = {
        "color": look.colour, "linestyle": look.line, "marker": look.mark, "markersize": 4, "linewidth": 1.3,
    }  # fmt: skip
    if bars and low is not None and high is not None:
        reach = np.stack([middle - low, high - middle])
        ax.errorbar(place, middle, reach, capsize=2, elinewidth=0.7, label=name, **style)
        return
    ax.plot(place, middle, label=name, **style)
    if low is not None and high is not None:
        ax.fill_between(place, low, high, color=look.colour, alpha=0.2, linewidth=0)


def _draw_truth(ax: Axes, place: Floats, exact: ArrayLike) -> None:
    truth = np.broadcast_to(np.asarray(exact, dtype=np.float64), place.shape)
    if np.ndim(exact) == 0:
        ax.axhline(float(truth[0]), color=BLACK, linewidth=1.0, label="exact")
    else:
        ax.plot(place, truth, color=BLACK, linewidth=1.0, label="exact")


def plot_repeats(
    groups: Mapping[str, ArrayLike],
    *,
    exact: float | None = None,
    hollow: Mapping[str, ArrayLike] | None = None,
    hollow_label: str = "hollow",
    label: str = "value",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A mark for every run, in a row for each method.

    Parameters
    ----------
    groups : mapping of str to array_like of float, shape (n_runs,)
        What the runs of each method found; not finite values are left out.
    exact : float, optional
        The truth, as a dashed line.
    hollow : mapping of str to array_like of bool, shape (n_runs,), optional
        Runs to set apart, such as those that were refused: hollow, and of another colour.
    hollow_label : str, default="hollow"
        What these are, for the legend.
    label : str, default="value"
        Of the axis, with the unit.
    legend : bool, default=True
        Whether to draw one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        The first group on top; in each row runs stand one above the other in their order.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError
        If a group is empty or has another number of runs than its entry in ``hollow``.

    Examples
    --------
    >>> ax = plot_repeats({"short": [0.1, 0.4], "long": [0.2, 0.3]}, exact=0.25)
    >>> [text.get_text() for text in ax.get_yticklabels()], ax.lines[0].get_xdata().tolist()
    (['short', 'long'], [0.1, 0.4])
    """
    if not groups:
        raise ArgumentError("groups is empty; give at least one")
    found = {name: np.asarray(values, dtype=np.float64).ravel() for name, values in groups.items()}
    apart = {name: np.asarray((hollow or {}).get(name, np.zeros(v.size, bool)), bool) for name, v in found.items()}
    for name, values in found.items():
        if values.size == 0 or apart[name].shape != values.shape:
            raise ArgumentError(
                f"groups[{name!r}] has {values.size} runs and hollow[{name!r}] {apart[name].size}; both need the same "
                "number, at least 1"
            )
    ax = axes_or_new(ax, "plot_repeats", (6.4, 1.0 + 0.4 * len(found)))
    size = float(np.clip(60.0 / np.sqrt(sum(map(len, found.values()))), 2.0, 5.0))
    for row, (name, values) in enumerate(found.items()):
        heights = row + np.linspace(-0.3, 0.3, values.size) if values.size > 1 else np.array([float(row)])
        for kind, colour, face in ((~apart[name], BLUE, BLUE), (apart[name], ORANGE, "none")):
            if kind.any():
                ax.plot(
                    values[kind], heights[kind], "o", color=colour, markerfacecolor=face, markersize=size,
                    markeredgewidth=0.7, alpha=0.8,
                )  # fmt: skip
    if any(kind.any() for kind in apart.values()):
        ax.plot([], [], "o", color=ORANGE, markerfacecolor="none", markersize=4, label=hollow_label)
    if exact is not None:
        ax.axvline(exact, color=RED, linestyle="--", linewidth=1.0, label="exact")
    ax.set_yticks(range(len(found)), list(found), parse_math=False)
    ax.set_ylim(len(found) - 0.5, -0.5)
    name_axes(ax, label, "")
    if legend:
        quiet_legend(ax)
    return ax


def _looks(curves: Mapping[str, Any], given: Mapping[str, Look]) -> dict[str, Look]:
    without = [name for name in curves if name not in given]
    if not curves or len(without) > len(LOOKS):
        raise ArgumentError(
            f"curves has {len(without)} entries without a look of their own; there must be 1 to {len(LOOKS)}, or looks="
        )
    return dict(given) | dict(zip(without, LOOKS, strict=False))


def _shifts(place: Floats, n: int) -> Floats:
    """How far each of n methods stands from its setting, so that error bars do not hide each other."""
    if n == 1:
        return np.zeros(1)
    room = float(np.diff(np.unique(place)).min()) if np.unique(place).size > 1 else 1.0
    return room * min(0.16, 0.04 * (n - 1)) * np.linspace(-1.0, 1.0, n)


def _band(name: str, values: ArrayLike | Band, n: int) -> tuple[Floats, Floats | None, Floats | None]:
    if not isinstance(values, Band):
        middle = np.asarray(values, dtype=np.float64)
        if middle.shape != (n,):
            raise ArgumentError(
                f"curves[{name!r}] has shape {middle.shape} for {n} settings; it must be ({n},) or a Band"
            )
        return middle, None, None
    middle, low, high = (np.asarray(part, dtype=np.float64) for part in values)
    if not middle.shape == low.shape == high.shape == (n,):
        raise ArgumentError(
            f"curves[{name!r}] is a Band of shapes {middle.shape}, {low.shape}, {high.shape} for {n} settings"
        )
    if ((low > middle) | (middle > high)).any():
        k = int(((low > middle) | (middle > high)).argmax())
        raise ArgumentError(
            f"curves[{name!r}] has {middle[k]:g} outside of its range {low[k]:g} to {high[k]:g} at setting {k}; low "
            "must not be above middle, nor middle above high"
        )
    return middle, low, high
