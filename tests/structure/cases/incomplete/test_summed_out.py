"""Missing numbers summed out: every formula against SciPy's densities, the draws against their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp
from scipy.stats import invgamma, multivariate_normal, norm
from test_missing_numbers import CASES, beside, both, drawn, exact_of, hidden, numbers, only_categories, z_scores

import doxa
from doxa._call_at import settled
from doxa.data import Table
from doxa.models.bits import pack_rows, unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Additive, BDeu, BGe, ConditionalGaussian, MarkovBlanket, SingleEdge
from doxa.structure.cases.incomplete import frozen, scored_sampler, summed_out
from doxa.structure.cases.incomplete.coefficients import draw_family, label_rows, log_frozen, no_coefficients
from doxa.structure.cases.incomplete.frozen import frozen_posterior, observed_moments, rule_of
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler, can_sum_out
from doxa.structure.cases.incomplete.scored_sweeps import ScoredChain
from doxa.structure.cases.incomplete.summed_out import CellsSummedOut
from doxa.structure.families.family_weights import score_families
from doxa.structure.families.gaussian.box import sums_of_products
from doxa.structure.limits import make_limits
from support.checks import SEED, z_limit

N = 5
GRAPHS = {
    "numbers": [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
    "beside categories": [[0, 1, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]],
}
GRAPHS["missing categories"] = GRAPHS["beside categories"]
GRAPHS = {name: np.array(graph, dtype=bool) for name, graph in GRAPHS.items()}
EITHER = pytest.mark.parametrize("case", GRAPHS)


def blank_numbers(n_columns=N, n_rows=60, missing=0.2, seed=3, categories=0, unknown=0.0):
    """Numbers, each with up to two parents, and blank cells; some rows occur twice.  The first is far from 0.

    The first columns may be categories, of 3, 2, 3, ... states, a share of them unknown; numbers depend on them.
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
    codes[:, :categories][rng.random((n_rows, categories)) < unknown] = -1
    values, codes = np.concatenate([values, values[:6]]), np.concatenate([codes, codes[:6]])
    states = [tuple("abc"[: 3 - j % 2]) if j < categories else () for j in range(n_columns)]
    return Table.from_codes([f"x{j}" for j in range(n_columns)], states, codes, numbers=values)


def chain_of(case, **options):
    graph, categories = GRAPHS[case], 0 if case == "numbers" else 2
    options = {"unknown": 0.1 if case == "missing categories" else 0.0} | options
    table = blank_numbers(
        categories=categories,
        **{name: options.pop(name) for name in ("n_rows", "missing", "unknown") if name in options},
    )
    data = IncompleteData(table, ConditionalGaussian() if categories else BGe())
    sampler = ScoredCellsSampler(data, make_limits(table.names), SingleEdge(), **options)
    cells = np.random.default_rng(1).normal(size=data.missing_cells.n_missing)
    cells[~data.missing_cells.is_number] = 1
    return ScoredChain(sampler, sampler.start_at(pack_rows(graph), cells))


def above(chain, node, graph):
    """Parents that are categories."""
    return np.flatnonzero(graph[:, node] & ~chain.data.table.is_number)


def configurations(columns, node, graph, chain):
    """The number of what the categories among a node's parents are in every row of a table, and how many there are."""
    found, size = np.zeros(columns.shape[1], dtype=int), 1
    for j in above(chain, node, graph):
        r = len(chain.data.table.states[j])
        found, size = found * r + columns[j], size * r
    return found, size


def some_coefficients(chain, graph, seed=4):
    """Coefficients of every configuration, in the form of compiled loops."""
    rng, table, n_rows = np.random.default_rng(seed), chain.data.table, len(chain.completion.weights)
    n, frozen = len(graph), frozen_posterior(chain.data, chain.limits)
    found = no_coefficients(n, n_rows, len(frozen.counts), 8, 3)
    for node in range(n):
        categories, parents = above(chain, node, graph), family_of(chain, node, graph)
        found.label[node], size = configurations(chain.completion.columns, node, graph, chain)
        found.frozen_label[node] = configurations(frozen.columns, node, graph, chain)[0]
        found.n_labels[node], found.n_above[node], found.n_parents[node] = size, len(categories), len(parents)
        found.parents[node, : len(parents)], found.above[node, : len(categories)] = parents, categories
        if table.is_number[node]:
            found.slopes[node, :size, : len(parents)] = rng.normal(size=(size, len(parents)))
            found.intercepts[node, :size] = rng.normal(size=size)
            found.variances[node, :size] = rng.gamma(3.0, size=size) / 3
        else:
            r = len(table.states[node])
            found.log_shares[node, :size, :r] = np.log(rng.dirichlet(np.ones(r), size=size))
    return found


