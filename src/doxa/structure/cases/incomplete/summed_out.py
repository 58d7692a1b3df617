r"""Changes of the graph with the missing numbers summed out, and coefficients in their place.

Edges and missing cells hold each other up: numbers that were drawn with an edge speak for it.  Where all missing cells
are numbers, then given a graph G and the coefficients :math:`\theta` of its Gaussian regressions, one in each
configuration of a number's parents that are categories, the missing cells of a row have a normal distribution, and can
be summed out.  So a sweep

- draws :math:`\theta` from its posterior given graph and completion,
- forgets the completion, and changes graph and coefficients under
  :math:`p(G)\, p(\theta \mid G)\, p(x \mid G, \theta)`, x being what was observed,
- draws the missing cells anew from :math:`p(z \mid G, \theta, x)`, all those of a row at once.

Each keeps the joint posterior of G, :math:`\theta` and z, and what is left of it without :math:`\theta` is that of the
sampler.

**Proposals.**  The *frozen* posterior f is that of a complete table.  A few steps of a move that is reversible for f
lead from G to G'; where families of numbers differ, coefficients are drawn from f given G'.  With :math:`L_f` the
likelihood of that table, :math:`f(G, \theta) \propto p(G)\, p(\theta \mid G)\, L_f(\theta)`, and families of categories
have the same score as in the posterior.  So in the ratio of the two targets the priors and the densities of the draws
cancel.  What is proposed is taken with probability

.. math:: \min\Big\{1, \frac{p(x \mid G', \theta')\, L_f(\theta)}{p(x \mid G, \theta)\, L_f(\theta')}\Big\}.

It is exact whatever the table.  A good one has the mean and covariances of a normal distribution without any graph,
fitted to the table with its missing cells (the EM algorithm: Dempster, Laird & Rubin 1977).  Of numbers alone it is one
with these moments, and as many rows as two columns are observed together on average.  Beside categories, whose states
are columns of 0 and 1 then, it has the rows that there are, and the expected values, squares and products of what is
missing.

Of 20 numbers with a tenth of the cells blank, four of five proposals of a few steps are taken, and half of those of
some hundred, after which little is left of the graph before.

**What was observed.**  With residuals :math:`e = A x - c` of a completed row, A with ones on the diagonal and minus the
slopes, V the residual variances, :math:`K = A^T V^{-1} A` and :math:`y = A^T V^{-1} e`, M the missing cells,

.. math::

    \ln p(x_O) = \ln p(x) + \tfrac12\, y_M^T K_{MM}^{-1} y_M - \tfrac12 \ln |K_{MM}| + \tfrac{|M|}{2} \ln 2 \pi,

whatever stands in the missing cells, which given the others are :math:`N(x_M - K_{MM}^{-1} y_M, K_{MM}^{-1})`.  A and V
are those of the row's categories: rows are taken by their *pattern* of these.

A graph in which a number has parents of more than `MOST_CONFIGURATIONS` configurations is neither proposed nor left.

Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import Address
from doxa._jit import branching, hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.data import Table
from doxa.structure.cases.incomplete.missing_cells import (
    IncompleteData,
    completed_table,
    completion_of,
    read_cells,
)
from doxa.structure.cases.incomplete.proposals import REFUSED, SAME, TAKEN, propose, standing_space
from doxa.structure.cases.incomplete.scored_sampler import rows_together
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.counting import counting_scratch
from doxa.structure.families.gaussian.box import (
    GaussianBox,
    GaussianRule,
    add_up,
    factorise,
    gaussian_work,
    group_rows,
    sums_of_products,
)
from doxa.structure.families.gaussian.kinds import ConditionalGaussian
from doxa.structure.families.kind import Data
from doxa.structure.families.logistic.mode import solve, solve_transposed
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accepts, local_scores
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import no_parent_sets
from doxa.structure.moves.sampler import work_without_draws

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain

__all__ = ["MOST_CONFIGURATIONS", "FrozenPosterior", "NumbersSummedOut", "Rows", "frozen_posterior"]

MOST_CONFIGURATIONS = 64  # of the parents of a number that are categories: each has coefficients of its own
_ROUNDS, _SETTLED = 200, 1e-6  # of EM; the largest change of a mean or covariance, in standard deviations
_MOST_MOMENTS = 100  # columns of the normal distribution: without those of categories if there were more
_STEPS_A_COLUMN = (2, 12)  # of the move before coefficients are drawn: few are taken more often, many lead farther
_LOG_2PI = math.log(2.0 * math.pi)


@by_address
class Rows(NamedTuple):
    """A complete table, and work space of `draw_family`."""

    data: Data
    gaussian: Any  # `GaussianWork` of its numbers
    scratch: Any  # `CountingScratch`
    residuals: Floats  # (n_rows,)


class FrozenPosterior(NamedTuple):
    """The posterior that proposals come from, and its table: codes, counts and scaled numbers."""

    scores: FamilyScores
    columns: NDArray[np.int16]  # (n_nodes, n_rows)
    counts: Ints  # (n_rows,)
    values: Floats  # (n_nodes, n_rows)
    spread: Floats  # (n_last, n_nodes, n_nodes): covariances of the last rows, whose values are expected ones


@by_address
class Coefficients(NamedTuple):
    """Of the regressions of a graph, one in each configuration of a number's parents that are categories."""

    n_labels: Ints  # (n_nodes,): configurations
    label: Ints  # (n_nodes, n_rows): that of each row, if there are several
    n_parents: Ints  # (n_nodes,): parents that are numbers
    parents: Ints  # (n_nodes, n_nodes)
    slopes: Floats  # (n_nodes, most labels, n_nodes): on these parents
    intercepts: Floats  # (n_nodes, most labels)
    variances: Floats  # (n_nodes, most labels): of the residuals


