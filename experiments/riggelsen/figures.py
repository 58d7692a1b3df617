"""The drawings: figures 4.5 to 4.8 for the printed and the corrected kernels, the log scores, the effect of k and w.

Runs differ in their lines as well as in colour, samplers in their marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from doxa.plots import Band, Look, panels, plot_curves, plot_traces, save_png
from doxa.plots.style import BLUE, GREEN, ORANGE, PINK, RED, SKY
from riggelsen.claims import CHAPTER, TWO_RUNS, TWO_STARTS, by_setting, scan_of, score_gap
from riggelsen.runs import (
    ALARM,
    AUTO,
    EMC,
    INSURANCE,
    MB,
    SCANNED,
    SETTINGS,
    SINGLE,
    Results,
    Run,
    Sampler,
    Setting,
    edge_range,
    network,
)

COLOUR = {"MB-MCMC": BLUE, "eMC3": RED}
SAMPLERS_OF = {"MB-MCMC": MB, "eMC3": EMC}
LINE = {0: "-", 1: (0, (1, 1)), 2: (0, (1, 1))}
LOOKS = {"printed": Look(BLUE, "", "o"), "corrected": Look(ORANGE, "", "s")}  # of the scan

Panel = tuple[Setting, tuple[str, ...]]  # data and the samplers drawn in one row


def draw_all(results: Results, folder: Path) -> Iterator[Path]:
    """Write every figure."""
    folder.mkdir(parents=True, exist_ok=True)
    both = ("MB-MCMC", "eMC3")
    for number, rows, which in (
        ("4.5", [(ALARM[1000], both), (ALARM[5000], both)], TWO_RUNS),
        ("4.6", [(ALARM[7000], both[:1]), (ALARM[7000], both[1:])], TWO_STARTS),
        ("4.7", [(INSURANCE[500], both[:1]), (INSURANCE[500], both[1:])], TWO_RUNS),
        ("4.8", [(INSURANCE[10_000], both[:1]), (INSURANCE[10_000], both[1:])], TWO_STARTS),
    ):
        yield save_png(
            traces(results, number, rows, which), folder / f"riggelsen_figure_{number.replace('.', '_')}.png"
        )
    yield save_png(scores(results), folder / "riggelsen_log_score.png")
    yield save_png(scan(results), folder / "riggelsen_k_and_w.png")


def traces(results: Results, number: str, rows: list[Panel], which: tuple[int, int]) -> Figure:
    """Number of edges along the runs: one row a panel of the chapter, printed kernels left and corrected ones right."""
    figure, axes = panels(len(rows), 2, height=3.2, sharex=True, sharey="row")
    for row, (setting, families) in zip(axes, rows, strict=True):
        for ax, kernel in zip(row, MB, strict=True):
            for family in families:
                runs = results.runs[setting, SAMPLERS_OF[family][kernel]]
                for low, high in set(CHAPTER[setting, family]):
                    ax.axhspan(low, high, color=COLOUR[family], alpha=0.16, linewidth=0)
                for place in which:
                    x = np.linspace(0, runs[place].iterations / 1000, len(runs[place].trace))
                    look = Look(COLOUR[family], LINE[place])
                    plot_traces({"": runs[place].trace[None]}, x=x, looks=[look], legend=False, ax=ax)
            ax.axhline(results.reference(setting), color="black", linewidth=1.2)
            ax.axhline(network(setting.network).dag.n_edges, color="black", linewidth=1.2, linestyle=(0, (6, 3)))
            ax.set_title(f"{setting}: {' and '.join(families)}, {kernel}", fontsize=10)
            _room(
                ax, [results.runs[setting, SAMPLERS_OF[f][k]][i] for f in families for k in MB for i in which], setting
            )
        row[0].set_ylabel("edges in the graph")
    for ax in axes[-1]:
        ax.set_xlabel("iterations (thousands)")
    kinds = ("run 1", "run 2") if which == TWO_RUNS else ("start: empty graph", "start: true graph")
    handles = [
        Line2D([], [], color="0.3", linestyle=LINE[place], label=kind) for place, kind in zip(which, kinds, strict=True)
    ]
    handles += [Line2D([], [], color=COLOUR[family], linewidth=3, label=family) for family in COLOUR]
    handles += [
        Line2D([], [], color="0.8", linewidth=8, label="range in the chapter"),
        Line2D([], [], color="black", label="posterior mean (Auto)"),
        Line2D([], [], color="black", linestyle=(0, (6, 3)), label="true graph"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"Figure {number} again: number of edges along each chain")
    return figure


def scores(results: Results) -> Figure:
    """Where every run ended: number of edges against log score, both as means of the second half."""
    figure, grid = panels(2, 3, height=3.2)
    axes = grid.ravel()
    looks: tuple[tuple[Sampler, str, str], ...] = (
        (MB["printed"], BLUE, "o"),
        (MB["corrected"], SKY, "s"),
        (EMC["printed"], RED, "^"),
        (EMC["corrected"], ORANGE, "v"),
        (SINGLE, PINK, "D"),
        (AUTO, GREEN, "*"),
    )
    for ax, setting in zip(axes, SETTINGS, strict=False):
        for sampler, colour, marker in looks:
            for r in results.runs[setting, sampler]:
                face = "none" if r.start == "true" else colour
                size = 11 if marker == "*" else 7
                ax.plot(
                    r.edges.mean(), score_gap(results, r), marker, color=colour, markerfacecolor=face,
                    markersize=size, markeredgewidth=1.4, alpha=0.85,
                )  # fmt: skip
        ax.axvline(network(setting.network).dag.n_edges, color="black", linewidth=1.0, linestyle=(0, (6, 3)))
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.axvline(results.reference(setting), color="black", linewidth=0.8)
        ax.set_yscale("symlog", linthresh=10)
        lowest = min(score_gap(results, r) for sampler, _, _ in looks for r in results.runs[setting, sampler])
        ax.set_ylim(3 * lowest, 30)
        ax.set_title(str(setting), fontsize=10)
        ax.set_xlabel("mean number of edges")
        ax.set_ylabel("log score, nats (posterior mean = 0)")
    axes[-1].set_axis_off()
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=sampler.label)
        for sampler, colour, marker in looks
    ]
    handles += [
        Line2D([], [], color="0.3", marker="o", linestyle="", label="start: empty graph"),
        Line2D([], [], color="0.3", marker="o", markerfacecolor="none", linestyle="", label="start: true graph"),
        Line2D([], [], color="black", linewidth=0.8, label="posterior means (Auto)"),
        Line2D([], [], color="black", linestyle=(0, (6, 3)), label="edges of the true graph"),
    ]
    axes[-1].legend(handles=handles, loc="center", frameon=False)
    figure.suptitle("Few edges are not convergence: edges and log score in the second half of each run")
    return figure


def scan(results: Results) -> Figure:
    """Number of edges for other k and w, at an equal number of steps."""
    figure, axes = panels(2, 2, height=3.2, sharey="row")
    for row, setting in zip(axes, SCANNED, strict=True):
        asia = setting.network == "asia"
        truth = results.exact_asia if asia else results.reference(setting)
        for ax, setting_of in zip(row, ("k", "w"), strict=True):
            bands = {}
            for kernel in LOOKS:
                runs = by_setting(scan_of(results, setting, kernel))
                runs = [r for r in runs if (r.sampler.move.w == 0.95 if setting_of == "k" else r.sampler.move.k == 5)]
                runs.sort(key=lambda r: getattr(r.sampler.move, setting_of))
                settings = [str(getattr(r.sampler.move, setting_of)) for r in runs]
                low, high = np.array([edge_range(r) for r in runs]).T
                mean = np.array([r.edges.mean() for r in runs])
                bands[kernel] = Band(mean, np.minimum(low, mean), np.maximum(high, mean))
            plot_curves(settings, bands, looks=LOOKS, bars=True, legend=False, ax=ax)
            ax.axhline(
                truth, color="black", linewidth=1.2, label="exact posterior mean" if asia else "posterior mean (Auto)"
            )
            ax.set_xlabel("k (with w = 0.95)" if setting_of == "k" else "w (with k = 5)")
            ax.set_title(str(setting), fontsize=10)
        row[0].set_ylabel("edges: mean, middle 90%")
        row[1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle("MB-MCMC with other k and w, started at the empty graph, second half of an equal number of steps")
    return figure


def _room(ax: Axes, runs: list[Run], setting: Setting) -> None:
    """Show all that happens after the climb from the empty graph."""
    settled = np.concatenate([r.trace[len(r.trace) // 50 :] for r in runs])
    bands = [edge for (of, _), spans in CHAPTER.items() if of == setting for span in spans for edge in span]
    ax.set_ylim(min(settled.min(), *bands) - 2, max(settled.max(), *bands) + 2)
