"""Pictures of a structure posterior, drawn with matplotlib (extra ``plot``).

Each function returns the matplotlib ``Axes`` it drew in; ``ax.figure.savefig("picture.png")`` writes the file.  Without
``ax=`` it makes a `matplotlib.figure.Figure` of its own, never one of pyplot's: nothing global changes, no window opens
and no display is needed, and nothing has to be closed.  What is drawn are the numbers of the posterior as they
are; where nodes stand is decided in `doxa.plots.layers`.

Colours, lines and sizes are those of `doxa.plots.style`.

What chains did: their traces, their running means, how far their ranks agree.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.data.slices import past_name
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.estimate import check_prob
from doxa.estimates.gelman_rubin import rank_shares
from doxa.plots.columns import Which, read_column
from doxa.plots.style import BLACK, BLUE, GREY, RED, Look, axes_or_new, chain_look, name_axes, quiet_legend

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from doxa.structure.posterior.structure_posterior import StructurePosterior


_HALF_WIDTH = 0.42  # of a node's box, where moments stand side by side
_POINTS = 2000  # of a trace that is drawn; more cannot be told apart
_LOOKS = 40  # lengths at which a running mean has an error
_FIRST = 20  # draws before the first of them
_WARMUP_SHARE = 0.25  # of the axis, at most


def plot_traces(
    source: Any,
    which: Which = None,
    *,
    warmup: int | None = None,
    exact: float | None = None,
    x: Sequence[float] | NDArray[Any] | None = None,
    looks: Sequence[Look] | None = None,
    labels: Sequence[str] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """One quantity along each chain.

    Parameters
    ----------
    source : ParameterPosterior, StructurePosterior, Trace, mapping of str to array_like, or array_like
        Where the draws are; arrays are (chain, draw), or (chain, draw, coefficient).
    which : str, int or tuple, optional
        Which quantity: ``("node", "coefficient")`` of a fit, ``"log_score"`` or ``"n_edges"`` of a posterior over
        graphs, a name of a trace or a mapping, a number of a coefficient.
    warmup : int, optional
        Draws at the beginning that are warm-up, shaded.  Where the source knows how many steps it dropped before the
        first draw, these are shaded instead, and the axis counts steps.
    exact : float, optional
        The true mean, as a dashed line.
    x : array_like of float, shape (n_draws,), optional
        Place of each draw on the axis, in place of its number.
    looks : sequence of Look, optional
        Colour and line of each chain.
    labels : sequence of str, optional
        Name of each chain in the legend; by default "chain 0" and so on, where there are 2 to 12.
    legend : bool, default=True
        Whether to draw one, beside the axes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Its first lines are the chains.  Of chains longer than 2000 draws evenly chosen ones are shown, never averages.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If there is no such quantity, or an option does not fit the draws.

    Examples
    --------
    >>> ax = plot_traces([[3.0, 4.0, 4.5], [5.0, 4.0, 4.4]])
    >>> [line.get_label() for line in ax.lines], ax.get_xlabel()
    (['chain 0', 'chain 1'], 'draw')
    """
    column = read_column(source, which)
    n_chains, n_draws = column.draws.shape
    _check_lengths(n_chains, n_draws, x, looks, labels)
    dropped = check_whole("warmup", 0 if warmup is None else warmup, 0)
    if dropped > n_draws:
        raise ArgumentError(f"warmup is {dropped}, but a chain has {n_draws} draws")
    ax = axes_or_new(ax, "plot_traces", (8.0, 3.2))
    in_steps = warmup is None and x is None and column.n_warmup > 0
    place = np.arange(n_draws) if x is None else np.asarray(x, dtype=np.float64)
    if in_steps:
        place = column.n_warmup + column.thin * (place + 1)
    named = labels if labels is not None else [f"chain {k}" for k in range(n_chains)] if 2 <= n_chains <= 12 else None
    draw_chains(ax, place, column.draws, looks, named)
    if exact is not None:
        ax.axhline(exact, color=RED, linestyle="--", linewidth=1.0, label="exact")
    ax.margins(x=0.01)
    if in_steps:
        _shade(ax, 0.0, float(column.n_warmup), float(place[-1]))
    elif dropped:
        _shade(ax, float(place[0]), float(place[min(dropped, n_draws - 1)]), None)
    name_axes(ax, "step" if in_steps else "" if x is not None else "draw", column.label)
    if legend:
        quiet_legend(ax, beside=True)
    return ax


def _check_lengths(n_chains: int, n_draws: int, x: Any, looks: Any, labels: Any) -> None:
    for name, given, count in (("x", x, n_draws), ("looks", looks, n_chains), ("labels", labels, n_chains)):
        if given is not None and len(given) != count:
            raise ArgumentError(
                f"{name} has {len(given)} entries for {n_chains} chains of {n_draws} draws; give {count}"
            )


def draw_chains(
    ax: Axes,
    place: NDArray[Any],
    draws: NDArray[Any],
    looks: Sequence[Look] | None = None,
    labels: Sequence[str] | None = None,
) -> None:
    """A line for each chain, of at most 2000 evenly chosen draws."""
    shown = np.arange(0, draws.shape[1], -(-draws.shape[1] // _POINTS))
    for chain, values in enumerate(draws):
        look = chain_look(chain) if looks is None else looks[chain]
        ax.plot(
            place[shown], values[shown], color=look.colour, linestyle=look.line, linewidth=0.9,
            label=None if labels is None else labels[chain],
        )  # fmt: skip


def plot_running_means(
    source: Any, which: Which = None, *, exact: float | None = None, prob: float = 0.95, ax: Axes | None = None
) -> Axes:
    """Mean of the first draws of every chain, and of all chains with its interval, as the draws come in.

    Parameters
    ----------
    source, which
        As in `plot_traces`.
    exact : float, optional
        The true mean, as a dashed line.
    prob : float, default=0.95
        Nominal coverage of the interval, at each length of its own.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        A thin line a chain, a black one for all, and the band of the interval: from 20 draws on at 40 lengths, by
        `doxa.estimates.diagnose_real`; none where the quantity has not moved.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If there is no such quantity, ``prob`` is no probability, or the chains are shorter than 20 draws.

    Notes
    -----
    That a band covers the truth at one length says nothing of all lengths at once.

    Examples
    --------
    >>> ax = plot_running_means(np.random.default_rng(1).normal(size=(2, 500)), exact=0.0)
    >>> [line.get_label() for line in ax.lines]
    ['chain 0', 'chain 1', 'all chains', 'exact']
    """
    column, share = read_column(source, which), check_prob(prob)
    n_chains, n_draws = column.draws.shape
    if n_draws < _FIRST:
        raise ArgumentError(f"the chains have {n_draws} draws; running means with errors need at least {_FIRST}")
    lengths = np.unique(np.geomspace(_FIRST, n_draws, _LOOKS).astype(int))
    estimates = [diagnose_real(column.draws[:, :length]).estimate for length in lengths]
    low, high = np.array([estimate.interval(share) for estimate in estimates]).T
    ax = axes_or_new(ax, "plot_running_means", (8.0, 3.2))
    means = np.cumsum(column.draws, axis=1) / np.arange(1, n_draws + 1)
    labels = [f"chain {k}" for k in range(n_chains)] if 2 <= n_chains <= 12 else None
    if n_chains > 1:
        draw_chains(ax, np.arange(_FIRST, n_draws + 1), means[:, _FIRST - 1 :], None, labels)
    ax.plot(lengths, [e.value for e in estimates], color=BLACK, linewidth=1.3, label="all chains")
    ax.fill_between(lengths, low, high, color=GREY, alpha=0.3, linewidth=0, label=f"its {100 * share:g}% interval")
    if exact is not None:
        ax.axhline(exact, color=RED, linestyle="--", linewidth=1.0, label="exact")
    ax.margins(x=0.01)
    name_axes(ax, "draws of each chain", f"mean of {column.label}")
    quiet_legend(ax, beside=True)
    return ax


def plot_ranks(source: Any, which: Which = None, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Ranks of each chain's draws among all: level at 1 where the chains agree (Vehtari et al. 2021).

    Parameters
    ----------
    source, which
        As in `plot_traces`.
    bins : int, default=20
        Into which the ranks are counted.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        A line of steps for each chain: its share of draws in each bin, times the number of bins.  The title has rank
        R-hat, where it can be computed.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    ArgumentError, ArgumentTypeError
        If there is no such quantity, only one chain, or ``bins`` is not a whole number of at least 2.

    Examples
    --------
    >>> ax = plot_ranks([[1.0, 2.0], [3.0, 4.0]], bins=2)
    >>> [patch.get_data().values.tolist() for patch in ax.patches]
    [[2.0, 0.0], [0.0, 2.0]]
    """
    column, bins = read_column(source, which), check_whole("bins", bins, 2)
    n_chains, n_draws = column.draws.shape
    if n_chains < 2:
        raise ArgumentError("there is one chain; ranks compare at least two")
    ax = axes_or_new(ax, "plot_ranks", (6.0, 3.2))
    edges = np.linspace(0.0, 1.0, bins + 1)
    for chain, shares in enumerate(rank_shares(column.draws, bins)):
        look = chain_look(chain)
        label = f"chain {chain}" if n_chains <= 12 else None
        ax.stairs(shares, edges, color=look.colour, linestyle=look.line, linewidth=1.1, baseline=None, label=label)
    ax.axhline(1.0, color=BLACK, linewidth=0.7)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, max(2.0, 1.1 * ax.dataLim.y1)))
    r_hat = diagnose_real(column.draws).r_hat if n_draws >= 4 else np.nan
    title = f"Ranks of {column.label}" + (f": R-hat {r_hat:.4f}" if np.isfinite(r_hat) else "")
    name_axes(ax, "rank among all draws, as a share", "share of the chain, 1 = even", title)
    quiet_legend(ax, beside=True)
    return ax


