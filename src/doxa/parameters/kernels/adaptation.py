r"""Adaptation at regenerations: a chain that refits its own proposal and stays exact.

A proposal that follows the chain's past disturbs its distribution (Gelfand & Sahu 1994).  At a regeneration the past
may be used freely: the proposal q and the constant c may become anything that depends on complete tours, provided that
the next tour begins with a draw from the new nu, and that both then stay until it ends (Gilks, Roberts & Sahu 1998; de
Freitas et al. 2001, figures 9 and 10).  The draw that revealed the regeneration is no part of that past.

The paper replaces the proposal by one with the past draws' moments, and c by half the weight at the mode.  Both fail as
dimensions grow: in 20, moments of a short history spoil a good proposal, and c makes regenerations rare.  Here c is the
one that makes regenerations most frequent; refits take place after 32, 64, 128, ... tours; each corrects the proposal
by no more than the tours since the last one bear out (`doxa.parameters.kernels.tour_moments`), or widens it; and a
pilot has to show that the new one is accepted more often and covers the tails no worse.  Otherwise all stays as it was.
A share of the proposals goes on being drawn from the start, so that no weight grows beyond twenty times what it was
there: a chain that has not seen a tail yet would cut it off, and never see it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, Normal, Normals, guarded, normals_like
from doxa.parameters.kernels.kernel import Kernel, Target, TargetError, Walkers, join, start_at
from doxa.parameters.kernels.regeneration import (
    Steps,
    advance,
    check_local,
    check_share,
    chunk_of,
    first_step,
)
from doxa.parameters.kernels.splitting import Atom
from doxa.parameters.kernels.tour_moments import (
    LEAST_TOURS,
    TourMoments,
    add_draws,
    choose_proposal,
    close_tour,
    correction,
    no_tours,
    pilot_log_c,
    sample_moments,
)
from doxa.sampling.importance_proposals import Mixture, Proposal
from doxa.schema import Within

__all__ = ["AdaptiveSampler", "AdaptiveState"]

_WIDER = 1.1  # standard deviations of the candidate that is merely wider


class AdaptiveState(NamedTuple):
    """Where the chain stands, its proposal, the tours since the last refit, and steps made beyond what was asked."""

    theta: Floats  # (1, d), at the end of the chunk
    log_density: Floats  # (1,)
    mean: Annotated[Floats, Within(free="components", finite=False)]  # (K, d), of the proposal's Gaussians
    cholesky: Annotated[Floats, Within(free="components", finite=False)]  # (K, d, d)
    shares: Annotated[Floats, Within(free="components", finite=False)]  # (K,)
    log_c: float
    n_tours: Annotated[int, Within(0)]  # complete ones since the start
    next_refit: Annotated[int, Within(0)]  # tours at which to try
    mode: Annotated[Floats, Within(finite=False)]  # (1, d), the highest point of complete tours
    mode_log_density: Annotated[Floats, Within(finite=False)]  # (1,)
    tours_total: Annotated[
        Floats, Within(free="components", finite=False)
    ]  # these five are the fields of TourMoments, with an axis of length K before
    tours_weighted: Annotated[Floats, Within(free="components", finite=False)]
    tours_squares: Annotated[Floats, Within(free="components", finite=False)]
    tours_number: Annotated[NDArray[np.int64], Within(0, free="components")]  # (K,)
    tours_running: Annotated[Floats, Within(free="components", finite=False)]
    ahead_theta: Annotated[Floats, Within(free="ahead")]
    ahead_log_density: Annotated[Floats, Within(free="ahead")]
    ahead_acceptance: Annotated[Floats, Within(0, 1, free="ahead")]
    ahead_regenerated: Annotated[NDArray[np.bool_], Within(free="ahead")]
    ahead_refitted: Annotated[
        NDArray[np.bool_], Within(free="ahead")
    ]  # (steps, 1), whether this draw is the first under a new proposal


class _Now(NamedTuple):
    """The state without what lies ahead."""

    walker: Walkers
    normals: Normals
    log_c: float
    n_tours: Annotated[int, Within(0)]
    next_refit: Annotated[int, Within(0)]
    mode: Walkers
    tours: list[TourMoments]  # of each Gaussian's share of the draws, in its coordinates


@dataclass(frozen=True, eq=False)
class AdaptiveSampler:
    """Independence Metropolis-Hastings whose proposal, Gaussians, learns at regenerations, for `doxa.sampling.driver`.

    Parameters
    ----------
    target : Target
        What is drawn from.
    proposal : GaussianProposal or Mixture
        Where it begins: the best approximation at hand, such as
        `doxa.parameters.variational.optimal.optimal_posterior`'s; or a `doxa.sampling.importance_proposals.Mixture` of
        Gaussians, of which each is then refitted to the draws that it is responsible for (a step of EM), and the
        weights to their numbers.
    local : Kernel, optional
        Makes a share of the steps, drawn at random; these never regenerate.
    local_share : float, default=0.0
        Probability of such a step, in [0, 1).
    wide : Proposal, optional
        Mixed into every proposal with probability ``wide_share``: ``proposal`` itself when left out, nothing in the
        published scheme. With the prior of a posterior, weights are bounded whatever the fit, and tours have moments
        of all orders. Normalised.
    wide_share : float, default=0.05
        In [0, 1).
    shrinkage : bool, default=True
        False is the published scheme: after ``first`` tours, every regeneration gives the proposal the plain moments of
        all complete tours, and c half the weight at the highest of their draws. For comparison: beyond few dimensions
        it ruins good proposals; one Gaussian only.
    first : int, default=32
        Complete tours before the first refit, at least 8.
    pilot : int, default=256
        Draws from each candidate at a refit, at least 32.
    thin : int, default=1
        Steps between kept draws.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is not as above.
    TargetError
        When started: if no draw of the proposal lies in the target's support, or none is taken as a draw from nu.

    Notes
    -----
    Draws are those of `doxa.parameters.kernels.regeneration.RegenerativeSampler`, and ``refitted`` (n_kept, 1). Tours
    of all proposals go into one regenerative estimate: whatever q and c a tour has, its sum has the expectation of its
    length times the mean sought. So no draw need be discarded.

    Where too few draws from a new nu are taken (one in 2^15), the tour goes on from the draw that revealed the
    regeneration, with the proposal as it was: lawful, as that draw had no part in the decision.

    The number of evaluations of the target is that of the steps, and three or four pilots a refit: less than 4 pilot
    (log2(tours / first) + 2) in all.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import Function
    >>> def skewed(x):
    ...     return -0.5 * (x[:, 0] - 3) ** 2 - 0.5 * (x[:, 1] - np.tanh(x[:, 0] - 3)) ** 2 / 0.3
    >>> sampler = AdaptiveSampler(Function(skewed, 2), Normal(np.zeros(2), 2 * np.eye(2)))
    >>> rng = np.random.default_rng(1)
    >>> state, draws, info = sampler.run(sampler.init(rng), 5000, rng)
    >>> rate = draws["acceptance"]
    >>> rate[:200].mean().round(2), rate[-2000:].mean().round(2), info["refits"]
    (np.float64(0.08), np.float64(0.81), 4)
    """

    target: Target
    proposal: GaussianProposal | Mixture
    local: Kernel | None = None
    local_share: float = 0.0
    wide: Proposal | None = None
    wide_share: float = 0.05
    shrinkage: bool = True
    first: int = 32
    pilot: int = 256
    thin: int = 1
    state_type: ClassVar[type[AdaptiveState]] = AdaptiveState
    _start: Normals = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no Gaussian, no share or too small a number."""
        object.__setattr__(self, "_start", normals_like(self.proposal, self.target))
        if not self.shrinkage and len(self._start.parts) > 1:
            raise ArgumentError(
                "shrinkage is False, the published scheme, which has one Gaussian; proposal is a mixture"
            )
        check_local(self.local, self.local_share)
        check_share("wide_share", self.wide_share)
        check_whole("first", self.first, LEAST_TOURS, " (fewer tours do not say how exact they are)")
        check_whole("pilot", self.pilot, 32, " (the comparison of proposals rests on their variance)")
        check_whole("thin", self.thin, 1)

    @property
    def chunk(self) -> int:
        """Steps made at a time; a matter of sizes alone, so that draws do not depend on blocks."""
        return chunk_of(self.target)

    def init(self, rng: np.random.Generator) -> AdaptiveState:
        """Begin the first tour, with the proposal or a wider one."""
        normals = self._start
        mode = start_at(self.target, normals.parts[int(normals.shares.argmax())].mean[None])
        if self.shrinkage:
            normals, log_c = self._choose([normals, normals.widened(_WIDER)], rng)
        elif np.isneginf(mode.log_density[0]):
            raise TargetError(
                "the log density at proposal.mean is minus infinity; the published c needs a mean in the support"
            )
        else:
            log_c = self._half_weight(normals, mode)
        walker = Atom(self._guarded(normals), log_c).draw(self.target, rng)
        if walker is None:
            raise TargetError(
                f"no draw from nu in 2^15 proposals: log_c = {log_c:.6g} lies far above the log weights; start from a "
                "wider proposal"
            )
        start = first_step(walker)
        now = _Now(walker, normals, log_c, -1, self.first, mode, self._no_tours(normals))
        return _pack(self._record(now, start), start, np.zeros((1, 1), dtype=np.bool_))

    def run(
        self, state: AdaptiveState, n_steps: int, rng: np.random.Generator
    ) -> tuple[AdaptiveState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        now, steps, refitted = _unpack(state)
        parts, marks, n_ready = [steps], [refitted], len(refitted)
        while n_ready < n_steps:
            now, steps, refitted = self._run_chunk(now, rng)
            parts.append(steps)
            marks.append(refitted)
            n_ready += self.chunk
        steps, refitted = join(parts), np.concatenate(marks)
        after = _pack(now, Steps._make(part[n_steps:] for part in steps), refitted[n_steps:])
        draws = {**steps._asdict(), "refitted": refitted}
        info = {
            "steps": n_steps,
            "regenerations": int(steps.regenerated[:n_steps].sum()),
            "refits": int(refitted[:n_steps].sum()),
        }
        return after, {name: values[self.thin - 1 : n_steps : self.thin] for name, values in draws.items()}, info

    def _run_chunk(self, now: _Now, rng: np.random.Generator) -> tuple[_Now, Steps, NDArray[np.bool_]]:
        parts: list[Steps] = []
        refitted = np.zeros((self.chunk, 1), dtype=np.bool_)
        done = 0
        while done < self.chunk:
            stop = now.next_refit - now.n_tours
            atom = Atom(self._guarded(now.normals), now.log_c)
            mixed = (self.local, self.local_share)
            steps = advance(self.target, atom, now.walker, self.chunk - done, rng, *mixed, stop=stop)
            done += len(steps.theta)
            if steps.regenerated.sum() < stop:
                now = self._record(now, steps)
                parts.append(steps)
                continue
            before, last = (Steps._make(part[cut] for part in steps) for cut in (slice(-1), slice(-1, None)))
            now = self._record(now, before)  # the last draw begins a tour: the refit must not know it
            now, start, refitted[done - 1, 0] = self._refit(now, Walkers(last.theta[0], last.log_density[0]), rng)
            last = last._replace(theta=start.thetas[None], log_density=start.log_density[None])
            now = self._record(now, last)
            parts += [before, last]
        return now, join(parts), refitted

    def _record(self, now: _Now, steps: Steps) -> _Now:
        """Put draws into the moments, and see whether the highest of them is a new mode."""
        if not len(steps.theta):
            return now
        base = now.normals if self.shrinkage else self._start
        thetas, starts, one = steps.theta[:, 0], steps.regenerated[:, 0], len(base.parts) == 1
        shares = base.responsibilities(thetas)
        tours = [
            add_draws(tours, part.whiten(thetas), starts, None if one else shares[:, k])
            for k, (tours, part) in enumerate(zip(now.tours, base.parts, strict=True))
        ]
        top = int(steps.log_density.argmax())
        mode = Walkers(steps.theta[top], steps.log_density[top])
        return now._replace(
            walker=Walkers(steps.theta[-1], steps.log_density[-1]),
            n_tours=now.n_tours + int(steps.regenerated.sum()),
            mode=mode if mode.log_density[0] > now.mode.log_density[0] else now.mode,
            tours=tours,
        )

    def _refit(self, now: _Now, start: Walkers, rng: np.random.Generator) -> tuple[_Now, Walkers, bool]:
        """Between two tours: the proposal of the next, its first draw, and whether it is a new proposal."""
        now = now._replace(tours=[close_tour(tours) for tours in now.tours])
        new = self._corrected(now, rng) if self.shrinkage else self._published(now)
        now = now._replace(next_refit=2 * now.next_refit if self.shrinkage else now.next_refit + 1)
        drawn = None if new is None else Atom(self._guarded(new[0]), new[1]).draw(self.target, rng)
        if new is None or drawn is None:
            return now, start, False  # start is a draw from the nu of the old proposal, which stays
        tours = self._no_tours(new[0]) if self.shrinkage else now.tours
        return now._replace(normals=new[0], log_c=new[1], tours=tours), drawn, True

    def _corrected(self, now: _Now, rng: np.random.Generator) -> tuple[Normals, float] | None:
        """The best of the proposal, its correction by the tours since the last refit, and a wider one; None: stay."""
        changes = [correction(tours) for tours in now.tours]
        candidates = [now.normals, now.normals.widened(_WIDER)]
        if any(change.shares.any() for change in changes):
            parts = [
                part.moved(change.mean, _factor(change.covariance))
                for part, change in zip(now.normals.parts, changes, strict=True)
            ]
            candidates.append(Normals(tuple(parts), _shares(now.tours)))
        normals, log_c = self._choose(candidates, rng)
        return None if normals is now.normals else (normals, log_c)

    def _choose(self, candidates: list[Normals], rng: np.random.Generator) -> tuple[Normals, float]:
        """The best proposal, judged without the wide part, which would hide thin tails; and the c for both together."""
        choice = choose_proposal(self.target, [normals.proposal for normals in candidates], self.pilot, rng)
        normals = candidates[choice.number]
        proposal = self._guarded(normals)
        alone = proposal is normals.proposal
        return normals, choice.log_c if alone else pilot_log_c(self.target, proposal, self.pilot, rng)

    def _published(self, now: _Now) -> tuple[Normals, float] | None:
        """The moments of all draws of complete tours; None while their covariance is singular."""
        mean, covariance = sample_moments(now.tours[0])
        try:
            normals = Normals((self._start.parts[0].moved(mean, _factor(covariance)),), np.ones(1))
        except np.linalg.LinAlgError:
            return None
        return normals, self._half_weight(normals, now.mode)

    def _half_weight(self, normals: Normals, mode: Walkers) -> float:
        weights = mode.log_density - self._guarded(normals).log_density(mode.thetas)
        return float(weights[0]) - log(2)

    def _guarded(self, normals: Normals) -> Proposal:
        """What is proposed: the Gaussians, with the wide part."""
        start = self._start.proposal if self.shrinkage else None
        return guarded(normals.proposal, start if self.wide is None else self.wide, self.wide_share)

    def _no_tours(self, normals: Normals) -> list[TourMoments]:
        return [no_tours(self.target.n_dimensions) for _ in normals.parts]


def _factor(covariance: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)


def _shares(tours: list[TourMoments]) -> Floats:
    """Weights of the Gaussians by the draws that they are responsible for, with a tour more for each."""
    mass = np.array([each.total[0, 0] for each in tours])
    counts = tours[0].n_tours * mass / mass.sum() + 1
    return np.asarray(counts / counts.sum())


def _pack(now: _Now, ahead: Steps, refitted: NDArray[np.bool_]) -> AdaptiveState:
    parts, shares = now.normals.parts, now.normals.shares
    normals = (np.stack([part.mean for part in parts]), np.stack([part.cholesky for part in parts]), shares)
    tours = [np.stack(sums) for sums in zip(*now.tours, strict=True)]
    counts = (now.log_c, now.n_tours, now.next_refit)
    return AdaptiveState._make((*now.walker, *normals, *counts, *now.mode, *tours, *ahead, refitted))


def _unpack(state: AdaptiveState) -> tuple[_Now, Steps, NDArray[np.bool_]]:
    parts = tuple(Normal(*each) for each in zip(state.mean, state.cholesky, strict=True))
    counts = (float(state.log_c), int(state.n_tours), int(state.next_refit))
    tours = [TourMoments(*each) for each in zip(*state[10:15], strict=True)]
    now = _Now(Walkers(*state[:2]), Normals(parts, state.shares), *counts, Walkers(*state[8:10]), tours)
    return now, Steps(*state[15:19]), state.ahead_refitted
