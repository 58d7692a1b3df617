"""Posterior means and the evidence of up to three coefficients, by the trapezoid rule on a grid that follows the mass.

The rule converges faster than any power of the spacing for densities that are smooth and vanish at the border, so the
same sum over every second point of each axis says what the grid is worth: where the two differ, the grid is made finer,
and if that does not help there is no oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from honesty_parts.problems import NoOracleError

__all__ = ["Moments", "integrate", "log_logistic"]

Floats = NDArray[np.float64]
_SEARCH = {1: 2001, 2: 201, 3: 41}  # points an axis while the grid looks for the mass
_SUMMED = {1: (1001, 64001), 2: (101, 3201), 3: (41, 321)}  # in the sum itself: at first, and at most
_PASSES = 6
# By which half the points may miss: errors fall like exp(-c / spacing), so that all points miss by the square of it.
_COARSER = 3e-3
_NATS = 30.0  # below the highest point: nothing there matters


class Moments(NamedTuple):
    """What a density integrates to."""

    mean: Floats
    log_total: float


def log_logistic(z: Floats) -> Floats:
    """log 1 / (1 + exp(-z))."""
    return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))  # several times as quick as logaddexp


def integrate(log_density: Callable[[Floats], Floats], half_width: float, d: int) -> Moments:
    """Integrate over d <= 3 numbers; ``log_density`` takes points (n, d), its mass is within ``half_width`` of 0."""
    centre, axes = np.zeros(d), np.eye(d)
    low, high = np.full(d, -half_width), np.full(d, half_width)
    for _ in range(_PASSES):
        grid = [np.linspace(a, b, _SEARCH[d]) for a, b in zip(low, high, strict=True)]
        theta = _points(centre, axes, grid)
        logs = log_density(theta)
        kept = logs > logs.max() - _NATS
        weights = np.exp(logs[kept] - logs.max())
        step = axes @ np.diag([g[1] - g[0] for g in grid])
        mean = weights @ theta[kept] / weights.sum()
        spread = (theta[kept] - mean).T * weights @ (theta[kept] - mean) / weights.sum() + step @ step.T / 12
        new = np.linalg.cholesky(spread)
        points, corners = ((theta[kept] - mean).T, step @ _corners(d).T)
        points, corners = np.linalg.solve(new, points), np.linalg.solve(new, corners)
        centre, axes = mean, new
        low = points.min(axis=1) + corners.min(axis=1)  # the mass may reach a step beyond the points that were kept
        high = points.max(axis=1) + corners.max(axis=1)
    n, most = _SUMMED[d]
    half = _sum(log_density, centre, axes, low, high, n)
    while n < most:
        n = 2 * n - 1
        full = _sum(log_density, centre, axes, low, high, n)
        if max(np.abs(full.mean - half.mean).max(), abs(full.log_total - half.log_total)) < _COARSER:
            return full
        half = full
    raise NoOracleError(f"a grid of {n} points an axis is too coarse: {full}")


def _points(centre: Floats, axes: Floats, grid: Sequence[Floats]) -> Floats:
    """The points of a grid along the axes, (n, d); each coordinate lies in one piece, for quick arithmetic."""
    steps = np.stack(np.meshgrid(*grid, indexing="ij")).reshape(len(grid), -1)
    return np.asarray((axes @ steps + centre[:, None]).T)


def _corners(d: int) -> Floats:
    return np.stack(np.meshgrid(*[[-1.0, 1.0]] * d, indexing="ij"), axis=-1).reshape(-1, d)


def _sum(
    log_density: Callable[[Floats], Floats], centre: Floats, axes: Floats, low: Floats, high: Floats, n: int
) -> Moments:
    """The rule on n points an axis, one slice of the first axis at a time."""
    d = len(centre)
    grid = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    rest = _points(centre, axes, [np.zeros(1), *grid[1:]]).T
    top, total, first = -np.inf, 0.0, np.zeros(d)
    slices = grid[0] if d > 1 else [grid[0]]
    for z in slices:
        theta = (rest + np.atleast_1d(z) * axes[:, :1]).T
        logs = log_density(theta)
        highest = max(top, float(logs.max()))
        weights = np.exp(logs - highest)
        scale = np.exp(top - highest) if total else 0.0
        total, first = scale * total + weights.sum(), scale * first + weights @ theta
        top = highest
    volume = np.log(np.abs(np.linalg.det(axes))) + sum(np.log(g[1] - g[0]) for g in grid)
    return Moments(first / total, float(top + np.log(total) + volume))
