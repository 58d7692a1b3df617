r"""`SpinPath`: Ising models at rising inverse temperatures, 512 chains at a time.

.. math:: f_\beta(s) = \exp \Big( c + \sum_i [(1 - \beta) b_i + \beta h_i] s_i + \beta \sum_{ij} J_{ij} s_i s_j \Big).

At beta = 0 spins are independent with fields b (those of the model itself unless others are given); at beta = 1 it is
the model.  The same form on tables of any shape is `doxa.inference.annealing.tables`.

Bit l of word w is chain 64 w + l.  A spin is up where 64 random binary digits, read as a number, lie below the
threshold of its class (`doxa.inference.spins.graph`).  Threshold and number are compared digit by digit for all chains
at once: the threshold's digit is the union of the classes whose digit is 1, and where the two differ a chain is
decided.  Each digit decides half of those left, so about eleven are looked at.  Thresholds are made anew at every
temperature, once for the 512.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError
from doxa.inference.spins.graph import SpinGraph, as_fields, local_classes, spin_graph, thresholds_of
from doxa.inference.spins.words import (
    MASKS,
    N_WORDS,
    WORK_SIZE,
    VectorType,
    add_neighbour,
    aligned,
    aligned_zeros,
    begin_masks,
    chosen,
    fresh_streams,
    load,
    next_words,
    same,
    store,
    word,
)

__all__ = ["SpinPath"]

N_CHAINS = 64 * N_WORDS

_ALL = 2**64 - 1
_ZERO = np.uint64(0)
_LOOK_AFTER = 8  # digits: before that some of 512 chains are almost surely undecided
_TOP = 2.0**64
_SAFE = 300.0  # exponents whose products neither overflow nor vanish


@hot
def set_thresholds(spins: SpinArrays, beta: float, odds: Floats, thresholds: Words) -> None:
    """Thresholds of all classes at one inverse temperature, 2^64 / (1 + odds of down); ``odds`` is work space."""
    for k in range(spins.owners.size):
        i = spins.owners[k]
        field = (1.0 - beta) * spins.base[i] + beta * spins.fields[i]
        first, strength = spins.table[i], 0.0
        for e in range(spins.starts[i], spins.starts[i + 1]):
            strength += spins.strengths[e]
        lowest = field - beta * strength
        if abs(field) + beta * strength < _SAFE / 2:
            odds[0] = math.exp(-2.0 * lowest)
            top = 0
            for e in range(spins.starts[i], spins.starts[i + 1]):
                factor, stride = math.exp(-4.0 * beta * spins.strengths[e]), spins.strides[e]
                for m in range(top + 1, top + stride + 1):
                    odds[m] = odds[m - stride] * factor
                top += stride
        else:
            odds[0] = lowest  # local fields first
            top = 0
            for e in range(spins.starts[i], spins.starts[i + 1]):
                stride = spins.strides[e]
                for m in range(top + 1, top + stride + 1):
                    odds[m] = odds[m - stride] + 2.0 * beta * spins.strengths[e]
                top += stride
            for m in range(top + 1):
                odds[m] = math.exp(min(-2.0 * odds[m], 700.0))
        for m in range(spins.n_classes[i]):
            scaled = _TOP / (1.0 + odds[m])
            thresholds[first + m] = np.uint64(_ALL) if scaled >= _TOP else np.uint64(scaled)


@hot
def sweep_spins(
    spins: SpinArrays, thresholds: Words, is_reversed: bool, state: Words, streams: Words, work: Words
) -> None:
    """Draw every site given the others: in order, or in the opposite order, which is the reversal of that."""
    n = spins.n_classes.size
    for t in range(n):
        i = n - 1 - t if is_reversed else t
        write_masks(spins, i, state, work)
        store(state, N_WORDS * i, _below(thresholds, spins.table[i], spins.n_classes[i], streams, work))


@inlined
def write_masks(spins: SpinArrays, i: int, state: Words, work: Words) -> None:
    """Which chains are in which class of site ``i``."""
    begin_masks(work)
    top = 0
    for e in range(spins.starts[i], spins.starts[i + 1]):
        signed = spins.signed[e]
        turned = signed >> 63
        up = load(state, N_WORDS * (signed ^ turned)) ^ same(np.uint64(turned))
        top = add_neighbour(work, up, top, spins.strides[e])


@inlined
def _below(thresholds: Words, first: int, n_classes: int, streams: Words, work: Words) -> VectorType:
    """Where random numbers lie below the thresholds of the classes in ``work``."""
    undecided = same(np.uint64(_ALL))
    up = undecided ^ undecided
    for digit in range(64):
        threshold = digit_of(thresholds, first, n_classes, digit, MASKS, work)
        u = next_words(streams)
        up = up | (undecided & threshold & ~u)
        undecided = undecided & ~(threshold ^ u)
        if digit >= _LOOK_AFTER and not any_bit(undecided):
            break
    return up  # type: ignore[no-any-return]


@inlined
def digit_of(thresholds: Words, first: int, n_classes: int, digit: int, masks: int, work: Words) -> VectorType:
    """A binary digit (0 is 1/2) of the threshold of each chain, whose class the masks say."""
    found = same(_ZERO)
    for m in range(n_classes):
        table = same(thresholds[first + m])
        found = found | chosen(load(work, masks + N_WORDS * m), table, np.uint64(63 - digit))
    return found  # type: ignore[no-any-return]


@inlined
def any_bit(value: VectorType) -> bool:
    """Whether any bit of eight words is set."""
    left = word(value, 0) | word(value, 1) | word(value, 2) | word(value, 3)
    left |= word(value, 4) | word(value, 5) | word(value, 6) | word(value, 7)
    return bool(left != _ZERO)


@hot
def draw_base(thresholds: Words, state: Words, streams: Words, work: Words) -> None:
    """Draw every site by itself; ``thresholds`` holds one a site."""
    for i in range(thresholds.size):
        begin_masks(work)
        store(state, N_WORDS * i, _below(thresholds, i, 1, streams, work))


class Chains(NamedTuple):
    """512 chains, and work space."""

    state: NDArray[np.uint64]
    streams: NDArray[np.uint64]
    work: NDArray[np.uint64]
    thresholds: NDArray[np.uint64]
    odds: NDArray[np.float64]


@hot
def anneal_spins(
    spins: SpinArrays,
    betas: Floats,
    is_reversed: bool,
    sweeps: int,
    chains: Chains,
    log_weights: Floats,
    variances: Floats,
) -> None:
    """Take 512 chains along ``betas``, in place; ``variances`` gets that of the log weights after every step.

    Log weights grow by the log of the ratio of two neighbouring distributions, the one of larger beta above.
    """
    state, streams, work, thresholds, odds = chains
    for k in range(1, betas.size):
        _add_energy(spins, abs(betas[k] - betas[k - 1]), state, work, log_weights)
        variances[k - 1] = _variance(log_weights)
        if k < betas.size - 1:
            set_thresholds(spins, betas[k], odds, thresholds)
            for _ in range(sweeps):
                sweep_spins(spins, thresholds, is_reversed, state, streams, work)


@hot
def _variance(values: Floats) -> float:
    mean, total = 0.0, 0.0
    for c in range(values.size):
        mean += values[c]
    mean /= values.size
    for c in range(values.size):
        total += (values[c] - mean) ** 2
    return float(total / (values.size - 1))


@hot
def _add_energy(spins: SpinArrays, step: float, state: Words, counts: Words, log_weights: Floats) -> None:
    """Add ``step`` times the derivative of the log density by beta to every chain's log weight."""
    highest = 0.0
    for g in range(spins.sizes.size):
        size, begin, end = spins.sizes[g], spins.group_starts[g], spins.group_starts[g + 1]
        highest += size * (end - begin)
        n_digits = 1
        for d in range(1, 64):
            n_digits += (end - begin) >> d != 0
        _count(spins, begin, end, state, n_digits, counts)
        value = -2.0 * step * size
        for d in range(n_digits):
            for w in range(N_WORDS):
                _add_where(counts[N_WORDS * d + w], value, log_weights, 64 * w)
            value *= 2.0
    begin = spins.group_starts[spins.sizes.size]  # from here on all sizes differ
    for e in range(begin, spins.lone.size + begin):
        highest += spins.lone[e - begin]
    _add_lone(spins, begin, step, state, log_weights)
    for i in range(spins.shift.size):
        highest += spins.shift[i]
        for w in range(N_WORDS):
            _add_where(~state[N_WORDS * i + w], -2.0 * step * spins.shift[i], log_weights, 64 * w)
    for c in range(N_CHAINS):
        log_weights[c] += step * highest


