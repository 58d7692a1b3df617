"""d-separation, and which variables to adjust for, by walks over a graph.

Nodes x and y are d-separated given z exactly when z separates them in the moral graph of x, y, z and all their
ancestors, where the parents of a child are joined (Lauritzen et al. 1990).  `reached` walks through that graph without
making it, and reads every row and every column of the adjacency matrix once at most.

Adjusting for z identifies the effect of x on y exactly when z holds nothing that the effect itself changes, and
separates x from y once the edges through which x acts are taken away (Perkovic et al. 2015; van der Zander, Liskiewicz
& Textor 2019).  The second is a d-separation, so that valid sets which are minimal are minimal separators of a moral
graph; those are listed one from the other as Shen & Liang (1997) do.

Sets of nodes are boolean arrays of shape (n_nodes,) here; names are `doxa.models.Dag`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adjustment", "ancestral", "are_separated", "reached"]

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
