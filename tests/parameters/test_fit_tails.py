"""Posteriors that run on beyond their Gaussian: separated tables and small samples, against integrals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import chdtri

import doxa
from doxa import LogisticNetwork
from doxa.models.logistic_regression import make_problem
from doxa.parameters import cascade, methods
from doxa.parameters.cascade import LONG, Reach, bounded, line_tails, prior_of
from doxa.parameters.fit import max_log_likelihood
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.pilot import run_pilot
from doxa.parameters.report import PartReport, judge
from doxa.parameters.targets import RegressionTarget
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.schema import made
from support.logistic_posteriors import frame, one_parent

EMPTY_CELL = frame([((0, 0), 20), ((1, 1), 30), ((1, 0), 25)])
FEWER = frame([((0, 0), 6), ((1, 1), 5), ((1, 0), 3)])
TWELVE = frame([((0, 0), 4), ((0, 1), 1), ((1, 1), 2), ((1, 0), 5)])  # nine against three
SEPARATED = frame([((0, 0), 10), ((1, 1), 10)])
EVERYDAY = frame([((0, 0), 200), ((1, 1), 300), ((1, 0), 250), ((0, 1), 120)])
CASES = {"empty cell": (EMPTY_CELL, 10.0), "fewer": (FEWER, 10.0), "separated": (SEPARATED, 10.0)}
OTHERS = [
    {"approximation": "jaakkola_jordan"},
    {"approximation": "sequential"},
    {"method": "regeneration"},
    {"method": "resampling"},
    {"method": "flip"},
]
BY_STEPS = [{"method": "block"}, {"method": "mixture"}]  # which takes longer
FALSE_ALARM = 1e-6


def errors(table, scale, seeds, **options):
    """Distances from the exact values in standard errors, of fits that converged: (seeds, 3), and how many did."""
    exact = one_parent(table["a"].to_numpy(), table["y"].to_numpy(), scale)
    network = LogisticNetwork({"y": ["a"]}, prior_scale=scale)
    found = []
    for seed in seeds:
        fit = doxa.fit(network, table, seed=seed, workers=1, **options)
        if fit.converged:
            part = next(part for part in fit.completed_report.parts if part.nodes == ("y",))
            bias, coefficient = fit.coefficient("y", "bias"), fit.coefficient("y", "a")
            evidence = (part.log_evidence - exact.log_evidence) / part.log_evidence_mcse
            found.append(
                [
                    (bias.value - exact.bias) / bias.mcse,
                    (coefficient.value - exact.coefficient) / coefficient.mcse,
                    evidence,
                ]
            )
    return np.array(found)


def worst(z):
    """Sum of squared errors in units of its limit, and the mean error likewise; above 1 some quantity is wrong."""
    n = len(z)
    squared = (z**2).sum(axis=0).max() / chdtri(n, FALSE_ALARM)
    shifted = np.abs(z.mean(axis=0)).max() * np.sqrt(n) / np.sqrt(chdtri(1, FALSE_ALARM))
    return max(squared, shifted)


def unmixed(target, gaussian, rng):
    """The broken twin: a Gaussian without tails, and a pilot that does not look beyond it."""
    pilot = run_pilot(target, gaussian, rng)._replace(efficiency=1.0)
    return Reach(gaussian, pilot, 0.0, 0.0, gaussian_alone=True)


def unmixed_everywhere(monkeypatch):
    monkeypatch.setattr(cascade, "reach_of", unmixed)
    monkeypatch.setattr(methods, "reach_of", unmixed)


@pytest.mark.parametrize("case", CASES)
def test_errors_are_as_large_as_they_say_on_separated_tables(case):
    z = errors(*CASES[case], range(16), draws=1500, warmup=50)
    assert len(z) >= 15
    assert worst(z) < 1


def test_without_tails_they_are_not(monkeypatch):
    unmixed_everywhere(monkeypatch)
    assert worst(errors(*CASES["empty cell"], range(16), draws=1500, warmup=50)) > 1


@pytest.mark.parametrize(
    "options",
    [*OTHERS, *(pytest.param(options, marks=pytest.mark.slow) for options in BY_STEPS)],
    ids=lambda options: "-".join(options.values()),
)
def test_named_methods_reach_the_tails_too(options):
    z = errors(EMPTY_CELL, 10.0, range(6), draws=1000, warmup=50, **options)
    assert len(z) >= 5
    assert worst(z) < 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, *OTHERS, *BY_STEPS], ids=lambda options: "-".join(options.values()) or "auto")
@pytest.mark.parametrize(("table", "scale"), [(TWELVE, 3.0), *CASES.values()], ids=["twelve", *CASES])
def test_intervals_cover_where_the_verdict_says_converged(table, scale, options):
    z = errors(table, scale, range(60), **options)
    assert len(z) >= 58
    covered = (np.abs(z) < 1.96).mean(axis=0)
    assert covered.min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)
    assert worst(z) < 1


@pytest.mark.slow
def test_intervals_cover_in_chains_of_three_nodes():
    rng = np.random.default_rng(5)
    a = rng.integers(0, 2, 15)
    b = np.where(rng.random(15) < 0.8, a, 1 - a)
    c = np.where(rng.random(15) < 0.7, b, 1 - b)
    network = LogisticNetwork({"b": ["a"], "c": ["b"]}, prior_scale=10.0)
    first, second = one_parent(a, b, 10.0), one_parent(b, c, 10.0)
    z = []
    for seed in range(100):
        fit = doxa.fit(network, pd.DataFrame({"a": a, "b": b, "c": c}), seed=seed, workers=1)
        assert fit.converged
        found = [
            fit.coefficient("b", "bias"),
            fit.coefficient("b", "a"),
            fit.coefficient("c", "bias"),
            fit.coefficient("c", "b"),
        ]
        exact = [first.bias, first.coefficient, second.bias, second.coefficient]
        z.append([(estimate.value - value) / estimate.mcse for estimate, value in zip(found, exact, strict=True)])
        root = next(part for part in fit.report.parts if part.nodes == ("a",)).log_evidence
        evidence = fit.log_marginal_likelihood
        z[-1].append((evidence.value - root - first.log_evidence - second.log_evidence) / evidence.mcse)
    assert (np.abs(np.array(z)) < 1.96).mean(axis=0).min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)
    assert worst(np.array(z)) < 1


# --- what is asked of the target


def regression(table, scale=10.0):
    a = 2.0 * table["a"].to_numpy() - 1
    sign = 2 * table["y"].to_numpy() - 1
    return make_problem(np.column_stack([np.ones(len(a)), a]), sign, prior_covariance=scale**2)


def log_weights_over_evidence(table, proposal, target):
    """At points of a wide grid, nats."""
    exact = one_parent(table["a"].to_numpy(), table["y"].to_numpy(), 10.0)
    axis = np.linspace(-120, 120, 481)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return target.log_density(points) - exact.log_evidence - proposal.log_density(points)


@pytest.mark.parametrize("table", [EMPTY_CELL, EVERYDAY, SEPARATED])
def test_weights_are_below_the_bound_that_the_verdict_prints(table):
    fit = doxa.fit(LogisticNetwork({"y": ["a"]}), table, draws=1000, seed=1)
    problem = regression(table)
    target, gaussian = RegressionTarget(problem), optimal_posterior(problem)
    part = fit.part("y")
    assert f"at most exp({part.log_beta:.1f})" in fit.verdict
    proposal = bounded(target, gaussian)
    log_beta = max_log_likelihood(problem) - gaussian.log_evidence - np.log(proposal.share)
    assert log_weights_over_evidence(table, proposal, target).max() < log_beta
    assert log_weights_over_evidence(table, gaussian, target).max() > log_beta  # the broken twin: without tails
    if part.why.startswith("the approximation is good"):
        assert part.log_beta == pytest.approx(log_beta, abs=1.0)


def test_lines_tell_where_the_posterior_goes_on_beyond_the_gaussian():
    for table in (EMPTY_CELL, FEWER, TWELVE, SEPARATED):
        problem = regression(table)
        target = RegressionTarget(problem)
        assert line_tails(target, optimal_posterior(problem), prior_of(target)) > 5 * LONG
    problem = regression(EVERYDAY)
    target = RegressionTarget(problem)
    assert line_tails(target, optimal_posterior(problem), prior_of(target)) < LONG / 4


def many_columns(n=300, d=14):
    """One of the columns is 1 in few rows, all of the first kind."""
    rng = np.random.default_rng(3)
    columns = rng.integers(0, 2, (n, d))
    columns[:, 0] = rng.random(n) < 0.05
    y = (rng.random(n) < 1 / (1 + np.exp(-(columns - 0.5) @ rng.normal(size=d)))).astype(int)
    y[columns[:, 0] == 1] = 1
    names = [f"x{j}" for j in range(d)]
    return LogisticNetwork({"y": names}, roots=dict.fromkeys(names, 0.5)), pd.DataFrame(columns, columns=names).assign(
        y=y
    )


def test_where_no_proposal_reaches_the_verdict_says_so():
    network, table = many_columns()
    fit = doxa.fit(network, table, method="independence", draws=3000, warmup=10, seed=1)
    assert fit.part("y").doubt.startswith("the posterior goes on beyond the approximation")
    assert not fit.converged
    assert made(PartReport, fit.part("y").to_json(), "part").doubt == fit.part("y").doubt


def test_agreement_of_chains_that_do_not_reach_the_tails_is_no_proof():
    fit = doxa.fit(LogisticNetwork({"y": ["a"]}, roots={"a": 0.5}), EVERYDAY, draws=1000, seed=1)
    assert fit.judgement.converged
    (part,) = fit.report.parts
    fit.report = replace(fit.report, parts=(replace(part, doubt="the weights of proposals vary too much"),))
    verdict = judge(fit)
    assert (verdict.converged, verdict.status) == (None, "Cannot tell")
    assert "for y the weights of proposals vary too much" in verdict.reason
    assert verdict.advice == "Fit with method='auto' or 'hmc'."


def test_and_auto_takes_hamiltonian_steps():
    network, table = many_columns()
    fit = doxa.fit(network, table, draws=100, warmup=50, seed=1)
    assert fit.method["y"] == "hmc"
    assert fit.part("y").doubt == ""


def test_reports_of_earlier_versions_are_read():
    part = PartReport(("y",), "flip", "asked for", "Gaussian", 0.5, 0.1)
    stored = part.to_json()
    del stored["log_beta"], stored["doubt"]
    assert made(PartReport, stored, "part").doubt == ""


def test_a_prior_of_a_root_has_longer_tails_than_a_gaussian():
    class Joint:
        prior_spread = np.zeros(1), np.eye(1)

    assert prior_of(Joint()).df < np.inf
    assert isinstance(prior_of(Joint()), Student)
    assert prior_of(object()) is None


@pytest.mark.parametrize(
    "rows", [{"smoke": [None]}, {"smoke": [None, None], "systol": [None, None]}, {"smoke": [None], "age": ["x"]}]
)
def test_rows_that_are_all_missing_are_predicted(rows):
    network = LogisticNetwork({"systol": ["smoke"]}, roots={"smoke": 0.25})
    fit = doxa.fit(network, doxa.datasets.load("reinis"), draws=100, seed=1)
    cells = fit.predict(pd.DataFrame(rows))
    assert cells["row"].nunique() == len(rows["smoke"])
    assert cells.loc[cells["node"] == "smoke", "probability"].to_numpy() == pytest.approx(0.25)
    both = fit.predict(pd.DataFrame({"smoke": ["no", "yes"]}))["probability"].to_numpy()
    expected = 0.25 * both[1] + 0.75 * both[0]
    assert cells.loc[cells["node"] == "systol", "probability"].to_numpy() == pytest.approx(expected)


def fifty_parents(seed=1):
    """As in de Freitas et al. 2001, section 5.1: skewed, but not separated."""
    names = [f"x{j}" for j in range(50)]
    network = LogisticNetwork({"y": names}, bias=0.5, roots=dict.fromkeys(names, 0.5))
    rng = np.random.default_rng(seed)
    return network, network.simulate(1000, {"y": 1 - rng.random(50)}, rng)


def test_a_skewed_posterior_keeps_independent_proposals():
    network, table = fifty_parents()
    fit = doxa.fit(network, table, draws=4000, warmup=50, seed=1)
    assert fit.method["y"] == "independence"
    assert fit.converged
    steps = doxa.fit(network, table, method="split_hmc", chains=2, draws=1000, warmup=50, seed=2)
    found, other = (run.summary() for run in (fit, steps))
    z = (found["mean"] - other["mean"]) / np.hypot(found["mcse"], other["mcse"])
    assert worst(np.array(z)[None]) < 1
    ratio = np.log(found["sd"] / other["sd"]) * np.sqrt(2 / (1 / found["ess"] + 1 / other["ess"]))
    assert np.abs(ratio).max() < 5.5
