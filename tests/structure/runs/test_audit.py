"""The audit finds the mode that all chains have missed, says so in the verdict, and says nothing of right runs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import doxa
from doxa.data import Table
from doxa.estimates.store import RunFileError, RunWriter, open_reader
from doxa.estimates.trace import Trace
from doxa.models.bits import unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.sampling.runner import Runner
from doxa.structure import Auto
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import capped
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.moves.tempered import EscalatingSampler, TemperedSampler
from doxa.structure.runs.audit import audit_completions, audit_graphs
from support.run_files import contents
from support.tables import skewed_table

N = 7


def parity_table():
    """Six random columns and their parity: no part of the seven columns says anything."""
    codes = np.random.default_rng(1).integers(0, 2, (300, N))
    codes[:, N - 1] = codes[:, : N - 1].sum(axis=1) % 2
    return Table.from_codes([f"x{i}" for i in range(N)], [["a", "b"]] * N, codes)


def shorten_lists(monkeypatch):
    short = partial(build_score_table, max_size=2)
    monkeypatch.setattr("doxa.structure.moves.listing.build_score_table", short)
    monkeypatch.setattr(StructureSampler, "start", lambda self, _chain, rng: self.init(rng))


@pytest.fixture
def short_lists(monkeypatch):
    """Lists without large sets, and no chain that starts at a dense graph."""
    shorten_lists(monkeypatch)


def sampled(scores, limits):
    return sample(StructureSampler(Auto(), scores, limits, 200), Schedule(4, 500, 100), seed=1)


def test_an_unlisted_family_that_no_chain_has_met_is_found(short_lists):
    scores, limits = FamilyScores(parity_table()), capped([N - 1] * N)
    trace = sampled(scores, limits)
    assert unpack_rows(trace["rows"], N).sum(axis=-2).max() < N - 1  # no draw has the parity's parents
    missed = audit_graphs(scores, limits, trace)
    assert "they have missed a mode" in missed.why
    assert unpack_rows(missed.rows[None], N).sum(axis=-2).max() == N - 1
    assert audit_graphs(scores, limits, trace).why == missed.why  # its seed is its own
    graphs = trace["rows"][:, -1]
    missed = audit_completions([scores] * 2, limits, graphs[:2], trace["n_edges"].size * trace.thin)
    assert missed.why.startswith("given the missing cells of one draw, a search found")
    assert missed.chain == 0


def test_a_graph_that_only_other_lists_reach_is_found(monkeypatch, short_lists):
    limits = capped([N - 1] * N)
    trace = sampled(FamilyScores(parity_table()), limits)
    monkeypatch.undo()  # lists are whole from here on, and no larger family is missing from them
    assert "they have missed a mode" in audit_graphs(FamilyScores(parity_table()), limits, trace).why


@pytest.mark.parametrize("table", [parity_table(), skewed_table(6, 200, seed=3)], ids=["parity", "skewed"])
def test_nothing_is_found_in_a_right_run(table):
    scores, limits = FamilyScores(table), capped([len(table.names) - 1] * len(table.names))
    trace = sampled(scores, limits)
    assert audit_graphs(scores, limits, trace) is None
    assert audit_completions([scores], limits, trace["rows"][:1, -1], 100_000) is None


def test_a_better_graph_of_a_mode_that_was_sampled_is_no_finding():
    """Short runs see few of many graphs: the best of all is seldom among them."""
    scores, limits = FamilyScores(skewed_table(9, 60, seed=5)), capped([8] * 9)
    for seed in range(4):
        trace = sample(StructureSampler(Auto(), scores, limits, 200), Schedule(2, 40, 100), seed=seed)
        assert audit_graphs(scores, limits, trace) is None


def test_an_edge_that_the_sample_has_too_rarely_is_found_by_sums_over_graphs():
    table = skewed_table(6, 200, seed=3)
    scores, limits, names = FamilyScores(table), capped([5] * 6), list(table.names)
    trace = sampled(scores, limits)
    exact = doxa.learn(table, exact=True, prior="uniform").edge_diagnostics.probability
    assert audit_graphs(scores, limits, trace) is None
    for i, j in np.argwhere((exact > 0.015) & (exact < 0.1)).tolist():
        has_it = (trace["rows"][:, :, i, 0] >> np.uint64(j) & np.uint64(1)).astype(bool)
        without = [np.resize(np.flatnonzero(~chain), chain.size) for chain in has_it]
        draws = {name: np.stack([of[at] for of, at in zip(trace[name], without, strict=True)]) for name in trace.names}
        missed = audit_graphs(scores, limits, Trace(draws, thin=trace.thin))
        assert missed.why.startswith(f"{names[i]} -> {names[j]} has a probability of about ")
        assert float(missed.why.split()[8]) == pytest.approx(exact[i, j], rel=0.25)
        assert unpack_rows(missed.rows[None], 6)[0, i, j]
        few = {name: values[:, :15] for name, values in draws.items()}
        assert audit_graphs(scores, limits, Trace(few, thin=trace.thin)) is None  # so short a run may lack it by chance


def blind(monkeypatch):
    monkeypatch.setattr("doxa.structure.moves.tempered._GAIN", np.inf)


@pytest.fixture
def blind_warm_up(monkeypatch):
    blind(monkeypatch)


LAST = [[f"x{i}" for i in range(N - 1)], [f"x{N - 1}"]]  # tiers: the parity can only be the last column's
STARTS_OVER = {"exact": False, "seed": 1, "tiers": LAST, "thin": 50}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that starts over and is not interrupted, and its file."""
    path = tmp_path_factory.mktemp("whole") / "whole.doxa"
    with pytest.MonkeyPatch.context() as monkeypatch:
        shorten_lists(monkeypatch)
        blind(monkeypatch)
        made = doxa.learn(parity_table(), store=path, **STARTS_OVER)
    assert made.stop.audit.n_starts == 2
    return made, path


