r"""`PottsBitParallel`: heat bath of 64 independent Potts chains at once, on any graph.

The weight of state a, :math:`e^{h_i(a)} \prod_j e^{J_{ij} [x_j = a]}`, is worked out for 64 chains at once: bit l of
word (j, a) is set where chain l has site j in state a, and says where to multiply.  So the work does not depend on
whether couplings are equal; truth tables of binary digits, as Ising spins have, would need up to q^4 classes on a
square lattice, not two to 16.

Weights, their sums and the random numbers are those of `doxa.inference.spins.chain`, and what is drawn is exact
in the same sense.  A state is drawn where u total first lies below the sum of the weights up to its own; as u is at
most 1 - 2^-53, the last sum, which is the total, is always above it, and a state of weight 0 never is the first.

Sixty-four floating-point numbers, one for each lane, are one value of compiled code: what the compiler splits into the
vector registers of the machine (eight of AVX-512, 16 of AVX2, 32 of SSE or NEON).  ``+``, ``*`` and ``/`` work lane by
lane and are rounded as single numbers are; bit l of a word speaks of lane l.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Flags, Floats, Ints, Words
from doxa.inference.spins.graph import SpinGraph
from doxa.inference.spins.model import Draws, PottsModel, Run, Sweeping
from doxa.inference.spins.words import (
    EIGHT_WORDS,
    N_LANES,
    N_WORDS,
    VectorType,
    aligned,
    aligned_zeros,
    as_vector,
    copies,
    fresh_streams,
    next_words,
    reads,
    writes,
)

__all__ = ["PottsBitParallel", "PottsBitParallelState", "unpack_potts_lanes"]

_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, N_LANES)
_EIGHT = ir.VectorType(_NUMBER, N_WORDS)
_PLACE = ir.IntType(32)


class _NumbersType(VectorType):
    label: ClassVar[str] = "BitParallelNumbers"
    vector: ClassVar[Any] = _VECTOR
    instructions: ClassVar[Mapping[Any, str]] = {operator.add: "fadd", operator.mul: "fmul", operator.truediv: "fdiv"}


_numbers = as_vector(_NumbersType)


@intrinsic  # type: ignore[untyped-decorator]
def load_lanes(_typing: Any, array: Any, place: Any) -> Any:  # noqa: ARG001 (Numba reads the arguments' names)
    """Numbers ``place`` to ``place + 63`` of a flat float64 array."""
    return _numbers(array, types.int64), reads(_VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def store_lanes(_typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Write them there."""
    return types.void(array, types.int64, _numbers), writes(_VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def each(_typing: Any, scalar: Any) -> Any:  # noqa: ARG001
    """One number in every lane."""
    return _numbers(types.float64), lambda _context, builder, _signature, args: copies(builder, args[0], _VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def times_where(_typing: Any, value: Any, scalar: Any, word: Any) -> Any:  # noqa: ARG001
    """``value``, times ``scalar`` in the lanes whose bit of ``word`` is set."""
    return _numbers(_numbers, types.float64, types.uint64), _where("fmul")


@intrinsic  # type: ignore[untyped-decorator]
def plus_where(_typing: Any, value: Any, scalar: Any, word: Any) -> Any:  # noqa: ARG001
    """``value``, plus ``scalar`` in the lanes whose bit of ``word`` is set."""
    return _numbers(_numbers, types.float64, types.uint64), _where("fadd")


def _where(instruction: str) -> Callable[..., Any]:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        is_set = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), N_LANES))
        changed = getattr(builder, instruction)(args[0], copies(builder, args[1], _VECTOR))
        return builder.select(is_set, changed, args[0])

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def below(_typing: Any, value: Any, other: Any) -> Any:  # noqa: ARG001
    """A word with the bits of the lanes where ``value < other``."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fcmp_ordered("<", *args), ir.IntType(64))

    return types.uint64(_numbers, _numbers), generate


@intrinsic  # type: ignore[untyped-decorator]
def sum_by_place(_typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Add lanes k, k + 8, ..., k + 56 to entry ``place + k`` of a flat float64 array, for each k < 8."""

    def generate(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        parts = []
        for first in range(0, N_LANES, N_WORDS):
            lanes = ir.Constant(ir.VectorType(_PLACE, N_WORDS), list(range(first, first + N_WORDS)))
            parts.append(builder.shuffle_vector(args[2], args[2], lanes))
        before = reads(_EIGHT)(context, builder, kinds, args[:2])
        return writes(_EIGHT)(context, builder, kinds, (*args[:2], reduce(builder.fadd, parts, before)))

    return types.void(array, types.int64, _numbers), generate


@inlined
def random_bit_parallel(streams: Words) -> VectorType:
    """Numbers from {0, 1, ..., 2^53 - 1} / 2^53: lane 8 v + k has the v-th word from now on of stream k."""
    a, b, c, d = next_words(streams), next_words(streams), next_words(streams), next_words(streams)
    return _units((a, b, c, d, next_words(streams), next_words(streams), next_words(streams), next_words(streams)))  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def _units(_typing: Any, words: Any) -> Any:  # noqa: ARG001
    """The leading 53 binary digits of 64 words, as numbers in [0, 1)."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        parts = []
        for k in range(N_WORDS):
            eight = builder.extract_value(args[0], k)
            digits = builder.lshr(eight, copies(builder, ir.Constant(ir.IntType(64), 11), eight.type))
            parts.append(builder.fmul(builder.uitofp(digits, _EIGHT), ir.Constant(_EIGHT, [2.0**-53] * N_WORDS)))
        while len(parts) > 1:
            lanes = ir.Constant(ir.VectorType(_PLACE, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
            parts = [builder.shuffle_vector(x, y, lanes) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return _numbers(types.UniTuple(EIGHT_WORDS, N_WORDS)), generate


N_GROUPS = 8  # chains g, g + 8, ... g + 56 are group g
CHAINS_PER_GROUP = N_LANES // N_GROUPS


@hot
def advance_potts_bit_parallel(
    graph: SpinGraph, fields: Floats, weights: tuple[Floats, Floats, Flags], original: Ints, run: Run, work: Floats
) -> None:
    """Sweep; ``work`` has 64 numbers a state."""
    energy, shares, probability, states = run.draws
    words, streams, sums = run.state, run.streams, run.sums
    own, factors, is_tame = weights
    (n, q), scale = fields.shape, 1.0 / (CHAINS_PER_GROUP * run.thin)
    for step in range(1, run.n_steps + 1):
        for i in range(n):
            if is_tame[i]:
                total = _weigh(graph, own, factors, words, i, q, work)
            else:
                total = _weigh_far(graph, own, words, i, q, work)
            if sums.size > 0:
                inverse = each(1.0) / total
                for a in range(q):
                    sum_by_place(sums, N_GROUPS * (q * i + a), load_lanes(work, N_LANES * a) * inverse)
            _pick(work, total, streams, words, q, i)
        if step % run.thin == 0:
            kept = step // run.thin - 1
            _measure(graph, fields, words, work, energy[kept], shares[kept])
            for i in range(probability.shape[2]):
                for a in range(q):
                    for g in range(N_GROUPS):
                        place = N_GROUPS * (q * i + a) + g
                        probability[kept, g, original[i], a] = sums[place] * scale
                        sums[place] = 0.0
            for i in range(states.shape[1]):
                for a in range(q):
                    states[kept, original[i], a] = words[q * i + a]


@inlined
def _weigh(graph: SpinGraph, own: Floats, factors: Floats, words: Words, i: int, q: int, work: Floats) -> VectorType:
    """Weights of the states of site ``i`` in every chain, into ``work``; their sums."""
    total = each(0.0)
    for a in range(q):
        weight = each(own[i, a])
        for e in range(graph.starts[i], graph.starts[i + 1]):
            weight = times_where(weight, factors[e], words[q * graph.neighbours[e] + a])
        store_lanes(work, N_LANES * a, weight)
        total = total + weight
    return total  # type: ignore[no-any-return]


@hot
def _weigh_far(graph: SpinGraph, own: Floats, words: Words, i: int, q: int, work: Floats) -> VectorType:
    """The weights where products could overflow: ``own`` holds logarithms, and the largest weight is 1."""
    for lane in range(N_LANES):
        highest = -math.inf
        for a in range(q):
            log_weight = own[i, a]
            for e in range(graph.starts[i], graph.starts[i + 1]):
                if (words[q * graph.neighbours[e] + a] >> np.uint64(lane)) & np.uint64(1):
                    log_weight += graph.strengths[e]
            work[N_LANES * a + lane] = log_weight
            highest = max(highest, log_weight)
        for a in range(q):
            work[N_LANES * a + lane] = math.exp(work[N_LANES * a + lane] - highest)
    total = each(0.0)
    for a in range(q):
        total = total + load_lanes(work, N_LANES * a)
    return total  # type: ignore[no-any-return]


@inlined
def _pick(work: Floats, total: VectorType, streams: Words, words: Words, q: int, i: int) -> None:
    """Draw site ``i`` in every chain."""
    left = random_bit_parallel(streams) * total
    reached = each(0.0)
    before = np.uint64(0)
    for a in range(q):
        reached = reached + load_lanes(work, N_LANES * a)
        now = below(left, reached)
        words[q * i + a] = now & ~before
        before = now


@hot
def _measure(graph: SpinGraph, fields: Floats, words: Words, work: Floats, energy: Floats, shares: Floats) -> None:
    """Energy -sum J [x = x] - sum h(x) and the share of the sites in each state, of every chain."""
    n, q = fields.shape
    found = each(0.0)
    for e in range(graph.couplings.size):
        agree = np.uint64(0)
        for a in range(q):
            agree |= words[q * graph.edges[e, 0] + a] & words[q * graph.edges[e, 1] + a]
        found = plus_where(found, -graph.couplings[e], agree)
    for a in range(q):
        count = each(0.0)
        for i in range(n):
            found = plus_where(found, -fields[i, a], words[q * i + a])
            count = plus_where(count, 1.0, words[q * i + a])
        store_lanes(work, 0, count)
        for lane in range(N_LANES):
            shares[lane, a] = work[lane] / n
    store_lanes(energy, 0, found)


class PottsBitParallelState(NamedTuple):
    """Where 64 chains stand."""

    words: NDArray[np.uint64]  # (n_sites, n_states), bit l of (i, a): chain l has site i in state a
    streams: NDArray[np.uint64]  # (32,), of the random words


@dataclass(frozen=True, eq=False)
class PottsBitParallel(Sweeping[PottsBitParallelState]):
    """64 chains of a Potts model, site by site, coloured.

    Parameters
    ----------
    model : PottsModel
        Edges, couplings and fields.
    thin, marginals, keep_states
        As of `doxa.inference.spins.PottsGibbs`.  Marginals cost a quarter to a half, and more where ``thin`` is small;
        states take eight bytes a site and state.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``thin`` is not a whole number of at least one.

    Notes
    -----
    Draws are ``energy`` (-log p up to a constant, nats), shape (n_kept, 64); ``shares``, the share of the sites in each
    state, shape (n_kept, 64, n_states); ``probability``, shape (n_kept, 8, n_sites, n_states): given the others, at the
    moment of drawing, averaged over the sweeps since the last kept draw and over eight chains (chains g, g + 8, ...,
    g + 56 are group g); and ``states``, shape (n_kept, n_sites, n_states), words that `unpack_potts_lanes` takes apart.
    Chains are independent, and so are groups.  Probabilities are those of floating-point numbers, about 2^-52 off, as
    of `doxa.inference.spins.PottsGibbs`.  Time grows with states times neighbours; whether couplings are equal does not
    matter.  Sites with sums of |J| and fields above 600 are drawn one chain after another.

    Examples
    --------
    >>> from doxa.sampling.driver import Schedule, sample
    >>> model = PottsModel([[0, 1]], 0.7, [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    >>> trace = sample(PottsBitParallel(model, thin=4), Schedule(1, 500, 100), seed=1)
    >>> trace["probability"].shape, trace["energy"].shape
    ((1, 500, 8, 2, 3), (1, 500, 64))
    >>> trace["probability"].mean(axis=(0, 1, 2)).round(2)  # first e^.5 / (2 + e^.5) = .452
    array([[0.27, 0.27, 0.45],
           [0.32, 0.32, 0.36]])
    """

    model: PottsModel
    thin: int = 1
    marginals: bool = True
    keep_states: bool = False
    scan = "coloured"
    state_type: ClassVar[type[PottsBitParallelState]] = PottsBitParallelState

    def init(self, rng: np.random.Generator) -> PottsBitParallelState:
        """All possible states equally probable, at every site of every chain."""
        return PottsBitParallelState(
            _pack(self.model.random_states(rng, N_LANES), self.model.n_states), fresh_streams(rng)
        )

    def begin(self, states: NDArray[np.int64], rng: np.random.Generator) -> PottsBitParallelState:
        """64 chains that all stand at the same possible states, shape (n_sites,)."""
        rows = np.tile(states.astype(np.int16), (N_LANES, 1))
        return PottsBitParallelState(_pack(rows, self.model.n_states), fresh_streams(rng))

    def _advance(
        self, state: PottsBitParallelState, n_steps: int
    ) -> tuple[PottsBitParallelState, Draws, dict[str, int]]:
        order, model = self._numbered
        (n, q), n_kept = model.fields.shape, n_steps // self.thin
        words = aligned(state.words[order].ravel())
        asked_sites = n if self.marginals else 0
        draws = {
            "energy": np.empty((n_kept, N_LANES)),
            "shares": np.empty((n_kept, N_LANES, q)),
            "probability": np.empty((n_kept, N_GROUPS, asked_sites, q)),
            "states": np.empty((n_kept, n if self.keep_states else 0, q), dtype=np.uint64),
        }
        is_tame = model.is_tame
        own = np.where(is_tame[:, None], np.exp(model.own_logs), model.own_logs)
        with np.errstate(over="ignore"):  # of sites that are not tame, where factors are not used
            factors = np.exp(model.graph.strengths)
        sums = aligned_zeros(N_GROUPS * asked_sites * q).view(np.float64)
        run = Run(words, aligned(state.streams), sums, n_steps, self.thin, tuple(draws.values()))
        work = aligned_zeros(N_LANES * q).view(np.float64)
        advance_potts_bit_parallel(model.graph, model.fields, (own, factors, is_tame), order, run, work)
        after = np.empty((n, q), dtype=np.uint64)
        after[order] = words.reshape(n, q)
        return PottsBitParallelState(after, run.streams.copy()), draws, {"updates": N_LANES * n * n_steps}


def _pack(states: NDArray[np.int16], n_states: int) -> NDArray[np.uint64]:
    """Words (n_sites, n_states) of the states (64, n_sites) of 64 chains."""
    words = np.zeros((states.shape[1], n_states), dtype=np.uint64)
    sites = np.arange(states.shape[1])
    for lane, row in enumerate(states):
        words[sites, row] |= np.uint64(1) << np.uint64(lane)
    return words


def unpack_potts_lanes(words: NDArray[np.uint64]) -> NDArray[np.int16]:
    """States of the 64 chains, shape (64, ...), from words of shape (..., n_states).

    Examples
    --------
    >>> unpack_potts_lanes(np.array([2**64 - 4, 1, 2], dtype=np.uint64))[:4]
    array([1, 2, 0, 0], dtype=int16)
    """
    lanes = np.arange(N_LANES, dtype=np.uint64)
    return np.stack([((words >> lane) & np.uint64(1)).argmax(axis=-1) for lane in lanes]).astype(np.int16)
