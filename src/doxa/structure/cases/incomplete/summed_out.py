r"""Changes of the graph with the missing numbers summed out, and coefficients in their place.

Edges and missing cells hold each other up: numbers that were drawn with an edge speak for it.  Given a graph G of
numbers alone and the coefficients :math:`\theta` of its Gaussian regressions, the missing cells of a row have a normal
distribution, and can be summed out.  So a sweep

- draws :math:`\theta` from its posterior given graph and completion,
- forgets the completion, and changes graph and coefficients under
  :math:`p(G)\, p(\theta \mid G)\, p(x \mid G, \theta)`, x being what was observed,
- draws the missing cells anew from :math:`p(z \mid G, \theta, x)`, all those of a row at once.

Each keeps the joint posterior of G, :math:`\theta` and z, and what is left of it without :math:`\theta` is that of the
sampler.

**Proposals.**  The *frozen* posterior f is that of a complete table: one with the mean and covariances of a normal
distribution without any graph, fitted to the table with its missing cells (the EM algorithm: Dempster, Laird & Rubin
1977), and as many rows as two columns are observed together on average.  A few steps of a move that is reversible for f
lead from G to G'; where families differ, coefficients are drawn from f given G'.  With :math:`L_f` the likelihood of
that table, :math:`f(G, \theta) \propto p(G)\, p(\theta \mid G)\, L_f(\theta)`, so that in the ratio of the two targets
the priors and the densities of the draws cancel.  What is proposed is taken with probability

.. math:: \min\Big\{1, \frac{p(x \mid G', \theta')\, L_f(\theta)}{p(x \mid G, \theta)\, L_f(\theta')}\Big\}.

Of 20 numbers with a tenth of the cells blank, four of five proposals of a few steps are taken, and half of those of
some hundred, after which little is left of the graph before.

**What was observed.**  With residuals :math:`e = A x - c` of a completed row, A with ones on the diagonal and minus the
slopes, V the residual variances, :math:`K = A^T V^{-1} A` and :math:`y = A^T V^{-1} e`, M the missing cells,

.. math::

    \ln p(x_O) = \ln p(x) + \tfrac12\, y_M^T K_{MM}^{-1} y_M - \tfrac12 \ln |K_{MM}| + \tfrac{|M|}{2} \ln 2 \pi,

whatever stands in the missing cells, which given the others are :math:`N(x_M - K_{MM}^{-1} y_M, K_{MM}^{-1})`.

Functions are compiled, trust their arguments and work in place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import Address
from doxa._jit import branching, hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.data import Table
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.proposals import REFUSED, SAME, TAKEN, propose, standing_space
from doxa.structure.cases.incomplete.scored_sampler import rows_together
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.gaussian.box import GaussianRule, factorise, sums_of_products
from doxa.structure.graph import working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accepts, local_scores
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.parent_sets import no_parent_sets
from doxa.structure.moves.sampler import work_without_draws

if TYPE_CHECKING:
    from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain

__all__ = ["FrozenPosterior", "Moments", "NumbersSummedOut", "frozen_posterior"]

_ROUNDS, _SETTLED = 200, 1e-6  # of EM; the largest change of a mean or covariance, in standard deviations
_STEPS_A_COLUMN = (2, 12)  # of the move before coefficients are drawn: few are taken more often, many lead farther
_LOG_2PI = math.log(2.0 * math.pi)


@by_address
class Moments(NamedTuple):
    """Of a table without missing cells."""

    n_cases: float
    mean: Floats  # (n_nodes,)
    sums: Floats  # (n_nodes, n_nodes): centred sums of products
    posterior: Floats  # (n_nodes, n_nodes): R of `doxa.structure.families.gaussian.box`


class FrozenPosterior(NamedTuple):
    """The posterior that proposals come from, and the moments of its table."""

    scores: FamilyScores
    moments: Moments


@by_address
class Coefficients(NamedTuple):
    """Of the regressions of a graph."""

    slopes: Floats  # (n_nodes, n_nodes): of a node (row) on its parents, and 0
    intercepts: Floats  # (n_nodes,)
    variances: Floats  # (n_nodes,): of the residuals


@by_address
class SummedWork(NamedTuple):
    """Work space of one chain."""

    values: Floats  # (n_nodes, n_rows): of the completion; what stands in missing cells is changed by `draw_cells`
    weights: Ints  # (n_rows,)
    n_complete: int
    first: Ints  # (n_incomplete + 1,): where the missing cells of a row begin in `column`
    column: Ints  # (n_missing,)
    parents: Words  # (n_nodes, n_words): of the graph that stands
    log_likelihood: Floats  # (1,): of what was observed, under that and its coefficients
    residuals: Floats  # (n_nodes, n_rows)
    precision: Floats  # (n_nodes, n_nodes): K
    members: Ints  # (n_nodes,)
    matrix: Floats  # (n_nodes, n_nodes)
    gradient: Floats  # (n_nodes,)


Prior = tuple[float, float, float]  # alpha_mu, a and t of the rule


@by_address
class Offered(NamedTuple):
    """The coefficients that stand with a graph, and what the offer of another needs."""

    standing: tuple[Words, Words, Floats, Ints]  # `standing_space`
    coefficients: Coefficients
    fresh: Coefficients
    frozen: Moments
    prior: Prior
    work: SummedWork


def frozen_posterior(data: IncompleteData, limits: Limits) -> FrozenPosterior:
    """Made once a process; it follows from the table and the limits alone."""
    made: FrozenPosterior = data.remember("frozen posterior", limits, lambda: _freeze(data))
    return made


def _freeze(data: IncompleteData) -> FrozenPosterior:
    """Of a table of one row more than columns, each as often, with the moments of `observed_moments`.

    The rows are those of a cosine transform, which are orthogonal to each other and to a constant.
    """
    n, scaling = data.n_nodes, data.missing_cells.numbers
    assert scaling is not None
    rule = rule_of(data)
    mean, covariance = observed_moments(data, rule.scale)
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
    return FrozenPosterior(scores, moments_of(values, counts, rule))


def rule_of(data: IncompleteData) -> GaussianRule:
    """The prior of the regressions."""
    made: GaussianRule = data.score.gaussian_rule(data.n_nodes, data.table.n_rows)
    return made


def moments_of(values: Floats, counts: Ints, rule: GaussianRule) -> Moments:
    """Of numbers (n_nodes, n_rows) that occur so often."""
    sums, mean = sums_of_products(values, counts)
    n_cases = float(counts.sum())
    shrunk = n_cases * rule.mean_weight / (n_cases + rule.mean_weight)
    posterior = sums + rule.scale * np.eye(len(sums)) + shrunk * np.outer(mean, mean)
    return Moments(n_cases, mean, sums, posterior)


def observed_moments(data: IncompleteData, ridge: float) -> tuple[Floats, Floats]:
    """Mean and covariances of a normal distribution fitted to what was observed, by EM; ``ridge`` is added to sums.

    No matrix is multiplied by BLAS, which adds up in another order on another processor.
    """
    missing_cells = data.missing_cells
    assert missing_cells.numbers is not None
    values, weights, n = missing_cells.numbers.values.copy(), missing_cells.weights, data.n_nodes
    values[missing_cells.column, missing_cells.n_complete + missing_cells.row] = 0.0  # the mean of what is scaled
    total, spread = float(weights.sum()), np.zeros((n, n))
    mean, covariance, space = np.zeros(n), np.eye(n), (np.zeros((n, n)), np.zeros(n))
    for _ in range(_ROUNDS):
        sums, new_mean = sums_of_products(values, weights)
        new_covariance = (sums + spread + ridge * np.eye(n)) / total
        change = max(np.abs(new_mean - mean).max(), np.abs(new_covariance - covariance).max())
        mean, covariance = new_mean, new_covariance
        if change < _SETTLED:
            break
        precision = covariance.copy()
        _invert(precision, space[0])
        cells = (missing_cells.n_complete, missing_cells.first, missing_cells.column)
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
        (n, n_rows), rows = completion.numbers.shape, chain.parents
        self._limits, self._move, self._completion = chain.limits, chain.move, completion
        self._rule, self._frozen = rule_of(data), frozen_posterior(data, chain.limits)
        no_table = no_parent_sets(n, rows.shape[1])
        self._table = parent_sets(self._frozen.scores, chain.limits, 1.0) if chain.move.uses_table else no_table
        work = SummedWork(
            completion.numbers, completion.weights, completion.n_complete, completion.first, completion.column,
            np.zeros_like(rows), np.zeros(1), np.zeros((n, n_rows)), np.zeros((n, n)),
            np.zeros(n, dtype=np.int64), np.zeros((n, n)), np.zeros(n),
        )  # fmt: skip
        standing, fresh = (Coefficients(np.zeros((n, n)), np.zeros(n), np.ones(n)) for _ in range(2))
        prior = (self._rule.mean_weight, self._rule.freedom, self._rule.scale)
        self._offered = Offered(standing_space(rows), standing, fresh, self._frozen.moments, prior, work)
        self._advance, self._offer = chain.advance, Address(offer)
        self.done = np.zeros(2, dtype=np.int64)  # proposals of other graphs, and those taken

    def run(self, rows: NDArray[np.uint64], proposals: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        """So many proposals from a graph; where it ends, and all cells of the completion are drawn anew."""
        moments = moments_of(self._completion.numbers, self._completion.weights, self._rule)
        offered, graph, local = self._offered, working_graph(rows), np.empty(len(rows))
        with self._frozen.scores.borrow() as (cache, scoring):
            local_scores(graph, cache.arrays, scoring, local)
            begin(graph[0], moments, offered, rng)
            work = work_without_draws(graph, local, 1.0, self._limits, cache.arrays, scoring, self._table)
            steps = np.array(_STEPS_A_COLUMN) * len(rows)
            lengths = rng.choice(steps, size=0 if self._limits.one_graph else proposals)
            propose(self._move, work, lengths, cache, (self._offer, offered), self.done, self._advance, rng)
            draw_cells(offered.coefficients, offered.work, rng)
        return graph[1]


@hot
def begin(parents: Words, moments: Moments, offered: Offered, rng: np.random.Generator) -> None:
    """Draw the coefficients of a graph given the completion, which has these moments; their likelihood."""
    work = offered.work
    for node in range(parents.shape[0]):
        for w in range(parents.shape[1]):
            work.parents[node, w] = parents[node, w]
        draw_family(node, parents[node], offered.coefficients, moments, offered.prior, work, rng)
    work.log_likelihood[0] = log_observed(offered.coefficients, work)


@hot
def offer(parents: Words, local: Floats, offered: Offered, rng: np.random.Generator) -> int:  # noqa: ARG001
    """Offer a graph, with new coefficients where families differ, as `doxa.structure.cases.incomplete.proposals` asks.

    Its scores under the frozen posterior, ``local``, cancel.
    """
    standing, fresh, frozen, work = offered.coefficients, offered.fresh, offered.frozen, offered.work
    log_ratio, any_differs = 0.0, False
    for node in range(parents.shape[0]):
        differs = False
        for w in range(parents.shape[1]):
            differs = differs or parents[node, w] != work.parents[node, w]
        if differs:
            any_differs = True
            log_ratio += log_frozen(node, standing, frozen, work.members)
            draw_family(node, parents[node], fresh, frozen, offered.prior, work, rng)
            log_ratio -= log_frozen(node, fresh, frozen, work.members)
        else:
            _copy_family(node, standing, fresh)
    if not any_differs:
        return SAME
    log_likelihood = log_observed(fresh, work)
    if not accepts(rng, log_ratio + log_likelihood - work.log_likelihood[0]):
        return REFUSED
    work.log_likelihood[0] = log_likelihood
    for node in range(parents.shape[0]):
        _copy_family(node, fresh, standing)
        for w in range(parents.shape[1]):
            work.parents[node, w] = parents[node, w]
    return TAKEN


@hot
def _copy_family(node: int, source: Coefficients, target: Coefficients) -> None:
    for parent in range(source.variances.size):
        target.slopes[node, parent] = source.slopes[node, parent]
    target.intercepts[node] = source.intercepts[node]
    target.variances[node] = source.variances[node]


@hot
def draw_family(
    node: int, parents: Words, target: Coefficients, moments: Moments, prior: Prior, work: SummedWork,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    r"""Draw a family's coefficients from their posterior given a table with these moments.

    :math:`\sigma^2 \sim \mathrm{InvGamma}((N + a + p + 1) / 2, s / 2)`, slopes from :math:`N(R_{PP}^{-1} R_{Pi},
    \sigma^2 R_{PP}^{-1})`, and the intercept about its mean shrunk by :math:`N / (N + \alpha_\mu)`; R and s as in
    `doxa.structure.families.gaussian.box`.
    """
    mean_weight, freedom, scale = prior
    members, matrix, slopes, p = work.members, work.matrix, target.slopes, 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            members[p] = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            p += 1
    members[p] = node
    for i in range(p + 1):
        for j in range(i + 1):
            matrix[i, j] = moments.posterior[members[i], members[j]]
    factorise(matrix, p + 1, scale)
    shape = 0.5 * (moments.n_cases + freedom + p + 1.0)
    variance = 0.5 * matrix[p, p] ** 2 / rng.standard_gamma(shape)
    deviation = math.sqrt(variance)
    for parent in range(slopes.shape[1]):
        slopes[node, parent] = 0.0
    centre = moments.mean[node]
    for i in range(p - 1, -1, -1):
        slope = matrix[p, i] + deviation * rng.standard_normal()
        for k in range(i + 1, p):
            slope -= matrix[k, i] * slopes[node, members[k]]
        slopes[node, members[i]] = slope / matrix[i, i]
        centre -= slopes[node, members[i]] * moments.mean[members[i]]
    weight = moments.n_cases + mean_weight
    target.intercepts[node] = centre * moments.n_cases / weight + deviation * rng.standard_normal() / math.sqrt(weight)
    target.variances[node] = variance


@hot
def log_frozen(node: int, coefficients: Coefficients, moments: Moments, members: Ints) -> float:
    """Log likelihood (nats) of one family's coefficients in the complete table."""
    slopes, p = coefficients.slopes[node], 0
    for parent in range(slopes.size):
        if slopes[parent] != 0.0:
            members[p] = parent
            p += 1
    apart = moments.mean[node] - coefficients.intercepts[node]
    squares = moments.sums[node, node]
    for i in range(p):
        apart -= slopes[members[i]] * moments.mean[members[i]]
        squares -= 2.0 * slopes[members[i]] * moments.sums[node, members[i]]
        for j in range(p):
            squares += slopes[members[i]] * slopes[members[j]] * moments.sums[members[i], members[j]]
    squares += moments.n_cases * apart * apart
    variance = coefficients.variances[node]
    found: float = -0.5 * moments.n_cases * (_LOG_2PI + math.log(variance)) - 0.5 * squares / variance
    return found


