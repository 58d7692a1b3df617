"""`Limits`: which families a graph may have.  Required and forbidden edges, tiers, and caps on the parents of a node.

This is hard knowledge: a graph that breaks it has posterior probability 0, whatever the data say.  Soft knowledge is a
prior (`doxa.structure.priors`).  Everything is brought into one form, two bit sets and two caps for each node, which
every move, every start and every exact sum obeys.

The second cap is on the number of *configurations* that a set of parents can take, the product of their numbers of
states: a table with more configurations than there are rows says nothing of most of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._jit import hot, lowest_bit, popcount
from doxa.arrays import Words
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import n_words, pack_rows, unpack_rows

__all__ = [
    "Limits",
    "capped",
    "check_graphs",
    "find_cycle",
    "forbid_more",
    "is_legal_family",
    "make_limits",
    "may_add",
    "without_parents",
    "words_within",
]

_ROUNDING = 1e-9  # nats, of a sum of logarithms of numbers of states


@by_address
class Limits(NamedTuple):
    """The families that are possible; sets of parents are bit sets, one row a child."""

    max_parents: NDArray[np.int64]  # (n_nodes,)
    allowed: NDArray[np.uint64]  # (n_nodes, n_words): nodes that may be parents
    required: NDArray[np.uint64]  # (n_nodes, n_words): nodes that must be
    log_states: NDArray[np.float64]  # (n_nodes,): log of the number of states; 0 where it does not matter
    max_log_configs: NDArray[np.float64]  # (n_nodes,): log of the most configurations of the parents; infinite: any

    @property
    def allowed_edges(self) -> NDArray[np.bool_]:
        """``[i, j]``: whether i -> j may be an edge."""
        return unpack_rows(self.allowed, len(self.max_parents)).T

    @property
    def required_edges(self) -> NDArray[np.bool_]:
        """``[i, j]``: whether i -> j must be an edge."""
        return unpack_rows(self.required, len(self.max_parents)).T

    @property
    def only_caps(self) -> bool:
        """Whether nothing but the number of parents is limited."""
        n = len(self.max_parents)
        whole = bool(np.isinf(self.max_log_configs).all())
        return whole and not self.required.any() and bool(self.allowed_edges.sum() == n * (n - 1))

    @property
    def one_graph(self) -> bool:
        """Whether no edge is open: at most one graph is possible."""
        free = self.allowed_edges & ~self.required_edges
        free[:, self.required_edges.sum(axis=0) >= self.max_parents] = False
        return not free.any()

    @property
    def most_parents(self) -> NDArray[np.int64]:
        """The largest number of parents that some legal family of each node has, shape (n_nodes,)."""
        most = np.minimum(self.max_parents, self.allowed_edges.sum(axis=0))
        for node in np.flatnonzero(np.isfinite(self.max_log_configs)).tolist():
            needed = self.required_edges[:, node]
            free = np.sort(self.log_states[self.allowed_edges[:, node] & ~needed])
            logs = self.log_states[needed].sum() + np.cumsum(free)
            fitting = int(needed.sum() + (logs <= self.max_log_configs[node]).sum())
            most[node] = min(most[node], fitting)
        return np.asarray(most)


def capped(max_parents: Sequence[int] | NDArray[Any]) -> Limits:
    """Limits on the number of parents alone.

    Examples
    --------
    >>> capped([1, 2, 2]).allowed.ravel()
    array([6, 5, 3], dtype=uint64)
    """
    caps = np.array(max_parents, dtype=np.int64)
    n = len(caps)
    return _packed(caps, ~np.eye(n, dtype=np.bool_), np.zeros((n, n), dtype=np.bool_), np.zeros(n), np.full(n, np.inf))


def make_limits(
    names: Sequence[str],
    *,
    max_parents: int | Mapping[str, int] | None = None,
    required: Iterable[tuple[str, str]] = (),
    forbidden: Iterable[tuple[str, str]] = (),
    tiers: Sequence[Sequence[str]] | None = None,
    n_states: Sequence[int] | NDArray[Any] | None = None,
    max_configurations: int | None = None,
) -> Limits:
    """Check hard knowledge and bring it into one form.

    Parameters
    ----------
    names : sequence of str
        The nodes.
    max_parents : int or mapping of node to int, optional
        Largest number of parents, of every node or of those named; any number when left out.
    required, forbidden : iterable of (source, target)
        Edges that every graph has, and that no graph has.
    tiers : sequence of sequences of str, optional
        Groups of nodes in the order of time: no edge leads from a later group to an earlier one.  Nodes that
        no group names are free.
    n_states : sequence of int, optional
        Numbers of states of the nodes; needed with ``max_configurations``.
    max_configurations : int, optional
        Most configurations of a node's parents, the product of their numbers of states; any number when left out.
        Required parents are allowed whatever their number of configurations.

    Raises
    ------
    ArgumentError
        If a node is unknown, or two demands contradict each other; the message names them.
    ArgumentTypeError
        If something is not a pair of names, or a cap not a whole number.

    Examples
    --------
    >>> limits = make_limits(["age", "smokes", "heart"], tiers=[["age"], ["smokes"], ["heart"]])
    >>> limits.allowed_edges.astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])
    >>> make_limits(["a", "b"], required=[("a", "b")], forbidden=[("a", "b")])
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: the edge 'a' -> 'b' is required and forbidden at once; take one of the two away
    """
    n = len(names)
    place = {name: number for number, name in enumerate(names)}
    needed = _edge_matrix("required", required, place)
    banned = _edge_matrix("forbidden", forbidden, place)
    tier_of = _tiers(tiers, place)
    tier = np.array(tier_of, dtype=np.int64)
    later = (tier[None, :] > -1) & (tier[None, :] < tier[:, None])
    caps = _caps(max_parents, place)
    for i, j in np.argwhere(needed).tolist():
        edge = f"the edge {names[i]!r} -> {names[j]!r} is required"
        if banned[i, j]:
            raise ArgumentError(f"{edge} and forbidden at once; take one of the two away")
        if later[i, j]:
            raise ArgumentError(f"{edge}, but it leads from a later tier to an earlier one; change tiers or required")
    for j in range(n):
        if needed[:, j].sum() > caps[j]:
            parents = ", ".join(repr(names[i]) for i in np.flatnonzero(needed[:, j]).tolist())
            raise ArgumentError(
                f"{names[j]!r} has {needed[:, j].sum()} required parents ({parents}), but max_parents allows it "
                f"{caps[j]}; raise max_parents or take edges out of required"
            )
    cycle = find_cycle(needed)
    if cycle:
        path = " -> ".join(repr(names[i]) for i in [*cycle, cycle[0]])
        raise ArgumentError(f"the required edges form a cycle: {path}; a graph has none, so take one of them away")
    log_states, most = np.zeros(n), np.full(n, np.inf)
    if max_configurations is not None:
        if n_states is None:
            raise ArgumentError(f"max_configurations is {max_configurations}, but n_states is not given; give both")
        log_states = np.log(np.asarray(n_states, dtype=np.float64))
        cap = math.log(check_whole("max_configurations", max_configurations, 1))
        most = np.maximum(cap, log_states @ needed) + _ROUNDING
    return _packed(caps, ~(banned | later | np.eye(n, dtype=np.bool_)), needed, log_states, most)


def forbid_more(limits: Limits, names: Sequence[str], edges: Iterable[tuple[str, str]]) -> Limits:
    """The limits, with more edges forbidden: those of ``edges`` (source, target) that are not required.

    Examples
    --------
    >>> limits = make_limits(["a", "b"], required=[("a", "b")])
    >>> forbid_more(limits, ["a", "b"], [("a", "b"), ("b", "a")]).allowed_edges.astype(int)
    array([[0, 1],
           [0, 0]])
    """
    banned = _edge_matrix("edges", edges, {name: number for number, name in enumerate(names)})
    needed = limits.required_edges
    allowed = limits.allowed_edges & ~(banned & ~needed)
    return _packed(limits.max_parents, allowed, needed, limits.log_states, limits.max_log_configs)


_BYTES_AT_ONCE = 2**24  # of graphs that are unpacked


def words_within(n: int) -> NDArray[np.uint64]:
    """The bit set of all of ``n`` nodes, shape (n_words,).

    Examples
    --------
    >>> words_within(66).tolist()
    [18446744073709551615, 3]
    """
    return np.asarray(pack_rows(np.ones(n, dtype=np.bool_)))


def check_graphs(rows: NDArray[np.uint64], limits: Limits, where: str = "rows") -> None:
    """Raise `ArgumentError` unless adjacency rows from a file are acyclic graphs within the limits.

    Parameters
    ----------
    rows : ndarray of uint64, shape (n_graphs, n_nodes, n_words)
    limits : Limits
        Of as many nodes.
    where : str, default="rows"
        What the graphs are called in messages.

    Examples
    --------
    >>> check_graphs(np.array([[[2], [1]]], dtype=np.uint64), capped([1, 1]))
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: rows holds a graph with a cycle
    """
    n, (n_graphs, *shape) = len(limits.max_parents), rows.shape
    if shape != [n, n_words(n)]:
        raise ArgumentError(f"{where} has the shape {list(rows.shape)}; graphs of {n} nodes have {[n, n_words(n)]}")
    if n_graphs > 1:  # what a chain stays at is looked at once
        rows = rows[np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=(1, 2))])]
    if (rows & ~pack_rows(limits.allowed_edges)).any():
        raise ArgumentError(f"{where} holds an edge that cannot be, or that the limits forbid")
    if (~rows & pack_rows(limits.required_edges)).any():
        raise ArgumentError(f"{where} holds a graph without an edge that the limits require")
    free = bool((limits.max_parents >= n - 1).all() and np.isinf(limits.max_log_configs).all())
    step = max(1, _BYTES_AT_ONCE // n**2)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        if not free:
            _check_families(unpack_rows(part, n), limits, where)
        alive = np.broadcast_to(words_within(n), (len(part), part.shape[2]))
        while len(part):  # take away nodes without children that are left
            leaves = ~(part & alive[:, None, :]).any(axis=2)
            fewer = alive & ~pack_rows(np.asarray(leaves))
            if (fewer == alive).all(axis=1).any():
                raise ArgumentError(f"{where} holds a graph with a cycle")
            left = fewer.any(axis=1)
            part, alive = part[left], fewer[left]


def _check_families(adjacency: NDArray[np.bool_], limits: Limits, where: str) -> None:
    if (adjacency.sum(axis=1) > limits.max_parents).any():
        raise ArgumentError(f"{where} holds a node with more parents than max_parents allows")
    if np.isfinite(limits.max_log_configs).any():
        logs = np.einsum("gij,i->gj", adjacency, limits.log_states)
        if (logs > limits.max_log_configs + _ROUNDING).any():
            raise ArgumentError(f"{where} holds a node whose parents have more configurations than the limits allow")


def without_parents(limits: Limits, names: Sequence[str], first: int) -> Limits:
    """The limits, with no edge into the nodes from position ``first`` on: copies of the past.

    Raises
    ------
    ArgumentError
        If such an edge is required.

    Examples
    --------
    >>> without_parents(make_limits(["a", "a [t-1]"]), ["a", "a [t-1]"], 1).allowed_edges.astype(int)
    array([[0, 0],
           [1, 0]])
    """
    allowed, needed = limits.allowed_edges, limits.required_edges
    for i, j in np.argwhere(needed[:, first:]).tolist():
        raise ArgumentError(
            f"the edge {names[i]!r} -> {names[first + j]!r} is required, and leads into the past; edges lead from the "
            "past to the present, or within the present: take it out of required"
        )
    allowed[:, first:] = False
    return _packed(limits.max_parents, allowed, needed, limits.log_states, limits.max_log_configs)


def find_cycle(edges: NDArray[np.bool_]) -> list[int]:
    """Nodes of one directed cycle, in its order; empty when there is none.

    Examples
    --------
    >>> find_cycle(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=bool))
    [0, 1, 2]
    """
    left = np.ones(len(edges), dtype=np.bool_)
    while True:  # take away nodes that no remaining edge leads to, or from
        among = edges & left & left[:, None]
        keep = np.asarray(among.any(axis=0) & among.any(axis=1))
        if (keep == left).all():
            break
        left = keep
    if not left.any():
        return []
    path = [int(np.flatnonzero(left)[0])]
    while True:
        following = int(np.flatnonzero(edges[path[-1]] & left)[0])
        if following in path:
            cycle = path[path.index(following) :]
            first = cycle.index(min(cycle))
            return cycle[first:] + cycle[:first]
        path.append(following)


@hot
def is_legal_family(limits: Limits, child: int, parents: Words) -> bool:
    """Whether ``child`` may have the set ``parents``."""
    count = 0
    for w in range(parents.size):
        word = parents[w]
        if word & ~limits.allowed[child, w] or limits.required[child, w] & ~word:
            return False
        count += popcount(word)
    if count > limits.max_parents[child]:
        return False
    return bool(_log_configs(limits, parents) <= limits.max_log_configs[child])


@hot
def may_add(limits: Limits, parents: Words, child: int, other: int) -> bool:
    """Whether ``other``, which is none of them, may join the parents of ``child``, row ``child`` of ``parents``."""
    if not (limits.allowed[child, other >> 6] >> np.uint64(other & 63)) & np.uint64(1):
        return False
    count = 0
    for w in range(parents.shape[1]):
        count += popcount(parents[child, w])
    if count >= limits.max_parents[child]:
        return False
    if limits.max_log_configs[child] == np.inf:
        return True
    return bool(_log_configs(limits, parents[child]) + limits.log_states[other] <= limits.max_log_configs[child])


@hot
def _log_configs(limits: Limits, members: Words) -> float:
    """Log of the number of configurations of a set of nodes."""
    total = 0.0
    for w in range(members.size):
        word = members[w]
        while word != np.uint64(0):
            total += limits.log_states[64 * w + lowest_bit(word)]
            word &= word - np.uint64(1)
    return total


def _packed(
    caps: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    required: NDArray[np.bool_],
    log_states: NDArray[np.float64],
    max_log_configs: NDArray[np.float64],
) -> Limits:
    caps = np.minimum(caps, len(caps) - 1)
    return Limits(caps, pack_rows(allowed.T), pack_rows(required.T), log_states, max_log_configs)


def _edge_matrix(argument: str, edges: Iterable[tuple[str, str]], place: Mapping[str, int]) -> NDArray[np.bool_]:
    matrix = np.zeros((len(place), len(place)), dtype=np.bool_)
    form = f"{argument} holds pairs of names (source, target)"
    if isinstance(edges, (str, Mapping)) or not isinstance(edges, Iterable):
        raise ArgumentTypeError(f"{argument} is {edges!r}; {form}: {argument}=[('a', 'b')]")
    for edge in edges:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise ArgumentTypeError(f"{argument} holds {edge!r}; {form}")
        for node in edge:
            _known(argument, node, place)
        if edge[0] == edge[1]:
            raise ArgumentError(f"{argument} names the edge {edge[0]!r} -> {edge[1]!r}; an edge joins different nodes")
        matrix[place[edge[0]], place[edge[1]]] = True
    return matrix


def _tiers(tiers: Sequence[Sequence[str]] | None, place: Mapping[str, int]) -> list[int]:
    """The number of each node's tier, -1 for nodes in none."""
    tier_of = [-1] * len(place)
    if tiers is None:
        return tier_of
    form = "tiers is a list of lists of names, such as [['age', 'sex'], ['smokes']]"
    if isinstance(tiers, (str, Mapping)) or not isinstance(tiers, Sequence):
        raise ArgumentTypeError(f"tiers is {tiers!r}; {form}")
    for number, tier in enumerate(tiers):
        if isinstance(tier, (str, Mapping)) or not isinstance(tier, Iterable):
            raise ArgumentTypeError(f"tiers holds {tier!r}; {form}")
        for node in tier:
            _known("tiers", node, place)
            if tier_of[place[node]] >= 0:
                raise ArgumentError(f"tiers names {node!r} twice; a node is in one tier")
            tier_of[place[node]] = number
    return tier_of


def _caps(max_parents: int | Mapping[str, int] | None, place: Mapping[str, int]) -> NDArray[np.int64]:
    most = len(place) - 1
    caps = np.full(len(place), most, dtype=np.int64)
    if isinstance(max_parents, Mapping):
        for node, cap in max_parents.items():
            _known("max_parents", node, place)
            caps[place[node]] = min(most, check_whole(f"max_parents[{node!r}]", cap, 0))
    elif max_parents is not None:
        caps[:] = min(most, check_whole("max_parents", max_parents, 0))
    return caps


def _known(argument: str, node: Any, place: Mapping[str, int]) -> None:
    if not isinstance(node, str) or node not in place:
        known = ", ".join(repr(name) for name in list(place)[:20])
        more = f" and {len(place) - 20} more" if len(place) > 20 else ""
        raise ArgumentError(f"{argument} names {node!r}, which is not a column of the table; there are {known}{more}")
