"""Pictures of a structure posterior, drawn with matplotlib (extra ``plot``).

Each function returns the matplotlib ``Axes`` it drew in; ``ax.figure.savefig("picture.png")`` writes the file.  Without
``ax=`` it makes a `matplotlib.figure.Figure` of its own, never one of pyplot's: nothing global changes, no window opens
and no display is needed, and nothing has to be closed.  What is drawn are the numbers of the posterior as they
are; where nodes stand is decided in `doxa.plots.layers`.

Colours, lines and sizes are those of `doxa.plots.style`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.plots.chains import draw_chains
from doxa.plots.style import BLUE, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["plot_consensus", "plot_edge_probabilities", "plot_n_edges"]

_LABELLED_CELLS = 12  # nodes up to which each cell of the heat map shows its number
_ROOM = (1.25, 0.85)  # inches for each node of a drawn graph


def plot_n_edges(posterior: StructurePosterior | ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Number of edges along each chain: the convergence diagnostic of Riggelsen, ch. 4, section 3.3.5.

    Chains that agree here may still disagree about the graph; see the log score of each chain and the verdict.

    Parameters
    ----------
    posterior : StructurePosterior, or array_like of numbers, shape (n_chains, n_draws)
        A posterior, a `Trace` with ``n_edges``, or the numbers themselves.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        One line a chain.  Of chains longer than 2000 draws every so-manieth draw is shown.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError
        If an array has not two axes, or is empty.

    Examples
    --------
    >>> ax = plot_n_edges([[3, 4, 4, 5], [5, 4, 4, 3]])
    >>> [line.get_label() for line in ax.lines]
    ['chain 0', 'chain 1']
    """
    n_edges = _edge_counts(posterior)
    ax = axes_or_new(ax, "plot_n_edges", (8.0, 3.6))
    draw_chains(ax, np.arange(n_edges.shape[1]), n_edges, labels=[f"chain {chain}" for chain in range(len(n_edges))])
    ax.set_xlabel("draw")
    ax.set_ylabel("edges in the graph")
    ax.set_title("Number of edges, by chain")
    ax.margins(x=0.01)
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0.0)
    return ax