@hot
def log_observed(coefficients: Coefficients, work: SummedWork) -> float:
    """Log likelihood (nats) of what was observed; see the module's notes."""
    _find_residuals(coefficients, work)
    variances, total = coefficients.variances, 0.0
    for node in range(variances.size):
        squares, n_cases = 0.0, 0.0
        for row in range(work.weights.size):
            squares += work.weights[row] * work.residuals[node, row] ** 2
            n_cases += work.weights[row]
        total -= 0.5 * squares / variances[node] + 0.5 * n_cases * (_LOG_2PI + math.log(variances[node]))
    for i in range(work.first.size - 1):
        n_cells = _factorise_row(i, coefficients, work)
        for s in range(n_cells):
            total += 0.5 * work.gradient[s] ** 2 - math.log(work.matrix[s, s]) + 0.5 * _LOG_2PI
    return total


@hot
def draw_cells(coefficients: Coefficients, work: SummedWork, rng: np.random.Generator) -> None:
    """Draw all missing cells given what was observed and the coefficients."""
    _find_residuals(coefficients, work)
    for i in range(work.first.size - 1):
        n_cells, begin_of_row, row = _factorise_row(i, coefficients, work), work.first[i], work.n_complete + i
        for s in range(n_cells - 1, -1, -1):
            work.gradient[s] = rng.standard_normal() - work.gradient[s]
        _solve_transposed(work.matrix, work.gradient, n_cells)
        for s in range(n_cells):
            work.values[work.column[begin_of_row + s], row] += work.gradient[s]


