"""Long runs agree with sums over graphs and completions, on every edge and cell; draws depend on the seed alone."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from incomplete_cases import blanked, deviations, with_missing_cells

import doxa
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.estimates.counts import IndicatorCounts
from doxa.estimates.indicators import diagnose_indicators
from doxa.estimates.stopping import Until
from doxa.models.bits import pack_rows, unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import K2, Auto, BDeu, MarkovBlanket, SingleEdge, Tempered
from doxa.structure.cases.incomplete import (
    IncompleteData,
    IncompleteSampler,
    cell_probabilities,
    enumerate_joint,
)
from doxa.structure.cases.incomplete import sampler as incomplete_sampler
from doxa.structure.cases.incomplete.blocks import row_work
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.cases.incomplete.candidate_sets import family_lists, weigh_lists
from doxa.structure.cases.incomplete.cells_sampler import usual_steps, usual_thin
from doxa.structure.cases.incomplete.families import families_of
from doxa.structure.cases.incomplete.missing_cells import completion_of, put_cells
from doxa.structure.cases.incomplete.sweep import sweep_cells
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import local_weights
from doxa.structure.graph import working_graph
from doxa.structure.limits import capped, make_limits
from doxa.structure.moves import best_graph
from doxa.structure.moves.starts import greedy_graph
from doxa.structure.priors import make_prior
from support.broken_sweeps import childless_sweep
from support.checks import SEED, worst_z, z_limit
from support.tables import skewed_table

LIMITED = {"required": [("x3", "x1")], "forbidden": [("x0", "x1")], "max_parents": {"x2": 1}}
WELL = {
    "4 binary columns, 25%": {"n": 4, "n_rows": 12, "share": 0.25},
    "3 columns, 2 and 3 states": {"n": 3, "n_rows": 16, "states": 3, "share": 0.2, "score": BDeu(3.0)},
    "K2, limits, odds": {
        "n": 4,
        "n_rows": 16,
        "share": 0.15,
        "score": K2(),
        "limits": LIMITED,
        "prior": {"kind": "in_degree", "edge_log_odds": {("x1", "x0"): 0.8}},
    },
    "configurations, sparse": {
        "n": 4,
        "n_rows": 16,
        "states": 3,
        "share": 0.15,
        "limits": {"max_configurations": 4},
        "prior": {"kind": "sparse"},
    },
    "a hidden column": {"n": 3, "n_rows": 10, "share": 0.0, "hidden": True},
}


def problem(n, n_rows, share, states=2, score=None, limits=None, prior=None, hidden=False):
    table = blanked(skewed_table(n, n_rows, seed=7, n_states=states), share, seed=3)
    if hidden:
        table = with_missing_cells(table, [(row, 1) for row in range(n_rows)])
    prior = make_prior(table.names, **{"kind": "uniform", **(prior or {})})
    data = IncompleteData(table, score or BDeu(), prior, ["x1"] if hidden else [])
    return data, make_limits(table.names, n_states=table.n_states, **(limits or {}))


def run(data, limits, draws=900, steps=20, seed=0, **options):
    sampler = IncompleteSampler(data, limits, steps=steps, **options)
    return sample(sampler, Schedule(4, draws, 200), seed=SEED + seed)


@pytest.mark.parametrize("name", WELL)
def test_edges_and_cells_agree_with_the_exact_sum(name):
    data, limits = problem(**WELL[name])
    exact = enumerate_joint(data, limits)
    trace = run(data, limits)
    of_edges, of_cells, n = deviations(data, trace, exact)
    assert max(of_edges, of_cells) < z_limit(n)
    present = unpack_rows(trace["rows"], data.n_nodes)
    assert not present[..., exact.edge_probabilities == 0].any()  # forbidden
    assert present[..., limits.required_edges].all()


WITHIN_SWEEPS = {"draws": 5000, "steps": 20, "thin": 4}


def test_draws_within_sweeps_agree_with_the_exact_sum():
    data, limits = problem(**WELL["4 binary columns, 25%"])
    of_edges, of_cells, n = deviations(data, run(data, limits, **WITHIN_SWEEPS), enumerate_joint(data, limits))
    assert max(of_edges, of_cells) < z_limit(n)


def test_lists_weighed_on_the_first_completion_alone_fail_the_same_check(monkeypatch):
    weighed = []

    def once(completion, scoring, lists, words, weight):
        if not weighed:
            weigh_lists(completion, scoring, lists, words, weight)
            weighed.append(weight.copy())
        weight[:] = weighed[0]

    monkeypatch.setattr("doxa.structure.cases.incomplete.graph_moves.weigh_lists", once)
    data, limits = problem(**WELL["4 binary columns, 25%"])
    trace = run(data, limits, **WITHIN_SWEEPS)
    of_edges, of_cells, n = deviations(data, trace, enumerate_joint(data, limits), least_ess=0)
    assert max(of_edges, of_cells) > z_limit(n)


def test_cells_drawn_without_regard_to_their_children_fail_the_same_check(monkeypatch):
    monkeypatch.setattr(incomplete_sampler, "sweep_cells", childless_sweep)
    data, limits = problem(**WELL["4 binary columns, 25%"])
    trace = run(data, limits, joint_proposals=0)  # which draw cells of their own, and rightly
    of_edges, of_cells, n = deviations(data, trace, enumerate_joint(data, limits), least_ess=100)
    assert max(of_edges, of_cells) > z_limit(n)


def test_scores_of_another_completion_fail_the_same_check(monkeypatch):
    afresh = incomplete_sampler.CollapsedChain.score_afresh

    def frozen(self):
        cells = self.cells
        put_cells(self.completion, self.data.missing_cells, np.zeros_like(cells))
        afresh(self)
        put_cells(self.completion, self.data.missing_cells, cells)

    monkeypatch.setattr(incomplete_sampler.CollapsedChain, "score_afresh", frozen)
    data, limits = problem(**WELL["4 binary columns, 25%"])
    of_edges, of_cells, n = deviations(data, run(data, limits), enumerate_joint(data, limits), least_ess=0)
    assert max(of_edges, of_cells) > z_limit(n)


@pytest.mark.slow
@pytest.mark.parametrize("move", [SingleEdge(), MarkovBlanket(), Auto(0.9, 0.05)], ids=repr)
@pytest.mark.parametrize("name", WELL)
def test_every_move_agrees_with_the_exact_sum(name, move):
    data, limits = problem(**WELL[name])
    of_edges, of_cells, n = deviations(
        data, run(data, limits, 6000, 60, seed=1, move=move), enumerate_joint(data, limits)
    )
    assert max(of_edges, of_cells) < z_limit(n)


def wide_problem():
    """A row of which three tied cells of five states are missing: more joint values than are listed."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 5, size=(25, 1)) + rng.integers(0, 3, size=(25, 4))
    codes = np.column_stack([codes[:, :3] % 5, codes[:, 3] % 2])
    codes[0, :3] = -1
    states = [[str(k) for k in range(r)] for r in (5, 5, 5, 2)]
    data = IncompleteData(Table.from_codes([f"x{i}" for i in range(4)], states, codes), BDeu(20.0))
    return data, make_limits(data.table.names)


