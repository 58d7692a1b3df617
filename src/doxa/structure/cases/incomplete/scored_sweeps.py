r"""One chain of the sampler for any kind of family: a completion, a graph, and their sweeps.

A column's missing cells are offered together, from regressions and tables that were fitted without them.

Let c be a column, and its families its own and its children's.  Each of these is fitted, by its mode or as a table, to
the rows in which c is observed.  So the fit, and with it the probability

.. math:: k_i(s) \propto \prod_{f \ni c} \hat p_f(x_i \mid x_{ic} = s)

of state s in row i, says nothing of what the missing cells of c hold, and given all other columns the rows are
independent.  A block b of them is drawn from k, a share of it spread evenly, and accepted with probability

.. math:: \min\Big\{1, \prod_f e^{s_f(X') - s_f(X)} \prod_{i \in b} \frac{k_i(x_{ic})}{k_i(x'_{ic})}\Big\},

with :math:`s_f` the scores of the families, computed afresh on the completion X' and kept for X.  Where nothing changes
nothing is computed.  A fit is close to what the score says of one case more, so most offers are taken, and a block
costs as much as a single cell.  At an inverse temperature below 1 the scores are taken to that power, and the offers
are the same.

In a share of the visits every block has a fit of its own, to all other rows, what their missing cells hold included.
Cells that start far off hold each other there, for offers that know nothing of them are narrower than the score; so
they leave block by block.  And a hidden column, of which no row says anything, has no other offers.

Numbers are also offered one by one, from wider distributions than the fit's: see `redraw_numbers`.

Where rows are moments with their past, a missing cell stands in several rows (`shared_cells`).  Its k is then a product
over all of these, fits leave all of them out, and its scores are those of all families that one of its copies is in.
Cells that stand in a row together, as present and past of a column, are offered one after the other, phase by phase.

Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Words
from doxa.structure.cases.incomplete.category_regressions import (
    CategoryFits,
    category_fits,
    fit_category,
    log_probability,
)
from doxa.structure.cases.incomplete.graph_moves import GraphDraws, GraphMoves, standing_still
from doxa.structure.cases.incomplete.missing_cells import Completion, MissingCells
from doxa.structure.cases.incomplete.proposals import Today, offer_today, propose, standing_space
from doxa.structure.cases.incomplete.regressions import (
    Regressions,
    fit_regression,
    is_own,
    log_density,
    offer_number,
    regressions,
)
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler, reference_scores
from doxa.structure.cases.incomplete.shared_cells import is_touched, later_row, set_number, set_shared
from doxa.structure.cases.incomplete.sweeping_chain import SweepingChain, named_counts
from doxa.structure.families.cache import FamilyScores, ScoreCache, Scoring, counted_log_score, local_scores
from doxa.structure.families.family_weights import score_families
from doxa.structure.families.gaussian.box import BGE_RULE, GaussianRule
from doxa.structure.families.kind import raise_caught
from doxa.structure.families.logistic.mode import find_mode
from doxa.structure.families.logistic.softplus import softplus
from doxa.structure.families.logistic.work import MOST_PARENTS, LogisticWork, gather_cells, logistic_work
from doxa.structure.graph import has_bit
from doxa.structure.moves.auto import advance_auto, advance_edges
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import ParentSets, no_parent_sets
from doxa.structure.moves.sampler import StructureState, run_steps, work_without_draws
from doxa.structure.moves.single_edge import SingleEdge, log_proposals

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.summed_out import CellsSummedOut

__all__ = [
    "CellWork",
    "ScoredChain",
    "cell_work",
    "draw_state",
    "exchange_labels",
    "first_of_phase",
    "fit_column",
    "freedom_of",
    "is_number_column",
    "list_rows",
    "redraw_column",
    "sweep_columns",
    "weigh_rows",
]

_NOTHING, _LOGISTIC, _TABLE, _REGRESSION, _OF_CATEGORY = 0, 1, 2, 3, 4
_MOST_COUNTS = 4096  # cells of a family that is fitted as a table; larger ones say nothing
_CASE = 0.5  # prior weight of a cell of such a table, in cases
_PRIOR = GaussianRule(BGE_RULE, 1.0, 2.0, 0.5, 1.0, 0.0)  # of regressions, where the score has none
_AFRESH = 0.25  # of the visits to a column
_ALONE, _WIDEST = 0.15, math.log(30.0)  # of the other visits to numbers; the logarithm of how much wider at most
_EVEN = 0.02  # share of the offers that is spread evenly: what they are accepted by is bounded


@by_address
class CellWork(NamedTuple):
    """Work space of one chain."""

    scale: float  # of the prior of the regressions
    block: int  # cells that are offered together
    beta: float  # inverse temperature
    local: NDArray[np.float64]  # (n_nodes,): scores of the graph's families
    done: NDArray[np.int64]  # (2,): blocks offered that differed from what stood, and those of them accepted
    logistic: LogisticWork
    weights: NDArray[np.int64]  # (n_rows,): cases of the rows in which the column is observed
    kind: NDArray[np.int64]  # (n_nodes,): how a family is fitted
    first: NDArray[np.int64]  # (n_columns + 1,): where the rows without a column begin
    cut: NDArray[np.int64]  # (n_columns, n_phases + 1): where those of a phase begin; one phase, if no row has a past
    is_hidden: NDArray[np.int64]  # (n_nodes,): whether a column has no value
    listed: NDArray[np.int64]  # (n_missing,): incomplete rows, column by column, rising
    row: NDArray[np.int64]  # (n_missing,): the same, those of a column in some order
    n_parents: NDArray[np.int64]  # (n_nodes,)
    parents: NDArray[np.int64]  # (n_nodes, MOST_PARENTS)
    theta: NDArray[np.float64]  # (n_nodes, MOST_PARENTS + 1)
    counts: NDArray[np.float64]  # (n_nodes, _MOST_COUNTS)
    log_offer: NDArray[np.float64]  # (most rows without a column, most states): log k
    before: NDArray[np.int64]  # (most rows without a column,)
    fresh: NDArray[np.float64]  # (n_nodes,): scores
    numbers: Regressions
    categories: CategoryFits
    old: NDArray[np.float64]  # (most rows without a column,): numbers


def cell_work(
    missing_cells: MissingCells,
    scale: float = 2.0,
    block: int = 16,
    beta: float = 1.0,
    values: NDArray[np.float64] | None = None,
    rule: GaussianRule | None = None,
) -> CellWork:
    """Fresh work space; ``values`` are the numbers of the completion, ``rule`` what their families have for a prior."""
    n, n_rows = missing_cells.base.shape
    scaling = missing_cells.numbers
    is_number = np.zeros(0, dtype=np.bool_) if scaling is None else np.asarray(~np.isnan(scaling.scale))
    values = np.zeros((0, 0)) if values is None else values
    rows, columns, phase, n_phases = missing_cells.row, missing_cells.column, np.zeros(0, dtype=np.int64), 1
    if missing_cells.shared is not None:
        owners = missing_cells.shared.owner == np.arange(len(rows))
        rows, columns, n_phases = rows[owners], columns[owners], missing_cells.shared.n_phases
        phase = missing_cells.shared.phase[rows]
    order = np.lexsort((rows, columns * n_phases + phase if n_phases > 1 else columns))
    first = np.searchsorted(columns[order], np.arange(n + 1)).astype(np.int64)
    cut = np.stack([first[:-1], first[1:]], axis=1)
    if n_phases > 1:
        keys = np.arange(n)[:, None] * n_phases + np.arange(n_phases + 1)
        cut = np.searchsorted((columns * n_phases + phase)[order], keys).astype(np.int64)
    longest = int(np.diff(first).max(initial=0))
    most = min(MOST_PARENTS, n)
    is_hidden = np.zeros(n, dtype=np.int64)
    is_hidden[missing_cells.hidden] = 1
    return CellWork(
        scale, block, beta, np.zeros(n), np.zeros(2, dtype=np.int64),
        logistic_work(n_rows, n), np.zeros(n_rows, dtype=np.int64), np.zeros(n, dtype=np.int64), first, cut,
        is_hidden, rows[order].astype(np.int64), rows[order].astype(np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros((n, most), dtype=np.int64), np.zeros((n, most + 1)), np.zeros((n, _MOST_COUNTS)),
        np.zeros((longest, int(missing_cells.n_states.max()))), np.zeros(longest, dtype=np.int64), np.zeros(n),
        regressions(values, is_number, _PRIOR if rule is None else rule, _MOST_COUNTS),
        category_fits(is_number, missing_cells.n_states, n_rows), np.zeros(longest),
    )  # fmt: skip


@hot
def sweep_columns(
    parents: Words, completion: Completion, scoring: Scoring, work: CellWork, numbers: bool, rng: np.random.Generator
) -> None:
    """Offer every missing cell a new value, column by column, in blocks of rows in random order.

    ``parents`` are bit sets, ``work.local`` the scores of their families; ``numbers`` says whether numbers are offered.
    """
    for column in range(completion.n_states.size):
        is_offered = numbers if is_number_column(column, work) else completion.n_states[column] > 1
        if work.first[column] == work.first[column + 1] or not is_offered:
            continue
        list_rows(column, work)
        for phase in range(work.cut.shape[1] - 1):
            begin = first_of_phase(column, phase, work)
            for place in range(first_of_phase(column, phase + 1, work) - 1, begin, -1):
                other = begin + int(rng.random() * (place - begin + 1))
                work.row[place], work.row[other] = work.row[other], work.row[place]
        if is_number_column(column, work):
            redraw_numbers(column, parents, completion, scoring, work, rng)
        else:
            redraw_column(column, parents, completion, scoring, work, rng)


@hot
def list_rows(column: int, work: CellWork) -> None:
    """Put the rows without the column in rising order: with that of before, a run in parts would be another run."""
    for place in range(work.first[column], work.first[column + 1]):
        work.row[place] = work.listed[place]


@hot
def first_of_phase(column: int, phase: int, work: CellWork) -> int:
    """Where the rows without the column begin that have this phase; of the phase after the last, where they end."""
    return int(work.cut[column, phase])


@hot
def is_number_column(column: int, work: CellWork) -> bool:
    """Whether a column holds numbers."""
    is_number = work.numbers.gaussian.is_number
    return bool(is_number.size > 0 and is_number[column] != 0)


@hot
def freedom_of(work: CellWork) -> float:
    """Degrees of freedom of the offers of numbers: as many as rows were fitted last, from 4 to 100."""
    n_cases = 0
    for row in range(work.weights.size):
        n_cases += work.weights[row]
    return min(100.0, max(4.0, float(n_cases)))


@hot
def _is_below_numbers(parents: Words, work: CellWork) -> bool:
    is_number = work.numbers.gaussian.is_number
    for node in range(is_number.size):
        if is_number[node] != 0 and parents[node // 64] >> np.uint64(node % 64) & np.uint64(1) != np.uint64(0):
            return True
    return False


@hot
def redraw_column(
    column: int, parents: Words, completion: Completion, scoring: Scoring, work: CellWork, rng: np.random.Generator
) -> None:
    """Offer the column's missing cells new values, ``work.block`` rows at a time, in the order of ``work.row``."""
    afresh = rng.random() < _AFRESH or work.is_hidden[column] != 0
    if not afresh:
        fit_column(column, work.first[column], work.first[column + 1], parents, completion, work)
    for phase in range(work.cut.shape[1] - 1):
        _redraw_phase(column, phase, afresh, parents, completion, scoring, work, rng)


