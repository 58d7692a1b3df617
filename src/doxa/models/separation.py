r"""d-separation, and which variables to adjust for, by walks over a graph.

Nodes x and y are d-separated given z exactly when z separates them in the moral graph of x, y, z and all their
ancestors, where the parents of a child are joined (Lauritzen et al. 1990).  `reached` walks through that graph without
making it, and reads every row and every column of the adjacency matrix once at most.

Adjusting for z identifies the effect of x on y exactly when z holds nothing that the effect itself changes, and
separates x from y once the edges through which x acts are taken away (Perkovic et al. 2015; van der Zander, Liskiewicz
& Textor 2019).  The second is a d-separation, so that valid sets which are minimal are minimal separators of a moral
graph; those are listed one from the other as Shen & Liang (1997) do.

Which families of a graph a question depends on.

Nodes that are neither asked for nor observed, nor ancestors of such, sum to one and are left out; so is, once observed
nodes are cut out, what is no longer joined to the target (d-separation).  Intervention removes the families of the
nodes that are set, the truncated factorisation of Pearl (2009, eq. 3.10):

.. math:: p(x \mid do(z)) = \prod_{i \notin Z} p(x_i \mid x_{\pi(i)}) \quad \text{where } x_Z = z.

Sets of nodes are boolean arrays of shape (n_nodes,) here; names are `doxa.models.Dag`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adjustment", "ancestral", "are_separated", "reached", "requisite_families"]

Nodes = NDArray[np.bool_]  # shape (n_nodes,)


def ancestral(adjacency: NDArray[np.bool_], nodes: Nodes) -> Nodes:
    """The nodes and all their ancestors; of a transposed matrix, and all their descendants."""
    found, frontier = nodes.copy(), nodes
    while frontier.any():
        frontier = adjacency[:, frontier].any(axis=1) & ~found
        found |= frontier
    return found


def reached(adjacency: NDArray[np.bool_], start: Nodes, within: Nodes, barrier: Nodes) -> Nodes:
    """Nodes that walks from ``start`` come to in the moral graph of ``within``, which holds all ancestors of its nodes.

    Walks end at nodes of ``barrier``, which are then among those reached.
    """
    found, frontier = start.copy(), start
    families = np.zeros_like(start)
    while frontier.any():
        new = ((adjacency[frontier].any(axis=0) & within) | frontier) & ~families  # each is joined to its parents
        families |= new
        near = new | adjacency[:, new].any(axis=1)
        frontier = near & ~found
        found |= frontier
        frontier &= ~barrier
    return found


def are_separated(adjacency: NDArray[np.bool_], x: Nodes, y: Nodes, given: Nodes) -> bool:
    """Whether x and y are d-separated given a set; the three have no node in common."""
    return not (reached(adjacency, x, ancestral(adjacency, x | y | given), given) & y).any()


class Adjustment(NamedTuple):
    """What sets are to be adjusted for to learn the effect of x on y."""

    adjacency: NDArray[np.bool_]  # without the first edge of every path through which x acts on y
    x: Nodes
    y: Nodes
    allowed: Nodes  # which nodes a set may hold

    @classmethod
    def of(cls, adjacency: NDArray[np.bool_], x: Nodes, y: Nodes) -> Adjustment:
        """Take away the edges through which x acts, and the nodes that the effect changes."""
        into_x, out_of_x = adjacency & ~x, adjacency & ~x[:, None]
        acts = ancestral(into_x.T, x) & ancestral(out_of_x, y) & ~x  # on the paths from x to y that leave x once
        changed = ancestral(adjacency.T, acts)
        return cls(adjacency & ~(x[:, None] & acts), x, y, ~(x | y | changed))

    def is_valid(self, given: Nodes) -> bool:
        """Whether adjusting for a set of other nodes identifies the effect."""
        return not (given & ~self.allowed).any() and are_separated(self.adjacency, self.x, self.y, given)

    def minimal(self) -> Iterator[Nodes]:
        """Every valid set of which no part is valid, those near y first."""
        within = ancestral(self.adjacency, self.x | self.y)
        first = self._nearest(self.y, within)
        waiting, seen = deque([] if first is None else [first]), set() if first is None else {first.tobytes()}
        while waiting:
            given = waiting.popleft()
            yield given
            side = reached(self.adjacency, self.y, within, given) & ~given
            for node in np.flatnonzero(given):
                grown = side.copy()
                grown[node] = True
                other = self._nearest(grown, within)
                if other is not None and other.tobytes() not in seen:
                    seen.add(other.tobytes())
                    waiting.append(other)

    def _nearest(self, side: Nodes, within: Nodes) -> Nodes | None:
        """The minimal separator nearest to what lies on y's side; None where x touches that."""
        barrier = self.allowed & within & ~side
        border = reached(self.adjacency, side, within, barrier)
        if (border & self.x).any():
            return None
        return reached(self.adjacency, self.x, within, border & barrier) & border & barrier


def requisite_families(
    parents: Sequence[tuple[int, ...]],
    target: Collection[int],
    given: Collection[int],
    do: Collection[int],
    *,
    whole: bool = False,
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The families on which p(target | given, do) depends, or with ``whole`` p(target, given | do).

    Parameters
    ----------
    parents : sequence of tuple of int
        Of every node.
    target, given, do : collection of int
        Nodes, none of them in two.
    whole : bool, default=False
        Whether the probability of ``given`` is wanted too.

    Returns
    -------
    tuple of (int, tuple of int)
        Children, increasing, with their parents.

    Examples
    --------
    >>> chain = [(), (0,), (1,), (2,)]
    >>> requisite_families(chain, [1], [], [])
    ((0, ()), (1, (0,)))
    >>> requisite_families(chain, [0], [1, 3], [])
    ((0, ()), (1, (0,)))
    >>> requisite_families(chain, [2], [0], [1])
    ((2, (1,)),)
    """
    found = {*target, *given}
    waiting = list(found)
    while waiting:
        node = waiting.pop()
        if node not in do:
            new = [p for p in parents[node] if p not in found]
            found.update(new)
            waiting += new
    families = [(node, parents[node]) for node in sorted(found) if node not in do]
    if whole:
        return tuple(families)
    known = {*given, *do}
    free = [[v for v in (child, *group) if v not in known] for child, group in families]
    neighbours: dict[int, list[int]] = {}
    for k, members in enumerate(free):
        for v in members:
            neighbours.setdefault(v, []).append(k)
    joined = set(target)
    waiting = list(joined)
    used = [False] * len(families)
    while waiting:
        for k in neighbours[waiting.pop()]:
            if not used[k]:
                used[k] = True
                new = [v for v in free[k] if v not in joined]
                joined.update(new)
                waiting += new
    return tuple([family for k, family in enumerate(families) if used[k]])