def test_components_too_large_to_list_agree_with_the_exact_sum():
    data, limits = wide_problem()
    trace = run(data, limits, draws=1000, steps=30)
    assert (trace.info["rows_proposed"] > 150).all()
    assert (trace.info["rows_accepted"] < trace.info["rows_proposed"]).all()
    of_edges, of_cells, n = deviations(data, trace, enumerate_joint(data, limits))
    assert n > 15
    assert max(of_edges, of_cells) < z_limit(n)


def test_log_score_is_that_of_the_oracle():
    data, limits = problem(**WELL["K2, limits, odds"])
    exact = enumerate_joint(data, limits)
    trace = run(data, limits, draws=20)
    known = {
        (rows.tobytes(), cells.tobytes()): score
        for rows, scores in zip(exact.rows, exact.log_score, strict=True)
        for cells, score in zip(exact.cells.astype(np.int8), scores, strict=True)
    }
    for chain in range(4):
        for rows, cells, score in zip(*(trace[k][chain] for k in ("rows", "cells", "log_score")), strict=True):
            assert score == pytest.approx(known[rows.tobytes(), cells.tobytes()], abs=1e-9)


# --- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thin", [12, 6, 2], ids=["two sweeps a draw", "one", "draws within sweeps"])
@pytest.mark.parametrize("move", [Auto(), MarkovBlanket()], ids=repr)
def test_draws_do_not_depend_on_blocks_workers_or_copies(move, thin):
    data, limits = problem(**WELL["4 binary columns, 25%"])
    sampler = IncompleteSampler(data, limits, move, steps=6, thin=thin)
    whole = sample(sampler, Schedule(3, 40, 5), seed=4)
    for block, workers in ((1, 1), (7, 2), (1000, 3)):
        again = sample(pickle.loads(pickle.dumps(sampler)), Schedule(3, 40, 5), seed=4, block=block, workers=workers)
        for name in ("rows", "cells", "log_score", "n_edges"):
            assert np.array_equal(whole[name], again[name])
    assert whole["cells"].dtype == np.int8
    assert whole["cells"].shape == (3, 40, data.missing_cells.n_missing)
    stands = (whole["cells"][:, 1:] == whole["cells"][:, :-1]).all(axis=2).mean()
    assert stands > 0.5 if thin == 2 else stands < 0.1  # cells change once a sweep


