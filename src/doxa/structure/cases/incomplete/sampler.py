"""`IncompleteSampler`: chains over graphs and missing cells together, as the driver runs them.

One chain's work space: a completion, a graph, and the sweeps in which cells and graph are redrawn.

A sweep redraws all missing cells some times over, given the graph.  Unless only one graph is possible, it offers
changes of the graph with new cells
(`doxa.structure.cases.incomplete.joint_proposals`); then, given the completion, it runs a structure move for many steps
on scores of that very completion (`doxa.structure.cases.incomplete.graph_moves`).  Each keeps the joint posterior of
graph and cells.

At an inverse temperature below 1 each of the three parts keeps the joint posterior to that power.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from doxa._call_at import settled
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.structure.cases.incomplete.blocks import row_work
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists
from doxa.structure.cases.incomplete.cells_sampler import (
    USUAL_MOVE,
    CellsSampler,
    shared_lists,
    usual_steps,
)
from doxa.structure.cases.incomplete.families import families_of
from doxa.structure.cases.incomplete.graph_moves import GraphDraws, GraphMoves
from doxa.structure.cases.incomplete.joint_proposals import JointProposals
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.sweep import swap_labels, sweep_cells
from doxa.structure.cases.incomplete.sweeping_chain import SweepingChain, named_counts
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import StructureMove, StructureState

__all__ = ["CollapsedChain", "IncompleteSampler"]


class CollapsedChain(SweepingChain):
    """See the module's notes.

    Parameters
    ----------
    data, limits, move, state, beta
        As of `SweepingChain`.
    lists : FamilyLists or None
        For moves that draw from lists, and for joint proposals.
    joint_proposals : JointProposals, optional
        None for none; at the same inverse temperature.
    passes, n_joint : int, default=1 and 0
        How often the cells are redrawn at the beginning of a sweep, and how many joint proposals follow.
    """

    def __init__(
        self,
        data: IncompleteData,
        limits: Limits,
        move: StructureMove,
        lists: FamilyLists | None,
        state: StructureState,
        joint_proposals: JointProposals | None = None,
        beta: float = 1.0,
        passes: int = 1,
        n_joint: int = 0,
    ) -> None:
        super().__init__(data, limits, move, state, beta)
        self.local = np.zeros(data.n_nodes)
        self.work = row_work(data.missing_cells.n_states, beta)
        self.moves = GraphMoves(limits, move, lists, state, beta)
        self.joint_proposals, self.passes, self.n_joint = joint_proposals, passes, n_joint
        self.rows_done = np.zeros(2, dtype=np.int64)  # independence proposals of cells: made, accepted

    def stand_at(self, state: StructureState) -> None:
        """As `SweepingChain.stand_at`."""
        super().stand_at(state)
        self.moves.stand_at(state)
        self.rows_done[:] = 0
        if self.joint_proposals is not None:
            self.joint_proposals.done[:] = 0

    def redraw_cells(self, passes: int, rng: np.random.Generator) -> None:
        """Redraw every missing cell ``passes`` times, and exchange labels of hidden columns."""
        self.is_scored = False
        families = families_of(self.graph[0], self.completion, self.data.rule)
        for _ in range(passes):
            settled(sweep_cells)(self.completion, families, self.work, self.rows_done, rng)
        for column in self.data.missing_cells.hidden.tolist():
            r = int(self.data.missing_cells.n_states[column])
            a, b = int(rng.random() * r), int(rng.random() * r)
            settled(swap_labels)(column, a, b, self.completion, families)

    def score_afresh(self) -> None:
        """Forget the scores of older completions; weigh the lists, and score the graph's families."""
        self.moves.score_afresh(self.graph, self.completion, self.scoring, self.local)
        self.is_scored = True

    def move_graph(self, steps: int, rng: np.random.Generator, draws: GraphDraws | None = None) -> None:
        """Run the structure move on the completion for so many steps."""
        if not self.is_scored:
            self.score_afresh()
        self.moves.run(self.graph, self.local, self.scoring, steps, rng, draws)

    def begin_sweep(self, rng: np.random.Generator) -> None:
        """Redraw the cells, then cells and graph together."""
        self.redraw_cells(self.passes, rng)
        if self.joint_proposals is not None:
            self.graph = self.joint_proposals.run(self.n_joint, self.graph[1], self.completion, rng)

    def state(self) -> StructureState:
        """Where the chain stands, but for its place in the sweep."""
        return self.moves.state(self.rows, self.cells)

    def counts(self) -> dict[str, int]:
        """``proposed`` and ``accepted`` structure steps, ``rows_proposed`` and ``rows_accepted`` independence proposals
        of cells, ``joint_proposed`` and ``joint_accepted`` changes of graph and cells together.
        """
        done = {"": self.moves.done, "rows_": self.rows_done}
        if self.joint_proposals is not None:
            done["joint_"] = self.joint_proposals.done[1:]
        return named_counts(done)


