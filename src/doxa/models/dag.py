"""`Dag`: an immutable directed acyclic graph over named nodes.

``adjacency[i, j]`` is the edge i -> j, always.  The rows of the adjacency matrix are kept as bit sets
(`doxa.models.bits`), so a graph of any size hashes and compares quickly and passes to compiled kernels
without conversion.

A *family* is a node with its parents.  The *Markov blanket* of a node is its parents, its children and
the other parents of its children: given these, the node is independent of all others.  An arc i -> j is
*covered* when pa(j) = pa(i) + {i}; reversing a covered arc, and nothing else, leads to a graph that is
Markov equivalent (Chickering 1995).  Probabilities over graphs are not here.

`Cpdag` is a Markov equivalence class.  Graphs are Markov equivalent when they imply the same conditional
independences, which is when they have the same skeleton and the same v-structures (Verma & Pearl 1990).  An edge is
*compelled* when every graph of the class has it in the same direction; the others are *reversible* and drawn without
an arrow.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, Self, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.models.separation import Adjustment, ancestral, are_separated
from doxa.text import listed

__all__ = ["AcyclicGraph", "Cpdag", "Dag"]

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


Node = str | SupportsIndex
Nodes = Node | Iterable[Node]


class Dag:
    """An immutable directed acyclic graph.

    Parameters
    ----------
    adjacency : array of bool, shape (n_nodes, n_nodes)
        Entry ``[i, j]`` is the edge i -> j.
    names : sequence of str, optional
        One name for each node, all different; ``X0, X1, ...`` when left out.

    Raises
    ------
    ArgumentError
        If the matrix is not square, has a cycle, or the names do not fit it.  The message names a cycle.

    Notes
    -----
    A node is given to the methods by its name or by its position.  Two graphs are equal when they have
    the same names in the same order and the same edges.

    Examples
    --------
    >>> dag = Dag.from_edges([("smokes", "heart"), ("age", "heart")])
    >>> dag
    Dag(3 nodes: smokes -> heart, age -> heart)
    >>> dag.parents("heart")
    ('smokes', 'age')
    >>> dag.markov_blanket("age")
    ('smokes', 'heart')
    """

    __slots__ = ("_hash", "_index", "_names", "_rows")

    _names: tuple[str, ...]
    _index: dict[str, int]
    _rows: NDArray[np.uint64]
    _hash: int

    def __init__(self, adjacency: ArrayLike, names: Sequence[str] | None = None) -> None:
        matrix = np.asarray(adjacency)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ArgumentError(f"adjacency has shape {matrix.shape}; it must be square, one row and column a node")
        if matrix.dtype != np.bool_:
            if not np.isin(matrix, (0, 1)).all():
                raise ArgumentError("adjacency has entries other than 0 and 1; entry [i, j] says whether i -> j")
            matrix = matrix.astype(np.bool_)
        self._set(_check_names(names, len(matrix)), pack_rows(matrix))
        if _topological_order(matrix) is None:
            cycle = " -> ".join(self._names[i] for i in _find_cycle(matrix))
            raise ArgumentError(f"adjacency has the cycle {cycle}; remove one of its edges")

    def _set(self, names: tuple[str, ...], rows: NDArray[np.uint64]) -> None:
        rows = np.ascontiguousarray(rows, dtype=np.uint64)
        rows.flags.writeable = False
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_index", {name: i for i, name in enumerate(names)})
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_hash", hash((names, rows.tobytes())))

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[str, str]], nodes: Sequence[str] | None = None) -> Self:
        """Build a graph from ``(parent, child)`` pairs.

        Parameters
        ----------
        edges : iterable of (str, str)
        nodes : sequence of str, optional
            All nodes, in order; those met in ``edges``, in order of appearance, when left out.

        Raises
        ------
        ArgumentError
            If an edge names an unknown node or the edges form a cycle.

        Examples
        --------
        >>> Dag.from_edges([("a", "b")], nodes=["a", "b", "c"]).n_nodes
        3
        """
        pairs = list(edges)
        for pair in pairs:
            if isinstance(pair, str) or len(pair) != 2:
                raise ArgumentError(f"edges contains {pair!r}; an edge is a pair (parent, child)")
        names = tuple(dict.fromkeys(node for pair in pairs for node in pair)) if nodes is None else tuple(nodes)
        index = {name: i for i, name in enumerate(names)}
        adjacency = np.zeros((len(names), len(names)), dtype=np.bool_)
        for parent, child in pairs:
            for node in (parent, child):
                if node not in index:
                    raise ArgumentError(f"edges contains the unknown node {node!r}; the nodes are {listed(names)}")
            adjacency[index[parent], index[child]] = True
        return cls(adjacency, names)

    @classmethod
    def from_parents(cls, parents: Mapping[str, Iterable[str]]) -> Self:
        """Build a graph from a mapping of each child to its parents.

        Nodes stand in order of appearance, children first; a node that is only a parent need not be a key.

        Examples
        --------
        >>> Dag.from_parents({"heart": ["smokes", "age"], "smokes": []}).names
        ('heart', 'smokes', 'age')
        """
        for child, group in parents.items():
            if isinstance(group, str):
                raise ArgumentTypeError(f"parents[{child!r}] is the text {group!r}; give a list of names: [{group!r}]")
        lists = {child: list(group) for child, group in parents.items()}
        nodes = dict.fromkeys([*lists, *(parent for group in lists.values() for parent in group)])
        return cls.from_edges([(p, child) for child, group in lists.items() for p in group], tuple(nodes))

    @classmethod
    def from_rows(cls, rows: NDArray[np.uint64], names: Sequence[str]) -> Self:
        """Build a graph from bit-set rows that are known to be acyclic, as a sampler's draws are.

        Neither shape nor acyclicity is checked: this is the fast way in for draws.

        Examples
        --------
        >>> Dag.from_rows(np.array([[2], [0]], dtype=np.uint64), ("a", "b"))
        Dag(2 nodes: a -> b)
        """
        dag = cls.__new__(cls)
        dag._set(tuple(names), np.array(rows, dtype=np.uint64))
        return dag

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Dag is immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Dag.from_rows, (self._rows, self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes, in order."""
        return self._names

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self._names)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(np.bitwise_count(self._rows).sum())

    @property
    def rows(self) -> NDArray[np.uint64]:
        """Adjacency rows as bit sets, shape (n_nodes, n_words), read-only."""
        return self._rows

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """Adjacency matrix, shape (n_nodes, n_nodes); ``[i, j]`` is i -> j.  A fresh array at each call."""
        return unpack_rows(self._rows, self.n_nodes)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """All edges as (parent, child), ordered by parent, then child."""
        return tuple((self._names[i], self._names[j]) for i, j in np.argwhere(self.adjacency))

    def has_edge(self, parent: Node, child: Node) -> bool:
        """Whether the edge parent -> child is in the graph."""
        i, j = self._position(parent), self._position(child)
        return bool(self._rows[i, j // 64] >> np.uint64(j % 64) & np.uint64(1))

    def parents(self, node: Node) -> tuple[str, ...]:
        """Parents of ``node``, in node order."""
        return self._named(self.adjacency[:, self._position(node)])

    def children(self, node: Node) -> tuple[str, ...]:
        """Children of ``node``, in node order."""
        return self._named(self.adjacency[self._position(node)])

    def markov_blanket(self, node: Node) -> tuple[str, ...]:
        """Parents, children and the children's other parents of ``node``, in node order."""
        i = self._position(node)
        adjacency = self.adjacency
        blanket = adjacency[:, i] | adjacency[i] | adjacency[:, adjacency[i]].any(axis=1)
        blanket[i] = False
        return self._named(blanket)

    def ancestors(self, node: Node) -> tuple[str, ...]:
        """Nodes with a directed path to ``node``, in node order."""
        return self._relatives(node, self.adjacency)

    def descendants(self, node: Node) -> tuple[str, ...]:
        """Nodes with a directed path from ``node``, in node order."""
        return self._relatives(node, self.adjacency.T)

    def topological_order(self) -> tuple[str, ...]:
        """The nodes with every parent before its children; ties in node order."""
        order = _topological_order(self.adjacency)
        assert order is not None  # a Dag has no cycles
        return tuple(self._names[i] for i in order)

    def d_separated(self, x: Nodes, y: Nodes, given: Nodes = ()) -> bool:
        """Whether x and y are d-separated: independent given the others in every distribution of this graph.

        Parameters
        ----------
        x, y, given : node or iterable of nodes
            Three groups without a node in common; ``given`` may be empty.

        Returns
        -------
        bool

        Raises
        ------
        ArgumentError
            If a node is not in the graph or in two groups, or ``x`` or ``y`` is empty.

        Notes
        -----
        Time is linear in the size of the adjacency matrix.

        Examples
        --------
        >>> dag = Dag.from_edges([("rain", "wet"), ("sprinkler", "wet"), ("wet", "slippery")])
        >>> dag.d_separated("rain", "sprinkler"), dag.d_separated("rain", "sprinkler", given="slippery")
        (True, False)
        """
        return are_separated(self.adjacency, *self._groups(x=x, y=y, given=given))

    def is_adjustment_set(self, cause: Nodes, effect: Nodes, given: Nodes = ()) -> bool:
        """Whether adjusting for a set identifies what setting the cause does to the effect.

        Parameters
        ----------
        cause, effect, given : node or iterable of nodes
            Three groups without a node in common; ``given`` is what is adjusted for, and may be empty.

        Returns
        -------
        bool
            Whether P(effect | do(cause)) is the mean over ``given`` of P(effect | cause, given), in every distribution
            of this graph.

        Raises
        ------
        ArgumentError
            As `d_separated`.

        Notes
        -----
        This is the adjustment criterion of Shpitser, VanderWeele & Robins (2010), which is complete: every set that
        passes Pearl's back-door criterion is valid, and some others are.

        Examples
        --------
        >>> dag = Dag.from_edges([("age", "drug"), ("age", "cured"), ("drug", "cured"), ("cured", "paid")])
        >>> [dag.is_adjustment_set("drug", "cured", given) for given in ((), "age", ("age", "paid"))]
        [False, True, False]
        """
        x, y, z = self._groups(cause=cause, effect=effect, given=given)
        return Adjustment.of(self.adjacency, x, y).is_valid(z)

    def adjustment_set(self, cause: Nodes, effect: Nodes) -> tuple[str, ...] | None:
        """The minimal adjustment set nearest to the effect, in node order; None where there is no valid set.

        Examples
        --------
        >>> dag = Dag.from_edges([("age", "dose"), ("dose", "drug"), ("age", "cured"), ("drug", "cured")])
        >>> dag.adjustment_set("drug", "cured"), dag.adjustment_set("cured", "drug")
        (('age',), None)
        """
        return next(iter(self.adjustment_sets(cause, effect, 1)), None)

    def adjustment_sets(self, cause: Nodes, effect: Nodes, most: int = 100) -> tuple[tuple[str, ...], ...]:
        """Adjustment sets that are minimal: of none of them a part would do.

        Parameters
        ----------
        cause, effect : node or iterable of nodes
            Two groups without a node in common.
        most : int, default=100
            How many to return; there may be fewer, and there can be exponentially many.

        Returns
        -------
        tuple of tuple of str
            Nodes of each set in node order, sets near the effect first; empty where there is no valid set.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            As `d_separated`, or if ``most`` is not a whole number of at least 1.

        Examples
        --------
        >>> dag = Dag.from_edges([("age", "dose"), ("dose", "drug"), ("age", "cured"), ("drug", "cured")])
        >>> dag.adjustment_sets("drug", "cured")
        (('age',), ('dose',))
        """
        most = check_whole("most", most, 1)
        x, y = self._groups(cause=cause, effect=effect)
        return tuple(self._named(found) for found in islice(Adjustment.of(self.adjacency, x, y).minimal(), most))

    def covered_arcs(self) -> tuple[tuple[str, str], ...]:
        """Arcs i -> j with pa(j) = pa(i) + {i}: those whose reversal keeps the equivalence class."""
        adjacency = self.adjacency
        covered = []
        for i, j in np.argwhere(adjacency):
            with_i = adjacency[:, i].copy()
            with_i[i] = True
            if np.array_equal(with_i, adjacency[:, j]):
                covered.append((self._names[i], self._names[j]))
        return tuple(covered)

    def cpdag(self) -> Cpdag:
        """The completed partially directed graph that stands for this graph's equivalence class."""
        return Cpdag.from_dag(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dag):
            return NotImplemented
        return self._names == other._names and np.array_equal(self._rows, other._rows)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        arrows = [f"{parent} -> {child}" for parent, child in self.edges[:8]]
        more = f", ... {self.n_edges - 8} more" if self.n_edges > 8 else ""
        return f"Dag({self.n_nodes} nodes: {', '.join(arrows) or 'no edges'}{more})"

    def _position(self, node: Node) -> int:
        if isinstance(node, str):
            if node not in self._index:
                raise ArgumentError(f"node {node!r} is not in the graph; its nodes are {listed(self._names)}")
            return self._index[node]
        position = operator.index(node)
        if not 0 <= position < self.n_nodes:
            raise ArgumentError(f"node {position} is not in the graph; positions run from 0 to {self.n_nodes - 1}")
        return position

    def _relatives(self, node: Node, adjacency: NDArray[np.bool_]) -> tuple[str, ...]:
        """Ancestors of a node by the adjacency matrix; its descendants by the transposed one."""
        itself = np.arange(self.n_nodes) == self._position(node)
        return self._named(ancestral(adjacency, itself) & ~itself)

    def _groups(self, **groups: Nodes) -> list[NDArray[np.bool_]]:
        """Groups of nodes as boolean arrays, which have no node in common; ``given`` alone may be empty."""
        masks: list[NDArray[np.bool_]] = []
        taken: dict[int, str] = {}
        for name, group in groups.items():
            nodes = [group] if isinstance(group, (str, SupportsIndex)) else group
            if not isinstance(nodes, Iterable):
                raise ArgumentTypeError(f"{name} is {group!r}; give a node, or a list of nodes")
            mask = np.zeros(self.n_nodes, dtype=np.bool_)
            for i in map(self._position, nodes):
                other = taken.setdefault(i, name)
                if other != name:
                    raise ArgumentError(
                        f"{name} has the node {self._names[i]!r}, which is in {other}; leave it out there"
                    )
                mask[i] = True
            if not mask.any() and name != "given":
                raise ArgumentError(f"{name} has no nodes; give at least one")
            masks.append(mask)
        return masks

    def _named(self, mask: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self._names[i] for i in np.flatnonzero(mask))


def _check_names(names: Sequence[str] | None, n_nodes: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"X{i}" for i in range(n_nodes))
    if isinstance(names, str):
        raise ArgumentTypeError(f"names is the text {names!r}; give one name for each node, in a list")
    names = tuple(names)
    if len(names) != n_nodes:
        raise ArgumentError(f"names has {len(names)} entries but adjacency has {n_nodes} nodes; give one name a node")
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < n_nodes else []
    if repeated:
        raise ArgumentError(f"names has {repeated[0]!r} more than once; every node needs a name of its own")
    return names


def _topological_order(adjacency: NDArray[np.bool_]) -> list[int] | None:
    """Kahn's algorithm, lowest position first; None if there is a cycle."""
    import heapq

    waiting: list[int] = adjacency.sum(axis=0).tolist()
    children: list[list[int]] = [[] for _ in waiting]
    for i, j in np.argwhere(adjacency).tolist():
        children[i].append(j)
    ready = [j for j, parents in enumerate(waiting) if parents == 0]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for j in children[i]:
            waiting[j] -= 1
            if waiting[j] == 0:
                heapq.heappush(ready, j)
    return order if len(order) == len(adjacency) else None


def _find_cycle(adjacency: NDArray[np.bool_]) -> list[int]:
    """One directed cycle, first node repeated at the end; the graph must have one."""
    on_cycle = np.ones(len(adjacency), dtype=np.bool_)
    while True:  # peel off nodes without a remaining parent: what is left leads back into a cycle
        orphans = on_cycle & ~adjacency[on_cycle].any(axis=0)
        if not orphans.any():
            break
        on_cycle &= ~orphans
    path = [int(np.flatnonzero(on_cycle)[0])]
    while True:  # walk to parents until a node repeats
        parent = int(np.flatnonzero(adjacency[:, path[-1]] & on_cycle)[0])
        if parent in path:
            return [parent, *reversed(path[path.index(parent) :])]
        path.append(parent)
