"""The default sampler helps chains that disagree while they warm up, leaves others alone, and goes on from a file."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.indicators import diagnose_indicators
from doxa.estimates.trace import Trace
from doxa.sampling import runner
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Auto, SingleEdge, StructurePosterior, Tempered
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import FamilyScores, local_weights
from doxa.structure.limits import capped
from doxa.structure.moves import tempered
from doxa.structure.moves.by_name import sampler_of
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.moves.tempered import EscalatingSampler, betas_for, respaced
from support.checks import SEED, score_z, worst_z, z_limit
from support.run_files import contents
from support.tables import skewed_table


def sum_table():
    """Eight columns of three states, one the sum of four others modulo 3: no part of the five says anything."""
    codes = np.random.default_rng(1).integers(0, 3, (300, 8))
    codes[:, 4] = codes[:, :4].sum(axis=1) % 3
    return Table.from_codes([f"x{i}" for i in range(8)], [list("abc")] * 8, codes)


@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 3.9, 7.0, 30.0, 1000.0])
def test_temperatures_fall_evenly_from_one(spread):
    betas = betas_for(spread)
    assert betas[0] == 1.0
    assert 2 <= len(betas) <= 8
    ratio = betas[1:] / betas[:-1]
    np.testing.assert_allclose(ratio, ratio[0])
    assert ratio[0] == pytest.approx(1 - min(0.3, 1.2 / max(spread, 1e-3)))
    if len(betas) < 8:
        assert betas[-1] < 0.4  # the hottest is hot, unless that takes too many
    assert betas_for(spread + 1).size >= betas.size


def worst_edge(made):
    """Largest z of the edges that are neither certain nor absent, against the exact sum."""
    exact = doxa.learn(sum_table(), exact=True).edge_diagnostics.probability
    found = made.edge_diagnostics
    free = (exact > 0.01) & (exact < 0.99)
    assert free.sum() > 10
    return worst_z(found.probability[free], exact[free], found.mcse[free])


@pytest.fixture
def patient(monkeypatch):
    """Chains far below the best stay where they are, and so get temperatures."""
    monkeypatch.setattr(tempered, "_FAR", np.inf)


def test_chains_that_disagree_get_temperatures_and_agree_with_the_exact_sum(patient):
    made = doxa.learn(sum_table(), exact=False, seed=1, thin=80)
    assert "swaps_0" in made.trace.info
    assert (made.trace.info["swapped_0"] > 0.05 * made.trace.info["swaps_0"]).all()
    assert made.converged
    spent, n_rungs = made.stop.spent, sum(name.startswith("swaps_") for name in made.trace.info) + 1
    assert 0.3 < spent.hot_share < 1
    assert spent.hot < spent.chains < time.process_time()
    cost = f"since the chains disagreed; all but the first took {spent.hot_share:.0%} of "
    assert f"; {n_rungs} temperatures, {cost}" in made.summary()
    assert f"auto at {n_rungs} temperatures\n" in repr(made)
    last = max(k for k in range(1, 8) if made.trace.info.get(f"from_{k}", np.zeros(1)).sum() > 20)
    stuck = {**made.trace.info, f"from_{last}": np.zeros(4, dtype=int)}
    trace = Trace({name: made.trace[name] for name in made.trace.names}, thin=made.trace.thin, info=stuck)
    alone = StructurePosterior(made.names, trace, made.sampler, made.options)
    assert "only 0 graphs came from the hottest of" in alone.verdict
    assert alone.converged is False
    assert worst_edge(made) < 5


def test_with_swaps_that_are_always_accepted_they_do_not(monkeypatch, patient):
    def always(self, rungs, states, scores, first, rng, info):
        for k in range(first, len(states) - 1, 2):
            here, there = states[k], states[k + 1]
            states[k], states[k + 1] = here._replace(rows=there.rows), there._replace(rows=here.rows)
            info[f"swaps_{k}"] += 1
            info[f"swapped_{k}"] += 1

    monkeypatch.setattr(EscalatingSampler, "_swap", always)
    options = {"thin": 80, "until": doxa.Until(max_draws=2500)}
    assert worst_edge(doxa.learn(sum_table(), exact=False, seed=1, **options)) > 10


def test_chains_far_below_the_best_need_no_temperatures():
    made = doxa.learn(sum_table(), exact=False, seed=1, thin=80)
    assert "swaps_0" not in made.trace.info
    assert made.converged
    assert worst_edge(made) < 5


def respaced_in_the_warm_up(monkeypatch):
    """Largest z of an edge or of the score, against listed graphs, of a run whose temperatures are spaced anew as it
    warms up; over its limit.
    """
    scores, limits = FamilyScores(skewed_table(4, 50, seed=7, n_states=3)), capped([3] * 4)
    before = np.array([1.0, 0.98, 0.1])  # far too close, and too far apart
    spacings = []

    def revise(self, states, trace, *, settled, epoch):
        if epoch == 0:
            return tempered._all_heated(states, before)
        if epoch > 1:
            return None
        spacings.append(respaced(before, tempered._rejections(trace)))
        return [tempered._with_betas(state, spacings[0]) for state in states]

    monkeypatch.setattr(EscalatingSampler, "revise", revise)
    sampler = EscalatingSampler((StructureSampler(SingleEdge(), scores, limits, 2),), 2, 1)
    trace = sample(sampler, Schedule(4, 4000, None), seed=SEED)
    assert spacings[0][1] < 0.9  # of some use
    assert (trace.info["swaps_0"] > 1900).all()
    edges = ~np.eye(4, dtype=bool)
    found = diagnose_indicators(IndicatorCounts.from_words(trace["rows"], 4))
    exact = enumerate_posterior(scores, limits)
    of_edges = worst_z(found.probability[edges], exact.edge_probabilities[edges], found.mcse[edges])
    return max(of_edges, score_z(trace["log_score"], exact)) / z_limit(edges.sum() + 1)


def test_temperatures_that_were_spaced_anew_keep_the_posterior(monkeypatch):
    assert respaced_in_the_warm_up(monkeypatch) < 1


def test_swaps_by_the_temperatures_of_before_do_not(monkeypatch):
    swap = EscalatingSampler._swap

    def by_the_old(self, rungs, states, *rest):
        old = [1.0, 0.98, 0.1] if len(rungs) == 3 else [rung.beta for rung in rungs]
        swap(self, [replace(rung, beta=beta) for rung, beta in zip(rungs, old, strict=True)], states, *rest)

    monkeypatch.setattr(EscalatingSampler, "_swap", by_the_old)
    assert respaced_in_the_warm_up(monkeypatch) > 2


def test_chains_that_agree_are_left_alone():
    made = doxa.learn(skewed_table(6, 200, seed=3), exact=False, seed=1)
    assert sorted(made.trace.info) == ["accepted", "proposed"]
    assert made.converged
    assert made.stop.spent.chains > made.stop.spent.hot == 0
    assert "temperature" not in made.summary() + repr(made)


def test_a_run_interrupted_in_its_warm_up_goes_on_to_the_same_draws(tmp_path, monkeypatch, patient):
    table = sum_table()
    options = {"exact": False, "seed": 1, "thin": 80, "until": doxa.Until(max_draws=600)}
    whole = doxa.learn(table, store=tmp_path / "whole.doxa", **options)
    assert "swaps_0" in whole.trace.info
    epochs = whole.trace.n_warmup // whole.trace.thin // 500
    assert epochs >= 3  # an epoch before the temperatures, and at least one with them
    revised = runner.Runner._revised
    for stop_at in (0, 1):
        path = tmp_path / f"{stop_at}.doxa"

        def interrupted(self, revise, *, epoch, stop_at=stop_at, **what):
            if epoch == stop_at:
                raise KeyboardInterrupt
            return revised(self, revise, epoch=epoch, **what)

        monkeypatch.setattr(runner.Runner, "_revised", interrupted)
        with pytest.raises(KeyboardInterrupt):
            doxa.learn(table, store=path, **options)
        monkeypatch.setattr(runner.Runner, "_revised", revised)
        assert np.array_equal(doxa.resume(path, table).trace["rows"], whole.trace["rows"])
        assert contents(path) == contents(tmp_path / "whole.doxa")


def one_rung(n=8, thin=50):
    scores, limits = FamilyScores(skewed_table(n, 80, seed=2)), capped([n - 1] * n)
    return sampler_of(Auto(), scores, limits, thin), StructureSampler(Auto(), scores, limits, thin)


@pytest.mark.parametrize("thin", [20, 100, 300])
def test_warm_ups_begin_with_as_many_steps_however_far_apart_draws_are(thin):
    steps = 500 * max(100, thin)  # of eight columns; at least 500 draws
    for move in (Auto(), Tempered(Auto(), (1.0, 0.5)), Auto(joint_parents=0.0)):
        assert _bound(move, thin).first_epoch * thin == steps
    assert _bound(SingleEdge(), thin).first_epoch == 500  # whose draws are spaced as ever
    made = doxa.learn(skewed_table(6, 200, seed=3), exact=False, seed=1, thin=thin, until=doxa.Until(max_draws=500))
    assert made.trace.n_warmup >= steps


def _bound(move, thin):
    return sampler_of(move, FamilyScores(skewed_table(8, 80, seed=2)), capped([7] * 8), thin)


def test_one_rung_is_the_move_alone_whatever_the_blocks():
    sampler, plain = one_rung()
    assert isinstance(sampler, EscalatingSampler)
    rng = np.random.default_rng(3)
    state = sampler.start(2, rng)
    assert state.betas.tolist() == [1.0]
    again = np.random.default_rng(3)
    assert np.array_equal(state.rows[0], plain.start(2, again).rows)
    whole, draws, info = sampler.run(state, 50 * 60, rng)
    assert sorted(info) == ["accepted", "proposed"]
    assert info["proposed"] == 3000
    parts, cut = [], state
    for kept in (1, 7, 2, 50):
        cut, some, _ = sampler.run(cut, 50 * kept, rng)
        parts.append(some["rows"])
    assert np.array_equal(np.concatenate(parts), draws["rows"])
    for name in whole._fields:
        assert np.array_equal(getattr(whole, name), getattr(cut, name)), name


def test_revision_heats_chains_that_sit_apart_and_leaves_agreeing_ones():
    sampler, _ = one_rung()
    trace = sample(sampler, Schedule(4, 200, 100), seed=1)
    states = [sampler.start(chain, np.random.default_rng(chain)) for chain in range(4)]
    assert sampler.revise(states, trace, settled=True, epoch=0) is None
    assert sampler.revise(states, trace, settled=False, epoch=0) is None  # one more epoch may do
    late = sampler.revise(states, trace, settled=False, epoch=1)
    apart = {name: trace[name].copy() for name in trace.names}
    apart["log_score"][0] -= 10.0
    moved = Trace(apart, thin=trace.thin, n_warmup=0, entropy=1, info=dict(trace.info))
    for heated in (late, sampler.revise(states, moved, settled=False, epoch=0)):
        assert heated is not None
        for chain, state in enumerate(heated):
            assert len(state.betas) >= 4
            assert np.array_equal(state.rows[0], states[chain].rows[0])  # the first rung stays where the chain was
            assert np.array_equal(state.rows[1], states[(chain + 1) % 4].rows[0])
            assert len({tuple(words) for words in state.streams.tolist()}) == len(state.betas)
        assert sampler.revise(heated, moved, settled=False, epoch=2) is None  # once is enough
    apart["log_score"][0] -= 10.0  # so far below that it goes on from the best one's graph
    best = 2
    apart["log_score"][best] += 1.0
    at_the_best = sampler.revise(states, moved, settled=False, epoch=0)
    assert [len(state.betas) for state in at_the_best] == [1] * 4
    assert np.array_equal(at_the_best[0].rows, states[best].rows)
    assert all(at_the_best[chain] is states[chain] for chain in range(1, 4))


def test_revision_puts_half_of_the_chains_at_a_graph_that_beats_all_they_have_seen():
    sampler, plain = one_rung()
    trace = sample(sampler, Schedule(4, 200, 100), seed=1)
    worse = {name: trace[name].copy() for name in trace.names}
    worse["log_score"] -= 10.0
    seen = Trace(worse, thin=trace.thin, n_warmup=0, entropy=1, info=dict(trace.info))
    empty = sampler.start(0, np.random.default_rng(0))
    states = sampler.revise([empty] * 4, seen, settled=True, epoch=0)
    assert [bool(state.rows.any()) for state in states] == [False, True, False, True]
    rows = states[1].rows[0]
    assert float(local_weights(plain.scores, rows[None]).sum()) >= trace["log_score"].max() - 1e-9
    assert not empty.rows.any()


def with_swaps(trace, *swapped, of=100):
    """The trace with so many accepted offers of each chain between neighbouring temperatures."""
    counts = {f"{word}_{k}": np.full(4, number) for k, taken in enumerate(swapped)
              for word, number in (("swaps", of), ("swapped", taken))}  # fmt: skip
    return Trace(dict(trace.draws), thin=trace.thin, info=dict(trace.info) | counts)


def test_temperatures_are_spaced_where_offers_are_rejected_alike():
    betas = np.array([1.0, 0.7, 0.49, 0.343])
    rejected = np.array([0.3, 0.85, 0.99])
    found = respaced(betas, rejected)
    barrier = np.interp(-found, -betas, np.append(0.0, np.cumsum(rejected)))
    assert np.allclose(np.diff(barrier), barrier[-1] / (len(found) - 1))
    assert np.diff(barrier).max() <= 0.55 + 1e-9
    assert found[0] == 1.0
    assert found[-1] == pytest.approx(betas[-1])
    assert respaced(betas, np.array([1.0, 1.0, 1.0])).size == 7  # six parts of at most .55
    cold = respaced(np.linspace(1.0, 0.1, 9), np.full(8, 1.0))
    assert cold.size == 8
    assert cold[-1] > 0.1  # eight do not get as far
    assert respaced(found, np.diff(barrier)) is None


def test_revision_spaces_temperatures_anew_and_gives_up_those_that_hardly_trade_places():
    sampler, _ = one_rung()
    trace = sample(sampler, Schedule(4, 200, 100), seed=1)
    states = [sampler.start(chain, np.random.default_rng(chain)) for chain in range(4)]
    heated = sampler.revise(states, trace, settled=False, epoch=1)
    n_rungs = len(heated[0].betas)
    idle = with_swaps(trace, 70, *[1] * (n_rungs - 2))
    spaced = sampler.revise(heated, idle, settled=False, epoch=2)
    assert len(spaced[0].betas) > n_rungs
    assert spaced[0].betas.tolist() == respaced(heated[0].betas, np.array([0.3] + [0.99] * (n_rungs - 2))).tolist()
    assert len(spaced[0].streams) == len(spaced[0].rows) == len(spaced[0].betas)
    assert all(np.array_equal(new.rows[0], old.rows[0]) for new, old in zip(spaced, heated, strict=True))
    assert all(np.array_equal(new.streams[0], old.streams[0]) for new, old in zip(spaced, heated, strict=True))
    kept = sampler.revise(heated, idle, settled=True, epoch=2)
    assert isinstance(kept, runner.AsSettled)  # no further epoch for that
    assert all(state.betas.tolist() == heated[0].betas[:2].tolist() for state in kept)
    busy = with_swaps(trace, *[45] * (n_rungs - 1))
    assert sampler.revise(heated, busy, settled=True, epoch=2) is None
    assert sampler.revise(heated, busy, settled=False, epoch=2) is None


def test_chains_that_score_alike_in_different_graphs_have_not_settled():
    sampler, _ = one_rung()
    trace = sample(sampler, Schedule(4, 200, 100), seed=1)
    states = [sampler.start(chain, np.random.default_rng(chain)) for chain in range(4)]
    draws = {name: trace[name].copy() for name in trace.names}
    draws["rows"][:] = 0
    draws["rows"][0, :, 0, 0] = 4  # one chain has an edge that the others never have
    other = Trace(draws, thin=trace.thin, info=dict(trace.info))
    again = sampler.revise(states, other, settled=True, epoch=0)
    assert len(again[0].betas) == 1  # another epoch may do
    assert len(sampler.revise(states, other, settled=True, epoch=1)[0].betas) > 1
    draws["rows"][0, 80:] = 0  # it left that at the end
    assert sampler.revise(states, Trace(draws, thin=trace.thin), settled=True, epoch=1) is None


def test_large_tables_send_their_worst_chains_to_the_best_before_they_heat(monkeypatch):
    monkeypatch.setattr(tempered, "_LARGE", 7)
    sampler, _ = one_rung()
    trace = sample(sampler, Schedule(4, 200, 100), seed=1)
    states = [sampler.start(chain, np.random.default_rng(chain)) for chain in range(4)]
    draws = {name: trace[name].copy() for name in trace.names}
    draws["log_score"][[0, 2, 3]] -= np.array([20.0, 30.0, 40.0])[:, None]
    apart = Trace(draws, thin=trace.thin, info=dict(trace.info))
    moved = sampler.revise(states, apart, settled=False, epoch=0)
    same = [int(np.array_equal(state.rows, states[1].rows)) for state in moved]
    assert same == [0, 1, 1, 1]  # chain 0 stays where it is: half of them at most
    assert all(len(state.betas) == 1 for state in moved)
    later = sampler.revise(states, apart, settled=False, epoch=3)  # still far below, and there again
    assert [int(np.array_equal(state.rows, states[1].rows)) for state in later] == [0, 1, 1, 1]
    draws["log_score"][[0, 2, 3]] += np.array([12.0, 22.0, 32.0])[:, None]  # 8 nats below: heat may help
    assert len(sampler.revise(states, apart, settled=False, epoch=1)[0].betas) > 1
    draws["log_score"][[0, 2, 3]] += 8.0  # they score alike, and are given time
    assert sampler.revise(states, apart, settled=False, epoch=1) is None
    assert len(sampler.revise(states, apart, settled=False, epoch=2)[0].betas) > 1
    draws["log_score"][3] -= np.linspace(80.0, 40.0, 200)  # the worst is on its way up
    assert sampler.revise(states, Trace(draws, thin=trace.thin), settled=False, epoch=1) is None