def test_a_draw_is_a_part_of_a_sweep_or_so_many_sweeps():
    data, limits = problem(**WELL["4 binary columns, 25%"])
    assert IncompleteSampler(data, limits, steps=6).thin == 6
    for thin in (4, 9):
        with pytest.raises(ArgumentError, match=f"thin is {thin}; it must divide steps, which is 6"):
            IncompleteSampler(data, limits, steps=6, thin=thin)
    sampler = sampler_with_cells(data, limits, Auto(), thin=41)  # of usual sweeps of 160 steps
    assert (sampler.steps, sampler.thin, sampler.first_epoch) == (164, 41, 1000)
    state = sampler.start(0, np.random.default_rng(1))
    with pytest.raises(ArgumentError, match=r"state.position is 40; it must be a multiple of 41"):
        sampler.check_state(state._replace(position=40))
    with pytest.raises(ArgumentError, match=r"state.position is 164; it must be below 164"):
        sampler.check_state(state._replace(position=164))


def test_runs_of_no_given_length_have_four_draws_of_a_sweep_unless_that_is_of_no_use():
    def thin(table, **options):
        return doxa.learn(table, exact=False, seed=1, chains=1, workers=1, **options).trace.thin

    short = {"until": Until(max_draws=4), "warmup": 4}
    table = blanked(skewed_table(8, 30, seed=1), 0.1, seed=2)
    assert thin(table, **short) == usual_thin(8) == usual_steps(8) // 4
    assert thin(table, draws=4) == thin(table, sampler="tempered", **short) == usual_steps(8)
    many = blanked(skewed_table(8, 10_000, seed=1), 0.21, seed=2)
    assert many.n_missing > 2**14
    assert thin(many, **short) == usual_steps(8)
    order = table.names
    wanted = list(itertools.pairwise(order))
    only = [(a, b) for a in order for b in order if a != b and (a, b) not in wanted]
    assert thin(table, required=wanted, forbidden=only, **short) == usual_steps(8)


def test_starts_are_far_apart():
    data, limits = problem(**WELL["K2, limits, odds"])
    sampler = IncompleteSampler(data, limits)
    starts = [sampler.start(chain, np.random.default_rng(chain)) for chain in range(4)]
    assert len({start.cells.tobytes() for start in starts}) > 1
    assert np.bitwise_count(starts[0].rows).sum() == 1  # the required edge
    every = IncompleteSampler(*problem(**WELL["4 binary columns, 25%"])).start(2, np.random.default_rng(2))
    assert np.bitwise_count(every.rows).sum() == 6  # as many as there can be
    for start in starts:
        assert (start.cells >= 0).all()
        assert (start.cells < data.missing_cells.n_states[data.missing_cells.column]).all()


@pytest.mark.parametrize("sampler", [Auto(), Tempered()], ids=["one rung", "rungs"])
def test_half_of_the_chains_go_on_from_a_graph_and_the_cells_it_was_found_with(sampler):
    data, limits = problem(**WELL["4 binary columns, 25%"])
    sampler = sampler_with_cells(data, limits, sampler)
    before = [sampler.start(chain, np.random.default_rng(chain)) for chain in range(5)]
    rows = before[2].rows if before[2].rows.ndim == 2 else before[2].rows[0]
    for chain, (old, new) in enumerate(zip(before, sampler.planted(before, rows, 3), strict=True)):
        first = (new.rows, new.cells) if new.rows.ndim == 2 else (new.rows[0], new.cells[0])
        cells = before[3].cells if new.cells.ndim == 1 else before[3].cells[0]
        moved = np.array_equal(first[0], rows) and np.array_equal(first[1], cells)
        assert moved if chain % 2 else all(np.array_equal(a, b) for a, b in zip(old, new, strict=True))
        if new.rows.ndim == 3:
            assert np.array_equal(new.rows[1:], old.rows[1:])


