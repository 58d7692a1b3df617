r"""One chain on any graph: heat bath of one site after another (`IsingGibbs`, `PottsGibbs`), clusters (`SwendsenWang`).

Heat bath of single spins crosses from mostly up to mostly down by way of states of high energy; near and below the
critical temperature of a lattice that takes forever.  Swendsen & Wang (1987), here with fields and couplings of either
sign: every edge whose spins agree with its coupling is bound with probability :math:`1 - e^{-2|J|}`, others never;
within the clusters so bound all spins keep their relations, and each cluster takes one of its two orientations.
Edwards & Sokal (1988): the joint density of spins and bonds is

.. math:: \prod_i e^{h_i s_i} \prod_{ij} e^{-|J_{ij}|} [ (1 - b_{ij}) + b_{ij} (e^{2|J_{ij}|} - 1)
          1(J_{ij} s_i s_j > 0) ],

whose sum over bonds is p(s): for J s s > 0 the factor is :math:`e^{|J|}`, else :math:`e^{-|J|}`.  Given the bonds, a
cluster stays as it is with odds :math:`e^{2H}`, H the sum of h_i s_i over its spins as they stand: no ghost spin is
needed, and what the bonds leave open is known exactly, which ``up`` makes use of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints
from doxa.inference.spins.graph import LocalClasses, SpinGraph
from doxa.inference.spins.model import Draws, IsingBase, IsingModel, PottsModel, Run, SpinState, Sweeping
from doxa.inference.spins.words import TO_UNIT, fresh_streams, next_word, uniform

__all__ = ["IsingGibbs", "PottsGibbs", "PottsState", "SwendsenWang"]


@hot
def advance_potts(
    graph: SpinGraph,
    fields: Floats,
    weights: tuple[Floats, Floats],
    is_tame: bool,
    original: Ints,
    run: Run,
    work: Floats,
    is_random: bool,
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
def _weigh(
    graph: SpinGraph, weights: tuple[Floats, Floats], is_tame: bool, states: NDArray[np.int16], i: int, work: Floats
) -> float:
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
def _pick(work: Floats, left: float) -> int:
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
def _energy(graph: SpinGraph, fields: Floats, states: NDArray[np.int16]) -> float:
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


class Sites(NamedTuple):
    """What a draw of a site reads: its class is the sum of the strides of the places that hold 1.

    Spins are 0 and 1, and a copy turned over stands behind them (entries n to 2 n - 1), so that a neighbour of negative
    coupling is a neighbour elsewhere.
    """

    places: NDArray[np.uint32]  # (2 n_edges,) a neighbour j, n + j where the coupling is negative
    strides_at: NDArray[np.int64]  # (n,) sites of one shape share their strides
    strides: NDArray[np.int64]
    n_classes: NDArray[np.int64]  # (n,) 0: drawn by its field
    table: NDArray[np.int64]  # (n,)
    thresholds: NDArray[np.uint64]


def sites_of(graph: SpinGraph, classes: LocalClasses) -> Sites:
    """The sites of a graph, from their classes."""
    signed = classes.signed
    places = np.where(signed < 0, ~signed + graph.n_sites, signed).astype(np.uint32)
    return Sites(
        places, graph.starts[classes.shape], classes.strides, classes.n_classes, classes.table, classes.thresholds
    )


@hot
def advance_chain(sites: Sites, graph: SpinGraph, fields: Floats, original: Ints, run: Run, is_random: bool) -> None:
    """Sweep, in order or at random."""
    spins, streams, sums = run.state, run.streams, run.sums
    n = fields.size
    for step in range(1, run.n_steps + 1):
        for t in range(n):
            k = t & 7
            i = int(uniform(streams, k) * n) if is_random else t
            if sites.n_classes[i] > 0:
                threshold = sites.thresholds[_entry(sites, graph, spins, i)]
                is_up = next_word(streams, k) < threshold
                p = float(threshold) * TO_UNIT
            else:
                p = _wide_probability(graph, fields, spins, i)
                is_up = uniform(streams, k) < p
            spins[i] = is_up
            spins[n + i] = not is_up
            if sums.size > 0 and not is_random:
                sums[i] += p
        if sums.size > 0 and is_random:  # how often a site was visited is no business of its marginal's
            for i in range(n):
                if sites.n_classes[i] > 0:
                    sums[i] += float(sites.thresholds[_entry(sites, graph, spins, i)]) * TO_UNIT
                else:
                    sums[i] += _wide_probability(graph, fields, spins, i)
        if step % run.thin == 0:
            _keep(graph, fields, original, run, step // run.thin - 1)


@inlined
def _entry(sites: Sites, graph: SpinGraph, spins: NDArray[np.uint8], i: int) -> int:
    """Where the threshold of the class of site ``i`` is."""
    found = sites.table[i]
    shift = sites.strides_at[i] - graph.starts[i]
    for e in range(graph.starts[i], graph.starts[i + 1]):
        found += sites.strides[shift + e] * spins[sites.places[e]]
    return found  # type: ignore[no-any-return]


@hot
def _wide_probability(graph: SpinGraph, fields: Floats, spins: NDArray[np.uint8], i: int) -> float:
    """Probability of +1 of a site that has no table."""
    field = fields[i]
    for e in range(graph.starts[i], graph.starts[i + 1]):
        field += graph.strengths[e] if spins[graph.neighbours[e]] else -graph.strengths[e]
    return 1.0 / (1.0 + math.exp(-2.0 * field))


@hot
def _keep(graph: SpinGraph, fields: Floats, original: Ints, run: Run, kept: int) -> None:
    """Energy -sum J s s - sum h s, mean spin, means and spins in the order given; begin new sums."""
    energy, magnetisation, up, packed = run.draws
    spins, sums = run.state, run.sums
    total = 0.0
    for e in range(graph.couplings.size):
        differ = spins[graph.edges[e, 0]] != spins[graph.edges[e, 1]]
        total += graph.couplings[e] if differ else -graph.couplings[e]
    n, n_up = fields.size, 0
    for i in range(n):
        total += -fields[i] if spins[i] else fields[i]
        n_up += spins[i]
    energy[kept] = total
    magnetisation[kept] = 2.0 * n_up / n - 1.0
    for i in range(sums.size):
        up[kept, original[i]] = sums[i] / run.thin
        sums[i] = 0.0
    if packed.shape[1] > 0:
        packed[kept] = 0
        for i in range(original.size):
            site = original[i]
            packed[kept, site >> 3] |= np.uint8(spins[i] << (7 - (site & 7)))  # as `numpy.packbits`


@dataclass(frozen=True, eq=False)
class IsingGibbs(Sweeping[SpinState], IsingBase):
    r"""One chain of p(s) proportional to exp(sum of J_ij s_i s_j + sum of h_i s_i), s in {-1, +1}, site by site.

    Parameters
    ----------
    model : IsingModel
        Edges, couplings and fields.
    scan : {"coloured", "cyclic", "random"}, default="coloured"
        The order of a sweep: colour by colour (even then odd sites where two colours are enough), as numbered, or n
        times any site, all equally probable.
    thin : int, default=1
        Sweeps between kept draws; a step is a sweep.
    marginals : bool, default=True
        Keep each site's mean probability of being up given the others.
    keep_spins : bool, default=False
        Keep the spins of every kept draw, one bit a site.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no such scan, or ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats) and ``magnetisation`` (mean spin) of shape (n_kept,); ``up`` of
    shape (n_kept, n_sites): the probability of +1 given the other spins, at the moment of drawing (random scan: after
    each sweep), averaged over the sweeps since the last kept draw; and ``spins``, as `numpy.packbits` packs ``s > 0``.
    A draw is up with its probability to within 2^-52.  On grids `IsingGrid` is tens of times faster.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [1, 2]], [0.5, -0.5], [0.2, 0.0, 0.0])
    >>> trace = sample(IsingGibbs(model, thin=10), Schedule(4, 5000, 100), seed=1)
    >>> trace["up"].mean(axis=(0, 1)).round(2)  # exact: (1 + t) / 2, t = tanh(.2) (1, tanh(.5), -tanh(.5)^2)
    array([0.6 , 0.55, 0.48])
    """

    model: IsingModel
    scan: str = "coloured"
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False

    @cached_property
    def _sites(self) -> Sites:
        model = self._numbered[1]
        return sites_of(model.graph, model.classes)

    def _advance(self, state: SpinState, n_steps: int) -> tuple[SpinState, Draws, dict[str, int]]:
        (order, model), n = self._numbered, self.model.n_sites
        is_up = state.spins[order] > 0
        spins = np.concatenate([is_up, ~is_up]).astype(np.uint8)
        run, draws = self._begin_run(spins, state.streams.copy(), n_steps)
        advance_chain(self._sites, model.graph, model.fields, order, run, self.scan == "random")
        after = np.empty(n, dtype=np.int8)
        after[order] = 2 * spins[:n].astype(np.int8) - 1
        return SpinState(after, run.streams), draws, {"updates": n * n_steps}


@dataclass(frozen=True, eq=False)
class SwendsenWang(IsingBase):
    """One Ising chain that moves by clusters; for lattices that order, where `IsingGibbs` hardly moves.

    Parameters
    ----------
    model : IsingModel
        Edges, couplings and fields.
    thin : int, default=1
        Steps (new bonds, then a new orientation of every cluster) between kept draws.
    marginals, keep_spins
        As of `doxa.inference.spins.IsingGibbs`.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are named as `doxa.inference.spins.IsingGibbs` names them; ``up`` is the probability of +1 given the bonds.
    Where couplings of both signs leave no order that suits all, or fields pull the spins of a cluster apart, clusters
    grow large without leading anywhere, and single spins do better.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [1, 2]], [2.0, -2.0], [0.2, 0.0, 0.0])
    >>> trace = sample(SwendsenWang(model), Schedule(4, 2000, 100), seed=1)
    >>> trace["up"].mean(axis=(0, 1)).round(2)  # exact: (1 + t) / 2, t = tanh(.2) (1, tanh(2), -tanh(2)^2)
    array([0.6 , 0.6 , 0.41])
    """

    model: IsingModel
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False

    def _advance(self, state: SpinState, n_steps: int) -> tuple[SpinState, Draws, dict[str, int]]:
        model, n = self.model, self.model.n_sites
        spins = (state.spins > 0).astype(np.uint8)
        binding = -np.expm1(-2 * np.abs(model.graph.couplings))
        run, draws = self._begin_run(spins, state.streams.copy(), n_steps)
        work = np.empty(n, dtype=np.int64), np.empty(n)
        n_clusters = _advance_clusters(model.graph, model.fields, binding, np.arange(n), run, work)
        after = (2 * spins.astype(np.int8) - 1).astype(np.int8)
        return SpinState(after, run.streams), draws, {"updates": n * n_steps, "clusters": int(n_clusters)}


@hot
def _advance_clusters(
    graph: SpinGraph, fields: Floats, binding: Floats, numbers: Ints, run: Run, work: tuple[Ints, Floats]
) -> int:
    """Make the steps; return the number of clusters, all steps together."""
    spins, streams, sums = run.state, run.streams, run.sums
    parent, pull = work
    n, n_clusters = fields.size, 0
    for step in range(1, run.n_steps + 1):
        for i in range(n):
            parent[i] = i
        for e in range(graph.couplings.size):
            i, j = graph.edges[e, 0], graph.edges[e, 1]
            agrees = (spins[i] == spins[j]) == (graph.couplings[e] > 0.0)
            if agrees and uniform(streams, e & 7) < binding[e]:
                _join(parent, i, j)
        for i in range(n):
            pull[i] = 0.0
        for i in range(n):
            parent[i] = _root(parent, i)
            pull[parent[i]] += fields[i] if spins[i] else -fields[i]
        for i in range(n):
            if parent[i] == i:
                n_clusters += 1
                pull[i] = 1.0 / (1.0 + math.exp(2.0 * pull[i]))  # from here on: the probability of turning over
        for i in range(sums.size):
            sums[i] += 1.0 - pull[parent[i]] if spins[i] else pull[parent[i]]
        for i in range(n):
            if parent[i] == i:
                pull[i] = 1.0 if uniform(streams, i & 7) < pull[i] else 0.0  # from here on: whether it does
        for i in range(n):
            if pull[parent[i]] == 1.0:
                spins[i] ^= 1
        if step % run.thin == 0:
            _keep(graph, fields, numbers, run, step // run.thin - 1)
    return n_clusters


@hot
def _root(parent: Ints, i: int) -> int:
    """The number of the cluster of ``i``; paths are halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@hot
def _join(parent: Ints, i: int, j: int) -> None:
    """Make one cluster of two; the lower number stands for it."""
    a, b = _root(parent, i), _root(parent, j)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b
