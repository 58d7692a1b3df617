"""Axes of the nodes where a multinomial posterior is far from normal: turned to its skewness, and stretched."""

from __future__ import annotations

import math

from doxa._jit import hot
from doxa.arrays import Floats
from doxa.structure.families.additive.mode import MultinomialWork, normalise, odds_of, to_differences
from doxa.structure.families.logistic.mode import orthogonalise, solve, solve_transposed
from doxa.structure.families.logistic.work import LogisticWork

__all__ = ["stretch_axes", "turn_frame"]

_WIDER = 1.07  # as in `doxa.structure.families.logistic.mode`
_NO_DIRECTION = 1e-10
_FRAME_WORK = 1e7  # cells times log odds times coefficients, squared: more cells do not choose axes


@hot
def turn_frame(n_odds: int, d: int, n: int, cells: MultinomialWork, work: LogisticWork) -> None:
    """Lay the axes, rows of ``work.frame``, along the log odds that are most skew; see `..logistic.mode`."""
    size, x, left = n_odds * d, work.trial, cells.along
    step = 1 + int(float(n) * n_odds * size * size / _FRAME_WORK)
    for k in range(n_odds):
        for cell in range(0, n, step):
            left[k, cell] = 0.0
            if cells.cases[cell] > 0.0:
                _direction(cell, k, d, size, cells, work, x)
                for i in range(size):
                    left[k, cell] += x[i] * x[i]
    free = axis = 0
    while axis < size:
        best, best_odds, most = -1, 0, _NO_DIRECTION
        for k in range(n_odds):
            for cell in range(0, n, step):
                p = cells.share[k, cell]
                skewness = cells.cases[cell] * p * (1.0 - p) * abs(1.0 - 2.0 * p)
                strength = skewness * max(left[k, cell], 0.0) ** 1.5
                if strength > most:
                    best, best_odds, most = cell, k, strength
        if best >= 0:
            _direction(best, best_odds, d, size, cells, work, x)
            left[best_odds, best] = 0.0
        else:
            for i in range(size):
                x[i] = 1.0 if i == free else 0.0
            free += 1
        if not orthogonalise(work.axes, axis, size, x):
            continue
        for i in range(size):
            work.axes[axis, i] = x[i]
        solve_transposed(work.precision, size, x)
        for i in range(size):
            work.frame[axis, i] = x[i]
        if best >= 0:
            to_differences(n_odds, d, x, cells)
            for k in range(n_odds):
                for cell in range(0, n, step):
                    part = 0.0
                    for j in range(d):
                        part += cells.differences[k * d + j] * cells.x[j, cell]
                    left[k, cell] -= part * part
        axis += 1


@hot
def _direction(cell: int, k: int, d: int, size: int, cells: MultinomialWork, work: LogisticWork, x: Floats) -> None:
    """How one of the cell's log odds depends on u, in coordinates where the precision is 1."""
    for i in range(size):
        x[i] = cells.root[k, i // d] * cells.x[i % d, cell]
    solve(work.precision, size, x)


@hot
def stretch_axes(n_odds: int, d: int, n: int, cells: MultinomialWork, work: LogisticWork) -> None:
    """Scales of the axes to either side, as `doxa.structure.families.logistic.mode.axis_scales` has them."""
    size, along = n_odds * d, cells.along
    here = _moved_partition(0.0, n_odds, n, cells)
    for axis in range(size):
        ray = work.frame[axis]
        to_differences(n_odds, d, ray, cells)
        odds_of(n_odds, d, n, cells, along)
        length, drift, linear = 0.0, 0.0, 0.0
        for i in range(size):
            length += ray[i] * ray[i]
            drift += ray[i] * work.mean[i]
            linear += cells.slopes[i] * cells.differences[i]
        sides = (0.0, 0.0)
        for side in range(2):
            widest = 0.0
            for distance in (1.0, 2.5, 5.0):
                signed = distance if side == 1 else -distance
                least = 0.5 * signed * signed * length
                fall = signed * (drift - linear) + least + _moved_partition(signed, n_odds, n, cells) - here
                widest = max(widest, _WIDER * distance / math.sqrt(2.0 * max(fall, least)))
            sides = (widest, 0.0) if side == 0 else (sides[0], widest)
        work.centre[axis] = 0.5 * (sides[0] + sides[1])
        work.tilt[axis] = 0.5 * (sides[1] - sides[0])


@hot
def _moved_partition(distance: float, n_odds: int, n: int, cells: MultinomialWork) -> float:
    """Sum over the cases of log(1 + sum of exp(h)), so far along an axis."""
    for k in range(n_odds):
        target, base, along = cells.share[k], cells.logits[k], cells.along[k]
        for cell in range(n):
            target[cell] = base[cell] if distance == 0.0 else base[cell] + distance * along[cell]
    return normalise(n_odds, n, cells)