@by_address
class SummedWork(NamedTuple):
    """Work space of one chain."""

    values: Floats  # (n_nodes, n_rows): of the completion; what stands in missing cells is changed by `draw_cells`
    weights: Ints  # (n_rows,)
    n_complete: int
    first: Ints  # (n_incomplete + 1,): where the missing cells of a row begin in `column`
    column: Ints  # (n_missing,)
    is_number: Ints  # (n_nodes,)
    first_of_pattern: Ints  # (n_patterns + 1,): where the incomplete rows with a pattern of categories begin
    by_pattern: Ints  # (n_incomplete,)
    parents: Words  # (n_nodes, n_words): of the graph that stands
    log_likelihood: Floats  # (1,): of what was observed, under that and its coefficients
    residuals: Floats  # (n_nodes, n_rows)
    slopes: Floats  # (n_nodes, n_nodes): of a node (row) on its parents, and 0; of the pattern at hand
    inverse: Floats  # (n_nodes,): of the residual variances, likewise
    precision: Floats  # (n_nodes, n_nodes): K
    matrix: Floats  # (n_nodes, n_nodes)
    gradient: Floats  # (n_nodes,)


Prior = tuple[float, float, float]  # alpha_mu, a and t of the rule


@by_address
class Offered(NamedTuple):
    """The coefficients that stand with a graph, and what the offer of another needs."""

    standing: tuple[Words, Words, Floats, Ints]  # `standing_space`
    coefficients: Coefficients
    fresh: Coefficients  # the same between offers
    frozen: Rows
    prior: Prior
    work: SummedWork


def frozen_posterior(data: IncompleteData, limits: Limits) -> FrozenPosterior:
    """Made once a process; it follows from the table and the limits alone."""
    made: FrozenPosterior = data.remember(
        "frozen posterior", limits, lambda: _with_moments(data) if data.table.is_number.all() else _expected(data)
    )
    return made


