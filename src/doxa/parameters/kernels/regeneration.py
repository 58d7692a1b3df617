r"""Regenerative sampling: an independence chain that marks the steps at which it forgets its past.

Between two marks lies a tour; tours are independent and alike, so that means over them have honest errors without any
estimate of autocorrelation (`doxa.estimates.regenerative`), and the proposal may be changed at marks
(`doxa.parameters.kernels.adaptation`).  Steps of other kernels may stand in between, as only one part of a mixture
needs to regenerate (de Freitas et al. 2001, sections 4.3 and 4.4.2).  What a mark is, and the theory, is in
`doxa.parameters.kernels.splitting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.kernel import Kernel, Target, TargetError, Walkers, join, values_at
from doxa.parameters.kernels.splitting import Atom
from doxa.parameters.kernels.tour_moments import pilot_log_c
from doxa.sampling.importance_proposals import Proposal
from doxa.schema import Within

__all__ = [
    "RegenerativeSampler",
    "RegenerativeState",
    "Steps",
    "advance",
    "check_local",
    "check_share",
    "chunk_of",
    "first_step",
]

_CHUNK = 256  # steps
_NUMBERS = 2**20  # held in memory by a chunk
_PILOT = 512  # draws that choose c: its error costs less than a hundredth of the regenerations
_FIRST_BULK = 8


class Steps(NamedTuple):
    """What some steps of one chain left behind."""

    theta: Floats  # (steps, 1, d), after each step
    log_density: Floats  # (steps, 1), nats
    acceptance: Floats  # (steps, 1), probability with which the step's proposal was to be accepted
    regenerated: NDArray[np.bool_]  # (steps, 1), whether this draw is the first of a tour


class RegenerativeState(NamedTuple):
    """Where the chain stands, and steps that it has made beyond what was asked of it."""

    theta: Floats  # (1, d), at the end of the chunk
    log_density: Floats  # (1,)
    log_c: float
    ahead_theta: Annotated[Floats, Within(free="ahead")]
    ahead_log_density: Annotated[Floats, Within(free="ahead")]
    ahead_acceptance: Annotated[Floats, Within(0, 1, free="ahead")]
    ahead_regenerated: Annotated[NDArray[np.bool_], Within(free="ahead")]


@dataclass(frozen=True, eq=False)
class RegenerativeSampler:
    r"""Independence Metropolis-Hastings that regenerates, as a sampler for `doxa.sampling.driver`.

    Parameters
    ----------
    target : Target
        What is drawn from.
    proposal : Proposal
        ``sample(n, rng)`` and ``log_density(thetas)``; normalised or not, but always by the same constant.
    log_c : float or {"best", "mode"}, default="best"
        Log of the constant c. "best" makes regeneration as frequent as it can be, judged by 512 draws from the
        proposal; "mode" is half the weight at the highest density among these (figure 10). Chosen before the first
        step and kept, as c must not change within a tour.
    local : Kernel, optional
        Makes a share of the steps, drawn at random; these never regenerate.
    local_share : float, default=0.0
        Probability of such a step, in [0, 1).
    thin : int, default=1
        Steps between kept draws.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an argument is not as above, or a ``local_share`` above 0 has no kernel.
    TargetError
        When started: if no draw of the proposal lies in the target's support, or none is taken as a draw from nu.

    Notes
    -----
    Draws are ``theta`` (n_kept, 1, d), ``log_density``, ``acceptance`` and ``regenerated`` (n_kept, 1). The first is a
    draw from nu and begins a tour; the marks, with the axis of length 1 left out, are the ``starts`` of
    `doxa.estimates.regenerative.cut_tours`. With ``thin`` above 1 a draw is marked if the chain regenerated at that
    very step: after regenerations in between, the first draw kept would be at one distance or another.

    Examples
    --------
    >>> from doxa.estimates.regenerative import cut_tours, regenerative_estimate
    >>> from doxa.parameters.kernels.gaussians import Normal
    >>> from doxa.parameters.kernels.kernel import Function
    >>> gamma = Function(lambda x: np.where(x[:, 0] > 0, np.log(np.abs(x[:, 0]) + 1e-300) - x[:, 0], -np.inf), 1)
    >>> sampler = RegenerativeSampler(gamma, Normal(np.array([2.0]), np.array([[2.0]])))
    >>> rng = np.random.default_rng(1)
    >>> state, draws, info = sampler.run(sampler.init(rng), 20000, rng)
    >>> tours = cut_tours(draws["theta"][:, 0, 0], draws["regenerated"][:, 0])
    >>> print(regenerative_estimate(*tours).estimate, round(info["regenerations"] / info["steps"], 2))
    1.981 +/- 0.017 0.53
    """

    target: Target
    proposal: Proposal
    log_c: float | Literal["best", "mode"] = "best"
    local: Kernel | None = None
    local_share: float = 0.0
    thin: int = 1
    state_type: ClassVar[type[RegenerativeState]] = RegenerativeState

    def __post_init__(self) -> None:
        """Refuse what is no atom, no share or no whole number."""
        named = isinstance(self.log_c, str)
        if (named and self.log_c not in ("best", "mode")) or (not named and not np.isfinite(self.log_c)):
            raise ArgumentError(f"log_c is {self.log_c!r}; it must be a finite number, 'best' or 'mode'")
        check_local(self.local, self.local_share)
        check_whole("thin", self.thin, 1)

    @property
    def chunk(self) -> int:
        """Steps made at a time; a matter of sizes alone, so that draws do not depend on blocks."""
        return chunk_of(self.target)

    def init(self, rng: np.random.Generator) -> RegenerativeState:
        """Choose c, and begin the first tour."""
        atom = Atom(self.proposal, self._choose_c(rng))
        walker = atom.draw(self.target, rng)
        if walker is None:
            raise TargetError(
                f"no draw from nu in 2^15 proposals: log_c = {atom.log_c:.6g} lies far above the log weights; "
                "log_c='best' chooses one among them"
            )
        return RegenerativeState._make((*walker, atom.log_c, *first_step(walker)))

    def run(
        self, state: RegenerativeState, n_steps: int, rng: np.random.Generator
    ) -> tuple[RegenerativeState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` (a multiple of ``thin``) and keep every ``thin``-th."""
        atom = Atom(self.proposal, float(state.log_c))
        walker = Walkers(state.theta, state.log_density)
        parts = [Steps(*state[3:])]
        n_ready = len(parts[0].theta)
        while n_ready < n_steps:
            steps = advance(self.target, atom, walker, self.chunk, rng, self.local, self.local_share)
            walker = Walkers(steps.theta[-1], steps.log_density[-1])
            parts.append(steps)
            n_ready += self.chunk
        steps = join(parts)
        after = RegenerativeState._make((*walker, atom.log_c, *(part[n_steps:] for part in steps)))
        kept = slice(self.thin - 1, n_steps, self.thin)
        info = {"steps": n_steps, "regenerations": int(steps.regenerated[:n_steps].sum())}
        return after, {name: values[kept] for name, values in steps._asdict().items()}, info

    def _choose_c(self, rng: np.random.Generator) -> float:
        if not isinstance(self.log_c, str):
            return float(self.log_c)
        if self.log_c == "best":
            return pilot_log_c(self.target, self.proposal, _PILOT, rng)
        thetas = np.asarray(self.proposal.sample(_PILOT, rng), dtype=np.float64)
        values = values_at(self.target, thetas)
        top = int(values.argmax())
        return float(values[top] - self.proposal.log_density(thetas[top : top + 1])[0]) - log(2)


