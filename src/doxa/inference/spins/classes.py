r"""What a site sees of its neighbours, in as few classes as matter, and a threshold for each.

Given its neighbours, a spin is up with probability

.. math:: \sigma(2 f), \qquad f = h_i + \sum_j J_{ij} s_j.

A coupling J < 0 to a spin is one of |J| to the spin turned over, and neighbours of equal |J| matter only by how many
are up: a site with groups of :math:`n_1, n_2, \dots` neighbours has :math:`\prod_g (n_g + 1)` classes: 5 on a square
lattice with one |J|, 16 where all four differ.  Class numbers are in mixed radix: each neighbour that is up (after
turning) adds its *stride*, the product of (n + 1) over the groups before its own.

The threshold of a class is the whole number nearest to :math:`2^{64} \sigma(2 f)`, at most 2^64 - 1: a random
64-bit number lies below it with that probability, off by less than 2^-52 (the rounding of the probability itself).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from doxa._jit import hot
from doxa.inference.spins.graph import SpinGraph

__all__ = ["MOST_CLASSES", "LocalClasses", "local_classes", "same_rows", "thresholds_of"]

MOST_CLASSES = 64  # the truth table of a bit plane is one word; sites with more are drawn by their field

Integers = NDArray[np.int64]


class LocalClasses(NamedTuple):
    """Classes of every site; thresholds of site i are entries ``table[i]`` to ``table[i] + n_classes[i] - 1``."""

    signed: Integers  # (2 n_edges,) a neighbour, ~neighbour where the coupling is negative
    strides: Integers  # (2 n_edges,)
    n_classes: Integers  # (n,) 0 where there would be more than 64
    shape: Integers  # (n,) first site whose neighbours have the same strides
    kind: Integers  # (n,) first site with the same strides and thresholds
    table: Integers  # (n,) sites of one kind share a table
    thresholds: NDArray[np.uint64]  # (sum of n_classes over kinds,)


def local_classes(graph: SpinGraph, fields: NDArray[np.float64]) -> LocalClasses:
    """Strides and thresholds of all sites.

    Examples
    --------
    >>> from doxa.inference.spins.graph import spin_graph
    >>> found = local_classes(spin_graph(3, [[0, 1], [1, 2]], -0.5), np.zeros(3))
    >>> found.n_classes, found.kind  # the middle site has two neighbours of one |J|
    (array([2, 3, 2]), array([0, 1, 0]))
    >>> (found.thresholds / 2.0**64).round(3)  # 1 / (1 + exp(-2 f)) for f = -.5, .5; -1, 0, 1
    array([0.269, 0.731, 0.119, 0.5  , 0.881])
    """
    n = graph.n_sites
    size = np.abs(graph.strengths)
    strides, n_classes = np.zeros_like(graph.neighbours), np.zeros(n, dtype=np.int64)
    _strides(graph.starts, size, strides, n_classes)
    begin = graph.starts + np.arange(n + 1)  # rows that begin with the field
    rows = np.insert(size, graph.starts[:-1], fields)
    kind = same_rows(begin, rows.view(np.uint64))
    own = np.where(kind == np.arange(n), n_classes, 0)
    table = (np.cumsum(own) - own)[kind]
    field = np.empty(int(own.sum()))
    _class_fields(graph.starts, size, strides, np.where(own > 0, table, -1), fields, field)
    signed = np.where(graph.strengths < 0, ~graph.neighbours, graph.neighbours)
    shape = same_rows(graph.starts, strides.view(np.uint64))
    return LocalClasses(signed, strides, n_classes, shape, kind, table, thresholds_of(field))


def thresholds_of(field: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Thresholds of local fields f: nearest to 2^64 / (1 + exp(-2 f)), at most 2^64 - 1.

    Examples
    --------
    >>> [hex(t) for t in thresholds_of(np.array([-400.0, 0.0, 400.0]))]
    ['0x0', '0x8000000000000000', '0xffffffffffffffff']
    """
    scaled = np.rint(np.ldexp(expit(2 * field), 64))
    full = scaled >= 2.0**64
    return np.where(full, np.uint64(2**64 - 1), np.where(full, 0.0, scaled).astype(np.uint64))


def same_rows(starts: Integers, values: NDArray[np.uint64]) -> Integers:
    """For every row (entries ``starts[i]`` to ``starts[i + 1] - 1``), the first row that is equal to it.

    Where two different rows should have one hash (a chance of n^2 / 2^65), the later may stand for itself: tables are
    then larger, never wrong.

    Examples
    --------
    >>> same_rows(np.array([0, 2, 4, 6]), np.array([7, 8, 7, 9, 7, 8], dtype=np.uint64))
    array([0, 1, 0])
    """
    hashes = np.empty(len(starts) - 1, dtype=np.uint64)
    _hash_rows(starts, values, hashes)
    _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
    found = first[which].astype(np.int64)
    _keep_equal(starts, values, found)
    return found


@hot
def _strides(starts: Any, size: Any, strides: Any, n_classes: Any) -> None:
    for i in range(n_classes.size):
        stride, in_group = 1, 0
        for e in range(starts[i], starts[i + 1]):
            if in_group > 0 and size[e] != size[e - 1]:
                stride *= in_group + 1
                in_group = 0
            in_group += 1
            strides[e] = stride
            if stride * (in_group + 1) > MOST_CLASSES:
                stride = 0
                break
        n_classes[i] = stride * (in_group + 1)


@hot
def _class_fields(starts: Any, size: Any, strides: Any, table: Any, fields: Any, out: Any) -> None:
    """Local field of every class, into ``out``, for sites with ``table[i] >= 0``."""
    for i in range(table.size):
        if table[i] < 0:
            continue
        lowest = fields[i]
        for e in range(starts[i], starts[i + 1]):
            lowest -= size[e]
        out[table[i]] = lowest
        top = 0
        for e in range(starts[i], starts[i + 1]):
            for m in range(top + 1, top + strides[e] + 1):
                out[table[i] + m] = out[table[i] + m - strides[e]] + 2.0 * size[e]
            top += strides[e]


@hot
def _hash_rows(starts: Any, values: Any, hashes: Any) -> None:
    for i in range(hashes.size):
        found = np.uint64(starts[i + 1] - starts[i])
        for e in range(starts[i], starts[i + 1]):  # the finalizer of SplitMix64 after every entry
            found = (found ^ values[e]) + np.uint64(0x9E3779B97F4A7C15)
            found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found ^= found >> np.uint64(31)
        hashes[i] = found


@hot
def _keep_equal(starts: Any, values: Any, found: Any) -> None:
    """Let rows that differ from the one found for them stand for themselves."""
    for i in range(found.size):
        j = found[i]
        length = starts[i + 1] - starts[i]
        equal = starts[j + 1] - starts[j] == length
        for e in range(length if equal else 0):
            equal = equal and values[starts[i] + e] == values[starts[j] + e]
        if not equal:
            found[i] = i