def _with_moments(data: IncompleteData) -> FrozenPosterior:
    """Of a table of one row more than columns, each as often, with the moments of `observed_moments`.

    The rows are those of a cosine transform, which are orthogonal to each other and to a constant.
    """
    n, scaling = data.n_nodes, data.missing_cells.numbers
    assert scaling is not None
    mean, covariance = observed_moments(*_to_fit(data), rule_of(data).scale)
    factor = covariance.copy()
    factorise(factor, n, 1e-12)
    k, rows = n + 1, np.arange(n + 1)
    waves = math.sqrt(2.0 / k) * np.cos(np.pi * (2 * rows + 1) * np.arange(1, k)[:, None] / (2 * k))
    values = np.empty((n, k))
    for i in range(n):
        values[i] = mean[i] + math.sqrt(k) * (factor[i, : i + 1, None] * waves[: i + 1]).sum(axis=0)
    counts = np.full(k, max(1, round(rows_together(data) / k)))
    as_they_are = scaling._replace(centre=np.zeros(n), scale=np.ones(n), transforms=(None,) * n)
    table = Table.from_codes(data.table.names, data.table.states, np.zeros((k, n), dtype=int), counts, values.T)
    scores = FamilyScores(table, data.score, data.prior, like=as_they_are)
    return FrozenPosterior(scores, np.zeros((n, k), dtype=np.int16), counts, values, np.zeros((0, n, n)))


@dataclass(frozen=True, eq=False)
class _Expected(ConditionalGaussian):
    """Scores by the expected sums of products of the last rows, whose numbers have these covariances."""

    spread: Any = None

    def scorer(
        self, data: tuple[NDArray[Any], ...], numbers: NDArray[np.float64] | None = None, *, fixed: bool = False
    ) -> GaussianBox:
        assert numbers is not None
        return GaussianBox(self, data, numbers, fixed=fixed, spread=self.spread)


def _expected(data: IncompleteData) -> FrozenPosterior:
    """Of the table with what its missing cells are expected to be, squares and products among it."""
    values, weights, cells = _to_fit(data)
    mean, covariance = observed_moments(values, weights, cells, rule_of(data).scale)
    m, n, numbers = len(mean), data.n_nodes, np.flatnonzero(data.table.is_number)
    _invert(covariance, np.zeros((m, m)))
    (n_complete, first, column), space = cells, (np.zeros((m, m)), np.zeros(m))
    spread = np.zeros((len(first) - 1, n, n))
    for i in range(len(spread)):
        of_row = np.zeros((m, m))
        _expect(values, (n_complete + i, first[i : i + 2], column), mean, covariance, of_row, space)
        spread[i][np.ix_(numbers, numbers)] = of_row[: len(numbers), : len(numbers)]
    completion = completion_of(data.missing_cells, values[column, n_complete + data.missing_cells.row])
    score = data.score
    assert isinstance(score, ConditionalGaussian)
    kind = _Expected(score.equivalent_sample_size, score.alpha_mu, score.alpha_w, spread)
    table = completed_table(data.table, data.missing_cells, read_cells(completion, data.missing_cells))
    scores = FamilyScores(table, kind, data.prior, like=data.missing_cells.numbers)
    # rows as they come: a table has equal ones once
    scores.data, scores.numbers = (completion.columns, completion.weights, completion.n_states), completion.numbers
    return FrozenPosterior(scores, completion.columns, completion.weights, completion.numbers, spread)


def rule_of(data: IncompleteData) -> GaussianRule:
    """The prior of the regressions."""
    made: GaussianRule = data.score.gaussian_rule(int(data.table.is_number.sum()), data.table.n_rows)
    return made


Cells = tuple[int, Ints, Ints]  # complete rows; where the missing cells of the others begin, and their columns


