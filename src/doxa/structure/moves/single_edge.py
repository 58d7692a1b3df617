r"""`SingleEdge`: Metropolis-Hastings over graphs that differ in one edge (MC3; Madigan & York 1995).

A step adds, deletes or reverses one edge (Riggelsen, ch. 4, section 3.1).  Two of three steps pick one of the E edges
of the graph, to delete or to reverse it; the others pick an ordered pair of nodes that are not adjacent, to
join them:

.. math:: q(\text{delete}) = q(\text{reverse}) = \frac{s}{2E}, \qquad q(\text{add}) = \frac{1 - s}{n(n-1) - 2E},

with s = 2/3, but 0 for the empty graph and 1 for a complete one.  Choosing pairs without regard to what is there, as
is usual, spends 93 of 100 proposals on ALARM (37 nodes, some 50 edges) on absent edges; a fixed split is the
tie / no-tie proposal of random-graph models (Morris, Handcock & Hunter 2008).  The split is a rule of thumb: in one run
each on 1000 records of Asia, s = 2/3 gave 361 effective draws in a million steps, s = 1/2 gave 196, and s = 3/4 gave
no more than 2/3.  Deleting and adding are then not equally probable, and the
chapter's remark that the ratio of proposals cancels does not hold: it is q(delete; E + 1) / q(add; E) for an addition,
the inverse for a deletion, and 1 for a reversal.  A proposal that closes a cycle or gives a node too many parents is
rejected.

`EMC3`: single-edge Metropolis-Hastings with covered-arc reversals before every step (Kočka & Castelo 2001).

Plain single-edge moves are slow to leave the graph at hand for an equivalent one.  Here each step begins with ``rcar``:
some covered arcs are turned, which wanders within the equivalence class, and then one edge is changed.
The corrected reversal is that of `doxa.structure.moves.covered_arcs`; ``published=True`` accepts every reversal, as
printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa._jit import branching, hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.checks import check_whole
from doxa.errors import ArgumentTypeError
from doxa.schema import Within
from doxa.structure.graph import (
    ADD,
    DELETE,
    ILLEGAL,
    apply_change,
    candidate_kind,
    has_bit,
    working_graph,
)
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accept_change, accepts, cache_is_full, keep, score_change
from doxa.structure.moves.covered_arcs import reverse_covered_arcs
from doxa.structure.moves.sampler import Steady, Work

if TYPE_CHECKING:
    from doxa.testing import Proposal

__all__ = [
    "EMC3",
    "PRESENT",
    "SingleEdge",
    "advance_single_edge",
    "draw_pair",
    "list_edges",
    "log_hastings",
    "log_proposals",
    "update_edges",
]


PRESENT = 2.0 / 3.0  # s: share of the steps that pick an edge of the graph


@dataclass(frozen=True)
class SingleEdge(Steady):
    """Add, delete or reverse one edge at a time (MC3); see the module's notes for the proposal.

    Examples
    --------
    >>> import doxa
    >>> doxa.learn(doxa.datasets.load("reinis"), sampler=SingleEdge(), draws=100, seed=1).sampler
    SingleEdge()
    """

    name: ClassVar[str] = "single_edge"
    is_reversible: ClassVar[bool] = True
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = False

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        return advance_single_edge(work, 0, False, first, n_steps, rng)

    def proposals(self, rows: NDArray[np.uint64], limits: Limits) -> Iterator[Proposal[NDArray[np.uint64]]]:
        """Every graph that one step can propose from ``rows``, by the compiled kernel's own rules.

        The outcomes are listed by running the kernel's draw on a fine grid of uniform numbers, not by trusting the
        probabilities that its Hastings terms are computed from.

        Yields
        ------
        Proposal
            The proposed adjacency rows, their probability, and the log Hastings term that the kernel would use.
        """
        from doxa.testing import Proposal  # checks alone list what a step can propose

        n = len(rows)
        graph = working_graph(rows)
        edges = np.zeros((2, n * (n - 1) // 2), dtype=np.int64)
        n_edges = list_edges(graph[1], edges)
        log_q = log_proposals(n)
        cells = math.lcm(2 * max(1, n_edges), n * (n - 1))  # both ways of dividing the second number come out even
        for u, share in ((0.0, PRESENT), (1.0 - 1e-9, 1.0 - PRESENT)):
            drawn = [draw_pair(graph[1], edges, n_edges, u, (c + 0.5) / cells) for c in range(cells)]
            pairs = [(i, j) for i, j in drawn if i >= 0]  # others are adjacent
            for i, j in pairs:
                kind = settled(candidate_kind)(graph, limits, i, j)
                if kind != ILLEGAL:
                    after = working_graph(rows)
                    settled(apply_change)(after, kind, i, j)
                    yield Proposal(after[1], share / len(pairs), log_hastings(log_q, kind, n_edges))


def advance_single_edge(
    work: Any, reversals: int, published: bool, first: int, n_steps: int, rng: np.random.Generator
) -> int:
    """The loop of `SingleEdge`, with ``reversals`` covered-arc reversals before each step."""
    n = len(work.local)
    edges = np.zeros((2, n * (n - 1) // 2), dtype=np.int64)
    advance = settled(_advance, work.scoring.address)
    return advance(work, reversals, published, edges, log_proposals(n), first, n_steps, rng)


@cache
def log_proposals(n: int) -> NDArray[np.float64]:
    """Log q(add) and log q(delete), shape (2, n(n-1)/2 + 1), for every number of edges; -inf where impossible."""
    most = n * (n - 1) // 2
    n_edges = np.arange(most + 1)
    split = np.where(n_edges == 0, 0.0, np.where(n_edges == most, 1.0, PRESENT))
    with np.errstate(divide="ignore"):
        return np.log(
            [(1.0 - split) / np.maximum(1, 2 * (most - n_edges)), split / np.maximum(1, 2 * n_edges)],
        )


@hot
def log_hastings(log_q: Floats, kind: int, n_edges: int) -> float:
    """Log q(G | G') - log q(G' | G) for a change of this kind to a graph with ``n_edges`` edges."""
    if kind == ADD:
        return log_q[1, n_edges + 1] - log_q[0, n_edges]  # type: ignore[no-any-return]
    if kind == DELETE:
        return log_q[0, n_edges - 1] - log_q[1, n_edges]  # type: ignore[no-any-return]
    return 0.0


@hot
def list_edges(children: Words, edges: Ints) -> int:
    """Write all edges as columns (parent, child) of ``edges``, in order; return their number."""
    found = 0
    for i in range(children.shape[0]):
        for w in range(children.shape[1]):
            word = children[i, w]
            while word != np.uint64(0):
                edges[0, found] = i
                edges[1, found] = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                found += 1
    return found


@hot
def draw_pair(children: Words, edges: Ints, n_edges: int, u: float, v: float) -> tuple[int, int]:
    """A candidate (i, j) from two uniform numbers; (-1, -1) to draw again, where the pair is adjacent.

    The first number chooses between the edges and the absent edges, the second the pair.
    """
    n = children.shape[0]
    if 2 * n_edges == n * (n - 1) or (u < PRESENT and n_edges > 0):
        index = int(v * (2 * n_edges))
        i, j = edges[0, index >> 1], edges[1, index >> 1]
        if index & 1:
            return j, i  # the candidate (j, i) reverses the edge i -> j
        return i, j
    index = int(v * (n * (n - 1)))
    i = index // (n - 1)
    j = index - i * (n - 1)
    if j >= i:
        j += 1
    if has_bit(children, i, j) or has_bit(children, j, i):
        return -1, -1
    return i, j


@hot
def _insert_edge(edges: Ints, n_edges: int, i: int, j: int) -> None:
    """Add a column to the list, which stays in order: draws must not depend on how the graph was come by."""
    place = n_edges
    while place > 0 and (edges[0, place - 1] > i or (edges[0, place - 1] == i and edges[1, place - 1] > j)):
        edges[0, place] = edges[0, place - 1]
        edges[1, place] = edges[1, place - 1]
        place -= 1
    edges[0, place] = i
    edges[1, place] = j


@hot
def _remove_edge(edges: Ints, n_edges: int, i: int, j: int) -> None:
    place = 0
    while edges[0, place] != i or edges[1, place] != j:
        place += 1
    for later in range(place, n_edges - 1):
        edges[0, later] = edges[0, later + 1]
        edges[1, later] = edges[1, later + 1]


@hot
def update_edges(edges: Ints, n_edges: int, kind: int, i: int, j: int) -> int:
    """Keep the list of edges in step with an accepted change; return their number."""
    if kind == ADD:
        _insert_edge(edges, n_edges, i, j)
        return n_edges + 1
    if kind == DELETE:
        _remove_edge(edges, n_edges, i, j)
        return n_edges - 1
    _remove_edge(edges, n_edges, j, i)
    _insert_edge(edges, n_edges - 1, i, j)
    return n_edges


@branching
def _advance(
    work: Work,
    reversals: int,
    published: bool,
    edges: Ints,
    log_q: Floats,
    first: int,
    n_steps: int,
    rng: np.random.Generator,
) -> int:
    graph, local, beta, limits = work.graph, work.local, work.beta, work.limits
    cache, scoring, proposed = work.cache, work.scoring, work.proposed
    n_edges = list_edges(graph[1], edges)
    for step in range(first, n_steps):
        if cache_is_full(cache):
            return step
        if reversals > 0:
            reverse_covered_arcs(work, reversals, published, rng)
            list_edges(graph[1], edges)
        u = rng.random()
        i, j = draw_pair(graph[1], edges, n_edges, u, rng.random())
        while i < 0:
            i, j = draw_pair(graph[1], edges, n_edges, u, rng.random())
        kind = candidate_kind(graph, limits, i, j)
        if kind != ILLEGAL:
            log_ratio = beta * score_change(graph, local, kind, i, j, cache, scoring, proposed)
            log_ratio += log_hastings(log_q, kind, n_edges)
            if accepts(rng, log_ratio):
                accept_change(graph, local, kind, i, j, proposed)
                n_edges = update_edges(edges, n_edges, kind, i, j)
                work.info[1] += 1
        work.info[0] += 1
        keep(work, step)
    return n_steps


@dataclass(frozen=True)
class EMC3(Steady):
    """Single-edge moves with repeated covered-arc reversal (Riggelsen, ch. 4, section 3.3; Kočka & Castelo 2001).

    Parameters
    ----------
    covered_arc_reversals : int, default=10
        Covered-arc reversals tried before each step, as in the chapter; they are not counted as steps.
    published : bool, default=False
        Accept every reversal, as printed.  Its answers are **biased**; it is here for comparison.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``covered_arc_reversals`` is negative or not whole, or ``published`` is neither True nor False.
    """

    covered_arc_reversals: int = 10
    published: bool = False

    name: ClassVar[str] = "emc3"
    _in_file: ClassVar[dict[str, Any]] = {"covered_arc_reversals": Annotated[int, Within(0, 2**31)]}
    uses_table: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "covered_arc_reversals", check_whole("covered_arc_reversals", self.covered_arc_reversals, 0)
        )
        if not isinstance(self.published, bool):
            raise ArgumentTypeError(f"published is {self.published!r}; it must be True or False")

    @property
    def bias(self) -> str | None:
        """What is wrong with the answers, if something is."""
        if not self.published or self.covered_arc_reversals == 0:
            return None
        return (
            "covered-arc reversal as printed does not keep the posterior (the number of covered arcs varies): "
            "these probabilities are biased"
        )

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        return advance_single_edge(work, self.covered_arc_reversals, self.published, first, n_steps, rng)
