"""`IncompleteSampler`: chains over graphs and missing cells together, as the driver runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.models.bits import n_words, pack_rows
from doxa.structure.incomplete.data import IncompleteData
from doxa.structure.incomplete.excursions import Excursions
from doxa.structure.incomplete.references import observed_cells, shared_lists
from doxa.structure.incomplete.turns import Turns
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.sampler import StructureMove
from doxa.structure.moves.starts import greedy_graph, random_dag, smallest_graph

__all__ = ["IncompleteSampler", "IncompleteState", "usual_steps"]

_STEPS_A_PAIR, _EXCURSIONS_A_NODE, _LEAST_STEPS = 5, 20, 100
_FEW_STEPS = 3000  # they take no longer than the rest of a turn


class IncompleteState(NamedTuple):
    """Where a chain stands: all that the next step needs."""

    rows: NDArray[np.uint64]  # adjacency rows as bit sets, (n_nodes, n_words)
    cells: NDArray[np.int16]  # (n_missing,): values of the missing cells, in the order of `Holes`
    position: int  # as in `doxa.structure.moves.sampler.StructureState`, for the move
    block: NDArray[np.uint64]
    memory: NDArray[np.int64]


def usual_steps(n_nodes: int) -> int:
    """Structure steps in a turn: about as long as redrawing the cells and weighing the lists takes."""
    pairs = n_nodes**2
    return max(_LEAST_STEPS, _STEPS_A_PAIR * pairs, min(2 * _STEPS_A_PAIR * pairs, _FEW_STEPS))


def usual_excursions(n_nodes: int) -> int:
    """Steps in a turn that may change graph and cells together: each edge gets as much attention in large graphs."""
    return max(_LEAST_STEPS, _EXCURSIONS_A_NODE * n_nodes)


@dataclass(frozen=True)
class IncompleteSampler:
    """Graphs and missing cells in turn; see `doxa.structure.incomplete.turns`.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
        The families that are possible.
    move : StructureMove, default=Auto()
        Any move but `Tempered`, which `doxa.structure.incomplete.tempered.sampler_with_cells` takes.
    steps : int, optional
        Structure steps in a turn; when left out, 5 for each ordered pair of columns, and in small tables 10, up to
        3000.  Edges are held up by what they and the cells have agreed on, not by the graph's own moves, so many short
        turns do more than a few long ones.
    sweeps : int, default=1
        How often every missing cell is redrawn in a turn.
    excursions : int, optional
        Steps in a turn that may change graph and cells together; 20 for each column when left out, 0 for none, as for
        moves that use no lists.
    least_spread : float, default=1.0
        Nats by which reference completions must differ about a change for it to be offered with its cells.
    turns : int, default=1
        Turns between kept draws.
    n_references : int, default=4
        Completions whose score tables say which parent sets are listed.
    keep_within : float, default=4.0
        How many nats below a subset's weight a set is still listed.
    beta : float, default=1.0
        Inverse temperature: the target is the joint posterior of graph and cells to this power.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is not whole or too small, or the move is `Tempered`.

    Examples
    --------
    >>> from doxa.data import Table
    >>> from doxa.mcmc.driver import Schedule, sample
    >>> from doxa.structure.limits import capped
    >>> codes = [[0, 0], [1, 1], [0, 0], [1, -1]] * 5
    >>> data = IncompleteData(Table.from_codes(["a", "b"], [["n", "y"]] * 2, codes))
    >>> trace = sample(IncompleteSampler(data, capped([1, 1]), steps=10), Schedule(2, 100, 10), seed=1)
    >>> trace["cells"].shape
    (2, 100, 5)
    """

    data: IncompleteData
    limits: Limits
    move: StructureMove = field(default_factory=Auto)
    steps: int = None  # type: ignore[assignment]  # filled in below: it needs the data
    sweeps: int = 1
    excursions: int = None  # type: ignore[assignment]  # likewise
    least_spread: float = 1.0
    turns: int = 1
    n_references: int = 4
    keep_within: float = 4.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if self.steps is None:
            object.__setattr__(self, "steps", usual_steps(self.data.n_nodes))
        if self.excursions is None:
            usual = usual_excursions(self.data.n_nodes) if self.move.uses_table else 0
            object.__setattr__(self, "excursions", usual)
        for name in ("steps", "sweeps", "turns", "n_references"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        object.__setattr__(self, "excursions", check_whole("excursions", self.excursions, 0))
        if hasattr(self.move, "sampler"):
            raise ArgumentError(
                f"move is {self.move!r}, which moves several graphs with their cells; give it to "
                "doxa.structure.incomplete.tempered.sampler_with_cells"
            )

    @property
    def thin(self) -> int:
        """Structure steps between kept draws."""
        return self.steps * self.turns

    def start(self, chain: int, rng: np.random.Generator) -> IncompleteState:
        """Starts far apart: as `StructureSampler.start`, 0 and 1 with likely values in the missing cells."""
        if chain > 1:
            return self.init(rng)
        cells = observed_cells(self.data.holes, rng)
        if chain == 0:
            return self.start_at(smallest_graph(self.limits), cells)
        return self.start_at(greedy_graph(self.data.completed(cells), self.limits), cells)

    def init(self, rng: np.random.Generator) -> IncompleteState:
        """An over-dispersed start: a random graph, and any values in the missing cells."""
        holes = self.data.holes
        cells = (rng.random(holes.n_missing) * holes.n_states[holes.column]).astype(np.int16)
        return self.start_at(pack_rows(random_dag(rng, self.limits)), cells)

    def start_at(self, rows: NDArray[np.uint64], cells: NDArray[np.int16]) -> IncompleteState:
        """The state of a chain that starts at a graph, given by its adjacency rows, and a completion."""
        words = n_words(len(rows))
        return IncompleteState(rows, cells, 0, np.zeros(words, dtype=np.uint64), np.zeros(1, dtype=np.int64))

    def run(
        self, state: IncompleteState, n_steps: int, rng: np.random.Generator
    ) -> tuple[IncompleteState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` structure steps, a multiple of ``thin``, and the sweeps that go with them.

        Returns
        -------
        state : IncompleteState
        draws : dict
            ``rows`` uint64 (n_kept, n_nodes, n_words); ``log_score`` float64 (n_kept,), log of the joint probability of
            graph, missing cells and data, nats, up to the constant in the prior of graphs; ``n_edges`` int32; ``cells``
            (n_kept, n_missing), int8 or, if a column has more than 127 states, int16.
        info : dict
            ``proposed`` and ``accepted`` structure steps, ``rows_proposed`` and ``rows_accepted`` independence
            proposals of cells, ``joint_proposed`` and ``joint_accepted`` changes of graph and cells together.
        """
        kept = n_steps // self.thin
        draws: dict[str, NDArray[Any]] = {
            "rows": np.empty((kept, *state.rows.shape), dtype=np.uint64),
            "log_score": np.empty(kept),
            "n_edges": np.empty(kept, dtype=np.int32),
            "cells": np.empty((kept, len(state.cells)), dtype=self.data.holes.dtype),
        }
        lists, excursions = None, None
        if self.move.uses_table or self.excursions:
            lists, completions = shared_lists(self.data, self.limits, self.n_references, self.keep_within)
            if self.excursions:
                excursions = Excursions(self.data, self.limits, lists, completions, self.least_spread, self.beta)
        place = (state.position, state.block, state.memory)
        chain = Turns(self.data, self.limits, self.move, lists, state.rows, state.cells, place, excursions, self.beta)
        for draw in range(kept):
            for _ in range(self.turns):
                chain.turn(self.sweeps, self.excursions, self.steps, rng)
            draws["rows"][draw] = chain.graph[1]
            draws["log_score"][draw] = chain.local.sum()
            draws["n_edges"][draw] = np.bitwise_count(chain.graph[1]).sum()
            draws["cells"][draw] = chain.cells
        after = IncompleteState(chain.graph[1], chain.cells, chain.position, chain.block, chain.memory)
        info = {
            "proposed": int(chain.steps_done[0]),
            "accepted": int(chain.steps_done[1]),
            "rows_proposed": int(chain.rows_done[0]),
            "rows_accepted": int(chain.rows_done[1]),
        }
        if excursions is not None:
            info |= {"joint_proposed": int(excursions.done[1]), "joint_accepted": int(excursions.done[2])}
        return after, draws, info
