r"""Maximum likelihood of the latent trait model in one or two dimensions, by quadrature over the positions.

The positions u are put on a grid, where the likelihood of a row is a sum.  EM for that sum is exact (Bock & Aitkin
1981): the responsibilities of the grid points for a row, then a logistic regression of each column on the points.  Of
that the step of Jaakkola & Jordan (2000, appendix C) is taken, which cannot lower the likelihood, so none of EM does.

The trapezoidal rule with spacing h errs by about :math:`2 \exp(-2 \pi^2 s^2 / h^2)` of the likelihood of a row, s being
the deviation of its position, and by :math:`\exp(-2 \pi^2 / (h |w|))` for the poles of a logistic function with
loadings w.  Grids are refined until h is at most the smallest s and 1.25 / the largest :math:`|w|`: 5e-9 and 1e-7.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.variational.bound import lambda_of, log_logistic
from doxa.parameters.variational.latent_em import (
    Climb,
    Learned,
    Moments,
    TraitParameters,
    TraitState,
    ascend,
    cost,
    whitened,
)
from doxa.parameters.variational.latent_rows import BinaryRows

__all__ = ["Grid", "climb_on_grids", "grid", "grid_moments"]

_Floats = NDArray[np.float64]
_REACH = 7.0  # deviations; 3e-12 of the prior lies beyond
_CELLS = 2**21  # rows times points worked on at once
_COARSEST = 0.4
_FINEST = {1: 0.01, 2: 0.08}  # 1,400 and 24,000 points
_INNER = 3  # steps of the regressions in one of EM: they cost little beside the responsibilities


class Grid(NamedTuple):
    """Points in whitened positions, and their shares of the prior."""

    points: _Floats  # (points, k)
    log_mass: _Floats  # (points,)


class _Expected(NamedTuple):
    """What a pass over the rows leaves."""

    rows: Moments
    ones: _Floats  # (p, points), expected cases with a 1 at each point
    zeros: _Floats  # (p, points)


def grid(k: int, spacing: float) -> Grid:
    """A square grid within seven deviations.

    Examples
    --------
    >>> points, log_mass = grid(2, 0.5)
    >>> points.shape, float(np.exp(log_mass).sum().round(12))
    ((613, 2), 1.0)
    """
    half = spacing * np.arange(1, int(_REACH / spacing) + 1)
    axis = np.concatenate([-half[::-1], [0.0], half])
    points = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    points = points[(points**2).sum(axis=1) <= _REACH**2 * (1 + 1e-12)]
    log_mass = -0.5 * (points**2).sum(axis=1)
    return Grid(points, log_mass - np.log(np.exp(log_mass).sum()))


def grid_moments(rows: BinaryRows, parameters: TraitParameters, on: Grid) -> Moments:
    """Posterior moments and log probability of each row; ``next_xi`` is empty."""
    return _expected(rows, parameters, on).rows


def climb_on_grids(
    rows: BinaryRows, parameters: TraitParameters, learn: Learned, ridge: float, **search: Any
) -> tuple[Climb, float | None]:
    """EM from ``parameters``, whose positions are standard normal, and the spacing of the grid, or None.

    The grid is made finer, and EM goes on, until it is fine enough; None where that takes more points than is
    reasonable.  ``search`` is that of `ascend`.
    """
    spacing, n_iterations = _COARSEST, 0
    while True:
        found = _climb(rows, parameters, grid(parameters.loadings.shape[1], spacing), learn, ridge, **search)
        n_iterations += found.n_iterations
        enough = _enough(found.state)
        if spacing <= enough:
            return found._replace(n_iterations=n_iterations), spacing
        spacing = min(0.9 * enough, 0.7 * spacing)
        if spacing < _FINEST[parameters.loadings.shape[1]]:
            return found, None
        parameters = found.state.parameters


def _enough(state: TraitState) -> float:
    """The largest spacing that is fine enough."""
    sharpest = np.sqrt(max(0.0, np.linalg.eigvalsh(state.rows.covariance).min()))
    return float(min(sharpest, 1.25 / np.linalg.norm(state.parameters.loadings, axis=1).max(initial=1e-300)))


def _climb(
    rows: BinaryRows, parameters: TraitParameters, on: Grid, learn: Learned, ridge: float, **search: Any
) -> Climb:
    last: list[_Expected] = []  # of the last two states asked for; the one that is kept is among them

    def at(new: TraitParameters, _: TraitState | None) -> TraitState:
        found = _expected(rows, new, on)
        last[:] = [found, *last[:2]]
        objective = float(rows.counts @ found.rows.log_bound) - cost(new, ridge)
        return TraitState(new, found.rows.next_xi, found.rows, objective)

    def improved(state: TraitState) -> TraitParameters:
        found = next(one for one in last if one.rows is state.rows)
        return _improved(found, state.parameters, on, learn, ridge)

    return ascend(at(parameters, None), improved, at, at, learn, **search)


def _expected(rows: BinaryRows, parameters: TraitParameters, on: Grid) -> _Expected:
    loadings, biases = whitened(parameters)
    logits = loadings @ on.points.T + biases[:, None]
    log_one, log_zero = log_logistic(logits), log_logistic(-logits)
    n, k = len(rows.half), loadings.shape[1]
    products = (on.points[:, :, None] * on.points[:, None, :]).reshape(-1, k * k)
    mean, second, log_p = np.empty((n, k)), np.empty((n, k * k)), np.empty(n)
    ones, zeros = np.zeros_like(logits), np.zeros_like(logits)
    block = max(1, _CELLS // len(on.points))
    for begin in range(0, n, block):
        part = slice(begin, begin + block)
        one, zero = rows.half[part] + rows.seen[part] / 2, rows.seen[part] / 2 - rows.half[part]
        log_joint = one @ log_one + zero @ log_zero + on.log_mass
        peak = log_joint.max(axis=1, keepdims=True)
        share = np.exp(log_joint - peak)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        log_p[part] = (np.log(total) + peak)[:, 0]
        mean[part], second[part] = share @ on.points, share @ products
        counts = rows.counts[part, None]
        ones += (one * counts).T @ share
        zeros += (zero * counts).T @ share
    covariance = second.reshape(n, k, k) - mean[:, :, None] * mean[:, None, :]
    return _Expected(Moments(mean, covariance, log_p, np.empty((n, 0))), ones, zeros)


def _improved(found: _Expected, parameters: TraitParameters, on: Grid, learn: Learned, ridge: float) -> TraitParameters:
    """A logistic regression of each column on the points, some steps towards its maximum (eq. 68 with a prior)."""
    design = np.concatenate([on.points, np.ones((len(on.points), 1))], axis=1)[:, : on.points.shape[1] + learn.biases]
    d = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(-1, d * d)
    theta = np.concatenate([parameters.loadings, parameters.biases[:, None]], axis=1)[:, :d]
    b = (found.ones - found.zeros) @ design / 2
    for _ in range(_INNER):
        weights = 2 * (found.ones + found.zeros) * lambda_of(theta @ design.T)
        a = (weights @ products).reshape(-1, d, d) + ridge * np.eye(d)
        theta = np.linalg.solve(a, b[:, :, None])[:, :, 0]
    k = on.points.shape[1]
    biases = theta[:, k].copy() if learn.biases else parameters.biases
    return parameters._replace(loadings=theta[:, :k].copy(), biases=biases)
