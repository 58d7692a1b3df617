"""The ladder of methods: from an approximation to a kernel that draws from the posterior itself.

Pilot draws decide, and a look along lines at how far the posterior goes (`doxa.parameters.reach`).  Where independent
proposals from the approximation are good, nothing beats them: they have tails and a share of the prior, so that their
weights are bounded.  Else perhaps those from a mixture that is fitted to the posterior, in few dimensions; else flips
(both ends of a step), which cancel skewness; else Hamiltonian steps that rotate under the approximation and are kicked
by what it lacks; and where the posterior is far from any Gaussian, or goes on beyond it, Hamiltonian steps with a
metric of their own.  Decisions rest on counted draws, never on time, so that one seed gives one rung.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.kernels.defensive import Defensive
from doxa.parameters.kernels.flip import Flip, draw_pairs
from doxa.parameters.kernels.gaussians import GaussianProposal
from doxa.parameters.kernels.hamiltonian import warmed_up
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import Kernel, start_at
from doxa.parameters.kernels.split import tuned_split
from doxa.parameters.kernels.targets import SmoothTarget, Target
from doxa.parameters.pilot import PILOT_DRAWS, Pilot, judge_pilot
from doxa.parameters.reach import LARGE, LONG, Reach, grown, reach_of
from doxa.sampling.importance_proposals import Proposal

__all__ = ["WALKERS", "Rung", "climb", "independently", "tuning_walkers"]

Floats: TypeAlias = NDArray[np.float64]

WALKERS = 8  # chains in lockstep where steps need gradients
_TUNING_WALKERS, _FEW_TUNING_WALKERS = 32, 8
_FLIP_EFFICIENCY = 0.4  # each flip costs two evaluations
_SPLIT_ACCEPTANCE = 0.6


class Rung(NamedTuple):
    """A kernel for one part, and why it was chosen."""

    method: str
    kernel: Kernel | None  # None where there is a sampler of its own
    start: Proposal | None
    walkers: int  # in each of the driver's chains
    pilot: Pilot  # of the weights of its proposals
    why: str
    sampler: Any = None  # of one walker, in the place of a kernel
    reach: Reach | None = None  # a proposal with bounded weights: for the evidence
    doubt: str = ""  # what speaks against the chain, whatever it looks like
    n_evaluations: int = 1  # of the target in a step, where these are so many that a few steps take long


def tuning_walkers(target: Target) -> int:
    """Walkers that tune a kernel: many make it sure, few make it quick where there are many coefficients."""
    return _TUNING_WALKERS if target.n_dimensions < LARGE else _FEW_TUNING_WALKERS


def independently(reach: Reach, why: str, doubt: str = "") -> Rung:
    """Chains of independent proposals."""
    kernel = Independence(reach.proposal)
    return Rung("independence", kernel, reach.proposal, 1, reach.pilot, why, None, reach, doubt)


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
    reach = reach_of(target, gaussian, rng)
    pilot, known = reach.pilot, reach
    if reach.good:
        why = f"the approximation is good: {pilot}"
        return independently(reach, why)
    poor = f"the approximation alone is not good enough ({pilot})"
    long = reach.beyond > LONG
    if long:
        poor = (
            f"the posterior goes on beyond the approximation ({pilot}; {reach.beyond:.1g} of a line's mass is outside)"
        )
    better = grown(target, gaussian, reach, rng)
    if better is not reach:
        known = better
        if better.good:
            return independently(better, f"{poor}, but a mixture is ({better.pilot})")
    if target.n_dimensions < LARGE and not long:  # beyond, flips have never been good enough, and a pilot takes seconds
        symmetric = Defensive(gaussian)
        pairs = judge_pilot(draw_pairs(target, symmetric, PILOT_DRAWS, rng).log_weights)
        if pairs.good and pairs.efficiency >= _FLIP_EFFICIENCY:
            return Rung("flip", Flip(symmetric), symmetric, 1, pilot, f"{poor}, but flips are: {pairs}", None, known)
    walkers = start_at(target, np.asarray(gaussian.sample(tuning_walkers(target), rng)))
    if not long:
        split, walkers, report = tuned_split(target, gaussian, walkers, rng)
        poor = f"{poor}; Hamiltonian steps under it are accepted with probability {report.acceptance:.2f}"
        if report.acceptance >= _SPLIT_ACCEPTANCE:
            return Rung("split_hmc", split, gaussian, WALKERS, pilot, poor, None, known)
    hamiltonian, walkers, _ = warmed_up(target, walkers, rng, gaussian=gaussian)
    return Rung(
        "hmc", hamiltonian, gaussian, WALKERS, pilot, f"{poor}, so they have a metric of their own", None, known
    )