# --- odd tables ------------------------------------------------------------------------------------------------------


def full_graph(n):
    return pack_rows(np.triu(np.ones((n, n), dtype=bool), 1))


@pytest.mark.parametrize("n", [5, 16, 70])
def test_families_of_many_parents_are_counted_and_redrawn(n):
    """Up to 69 parents: more configurations than 64 bits number, and more than one word of parents."""
    rng = np.random.default_rng(SEED)
    codes = rng.integers(0, 2, size=(40, n))
    codes[:, -1] = codes[:, 0]
    codes[rng.random(codes.shape) < 0.05] = -1
    data = IncompleteData(Table.from_codes([f"v{i}" for i in range(n)], [["n", "y"]] * n, codes))
    parents = working_graph(full_graph(n))[0]
    start = (rng.random(data.missing_cells.n_missing) * 2).astype(np.int16)
    completion, work = completion_of(data.missing_cells, start), row_work(data.missing_cells.n_states)
    families = families_of(parents, completion, data.rule)
    assert families.hashed[-1] == (n > 13)
    for _ in range(200):
        sweep_cells(completion, families, work, np.zeros(2, dtype=np.int64), rng)
    fresh = families_of(parents, completion, data.rule)
    for node in range(n):
        assert configurations(node, families) == configurations(node, fresh)


def configurations(node, families):
    """The counts of a node, whatever the slots: those of configurations that occur, sorted."""
    width = 3
    counts = families.counts[families.first_count[node] :][: families.slots[node] * width].reshape(-1, width)
    return sorted(row for row in counts.tolist() if row[-1])


def test_a_node_of_many_parents_is_redrawn_by_its_exact_conditional():
    """The same target through slots and through a hash: 12 parents, one missing cell, its odds computed by scores."""
    rng = np.random.default_rng(SEED)
    n = 14
    codes = rng.integers(0, 2, size=(30, n))
    codes[1:6, :-1] = codes[0, :-1]
    codes[0, 3] = -1
    data = IncompleteData(Table.from_codes([f"v{i}" for i in range(n)], [["n", "y"]] * n, codes))
    rows = full_graph(n)
    exact = []
    for state in (0, 1):
        scores = data.completed(np.array([state]))
        exact.append(sum(scores.log_score(f"v{j}", tuple(f"v{i}" for i in range(j))) for j in range(n)))
    odds = exact[1] - exact[0]
    found = cell_probabilities(data, rows[None], np.array([[0]]))[0]
    assert np.log(found[1] / found[0]) == pytest.approx(odds, abs=1e-9)


def test_lists_weigh_families_of_any_size():
    rng = np.random.default_rng(SEED)
    n = 14
    codes = rng.integers(0, 2, size=(60, n))
    codes[rng.random(codes.shape) < 0.1] = -1
    data = IncompleteData(Table.from_codes([f"v{i}" for i in range(n)], [["n", "y"]] * n, codes), K2(0.3))
    node = np.array([0, 0, 5, 13], dtype=np.int64)
    sets = np.array([[0], [0b1110], [0b11000001], [2**13 - 1]], dtype=np.uint64)
    lists = family_lists(data, node, sets)
    assert (lists.family < 0).tolist() == [False, False, False, True]
    cells = (rng.random(data.missing_cells.n_missing) * 2).astype(np.int16)
    completion = completion_of(data.missing_cells, cells)
    weight = np.empty(4)
    scoring, _ = data.scoring(completion)
    weigh_lists(completion, scoring, lists, np.zeros(1, dtype=np.uint64), weight)
    for child, words, found in zip(node.tolist(), sets[:, 0].tolist(), weight, strict=True):
        parents = tuple(f"v{i}" for i in range(n) if words >> i & 1)
        assert found == pytest.approx(data.completed(cells).log_score(f"v{child}", parents), abs=1e-9)


