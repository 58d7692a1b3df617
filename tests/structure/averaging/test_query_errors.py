"""Do intervals of averages hold the exact answer as often as they say?  Graphs stick, parameters are noise."""

from __future__ import annotations

import numpy as np
import pytest
from averaging_cases import case, independent, posterior_of_draws

import doxa
from doxa.data import Table
from doxa.inference.exact import Budget
from doxa.structure.averaging import draw_networks, query
from doxa.structure.averaging.answers import mean_over_draws, weighted_mean
from doxa.structure.averaging.conditional import conditional_draws, weighted_conditionals
from doxa.structure.averaging.questions import read_question
from doxa.structure.families.scores import K2
from support.checks import SEED, z_limit

STAY, DRAWS = 0.8, 250  # 1000 draws worth some 110


def walks(of, rng, n_runs):
    """Graphs of chains that stay where they are with probability STAY, else draw another: (run, chain, draw)."""
    shape = (n_runs, 4, DRAWS)
    which = rng.choice(len(of.listed.probability), size=shape, p=of.listed.probability)
    stays = rng.random(shape) < STAY
    for i in range(1, DRAWS):
        which[..., i] = np.where(stays[..., i], which[..., i - 1], which[..., i])
    return which


def pooled(of, target, given, n):
    """n draws of the conditional probability for each graph, and the evidence of mean networks: (n, graph, label)."""
    n_graphs = len(of.listed.rows)
    draws = draw_networks(posterior_of_draws(of, np.tile(np.arange(n_graphs), (4, n // 4))), of.table, None)
    question = read_question(of.table.names, of.table.states, target, given)
    drawn = conditional_draws(draws, question, Budget()).smooth.reshape(n, n_graphs, -1)
    return drawn, [part[:n_graphs] for part in weighted_conditionals(draws, question, Budget())]


@pytest.fixture(scope="module")
def coverage():
    """Shares of runs whose interval holds: ours; without room for what was never met; and blind to autocorrelation."""
    of = case(3, 25, 9)
    pool, (conditional, log_evidence) = pooled(of, "x2", {"x0": "s0", "x1": "s1"}, 200)
    rng = np.random.default_rng(SEED + 31)
    weight = of.listed.probability * np.exp(log_evidence)
    exact = {"query": of.listed.probability @ pool.mean(axis=0), "predictive": weight @ conditional / weight.sum()}
    held = {name: np.zeros(3) for name in exact}
    n_runs = 200
    for which in walks(of, rng, n_runs):
        plain = pool[rng.integers(len(pool), size=which.shape), which]
        flat = which.ravel()
        found = {
            "query": (mean_over_draws(plain, 110.0), plain),
            "predictive": (
                weighted_mean(conditional[flat], log_evidence[flat], which.shape, 110.0).means,
                np.exp(log_evidence[which])[..., None] * (conditional[which] - exact["predictive"]) / weight.sum()
                + exact["predictive"],
            ),
        }
        for name, (means, series) in found.items():
            estimate, truth = means.estimate(0), exact[name][0]
            low, high = estimate.interval()
            own_low, own_high = estimate.law.met.bounds(estimate.value, estimate.law.own_error, 0.95)
            naive = series[..., 0].std() / np.sqrt(which.size)
            inside = (low <= truth <= high, own_low <= truth <= own_high, abs(estimate.value - truth) < 1.96 * naive)
            held[name] += inside
    return {name: shares / n_runs for name, shares in held.items()}, n_runs


@pytest.mark.parametrize("name", ["query", "predictive"])
def test_intervals_of_means_hold_what_they_say(coverage, name):
    shares, n_runs = coverage
    slack = z_limit(4, 1e-4) * np.sqrt(0.95 * 0.05 / n_runs)
    ours, own, naive = shares[name]
    assert ours > 0.93
    assert own > 0.93 - slack
    assert naive < 0.93 - slack  # the broken twin: errors of independent draws


def test_credible_intervals_hold_the_parameter_and_intervals_of_the_mean_do_not():
    """Worlds from the prior, tables from worlds: credible intervals hold P(a = 0) as often as they say."""
    rng = np.random.default_rng(SEED + 33)
    held, mean_held = [], []
    n_worlds = 40
    for world in range(n_worlds):
        kind = rng.integers(3)  # no edge, a -> b, b -> a: uniform over graphs
        root, (other, given_0, given_1) = rng.dirichlet([0.5, 0.5]), rng.dirichlet([0.5, 0.5], size=3)
        first = rng.random(30) < root[1]
        chances = np.where(first, given_1[1], given_0[1]) if kind else np.full(30, other[1])
        second = rng.random(30) < chances
        truth = root[0] if kind < 2 else root[0] * given_0[0] + root[1] * given_1[0]
        columns = [first, second] if kind < 2 else [second, first]
        table = Table.from_codes(["a", "b"], [["0", "1"]] * 2, np.stack(columns, axis=1).astype(int))
        asked = {"score": K2(0.5), "prior": "uniform", "exact": False}
        posterior = doxa.learn(table, **asked, draws=50, warmup=10, thin=5, seed=world)
        answer = query(posterior, table, {"a": "0"}, networks=None)
        low, high = answer.credible_interval(0.9)
        held.append(low <= truth <= high)
        low, high = answer.interval(0.9)
        mean_held.append(low <= truth <= high)
    assert abs(np.mean(held) - 0.9) < z_limit(2, 1e-4) * np.sqrt(0.09 / n_worlds)
    assert np.mean(mean_held) < 0.7


def test_more_networks_narrow_the_error_and_not_the_spread():
    of = case()
    few, many = (
        query(independent(of, seed=8, n_draws=n), of.table, {"x1": "s0"}, {"x0": "s1"}, networks=None)
        for n in (50, 800)
    )
    assert many.mcse < few.mcse / 2.5
    assert abs(many.posterior_sd / few.posterior_sd - 1) < 0.3
    width = np.diff(many.credible_interval())[0]
    assert width > 10 * many.mcse
    assert np.diff(many.credible_interval(0.5))[0] < width / 1.5
