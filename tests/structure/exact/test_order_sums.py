"""The evidence of a sampled posterior: the mixture of orders is a distribution, and the bridge finds the exact sum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import doxa
from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows
from doxa.structure.exact import order_sums
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.exact.order_sums import OrderMixture, log_sum_by_bridge, parents_of
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.limits import capped
from doxa.structure.moves.listing import parent_sets
from doxa.structure.runs.evidence import log_sum_by_size
from support.checks import z_limit
from support.tables import skewed_table


@pytest.fixture(scope="module")
def four():
    """All graphs on four nodes, their log weights, and the lists of all families."""
    scores, limits = FamilyScores(skewed_table(4, 60, seed=7)), capped([3] * 4)
    rows = all_dags(4)
    return rows, local_weights(scores, rows).sum(axis=1), parent_sets(scores, limits, 1.0)


def test_the_mixture_of_orders_sums_to_one_and_is_drawn_from(four):
    rows, log_f, table = four
    rng = np.random.default_rng(1)
    many = OrderMixture.of_graphs(rows, table, rng)
    mixture = many._replace(orders=many.orders[::500], log_sums=many.log_sums[::500])
    parents = parents_of(rows)
    q = np.exp(log_f + mixture.log_y(parents))
    assert q.sum() == pytest.approx(1.0, abs=1e-6)  # but for what lists leave out
    assert (q > 0).sum() < len(rows)
    drawn = mixture.draw(20_000, rng)
    number = {graph.tobytes(): k for k, graph in enumerate(parents)}
    seen = np.bincount([number[graph.tobytes()] for graph in drawn], minlength=len(rows))
    usual = q * len(drawn) > 10
    z = (seen - q * len(drawn))[usual] / np.sqrt(q * len(drawn))[usual]
    assert np.abs(z).max() < z_limit(int(usual.sum()))


def independent(four, seed, n=2000):
    rows, log_f, table = four
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(rows), size=(4, n), p=np.exp(log_f - logsumexp(log_f)))
    return log_sum_by_bridge(rows[drawn], table, rng)


def test_the_bridge_finds_the_sum_within_its_error(four, monkeypatch):
    monkeypatch.setattr(order_sums, "_MOST_ORDERS", 200)  # four nodes have 24
    exact = logsumexp(four[1])
    found = [independent(four, seed) for seed in range(30)]
    z = np.array([(estimate.value - exact) / estimate.mcse for estimate in found])
    assert np.abs(z).max() < z_limit(30)
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.4
    assert max(estimate.mcse for estimate in found) < 0.02
    log_sums = order_sums._sum_orders

    def without_the_last(first, sets, weight, orders, sums, before):  # the broken twin: a node is left out of the sums
        log_sums(first, sets, weight, np.ascontiguousarray(orders[:, :-1]), sums, before)

    monkeypatch.setattr(order_sums, "_sum_orders", without_the_last)
    broken = independent(four, 1)
    assert abs(broken.value - exact) > 10 * broken.mcse


@pytest.mark.parametrize("prior", ["sparse", "uniform"])
def test_a_sampled_posterior_knows_the_log_marginal_likelihood(prior, tmp_path):
    table = skewed_table(9, 200, seed=3)
    exact = doxa.learn(table, exact=True, prior=prior).log_marginal_likelihood
    z = []
    for seed in range(3):
        made = doxa.learn(table, exact=False, seed=seed, prior=prior, draws=600)
        found = made.log_marginal_likelihood
        assert 0 < found.mcse < 0.03
        z.append((found.value - exact.value) / found.mcse)
    assert np.abs(z).max() < 4
    made.save(tmp_path / "run.doxa")
    assert doxa.load(tmp_path / "run.doxa", table=table).log_marginal_likelihood == found
    alone = doxa.learn(table, exact=False, seed=1, prior=prior, chains=1, draws=2000).log_marginal_likelihood
    assert abs(alone.value - exact.value) < 5 * alone.mcse


def test_a_baseline_agrees_with_right_chains_and_disagrees_with_wrong_ones(monkeypatch):
    table = skewed_table(7, 150, seed=3)
    made = doxa.learn(table, exact=False, seed=2)  # of seeds 0 to 39 the weights of 1 and another cannot tell
    baseline = made.baseline()
    assert baseline.agrees
    assert str(baseline).startswith("Agree: of 42 edges ")
    assert baseline.sample.ess > 400
    exact = doxa.learn(table, exact=True).edge_diagnostics.probability
    i, j = ([made.names.index(name) for name in baseline.edges[end]] for end in ("source", "target"))
    off = np.maximum(np.abs(baseline.edges["probability"] - exact[i, j]) - baseline.outside, 0.0)
    assert 0 < baseline.outside < 0.02
    assert (off / np.maximum(baseline.edges["mcse"], 1e-3)).max() < z_limit(42)
    twin = doxa.learn(table, exact=False, seed=2, draws=500, prior="uniform")
    monkeypatch.setitem(made.__dict__, "edge_diagnostics", twin.edge_diagnostics)  # chains of another prior
    assert made.baseline().agrees is False
    with pytest.raises(ArgumentError, match="n is 10; it must be at least 100"):
        made.baseline(n=10)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_sums_over_graphs_by_numbers_of_parents_alone(n):
    log_weight = np.array([0.3, -1.0, 0.5, -2.0])
    parents = np.bitwise_count(parents_of(all_dags(n))).sum(axis=-1) if n < 6 else None
    if parents is not None:
        legal = parents.max(axis=1) <= 3
        assert log_sum_by_size(log_weight, n) == pytest.approx(logsumexp(log_weight[parents[legal]].sum(axis=1)))
    else:
        assert np.exp(log_sum_by_size(np.zeros(6), 6)) == pytest.approx(3781503)


def test_what_cannot_be_said_is_refused(four):
    rows, _, table = four
    with pytest.raises(ArgumentError, match="there are 4 draws of each chain; at least 8 are needed"):
        log_sum_by_bridge(rows[:8].reshape(2, 4, 4, 1), table, np.random.default_rng(1))
    full = pack_rows(np.triu(np.ones((4, 4), dtype=bool), 1))
    upside_down = pack_rows(np.tril(np.ones((4, 4), dtype=bool), -1))
    draws = np.stack([np.tile(full, (20, 1, 1)), np.tile(upside_down, (20, 1, 1))])
    with pytest.raises(
        ArgumentError, match="none of 20 draws of the posterior lies where the approximation is positive"
    ):
        log_sum_by_bridge(draws, table, np.random.default_rng(1))
