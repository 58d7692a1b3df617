"""Missing numbers summed out: every formula against SciPy's densities, the draws against their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import invgamma, multivariate_normal, norm
from test_missing_numbers import both, drawn, exact_of, hidden, numbers, z_scores

import doxa
from doxa.data import Table
from doxa.models.bits import pack_rows, unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Additive, BDeu, BGe, ConditionalGaussian, MarkovBlanket, SingleEdge
from doxa.structure.cases.incomplete import summed_out
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler, can_sum_out
from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain
from doxa.structure.cases.incomplete.summed_out import (
    Coefficients,
    NumbersSummedOut,
    frozen_posterior,
    log_frozen,
    moments_of,
    observed_moments,
    rule_of,
)
from doxa.structure.families.family_weights import score_families
from doxa.structure.limits import make_limits
from support.checks import SEED, z_limit

N = 5
GRAPH = np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=bool)


def blank_numbers(n_columns=N, n_rows=60, missing=0.2, seed=3):
    """Numbers, each with up to two parents, and blank cells; some rows occur twice.  The first is far from 0."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_columns))
    for j in range(1, n_columns):
        for parent in rng.choice(j, size=min(j, 2), replace=False):
            values[:, j] += rng.choice([-0.8, 0.8]) * values[:, parent]
    values[:, 0] = 1e6 + 1e-3 * values[:, 0]
    values[rng.random(values.shape) < missing] = np.nan
    values = np.concatenate([values, values[:6]])
    names = [f"x{j}" for j in range(n_columns)]
    return Table.from_codes(names, [()] * n_columns, np.where(np.isnan(values), -1, 0), numbers=values)


def chain_of(table, graph=GRAPH, **options):
    data = IncompleteData(table, BGe())
    sampler = ScoredCellsSampler(data, make_limits(table.names), SingleEdge(), **options)
    cells = np.random.default_rng(1).normal(size=data.missing_cells.n_missing)
    return ScoredChain(sampler, sampler.start_at(pack_rows(graph), cells))


def some_coefficients(graph, seed=4):
    rng, n = np.random.default_rng(seed), len(graph)
    return Coefficients(np.where(graph.T, rng.normal(size=(n, n)), 0.0), rng.normal(size=n), rng.gamma(3.0, size=n) / 3)


def joint_normal(coefficients):
    """Mean and covariances of a row."""
    n = len(coefficients.variances)
    inverse = np.linalg.inv(np.eye(n) - coefficients.slopes)
    return inverse @ coefficients.intercepts, inverse @ np.diag(coefficients.variances) @ inverse.T


def seen_rows(chain):
    """Values of each row with the weights, nan where missing."""
    missing_cells = chain.data.missing_cells
    return missing_cells.numbers.values.T, missing_cells.weights


def log_seen(chain, mean, covariance):
    values, weights = seen_rows(chain)
    total = 0.0
    for row, weight in zip(values, weights, strict=True):
        seen = ~np.isnan(row)
        if seen.any():
            law = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
            total += weight * law.logpdf(row[seen])
    return total


def test_the_likelihood_of_what_was_observed_is_that_of_the_normal_distribution():
    chain = chain_of(blank_numbers())
    work = NumbersSummedOut(chain)._offered.work
    for seed in range(3):
        coefficients = some_coefficients(GRAPH, seed)
        wanted = log_seen(chain, *joint_normal(coefficients))
        assert summed_out.log_observed(coefficients, work) == pytest.approx(wanted, rel=1e-10)
        work.values[work.column, work.n_complete + chain.data.missing_cells.row] += 1.0  # whatever stands there


def test_cells_are_drawn_from_their_conditional_distribution():
    chain, coefficients = chain_of(blank_numbers()), some_coefficients(GRAPH)
    work, rng = NumbersSummedOut(chain)._offered.work, np.random.default_rng(SEED)
    mean, covariance = joint_normal(coefficients)
    missing_cells = chain.data.missing_cells
    i = int(np.argmax(np.diff(missing_cells.first)))  # the row with the most missing cells
    gone = missing_cells.column[missing_cells.first[i] : missing_cells.first[i + 1]]
    assert len(gone) >= 2
    seen, place = np.setdiff1d(np.arange(N), gone), missing_cells.n_complete + i
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


def family_of(node, graph):
    return np.flatnonzero(graph[:, node])


