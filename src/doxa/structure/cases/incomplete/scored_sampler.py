r"""`ScoredCellsSampler`: graphs and missing cells together, for any kind of family.

The target is :math:`p(G) \prod_i e^{s_i(G, X)}`, with the scores of the kind on the completed table X; nothing else is
asked of the kind.  A sweep changes the graph, and offers every missing cell a new value
(`doxa.structure.cases.incomplete.scored_sweeps`).

**Graph.**  Families that are scored quickly, those of tables with numbers and with interventions, are listed, and the
lists scored anew in every sweep; the move then runs on the very completion, as in
`doxa.structure.cases.incomplete.graph_moves`.

A family's score, where it is logistic, takes a tenth of a millisecond and more, and holds for one
completion alone.  So the moves run on scores that are *stale*: those of one reference completion, made once, cached,
with lists of parent sets.  A few steps of a move that is reversible for the stale posterior f are a reversible
proposal; its end G' is accepted, on the completion at hand, with probability

.. math:: \min\Big\{1, \frac{p(G', X)\, f(G)}{p(G, X)\, f(G')}\Big\}.

Only families that differ are scored.  What the stale scores deny would mostly be denied by those of today, too, and
costs nothing.  But a chain that starts far away may hold cells that speak for less than the stale scores promise, and
then nothing is accepted: so there are some single-edge moves by the scores of today in every sweep, alone and with new
values of the cells that hold an edge up (`doxa.structure.cases.incomplete.edges_with_cells`).  The
reference follows from the table and the limits alone: every chain, every process and every resumed run has the same.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.structure.cases.incomplete.candidate_sets import FamilyLists
from doxa.structure.cases.incomplete.cells_sampler import (
    USUAL_MOVE,
    CellsSampler,
    reference_completions,
    shared_lists,
    usual_steps,
)
from doxa.structure.cases.incomplete.missing_cells import IncompleteData, MissingCells, completion_of
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.scores import BDeu
from doxa.structure.limits import Limits
from doxa.structure.moves.sampler import StructureMove, StructureState
from doxa.structure.moves.single_edge import SingleEdge
from doxa.structure.moves.starts import greedy_graph

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain

__all__ = ["MOST_STATES", "ScoredCellsSampler", "can_sum_out", "reference_scores", "rows_together"]

_KEEP = 8.0  # nats, in the lists of the short chain
_FRESH_A_NODE, _NODES_AN_EDGE, _SUMMED_OUT = 4, 4, 8
_ROWS_A_COLUMN = 2  # in which two columns are observed together, at the least: of fewer, covariances are hardly known
MOST_STATES = 36  # of the missing categories of a row together that are summed out; of one category there may be more
_MOST_COVARIANCES = 2**25  # numbers, of the incomplete rows beside categories: 256 MiB
_MOST_SETS = 64  # of a node in each completion: of tens of numbers thousands are close to each other
_SEED, _SWEEPS = 20_012, 5  # of the completion that stale scores are of, where columns hold numbers


def reference_scores(data: IncompleteData, limits: Limits) -> FamilyScores:
    """Stale scores: those of a completion that a short chain on tables drew, the same in every process."""

    def make() -> FamilyScores:
        if data.table.numbers is not None:
            return _after_sweeps(data, limits)
        of_tables = IncompleteData(
            replace(data.table, interventions=None, slices=None), BDeu(), data.prior, data.hidden
        )
        return data.completed(reference_completions(of_tables, limits, 1, _KEEP)[0][0])

    made: FamilyScores = data.remember("stale scores", limits, make)
    return made


def _after_sweeps(data: IncompleteData, limits: Limits) -> FamilyScores:
    """Scores of the completion that a few sweeps lead to, each from a greedy graph on the completion before."""
    from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain  # compiled on import

    rng = np.random.default_rng(_SEED)
    sampler = ScoredCellsSampler(data, limits, SingleEdge())
    cells = sampler.likely_cells(rng)
    scores = data.completed(cells)
    for _ in range(_SWEEPS):
        chain = ScoredChain(sampler, sampler.start_at(greedy_graph(scores, limits), cells), scores)
        chain.redraw_cells(rng)
        cells = chain.cells
        scores = data.completed(cells)
    return scores


def can_sum_out(data: IncompleteData) -> bool:
    """Whether some columns hold numbers with Gaussian regressions, and rows share no cells and are enough of them."""
    from doxa.structure.families.gaussian.kinds import BGe, ConditionalGaussian

    table, missing_cells = data.table, data.missing_cells
    if not (isinstance(data.score, BGe | ConditionalGaussian) and table.is_number.any()):
        return False
    if missing_cells.shared is not None or missing_cells.interventions is not None or len(missing_cells.hidden):
        return False
    is_small = table.is_number.all() or _n_expected(missing_cells) * data.n_nodes**2 <= _MOST_COVARIANCES
    return is_small and rows_together(data) >= _ROWS_A_COLUMN * (int(table.is_number.sum()) + 1)


def _n_expected(missing_cells: MissingCells) -> float:
    """Incomplete rows, each as often as its missing categories may have states that are summed out."""
    row, of_states = missing_cells.row, ~missing_cells.is_number
    log_states = np.log(missing_cells.n_states[missing_cells.column[of_states]])
    log_of_row = np.bincount(row[of_states], log_states, minlength=len(missing_cells.source_row))
    most = max(MOST_STATES, int(missing_cells.n_states.max()))  # one category is summed out whatever its states
    return float(np.exp(np.minimum(log_of_row, np.log(most))).sum())


def rows_together(data: IncompleteData) -> float:
    """Rows in which two numbers are observed together, on average over pairs, a column with itself among them."""
    seen = data.table.codes[:, data.table.is_number] >= 0
    a_row = seen.mean(axis=1)
    return float((data.table.counts * a_row**2).sum())


def _clusters(missing_cells: MissingCells, cells: NDArray[Any], column: int, rng: np.random.Generator) -> NDArray[Any]:
    """A state for every row by k-means of the other columns, half of them where several columns are hidden."""
    from scipy.cluster.vq import kmeans2

    completion = completion_of(missing_cells, cells)
    others = np.setdiff1d(np.arange(len(completion.n_states)), missing_cells.hidden)
    if len(missing_cells.hidden) > 1:
        others = rng.choice(others, size=-(-len(others) // 2), replace=False)
    parts = []
    for j in others.tolist():
        if completion.numbers.size and not np.isnan(completion.numbers[j]).any():
            parts.append(completion.numbers[j][:, None])
        else:
            indicators = completion.columns[j][:, None] == np.arange(completion.n_states[j])
            parts.append(indicators / max(1e-9, float(np.sqrt(indicators.var(axis=0).sum()))))
    rows = np.concatenate(parts, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is a start like another
        found = kmeans2(rows, int(completion.n_states[column]), minit="++", seed=rng)[1]
    return np.asarray(found)


@dataclass(frozen=True)
class ScoredCellsSampler(CellsSampler):
    """Graphs and missing cells in turn; see the module's notes.

    Parameters
    ----------
    data : IncompleteData
    limits : Limits
        The families that are possible.
    move : StructureMove, default=Auto()
        Any, where families are scored quickly; else `Auto`, `SingleEdge`, or one of your own that says
        ``is_reversible = True``.
    steps : int, optional
        Structure steps in a sweep; as many as there are ordered pairs of columns, about, when left out, at least 100.
        Families that are scored quickly have those of `IncompleteSampler`.
    thin : int, optional
        As of `IncompleteSampler`.
    joint_proposal : int, default=3
        Structure steps on stale scores after which the graph is accepted or not; of families that are scored slowly.
    block : int, default=16
        Missing cells of a column that are offered new values together.
    fresh : int, optional
        Single-edge moves on scores of today in a sweep; 4 for each column when left out, 0 where families are scored
        quickly.
    with_cells : int, optional
        Candidate edges in a sweep that are offered with new values of a column
        (`doxa.structure.cases.incomplete.edges_with_cells`), unless cells are summed out; one for four columns when
        left out, none where the move is not reversible: what it has begun with a graph it ends with that graph.
    summed_out : int, optional
        Proposals in a sweep in which the missing cells are summed out (`doxa.structure.cases.incomplete.summed_out`);
        8 when left out where they can be and the move is reversible, else 0.  Only chains at an
        inverse temperature of 1 make them.
    n_references : int, default=4
    keep_within : float, default=6.0
        As of `IncompleteSampler`; where families are scored quickly.
    beta : float, default=1.0
        Inverse temperature: the target is the joint posterior of graph and cells to this power.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a number is not whole or too small, or the move is another one.
    """

    data: IncompleteData
    limits: Limits
    move: StructureMove = USUAL_MOVE
    steps: int = None  # type: ignore[assignment]  # filled in below: it needs the data
    thin: int = None  # type: ignore[assignment]  # likewise
    joint_proposal: int = 3
    block: int = 16
    fresh: int = None  # type: ignore[assignment]  # likewise
    with_cells: int = None  # type: ignore[assignment]  # likewise
    summed_out: int = None  # type: ignore[assignment]  # likewise
    n_references: int = 4
    keep_within: float = 6.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if self.steps is None:
            usual = usual_steps(self.data.n_nodes, lists=self.move.uses_table, quick=self.is_quick)
            object.__setattr__(self, "steps", usual)
        if self.fresh is None:
            object.__setattr__(self, "fresh", 0 if self.is_quick else _FRESH_A_NODE * self.data.n_nodes)
        is_reversible = getattr(self.move, "is_reversible", False)
        if self.with_cells is None:
            object.__setattr__(self, "with_cells", -(-self.data.n_nodes // _NODES_AN_EDGE) if is_reversible else 0)
        if self.summed_out is None:
            object.__setattr__(self, "summed_out", _SUMMED_OUT if is_reversible and can_sum_out(self.data) else 0)
        for name in ("steps", "joint_proposal", "block", "fresh", "with_cells", "summed_out", "n_references"):
            least = int(name not in ("with_cells", "fresh", "summed_out"))
            object.__setattr__(self, name, check_whole(name, getattr(self, name), least))
        self.check_thin()
        if not (self.is_quick or is_reversible):
            others = "family='categorical'" if self.data.table.numbers is None else "family='conditional_gaussian'"
            raise ArgumentError(
                f"sampler is {self.move!r}, which cannot be combined with missing cells and {self.data.score.name} "
                f"families, as its steps are not reversible; take Auto() or SingleEdge(), or {others}"
            )

    @property
    def is_quick(self) -> bool:
        """Whether the graph moves on scores of the completion at hand (`doxa.structure.cases.incomplete.graph_moves`);
        else by stale scores, and what the scores of today say of it.
        """
        return self.data.score.is_quick

    @property
    def sums_out(self) -> bool:
        """Whether sweeps have proposals in which the missing cells are summed out, and so draw these all at once."""
        return self.summed_out > 0 and self.beta == 1.0

    def lists(self) -> FamilyLists:
        """Listed families, where they are scored quickly; the work space is the caller's own."""
        from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain  # compiled on import

        by_edges = ScoredCellsSampler(self.data, self.limits, SingleEdge())

        def redraw(
            rows: NDArray[np.uint64], cells: NDArray[Any], sweeps: int, rng: np.random.Generator
        ) -> NDArray[Any]:
            chain = ScoredChain(by_edges, by_edges.start_at(rows, cells))
            for _ in range(sweeps):
                if not (by_edges.sums_out and chain.sum_cells_out(0, rng)):
                    chain.redraw_cells(rng)
            return chain.cells

        return shared_lists(self.data, self.limits, self.n_references, self.keep_within, redraw, _MOST_SETS)[0]

    def likely_cells(self, rng: np.random.Generator) -> NDArray[Any]:
        """Each from the values that its column has elsewhere; hidden columns by clusters of the rows."""
        cells, missing_cells = super().likely_cells(rng), self.data.missing_cells
        for column in missing_cells.hidden.tolist():
            cells[missing_cells.column == column] = _clusters(missing_cells, cells, column, rng)
        return cells

    def ascended(self, cells: NDArray[Any]) -> FamilyScores:
        """Those of the completion, or the stale scores, which are made in any case where scoring is slow."""
        if self.is_quick:
            return super().ascended(cells)
        return reference_scores(self.data, self.limits)

    def chain_at(self, state: StructureState) -> ScoredChain:
        """A chain that stands there, and its work space."""
        from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain  # compiled on import

        return ScoredChain(self, state)
