"""`GraphMoves`: the steps of a structure move in a sweep, on scores of the very completion that stands.

Listed families are scored at the beginning (`doxa.structure.cases.incomplete.candidate_sets`), others when a move asks
for them; both are forgotten when cells change.  Families of tables and of Gaussian regressions are scored quickly
enough for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists, arrange, fill_cache, list_layout, weigh_lists
from doxa.structure.cases.incomplete.missing_cells import Completion
from doxa.structure.families.cache import ScoreCache, Scoring, local_scores
from doxa.structure.graph import WorkingGraph
from doxa.structure.limits import Limits
from doxa.structure.moves.parent_sets import no_parent_sets
from doxa.structure.moves.sampler import StructureMove, StructureState, no_draws, run_steps, work_without_draws

__all__ = ["CACHE_BYTES", "GraphDraws", "GraphMoves", "standing_still"]


class GraphDraws(NamedTuple):
    """Where the graphs are written down that stand after every ``thin`` steps."""

    thin: int
    rows: NDArray[np.uint64]  # (n_kept, n_nodes, n_words)
    log_score: NDArray[np.float64]  # (n_kept,)
    n_edges: NDArray[np.int32]  # (n_kept,)

    def keep(self, rows: NDArray[np.uint64], local: NDArray[np.float64], first: int, end: int | None) -> None:
        """Write down one graph, with the scores of its families, for all draws from ``first`` to ``end``."""
        self.rows[first:end] = rows
        self.log_score[first:end] = local.sum()
        self.n_edges[first:end] = np.bitwise_count(rows).sum()


CACHE_BYTES = 512 * 2**20


class GraphMoves:
    """One chain's work space; see the module's notes.

    Parameters
    ----------
    limits : Limits
    move : StructureMove
    lists : FamilyLists or None
        For moves that draw from lists.
    state : StructureState
        Where the chain stands: its position, block and memory of the move.
    beta : float, default=1.0
        Inverse temperature.
    """

    def __init__(
        self, limits: Limits, move: StructureMove, lists: FamilyLists | None, state: StructureState, beta: float = 1.0
    ) -> None:
        n, words = state.rows.shape
        self.limits, self.move, self.lists, self.beta = limits, move, lists, beta
        self.stands = limits.one_graph
        self.cache = ScoreCache(n, CACHE_BYTES)
        self.done = np.zeros(2, dtype=np.int64)  # steps: proposed, accepted
        self.stand_at(state)
        self._words = np.zeros(words, dtype=np.uint64)  # work space
        self._order: NDArray[np.int64] | None = None  # of the lists, by weight, at the last completion
        self.layout = no_parent_sets(n, words) if lists is None else list_layout(lists)
        self.weight = np.zeros(0 if lists is None else lists.n_sets)
        if lists is not None:
            self.cache.make_room(int(np.diff(lists.first).max(initial=0)))

    def stand_at(self, state: StructureState) -> None:
        """Go on from another state, with counts at 0."""
        self.position = state.position % self.move.cycle_length(len(state.rows))
        self.block, self.memory = state.block.copy(), state.memory.copy()
        self.done[:] = 0

    def score_afresh(
        self, graph: WorkingGraph, completion: Completion, scoring: Scoring, local: NDArray[np.float64]
    ) -> None:
        """Forget the scores of older completions; weigh the lists, and score the graph's families, into ``local``."""
        self.cache.forget()
        if self.lists is not None:
            settled(weigh_lists, scoring.address)(completion, scoring, self.lists, self._words, self.weight)
            self._order = arrange(self.layout, self.lists, self.beta * self.weight, self._order)
            settled(fill_cache)(self.lists, self.weight, self._words, self.cache.arrays)
        settled(local_scores, scoring.address)(graph[0], self.cache.arrays, scoring, local)

    def run(
        self,
        graph: WorkingGraph,
        local: NDArray[np.float64],
        scoring: Scoring,
        steps: int,
        rng: np.random.Generator,
        draws: GraphDraws | None = None,
    ) -> None:
        """So many steps, in place, unless only one graph is possible; `score_afresh` comes before."""
        if draws is None:
            draws = GraphDraws(steps + 1, *no_draws(*graph[1].shape))
        if self.stands:
            draws.keep(graph[1], local, 0, None)
            return
        work = work_without_draws(graph, local, self.beta, self.limits, self.cache.arrays, scoring, self.layout)
        work = work._replace(
            block=self.block, memory=self.memory, position=self.position, draws=draws[1:], thin=draws.thin,
            info=self.done,
        )  # fmt: skip
        run_steps(self.move, work, steps, self.cache, rng)
        self.position = (self.position + steps) % self.move.cycle_length(len(local))

    def state(self, rows: NDArray[np.uint64], cells: NDArray[Any]) -> StructureState:
        """All that the next step needs, of a chain whose cycle is the move's own."""
        return StructureState(rows, self.position, self.block, self.memory, cells)


@contextmanager
def standing_still(scorer: Any) -> Iterator[None]:
    """While the completion does not change: scorers that can are told, to keep what serves many families."""
    stand = getattr(scorer, "stand_still", None)
    if stand is not None:
        stand(True)
    try:
        yield
    finally:
        if stand is not None:
            stand(False)
