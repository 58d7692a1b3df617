r"""Hamiltonian steps that rotate exactly under a Gaussian and are kicked by what it lacks of the target.

In coordinates whitened by N(m, S) the Gaussian alone turns (y, v) along circles; turning them so needs no evaluation of
the target and makes no error.  The slope of the rest, :math:`r(y) = \log p + |y|^2 / 2`, kicks v between the turns
('split' Hamiltonian Monte Carlo: Shahbaba et al. 2014, there under Laplace's approximation).  Where the Gaussian is
good, two or three kicks give nearly independent draws in dimensions in which its own draws are no longer accepted;
where it is not, `doxa.parameters.kernels.hamiltonian` does without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.parameters.kernels.kernel import Path, Target, Walkers
from doxa.parameters.kernels.trajectory import (
    Phase,
    Whitening,
    as_smooth,
    mixing,
    palindrome,
    rotate_and_kick,
    run_trajectories,
)

__all__ = ["SplitHamiltonian", "SplitPilot", "SplitTuning", "tuned_split"]

# Beyond a quarter turn draws are antithetic: means gain more than spreads lose. Logistic regression, 50 and 100
# coefficients, 3 kicks, at .5, .55, .6 and .65 pi: bulk ESS 0.9, 1.2, 1.7, 2.3 and 0.5, 0.7, 0.8, 0.9 a step, tail ESS
# .89, .93, .93, .87 and .62, .64, .67, .63.
_ANGLE = 0.6 * np.pi
_CLOSEST = 0.05 * np.pi  # to 0 and pi

_MOST_KICKS = 6
_PILOT = 24  # steps
_GOOD_ACCEPTANCE = 0.8


@dataclass(frozen=True, eq=False)
class SplitHamiltonian:
    r"""Kick, then ``n_kicks`` times rotate and kick, through a total angle; accepted or not as a whole.

    Parameters
    ----------
    gaussian : GaussianProposal
        Its ``mean`` (d,) and ``cholesky`` (d, d); nothing is drawn from it.
    n_kicks : int, default=3
        Evaluations of the target and its gradient a step, at least 1.
    angle : float, default=0.6 pi
        Total angle, radians, between 0 and pi: at multiples of pi a Gaussian's draws never change their distance from
        its mean.
    jitter : float, default=0.1
        Each step's angle is drawn uniformly from ``angle`` times (1 - jitter, 1 + jitter), the same for all walkers, so
        that no period can hold; these ends too must stay .05 pi away from 0 and pi.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``gaussian`` has no mean and Cholesky factor, or a number is out of range; when it is run, if the target has
        no gradient or another number of coordinates.
    TargetError
        When it is run: if a log density is NaN or plus infinity, or a gradient is not finite.

    Notes
    -----
    Rotations keep :math:`(|y|^2 + |v|^2) / 2`, kicks do not, so the step is accepted with probability
    :math:`\min(1, e^{-\Delta H})`, :math:`H = -r(y) + (|y|^2 + |v|^2) / 2 = -\log p + |v|^2 / 2`.  The angles and the
    strengths of the kicks are those of `doxa.parameters.kernels.trajectory.palindrome`.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.sampling.gaussian import Gaussian
    >>> class Gumbel:
    ...     n_dimensions = 1
    ...
    ...     def log_density(self, x):
    ...         return (-x - np.exp(-x))[:, 0]
    ...
    ...     def value_and_gradient(self, x):
    ...         return self.log_density(x), np.exp(-x) - 1
    >>> rng, near = np.random.default_rng(1), Gaussian(np.array([0.5]), np.array([[1.2]]))
    >>> walkers, path = SplitHamiltonian(near).run(Gumbel(), start_at(Gumbel(), np.zeros((64, 1))), 1000, rng)
    >>> round(float(path.thetas.mean()), 1), bool(path.acceptance.mean() > 0.9)  # exact: Euler's constant, 0.577
    (0.6, True)
    """

    gaussian: GaussianProposal
    n_kicks: int = 3
    angle: float = _ANGLE
    jitter: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is no Gaussian, and angles at which nothing would mix."""
        check_gaussian("gaussian", self.gaussian)
        check_whole("n_kicks", self.n_kicks, 1)
        if not 0 <= self.jitter < 1:
            raise ArgumentError(f"jitter is {self.jitter!r}; it must be at least 0 and below 1")
        low, high = self.angle * (1 - self.jitter), self.angle * (1 + self.jitter)
        if not (low >= _CLOSEST and high <= np.pi - _CLOSEST):
            raise ArgumentError(
                f"angle is {self.angle / np.pi:.4g} pi and jitter {self.jitter:g}, so steps turn by {low / np.pi:.4g} "
                f"to {high / np.pi:.4g} pi; they must stay between .05 and .95 pi, as at multiples of pi walkers keep "
                "their distance from the mean; .6 pi is good"
            )

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; ``n_kicks`` batches of evaluations a step, and one at the start."""
        smooth = as_smooth(target, self.gaussian.mean.size, type(self).__name__)
        whitening = Whitening(self.gaussian.mean, self.gaussian.cholesky)
        steps = palindrome(self.n_kicks)

        def trajectory(start: Phase, momenta: Floats) -> tuple[Phase, Floats]:
            angle = self.angle * (1 + self.jitter * (2 * rng.random() - 1))
            return rotate_and_kick(smooth, whitening, start, momenta, angle, steps)

        with np.errstate(over="ignore", invalid="ignore"):  # far out on trajectories that will be rejected
            return run_trajectories(trajectory, whitening.begin(smooth, walkers.thetas), n_steps, rng)


class SplitPilot(NamedTuple):
    """What a few steps with so many kicks showed."""

    n_kicks: int
    acceptance: float  # mean probability of accepting
    efficiency: float  # effective draws an evaluation of the gradient, of the worse of coordinates and their squares


class SplitTuning(NamedTuple):
    """How the number of kicks was chosen."""

    n_kicks: int
    acceptance: float  # of the chosen number, in its pilot
    efficiency: float  # likewise
    pilots: tuple[SplitPilot, ...]  # all that were tried
    n_evaluations: int  # of the target, points


def tuned_split(
    target: Target,
    gaussian: GaussianProposal,
    walkers: Walkers,
    rng: np.random.Generator,
    *,
    angle: float = _ANGLE,
    jitter: float = 0.1,
) -> tuple[SplitHamiltonian, Walkers, SplitTuning]:
    """Choose the number of kicks by short pilots, from 1 upwards.

    Parameters
    ----------
    target : SmoothTarget
    gaussian : GaussianProposal
    walkers : Walkers
        Where to begin, such as draws from ``gaussian``; about 32 make the choice sure.
    rng : Generator
    angle, jitter : float
        As in `SplitHamiltonian`.

    Returns
    -------
    kernel : SplitHamiltonian
        With the number of kicks, at most 6, that has the most effective draws a gradient among those that are accepted
        with probability .8 at least; if none is, the one that is accepted most often.
    walkers : Walkers
        Moved on; all steps so far are warm-up.
    report : SplitTuning
        An acceptance below about .6 says that the Gaussian is not good enough for this kernel.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.sampling.gaussian import Gaussian
    >>> class Quartic:
    ...     n_dimensions = 2
    ...
    ...     def log_density(self, x):
    ...         return -0.5 * (x**2 + 0.1 * x**4).sum(axis=1)
    ...
    ...     def value_and_gradient(self, x):
    ...         return self.log_density(x), -x - 0.2 * x**3
    >>> rng, near = np.random.default_rng(1), Gaussian(np.zeros(2), 0.8 * np.eye(2))
    >>> start = start_at(Quartic(), near.sample(32, rng))
    >>> kernel, walkers, report = tuned_split(Quartic(), near, start, rng)
    >>> kernel.n_kicks <= 2, report.acceptance > 0.85
    (True, True)
    """
    pilots: list[SplitPilot] = []
    best = SplitHamiltonian(gaussian, 1, angle, jitter)
    smooth = as_smooth(target, gaussian.mean.size, "tuned_split")
    whitening = Whitening(gaussian.mean, gaussian.cholesky)
    chosen, n_evaluations = SplitPilot(0, 0.0, -1.0), 0
    for n_kicks in range(1, _MOST_KICKS + 1):
        kernel = SplitHamiltonian(gaussian, n_kicks, angle, jitter)
        walkers, path = kernel.run(smooth, walkers, _PILOT, rng)
        pilot = SplitPilot(n_kicks, float(path.acceptance.mean()), mixing(whitening.undo(path.thetas)) / n_kicks)
        pilots.append(pilot)
        n_evaluations += len(walkers.thetas) * (1 + n_kicks * _PILOT)
        if _rank(pilot) > _rank(chosen):
            chosen, best = pilot, kernel
        elif chosen.acceptance >= _GOOD_ACCEPTANCE:
            break
    return best, walkers, SplitTuning(*chosen, tuple(pilots), n_evaluations)


def _rank(pilot: SplitPilot) -> tuple[bool, float]:
    """Efficiency among pilots that move; where walkers stick, a few steps cannot tell it, and acceptance ranks."""
    good = pilot.acceptance >= _GOOD_ACCEPTANCE
    return good, pilot.efficiency if good else pilot.acceptance
