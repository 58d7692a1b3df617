r"""One chain's work space for the sampler with logistic families: a completion, a graph, and their sweeps.

Missing cells where families may be logistic: a column's cells are offered together, from regressions without them.

Let c be a column, and its families its own and its children's.  Each of these is fitted, by its mode or as a table, to
the rows in which c is observed.  So the fit, and with it the probability

.. math:: k_i(s) \propto \prod_{f \ni c} \hat p_f(x_i \mid x_{ic} = s)

of state s in row i, says nothing of what the missing cells of c hold, and given all other columns the rows are
independent.  A block b of them is drawn from k, a share of it spread evenly, and accepted with probability

.. math:: \min\Big\{1, \prod_f e^{s_f(X') - s_f(X)} \prod_{i \in b} \frac{k_i(x_{ic})}{k_i(x'_{ic})}\Big\},

with :math:`s_f` the scores of the families, computed afresh on the completion X' and kept for X.  Where nothing changes
nothing is computed.  A fit is close to what the score says of one case more, so most offers are taken, and a block
costs as much as a single cell.

Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.structure.cases.incomplete.blocks import set_cell
from doxa.structure.cases.incomplete.missing_cells import MissingCells, completion_of
from doxa.structure.families.cache import ScoreCache, local_weights
from doxa.structure.families.counting import counting_scratch
from doxa.structure.families.family_weights import score_families
from doxa.structure.families.logistic.mode import find_mode
from doxa.structure.families.logistic.softplus import softplus
from doxa.structure.families.logistic.work import MOST_PARENTS, LogisticWork, gather_cells, logistic_work
from doxa.structure.families.scores import family_log_marginal
from doxa.structure.graph import has_bit, working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.parent_sets import no_parent_sets
from doxa.structure.moves.sampler import StructureMove, StructureSampler, Work
from doxa.structure.moves.single_edge import SingleEdge
from doxa.structure.priors import family_log_prior

__all__ = [
    "CellWork",
    "LogisticTurns",
    "cell_work",
    "fit_column",
    "redraw_column",
    "score_family",
    "sweep_columns",
    "weigh_rows",
]

_NOTHING, _LOGISTIC, _TABLE = 0, 1, 2
_MOST_COUNTS = 4096  # cells of a family that is fitted as a table; larger ones say nothing
_CASE = 0.5  # prior weight of a cell of such a table, in cases
_EVEN = 0.02  # share of the offers that is spread evenly: what they are accepted by is bounded


class CellWork(NamedTuple):
    """Work space of one chain."""

    logistic: LogisticWork
    weights: NDArray[np.int64]  # (n_rows,): cases of the rows in which the column is observed
    kind: NDArray[np.int64]  # (n_nodes,): how a family is fitted
    first: NDArray[np.int64]  # (n_columns + 1,): where the rows without a column begin
    listed: NDArray[np.int64]  # (n_missing,): incomplete rows, column by column, rising
    row: NDArray[np.int64]  # (n_missing,): the same, those of a column in some order
    n_parents: NDArray[np.int64]  # (n_nodes,)
    parents: NDArray[np.int64]  # (n_nodes, MOST_PARENTS)
    theta: NDArray[np.float64]  # (n_nodes, MOST_PARENTS + 1)
    counts: NDArray[np.float64]  # (n_nodes, _MOST_COUNTS)
    log_chance: NDArray[np.float64]  # (most rows without a column, most states): log k
    before: NDArray[np.int64]  # (most rows without a column,)
    fresh: NDArray[np.float64]  # (n_nodes,): scores


def cell_work(missing_cells: MissingCells) -> CellWork:
    """Fresh work space."""
    n, n_rows = missing_cells.base.shape
    order = np.lexsort((missing_cells.row, missing_cells.column))
    first = np.searchsorted(missing_cells.column[order], np.arange(n + 1)).astype(np.int64)
    longest = int(np.diff(first).max(initial=0))
    most = min(MOST_PARENTS, n)
    return CellWork(
        logistic_work(n_rows, n), np.zeros(n_rows, dtype=np.int64), np.zeros(n, dtype=np.int64), first,
        missing_cells.row[order].astype(np.int64), missing_cells.row[order].astype(np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros((n, most), dtype=np.int64), np.zeros((n, most + 1)), np.zeros((n, _MOST_COUNTS)),
        np.zeros((longest, int(missing_cells.n_states.max()))), np.zeros(longest, dtype=np.int64), np.zeros(n),
    )  # fmt: skip


@hot
def score_family(node: int, parents: Any, scoring: Any) -> float:
    """Score and log prior of a family on the completion that ``scoring`` holds."""
    score = family_log_marginal(node, parents, scoring[0], scoring[1], scoring[3])
    return score + family_log_prior(node, parents, scoring[2])


@hot
def sweep_columns(
    parents: Any, completion: Any, scoring: Any, scale: float, work: Any, local: Any, block: int, info: Any,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Offer every missing cell a new value, column by column, in blocks of rows in random order.

    ``parents`` are bit sets, ``local`` the scores of their families; ``info`` counts blocks that differed from what
    stood, and those of them that were accepted.
    """
    for column in range(completion.n_states.size):
        if completion.n_states[column] < 2 or work.first[column] == work.first[column + 1]:
            continue
        for place in range(work.first[column], work.first[column + 1]):
            work.row[place] = work.listed[place]  # the order before says nothing: a run in parts is the unbroken one
        for place in range(work.first[column + 1] - 1, work.first[column], -1):
            other = work.first[column] + int(rng.random() * (place - work.first[column] + 1))
            work.row[place], work.row[other] = work.row[other], work.row[place]
        redraw_column(column, parents, completion, scoring, scale, work, local, block, info, rng)


