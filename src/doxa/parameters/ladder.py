"""The ladder of methods: from an approximation to a kernel that draws from the posterior itself.

Pilot draws decide.  Where independent proposals from the approximation are good, nothing beats them; else perhaps those
from a t distribution of the same shape, whose tails are longer than any such posterior's (the prior's are Gaussian), so
that weights are bounded; else flips (both ends of a step), which cancel skewness; else Hamiltonian steps that rotate
under the approximation and are kicked by what it lacks; and where the posterior is far from any Gaussian, Hamiltonian
steps with a metric of their own.
Decisions rest on counted draws, never on time, so that one seed gives one rung.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.mcmc.importance_proposals import Proposal
from doxa.mcmc.kernels.flip import Flip, draw_pairs
from doxa.mcmc.kernels.gaussians import GaussianProposal
from doxa.mcmc.kernels.hamiltonian import warmed_up
from doxa.mcmc.kernels.independence import Independence
from doxa.mcmc.kernels.kernel import Kernel, start_at
from doxa.mcmc.kernels.split import tuned_split
from doxa.mcmc.student import Student
from doxa.mcmc.targets import SmoothTarget, Target
from doxa.parameters.pilot import PILOT_DRAWS, Pilot, judge_pilot, run_pilot

__all__ = ["WALKERS", "Rung", "climb", "tuning_walkers"]

Floats: TypeAlias = NDArray[np.float64]

WALKERS = 8  # chains in lockstep where steps need gradients
_TUNING_WALKERS, _FEW_TUNING_WALKERS = 32, 8
_LARGE = 250  # coefficients from which pilots and tuning make do with less: each step is then seconds of work
_DF = 8.0  # degrees of freedom; in more than some ten dimensions a t is no Gaussian any more, and its pilot says so
_LEAST_WITH_TAILS = 0.4  # effective draws a draw below which flips or kicks are tried
_FLIP_EFFICIENCY = 0.4  # each flip costs two evaluations
_SPLIT_ACCEPTANCE = 0.6


class Rung(NamedTuple):
    """A kernel for one part, and why it was chosen."""

    method: str
    kernel: Kernel | None  # None where there is a sampler of its own
    start: Proposal | None
    walkers: int  # in each of the driver's chains
    pilot: Pilot  # of the approximation's weights
    why: str
    sampler: Any = None  # of one walker, in the place of a kernel


def tuning_walkers(target: Target) -> int:
    """Walkers that tune a kernel: many make it sure, few make it quick where there are many coefficients."""
    return _TUNING_WALKERS if target.n_dimensions < _LARGE else _FEW_TUNING_WALKERS


def climb(target: SmoothTarget, gaussian: GaussianProposal, rng: np.random.Generator) -> Rung:
    """The first rung that will do for a posterior with one mode.

    Parameters
    ----------
    target : SmoothTarget
    gaussian : GaussianProposal
        The approximation.
    rng : numpy.random.Generator
        Advanced; what is drawn here decides and tunes, and is never kept.
    """
    pilot = run_pilot(target, gaussian, rng)
    if pilot.good:
        return Rung("independence", Independence(gaussian), gaussian, 1, pilot, f"the approximation is good: {pilot}")
    poor = f"the approximation alone is not good enough ({pilot})"
    if target.n_dimensions < _LARGE:  # beyond, neither has ever been good enough, and their pilots take seconds
        longer = Student(gaussian.mean, gaussian.cholesky, _DF)
        tails = run_pilot(target, longer, rng)
        if tails.good_with_long_tails and tails.efficiency > _LEAST_WITH_TAILS:
            why = f"{poor}, but with longer tails it is ({tails})"
            return Rung("independence", Independence(longer), longer, 1, pilot, why)
        pairs = judge_pilot(draw_pairs(target, gaussian, PILOT_DRAWS, rng).log_weights)
        if pairs.good and pairs.efficiency >= _FLIP_EFFICIENCY:
            return Rung("flip", Flip(gaussian), gaussian, 1, pilot, f"{poor}, but flips are: {pairs}")
    walkers = start_at(target, np.asarray(gaussian.sample(tuning_walkers(target), rng)))
    split, walkers, report = tuned_split(target, gaussian, walkers, rng)
    accepted = f"Hamiltonian steps under it are accepted with probability {report.acceptance:.2f}"
    if report.acceptance >= _SPLIT_ACCEPTANCE:
        return Rung("split_hmc", split, gaussian, WALKERS, pilot, f"{poor}; {accepted}")
    hamiltonian, walkers, _ = warmed_up(target, walkers, rng, gaussian=gaussian)
    return Rung("hmc", hamiltonian, gaussian, WALKERS, pilot, f"{poor}; {accepted}, so they have a metric of their own")
