r"""The posterior's mode for the cells of a family, and a frame whose axes follow the skewness there.

In coordinates u = theta / scale the prior is standard, and the negative Hessian of the log posterior is :math:`A = I +
\sum_c w_c x_c x_c^T` with :math:`x_c` the cell's -1 and +1 times the scale and :math:`w_c = n_c g(h_c) g(-h_c)`; its
smallest eigenvalue is at least 1, separable data or not.  Newton's method with step halving reaches the mode.

A frame F has :math:`F F^T = A^{-1}`; any rotation of one is another.  The log posterior departs from its quadratic by
:math:`\tfrac16 \sum_c t_c (x_c^T F z)^3 + \dots`, so the first axis is laid along the cell with the largest
:math:`|t_c| \, |F^T x_c|^3`, the second along the cell for which this is largest in what is left, and so on: the
skewness that separable and rare cells cause then lies along single axes, where `axis_scales` meets it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats
from doxa.structure.families.logistic.softplus import softplus
from doxa.structure.families.logistic.work import LogisticWork, logit_of

__all__ = [
    "axis_scales",
    "choose_frame",
    "factorise",
    "find_mode",
    "orthogonalise",
    "signs",
    "solve",
    "solve_transposed",
]

_MOST_STEPS = 200
_GAIN = 1e-11  # nats: a Newton step that can gain less ends the search
_FEWEST = 2.0**-40
_NO_DIRECTION = 1e-10
_WIDER = 1.07  # of 1, 1.07, 1.12 and 1.15: fewest nodes for separable and rare cells, and a third of the error at 1


@hot
def find_mode(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> float:
    """Mode into ``work.mean``, Cholesky factor of the precision there into ``work.precision``; returns the peak.

    The peak is the log likelihood less half the squared length of the mode, nats.
    """
    d = n_parents + 1
    mean, trial, step = work.mean, work.trial, work.step
    mean[:d] = 0.0
    value = _objective(n_cells, n_parents, mean, scale, columns, work)
    for _ in range(_MOST_STEPS):
        _newton_step(n_cells, n_parents, scale, columns, work)
        gain = 0.0
        for i in range(d):
            gain += step[i] * work.trial[i]  # the step is A^-1 times the gradient, which is in `trial`
        if gain < _GAIN:
            break
        size = 1.0
        while size > _FEWEST:
            for i in range(d):
                trial[i] = mean[i] + size * step[i]
            new = _objective(n_cells, n_parents, trial, scale, columns, work)
            if new >= value + 1e-4 * size * gain:
                break
            size *= 0.5
        if size <= _FEWEST:
            break
        for i in range(d):
            mean[i] = trial[i]
        value = new
    return value


@hot
def _objective(
    n_cells: int, n_parents: int, u: Floats, scale: float, columns: NDArray[np.int16], work: LogisticWork
) -> float:
    total = 0.0
    for i in range(n_parents + 1):
        total -= 0.5 * u[i] * u[i]
    for cell in range(n_cells):
        h = scale * logit_of(cell, n_parents, u, columns, work)
        total += work.successes[cell] * h - work.cases[cell] * softplus(h)
    return total


@hot
def _newton_step(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> None:
    """Gradient into ``work.trial``, factor of the precision, A^-1 times the gradient into ``work.step``."""
    d = n_parents + 1
    mean, gradient, step, precision = work.mean, work.trial, work.step, work.precision
    for i in range(d):
        gradient[i] = -mean[i]
        for j in range(i + 1):
            precision[i, j] = 0.0
        precision[i, i] = 1.0
    for cell in range(n_cells):
        h = scale * logit_of(cell, n_parents, mean, columns, work)
        small = math.exp(-abs(h))
        share = (1.0 if h > 0.0 else small) / (1.0 + small)
        slope = scale * (work.successes[cell] - work.cases[cell] * share)
        curvature = work.cases[cell] * small / (1.0 + small) ** 2
        work.logit[cell] = h
        work.skewness[cell] = abs(curvature * (1.0 - 2.0 * share))
        curvature *= scale * scale
        signs(cell, n_parents, columns, work, step)
        for i in range(d):
            gradient[i] += slope * step[i]
            for j in range(i + 1):
                precision[i, j] += curvature * step[i] * step[j]
    factorise(precision, d)
    for i in range(d):
        step[i] = gradient[i]
    solve(precision, d, step)
    solve_transposed(precision, d, step)


@hot
def signs(cell: int, n_parents: int, columns: NDArray[np.int16], work: LogisticWork, x: Floats) -> None:
    """The cell's row of the design, without the scale."""
    row = work.row[cell]
    x[0] = 1.0
    for j in range(n_parents):
        x[j + 1] = 1.0 if columns[work.parents[j], row] != 0 else -1.0


@hot
def factorise(matrix: Floats, d: int) -> None:
    """Cholesky factor L in place of the lower half; the smallest eigenvalue is at least 1, so it exists."""
    for i in range(d):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(max(total, 1.0)) if i == j else total / matrix[j, j]


