"""Averages in the place of a fit's draws: those of the very draws, right against grids, kept and gone on with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parameter_cases import blanked, grid_of, two_parents
from scipy.special import betainc, betaincinv
from test_fit_runs import holed, same_draws

import doxa
from doxa import LogisticNetwork, Table
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.store import RunFileError
from doxa.models.logistic_parts import independent_parts, part_regression
from doxa.parameters import Averages, ParameterAverages
from doxa.parameters.averages import NoDrawsError
from doxa.parameters.drawing import chains_of
from doxa.parameters.targets import RegressionTarget
from doxa.plots.columns import read_column
from support.checks import SEED, z_limit


def learned_root():
    """A missing cell shared by both nodes: one part, with a probability in it."""
    rng = np.random.default_rng(4)
    network = LogisticNetwork({"y": ["a"]}, prior_scale=2.0)
    table = network.simulate(60, {"y": [0.4, 0.8], "a": [0.7]}, rng)
    return network, blanked(table, 0.2, rng)


@pytest.mark.parametrize(
    ("method", "every"), [("auto", 7), ("auto", 300), ("hmc", 7), ("augmentation", 7), ("random_walk", 7)]
)
def test_averages_are_those_of_the_draws_of_the_same_seed(method, every):
    network, table = learned_root()
    options = {"method": method, "chains": 2, "seed": SEED + 3}
    whole = doxa.fit(network, table, draws=6 * every, warmup=2 * every, **options)
    kept = doxa.fit(network, table, draws=6, warmup=2, keep=Averages(every), **options)
    assert kept.n_chains == whole.n_chains
    assert kept.acceptance == pytest.approx(whole.acceptance)
    for node in network.parameters:
        place = kept._packings[0].place[node]
        draws = whole.draws(node).reshape(whole.n_chains, 6, every, -1)
        levels = np.array(kept.part(node).levels[place])
        for name, values in {
            "theta": draws, "square": draws**2, "below": draws[..., None] <= levels,
        }.items():  # fmt: skip
            assert chains_of(kept.trace[f"0.{name}"])[:, :, place] == pytest.approx(values.mean(axis=2))
        assert kept.summary()["sd"].to_numpy() == pytest.approx(whole.summary()["sd"].to_numpy())


def regression():
    network, table = two_parents(np.random.default_rng(1), n=60)
    (part,) = [part for part in independent_parts(network, table) if part.nodes == ("y",)]
    return network, table, grid_of(RegressionTarget(part_regression(network, part, table)), (-4, -4), (4, 4))


@pytest.mark.parametrize("method", ["auto", "random_walk"])
def test_moments_quantiles_and_probabilities_are_those_of_a_grid(method):
    network, table, grid = regression()
    fit = doxa.fit(network, table, method=method, draws=200, warmup=20, keep=Averages(60), seed=SEED + 2)
    limit = z_limit(2 * 7)
    summary = fit.summary()
    assert (np.abs(summary["mean"] - grid.mean) < limit * summary["mcse"]).all()
    assert summary["sd"].to_numpy() == pytest.approx(grid.sd, rel=0.1)
    z, moved = [], []
    for j, label in enumerate(network.coefficients("y")):
        axis, inverse = np.unique(grid.points[:, j], return_inverse=True)
        law = np.cumsum(np.bincount(inverse, grid.probability)) - 0.5 * np.bincount(inverse, grid.probability)
        for prob in (0.025, 0.5, 0.975):
            found, exact = fit.quantile("y", label, prob), np.interp(prob, law, axis)
            z.append((found.value - exact) / found.mcse)
            shares = fit._shares("y", j)
            step = np.append(shares.levels[1:], shares.levels[-1])  # of each level the share of the one before
            moved.append((replace(shares, levels=step).quantile(prob).value - exact) / found.mcse)
            if prob != 0.5:
                assert summary.loc[j, {0.025: "lower", 0.975: "upper"}[prob]] == found.value
        for above in (0.0, 0.37):
            found, exact = fit.probability("y", label, above), 1 - np.interp(above, axis, law)
            z.append((found.value - exact) / found.mcse)
    assert np.abs(z).max() < limit
    assert np.abs(moved).min() > limit


def test_a_root_is_told_as_a_probability():
    codes = np.repeat([0, 1], [13, 47])
    table = Table.from_codes(["x", "y"], [("0", "1")] * 2, np.column_stack([codes, codes[::-1]]))
    fit = doxa.fit(LogisticNetwork({"y": ["x"]}), table, draws=200, keep=Averages(50), seed=1)
    (row,) = fit.summary().query("node == 'x'").to_dict("records")
    assert abs(row["mean"] - 48 / 62) < z_limit(1) * row["mcse"]
    assert row["sd"] == pytest.approx(np.sqrt(48 * 14 / 62**2 / 63), rel=0.05)
    for prob in (0.025, 0.5, 0.975):
        found = fit.quantile("x", "probability", prob)
        assert abs(found.value - betaincinv(48, 14, prob)) < z_limit(3) * found.mcse
    found = fit.probability("x", "probability", above=0.8)
    assert abs(found.value - (1 - betainc(48, 14, 0.8))) < z_limit(1) * found.mcse < 0.05
    assert fit.probability("x", "probability").interval()[0] > 0.99
    assert fit.converged


def test_they_take_less_memory_and_stop_by_their_own_errors():
    network, table = two_parents(np.random.default_rng(1), n=60)
    fit = doxa.fit(network, table, until=doxa.Until(ess=300), keep=Averages(100), seed=1)
    assert fit.stop.reason == "reached"
    assert fit.converged
    assert "effective averages of 100 draws" in fit.verdict
    per_draw = 8 * (2 + 2)  # coefficients, log density and acceptance
    held = sum(values.nbytes for values in fit.trace.draws.values())
    assert held < 0.2 * per_draw * fit.n_chains * fit.n_draws * 100


def test_a_file_is_gone_on_with_and_read_back(tmp_path):
    network, table = holed()
    options = {"keep": Averages(20), "warmup": 5, "seed": 5}
    whole = doxa.fit(network, table, draws=60, **options)
    doxa.fit(network, table, draws=13, **options, store=tmp_path / "run.doxa")
    more = doxa.resume(tmp_path / "run.doxa", table, draws=60)
    whole.save(tmp_path / "saved.doxa")
    loaded = [doxa.load(tmp_path / "run.doxa", table=table), doxa.load(tmp_path / "saved.doxa")]
    for fit in [more, *loaded]:
        assert isinstance(fit, ParameterAverages)
        assert same_draws(fit, whole)
        assert fit.report.parts[0].levels == whole.report.parts[0].levels
        assert fit.summary().equals(whole.summary())
        assert (fit.verdict, fit.kept) == (whole.verdict, "averages of 20 draws")
    points = loaded[0].approximation("y").sample(5, np.random.default_rng(0))
    assert np.isfinite(loaded[0].approximation("y").log_density(points)).all()
    with pytest.raises(RunFileError, match="not gone on with"):
        doxa.resume(tmp_path / "saved.doxa", table, draws=80)
    plain = doxa.fit(network, table, draws=20, seed=5, store=tmp_path / "plain.doxa")
    assert not doxa.load(tmp_path / "plain.doxa").report.is_averaged
    assert plain.kept == "draws"


@pytest.fixture(scope="module")
def fitted():
    network, table = two_parents(np.random.default_rng(1), n=60)
    return doxa.fit(network, table, draws=20, keep=Averages(5), seed=1)


@pytest.mark.parametrize("name", ["draws", "predict", "to_arviz", "to_frame", "log_density"])
def test_what_needs_draws_is_refused(fitted, name):
    with pytest.raises(NoDrawsError, match=f"{name} needs draws, and this fit has kept averages of 5 draws; fit with"):
        getattr(fitted, name)
    assert not hasattr(fitted, name)


def test_what_else_is_not_there_is_said(fitted, tmp_path):
    assert np.isnan(fitted.log_marginal_likelihood.value)
    with pytest.raises(AttributeError, match="'ParameterAverages' object has no attribute 'graphs'"):
        fitted.graphs  # noqa: B018
    with pytest.raises(ArgumentTypeError, match=r"doxa\.infer returns, with keep='draws'"):
        doxa.report(fitted, tmp_path / "page.html")
    with pytest.raises(ArgumentError, match="source has kept averages of 5 draws, and a plot is of draws; fit with"):
        read_column(fitted, ("y", "a"))


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda fit: fit.quantile("y", "c", 0.5), ArgumentError, "'c' is no parameter of 'y'; its parameters are"),
        (lambda fit: fit.quantile("z", "a", 0.5), ArgumentError, "'z'"),
        (lambda fit: fit.quantile("y", "a", 50), ArgumentError, "prob is 50; it must lie strictly between 0 and 1"),
        (lambda fit: Averages(0), ArgumentError, "every is 0; it must be at least 1"),
        (lambda fit: Averages(2.5), ArgumentTypeError, "every is 2.5; it must be a whole number"),
        (
            lambda fit: doxa.fit(fit.network, doxa.Table.from_codes(["a"], [("0", "1")], [[1]]), keep=100),
            ArgumentTypeError,
            r"keep is 100; it must be 'draws' or doxa.parameters.Averages\(every=100\)",
        ),
    ],
)
def test_bad_input(fitted, ask, error, message):
    with pytest.raises(error, match=message):
        ask(fitted)
