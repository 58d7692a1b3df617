"""Approximations of one pass in `doxa.fit`: case by case, in an order that is known or says that it was drawn."""

from __future__ import annotations

import numpy as np
import pytest
from parameter_cases import bimodal, bimodal_on_grid

import doxa
from doxa import LogisticNetwork, Table
from doxa.errors import ArgumentError, TableError
from doxa.estimates import IndicatorCounts, diagnose_indicators
from doxa.estimates.store import RunFileError
from doxa.models.logistic_parts import part_regression
from doxa.models.logistic_regression import make_problem
from doxa.parameters import approximate
from doxa.parameters.regression import sample_regression
from doxa.parameters.variational.hidden import sequential_hidden_posteriors
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.sequential import order_cases, sequential_posterior, spiegelhalter_lauritzen_posterior
from support.checks import z_limit

ONE_PASS = {"sequential": sequential_posterior, "spiegelhalter_lauritzen": spiegelhalter_lauritzen_posterior}
PARENTS = tuple("abcde")
NETWORK = LogisticNetwork({"y": PARENTS}, bias=0.5, prior_scale=10.0, roots=dict.fromkeys(PARENTS, 0.5))


def five_parents(seed=2, n=1000):
    """Section 5.1 of de Freitas et al. 2001."""
    rng = np.random.default_rng([5, n, seed])
    return NETWORK.simulate(n, {"y": 1 - rng.random(5)}, rng).select([*PARENTS, "y"])


def regression(table, rows):
    signs = 2.0 * table.codes[rows] - 1
    return make_problem(signs[:, :5], signs[:, 5], offset=0.5, prior_covariance=100.0, collapse=False)


def proposal(table, approximation, **options):
    """What `fit` proposes from, and what its report calls it."""
    fit = doxa.fit(NETWORK, table, method="variational", approximation=approximation, draws=4, seed=7, **options)
    return fit.approximation("y"), fit.part("y").approximation


@pytest.mark.parametrize("name", ONE_PASS)
@pytest.mark.parametrize("order", ["auto", "table"])
def test_cases_are_taken_one_by_one_as_they_stand(name, order):
    table = five_parents()
    q, called = proposal(table, name, order=order)
    expected = ONE_PASS[name](regression(table, table.row_index))
    assert np.array_equal(q.mean, expected.mean)
    assert np.array_equal(q.cholesky, expected.cholesky)
    assert "random" not in called


def worst_mean(table, q):
    """Standard deviations between the means of q and of the best Gaussian."""
    best = optimal_posterior(NETWORK.regression("y", table))
    return float((np.abs(q.mean - best.mean) / best.sd).max())


LIMITS = {"sequential": 5.0, "spiegelhalter_lauritzen": 1.0}  # mean of five: 1.9 and .4 one by one, 14 and 2.3 if not


def mean_distance(name, tables, **options):
    return np.mean([worst_mean(table, proposal(table, name, **options)[0]) for table in tables])


@pytest.mark.parametrize("name", ONE_PASS)
def test_collapsed_rows_would_be_far_off(name, monkeypatch):
    """The broken twin takes equal cases together."""
    tables = [five_parents(seed) for seed in range(5)]
    assert mean_distance(name, tables) < LIMITS[name]
    assert mean_distance(name, tables, order="random") < LIMITS[name]
    monkeypatch.setattr(
        approximate, "part_regression", lambda network, part, table, *_: part_regression(network, part, table)
    )
    assert mean_distance(name, tables) > 2 * LIMITS[name]


