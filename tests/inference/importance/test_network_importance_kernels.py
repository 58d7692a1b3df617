"""The compiled loops of network importance sampling against plain NumPy, and tallies that add up whoever makes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_network_importance_proposals import METHODS, cases, every_row, explaining_away, random_tree

from doxa.errors import ArgumentError
from doxa.inference.importance import NetworkSampler, lay_out, likelihood_weighting, propagated, sample_network
from doxa.inference.importance.kernels import BATCH, N_LANES, N_LARGEST, N_POWERS, add_tallies, block_tally, tail_shape
from doxa.inference.importance.proposal import normalised
from doxa.inference.importance.sampler import BLOCK
from doxa.models import Dag
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from doxa.sampling.importance_weights import pareto_k
from support.checks import SEED, z_limit
from support.small_networks import random_categorical


def raw_draws(sampler, n, key=(3,)):
    """Rows, log weights and sums over cells of one call of the compiled loop."""
    compiled = sampler.compiled
    sums = np.zeros((N_LANES, compiled.n_cells, N_POWERS))
    log_weights, kept = np.empty(n), np.empty((compiled.n_rows, n), dtype=np.int32)
    reference = sampler._draw(SEED, key, sums, log_weights, np.arange(compiled.n_rows), kept)
    rows = np.zeros((n, len(sampler.proposal.layout.n_states)), dtype=np.int64)
    for v, row in compiled.rows.items():
        rows[:, v] = kept[row]
    for v, state in sampler.proposal.layout.evidence.hard.items():
        rows[:, v] = state
    return rows, log_weights, sums.sum(axis=0), reference


@pytest.mark.parametrize("method", ["likelihood weighting", "propagated", "learned"])
def test_weights_and_sums_are_those_of_plain_numpy(method):
    for _, _, layout in cases(11, 15):
        sampler = NetworkSampler(METHODS[method](layout))
        rows, log_weights, sums, reference = raw_draws(sampler, 16 * BATCH)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = sampler.proposal.log_weights(rows)
        met = log_weights > -np.inf
        assert not (expected[~met] > -np.inf).any()
        np.testing.assert_allclose(log_weights[met], expected[met], rtol=1e-12, atol=1e-12)
        powers = np.where(met, np.exp(np.where(met, log_weights, 0.0) - (reference if met.any() else 0.0)), 0.0)
        powers = powers[:, None] ** np.arange(1, 5)
        for v, counted in sampler.compiled.counted.items():
            codes = rows[:, v]
            if counted.values is not None:
                table = layout.conditionals[v]
                codes = np.zeros(len(rows), dtype=np.int64)
                for u in table.variables[:-1]:
                    codes = codes * layout.n_states[u] + rows[:, u]
            expected_sums = np.zeros((counted.n_cells, 4))
            np.add.at(expected_sums, codes, powers)
            found = sums[counted.first : counted.first + counted.n_cells]
            np.testing.assert_allclose(found, expected_sums, rtol=1e-9)


def draw_frequencies(proposal, n, drawn_from=None):
    """Largest z-value of the frequencies of draws, and how many were compared; inf for a draw of probability 0."""
    rows = every_row(proposal.layout)
    drawn = NetworkSampler(drawn_from or proposal).draw(n, SEED).rows
    informed = list(proposal.layout.informed)
    sizes = tuple(proposal.layout.n_states[v] for v in informed)
    counts = np.bincount(np.ravel_multi_index(tuple(drawn[:, informed].T), sizes), minlength=len(rows))
    probability = np.exp(proposal.log_density(rows))
    if counts[probability == 0].any():
        return np.inf, 1
    expected = n * probability
    usable = expected >= 30
    z = (counts - expected)[usable] / np.sqrt(expected * (1 - probability))[usable]
    return float(np.abs(z).max()), int(usable.sum())


def test_draws_have_the_probabilities_that_the_proposal_says():
    rng = np.random.default_rng([SEED, 12])
    for _ in range(6):
        network = random_tree(rng, 6)
        layout = lay_out(network, Evidence({5: 0, 4: 1}, {2: np.arange(1.0, 1 + network.n_states[2])}))
        for method in (likelihood_weighting, propagated):
            proposal = method(layout)
            z, n = draw_frequencies(proposal, 2**16)
            assert z < z_limit(12 * n)
        first = proposal.tables[0]
        moved = normalised(first.values * np.linspace(1.5, 0.5, first.values.shape[-1]))
        wrong = replace(proposal, tables=(replace(first, values=moved), *proposal.tables[1:]))
        z, n = draw_frequencies(proposal, 2**16, drawn_from=wrong)
        assert z > z_limit(12 * n)


def test_states_of_probability_zero_are_never_drawn():
    rng = np.random.default_rng([SEED, 13])
    for _ in range(30):
        network = random_categorical(rng, zeros=0.6)
        sampler = NetworkSampler(likelihood_weighting(lay_out(network)))
        rows = sampler.draw(BATCH, SEED).rows
        drawn = (rows >= 0).all(axis=0)
        for v, factor in enumerate(network.factors):
            if drawn[list(factor.variables)].all():
                assert (factor.log_values[tuple(rows[:, u] for u in factor.variables)] > -np.inf).all(), v


def test_same_seed_same_tally_whatever_the_workers_and_the_pieces():
    sampler = NetworkSampler(propagated(lay_out(explaining_away(), Evidence({2: 1}, {}))))
    whole = sample_network(sampler, 9 * BLOCK, seed=5)
    others = [
        sample_network(sampler, 9 * BLOCK, seed=5, workers=2),
        sample_network(sampler, 1, seed=5).extended(4 * BLOCK).extended(9 * BLOCK, workers=2),
        sample_network(propagated(lay_out(explaining_away(), Evidence({2: 1}, {}))), 9 * BLOCK - 5, seed=5),
    ]
    for other in others:
        assert other.n == 9 * BLOCK
        for one, two in zip(whole.tally, other.tally, strict=True):
            np.testing.assert_array_equal(one, two)
    assert whole.extended(BLOCK) is whole
    assert not np.array_equal(sample_network(sampler, BLOCK, seed=6).tally.cells, whole.tally.cells)
    first, second = sampler.block(5, 0), sampler.block(5, 1)
    assert not np.array_equal(first.cells, second.cells)


def test_tallies_add_up_to_those_of_all_draws():
    rng = np.random.default_rng([SEED, 14])
    log_weights = rng.normal(size=6000) * 3 + np.repeat([0.0, 500.0, -500.0], 2000)
    log_weights[::7] = -np.inf
    log_weights[4000:4100] = -np.inf

    def tally(part):
        reference = float(part.max())
        w = np.where(part > -np.inf, np.exp(part - (reference if reference > -np.inf else 0.0)), 0.0)
        cells = np.array([[np.sum((w * (np.arange(part.size) % 2 == c)) ** j) for j in range(1, 5)] for c in (0, 1)])
        return block_tally(part, reference, cells[None])

    total = tally(log_weights[4000:4100])
    for begin in (4100, 0, 2000):
        total = add_tallies(total, tally(log_weights[begin : begin + (1900 if begin == 4100 else 2000)]))
    whole = tally(np.concatenate([log_weights[4000:], log_weights[:4000]]))
    assert (total.n, total.n_zero) == (whole.n, whole.n_zero) == (6000, int((log_weights == -np.inf).sum()))
    assert total.reference == whole.reference
    np.testing.assert_allclose(total.cells, whole.cells, rtol=1e-12)
    np.testing.assert_allclose(total.totals, whole.totals, rtol=1e-12)
    np.testing.assert_array_equal(np.sort(total.largest), np.sort(log_weights)[-N_LARGEST:])


def test_the_tail_is_that_of_all_weights():
    u = np.random.default_rng([SEED, 15]).random(60_000)
    log_weights = -0.6 * np.log(u)
    tally = block_tally(log_weights, float(log_weights.max()), np.zeros((1, 1, 4)))
    assert tail_shape(tally) == pytest.approx(pareto_k(log_weights), rel=1e-12)


def test_tiny_and_huge_likelihoods_neither_underflow_nor_overflow():
    rng = np.random.default_rng([SEED, 16])
    network = random_tree(rng, 8)
    soft = {v: np.arange(1.0, 1 + network.n_states[v]) for v in range(8)}
    plain = sample_network(propagated(lay_out(network, Evidence({}, soft))), 1, seed=1)
    for scale in (1e-300, 1e300):
        scaled = Evidence({}, {v: likelihood * scale for v, likelihood in soft.items()})
        sample = sample_network(propagated(lay_out(network, scaled)), 1, seed=1)
        shift = 8 * np.log(scale)
        assert sample.log_evidence().value == pytest.approx(plain.log_evidence().value + shift, rel=1e-12)
        np.testing.assert_allclose(sample.probabilities(3), plain.probabilities(3), rtol=1e-9)


def test_a_weight_far_above_all_before_it_rescales_the_sums():
    """One state in about 3000 weighs e^100 times the others; a run in which the first batch does not meet it."""
    dag = Dag.from_edges([("a", "b")])
    tiny = np.exp(-100.0)
    tables = {"a": [1 - 3e-4, 3e-4], "b": [[tiny, 1 - tiny], [1.0, 0.0]]}
    network = CategoricalNetwork(dag, tables, {key: ["0", "1"] for key in tables})
    sampler = NetworkSampler(likelihood_weighting(lay_out(network, Evidence({1: 0}, {}))))
    for key in range(40):
        rows, log_weights, sums, reference = raw_draws(sampler, BLOCK, (key,))
        if (log_weights[:BATCH] < -50).all() and (log_weights > -50).any():
            break
    assert reference == 0.0
    counts = np.bincount(rows[:, 0], minlength=2)
    np.testing.assert_allclose(sums[:2, 0], [tiny * counts[0], counts[1]], rtol=1e-9)


def test_impossible_evidence_is_refused():
    network = explaining_away(certain=True)
    with pytest.raises(ArgumentError, match="the evidence has probability 0: no configuration of the network agrees"):
        sample_network(propagated(lay_out(network, Evidence({2: 1}, {}))), 100)
