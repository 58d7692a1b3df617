r"""The cascade of methods: from an approximation to a kernel that draws from the posterior itself.

Pilot draws decide, and a look along lines at how far the posterior goes (`doxa.parameters.cascade`).  Where independent
proposals from the approximation are good, nothing beats them: they have tails and a share of the prior, so that their
weights are bounded.  Else perhaps those from a mixture that is fitted to the posterior, in few dimensions; else flips
(both ends of a step), which cancel skewness; else Hamiltonian steps that rotate under the approximation and are kicked
by what it lacks; and where the posterior is far from any Gaussian, or goes on beyond it, Hamiltonian steps with a
metric of their own.  Decisions rest on counted draws, never on time, so that one seed gives one rung.

Proposals that reach what they are to propose: bounded weights, and a look along lines at how far the target goes.

A pilot that draws from an approximation cannot see what the approximation misses: on quasi-separated data the posterior
runs on for many of the Gaussian's standard deviations, where none of 512 draws lands.  So three things are asked of the
target itself.  The proposal has tails and a share of the prior (`doxa.parameters.kernels.defensive`), and its pilot is
run on those. The target is evaluated along lines through the Gaussian's mean, one for each axis that the Gaussian and
the prior have in common, as far as twelve standard deviations: a posterior for which the Gaussian is right has 10^-5 of
a line's mass beyond 4.4 of them, a quasi-separated one more than 10^-3.  And where the Gaussian will not do, a mixture
of t distributions with a wide component is fitted by weighted draws, in as many dimensions as that succeeds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from doxa.parameters.kernels.defensive import Defensive
from doxa.parameters.kernels.flip import Flip, draw_pairs
from doxa.parameters.kernels.gaussians import GaussianProposal, Student
from doxa.parameters.kernels.hamiltonian import warmed_up
from doxa.parameters.kernels.independence import Independence
from doxa.parameters.kernels.kernel import Kernel, SmoothTarget, Target, start_at, values_at
from doxa.parameters.kernels.split import tuned_split
from doxa.parameters.pilot import PILOT_DRAWS, Pilot, judge_pilot, run_pilot
from doxa.parameters.population import WIDE_SHARE, grow_mixture
from doxa.sampling.importance_proposals import Mixture, Proposal

__all__ = [
    "LARGE",
    "LONG",
    "WALKERS",
    "Reach",
    "Rung",
    "bounded",
    "first_good_rung",
    "grown",
    "grown_from",
    "independently",
    "line_tails",
    "prior_of",
    "reach_of",
    "tuning_walkers",
]


LARGE = 250  # coefficients from which pilots and tuning make do with less: each step is then seconds of work
LONG = 2e-4  # of a line's mass: between 5e-5, the most of posteriors that are well approximated, and .0007
# Up to here a posterior is skewed and not separated: .0007 to .0009 of the paper's with 50 coefficients, whose weights
# at 100,000 draws of the posterior are 70 at most; .0036 and more where a cell of the table is empty.
_SEPARATED = 1.5e-3

_FARTHEST, _POINTS, _BEYOND = 12.0, 33, 4.4  # standard deviations along a line, at every .75
_MORE_TAILS, _WIDER, _MORE_PRIOR = 0.1, 2.0, 0.02  # largest weights of small samples: 3 to 5, with fewer tails 9 to 20
_MOST_GROWN = 12  # dimensions in which a mixture can be fitted by some thousand draws
_GROWN_DF, _LEAST_DRAWS, _DRAWS_EACH, _MOST_COMPONENTS = 8.0, 500, 60, 8
_JOINT_DF = 5.0  # a learned root's logit has an exponential tail, which no Gaussian bounds
_LEAST_FOR_GAUSSIAN = 0.95  # with tails; without them it is then nearly 1
_LEAST_GROWN = 0.3  # effective draws a draw


class Reach(NamedTuple):
    """A proposal with bounded weights, and what is known of it."""

    proposal: Proposal
    pilot: Pilot
    beyond: float  # of the longest line's mass; nan where no lines were looked at
    share: float  # of its draws that come from the prior's shape
    gaussian_alone: bool  # whether the Gaussian, with tails, was found good

    @property
    def good(self) -> bool:
        """Whether independent proposals from it will do."""
        if self.gaussian_alone:
            return self.pilot.good_when_bounded(long=self.beyond > _SEPARATED)
        return self.pilot.efficiency >= _LEAST_GROWN

    @property
    def gaussian_will_do(self) -> bool:
        """Whether it needs no tails where weights need no bound: bridge sampling is then ten times as exact."""
        return self.gaussian_alone and self.beyond <= LONG and self.pilot.efficiency >= _LEAST_FOR_GAUSSIAN

    @property
    def doubt(self) -> str:
        """What speaks against chains that move by it alone, in words; empty if nothing does."""
        if self.good:
            return ""
        if self.beyond > LONG:
            return (
                f"the posterior goes on beyond the approximation ({self.beyond:.1g} of a line's mass lies more than "
                f"{_BEYOND} standard deviations out), and the weights of proposals tell too little ({self.pilot})"
            )
        return "" if self.pilot.fair else f"the weights of proposals vary too much ({self.pilot})"


def prior_of(target: Target) -> Student | None:
    """A law as wide as the target's prior, with tails no shorter; None for a target that does not tell its prior."""
    spread = getattr(target, "prior_spread", None)
    if spread is None:
        return None
    mean, cholesky = spread
    return Student(mean, cholesky, np.inf if getattr(target, "has_gaussian_prior", False) else _JOINT_DF)