def test_rows_are_counted_alike_one_by_one_and_64_at_a_time():
    rng = np.random.default_rng(SEED)
    sizes = [2, 3, 2, 9, 8]
    codes = np.column_stack([rng.integers(0, r, size=300) for r in sizes])
    codes[rng.random(codes.shape) < 0.1] = -1
    states = [[f"s{k}" for k in range(r)] for r in sizes]
    data = IncompleteData(Table.from_codes([f"v{i}" for i in range(5)], states, codes))
    masks = [mask for mask in range(32) if mask.bit_count() < 3]
    families = [(child, mask) for child in range(5) for mask in masks if not mask >> child & 1]
    node, sets = np.array(families, dtype=np.int64).T
    lists = family_lists(data, np.ascontiguousarray(node), sets.astype(np.uint64)[:, None])
    completion = completion_of(data.missing_cells, (rng.random(data.missing_cells.n_missing) * 2).astype(np.int16))
    scoring, _ = data.scoring(completion)

    def weights(by_bits):
        lists.columns.by_bits[:] = by_bits
        weight = np.empty(len(node))
        weigh_lists(completion, scoring, lists, np.zeros(1, dtype=np.uint64), weight)
        return weight

    counted = lists.columns.source < 0  # the others are sums over a column of these
    assert 0 < lists.columns.by_bits[counted].sum() < counted.sum() < len(counted) / 2  # small ones, and large ones
    one_by_one = weights(False)
    np.testing.assert_array_equal(weights(True), one_by_one)
    lists.missing_in[0, 0] ^= np.uint64(1)  # a row that nobody counts, or that is counted twice
    assert (weights(True) != one_by_one).any()


def test_a_row_all_missing_changes_nothing_else():
    data, limits = problem(**WELL["3 columns, 2 and 3 states"])
    table = data.table
    codes = np.concatenate([table.codes[table.row_index], np.full((1, 3), -1)])
    fuller = IncompleteData(Table.from_codes(table.names, table.states, codes), data.score)
    exact, more = enumerate_joint(data, limits), enumerate_joint(fuller, limits)
    np.testing.assert_allclose(more.edge_probabilities, exact.edge_probabilities, atol=1e-10)
    assert more.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)


def test_a_complete_table_is_a_case_like_others():
    table = skewed_table(3, 30, seed=1)
    data, limits = IncompleteData(table), capped([2, 2, 2])
    trace = run(data, limits, draws=600)
    exact = enumerate_joint(data, limits).edge_probabilities
    found = diagnose_indicators(IndicatorCounts.from_words(trace["rows"], 3))
    off = ~np.eye(3, dtype=bool)
    assert worst_z(found.probability[off], exact[off], found.mcse[off]) < z_limit(6)
    assert trace["cells"].shape == (4, 600, 0)


def test_what_one_chain_cannot_run_is_refused():
    data, limits = problem(**WELL["4 binary columns, 25%"])
    with pytest.raises(ArgumentError, match="which moves several graphs with their cells; give it to"):
        IncompleteSampler(data, limits, Tempered())
    with pytest.raises(ArgumentError, match="passes"):
        IncompleteSampler(data, limits, passes=0)
    with pytest.raises(ArgumentError, match="rows holds 2 graphs and cells 1 completions"):
        cell_probabilities(
            data, np.zeros((2, 4, 1), dtype=np.uint64), np.zeros((1, data.missing_cells.n_missing), dtype=int)
        )


def test_the_second_chain_starts_at_the_best_graph_for_its_values(monkeypatch):
    """Of few nodes no graph scores more.  Of more it is a greedy optimum, which does not see a parity."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (200, 5))
    codes[:, 4] = codes[:, 0] ^ codes[:, 1] ^ (rng.random(200) < 0.1)
    table = blanked(Table.from_codes([f"x{j}" for j in range(5)], [["no", "yes"]] * 5, codes), 0.05, seed=1)
    sampler = IncompleteSampler(IncompleteData(table), capped([4] * 5))
    state = sampler.start(1, np.random.default_rng(1))
    scores = sampler.data.completed(state.cells)
    best = enumerate_posterior(scores, sampler.limits).log_score.max()
    assert local_weights(scores, state.rows[None]).sum() == pytest.approx(best, abs=1e-9)
    monkeypatch.setattr(best_graph, "_FEW", 4)
    rows = sampler.start(1, np.random.default_rng(1)).rows
    assert rows.tobytes() == greedy_graph(scores, sampler.limits).tobytes()
    assert local_weights(scores, rows[None]).sum() < best - 10
