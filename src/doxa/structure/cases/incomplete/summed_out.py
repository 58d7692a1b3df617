r"""Changes of the graph with the missing cells summed out, and coefficients in their place.

Edges and missing cells hold each other up: cells that were drawn with an edge speak for it.  Given a graph G and the
coefficients :math:`\theta` of its families, Gaussian regressions and probabilities of categories
(`doxa.structure.cases.incomplete.coefficients`), the rows are independent, and the missing cells of each can be summed
out: state by state, and numbers, which given the categories have a normal distribution, in closed form.  So a sweep

- draws :math:`\theta` from its posterior given graph and completion,
- forgets the missing cells z, and changes graph and coefficients under
  :math:`p(G)\, p(\theta \mid G)\, p(x \mid G, \theta)`, x being what was observed,
- draws the missing cells anew from :math:`p(z \mid G, \theta, x)`, all those of a row at once.

Each keeps the joint posterior of G, :math:`\theta` and z, and what is left of it without :math:`\theta` is that of the
sampler.  Of a row whose missing categories have more than `MOST_STATES` states together, only some are summed out; the
others stand still meanwhile, as if observed, and are offered other states as in
`doxa.structure.cases.incomplete.scored_sweeps`.

**Proposals.**  The *frozen* posterior f is that of a complete table (`doxa.structure.cases.incomplete.frozen`).  A few
steps of a move that is reversible for f lead from G to G'; where families differ, coefficients are drawn from f given
G'.  With :math:`L_f` the likelihood of that table, :math:`f(G, \theta) \propto p(G)\, p(\theta \mid G)\, L_f(\theta)`.
So in the ratio of the two targets the priors and the densities of the draws cancel.  What is proposed is taken with
probability

.. math:: \min\Big\{1, \frac{p(x \mid G', \theta')\, L_f(\theta)}{p(x \mid G, \theta)\, L_f(\theta')}\Big\}.

It is exact whatever the table.  Where no category is missing, families of categories have the same score in both
posteriors, and no coefficients.

Of 20 numbers with a tenth of the cells blank, four of five proposals of a few steps are taken, and half of those of
some hundred, after which little is left of the graph before.

**What was observed.**  With residuals :math:`e = A x - c` of the numbers of a completed row, A with ones on the
diagonal and minus the slopes, V the residual variances, :math:`K = A^T V^{-1} A` and :math:`y = A^T V^{-1} e`, M the
missing numbers,

.. math::

    \ln p(x_O) = \ln p(x) + \tfrac12\, y_M^T K_{MM}^{-1} y_M - \tfrac12 \ln |K_{MM}| + \tfrac{|M|}{2} \ln 2 \pi,

whatever stands in the missing cells, which given the others are :math:`N(x_M - K_{MM}^{-1} y_M, K_{MM}^{-1})`.  A and V
are those of the row's categories: rows are taken by their *pattern* of these, and where some are summed out, state by
state.

A graph in which a family has more than `MOST_CONFIGURATIONS` configurations of categories is neither proposed nor left.

Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.structure.cases.incomplete.coefficients import (
    LOG_2PI,
    MOST_CONFIGURATIONS,
    Coefficients,
    Prior,
    Rows,
    copy_family,
    draw_family,
    find_residuals,
    label_rows,
    log_frozen,
    log_states,
    n_configurations,
    no_coefficients,
)
from doxa.structure.cases.incomplete.frozen import (
    frozen_posterior,
    missing_numbers,
    rule_of,
    solve_in_place,
    summed_categories,
)
from doxa.structure.cases.incomplete.missing_cells import MissingCells
from doxa.structure.cases.incomplete.proposals import REFUSED, SAME, TAKEN, propose, standing_space
from doxa.structure.families.cache import local_scores
from doxa.structure.families.counting import weighing_scratch
from doxa.structure.families.gaussian.box import gaussian_work
from doxa.structure.families.logistic.mode import solve_transposed
from doxa.structure.graph import WorkingGraph
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import no_parent_sets
from doxa.structure.moves.sampler import work_without_draws

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain

__all__ = ["CellsSummedOut"]

_STEPS_A_COLUMN = (2, 12)  # of the move before coefficients are drawn: few are taken more often, many lead farther


@by_address
class OpenRows(NamedTuple):
    """Rows with categories that are summed out, and work space."""

    row: Ints  # (n_open,): numbers of incomplete rows
    first: Ints  # (n_open + 1,): where the categories of a row begin in `column`
    column: Ints  # (n_summed,)
    log_weight: Floats  # (most states of a row,): of the states of the row at hand, together with what was observed


@by_address
class SummedWork(NamedTuple):
    """Work space of one chain."""

    columns: NDArray[np.int16]  # (n_nodes, n_rows): of the completion; what stands in missing cells is changed
    rows: NDArray[np.int16]  # (n_incomplete, n_nodes): the same
    values: Floats  # (n_nodes, n_rows): the same
    weights: Floats  # (n_rows,): 0 where categories are summed out
    n_states: Ints  # (n_nodes,)
    n_complete: int
    first: Ints  # (n_incomplete + 1,): where the missing numbers of a row begin in `column`
    column: Ints  # (n_missing numbers,)
    is_number: Ints  # (n_nodes,)
    open: OpenRows
    first_of_pattern: Ints  # (n_patterns + 1,): where the other rows without a number begin, by their categories
    by_pattern: Ints  # (n_lacking,): these rows
    log_likelihood: Floats  # (1,): of what was observed, under the graph that stands and its coefficients
    residuals: Floats  # (n_nodes, n_rows)
    label: Ints  # (n_nodes,): configurations in the row or pattern at hand
    slopes: Floats  # (n_nodes, n_nodes): of a node (row) on its parents, and 0; likewise
    inverse: Floats  # (n_nodes,): of the residual variances, likewise
    precision: Floats  # (n_nodes, n_nodes): K
    matrix: Floats  # (n_nodes, n_nodes)
    gradient: Floats  # (n_nodes,)


@by_address
class Offered(NamedTuple):
    """The coefficients that stand with a graph, and what the offer of another needs."""

    standing: tuple[Words, Words, Floats, Ints]  # `standing_space`
    coefficients: Coefficients
    fresh: Coefficients  # the same between offers
    frozen: Rows
    prior: Prior
    work: SummedWork
    today: Rows  # the completion


class CellsSummedOut:
    """What a chain needs for it, once; see the module's notes.

    Parameters
    ----------
    chain : ScoredChain
        Of data that `can_sum_out`, at an inverse temperature of 1.
    """

    def __init__(self, chain: ScoredChain) -> None:
        data, completion = chain.data, chain.completion
        (n, n_rows), rows, is_number = completion.numbers.shape, chain.parents, data.table.is_number
        self._limits, self._move, self._stands = chain.limits, chain.move, chain.limits.one_graph
        rule, self._frozen = rule_of(data), frozen_posterior(data, chain.limits)
        no_table = no_parent_sets(n, rows.shape[1])
        self._table = parent_sets(self._frozen.scores, chain.limits, 1.0) if chain.move.uses_table else no_table
        n_complete, first, column = missing_numbers(data.missing_cells)
        opened, self.sums_all = _open_rows(data.missing_cells)
        cases = completion.weights.astype(np.float64)
        weights = cases.copy()
        weights[n_complete + opened.row] = 0
        lacking = np.setdiff1d(np.flatnonzero(np.diff(first)), opened.row)
        work = SummedWork(
            completion.columns, completion.rows, completion.numbers, weights, completion.n_states, n_complete, first,
            column, is_number.astype(np.int64), opened,
            *_patterns(lacking, completion.rows[:, ~is_number]), np.zeros(1), np.zeros((n, n_rows)),
            np.zeros(n, dtype=np.int64), np.zeros((n, n)), np.zeros(n), np.zeros((n, n)), np.zeros((n, n)), np.zeros(n),
        )  # fmt: skip
        frozen, today = (
            Rows((columns, counts, completion.n_states), gaussian_work(values, is_number, spread),
                 weighing_scratch(len(counts)), np.zeros(len(counts)))
            for columns, counts, values, spread in (
                self._frozen[1:], (completion.columns, cases, completion.numbers, None)
            )
        )  # fmt: skip
        self.most = 1 if is_number.all() else min(MOST_CONFIGURATIONS, n_rows)  # so that none is numbered anew
        standing, fresh = (
            no_coefficients(n, n_rows, len(self._frozen.counts), self.most, int(completion.n_states.max()))
            for _ in range(2)
        )
        prior = Prior(rule.mean_weight, rule.freedom, rule.scale, rule.log_weight)
        self._offered = Offered(standing_space(rows), standing, fresh, frozen, prior, work, today)
        self._advance, self._offer = chain.advance, data.address_of(offer)
        self._begin, self._draw_cells = data.address_of(begin), data.address_of(draw_cells)
        self.done = np.zeros(2, dtype=np.int64)  # proposals of other graphs, and those taken

    def can_begin(self, parents: NDArray[np.uint64]) -> bool:
        """Whether no family of the graph has too many configurations."""
        return _are_few(parents, self.most, self._offered.work)

    def run(self, graph: WorkingGraph, proposals: int, rng: np.random.Generator) -> None:
        """So many proposals from a graph that `can_begin`, in place; the cells are drawn anew."""
        offered, local = self._offered, np.empty(len(graph.parents))
        with self._frozen.scores.borrow() as (cache, scoring):
            settled(local_scores, scoring.address)(graph[0], cache.arrays, scoring, local)
            self._begin(graph[0], offered, rng)
            work = work_without_draws(graph, local, 1.0, self._limits, cache.arrays, scoring, self._table)
            steps = np.array(_STEPS_A_COLUMN) * len(local)
            lengths = rng.choice(steps, size=0 if self._stands else proposals)
            propose(self._move, work, lengths, cache, (self._offer, offered), self.done, self._advance, rng)
            self._draw_cells(offered.coefficients, offered.work, rng)


def _patterns(rows: Ints, categories: NDArray[np.int16]) -> tuple[Ints, Ints]:
    """Some incomplete rows by their categories, (n_incomplete, n_categories): where a pattern's begin, and the rows."""
    pattern = np.zeros(len(rows), dtype=np.int64)
    if len(rows) and categories.shape[1]:
        pattern = np.unique(categories[rows], axis=0, return_inverse=True)[1].ravel()
    return np.append(0, np.cumsum(np.bincount(pattern))), rows[np.argsort(pattern, kind="stable")]