@hot
def solve(factor: Floats, d: int, x: Floats) -> None:
    """Solve L x = x in place."""
    for i in range(d):
        total = x[i]
        for k in range(i):
            total -= factor[i, k] * x[k]
        x[i] = total / factor[i, i]


@hot
def solve_transposed(factor: Floats, d: int, x: Floats) -> None:
    """Solve L' x = x in place."""
    for i in range(d - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, d):
            total -= factor[k, i] * x[k]
        x[i] = total / factor[i, i]


@hot
def choose_frame(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> float:
    """Axes into the rows of ``work.frame``, after `find_mode`; returns the log of the frame's determinant."""
    d = n_parents + 1
    factor, axes, frame, x = work.precision, work.axes, work.frame, work.trial
    log_determinant = 0.0
    for i in range(d):
        log_determinant -= math.log(factor[i, i])
    for cell in range(n_cells):
        _direction(cell, n_parents, scale, columns, work, x)
        work.left[cell] = 0.0
        for i in range(d):
            work.left[cell] += x[i] * x[i]
    free = 0  # coordinate whose unit vector is tried where no cell is left
    axis = 0
    while axis < d:
        best, most = -1, _NO_DIRECTION
        for cell in range(n_cells):
            strength = work.skewness[cell] * max(work.left[cell], 0.0) ** 1.5
            if strength > most:
                best, most = cell, strength
        if best >= 0:
            _direction(best, n_parents, scale, columns, work, x)
            work.left[best] = 0.0
        else:
            for i in range(d):
                x[i] = 1.0 if i == free else 0.0
            free += 1
        if not orthogonalise(axes, axis, d, x):
            continue
        for i in range(d):
            axes[axis, i] = x[i]
        solve_transposed(factor, d, x)
        for i in range(d):
            frame[axis, i] = x[i]
        if best >= 0:
            for cell in range(n_cells):
                part = scale * logit_of(cell, n_parents, x, columns, work)
                work.left[cell] -= part * part
        axis += 1
    return log_determinant


@hot
def _direction(
    cell: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork, x: Floats
) -> None:
    """The cell's row in coordinates where the precision is 1: L^-1 times it."""
    signs(cell, n_parents, columns, work, x)
    for i in range(n_parents + 1):
        x[i] *= scale
    solve(work.precision, n_parents + 1, x)


@hot
def orthogonalise(axes: Floats, n_axes: int, d: int, x: Floats) -> bool:
    """Take the axes out of ``x``, twice, and give it length 1; False where too little is left."""
    before = 0.0
    for i in range(d):
        before += x[i] * x[i]
    for _ in range(2):
        for axis in range(n_axes):
            part = 0.0
            for i in range(d):
                part += axes[axis, i] * x[i]
            for i in range(d):
                x[i] -= part * axes[axis, i]
    after = 0.0
    for i in range(d):
        after += x[i] * x[i]
    if after <= 1e-6 * before:
        return False
    length = math.sqrt(after)
    for i in range(d):
        x[i] /= length
    return True


@hot
def axis_scales(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> None:
    r"""For each axis the scales that a normal needs on either side to be as wide as the posterior.

    A normal of scale s falls by :math:`\delta^2 / 2 s^2` over a distance :math:`\delta`; the largest s that the falls
    at 1, 2.5 and 5 give is taken, after Geweke (1989), and 7% more, since what lies off the axes reaches farther.
    ``work.centre`` gets the mean of the two, ``work.tilt`` half their difference.  No s is above 1.07 /
    |axis|, where the prior alone ends it.
    """
    d = n_parents + 1
    mean, along = work.mean, work.along
    for cell in range(n_cells):
        along[cell] = 0.0
    here = _cost(0.0, n_cells, work)
    for axis in range(d):
        ray = work.frame[axis]
        length, drift = 0.0, 0.0
        for i in range(d):
            length += ray[i] * ray[i]
            drift += ray[i] * mean[i]
        successes = 0.0
        for cell in range(n_cells):
            along[cell] = scale * logit_of(cell, n_parents, ray, columns, work)
            successes += work.successes[cell] * along[cell]
        sides = (0.0, 0.0)
        for side in range(2):
            widest = 0.0
            for distance in (1.0, 2.5, 5.0):
                signed = distance if side == 1 else -distance
                least = 0.5 * signed * signed * length
                fall = signed * (drift - successes) + least + _cost(signed, n_cells, work) - here
                widest = max(widest, _WIDER * distance / math.sqrt(2.0 * max(fall, least)))
            sides = (widest, 0.0) if side == 0 else (sides[0], widest)
        work.centre[axis] = 0.5 * (sides[0] + sides[1])
        work.tilt[axis] = 0.5 * (sides[1] - sides[0])


@hot
def _cost(distance: float, n_cells: int, work: LogisticWork) -> float:
    """Sum over the cells of cases times softplus, so far along an axis; ``work.left`` is work space."""
    logit, along, cases, each = work.logit, work.along, work.cases, work.left
    for cell in range(n_cells):  # apart from the sum: vector instructions
        each[cell] = cases[cell] * softplus(logit[cell] + distance * along[cell])
    total = 0.0
    for cell in range(n_cells):
        total += each[cell]
    return total