def _shade(ax: Axes, begin: float, end: float, last: float | None) -> None:
    """The warm-up, in grey; one that was dropped takes at most a quarter of the axis."""
    ax.axvspan(begin, end, color="0.9", linewidth=0, zorder=0, label="warm-up")
    if last is not None:
        room = (last - end) * _WARMUP_SHARE / (1 - _WARMUP_SHARE)
        ax.set_xlim(max(begin, end - room), last + 0.01 * (last - end))


_LABELLED_CELLS = 12  # nodes up to which each cell of the heat map shows its number
_SMALL_EFFECT = 0.0005  # is written as 0
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
    names, n_present = posterior.names, posterior.options.n_present
    masked = np.eye(len(names), dtype=np.bool_)
    masked[:, n_present:] = True  # nothing leads into the past
    probability = np.ma.masked_array(posterior.edge_diagnostics.probability, masked)[:, :n_present]
    ax = axes_or_new(ax, "plot_edge_probabilities", _size_of_cells(names))
    _draw_cells(ax, probability, names, names[:n_present], "probability", cmap="cividis", vmin=0.0)
    ax.set(xlabel="to (child)", ylabel="from (parent)", title="Posterior probability of each directed edge")
    if len(names) <= _LABELLED_CELLS:
        for (i, j), value in np.ndenumerate(probability.data):
            if i != j:
                colour = "white" if value < 0.5 else "black"
                ax.text(j, i, _short(value), ha="center", va="center", color=colour, fontsize=7)
    return ax


