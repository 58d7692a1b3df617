r"""`Auto`: the default sampler, five moves mixed at every step.

Each step is a single-edge move, an edge reversal, a shift in an order, a joint redrawing of the parents of four or six
nodes or a parent-set Gibbs move, at fixed probabilities whatever the graph.
Each move keeps the posterior, so the mixture does.  Single-edge moves reach every graph, turn edges round within an
equivalence class, and are the only ones that see families outside the lists; reversals and whole parent sets cross
the valleys between modes that stop single-edge moves for ever, and shifts in an order those between graphs that differ
in many nodes.  The modules of the moves describe them.

Here no closure of the graph is kept: whether an edge would close a cycle is found by walking from one end, which for
sparse graphs costs less than mending closures after moves that change many edges.

`order_shift_step`: move a node within an order of the graph, and redraw the parents of all that it passes.

Single edges, whole parent sets and reversals change one or two nodes.  Where a dozen columns say nearly the same,
graphs of equal worth differ in many nodes at once.  This step changes as many as it takes, and is exact.

The graph G is joined for one step by an order o of its nodes, drawn by placing at random one of the nodes whose parents
are placed, again and again, so that :math:`q(o \mid G) = \prod_t 1 / a_t` with :math:`a_t` nodes to choose from.  A
node is then moved to another place of the order, as far as a draw says that does not depend on where it stands; every
node between the two places, itself included, gets new parents from among those of its list that stand before it, by
their weights.  With :math:`Z_i(o)` the sum of the weights of i's sets that fit, the step is accepted with probability

.. math:: \min\Big\{1, \frac{q(o' \mid G')}{q(o \mid G)} \prod_i \frac{Z_i(o')}{Z_i(o)}\Big\},

the product over the nodes that got new parents.  It keeps :math:`P(G \mid D)\, q(o \mid G)`, whose sum over o is the
posterior: orders are an auxiliary variable, so unlike order MCMC (Friedman & Koller 2003) graphs with many orders are
not favoured.  As in `doxa.structure.moves.gibbs` lists need not be complete: a step that would redraw a
family outside them is not taken, and none leads there.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from doxa._call_at import settled
from doxa._jit import branching, compact, hot, inlined, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import (
    ADD,
    DELETE,
    ILLEGAL,
    REVERSE,
    WorkingGraph,
    count_bits,
    has_bit,
    is_in,
    reach,
    rebuild,
    replace_parents,
    toggle_bit,
)
from doxa.structure.limits import Limits, may_add
from doxa.structure.moves.changes import accepts, cache_is_full, edge_number, keep, score_change
from doxa.structure.moves.edge_reversal import edge_reversal_step
from doxa.structure.moves.gibbs import parent_set_step
from doxa.structure.moves.joint_parents import joint_parents_step
from doxa.structure.moves.parent_sets import ParentSets, draw_set, find_set, log_bounds
from doxa.structure.moves.sampler import Steady, Work
from doxa.structure.moves.single_edge import PRESENT, log_hastings, log_proposals

__all__ = ["Auto", "advance_auto", "advance_edges", "auto_step", "order_shift_step"]

_ROUNDING = 1e-17  # of a sum: what is smaller does not change it


@hot
def _draw_order(graph: WorkingGraph, order: Ints, waiting: Ints, rng: np.random.Generator) -> float:
    """Draw an order of the graph into ``order``; return the log of its probability."""
    n = order.size
    log_q = 0.0
    free = 0  # order[placed : placed + free] are the nodes whose parents are placed
    for node in range(n):
        waiting[node] = count_bits(graph[0], node)
        if waiting[node] == 0:
            order[free] = node
            free += 1
    for placed in range(n):
        log_q -= np.log(free)
        chosen = placed + int(rng.random() * free)
        node = order[chosen]
        order[chosen] = order[placed]
        order[placed] = node
        free -= 1
        for w in range(graph[1].shape[1]):
            word = graph[1][node, w]
            while word != np.uint64(0):
                child = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                waiting[child] -= 1
                if waiting[child] == 0:
                    free += 1
                    order[placed + free] = child
    return log_q


@hot
def _log_probability(graph: WorkingGraph, order: Ints, waiting: Ints) -> float:
    """Log of the probability that `_draw_order` draws this order of the graph."""
    n = order.size
    log_q = 0.0
    free = 0
    for node in range(n):
        waiting[node] = count_bits(graph[0], node)
        free += waiting[node] == 0
    for placed in range(n):
        log_q -= np.log(free)
        free -= 1
        node = order[placed]
        for w in range(graph[1].shape[1]):
            word = graph[1][node, w]
            while word != np.uint64(0):
                child = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                waiting[child] -= 1
                free += waiting[child] == 0
    return log_q


@hot
def _forbid_from(avoid: Words, order: Ints, first: int) -> None:
    """Fill ``avoid`` with the nodes at place ``first`` and later."""
    avoid[:] = np.uint64(0)
    for place in range(first, order.size):
        avoid[order[place] >> 6] |= np.uint64(1) << np.uint64(order[place] & 63)


@hot
def _shift(order: Ints, here: int, there: int) -> None:
    """Move the node at one place to another; those between make room."""
    node = order[here]
    step = 1 if there > here else -1
    for place in range(here, there, step):
        order[place] = order[place + step]
    order[there] = node


@hot
def _distance(n: int, u: float) -> int:
    """How far to move: log-uniform from 1 to n - 1, so that near and far places have their turns."""
    return min(n - 1, int(np.exp(u * np.log(float(n)))))


@hot
def order_shift_step(
    graph: WorkingGraph,
    local: Floats,
    n_edges: int,
    cache: CacheArrays,
    scoring: Scoring,
    table: ParentSets,
    rng: np.random.Generator,
) -> int:
    """One step of a graph of ``n_edges`` edges; returns their number if it changed, else -1.  Closures are not kept."""
    n = local.size
    order, waiting, drawn, before = table.order[0], table.order[1], table.order[2], table.order[3]
    avoid = table.reached[0]
    here = int(rng.random() * n)
    distance = _distance(n, rng.random())
    there = here + distance if rng.random() < 0.5 else here - distance
    if there < 0 or there >= n:
        return -1
    log_ratio = -_draw_order(graph, order, waiting, rng)
    low, high = min(here, there), max(here, there)
    _forbid_from(avoid, order, low)
    for place in range(low, high + 1):
        node = order[place]
        if table.where[node] < 0:
            return -1
        _, begin, total, rest = draw_set(table, node, avoid, -1, 0.0, _ROUNDING)
        log_ratio -= log_bounds(table, node, begin, total, rest)[0]
        avoid[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))
    _shift(order, here, there)
    _forbid_from(avoid, order, low)
    for place in range(low, high + 1):
        node = order[place]
        drawn[node], begin, total, rest = draw_set(table, node, avoid, -1, rng.random(), _ROUNDING)
        if drawn[node] < 0:
            return -1
        log_ratio += log_bounds(table, node, begin, total, rest)[0]
        avoid[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))
    n_after = n_edges
    for place in range(low, high + 1):
        node = order[place]
        before[node] = table.where[node]
        n_after += count_bits(table.sets, drawn[node]) - count_bits(graph[0], node)
        replace_parents(graph, node, table.sets[drawn[node]])
    if accepts(rng, log_ratio + _log_probability(graph, order, waiting)):
        moved = False
        for place in range(low, high + 1):
            node = order[place]
            table.where[node] = drawn[node]
            if drawn[node] != before[node]:
                moved = True
                local[node] = family_log_score(node, graph[0][node], cache, scoring)
        return int(n_after) if moved else -1
    for place in range(low, high + 1):
        replace_parents(graph, order[place], table.sets[before[order[place]]])
    return -1


_USUAL_SHARE = {"order_shift": 0.03, "joint_parents": 0.05}


@dataclass(frozen=True)
class Auto(Steady):
    """doxa's own choice: single-edge moves, parent-set Gibbs, reversals, shifts, joint moves; see the module's notes.

    Parameters
    ----------
    single_edge : float, default=0.15
        Share of single-edge moves, above 0: they alone reach every graph.
    edge_reversal : float, default=0.69
        Share of edge reversals.
    order_shift : float, optional
        Share of shifts in an order, which take some ten times as long as the others; 0.03 when left out, or less where
        the first two leave less.
    joint_parents : float, optional
        Share of joint redrawings of four nodes or, one in four, of six, which take as long as fifteen others or
        seventy, and cross what nothing else does; 0.05 when left out, likewise.  The rest are parent-set Gibbs moves.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a share is no number from 0 to 1, all together exceed 1, or ``single_edge`` is 0.
    """

    single_edge: float = 0.15
    edge_reversal: float = 0.69
    order_shift: float = None  # type: ignore[assignment]  # filled in below: it needs the others
    joint_parents: float = None  # type: ignore[assignment]  # likewise

    name: ClassVar[str] = "auto"
    is_reversible: ClassVar[bool] = True
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("order_shift", "joint_parents"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self._usual_share(name))
        for name in ("single_edge", "edge_reversal", "order_shift", "joint_parents"):
            value: float = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ArgumentTypeError(f"{name} is {value!r}; it must be a number from 0 to 1")
            if not 0.0 <= value <= 1.0 or (value == 0 and name == "single_edge"):
                above = ", above 0" if name == "single_edge" else ""
                raise ArgumentError(f"{name} is {value!r}; it is a share from 0 to 1{above}")
            object.__setattr__(self, name, float(value))
        if sum(self.shares) > 1.0:
            raise ArgumentError(
                f"single_edge, edge_reversal, order_shift and joint_parents are {', '.join(map(repr, self.shares))}; "
                "they are shares, of at most 1 together"
            )

    def _usual_share(self, name: str) -> float:
        """Of shifts, or of joint redrawings; 0 where the other shares are none, and refused, or leave nothing."""
        taken = [share for share in (self.single_edge, self.edge_reversal) if isinstance(share, numbers.Real)]
        left = max(0.0, 1.0 - float(sum(taken)))
        return _USUAL_SHARE[name] * min(1.0, left / sum(_USUAL_SHARE.values()))

    @property
    def shares(self) -> tuple[float, float, float, float]:
        """Shares of single-edge moves, edge reversals, shifts and joint redrawings."""
        return self.single_edge, self.edge_reversal, self.order_shift, self.joint_parents

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        advance = settled(advance_auto, work.scoring.address)
        done = advance(work, self.shares, log_proposals(len(work.local)), first, n_steps, rng)
        settled(rebuild)(work.graph)
        return done


@hot
def _candidate(children: Words, n_edges: int, u: float, rng: np.random.Generator) -> tuple[int, int]:
    """A candidate (i, j) as `doxa.structure.moves.single_edge` draws it, ``u`` choosing between edges and absent
    edges.
    """
    n = children.shape[0]
    if 2 * n_edges == n * (n - 1) or (u < PRESENT and n_edges > 0):
        index = int(rng.random() * (2 * n_edges))
        i, j = edge_number(children, index >> 1)
        return (j, i) if index & 1 else (i, j)
    while True:
        index = int(rng.random() * (n * (n - 1)))
        i = index // (n - 1)
        j = index - i * (n - 1)
        if j >= i:
            j += 1
        if not has_bit(children, i, j) and not has_bit(children, j, i):
            return i, j


@inlined
def _kind(graph: WorkingGraph, limits: Limits, i: int, j: int, below: Words) -> int:
    """What `candidate_kind` says, by walking from j instead of looking at a closure."""
    parents, children = graph[0], graph[1]
    if has_bit(children, i, j):
        return ILLEGAL if has_bit(limits.required, j, i) else DELETE
    if not may_add(limits, parents, j, i):
        return ILLEGAL
    kind = ADD
    if has_bit(children, j, i):
        if has_bit(limits.required, i, j):
            return ILLEGAL
        kind = REVERSE
        toggle_bit(children, j, i)
    reach(children, j, j, j, below)
    if kind == REVERSE:
        toggle_bit(children, j, i)
    return ILLEGAL if is_in(below, i) else kind


@hot
def _single_edge_step(work: Work, log_q: Floats, n_edges: int, rng: np.random.Generator) -> int:
    """One single-edge move; returns the change of the number of edges, or -2 if nothing was accepted."""
    graph, local, table, proposed = work.graph, work.local, work.table, work.proposed
    i, j = _candidate(graph[1], n_edges, rng.random(), rng)
    kind = _kind(graph, work.limits, i, j, work.spare[1])
    if kind == ILLEGAL:
        return -2
    log_ratio = work.beta * score_change(graph, local, kind, i, j, work.cache, work.scoring, proposed)
    if not accepts(rng, log_ratio + log_hastings(log_q, kind, n_edges)):
        return -2
    toggle_bit(graph[0], j, i)
    toggle_bit(graph[1], i, j)
    local[j] = proposed[0]
    table.where[j] = find_set(table, j, graph[0][j])
    if kind == REVERSE:
        toggle_bit(graph[0], i, j)
        toggle_bit(graph[1], j, i)
        local[i] = proposed[1]
        table.where[i] = find_set(table, i, graph[0][i])
        return 0
    return 1 if kind == ADD else -1


@hot
def auto_step(
    work: Work, shares: tuple[float, float, float, float], log_q: Floats, n_edges: int, rng: np.random.Generator
) -> int:
    """One step on parents, children and ``table.where`` alone; returns the number of edges, or -1 if nothing moved."""
    graph, local, cache, scoring, table = work.graph, work.local, work.cache, work.scoring, work.table
    u = rng.random()
    if u < shares[0]:
        change = _single_edge_step(work, log_q, n_edges, rng)
        return n_edges + change if change > -2 else -1
    if u < shares[0] + shares[1]:
        return int(edge_reversal_step(graph, local, n_edges, cache, scoring, table, rng))
    if u < shares[0] + shares[1] + shares[2]:
        return int(order_shift_step(graph, local, n_edges, cache, scoring, table, rng))
    if u < shares[0] + shares[1] + shares[2] + shares[3]:
        more = joint_parents_step(graph, local, cache, scoring, table, rng)
        return n_edges + more if more >= -n_edges else -1
    node = int(rng.random() * local.size)
    before = count_bits(graph[0], node)
    if parent_set_step(graph, local, node, cache, scoring, table, rng):
        return n_edges + count_bits(graph[0], node) - before
    return -1


@compact
def advance_auto(
    work: Work,
    shares: tuple[float, float, float, float],
    log_q: Floats,
    first: int,
    n_steps: int,
    rng: np.random.Generator,
) -> int:
    """Steps of `Auto`; returns the step that comes next.  Closures are not kept.

    With ``work.thin`` of 0 or -1 they are part of another loop's: no draws are kept, ``table.where`` is right at first,
    and only it, parents and children are kept right; with 0, the first step that changes them is the last.
    """
    graph, local, cache, table = work.graph, work.local, work.cache, work.table
    n = local.size
    n_edges = 0
    for node in range(n):
        if work.thin > 0:
            table.where[node] = find_set(table, node, graph[0][node])
        n_edges += count_bits(graph[0], node)
    for step in range(first, n_steps):
        if cache_is_full(cache):
            return step
        after = auto_step(work, shares, log_q, n_edges, rng)
        work.info[0] += 1
        if after >= 0:
            n_edges = after
            work.info[1] += 1
            if work.thin == 0:
                return step + 1
        if work.thin > 0:
            keep(work, step)
    return n_steps


@branching
def advance_edges(
    work: Work,
    shares: tuple[float, float, float, float],  # noqa: ARG001
    log_q: Floats,
    first: int,
    n_steps: int,
    rng: np.random.Generator,
) -> int:
    """Steps of `SingleEdge` as a part of another loop, for which `advance_auto` has those of `Auto`: the same draws as
    its own, without closures; returns the step that comes next.
    """
    n_edges = 0
    for node in range(work.local.size):
        n_edges += count_bits(work.graph[0], node)
    for _ in range(first, n_steps):
        change = _single_edge_step(work, log_q, n_edges, rng)
        n_edges += change if change > -2 else 0
    return n_steps
