"""`doxa.fit` as a user calls it: answers against grids and exact sums, by every method; refusals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from parameter_cases import bimodal_on_grid, blanked, grid_of, two_parents
from scipy.special import betaln, expit

import doxa
from doxa import LogisticNetwork, Table
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError, TableError
from doxa.models.logistic_parts import fixed_log_likelihood, independent_parts, part_regression
from doxa.parameters import methods
from doxa.parameters.approximate import approximate
from doxa.parameters.cascade import Reach
from doxa.parameters.joint_target import JointTarget
from doxa.parameters.kernels.kernel import start_at
from doxa.parameters.methods import METHODS
from doxa.parameters.pilot import run_pilot
from doxa.parameters.targets import RegressionTarget
from support.checks import z_limit

EXACT_METHODS = [name for name in METHODS if name not in ("variational", "augmentation")]


def regression_grid(network, table, node="y", reach=9.0):
    (part,) = [part for part in independent_parts(network, table) if part.nodes == (node,)]
    target = RegressionTarget(part_regression(network, part, table))
    rough = grid_of(target, [-6.0] * target.n_dimensions, [6.0] * target.n_dimensions)
    return grid_of(target, rough.mean - reach * rough.sd, rough.mean + reach * rough.sd)


@pytest.mark.parametrize("method", EXACT_METHODS)
def test_every_method_draws_from_the_posterior(method):
    network, table = two_parents(np.random.default_rng(1), n=60)
    grid = regression_grid(network, table)
    draws = 60 if method == "tempered" else 1000  # of which each takes many steps
    fit = doxa.fit(network, table, method=method, draws=draws, warmup=draws // 10, seed=3)
    summary = fit.summary()
    z = (summary["mean"] - grid.mean) / summary["mcse"]
    assert np.abs(z).max() < z_limit(2)
    draws = fit.draws("y").reshape(-1, 2)
    spread = grid.probability @ ((grid.points - grid.mean) ** 4) - grid.sd**4
    error = np.sqrt(spread / (summary["ess"] / 2))  # of the variance
    assert (np.abs(draws.var(axis=0) - grid.sd**2) < z_limit(2) * error).all()
    evidence = fit.log_marginal_likelihood
    fixed = fixed_log_likelihood(network, table)  # of the given roots
    assert fixed < -10
    assert abs(evidence.value - grid.log_mass - fixed) < z_limit(1) * evidence.mcse < 0.1
    assert fit.log_marginal_likelihood_bound <= evidence.value + 5 * evidence.mcse


def test_the_variational_method_says_what_it_is():
    network, table = two_parents(np.random.default_rng(1), n=60)
    fit = doxa.fit(network, table, method="variational", approximation="jaakkola_jordan", draws=500, seed=3)
    grid = regression_grid(network, table)
    assert fit.converged is False
    assert "approximation" in fit.verdict
    assert np.isnan(fit.log_marginal_likelihood.value)
    assert fit.log_marginal_likelihood_bound < grid.log_mass + fixed_log_likelihood(network, table)
    assert (fit.draws("y").std(axis=(0, 1)) < 0.99 * grid.sd).any()  # its standard deviations are too small


@pytest.mark.parametrize(
    "approximation", ["optimal", "laplace", "jaakkola_jordan", "sequential", "spiegelhalter_lauritzen"]
)
def test_every_approximation_can_be_proposed_from(approximation):
    network, table = two_parents(np.random.default_rng(2), n=60)
    grid = regression_grid(network, table)
    fit = doxa.fit(network, table, approximation=approximation, draws=1000, seed=3)
    summary = fit.summary()
    assert np.abs((summary["mean"] - grid.mean) / summary["mcse"]).max() < z_limit(2)


def test_a_complete_root_is_exact():
    rng = np.random.default_rng(4)
    network = LogisticNetwork({"y": ["x"]}, prior_scale=2.0)
    table = network.simulate(80, {"y": [0.2, 0.7], "x": [0.3]}, rng)
    ones = int((table.codes[table.row_index][:, table.names.index("x")] == 1).sum())
    fit = doxa.fit(network, table, draws=4000, seed=1)
    draws = fit.draws("x")
    mean = (1 + ones) / 82
    assert fit.method["x"] == "exact"
    error = np.sqrt(mean * (1 - mean) / 83 / draws.size)
    assert abs(draws.mean() - mean) < z_limit(1) * error
    assert fit.part("x").log_evidence == pytest.approx(betaln(1 + ones, 81 - ones))


def hidden_fit(seed, **options):
    network, table, _, grid = bimodal_on_grid(seed)
    return doxa.fit(network, table, seed=1, **options), grid


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_both_modes_of_a_hidden_parent_get_their_mass(seed):
    fit, grid = hidden_fit(seed, draws=5000, warmup=500)
    minor = fit.draws("y")[..., 0] < 0
    exact = grid.probability[grid.points[:, 0] < 0].sum()
    from doxa.estimates import IndicatorCounts, diagnose_indicators

    found = diagnose_indicators(IndicatorCounts.from_draws(minor)).estimate(())
    assert abs(found.value - exact) < z_limit(1) * found.mcse
    assert found.mcse < 0.1 * exact
    evidence = fit.log_marginal_likelihood
    assert fit.report.fixed == pytest.approx(50 * np.log(0.5))  # of x, which is given and observed
    exact = grid.log_mass + fit.report.fixed
    assert abs(evidence.value - exact) < z_limit(1) * evidence.mcse < 0.2
    assert fit.log_marginal_likelihood_bound < exact
    assert fit.converged


def test_tempered_transitions_and_jumps_go_between_modes_that_a_walk_stays_in():
    """The hidden values can be exchanged, so each mode has half of the mass; every walker begins in the same."""
    network = LogisticNetwork({node: ["h"] for node in "abc"}, prior_scale=2.0, roots={"h": 0.5})
    rng = np.random.default_rng(7)
    table = network.simulate(100, {node: [0.2, 1.5] for node in "abc"}, rng).select(["a", "b", "c"])
    (part,) = independent_parts(network, table)
    target = JointTarget(network, part, table)
    found = approximate(network, part, table, None, np.random.default_rng(1))
    start = start_at(target, np.tile(found.modes[0].mean, (256, 1)))
    kernels = {
        name: METHODS[name](found, np.random.default_rng(3)).kernel for name in ("tempered", "random_walk", "hmc")
    }
    kernels["no jumps"] = kernels["random_walk"].kernels[1]  # the walk that is in turn with them
    sums = {name: kernel.run(target, start, 20, rng)[0].thetas[:, 1::2].sum(axis=1) for name, kernel in kernels.items()}
    limit = z_limit(2) * 0.5 / 16  # of the share of 256 walkers at one time, when they are independent
    for name in ("tempered", "random_walk", "hmc"):
        assert abs((sums[name] < 0).mean() - 0.5) < limit
    assert abs((sums["no jumps"] < 0).mean() - 0.5) > limit


@pytest.mark.parametrize("form", ["unconstrained", "structured", "mean_field"])
def test_variational_forms_can_be_proposed_from(form):
    rng = np.random.default_rng(12)
    network, table = two_parents(rng, n=80)
    holed = blanked(table, 0.25, rng)
    (part,) = independent_parts(network, holed)
    grid = grid_of(JointTarget(network, part, holed), (-8.0, -8.0), (8.0, 8.0), 401)
    fit = doxa.fit(network, holed, approximation=form, draws=2000, seed=2)
    summary = fit.summary()
    assert np.abs((summary["mean"] - grid.mean) / summary["mcse"]).max() < z_limit(2)
    assert fit.log_marginal_likelihood_bound < grid.log_mass + fit.report.fixed


def test_hidden_values_can_be_drawn_with_the_parameters():
    rng = np.random.default_rng(12)
    network, table = two_parents(rng, n=80)
    holed = blanked(table, 0.25, rng)
    (part,) = independent_parts(network, holed)
    grid = grid_of(JointTarget(network, part, holed), (-8.0, -8.0), (8.0, 8.0), 401)
    fit = doxa.fit(network, holed, method="augmentation", draws=1000, warmup=100, seed=2)
    summary = fit.summary()
    assert np.abs((summary["mean"] - grid.mean) / summary["mcse"]).max() < z_limit(2)
    assert fit.method["y"] == "augmentation"
    assert np.isnan(fit.log_marginal_likelihood.value)
    with pytest.raises(ArgumentError, match="by data augmentation"):
        fit.approximation("y")


def test_too_many_hidden_values_are_drawn_and_not_refused():
    rng = np.random.default_rng(13)
    names = [f"x{j}" for j in range(24)]
    network = LogisticNetwork({"y": names}, prior_scale=1.0, roots=dict.fromkeys(names, 0.5))
    table = blanked(network.simulate(60, {"y": np.full(25, 0.5)}, rng), 0.9, rng)
    fit = doxa.fit(network, table, draws=40, warmup=10, seed=2)
    assert fit.method["y"] == "augmentation"
    assert "too many to sum out" in fit.part("y").why
    with pytest.raises(ArgumentError, match="hidden configurations"):
        doxa.fit(network, table, method="independence", draws=40, seed=2)


def unmixed(target, gaussian, rng):
    return Reach(gaussian, run_pilot(target, gaussian, rng), 0.0, 0.0, gaussian_alone=True)


def test_chains_in_one_mode_alone_would_be_seen(monkeypatch):
    """The broken twin: an approximation of the major mode only, with nothing that would reach beyond it."""
    from doxa.parameters import approximate as room

    whole = room.find_modes
    monkeypatch.setattr(room, "find_modes", lambda *given: whole(*given)[:1])
    monkeypatch.setattr(methods, "grown", lambda target, gaussian, before, rng: before)
    monkeypatch.setattr(methods, "reach_of", unmixed)
    fit, grid = hidden_fit(1, draws=2000, warmup=200, method="independence")
    minor = (fit.draws("y")[..., 0] < 0).mean()
    exact = grid.probability[grid.points[:, 0] < 0].sum()
    assert minor < 0.5 * exact


def test_missing_cells_are_summed_out():
    """One missing parent cell in a row: the posterior is that of the likelihood summed over it, on a grid."""
    rng = np.random.default_rng(6)
    network, table = two_parents(rng, n=80)
    holed = blanked(table, 0.25, rng)
    (part,) = independent_parts(network, holed)
    assert not part.complete
    grid = grid_of(JointTarget(network, part, holed), (-8.0, -8.0), (8.0, 8.0), 401)
    fit = doxa.fit(network, holed, draws=3000, seed=2)
    summary = fit.summary()
    assert np.abs((summary["mean"] - grid.mean) / summary["mcse"]).max() < z_limit(2)
    filled = regression_grid(network, table)
    assert (np.abs(summary["mean"] - filled.mean) > 5 * summary["mcse"]).any()  # missing cells do matter here


def test_symmetries_are_recognised_and_said():
    rng = np.random.default_rng(7)
    network = LogisticNetwork({"a": ["h"], "b": ["h"], "c": ["h"]}, prior_scale=2.0, roots={"h": 0.5})
    thetas = {node: [0.2, 1.5] for node in "abc"}
    table = network.simulate(100, thetas, rng).select(["a", "b", "c"])
    fit = doxa.fit(network, table, draws=100, seed=1)
    assert fit.report.symmetries == ("the values of 'h' can be exchanged",)
    assert "can be exchanged" in fit.verdict
    skew = LogisticNetwork({"a": ["h"], "b": ["h"], "c": ["h"]}, prior_scale=2.0, roots={"h": 0.3})
    assert doxa.fit(skew, table, draws=100, seed=1).report.symmetries == ()


def test_predictions_are_averages_over_the_posterior():
    network, table = two_parents(np.random.default_rng(8), n=60)
    grid = regression_grid(network, table)
    fit = doxa.fit(network, table, draws=3000, seed=3)
    rows = pd.DataFrame({"a": ["1", "1", "0"], "b": ["0", None, "1"]})
    predicted = fit.predict(rows).set_index(["row", "node"])
    code = {"1": 1.0, "0": -1.0}
    chance = {
        (a, b): expit(0.3 + grid.points @ [code[a], code[b]]) for a in code for b in code
    }  # P(y = 1 | a, b) on the grid
    exact = {
        (0, "y"): grid.probability @ chance["1", "0"],
        (1, "y"): grid.probability @ (0.7 * chance["1", "1"] + 0.3 * chance["1", "0"]),
        (1, "b"): 0.7,
        (2, "y"): grid.probability @ chance["0", "1"],
    }
    assert set(predicted.index) == set(exact)
    for cell, probability in exact.items():
        found = predicted.loc[cell]
        assert abs(found["probability"] - probability) <= z_limit(4) * found["mcse"] + 1e-12 or cell == (1, "b")
        assert found["lower"] <= found["probability"] <= found["upper"]
    assert predicted.loc[(1, "b"), "probability"] == pytest.approx(0.7)


def test_rows_to_predict_keep_the_labels_of_the_fit():
    """A column that shows one label only must not be taken for another."""
    network, table = two_parents(np.random.default_rng(8), n=60)
    fit = doxa.fit(network, table, draws=500, seed=3)
    both = fit.predict(pd.DataFrame({"a": ["0", "1"], "b": ["1", "0"]}))
    alone = fit.predict(pd.DataFrame({"a": ["1"], "b": ["0"]}))
    assert alone["probability"][0] == both["probability"][1]
    with pytest.raises(TableError, match="'maybe' in column 'a'"):
        fit.predict(pd.DataFrame({"a": ["maybe"], "b": ["0"]}))
    with pytest.raises(TableError, match="no column of the network's"):
        fit.predict(pd.DataFrame({"q": ["1", "0"]}))


def test_a_run_stops_when_every_coefficient_is_accurate():
    network, table = two_parents(np.random.default_rng(8), n=60)
    fit = doxa.fit(network, table, until=doxa.Until(ess=1000), seed=3)
    assert fit.stop.reason == "reached"
    assert fit.converged
    assert (fit.summary()["ess"] > 1000).all()
    asked = doxa.fit(network, table, until=doxa.Until(ess=300, quantities=["y: a"]), seed=3)
    assert asked.stop.reason == "reached"


def test_draws_do_not_depend_on_blocks_or_workers(monkeypatch):
    from doxa.parameters import drawing as room

    rng = np.random.default_rng(9)
    network, table = two_parents(rng, n=80)
    holed = blanked(table, 0.2, rng)
    whole = doxa.fit(network, holed, draws=300, seed=5)
    run = room.run_chains
    for block, workers in ((1, 1), (7, 2), (300, 4)):
        monkeypatch.setattr(room, "run_chains", partial(run, block=block))
        other = doxa.fit(network, holed, draws=300, seed=5, workers=workers)
        assert all(np.array_equal(other.trace[name], whole.trace[name]) for name in whole.trace.names)


def test_exports_hold_the_draws():
    network, table = two_parents(np.random.default_rng(8), n=60)
    fit = doxa.fit(network, table, draws=50, seed=3)
    frame = fit.to_frame()
    assert list(frame.columns) == ["chain", "draw", "y: a", "y: b"]
    np.testing.assert_array_equal(frame["y: b"].to_numpy().reshape(4, 50), fit.draws("y")[..., 1])
    tree = fit.to_arviz()
    np.testing.assert_array_equal(tree["posterior"]["y"].values, fit.draws("y"))
    assert tree["posterior"]["y coefficient"].values.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"method": "magic"}, ArgumentError, "method is 'magic'; it must be one of 'auto'"),
        ({"approximation": "guess"}, ArgumentError, "approximation is 'guess'; it must be one of 'optimal'"),
        ({"draws": 100, "until": doxa.Until()}, ArgumentError, "give one of them"),
        ({"until": 3}, ArgumentTypeError, "it must be an Until"),
        ({"draws": 2}, ArgumentError, "draws is 2"),
        ({"chains": 0}, ArgumentError, "chains is 0"),
        ({"seed": -1}, ArgumentError, "seed is -1"),
        ({"until": doxa.Until(quantities=["y: q"])}, ArgumentError, "'y: q', which is no coefficient"),
    ],
)
def test_options_out_of_range_are_refused(options, kind, said):
    network, table = two_parents(np.random.default_rng(8), n=20)
    with pytest.raises(DoxaError, match=said) as refused:
        doxa.fit(network, table, **options)
    assert type(refused.value) is kind


def test_inputs_that_cannot_be_fitted_are_refused():
    network, table = two_parents(np.random.default_rng(8), n=20)
    with pytest.raises(ArgumentTypeError, match="it must be a LogisticNetwork"):
        doxa.fit({"y": ["a"]}, table)
    with pytest.raises(ArgumentError, match="network has no parameters"):
        doxa.fit(LogisticNetwork({"a": []}, roots={"a": 0.5}), table)
    with pytest.raises(TableError, match="has 3 states"):
        doxa.fit(network, pd.DataFrame({"a": ["x", "y", "z"], "b": ["0", "1", "1"], "y": ["0", "1", "0"]}))
    empty = Table.from_codes(["a", "b", "y"], [("0", "1")] * 3, np.empty((0, 3), dtype=np.int8))
    with pytest.raises(ArgumentError, match="no rows"):
        doxa.fit(network, empty)
    fit = doxa.fit(network, table, draws=20, seed=1)
    with pytest.raises(ArgumentError, match="'q' is no parameter of 'y'"):
        fit.coefficient("y", "q")
    with pytest.raises(ArgumentError, match="'a' has no parameters here"):
        fit.draws("a")


@pytest.mark.parametrize("kind", ["separable", "constant", "duplicate"])
def test_awkward_columns_have_a_posterior_all_the_same(kind):
    rng = np.random.default_rng(10)
    x = rng.integers(0, 2, (60, 2))
    if kind == "constant":
        x[:, 1] = 1
    elif kind == "duplicate":
        x[:, 1] = x[:, 0]
    y = x[:, 0] if kind == "separable" else rng.integers(0, 2, 60)
    network = LogisticNetwork({"y": ["a", "b"]}, prior_scale=3.0, bias=0.0, roots={"a": 0.5, "b": 0.5})
    table = Table.from_codes(["a", "b", "y"], [("0", "1")] * 3, np.column_stack([x, y]))
    grid = regression_grid(network, table, reach=6.0)
    fit = doxa.fit(network, table, draws=3000, seed=2)
    summary = fit.summary()
    assert np.abs((summary["mean"] - grid.mean) / summary["mcse"]).max() < z_limit(2)
    assert fit.converged