def plot_effects(effects: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Heat map of causal effects; row i, column j is the effect of setting i on j.

    Parameters
    ----------
    effects : pandas.DataFrame
        As `Posterior.effects` returns it.  Effects after some moments are those of setting a copy of the past.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when left out.

    Returns
    -------
    matplotlib.axes.Axes
        Its first image holds the effects: changes of the probability of the last state that the frame has of a
        category; of numbers changes of the mean, divided by the largest in its column, because their units differ.  Up
        to 12 nodes the effects themselves are written in the cells.

    Raises
    ------
    ArgumentError
        If the frame has not the columns ``of, on, state, effect``.
    MissingExtraError
        If matplotlib is not installed.
    """
    if not {"of", "on", "state", "effect"}.issubset(getattr(effects, "columns", ())):
        raise ArgumentError(f"effects is {type(effects).__name__}; give the frame that posterior.effects() returns")
    if "lag" in effects:
        earlier = zip(effects["of"], effects["lag"], strict=True)
        effects = effects.assign(of=[past_name(of, int(lag)) for of, lag in earlier])
    names = list(dict.fromkeys([*effects["of"], *effects["on"]]))
    across = names
    if "lag" in effects:
        across = list(dict.fromkeys(effects["on"]))
        names = [*across, *(past_name(name, lag) for lag in range(1, int(effects["lag"].max()) + 1) for name in across)]
    value, shown = np.full((2, len(names), len(across)), np.nan)
    is_number = np.zeros(len(across), dtype=np.bool_)
    rows: list[list[Any]] = effects[["of", "on", "state", "effect"]].sort_values("state").to_numpy().tolist()
    for of, on, state, effect in rows:
        at = names.index(of), across.index(on)
        value[at] = shown[at] = effect
        is_number[at[1]] = not isinstance(state, str)
    largest = np.nanmax(np.abs(shown), axis=0, where=~np.isnan(shown), initial=0.0)
    shown[:, is_number] /= np.where(largest > 0, largest, 1.0)[is_number]
    ax = axes_or_new(ax, "plot_effects", _size_of_cells(names))
    label = "change of a probability" if not is_number.any() else "change; of a mean, by the largest on that column"
    _draw_cells(ax, np.ma.masked_invalid(shown), names, across, label, cmap="RdBu_r", vmin=-1.0)
    ax.set(xlabel="on", ylabel="effect of setting", title="Causal effects, posterior mean")
    if len(names) <= _LABELLED_CELLS:
        for (i, j), effect in np.ndenumerate(value):
            if i != j and not np.isnan(effect):
                colour = "white" if abs(shown[i, j]) > 0.6 else "black"
                written = f"{effect:.2g}" if abs(shown[i, j]) >= _SMALL_EFFECT else "0"
                ax.text(j, i, written, ha="center", va="center", color=colour, fontsize=7)
    return ax


def _size_of_cells(names: Sequence[str]) -> tuple[float, float]:
    """Inches of a heat map with so many rows, its scale beside it."""
    side = 2.2 + max(0.28, min(0.55, 5.5 / len(names))) * len(names)
    return side + 0.8, side


def _draw_cells(
    ax: Axes, cells: NDArray[Any], names: Sequence[str], across: Sequence[str], label: str, **look: Any
) -> None:
    """A heat map of numbers up to 1, its rows and columns named, with a scale beside it."""
    image = ax.imshow(cells, vmax=1.0, aspect="equal", **look)
    ax.set_facecolor("0.9")
    figure: Any = ax.get_figure()
    figure.colorbar(image, ax=ax, label=label, shrink=0.8)
    small = 9 if len(names) <= _LABELLED_CELLS else 6
    ax.set_xticks(range(len(across)), across, rotation=90, fontsize=small, parse_math=False)
    ax.set_yticks(range(len(names)), names, fontsize=small, parse_math=False)


def plot_consensus(posterior: StructurePosterior, *, threshold: float = 0.5, ax: Axes | None = None) -> Axes:
    """The graph of the probable edges, as wide as they are probable, every arrow pointing down.

    Where rows are moments in time, these stand side by side, the past to the left.

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
    from doxa.plots.layers import layered_layout, sliced_layout

    dag, n_present = posterior.consensus(threshold), posterior.options.n_present
    in_time = n_present < len(dag.names)
    layout = sliced_layout(dag, n_present) if in_time else layered_layout(dag)
    place = np.array([*layout.nodes.values(), *itertools.chain.from_iterable(layout.bends.values())])
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
        if in_time:
            ax.add_patch(_arrow_in_time((x, y), (x_end, y_end), p, edge))
            continue
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


def _arrow_in_time(start: tuple[float, float], end: tuple[float, float], probability: float, edge: Any) -> Any:
    """An arrow from one moment to the next, or beside the nodes of a moment."""
    from matplotlib.patches import FancyArrowPatch

    within = start[0] == end[0]
    side = _HALF_WIDTH if within else -_HALF_WIDTH
    bow = (-0.5 if end[1] > start[1] else 0.5) * min(1.0, 1.6 / max(1.0, abs(end[1] - start[1]))) if within else 0.0
    return FancyArrowPatch(
        (start[0] + _HALF_WIDTH, start[1]), (end[0] + side, end[1]), arrowstyle="-|>", mutation_scale=11,
        linewidth=_width(probability), color=BLUE, alpha=0.85, zorder=2, gid=f"{edge[0]} -> {edge[1]}",
        connectionstyle=f"arc3,rad={bow}", shrinkA=0, shrinkB=0,
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
    r"""A long name in lines that fit the room of a node, broken between words where it has any.

    Examples
    --------
    >>> _fold("systolic blood_pressure").split("\n")
    ['systolic ', 'blood_pressure']
    """
    lines = [""]
    for word in re.findall(r"[^\s_./-]+[\s_./-]?|[\s_./-]", name):
        full = lines[-1] and len(lines[-1]) + len(word.rstrip()) > room
        lines.append(word if full else lines.pop() + word)
        while len(lines[-1].rstrip()) > room:
            lines[-1:] = [lines[-1][:room], lines[-1][room:]]
    return "\n".join(lines[:3]) + ("..." if len(lines) > 3 else "")


def _short(probability: float) -> str:
    """Two digits, but 0 and 1 only for what never and always occurred."""
    if probability in (0.0, 1.0):
        return f"{probability:.0f}"
    if probability < 0.005:
        return "<.01"
    return ">.99" if probability >= 0.995 else f"{probability:.2f}"[1:]