def family_of(chain, node, graph):
    """Parents that are numbers."""
    return np.flatnonzero(graph[:, node] & chain.data.table.is_number)


def joint_normal(chain, coefficients, codes, graph):
    """Mean and covariances of the numbers of a row with these categories."""
    slopes, intercepts, variances = np.zeros((N, N)), np.zeros(N), np.zeros(N)
    for node in np.flatnonzero(chain.data.table.is_number):
        label = configurations(codes[:, None], node, graph, chain)[0][0]
        p = coefficients.n_parents[node]
        slopes[node, coefficients.parents[node, :p]] = coefficients.slopes[node, label, :p]
        intercepts[node], variances[node] = coefficients.intercepts[node, label], coefficients.variances[node, label]
    inverse = np.linalg.inv(np.eye(N) - slopes)
    covariance = inverse @ np.diag(variances) @ inverse.T
    return inverse @ intercepts, covariance


def log_states(chain, coefficients, codes, graph):
    """Of the categories of a row."""
    total = 0.0
    for node in np.flatnonzero(~chain.data.table.is_number):
        label = configurations(codes[:, None], node, graph, chain)[0][0]
        total += coefficients.log_shares[node, label, codes[node]]
    return total


def completions_of(chain, row):
    """All states that the categories of a row may have."""
    base, sizes = chain.data.missing_cells.base[:, row], chain.data.missing_cells.n_states
    unknown = np.flatnonzero((base < 0) & ~chain.data.table.is_number)
    for states in np.ndindex(*sizes[unknown]):
        codes = base.clip(0)
        codes[unknown] = states
        yield codes


def log_seen(chain, mean_and_covariance, log_share=lambda _: 0.0):
    """Of what was observed; the law of a row depends on its categories, whose states that are missing are summed."""
    missing_cells, numbers = chain.data.missing_cells, np.flatnonzero(chain.data.table.is_number)
    total = 0.0
    for row, (values, weight) in enumerate(zip(missing_cells.numbers.values.T, missing_cells.weights, strict=True)):
        parts = []
        for codes in completions_of(chain, row):
            mean, covariance = mean_and_covariance(codes)
            seen = numbers[~np.isnan(values[numbers])]
            parts.append(log_share(codes))
            if len(seen):
                parts[-1] += multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(values[seen])
        total += weight * logsumexp(parts)
    return total


@EITHER
def test_the_likelihood_of_what_was_observed_is_that_of_its_distribution(case):
    chain, graph = chain_of(case), GRAPHS[case]
    work = CellsSummedOut(chain)._offered.work
    for seed in range(3):
        theta = some_coefficients(chain, graph, seed)
        laws = [lambda codes, c=theta: joint_normal(chain, c, codes, graph)]
        if case == "missing categories":
            laws.append(lambda codes, c=theta: log_states(chain, c, codes, graph))
        assert summed_out.log_observed(theta, work) == pytest.approx(log_seen(chain, *laws), rel=1e-10)
        row = chain.data.missing_cells.row[chain.data.missing_cells.is_number]
        work.values[work.column, work.n_complete + row] += 1.0  # whatever stands there


def test_states_are_drawn_with_their_probabilities():
    case = "missing categories"
    chain, graph, rng = chain_of(case, unknown=0.25), GRAPHS[case], np.random.default_rng(SEED)
    theta, work = some_coefficients(chain, graph), CellsSummedOut(chain)._offered.work
    missing_cells, numbers = chain.data.missing_cells, np.flatnonzero(chain.data.table.is_number)
    draws = np.empty((4000, *work.rows.shape), dtype=int)
    for k in range(len(draws)):
        settled(summed_out.draw_cells)(theta, work, rng)
        draws[k] = work.rows
        np.testing.assert_array_equal(work.rows, work.columns[:, work.n_complete :].T)
    z, both_missing = [], 0
    for i in work.open.row:
        row = work.n_complete + i
        values, weights = missing_cells.numbers.values[:, row], []
        seen = numbers[~np.isnan(values[numbers])]
        states = list(completions_of(chain, row))
        both_missing += len(states) == 6
        for codes in states:
            mean, covariance = joint_normal(chain, theta, codes, graph)
            weights.append(log_states(chain, theta, codes, graph))
            if len(seen):
                weights[-1] += multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(values[seen])
        for codes, p in zip(states, np.exp(weights - logsumexp(weights)), strict=True):
            share = (draws[:, i] == codes).all(axis=1).mean()
            if min(p, 1 - p) * len(draws) > 20:
                z.append((share - p) / np.sqrt(p * (1 - p) / len(draws)))
    assert both_missing > 0
    assert len(z) > 20
    assert np.abs(z).max() < z_limit(len(z))
    assert np.abs(np.array(z) + 4).max() > z_limit(len(z))  # a share that is four errors off would be seen


