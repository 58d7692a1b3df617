"""One chain's work space for the sampler with logistic families: a completion, a graph, and their sweeps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.structure.cases.incomplete.logistic_cells import cell_work, sweep_columns
from doxa.structure.cases.incomplete.missing_cells import completion_of
from doxa.structure.families.cache import ScoreCache, local_weights
from doxa.structure.families.counting import counting_scratch
from doxa.structure.families.family_weights import score_families
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.parent_sets import no_parent_sets
from doxa.structure.moves.sampler import StructureMove, StructureSampler, Work
from doxa.structure.moves.single_edge import SingleEdge

__all__ = ["LogisticTurns"]

_MOST_BYTES = 2**26  # of scores that a part of a turn keeps
_SCALE = 2.0  # of the prior of the cells' fits, where the score has none of its own


class LogisticTurns:
    """See the module's notes.

    Parameters
    ----------
    data : LogisticIncompleteData
    limits : Limits
    move : StructureMove
        Reversible.
    joint proposal : int
        Its steps on stale scores between two decisions.
    rows : ndarray of uint64, shape (n_nodes, n_words)
        Adjacency rows of the graph.
    cells : ndarray of int, shape (n_missing,)
        The completion.
    """

    def __init__(
        self,
        data: Any,
        limits: Limits,
        move: StructureMove,
        joint_proposal: int,
        rows: NDArray[np.uint64],
        cells: NDArray[np.integer[Any]],
    ) -> None:
        self.data, self.limits, self.move, self.joint_proposal, self.rows = data, limits, move, joint_proposal, rows
        self.completion = completion_of(data.missing_cells, cells)
        self.scoring, self._box = data.boxed(self.completion, counting_scratch(data.missing_cells.base.shape[1]))
        self.work = cell_work(data.missing_cells)
        self.stale = data.reference(limits)
        self.stale_score = self._stale_score()
        self.parents = working_graph(rows)[0]
        self.local = np.zeros(data.n_nodes)
        self.graphs_done = np.zeros(2, dtype=np.int64)  # joint proposals: elsewhere, accepted
        self.steps_done = np.zeros(2, dtype=np.int64)  # single edges by scores of today: proposed, accepted
        self.blocks_done = np.zeros(2, dtype=np.int64)  # offers of cells: others than stood, accepted
        self._score(range(data.n_nodes), self.parents, self.local)

    @property
    def cells(self) -> NDArray[np.int16]:
        """The completion, in the order of the missing cells."""
        missing_cells = self.data.missing_cells
        found: NDArray[np.int16] = self.completion.rows[missing_cells.row, missing_cells.column]
        return found

    def redraw_cells(self, block: int, rng: np.random.Generator) -> None:
        """Offer every missing cell a new value."""
        scale = float(getattr(self.data.score, "prior_scale", _SCALE))
        sweep_columns(
            self.parents, self.completion, self.scoring, scale, self.work, self.local, block, self.blocks_done, rng
        )

    def move_graph(self, steps: int, rng: np.random.Generator) -> None:
        """So many steps of the move, in joint proposals."""
        left = steps
        while left > 0:
            size = min(self.joint_proposal, left)
            left -= size
            sampler = StructureSampler(self.move, self.stale, self.limits, size)
            after, draws, _ = sampler.run(sampler.start_at(self.rows), size, rng)
            parents = working_graph(after.rows)[0]
            changed = np.flatnonzero((parents != self.parents).any(axis=1))
            if not len(changed):
                continue
            self.graphs_done[0] += 1
            fresh = self.local.copy()
            self._score(changed, parents, fresh)
            stale_score = float(draws["log_score"][0])
            if accepts(rng, self.log_ratio(fresh, changed, stale_score)):
                self.graphs_done[1] += 1
                self.rows, self.parents, self.local, self.stale_score = after.rows, parents, fresh, stale_score

    def move_afresh(self, steps: int, rng: np.random.Generator) -> None:
        """So many single-edge moves by the scores of the completion at hand."""
        words = self.rows.shape[1]
        graph, cache, done = working_graph(self.rows), ScoreCache(len(self.local), _MOST_BYTES), 0
        nothing = (np.zeros((0, *self.rows.shape), dtype=np.uint64), np.zeros(0), np.zeros(0, dtype=np.int32))
        spare = (np.zeros_like(self.rows), np.zeros(words, dtype=np.uint64))
        while True:
            work = Work(
                graph, self.local, 1.0, self.limits, spare[1], np.zeros(1, dtype=np.int64), 0, cache.arrays,
                self.scoring, no_parent_sets(len(self.local), words), nothing, steps + 1, self.steps_done, np.empty(2),
                spare,
            )  # fmt: skip
            done = SingleEdge().advance(work, done, steps, rng)
            if done == steps:
                break
            cache.grow()
        self.rows, self.parents = graph[1], graph[0]
        self.stale_score = self._stale_score()

    def _stale_score(self) -> float:
        """Of the graph at hand, added up in the order in which samplers do."""
        return sum(local_weights(self.stale, self.rows[None])[0].tolist(), 0.0)

    def log_ratio(self, fresh: NDArray[np.float64], changed: NDArray[np.intp], stale_score: float) -> float:
        """By what an joint proposal to these scores is accepted: the change of now less stale."""
        return float((fresh[changed] - self.local[changed]).sum()) - (stale_score - self.stale_score)

    def _score(self, nodes: Any, parents: NDArray[np.uint64], scores: NDArray[np.float64]) -> None:
        """Scores of these nodes' families on the completion at hand."""
        for node in nodes:
            score_families(int(node), parents[node : node + 1], self.scoring, scores[node : node + 1])
