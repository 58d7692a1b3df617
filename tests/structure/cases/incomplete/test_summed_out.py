"""Missing numbers summed out: every formula against SciPy's densities, the draws against their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import invgamma, multivariate_normal, norm
from test_missing_numbers import beside, both, drawn, exact_of, hidden, numbers, z_scores

import doxa
from doxa.data import Table
from doxa.models.bits import pack_rows, unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Additive, BDeu, BGe, ConditionalGaussian, MarkovBlanket, SingleEdge
from doxa.structure.cases.incomplete import scored_sampler, summed_out
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler, can_sum_out
from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain
from doxa.structure.cases.incomplete.summed_out import (
    NumbersSummedOut,
    frozen_posterior,
    log_frozen,
    observed_moments,
    rule_of,
)
from doxa.structure.families.family_weights import score_families
from doxa.structure.families.gaussian.box import sums_of_products
from doxa.structure.limits import make_limits
from support.checks import SEED, z_limit

N = 5
GRAPHS = {
    "numbers": [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
    "beside categories": [[0, 1, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]],
}
GRAPHS = {name: np.array(graph, dtype=bool) for name, graph in GRAPHS.items()}
EITHER = pytest.mark.parametrize("case", GRAPHS)


def blank_numbers(n_columns=N, n_rows=60, missing=0.2, seed=3, categories=0):
    """Numbers, each with up to two parents, and blank cells; some rows occur twice.  The first is far from 0.

    The first columns may be categories, of 3, 2, 3, ... states, without blanks; numbers depend on them.
    """
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns))
    for j in range(categories):
        values[:, j] = rng.integers(0, 3 - j % 2, n_rows)
    for j in range(max(1, categories), n_columns):
        for parent in rng.choice(j, size=min(j, 2), replace=False):
            values[:, j] += rng.choice([-0.8, 0.8]) * values[:, parent]
    codes = np.where(np.arange(n_columns) < categories, values, 0).astype(int)
    values[:, :categories] = np.nan
    values[:, categories] = 1e6 + 1e-3 * values[:, categories]
    blank = (rng.random(values.shape) < missing) & (np.arange(n_columns) >= categories)
    values[blank], codes[blank] = np.nan, -1
    values, codes = np.concatenate([values, values[:6]]), np.concatenate([codes, codes[:6]])
    states = [tuple("abc"[: 3 - j % 2]) if j < categories else () for j in range(n_columns)]
    return Table.from_codes([f"x{j}" for j in range(n_columns)], states, codes, numbers=values)


def chain_of(case, **options):
    graph, categories = GRAPHS[case], {"numbers": 0, "beside categories": 2}[case]
    table = blank_numbers(
        categories=categories, **{name: options.pop(name) for name in ("n_rows", "missing") if name in options}
    )
    data = IncompleteData(table, ConditionalGaussian() if categories else BGe())
    sampler = ScoredCellsSampler(data, make_limits(table.names), SingleEdge(), **options)
    cells = np.random.default_rng(1).normal(size=data.missing_cells.n_missing)
    return ScoredChain(sampler, sampler.start_at(pack_rows(graph), cells))


def configurations(chain, node, graph):
    """What the categories among a node's parents are in every row of the completion."""
    categories = np.flatnonzero(graph[:, node] & ~chain.data.table.is_number)
    return list(map(tuple, chain.completion.columns[categories].T.tolist()))


def some_coefficients(chain, graph, seed=4):
    """Coefficients of every configuration that occurs, in the form of compiled loops."""
    rng, is_number, n_rows = np.random.default_rng(seed), chain.data.table.is_number, len(chain.completion.weights)
    n = len(graph)
    found = summed_out._no_coefficients(n, n_rows, 8)
    for node in np.flatnonzero(is_number):
        rows = configurations(chain, node, graph)
        names = sorted(set(rows))
        parents = family_of(chain, node, graph)
        found.n_labels[node], found.n_parents[node] = len(names), len(parents)
        found.label[node] = [names.index(row) for row in rows]
        found.parents[node, : len(parents)] = parents
        found.slopes[node, : len(names), : len(parents)] = rng.normal(size=(len(names), len(parents)))
        found.intercepts[node, : len(names)] = rng.normal(size=len(names))
        found.variances[node, : len(names)] = rng.gamma(3.0, size=len(names)) / 3
    return found