def _to_fit(data: IncompleteData) -> tuple[Floats, Ints, Cells]:
    """Columns of numbers, with 0 in missing cells, the mean of what is scaled, and of states but the first; cases."""
    missing_cells, is_number = data.missing_cells, data.table.is_number
    assert missing_cells.numbers is not None
    columns = list(np.nan_to_num(missing_cells.numbers.values[is_number]))
    states = [
        (missing_cells.base[j] == state).astype(np.float64)
        for j in np.flatnonzero(~is_number)
        for state in range(1, missing_cells.n_states[j])
    ]
    if len(columns) + len(states) <= _MOST_MOMENTS:
        columns += states
    place = np.cumsum(is_number) - 1
    cells = (missing_cells.n_complete, missing_cells.first, place[missing_cells.column])
    return np.array(columns), missing_cells.weights, cells


def observed_moments(values: Floats, weights: Ints, cells: Cells, ridge: float) -> tuple[Floats, Floats]:
    """Mean and covariances of a normal distribution fitted to what was observed, by EM; ``ridge`` is added to sums.

    Conditional means are left in the missing cells of ``values``, (n_columns, n_rows).  No matrix is multiplied by
    BLAS, which adds up in another order on another processor.
    """
    n, total = len(values), float(weights.sum())
    mean, covariance, spread, space = np.zeros(n), np.eye(n), np.zeros((n, n)), (np.zeros((n, n)), np.zeros(n))
    for _ in range(_ROUNDS):
        sums, new_mean = sums_of_products(values, weights)
        new_covariance = (sums + spread + ridge * np.eye(n)) / total
        change = max(np.abs(new_mean - mean).max(), np.abs(new_covariance - covariance).max())
        mean, covariance = new_mean, new_covariance
        if change < _SETTLED:
            break
        precision = covariance.copy()
        _invert(precision, space[0])
        spread[:] = 0.0
        _expect(values, cells, mean, precision, spread, space)
    return mean, covariance