def _open_rows(missing_cells: MissingCells) -> tuple[OpenRows, bool]:
    """The categories that are summed out, and whether these are all that are missing."""
    is_category, n_states = ~missing_cells.is_number, missing_cells.n_states
    rows = np.unique(missing_cells.row[is_category])
    first, most = [0], 1
    columns: list[int] = []
    for i in rows.tolist():
        here = slice(missing_cells.first[i], missing_cells.first[i + 1])
        summed = summed_categories(missing_cells.column[here][is_category[here]].tolist(), n_states)
        columns += summed
        first.append(len(columns))
        most = max(most, math.prod(n_states[summed].tolist()))
    opened = OpenRows(rows, np.array(first, dtype=np.int64), np.array(columns, dtype=np.int64), np.zeros(most))
    return opened, len(columns) == is_category.sum()


@hot
def has_coefficients(node: int, work: SummedWork) -> bool:
    """Whether a family has coefficients: those of categories only where some are summed out."""
    return work.is_number[node] != 0 or work.open.row.size > 0


@hot
def _are_few(parents: Words, most: int, work: SummedWork) -> bool:
    """Whether no family with coefficients has more configurations than that."""
    for node in range(parents.shape[0]):
        if has_coefficients(node, work) and n_configurations(parents[node], work.is_number, work.n_states) > most:
            return False
    return True


