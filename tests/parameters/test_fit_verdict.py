"""What a verdict on a fit is made of: a word, why, and what to do; together they are its text."""

from __future__ import annotations

import numpy as np
from parameter_cases import two_parents

import doxa
from doxa import LogisticNetwork
from doxa.parameters.report import judge


def parts_of(fit):
    verdict = judge(fit)
    assert fit.verdict == f"{verdict.status}: {verdict.reason} {verdict.advice}".rstrip()
    return verdict


def test_draws_from_the_approximation_are_advised_against():
    network, table = two_parents(np.random.default_rng(1), n=60)
    verdict = parts_of(doxa.fit(network, table, method="variational", draws=100, seed=3))
    assert verdict.status == "Approximation"
    assert verdict.reason.endswith("(below 0.5 is good).")
    assert verdict.advice == "Fit with method='auto' to draw from the posterior itself."


def test_one_chain_should_be_several():
    network, table = two_parents(np.random.default_rng(1), n=60)
    verdict = parts_of(doxa.fit(network, table, chains=1, draws=100, seed=3))
    assert (verdict.status, verdict.advice) == ("Cannot tell", "Run several: chains=4.")


def test_nothing_to_add_where_the_chains_agree():
    network, table = two_parents(np.random.default_rng(1), n=60)
    verdict = parts_of(doxa.fit(network, table, draws=1000, seed=3))
    assert (verdict.status, verdict.advice) == ("Converged", "")
    assert verdict.reason.startswith("4 chains agree")


def test_what_cannot_be_identified_is_for_the_reader_to_heed():
    rng = np.random.default_rng(7)
    network = LogisticNetwork({"a": ["h"], "b": ["h"], "c": ["h"]}, prior_scale=2.0, roots={"h": 0.5})
    table = network.simulate(60, {node: [0.2, 1.5] for node in "abc"}, rng).select(["a", "b", "c"])
    verdict = parts_of(doxa.fit(network, table, draws=60, seed=1))
    assert "Not identified: the values of 'h' can be exchanged." in verdict.advice
