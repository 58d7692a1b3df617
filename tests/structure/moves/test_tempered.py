"""Parallel tempering: the first rung keeps the posterior, whatever the move; swaps do not depend on the blocks."""

from __future__ import annotations

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.indicators import diagnose_indicators
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Auto, MarkovBlanket, SingleEdge, Tempered
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import capped
from doxa.structure.moves.tempered import TemperedSampler, _follow
from support.checks import SEED, score_z, worst_z, z_limit
from support.tables import skewed_table

OFF = ~np.eye(4, dtype=bool)


def deviation(move, thin=20, swap_every=2):
    """Largest z of an edge or of the score, over its limit."""
    scores, limits = FamilyScores(skewed_table(4, 50, seed=7, n_states=3)), capped([3, 3, 3, 3])
    exact = enumerate_posterior(scores, limits)
    sampler = Tempered(move, (1.0, 0.6, 0.3), swap_every=swap_every).sampler(scores, limits, thin)
    trace = sample(sampler, Schedule(4, 1600, 100), seed=SEED)
    found = diagnose_indicators(IndicatorCounts.from_words(trace["rows"], 4))
    assert (trace.info["swapped_0"] > 0.2 * trace.info["swaps_0"]).all()
    of_edges = worst_z(found.probability[OFF], exact.edge_probabilities[OFF], found.mcse[OFF])
    return max(of_edges, score_z(trace["log_score"], exact)) / z_limit(OFF.sum() + 1)


@pytest.mark.parametrize("move", [SingleEdge(), Auto(), MarkovBlanket()], ids=repr)
def test_the_first_rung_keeps_the_posterior(move):
    assert deviation(move) < 1
    if isinstance(move, SingleEdge):  # as its broken twin below is run
        assert deviation(move, thin=2, swap_every=1) < 1


def test_swaps_that_are_always_accepted_do_not(monkeypatch):
    def always(self, rungs, states, scores, first, rng, info):
        for k in range(first, len(states) - 1, 2):
            states[k], states[k + 1] = (
                states[k]._replace(rows=states[k + 1].rows),
                states[k + 1]._replace(rows=states[k].rows),
            )
            info[f"swaps_{k}"] += 1
            info[f"swapped_{k}"] += 1

    monkeypatch.setattr(TemperedSampler, "_swap", always)
    assert deviation(SingleEdge(), thin=2, swap_every=1) > 2


def test_blocks_workers_and_interruptions_do_not_change_the_draws(tmp_path):
    table = skewed_table(5, 60, seed=1)
    options = {"sampler": Tempered(MarkovBlanket(), (1.0, 0.5), swap_every=3), "thin": 7, "warmup": 10, "seed": 4}
    whole = doxa.learn(table, draws=100, workers=1, **options)
    assert np.array_equal(doxa.learn(table, draws=100, workers=2, **options).trace["rows"], whole.trace["rows"])
    doxa.learn(table, draws=31, store=tmp_path / "run.doxa", **options)
    resumed = doxa.resume(tmp_path / "run.doxa", table, draws=100)
    assert np.array_equal(resumed.trace["rows"], whole.trace["rows"])
    assert resumed.sampler == whole.sampler
    scores = FamilyScores(table)
    sampler = options["sampler"].sampler(scores, capped([4] * 5), 7)
    rng = np.random.default_rng(1)
    _, one, _ = sampler.run(sampler.start(0, rng), 7 * 40, rng)
    rng = np.random.default_rng(1)
    state, parts = sampler.start(0, rng), []
    for kept in (1, 2, 3, 10, 24):
        state, draws, _ = sampler.run(state, 7 * kept, rng)
        parts.append(draws["rows"])
    assert np.array_equal(one["rows"], np.concatenate(parts))
    assert state.n_draws == 40


def test_graphs_that_come_from_hotter_rungs_are_counted():
    """By following every graph by name."""
    rng, n = np.random.default_rng(3), 4
    farthest, info = np.arange(n), {f"from_{k}": 0 for k in range(1, n)}
    standing, seen = list(range(n)), {graph: graph for graph in range(n)}
    expected = dict(info)
    for turn in range(500):
        swapped = [k for k in range(turn % 2, n - 1, 2) if rng.random() < 0.6]
        _follow(farthest, swapped, info)
        for k in swapped:
            standing[k], standing[k + 1] = standing[k + 1], standing[k]
        for k, graph in enumerate(standing):
            seen[graph] = max(seen[graph], k)
        for k in range(1, seen[standing[0]] + 1):
            expected[f"from_{k}"] += 1
        seen[standing[0]] = 0
    assert info == expected
    assert info["from_1"] > info["from_2"] > info["from_3"] > 20


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"betas": (0.9, 0.5)}, ArgumentError, "betas is (0.9, 0.5); they fall from 1.0, the first, and stay above 0"),
        ({"betas": (1.0, 0.0)}, ArgumentError, "betas is (1.0, 0.0); they fall from 1.0, the first, and stay above 0"),
        ({"betas": "hot"}, ArgumentTypeError, "betas is 'hot'; it must be numbers that fall from 1.0"),
        ({"swap_every": 0}, ArgumentError, "swap_every is 0; it must be at least 1"),
        ({"move": SingleEdge}, ArgumentTypeError, f"move is {SingleEdge!r}; it must be a move such as Auto()"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error) as refused:
        Tempered(**settings)
    assert str(refused.value) == message
