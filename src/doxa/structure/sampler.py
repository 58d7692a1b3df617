"""`StructureSampler`: a move, the scores it looks up and the limits it obeys, as the driver runs them.

A *move* is a frozen dataclass of settings with a ``name``, a ``bias`` (None unless its answers are known to be wrong),
``cycle_length(n_nodes)`` and ``advance(work, first, n_steps, rng)``, a compiled loop that works in place.  All else
that a chain needs is here, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa.models.bits import n_words, pack_rows
from doxa.structure.cache import FamilyScores
from doxa.structure.changes import local_scores
from doxa.structure.graph import WorkingGraph, working_graph

__all__ = ["StructureMove", "StructureSampler", "StructureState", "Work", "random_dag"]


class StructureMove(Protocol):
    """What a move offers; see the module docstring."""

    @property
    def name(self) -> str:
        """The word that selects the move: ``sampler="..."``."""

    @property
    def bias(self) -> str | None:
        """What is known to be wrong with its answers; None when nothing is."""

    def cycle_length(self, n_nodes: int) -> int:
        """Steps after which the kernel repeats itself."""

    def advance(self, work: Work, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return the step at which the cache should grow, or n_steps."""


class Work(NamedTuple):
    """What a compiled loop works on, in the order in which every loop takes it."""

    graph: WorkingGraph
    local: NDArray[np.float64]  # (n_nodes,): score of every node's family
    max_parents: NDArray[np.int64]  # (n_nodes,)
    block: NDArray[np.uint64]  # (n_words,): see StructureState
    position: int
    cache: tuple[NDArray[Any], ...]
    scoring: tuple[Any, ...]
    draws: tuple[NDArray[Any], ...]  # rows, log_score, n_edges
    thin: int
    info: NDArray[np.int64]  # (2,): proposed, accepted
    proposed: NDArray[np.float64]  # (2,): scores of the families that a candidate changes
    spare: tuple[NDArray[np.uint64], NDArray[np.uint64]]  # work space: (n_nodes, n_words) and (n_words,)


class StructureState(NamedTuple):
    """Where a structure chain stands: all that the next step needs."""

    rows: NDArray[np.uint64]  # adjacency rows as bit sets, (n_nodes, n_words)
    position: int  # steps done since the kernel's cycle began
    block: NDArray[np.uint64]  # (n_words,): the block of the visit under way, for moves that keep one


@dataclass(frozen=True)
class StructureSampler:
    """A structure move bound to its data: the sampler that the driver runs.

    Parameters
    ----------
    move : StructureMove
    scores : FamilyScores
    max_parents : ndarray of int64, shape (n_nodes,)
        Largest number of parents of each node.
    thin : int
        Steps between kept draws.
    """

    move: StructureMove
    scores: FamilyScores
    max_parents: NDArray[np.int64]
    thin: int

    def init(self, rng: np.random.Generator) -> StructureState:
        """An over-dispersed start: a random graph of random density, the empty one among them."""
        rows = pack_rows(random_dag(rng, self.max_parents))
        return StructureState(rows, 0, np.zeros(n_words(len(rows)), dtype=np.uint64))

    def run(
        self, state: StructureState, n_steps: int, rng: np.random.Generator
    ) -> tuple[StructureState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` steps and keep every ``thin``-th graph.

        Returns
        -------
        state : StructureState
        draws : dict
            ``rows`` uint64 (n_kept, n_nodes, n_words), ``log_score`` float64 (n_kept,) in nats, ``n_edges`` int32.
        info : dict
            ``proposed`` and ``accepted`` steps.
        """
        n, words = state.rows.shape
        kept = n_steps // self.thin
        draws = (
            np.empty((kept, n, words), dtype=np.uint64),
            np.empty(kept, dtype=np.float64),
            np.empty(kept, dtype=np.int32),
        )
        graph = working_graph(state.rows)
        local = np.empty(n)
        block = state.block.copy()
        info = np.zeros(2, dtype=np.int64)
        spare = (np.zeros_like(graph[0]), np.zeros_like(block))
        with self.scores.borrow() as (cache, scoring):
            local_scores(graph, cache.arrays, scoring, local)
            done = 0
            while True:
                work = Work(
                    graph,
                    local,
                    self.max_parents,
                    block,
                    state.position,
                    cache.arrays,
                    scoring,
                    draws,
                    self.thin,
                    info,
                    np.empty(2),
                    spare,
                )
                done = self.move.advance(work, done, n_steps, rng)
                if done == n_steps:
                    break
                cache.grow()
        position = (state.position + n_steps) % self.move.cycle_length(n)
        return (
            StructureState(graph[1], position, block),
            dict(zip(("rows", "log_score", "n_edges"), draws, strict=True)),
            {"proposed": int(info[0]), "accepted": int(info[1])},
        )


def random_dag(rng: np.random.Generator, max_parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """A random graph for a start: uniform order, and a density that is itself random, up to two parents a node.

    Returns
    -------
    ndarray of bool, shape (n_nodes, n_nodes)
        Adjacency matrix; every in-degree is within ``max_parents``.
    """
    n = len(max_parents)
    order = rng.permutation(n)
    density = min(1.0, 2.0 * rng.random() * 2.0 / max(1, n - 1))
    adjacency = np.zeros((n, n), dtype=np.bool_)
    for place, node in enumerate(order):
        before = rng.permutation(order[:place])
        chosen = before[rng.random(place) < density]
        adjacency[chosen[: max_parents[node]], node] = True
    return adjacency
