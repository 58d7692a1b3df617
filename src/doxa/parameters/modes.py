"""Modes of a posterior, and a Gaussian at each: the beginnings of an approximation where there may be several.

With hidden nodes the log posterior is not concave: signs and labels can be exchanged, and other modes exist (de Freitas
et al. 2001, section 5.2).  Climbs from many places find modes, not all of them for certain.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.kernels.targets import SmoothTarget

__all__ = ["Mode", "curvature_at", "find_modes"]

Floats: TypeAlias = NDArray[np.float64]

_NEAR = 0.5  # in units of a mode's standard deviations: ascents that end this close found the same mode
_MOST_SD = 1e3


class Mode(NamedTuple):
    """A local maximum, and the curvature there."""

    mean: Floats  # (d,)
    log_density: float  # nats
    cholesky: Floats  # (d, d), lower; L L' is the inverse of the negative Hessian

    @property
    def log_mass(self) -> float:
        """Laplace's estimate (nats) of the mass under the mode."""
        spread = float(np.log(np.diag(self.cholesky)).sum())
        return self.log_density + spread + 0.5 * self.mean.size * float(np.log(2 * np.pi))


def find_modes(target: SmoothTarget, starts: Floats) -> list[Mode]:
    """Climb from every start (n, d) by L-BFGS; distinct modes, the largest mass first.

    Examples
    --------
    >>> class Two:
    ...     n_dimensions = 1
    ...
    ...     def value_and_gradient(self, x):
    ...         return -((x[:, 0] ** 2 - 4) ** 2), -4 * x * (x**2 - 4)
    ...
    ...     def log_density(self, x):
    ...         return self.value_and_gradient(x)[0]
    >>> sorted(float(mode.mean[0].round(4)) for mode in find_modes(Two(), np.array([[-1.0], [0.5], [3.0]])))
    [-2.0, 2.0]
    """
    from scipy.optimize import minimize

    def downhill(theta: Floats) -> tuple[float, Floats]:
        value, gradient = target.value_and_gradient(theta[None])
        return -float(value[0]), -gradient[0]

    found: list[Mode] = []
    for start in starts:
        climb = minimize(downhill, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-6})
        if not np.isfinite(climb.fun):
            continue
        known = (_distance(mode, climb.x) < _NEAR and abs(mode.log_density + climb.fun) < _NEAR for mode in found)
        if not any(known):
            found.append(Mode(climb.x, -float(climb.fun), curvature_at(target, climb.x)))
    return sorted(found, key=lambda mode: -mode.log_mass)


def curvature_at(target: SmoothTarget, theta: Floats) -> Floats:
    """Cholesky factor (d, d) of the inverse of the negative Hessian, by differences of gradients in one batch.

    Directions in which the density does not fall get a large spread instead.
    """
    d = theta.size
    steps = 1e-4 * np.maximum(1.0, np.abs(theta))
    points = np.concatenate([theta + np.diag(steps), theta - np.diag(steps)])
    _, gradient = target.value_and_gradient(points)
    hessian = (gradient[:d] - gradient[d:]) / (2 * steps[:, None])
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    spread = 1 / np.sqrt(np.maximum(values, 1 / _MOST_SD**2))
    root = vectors * spread
    lower = np.asarray(np.linalg.qr(root.T, mode="r"), dtype=np.float64).T
    return lower * np.where(np.diag(lower) < 0, -1.0, 1.0)


def _distance(mode: Mode, theta: Floats) -> float:
    noise = np.linalg.solve(mode.cholesky, theta - mode.mean)
    return float(np.sqrt((noise**2).mean()))
