"""`hidden_posterior`: what it agrees with, what must not matter, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hidden_cases import (
    FORMS,
    XIS,
    assert_same,
    common_cause,
    many_parents,
    problem_of,
    random_case,
    random_network,
    random_table,
    random_thetas,
    table_of,
)
from scipy.special import betaln

from doxa.data import Table
from doxa.errors import ArgumentError, ArgumentTypeError, TableError
from doxa.models import LogisticNetwork
from doxa.parameters.variational.batch import batch_posterior
from doxa.parameters.variational.hidden import hidden_posterior, hidden_posteriors, joint_gaussian, mixture_weights
from support.checks import SEED

# --- complete data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("xi", XIS)
def test_without_missing_cells_it_is_the_batch_posterior(form, xi):
    for k in range(5):
        rng = np.random.default_rng([SEED, k])
        network = random_network(rng)
        table = random_table(network, rng, 30, 0.0, n_hidden=0)
        fit = hidden_posterior(network, table, form=form, xi=xi, rng=rng)
        log_evidence = 0.0
        for node, gaussian in fit.gaussians.items():
            batch = batch_posterior(network.regression(node, table))
            assert np.array_equal(gaussian.mean, batch.mean)
            assert np.array_equal(gaussian.cholesky, batch.cholesky)
            assert gaussian.log_evidence == batch.log_evidence
            log_evidence += batch.log_evidence
        for block in network.root_blocks:
            codes = table.codes[:, [table.names.index(node) for node in block.nodes]]
            if block.probabilities is None:
                ones = int(table.counts @ codes[:, 0])
                assert fit.roots[block.nodes[0]] == (1 + ones, 31 - ones)
                log_evidence += betaln(1 + ones, 31 - ones)
            else:
                log_evidence += table.counts @ np.log(block.probabilities[tuple(codes.T)])
        assert fit.log_evidence == pytest.approx(log_evidence, abs=1e-9)
        assert (fit.n_iterations, fit.converged, fit.trace.size) == (0, True, 1)
        assert np.array_equal(fit.cell_probabilities(), fit.problem.codes)


def test_families_away_from_the_missing_cells_keep_their_own_posterior():
    network = LogisticNetwork({"y": ["x", "z"], "w": ["v"], "u": ["w"]})
    full = random_table(network, np.random.default_rng(SEED), 60, 0.0, n_hidden=0)
    codes, x, u = full.codes[full.row_index].copy(), full.names.index("x"), full.names.index("u")
    codes[::3, x] = -1
    codes[::4, u] = -1  # a leaf: its cell tells nothing
    table = table_of(full.names, codes)
    fit = hidden_posterior(network, table)
    assert np.array_equal(fit.gaussians["w"].mean, batch_posterior(network.regression("w", table)).mean)
    seen = network.regression("u", table_of(full.names, codes[codes[:, u] >= 0]))
    assert np.array_equal(fit.gaussians["u"].mean, batch_posterior(seen).mean)
    assert np.isfinite(fit.gaussians["u"].log_evidence)
    assert np.isnan(fit.gaussians["y"].log_evidence)


# --- what must not matter -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("xi", XIS)
def test_the_order_and_the_collapsing_of_rows_do_not_matter(form, xi):
    for k in range(2):
        rng = np.random.default_rng([SEED, k])
        network, table = random_case(rng)
        options = {"form": form, "xi": xi, "start": random_thetas(network, rng)}
        fit = hidden_posterior(network, table, **options)
        order = rng.permutation(table.n_rows)
        shuffled = table_of(table.names, table.codes[table.row_index[order]])
        assert_same(fit, hidden_posterior(network, shuffled, **options))
        repeated = table_of(table.names, table.codes, 3 * table.counts)
        thrice = table_of(table.names, np.repeat(table.codes[table.row_index], 3, axis=0))
        assert_same(hidden_posterior(network, repeated, **options), hidden_posterior(network, thrice, **options))


def test_a_column_without_cells_is_a_hidden_node():
    network, table = common_cause(100)
    blank = table_of([*table.names, "h"], np.column_stack([table.codes, np.full(len(table.codes), -1)]), table.counts)
    one, other = hidden_posterior(network, table), hidden_posterior(network, blank)
    assert one.log_evidence == other.log_evidence


def test_columns_that_tell_nothing_of_a_missing_cell_do_not_multiply_its_configurations():
    network = LogisticNetwork({"y": ["x"], "w": ["v"]})
    rng = np.random.default_rng(SEED)
    table = network.simulate(200, random_thetas(network, rng), rng).select(["y", "w", "v"])
    problem = problem_of(network, table)
    assert problem.ascent.layout.n == 4  # x given y = 0 or 1


# --- close to the truth ---------------------------------------------------------------------------------------------


def test_with_few_missing_cells_the_posterior_is_near_the_exact_one():
    network = LogisticNetwork({"y": ["a", "b"]}, bias=0.3, roots={"a": 0.4, "b": 0.6}, prior_scale=3.0)
    full = network.simulate(500, {"y": [1.0, -0.7]}, np.random.default_rng(SEED))
    codes = full.codes[full.row_index].copy()
    codes[np.random.default_rng(SEED + 1).random(codes.shape) < 0.1] = -1
    table = table_of(network.names, codes)
    fit = hidden_posterior(network, table).gaussians["y"]
    axes = [np.linspace(m - 8 * s, m + 8 * s, 161) for m, s in zip(fit.mean, fit.sd, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = network.log_joint({"y": points}, table)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean, sd = p @ points, np.sqrt(p @ (points - p @ points) ** 2)
    assert (np.abs(fit.mean - mean) < 0.25 * sd).all()
    assert (fit.sd < sd).all()
    assert (fit.sd > 0.75 * sd).all()


def test_a_hidden_cause_is_found_from_its_effects():
    network, table = common_cause(2000)
    fit = hidden_posteriors(network, table, starts=4, seed=SEED)[0]
    assert np.abs(fit.gaussians["a"].mean[1]) == pytest.approx(1.2, abs=0.5)
    assert fit.gaussians["a"].mean[1] * fit.gaussians["b"].mean[1] < -0.8  # opposite effects
    assert min(fit.roots["h"]) / 2002 == pytest.approx(0.4, abs=0.15)


# --- edges and refusals ---------------------------------------------------------------------------------------------


def test_no_rows_leave_the_priors():
    network = LogisticNetwork({"b": ["a"]}, prior_mean=0.7, prior_scale=2.0)
    fit = hidden_posterior(network, table_of(["a", "b"], np.empty((0, 2), dtype=int)))
    assert np.allclose(fit.gaussians["b"].mean, 0.7)
    assert np.allclose(fit.gaussians["b"].covariance, 4 * np.eye(2))
    assert fit.roots == {"a": (1.0, 1.0)}
    assert fit.log_evidence == 0.0
    assert fit.cell_probabilities().shape == (0, 2)


def test_rows_that_observe_nothing_leave_the_priors():
    network = LogisticNetwork({"b": ["a"], "c": ["b"]})
    fit = hidden_posterior(network, table_of(["a", "b"], [[-1, -1]] * 5))
    assert fit.log_evidence == 0.0
    assert np.allclose(fit.gaussians["b"].mean, 0.0)
    assert np.allclose(fit.cell_probabilities(), 0.5)


def test_roots_alone():
    network = LogisticNetwork({"a": [], "b": []}, roots={"b": 0.2})
    fit = hidden_posterior(network, table_of(["a", "b"], [[1, 0], [-1, 1], [0, -1]]))
    assert fit.roots == {"a": (2.0, 2.0)}
    assert fit.log_evidence == pytest.approx(np.log(1 / 6 * 0.8 * 0.2))
    assert fit.cell_probabilities()[:, 0].tolist() == [1.0, 0.5, 0.0]
    joint = LogisticNetwork({"a": [], "b": []}, roots=np.array([[0.4, 0.1], [0.2, 0.3]]))
    fit = hidden_posterior(joint, table_of(["a", "b"], [[1, -1], [-1, 1], [-1, -1]]))
    assert fit.log_evidence == pytest.approx(np.log(0.5 * 0.4))
    assert fit.cell_probabilities().ravel() == pytest.approx([1, 0.6, 0.75, 1, 0.5, 0.4])
    with pytest.raises(ArgumentError, match="result is of a network without coefficients"):
        joint_gaussian(fit)


def test_more_than_twenty_columns():
    network, full = many_parents(22, 40)
    codes = full.codes.copy()
    codes[np.random.default_rng(SEED).random(codes.shape) < 0.05] = -1
    fit = hidden_posterior(network, table_of(full.names, codes, full.counts))
    assert fit.converged


def test_separable_data_and_huge_priors_stay_finite():
    network = LogisticNetwork({"y": ["h", "o"]}, prior_scale=1e4)
    table = table_of(["o", "y"], [[0, 0]] * 30 + [[1, 1]] * 30)
    for xi in XIS:
        for fit in hidden_posteriors(network, table, starts=2, seed=SEED, xi=xi, max_iterations=300):
            assert np.isfinite([*fit.gaussians["y"].mean, *fit.gaussians["y"].sd, fit.log_evidence]).all()
            assert (np.diff(fit.trace) > 0).all()


def test_impossible_rows_are_refused():
    joint = np.array([[0.5, 0.5], [0.0, 0.0]])
    network = LogisticNetwork({"c": ["a", "b"]}, roots={("a", "b"): joint})
    for row in ([1, 0, 1], [1, -1, 1]):
        with pytest.raises(ArgumentError, match=r"given for the roots \('a', 'b'\) say is impossible"):
            hidden_posterior(network, table_of(["a", "b", "c"], [row, [0, 1, 1]]))


def test_a_limit_of_iterations_is_reported():
    network, table = common_cause(100)
    fit = hidden_posterior(network, table, max_iterations=2)
    assert not fit.converged
    assert "not converged" in repr(fit)
    assert not fit.gaussians["a"].converged


def test_options_are_checked():
    network, table = common_cause(20)
    with pytest.raises(
        ArgumentError, match="form is 'exact'; it must be 'unconstrained', 'mean_field' or 'structured'"
    ):
        hidden_posterior(network, table, form="exact")
    with pytest.raises(ArgumentError, match="xi is 'cell'; it must be 'configuration' or 'row'"):
        hidden_posterior(network, table, xi="cell")
    with pytest.raises(ArgumentError, match="group_size is 2 but form is 'unconstrained'; only form='structured' has"):
        hidden_posterior(network, table, group_size=2)
    with pytest.raises(ArgumentError, match="group_size is 0; it must be at least 1; 1 is mean field"):
        hidden_posterior(network, table, form="structured", group_size=0)
    with pytest.raises(ArgumentError, match="tolerance is 0; it must be above 0"):
        hidden_posterior(network, table, tolerance=0)
    with pytest.raises(ArgumentError, match="max_iterations is 0; it must be at least 1"):
        hidden_posterior(network, table, max_iterations=0)
    with pytest.raises(ArgumentTypeError, match=r"rng is 3; it must be a numpy\.random\.Generator"):
        hidden_posterior(network, table, rng=3)
    with pytest.raises(ArgumentError, match="starts is 0; it must be at least 1"):
        hidden_posteriors(network, table, starts=0)
    with pytest.raises(ArgumentError, match="results is empty"):
        mixture_weights([])


def test_a_network_and_a_table_that_do_not_go_together():
    network, table = common_cause(20)
    with pytest.raises(ArgumentTypeError, match="network is of type dict; it must be a LogisticNetwork"):
        hidden_posterior({"a": ["h"]}, table)
    with pytest.raises(ArgumentTypeError, match="table is of type list; it must be a Table"):
        hidden_posterior(network, [[0, 1]])
    with pytest.raises(TableError, match="table has no column of the network's"):
        hidden_posterior(network, table_of(["q"], [[0], [1]]))
    three = Table.from_codes(["a", "b"], [["0", "1", "2"], ["0", "1"]], [[2, 0]])
    with pytest.raises(TableError, match="table column 'a' has 3 states"):
        hidden_posterior(network, three)


def test_starts_are_checked():
    network, table = common_cause(20)
    with pytest.raises(ArgumentTypeError, match="start is of type list; give a HiddenPosterior or a mapping"):
        hidden_posterior(network, table, start=[1.0])
    with pytest.raises(ArgumentError, match="start names 'z', which has no parameters in this network"):
        hidden_posterior(network, table, start={"z": [1.0]})
    with pytest.raises(ArgumentError, match=r"start\['a'\] is \[1.0\]; give a finite number for each of 'bias', 'h'"):
        hidden_posterior(network, table, start={"a": [1.0]})
    with pytest.raises(ArgumentError, match=r"start\['h'\] is \[1.5\]; P\(h = 1\) lies from 0 to 1"):
        hidden_posterior(network, table, start={"h": [1.5]})
    fit = hidden_posterior(network, table)
    other = LogisticNetwork({"a": ["h"], "b": ["h"], "c": ["h"]})
    for wrong in ((other, table), (network, common_cause(2)[1])):
        with pytest.raises(ArgumentError, match="start is the posterior of another network or table"):
            hidden_posterior(*wrong, start=fit)
