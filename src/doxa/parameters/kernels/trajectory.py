r"""Trajectories of Hamiltonian kernels, for many walkers in lockstep, in whitened coordinates.

With :math:`\theta = m + L y` and momenta v that are standard normal, y has the log density :math:`\log p(m + L y)` up
to a constant, and a trajectory is any map of (y, v) that keeps volume and is undone by itself when v changes sign: a
palindrome of shifts of y by v, rotations of (y, v), and kicks of v by a function of y.  Its end is accepted with
probability :math:`\min(1, e^{\Delta (\log p - |v|^2 / 2)})` (Duane et al. 1987).  Which palindrome, and how it is
tuned, is for the kernels: `doxa.parameters.kernels.split`, `doxa.parameters.kernels.hamiltonian`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.kernel import Path, SmoothTarget, Target, TargetError, ValueAndGradient, Walkers

__all__ = [
    "Palindrome",
    "Phase",
    "Whitening",
    "as_smooth",
    "leapfrog",
    "mixing",
    "move",
    "palindrome",
    "rotate_and_kick",
    "run_trajectories",
    "slopes_at",
]

_WILD = 1e6  # change of momentum by one kick, in standard deviations; beyond it nothing is sampled any more
_MOST_ALIKE = 1 - 1e-9


class Phase(NamedTuple):
    """Where walkers stand, and which way is up."""

    y: Floats  # (walkers, d), whitened
    thetas: Floats  # (walkers, d)
    value: Floats  # (walkers,), log density, nats
    slope: Floats  # (walkers, d), of the log density in y


Trajectory: TypeAlias = Callable[[Phase, Floats], tuple[Phase, Floats]]  # phase and momenta, at either end


@dataclass(frozen=True, eq=False)
class Whitening:
    """Coordinates y with theta = centre + cholesky y."""

    centre: Floats  # (d,)
    cholesky: Floats  # (d, d), lower

    @cached_property
    def _transposed(self) -> Floats:
        return np.ascontiguousarray(self.cholesky.T)

    def undo(self, thetas: Floats) -> Floats:
        """The whitened coordinates of points (..., d)."""
        away = (thetas - self.centre).reshape(-1, len(self.centre))
        y = solve_triangular(self.cholesky, away.T, lower=True, check_finite=False).T
        return np.ascontiguousarray(y).reshape(thetas.shape)

    def begin(self, target: SmoothTarget, thetas: Floats) -> Phase:
        """The phase at these points (walkers, d)."""
        value, gradient = slopes_at(target, thetas)
        return Phase(self.undo(thetas), thetas, value, gradient @ self.cholesky)

    def at(self, target: SmoothTarget, y: Floats) -> Phase:
        """The phase at whitened points (walkers, d)."""
        thetas = self.centre + y @ self._transposed
        value, gradient = slopes_at(target, thetas)
        return Phase(y, thetas, value, gradient @ self.cholesky)


def as_smooth(target: Target, n_dimensions: int, kernel: str) -> SmoothTarget:
    """The target, if it has a gradient and so many coordinates; else ArgumentTypeError or ArgumentError."""
    if not callable(getattr(target, "value_and_gradient", None)):
        raise ArgumentTypeError(
            f"target is of type {type(target).__name__}, which has no value_and_gradient; {kernel} needs slopes, "
            "Independence and RandomWalk do without"
        )
    if target.n_dimensions != n_dimensions:
        raise ArgumentError(f"target has {target.n_dimensions} coordinates, but {kernel} was made for {n_dimensions}")
    return cast(SmoothTarget, target)


def slopes_at(target: SmoothTarget, thetas: Floats) -> ValueAndGradient:
    """Log density and gradient at each row of ``thetas``; the gradient is 0 where there is no density.

    Raises TargetError if a density is NaN or plus infinity, a gradient is not finite, or a shape is another.
    """
    value, gradient = target.value_and_gradient(thetas)
    if value.shape != thetas.shape[:1] or gradient.shape != thetas.shape:
        raise TargetError(
            f"value_and_gradient of points {thetas.shape} has shapes {value.shape} and {gradient.shape}; return one "
            "number and one slope a point"
        )
    if not (np.isfinite(value).all() and np.isfinite(gradient).all()):
        outside = np.isneginf(value)
        gradient = np.where(outside[:, None], 0.0, gradient)
        for name, array in (("log density", np.where(outside, 0.0, value)), ("gradient", gradient)):
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            if bad.any():
                k = int(bad.argmax())
                raise TargetError(
                    f"the {name} is {array[k]} at {np.array2string(thetas[k], threshold=8, precision=4)}; it must be "
                    "finite, or the log density minus infinity where the distribution has no mass"
                )
    return ValueAndGradient(value, gradient)


class Palindrome(NamedTuple):
    """Shares of the whole trajectory, alike from both ends: kick, rotate, kick, ..., rotate, kick."""

    turns: Floats  # (n,), sum 1
    kicks: Floats  # (n + 1,), sum 1


@lru_cache
def palindrome(n: int) -> Palindrome:
    """Kick, then n times rotate and kick, halfway between equal steps and Gauss-Lobatto's.

    To first order in the residual r the error of the energy is that of a quadrature rule for the integral of dr along
    the rotation, so Gauss-Lobatto nodes and weights leave the terms of second order alone (McLachlan 1995; Laskar &
    Robutel 2001); equal steps make those smaller.  Halfway, rejections are half as frequent as with either where both
    matter (logistic regression, 50 and 100 coefficients, 2 to 4 kicks), and no more frequent elsewhere.
    """
    p_n = np.polynomial.legendre.Legendre.basis(n)
    inner = p_n.deriv().roots().real if n > 1 else np.empty(0)
    nodes = np.concatenate([[-1.0], np.sort(inner - inner[::-1]) / 2, [1.0]])  # exactly symmetric
    weights = 1 / (n * (n + 1) * p_n(nodes) ** 2)
    equal = np.full(n + 1, 1 / n)
    equal[[0, -1]] /= 2
    turns, kicks = (np.diff(nodes) / 2 + 1 / n) / 2, (weights + equal) / 2
    steps = Palindrome((turns + turns[::-1]) / 2, (kicks + kicks[::-1]) / 2)
    for shares in steps:
        shares.flags.writeable = False
    return steps


def rotate_and_kick(
    target: SmoothTarget, whitening: Whitening, start: Phase, momenta: Floats, angle: float, steps: Palindrome
) -> tuple[Phase, Floats]:
    """Rotate (y, v) by ``angle`` in all, as the Gaussian moves them, kicked by the slope of the rest, log p + |y|^2/2.

    New arrays.  Walkers that leave every bound on the way end with a density of 0.
    """
    guard = _Guard(start.y, angle)
    end, y, v = start, start.y, momenta
    for turn, kick in zip([0.0, *angle * steps.turns], angle * steps.kicks, strict=True):
        if turn:
            cosine, sine = np.cos(turn), np.sin(turn)
            y, v = cosine * y + sine * v, cosine * v - sine * y
            end = whitening.at(target, y)
        y, v, pull = guard.check(y, v, end.slope + y)
        v = v + kick * pull
    return guard.lose(end), v


def leapfrog(
    target: SmoothTarget, whitening: Whitening, start: Phase, momenta: Floats, step: float, n: int
) -> tuple[Phase, Floats]:
    """Take n steps of the leapfrog scheme: half a kick, then n times shift and kick, the last by half.

    New arrays.  Walkers that leave every bound on the way end with a density of 0.
    """
    guard = _Guard(start.y, step)
    y, v, pull = guard.check(start.y, momenta, start.slope)
    v = v + 0.5 * step * pull
    end = start
    for k in range(1, n + 1):
        y = y + step * v
        end = whitening.at(target, y)
        y, v, pull = guard.check(y, v, end.slope)
        v = v + (step if k < n else 0.5 * step) * pull
    return guard.lose(end), v


class _Guard:
    """Sends walkers home that would be kicked out of every bound, so that the target can be evaluated.

    They will be rejected.  The rule looks at the slopes on the way alone, and so treats a trajectory as its reverse.
    """

    def __init__(self, home: Floats, longest_kick: float) -> None:
        self.home = home
        self.limit = _WILD / longest_kick
        self.lost: NDArray[np.bool_] | None = None

    def check(self, y: Floats, v: Floats, pull: Floats) -> tuple[Floats, Floats, Floats]:
        if np.abs(pull).max() <= self.limit:  # False if NaN
            return y, v, pull
        wild = ~(np.abs(pull).max(axis=1) <= self.limit)
        self.lost = wild if self.lost is None else self.lost | wild
        away = wild[:, None]
        return np.where(away, self.home, y), np.where(away, 0.0, v), np.where(away, 0.0, pull)

    def lose(self, end: Phase) -> Phase:
        return end if self.lost is None else end._replace(value=np.where(self.lost, -np.inf, end.value))


def move(start: Phase, trajectory: Trajectory, rng: np.random.Generator) -> tuple[Phase, Floats]:
    """Draw momenta, follow the trajectory, accept or reject its end; and the acceptance probabilities (walkers,)."""
    momenta = rng.standard_normal(start.y.shape)
    end, final = trajectory(start, momenta)
    kinetic = 0.5 * (np.einsum("ij,ij->i", momenta, momenta) - np.einsum("ij,ij->i", final, final))
    log_ratio = np.where(np.isneginf(end.value), -np.inf, end.value - start.value + kinetic)
    accepted = np.log1p(-rng.random(len(log_ratio))) < log_ratio  # 1 - u is in (0, 1], so finite
    if accepted.all():
        phase = end
    else:
        phase = Phase(
            np.where(accepted[:, None], end.y, start.y),
            np.where(accepted[:, None], end.thetas, start.thetas),
            np.where(accepted, end.value, start.value),
            np.where(accepted[:, None], end.slope, start.slope),
        )
    return phase, np.exp(np.minimum(log_ratio, 0.0))


def run_trajectories(
    trajectory: Trajectory, start: Phase, n_steps: int, rng: np.random.Generator
) -> tuple[Walkers, Path]:
    """Move all walkers ``n_steps`` times, by trajectories that may draw their own lengths."""
    n, d = start.y.shape
    path = Path(np.empty((n_steps, n, d)), np.empty((n_steps, n)), np.empty((n_steps, n)))
    phase = start
    for t in range(n_steps):
        phase, path.acceptance[t] = move(phase, trajectory, rng)
        path.thetas[t], path.log_density[t] = phase.thetas, phase.value
    return Walkers(phase.thetas, phase.value), path


def mixing(y: Floats) -> float:
    r"""Effective draws a step: :math:`(1 - \rho) / (1 + \rho)` of paths (steps, walkers, d) in whitened coordinates.

    :math:`\rho` is the autocorrelation from one step to the next, averaged over the coordinates, or that of their
    squares if it is larger: steps to the other side of the centre make means exact and learn nothing of the spread.

    Examples
    --------
    >>> bool(abs(mixing(np.random.default_rng(1).standard_normal((100, 32, 3))) - 1) < 0.1)
    True
    """
    z = y - y.mean(axis=(0, 1))
    alike = []
    for x in (z, z * z):
        away = x - x.mean(axis=(0, 1))
        spread = (away * away).mean(axis=(0, 1))
        jump = (np.diff(x, axis=0) ** 2).mean(axis=(0, 1))
        alike.append(1 - float(np.divide(jump, 2 * spread, out=np.zeros_like(jump), where=spread > 0).mean()))
    rho = min(max(*alike, -_MOST_ALIKE), _MOST_ALIKE)
    return (1 - rho) / (1 + rho)