@hot
def _count(spins: SpinArrays, begin: int, end: int, state: Words, n_digits: int, counts: Words) -> None:
    """How many of the edges are against their couplings: binary digit d of all chains is ``counts[8 d : 8 d + 8]``."""
    for c in range(N_WORDS * n_digits):
        counts[c] = 0
    for e in range(begin, end):
        i, signed = spins.ends[e, 0], spins.ends[e, 1]
        turned = signed >> 63
        carry = load(state, N_WORDS * i) ^ load(state, N_WORDS * (signed ^ turned)) ^ same(np.uint64(turned))
        for d in range(n_digits):
            if (e - begin + 1) >> d == 0:
                break  # no count is that large yet
            old = load(counts, N_WORDS * d)
            store(counts, N_WORDS * d, old ^ carry)
            carry = old & carry


@hot
def _add_lone(spins: SpinArrays, begin: int, step: float, state: Words, log_weights: Floats) -> None:
    """Edges of different sizes, four at a time: a sum is read and written once for the four."""
    n = spins.lone.size
    one, scale = np.uint64(1), -2.0 * step
    for e in range(0, n - 3, 4):
        a, b, c, d = (scale * spins.lone[e], scale * spins.lone[e + 1], scale * spins.lone[e + 2],
                      scale * spins.lone[e + 3])  # fmt: skip
        for w in range(N_WORDS):
            p, q = _against(spins, begin + e, w, state), _against(spins, begin + e + 1, w, state)
            r, s = _against(spins, begin + e + 2, w, state), _against(spins, begin + e + 3, w, state)
            for lane in range(64):
                t = np.uint64(lane)
                first = a * float((p >> t) & one) + b * float((q >> t) & one)
                log_weights[64 * w + lane] += first + (c * float((r >> t) & one) + d * float((s >> t) & one))
    for e in range(n - n % 4, n):
        for w in range(N_WORDS):
            _add_where(_against(spins, begin + e, w, state), scale * spins.lone[e], log_weights, 64 * w)


