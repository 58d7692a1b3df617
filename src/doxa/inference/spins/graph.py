"""`SpinGraph`: which sites are coupled, and how strongly, as the kernels read it; colourings of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["SpinGraph", "as_fields", "colour_sites", "spin_graph"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class SpinGraph(NamedTuple):
    """Couplings of sites 0..n - 1; neighbours of site i are entries ``starts[i]`` to ``starts[i + 1]``."""

    edges: Integers  # (n_edges, 2), as given
    couplings: Floats  # (n_edges,)
    starts: Integers  # (n + 1,)
    neighbours: Integers  # (2 n_edges,) those of a site by |coupling|, ascending; couplings of 0 are left out
    strengths: Floats  # their couplings

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return len(self.starts) - 1


def spin_graph(n_sites: int, edges: ArrayLike, couplings: ArrayLike) -> SpinGraph:
    """Neighbour lists of a graph of couplings.

    Parameters
    ----------
    n_sites : int
    edges : array_like of int, shape (n_edges, 2)
        Pairs of different sites, each pair once.
    couplings : array_like of float, shape (n_edges,) or ()
        One a pair, or one for all.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a site does not exist, an edge joins a site with itself or is there twice, or a coupling is not finite.

    Examples
    --------
    >>> graph = spin_graph(3, [[0, 1], [1, 2]], [0.5, -0.2])
    >>> graph.starts, graph.neighbours, graph.strengths
    (array([0, 1, 3, 4]), array([1, 2, 0, 1]), array([ 0.5, -0.2,  0.5, -0.2]))
    """
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
    """Fields as numbers: one a site (``n_axes`` 1), or one a site and state (2; -inf forbids a state).

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If they are of another shape, there are no sites, or a field is not finite and forbids no state.
    """
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


def _as_edges(edges: ArrayLike, n_sites: int) -> Integers:
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


def colour_sites(graph: SpinGraph) -> Integers:
    """A colour for every site, none that of a neighbour: two if two are enough, never more than the degree plus one.

    Returns
    -------
    ndarray of int, shape (n_sites,)

    Notes
    -----
    Greedy, breadth first.  On a bipartite graph that finds two colours: when a site of distance d from the first is
    coloured, its coloured neighbours have distance d - 1 and, by induction, all the other colour.

    Examples
    --------
    >>> colour_sites(spin_graph(4, [[0, 1], [1, 2], [2, 3], [3, 0]], 1.0))
    array([0, 1, 0, 1])
    """
    n = graph.n_sites
    degree = int(np.diff(graph.starts).max())
    colours = np.full(n, -1, dtype=np.int64)
    _colour(graph.starts, graph.neighbours, colours, np.empty(n, dtype=np.int64), np.full(degree + 2, -1))
    return colours


@hot
def _colour(starts: Any, neighbours: Any, colours: Any, queue: Any, seen: Any) -> None:
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
