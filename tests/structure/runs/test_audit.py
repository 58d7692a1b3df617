"""The audit finds the mode that all chains have missed, says so in the verdict, and says nothing of right runs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.mcmc.driver import Schedule, sample
from doxa.models.bits import unpack_rows
from doxa.structure import Auto
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import capped
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.runs.audit import audit_completions, audit_graphs
from support.tables import skewed_table

N = 7


def parity_table():
    """Six random columns and their parity: no part of the seven columns says anything."""
    codes = np.random.default_rng(1).integers(0, 2, (300, N))
    codes[:, N - 1] = codes[:, : N - 1].sum(axis=1) % 2
    return Table.from_codes([f"x{i}" for i in range(N)], [["a", "b"]] * N, codes)


@pytest.fixture
def short_lists(monkeypatch):
    """Lists without large sets, and no chain that starts at a dense graph."""
    short = partial(build_score_table, max_size=2)
    monkeypatch.setattr("doxa.structure.moves.parent_sets.build_score_table", short)
    monkeypatch.setattr(StructureSampler, "start", lambda self, _chain, rng: self.init(rng))


def sampled(scores, limits):
    return sample(StructureSampler(Auto(), scores, limits, 200), Schedule(4, 500, 100), seed=1)


def test_an_unlisted_family_that_no_chain_has_met_is_found(short_lists):
    scores, limits = FamilyScores(parity_table()), capped([N - 1] * N)
    trace = sampled(scores, limits)
    assert unpack_rows(trace["rows"], N).sum(axis=-2).max() < N - 1  # no draw has the parity's parents
    audit = audit_graphs(scores, limits, trace)
    assert "they have missed a mode" in audit.found
    assert audit.seconds > 0
    assert audit_graphs(scores, limits, trace).found == audit.found  # its seed is its own
    graphs = trace["rows"][:, -1]
    found = audit_completions([scores] * 2, limits, graphs[:2], trace["n_edges"].size * trace.thin).found
    assert found.startswith("given the missing cells of one draw, a search found")


def test_a_graph_that_only_other_lists_reach_is_found(monkeypatch, short_lists):
    limits = capped([N - 1] * N)
    trace = sampled(FamilyScores(parity_table()), limits)
    monkeypatch.undo()  # lists are whole from here on, and no larger family is missing from them
    assert "they have missed a mode" in audit_graphs(FamilyScores(parity_table()), limits, trace).found


@pytest.mark.parametrize("table", [parity_table(), skewed_table(6, 200, seed=3)], ids=["parity", "skewed"])
def test_nothing_is_found_in_a_right_run(table):
    scores, limits = FamilyScores(table), capped([len(table.names) - 1] * len(table.names))
    trace = sampled(scores, limits)
    assert audit_graphs(scores, limits, trace).found == ""
    assert audit_completions([scores], limits, trace["rows"][:1, -1], 100_000).found == ""


def test_a_better_graph_of_a_mode_that_was_sampled_is_no_finding():
    """Short runs see few of many graphs: the best of all is seldom among them."""
    scores, limits = FamilyScores(skewed_table(9, 60, seed=5)), capped([8] * 9)
    for seed in range(4):
        trace = sample(StructureSampler(Auto(), scores, limits, 200), Schedule(2, 40, 100), seed=seed)
        assert audit_graphs(scores, limits, trace).found == ""


def test_a_run_that_has_missed_a_mode_is_not_called_converged(short_lists, monkeypatch, tmp_path):
    monkeypatch.setattr("doxa.structure.moves.escalation._GAIN", np.inf)
    options = {"exact": False, "seed": 1, "until": doxa.Until(max_draws=2000)}
    missed = doxa.learn(parity_table(), store=tmp_path / "run.doxa", **options)
    assert missed.stop.audit.found
    assert missed.converged is False
    assert missed.verdict.startswith("Not converged")
    assert missed.stop.audit.found in missed.verdict
    missed.save(tmp_path / "saved.doxa")
    for name in ("run.doxa", "saved.doxa"):
        loaded = doxa.load(tmp_path / name)
        assert loaded.stop == missed.stop
        assert loaded.verdict == missed.verdict
    monkeypatch.setattr("doxa.structure.runs.running._audit", lambda *_: None)  # without it all seems well
    assert doxa.learn(parity_table(), **options).converged


def test_a_right_run_says_that_nothing_better_was_found(tmp_path):
    table = parity_table()
    made = doxa.learn(table, exact=False, seed=1, store=tmp_path / "run.doxa")
    assert made.converged
    assert made.stop.audit.found == ""
    assert "a search with other moves found no better mode" in made.verdict
    assert doxa.load(tmp_path / "run.doxa").stop == made.stop
    exact = doxa.learn(table, exact=True).edge_diagnostics.probability
    assert np.abs(made.edge_diagnostics.probability - exact).max() < 0.05


def noise_table():
    codes = np.random.default_rng(2).integers(0, 4, (1000, 12))
    return Table.from_codes([f"x{i}" for i in range(12)], [list("abcd")] * 12, codes)


def test_where_nothing_moves_chains_from_four_sides_can_tell_and_two_cannot():
    four = doxa.learn(noise_table(), exact=False, seed=1)
    assert np.unique(four.trace["n_edges"]).tolist() == [0]
    assert four.verdict.startswith("Converged")
    off = ~np.eye(12, dtype=bool)
    assert four.edge_diagnostics.mcse[off].max() < 0.001
    exact = doxa.learn(noise_table(), exact=True).edge_diagnostics.probability
    assert np.abs(four.edge_diagnostics.probability - exact)[off].max() < 0.001
    two = doxa.learn(noise_table(), exact=False, seed=1, chains=2, until=doxa.Until(max_draws=2000))
    assert two.verdict.startswith("Cannot tell")
    assert two.converged is None