@hot
def _find_residuals(coefficients: Coefficients, work: SummedWork) -> None:
    """Residuals of all rows as they stand, and the precision of a row."""
    slopes, variances, values, n_rows = coefficients.slopes, coefficients.variances, work.values, work.weights.size
    work.precision[:] = 0.0
    for node in range(variances.size):
        residuals, p = work.residuals[node], 0
        for row in range(n_rows):
            residuals[row] = values[node, row] - coefficients.intercepts[node]
        for parent in range(variances.size):
            slope = slopes[node, parent]
            if slope != 0.0:
                work.members[p] = parent
                p += 1
                for row in range(n_rows):
                    residuals[row] -= slope * values[parent, row]
        weight = 1.0 / variances[node]
        work.precision[node, node] += weight
        for i in range(p):
            a = work.members[i]
            work.precision[node, a] -= weight * slopes[node, a]
            work.precision[a, node] -= weight * slopes[node, a]
            for j in range(p):
                work.precision[a, work.members[j]] += weight * slopes[node, a] * slopes[node, work.members[j]]


@hot
def _factorise_row(i: int, coefficients: Coefficients, work: SummedWork) -> int:
    """Cholesky's factor L of the precision of the row's missing cells, and what L takes to y; how many cells."""
    slopes, variances = coefficients.slopes, coefficients.variances
    begin_of_row, row = work.first[i], work.n_complete + i
    n_cells: int = work.first[i + 1] - begin_of_row
    for s in range(n_cells):
        cell = work.column[begin_of_row + s]
        gradient = work.residuals[cell, row] / variances[cell]
        for node in range(variances.size):
            if slopes[node, cell] != 0.0:
                gradient -= slopes[node, cell] * work.residuals[node, row] / variances[node]
        for t in range(s + 1):
            work.matrix[s, t] = work.precision[cell, work.column[begin_of_row + t]]
        work.gradient[s] = gradient
    _solve(work.matrix, work.gradient, n_cells)
    return n_cells


