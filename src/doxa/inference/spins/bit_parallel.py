"""`IsingBitParallel`: heat bath of 64 independent Ising chains at once, one in each bit of a word (multi-spin coding).

Any graph, any couplings and fields; the order of the sites is that of `doxa.inference.spins.graph.Batches`.

A spin is up where a random number u in [0, 1) lies below the threshold of its class.  Both are compared digit by binary
digit, for 64 chains at once: a random word is one digit of u in every chain, and the matching digit of the threshold is
a Boolean function of the neighbours' words, the union of the classes whose digit is 1.  Where the two digits differ,
the chain is decided: up if the threshold's is the 1.  Half of the undecided are decided by each digit, whatever the
thresholds; what ten digits leave open, 64 / 1024 chains a word, is settled one by one with 54 digits more.  So u has
64 digits, fresh for every chain: the spin is up with probability threshold / 2^64 exactly, independently of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined, lowest_bit
from doxa.arrays import Floats, Words
from doxa.inference.spins.graph import N_PLANES, Batches, SpinGraph
from doxa.inference.spins.model import BaseSampler, Draws, IsingModel, Run
from doxa.inference.spins.words import (
    MASKS,
    N_LANES,
    TO_UNIT,
    WORK_SIZE,
    VectorType,
    add_neighbour,
    aligned,
    aligned_zeros,
    begin_masks,
    chosen,
    class_of,
    fresh_streams,
    load,
    next_word,
    next_words,
    same,
    shifted_right,
    store,
    uniform,
)

__all__ = ["BitParallelState", "IsingBitParallel", "unpack_lanes"]

N_GROUPS = 8  # chains whose conditional probabilities are summed together: one byte of the word
LANES_PER_GROUP = N_LANES // N_GROUPS

_ALL = 2**64 - 1
_SETTLE_EVERY = 31  # a byte of a tally grows by at most 8 a sweep
_DIGITS = np.uint64(N_PLANES)


@hot
def advance_bit_parallel(
    batches: Batches, graph: SpinGraph, fields: Floats, run: Run, work: Words, lane_fields: Floats, tallies: Words
) -> None:
    """Sweep; the words have a spare entry at their end, and ``tallies`` is empty without marginals."""
    energy, magnetisation, up, spins = run.draws
    words, streams, sums = run.state, run.streams, run.sums
    marginals = up.shape[2] > 0
    unsettled = 0
    for step in range(1, run.n_steps + 1):
        for b in range(batches.degree.size):
            _draw_batch(batches, b, words, streams, work, tallies)
        for i in range(batches.wide.size):
            _draw_wide(graph, fields, batches.wide[i], words, streams, lane_fields, sums, marginals)
        unsettled += 1
        if marginals and (unsettled == _SETTLE_EVERY or step % run.thin == 0):
            _settle(batches, tallies, sums)
            unsettled = 0
        if step % run.thin == 0:
            kept = step // run.thin - 1
            _measure(graph, fields, words, energy[kept], magnetisation[kept])
            for i in range(up.shape[2]):
                for g in range(N_GROUPS):
                    up[kept, g, i] = sums[N_GROUPS * i + g] / (LANES_PER_GROUP * run.thin)
                    sums[N_GROUPS * i + g] = 0.0
            for i in range(spins.shape[1]):
                spins[kept, i] = words[i]


@inlined
def _draw_batch(batches: Batches, b: int, words: Words, streams: Words, work: Words, tallies: Words) -> None:
    n_classes = batches.n_classes[b]
    _write_masks(batches, b, words, work)
    if tallies.size > 0:
        for m in range(n_classes):
            place = batches.tallies_at[b] + 8 * m
            store(tallies, place, load(tallies, place) + _bits_in_bytes(load(work, MASKS + 8 * m)))
    undecided = same(np.uint64(_ALL))
    up = undecided ^ undecided
    for digit in range(N_PLANES):
        table = load(batches.planes, batches.planes_at[b] + 8 * digit)
        threshold = undecided ^ undecided
        for m in range(n_classes):
            threshold = threshold | chosen(load(work, MASKS + 8 * m), table, np.uint64(m))
        u = next_words(streams)
        up = up | (undecided & threshold & ~u)
        undecided = undecided & ~(threshold ^ u)
    store(work, 0, up)
    store(work, 8, undecided)
    for w in range(8):
        site = batches.sites[8 * b + w]
        if site == words.size - 1:
            break  # filled up: no random words for it, as what the spare word holds is not part of the state
        found = work[w]
        left = work[8 + w]
        while left != np.uint64(0):
            lane = np.uint64(lowest_bit(left))
            left &= left - np.uint64(1)
            rest = batches.thresholds[batches.tables_at[b] + 8 * class_of(work, w, lane) + w] << _DIGITS
            if next_word(streams, w) >> _DIGITS < rest >> _DIGITS:
                found |= np.uint64(1) << lane
        words[site] = found


@inlined
def _write_masks(batches: Batches, b: int, words: Words, work: Words) -> None:
    """Which chains are in which class, by adding one neighbour after another; every chain ends in exactly one."""
    begin_masks(work)
    top = 0
    for j in range(batches.degree[b]):
        for w in range(8):
            signed = batches.signed[batches.signed_at[b] + 8 * j + w]
            turned = signed >> 63
            work[w] = words[signed ^ turned] ^ np.uint64(turned)
        top = add_neighbour(work, load(work, 0), top, batches.strides[batches.strides_at[b] + j])


@inlined
def _bits_in_bytes(value: VectorType) -> VectorType:
    """The number of set bits of each byte, in that byte."""
    ones = same(np.uint64(0x5555555555555555))
    twos = same(np.uint64(0x3333333333333333))
    fours = same(np.uint64(0x0F0F0F0F0F0F0F0F))
    pairs = value - (shifted_right(value, np.uint64(1)) & ones)
    halves = (pairs & twos) + (shifted_right(pairs, np.uint64(2)) & twos)
    return (halves + shifted_right(halves, np.uint64(4))) & fours  # type: ignore[no-any-return]


@hot
def _draw_wide(
    graph: SpinGraph,
    fields: Floats,
    site: int,
    words: Words,
    streams: Words,
    lane_fields: Floats,
    sums: Floats,
    marginals: bool,
) -> None:
    """Draw a site of many classes: the local field of each chain, and its probability."""
    lane_fields[:] = fields[site]
    for e in range(graph.starts[site], graph.starts[site + 1]):
        other, strength = words[graph.neighbours[e]], graph.strengths[e]
        for lane in range(64):
            lane_fields[lane] += strength if (other >> np.uint64(lane)) & np.uint64(1) else -strength
    found = np.uint64(0)
    for lane in range(64):
        p = 1.0 / (1.0 + math.exp(-2.0 * lane_fields[lane]))
        if uniform(streams, lane & 7) < p:
            found |= np.uint64(1) << np.uint64(lane)
        if marginals:
            sums[N_GROUPS * site + lane // LANES_PER_GROUP] += p
    words[site] = found


@hot
def _settle(batches: Batches, tallies: Words, sums: Floats) -> None:
    """Add the probabilities that the tallies stand for to ``sums`` (site, group), and begin new tallies."""
    for b in range(batches.degree.size):
        for m in range(batches.n_classes[b]):
            for w in range(8):
                place = 8 * m + w
                counts = tallies[batches.tallies_at[b] + place]
                p = float(batches.thresholds[batches.tables_at[b] + place]) * TO_UNIT
                for g in range(N_GROUPS):
                    count = (counts >> np.uint64(8 * g)) & np.uint64(255)
                    sums[N_GROUPS * batches.sites[8 * b + w] + g] += float(count) * p
    tallies[:] = 0


@hot
def _measure(graph: SpinGraph, fields: Floats, words: Words, energy: Floats, magnetisation: Floats) -> None:
    """Energy -sum J s s - sum h s and mean spin of every chain."""
    energy[:] = 0.0
    magnetisation[:] = 0.0
    lowest = 0.0
    for e in range(graph.couplings.size):
        strength = graph.couplings[e]
        lowest -= strength
        differ = words[graph.edges[e, 0]] ^ words[graph.edges[e, 1]]
        for lane in range(64):
            energy[lane] += 2.0 * strength if (differ >> np.uint64(lane)) & np.uint64(1) else 0.0
    n = fields.size
    for i in range(n):
        field, spin = fields[i], words[i]
        lowest += field
        for lane in range(64):
            is_up = (spin >> np.uint64(lane)) & np.uint64(1)
            energy[lane] -= 2.0 * field if is_up else 0.0
            magnetisation[lane] += 1.0 if is_up else 0.0
    for lane in range(64):
        energy[lane] += lowest
        magnetisation[lane] = 2.0 * magnetisation[lane] / n - 1.0


class BitParallelState(NamedTuple):
    """Where 64 chains stand."""

    words: NDArray[np.uint64]  # (n_sites,), bit l: chain l's spin is up
    streams: NDArray[np.uint64]  # (32,), of the random words


@dataclass(frozen=True, eq=False)
class IsingBitParallel(BaseSampler[BitParallelState]):
    r"""64 chains of p(s) proportional to exp(sum of J_ij s_i s_j + sum of h_i s_i), s in {-1, +1}, site by site.

    Parameters
    ----------
    model : IsingModel
        Edges, couplings and fields.
    thin, marginals, keep_spins
        As of `doxa.inference.spins.IsingGibbs`.  Marginals cost a tenth to a third, and more where ``thin`` is small;
        spins take eight bytes a site.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats) and ``magnetisation`` (mean spin) of shape (n_kept, 64); ``up``
    of shape (n_kept, 8, n_sites): the probability of +1 given the other spins at the moment of drawing, averaged over
    the sweeps since the last kept draw and over eight chains (chains 8 g to 8 g + 7 are group g); and ``spins``, shape
    (n_kept, n_sites), words that `unpack_lanes` takes apart.  Chains are independent, and so are groups: to the error
    of ``up`` each group is a chain.  A draw is up with its probability to within 2^-52.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = IsingModel([[0, 1], [1, 2]], [0.5, -0.5], [0.2, 0.0, 0.0])
    >>> trace = sample(IsingBitParallel(model, thin=4), Schedule(1, 500, 100), seed=1)
    >>> trace["up"].shape, trace["energy"].shape
    ((1, 500, 8, 3), (1, 500, 64))
    >>> trace["up"].mean(axis=(0, 1, 2)).round(2)  # exact: (1 + tanh(.2) t) / 2, t = 1, tanh(.5), -tanh(.5)^2
    array([0.6 , 0.55, 0.48])
    """

    model: IsingModel
    thin: int = 1
    marginals: bool = True
    keep_spins: bool = False
    state_type: ClassVar[type[BitParallelState]] = BitParallelState

    def init(self, rng: np.random.Generator) -> BitParallelState:
        """Spins up or down with probability one half each, in every chain."""
        words = rng.integers(0, 2**64, self.model.n_sites, dtype=np.uint64)
        return BitParallelState(words, fresh_streams(rng))

    def _advance(self, state: BitParallelState, n_steps: int) -> tuple[BitParallelState, Draws, dict[str, int]]:
        model, n, n_kept = self.model, self.model.n_sites, n_steps // self.thin
        batches = model.batches
        words = np.append(state.words, np.uint64(0))
        n_tallies = batches.n_tallies if self.marginals else 0
        draws = {
            "energy": np.empty((n_kept, N_LANES)),
            "magnetisation": np.empty((n_kept, N_LANES)),
            "up": np.empty((n_kept, N_GROUPS, n if self.marginals else 0)),
            "spins": np.empty((n_kept, n if self.keep_spins else 0), dtype=np.uint64),
        }
        sums = np.zeros(N_GROUPS * (n + 1))
        run = Run(words, aligned(state.streams), sums, n_steps, self.thin, tuple(draws.values()))
        work, lane_fields = aligned_zeros(WORK_SIZE), np.empty(N_LANES)
        advance_bit_parallel(batches, model.graph, model.fields, run, work, lane_fields, aligned_zeros(n_tallies))
        return BitParallelState(words[:n], run.streams.copy()), draws, {"updates": N_LANES * n * n_steps}


def unpack_lanes(words: NDArray[np.uint64]) -> NDArray[np.int8]:
    """Spins -1 and +1 of the 64 chains, shape (64, ...), from words of shape (...).

    Examples
    --------
    >>> unpack_lanes(np.array([1, 3], dtype=np.uint64))[:3]
    array([[ 1,  1],
           [-1,  1],
           [-1, -1]], dtype=int8)
    """
    lanes = np.arange(N_LANES, dtype=np.uint64).reshape(-1, *(1,) * words.ndim)
    bits = (words >> lanes) & np.uint64(1)
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)
