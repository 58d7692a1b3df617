r"""Random-walk Metropolis: Gaussian steps from where a walker stands, of one size or shaped by a covariance.

The local half of the mixtures of de Freitas et al. 2001, section 4.3.  How long the steps should be is found in warm-up
by `calibrated`, for any kernel that has a step.

Antal & Sárközy's slides calibrate a random walk by the mean acceptance :math:`a_q = E_\pi E_q[\alpha(X, Y)]` (eq. 22),
but towards 1, where steps are so short that nothing moves; about .44 is right in one dimension and .234 in many.  A
common length for coordinates of different sizes, their Example 1, is cured by whitening.  The tuned kernel is a frozen
value: nothing adapts once draws are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import check_cholesky, check_indices, conditional_laws
from doxa.parameters.kernels.kernel import (
    Kernel,
    Path,
    Target,
    Tunable,
    Walkers,
    as_tunable,
    check_dimensions,
    check_inside,
    decide,
    run_lockstep,
)

__all__ = ["Calibration", "RandomWalk", "calibrated", "shrunk_cholesky"]


_OPTIMAL = 2.38  # times sd / sqrt(d): the best step on a Gaussian in many dimensions (Roberts, Gelman & Gilks 1997)


@dataclass(frozen=True, eq=False)
class RandomWalk:
    r"""Metropolis steps :math:`\theta' = \theta + sLz` with z standard normal.

    Parameters
    ----------
    scale : float, default=1.0
        s, above 0: the standard deviation of a step where there is no ``cholesky``.
    cholesky : ndarray of float, shape (d, d), optional
        Lower triangular L; the target's own is best (whitening). The identity when left out.
    coordinates : sequence of int, optional
        Move these only. Their steps have the covariance :math:`s^2 LL^T` *given that the others do not move*, which is
        narrower than their part of it. Alone, such a kernel never reaches the rest: see `block` and `cycle`.

    Raises
    ------
    ArgumentError
        If ``scale`` is not above 0, ``cholesky`` is no Cholesky factor, or ``coordinates`` are not distinct indices;
        when run, if the target has another number of coordinates.

    Notes
    -----
    The proposal is symmetric, so the acceptance probability is :math:`\min(1, p(\theta') / p(\theta))`.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.kernel import Function
    >>> normal = Function(lambda x: -0.5 * (x**2).sum(axis=1), 2)
    >>> walkers, path = RandomWalk(1.7).run(normal, start_at(normal, np.zeros((8, 2))), 4000, np.random.default_rng(1))
    >>> path.thetas.shape, round(float(path.acceptance.mean()), 2), round(float(path.thetas.var()), 1)
    ((4000, 8, 2), 0.35, 1.0)
    """

    scale: float = 1.0
    cholesky: NDArray[np.float64] | None = None
    coordinates: Sequence[int] | NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        """Refuse steps that are none."""
        _check_scale(self.scale)
        d = None
        if self.cholesky is not None:
            factor = check_cholesky("cholesky", self.cholesky)
            object.__setattr__(self, "cholesky", factor)
            d = len(factor)
        if self.coordinates is not None:
            index = check_indices("coordinates", self.coordinates, d)
            object.__setattr__(self, "coordinates", tuple(index.tolist()))

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; each step evaluates the target once, on all walkers."""
        if self.cholesky is not None:
            check_dimensions(self, len(self.cholesky), target)
        elif self.coordinates is not None:
            check_indices("coordinates", self.coordinates, target.n_dimensions)
        moved = None if self.coordinates is None else np.array(self.coordinates)
        shape = len(walkers.thetas), target.n_dimensions if moved is None else moved.size
        factor = self._factor

        def step(walkers: Walkers) -> tuple[Walkers, Floats]:
            noise = self.scale * rng.standard_normal(shape)
            change = noise if factor is None else noise @ factor.T
            if moved is None:
                proposed = walkers.thetas + change
            else:
                proposed = walkers.thetas.copy()
                proposed[:, moved] += change
            return decide(target, walkers, proposed, 0.0, rng)

        return run_lockstep(step, walkers, n_steps)

    @cached_property
    def _factor(self) -> Floats | None:
        if self.cholesky is None or self.coordinates is None:
            return self.cholesky
        return conditional_laws(self.cholesky, [np.array(self.coordinates)])[0].factor

    def within(self, coordinates: Sequence[int] | NDArray[np.intp]) -> RandomWalk:
        """The same steps, of these coordinates only."""
        return replace(self, coordinates=coordinates)

    def scaled(self, factor: float) -> RandomWalk:
        """The same steps, ``factor`` times as long."""
        _check_scale(self.scale * factor)
        _ = self._factor
        made = copy(self)  # with the shape as it is: tuning tries many scales
        object.__setattr__(made, "scale", self.scale * factor)
        return made

    def whitened(self, cholesky: Floats) -> RandomWalk:
        """Steps shaped by a covariance, of the size that is best on a Gaussian."""
        moved = len(cholesky) if self.coordinates is None else len(self.coordinates)
        return replace(self, scale=_OPTIMAL / sqrt(moved), cholesky=cholesky)

    def best_acceptance(self, n_dimensions: int) -> float:
        r"""Mean acceptance probability to aim at: .44 in one dimension, .234 in many, .234 + .206 / d between.

        Within .015 of where the mean squared jump on a Gaussian is longest: there the acceptance given a step of
        length r (in standard deviations) is :math:`2\Phi(-r/2)`, so that is an integral over r alone.
        """
        moved = n_dimensions if self.coordinates is None else len(self.coordinates)
        return 0.234 + 0.206 / moved