@hot
def redraw_column(
    column: int, parents: Any, completion: Any, scoring: Any, scale: float, work: Any, local: Any, block: int,
    info: Any, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Offer the column's missing cells new values, ``block`` rows at a time, in the order of ``work.row``."""
    fit_column(column, parents, completion, scale, work)
    weigh_rows(column, parents, completion, work)
    first, end = work.first[column], work.first[column + 1]
    for begin in range(first, end, block):
        last = min(begin + block, end)
        log_ratio, changed = 0.0, False
        for place in range(begin, last):
            i, k = work.row[place], place - first
            old = np.int64(completion.rows[i, column])
            new = _draw(work.log_chance, k, completion.n_states[column], rng)
            work.before[k] = old
            if new != old:
                changed = True
                log_ratio += work.log_chance[k, old] - work.log_chance[k, new]
                set_cell(i, column, new, completion)
        if not changed:
            continue
        info[0] += 1
        for node in range(local.size):
            if node == column or has_bit(parents, node, column):
                work.fresh[node] = score_family(node, parents[node], scoring)
                log_ratio += work.fresh[node] - local[node]
        if accepts(rng, log_ratio):
            info[1] += 1
            for node in range(local.size):
                if node == column or has_bit(parents, node, column):
                    local[node] = work.fresh[node]
        else:
            for place in range(begin, last):
                set_cell(work.row[place], column, work.before[place - first], completion)


@hot
def _draw(log_chance: Any, k: int, r: int, rng: np.random.Generator) -> int:
    left = rng.random()
    for state in range(r - 1):
        left -= math.exp(log_chance[k, state])
        if left < 0.0:
            return state
    return r - 1


@hot
def fit_column(column: int, parents: Any, completion: Any, scale: float, work: Any) -> None:
    """Fit the column's families to the rows in which it is observed."""
    n = completion.n_states.size
    for row in range(work.weights.size):
        work.weights[row] = completion.weights[row]
    for place in range(work.first[column], work.first[column + 1]):
        work.weights[completion.n_complete + work.row[place]] = 0
    for node in range(n):
        if node != column and not has_bit(parents, node, column):
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
            _fit_regression(node, parents[node], completion, scale, work)
        elif size <= _MOST_COUNTS:
            work.kind[node] = _TABLE
            _count_table(node, n_parents, size, completion, work)
        else:
            work.kind[node] = _NOTHING


@hot
def _fit_regression(node: int, parents: Any, completion: Any, scale: float, work: Any) -> None:
    data = (completion.columns, work.weights, completion.n_states)
    n_cells, n_parents = gather_cells(node, parents, data, work.logistic)
    find_mode(n_cells, n_parents, scale, completion.columns, work.logistic)
    work.n_parents[node] = n_parents  # those that vary
    for j in range(n_parents):
        work.parents[node, j] = work.logistic.parents[j]
    for j in range(n_parents + 1):
        work.theta[node, j] = scale * work.logistic.mean[j]


@hot
def _count_table(node: int, n_parents: int, size: int, completion: Any, work: Any) -> None:
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
def weigh_rows(column: int, parents: Any, completion: Any, work: Any) -> None:
    """Log probabilities of the offers for every row without the column, into ``work.log_chance``."""
    first, r = work.first[column], completion.n_states[column]
    for place in range(first, work.first[column + 1]):
        i, k = work.row[place], place - first
        codes = completion.rows[i]
        most = -np.inf
        for state in range(r):
            total = 0.0
            for node in range(completion.n_states.size):
                if node == column or has_bit(parents, node, column):
                    total += _log_fitted(node, column, state, codes, completion.n_states, work)
            work.log_chance[k, state] = total
            most = max(most, total)
        total = 0.0
        for state in range(r):
            work.log_chance[k, state] = math.exp(work.log_chance[k, state] - most)
            total += work.log_chance[k, state]
        for state in range(r):
            work.log_chance[k, state] = math.log((1.0 - _EVEN) * work.log_chance[k, state] / total + _EVEN / r)


@hot
def _log_fitted(node: int, column: int, state: int, codes: Any, n_states: Any, work: Any) -> float:
    """Log probability of the node's own cell under the fit, with this state in the column."""
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
        """By what a joint proposal to these scores is accepted: the change of now less stale."""
        return float((fresh[changed] - self.local[changed]).sum()) - (stale_score - self.stale_score)

    def _score(self, nodes: Any, parents: NDArray[np.uint64], scores: NDArray[np.float64]) -> None:
        """Scores of these nodes' families on the completion at hand."""
        for node in nodes:
            score_families(int(node), parents[node : node + 1], self.scoring, scores[node : node + 1])
