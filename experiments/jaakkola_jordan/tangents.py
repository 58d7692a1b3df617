r"""Section 2, figure 1: log g(h) = h / 2 + f(h^2) with f(z) = -log(2 cosh(sqrt(z) / 2)), which is convex in z.

Its tangent at :math:`z = \xi^2` is :math:`f(\xi^2) - \lambda(\xi) (z - \xi^2)`: a lower bound of f, and with h / 2 the
bound of eq. 7.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from doxa.parameters.variational.bound import lambda_of, log_logistic, log_logistic_bound
from doxa.plots import Look, panels, plot_curves
from doxa.plots.style import BLACK, BLUE, ORANGE
from logistic_papers.claims import Claim, holds_if
from logistic_papers.script import Outcome

PLACES = (1.5, 3.5)  # xi of the two tangents
Z = np.linspace(0.0, 30.0, 601)


def run(quick: bool) -> Outcome:
    z = Z[::20] if quick else Z
    return Outcome(claims(z), {"jaakkola_jordan_figure_1": draw(z)})


def convex(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """f(z)."""
    h = np.sqrt(z)
    return np.asarray(log_logistic(h) - h / 2)


def tangent(z: NDArray[np.float64], xi: float) -> NDArray[np.float64]:
    """L(z; xi^2)."""
    return np.asarray(convex(np.array([xi**2]))[0] - lambda_of(xi) * (z - xi**2))


def claims(z: NDArray[np.float64]) -> list[Claim]:
    gaps = {xi: convex(z) - tangent(z, xi) for xi in PLACES}
    f = convex(z)
    bends = f[2:] - 2 * f[1:-1] + f[:-2]
    best = np.max([tangent(z, xi) for xi in np.sqrt(z[1:])], axis=0)[1:] - f[1:]
    h = np.linspace(-5, 5, 101)
    same = max(np.abs(h / 2 + tangent(h**2, xi) - log_logistic_bound(h, xi)).max() for xi in PLACES)
    return [
        Claim(
            "1", "the function is convex, and every tangent lies below it",
            f"second differences are at least {bends.min():.1e}; tangents at {PLACES[0]:g}^2 and {PLACES[1]:g}^2 are "
            f"at least {min(gap.min() for gap in gaps.values()):.1e} below it",
            holds_if(bends.min() > 0 and min(gap.min() for gap in gaps.values()) > -1e-12),
            "for each xi in `doxa.parameters.variational.bound`",
        ),
        Claim(
            "1", "where the tangent touches is free; the best of them is the function itself",
            f"the largest of the tangents at all places differs from it by {np.abs(best).max():.1e} at most",
            holds_if(np.abs(best).max() < 1e-12),
            f"with h / 2 it is the bound of eq. 7, to {same:.0e}",
        ),
    ]  # fmt: skip


def draw(z: NDArray[np.float64]) -> Figure:
    figure, axes = panels(1, 1, width=5.5)
    curves = {"f(z)": convex(z), **{f"tangent at {xi:g}²": tangent(z, xi) for xi in PLACES}}
    looks = dict(zip(curves, (Look(BLACK), Look(BLUE, "--"), Look(ORANGE, "-.")), strict=True))
    ax = plot_curves(z, curves, looks=looks, x_label="z = h²", y_label="nats", ax=axes[0, 0])
    ax.plot([xi**2 for xi in PLACES], convex(np.square(PLACES)), "ko", markersize=4)
    return figure
