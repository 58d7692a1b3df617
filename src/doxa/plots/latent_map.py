"""Picture of a two-dimensional map of binary data, drawn with matplotlib (extra ``plot``).

As in `doxa.plots.plots`, the function returns the ``Axes`` it drew in and leaves pyplot alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.plots.style import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from doxa.parameters.variational.latent_trait import LatentMap

__all__ = ["plot_latent_map"]

_COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, RED, BLACK)
_MARKERS = ("o", "^", "s", "D", "v", "P", "X")
_MOST_GROUPS = len(_COLOURS)
_MOST_ARROWS = 20
_MOST_ELLIPSES = 40  # more of them hide each other
_ARROW = {"arrowstyle": "-|>", "color": "0.2", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}


def plot_latent_map(
    latent_map: LatentMap,
    groups: Sequence[Any] | None = None,
    *,
    n_sd: float | None = 1.0,
    arrows: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Rows at their positions, with an ellipse each and an arrow for each column.

    Parameters
    ----------
    latent_map : LatentMap
        Of two dimensions.
    groups : sequence, shape (n_rows,), optional
        What each row belongs to, shown by colour and marker; at most 7 different values.
    n_sd : float or None, default=1.0
        Standard deviations at which ellipses are drawn; None for no ellipses. Of more than 40 distinct places, 40 or
        fewer have one, evenly chosen along the first dimension.
    arrows : bool, default=True
        Draw the direction in which each column's log odds rise, scaled alike to fit the map; of more than 20 columns,
        those with the longest loadings.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        One scatter a group, in the order of their values.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError
        If the map has not two dimensions, or ``groups`` has not one value a row or too many different ones.
    """
    positions = latent_map.positions
    if positions.shape[1] != 2:
        raise ArgumentError(f"the map has n_components={positions.shape[1]}; a picture needs 2")
    labels = _labels(groups, len(positions))
    kinds = sorted(set(labels)) if groups is not None else [""]
    if len(kinds) > _MOST_GROUPS:
        raise ArgumentError(f"groups has {len(kinds)} different values; at most {_MOST_GROUPS} can be told apart")
    ax = axes_or_new(ax, "plot_latent_map", (8.5, 6.5))
    outlined = _rows_with_ellipses(positions)
    for number, kind in enumerate(kinds):
        chosen = np.array([label == kind for label in labels])
        if n_sd is not None:
            _draw_ellipses(ax, latent_map, outlined[chosen[outlined]], n_sd, _COLOURS[number])
        ax.scatter(
            positions[chosen, 0], positions[chosen, 1], s=16, alpha=0.75, linewidths=0, zorder=3,
            color=_COLOURS[number], marker=_MARKERS[number], label=kind,
        )  # fmt: skip
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.set_xlabel("dimension 1")
    ax.set_ylabel("dimension 2")
    if arrows:
        _draw_arrows(ax, latent_map)
    ax.set_title("Map of the rows by their latent positions")
    if groups is not None:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=min(len(kinds), 4), frameon=False)
    return ax


def _labels(groups: Sequence[Any] | None, n_rows: int) -> list[str]:
    if groups is None:
        return [""] * n_rows
    labels = [str(group) for group in groups]
    if len(labels) != n_rows:
        raise ArgumentError(f"groups has {len(labels)} values and the map {n_rows} rows; give one for each row")
    return labels


def _draw_ellipses(ax: Axes, latent_map: LatentMap, shown: NDArray[np.intp], n_sd: float, colour: str) -> None:
    from matplotlib.collections import EllipseCollection

    major, minor, angle = (part[shown] for part in latent_map.ellipses(n_sd))
    centres, reach = latent_map.positions[shown], n_sd * latent_map.sd[shown]
    outlines = EllipseCollection(
        2 * major, 2 * minor, angle, units="xy", offsets=centres, offset_transform=ax.transData,
        facecolors="none", edgecolors=colour, linewidths=0.6, alpha=0.4, zorder=2,
    )  # fmt: skip
    ax.add_collection(outlines, autolim=False)
    ax.update_datalim(np.concatenate([centres - reach, centres + reach]))


def _rows_with_ellipses(positions: NDArray[np.float64]) -> NDArray[np.intp]:
    """One row for each distinct place; of many, an even choice along the first dimension."""
    _, first = np.unique(positions.round(9), axis=0, return_index=True)  # sorted by the first dimension
    return first[:: -(-len(first) // _MOST_ELLIPSES)]


def _draw_arrows(ax: Axes, latent_map: LatentMap) -> None:
    """Arrows from the origin; their names stand in two columns beside the map, in the order of the arrows' ends."""
    loadings, names = latent_map.fit.loadings, latent_map.fit.names
    length = np.hypot(*loadings.T)
    reach = np.hypot(*latent_map.positions.T).max()
    if not min(length.max(), reach) > 0:
        return
    ends = loadings * (0.9 * reach / length.max())
    longest = np.argsort(-length, kind="stable")[:_MOST_ARROWS]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    left -= 0.1 * (right - left)  # for the numbers of the axis, which stand inside: the names stand outside
    for is_right, edge in ((False, left), (True, right)):
        side = [j for j in longest if (ends[j, 0] >= 0) == is_right]
        side.sort(key=lambda j: ends[j, 1])
        heights = low + (high - low) * (np.arange(len(side)) + 0.5) / max(len(side), 1)
        for j, height in zip(side, heights, strict=True):
            x, y = (float(c) for c in ends[j])
            ax.annotate("", xy=(x, y), xytext=(0, 0), zorder=4, arrowprops=_ARROW)
            ax.plot([x, edge], [y, height], color="0.5", linewidth=0.5, linestyle=":", zorder=1)
            text = ax.annotate(
                names[j], xy=(edge, height), xytext=(3 if is_right else -3, 0), textcoords="offset points",
                fontsize=7, ha="left" if is_right else "right", va="center",
            )  # fmt: skip
            text.set_parse_math(False)
    ax.set_xlim(left, right)
    ax.set_ylim(low, high)
    ax.set_ylabel("")
    ax.text(0.01, 0.99, "dimension 2", transform=ax.transAxes, ha="left", va="top")
    ax.tick_params(axis="y", direction="in", pad=-6)
    for label in ax.get_yticklabels():
        label.set_horizontalalignment("left")
