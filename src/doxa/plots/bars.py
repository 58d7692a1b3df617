"""Distributions of a network's variables as bars, with their Monte Carlo errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate, check_prob
from doxa.plots.style import BLACK, BLUE, GREEN, ORANGE, PINK, axes_or_new, name_axes, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_marginal_bars"]

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
