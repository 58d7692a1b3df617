r"""`LogisticCellsSampler`: graphs and missing cells together, where families may be logistic.

The target is :math:`p(G) \prod_i e^{s_i(G, X)}`, with the scores of `doxa.structure.families.logistic` on the completed
table X. A turn offers every missing cell a new value (`doxa.structure.cases.incomplete.logistic_sweeps`), then changes
of the graph.

**Graph.**  A family's score takes a tenth of a millisecond and more, and holds for one completion alone.  So the moves
run on scores that are *stale*: those of one reference completion, made once, cached, with lists of parent sets.  A few
steps of a move that is reversible for the stale posterior f are a reversible proposal; its end G' is accepted, on the
completion at hand, with probability

.. math:: \min\Big\{1, \frac{p(G', X)\, f(G)}{p(G, X)\, f(G')}\Big\}.

Only families that differ are scored.  What the stale scores deny would mostly be denied by those of today, too, and
costs nothing.  But a chain that starts far away may hold cells that speak for less than the stale scores promise, and
then nothing is accepted: so there are some single-edge moves by the scores of today in every turn.  The
reference follows from the table and the limits alone: every chain, every process and every resumed run has the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.structure.cases.incomplete.cells_sampler import (
    CellsSampler,
    IncompleteState,
    keep_draw,
    no_draws,
    reference_completions,
)
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData, find_missing_cells
from doxa.structure.cases.incomplete.sampler import usual_steps
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.counting import CountingScratch
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.sampler import StructureMove
from doxa.structure.moves.single_edge import SingleEdge
from doxa.structure.priors import uniform_prior

__all__ = ["LogisticCellsSampler", "LogisticIncompleteData", "logistic_sampler"]

_KEEP = 8.0  # nats, in the lists of the short chain
_LEAST_STEPS, _FRESH_A_NODE = 100, 4


@dataclass(eq=False)
class LogisticIncompleteData(IncompleteData):
    """`IncompleteData` for a score that knows logistic families; parameters as there, without hidden columns.

    Raises
    ------
    ArgumentError
        If columns are declared as hidden, or have states that the score cannot have.
    TableError
        If a column has no values, or there are fewer than two columns.
    """

    _boxes: list[Any] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        assert isinstance(self.score, (Logistic, FamilyMixture))
        if self.hidden:
            raise ArgumentError(
                f"hidden is {list(self.hidden)!r}, and the score is {self.score.text}, which needs some values of "
                "every column; take family='categorical' for hidden columns"
            )
        self.missing_cells = find_missing_cells(self.table)
        self.score.check_states(self.table.names, self.missing_cells.n_states)
        if self.prior is None:
            self.prior = uniform_prior(self.n_nodes)

    def scoring(self, completion: Completion, scratch: CountingScratch) -> tuple[Any, ...]:
        """As `IncompleteData.scoring`; the scorer lives as long as the data."""
        scoring, box = self.boxed(completion, scratch)
        self._boxes.append(box)
        return scoring

    def boxed(self, completion: Completion, scratch: CountingScratch) -> tuple[tuple[Any, ...], Any]:
        """What counts and scores families in a completion, and the scorer, to be kept as long."""
        from doxa.structure.families.logistic.box import Box  # compiled on import

        data = (completion.columns, completion.weights, completion.n_states)
        assert isinstance(self.score, (Logistic, FamilyMixture))
        box = Box(self.score, data)
        return (data, self.rule, self.prior.arrays, (*scratch[:-1], box.addresses)), box

    def reference(self, limits: Limits) -> FamilyScores:
        """Stale scores: those of a completion that a short chain on tables drew, the same in every process."""

        def make() -> FamilyScores:
            of_tables = IncompleteData(self.table, BDeu(), self.prior)
            cells = reference_completions(of_tables, limits, 1, _KEEP)[0][0]
            return self.completed(cells)

        made: FamilyScores = self.remember("stale scores", limits, make)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_boxes": []}


@dataclass(frozen=True)
class LogisticCellsSampler(CellsSampler):
    """Graphs and missing cells in turn; see the module's notes.

    Parameters
    ----------
    data : LogisticIncompleteData
    limits : Limits
        The families that are possible.
    move : StructureMove, default=Auto()
        `Auto` or `SingleEdge`, whose steps are reversible.
    steps : int, optional
        Structure steps in a turn.
    turns : int, default=1
        Turns between kept draws.
    joint proposal : int, default=3
        Structure steps on stale scores after which the graph is accepted or not.
    block : int, default=16
        Missing cells of a column that are offered new values together.
    fresh : int, optional
        Single-edge moves on scores of today in a turn; 4 for each column when left out.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is not whole or too small, or the move is another one.
    """

    data: LogisticIncompleteData
    limits: Limits
    move: StructureMove = field(default_factory=Auto)
    steps: int = 100
    turns: int = 1
    joint_proposal: int = 3
    block: int = 16
    fresh: int = None  # type: ignore[assignment]  # filled in below: it needs the data

    def __post_init__(self) -> None:
        if self.fresh is None:
            object.__setattr__(self, "fresh", _FRESH_A_NODE * self.data.n_nodes)
        for name in ("steps", "turns", "joint_proposal", "block", "fresh"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        if not isinstance(self.move, (Auto, SingleEdge)):
            raise ArgumentError(
                f"sampler is {self.move!r}, which cannot be combined with missing cells and logistic families; take "
                "Auto() or SingleEdge(), or family='categorical'"
            )

    def climbed(self, cells: NDArray[np.int16]) -> FamilyScores:  # noqa: ARG002
        """The stale scores, which are made in any case."""
        return self.data.reference(self.limits)

    def run(
        self, state: IncompleteState, n_steps: int, rng: np.random.Generator
    ) -> tuple[IncompleteState, dict[str, NDArray[Any]], dict[str, int]]:
        """Run ``n_steps`` structure steps, a multiple of ``thin``; draws as those of `IncompleteSampler`.

        ``info`` counts ``proposed`` and ``accepted`` joint proposals that changed the graph and single-edge moves by
        the scores of today (``fresh_proposed``, ``fresh_accepted``), and ``blocks_proposed`` and ``blocks_accepted``
        offers of cells that changed some.
        """
        from doxa.structure.cases.incomplete.logistic_sweeps import LogisticTurns  # compiled on import

        kept = n_steps // self.thin
        chain = LogisticTurns(self.data, self.limits, self.move, self.joint_proposal, state.rows, state.cells)
        draws = no_draws(kept, state, self.data.missing_cells.dtype)
        for draw in range(kept):
            for _ in range(self.turns):
                chain.redraw_cells(self.block, rng)
                chain.move_afresh(self.fresh, rng)
                chain.move_graph(self.steps, rng)
            keep_draw(draws, draw, chain.rows, chain.local, chain.cells)
        info = dict(zip(("proposed", "accepted"), chain.graphs_done.tolist(), strict=True))
        info |= dict(zip(("fresh_proposed", "fresh_accepted"), chain.steps_done.tolist(), strict=True))
        info |= dict(zip(("blocks_proposed", "blocks_accepted"), chain.blocks_done.tolist(), strict=True))
        return self.start_at(chain.rows, chain.cells), draws, info


def logistic_sampler(table: Table, options: Any, move: StructureMove, thin: int) -> LogisticCellsSampler:
    """The sampler of a run on a table with missing cells under a score that knows logistic families.

    Parameters
    ----------
    table : Table
    options : RunOptions
    move : StructureMove
    thin : int
        Structure steps between draws, in one turn; a multiple of `usual_steps` stands for so many turns, each of as
        many steps as take about as long as redrawing the cells, and at least 100.
    """
    hidden = [name for name, _ in options.hidden]
    data = LogisticIncompleteData(table, options.score, options.structure_prior, hidden)
    usual = usual_steps(data.n_nodes)
    if thin % usual:
        return LogisticCellsSampler(data, options.limits, move, thin)
    return LogisticCellsSampler(data, options.limits, move, max(_LEAST_STEPS, data.n_nodes**2), thin // usual)