@hot
def begin(parents: Words, offered: Offered, rng: np.random.Generator) -> None:
    """Draw the coefficients of a graph given the completion; their likelihood."""
    coefficients, today, work = offered.coefficients, offered.today, offered.work
    for node in range(parents.shape[0]):
        if has_coefficients(node, work):
            label_rows(node, parents[node], coefficients, today.data, offered.frozen)
            draw_family(node, parents[node], coefficients, coefficients.label, today, offered.prior, rng)
            copy_family(node, coefficients, offered.fresh)
    work.log_likelihood[0] = log_observed(coefficients, work)


@hot
def offer(parents: Words, local: Floats, offered: Offered, rng: np.random.Generator) -> int:  # noqa: ARG001
    """Offer a graph, with new coefficients where families differ, as `doxa.structure.cases.incomplete.proposals` asks.

    Its scores under the frozen posterior, ``local``, cancel.
    """
    standing, fresh, frozen, work = offered.coefficients, offered.fresh, offered.frozen, offered.work
    before, most, log_ratio, any_differs, taken = offered.standing[0], standing.variances.shape[1], 0.0, False, True
    for node in range(parents.shape[0]):
        if not _differs(node, parents, before):
            continue
        any_differs = True
        if not has_coefficients(node, work):
            continue
        taken = taken and n_configurations(parents[node], work.is_number, work.n_states) <= most
        if taken:
            log_ratio += log_frozen(node, standing, frozen)
            label_rows(node, parents[node], fresh, offered.today.data, frozen)
            draw_family(node, parents[node], fresh, fresh.frozen_label, frozen, offered.prior, rng)
            log_ratio -= log_frozen(node, fresh, frozen)
    if not any_differs:
        return SAME
    if taken:
        log_likelihood = log_observed(fresh, work)
        taken = accepts(rng, log_ratio + log_likelihood - work.log_likelihood[0])
        if taken:
            work.log_likelihood[0] = log_likelihood
    for node in range(parents.shape[0]):
        if _differs(node, parents, before) and has_coefficients(node, work):
            if taken:
                copy_family(node, fresh, standing)
            else:
                copy_family(node, standing, fresh)
    return TAKEN if taken else REFUSED