def family_of(chain, node, graph):
    """Parents that are numbers."""
    return np.flatnonzero(graph[:, node] & chain.data.table.is_number)


def joint_normal(chain, coefficients, row):
    """Mean and covariances of the numbers of a row."""
    numbers = np.flatnonzero(chain.data.table.is_number)
    slopes, intercepts, variances = np.zeros((N, N)), np.zeros(N), np.zeros(N)
    for node in numbers:
        label = coefficients.label[node, row] if coefficients.n_labels[node] > 1 else 0
        p = coefficients.n_parents[node]
        slopes[node, coefficients.parents[node, :p]] = coefficients.slopes[node, label, :p]
        intercepts[node], variances[node] = coefficients.intercepts[node, label], coefficients.variances[node, label]
    inverse = np.linalg.inv(np.eye(N) - slopes)
    covariance = inverse @ np.diag(variances) @ inverse.T
    return inverse @ intercepts, covariance


def log_seen(chain, mean_and_covariance):
    """Of what was observed of the numbers; the law of a row may depend on the row."""
    missing_cells, numbers = chain.data.missing_cells, np.flatnonzero(chain.data.table.is_number)
    total = 0.0
    for row, (values, weight) in enumerate(zip(missing_cells.numbers.values.T, missing_cells.weights, strict=True)):
        mean, covariance = mean_and_covariance(row)
        seen = numbers[~np.isnan(values[numbers])]
        if len(seen):
            total += weight * multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(values[seen])
    return total


@EITHER
def test_the_likelihood_of_what_was_observed_is_that_of_the_normal_distribution(case):
    chain = chain_of(case)
    work = NumbersSummedOut(chain)._offered.work
    for seed in range(3):
        coefficients = some_coefficients(chain, GRAPHS[case], seed)
        wanted = log_seen(chain, lambda row, c=coefficients: joint_normal(chain, c, row))
        assert summed_out.log_observed(coefficients, work) == pytest.approx(wanted, rel=1e-10)
        work.values[work.column, work.n_complete + chain.data.missing_cells.row] += 1.0  # whatever stands there


