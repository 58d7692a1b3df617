"""`IncompleteSampler`: chains over graphs and missing cells together, as the driver runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.structure.cases.incomplete.cells_sampler import CellsSampler, IncompleteState, keep_draw, no_draws
from doxa.structure.cases.incomplete.data import IncompleteData
from doxa.structure.cases.incomplete.joint_proposals import JointProposals
from doxa.structure.cases.incomplete.references import shared_lists
from doxa.structure.cases.incomplete.sweeps import Turns
from doxa.structure.limits import Limits
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.sampler import StructureMove

__all__ = ["IncompleteSampler", "usual_steps"]

_STEPS_A_PAIR, _JOINT_PROPOSALS_A_NODE, _LEAST_STEPS = 2.5, 10, 50


def usual_steps(n_nodes: int) -> int:
    """Structure steps in a turn: fewer would leave the graph behind the cells, more wait for the cells' next change."""
    return max(_LEAST_STEPS, round(_STEPS_A_PAIR * n_nodes**2))


def usual_joint_proposals(n_nodes: int) -> int:
    """Steps in a turn that may change graph and cells together: each edge gets as much attention in large graphs."""
    return max(_LEAST_STEPS, _JOINT_PROPOSALS_A_NODE * n_nodes)


@dataclass(frozen=True)
class IncompleteSampler(CellsSampler):
    """Graphs and missing cells in turn; see `doxa.structure.cases.incomplete.sweeps`.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
        The families that are possible.
    move : StructureMove, default=Auto()
        Any move but `Tempered`, which `doxa.structure.cases.incomplete.tempered.sampler_with_cells` takes.
    steps : int, optional
        Structure steps in a turn; when left out, 2.5 for each ordered pair of columns, at least 50.  Edges are held up
        by what they and the cells have agreed on, not by the graph's own moves, so many short turns do more than a few
        long ones.
    sweeps : int, default=1
        How often every missing cell is redrawn in a turn.
    joint proposals : int, optional
        Steps in a turn that may change graph and cells together; 10 for each column when left out, 0 for none, as for
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
    move: StructureMove = field(default_factory=Auto)
    steps: int = None  # type: ignore[assignment]  # filled in below: it needs the data
    sweeps: int = 1
    joint_proposals: int = None  # type: ignore[assignment]  # likewise
    least_spread: float = 1.0
    turns: int = 1
    n_references: int = 4
    keep_within: float = 4.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if self.steps is None:
            object.__setattr__(self, "steps", usual_steps(self.data.n_nodes))
        if self.joint_proposals is None:
            usual = usual_joint_proposals(self.data.n_nodes) if self.move.uses_table else 0
            object.__setattr__(self, "joint_proposals", usual)
        for name in ("steps", "sweeps", "turns", "n_references"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        object.__setattr__(self, "joint_proposals", check_whole("joint_proposals", self.joint_proposals, 0))
        if hasattr(self.move, "sampler"):
            raise ArgumentError(
                f"move is {self.move!r}, which moves several graphs with their cells; give it to "
                "doxa.structure.cases.incomplete.tempered.sampler_with_cells"
            )

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
        draws = no_draws(kept, state, self.data.missing_cells.dtype)
        lists, joint_proposals = None, None
        if self.move.uses_table or self.joint_proposals:
            lists, completions = shared_lists(self.data, self.limits, self.n_references, self.keep_within)
            if self.joint_proposals:
                joint_proposals = JointProposals(
                    self.data, self.limits, lists, completions, self.least_spread, self.beta
                )
        place = (state.position, state.block, state.memory)
        chain = Turns(
            self.data, self.limits, self.move, lists, state.rows, state.cells, place, joint_proposals, self.beta
        )
        for draw in range(kept):
            for _ in range(self.turns):
                chain.turn(self.sweeps, self.joint_proposals, self.steps, rng)
            keep_draw(draws, draw, chain.graph[1], chain.local, chain.cells)
        after = IncompleteState(chain.graph[1], chain.cells, chain.position, chain.block, chain.memory)
        info = {
            "proposed": int(chain.steps_done[0]),
            "accepted": int(chain.steps_done[1]),
            "rows_proposed": int(chain.rows_done[0]),
            "rows_accepted": int(chain.rows_done[1]),
        }
        if joint_proposals is not None:
            info |= {"joint_proposed": int(joint_proposals.done[1]), "joint_accepted": int(joint_proposals.done[2])}
        return after, draws, info
