"""A graph inside a compiled loop: bit-set rows of parents, children, ancestors and descendants, kept in step.

With the closures at hand, whether an edge would close a cycle is one look at a bit; they are mended when a
change is accepted, which is rare, and not when it is proposed.

A *candidate* change is an ordered pair (i, j): add i -> j where the two are not adjacent, delete i -> j where it
is an edge, turn j -> i round where that is one.  So a pair of nodes with its three possible states
has exactly two candidates, one for each other state (Riggelsen, ch. 4, section 3.2).

Functions here are compiled, trust their arguments and work in place.  ``graph`` is always the tuple of
`working_graph`, ``limits`` the families that are possible (`doxa.structure.limits.Limits`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa._jit import hot, inlined, lowest_bit, popcount
from doxa.arrays import Ints, Words
from doxa.structure.limits import Limits, may_add

__all__ = [
    "ADD",
    "DELETE",
    "ILLEGAL",
    "REVERSE",
    "apply_change",
    "candidate_kind",
    "count_bits",
    "has_bit",
    "is_covered",
    "is_in",
    "reach",
    "rebuild",
    "replace_parents",
    "reverse_covered",
    "toggle_bit",
    "working_graph",
]

ILLEGAL, ADD, DELETE, REVERSE = 0, 1, 2, 3


@by_address
class WorkingGraph(NamedTuple):
    """A graph as compiled loops have it; rows of bit sets, (n_nodes, n_words)."""

    parents: NDArray[np.uint64]
    children: NDArray[np.uint64]
    ancestors: NDArray[np.uint64]
    descendants: NDArray[np.uint64]
    work_space: NDArray[np.int64]  # (2, n_nodes)


def working_graph(rows: NDArray[np.uint64]) -> WorkingGraph:
    """Parents, children, ancestors and descendants of the graph with these adjacency rows, and work space."""
    children = np.array(rows, dtype=np.uint64)
    work_space = np.zeros((2, len(children)), dtype=np.int64)
    parents, ancestors, descendants = np.zeros((3, *children.shape), dtype=np.uint64)
    graph = WorkingGraph(parents, children, ancestors, descendants, work_space)
    settled(rebuild)(graph)
    return graph


@hot
def has_bit(rows: Words, row: int, bit: int) -> bool:
    """Whether ``bit`` of ``row`` is set."""
    return bool((rows[row, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1))


@inlined
def is_in(members: Words, bit: int) -> bool:
    """Whether ``bit`` is in a single bit set."""
    return bool((members[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1))


@hot
def toggle_bit(rows: Words, row: int, bit: int) -> None:
    """Flip ``bit`` of ``row``."""
    rows[row, bit >> 6] ^= np.uint64(1) << np.uint64(bit & 63)


@hot
def count_bits(rows: Words, row: int) -> int:
    """Number of set bits of ``row``."""
    total = 0
    for w in range(rows.shape[1]):
        total += popcount(rows[row, w])
    return total


@hot
def _meet(rows: Words, row: int, others: Words, other: int) -> bool:
    """Whether two sets have a member in common."""
    for w in range(rows.shape[1]):
        if rows[row, w] & others[other, w] != np.uint64(0):
            return True
    return False


@inlined
def candidate_kind(graph: WorkingGraph, limits: Limits, i: int, j: int) -> int:
    """What the candidate (i, j) would do: ADD, DELETE, REVERSE, or ILLEGAL for a cycle or an impossible family."""
    parents, children, ancestors = graph[0], graph[1], graph[2]
    if has_bit(children, i, j):
        return ILLEGAL if has_bit(limits.required, j, i) else DELETE
    if not may_add(limits, parents, j, i):
        return ILLEGAL
    if has_bit(children, j, i):
        # j -> i can turn round unless another path leads from j to i: through a child of j that is an ancestor of i.
        return ILLEGAL if has_bit(limits.required, i, j) or _meet(children, j, ancestors, i) else REVERSE
    return ILLEGAL if has_bit(ancestors, i, j) else ADD


@hot
def _refresh(direct: Words, closure: Words, start: int, reach: Words, work_space: Ints) -> None:
    """Recompute ``closure`` of ``start`` and of all in the set ``reach[start]`` after a deletion at ``start``.

    With ``direct`` parents and ``closure`` ancestors, ``reach`` is the descendants, and the other way round.
    Nodes are taken in order of their old closures' sizes, which is a topological order.
    """
    n_words = direct.shape[1]
    order, sizes = work_space[0], work_space[1]
    order[0] = start
    sizes[0] = -1  # start comes before all that it reaches
    members = 1
    for w in range(n_words):
        word = reach[start, w]
        while word != np.uint64(0):
            node = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            size = count_bits(closure, node)
            place = members
            while place > 0 and sizes[place - 1] > size:
                order[place] = order[place - 1]
                sizes[place] = sizes[place - 1]
                place -= 1
            order[place] = node
            sizes[place] = size
            members += 1
    for k in range(members):
        node = order[k]
        for w in range(n_words):
            closure[node, w] = direct[node, w]
        for w in range(n_words):
            word = direct[node, w]
            while word != np.uint64(0):
                near = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                for v in range(n_words):
                    closure[node, v] |= closure[near, v]


@hot
def _add_edge(graph: WorkingGraph, i: int, j: int) -> None:
    parents, children, ancestors, descendants = graph[0], graph[1], graph[2], graph[3]
    n_words = parents.shape[1]
    toggle_bit(children, i, j)
    toggle_bit(parents, j, i)
    if has_bit(descendants, i, j):
        return  # a path was there before: the closures already know
    _spread(ancestors, i, descendants, j, n_words)
    _spread(descendants, j, ancestors, i, n_words)


@hot
def _spread(closure: Words, source: int, reach: Words, sink: int, n_words: int) -> None:
    """Give ``source`` and its closure to ``sink`` and to all in ``reach[sink]``, both as before the new edge."""
    for w in range(n_words):
        word = reach[sink, w]
        while word != np.uint64(0):
            node = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            for v in range(n_words):
                closure[node, v] |= closure[source, v]
            closure[node, source >> 6] |= np.uint64(1) << np.uint64(source & 63)
    for v in range(n_words):
        closure[sink, v] |= closure[source, v]
    closure[sink, source >> 6] |= np.uint64(1) << np.uint64(source & 63)


@hot
def _delete_edge(graph: WorkingGraph, i: int, j: int) -> None:
    parents, children, ancestors, descendants, work_space = graph
    toggle_bit(children, i, j)
    toggle_bit(parents, j, i)
    if _meet(children, i, ancestors, j):
        return  # another path still leads from i to j
    # The sets of nodes to mend are the old closures: mend the ancestors of j's side first, while the
    # descendants of j are still right (they are: only edges out of i changed), then the other side.
    _refresh(parents, ancestors, j, descendants, work_space)
    _refresh(children, descendants, i, ancestors, work_space)


@hot
def replace_parents(graph: WorkingGraph, node: int, parents: Words) -> None:
    """Give ``node`` the set ``parents``; the closures are left as they are, until `rebuild`."""
    for w in range(parents.size):
        changed = graph[0][node, w] ^ parents[w]
        graph[0][node, w] = parents[w]
        while changed != np.uint64(0):
            toggle_bit(graph[1], 64 * w + lowest_bit(changed), node)
            changed &= changed - np.uint64(1)


@hot
def reach(children: Words, source: int, i: int, j: int, reached: Words) -> None:
    """Fill ``reached`` with the descendants of ``source`` in the graph in which i and j have no parents."""
    n_words = reached.size
    for w in range(n_words):
        reached[w] = children[source, w]
    reached[i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))
    reached[j >> 6] &= ~(np.uint64(1) << np.uint64(j & 63))
    waiting = True
    while waiting:  # another pass, if a node brought others in that the pass had gone by
        waiting = False
        for w in range(n_words):
            word = reached[w]
            while word != np.uint64(0):
                node = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                for v in range(n_words):
                    new = children[node, v] & ~reached[v]
                    if v == i >> 6:
                        new &= ~(np.uint64(1) << np.uint64(i & 63))
                    if v == j >> 6:
                        new &= ~(np.uint64(1) << np.uint64(j & 63))
                    if new != np.uint64(0):
                        reached[v] |= new
                        if v == w:
                            ahead = new & ~((np.uint64(2) << np.uint64(node & 63)) - np.uint64(1))
                            word |= ahead
                            waiting = waiting or new != ahead
                        else:
                            waiting = True


@hot
def apply_change(graph: WorkingGraph, kind: int, i: int, j: int) -> None:
    """Carry out the legal candidate (i, j) of this kind, closures included."""
    if kind == ADD:
        _add_edge(graph, i, j)
    elif kind == DELETE:
        _delete_edge(graph, i, j)
    elif is_covered(graph[0], j, i):
        reverse_covered(graph, j, i)
    else:
        _delete_edge(graph, j, i)
        _add_edge(graph, i, j)


@hot
def is_covered(parents: Words, i: int, j: int) -> bool:
    """Whether the arc i -> j has pa(j) = pa(i) + {i}."""
    for w in range(parents.shape[1]):
        with_i = parents[i, w]
        if w == i >> 6:
            with_i |= np.uint64(1) << np.uint64(i & 63)
        if parents[j, w] != with_i:
            return False
    return True


@hot
def reverse_covered(graph: WorkingGraph, i: int, j: int) -> None:
    """Turn the covered arc i -> j round, closures included.

    Cheaper than a deletion and an addition: pa(j) = pa(i) + {i} means that no second path leads from i to j, so
    nodes outside {i, j} keep their descendants, and only descendants of i and j change their ancestors.
    """
    parents, children, ancestors, descendants = graph[0], graph[1], graph[2], graph[3]
    n_words = parents.shape[1]
    toggle_bit(parents, j, i)
    toggle_bit(children, i, j)
    toggle_bit(parents, i, j)
    toggle_bit(children, j, i)
    for w in range(n_words):  # before: D(i) = {j} + D(j) + what i reaches without j
        descendants[i, w], descendants[j, w] = descendants[j, w], descendants[i, w]
    toggle_bit(descendants, j, j)
    toggle_bit(descendants, j, i)
    for w in range(n_words):  # row i holds the old D(j): those lose i as an ancestor unless i still reaches them
        word = descendants[i, w]
        while word != np.uint64(0):
            node = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            ancestors[node, i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))
    for w in range(n_words):
        descendants[i, w] = children[i, w]
    for w in range(n_words):
        word = children[i, w]
        while word != np.uint64(0):
            child = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            for v in range(n_words):
                descendants[i, v] |= descendants[child, v]
    for w in range(n_words):
        word = descendants[i, w]
        while word != np.uint64(0):
            node = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            ancestors[node, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
            ancestors[node, j >> 6] |= np.uint64(1) << np.uint64(j & 63)
    toggle_bit(ancestors, j, i)
    toggle_bit(ancestors, i, j)


@hot
def rebuild(graph: WorkingGraph) -> None:
    """Fill parents, ancestors and descendants from the children, in place."""
    parents, children, ancestors, descendants = graph[0], graph[1], graph[2], graph[3]
    n, n_words = children.shape
    for i in range(n):
        for w in range(n_words):
            parents[i, w] = np.uint64(0)
            descendants[i, w] = children[i, w]
    for i in range(n):
        for j in range(n):
            if has_bit(children, i, j):
                toggle_bit(parents, j, i)
    # Warshall's closure by rows of bits.
    for i in range(n):
        for w in range(n_words):
            ancestors[i, w] = parents[i, w]
    for k in range(n):
        for i in range(n):
            if has_bit(ancestors, i, k):
                for w in range(n_words):
                    ancestors[i, w] |= ancestors[k, w]
            if has_bit(descendants, i, k):
                for w in range(n_words):
                    descendants[i, w] |= descendants[k, w]