@hot
def _differs(node: int, parents: Words, others: Words) -> bool:
    for w in range(parents.shape[1]):
        if parents[node, w] != others[node, w]:
            return True
    return False


@hot
def log_observed(coefficients: Coefficients, work: SummedWork) -> float:
    """Log likelihood (nats) of what was observed; see the module's notes."""
    total = _log_rows(coefficients, work)
    for pattern in range(work.first_of_pattern.size - 1):
        begin_of_pattern, end = work.first_of_pattern[pattern], work.first_of_pattern[pattern + 1]
        _take_categories(work.rows[work.by_pattern[begin_of_pattern]], coefficients, work)
        for at in range(begin_of_pattern, end):
            total += _log_summed(_factorise_row(work.by_pattern[at], work), work)
    for k in range(work.open.row.size):
        total += _weigh_states(k, coefficients, work)
    return total


@hot
def _log_rows(coefficients: Coefficients, work: SummedWork) -> float:
    """Residuals of all rows as they stand, and the log likelihood (nats) of those without summed categories."""
    total = 0.0
    for node in range(work.is_number.size):
        if work.is_number[node] != 0:
            rows = (work.values, work.weights)
            total += find_residuals(node, coefficients, coefficients.label, rows, work.residuals[node])
        elif work.open.row.size > 0:
            total += log_states(node, coefficients, coefficients.label, work.columns, work.weights)
    return total


@hot
def _log_summed(n_cells: int, work: SummedWork) -> float:
    """What is gained by summing out the cells of the row that was factorised last."""
    total = 0.5 * n_cells * LOG_2PI
    for s in range(n_cells):
        total += 0.5 * work.gradient[s] ** 2 - math.log(work.matrix[s, s])
    return total


@hot
def _weigh_states(k: int, coefficients: Coefficients, work: SummedWork) -> float:
    """Log probability (nats) of what was observed in an open row, with each state of its missing categories noted."""
    n_states, most, total = _states_of(k, work), -np.inf, 0.0
    for number in range(n_states):
        _put_states(k, number, work)
        work.open.log_weight[number] = _log_row(work.open.row[k], coefficients, work)
        most = max(most, work.open.log_weight[number])
    for number in range(n_states):
        total += math.exp(work.open.log_weight[number] - most)
    return most + math.log(total)


@hot
def _states_of(k: int, work: SummedWork) -> int:
    """How many states the missing categories of an open row have together."""
    found = 1
    for at in range(work.open.first[k], work.open.first[k + 1]):
        found *= work.n_states[work.open.column[at]]
    return found


@hot
def _put_states(k: int, number: int, work: SummedWork) -> None:
    """The states with this number, into the row."""
    i = work.open.row[k]
    for at in range(work.open.first[k], work.open.first[k + 1]):
        column = work.open.column[at]
        work.rows[i, column] = number % work.n_states[column]
        number //= work.n_states[column]