@EITHER
def test_cells_are_drawn_from_their_conditional_distribution(case):
    chain = chain_of(case)
    coefficients = some_coefficients(chain, GRAPHS[case])
    work, rng = NumbersSummedOut(chain)._offered.work, np.random.default_rng(SEED)
    missing_cells = chain.data.missing_cells
    i = int(np.argmax(np.diff(missing_cells.first)))  # the row with the most missing cells
    gone = missing_cells.column[missing_cells.first[i] : missing_cells.first[i + 1]]
    assert len(gone) >= 2
    place = missing_cells.n_complete + i
    mean, covariance = joint_normal(chain, coefficients, place)
    seen = np.setdiff1d(np.flatnonzero(chain.data.table.is_number), gone)
    gain = covariance[np.ix_(gone, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    centre = mean[gone] + gain @ (work.values[seen, place] - mean[seen])
    spread = covariance[np.ix_(gone, gone)] - gain @ covariance[np.ix_(seen, gone)]
    draws = np.empty((10_000, len(gone)))
    for k in range(len(draws)):
        summed_out.draw_cells(coefficients, work, rng)
        draws[k] = work.values[gone, place]
    apart = draws - centre
    z = [apart.mean(axis=0) / np.sqrt(np.diag(spread) / len(draws))]
    products = apart[:, :, None] * apart[:, None, :]
    z.append(((products.mean(axis=0) - spread) / (products.std(axis=0) / np.sqrt(len(draws)))).ravel())
    z = np.abs(np.concatenate(z))
    assert z.max() < z_limit(len(z))
    other = np.abs(apart.mean(axis=0) - 0.1) / np.sqrt(np.diag(spread) / len(draws))
    assert other.max() > z_limit(len(z))  # a tenth beside it would be seen


def log_prior(node, coefficients, rule, label=0):
    """Of the coefficients of one family in one configuration: the prior of BGe."""
    variance, p = coefficients.variances[node, label], coefficients.n_parents[node]
    found = invgamma(0.5 * (rule.freedom + p + 1), scale=rule.scale / 2).logpdf(variance)
    found += norm(0, np.sqrt(variance / rule.mean_weight)).logpdf(coefficients.intercepts[node, label])
    return found + norm(0, np.sqrt(variance / rule.scale)).logpdf(coefficients.slopes[node, label, :p]).sum()


def posterior_of(node, parents, values, counts, rule, spread=0.0):
    """Centre and scatter of the slopes, s, the cases, and the means of node and parents; sums have more spread."""
    family = np.append(parents, node)
    sums, mean = sums_of_products(values[family], counts)
    sums = sums + (spread if np.isscalar(spread) else spread[np.ix_(family, family)])
    n = counts.sum()
    r = sums + rule.scale * np.eye(len(family)) + n * rule.mean_weight / (n + rule.mean_weight) * np.outer(mean, mean)
    inverse = np.linalg.inv(r[:-1, :-1])
    centre = inverse @ r[:-1, -1]
    return centre, inverse, r[-1, -1] - r[-1, :-1] @ centre, n, mean


def log_posterior(node, coefficients, values, counts, rule, label=0, spread=0.0):
    """Density of what `draw_family` draws in one configuration, whose rows these are."""
    p, variance = coefficients.n_parents[node], coefficients.variances[node, label]
    centre, inverse, s, n, mean = posterior_of(node, coefficients.parents[node, :p], values, counts, rule, spread)
    found = invgamma(0.5 * (n + rule.freedom + p + 1), scale=s / 2).logpdf(variance)
    slopes = coefficients.slopes[node, label, :p]
    if p:
        found += multivariate_normal(centre, variance * inverse).logpdf(slopes)
    middle = (mean[-1] - slopes @ mean[:-1]) * n / (n + rule.mean_weight)
    intercept = coefficients.intercepts[node, label]
    return found + norm(middle, np.sqrt(variance / (n + rule.mean_weight))).logpdf(intercept)


@EITHER
def test_prior_times_likelihood_over_posterior_is_the_score(case):
    """Whatever the coefficients: of the frozen table, whose score is that of the families' own kind."""
    chain, graph = chain_of(case), GRAPHS[case]
    frozen, rule, rows = frozen_posterior(chain.data, chain.limits), rule_of(chain.data), NumbersSummedOut(chain)
    checked = 0
    for node in np.flatnonzero(chain.data.table.is_number):
        score = np.empty(1)
        with frozen.scores.borrow() as (_, scoring):
            score_families(node, pack_rows(graph.T)[node : node + 1], scoring, score)
        for seed in range(3):
            theta = some_coefficients(chain, graph, seed)
            found = log_frozen(node, theta, rows._offered.frozen)
            for label in range(theta.n_labels[node]):
                here = (theta.label[node] == label) if theta.n_labels[node] > 1 else np.full(len(frozen.counts), True)
                last = here[len(here) - len(frozen.spread) :]
                table = frozen.values[:, here], frozen.counts[here], rule, label, frozen.spread[last].sum(axis=0)
                found += log_prior(node, theta, rule, label) - log_posterior(node, theta, *table)
                checked += label
            assert found == pytest.approx(score[0], abs=1e-7)
    assert (checked > 0) == (case != "numbers")


@EITHER
def test_coefficients_are_drawn_from_that_posterior(case):
    """By the mean of its log density, which is minus its entropy, and of its coefficients."""
    chain, node = chain_of(case), 3
    space, rule = NumbersSummedOut(chain), rule_of(chain.data)
    rng, target = np.random.default_rng(SEED), some_coefficients(chain, GRAPHS[case])
    parents, words = family_of(chain, node, GRAPHS[case]), pack_rows(GRAPHS[case].T)[node]
    summed_out.draw_family(node, words, target, space._today, space._offered.prior, rng)
    label = int(target.n_labels[node]) - 1
    here = target.label[node] == label if label else slice(None)
    rows = chain.completion.numbers[:, here], chain.completion.weights[here]
    centre, inverse, s, n, mean = posterior_of(node, parents, *rows, rule)
    shape = 0.5 * (n + rule.freedom + len(parents) + 1)
    middle = (mean[-1] - centre @ mean[:-1]) * n / (n + rule.mean_weight)
    wanted = np.append(centre, [middle, s / 2 / (shape - 1)])
    draws, log_density = np.empty((5000, len(parents) + 2)), np.empty(500)
    for k in range(len(draws)):
        summed_out.draw_family(node, words, target, space._today, space._offered.prior, rng)
        slopes = target.slopes[node, label, : len(parents)]
        draws[k] = np.append(slopes, [target.intercepts[node, label], target.variances[node, label]])
        if k < len(log_density):
            log_density[k] = log_posterior(node, target, *rows, rule, label)
    z = np.abs(draws.mean(axis=0) - wanted) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert z.max() < z_limit(len(z))
    # minus the entropy: of the variance, and of normals given it
    normals = multivariate_normal(np.zeros(len(parents)), inverse).entropy()
    normals += norm(0, 1 / np.sqrt(n + rule.mean_weight)).entropy()
    variance, size = invgamma(shape, scale=s / 2), len(parents) + 1
    entropy = variance.entropy() + normals + 0.5 * size * (np.log(s / 2) - digamma(shape))
    assert abs(log_density.mean() + entropy) < z_limit(1) * log_density.std() / np.sqrt(len(log_density))


def test_the_frozen_table_has_the_moments_of_the_likeliest_normal_distribution():
    chain = chain_of("numbers", n_rows=200)
    mean, covariance = observed_moments(*summed_out._to_fit(chain.data), 0.0)
    best, rng = log_seen(chain, lambda _: (mean, covariance)), np.random.default_rng(SEED)
    for size in (1e-3, 1e-2):
        for _ in range(10):
            turn = np.eye(N) + size * rng.normal(size=(N, N))
            other = mean + size * rng.normal(size=N), turn @ covariance @ turn.T
            assert log_seen(chain, lambda _, other=other: other) < best
    mean, covariance = observed_moments(*summed_out._to_fit(chain.data), rule_of(chain.data).scale)
    frozen = frozen_posterior(chain.data, chain.limits)
    sums, of_table = sums_of_products(frozen.values, frozen.counts)
    assert of_table == pytest.approx(mean, abs=1e-9)
    assert sums / frozen.counts.sum() == pytest.approx(covariance, rel=1e-6, abs=1e-9)
    assert frozen.counts.sum() == pytest.approx(206 * 0.8**2, rel=0.1)


def test_beside_categories_the_frozen_table_has_what_is_expected_there():
    """Means and standard deviations of the whole table in each category, from means and covariances of its rows."""
    chain = chain_of("beside categories", n_rows=2000)
    frozen, missing_cells = frozen_posterior(chain.data, chain.limits), chain.data.missing_cells
    seen = ~np.isnan(missing_cells.numbers.values)
    np.testing.assert_array_equal(frozen.values[seen], missing_cells.numbers.values[seen])
    np.testing.assert_array_equal(frozen.columns, missing_cells.base.clip(0))
    whole = blank_numbers(n_rows=2000, missing=0.0, categories=2)
    by_mean, by_deviation, without = [], [], []
    for node in (2, 3, 4):
        for state in range(3):
            truth = whole.numbers[whole.codes[:, 0] == state, node]
            truth = (truth - missing_cells.numbers.centre[node]) / missing_cells.numbers.scale[node]
            here = frozen.columns[0] == state
            values, more = frozen.values[node, here], frozen.spread[here[-len(frozen.spread) :], node, node].sum()
            by_mean.append(values.mean() - truth.mean())
            by_deviation.append(np.sqrt(values.var() + more / len(values)) / truth.std() - 1)
            without.append(values.std() / truth.std() - 1)
    assert np.abs(by_mean).max() < 0.06  # of some 670 rows, a fifth of them blank
    assert np.abs(by_deviation).max() < 0.06
    assert np.min(without) < -0.06


@EITHER
def test_of_a_table_with_hardly_a_missing_cell_nearly_all_is_taken(case):
    """Then both likelihoods are nearly the same."""
    few = {"n_rows": 400, "missing": 0.002} if case == "numbers" else {"n_rows": 100, "missing": 0.01}
    chain = chain_of(case, **few, summed_out=1)
    space = NumbersSummedOut(chain)
    space.run(chain.rows, 300, np.random.default_rng(SEED))
    assert space.done[0] > 100
    assert space.done[1] > 0.9 * space.done[0]


ALONE = {"numbers": (numbers, BGe()), "beside": (beside, ConditionalGaussian(2.0))}


@pytest.mark.parametrize("wrong", ["", "other counts", "wide cells"])
@pytest.mark.parametrize("case", ALONE)
def test_alone_it_draws_from_the_joint_posterior(case, wrong, monkeypatch):
    """Without any other change of the graph or the cells; the twins must fail."""
    if wrong == "other counts":  # proposals from one posterior, judged by another
        right = frozen_posterior

        def mixed(data, limits):
            found = right(data, limits)
            return found._replace(counts=2 * found.counts)

        monkeypatch.setattr(summed_out, "frozen_posterior", mixed)
    if wrong == "wide cells":
        right_cells = summed_out.draw_cells

        def widely(coefficients, work, rng):
            wide = coefficients._replace(variances=1.5 * coefficients.variances)
            right_cells(wide, work, rng)

        monkeypatch.setattr(summed_out, "draw_cells", widely)
    monkeypatch.setattr(ScoredChain, "move_edges", lambda *_: None)

    def keep(self, _steps, _rng, draws):
        draws.keep(self.rows, self.local, 0, None)

    monkeypatch.setattr(ScoredChain, "move_graph", keep)
    make, kind = ALONE[case]
    trace = drawn(make(), kind, SingleEdge(), seed=9, draws=1500)
    found = z_scores(trace, exact_of(case))
    assert (found.max() < z_limit(len(found))) == (not wrong)


def test_graphs_of_too_many_configurations_are_left_to_the_other_moves(monkeypatch):
    """Of two, here: then the category is no parent while numbers are summed out."""
    monkeypatch.setattr(summed_out, "MOST_CONFIGURATIONS", 1)
    begun, can_begin = [], NumbersSummedOut.can_begin
    monkeypatch.setattr(NumbersSummedOut, "can_begin", lambda *given: begun.append(can_begin(*given)) or begun[-1])
    make, kind = ALONE["beside"]
    found = z_scores(drawn(make(), kind, SingleEdge(), seed=9), exact_of("beside"))
    assert min(np.sum(begun), len(begun) - np.sum(begun)) > 50
    assert found.max() < z_limit(len(found))


def test_chains_from_everywhere_soon_agree():
    """Of twelve numbers with a fifth of the cells blank; where cells are changed column by column they do not."""
    table = blank_numbers(12, 300, 0.2, seed=2)
    data, limits = IncompleteData(table, BGe()), make_limits(table.names)

    def between(**options):
        sampler = ScoredCellsSampler(data, limits, **options)
        edges = unpack_rows(sample(sampler, Schedule(4, 100, 100), seed=1, workers=1)["rows"], 12)
        return float(edges.mean(axis=1).std(axis=0, ddof=1).mean())

    assert between() < 0.06
    assert between(summed_out=0) > 0.12


def test_where_it_can_be_done(monkeypatch):
    assert can_sum_out(IncompleteData(numbers(), BGe()))
    assert can_sum_out(IncompleteData(numbers(), ConditionalGaussian()))
    assert not can_sum_out(IncompleteData(numbers(8), BGe()))  # too few rows for as many columns
    assert not can_sum_out(IncompleteData(numbers(), Additive()))
    assert can_sum_out(IncompleteData(beside(), ConditionalGaussian()))
    assert not can_sum_out(IncompleteData(both(), ConditionalGaussian()))  # a category is missing
    assert not can_sum_out(IncompleteData(hidden(), ConditionalGaussian(), hidden=["h"]))
    assert not can_sum_out(IncompleteData(Table.from_codes("ab", ["ny", "ny"], [[0, 1], [1, -1]] * 9), BDeu()))
    monkeypatch.setattr(scored_sampler, "_MOST_COVARIANCES", 17)  # of two rows of three columns
    assert not can_sum_out(IncompleteData(beside(), ConditionalGaussian()))
    assert can_sum_out(IncompleteData(numbers(), BGe()))
    data, limits = IncompleteData(numbers(), BGe()), make_limits(["x", "y", "z"])
    assert ScoredCellsSampler(data, limits).sums_out
    assert not ScoredCellsSampler(data, limits, beta=0.5).sums_out
    assert not ScoredCellsSampler(data, limits, MarkovBlanket()).sums_out
    assert not ScoredCellsSampler(data, limits, summed_out=0).sums_out


def test_one_possible_graph_needs_no_proposals():
    table = blank_numbers()
    known = [(table.names[i], table.names[j]) for i, j in np.argwhere(GRAPHS["numbers"])]
    posterior = doxa.learn(table, required=known, max_parents=dict.fromkeys(table.names, 2), draws=20, seed=1)
    assert posterior.n_edges.mean() >= len(known)