@pytest.mark.parametrize("name", ONE_PASS)
def test_chance_orders_what_has_no_order(name):
    ordered = five_parents()
    counted = Table.from_codes(ordered.names, ordered.states, ordered.codes, ordered.counts)  # in blocks
    unknown = Table(ordered.names, ordered.states, ordered.codes, ordered.counts, None)
    for table in (counted, unknown):
        q, called = proposal(table, name)
        again, _ = proposal(table, name)
        asked, same = proposal(ordered, name, order="random")
        assert called == same
        assert called.endswith(", cases in random order")
        assert np.array_equal(q.mean, again.mean)
        assert np.array_equal(q.mean, asked.mean)  # the same seed draws the same order
    blocks, called = proposal(counted, name, order="table")  # one may insist
    assert np.array_equal(blocks.mean, ONE_PASS[name](regression(counted, counted.row_index)).mean)
    assert "random" not in called
    with pytest.raises(TableError, match="order of the 1000 rows is not known"):
        proposal(unknown, name, order="table")


def test_orders_of_small_tables():
    rng = np.random.default_rng(1)
    one = Table.from_codes(["a"], [["0", "1"]], [[1], [1]])
    distinct = Table.from_codes(["a"], [["0", "1"]], [[1], [0]])
    for table in (one, distinct):  # blocks, but no other order either
        rows, drawn = order_cases(table, "auto", rng)
        assert np.array_equal(rows, table.row_index)
        assert not drawn
    assert np.array_equal(np.bincount(order_cases(five_parents(), "random", rng).rows), five_parents().counts)


def test_rows_that_miss_a_cell_elsewhere_count():
    """A missing leaf sums to one: its parent's family has all cases."""
    network = LogisticNetwork({"b": ["a"], "c": ["b"]}, roots={"a": 0.5})
    codes = np.array([[0, 1, -1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 0, -1]])
    table = Table.from_codes(["a", "b", "c"], [["0", "1"]] * 3, codes)
    fit = doxa.fit(network, table, approximation="sequential", method="variational", draws=4, seed=1)
    signs = 2.0 * codes - 1

    def alone(rows, parent, child):
        design = np.column_stack([np.ones(len(rows)), signs[rows, parent]])
        return sequential_posterior(make_problem(design, signs[rows, child], collapse=False)).mean

    assert np.allclose(fit.approximation("b").mean, alone([0, 1, 2, 3, 4], 0, 1), atol=1e-12)
    assert np.allclose(fit.approximation("c").mean, alone([1, 2, 3], 1, 2), atol=1e-12)


def test_a_run_goes_on_with_its_own_order_only(tmp_path):
    table = five_parents(n=80)
    path = tmp_path / "run.doxa"
    fit = doxa.fit(NETWORK, table, approximation="sequential", draws=20, seed=1, store=path)
    whole = doxa.fit(NETWORK, table, approximation="sequential", draws=40, warmup=10, seed=1)
    resumed = doxa.resume(path, table, draws=40)
    assert np.array_equal(resumed.draws("y"), whole.draws("y"))
    rows = table.row_index.copy()
    new = np.unique(rows, return_index=True)[1].max() + 1
    rows[new:] = rows[new:][::-1]  # after all distinct rows have appeared
    other = Table.from_codes(table.names, table.states, table.codes[rows])
    assert other.digest == table.digest
    assert not np.array_equal(other.row_index, table.row_index)
    with pytest.raises(RunFileError, match="cases"):
        doxa.resume(path, other, draws=60)
    with pytest.raises(ArgumentError, match="rows in another order"):
        doxa.load(path, table=other)
    assert np.array_equal(doxa.load(path, table=table).approximation("y").mean, fit.approximation("y").mean)


def test_a_regression_with_counts_has_its_cases_in_random_order():
    table = five_parents(1)
    collapsed, ordered = NETWORK.regression("y", table), regression(table, table.row_index)
    for name, one_pass in ONE_PASS.items():
        options = {"method": "variational", "approximation": name, "draws": 4, "seed": 1}
        q = sample_regression(collapsed, **options).planned.found.proposal
        assert q.method.endswith("random order")
        assert worst_mean(table, q) < 0.5 * worst_mean(table, one_pass(collapsed))
        q = sample_regression(ordered, **options).planned.found.proposal
        assert np.array_equal(q.mean, one_pass(ordered).mean)


