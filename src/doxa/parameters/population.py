r"""A mixture of t distributions fitted to a target by weighted draws: population Monte Carlo.

Draws from the mixture are weighted by target over mixture; one step of EM on them gives the next mixture (Cappe, Douc,
Guillin, Marin & Robert 2008, with components of t: each draw counts the less for a component's scale, the farther off
it lies).  Its expected log density under the target does not fall, but for noise.  The mixture with the most effective
draws is kept, so a step that goes wrong is not taken.  Where a component a mode is not enough, as for a bent posterior,
components are split along their longest axis and fitted again.  A wide component that stays as it is, with the prior's
spread, bounds the weights where the others are blind (de Freitas et al. 2001, corollary 1, corrected).

Modes of a posterior, and a Gaussian at each: the beginnings of an approximation where there may be several.

With hidden nodes the log posterior is not concave: signs and labels can be exchanged, and other modes exist (de Freitas
et al. 2001, section 5.2).  Ascents from many places find modes, not all of them for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from doxa.arrays import Floats
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.kernels.kernel import SmoothTarget, Target, values_at
from doxa.parameters.pilot import Pilot, judge_pilot
from doxa.sampling.importance_proposals import Mixture

__all__ = ["WIDE_SHARE", "Mode", "curvature_at", "find_modes", "fit_mixture", "grow_mixture", "mixture_at"]


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
    """Ascend from every start (n, d) by L-BFGS; distinct modes, the largest mass first.

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
        optimum = minimize(downhill, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-6})
        if not np.isfinite(optimum.fun):
            continue
        known = (_distance(mode, optimum.x) < _NEAR and abs(mode.log_density + optimum.fun) < _NEAR for mode in found)
        if not any(known):
            found.append(Mode(optimum.x, -float(optimum.fun), curvature_at(target, optimum.x)))
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


WIDE_SHARE = 0.1  # weight of the wide component

_DF = 5.0
_ENOUGH = 0.6  # effective draws a draw at which more components would cost more than they bring
_LEAST_WEIGHT = 0.01  # a component is not given up: what it covers may only look empty


def mixture_at(modes: Sequence[Mode], most: int = 16, df: float = _DF) -> Mixture:
    """A component at each of the first modes, weighted by their masses; Gaussians if ``df`` is infinite."""
    kept = list(modes)[:most]
    mass = np.array([mode.log_mass for mode in kept])
    weights = np.maximum(np.exp(mass - logsumexp(mass)), _LEAST_WEIGHT)
    return Mixture([Student(mode.mean, mode.cholesky, df) for mode in kept], weights / weights.sum())


def fit_mixture(
    target: Target,
    mixture: Mixture,
    rng: np.random.Generator,
    *,
    draws: int = 2000,
    rounds: int = 10,
    wide: Student | None = None,
) -> tuple[Mixture, Pilot]:
    """The best mixture of some rounds, and how its draws were weighted."""
    if wide is not None:
        mixture = _with_wide(_components(mixture), np.asarray(mixture.weights), wide)
    best, found = mixture, Pilot(0, -1.0, np.inf)
    for left in reversed(range(rounds)):
        n = draws * len(mixture.components)
        thetas = np.asarray(mixture.sample(n, rng))
        distances = [component.distances(thetas) for component in _components(mixture)]
        terms = _log_terms(mixture, distances)
        log_weights = values_at(target, thetas) - np.logaddexp.reduce(terms, axis=0)
        pilot = judge_pilot(log_weights)
        if pilot.efficiency > found.efficiency:
            best, found = mixture, pilot
        if pilot.efficiency > 0.9 or not pilot.efficiency > 0 or not left:
            break
        mixture = _step(mixture, thetas, log_weights, distances, terms, wide)
    return best, found


def grow_mixture(
    target: Target, mixture: Mixture, rng: np.random.Generator, wide: Student, *, most: int = 16, draws: int = 2000
) -> tuple[Mixture, Pilot]:
    """Fit a mixture, and split its components for as long as that makes it better and there are at most ``most``."""
    best, found = fit_mixture(target, mixture, rng, draws=draws, wide=wide)
    while found.efficiency < _ENOUGH and 2 * (len(best.components) - 1) <= most:
        split, pilot = fit_mixture(target, _split(best), rng, draws=draws, wide=wide)
        if pilot.efficiency <= found.efficiency:
            break
        best, found = split, pilot
    return best, found


def _split(mixture: Mixture) -> Mixture:
    """Two components for each but the last: variance along the longest axis divided between distance and widths."""
    components = []
    for component in _components(mixture)[:-1]:
        axes, lengths, _ = np.linalg.svd(component.cholesky)
        step = np.sqrt(0.5) * lengths[0] * axes[:, 0]
        scale = component.cholesky @ component.cholesky.T - np.outer(step, step)
        root = np.asarray(np.linalg.cholesky(scale), dtype=np.float64)
        components += [Student(component.mean + sign * step, root, component.df) for sign in (1.0, -1.0)]
    weights = np.asarray(mixture.weights)[:-1]
    return Mixture(components, np.repeat(weights / weights.sum(), 2) / 2)


def _with_wide(components: Sequence[Student], weights: Floats, wide: Student) -> Mixture:
    return Mixture([*components, wide], np.append((1 - WIDE_SHARE) * weights / weights.sum(), WIDE_SHARE))


def _log_terms(mixture: Mixture, distances: Sequence[Floats]) -> Floats:
    """Log of each component's share of the density (components, n) at points so far from each."""
    components = _components(mixture)
    terms = np.stack([component.log_density_at(far) for component, far in zip(components, distances, strict=True)])
    return np.asarray(terms + np.log(np.asarray(mixture.weights))[:, None])


def _step(
    mixture: Mixture,
    thetas: Floats,
    log_weights: Floats,
    distances: Sequence[Floats],
    terms: Floats,
    wide: Student | None,
) -> Mixture:
    """One step of EM on weighted draws."""
    weights = np.exp(log_weights - log_weights.max())
    weights = np.minimum(weights, np.sqrt(weights.size) * weights.mean())  # one draw must not become a component
    weights /= weights.sum()
    shares = np.exp(terms - logsumexp(terms, axis=0)) * weights
    mass = shares.sum(axis=1)
    components = [
        _refit(component, thetas, far, share) if total * len(thetas) > 2 * thetas.shape[1] else component
        for component, far, share, total in zip(_components(mixture), distances, shares, mass, strict=True)
    ]
    mass = np.maximum(mass, _LEAST_WEIGHT)
    if wide is not None:
        return _with_wide(components[:-1], mass[:-1], wide)
    return Mixture(components, mass / mass.sum())


def _components(mixture: Mixture) -> list[Student]:
    components = [component for component in mixture.components if isinstance(component, Student)]
    assert len(components) == len(mixture.components)
    return components


def _refit(component: Student, thetas: Floats, distances: Floats, shares: Floats) -> Student:
    d = thetas.shape[1]
    scaled = shares * component.pulls_at(distances)
    mean = scaled @ thetas / scaled.sum()
    residual = thetas - mean
    scale = (residual * scaled[:, None]).T @ residual / shares.sum()
    effective = shares.sum() ** 2 / (shares @ shares)
    trust = effective / (effective + d)  # few draws know little of a covariance
    scale = trust * scale + (1 - trust) * component.cholesky @ component.cholesky.T
    try:
        return Student(mean, np.linalg.cholesky(scale), component.df)
    except np.linalg.LinAlgError:
        return component
