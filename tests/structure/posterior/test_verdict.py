"""What a verdict on a run over graphs is made of: a word, why, and what to do; together they are its text."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.estimates.verdict import Verdict
from doxa.structure import MarkovBlanket
from doxa.structure.posterior.verdict import judge
from support.posteriors import posterior_of
from support.tables import skewed_table


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
        ([0.0, 0.0, 0.3, -0.3], "Not converged", "the log score has R-hat", "Run longer: draws=4000, warmup=2000."),
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
