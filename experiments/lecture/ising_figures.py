"""The drawings of the Ising experiments."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from lecture.grids import FIELD, KINDS, METHODS, SIDE
from lecture.projections import SIDE as SMALL
from lecture.results import Results, gap, mean_of
from logistic_papers.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, panels

__all__ = ["draw_chains", "draw_errors", "draw_projections"]

LOOKS = {
    "mean field": (BLUE, "-"),
    "rows as blocks": (SKY, "--"),
    "Gibbs, short": (ORANGE, ":"),
    "Gibbs, long": (RED, "-."),
}
CRITICAL = 0.5 * np.log1p(np.sqrt(2.0))  # of the infinite grid


def draw_errors(results: Results) -> Figure:
    """Errors of marginals and gaps of the bounds over couplings."""
    figure, axes = panels(2, 2, sharex=True)
    for column, kind in enumerate(KINDS):
        top, bottom = axes[:, column]
        for method, (colour, line) in LOOKS.items():
            top.plot(results.couplings, mean_of(results, kind, "errors", method), line, color=colour, label=method)
        for method in METHODS[:2]:
            colour, line = LOOKS[method]
            bottom.plot(results.couplings, gap(results, kind, method) / SIDE**2, line, color=colour, label=method)
        for ax in (top, bottom):
            ax.axvline(0.25, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
            if kind == "ferromagnet":
                ax.axvline(CRITICAL, color=BLACK, linewidth=0.8, linestyle=(0, (1, 2)))
        what = f"field {FIELD}" if kind == "ferromagnet" else "couplings of random sign, mean of five"
        top.set_title(f"{kind}: {what}", fontsize=10)
        top.set_yscale("symlog", linthresh=1e-3)
        top.set_ylim(0.0, 1.0)
        bottom.set_xlabel("coupling J")
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
        paths = results.grids["ferromagnet", j][0].paths
        stride = max(1, paths.shape[1] // 450)
        for path, colour in zip(paths, (BLUE, ORANGE, GREEN, PINK), strict=True):
            ax.plot(10 * np.arange(paths.shape[1])[::stride], path[::stride], color=colour, linewidth=0.7)
        ax.set_title(f"J = {j:g}: R-hat {results.grids['ferromagnet', j][0].r_hat['long']:.2f}", fontsize=10)
        ax.set_xlabel("sweep")
    axes[0, 0].set_ylabel("mean spin")
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
    for ax, (title, (inner, outer)) in zip(axes[0], curves.items(), strict=True):
        ax.plot(results.couplings, inner, "-", color=BLUE, label="I-projection (best found)")
        ax.plot(results.couplings, outer, "--", color=RED, label="M-projection (exact)")
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("coupling J")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{SMALL} x {SMALL} ferromagnet: the I-projection settles in a mode, the M-projection covers both")
    return figure
