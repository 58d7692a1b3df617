"""`SweepingChain`: one chain's work space, as samplers with missing cells run it sweep by sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.structure.cases.incomplete.graph_moves import GraphDraws
from doxa.structure.cases.incomplete.missing_cells import IncompleteData, completion_of, put_cells, read_cells
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import StructureMove, StructureState

__all__ = ["Run", "SweepingChain", "named_counts"]

Run = tuple[StructureState, dict[str, NDArray[Any]], dict[str, int]]  # state, draws, counts


class SweepingChain:
    """One chain's work space: a completion, a graph, and what a sweep does with them.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
    move : StructureMove
    state : StructureState
        Where the chain stands.
    beta : float
        Inverse temperature.
    """

    local: NDArray[np.float64]  # (n_nodes,): scores of the graph's families

    def __init__(
        self, data: IncompleteData, limits: Limits, move: StructureMove, state: StructureState, beta: float
    ) -> None:
        self.data, self.limits, self.move, self.beta = data, limits, move, float(beta)
        self.graph = working_graph(state.rows)
        self.completion = completion_of(data.missing_cells, state.cells)
        self.scoring, self.scorer = data.scoring(self.completion)
        self.is_scored = False  # whether the lists are weighed on the completion that stands

    def stand_at(self, state: StructureState) -> None:
        """Go on from another state, with all counts at 0, as a new chain does: what is made anew is the graph."""
        self.graph, self.is_scored = working_graph(state.rows), False
        put_cells(self.completion, self.data.missing_cells, state.cells)

    @property
    def rows(self) -> NDArray[np.uint64]:
        """Adjacency rows of the graph."""
        return self.graph[1]

    @property
    def cells(self) -> NDArray[Any]:
        """The completion, in the order of the missing cells."""
        return read_cells(self.completion, self.data.missing_cells)

    def begin_sweep(self, rng: np.random.Generator) -> None:
        """All that comes before a sweep's structure steps."""
        raise NotImplementedError

    def move_graph(self, steps: int, rng: np.random.Generator, draws: GraphDraws | None = None) -> None:
        """So many structure steps on the completion that stands, at the beginning of a sweep or within one."""
        raise NotImplementedError

    def end_sweep(self, rng: np.random.Generator) -> bool:  # noqa: ARG002
        """All that comes after them, and whether there is any: nothing, unless a chain says otherwise."""
        return False

    def state(self) -> StructureState:
        """Where the chain stands, but for its place in the sweep."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """What was proposed and accepted."""
        raise NotImplementedError


def named_counts(done: dict[str, NDArray[np.int64]]) -> dict[str, int]:
    """Pairs of counts by the names that runs have them by: ``..proposed`` and ``..accepted``."""
    words = ("proposed", "accepted")
    return {what + word: int(n) for what, counts in done.items() for word, n in zip(words, counts, strict=True)}
