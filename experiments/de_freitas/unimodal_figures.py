"""Figures 12 and 13, with the likelihood's largest value in place of the random walk's, and the higher moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from de_freitas.unimodal import LENGTHS, OURS, Results
from doxa.plots import Band, Look, legend_below, panels, plot_curves
from doxa.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY

__all__ = ["draw_likelihoods", "draw_moments"]

Floats: TypeAlias = NDArray[np.float64]
_LEAST = 1e-4  # nats; less is drawn there


class _Curve(NamedTuple):
    label: str
    name: str
    start: str  # "" where there is no chain
    colour: str
    line: str
    mark: str


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

        def nats(curve: _Curve, d: int, length: int = length) -> Floats:
            return np.maximum(results.below_best(d, curve.name, curve.start, length if curve.start else 0), _LEAST)

        for ax, curves, title in zip(column, (PUBLISHED, BATCH), ("one pass", "all xi together"), strict=True):
            plot(ax, results, (*WALKS, *curves, OURS_TOO, EXACT), nats)
            ax.set_title(f"Figure {number} again, {length} samples: {title}", fontsize=10)
        column[-1].set_xlabel("number of parents")
    for ax in axes[:, 0]:
        ax.set_ylabel("nats below the largest likelihood")
    legend_below(figure, axes[0, 1], 3)
    return figure


def draw_moments(results: Results) -> Figure:
    figure, axes = panels(2, 3, height=3.2, width=10.5, sharex=True, sharey="col")
    titles = {"mean": "mean, in sd", "variance": "variances, relative", "kurtosis": "kurtosis"}
    for row, length in zip(axes, LENGTHS, strict=True):
        for ax, (which, title) in zip(row, titles.items(), strict=True):

            def error(curve: _Curve, d: int, length: int = length, which: str = which) -> Floats:
                return results.of(d, curve.name, which, curve.start, length if curve.start else 0)

            plot(ax, results, (PUBLISHED[0], PUBLISHED[2], *DASHED, OURS_TOO), error)
            ax.set_title(f"{length} samples: error of {title}", fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("number of parents")
    legend_below(figure, axes[0, 2], 5)
    return figure


def plot(ax: Axes, results: Results, curves: Iterable[_Curve], values: Callable[[_Curve, int], Floats]) -> None:
    """Medians and ranges over the data sets, the numbers of parents at equal distances."""
    found = {c.label: [values(c, d) for d in results.sets] for c in curves}
    bands = {
        name: Band([np.median(v) for v in many], [v.min() for v in many], [v.max() for v in many])
        for name, many in found.items()
    }
    looks = {c.label: Look(c.colour, c.line, c.mark) for c in curves}
    plot_curves([str(d) for d in results.sets], bands, looks=looks, bars=True, legend=False, ax=ax)
    ax.set_yscale("log")
