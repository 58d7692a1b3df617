"""Distributions of numbers as curves, over a histogram of what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import check_prob
from doxa.plots.style import GREY, LOOKS, axes_or_new, name_axes, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["observed_bars", "plot_densities"]


_POINTS = 300
_MOST_BARS = 60


class _Distribution(Protocol):
    """What a curve is drawn of: `NormalMixture`, and the ``distribution`` of a `NumberAnswer`."""

    mean: float

    def curve(self, n: int = ..., prob: float = ...) -> tuple[Floats, Floats]: ...
    def density(self, x: ArrayLike) -> Floats: ...
    def interval(self, prob: float = ...) -> tuple[float, float]: ...


def plot_densities(
    answers: Any,
    *,
    observed: ArrayLike | None = None,
    prob: float = 0.95,
    label: str = "",
    ax: Axes | None = None,
) -> Axes:
    """The density of a number, with its mean and a central interval; or several beside each other.

    Parameters
    ----------
    answers : NumberAnswer or NormalMixture, or mapping of str to these
        What ``posterior.query`` and ``posterior.predictive`` say about a column of numbers, or
        `doxa.inference.exact.conditional_distribution`; or several such by name, at most 7.
    observed : array_like of float, shape (n,), optional
        Observed numbers, whose histogram is drawn behind; missing ones (nan) are left out.
    prob : float, default=0.95
        Of the central interval of a case, which is shaded.
    label : str, optional
        Of the axis, with the unit; the column's name when left out.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        A line for each answer; dashes go up to it at its mean.  Below lines the interval is shaded.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If an answer is none about a number, has no density, or there is none or too many, or nothing was observed.

    Examples
    --------
    >>> from doxa.inference.exact import NormalMixture
    >>> young, old = NormalMixture([1.0], [115.0], [8.0]), NormalMixture([1.0], [130.0], [9.0])
    >>> ax = plot_densities({"young": young, "old": old})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['young', 'old']
    """
    named, share = _named(answers), check_prob(prob)
    curves = {name: own.curve(_POINTS) for name, own in named.items()}
    bars = None if observed is None else observed_bars(observed)
    ax = axes_or_new(ax, "plot_densities", (5.6, 3.2))
    if bars is not None:
        ax.stairs(bars[0], bars[1], fill=True, color=GREY, alpha=0.3, label="observed")
    for (name, own), look in zip(named.items(), LOOKS, strict=False):
        x, density = curves[name]
        low, high = own.interval(share)
        ax.plot(x, density, color=look.colour, linestyle=look.line, linewidth=1.5, label=name)
        within = np.concatenate([[low], x[(x > low) & (x < high)], [high]])
        ax.fill_between(within, own.density(within), color=look.colour, alpha=0.2, linewidth=0)
        ax.vlines(own.mean, 0.0, float(own.density(own.mean)), color=look.colour, linestyle=(0, (2, 2)), linewidth=1.1)
    ax.set_ylim(bottom=0.0)
    column = label or next((str(own.target) for own in _each(answers) if hasattr(own, "target")), "")
    name_axes(ax, column, f"density; {100 * share:g}% of cases shaded")
    if len(named) > 1 or bars is not None:
        quiet_legend(ax)
    return ax


def observed_bars(observed: ArrayLike) -> tuple[Floats, Floats]:
    """A histogram of observed numbers as a density: heights (n,), and edges (n + 1,) by Freedman & Diaconis (1981).

    At most 60 bars, of one width, so that a few far outliers neither hide the rest nor fill memory; numbers that are
    not finite are left out.

    Raises
    ------
    ArgumentError
        If none is finite.
    """
    values = np.asarray(observed, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        raise ArgumentError("observed has no finite number; give the column as it was observed, or leave it out")
    low, high = float(values.min()), float(values.max())
    if low == high:
        half = 0.5 * (abs(low) or 1.0) * 1e-2
        return np.array([0.5 / half]), np.array([low - half, high + half])
    q1, q3 = np.quantile(values, [0.25, 0.75])
    width = 2.0 * (q3 - q1) / np.cbrt(values.size)
    n = _MOST_BARS if width <= 0 else int(min(_MOST_BARS, max(1, np.ceil((high - low) / width))))
    heights, edges = np.histogram(values, bins=n, density=True)
    return heights, edges


def _each(answers: Any) -> list[Any]:
    return list(answers.values()) if isinstance(answers, Mapping) else [answers]


def _named(answers: Any) -> dict[str, _Distribution]:
    given = dict(answers) if isinstance(answers, Mapping) else {"density": answers}
    if not 0 < len(given) <= len(LOOKS):
        raise ArgumentError(f"answers has {len(given)} entries; give 1 to {len(LOOKS)}")
    found: dict[str, _Distribution] = {}
    for name, one in given.items():
        own = getattr(one, "distribution", one)
        if not hasattr(own, "curve") or not hasattr(own, "interval"):
            raise ArgumentTypeError(
                f"answers{f'[{name!r}]' if isinstance(answers, Mapping) else ''} is of type {type(one).__name__}; give "
                "an answer about a column of numbers, as posterior.query(column) makes (plot_marginal_bars draws "
                "probabilities of categories)"
            )
        found[str(name)] = own
    return found
