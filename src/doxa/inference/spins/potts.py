"""`PottsGibbs`: heat bath of one Potts chain on any graph, one site after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.inference.spins.model import Draws, PottsModel, Run, Sweeping
from doxa.inference.spins.words import fresh_streams, uniform

__all__ = ["PottsGibbs", "PottsState"]


@hot
def advance_potts(
    graph: Any, fields: Any, weights: Any, is_tame: bool, original: Any, run: Any, work: Any, is_random: bool
) -> None:
    """Sweep, in order or at random; ``work`` has q entries."""
    energy, shares, probability, kept_states = run.draws
    states, streams, sums = run.state, run.streams, run.sums
    n, q = fields.shape
    for step in range(1, run.n_steps + 1):
        for t in range(n):
            i = int(uniform(streams, t & 7) * n) if is_random else t
            total = _weigh(graph, weights, is_tame, states, i, work)
            if sums.size > 0 and not is_random:
                for a in range(q):
                    sums[i, a] += work[a] / total
            states[i] = _pick(work, total * uniform(streams, t & 7))
        if sums.size > 0 and is_random:  # how often a site was visited is no business of its marginal's
            for i in range(n):
                total = _weigh(graph, weights, is_tame, states, i, work)
                for a in range(q):
                    sums[i, a] += work[a] / total
        if step % run.thin == 0:
            kept = step // run.thin - 1
            energy[kept] = _energy(graph, fields, states)
            for i in range(n):
                shares[kept, states[i]] += 1.0 / n
            for i in range(sums.shape[0]):
                for a in range(q):
                    probability[kept, original[i], a] = sums[i, a] / run.thin
                    sums[i, a] = 0.0
            for i in range(kept_states.shape[1]):
                kept_states[kept, original[i]] = states[i]


@hot
def _weigh(graph: Any, weights: Any, is_tame: bool, states: Any, i: int, work: Any) -> float:
    """Weights of the states of site ``i`` given the others, into ``work``; their sum."""
    own, strengths = weights
    total = 0.0
    if is_tame:
        for a in range(work.size):
            work[a] = own[i, a]
        for e in range(graph.starts[i], graph.starts[i + 1]):
            work[states[graph.neighbours[e]]] *= strengths[e]
        for a in range(work.size):
            total += work[a]
        return total
    for a in range(work.size):
        work[a] = own[i, a]
    for e in range(graph.starts[i], graph.starts[i + 1]):
        work[states[graph.neighbours[e]]] += strengths[e]
    highest = work[0]
    for a in range(1, work.size):
        highest = max(highest, work[a])
    for a in range(work.size):
        work[a] = math.exp(work[a] - highest)
        total += work[a]
    return total


@hot
def _pick(work: Any, left: float) -> int:
    """The state in whose weight ``left`` falls, counted from the first; never one of weight 0."""
    found = 0
    for a in range(work.size):
        if work[a] > 0.0:
            found = a
            left -= work[a]
            if left < 0.0:
                break
    return found


@hot
def _energy(graph: Any, fields: Any, states: Any) -> float:
    """-sum J [x = x] - sum h(x)."""
    total = 0.0
    for e in range(graph.couplings.size):
        if states[graph.edges[e, 0]] == states[graph.edges[e, 1]]:
            total -= graph.couplings[e]
    for i in range(fields.shape[0]):
        total -= fields[i, states[i]]
    return total


class PottsState(NamedTuple):
    """Where a chain stands."""

    states: NDArray[np.int16]  # (n_sites,)
    streams: NDArray[np.uint64]  # (32,), of the random words


@dataclass(frozen=True, eq=False)
class PottsGibbs(Sweeping[PottsState]):
    """One Potts chain, site by site.

    Parameters
    ----------
    model : PottsModel
        Edges, couplings and fields.
    scan, thin, marginals
        As of `doxa.inference.spins.IsingGibbs`.
    keep_states : bool, default=False
        Keep the states of every kept draw.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no such scan, or ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats), shape (n_kept,); ``shares``, the share of the sites in each
    state, shape (n_kept, n_states); ``probability``, shape (n_kept, n_sites, n_states): given the others, at the moment
    of drawing (random scan: after each sweep), averaged over the sweeps since the last kept draw; and ``states``, shape
    (n_kept, n_sites).  Probabilities are those of floating-point numbers, about 2^-52 off.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = PottsModel([[0, 1]], 0.7, [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    >>> trace = sample(PottsGibbs(model, thin=10), Schedule(4, 2000, 100), seed=1)
    >>> trace["probability"].mean(axis=(0, 1)).round(2)  # first e^.5 / (2 + e^.5) = .452
    array([[0.27, 0.27, 0.45],
           [0.32, 0.32, 0.36]])
    """

    model: PottsModel
    scan: str = "coloured"
    thin: int = 1
    marginals: bool = True
    keep_states: bool = False
    state_type: ClassVar[type[PottsState]] = PottsState

    def init(self, rng: np.random.Generator) -> PottsState:
        """All possible states equally probable, at every site."""
        return PottsState(self.model.random_states(rng)[0], fresh_streams(rng))

    def begin(self, states: NDArray[np.int64], rng: np.random.Generator) -> PottsState:
        """A chain that stands at possible states, shape (n_sites,)."""
        return PottsState(states.astype(np.int16), fresh_streams(rng))

    def _advance(self, state: PottsState, n_steps: int) -> tuple[PottsState, Draws, dict[str, int]]:
        order, model = self._numbered
        (n, q), n_kept = model.fields.shape, n_steps // self.thin
        states, own, is_tame = state.states[order], model.own_logs, bool(model.is_tame.all())
        draws: dict[str, NDArray[Any]] = {
            "energy": np.empty(n_kept),
            "shares": np.zeros((n_kept, q)),
            "probability": np.empty((n_kept, n if self.marginals else 0, q)),
            "states": np.empty((n_kept, n if self.keep_states else 0), dtype=np.int16),
        }
        weights = (np.exp(own), np.exp(model.graph.strengths)) if is_tame else (own, model.graph.strengths)
        sums = np.zeros((n if self.marginals else 0, q))
        run = Run(states, state.streams.copy(), sums, n_steps, self.thin, tuple(draws.values()))
        advance_potts(model.graph, model.fields, weights, is_tame, order, run, np.zeros(q), self.scan == "random")
        after = np.empty_like(states)
        after[order] = states
        return PottsState(after, run.streams), draws, {"updates": n * n_steps}