@hot
def _log_row(i: int, coefficients: Coefficients, work: SummedWork) -> float:
    """Log probability (nats) of an incomplete row as it stands, without its missing numbers."""
    total, row = 0.0, work.n_complete + i
    _take_categories(work.rows[i], coefficients, work)
    for node in range(work.is_number.size):
        label = work.label[node]
        if work.is_number[node] == 0:
            total += coefficients.log_shares[node, label, work.rows[i, node]]
            continue
        residual = work.values[node, row] - coefficients.intercepts[node, label]
        for j in range(coefficients.n_parents[node]):
            residual -= coefficients.slopes[node, label, j] * work.values[coefficients.parents[node, j], row]
        work.residuals[node, row] = residual
        total += 0.5 * (math.log(work.inverse[node]) - LOG_2PI - residual**2 * work.inverse[node])
    return total + _log_summed(_factorise_row(i, work), work)


@hot
def draw_cells(coefficients: Coefficients, work: SummedWork, rng: np.random.Generator) -> None:
    """Draw all cells that are summed out, given what was observed and the coefficients."""
    _log_rows(coefficients, work)
    for pattern in range(work.first_of_pattern.size - 1):
        begin_of_pattern, end = work.first_of_pattern[pattern], work.first_of_pattern[pattern + 1]
        _take_categories(work.rows[work.by_pattern[begin_of_pattern]], coefficients, work)
        for at in range(begin_of_pattern, end):
            _draw_numbers(work.by_pattern[at], work, rng)
    for k in range(work.open.row.size):
        i = work.open.row[k]
        log_total, left, number = _weigh_states(k, coefficients, work), rng.random(), 0
        left -= math.exp(work.open.log_weight[0] - log_total)
        while left >= 0.0 and number < _states_of(k, work) - 1:
            number += 1
            left -= math.exp(work.open.log_weight[number] - log_total)
        _put_states(k, number, work)
        for at in range(work.open.first[k], work.open.first[k + 1]):
            column = work.open.column[at]
            work.columns[column, work.n_complete + i] = work.rows[i, column]
        _log_row(i, coefficients, work)
        _draw_numbers(i, work, rng)


@hot
def _draw_numbers(i: int, work: SummedWork, rng: np.random.Generator) -> None:
    """Draw the missing numbers of a row, whose categories were taken last: from N(x - K^-1 y, K^-1)."""
    n_cells, begin_of_row, row, vector = _factorise_row(i, work), work.first[i], work.n_complete + i, work.gradient
    for s in range(n_cells - 1, -1, -1):
        vector[s] = rng.standard_normal() - vector[s]
    solve_transposed(work.matrix, n_cells, vector)
    for s in range(n_cells):
        work.values[work.column[begin_of_row + s], row] += vector[s]


@hot
def _take_categories(states: NDArray[np.int16], coefficients: Coefficients, work: SummedWork) -> None:
    """Configurations, slopes, variances and the precision of a row with these categories."""
    slopes, precision = work.slopes, work.precision
    slopes[:] = 0.0
    precision[:] = 0.0
    for node in range(work.is_number.size):
        label = 0
        for k in range(coefficients.n_above[node]):
            above = coefficients.above[node, k]
            label = label * work.n_states[above] + states[above]
        work.label[node] = label
        if work.is_number[node] == 0:
            continue
        inverse = 1.0 / coefficients.variances[node, label]
        work.inverse[node] = inverse
        precision[node, node] += inverse
        for k in range(coefficients.n_parents[node]):
            a, slope = coefficients.parents[node, k], coefficients.slopes[node, label, k]
            slopes[node, a] = slope
            precision[node, a] -= inverse * slope
            precision[a, node] -= inverse * slope
            for j in range(coefficients.n_parents[node]):
                precision[a, coefficients.parents[node, j]] += inverse * slope * coefficients.slopes[node, label, j]


@hot
def _factorise_row(i: int, work: SummedWork) -> int:
    """Cholesky's factor L of the precision of the row's missing cells, and what L takes to y; how many cells."""
    begin_of_row, row = work.first[i], work.n_complete + i
    n_cells: int = work.first[i + 1] - begin_of_row
    for s in range(n_cells):
        cell = work.column[begin_of_row + s]
        gradient = work.residuals[cell, row] * work.inverse[cell]
        for node in range(work.inverse.size):
            if work.slopes[node, cell] != 0.0:
                gradient -= work.slopes[node, cell] * work.residuals[node, row] * work.inverse[node]
        for t in range(s + 1):
            work.matrix[s, t] = work.precision[cell, work.column[begin_of_row + t]]
        work.gradient[s] = gradient
    solve_in_place(work.matrix, work.gradient, n_cells)
    return n_cells