def bounded(target: Target, gaussian: GaussianProposal, *, long: bool = False) -> Defensive:
    """The Gaussian with tails and a share of the prior; more of both where the target goes on beyond it."""
    prior = prior_of(target)
    return Defensive(gaussian, prior, _MORE_TAILS, _WIDER, _MORE_PRIOR) if long else Defensive(gaussian, prior)


def reach_of(target: Target, gaussian: GaussianProposal, rng: np.random.Generator) -> Reach:
    """The Gaussian with tails, its pilot, and how far the target goes on along lines."""
    beyond = line_tails(target, gaussian, prior_of(target)) if target.n_dimensions < LARGE else np.nan
    proposal = bounded(target, gaussian, long=beyond > LONG)
    return Reach(proposal, run_pilot(target, proposal, rng), beyond, proposal.share, gaussian_alone=True)


def grown(target: Target, gaussian: GaussianProposal, before: Reach, rng: np.random.Generator) -> Reach:
    """A mixture of t distributions where it is better than what was there before, else that."""
    return grown_from(target, Mixture([gaussian], [1.0]), before, rng)


def grown_from(target: Target, gaussians: Mixture, before: Reach, rng: np.random.Generator) -> Reach:
    """As `grown`, from several Gaussians."""
    prior, d = prior_of(target), target.n_dimensions
    if prior is None or d > _MOST_GROWN:
        return before
    parts: list[Any] = list(gaussians.components)
    start = Mixture(
        [Student(np.asarray(part.mean), np.asarray(part.cholesky), _GROWN_DF) for part in parts], gaussians.weights
    )
    draws = max(_LEAST_DRAWS, _DRAWS_EACH * d)
    mixture, _ = grow_mixture(target, start, rng, prior, most=_MOST_COMPONENTS, draws=draws)
    pilot = run_pilot(target, mixture, rng)  # fresh draws: those that chose the mixture praise it
    after = Reach(mixture, pilot, before.beyond, WIDE_SHARE, gaussian_alone=False)
    return after if pilot.efficiency > before.pilot.efficiency or not before.good else before


def line_tails(target: Target, gaussian: GaussianProposal, prior: Student | None = None) -> float:
    """The largest share of a line's mass that lies more than 4.4 standard deviations from the Gaussian's mean."""
    mean, factor = np.asarray(gaussian.mean, dtype=np.float64), np.asarray(gaussian.cholesky, dtype=np.float64)
    relative = factor if prior is None else solve_triangular(prior.cholesky, factor, lower=True)
    axes = factor @ np.linalg.svd(relative)[2].T  # the columns; the Gaussian's own where there is no prior
    steps = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    points = mean + steps[:, None] * axes.T[:, None]  # (d, points, d)
    values = values_at(target, points.reshape(-1, mean.size)).reshape(-1, _POINTS)
    mass = np.exp(values - values.max(axis=1, keepdims=True))
    far = mass[:, np.abs(steps) > _BEYOND].sum(axis=1)
    return float((far / mass.sum(axis=1)).max())


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


def first_good_rung(target: SmoothTarget, gaussian: GaussianProposal, rng: np.random.Generator) -> Rung:
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
    walkers = start_at(target, gaussian.sample(tuning_walkers(target), rng))
    if not long:
        split, walkers, report = tuned_split(target, gaussian, walkers, rng)
        poor = f"{poor}; Hamiltonian steps under it are accepted with probability {report.acceptance:.2f}"
        if report.acceptance >= _SPLIT_ACCEPTANCE:
            return Rung("split_hmc", split, gaussian, WALKERS, pilot, poor, None, known)
    hamiltonian, walkers, _ = warmed_up(target, walkers, rng, gaussian=gaussian)
    return Rung(
        "hmc", hamiltonian, gaussian, WALKERS, pilot, f"{poor}, so they have a metric of their own", None, known
    )
