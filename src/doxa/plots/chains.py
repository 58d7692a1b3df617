"""What chains did: their traces, their running means, how far their ranks agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.estimates.diagnostics import diagnose_real
from doxa.estimates.estimate import check_prob
from doxa.estimates.ranks import rank_shares
from doxa.plots.columns import Which, read_column
from doxa.plots.style import BLACK, GREY, RED, Look, axes_or_new, chain_look, name_axes, quiet_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_ranks", "plot_running_means", "plot_traces"]

Floats: TypeAlias = NDArray[np.float64]

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