@inlined
def _against(spins: SpinArrays, e: int, w: int, state: Words) -> np.uint64:
    """Chains of word ``w`` in which edge ``e`` is against its coupling."""
    i, signed = spins.ends[e, 0], spins.ends[e, 1]
    turned = signed >> 63
    return state[N_WORDS * i + w] ^ state[N_WORDS * (signed ^ turned) + w] ^ np.uint64(turned)  # type: ignore[no-any-return]


@inlined
def _add_where(bits: np.uint64, value: float, sums: Floats, first: int) -> None:
    """Add ``value`` to the sums of the chains whose bit is set."""
    for lane in range(64):
        sums[first + lane] += value * float((bits >> np.uint64(lane)) & np.uint64(1))


_FROZEN = 1e9  # inverse temperature at which nothing but ties is left to chance
_ASCENTS = 20  # sweeps there
_FEWEST = 12  # edges of one |J| that are counted together


class SpinArrays(NamedTuple):
    """What the kernels read."""

    starts: Ints  # (n + 1,) neighbours of site i are entries starts[i] to starts[i + 1]
    signed: Ints  # a neighbour, ~neighbour where the coupling is negative
    strengths: Floats  # |J|
    strides: Ints  # see `doxa.inference.spins.graph`
    n_classes: Ints  # (n,)
    table: Ints  # (n,) where a site's thresholds begin
    owners: Ints  # sites whose thresholds are made; others share them
    base: Floats  # (n,)
    fields: Floats  # (n,)
    ends: Ints  # (n_edges, 2) sorted by |J|, ~j where J is negative: groups of one |J|, then the lone ones
    sizes: Floats  # (n_groups,) |J|
    group_starts: Ints  # (n_groups + 1,)
    lone: Floats  # |J| of the other edges
    shift: Floats  # (n,) fields minus base; (0,) where there is no difference

    @property
    def n_thresholds(self) -> int:
        """Number of thresholds of all sites together."""
        return int(self.table.max() + self.n_classes.max())


