r"""Adaptation in an initial phase only, by parallel chains that are resampled; then everything is frozen.

The older of the two ways of de Freitas et al. 2001, section 4.4, after Gelfand & Sahu (1994).  Several chains run side
by side, each with its own kernel: the same Gaussian proposal, wider or narrower.  After each of a few rounds

- an approximation to the chains' distribution, by their moments so far as these can be trusted
  (`doxa.parameters.kernels.tour_moments`, the steps of chains that began at one place being one tour), becomes the
  proposal of all;
- the chains' positions are drawn anew among themselves, with weights target over that approximation
  (sampling-importance resampling, Rubin 1988);
- kernels are drawn anew in proportion to their acceptance, and changed a little: those that do well multiply.

Chains that depend on one another and on their past have no claim to the target, so nothing of this phase is kept but a
proposal; a pilot compares it with the one at the start (`doxa.parameters.kernels.tour_moments`), and the better one is
frozen.  One draw in twenty is still made from the start, so that a tail which no chain has seen is not cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.parameters.kernels.gaussians import GaussianProposal, Normal, guarded, normal_like
from doxa.parameters.kernels.kernel import Target, TargetError, Walkers, decide, start_at
from doxa.parameters.kernels.regeneration import RegenerativeSampler, RegenerativeState, check_share, chunk_of
from doxa.parameters.kernels.tour_moments import (
    TourMoments,
    add_draws,
    choose_proposal,
    close_tour,
    correction,
    no_tours,
)
from doxa.sampling.importance_proposals import Proposal
from doxa.schema import Within

__all__ = ["Resampled", "ResamplingSampler", "ResamplingState", "adapt_by_resampling"]

_PERTURBATION = 0.2  # of a kernel's log scale, times sqrt(d): log weights then differ by some 0.3 in any dimension
_PILOT = 512  # draws from each candidate
_GUARD = 0.05


class Resampled(NamedTuple):
    """What the initial phase found."""

    proposal: Proposal  # what to freeze: the Gaussian, guarded by the start unless it is the start
    normal: Normal
    number: int  # 0: the Gaussian of the start; 1: that of the last round; 2: as wide as the surviving kernels
    acceptance: Floats  # (rounds,), mean over chains and steps


class ResamplingState(NamedTuple):
    """The frozen proposal, and the fields of RegenerativeState."""

    mean: Floats  # (d,)
    cholesky: Floats  # (d, d)
    theta: Floats
    log_density: Floats
    log_c: float
    ahead_theta: Annotated[Floats, Within(free="ahead")]
    ahead_log_density: Annotated[Floats, Within(free="ahead")]
    ahead_acceptance: Annotated[Floats, Within(0, 1, free="ahead")]
    ahead_regenerated: Annotated[NDArray[np.bool_], Within(free="ahead")]


def adapt_by_resampling(
    target: Target,
    proposal: GaussianProposal,
    rng: np.random.Generator,
    *,
    chains: int = 64,
    rounds: int = 8,
    steps: int = 16,
) -> Resampled:
    """Find a better proposal by resampling parallel chains."""
    normal = normal_like(proposal, target)
    _check_numbers(chains, rounds, steps)
    start, step = normal, _PERTURBATION / np.sqrt(normal.mean.size)
    scales = np.exp(step * rng.standard_normal(chains))
    walkers = start_at(target, normal.sample(chains, rng))
    inside = np.flatnonzero(np.isfinite(walkers.log_density))
    if not inside.size:
        raise TargetError(
            f"none of {chains} draws from {proposal!r} lies in the target's support; give a proposal that covers it"
        )
    ancestors = np.sort(inside[np.arange(chains) % inside.size])
    walkers = _take(walkers, ancestors)
    acceptance = np.empty(rounds)
    for number in range(rounds):
        walkers, draws, rates = _run_round(target, normal, scales, walkers, steps, rng)
        acceptance[number] = rates.mean()
        change = correction(_moments(draws, ancestors))
        normal = normal.moved(change.mean, np.asarray(np.linalg.cholesky(change.covariance)))
        ancestors = _resample(walkers.log_density - normal.log_density(walkers.thetas), rng)
        walkers = _take(walkers, ancestors)
        with np.errstate(divide="ignore"):
            kernels = rng.permutation(_resample(np.log(rates), rng))  # not the oldest kernel to the first place
        scales = scales[kernels] * np.exp(step * rng.standard_normal(chains))
    normals = [start, normal, normal.widened(float(np.exp(np.log(scales).mean())))]
    number = choose_proposal(target, normals, _PILOT, rng).number
    return Resampled(guarded(normals[number], start, _GUARD), normals[number], number, acceptance)


def _run_round(
    target: Target, normal: Normal, scales: Floats, walkers: Walkers, n_steps: int, rng: np.random.Generator
) -> tuple[Walkers, Floats, Floats]:
    """Walkers after independence steps; their whitened path (chains, steps, d); mean acceptance of each (chains,)."""
    n, d = walkers.thetas.shape
    path, rates = np.empty((n, n_steps, d)), np.zeros(n)
    for t in range(n_steps):
        noise = rng.standard_normal((n, d))
        old = normal.whiten(walkers.thetas) / scales[:, None]
        log_hastings = 0.5 * ((noise**2).sum(axis=1) - (old**2).sum(axis=1))  # both under the chain's own proposal
        proposed = normal.mean + (scales[:, None] * noise) @ normal.cholesky.T
        walkers, accepted = decide(target, walkers, proposed, log_hastings, rng)
        path[:, t] = normal.whiten(walkers.thetas)
        rates += accepted / n_steps
    return walkers, path, rates


def _moments(path: Floats, ancestors: NDArray[np.intp]) -> TourMoments:
    """Moments of paths (chains, steps, d); chains that began at one place, which stand together, make one tour."""
    n, n_steps, d = path.shape
    begins = np.zeros((n, n_steps), dtype=np.bool_)
    begins[:, 0] = np.diff(ancestors, prepend=-1) > 0
    return close_tour(add_draws(no_tours(d), path.reshape(-1, d), begins.ravel()))


def _resample(log_weights: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """As many indices as there are weights, drawn in proportion to them, in order; evenly if all are 0."""
    top = log_weights.max()
    weights = np.exp(log_weights - top) if np.isfinite(top) else np.ones_like(log_weights)
    return np.sort(rng.choice(weights.size, size=weights.size, p=weights / weights.sum())).astype(np.intp)


def _take(walkers: Walkers, index: NDArray[np.intp]) -> Walkers:
    return Walkers(walkers.thetas[index], walkers.log_density[index])


@dataclass(frozen=True, eq=False)
class ResamplingSampler:
    """Independence Metropolis-Hastings with a proposal found by resampling, for `doxa.sampling.driver`.

    Parameters
    ----------
    target : Target
        What is drawn from.
    proposal : GaussianProposal
        Where the initial phase begins.
    chains, rounds, steps : int
        Of the initial phase; see `adapt_by_resampling`.
    wide : Proposal, optional
        Mixed into the frozen proposal with probability ``wide_share``: ``proposal`` when left out.  Normalised.
    wide_share : float, default=0.05
        In [0, 1).
    thin : int, default=1
        Steps between kept draws.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is not as above.
    TargetError
        When started: if none of the chains begins in the target's support.

    Notes
    -----
    The initial phase is the chain's start; each chain of a run has its own. Then the proposal is frozen, and the chain
    is that of `doxa.parameters.kernels.regeneration.RegenerativeSampler`, from a draw from nu on: its draws and marks.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import Function
    >>> target = Function(lambda x: -0.5 * ((x - 4) ** 2).sum(axis=1), 2)
    >>> sampler = ResamplingSampler(target, Normal(np.zeros(2), 2 * np.eye(2)))
    >>> rng = np.random.default_rng(1)
    >>> state, draws, info = sampler.run(sampler.init(rng), 2000, rng)
    >>> state.mean.round(1), draws["acceptance"].mean().round(1)
    (array([4., 4.]), np.float64(0.9))
    """

    target: Target
    proposal: GaussianProposal
    chains: int = 64
    rounds: int = 8
    steps: int = 16
    wide: Proposal | None = None
    wide_share: float = _GUARD
    thin: int = 1
    state_type: ClassVar[type[ResamplingState]] = ResamplingState

    def __post_init__(self) -> None:
        """Refuse what is no Gaussian, and numbers that are too small."""
        normal_like(self.proposal, self.target)
        _check_numbers(self.chains, self.rounds, self.steps)
        check_share("wide_share", self.wide_share)
        check_whole("thin", self.thin, 1)

    @property
    def chunk(self) -> int:
        """Steps made at a time; a matter of sizes alone, so that draws do not depend on blocks."""
        return chunk_of(self.target)

    def init(self, rng: np.random.Generator) -> ResamplingState:
        """Run the initial phase, and begin the first tour."""
        found = adapt_by_resampling(
            self.target, self.proposal, rng, chains=self.chains, rounds=self.rounds, steps=self.steps
        )
        chain = self._frozen(found.normal).init(rng)
        return ResamplingState._make((found.normal.mean, found.normal.cholesky, *chain))

    def run(
        self, state: ResamplingState, n_steps: int, rng: np.random.Generator
    ) -> tuple[ResamplingState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        sampler = self._frozen(Normal(state.mean, state.cholesky))
        chain, draws, info = sampler.run(RegenerativeState._make(state[2:]), n_steps, rng)
        return ResamplingState._make((state.mean, state.cholesky, *chain)), draws, info

    def _frozen(self, normal: Normal) -> RegenerativeSampler:
        wide = normal_like(self.proposal, self.target) if self.wide is None else self.wide
        return RegenerativeSampler(self.target, guarded(normal, wide, self.wide_share), thin=self.thin)


def _check_numbers(chains: int, rounds: int, steps: int) -> None:
    check_whole("chains", chains, 4, " (the differences between them say how exact their moments are)")
    check_whole("rounds", rounds, 1)
    check_whole("steps", steps, 1)
