r"""Moves of the coefficients of one node given a completed table: they keep its posterior whatever it looks like.

The first is independence Metropolis-Hastings with a Gaussian refitted to the completed table, at the posterior's mode
m.  The climb to the mode begins at a fixed place, so the Gaussian is a function of what it conditions on and the
proposals' ratio is exact.  Several steps z are drawn and each is tried at both ends, m + z and m - z, which cancels the
posterior's skewness.  With :math:`W(z) = [p(m + z) + p(m - z)] / q(z)`, one of the new z is chosen in proportion to W
and accepted with probability :math:`\min(1, \sum_i W_i / (\sum_i W_i - W_j + W_0))`, 0 being the current one (multiple
try Metropolis with independent tries: Liu, Liang & Wong 2000); an end is then chosen in proportion to p.

The second are a few leapfrog steps in coordinates in which that Gaussian is round: where the posterior has heavier
tails than a Gaussian, independent proposals never leave them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from doxa.parameters.completed_factors import Completed, CompletedFamily

__all__ = ["Centre", "Moved", "find_centre", "hamiltonian", "try_ends"]

Floats: TypeAlias = NDArray[np.float64]

_CLOSE = 0.1  # nats, twice what the last step gains; it is taken, and what it leaves is far less
_MOST_STEPS = 50
_LEAPFROGS = 5
_SHORTEST = 0.1  # lengths are from here to 1, evenly in their logarithm: short ones for tails unlike the centre


class Centre(NamedTuple):
    """The Gaussian at a mode: N(mean, inverse(factor factor'))."""

    mean: Floats  # (d,)
    factor: Floats  # (d, d), lower

    def spread(self, noise: Floats) -> Floats:
        """Steps from the mean that standard normal ``noise`` stands for, shape (d,) or (d, n)."""
        return np.asarray(dtrtrs(self.factor, noise, lower=1, trans=1)[0])


class Moved(NamedTuple):
    """Where a move ended."""

    theta: Floats  # (d,)
    log_density: float
    acceptance: float  # probability with which the proposal was to be accepted


def find_centre(family: CompletedFamily, completed: Completed, start: Floats) -> Centre:
    """Newton's method with step halving from ``start``: a function of the arguments alone."""
    theta = at = start
    value, step, size = -np.inf, np.zeros_like(start), 1.0
    factor = np.eye(start.size)
    for _ in range(_MOST_STEPS):
        slope = family.slope(completed, theta)
        if slope.value < value - 1e-9 * abs(value):  # past the top
            size *= 0.5
            theta = at + size * step
            continue
        at, value, size = theta, slope.value, 1.0
        root = completed.design * np.sqrt(slope.curvature)[:, None]
        factor = _factor(root.T @ root + family.precision)
        step = dpotrs(factor, slope.gradient, lower=1)[0]
        theta = at + step
        if slope.gradient @ step < _CLOSE:
            return Centre(theta, factor)
    return Centre(at, factor)


def try_ends(
    family: CompletedFamily, completed: Completed, centre: Centre, theta: Floats, tries: int, rng: np.random.Generator
) -> Moved:
    """Independent proposals, each at both ends of a step from the centre."""
    noise = np.empty((theta.size, tries + 1))
    noise[:, 0] = centre.factor.T @ (theta - centre.mean)
    noise[:, 1:] = rng.standard_normal((theta.size, tries))
    steps = centre.spread(noise).T
    steps[0] = theta - centre.mean
    ends = np.concatenate([centre.mean + steps, centre.mean - steps])
    ends[0] = theta
    values = family.log_density(completed, ends)
    log_weights = np.logaddexp(values[: tries + 1], values[tries + 1 :]) + 0.5 * (noise * noise).sum(axis=0)
    weights = np.exp(log_weights - log_weights.max())
    cumulative = np.cumsum(weights[1:])
    chance, accept, end = rng.random(3)
    taken = 1 + min(int(np.searchsorted(cumulative, chance * cumulative[-1], side="right")), tries - 1)
    total = float(cumulative[-1])
    others = total - float(weights[taken]) + float(weights[0])
    acceptance = 1.0 if total >= others else total / others
    if accept >= acceptance:
        taken = 0
    gain = float(values[taken + tries + 1] - values[taken])
    if end * (1.0 + math.exp(-abs(gain))) < math.exp(min(gain, 0.0)):  # below g(gain)
        taken += tries + 1
    return Moved(ends[taken], float(values[taken]), acceptance)


def hamiltonian(
    family: CompletedFamily, completed: Completed, centre: Centre, moved: Moved, rng: np.random.Generator
) -> Moved:
    """A few leapfrog steps with a fresh velocity, in coordinates in which the Gaussian at the centre is round."""
    first = velocity = rng.standard_normal(moved.theta.size)
    uniform, accept = rng.random(2)
    length = _SHORTEST**uniform
    theta, value = moved.theta, moved.log_density
    for step in range(_LEAPFROGS + 1):
        at_an_end = step in (0, _LEAPFROGS)
        value, gradient, _ = family.slope(completed, theta)
        kick = dtrtrs(centre.factor, gradient, lower=1)[0]
        velocity = velocity + (0.5 * length if at_an_end else length) * kick
        if step < _LEAPFROGS:
            theta = theta + length * centre.spread(velocity)
    ratio = value - moved.log_density + _energy(first) - _energy(velocity)
    acceptance = math.exp(min(ratio, 0.0))
    if accept < acceptance:
        return Moved(theta, value, acceptance)
    return moved._replace(acceptance=acceptance)


def _energy(velocity: Floats) -> float:
    return 0.5 * float(velocity @ velocity)


def _factor(matrix: Floats) -> Floats:
    """Cholesky factor, lower; of a matrix raised a little where rounding has left it without one."""
    factor, failed = dpotrf(matrix, lower=1)
    lift = 1e-12 * matrix.trace()
    while failed:
        factor, failed = dpotrf(matrix + lift * np.eye(len(matrix)), lower=1)
        lift *= 10
    return np.asarray(factor)
