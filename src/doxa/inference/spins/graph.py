r"""`SpinGraph`: which sites are coupled, and how strongly; classes and batches of sites.

Given its neighbours, a spin is up with probability

.. math:: \sigma(2 f), \qquad f = h_i + \sum_j J_{ij} s_j.

A coupling J < 0 to a spin is one of |J| to the spin turned over, and neighbours of equal |J| matter only by how many
are up: a site with groups of :math:`n_1, n_2, \dots` neighbours has :math:`\prod_g (n_g + 1)` *classes*: 5 on a square
lattice with one |J|, 16 where all four differ.  Class numbers are in mixed radix: each neighbour that is up (after
turning) adds its *stride*, the product of (n + 1) over the groups before its own.

The threshold of a class is the whole number nearest to :math:`2^{64} \sigma(2 f)`, at most 2^64 - 1: a random
64-bit number lies below it with that probability, off by less than 2^-52 (the rounding of the probability itself).

Sites of one *batch* have one colour, so that none sees another, and one shape (the strides of their neighbours), so
that eight are handled as one.  Drawing the sites of a batch together is drawing them one after another; the scan is
the batches in order, colour by colour, then the *wide* sites, which have too many classes for a table, one by one.
Batches of equal tables share them: with one coupling and one field the tables fit the fastest cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.spins.words import N_WORDS, aligned

__all__ = ["SpinGraph", "as_fields", "local_classes", "spin_graph", "thresholds_of"]


class SpinGraph(NamedTuple):
    """Couplings of sites 0..n - 1; neighbours of site i are entries ``starts[i]`` to ``starts[i + 1]``."""

    edges: Ints  # (n_edges, 2), as given
    couplings: Floats  # (n_edges,)
    starts: Ints  # (n + 1,)
    neighbours: Ints  # (2 n_edges,) those of a site by |coupling|, ascending; couplings of 0 are left out
    strengths: Floats  # their couplings

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return len(self.starts) - 1


def spin_graph(n_sites: int, edges: ArrayLike, couplings: ArrayLike) -> SpinGraph:
    """Neighbour lists of a graph of couplings, checked; one coupling an edge, or one for all."""
    pairs = _as_edges(edges, n_sites)
    given = _as_floats("couplings", couplings)
    if given.shape not in ((), (len(pairs),)):
        raise ArgumentError(
            f"couplings has shape {given.shape} but edges has {len(pairs)} pairs; give one number each, or one for all"
        )
    _refuse_infinite("couplings", given, "a coupling of +-30 all but forbids the other pairs")
    each = np.array(np.broadcast_to(given, len(pairs)))
    used = np.flatnonzero(each)
    sites, neighbours = np.concatenate([pairs[used], pairs[used, ::-1]]).T
    strengths = np.concatenate([each[used], each[used]])
    order = np.lexsort((neighbours, np.abs(strengths), sites))
    starts = np.zeros(n_sites + 1, dtype=np.int64)
    np.cumsum(np.bincount(sites, minlength=n_sites), out=starts[1:])
    return SpinGraph(pairs, each, starts, np.ascontiguousarray(neighbours[order]), strengths[order])


def as_fields(fields: ArrayLike, n_axes: int) -> Floats:
    """Fields as numbers, checked: one a site (``n_axes`` 1), or one a site and state (2; -inf forbids a state)."""
    found = _as_floats("fields", fields)
    if found.ndim != n_axes or found.size == 0:
        wanted = "(n_sites,)" if n_axes == 1 else "(n_sites, n_states)"
        raise ArgumentError(f"fields has shape {found.shape}; it must be {wanted}, with at least one site")
    forbids = (found == -np.inf) & (n_axes == 2)
    _refuse_infinite(
        "fields",
        np.where(forbids, 0.0, found),
        "leave out a site whose state is known, and add its couplings to the fields",
    )
    return np.ascontiguousarray(found)


def _as_edges(edges: ArrayLike, n_sites: int) -> Ints:
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if not np.issubdtype(pairs.dtype, np.integer):
        raise ArgumentTypeError(f"edges holds {pairs.dtype} numbers; it must hold pairs of site numbers, integers")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ArgumentError(f"edges has shape {pairs.shape}; it must be (n_edges, 2), a pair of sites in each row")
    pairs = pairs.astype(np.int64)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n_sites)).any(axis=1))
    if outside.size:
        e = int(outside[0])
        raise ArgumentError(f"edges[{e}] is {pairs[e].tolist()} but fields has sites 0..{n_sites - 1}")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        e = int(loops[0])
        raise ArgumentError(f"edges[{e}] joins site {pairs[e, 0]} with itself, which changes nothing; leave it out")
    key = pairs.min(axis=1) * n_sites + pairs.max(axis=1)
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1])
    if again.size:
        first, second = order[again[0]], order[again[0] + 1]
        raise ArgumentError(
            f"edges[{first}] and edges[{second}] both join sites {sorted(pairs[first].tolist())}; give the pair once, "
            "with the sum of the couplings"
        )
    return pairs


def _as_floats(name: str, values: ArrayLike) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} is {values!r}; it must be an array of numbers") from None


def _refuse_infinite(name: str, values: Floats, way_out: str) -> None:
    wrong = np.argwhere(~np.isfinite(values))
    if wrong.size or (values.ndim == 0 and not np.isfinite(values)):
        where = "".join(f"[{i}]" for i in wrong[0].tolist()) if values.ndim else ""
        raise ArgumentError(
            f"{name}{where} is {values[tuple(wrong[0])] if where else values}; it must be finite: {way_out}"
        )


def colour_sites(graph: SpinGraph) -> Ints:
    """A colour for every site, none that of a neighbour: at most the degree plus one, and two where two are enough.

    Greedy, breadth first.  On a bipartite graph that finds two colours: when a site of distance d from the first is
    coloured, its coloured neighbours have distance d - 1 and, by induction, all the other colour.
    """
    n = graph.n_sites
    degree = int(np.diff(graph.starts).max())
    colours = np.full(n, -1, dtype=np.int64)
    _colour(graph.starts, graph.neighbours, colours, np.empty(n, dtype=np.int64), np.full(degree + 2, -1))
    return colours


@hot
def _colour(starts: Ints, neighbours: Ints, colours: Ints, queue: Ints, seen: Ints) -> None:
    """Fill ``colours``, which begins at -1; -2 marks sites in the queue, ``seen[c]`` the last site near colour c."""
    for root in range(colours.size):
        if colours[root] != -1:
            continue
        queue[0] = root
        colours[root] = -2
        head, tail = 0, 1
        while head < tail:
            site = queue[head]
            head += 1
            for e in range(starts[site], starts[site + 1]):
                other = neighbours[e]
                if colours[other] >= 0:
                    seen[colours[other]] = site
                elif colours[other] == -1:
                    colours[other] = -2
                    queue[tail] = other
                    tail += 1
            colour = 0
            while seen[colour] == site:
                colour += 1
            colours[site] = colour


MOST_CLASSES = 64  # the truth table of a bit plane is one word; sites with more are drawn by their field


class LocalClasses(NamedTuple):
    """Classes of every site; thresholds of site i are entries ``table[i]`` to ``table[i] + n_classes[i] - 1``."""

    signed: Ints  # (2 n_edges,) a neighbour, ~neighbour where the coupling is negative
    strides: Ints  # (2 n_edges,)
    n_classes: Ints  # (n,) 0 where there would be more than 64
    shape: Ints  # (n,) first site whose neighbours have the same strides
    kind: Ints  # (n,) first site with the same strides and thresholds
    table: Ints  # (n,) sites of one kind share a table
    thresholds: NDArray[np.uint64]  # (sum of n_classes over kinds,)


def local_classes(graph: SpinGraph, fields: NDArray[np.float64]) -> LocalClasses:
    """Strides and thresholds of all sites."""
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
    """Thresholds of local fields f: nearest to 2^64 / (1 + exp(-2 f)), at most 2^64 - 1."""
    scaled = np.rint(np.ldexp(expit(2 * field), 64))
    full = scaled >= 2.0**64
    return np.where(full, np.uint64(2**64 - 1), np.where(full, 0.0, scaled).astype(np.uint64))


def same_rows(starts: Ints, values: NDArray[np.uint64]) -> Ints:
    """For every row (entries ``starts[i]`` to ``starts[i + 1] - 1``), the first row that is equal to it.

    Where two different rows should have one hash (a chance of n^2 / 2^65), the later may stand for itself: tables are
    then larger, never wrong.
    """
    hashes = np.empty(len(starts) - 1, dtype=np.uint64)
    _hash_rows(starts, values, hashes)
    _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
    found = first[which].astype(np.int64)
    _keep_equal(starts, values, found)
    return found


@hot
def _strides(starts: Ints, size: Floats, strides: Ints, n_classes: Ints) -> None:
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
def _class_fields(starts: Ints, size: Floats, strides: Ints, table: Ints, fields: Floats, out: Floats) -> None:
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
def _hash_rows(starts: Ints, values: Words, hashes: Words) -> None:
    for i in range(hashes.size):
        found = np.uint64(starts[i + 1] - starts[i])
        for e in range(starts[i], starts[i + 1]):  # the finalizer of SplitMix64 after every entry
            found = (found ^ values[e]) + np.uint64(0x9E3779B97F4A7C15)
            found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found ^= found >> np.uint64(31)
        hashes[i] = found


@hot
def _keep_equal(starts: Ints, values: Words, found: Ints) -> None:
    """Let rows that differ from the one found for them stand for themselves."""
    for i in range(found.size):
        j = found[i]
        length = starts[i + 1] - starts[i]
        equal = starts[j + 1] - starts[j] == length
        for e in range(length if equal else 0):
            equal = equal and values[starts[i] + e] == values[starts[j] + e]
        if not equal:
            found[i] = i


N_PLANES = 10  # see `doxa.inference.spins.bit_parallel`: one word in 16 needs more; with 6 or 8 it is slower


class Batches(NamedTuple):
    """Batch b has sites ``sites[8 b : 8 b + 8]``; where they are fewer than eight, the others are the number n."""

    sites: Ints  # (8 n_batches,)
    degree: Ints  # (n_batches,)
    n_classes: Ints  # (n_batches,)
    strides_at: Ints  # (n_batches,) where the strides of its neighbours begin in ``strides``
    strides: Ints
    signed_at: Ints  # (n_batches,) where its neighbours begin: entry 8 j + w is neighbour j of site w
    signed: Ints  # a neighbour, ~neighbour where the coupling is negative
    tables_at: Ints  # (n_batches,) where its thresholds begin: entry 8 m + w is class m of site w
    thresholds: NDArray[np.uint64]
    planes_at: Ints  # (n_batches,)
    planes: NDArray[np.uint64]  # entry 8 b + w, bit m: binary digit b (b = 0 is 1/2) of the threshold of class m
    tallies_at: Ints  # (n_batches,) as ``tables_at``, but every batch has its own
    n_tallies: int
    wide: Ints  # (n_wide,)

    def scan(self, n_sites: int) -> Ints:
        """The sites in the order in which they are drawn, shape (n_sites,)."""
        return np.concatenate([self.sites[self.sites < n_sites], self.wide])


def batches_of(graph: SpinGraph, classes: LocalClasses, colours: Ints) -> Batches:
    """Batches of a coloured graph."""
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


def _eights(classes: LocalClasses, colours: Ints, n: int) -> Ints:
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


def _blocks(sizes: Ints) -> tuple[Ints, int]:
    """Where blocks of these sizes begin when laid end to end, and where the last ends."""
    ends = np.cumsum(sizes)
    return ends - sizes, int(ends[-1]) if ends.size else 0


def _rows(sizes: Ints) -> tuple[Ints, Ints]:
    """For every row of such blocks: its block, and its number there."""
    starts, total = _blocks(sizes)
    block = np.repeat(np.arange(sizes.size), sizes)
    return block, np.arange(total) - starts[block]


def _planes(thresholds: NDArray[np.uint64], block: Ints, m: Ints, n_blocks: int) -> NDArray[np.uint64]:
    """Truth tables (n_blocks, planes, 8) of the first binary digits of thresholds (rows, 8)."""
    planes = np.zeros((n_blocks, N_PLANES, N_WORDS), dtype=np.uint64)
    for c in range(int(m.max(initial=-1)) + 1):
        rows = np.flatnonzero(m == c)
        for b in range(N_PLANES):
            digit = (thresholds[rows] >> np.uint64(63 - b)) & np.uint64(1)
            planes[block[rows], b] |= digit << np.uint64(c)
    return planes
