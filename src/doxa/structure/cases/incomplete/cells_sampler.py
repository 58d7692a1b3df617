"""`CellsSampler`: where chains over graphs and missing cells start, and what they keep.

How a turn moves them is for its subclasses: `doxa.structure.cases.incomplete.sampler` for tables of probabilities,
`doxa.structure.cases.incomplete.logistic_sampler` for families that may be logistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models.bits import n_words, pack_rows
from doxa.structure.cases.incomplete.data import IncompleteData
from doxa.structure.cases.incomplete.references import observed_cells
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import planted_in_half
from doxa.structure.moves.starts import dense_dag, greedy_graph, random_dag, smallest_graph

__all__ = ["CellsSampler", "IncompleteState", "keep_draw", "no_draws"]

Draws = dict[str, NDArray[Any]]


class IncompleteState(NamedTuple):
    """Where a chain stands: all that the next step needs."""

    rows: NDArray[np.uint64]  # adjacency rows as bit sets, (n_nodes, n_words)
    cells: NDArray[np.int16]  # (n_missing,): values of the missing cells, in the order of `MissingCells`
    position: int  # as in `doxa.structure.moves.sampler.StructureState`, for the move
    block: NDArray[np.uint64]
    memory: NDArray[np.int64]


class CellsSampler:
    """Chains over graphs and missing cells: their starts, and the length of a turn."""

    data: IncompleteData
    limits: Limits
    steps: int
    turns: int

    @property
    def thin(self) -> int:
        """Structure steps between kept draws."""
        return self.steps * self.turns

    def start(self, chain: int, rng: np.random.Generator) -> IncompleteState:
        """Starts far apart: the smallest graph, a greedy one, a dense one, with likely values in the missing cells, and
        random ones with any.
        """
        if chain > 2:
            return self.init(rng)
        cells = observed_cells(self.data.missing_cells, rng)
        if chain == 0:
            return self.start_at(smallest_graph(self.limits), cells)
        if chain == 1:
            return self.start_at(greedy_graph(self.climbed(cells), self.limits), cells)
        return self.start_at(pack_rows(dense_dag(rng, self.limits)), cells)

    def planted(self, states: Sequence[IncompleteState], rows: NDArray[np.uint64], chain: int) -> list[IncompleteState]:
        """States in which half of the chains stand at a graph found on one chain's completion, and at that."""
        return planted_in_half(states, rows=rows, cells=states[chain].cells)

    def climbed(self, cells: NDArray[np.int16]) -> FamilyScores:
        """The scores on which the greedy start ascents: those of its completion."""
        return self.data.completed(cells)

    def init(self, rng: np.random.Generator) -> IncompleteState:
        """An over-dispersed start: a random graph, and any values in the missing cells."""
        missing_cells = self.data.missing_cells
        cells = (rng.random(missing_cells.n_missing) * missing_cells.n_states[missing_cells.column]).astype(np.int16)
        return self.start_at(pack_rows(random_dag(rng, self.limits)), cells)

    def start_at(self, rows: NDArray[np.uint64], cells: NDArray[np.int16]) -> IncompleteState:
        """The state of a chain that starts at a graph, given by its adjacency rows, and a completion."""
        words = n_words(len(rows))
        return IncompleteState(rows, cells, 0, np.zeros(words, dtype=np.uint64), np.zeros(1, dtype=np.int64))


def no_draws(kept: int, state: IncompleteState, dtype: type[np.signedinteger[Any]]) -> Draws:
    """Room for ``kept`` draws, the cells of which have the given type."""
    return {
        "rows": np.empty((kept, *state.rows.shape), dtype=np.uint64),
        "log_score": np.empty(kept),
        "n_edges": np.empty(kept, dtype=np.int32),
        "cells": np.empty((kept, len(state.cells)), dtype=dtype),
    }


def keep_draw(
    draws: Draws, place: int, rows: NDArray[np.uint64], local: NDArray[np.float64], cells: NDArray[np.integer[Any]]
) -> None:
    """Write down a graph, the scores of its families, and a completion."""
    draws["rows"][place] = rows
    draws["log_score"][place] = local.sum()
    draws["n_edges"][place] = np.bitwise_count(rows).sum()
    draws["cells"][place] = cells