_JOINT_PROPOSALS_A_NODE, _LEAST_JOINT_PROPOSALS = 5, 50


def usual_joint_proposals(n_nodes: int) -> int:
    """Steps in a sweep that may change graph and cells together: each edge gets as much attention in large graphs."""
    return max(_LEAST_JOINT_PROPOSALS, _JOINT_PROPOSALS_A_NODE * n_nodes)


@dataclass(frozen=True)
class IncompleteSampler(CellsSampler):
    """Graphs and missing cells in turn; see `doxa.structure.cases.incomplete.sampler`.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
        The families that are possible.
    move : StructureMove, default=Auto()
        Any move but `Tempered`, which `doxa.structure.cases.incomplete.by_kind.sampler_with_cells` takes.
    steps : int, optional
        Structure steps in a sweep; `usual_steps` when left out.
    passes : int, default=1
        How often every missing cell is redrawn in a sweep.
    joint_proposals : int, optional
        Steps in a sweep that may change graph and cells together; 5 for each column when left out, 0 for none, as for
        moves that use no lists.
    least_spread : float, default=1.0
        Nats by which reference completions must differ about a change for it to be offered with its cells.
    thin : int, optional
        Structure steps between kept draws: those of so many sweeps, or a part of ``steps``; ``steps`` when left out.
        `doxa.learn` keeps four draws of a sweep.
    n_references : int, default=4
        Completions whose score tables say which parent sets are listed.
    keep_within : float, default=6.0
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
    >>> from doxa.sampling.driver import Schedule, sample
    >>> from doxa.structure.limits import capped
    >>> codes = [[0, 0], [1, 1], [0, 0], [1, -1]] * 5
    >>> data = IncompleteData(Table.from_codes(["a", "b"], [["n", "y"]] * 2, codes))
    >>> trace = sample(IncompleteSampler(data, capped([1, 1]), steps=10), Schedule(2, 100, 10), seed=1)
    >>> trace["cells"].shape
    (2, 100, 5)
    """

    data: IncompleteData
    limits: Limits
    move: StructureMove = USUAL_MOVE
    steps: int = None  # type: ignore[assignment]  # filled in below: it needs the data
    passes: int = 1
    joint_proposals: int = None  # type: ignore[assignment]  # likewise
    least_spread: float = 1.0
    thin: int = None  # type: ignore[assignment]  # likewise
    n_references: int = 4
    keep_within: float = 6.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if self.steps is None:
            object.__setattr__(self, "steps", usual_steps(self.data.n_nodes, lists=self.move.uses_table))
        if self.joint_proposals is None:
            usual = usual_joint_proposals(self.data.n_nodes) if self.move.uses_table else 0
            object.__setattr__(self, "joint_proposals", usual)
        for name in ("steps", "passes", "n_references"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        self.check_thin()
        object.__setattr__(self, "joint_proposals", check_whole("joint_proposals", self.joint_proposals, 0))
        if hasattr(self.move, "sampler"):
            raise ArgumentError(
                f"move is {self.move!r}, which moves several graphs with their cells; give it to "
                "doxa.structure.cases.incomplete.by_kind.sampler_with_cells"
            )

    def chain_at(self, state: StructureState) -> CollapsedChain:
        """A chain that stands there, and its work space."""
        lists, joint_proposals = None, None
        if (self.move.uses_table or self.joint_proposals) and not self.limits.one_graph:
            lists, completions = shared_lists(self.data, self.limits, self.n_references, self.keep_within)
            if self.joint_proposals:
                joint_proposals = JointProposals(
                    self.data, self.limits, lists, completions, self.least_spread, self.beta
                )
        return CollapsedChain(
            self.data, self.limits, self.move, lists, state, joint_proposals, self.beta, self.passes,
            self.joint_proposals,
        )  # fmt: skip