def test_another_order_is_refused():
    with pytest.raises(ArgumentError, match=r"order is 'sorted'; it must be one of 'auto', 'table', 'random'"):
        doxa.fit(NETWORK, five_parents(n=20), order="sorted")


PASSES = ["sequential_unconstrained", "sequential_structured", "sequential_mean_field"]


@pytest.mark.parametrize("name", PASSES)
def test_one_pass_over_hidden_values_can_be_proposed_from(name):
    """A hidden parent, two modes: both are found, and the draws are of the posterior."""
    network, table, _, grid = bimodal_on_grid(2)
    fit = doxa.fit(network, table, approximation=name, draws=1000, warmup=100, seed=1)
    proposal = fit.approximation("y")
    assert fit.part("y").approximation == f"hidden variational in one pass ({name.partition('_')[2]} q)"
    assert len(proposal.components) > 1
    summary = fit.summary()
    assert np.abs((summary["mean"] - grid.mean) / summary["mcse"]).max() < z_limit(2)
    minor = fit.draws("y")[..., 0] < 0
    found = diagnose_indicators(IndicatorCounts.from_draws(minor)).estimate(())
    exact = grid.probability[grid.points[:, 0] < 0].sum()
    assert abs(found.value - exact) < z_limit(1) * found.mcse
    evidence = fit.log_marginal_likelihood
    assert abs(evidence.value - grid.log_mass - fit.report.fixed) < z_limit(1) * evidence.mcse < 0.2


def test_one_pass_over_a_table_with_missing_cells():
    """Its complete family has the sequential posterior, and both are by the order that is asked for."""
    rng = np.random.default_rng(12)
    network = LogisticNetwork({"y": ["x"], "z": ["w"]}, prior_scale=2.0, roots={"w": 0.5})
    full = network.simulate(80, {"y": [0.3, 1.0], "z": [0.0, -1.0], "x": [0.4]}, rng)
    codes = full.codes[full.row_index].copy()
    missing_cell = full.names.index("x")
    codes[rng.random(80) < 0.25, missing_cell] = -1
    table = Table.from_codes(full.names, full.states, codes)
    options = {"approximation": "sequential_mean_field", "method": "variational", "draws": 4, "seed": 2}
    fit = doxa.fit(network, table, **options)
    (one,) = sequential_hidden_posteriors(network, table, form="mean_field", seed=1)[:1]
    q = fit.approximation("z")
    assert np.allclose(q.mean, one.gaussians["z"].mean, atol=1e-12)
    assert fit.part("z").approximation == "sequential variational"
    other = doxa.fit(network, table, order="random", **options)
    for node in "yz":
        assert other.part(node).approximation.endswith("random order")
    assert np.abs(other.approximation("z").mean - q.mean).max() > 1e-3
    draws = doxa.fit(network, table, approximation="sequential_mean_field", draws=1000, seed=2)
    exact = doxa.fit(network, table, draws=1000, seed=3)
    one, two = draws.summary(), exact.summary()
    assert (np.abs(one["mean"] - two["mean"]) < z_limit(5) * np.hypot(one["mcse"], two["mcse"])).all()


def test_a_run_of_one_pass_over_hidden_values_goes_on(tmp_path):
    network, table = bimodal(2)
    path = tmp_path / "run.doxa"
    options = {"approximation": "sequential_mean_field", "warmup": 10, "seed": 1}
    doxa.fit(network, table, draws=20, store=path, **options)
    whole = doxa.fit(network, table, draws=40, **options)
    assert np.array_equal(doxa.resume(path, table, draws=40).draws("y"), whole.draws("y"))
    rows = table.codes[table.row_index]
    new = np.unique(table.row_index, return_index=True)[1].max() + 1
    other = Table.from_codes(table.names, table.states, np.concatenate([rows[:new], rows[new:][::-1]]))
    assert other.digest == table.digest
    with pytest.raises(RunFileError, match="cases"):
        doxa.resume(path, other, draws=60)
