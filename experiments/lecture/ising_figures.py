"""The drawings of the Ising experiments."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from doxa.plots import Look, panels, plot_curves, plot_traces
from doxa.plots.style import BLACK, BLUE, GREY, ORANGE, RED, SKY
from lecture.grids import FIELD, KINDS, METHODS, SIDE
from lecture.projections import SIDE as SMALL
from lecture.results import Results, gap, mean_of

__all__ = ["draw_chains", "draw_errors", "draw_projections"]

LOOKS = {
    "mean field": Look(BLUE),
    "rows as blocks": Look(SKY, "--"),
    "Gibbs, short": Look(ORANGE, ":"),
    "Gibbs, long": Look(RED, "-."),
}
PROJECTIONS = {"I-projection (best found)": Look(BLUE), "M-projection (exact)": Look(RED, "--")}
CRITICAL = 0.5 * np.log1p(np.sqrt(2.0))  # of the infinite grid


def draw_errors(results: Results) -> Figure:
    """Errors of marginals and gaps of the bounds over couplings."""
    figure, axes = panels(2, 2, sharex=True)
    x = results.couplings
    for kind, (top, bottom) in zip(KINDS, axes.T, strict=True):
        what = f"field {FIELD}" if kind == "ferromagnet" else "couplings of random sign, mean of five"
        errors = {method: mean_of(results, kind, "errors", method) for method in LOOKS}
        gaps = {method: gap(results, kind, method) / SIDE**2 for method in METHODS[:2]}
        plot_curves(x, errors, looks=LOOKS, title=f"{kind}: {what}", legend=False, ax=top)
        plot_curves(x, gaps, looks=LOOKS, x_label="coupling J", legend=False, ax=bottom)
        for ax in (top, bottom):
            ax.axvline(0.25, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
            if kind == "ferromagnet":
                ax.axvline(CRITICAL, color=BLACK, linewidth=0.8, linestyle=(0, (1, 2)))
        top.set_yscale("symlog", linthresh=1e-3)
        top.set_ylim(0.0, 1.0)
    axes[0, 0].set_ylabel("mean error of P(up)")
    axes[1, 0].set_ylabel("(log Z - bound) per spin, nats")
    axes[0, 1].legend(frameon=False, fontsize=8, loc="lower right")
    axes[1, 1].legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{SIDE} x {SIDE} spins; dotted: where mean field (0.25) and the truth (0.4407) split on large grids"
    )
    return figure


def draw_chains(results: Results) -> Figure:
    """Mean spin of independent chains at three couplings."""
    chosen = [min(results.couplings, key=lambda j, at=at: abs(j - at)) for at in (0.2, 0.45, 0.7)]
    figure, axes = panels(1, 3, sharey=True)
    for ax, j in zip(axes[0], chosen, strict=True):
        grid = results.grids["ferromagnet", j][0]
        shown = slice(None, None, max(1, grid.paths.shape[1] // 450))
        sweeps = 10 * np.arange(grid.paths.shape[1])[shown]
        plot_traces({"mean spin": grid.paths[:, shown]}, x=sweeps, legend=False, ax=ax)
        ax.set(xlabel="sweep", ylabel="mean spin" if ax is axes[0, 0] else "")
        ax.set_title(f"J = {j:g}: R-hat {grid.r_hat['long']:.2f}", fontsize=10)
    figure.suptitle("Four independent Gibbs chains of the ferromagnet, from random starts")
    return figure


def draw_projections(results: Results) -> Figure:
    """Both projections over couplings."""
    figure, axes = panels(1, 3)
    found = results.projections
    spins = {
        "I": [np.mean([p[1] - p[0] for p in c.i_projection.marginals]) for c in found],
        "M": [np.mean([np.exp(f.log_values) @ [-1, 1] for f in c.m_projection.factors]) for c in found],
    }
    curves = {
        "mean spin under q": (spins["I"], spins["M"]),
        "KL(q || p), nats": ([c.i_reverse for c in found], [c.m_reverse for c in found]),
        "KL(p || q), nats": ([c.i_forward for c in found], [c.m_forward for c in found]),
    }
    for ax, (title, both) in zip(axes[0], curves.items(), strict=True):
        plot_curves(
            results.couplings, dict(zip(PROJECTIONS, both, strict=True)), looks=PROJECTIONS, x_label="coupling J",
            title=title, legend=ax is axes[0, 0], ax=ax,
        )  # fmt: skip
    figure.suptitle(f"{SMALL} x {SMALL} ferromagnet: the I-projection settles in a mode, the M-projection covers both")
    return figure