def plot_edge_probabilities(posterior: StructurePosterior, *, ax: Axes | None = None) -> Axes:
    """Heat map of the probability of every directed edge; row i, column j is i -> j.

    Parameters
    ----------
    posterior : StructurePosterior
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Its first image holds the probabilities, the diagonal masked; up to 12 nodes they are also written in the cells.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    names = posterior.names
    probability = np.ma.masked_array(posterior.edge_diagnostics.probability, np.eye(len(names), dtype=np.bool_))
    side = 2.2 + max(0.28, min(0.55, 5.5 / len(names))) * len(names)
    ax = axes_or_new(ax, "plot_edge_probabilities", (side + 0.8, side))
    image = ax.imshow(probability, cmap="cividis", vmin=0.0, vmax=1.0, aspect="equal")
    ax.set_facecolor("0.9")
    small = 9 if len(names) <= _LABELLED_CELLS else 6
    ax.set_xticks(range(len(names)), names, rotation=90, fontsize=small, parse_math=False)
    ax.set_yticks(range(len(names)), names, fontsize=small, parse_math=False)
    ax.set_xlabel("to (child)")
    ax.set_ylabel("from (parent)")
    ax.set_title("Posterior probability of each directed edge")
    _figure(ax).colorbar(image, ax=ax, label="probability", shrink=0.8)
    if len(names) <= _LABELLED_CELLS:
        for (i, j), value in np.ndenumerate(probability.data):
            if i != j:
                colour = "white" if value < 0.5 else "black"
                ax.text(j, i, _short(value), ha="center", va="center", color=colour, fontsize=7)
    return ax


def plot_consensus(posterior: StructurePosterior, *, threshold: float = 0.5, ax: Axes | None = None) -> Axes:
    """The graph of the probable edges, as wide as they are probable, every arrow pointing down.

    Parameters
    ----------
    posterior : StructurePosterior
    threshold : float, default=0.5
        Only edges with a higher probability are drawn; see `StructurePosterior.consensus`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        One arrow an edge; its ``gid`` is ``"source -> target"``.  Nodes without edges stand in the last rows.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If ``threshold`` is not a number in (0, 1).
    """
    from doxa.plots.layers import layered_layout

    dag = posterior.consensus(threshold)
    layout = layered_layout(dag)
    place = np.array(list(layout.nodes.values()))
    size = _ROOM * (np.ptp(place, axis=0) + 1.0) + (0.6, 1.2)
    ax = axes_or_new(ax, "plot_consensus", (max(5.0, float(size[0])), max(3.0, float(size[1]))))
    for name, (x, y) in layout.nodes.items():
        ink, line = ("black", "black") if dag.parents(name) or dag.children(name) else ("0.45", "0.7")
        box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": line}
        text = ax.text(x, y, _fold(name), color=ink, bbox=box, fontsize=8, ha="center", va="center", zorder=3)
        text.set_parse_math(False)  # a name is a name, dollar signs and all
    probability = posterior.edge_diagnostics.probability
    index = {name: number for number, name in enumerate(dag.names)}
    for edge in dag.edges:
        p = float(probability[index[edge[0]], index[edge[1]]])
        (x, y), (x_end, y_end) = (layout.nodes[name] for name in edge)
        points = [(x, y + _half_height(edge[0])), *layout.bends[edge], (x_end, y_end - _half_height(edge[1]))]
        ax.add_patch(_arrow(points, p, edge))
    (left, top), (right, bottom) = place.min(axis=0), place.max(axis=0)
    ax.set_xlim(left - 0.6, right + 0.6)
    ax.set_ylim(bottom + 0.5, top - 0.5)  # y grows downwards
    ax.set_axis_off()
    ax.set_title(f"Edges with a posterior probability above {threshold:g}")
    _legend_of_widths(ax, threshold)
    return ax


def _edge_counts(posterior: StructurePosterior | ArrayLike) -> NDArray[Any]:
    """Numbers of edges, (chain, draw), of whatever holds them."""
    from doxa.estimates.trace import Trace

    counts = posterior["n_edges"] if isinstance(posterior, Trace) else getattr(posterior, "n_edges", posterior)
    n_edges = np.asarray(counts)
    if n_edges.ndim != 2 or n_edges.size == 0:
        raise ArgumentError(
            f"the numbers of edges have shape {n_edges.shape}; it must be (n_chains, n_draws), at least one of each"
        )
    return n_edges


def _figure(ax: Axes) -> Any:
    return ax.get_figure()


def _arrow(points: list[tuple[float, float]], probability: float, edge: tuple[str, str]) -> Any:
    """An arrow through the bends, as wide and as dark as the edge is probable."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    x, y = np.array(points).T
    slope = np.zeros(len(x))  # dx/dy: upright at both ends, towards the neighbours at bends
    slope[1:-1] = (x[2:] - x[:-2]) / (y[2:] - y[:-2])
    vertices, codes = [points[0]], [Path.MOVETO]
    for a, b in itertools.pairwise(range(len(x))):
        third = (y[b] - y[a]) / (3 if len(x) > 2 else 2)
        vertices += [(x[a] + slope[a] * third, y[a] + third), (x[b] - slope[b] * third, y[b] - third), points[b]]
        codes += [Path.CURVE4] * 3
    return FancyArrowPatch(
        path=Path(vertices, codes), arrowstyle="-|>", mutation_scale=11, linewidth=_width(probability),
        color=BLUE, alpha=0.85, zorder=2, gid=f"{edge[0]} -> {edge[1]}",
    )  # fmt: skip


def _half_height(name: str) -> float:
    """From the middle of a node's box to its border, in units of a node's room."""
    return 0.06 + 0.08 * (1 + _fold(name).count("\n"))


def _width(probability: float) -> float:
    """Line width in points: twice as probable, twice as wide."""
    return 3.0 * probability


def _legend_of_widths(ax: Axes, threshold: float) -> None:
    from matplotlib.lines import Line2D

    shown = (threshold, (1 + threshold) / 2, 1.0)
    lines = [Line2D([], [], color=BLUE, linewidth=_width(p), label=f"{p:.2g}") for p in shown]
    ax.legend(handles=lines, title="probability", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _fold(name: str, room: int = 14) -> str:
    """A long name in lines that fit the room of a node."""
    lines = [name[begin : begin + room] for begin in range(0, len(name), room)]
    return "\n".join(lines[:3]) + ("..." if len(lines) > 3 else "")


def _short(probability: float) -> str:
    """Two digits, but 0 and 1 only for what never and always occurred."""
    if probability in (0.0, 1.0):
        return f"{probability:.0f}"
    if probability < 0.005:
        return "<.01"
    return ">.99" if probability >= 0.995 else f"{probability:.2f}"[1:]