def log_prior(node, parents, coefficients, rule):
    """Of the coefficients of one family: the prior of BGe."""
    variance = coefficients.variances[node]
    a = 0.5 * (rule.freedom + len(parents) + 1)
    found = invgamma(a, scale=rule.scale / 2).logpdf(variance)
    found += norm(0, np.sqrt(variance / rule.mean_weight)).logpdf(coefficients.intercepts[node])
    return found + norm(0, np.sqrt(variance / rule.scale)).logpdf(coefficients.slopes[node, parents]).sum()


def log_posterior(node, parents, coefficients, moments, rule):
    """Density of what `draw_family` draws."""
    variance, n = coefficients.variances[node], moments.n_cases
    r = moments.posterior
    inverse = np.linalg.inv(r[np.ix_(parents, parents)])
    centre = inverse @ r[parents, node]
    s = r[node, node] - r[node, parents] @ centre
    found = invgamma(0.5 * (n + rule.freedom + len(parents) + 1), scale=s / 2).logpdf(variance)
    slopes = coefficients.slopes[node, parents]
    if len(parents):
        found += multivariate_normal(centre, variance * inverse).logpdf(slopes)
    middle = (moments.mean[node] - slopes @ moments.mean[parents]) * n / (n + rule.mean_weight)
    return found + norm(middle, np.sqrt(variance / (n + rule.mean_weight))).logpdf(coefficients.intercepts[node])


def test_prior_times_likelihood_over_posterior_is_the_score():
    """Whatever the coefficients: of the frozen table, whose score is that of the families' own kind."""
    chain = chain_of(blank_numbers())
    frozen, rule = frozen_posterior(chain.data, chain.limits), rule_of(chain.data)
    members = np.zeros(N, dtype=np.int64)
    for node in range(N):
        parents, score = family_of(node, GRAPH), np.empty(1)
        with frozen.scores.borrow() as (_, scoring):
            score_families(node, pack_rows(GRAPH.T)[node : node + 1], scoring, score)
        for seed in range(3):
            theta = some_coefficients(GRAPH, seed)
            likelihood = log_frozen(node, theta, frozen.moments, members)
            found = log_prior(node, parents, theta, rule) + likelihood
            found -= log_posterior(node, parents, theta, frozen.moments, rule)
            assert found == pytest.approx(score[0], abs=1e-7)


def test_coefficients_are_drawn_from_that_posterior():
    """By the mean of its log density, which is minus its entropy, and of its coefficients."""
    chain = chain_of(blank_numbers())
    space, rule = NumbersSummedOut(chain), rule_of(chain.data)
    moments = moments_of(chain.completion.numbers, chain.completion.weights, rule)
    prior, rng = (rule.mean_weight, rule.freedom, rule.scale), np.random.default_rng(SEED)
    target, node = some_coefficients(GRAPH), 3
    parents, words = family_of(node, GRAPH), pack_rows(GRAPH.T)[node]
    centre = np.linalg.solve(moments.posterior[np.ix_(parents, parents)], moments.posterior[parents, node])
    s = moments.posterior[node, node] - moments.posterior[node, parents] @ centre
    shape = 0.5 * (moments.n_cases + rule.freedom + len(parents) + 1)
    middle = (moments.mean[node] - centre @ moments.mean[parents]) * moments.n_cases
    wanted = np.append(centre, [middle / (moments.n_cases + rule.mean_weight), s / 2 / (shape - 1)])
    draws, log_density = np.empty((5000, len(parents) + 2)), np.empty(500)
    for k in range(len(draws)):
        summed_out.draw_family(node, words, target, moments, prior, space._offered.work, rng)
        draws[k] = np.append(target.slopes[node, parents], [target.intercepts[node], target.variances[node]])
        if k < len(log_density):
            log_density[k] = log_posterior(node, parents, target, moments, rule)
    z = np.abs(draws.mean(axis=0) - wanted) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert z.max() < z_limit(len(z))
    # minus the entropy: of the variance, and of normals given it
    normals = multivariate_normal(np.zeros(2), np.linalg.inv(moments.posterior[np.ix_(parents, parents)])).entropy()
    normals += norm(0, 1 / np.sqrt(moments.n_cases + rule.mean_weight)).entropy()
    variance = invgamma(shape, scale=s / 2)
    entropy = variance.entropy() + normals + 1.5 * (np.log(s / 2) - digamma(shape))
    assert abs(log_density.mean() + entropy) < z_limit(1) * log_density.std() / np.sqrt(len(log_density))