@EITHER
def test_cells_are_drawn_from_their_conditional_distribution(case):
    chain = chain_of(case)
    coefficients = some_coefficients(chain, GRAPHS[case])
    work, rng = CellsSummedOut(chain)._offered.work, np.random.default_rng(SEED)
    missing_cells = chain.data.missing_cells
    lacking = np.diff(work.first)
    lacking[work.open.row] = 0
    i = int(np.argmax(lacking))  # of the rows whose categories are known that with the most missing numbers
    gone = work.column[work.first[i] : work.first[i + 1]]
    assert len(gone) >= 2
    place = missing_cells.n_complete + i
    mean, covariance = joint_normal(chain, coefficients, missing_cells.base[:, place], GRAPHS[case])
    seen = np.setdiff1d(np.flatnonzero(chain.data.table.is_number), gone)
    gain = covariance[np.ix_(gone, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    centre = mean[gone] + gain @ (work.values[seen, place] - mean[seen])
    spread = covariance[np.ix_(gone, gone)] - gain @ covariance[np.ix_(seen, gone)]
    draws = np.empty((10_000, len(gone)))
    for k in range(len(draws)):
        settled(summed_out.draw_cells)(coefficients, work, rng)
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


def shares_over_posterior(node, theta, label, counts):
    """Density of a category's shares under the prior over that under the posterior, logs."""
    r = len(counts)
    log_shares, alpha = theta.log_shares[node, label, :r], 1.0 / (r * theta.n_labels[node])
    ends = gammaln(r * alpha) - r * gammaln(alpha) - gammaln(r * alpha + counts.sum()) + gammaln(alpha + counts).sum()
    return ends - (counts * log_shares).sum()


@EITHER
def test_prior_times_likelihood_over_posterior_is_the_score(case):
    """Whatever the coefficients: of the frozen table, whose score is that of the families' own kind."""
    chain, graph = chain_of(case), GRAPHS[case]
    frozen, rule, rows = frozen_posterior(chain.data, chain.limits), rule_of(chain.data), CellsSummedOut(chain)
    is_number, checked = chain.data.table.is_number, 0
    for node in range(N):
        score = np.empty(1)
        with frozen.scores.borrow() as (_, scoring):
            score_families(node, pack_rows(graph.T)[node : node + 1], scoring, score)
        for seed in range(3):
            theta = some_coefficients(chain, graph, seed)
            found = log_frozen(node, theta, rows._offered.frozen)
            for label in range(theta.n_labels[node]):
                here = theta.frozen_label[node] == label
                if not here.any():
                    continue  # its posterior is the prior
                checked += label
                if not is_number[node]:
                    states = frozen.columns[node, here]
                    counts = np.bincount(states, frozen.counts[here], minlength=len(chain.data.table.states[node]))
                    found += shares_over_posterior(node, theta, label, counts)
                    continue
                last = here[len(here) - len(frozen.spread) :]
                spread = np.tensordot(frozen.counts[-len(last) :][last], frozen.spread[last], 1)
                table = frozen.values[:, here], frozen.counts[here], rule, label, spread
                found += log_prior(node, theta, rule, label) - log_posterior(node, theta, *table)
            assert found == pytest.approx(score[0], abs=1e-7)
    assert (checked > 0) == (case != "numbers")


@EITHER
def test_coefficients_are_drawn_from_that_posterior(case):
    """By the mean of its log density, which is minus its entropy, and of its coefficients."""
    chain, node = chain_of(case), 3
    space, rule = CellsSummedOut(chain), rule_of(chain.data)
    rng, target = np.random.default_rng(SEED), some_coefficients(chain, GRAPHS[case])
    parents, words = family_of(chain, node, GRAPHS[case]), pack_rows(GRAPHS[case].T)[node]
    today, prior = space._offered.today, space._offered.prior
    label_rows(node, words, target, today.data, space._offered.frozen)
    label = int(target.n_labels[node]) - 1
    here = configurations(chain.completion.columns, node, GRAPHS[case], chain)[0] == label
    rows = chain.completion.numbers[:, here], chain.completion.weights[here]
    centre, inverse, s, n, mean = posterior_of(node, parents, *rows, rule)
    shape = 0.5 * (n + rule.freedom + len(parents) + 1)
    middle = (mean[-1] - centre @ mean[:-1]) * n / (n + rule.mean_weight)
    wanted = np.append(centre, [middle, s / 2 / (shape - 1)])
    draws, log_density = np.empty((5000, len(parents) + 2)), np.empty(500)
    draw = settled(draw_family)
    for k in range(len(draws)):
        draw(node, words, target, target.label, today, prior, rng)
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
    mean, covariance = observed_moments(*frozen._Columns.of(chain.data).to_fit(chain.data), 0.0)
    best, rng = log_seen(chain, lambda _: (mean, covariance)), np.random.default_rng(SEED)
    for size in (1e-3, 1e-2):
        for _ in range(10):
            turn = np.eye(N) + size * rng.normal(size=(N, N))
            other = mean + size * rng.normal(size=N), turn @ covariance @ turn.T
            assert log_seen(chain, lambda _, other=other: other) < best
    mean, covariance = observed_moments(*frozen._Columns.of(chain.data).to_fit(chain.data), rule_of(chain.data).scale)
    found = frozen_posterior(chain.data, chain.limits)
    sums, of_table = sums_of_products(found.values, found.counts)
    assert of_table == pytest.approx(mean, abs=1e-9)
    assert sums / found.counts.sum() == pytest.approx(covariance, rel=1e-6, abs=1e-9)
    assert found.counts.sum() == pytest.approx(206 * 0.8**2, rel=0.1)


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


def test_the_frozen_table_has_rows_for_the_states_that_are_missing():
    """Their weights say more of what was taken out of the table than how common the states are."""
    chain = chain_of("missing categories", n_rows=2000)
    found, missing_cells = frozen_posterior(chain.data, chain.limits), chain.data.missing_cells
    assert found.counts.sum() == pytest.approx(chain.data.table.n_rows)
    n_complete, n_incomplete = missing_cells.n_complete, len(missing_cells.source_row)
    states = [len(list(completions_of(chain, n_complete + i))) for i in range(n_incomplete)]
    assert len(found.spread) == sum(states) == len(found.counts) - n_complete
    of_row = np.repeat(np.arange(n_incomplete), states)
    assert np.bincount(of_row, found.counts[n_complete:]) == pytest.approx(np.ones(n_incomplete))
    whole = blank_numbers(n_rows=2000, categories=2)  # the same cells, categories not blanked
    gain = []
    for node in range(2):
        truth = whole.codes[whole.row_index[missing_cells.source_row], node]
        common = np.log(np.bincount(whole.codes[:, node], whole.counts) / whole.n_rows)
        is_true = found.columns[node, n_complete:] == truth[of_row]
        share = np.bincount(of_row, found.counts[n_complete:] * is_true)
        gone = missing_cells.base[node, n_complete:] < 0
        assert (share[~gone] > 1 - 1e-9).all()
        gain.append((np.log(share[gone]) - common[truth[gone]]).mean())
    assert min(gain) > 0.1


@EITHER
def test_of_a_table_with_hardly_a_missing_cell_nearly_all_is_taken(case):
    """Then both likelihoods are nearly the same."""
    few = {"n_rows": 400, "missing": 0.002} if case == "numbers" else {"n_rows": 100, "missing": 0.01}
    if case == "missing categories":
        few["unknown"] = 0.01
    chain = chain_of(case, **few, summed_out=1)
    space = CellsSummedOut(chain)
    space.run(chain.graph, 1000, np.random.default_rng(SEED))
    assert space.done[0] > 100
    assert space.done[1] > 0.9 * space.done[0]


TWINS = [
    *((case, wrong) for case in ("numbers", "beside", "categories") for wrong in ("", "other counts", "wide cells")),
    ("categories", "other shares"),
    ("only categories", ""),
    ("only categories", "other shares"),
]


@pytest.mark.parametrize(("case", "wrong"), TWINS)
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
    if wrong == "other shares":  # drawn from another posterior than the scores are of
        right_space = CellsSummedOut.__init__

        def heavier(self, chain):
            right_space(self, chain)
            self._offered = self._offered._replace(prior=self._offered.prior._replace(log_weight=2.5))

        monkeypatch.setattr(CellsSummedOut, "__init__", heavier)
    monkeypatch.setattr(ScoredChain, "move_edges", lambda *_: None)

    def keep(self, _steps, _rng, draws):
        draws.keep(self.rows, self.local, 0, None)

    monkeypatch.setattr(ScoredChain, "move_graph", keep)
    make, kind = CASES[case]
    is_plain = wrong == "other counts" and kind != BGe()  # seen soonest
    trace = drawn(make(), kind, SingleEdge(), seed=9, draws=300 if is_plain else 800 if wrong else 1500)
    found = z_scores(trace, exact_of(case))
    assert (found.max() < z_limit(len(found))) == (not wrong)


def test_where_states_are_too_many_the_others_stand_still_meanwhile(monkeypatch):
    """One category a row is summed out here; sweeps over the columns draw the other."""
    monkeypatch.setattr(frozen, "MOST_STATES", 1)
    sums_all, right = [], CellsSummedOut.__init__

    def noted(self, chain):
        right(self, chain)
        sums_all.append(self.sums_all)

    monkeypatch.setattr(CellsSummedOut, "__init__", noted)
    make, kind = CASES["categories"]
    found = z_scores(drawn(make(), kind, SingleEdge(), seed=9), exact_of("categories"))
    assert not any(sums_all)
    assert found.max() < z_limit(len(found))


def test_graphs_of_too_many_configurations_are_left_to_the_other_moves(monkeypatch):
    """Of two, here: then the category is no parent while numbers are summed out."""
    monkeypatch.setattr(summed_out, "MOST_CONFIGURATIONS", 1)
    begun, can_begin = [], CellsSummedOut.can_begin
    monkeypatch.setattr(CellsSummedOut, "can_begin", lambda *given: begun.append(can_begin(*given)) or begun[-1])
    make, kind = CASES["beside"]
    found = z_scores(drawn(make(), kind, SingleEdge(), seed=9), exact_of("beside"))
    assert min(np.sum(begun), len(begun) - np.sum(begun)) > 50
    assert found.max() < z_limit(len(found))


def test_chains_from_everywhere_soon_agree():
    """Of twelve numbers with a fifth of the cells blank; where cells are changed column by column they do not."""
    table = blank_numbers(12, 300, 0.2, seed=2)
    data, limits = IncompleteData(table, BGe()), make_limits(table.names)

    def between(**options):
        sampler = ScoredCellsSampler(data, limits, **options)
        edges = unpack_rows(sample(sampler, Schedule(4, 50, 50), seed=1, workers=1)["rows"], 12)
        return float(edges.mean(axis=1).std(axis=0, ddof=1).mean())

    assert between() < 0.06
    assert between(summed_out=0) > 0.12


def test_where_it_can_be_done(monkeypatch):
    assert can_sum_out(IncompleteData(numbers(), BGe()))
    assert can_sum_out(IncompleteData(numbers(), ConditionalGaussian()))
    assert not can_sum_out(IncompleteData(numbers(8), BGe()))  # too few rows for as many columns
    assert not can_sum_out(IncompleteData(numbers(), Additive()))
    assert can_sum_out(IncompleteData(beside(), ConditionalGaussian()))
    assert can_sum_out(IncompleteData(both(), ConditionalGaussian()))
    assert can_sum_out(IncompleteData(only_categories(), ConditionalGaussian()))
    assert not can_sum_out(IncompleteData(hidden(), ConditionalGaussian(), hidden=["h"]))
    assert not can_sum_out(IncompleteData(Table.from_codes("ab", ["ny", "ny"], [[0, 1], [1, -1]] * 9), BDeu()))
    many = Table.from_codes(["g", "x"], [[f"s{k}" for k in range(99)], ()], [[-1, 0]] + [[k, 0] for k in range(98)],
                            numbers=np.array([[np.nan, float(k)] for k in range(99)]))  # fmt: skip
    monkeypatch.setattr(scored_sampler, "_MOST_COVARIANCES", 395)  # of 99 states in one row of two columns
    assert not can_sum_out(IncompleteData(many, ConditionalGaussian()))
    monkeypatch.setattr(scored_sampler, "_MOST_COVARIANCES", 397)
    assert can_sum_out(IncompleteData(many, ConditionalGaussian()))
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
