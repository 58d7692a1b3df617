r"""Moves that draw a part of the graph from its conditional distribution: nothing is to be accepted.

`EdgeGibbs`: redraw one pair of nodes (Riggelsen, ch. 4, section 3.2, eq. 4.11).

A pair {i, j} has three states: not joined, i -> j, j -> i.  A step draws one of those that close no cycle and break no
limit, with probability proportional to the posterior, all other pairs being held.  There is nothing to accept:

.. math:: P(e_{ij} = s \mid \text{rest}, D) = \frac{P(G_s \mid D)}{\sum_t P(G_t \mid D)}.

The pairs are taken in turn (``"cyclic"``), at random, or in an order of the caller's own; the order may not depend on
the graph.

`ParentSetGibbs`: redraw a node's whole parent set (Goudie & Mukherjee 2016).

A step takes a node at random and draws its parents anew, given all other families,

.. math:: P(pa(j) = S \mid \text{rest}, D) \propto \exp s_j(S), \quad S \cap \text{descendants}(j) = \emptyset,

among the sets of a list.  The list need not be complete: redrawing a family *given that it is one of the list* keeps
the posterior whatever the list, and a family outside it is left alone.  Single-edge moves reach all others.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa._jit import branching, inlined
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.bits import pack_rows
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import (
    ILLEGAL,
    WorkingGraph,
    apply_change,
    candidate_kind,
    reach,
    rebuild,
    replace_parents,
    working_graph,
)
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accept_change, cache_is_full, keep, score_change
from doxa.structure.moves.parent_sets import (
    ParentSets,
    draw_set,
    edges_of_sets,
    find_set,
    log_sum_of_sets,
    sets_that_fit,
)
from doxa.structure.moves.sampler import Steady, Work

if TYPE_CHECKING:
    from doxa.testing import Proposal

__all__ = [
    "EdgeGibbs",
    "ParentSetGibbs",
    "parent_set_step",
]


@dataclass(frozen=True)
class EdgeGibbs:
    """Gibbs sampling of pairs of nodes; see the module's notes.

    Parameters
    ----------
    scan : str or sequence of pairs of int, default="cyclic"
        ``"cyclic"``: all pairs in turn; ``"random"``: a pair drawn uniformly at each step; or the pairs to visit in
        turn, as positions of columns, in which every pair occurs at least once.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``scan`` is not one of these; that a pair is left out is seen when the chain begins.

    Examples
    --------
    >>> EdgeGibbs(scan=[(0, 1), (1, 2), (0, 2), (0, 1)])
    EdgeGibbs(scan=((0, 1), (1, 2), (0, 2), (0, 1)))
    """

    scan: str | Sequence[tuple[int, int]] = "cyclic"

    name: ClassVar[str] = "edge_gibbs"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.scan, str):
            if self.scan not in ("cyclic", "random"):
                raise ArgumentError(f"scan is {self.scan!r}; it must be 'cyclic', 'random', or a sequence of pairs")
            return
        try:
            pairs = tuple((operator.index(i), operator.index(j)) for i, j in self.scan)
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                f"scan is {self.scan!r}; it must be 'cyclic', 'random', or a sequence of pairs of column positions"
            ) from None
        for i, j in pairs:
            if i == j or min(i, j) < 0:
                raise ArgumentError(f"scan holds the pair ({i}, {j}); a pair is two different positions from 0 on")
        object.__setattr__(self, "scan", pairs)

    def cycle_length(self, n_nodes: int) -> int:
        """Steps after which the kernel repeats itself: one round of the pairs."""
        return 1 if self.scan == "random" else len(self._pairs(n_nodes))

    def _pairs(self, n_nodes: int) -> NDArray[np.int64]:
        every = [(i, j) for i in range(n_nodes) for j in range(i + 1, n_nodes)]
        if isinstance(self.scan, str):
            return np.array(every, dtype=np.int64)
        visited = {(min(pair), max(pair)) for pair in self.scan}
        missing = sorted(set(every) - visited)
        if missing:
            raise ArgumentError(f"scan leaves out the pair {missing[0]} (columns from 0 on): it could never change")
        foreign = sorted(visited - set(every))
        if foreign:
            raise ArgumentError(f"scan holds the pair {foreign[0]}, but there are only {n_nodes} columns")
        return np.array(self.scan, dtype=np.int64, order="C")

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        pairs = self._pairs(len(work.local))
        advance = settled(_advance_pairs, work.scoring.address)
        return advance(work, pairs, self.scan == "random", first, n_steps, rng)

    def proposals(
        self, rows: NDArray[np.uint64], limits: Limits, pair: tuple[int, int], log_score: Any
    ) -> Iterator[Proposal[NDArray[np.uint64]]]:
        """The graphs that a step at ``pair`` can lead to, with their conditional probabilities.

        ``log_score`` maps adjacency rows to the log posterior, up to a constant.
        """
        from doxa.testing import Proposal  # checks alone list what a step can propose

        graph = working_graph(rows)
        found = [rows]
        for i, j in (pair, pair[::-1]):
            kind = settled(candidate_kind)(graph, limits, i, j)
            if kind != ILLEGAL:
                after = working_graph(rows)
                settled(apply_change)(after, kind, i, j)
                found.append(after[1])
        scores = np.array([log_score(graph_rows) for graph_rows in found])
        shares = np.exp(scores - scores.max())
        for graph_rows, share, score in zip(found[1:], (shares / shares.sum())[1:], scores[1:], strict=True):
            yield Proposal(graph_rows, float(share), float(scores[0] - score))


@branching
def _advance_pairs(work: Work, pairs: Ints, at_random: bool, first: int, n_steps: int, rng: np.random.Generator) -> int:
    graph, local, beta, limits = work.graph, work.local, work.beta, work.limits
    cache, scoring, proposed = work.cache, work.scoring, work.proposed
    n_pairs = pairs.shape[0]
    turn = (work.position + first) % n_pairs
    for step in range(first, n_steps):
        if cache_is_full(cache):
            return step
        if at_random:
            turn = int(rng.random() * n_pairs)
        i, j = pairs[turn, 0], pairs[turn, 1]
        one, other = candidate_kind(graph, limits, i, j), candidate_kind(graph, limits, j, i)
        to_one, to_other = -np.inf, -np.inf
        if one != ILLEGAL:
            to_one = beta * score_change(graph, local, one, i, j, cache, scoring, proposed)
        if other != ILLEGAL:
            to_other = beta * score_change(graph, local, other, j, i, cache, scoring, proposed)
        top = max(0.0, to_one, to_other)
        weight_one, weight_other = np.exp(to_one - top), np.exp(to_other - top)
        u = rng.random() * (np.exp(-top) + weight_one + weight_other)
        if u < weight_one:
            score_change(graph, local, one, i, j, cache, scoring, proposed)
            accept_change(graph, local, one, i, j, proposed)
            work.info[1] += 1
        elif u < weight_one + weight_other:
            score_change(graph, local, other, j, i, cache, scoring, proposed)
            accept_change(graph, local, other, j, i, proposed)
            work.info[1] += 1
        work.info[0] += 1
        turn = turn + 1 if turn < n_pairs - 1 else 0
        keep(work, step)
    return n_steps


@dataclass(frozen=True)
class ParentSetGibbs(Steady):
    """Gibbs sampling of whole parent sets; see the module's notes.

    Alone it does not reach families that its lists leave out: combine it with single-edge moves, as ``"auto"`` does.
    """

    name: ClassVar[str] = "parent_set_gibbs"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = True

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        done = settled(_advance_sets, work.scoring.address)(work, first, n_steps, rng)
        settled(rebuild)(work.graph)
        return done

    def proposals(self, rows: NDArray[np.uint64], table: ParentSets) -> Iterator[Proposal[NDArray[np.uint64]]]:
        """Every graph that one step can lead to, with its probability and the log ratio of the way back."""
        from doxa.testing import Proposal  # checks alone list what a step can propose

        graph, n, edges_of = working_graph(rows), len(rows), edges_of_sets(table)
        for node, bit in enumerate(pack_rows(np.eye(n, dtype=np.bool_))):
            now = settled(find_set)(table, node, graph[0][node])
            if now < 0:
                continue
            total = settled(log_sum_of_sets)(table, node, graph[3][node], -1)
            for number in sets_that_fit(table, node, graph[3][node]).tolist():
                probability = float(np.exp(table.weight[number] - total)) / n
                change = float(table.weight[now] - table.weight[number])
                yield Proposal((rows & ~bit) | edges_of[number], probability, change)


@inlined
def parent_set_step(
    graph: WorkingGraph,
    local: Floats,
    node: int,
    cache: CacheArrays,
    scoring: Scoring,
    table: ParentSets,
    rng: np.random.Generator,
) -> bool:
    """Redraw the parents of ``node`` among its listed sets; True if they changed.  Closures are not kept."""
    if table.where[node] < 0:
        return False
    reach(graph[1], node, node, node, table.reached[0])
    drawn = draw_set(table, node, table.reached[0], -1, rng.random(), np.inf)[0]
    if drawn == table.where[node]:
        return False
    replace_parents(graph, node, table.sets[drawn])
    table.where[node] = drawn
    local[node] = family_log_score(node, graph[0][node], cache, scoring)
    return True


@branching
def _advance_sets(work: Work, first: int, n_steps: int, rng: np.random.Generator) -> int:
    graph, local, cache, scoring, table = work.graph, work.local, work.cache, work.scoring, work.table
    n = local.size
    for node in range(n):
        table.where[node] = find_set(table, node, graph[0][node])
    for step in range(first, n_steps):
        if cache_is_full(cache):
            return step
        work.info[1] += parent_set_step(graph, local, int(rng.random() * n), cache, scoring, table, rng)
        work.info[0] += 1
        keep(work, step)
    return n_steps