def check_share(name: str, share: object) -> None:
    """Refuse what is not a probability below 1."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.floating):
        raise ArgumentTypeError(f"{name} is {share!r}; it must be a number of at least 0 and below 1")
    if not 0 <= share < 1:
        raise ArgumentError(f"{name} is {share}; it must be at least 0, and below 1")


def check_local(local: Kernel | None, share: float) -> None:
    """Refuse a share that is none, or has no kernel."""
    check_share("local_share", share)
    if local is None and share > 0:
        raise ArgumentError(f"local_share is {share}, but local is None; give the kernel that makes these steps")


def chunk_of(target: Target) -> int:
    """A power of two, at most 256, such that a chunk's draws fit in memory."""
    return 1 << (max(1, min(_CHUNK, _NUMBERS // target.n_dimensions)).bit_length() - 1)


def first_step(walker: Walkers) -> Steps:
    """A chain's start, a draw from nu, as its first step."""
    return Steps(walker.thetas[None], walker.log_density[None], np.ones((1, 1)), np.ones((1, 1), dtype=np.bool_))


def advance(
    target: Target,
    atom: Atom,
    walker: Walkers,
    n_steps: int,
    rng: np.random.Generator,
    local: Kernel | None = None,
    local_share: float = 0.0,
    *,
    stop: int | None = None,
) -> Steps:
    """Make ``n_steps`` steps, or fewer: the ``stop``-th regeneration is the last.

    Proposals are drawn and evaluated in bulk; those that a stop leaves over are discarded unseen by the chain.
    """
    parts: list[Steps] = []
    n_left, n_more = n_steps, -1 if stop is None else stop
    bulk = n_steps if stop is None else max(_FIRST_BULK, 2 * stop)
    while n_left and n_more:
        n = min(n_left, bulk)
        bulk *= 2
        runs = [(False, n)] if local is None else _runs(rng.random(n) < local_share)
        n_proposals = sum(length for is_local, length in runs if not is_local)
        proposals = _propose(target, atom, max(1, n_proposals), rng)  # some proposals cannot draw 0 times
        used = 0
        for is_local, length in runs:
            if is_local:
                assert local is not None
                _, path = local.run(target, walker, length, rng)
                steps = Steps(*path, np.zeros((length, 1), dtype=np.bool_))
            else:
                steps = _scan(atom, walker, _Proposals(*(part[used : used + length] for part in proposals)), n_more)
                used += length
                n_more -= int(steps.regenerated.sum()) if stop is not None else 0
            parts.append(steps)
            n_left -= len(steps.theta)
            walker = Walkers(steps.theta[-1], steps.log_density[-1])
            if not n_more:
                break
    return join(parts)


class _Proposals(NamedTuple):
    thetas: Floats  # (n, d)
    values: Floats  # (n,), log density of the target
    weights: Floats  # (n,), log
    log_accept: Floats  # (n,), logs of uniforms that decide on acceptance
    log_mark: Floats  # (n,), and on regeneration


def _propose(target: Target, atom: Atom, n: int, rng: np.random.Generator) -> _Proposals:
    thetas = np.asarray(atom.proposal.sample(n, rng), dtype=np.float64)
    values = values_at(target, thetas)
    log_uniforms = np.log1p(-rng.random((2, n)))  # 1 - u is in (0, 1], so finite
    return _Proposals(thetas, values, atom.log_weights(thetas, values), *log_uniforms)


def _runs(is_local: NDArray[np.bool_]) -> list[tuple[bool, int]]:
    """Steps in a row of the same kind: which, and how many."""
    edges = np.flatnonzero(np.diff(is_local)) + 1
    lengths = np.diff(edges, prepend=0, append=is_local.size)
    return [(bool(is_local[at]), int(n)) for at, n in zip([0, *edges.tolist()], lengths, strict=True)]


def _scan(atom: Atom, walker: Walkers, proposals: _Proposals, most: int) -> Steps:
    """Accept, reject and mark in turn, up to the ``most``-th mark (-1: no limit), with plain loops over floats."""
    weight, c, at = float(atom.log_weights(*walker)[0]), atom.log_c, -1
    ratios, source, marks = [], [], []
    for k, (new, log_accept, log_mark) in enumerate(zip(*(part.tolist() for part in proposals[2:]), strict=True)):
        ratio = new - weight if new > -np.inf else -np.inf  # outside the support: stay
        mark = False
        if log_accept < ratio:
            # s(x) nu(y) over the acceptance probability, whose three cases are eq. 17
            mark = log_mark < min(0.0, c - weight) + min(0.0, new - c) - min(0.0, ratio)
            weight, at = new, k
        ratios.append(ratio)
        source.append(at)
        marks.append(mark)
        if mark:
            most -= 1
            if not most:
                break
    index = np.array(source)
    begun = index < 0  # no proposal accepted yet: still where the walker was
    theta = np.where(begun[:, None], walker.thetas, proposals.thetas[index])
    log_density = np.where(begun, walker.log_density, proposals.values[index])
    acceptance = np.exp(np.minimum(ratios, 0.0))
    return Steps(theta[:, None], log_density[:, None], acceptance[:, None], np.array(marks)[:, None])