def _check_scale(scale: float) -> None:
    if not (scale > 0 and isfinite(scale)):
        raise ArgumentError(f"scale is {scale!r}; it must be a finite number above 0")


_STAGES = (0.125, 0.125, 0.25, 0.5)  # shares of the steps; the shape is learnt anew after each but the last
_DECAY = 0.6  # of the gains, t^-0.6: between 1/2 and 1, so that averages are efficient (Polyak & Juditsky 1992)
_CHECK = 0.25  # steps of the frozen kernel, for each step of tuning
_BATCHES = 10
_TOLERANCE = 0.05
_GROUPS = 32
_NUMBERS = 2**22  # held in memory for the covariance
_FARTHEST = 600.0  # log scale; exp overflows beyond 709


@dataclass(frozen=True, eq=False)
class Calibration:
    """What calibration did.

    Parameters
    ----------
    goal : float
        Mean acceptance probability aimed at.
    acceptance, mcse : float
        That of the frozen kernel, measured in further steps, and its standard error.
    scale : float
        Factor by which the steps of the whitened kernel (of the given one, without whitening) were made longer.
    shrinkage : float
        Share of the diagonal in the last covariance; nan without whitening.
    log_scales : ndarray of float, shape (n_steps,)
        Logarithm of the factor before each step of tuning.
    walkers : Walkers
        Where they stand now: a good place to begin, but all steps so far are warm-up.
    """

    goal: float
    acceptance: float
    mcse: float
    scale: float
    shrinkage: float
    log_scales: Floats = field(repr=False)
    walkers: Walkers = field(repr=False)

    @property
    def reached(self) -> bool:
        """Whether the acceptance lies within .05, or four standard errors, of the goal."""
        return abs(self.acceptance - self.goal) <= max(_TOLERANCE, 4 * self.mcse)


