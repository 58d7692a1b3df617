"""Figures 12 and 13, with the likelihood's largest value in place of the random walk's, and the higher moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from de_freitas.unimodal import LENGTHS, OURS, Results
from logistic_papers.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, panels

__all__ = ["draw_likelihoods", "draw_moments"]

Floats: TypeAlias = NDArray[np.float64]
_LEAST = 1e-4  # nats; less is drawn there


class _Curve(NamedTuple):
    label: str
    name: str
    start: str  # "" where there is no chain
    colour: str
    line: str
    marker: str


PUBLISHED = (
    _Curve("variational", "variational", "", BLUE, "-", "o"),
    _Curve("VarMCMC", "VarMCMC", "approximation", ORANGE, "-", "s"),
    _Curve("VarMixMCMC", "VarMixMCMC", "approximation", RED, "-", "D"),
)
BATCH = tuple(curve._replace(name="batch" if not curve.start else f"{curve.name}, batch") for curve in PUBLISHED)
WALKS = (
    _Curve("random walk from the prior", "RW", "prior", BLACK, ":", "v"),
    _Curve("random walk from 0", "RW", "zero", GREY, ":", "^"),
    _Curve("random walk from the one-pass Gaussian", "RW", "approximation", PINK, ":", "x"),
)
DASHED = (
    BATCH[0]._replace(label="variational, batch", colour=SKY, line="--"),
    BATCH[2]._replace(label="VarMixMCMC, batch", colour=PINK, line="--"),
)
OURS_TOO = _Curve("doxa: independence on the optimal Gaussian", OURS, "approximation", GREEN, "--", "P")
EXACT = _Curve("exact posterior mean", "exact", "", SKY, "--", "")


def draw_likelihoods(results: Results) -> Figure:
    figure, axes = panels(2, 2, height=3.6, width=10.5, sharex=True, sharey=True)
    for column, length, number in zip(axes.T, LENGTHS, (12, 13), strict=True):
        for ax, curves, title in zip(column, (PUBLISHED, BATCH), ("one pass", "all xi together"), strict=True):
            for curve in (*WALKS, *curves, OURS_TOO, EXACT):

                def nats(d: int, curve: _Curve = curve, length: int = length) -> Floats:
                    found = results.below_best(d, curve.name, curve.start, length if curve.start else 0)
                    return np.maximum(found, _LEAST)

                plot(ax, results, curve, nats)
            ax.set_yscale("log")
            ax.set_title(f"Figure {number} again, {length} samples: {title}", fontsize=10)
        column[-1].set_xlabel("number of parents")
    for ax in axes[:, 0]:
        ax.set_ylabel("nats below the largest likelihood")
    label(figure, axes[0, 1], 3)
    return figure


def draw_moments(results: Results) -> Figure:
    figure, axes = panels(2, 3, height=3.2, width=10.5, sharex=True, sharey="col")
    for row, length in zip(axes, LENGTHS, strict=True):
        for ax, which, title in zip(
            row, ("mean", "variance", "kurtosis"), ("mean, in sd", "variances, relative", "kurtosis"), strict=True
        ):
            for curve in (PUBLISHED[0], PUBLISHED[2], *DASHED, OURS_TOO):

                def error(d: int, curve: _Curve = curve, length: int = length, which: str = which) -> Floats:
                    return results.of(d, curve.name, which, curve.start, length if curve.start else 0)

                plot(ax, results, curve, error)
            ax.set_yscale("log")
            ax.set_title(f"{length} samples: error of {title}", fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("number of parents")
    label(figure, axes[0, 2], 5)
    return figure


def plot(ax: Axes, results: Results, curve: _Curve, values: Callable[[int], Floats]) -> None:
    """Median and range over the data sets, the numbers of parents at equal distances."""
    found = [values(d) for d in results.sets]
    x = np.arange(len(found))
    middle = np.array([np.median(v) for v in found])
    ends = np.array([[np.median(v) - v.min(), v.max() - np.median(v)] for v in found]).T
    ax.errorbar(
        x, middle, ends, color=curve.colour, linestyle=curve.line, marker=curve.marker, markersize=4, capsize=2,
        linewidth=1.2, elinewidth=0.7, label=curve.label,
    )  # fmt: skip
    ax.set_xticks(x, [str(d) for d in results.sets])


def label(figure: Figure, ax: Axes, columns: int) -> None:
    """One legend for all panels, below them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", frameon=False, fontsize=8, ncols=columns)
