"""`Cpdag`: the completed partially directed graph of a Markov equivalence class.

Graphs are Markov equivalent when they imply the same conditional independences, which is when they have the
same skeleton and the same v-structures (Verma & Pearl 1990).  An edge is *compelled* when every graph of the
class has it in the same direction; the others are *reversible* and drawn without an arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["AcyclicGraph", "Cpdag"]

_UNKNOWN, _REVERSIBLE, _COMPELLED = 1, 2, 3


class AcyclicGraph(Protocol):
    """What must be known of a graph to find its class; `doxa.models.Dag` is one."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes, in order."""

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """Entry ``[i, j]`` is the edge i -> j."""

    def topological_order(self) -> tuple[str, ...]:
        """The nodes with every parent before its children."""


@dataclass(frozen=True)
class Cpdag:
    """The equivalence class of a graph: compelled edges as arrows, reversible ones as lines.

    Two graphs are Markov equivalent exactly when their `Cpdag` are equal.

    Attributes
    ----------
    names : tuple of str
        The nodes, in order.
    directed : frozenset of (str, str)
        Compelled edges, as (parent, child).
    undirected : frozenset of (str, str)
        Reversible edges, each once, in node order.

    Examples
    --------
    >>> from doxa.models.dag import Dag
    >>> chain = Dag.from_edges([("a", "b"), ("b", "c")])
    >>> sorted(chain.cpdag().undirected)
    [('a', 'b'), ('b', 'c')]
    >>> sorted(Dag.from_edges([("a", "b"), ("c", "b")]).cpdag().directed)
    [('a', 'b'), ('c', 'b')]
    """

    names: tuple[str, ...]
    directed: frozenset[tuple[str, str]]
    undirected: frozenset[tuple[str, str]]

    @classmethod
    def from_dag(cls, dag: AcyclicGraph) -> Cpdag:
        """Find the class of ``dag`` with the edge-labelling algorithm of Chickering (1995, section 4)."""
        compelled = _compelled(dag)
        names, adjacency = dag.names, dag.adjacency
        return cls(
            names,
            frozenset((names[i], names[j]) for i, j in np.argwhere(compelled)),
            frozenset((names[min(i, j)], names[max(i, j)]) for i, j in np.argwhere(adjacency & ~compelled)),
        )


def _compelled(dag: AcyclicGraph) -> NDArray[np.bool_]:
    """Which edges every member of the class shares, shape (n_nodes, n_nodes)."""
    adjacency = dag.adjacency
    index = {name: i for i, name in enumerate(dag.names)}
    order = [index[name] for name in dag.topological_order()]
    label = np.where(adjacency, _UNKNOWN, 0)
    # Order-Edges: by child in topological order, then by parent in reverse topological order.
    for y in order:
        for x in reversed(order):
            if label[x, y] == _UNKNOWN:
                _label_edge(x, y, adjacency, label)
    return np.equal(label, _COMPELLED)


def _label_edge(x: int, y: int, adjacency: NDArray[np.bool_], label: NDArray[np.int64]) -> None:
    """Label x -> y, and with it every edge into y that it settles."""
    for w in np.flatnonzero(label[:, x] == _COMPELLED):
        if not adjacency[w, y]:
            label[adjacency[:, y], y] = _COMPELLED
            return
        label[w, y] = _COMPELLED
    other_parents = adjacency[:, y].copy()
    other_parents[x] = False
    collides = (other_parents & ~adjacency[:, x]).any()
    unknown = label[:, y] == _UNKNOWN
    label[unknown, y] = _COMPELLED if collides else _REVERSIBLE
