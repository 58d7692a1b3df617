r"""`SpinPath`: Ising models at rising inverse temperatures, 512 chains at a time.

.. math:: f_\beta(s) = \exp \Big( c + \sum_i [(1 - \beta) b_i + \beta h_i] s_i + \beta \sum_{ij} J_{ij} s_i s_j \Big).

At beta = 0 spins are independent with fields b (those of the model itself unless others are given); at beta = 1 it is
the model.  The same form on tables of any shape is `doxa.inference.annealing.tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError
from doxa.inference.annealing.spin_kernels import N_CHAINS, anneal_spins, draw_base, set_thresholds
from doxa.inference.spins.classes import local_classes, thresholds_of
from doxa.inference.spins.graph import SpinGraph, as_fields, spin_graph
from doxa.inference.spins.words import N_WORDS, WORK_SIZE, aligned, aligned_zeros, fresh_streams

__all__ = ["SpinArrays", "SpinPath", "pack_spins", "spin_arrays", "unpack_spins"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FROZEN = 1e9  # inverse temperature at which nothing but ties is left to chance
_CLIMBS = 20  # sweeps there
_FEWEST = 12  # edges of one |J| that are counted together


class SpinArrays(NamedTuple):
    """What the kernels read."""

    starts: Integers  # (n + 1,) neighbours of site i are entries starts[i] to starts[i + 1]
    signed: Integers  # a neighbour, ~neighbour where the coupling is negative
    strengths: Floats  # |J|
    strides: Integers  # see `doxa.inference.spins.classes`
    n_classes: Integers  # (n,)
    table: Integers  # (n,) where a site's thresholds begin
    owners: Integers  # sites whose thresholds are made; others share them
    base: Floats  # (n,)
    fields: Floats  # (n,)
    ends: Integers  # (n_edges, 2) sorted by |J|, ~j where J is negative: groups of one |J|, then the lone ones
    sizes: Floats  # (n_groups,) |J|
    group_starts: Integers  # (n_groups + 1,)
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
        return flat.forward(np.concatenate([[0.0], betas, np.full(_CLIMBS, _FROZEN)]), rng)[1]

    def _anneal(
        self,
        betas: Floats,
        is_reversed: bool,
        sweeps: int,
        state: NDArray[np.uint64],
        streams: NDArray[np.uint64],
        work: NDArray[np.uint64],
    ) -> tuple[Floats, NDArray[np.uint8], Floats]:
        log_weights = np.full(N_CHAINS, self.log_z0)
        variances = np.empty(len(betas) - 1)
        thresholds = np.zeros(self.arrays.n_thresholds, dtype=np.uint64)
        anneal_spins(
            self.arrays, betas, is_reversed, sweeps, thresholds, state, streams, work, np.empty(64), log_weights,
            variances,
        )  # fmt: skip
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
    """Undo `pack_spins`.

    Examples
    --------
    >>> states = np.random.default_rng(1).integers(0, 2, (512, 3))
    >>> bool((unpack_spins(pack_spins(states)) == states).all())
    True
    """
    rows = np.ascontiguousarray(words.reshape(-1, N_WORDS).astype("<u8")).view(np.uint8)
    return np.ascontiguousarray(np.unpackbits(rows, axis=1, bitorder="little").T)
