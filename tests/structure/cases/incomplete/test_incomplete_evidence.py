"""Cells drawn row by row: the draws are a distribution, and what is summed out of the graphs is what listing sums."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from incomplete_cases import CASES, blanked, case, with_missing_cells
from scipy.special import logsumexp

import doxa
from doxa.models.bits import pack_rows
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint, sequential
from doxa.structure.cases.incomplete.sequential import log_summed
from doxa.structure.exact.dag_sums import log_sum_over_dags
from doxa.structure.exact.enumeration import prior_weights
from doxa.structure.exact.order_sums import parents_of
from doxa.structure.families.cache import local_weights
from support.checks import z_limit
from support.tables import skewed_table


def log_q(name):
    """Log q(z | G) of every graph and completion, as the weights and the oracle have it."""
    data, _, exact = case(name)
    parents = np.repeat(parents_of(exact.rows), len(exact.cells), axis=0)
    cells = np.tile(exact.cells, (len(exact.rows), 1))
    return exact.log_score - log_summed(data, parents, np.random.default_rng(1), cells).reshape(exact.log_score.shape)


@pytest.mark.parametrize("name", CASES)
def test_the_cells_of_each_graph_are_drawn_from_a_distribution(name):
    assert logsumexp(log_q(name), axis=1) == pytest.approx(0.0, abs=1e-9)


def test_rows_that_are_not_put_in_are_seen(monkeypatch):
    add = sequential._add_row

    def take_out_only(i, weight, completion, families):
        if weight < 0:
            add(i, weight, completion, families)

    monkeypatch.setattr(sequential, "_sum_graphs", sequential._sum_graphs.py_func)
    monkeypatch.setattr(sequential, "_put_in", sequential._put_in.py_func)
    monkeypatch.setattr(sequential, "_add_row", take_out_only)
    assert np.abs(logsumexp(log_q("BDeu"), axis=1)).max() > 0.01


def test_large_components_are_drawn_from_a_distribution():
    table = with_missing_cells(skewed_table(8, 30, seed=3), [(0, k) for k in range(7)] + [(1, 2), (1, 3)])
    data = IncompleteData(table)
    chain = np.eye(8, k=1, dtype=np.bool_)
    chain[0, 5] = True
    rows, cells = pack_rows(chain), np.array(list(product(range(2), repeat=9)))
    log_p = np.array([local_weights(data.completed(z.astype(np.int16)), rows[None]).sum() for z in cells])
    parents = np.tile(parents_of(rows), (len(cells), 1, 1))
    assert logsumexp(log_p - log_summed(data, parents, np.random.default_rng(1), cells)) == pytest.approx(0, abs=1e-9)
    fresh = np.exp(log_summed(data, np.tile(parents, (8, 1, 1)), np.random.default_rng(1)) - logsumexp(log_p))
    assert abs(fresh.mean() - 1) < 4 * fresh.std() / np.sqrt(fresh.size)


def test_estimates_of_each_graph_are_without_bias():
    data, _, exact = case("BDeu")
    n = 400
    parents = np.tile(parents_of(exact.rows), (n, 1, 1))
    log_p = logsumexp(exact.log_score, axis=1)
    ratios = np.exp(log_summed(data, parents, np.random.default_rng(1)).reshape(n, -1) - log_p)
    z = (ratios.mean(axis=0) - 1) / (ratios.std(axis=0) / np.sqrt(n))
    assert np.abs(z).max() < z_limit(len(z))


@pytest.mark.parametrize("prior", ["sparse", "uniform"])
def test_the_log_marginal_likelihood_is_that_of_listing(prior):
    table = with_missing_cells(skewed_table(4, 40, seed=2), [(0, 0), (0, 2), (3, 1), (7, 3), (9, 0), (9, 1)])
    runs, z = [doxa.learn(table, prior=prior, seed=seed, draws=400) for seed in range(3)], []
    options = runs[0].options
    listed = enumerate_joint(IncompleteData(table, options.score, options.structure_prior))
    exact = listed.log_evidence - log_sum_over_dags(prior_weights(options))
    for made in runs:
        found = made.log_marginal_likelihood
        z.append((found.value - exact) / found.mcse)
        assert 0 < found.mcse < 0.05
    assert np.abs(z).max() < 4


def test_baselines_are_drawn_with_their_cells(monkeypatch):
    table = blanked(skewed_table(6, 200, seed=3), 0.1, 1)
    made = doxa.learn(table, seed=1, draws=800)
    baselines = {seed: made.baseline(seed=seed) for seed in range(1, 6)}
    told = [seed for seed, baseline in baselines.items() if baseline.agrees]
    assert told
    # some edges only graphs of large weight have; by the weights' own variance one of ten samples disagreed
    assert not any(baseline.agrees is False for baseline in baselines.values())
    assert max(baseline.sample.ess for baseline in baselines.values()) > 800
    again = doxa.learn(table, seed=2, draws=400).log_marginal_likelihood
    one = made.log_marginal_likelihood
    assert abs(one.value - again.value) < 4 * np.hypot(one.mcse, again.mcse)
    twin = doxa.learn(table, seed=1, prior="uniform", draws=200)
    monkeypatch.setitem(made.__dict__, "edge_diagnostics", twin.edge_diagnostics)  # chains of another prior
    assert made.baseline(seed=told[0]).agrees is False
