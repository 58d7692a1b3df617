r"""`ParentSetGibbs`: redraw a node's whole parent set from its conditional (Goudie & Mukherjee 2016).

A step takes a node at random and draws its parents anew, given all other families,

.. math:: P(pa(j) = S \mid \text{rest}, D) \propto \exp s_j(S), \quad S \cap \text{descendants}(j) = \emptyset,

among the sets of a list.  The list need not be complete: redrawing a family *given that it is one of the list* keeps
the posterior whatever the list, and a family outside it is left alone.  Single-edge moves reach all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined
from doxa.arrays import Floats
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import WorkingGraph, has_bit, reach, rebuild, replace_parents, working_graph
from doxa.structure.moves.changes import cache_is_full, keep
from doxa.structure.moves.parent_sets import ParentSets, draw_set, find_set, log_sum_of_sets
from doxa.structure.moves.sampler import Work
from doxa.testing import Proposal

__all__ = ["ParentSetGibbs", "parent_set_step"]


@dataclass(frozen=True)
class ParentSetGibbs:
    """Gibbs sampling of whole parent sets; see the module's notes.

    Alone it does not reach families that its lists leave out: combine it with single-edge moves, as ``"auto"`` does.
    """

    name: ClassVar[str] = "parent_set_gibbs"
    bias: ClassVar[str | None] = None
    uses_table: ClassVar[bool] = True

    def cycle_length(self, n_nodes: int) -> int:  # noqa: ARG002
        """Steps after which the kernel repeats itself: it is the same at every step."""
        return 1

    def advance(self, work: Any, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return early, at that step, when the cache should grow."""
        return int(_advance(work, first, n_steps, rng))

    def proposals(self, rows: NDArray[np.uint64], table: ParentSets) -> Iterator[Proposal[NDArray[np.uint64]]]:
        """Every graph that one step can lead to, with its probability and the log ratio of the way back."""
        graph = working_graph(rows)
        n = len(rows)
        for node in range(n):
            now = find_set(table, node, graph[0][node])
            if now < 0:
                continue
            total = log_sum_of_sets(table, node, graph[3][node], -1)
            for number in range(table.first[node], table.first[node + 1]):
                if any(has_bit(graph[3], node, int(parent)) for parent in _members(table.sets[number])):
                    continue
                after = working_graph(rows)
                replace_parents(after, node, table.sets[number])
                probability = float(np.exp(table.weight[number] - total)) / n
                yield Proposal(after[1], probability, float(table.weight[now] - table.weight[number]))


def _members(words: NDArray[np.uint64]) -> list[int]:
    return [64 * w + b for w, word in enumerate(words.tolist()) for b in range(64) if word >> b & 1]


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


@hot
def _advance(work: Work, first: int, n_steps: int, rng: np.random.Generator) -> int:
    graph, local, cache, scoring, table = work.graph, work.local, work.cache, work.scoring, work.table
    n = local.size
    for node in range(n):
        table.where[node] = find_set(table, node, graph[0][node])
    for step in range(first, n_steps):
        if cache_is_full(cache):
            rebuild(graph)
            return step
        work.info[1] += parent_set_step(graph, local, int(rng.random() * n), cache, scoring, table, rng)
        work.info[0] += 1
        keep(work, step)
    rebuild(graph)
    return n_steps