def test_chains_go_on_from_what_the_audit_finds(whole, short_lists, blind_warm_up, monkeypatch):
    made, path = whole
    assert made.verdict.startswith("Converged")
    assert "after chains had started 2 times" in made.verdict
    exact = doxa.learn(parity_table(), exact=True, tiers=LAST).edge_diagnostics.probability
    found = made.edge_diagnostics
    assert (exact[:-1, -1] > 0.99).all()
    assert (np.abs(found.probability - exact) <= 5 * found.mcse).all()
    loaded = doxa.load(path)
    assert (loaded.verdict, loaded.trace.n_warmup) == (made.verdict, made.trace.n_warmup)
    assert np.array_equal(loaded.trace["rows"], made.trace["rows"])
    fixed = doxa.learn(parity_table(), draws=1500, **STARTS_OVER)  # so many and no more: the verdict alone says it
    assert fixed.trace.n_draws == 1500
    assert "they have missed a mode" in fixed.verdict
    monkeypatch.delattr(EscalatingSampler, "planted")
    monkeypatch.delattr(TemperedSampler, "planted")
    stopped = doxa.learn(parity_table(), **STARTS_OVER)
    assert "they have missed a mode" in stopped.verdict
    assert stopped.stop.audit.n_starts == 1


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_run_interrupted_where_it_starts_over_ends_the_same(
    whole, short_lists, blind_warm_up, monkeypatch, tmp_path, when
):
    made, whole_path = whole
    start_over, write = Runner.start_over, RunWriter._write

    def interrupted(self, states):
        if when == "after":
            start_over(self, states)
        if when == "within":
            monkeypatch.setattr(RunWriter, "_write", interrupted_write)
            start_over(self, states)
        raise KeyboardInterrupt

    def interrupted_write(self, rows, after):
        write(self, [*rows[: len(rows) // 2], ("no statement", ())], after)

    with monkeypatch.context() as patched:
        patched.setattr(Runner, "start_over", interrupted)
        with pytest.raises(RunFileError if when == "within" else KeyboardInterrupt):
            doxa.learn(parity_table(), store=tmp_path / "run.doxa", workers=1, **STARTS_OVER)
    monkeypatch.setattr(RunWriter, "_write", write)
    with open_reader(tmp_path / "run.doxa") as reader:
        reader.verify()
        assert (reader.n_draws == 0) == (when == "after")
    doxa.resume(tmp_path / "run.doxa", parity_table(), workers=1)
    assert contents(tmp_path / "run.doxa") == contents(whole_path)
    assert doxa.load(tmp_path / "run.doxa").verdict == made.verdict


def test_a_run_that_has_missed_a_mode_is_not_called_converged(short_lists, blind_warm_up, monkeypatch, tmp_path):
    monkeypatch.setattr(Runner, "may_start_over", False)
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
    monkeypatch.setattr("doxa.structure.runs.running.audit_run", lambda *_: None)  # without it all seems well
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
    assert two.verdict.endswith("Three chains or more from starts far apart can tell: chains=4.")
    assert two.converged is None