def test_the_frozen_table_has_the_moments_of_the_likeliest_normal_distribution():
    chain = chain_of(blank_numbers(n_rows=200))
    mean, covariance = observed_moments(chain.data, 0.0)
    best, rng = log_seen(chain, mean, covariance), np.random.default_rng(SEED)
    for size in (1e-3, 1e-2):
        for _ in range(10):
            turn = np.eye(N) + size * rng.normal(size=(N, N))
            assert log_seen(chain, mean + size * rng.normal(size=N), turn @ covariance @ turn.T) < best
    mean, covariance = observed_moments(chain.data, rule_of(chain.data).scale)
    moments = frozen_posterior(chain.data, chain.limits).moments
    assert moments.mean == pytest.approx(mean, abs=1e-9)
    assert moments.sums / moments.n_cases == pytest.approx(covariance, rel=1e-6, abs=1e-9)
    assert moments.n_cases == pytest.approx(206 * 0.8**2, rel=0.1)


def test_of_a_table_with_hardly_a_missing_cell_nearly_all_is_taken():
    """Then both likelihoods are nearly the same."""
    chain = chain_of(blank_numbers(n_rows=400, missing=0.002), summed_out=1)
    space = NumbersSummedOut(chain)
    space.run(chain.rows, 300, np.random.default_rng(SEED))
    assert space.done[0] > 100
    assert space.done[1] > 0.9 * space.done[0]


@pytest.mark.parametrize("wrong", ["", "other moments", "wide cells"])
def test_alone_it_draws_from_the_joint_posterior(wrong, monkeypatch):
    """Without any other change of the graph or the cells; the twins must fail."""
    if wrong == "other moments":  # proposals from one posterior, judged by another
        right = frozen_posterior

        def mixed(data, limits):
            found = right(data, limits)
            return found._replace(moments=found.moments._replace(n_cases=2 * found.moments.n_cases))

        monkeypatch.setattr(summed_out, "frozen_posterior", mixed)
    if wrong == "wide cells":
        right_cells = summed_out.draw_cells

        def widely(coefficients, work, rng):
            right_cells(coefficients._replace(variances=1.5 * coefficients.variances), work, rng)

        monkeypatch.setattr(summed_out, "draw_cells", widely)
    monkeypatch.setattr(ScoredChain, "move_edges", lambda *_: None)

    def keep(self, _steps, _rng, draws):
        draws.keep(self.rows, self.local, 0, None)

    monkeypatch.setattr(ScoredChain, "move_graph", keep)
    trace = drawn(numbers(), BGe(), SingleEdge(), seed=9, draws=1500)
    found = z_scores(trace, exact_of("numbers"))
    assert (found.max() < z_limit(len(found))) == (not wrong)


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


def test_where_it_can_be_done():
    assert can_sum_out(IncompleteData(numbers(), BGe()))
    assert can_sum_out(IncompleteData(numbers(), ConditionalGaussian()))
    assert not can_sum_out(IncompleteData(numbers(8), BGe()))  # too few rows for as many columns
    assert not can_sum_out(IncompleteData(numbers(), Additive()))
    assert not can_sum_out(IncompleteData(both(), ConditionalGaussian()))
    assert not can_sum_out(IncompleteData(hidden(), ConditionalGaussian(), hidden=["h"]))
    assert not can_sum_out(IncompleteData(Table.from_codes("ab", ["ny", "ny"], [[0, 1], [1, -1]] * 9), BDeu()))
    data, limits = IncompleteData(numbers(), BGe()), make_limits(["x", "y", "z"])
    assert ScoredCellsSampler(data, limits).sums_out
    assert not ScoredCellsSampler(data, limits, beta=0.5).sums_out
    assert not ScoredCellsSampler(data, limits, MarkovBlanket()).sums_out
    assert not ScoredCellsSampler(data, limits, summed_out=0).sums_out


def test_one_possible_graph_needs_no_proposals():
    table = blank_numbers()
    known = [(table.names[i], table.names[j]) for i, j in np.argwhere(GRAPH)]
    posterior = doxa.learn(table, required=known, max_parents=dict.fromkeys(table.names, 2), draws=20, seed=1)
    assert posterior.n_edges.mean() >= len(known)
