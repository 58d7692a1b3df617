"""`StructureSampler`: a move, the scores it looks up and the limits it obeys, as the driver runs them.

A *move* is a frozen dataclass of settings with a ``name``, a ``bias`` (None unless its answers are known to be wrong),
``uses_table`` (whether it needs lists of parent sets), ``cycle_length(n_nodes)`` and ``advance(work, first, n_steps,
rng)``, a compiled loop that works in place.  All else that a chain needs is here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa.arrays import Floats, Words
from doxa.errors import ArgumentError
from doxa.estimates.stopping import FIRST_LOOK
from doxa.models.bits import n_words, pack_rows
from doxa.schema import Within
from doxa.structure.families.cache import CacheArrays, FamilyScores, ScoreCache, Scoring, local_scores
from doxa.structure.graph import WorkingGraph, working_graph
from doxa.structure.limits import Limits, check_graphs, words_within
from doxa.structure.moves.best_graph import best_graph, takes_all_orders
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import ParentSets, no_parent_sets
from doxa.structure.moves.starts import dense_dag, greedy_graph, random_dag, smallest_graph

_CLIMBED = 128  # columns up to which single edges climb before orders are searched
_STEPS_A_NODE, _MOST_STEPS_A_NODE = 8, 50  # between draws, of moves with lists
_STEPS_TO_MIX = 25  # for each node: more pairs of nodes than that are mostly far from each other
_SEED = 20260  # of the search for the second chain's start, which follows from the table alone

__all__ = [
    "GraphStarts",
    "Steady",
    "StructureMove",
    "StructureSampler",
    "StructureState",
    "Work",
    "no_draws",
    "planted_in_half",
    "run_steps",
    "steps_between_draws",
    "steps_to_mix",
    "work_without_draws",
]

NO_CELLS = np.empty(0, dtype=np.int16)


class StructureMove(Protocol):
    """What a move offers; see the module docstring."""

    @property
    def name(self) -> str:
        """The word that selects the move: ``sampler="..."``."""

    @property
    def bias(self) -> str | None:
        """What is known to be wrong with its answers; None when nothing is."""

    @property
    def uses_table(self) -> bool:
        """Whether it draws from lists of parent sets (`Work.table`)."""

    def cycle_length(self, n_nodes: int) -> int:
        """Steps after which the kernel repeats itself."""

    def advance(self, work: Work, first: int, n_steps: int, rng: np.random.Generator) -> int:
        """Run steps ``first`` to ``n_steps`` in place; return the step at which the cache should grow, or n_steps."""


class Steady:
    """A move that does the same at every step."""

    def cycle_length(self, n_nodes: int) -> int:  # noqa: ARG002
        """Steps after which the kernel repeats itself: it is the same at every step."""
        return 1


@by_address
class Work(NamedTuple):
    """What a compiled loop works on."""

    graph: WorkingGraph
    local: NDArray[np.float64]  # (n_nodes,): score of every node's family
    beta: float  # inverse temperature: the target is the posterior to this power
    limits: Limits
    block: NDArray[np.uint64]  # (n_words,): see StructureState
    memory: NDArray[np.int64]  # (1,): see StructureState
    position: int
    cache: CacheArrays
    scoring: Scoring
    table: ParentSets
    draws: tuple[Words, Floats, NDArray[np.int32]]  # rows, log_score, n_edges
    thin: int  # steps from one draw to the next; 0 or -1 for steps of another loop: `advance_auto`
    info: NDArray[np.int64]  # (2,): proposed, accepted
    proposed: NDArray[np.float64]  # (2,): scores of the families that a candidate changes
    spare: tuple[NDArray[np.uint64], NDArray[np.uint64]]  # work space: (n_nodes, n_words) and (n_words,)


@cache
def no_draws(n_nodes: int, n_words: int) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.int32]]:
    """`Work.draws` where none are kept."""
    return np.empty((0, n_nodes, n_words), dtype=np.uint64), np.empty(0), np.empty(0, dtype=np.int32)


def work_without_draws(
    graph: WorkingGraph,
    local: NDArray[np.float64],
    beta: float,
    limits: Limits,
    cache: CacheArrays,
    scoring: Scoring,
    table: ParentSets,
) -> Work:
    """What steps work on that keep no draws, at the beginning of a move's cycle."""
    n, words = graph[0].shape
    block, memory = np.zeros(words, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    spare = (np.zeros((n, words), dtype=np.uint64), np.zeros(words, dtype=np.uint64))
    draws, info = no_draws(n, words), np.zeros(2, dtype=np.int64)
    return Work(
        graph, local, beta, limits, block, memory, 0, cache, scoring, table, draws, 1, info, np.empty(2), spare
    )  # fmt: skip


def run_steps(move: StructureMove, work: Work, n_steps: int, cache: ScoreCache, rng: np.random.Generator) -> None:
    """Run so many steps of a move in place, and let the cache grow where it has to."""
    done = 0
    while True:
        if work.cache is not cache.arrays:  # it has grown
            work = work._replace(cache=cache.arrays)
        done = move.advance(work, done, n_steps, rng)
        if done == n_steps:
            return
        cache.grow()


def steps_between_draws(n_nodes: int, *, lists: bool) -> int:
    """Steps for each draw: one for every ordered pair of nodes; with lists 8 for each node, more in large graphs.

    Moves with lists redraw whole families, and graphs 8 n steps apart have little in common any more: of twenty
    columns to fifty, twice as many draws would make errors smaller by a tenth or less at the same steps, half as many
    larger by a quarter.  The memory of a draw grows as the square of the nodes, and of hundreds an edge that turns
    seldom keeps its state for dozens of draws, so these are farther apart: 8 n steps at 160, 18 n at 350, 50 n from
    600 on.

    >>> [steps_between_draws(n, lists=True) for n in (8, 37, 200, 500)]
    [100, 296, 2000, 17857]
    """
    if not lists:
        return max(200, n_nodes * (n_nodes - 1))
    apart = max(_STEPS_A_NODE * n_nodes, n_nodes**2 // 20)
    of_hundreds = min(n_nodes**3 // 7000, _MOST_STEPS_A_NODE * n_nodes)
    return max(100, min(apart, steps_to_mix(n_nodes)), of_hundreds)


def steps_to_mix(n_nodes: int) -> int:
    """Steps after which moves with lists may have changed every family: one for each pair of nodes, at most 25 n.

    They know the few nodes that matter to each node, so the work grows as the nodes do.  Five hundred
    times as many are the first epoch of a warm-up.

    >>> [steps_to_mix(n) for n in (8, 37, 200)]
    [100, 666, 5000]
    """
    return max(100, min(n_nodes * (n_nodes - 1) // 2, _STEPS_TO_MIX * n_nodes))


class StructureState(NamedTuple):
    """Where a structure chain stands: all that the next step needs."""

    rows: NDArray[np.uint64]  # adjacency rows as bit sets, (n_nodes, n_words)
    position: Annotated[int, Within(0)]  # steps done since the kernel's cycle began
    block: NDArray[np.uint64]  # (n_words,): the block of the visit under way, for moves that keep one
    memory: Annotated[NDArray[np.int64], Within(0)]  # (1,): the node of the visit under way, for moves that draw it
    cells: NDArray[Any] = NO_CELLS  # (n_missing,): values of the missing cells, in the order of `MissingCells`


AnyState = TypeVar("AnyState", bound=Any)


def planted_in_half(states: Sequence[AnyState], **fields: NDArray[Any]) -> list[AnyState]:
    """Every other chain, from the second, with other values of some fields; of several rungs it is the first's."""
    planted = list(states)
    for chain in range(1, len(planted), 2):
        own = {name: getattr(planted[chain], name) for name in fields}
        planted[chain] = planted[chain]._replace(
            **{
                name: value if own[name].ndim == value.ndim else np.concatenate([value[None], own[name][1:]])
                for name, value in fields.items()
            }
        )
    return planted


class GraphStarts:
    """Where chains over graphs begin, on tables with missing cells or without."""

    limits: Limits
    move: StructureMove

    def start(self, chain: int, rng: np.random.Generator) -> StructureState:
        """Starts far apart: at the smallest graph, at the best one that a search finds, at a dense one, with likely
        values in missing cells; and at random ones, with any.
        """
        if chain > 2:
            return self.init(rng)
        cells = self.likely_cells(rng)
        if chain == 1:
            return self.start_at(self.searched(cells), cells)
        rows = smallest_graph(self.limits) if chain == 0 else pack_rows(dense_dag(rng, self.limits))
        return self.start_at(rows, cells)

    def init(self, rng: np.random.Generator) -> StructureState:
        """An over-dispersed start: a random graph of random density, and any values in missing cells."""
        cells = self.any_cells(rng)
        return self.start_at(pack_rows(random_dag(rng, self.limits)), cells)

    def start_at(self, rows: NDArray[np.uint64], cells: NDArray[Any] = NO_CELLS) -> StructureState:
        """The state of a chain that starts at a graph, given by its adjacency rows, and a completion."""
        return StructureState(
            rows, 0, np.zeros(n_words(len(rows)), dtype=np.uint64), np.zeros(1, dtype=np.int64), cells
        )

    def planted(self, states: Sequence[AnyState], rows: NDArray[np.uint64], chain: int) -> list[AnyState]:
        """States in which half of the chains stand at a graph found on one chain's completion, and at that."""
        return planted_in_half(states, rows=rows, cells=states[chain].cells)

    @property
    def cycle_length(self) -> int:
        """Steps after which a chain does again what it did first."""
        return self.move.cycle_length(len(self.limits.max_parents))

    def check_state(self, state: StructureState) -> None:
        """Raise `ArgumentError` unless a state from a file is one of this sampler's, whose fields have its form."""
        n, cycle = len(state.rows), self.cycle_length
        check_graphs(state.rows[None], self.limits, "state.rows")
        if state.position >= cycle:
            raise ArgumentError(f"state.position is {state.position}; it must be below {cycle}")
        if (state.block & ~words_within(n)).any():
            raise ArgumentError(f"state.block has nodes beyond the {n} that there are")
        if (state.memory >= n).any():
            raise ArgumentError(f"state.memory is {int(state.memory.max())}; it must be below {n}")
        self.check_cells(state.cells)

    def check_cells(self, cells: NDArray[Any]) -> None:
        """Raise `ArgumentError` unless missing cells can have these values; there are none here."""

    def likely_cells(self, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        """Values that the missing cells may well have; there are none here."""
        return NO_CELLS

    def any_cells(self, rng: np.random.Generator) -> NDArray[np.int16]:  # noqa: ARG002
        """Random values of the missing cells."""
        return NO_CELLS

    def searched(self, cells: NDArray[np.int16]) -> NDArray[np.uint64]:
        """Adjacency rows of a good graph on a completion."""
        raise NotImplementedError


@dataclass(frozen=True)
class StructureSampler(GraphStarts):
    """A structure move bound to its data: the sampler that the driver runs.

    Parameters
    ----------
    move : StructureMove
    scores : FamilyScores
    limits : Limits
        The families that are possible.
    thin : int
        Steps between kept draws.
    beta : float, default=1.0
        Inverse temperature.
    """

    move: StructureMove
    scores: FamilyScores
    limits: Limits
    thin: int
    beta: float = 1.0

    @property
    def first_epoch(self) -> int:
        """Draws of the first epoch of a warm-up: of moves with lists as many steps whatever ``thin``."""
        steps = steps_to_mix(len(self.limits.max_parents)) if self.move.uses_table else 0
        return max(FIRST_LOOK, FIRST_LOOK * steps // self.thin)

    def searched(self, cells: NDArray[np.int16]) -> NDArray[np.uint64]:  # noqa: ARG002
        """By a search over orders for moves that have lists of parent sets, by single edges for others."""
        if not self.move.uses_table:
            return greedy_graph(self.scores, self.limits)
        table = parent_sets(self.scores, self.limits, 1.0)
        n = len(self.limits.max_parents)
        no_climb = n > _CLIMBED or takes_all_orders(n)  # a climb takes minutes, and orders know better graphs
        begin = smallest_graph(self.limits) if no_climb else greedy_graph(self.scores, self.limits)
        found = best_graph(table, np.random.default_rng(_SEED), [begin])
        return begin if found is None else found.rows

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
        (n, words), kept = state.rows.shape, n_steps // self.thin
        draws = (
            np.empty((kept, n, words), dtype=np.uint64),
            np.empty(kept, dtype=np.float64),
            np.empty(kept, dtype=np.int32),
        )
        graph, local = working_graph(state.rows), np.empty(n)
        table = parent_sets(self.scores, self.limits, self.beta) if self.move.uses_table else no_parent_sets(n, words)
        with self.scores.borrow() as (cache, scoring):
            settled(local_scores, scoring.address)(graph[0], cache.arrays, scoring, local)
            work = work_without_draws(graph, local, self.beta, self.limits, cache.arrays, scoring, table)._replace(
                block=state.block.copy(), memory=state.memory.copy(), position=state.position, draws=draws,
                thin=self.thin,
            )  # fmt: skip
            run_steps(self.move, work, n_steps, cache, rng)
        position = (state.position + n_steps) % self.cycle_length
        return (
            StructureState(graph[1], position, work.block, work.memory, state.cells),
            dict(zip(("rows", "log_score", "n_edges"), draws, strict=True)),
            {"proposed": int(work.info[0]), "accepted": int(work.info[1])},
        )
