"""One pass over cases with missing cells: each case against the batch ascent, the whole below the evidence."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hidden_cases import FORMS, XIS, common_cause, exact_log_evidence, random_case, small_cases, table_of
from scipy.special import digamma, entr, expit

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models import LogisticNetwork
from doxa.models.logistic_regression import make_problem
from doxa.parameters.variational.bound import lambda_of
from doxa.parameters.variational.hidden import (
    hidden_posterior,
    joint_gaussian,
    mixture_weights,
    one_case,
    sequential_hidden_posterior,
    sequential_hidden_posteriors,
)
from doxa.parameters.variational.sequential import sequential_posterior
from doxa.sampling.gaussian import Gaussian
from support.checks import SEED

WAYS = list(product(FORMS, XIS))
BIMODAL = LogisticNetwork({"y": ["h", "x"]}, prior_mean=3.0, prior_scale=10**0.5, bias=2.0, roots={"h": 0.6, "x": 0.5})


def bimodal_table(seed):
    """Section 5.2 of de Freitas et al. 2001."""
    return BIMODAL.simulate(50, {"y": [2.0, -1.0]}, np.random.default_rng(seed)).select(["x", "y"])


def excesses(n_cases):
    """Bound less exact log evidence, for each case, form and kind of xi."""
    out = []
    for network, table in small_cases(n_cases):
        exact = exact_log_evidence(network, table)
        found = [sequential_hidden_posterior(network, table, form=form, xi=xi).log_evidence for form, xi in WAYS]
        out.append(np.array(found) - exact)
    return np.array(out)


def test_bounds_are_below_the_evidence():
    found = excesses(28)
    assert len(found) > 20
    assert found.max() < 1e-8
    assert np.median(found[:, 0]) > -3.0  # no wild bound


@pytest.mark.slow
def test_bounds_are_below_the_evidence_in_many_cases():
    assert excesses(700).max() < 1e-8


def test_led_passes_are_below_the_evidence_too():
    for k, (network, table) in enumerate(small_cases(14)):
        exact = exact_log_evidence(network, table)
        for form, xi in WAYS:
            for fit in sequential_hidden_posteriors(network, table, starts=2, seed=k, form=form, xi=xi):
                assert fit.log_evidence < exact + 1e-8


def test_twice_the_entropy_is_no_bound(monkeypatch):
    right = one_case.see_case

    def twice(shape, case, state, q, *options):
        log_bound, *rest = right(shape, case, state, q, *options)
        return log_bound + entr(q).sum(), *rest

    monkeypatch.setattr(one_case, "see_case", twice)
    assert excesses(14).max() > 0.1


def test_cases_that_are_learned_before_they_are_counted_give_no_bound(monkeypatch):
    right = one_case.see_case

    def learned(*arguments):
        right(*arguments)
        return right(*arguments)

    monkeypatch.setattr(one_case, "see_case", learned)
    assert excesses(14).max() > 0.1


@pytest.mark.parametrize(("form", "xi"), WAYS)
def test_a_case_alone_is_the_optimum_of_the_ascent(form, xi):
    """Never above the best of several ascents, and there in nearly every network: a case has few optima."""
    n_equal = n_cases = 0
    for k in range(25):
        network, table = random_case(np.random.default_rng([SEED, k]))
        row = Table.from_codes(table.names, table.states, table.codes[:1])
        options = {"form": form, "xi": xi}
        one = sequential_hidden_posterior(network, row, **options)
        ascents = [hidden_posterior(network, row, rng=np.random.default_rng(j), **options) for j in range(3)]
        best = max(ascents, key=lambda ascent: ascent.log_evidence)
        assert one.log_evidence < best.log_evidence + 1e-6
        n_cases += 1
        if one.log_evidence > best.log_evidence - 1e-6:
            n_equal += 1
            same = [ascent for ascent in ascents if ascent.log_evidence > one.log_evidence - 1e-6]
            near = [
                all(np.allclose(g.mean, one.gaussians[v].mean, atol=1e-3) for v, g in ascent.gaussians.items())
                and all(np.allclose(beta, one.roots[v], atol=1e-3) for v, beta in ascent.roots.items())
                for ascent in same
            ]
            assert any(near)
    assert n_equal >= 0.8 * n_cases


def test_complete_cases_are_those_of_the_sequential_posterior():
    """Of a family that is always complete to the last digit; of one with a missing cell in its last case, so far."""
    rng = np.random.default_rng(SEED)
    network = LogisticNetwork({"c": ["a", "b"], "d": ["c"]}, prior_scale=2.0, prior_mean=0.5, roots={"b": 0.3})
    codes = rng.integers(0, 2, (60, 4))
    names = ["a", "b", "c", "d"]
    signs = 2.0 * codes - 1

    def alone(rows, parents, child):
        design = np.column_stack([np.ones(rows), signs[:rows][:, parents]])
        problem = make_problem(design, signs[:rows, child], prior_mean=0.5, prior_covariance=4.0, collapse=False)
        return sequential_posterior(problem)

    whole = sequential_hidden_posterior(network, table_of(names, codes))
    holed = codes.copy()
    holed[-1, 0] = -1
    last = sequential_hidden_posterior(network, table_of(names, holed))
    c, d = alone(60, [0, 1], 2), alone(60, [2], 3)
    for node, expected in {"c": c, "d": d}.items():
        assert np.array_equal(whole.gaussians[node].mean, expected.mean)
        assert np.array_equal(whole.gaussians[node].cholesky, expected.cholesky)
    ones = codes[:, 0].sum()
    assert whole.roots["a"] == (1 + ones, 61 - ones)
    seen = np.cumsum(np.vstack([[1, 1], np.eye(2)[codes[:, 0]]]), axis=0)[:-1]
    roots = np.log(seen[np.arange(60), codes[:, 0]] / seen.sum(axis=1))
    given = np.log(np.where(codes[:, 1] == 1, 0.3, 0.7))
    assert whole.trace == pytest.approx(c.trace + d.trace + roots + given, abs=1e-12)
    assert last.trace[:-1] == pytest.approx(whole.trace[:-1], abs=1e-7)
    assert np.array_equal(last.gaussians["d"].mean, d.mean)
    before = alone(59, [0, 1], 2)
    assert not np.allclose(last.gaussians["c"].mean, before.mean, atol=1e-3)  # the case with the missing cell counts
    first = sequential_hidden_posterior(network, table_of(names, holed[::-1]))
    assert abs(first.gaussians["c"].mean - last.gaussians["c"].mean).max() > 1e-3  # and the order does


def printed_pass(observed, child, bias, prior_mean, prior_covariance, quadratic=False, prior_logit=0.0):
    """Figure 3 with eq. 8, record by record; with the terms that it lacks on request."""
    precision = np.linalg.inv(prior_covariance)
    pull = precision @ prior_mean
    mean, covariance = prior_mean.copy(), prior_covariance.copy()
    for x, y in zip(observed, child, strict=True):
        xi, slope = np.inf, np.nan
        for k in range(1000):
            logit = prior_logit + y * mean[0]
            if quadratic:
                slope = float(lambda_of(xi)) if k else first_slope(mean, covariance, bias, x, prior_logit)
                logit -= 4 * slope * (bias * mean[0] + (covariance[0, 1] + mean[0] * mean[1]) * x)
            hidden = 2 * expit(logit) - 1
            first = np.array([hidden, x])
            second = np.array([[1.0, hidden * x], [hidden * x, 1.0]])
            old = xi
            xi = np.sqrt(bias**2 + 2 * bias * mean @ first + ((covariance + np.outer(mean, mean)) * second).sum())
            slope = float(lambda_of(xi))
            covariance = np.linalg.inv(precision + 2 * slope * second)
            mean = covariance @ (pull + (y / 2 - 2 * slope * bias) * first)
            if abs(xi - old) <= 1e-10 * xi:
                break
        precision = precision + 2 * slope * second
        pull = pull + (y / 2 - 2 * slope * bias) * first
    return Gaussian.from_covariance(mean, (covariance + covariance.T) / 2)


def first_slope(mean, covariance, bias, x, prior_logit):
    hidden = 2 * expit(prior_logit) - 1
    first, second = np.array([hidden, x]), np.array([[1.0, hidden * x], [hidden * x, 1.0]])
    return float(
        lambda_of(np.sqrt(bias**2 + 2 * bias * mean @ first + ((covariance + np.outer(mean, mean)) * second).sum()))
    )


@pytest.mark.parametrize("seed", range(4))
def test_passes_as_printed_and_corrected_are_the_equations_written_out(seed):
    """And the printed equations, which lack two terms, are another pass with a lower bound."""
    table = bimodal_table(seed)
    signs = 2.0 * table.codes[table.row_index] - 1
    prior = BIMODAL.prior("y")
    records = signs[:, 0], signs[:, 1], 2.0, prior.mean, prior.covariance
    printed = printed_pass(*records)
    corrected = printed_pass(*records, quadratic=True, prior_logit=float(np.log(0.6 / 0.4)))
    ways = {"form": "mean_field", "xi": "row"}
    found = sequential_hidden_posterior(BIMODAL, table, published=True, **ways)
    right = sequential_hidden_posterior(BIMODAL, table, **ways)
    for expected, got in ((printed, found), (corrected, right)):
        assert np.allclose(got.gaussians["y"].mean, expected.mean, atol=1e-6)
        assert np.allclose(got.gaussians["y"].covariance, expected.covariance, atol=1e-6)
    assert np.abs(printed.mean - corrected.mean).max() > 0.05
    assert found.trace[0] < right.trace[0] - 1e-3  # of the first case, where both have the same prior


def test_hidden_states_that_the_prior_exchanges_need_a_lead():
    network, table = common_cause(300)
    unled = sequential_hidden_posterior(network, table)
    assert all(abs(unled.gaussians[node].mean[1]) < 1e-6 for node in "abc")  # the saddle
    fits = sequential_hidden_posteriors(network, table, starts=4, seed=SEED)
    assert fits[0].log_evidence > unled.log_evidence + 10
    one, other = fits[:2]
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    assert one.roots["h"] == pytest.approx(other.roots["h"][::-1], abs=1e-4)
    for node in "abc":
        mirrored = one.gaussians[node].mean.copy()
        mirrored[1] *= -1
        assert abs(mirrored[1]) > 0.3
        assert np.allclose(other.gaussians[node].mean, mirrored, atol=1e-5)
    assert mixture_weights(fits[:2]) == pytest.approx([0.5, 0.5], abs=1e-4)
    assert joint_gaussian(one).n_dimensions == 7
    start = {node: one.gaussians[node].mean for node in "abc"} | {"h": [0.4]}
    led = sequential_hidden_posterior(network, table, start=start, led=20)
    assert np.sign(led.gaussians["a"].mean[1]) == np.sign(start["a"][1])
    assert led.log_evidence > unled.log_evidence + 10


def test_both_modes_of_a_hidden_parent_are_found():
    fits = sequential_hidden_posteriors(BIMODAL, bimodal_table(2), seed=1)
    hidden = [fit.gaussians["y"].mean[0] for fit in fits]
    assert min(hidden) < 0 < max(hidden)


def test_cells_are_those_of_the_cases_in_their_order():
    network = LogisticNetwork({"c": ["a"], "d": ["c"]}, roots={"a": 0.3}, prior_scale=1.0, prior_mean=1.0)
    rows = [[-1, 1, 1], [0, 1, 0], [1, -1, 0], [1, 0, -1], [-1, -1, -1]]
    fit = sequential_hidden_posterior(
        network, table_of(["a", "c", "d"], rows), order="random", rng=np.random.default_rng(3)
    )
    codes = np.array(rows)[:, [0, 1, 2]]
    place = [network.names.index(v) for v in ("a", "c", "d")]
    taken = table_of(["a", "c", "d"], rows).codes[fit.order.rows]
    known = taken >= 0
    assert fit.order.drawn
    assert sorted(map(tuple, taken.tolist())) == sorted(map(tuple, codes.tolist()))
    assert np.array_equal(fit.cells[:, place][known], taken[known])
    unknown = np.isnan(fit.cells[:, place])
    assert np.array_equal(unknown.sum(axis=1), [{(1, 0, -1): 1, (-1, -1, -1): 3}.get(tuple(row), 0) for row in taken])
    cells = fit.cell_probabilities()
    assert not np.isnan(cells).any()
    assert cells[(taken == -1).all(axis=1)][0, place[0]] == pytest.approx(0.3)


def test_the_digamma_function():
    x = np.concatenate([np.geomspace(1e-3, 1e6, 200), [1.0, 9.999, 10.0, 10.001]])
    assert np.array([one_case._digamma(v) for v in x]) == pytest.approx(digamma(x), rel=1e-13, abs=1e-13)


def test_families_that_miss_too_much_are_refused():
    names = [f"x{k}" for k in range(21)]
    network = LogisticNetwork({"y": names}, prior_scale=0.5, roots=dict.fromkeys(names, 0.5))
    with pytest.raises(ArgumentError, match="2,097,152 configurations of families with missing cells"):
        sequential_hidden_posterior(network, table_of(["y"], [[1]]), form="mean_field")
    table = table_of(["y", *names], [[1] + [-1] * 6 + [0] * 15])
    assert sequential_hidden_posterior(network, table, form="mean_field").converged
    assert not sequential_hidden_posterior(network, table, form="mean_field", max_iterations=1).converged


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"form": "tree"}, ArgumentError, "form is 'tree'"),
        ({"published": True}, ArgumentError, "published is True but form is 'unconstrained'"),
        ({"led": 3}, ArgumentError, "no start to lead cases by"),
        ({"start": [1.0]}, ArgumentTypeError, "start is of type list"),
        ({"start": {"x": [0.2]}}, ArgumentError, "start names 'x'"),
        ({"start": {"y": [0.0, 1.0]}, "led": -1}, ArgumentError, "led is -1"),
        ({"order": "sorted"}, ArgumentError, "order is 'sorted'"),
        ({"rng": 3}, ArgumentTypeError, "rng is 3"),
        ({"tolerance": 0.0}, ArgumentError, "tolerance is 0"),
    ],
)
def test_refusals(options, error, words):
    with pytest.raises(error, match=words):
        sequential_hidden_posterior(BIMODAL, bimodal_table(1), **options)


def test_an_impossible_row_and_an_unknown_order_are_refused():
    network = LogisticNetwork({"c": ["a", "b"]}, roots=np.array([[0.5, 0.0], [0.2, 0.3]]))
    with pytest.raises(ArgumentError, match="impossible"):
        sequential_hidden_posterior(network, table_of(["a", "b", "c"], [[0, 1, 1], [0, -1, 1]]))
    table = bimodal_table(1)
    unknown = Table(table.names, table.states, table.codes, table.counts, None)
    with pytest.raises(TableError, match="is not known"):
        sequential_hidden_posterior(BIMODAL, unknown, order="table")
    assert sequential_hidden_posterior(BIMODAL, unknown).order.drawn
