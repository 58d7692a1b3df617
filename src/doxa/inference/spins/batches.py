r"""`Batches`: the sites in groups of eight that compiled kernels draw at once.

Sites of one batch have one colour, so that none sees another, and one shape (the strides of their neighbours), so that
eight are handled as one.  Drawing the sites of a batch together is drawing them one after another; the scan is the
batches in order, colour by colour, then the *wide* sites, which have too many classes for a table, one by one.
Batches of equal tables share them: with one coupling and one field the tables fit the fastest cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.spins.classes import LocalClasses
from doxa.inference.spins.graph import SpinGraph
from doxa.inference.spins.words import N_WORDS, aligned

__all__ = ["N_PLANES", "Batches", "batches_of"]

N_PLANES = 10  # see `doxa.inference.spins.bit_parallel`: one word in 16 needs more; with 6 or 8 it is slower

Integers = NDArray[np.int64]


class Batches(NamedTuple):
    """Batch b has sites ``sites[8 b : 8 b + 8]``; where they are fewer than eight, the others are the number n."""

    sites: Integers  # (8 n_batches,)
    degree: Integers  # (n_batches,)
    n_classes: Integers  # (n_batches,)
    strides_at: Integers  # (n_batches,) where the strides of its neighbours begin in ``strides``
    strides: Integers
    signed_at: Integers  # (n_batches,) where its neighbours begin: entry 8 j + w is neighbour j of site w
    signed: Integers  # a neighbour, ~neighbour where the coupling is negative
    tables_at: Integers  # (n_batches,) where its thresholds begin: entry 8 m + w is class m of site w
    thresholds: NDArray[np.uint64]
    planes_at: Integers  # (n_batches,)
    planes: NDArray[np.uint64]  # entry 8 b + w, bit m: binary digit b (b = 0 is 1/2) of the threshold of class m
    tallies_at: Integers  # (n_batches,) as ``tables_at``, but every batch has its own
    n_tallies: int
    wide: Integers  # (n_wide,)

    def scan(self, n_sites: int) -> Integers:
        """The sites in the order in which they are drawn, shape (n_sites,)."""
        return np.concatenate([self.sites[self.sites < n_sites], self.wide])


def batches_of(graph: SpinGraph, classes: LocalClasses, colours: Integers) -> Batches:
    """Batches of a coloured graph.

    Examples
    --------
    >>> from doxa.inference.spins.classes import local_classes
    >>> from doxa.inference.spins.graph import colour_sites, spin_graph
    >>> graph = spin_graph(5, [[0, 1], [1, 2], [2, 3], [3, 4]], 1.0)
    >>> batches_of(graph, local_classes(graph, np.zeros(5)), colour_sites(graph)).scan(5)
    array([0, 4, 2, 1, 3])
    """
    n = graph.n_sites
    sites = _eights(classes, colours, n)
    first = sites[::N_WORDS]
    degree, n_classes = np.diff(graph.starts)[first], classes.n_classes[first]
    members = np.where(sites < n, sites, np.repeat(first, N_WORDS)).reshape(-1, N_WORDS)
    real = (sites < n).reshape(-1, N_WORDS)
    signed_at, entry = _blocks(degree)
    batch, j = _rows(degree)
    signed = np.full((entry, N_WORDS), n, dtype=np.int64)
    signed[real[batch]] = classes.signed[graph.starts[members][batch] + j[:, None]][real[batch]]
    kinds = classes.kind[members]
    _, owner, which = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    tables_at, _ = _blocks(n_classes[owner])
    block, m = _rows(n_classes[owner])
    thresholds = classes.thresholds[classes.table[members[owner]][block] + m[:, None]]
    tallies_at, n_tallies = _blocks(n_classes)
    return Batches(
        sites, degree, n_classes,
        graph.starts[classes.shape[first]], classes.strides,
        signed_at * N_WORDS, signed.reshape(-1),
        tables_at[which] * N_WORDS, thresholds.reshape(-1),
        which * (N_PLANES * N_WORDS), aligned(_planes(thresholds, block, m, len(owner)).reshape(-1)),
        tallies_at * N_WORDS, n_tallies * N_WORDS,
        np.flatnonzero(classes.n_classes == 0),
    )  # fmt: skip


def _eights(classes: LocalClasses, colours: Integers, n: int) -> Integers:
    """Sites sorted by colour, shape and table, each colour and shape filled up to a multiple of eight with n."""
    narrow = np.flatnonzero(classes.n_classes)
    order = narrow[np.lexsort((narrow, classes.kind[narrow], classes.shape[narrow], colours[narrow]))]
    if not order.size:
        return order
    group = np.cumsum(
        np.diff(colours[order], prepend=-1).astype(bool) | np.diff(classes.shape[order], prepend=-1).astype(bool)
    )
    group -= 1
    sizes = np.bincount(group)
    padded = -(-sizes // N_WORDS) * N_WORDS
    sites = np.full(int(padded.sum()), n, dtype=np.int64)
    shift = np.cumsum(padded - sizes) - (padded - sizes)
    sites[np.arange(order.size) + shift[group]] = order
    return sites


def _blocks(sizes: Integers) -> tuple[Integers, int]:
    """Where blocks of these sizes begin when laid end to end, and where the last ends."""
    ends = np.cumsum(sizes)
    return ends - sizes, int(ends[-1]) if ends.size else 0


def _rows(sizes: Integers) -> tuple[Integers, Integers]:
    """For every row of such blocks: its block, and its number there."""
    starts, total = _blocks(sizes)
    block = np.repeat(np.arange(sizes.size), sizes)
    return block, np.arange(total) - starts[block]


def _planes(thresholds: NDArray[np.uint64], block: Integers, m: Integers, n_blocks: int) -> NDArray[np.uint64]:
    """Truth tables (n_blocks, planes, 8) of the first binary digits of thresholds (rows, 8)."""
    planes = np.zeros((n_blocks, N_PLANES, N_WORDS), dtype=np.uint64)
    for c in range(int(m.max(initial=-1)) + 1):
        rows = np.flatnonzero(m == c)
        for b in range(N_PLANES):
            digit = (thresholds[rows] >> np.uint64(63 - b)) & np.uint64(1)
            planes[block[rows], b] |= digit << np.uint64(c)
    return planes
