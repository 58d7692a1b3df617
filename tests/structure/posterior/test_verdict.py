"""What a verdict on a run over graphs is made of: a word, why, and what to do; together they are its text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import doxa
from doxa.estimates.accuracy import cautious_error
from doxa.estimates.estimate import Verdict
from doxa.estimates.stopping import StopReport
from doxa.structure import Auto, Logistic, MarkovBlanket, SingleEdge
from doxa.structure.exact.dag_budget import exact_cost, worth_it
from doxa.structure.posterior.verdict import judge
from support.posteriors import posterior_of
from support.tables import skewed_table

SUM = "Sum over all graphs instead, exact=True (--exact): about a second."


def drawn(log_score_by_chain, n_draws=1000, p=0.3):
    """Draws over two nodes, of which chain k has this mean log score."""
    rng = np.random.default_rng(0)
    n_chains = len(log_score_by_chain)
    rows = np.zeros((n_chains, n_draws, 2, 1), dtype=np.uint64)
    rows[:, :, 0, 0] = 2 * (rng.random((n_chains, n_draws)) < p)
    scores = np.array(log_score_by_chain)[:, None] + rng.normal(0, 1, size=(n_chains, n_draws))
    return posterior_of(("a", "b"), rows, scores)


@pytest.mark.parametrize(
    ("log_score", "word", "reason", "advice"),
    [
        ([0.0] * 4, "Converged", "4 chains from the empty graph", ""),
        ([0.0], "Cannot tell", "one chain alone cannot show that others would agree.", "Run several: chains=4."),
        (
            [0.0, 0.0, 0.3, -0.3],
            "Not converged",
            "the log score has R-hat",
            f"{SUM} Or run longer: draws=4000",
        ),
        ([0.0, 0.0, 0.0, -40.0], "Not converged", "the log score has R-hat", "The chains sit in different modes"),
    ],
)
def test_word_reason_and_advice_make_up_the_text(log_score, word, reason, advice):
    posterior = drawn(log_score)
    verdict = judge(posterior)
    assert verdict.status == word
    assert verdict.reason.startswith(reason)
    assert verdict.advice.startswith(advice)
    assert bool(verdict.advice) is bool(advice)
    assert posterior.verdict == f"{word}: {verdict.reason} {verdict.advice}".rstrip()


def of_columns(posterior, n_columns, n_rows=500, **changes):
    """The same draws, of a table of so many binary columns."""
    names = tuple(f"x{k}" for k in range(n_columns))
    _ = posterior.edge_diagnostics, posterior.adjacency_diagnostics  # of the draws' own two
    posterior.options = dataclasses.replace(
        posterior.options, names=names, n_rows=n_rows, max_parents=(n_columns - 1,) * n_columns,
        n_states=(2,) * n_columns, max_configurations=n_rows, **changes,
    )  # fmt: skip
    return posterior


@pytest.mark.parametrize(
    ("n_columns", "changes", "advice"),
    [
        (12, {}, "Sum over all graphs instead, exact=True (--exact): about a second. Or run longer: draws=4000, "),
        (20, {}, "Sum over all graphs instead, exact=True (--exact): about 79 seconds and 1.3 GB. Or run longer: "),
        (22, {}, "Sum over all graphs instead, exact=True (--exact): about 11 minutes and 4.6 GB. Or run longer: "),
        (24, {}, "Run longer: draws=4000, warmup=2000"),
        (80, {}, "Run longer: draws=4000, warmup=2000"),
        (12, {"n_missing": 9}, "Run longer: draws=4000, warmup=2000"),
    ],
)
def test_the_advice_is_what_will_do_on_this_table(n_columns, changes, advice):
    assert of_columns(drawn([0.0, 0.0, 0.3, -0.3]), n_columns, **changes).judgement.advice.startswith(advice)


def test_longer_runs_say_how_long():
    posterior = of_columns(drawn([0.0, 0.0, 0.3, -0.3]), 80)
    posterior.stop = StopReport("draws", None, 100.0)
    assert posterior.judgement.advice.startswith(
        "Run longer: draws=4000, warmup=2000, about 10 minutes. If it stays so"
    )


@pytest.mark.parametrize(
    ("sampler", "n_columns", "advice"),
    [
        (SingleEdge(), 12, "Sum over all graphs instead, exact=True (--exact): about a second."),
        (
            SingleEdge(),
            80,
            "Leave sampler out (--sampler auto): it runs chains at several temperatures, which trade places.",
        ),
        (Auto(), 80, "Select fewer columns, or limit the parents: max_parents=3 (--max-parents 3)."),
    ],
)
def test_chains_that_are_stuck_get_another_way(sampler, n_columns, advice):
    posterior = of_columns(drawn([0.0, 0.0, 0.0, -40.0]), n_columns)
    posterior.sampler = sampler
    stuck = "The chains sit in different modes, 40 nats apart, which longer runs seldom mend: "
    assert posterior.judgement.advice == f"{stuck}trust none of the numbers. {advice}"


@pytest.mark.parametrize(
    ("n_columns", "n_rows", "changes", "worth"),
    [
        (17, 10_000, {}, True),
        (18, 500, {}, True),
        (19, 500, {}, True),
        (19, 10**6, {}, False),  # that many rows allow so many parents that scoring takes as long as summing
        (20, 500, {}, False),
        (12, 500, {"score": Logistic()}, True),
        (14, 10**4, {"score": Logistic()}, False),
    ],
)
def test_a_sum_is_made_unasked_by_its_cost_and_not_by_a_number_of_columns(n_columns, n_rows, changes, worth):
    options = of_columns(drawn([0.0] * 4), n_columns, n_rows, **changes).options
    assert worth_it(options) is worth
    assert (exact_cost(options).seconds <= 30) is worth


def test_why_a_run_stopped_belongs_to_the_reason():
    posterior = doxa.learn(skewed_table(3, 30, seed=0), until=doxa.Until(mcse=0.1, max_draws=20), seed=1, exact=False)
    verdict = judge(posterior)
    assert posterior.stop.text
    assert verdict.reason.endswith(posterior.stop.text)
    assert verdict.text == posterior.verdict == f"{verdict.status}: {verdict.reason} {verdict.advice}".rstrip()


def test_what_is_biased_is_the_word_and_all_else_the_reason():
    posterior = doxa.learn(skewed_table(3, 30, seed=0), sampler=MarkovBlanket(published=True), seed=1, draws=100)
    verdict = judge(posterior)
    assert (verdict.status, verdict.advice) == ("Biased", "")
    assert posterior.verdict == f"Biased: {verdict.reason}"


def test_a_sum_over_all_graphs_needs_no_advice():
    posterior = doxa.learn(skewed_table(3, 30, seed=0), seed=1)
    verdict = posterior.judgement
    assert (verdict.status, verdict.advice) == ("Exact", "")
    assert verdict.reason.startswith("a sum over all graphs within the limits")


def test_the_text_follows_from_the_parts():
    verdict = Verdict.of_chains(False, "two chains differ.", "", "Stopped after 9 s.", advice="Draw more.")
    assert verdict == (False, "Not converged", "two chains differ. Stopped after 9 s.", "Draw more.")
    assert verdict.text == "Not converged: two chains differ. Stopped after 9 s. Draw more."
    assert Verdict(True, "Exact", "summed over all states.").text == "Exact: summed over all states."


def test_no_error_is_above_what_the_verdict_says_and_the_stopping_rule_neither():
    """Of edges that were visited a few times the rule takes more than the error that their visits show."""
    table = skewed_table(8, 300, seed=5)
    said, errors = [], []
    for seed in range(4):
        until = doxa.Until(mcse=1e-4, max_draws=500)
        posterior = doxa.learn(table, seed=seed, progress=False, exact=False, until=until)
        between = ~np.eye(8, dtype=bool)
        cautious = cautious_error(posterior.edge_diagnostics)[between].max()
        if posterior.converged:
            said.append(f"no edge probability has a Monte Carlo error above {cautious:.2g}" in posterior.verdict)
        held = posterior.stop.held_back
        assert held.what == "Monte Carlo error"
        errors.append(" -- " in held.name or held.value == cautious)
    assert said
    assert all(said)
    assert all(errors)