@hot
def _solve(matrix: Floats, vector: Floats, size: int) -> None:
    """Cholesky's factor of a matrix and the solution of L u = y, both in place."""
    factorise(matrix, size, 1e-300)
    _solve_factor(matrix, vector, size)


@hot
def _solve_factor(matrix: Floats, vector: Floats, size: int) -> None:
    """The solution of L u = y, in place."""
    for s in range(size):
        for k in range(s):
            vector[s] -= matrix[s, k] * vector[k]
        vector[s] /= matrix[s, s]


@hot
def _solve_transposed(matrix: Floats, vector: Floats, size: int) -> None:
    """The solution of L' u = y, in place."""
    for s in range(size - 1, -1, -1):
        for k in range(s + 1, size):
            vector[s] -= matrix[k, s] * vector[k]
        vector[s] /= matrix[s, s]


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


@branching
def _expect(
    values: Floats, cells: tuple[int, Ints, Ints], mean: Floats, precision: Floats, spread: Floats,
    space: tuple[Floats, Floats],
) -> None:  # fmt: skip
    """Put conditional means into the missing cells, and add their conditional covariances to ``spread``."""
    (n_complete, first, column), (matrix, vector) = cells, space
    for i in range(first.size - 1):
        row, begin_of_row, n_cells = n_complete + i, first[i], first[i + 1] - first[i]
        for s in range(n_cells):
            cell = column[begin_of_row + s]
            vector[s] = 0.0
            for node in range(mean.size):
                vector[s] += precision[cell, node] * (values[node, row] - mean[node])
            for t in range(s + 1):
                matrix[s, t] = precision[cell, column[begin_of_row + t]]
        _solve(matrix, vector, n_cells)
        _solve_transposed(matrix, vector, n_cells)
        for s in range(n_cells):
            values[column[begin_of_row + s], row] -= vector[s]
        for t in range(n_cells):  # the covariances, column by column
            for s in range(n_cells):
                vector[s] = 1.0 if s == t else 0.0
            _solve_factor(matrix, vector, n_cells)
            _solve_transposed(matrix, vector, n_cells)
            for s in range(n_cells):
                spread[column[begin_of_row + s], column[begin_of_row + t]] += vector[s]