def spin_arrays(graph: SpinGraph, fields: Floats, base: Floats) -> SpinArrays | None:
    """Arrays for the kernels; None where a site has too many classes."""
    classes = local_classes(graph, fields)
    if (classes.n_classes == 0).any():
        return None
    fields, base = fields.copy(), base.copy()  # one type for the kernels, whoever made them read-only
    n, table, owners = len(fields), classes.table, np.flatnonzero(classes.kind == np.arange(len(fields)))
    shift = np.zeros(0)
    if not np.array_equal(base, fields):
        table, owners, shift = np.cumsum(classes.n_classes) - classes.n_classes, np.arange(n), fields - base
    size = np.abs(graph.couplings)
    values, which, number = np.unique(size, return_inverse=True, return_counts=True)
    grouped = np.flatnonzero(number >= _FEWEST)
    rank = np.full(len(values), len(grouped))
    rank[grouped] = np.arange(len(grouped))
    order = np.argsort(rank[which], kind="stable")
    ends = graph.edges[order]
    negative = graph.couplings[order] < 0
    ends[negative, 1] = ~ends[negative, 1]
    group_starts = np.append(0, np.cumsum(number[grouped]))
    return SpinArrays(
        graph.starts, classes.signed, np.abs(graph.strengths), classes.strides, classes.n_classes, table, owners,
        base, fields, np.ascontiguousarray(ends), values[grouped], group_starts, size[order][group_starts[-1] :], shift,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SpinPath:
    """From independent spins to an Ising model.

    Parameters
    ----------
    edges : array_like of int, shape (n_edges, 2)
    couplings : array_like of float, shape (n_edges,) or ()
        J, nats.
    fields : array_like of float, shape (n,)
        h, nats.
    base : array_like of float, shape (n,), optional
        Fields b at beta = 0; those of the model when left out.
    constant : float, default=0.0
        Nats, in the log of every weight.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the graph is wrong (see `doxa.inference.spins.IsingModel`), ``base`` is not one finite field a site, or a
        site has too many neighbours of different couplings: more than 64 classes.

    Examples
    --------
    >>> path = SpinPath([[0, 1], [1, 2]], 0.5, [0.1, 0.0, 0.0])
    >>> log_weights, states, variances = path.forward(np.linspace(0, 1, 21), np.random.default_rng(1))
    >>> exact = np.log(2 * np.cosh(0.1) * (2 * np.cosh(0.5)) ** 2)
    >>> bool(abs(np.log(np.exp(log_weights).mean()) - exact) < 0.02), states.shape
    (True, (512, 3))
    """

    edges: ArrayLike
    couplings: ArrayLike
    fields: ArrayLike
    base: ArrayLike | None = None
    constant: float = 0.0

    block = N_CHAINS
    speed = 40  # sites drawn in the time of one of `TablePath`

    def __post_init__(self) -> None:
        """Refuse what the kernels cannot take."""
        _ = self.arrays

    @cached_property
    def graph(self) -> SpinGraph:
        """Which sites are coupled."""
        return spin_graph(len(as_fields(self.fields, 1)), self.edges, self.couplings)

    @cached_property
    def arrays(self) -> SpinArrays:
        """What the kernels read."""
        fields = as_fields(self.fields, 1)
        base = fields if self.base is None else as_fields(self.base, 1)
        if base.shape != fields.shape:
            raise ArgumentError(f"base has shape {base.shape} but there are {len(fields)} sites; give a field for each")
        arrays = spin_arrays(self.graph, fields, base)
        if arrays is None:
            raise ArgumentError(
                "couplings give a site more than 64 classes of neighbours (more than six different sizes); "
                "use a TablePath of the network's factors"
            )
        return arrays

    @property
    def n_variables(self) -> int:
        """Number of spins."""
        return len(self.arrays.fields)

    @cached_property
    def log_z0(self) -> float:
        """Log of the sum of f at beta = 0, nats."""
        b = self.arrays.base
        return float(np.logaddexp(b, -b).sum()) + self.constant

    def log_value(self, states: ArrayLike) -> Floats:
        """Log f at beta = 1, nats, of rows of states 0 (down) and 1."""
        s = 2.0 * np.asarray(states) - 1.0
        pairs = s[:, self.graph.edges[:, 0]] * s[:, self.graph.edges[:, 1]]
        return np.asarray(pairs @ self.graph.couplings + s @ self.arrays.fields + self.constant)

    def forward(
        self, betas: Floats, rng: np.random.Generator, sweeps: int = 1
    ) -> tuple[Floats, NDArray[np.uint8], Floats]:
        """Anneal 512 chains from beta = 0; see `doxa.inference.annealing.path.Path`."""
        streams, work = aligned(fresh_streams(rng)), aligned_zeros(WORK_SIZE)
        state = aligned_zeros(N_WORDS * self.n_variables)
        draw_base(thresholds_of(self.arrays.base), state, streams, work)
        return self._anneal(betas, False, sweeps, state, streams, work)

    def reverse(
        self, betas: Floats, states: ArrayLike, rng: np.random.Generator, sweeps: int = 1
    ) -> tuple[Floats, NDArray[np.uint8], Floats]:
        """Anneal 512 chains from draws of the model to beta = 0; see `doxa.inference.annealing.path.Path`."""
        streams, work = aligned(fresh_streams(rng)), aligned_zeros(WORK_SIZE)
        return self._anneal(betas[::-1].copy(), True, sweeps, pack_spins(np.asarray(states)), streams, work)

    def stay(self, states: ArrayLike, n_sweeps: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Sweep 512 chains at beta = 1."""
        streams, work = aligned(fresh_streams(rng)), aligned_zeros(WORK_SIZE)
        betas = np.array([1.0, 1.0, 1.0])  # one stop on the way, of n_sweeps
        return self._anneal(betas, False, n_sweeps, pack_spins(np.asarray(states)), streams, work)[1]

    def cool(self, betas: Floats, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Cool 512 chains along inverse temperatures of couplings and fields, then let them ascent."""
        flat = replace(self, base=np.zeros(self.n_variables))
        return flat.forward(np.concatenate([[0.0], betas, np.full(_ASCENTS, _FROZEN)]), rng)[1]

    def _anneal(
        self, betas: Floats, is_reversed: bool, sweeps: int, state: Words, streams: Words, work: Words
    ) -> tuple[Floats, NDArray[np.uint8], Floats]:
        log_weights = np.full(N_CHAINS, self.log_z0)
        variances = np.empty(len(betas) - 1)
        thresholds = np.zeros(self.arrays.n_thresholds, dtype=np.uint64)
        chains = Chains(state, streams, work, thresholds, np.empty(64))
        anneal_spins(self.arrays, betas, is_reversed, sweeps, chains, log_weights, variances)
        return log_weights, unpack_spins(state), variances

    def thresholds(self) -> NDArray[np.uint64]:
        """Thresholds of all classes at beta = 1."""
        found = np.zeros(self.arrays.n_thresholds, dtype=np.uint64)
        set_thresholds(self.arrays, 1.0, np.empty(64), found)
        return found


def pack_spins(states: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Words, site after site, of the states 0 and 1 of 512 chains, shape (512, n)."""
    if states.ndim != 2 or len(states) != N_CHAINS:
        raise ArgumentError(f"states has shape {states.shape}; it must be ({N_CHAINS}, n), a row for each chain")
    bits = np.packbits(np.ascontiguousarray(states.T).astype(bool), axis=1, bitorder="little")
    return aligned(np.ascontiguousarray(bits).view("<u8").astype(np.uint64).reshape(-1))


def unpack_spins(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Undo `pack_spins`."""
    rows = np.ascontiguousarray(words.reshape(-1, N_WORDS).astype("<u8")).view(np.uint8)
    return np.ascontiguousarray(np.unpackbits(rows, axis=1, bitorder="little").T)