def calibrated(
    kernel: Kernel,
    target: Target,
    walkers: Walkers,
    rng: np.random.Generator,
    goal: float | None = None,
    *,
    n_steps: int | None = None,
    whiten: bool = True,
) -> tuple[Tunable, Calibration]:
    r"""Tune the length and the shape of a kernel's steps.

    Parameters
    ----------
    kernel : Tunable
        A `RandomWalk`, a cycle or mixture of such, or any kernel with ``scaled``, ``whitened`` and ``best_acceptance``.
    target : Target
    walkers : Walkers
        Where to begin; they may stand far out. Many make the tuning quieter and the covariance better.
    rng : Generator
    goal : float, optional
        Mean acceptance probability to reach, between 0 and 1; what the kernel says is best when left out.
    n_steps : int, optional
        Steps of tuning, at least 100; 500 + 50 d, at most 5000, when left out. A quarter as many follow to measure
        the result.
    whiten : bool, default=True
        Learn the covariance too, from the walkers' later places in each stage, shrunk towards its diagonal.

    Returns
    -------
    kernel : Tunable
        Frozen.
    report : Calibration
        With the walkers, moved on.  All steps so far are warm-up: none may be kept.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the kernel has no step, ``goal`` is not between 0 and 1, ``n_steps`` is too small, or a walker stands where
        the target has no density.

    Notes
    -----
    Stochastic approximation (Robbins & Monro 1951) on the logarithm of the length:
    :math:`\log s \leftarrow \log s + c\,t^{-0.6} (\bar\alpha_t - g)`, where :math:`\bar\alpha_t` is the walkers' mean
    acceptance probability at step t, g the goal and c = 1 / (g (1 - g)). What is kept is the mean of log s over the
    last half of the last stage.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> from doxa.parameters.kernels.kernel import Function
    >>> flat = Function(lambda x: -0.5 * (x[:, 0] ** 2 + (x[:, 1] / 100) ** 2), 2)
    >>> walkers, rng = start_at(flat, np.ones((16, 2))), np.random.default_rng(1)
    >>> kernel, report = calibrated(RandomWalk(), flat, walkers, rng)
    >>> report.reached, kernel.cholesky.diagonal().round(-2)
    (True, array([  0., 100.]))
    """
    tuned = as_tunable(kernel)
    goal = tuned.best_acceptance(target.n_dimensions) if goal is None else goal
    if not 0 < goal < 1:
        raise ArgumentError(f"goal is {goal!r}; a mean acceptance probability lies between 0 and 1")
    usual = min(500 + 50 * target.n_dimensions, 5000)
    n_steps = check_whole("n_steps", usual if n_steps is None else n_steps, 100)
    check_inside(walkers)
    lengths = _stages(n_steps) if whiten else [n_steps]
    log_scale, shrinkage, log_scales = 0.0, np.nan, []
    for i, length in enumerate(lengths):
        walkers, later, trace = _tune(tuned, target, walkers, rng, goal, length, log_scale)
        log_scales.append(trace)
        log_scale = float(trace[length // 2 :].mean())
        if i < len(lengths) - 1 and (later.std(axis=(0, 1)) > 0).all():
            factor, shrinkage = shrunk_cholesky(later)
            tuned = tuned.whitened(factor)
            log_scale = 0.0 if i == 0 else log_scale
    scale = float(np.exp(log_scale))
    final = tuned.scaled(scale)
    walkers, path = final.run(target, walkers, max(_BATCHES, round(_CHECK * n_steps)), rng)
    acceptance, mcse = _mean_acceptance(path.acceptance)
    return final, Calibration(goal, acceptance, mcse, scale, shrinkage, np.concatenate(log_scales), walkers)


def _stages(n_steps: int) -> list[int]:
    lengths = [round(share * n_steps) for share in _STAGES]
    lengths[-1] += n_steps - sum(lengths)
    return lengths


def _mean_acceptance(acceptance: Floats) -> tuple[float, float]:
    """Mean of acceptance probabilities along a run, and its error by batch means."""
    means = np.array([part.mean() for part in np.array_split(acceptance, _BATCHES)])
    return float(acceptance.mean()), float(means.std(ddof=1) / np.sqrt(_BATCHES))


def _tune(
    kernel: Tunable,
    target: Target,
    walkers: Walkers,
    rng: np.random.Generator,
    goal: float,
    n_steps: int,
    log_scale: float,
) -> tuple[Walkers, Floats, Floats]:
    """One stage: the walkers, some of their later places (steps, walkers, d), and the log scales."""
    later, trace = [], np.empty(n_steps)
    every = min(-(-n_steps * walkers.thetas.size // _NUMBERS), n_steps // 2)
    gain = 1 / (goal * (1 - goal))
    for t in range(n_steps):
        trace[t] = log_scale
        walkers, path = kernel.scaled(float(np.exp(log_scale))).run(target, walkers, 1, rng)
        if t >= n_steps // 2 and t % every == 0:
            later.append(walkers.thetas)
        log_scale += gain * (t + 1) ** -_DECAY * (float(path.acceptance.mean()) - goal)
        log_scale = min(max(log_scale, -_FARTHEST), _FARTHEST)
    return walkers, np.array(later), trace


def shrunk_cholesky(thetas: Floats) -> tuple[Floats, float]:
    """Cholesky factor of the covariance of paths, shrunk towards its diagonal, and the diagonal's share.

    The correlations R are shrunk to (1 - a) R + a I, with a the estimated squared error of R over its squared distance
    from I (Ledoit & Wolf 2004), at most 1 and at least d / (d + points).  The error is estimated between walkers, so
    that autocorrelation counts; with fewer than eight walkers, between stretches of their paths.
    """
    steps, walkers, d = thetas.shape
    centred = thetas - thetas.mean(axis=(0, 1))
    sd = centred.std(axis=(0, 1))
    stretches = min(steps, -(-8 // walkers))
    standard = np.moveaxis(centred / sd, 1, 0)  # (walkers, steps, d)
    groups = [
        np.concatenate(list(part))
        for stretch in np.array_split(standard, stretches, axis=1)
        for part in np.array_split(stretch, min(walkers, _GROUPS))
    ]
    n = steps * walkers
    correlation = sum(group.T @ group for group in groups) / n
    error = sum((((group.T @ group - len(group) * correlation) / n) ** 2).sum() for group in groups)
    error *= len(groups) / max(len(groups) - 1, 1)
    distance = ((correlation - np.eye(d)) ** 2).sum()
    share = 1.0 if error >= distance else max(float(error / distance), d / (d + n))
    factor = np.linalg.cholesky((1 - share) * correlation + share * np.eye(d))
    return sd[:, None] * factor, share