@hot
def _redraw_phase(
    column: int, phase: int, afresh: bool, parents: Words, completion: Completion, scoring: Scoring, work: CellWork,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """`redraw_column` of the cells that stand in no row together."""
    first, end = first_of_phase(column, phase, work), first_of_phase(column, phase + 1, work)
    if not afresh:
        weigh_rows(column, first, end, parents, completion, work)
    for begin in range(first, end, work.block):
        last = min(begin + work.block, end)
        if afresh:
            fit_column(column, begin, last, parents, completion, work)
            weigh_rows(column, begin, last, parents, completion, work)
        log_ratio, changed = 0.0, False
        for place in range(begin, last):
            i, k = work.row[place], place - work.first[column]
            old = np.int64(completion.rows[i, column])
            new = draw_state(work.log_offer, k, completion.n_states[column], rng)
            work.before[k] = old
            if new != old:
                changed = True
                log_ratio += work.log_offer[k, old] - work.log_offer[k, new]
                set_shared(i, column, new, completion)
        if changed and not _accepted(column, log_ratio, parents, completion, scoring, work, rng):
            for place in range(begin, last):
                set_shared(work.row[place], column, work.before[place - work.first[column]], completion)


@hot
def redraw_numbers(
    column: int, parents: Words, completion: Completion, scoring: Scoring, work: CellWork, rng: np.random.Generator
) -> None:
    """As `redraw_column`, for a column of numbers; in a share of the visits one by one, from wider offers.

    Cells that lie far off widen the scatter in the score, and not in a fit without them, whose own offers then hardly
    ever replace them; wider ones do.  How wide is drawn whatever stands, so that each width keeps the target.
    """
    afresh = rng.random() < _AFRESH
    block, wider = work.block, 1.0
    if not afresh:
        fit_column(column, work.first[column], work.first[column + 1], parents, completion, work)
        if rng.random() < _ALONE:
            block, wider = 1, math.exp(rng.random() * _WIDEST)
    for phase in range(work.cut.shape[1] - 1):
        _redraw_numbers_of(column, phase, (afresh, block, wider), parents, completion, scoring, work, rng)


@hot
def _redraw_numbers_of(
    column: int, phase: int, how: tuple[bool, int, float], parents: Words, completion: Completion, scoring: Scoring,
    work: CellWork, rng: np.random.Generator,
) -> None:  # fmt: skip
    """`redraw_numbers` of the cells that stand in no row together; ``how`` is whether afresh, how many, how wide."""
    afresh, block, wider = how
    first, end = first_of_phase(column, phase, work), first_of_phase(column, phase + 1, work)
    for begin in range(first, end, block):
        last = min(begin + block, end)
        if afresh:
            fit_column(column, begin, last, parents, completion, work)
        freedom = freedom_of(work)
        log_ratio = 0.0
        for place in range(begin, last):
            i = work.row[place]
            centre, scale = offer_number(column, i, parents, completion, work.numbers, work.categories)
            scale *= wider
            old = completion.numbers[column, completion.n_complete + i]
            new = centre + scale * rng.standard_t(freedom)
            was, now = (old - centre) / scale, (new - centre) / scale
            log_ratio += 0.5 * (freedom + 1.0) * (math.log1p(now * now / freedom) - math.log1p(was * was / freedom))
            work.old[place - work.first[column]] = old
            set_number(i, column, new, completion)
        if not _accepted(column, log_ratio, parents, completion, scoring, work, rng):
            for place in range(begin, last):
                set_number(work.row[place], column, work.old[place - work.first[column]], completion)


@hot
def exchange_labels(
    column: int, parents: Words, completion: Completion, scoring: Scoring, work: CellWork, rng: np.random.Generator
) -> None:
    """Offer to exchange two states of a hidden column, whose names mean nothing, in all rows."""
    r = completion.n_states[column]
    a, b = int(rng.random() * r), int(rng.random() * r)
    if a == b:
        return
    _swap(column, a, b, completion)
    if not _accepted(column, 0.0, parents, completion, scoring, work, rng):
        _swap(column, a, b, completion)


@hot
def _swap(column: int, a: int, b: int, completion: Completion) -> None:
    for i in range(completion.rows.shape[0]):
        state = completion.rows[i, column]
        if state in (a, b):
            set_shared(i, column, a + b - state, completion)


@hot
def _accepted(
    column: int, log_ratio: float, parents: Words, completion: Completion, scoring: Scoring, work: CellWork,
    rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Whether new cells of a column are taken, given the log ratio of their offers; if so with their scores."""
    local = work.local
    work.done[0] += 1
    for node in range(local.size):
        if is_touched(node, column, parents, completion):
            work.fresh[node] = counted_log_score(node, parents[node], scoring)
            log_ratio += work.beta * (work.fresh[node] - local[node])
    if not accepts(rng, log_ratio):
        return False
    work.done[1] += 1
    for node in range(local.size):
        if is_touched(node, column, parents, completion):
            local[node] = work.fresh[node]
    return True


@hot
def draw_state(log_offer: Floats, k: int, r: int, rng: np.random.Generator) -> int:
    """A state of the column in the k-th row without it, by the probabilities of `weigh_rows`."""
    left = rng.random()
    for state in range(r - 1):
        left -= math.exp(log_offer[k, state])
        if left < 0.0:
            return state
    return r - 1


@hot
def fit_column(column: int, begin: int, end: int, parents: Words, completion: Completion, work: CellWork) -> None:
    """Fit the column's families to all rows but these of the incomplete ones, which stand in ``work.row``."""
    n = completion.n_states.size
    _weigh_own_rows(column, column, begin, end, completion, work)
    for node in range(n):
        if not is_touched(node, column, parents, completion):
            continue
        if completion.interventions.size > 0:
            _weigh_own_rows(node, column, begin, end, completion, work)
        if is_number_column(node, work):
            fitted = fit_regression(node, parents[node], completion, work.weights, work.numbers)
            work.kind[node] = _REGRESSION if fitted else _NOTHING
            work.numbers.is_fitted[node] = fitted
            continue
        if _is_below_numbers(parents[node], work):
            fitted = fit_category(node, parents[node], completion, work.weights, work.categories)
            work.kind[node] = _OF_CATEGORY if fitted else _NOTHING
            work.numbers.is_fitted[node] = fitted
            continue
        binary, size, n_parents = completion.n_states[node] == 2, completion.n_states[node], 0
        for w in range(parents.shape[1]):
            word = parents[node, w]
            while word != np.uint64(0):
                parent = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                if n_parents < work.parents.shape[1]:
                    work.parents[node, n_parents] = parent
                binary = binary and completion.n_states[parent] <= 2
                size = min(size * completion.n_states[parent], _MOST_COUNTS + 1)
                n_parents += 1
        work.n_parents[node] = n_parents
        if n_parents > work.parents.shape[1]:
            work.kind[node] = _NOTHING
        elif binary:
            work.kind[node] = _LOGISTIC
            _fit_regression(node, parents[node], completion, work)
        elif size <= _MOST_COUNTS:
            work.kind[node] = _TABLE
            _count_table(node, n_parents, size, completion, work)
        else:
            work.kind[node] = _NOTHING


@hot
def _weigh_own_rows(node: int, column: int, begin: int, end: int, completion: Completion, work: CellWork) -> None:
    """Cases of the rows that a fit of the node's family is made from, without the column's cells in these rows."""
    for row in range(work.weights.size):
        work.weights[row] = completion.weights[row] if is_own(node, row, completion) else 0
    for place in range(begin, end):
        row, at = work.row[place], column
        while row >= 0 and at < completion.n_states.size:
            work.weights[completion.n_complete + row] = 0
            row, at = later_row(row, completion), at + completion.width


@hot
def _fit_regression(node: int, parents: Words, completion: Completion, work: CellWork) -> None:
    data = (completion.columns, work.weights, completion.n_states)
    n_cells, n_parents = gather_cells(node, parents, data, work.logistic)
    find_mode(n_cells, n_parents, work.scale, completion.columns, work.logistic)
    work.n_parents[node] = n_parents  # those that vary
    for j in range(n_parents):
        work.parents[node, j] = work.logistic.parents[j]
    for j in range(n_parents + 1):
        work.theta[node, j] = work.scale * work.logistic.mean[j]


@hot
def _count_table(node: int, n_parents: int, size: int, completion: Completion, work: CellWork) -> None:
    for cell in range(size):
        work.counts[node, cell] = _CASE
    for row in range(work.weights.size):
        if work.weights[row] > 0:
            cell = 0
            for j in range(n_parents):
                parent = work.parents[node, j]
                cell = cell * completion.n_states[parent] + completion.columns[parent, row]
            work.counts[node, cell * completion.n_states[node] + completion.columns[node, row]] += work.weights[row]


@hot
def weigh_rows(column: int, begin: int, end: int, parents: Words, completion: Completion, work: CellWork) -> None:
    """Log probabilities of the offers for these of the rows without the column, into ``work.log_offer``."""
    first, r = work.first[column], completion.n_states[column]
    for place in range(begin, end):
        i, k = work.row[place], place - first
        most = -np.inf
        for state in range(r):
            total, row, at = 0.0, i, column
            while row >= 0 and at < completion.n_states.size:
                for node in range(completion.n_states.size):
                    if node == at or has_bit(parents, node, at):
                        total += _log_fitted(node, at, state, row, completion, work)
                row, at = later_row(row, completion), at + completion.width
            work.log_offer[k, state] = total
            most = max(most, total)
        total = 0.0
        for state in range(r):
            work.log_offer[k, state] = math.exp(work.log_offer[k, state] - most)
            total += work.log_offer[k, state]
        for state in range(r):
            work.log_offer[k, state] = math.log((1.0 - _EVEN) * work.log_offer[k, state] / total + _EVEN / r)


@hot
def _log_fitted(node: int, column: int, state: int, i: int, completion: Completion, work: CellWork) -> float:
    """Log probability of the node's own cell in incomplete row i under the fit, with this state in the column."""
    codes, n_states = completion.rows[i], completion.n_states
    if not is_own(node, completion.n_complete + i, completion):
        return 0.0  # what the node holds there is no news of its parents
    if work.kind[node] == _REGRESSION:
        return log_density(node, i, column, state, completion, work.numbers)
    if work.kind[node] == _OF_CATEGORY:
        return log_probability(node, i, column, state, completion, work.categories)
    own = state if node == column else np.int64(codes[node])
    if work.kind[node] == _LOGISTIC:
        h = work.theta[node, 0]
        for j in range(work.n_parents[node]):
            parent = work.parents[node, j]
            value = state if parent == column else np.int64(codes[parent])
            h += work.theta[node, j + 1] if value != 0 else -work.theta[node, j + 1]
        return -softplus(-h if own != 0 else h)
    if work.kind[node] == _TABLE:
        cell = 0
        for j in range(work.n_parents[node]):
            parent = work.parents[node, j]
            cell = cell * n_states[parent] + (state if parent == column else np.int64(codes[parent]))
        total = 0.0
        for k in range(n_states[node]):
            total += work.counts[node, cell * n_states[node] + k]
        return math.log(work.counts[node, cell * n_states[node] + own] / total)
    return 0.0


_MOST_BYTES = 2**26  # of scores that a part of a sweep keeps
_SCALE = 2.0  # of the prior of the cells' fits, where the score has none of its own


class ScoredChain(SweepingChain):
    """See the module's notes.

    Parameters
    ----------
    sampler : ScoredCellsSampler
    state : StructureState
        Where the chain stands.
    stale : FamilyScores, optional
        Scores that joint proposals are made by, where families are scored slowly; `reference_scores` when left out.
    """

    def __init__(self, sampler: ScoredCellsSampler, state: StructureState, stale: FamilyScores | None = None) -> None:
        data = sampler.data
        super().__init__(data, sampler.limits, sampler.move, state, sampler.beta)
        kind = data.score.own
        scale = float(getattr(kind, "prior_scale", _SCALE))
        rule, numbers = None, data.missing_cells.numbers
        if numbers is not None:
            rule = kind.gaussian_rule(int((~np.isnan(numbers.scale)).sum()), data.table.n_rows)
        self.work = cell_work(data.missing_cells, scale, sampler.block, sampler.beta, self.completion.numbers, rule)
        self.local, self.blocks_done = self.work.local, self.work.done
        self._sampler, self._state, self._stale = sampler, state, stale
        self._table: ParentSets | None = None  # of the stale scores, made when the graph first moves
        self._of_today: ScoreCache | None = None  # made when single edges first move by scores of today
        self.moves: GraphMoves | None = None  # made when the graph first moves: lists are made by chains, too
        self.advance = data.address_of(advance_edges if isinstance(self.move, SingleEdge) else advance_auto)
        self.offer = data.address_of(offer_today)
        self.graphs_done = np.zeros(2, dtype=np.int64)  # joint proposals: elsewhere, accepted
        self.steps_done = np.zeros(2, dtype=np.int64)  # single edges by scores of today: proposed, accepted
        self.edges_done = np.zeros(2, dtype=np.int64)  # the same, with the cells of a column
        self.summed_done = np.zeros(2, dtype=np.int64)  # proposals with the missing cells summed out
        self._summed: CellsSummedOut | None = None  # made when the graph first moves, as ``moves``
        self._score(range(data.n_nodes), self.parents, self.local)

    def stand_at(self, state: StructureState) -> None:
        """As `SweepingChain.stand_at`."""
        super().stand_at(state)
        self._state = state
        if self.moves is not None:
            self.moves.stand_at(state)
        for done in self._done().values():
            done[:] = 0
        self._score(range(self.data.n_nodes), self.parents, self.local)

    @property
    def parents(self) -> NDArray[np.uint64]:
        """Parents of each node, as bit sets."""
        return self.graph[0]

    def begin_sweep(self, rng: np.random.Generator) -> None:
        """Change edges by the scores of today, and graphs with their cells: summed out, or else edge by edge."""
        if self._sampler.fresh:
            self.move_afresh(self._sampler.fresh, rng)
        if not self._sampler.sums_out:
            self.move_edges(self._sampler.with_cells, rng)
        elif not self.sum_cells_out(self._sampler.summed_out, rng):
            self.move_edges(self._sampler.with_cells, rng)
            self.redraw_cells(rng)

    def end_sweep(self, rng: np.random.Generator) -> bool:
        """Redraw the cells: last, for cells that start well may find a graph before they change.

        Where they are drawn all at once at the beginning of the next sweep, they need not be.
        """
        if not self._sampler.sums_out:
            self.redraw_cells(rng)
        return not self._sampler.sums_out

    def state(self) -> StructureState:
        """Where the chain stands, but for its place in the sweep."""
        if self.moves is None:
            return self._sampler.start_at(self.rows, self.cells)
        return self.moves.state(self.rows, self.cells)

    def _done(self) -> dict[str, NDArray[np.int64]]:
        return {
            "": self.graphs_done, "fresh_": self.steps_done, "edges_": self.edges_done, "summed_": self.summed_done,
            "blocks_": self.blocks_done,
        }  # fmt: skip

    def counts(self) -> dict[str, int]:
        """``proposed`` and ``accepted`` joint proposals that changed the graph and single-edge moves by the scores of
        today (``fresh_proposed``, ``fresh_accepted``) or with cells (``edges_proposed``, ``edges_accepted``), proposals
        with the missing cells summed out (``summed_proposed``, ``summed_accepted``), and ``blocks_proposed`` and
        ``blocks_accepted`` offers of cells that changed some.

        Raises what a kind of family of one's own raised.
        """
        raise_caught(self.scorer)
        return named_counts(self._done())

    def redraw_cells(self, rng: np.random.Generator, *, numbers: bool = True) -> None:
        """Offer every missing cell a new value, numbers if asked, and exchange labels of hidden columns."""
        self.is_scored = False
        settled(sweep_columns, self.scoring.address)(
            self.parents, self.completion, self.scoring, self.work, numbers, rng
        )
        exchange = settled(exchange_labels, self.scoring.address)
        for column in self.data.missing_cells.hidden.tolist():
            exchange(column, self.parents, self.completion, self.scoring, self.work, rng)

    def move_graph(self, steps: int, rng: np.random.Generator, draws: GraphDraws | None = None) -> None:
        """So many steps of the move, on scores of today or in joint proposals."""
        if self._sampler.is_quick:
            self._move_by_lists(steps, rng, draws)
            return
        if draws is None:
            self._move_by_stale_scores(steps, rng)
            return
        for place in range(steps // draws.thin):
            self._move_by_stale_scores(draws.thin, rng)
            draws.keep(self.rows, self.local, place, place + 1)

    def _move_by_stale_scores(self, steps: int, rng: np.random.Generator) -> None:
        n, words = self.rows.shape
        stale = reference_scores(self.data, self.limits) if self._stale is None else self._stale
        if self._table is None:
            listed = self.move.uses_table
            self._table = parent_sets(stale, self.limits, self.beta) if listed else no_parent_sets(n, words)
        with stale.borrow() as (cache, scoring):
            local, length = np.empty(n), self._sampler.joint_proposal
            settled(local_scores, scoring.address)(self.graph[0], cache.arrays, scoring, local)
            work = work_without_draws(self.graph, local, self.beta, self.limits, cache.arrays, scoring, self._table)
            lengths = np.full(-(-steps // length), length)
            lengths[-1] -= lengths.sum() - steps
            today = Today(self.scoring, self.beta, self.local, np.zeros(n), standing_space(self.parents))
            propose(self.move, work, lengths, cache, (self.offer, today), self.graphs_done, self.advance, rng)

    def _move_by_lists(self, steps: int, rng: np.random.Generator, draws: GraphDraws | None) -> None:
        if self.moves is None:
            lists = self._sampler.lists() if self.move.uses_table else None
            self.moves = GraphMoves(self.limits, self.move, lists, self._state, self.beta)
            self.graphs_done = self.moves.done
        with standing_still(self.scorer):
            if not self.is_scored:
                self.moves.score_afresh(self.graph, self.completion, self.scoring, self.local)
                self.is_scored = True
            self.moves.run(self.graph, self.local, self.scoring, steps, rng, draws)

    def move_afresh(self, steps: int, rng: np.random.Generator) -> None:
        """So many single-edge moves by the scores of the completion at hand."""
        if self._of_today is None:
            self._of_today = ScoreCache(len(self.local), _MOST_BYTES)
        cache, no_lists = self._of_today, no_parent_sets(*self.rows.shape)
        cache.forget()
        work = work_without_draws(self.graph, self.local, self.beta, self.limits, cache.arrays, self.scoring, no_lists)
        run_steps(SingleEdge(), work._replace(thin=steps + 1, info=self.steps_done), steps, cache, rng)

    def move_edges(self, steps: int, rng: np.random.Generator) -> None:
        """So many candidate edges, each with the missing cells of one of its nodes."""
        from doxa.structure.cases.incomplete.edges_with_cells import move_edges

        n, data = len(self.local), (self.completion, self.scoring)
        lists = np.zeros((2, n * (n - 1) // 2), dtype=np.int64), log_proposals(n)
        self.is_scored = False
        self.edges_done += settled(move_edges, self.scoring.address)(
            self.graph, self.limits, lists, *data, self.work, steps, rng
        )

    def sum_cells_out(self, proposals: int, rng: np.random.Generator) -> bool:
        """So many proposals with the missing cells summed out, and new cells; False if the graph is none for it."""
        from doxa.structure.cases.incomplete.summed_out import CellsSummedOut

        if self._summed is None:
            self._summed = CellsSummedOut(self)
            self.summed_done = self._summed.done
        if not self._summed.can_begin(self.parents):
            return False
        self.is_scored = False
        self._summed.run(self.graph, proposals, rng)
        self._score(range(self.data.n_nodes), self.parents, self.local)
        if not self._summed.sums_all:
            self.redraw_cells(rng, numbers=False)
        return True

    def _score(self, nodes: Any, parents: NDArray[np.uint64], scores: NDArray[np.float64]) -> None:
        """Scores of these nodes' families on the completion at hand."""
        score = settled(score_families, self.scoring.address)
        for node in nodes:
            score(int(node), parents[node : node + 1], self.scoring, scores[node : node + 1])
