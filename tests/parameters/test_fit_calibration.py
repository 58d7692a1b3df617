"""Simulation-based calibration (Talts et al. 2018): parameters from the prior, tables from them, ranks in the draws."""

from __future__ import annotations

import numpy as np
import pytest
from parameter_cases import blanked
from scipy.special import chdtrc

import doxa
from doxa import LogisticNetwork
from support.checks import FALSE_ALARM, SEED

BINS = 6
KEPT = 29  # draws that ranks are among: 30 ranks, five to a bin


def ranks(replications, seed, *, share, hide=(), wrong=None, **options):
    """Ranks of each coefficient and of the log likelihood, shape (replications, quantities)."""
    network = LogisticNetwork({"y": ["a", "b"], "b": ["a"]}, prior_scale=1.2, roots=options.pop("roots", None))
    fitted = network if wrong is None else LogisticNetwork({"y": ["a", "b"], "b": ["a"]}, **wrong)
    rng = np.random.default_rng(seed)
    found = []
    for k in range(replications):
        thetas = {
            node: rng.random(1) if node in network.roots else 1.2 * rng.standard_normal(network.n_coefficients(node))
            for node in network.parameters
        }
        table = blanked(network.simulate(40, thetas, rng), share, rng, hide)
        fit = doxa.fit(fitted, table, chains=2, draws=8 * (KEPT // 2 + 1), warmup=40, seed=k, workers=1, **options)
        thinned = {node: fit.draws(node)[:, 7::8].reshape(-1, fit.draws(node).shape[2])[:KEPT] for node in thetas}
        truth = np.concatenate([thetas[node] for node in thetas])
        drawn = np.concatenate([thinned[node] for node in thetas], axis=1)
        # a function of data and parameters: sees errors that the coefficients' own ranks do not (Modrak et al. 2023)
        likelihood = network.likelihood(table)
        truth = np.append(truth, likelihood.log_likelihood(thetas))
        drawn = np.column_stack([drawn, likelihood.log_likelihood(thinned)])
        below, ties = (drawn < truth).sum(axis=0), (drawn == truth).sum(axis=0)
        found.append(below + (rng.random(ties.shape) * (ties + 1)).astype(int))
    return np.array(found)


def least_p(ranks):
    """Of the chi-square tests that the ranks are uniform, times their number."""
    counts = np.stack([np.bincount(column * BINS // (KEPT + 1), minlength=BINS) for column in ranks.T])
    expected = len(ranks) / BINS
    statistic = ((counts - expected) ** 2 / expected).sum(axis=1)
    return float(chdtrc(BINS - 1, statistic).min() * len(counts))


CASES = {
    "complete": {"share": 0.0},
    "missing_cells": {"share": 0.2},
    "hidden root": {"share": 0.0, "hide": ["a"], "roots": {"a": 0.4}},
}


@pytest.mark.parametrize("case", CASES)
def test_ranks_of_the_truth_are_uniform(case):
    assert least_p(ranks(40, SEED + 1, **CASES[case])) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ranks_of_the_truth_are_uniform_in_a_thousand_replications(case):
    assert least_p(ranks(1000, SEED + 1, **CASES[case])) > FALSE_ALARM


def test_ranks_under_a_wrong_prior_are_not():
    wrong = {"prior_scale": 0.3}
    assert least_p(ranks(40, 1, share=0.0, wrong=wrong)) < FALSE_ALARM
