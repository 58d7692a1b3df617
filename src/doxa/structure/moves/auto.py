r"""`Auto`: the default sampler, five moves mixed at every step.

Each step is a single-edge move, an edge reversal, a shift in an order, a joint redrawing of the parents of four nodes
or a parent-set Gibbs move, at fixed probabilities whatever the graph.
Each move keeps the posterior, so the mixture does.  Single-edge moves reach every graph, turn edges round within an
equivalence class, and are the only ones that see families outside the lists; reversals and whole parent sets cross
the valleys between modes that stop single-edge moves for ever, and shifts in an order those between graphs that differ
in many nodes.  The modules of the moves describe them.

Here no closure of the graph is kept: whether an edge would close a cycle is found by walking from one end, which for
sparse graphs costs less than mending closures after moves that change many edges.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from doxa._jit import hot, inlined
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.structure.graph import (
    ADD,
    DELETE,
    ILLEGAL,
    REVERSE,
    count_bits,
    has_bit,
    reach,
    rebuild,
    toggle_bit,
)
from doxa.structure.limits import may_add
from doxa.structure.moves.changes import accepts, cache_is_full, record, score_change
from doxa.structure.moves.edge_reversal import edge_number, edge_reversal_step
from doxa.structure.moves.joint_parents import joint_parents_step
from doxa.structure.moves.order_shift import order_shift_step
from doxa.structure.moves.parent_set_gibbs import parent_set_step
from doxa.structure.moves.parent_sets import find_set
from doxa.structure.moves.single_edge import PRESENT, log_hastings, log_proposals

__all__ = ["Auto", "auto_step"]

_USUAL_SHARE = 0.02


@dataclass(frozen=True)
class Auto:
    """doxa's own choice: single-edge moves, parent-set Gibbs, reversals, shifts, joint moves; see the module's notes.

    Parameters
    ----------
    single_edge : float, default=0.2
        Share of single-edge moves, above 0: they alone reach every graph.
    edge_reversal : float, default=0.3
        Share of edge reversals.
    order_shift : float, optional
        Share of shifts in an order, which take some ten times as long as the others; 0.02 when left out, or less where
        the first two leave less.
    joint_parents : float, optional
        Share of joint redrawings, which take as long; likewise.  The rest are parent-set Gibbs moves.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a share is no number from 0 to 1, all together exceed 1, or ``single_edge`` is 0.
    """

    single_edge: float = 0.2
    edge_reversal: float = 0.3
    order_shift: float = None  # type: ignore[assignment]  # filled in below: it needs the others
    joint_parents: float = None  # type: ignore[assignment]  # likewise

    name: ClassVar[str] = "auto"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("order_shift", "joint_parents"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self._usual_share())
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

    def _usual_share(self) -> float:
        """Of shifts, and of joint redrawings; 0 where the other shares are none, and refused, or leave nothing."""
        taken = [share for share in (self.single_edge, self.edge_reversal) if isinstance(share, numbers.Real)]
        return min(_USUAL_SHARE, max(0.0, (1.0 - float(sum(taken))) / 2.0))

    @property
    def shares(self) -> tuple[float, float, float, float]:
        """Shares of single-edge moves, edge reversals, shifts and joint redrawings."""
        return self.single_edge, self.edge_reversal, self.order_shift, self.joint_parents

    def cycle_length(self, n_nodes: int) -> int:  # noqa: ARG002
        """Steps after which the kernel repeats itself: it is the same at every step."""
        return 1

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        kernel_arguments: tuple[Any, ...] = (*work, self.shares, log_proposals(len(work.local)), first, n_steps, rng)
        return int(_advance(*kernel_arguments))


@hot
def _candidate(children: Any, n_edges: int, u: float, rng: Any) -> tuple[int, int]:
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
def _kind(graph: Any, limits: Any, i: int, j: int, below: Any) -> int:
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
    return ILLEGAL if (below[i >> 6] >> np.uint64(i & 63)) & np.uint64(1) else kind


@hot
def _single_edge_step(
    graph: Any, local: Any, beta: float, limits: Any, cache: Any, scoring: Any, table: Any, proposed: Any, log_q: Any,
    n_edges: int, rng: Any,
) -> int:  # fmt: skip
    """One single-edge move; returns the change of the number of edges, or -2 if nothing was accepted."""
    i, j = _candidate(graph[1], n_edges, rng.random(), rng)
    kind = _kind(graph, limits, i, j, table.reached[0])
    if kind == ILLEGAL:
        return -2
    log_ratio = beta * score_change(graph, local, kind, i, j, cache, scoring, proposed)
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
    graph: Any, local: Any, beta: float, limits: Any, cache: Any, scoring: Any, table: Any, proposed: Any, shares: Any,
    log_q: Any, n_edges: int, rng: np.random.Generator,
) -> int:  # fmt: skip
    """One step on parents, children and ``table.where`` alone; returns the number of edges, or -1 if nothing moved."""
    u = rng.random()
    if u < shares[0]:
        change = _single_edge_step(graph, local, beta, limits, cache, scoring, table, proposed, log_q, n_edges, rng)
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


@hot
def _advance(
    graph: Any,
    local: Any,
    beta: float,
    limits: Any,
    _block: Any,
    _memory: Any,
    _position: int,
    cache: Any,
    scoring: Any,
    table: Any,
    draws: Any,
    thin: int,
    info: Any,
    proposed: Any,
    _spare: Any,
    shares: Any,
    log_q: Any,
    first: int,
    n_steps: int,
    rng: np.random.Generator,
) -> int:
    n = local.size
    n_edges = 0
    for node in range(n):
        table.where[node] = find_set(table, node, graph[0][node])
        n_edges += count_bits(graph[0], node)
    until_kept = thin - first % thin
    kept = first // thin
    for step in range(first, n_steps):
        if cache_is_full(cache):
            rebuild(graph)
            return step
        after = auto_step(graph, local, beta, limits, cache, scoring, table, proposed, shares, log_q, n_edges, rng)
        if after >= 0:
            n_edges = after
            info[1] += 1
        info[0] += 1
        until_kept -= 1
        if until_kept == 0:
            record(graph, local, kept, draws)
            kept += 1
            until_kept = thin
    rebuild(graph)
    return n_steps