class NumbersSummedOut:
    """What a chain needs for it, once; see the module's notes.

    Parameters
    ----------
    chain : ScoredChain
        Of data that `can_sum_out`, at an inverse temperature of 1.
    """

    def __init__(self, chain: ScoredChain) -> None:
        data, completion = chain.data, chain.completion
        (n, n_rows), rows, is_number = completion.numbers.shape, chain.parents, data.table.is_number
        self._limits, self._move, self._completion, self._is_number = chain.limits, chain.move, completion, is_number
        rule, self._frozen = rule_of(data), frozen_posterior(data, chain.limits)
        no_table = no_parent_sets(n, rows.shape[1])
        self._table = parent_sets(self._frozen.scores, chain.limits, 1.0) if chain.move.uses_table else no_table
        work = SummedWork(
            completion.numbers, completion.weights, completion.n_complete, completion.first, completion.column,
            is_number.astype(np.int64), *_patterns(completion.rows[:, ~is_number]), np.zeros_like(rows), np.zeros(1),
            np.zeros((n, n_rows)), np.zeros((n, n)), np.zeros(n), np.zeros((n, n)), np.zeros((n, n)), np.zeros(n),
        )  # fmt: skip
        self.most = 1 if is_number.all() else MOST_CONFIGURATIONS
        standing, fresh = (_no_coefficients(n, n_rows, self.most) for _ in range(2))
        frozen = self._rows(*self._frozen[1:])
        self._today = self._rows(completion.columns, completion.weights, completion.numbers)
        prior = (rule.mean_weight, rule.freedom, rule.scale)
        self._offered = Offered(standing_space(rows), standing, fresh, frozen, prior, work)
        self._advance, self._offer = chain.advance, Address(offer)
        self.done = np.zeros(2, dtype=np.int64)  # proposals of other graphs, and those taken

    def _rows(self, columns: NDArray[np.int16], counts: Ints, values: Floats, spread: Floats | None = None) -> Rows:
        data = (columns, counts, self._completion.n_states)
        work = gaussian_work(values, self._is_number, spread)
        return Rows(data, work, counting_scratch(len(counts)), np.zeros(len(counts)))

    def can_begin(self, parents: NDArray[np.uint64]) -> bool:
        """Whether no number of the graph has parents of too many configurations."""
        is_number, n_states = self._offered.work.is_number, self._completion.n_states
        nodes = np.flatnonzero(is_number).tolist()
        return all(n_configurations(parents[node], is_number, n_states) <= self.most for node in nodes)

    def run(self, rows: NDArray[np.uint64], proposals: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        """So many proposals from a graph that `can_begin`; where it ends, and all cells are drawn anew."""
        offered, graph, local = self._offered, working_graph(rows), np.empty(len(rows))
        with self._frozen.scores.borrow() as (cache, scoring):
            local_scores(graph, cache.arrays, scoring, local)
            begin(graph[0], self._today, offered, rng)
            work = work_without_draws(graph, local, 1.0, self._limits, cache.arrays, scoring, self._table)
            steps = np.array(_STEPS_A_COLUMN) * len(rows)
            lengths = rng.choice(steps, size=0 if self._limits.one_graph else proposals)
            propose(self._move, work, lengths, cache, (self._offer, offered), self.done, self._advance, rng)
            draw_cells(offered.coefficients, offered.work, rng)
        return graph[1]


def _patterns(categories: NDArray[np.int16]) -> tuple[Ints, Ints]:
    """Incomplete rows by their categories, (n_incomplete, n_categories): where each pattern's begin, and the rows."""
    pattern = np.zeros(len(categories), dtype=np.int64)
    if categories.shape[1]:
        pattern = np.unique(categories, axis=0, return_inverse=True)[1].ravel()
    return np.append(0, np.cumsum(np.bincount(pattern))), np.argsort(pattern, kind="stable").astype(np.int64)


def _no_coefficients(n: int, n_rows: int, most: int) -> Coefficients:
    counted, parents = np.zeros((2, n), dtype=np.int64), np.zeros((n, n), dtype=np.int64)
    label = np.zeros((n, n_rows), dtype=np.int64)
    return Coefficients(
        counted[0], label, counted[1], parents, np.zeros((n, most, n)), np.zeros((n, most)), np.ones((n, most))
    )


@hot
def n_configurations(parents: Words, is_number: Ints, n_states: Ints) -> int:
    """Of the parents that are categories."""
    found = 1
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if is_number[parent] == 0 and found <= MOST_CONFIGURATIONS:
                found *= n_states[parent]
    return found


@hot
def begin(parents: Words, today: Rows, offered: Offered, rng: np.random.Generator) -> None:
    """Draw the coefficients of a graph given the completion; their likelihood."""
    work = offered.work
    for node in range(parents.shape[0]):
        for w in range(parents.shape[1]):
            work.parents[node, w] = parents[node, w]
        if work.is_number[node] != 0:
            draw_family(node, parents[node], offered.coefficients, today, offered.prior, rng)
            _copy_family(node, offered.coefficients, offered.fresh)
    work.log_likelihood[0] = log_observed(offered.coefficients, work)


@hot
def offer(parents: Words, local: Floats, offered: Offered, rng: np.random.Generator) -> int:  # noqa: ARG001
    """Offer a graph, with new coefficients where families differ, as `doxa.structure.cases.incomplete.proposals` asks.

    Its scores under the frozen posterior, ``local``, cancel.
    """
    standing, fresh, frozen, work = offered.coefficients, offered.fresh, offered.frozen, offered.work
    most, log_ratio, any_differs, taken = standing.variances.shape[1], 0.0, False, True
    for node in range(parents.shape[0]):
        if not _differs(node, parents, work.parents):
            continue
        any_differs = True
        if work.is_number[node] == 0:
            continue
        taken = taken and n_configurations(parents[node], work.is_number, frozen.data[2]) <= most
        if taken:
            log_ratio += log_frozen(node, standing, frozen)
            draw_family(node, parents[node], fresh, frozen, offered.prior, rng)
            log_ratio -= log_frozen(node, fresh, frozen)
    if not any_differs:
        return SAME
    if taken:
        log_likelihood = log_observed(fresh, work)
        taken = accepts(rng, log_ratio + log_likelihood - work.log_likelihood[0])
        if taken:
            work.log_likelihood[0] = log_likelihood
    for node in range(parents.shape[0]):
        if not _differs(node, parents, work.parents):
            continue
        if work.is_number[node] != 0 and taken:
            _copy_family(node, fresh, standing)
        elif work.is_number[node] != 0:
            _copy_family(node, standing, fresh)
        if taken:
            for w in range(parents.shape[1]):
                work.parents[node, w] = parents[node, w]
    return TAKEN if taken else REFUSED


@hot
def _differs(node: int, parents: Words, others: Words) -> bool:
    for w in range(parents.shape[1]):
        if parents[node, w] != others[node, w]:
            return True
    return False


@hot
def _copy_family(node: int, source: Coefficients, target: Coefficients) -> None:
    target.n_labels[node], target.n_parents[node] = source.n_labels[node], source.n_parents[node]
    if source.n_labels[node] > 1:
        for row in range(source.label.shape[1]):
            target.label[node, row] = source.label[node, row]
    for k in range(source.n_parents[node]):
        target.parents[node, k] = source.parents[node, k]
    for label in range(source.n_labels[node]):
        for k in range(source.n_parents[node]):
            target.slopes[node, label, k] = source.slopes[node, label, k]
        target.intercepts[node, label] = source.intercepts[node, label]
        target.variances[node, label] = source.variances[node, label]


@hot
def draw_family(
    node: int, parents: Words, target: Coefficients, table: Rows, prior: Prior, rng: np.random.Generator
) -> None:
    r"""Draw a family's coefficients from their posterior given a complete table.

    In each configuration :math:`\sigma^2 \sim \mathrm{InvGamma}((N + a + p + 1) / 2, s / 2)`, slopes from
    :math:`N(R_{PP}^{-1} R_{Pi}, \sigma^2 R_{PP}^{-1})`, and the intercept about its mean shrunk by
    :math:`N / (N + \alpha_\mu)`; R and s as in `doxa.structure.families.gaussian.box`.
    """
    gaussian, p = table.gaussian, 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if gaussian.is_number[parent] != 0:
                gaussian.members[p] = parent
                target.parents[node, p] = parent
                p += 1
    gaussian.members[p] = node
    target.n_parents[node] = p
    n_labels = group_rows(parents, table.data, table.scratch, gaussian)
    target.n_labels[node] = n_labels
    if n_labels > 1:  # then the rows are those of the completion
        for row in range(target.label.shape[1]):
            target.label[node, row] = table.scratch[0][row]
    for label in range(n_labels):
        if gaussian.first[label] < gaussian.first[label + 1]:
            _draw_regression(node, label, p, target, table, prior, rng)


@hot
def _draw_regression(
    node: int, label: int, p: int, target: Coefficients, table: Rows, prior: Prior, rng: np.random.Generator
) -> None:
    (mean_weight, freedom, scale), gaussian = prior, table.gaussian
    matrix, slopes = gaussian.matrix, target.slopes[node, label]
    n_cases = add_up(gaussian.first[label], gaussian.first[label + 1], p + 1, table.data[1], gaussian)
    shrunk = n_cases * mean_weight / (n_cases + mean_weight)
    for i in range(p + 1):
        for j in range(i + 1):
            matrix[i, j] += shrunk * gaussian.mean[i] * gaussian.mean[j]
        matrix[i, i] += scale
    factorise(matrix, p + 1, scale)
    variance = 0.5 * matrix[p, p] ** 2 / rng.standard_gamma(0.5 * (n_cases + freedom + p + 1.0))
    deviation, centre = math.sqrt(variance), gaussian.mean[p]
    for i in range(p - 1, -1, -1):
        slope = matrix[p, i] + deviation * rng.standard_normal()
        for k in range(i + 1, p):
            slope -= matrix[k, i] * slopes[k]
        slopes[i] = slope / matrix[i, i]
        centre -= slopes[i] * gaussian.mean[i]
    weight = n_cases + mean_weight
    target.intercepts[node, label] = centre * n_cases / weight + deviation * rng.standard_normal() / math.sqrt(weight)
    target.variances[node, label] = variance


@hot
def log_frozen(node: int, coefficients: Coefficients, table: Rows) -> float:
    """Log likelihood (nats) of one family's coefficients in the complete table, expected where that is."""
    gaussian, weights = table.gaussian, table.data[1]
    total = _log_complete(node, coefficients, gaussian.values, weights, table.residuals)
    first = weights.size - gaussian.spread.shape[0]
    p, parents = coefficients.n_parents[node], coefficients.parents[node]
    for row in range(first, weights.size):
        label = coefficients.label[node, row] if coefficients.n_labels[node] > 1 else 0
        slopes, spread = coefficients.slopes[node, label], gaussian.spread[row - first]
        square = spread[node, node]
        for i in range(p):
            square -= 2.0 * slopes[i] * spread[node, parents[i]]
            for j in range(p):
                square += slopes[i] * slopes[j] * spread[parents[i], parents[j]]
        total -= 0.5 * weights[row] * square / coefficients.variances[node, label]
    return total


@hot
def _log_complete(node: int, coefficients: Coefficients, values: Floats, weights: Ints, residuals: Floats) -> float:
    """The same, of the rows as they stand, and their residuals."""
    slopes, parents, n_rows = coefficients.slopes[node], coefficients.parents[node], weights.size
    intercepts, variances, total = coefficients.intercepts[node], coefficients.variances[node], 0.0
    if coefficients.n_labels[node] == 1:
        for row in range(n_rows):
            residuals[row] = values[node, row] - intercepts[0]
        for k in range(coefficients.n_parents[node]):
            slope, parent = slopes[0, k], parents[k]
            for row in range(n_rows):
                residuals[row] -= slope * values[parent, row]
        constant = math.log(variances[0]) + _LOG_2PI
        for row in range(n_rows):
            total += weights[row] * (residuals[row] ** 2 / variances[0] + constant)
        return -0.5 * total
    for row in range(n_rows):
        label = coefficients.label[node, row]
        residuals[row] = values[node, row] - intercepts[label]
        for k in range(coefficients.n_parents[node]):
            residuals[row] -= slopes[label, k] * values[parents[k], row]
        total += weights[row] * (residuals[row] ** 2 / variances[label] + math.log(variances[label]) + _LOG_2PI)
    return -0.5 * total


@hot
def log_observed(coefficients: Coefficients, work: SummedWork) -> float:
    """Log likelihood (nats) of what was observed; see the module's notes."""
    total = _find_residuals(coefficients, work)
    for pattern in range(work.first_of_pattern.size - 1):
        _take_pattern(pattern, coefficients, work)
        for at in range(work.first_of_pattern[pattern], work.first_of_pattern[pattern + 1]):
            n_cells = _factorise_row(work.by_pattern[at], work)
            for s in range(n_cells):
                total += 0.5 * work.gradient[s] ** 2 - math.log(work.matrix[s, s]) + 0.5 * _LOG_2PI
    return total


@hot
def _find_residuals(coefficients: Coefficients, work: SummedWork) -> float:
    """Residuals of all rows as they stand, and the log likelihood (nats) of these."""
    total = 0.0
    for node in range(work.is_number.size):
        if work.is_number[node] != 0:
            total += _log_complete(node, coefficients, work.values, work.weights, work.residuals[node])
    return total


@hot
def draw_cells(coefficients: Coefficients, work: SummedWork, rng: np.random.Generator) -> None:
    """Draw all missing cells given what was observed and the coefficients."""
    _find_residuals(coefficients, work)
    for pattern in range(work.first_of_pattern.size - 1):
        _take_pattern(pattern, coefficients, work)
        for at in range(work.first_of_pattern[pattern], work.first_of_pattern[pattern + 1]):
            i = work.by_pattern[at]
            n_cells, begin_of_row, row = _factorise_row(i, work), work.first[i], work.n_complete + i
            _draw_normal(work.matrix, work.gradient, n_cells, rng)
            for s in range(n_cells):
                work.values[work.column[begin_of_row + s], row] += work.gradient[s]


@hot
def _draw_normal(factor: Floats, vector: Floats, size: int, rng: np.random.Generator) -> None:
    """Draw from N(-K^-1 y, K^-1), given Cholesky's factor L of K and what L takes to y, which is replaced."""
    for s in range(size - 1, -1, -1):
        vector[s] = rng.standard_normal() - vector[s]
    solve_transposed(factor, size, vector)


@hot
def _take_pattern(pattern: int, coefficients: Coefficients, work: SummedWork) -> None:
    """Slopes, variances and the precision of a row with these categories."""
    row = work.n_complete + work.by_pattern[work.first_of_pattern[pattern]]
    slopes, precision = work.slopes, work.precision
    slopes[:] = 0.0
    precision[:] = 0.0
    for node in range(work.is_number.size):
        if work.is_number[node] == 0:
            continue
        label = coefficients.label[node, row] if coefficients.n_labels[node] > 1 else 0
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
    _solve(work.matrix, work.gradient, n_cells)
    return n_cells


@hot
def _solve(matrix: Floats, vector: Floats, size: int) -> None:
    """Cholesky's factor of a matrix and the solution of L u = y, both in place."""
    factorise(matrix, size, 1e-300)
    solve(matrix, size, vector)


@branching
def _invert(matrix: Floats, space: Floats) -> None:
    """The inverse of a positive definite matrix, in place."""
    n = matrix.shape[0]
    factorise(matrix, n, 1e-12)
    space[:] = 0.0
    for j in range(n):  # the inverse of the factor, column by column
        for i in range(j, n):
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= matrix[i, k] * space[k, j]
            space[i, j] = value / matrix[i, i]
    for i in range(n):
        for j in range(n):
            matrix[i, j] = 0.0
            for k in range(max(i, j), n):
                matrix[i, j] += space[k, i] * space[k, j]


@hot
def _condition(
    i: int, values: Floats, cells: Cells, mean: Floats, precision: Floats, space: tuple[Floats, Floats]
) -> int:
    """Cholesky's factor of the precision of the row's missing cells, and what it takes to that of its distance."""
    (n_complete, first, column), (matrix, vector) = cells, space
    row, begin_of_row = n_complete + i, first[i]
    n_cells: int = first[i + 1] - begin_of_row
    for s in range(n_cells):
        cell = column[begin_of_row + s]
        vector[s] = 0.0
        for node in range(mean.size):
            vector[s] += precision[cell, node] * (values[node, row] - mean[node])
        for t in range(s + 1):
            matrix[s, t] = precision[cell, column[begin_of_row + t]]
    _solve(matrix, vector, n_cells)
    return n_cells


@branching
def _expect(
    values: Floats, cells: Cells, mean: Floats, precision: Floats, spread: Floats, space: tuple[Floats, Floats]
) -> None:
    """Put conditional means into the missing cells, and add their conditional covariances to ``spread``."""
    (n_complete, first, column), (matrix, vector) = cells, space
    for i in range(first.size - 1):
        row, begin_of_row = n_complete + i, first[i]
        n_cells = _condition(i, values, cells, mean, precision, space)
        solve_transposed(matrix, n_cells, vector)
        for s in range(n_cells):
            values[column[begin_of_row + s], row] -= vector[s]
        for t in range(n_cells):  # the covariances, column by column
            for s in range(n_cells):
                vector[s] = 1.0 if s == t else 0.0
            solve(matrix, n_cells, vector)
            solve_transposed(matrix, n_cells, vector)
            for s in range(n_cells):
                spread[column[begin_of_row + s], column[begin_of_row + t]] += vector[s]
