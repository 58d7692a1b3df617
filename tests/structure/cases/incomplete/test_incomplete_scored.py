"""Missing cells and families that may be logistic: kernels as matrices, long runs against sums over everything."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
import pytest
from incomplete_cases import blanked, deviations, number_of, states_of, with_missing_cells

import doxa
from doxa._call_at import settled
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.bits import unpack_rows
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Auto, MarkovBlanket, SingleEdge, Tempered
from doxa.structure.averaging.posterior import with_table
from doxa.structure.cases.incomplete import IncompleteData, enumerate_joint, proposals, scored_sweeps
from doxa.structure.cases.incomplete.by_kind import sampler_with_cells
from doxa.structure.cases.incomplete.missing_cells import completion_of
from doxa.structure.cases.incomplete.proposals import Today, log_ratio
from doxa.structure.cases.incomplete.scored_sampler import ScoredCellsSampler, reference_scores
from doxa.structure.cases.incomplete.scored_sweeps import (
    ScoredChain,
    cell_work,
    fit_column,
    redraw_column,
    weigh_rows,
)
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.families.cache import local_weights
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.logistic.parameters import LogisticFamily
from doxa.structure.graph import working_graph
from doxa.structure.limits import capped, make_limits
from doxa.structure.moves import tempered as tempered_moves
from doxa.structure.posterior.structure_posterior import StructurePosterior
from doxa.structure.priors import make_prior
from doxa.structure.runs.options import LearnOptions, RunOptions
from doxa.testing import invariance_residual
from support.checks import SEED, compare_transitions, z_limit
from support.kernels import Target, step_matrices
from support.tables import skewed_table

EXACT = 1e-10
SEEN = 1e-4  # total variation that a broken kernel must miss by in one step
LIMITED = {"required": [("x1", "x2")], "forbidden": [("x2", "x0")], "max_parents": {"x2": 1}}
CASES = {
    "logistic": {},
    "types summed": {"score": FamilyMixture(2.0, logistic_share=0.3)},
    "types summed, a column of three states": {"score": FamilyMixture(), "states": 3},
    "bound, limits, odds": {
        "score": Logistic(method="optimal"),
        "limits": LIMITED,
        "prior": {"edge_log_odds": {("x0", "x1"): 0.9}},
    },
}


@cache
def case(name):
    """Three columns, ten rows, three missing cells, of which two in one column: 25 graphs times 8 or 18 completions."""
    recipe = CASES[name]
    table = skewed_table(3, 10, seed=3, n_states=recipe.get("states", 2))
    table = with_missing_cells(table, [(0, 1), (4, 1), (4, 2)])
    prior = make_prior(table.names, **{"kind": "uniform", **recipe.get("prior", {})})
    data = IncompleteData(table, recipe.get("score", Logistic()), prior)
    limits = make_limits(table.names, **recipe.get("limits", {}))
    return data, limits, enumerate_joint(data, limits)


def chain_at(name, joint_proposal, rows, cells, beta=1.0):
    """A chain of single edges at a graph and a completion, which offers two cells at a time."""
    data, limits, _ = case(name)
    sampler = ScoredCellsSampler(data, limits, SingleEdge(), joint_proposal=joint_proposal, block=2, beta=beta)
    return ScoredChain(sampler, sampler.start_at(rows, cells))


def tempered(exact, beta):
    """The posterior to a power."""
    target = exact.probability.ravel() ** beta
    return target / target.sum()


def residual(exact, matrix, beta=1.0):
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    return invariance_residual(tempered(exact, beta), matrix)


def missed(exact, matrix, beta=1.0):
    target = tempered(exact, beta)
    return 0.5 * np.abs(target @ matrix - target).sum()


# --- cells -----------------------------------------------------------------------------------------------------------


def column_matrix(name, column, block, twin="", beta=1.0, afresh=False):
    """Offers to the cells of a column, in blocks: the product of the blocks' matrices.

    ``afresh``: each block has a fit of its own, to all other rows.
    """
    data, _, exact = case(name)
    work, n = cell_work(data.missing_cells), exact.probability.size
    r, first, end = int(data.missing_cells.n_states[column]), int(work.first[column]), int(work.first[column + 1])
    product = np.eye(n)
    for begin in range(first, end, block):
        matrix = np.zeros((n, n))
        places = list(range(begin, min(begin + block, end)))
        for here, (graph, number) in enumerate(states_of(exact)):
            completion = completion_of(data.missing_cells, exact.cells[number])
            parents = working_graph(exact.rows[graph])[0]
            fitted = (places[0], places[-1] + 1) if afresh else (first, end)
            settled(fit_column)(column, *fitted, parents, completion, work)
            settled(weigh_rows)(column, *fitted, parents, completion, work)
            log_k = work.log_offer[: end - first].copy()
            old = [int(completion.rows[work.row[p], column]) for p in places]
            for new in np.ndindex(*[r] * len(places)):
                cells = exact.cells[number].copy()
                for p, state in zip(places, new, strict=True):
                    cells[(data.missing_cells.row == work.row[p]) & (data.missing_cells.column == column)] = state
                there = graph * len(exact.cells) + number_of(exact, cells)
                forth = sum(log_k[p - first, s] for p, s in zip(places, new, strict=True))
                back = sum(log_k[p - first, s] for p, s in zip(places, old, strict=True))
                ratio = beta * (exact.log_score.ravel()[there] - exact.log_score.ravel()[here])
                if twin == "not renewed":  # the child's score is that of the older completion
                    ratio *= 0.5
                if twin != "no ratio of offers":
                    ratio += back - forth
                chance = np.exp(forth) * min(1.0, np.exp(ratio))
                matrix[here, there] += chance
                matrix[here, here] += np.exp(forth) - chance
        product = product @ matrix
    return product


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("block", "beta"), [(1, 1.0), (2, 1.0), (2, 0.4)])
def test_offers_of_cells_keep_the_posterior(name, block, beta):
    _, _, exact = case(name)
    for column, afresh in ((1, False), (1, True), (2, False)):
        matrix = column_matrix(name, column, block, beta=beta, afresh=afresh)
        assert residual(exact, matrix, beta) < EXACT
        assert beta == 1.0 or missed(exact, matrix) > SEEN
        assert np.abs(matrix - np.eye(len(matrix))).max() > 0.1  # something moves
    for twin in ("no ratio of offers", "not renewed"):
        assert missed(exact, column_matrix(name, 1, block, twin, beta), beta) > SEEN


@pytest.mark.parametrize(
    ("name", "beta"), [("logistic", 1.0), ("logistic", 0.4), ("types summed, a column of three states", 1.0)]
)
def test_the_compiled_loop_moves_as_the_matrix_says(name, beta):
    _, _, exact = case(name)
    chain = chain_at(name, 1, exact.rows[7], exact.cells[1], beta)
    matrix = 0.75 * column_matrix(name, 1, 2, beta=beta) + 0.25 * column_matrix(name, 1, 2, beta=beta, afresh=True)
    n = exact.probability.size
    counts, rng, here = np.zeros((n, n), dtype=np.int64), np.random.default_rng(SEED), 0
    before = 7 * len(exact.cells) + 1
    redraw = settled(redraw_column, chain.scoring.address)
    for _ in range(4000):
        redraw(1, chain.parents, chain.completion, chain.scoring, chain.work, rng)
        here = 7 * len(exact.cells) + number_of(exact, chain.cells)
        counts[before, here] += 1
        before = here
        assert abs(chain.local.sum() - exact.log_score.ravel()[here]) < 1e-9  # the scores kept are those of today
    z, compared = compare_transitions(counts, matrix)
    assert z < z_limit(compared)
    assert compared >= 8


# --- graphs ----------------------------------------------------------------------------------------------------------


def graph_matrix(name, steps, *, correct=True, beta=1.0):
    """A joint proposal on stale scores, and whether it is accepted."""
    data, limits, exact = case(name)
    stale = reference_scores(data, limits)
    posterior = enumerate_posterior(stale, limits)
    assert np.array_equal(posterior.rows, exact.rows)
    proposal = np.linalg.matrix_power(step_matrices(SingleEdge(), Target(stale, limits, posterior, beta))[0], steps)
    n_graphs, n_completions = exact.probability.shape
    matrix = np.zeros((n_graphs, n_completions, n_graphs, n_completions))
    graphs, of_stale = [working_graph(rows) for rows in exact.rows], local_weights(stale, exact.rows)
    for number, cells in enumerate(exact.cells):
        for a in range(n_graphs):
            chain = chain_at(name, steps, exact.rows[a], cells, beta)
            for b in np.flatnonzero(proposal[a]).tolist():
                ratio = 0.0
                if correct and a != b:
                    here = (*graphs[a][:2], of_stale[a], np.zeros(3, dtype=np.int64))
                    today = Today(chain.scoring, beta, chain.local, chain.local.copy(), here)
                    ratio = beta * log_ratio(graphs[b][0], of_stale[b], today)
                chance = proposal[a, b] * min(1.0, np.exp(ratio))
                matrix[a, number, b, number] += chance
                matrix[a, number, a, number] += proposal[a, b] - chance
    return matrix.reshape(exact.probability.size, -1)


@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize("name", ["logistic", "bound, limits, odds"])
def test_joint_proposals_on_stale_scores_keep_the_posterior(name, beta):
    _, _, exact = case(name)
    matrix = graph_matrix(name, 3, beta=beta)
    assert residual(exact, matrix, beta) < EXACT
    assert beta == 1.0 or missed(exact, matrix) > SEEN
    assert missed(exact, graph_matrix(name, 3, correct=False, beta=beta), beta) > SEEN


# --- long runs -------------------------------------------------------------------------------------------------------


def long_run(name, draws=500, **options):
    data, limits, _ = case(name)
    options = {"steps": 24, "joint_proposal": 3, "block": 2, "fresh": 12, **options}
    return sample(ScoredCellsSampler(data, limits, **options), Schedule(4, draws, 100), seed=SEED, workers=1)


@pytest.mark.parametrize("name", ["logistic", "types summed, a column of three states"])
def test_edges_and_cells_agree_with_the_exact_sum(name):
    agrees(name, 900)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_edges_and_cells_agree_with_the_exact_sum_in_longer_runs(name):
    agrees(name, 5000)


def agrees(name, draws):
    data, limits, exact = case(name)
    trace = long_run(name, draws)
    of_edges, of_cells, n = deviations(data, trace, exact)
    assert max(of_edges, of_cells) < z_limit(n)
    present = unpack_rows(trace["rows"], 3)
    assert not present[..., exact.edge_probabilities == 0].any()
    assert present[..., limits.required_edges].all()


def test_hidden_columns_agree_with_the_exact_sum():
    codes = np.array([[-1, 0, 0], [-1, 1, 1], [-1, 1, 1], [-1, 0, 0], [-1, 0, 1]])
    table = Table.from_codes(["h", "a", "b"], [("0", "1"), ("n", "y"), ("n", "y")], codes)
    data, limits = IncompleteData(table, Logistic(), hidden=["h"]), capped([2] * 3)
    exact = enumerate_joint(data, limits)
    made = ScoredCellsSampler(data, limits, SingleEdge(), steps=24, block=2)
    trace = sample(made, Schedule(4, 600, 100), seed=SEED, workers=1)
    of_edges, of_cells, n = deviations(data, trace, exact)
    assert max(of_edges, of_cells) < z_limit(n)


@pytest.mark.parametrize("move", [Auto(), SingleEdge()], ids=lambda move: move.name)
def test_joint_proposals_with_their_ratio_the_wrong_way_round_fail_the_same_check(monkeypatch, move):
    wrong = numba.njit(lambda parents, local, today: -log_ratio(parents, local, today))
    monkeypatch.setattr(proposals, "log_ratio", wrong)
    monkeypatch.setattr(scored_sweeps, "offer_today", numba.njit(proposals.offer_today.py_func))
    data, _, exact = case("logistic")
    of_edges, of_cells, n = deviations(data, long_run("logistic", 1500, move=move, fresh=1), exact, least_ess=0)
    assert max(of_edges, of_cells) > z_limit(n)


def tempered_run(draws):
    """Rungs that do little but swap: how far edges and cells of the first are from the exact sum, and the limit.

    Columns are near copies, so that the rungs have graphs of their own.
    """
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 2, 20)]
    for _ in range(2):
        columns.append(np.where(rng.random(20) < 0.85, columns[-1], 1 - columns[-1]))
    table = Table.from_codes(["a", "b", "c"], [("0", "1")] * 3, np.stack(columns, axis=1))
    table = with_missing_cells(table, [(0, 1), (4, 1), (4, 2)])
    data, limits = IncompleteData(table, Logistic(), make_prior(table.names, "uniform")), make_limits(table.names)
    exact = enumerate_joint(data, limits)
    move = Tempered(SingleEdge(), (1.0, 0.1), swap_every=1)
    made = sampler_with_cells(data, limits, move, steps=1, joint_proposal=1, block=2, fresh=2)
    trace = sample(made, Schedule(4, draws, 100), seed=SEED, workers=1)
    assert (trace.info["swapped_0"] > 0.1 * trace.info["swaps_0"]).all()
    of_edges, of_cells, n = deviations(data, trace, exact, least_ess=50)
    return max(of_edges, of_cells) / z_limit(n)


def test_tempered_chains_agree_with_the_exact_sum():
    assert tempered_run(800) < 1.0


def test_swaps_that_are_always_accepted_fail_the_same_check(monkeypatch):
    monkeypatch.setattr(tempered_moves, "log_swap_ratio", lambda *_: np.inf)
    assert tempered_run(800) > 1.0


def posterior_of(name, draws):
    data, limits, exact = case(name)
    trace = long_run(name, draws)
    options = RunOptions.of(data.table, LearnOptions(score=data.score, prior="uniform"), data.prior, limits)
    return with_table(StructurePosterior(data.table.names, trace, Auto(), options), data.table), exact


def exact_chance(data, exact, node):
    """P(node in its second state) in a new case: mean tables given graph and completion, over all of them."""
    total = 0.0
    for (graph, number), weight in zip(states_of(exact), exact.probability.ravel(), strict=True):
        completion = completion_of(data.missing_cells, exact.cells[number])
        present = unpack_rows(exact.rows[graph], 3)
        means = {}
        for child in range(3):
            columns = [child, *np.flatnonzero(present[:, child]).tolist()]
            family = LogisticFamily(
                data.score, completion.columns[columns].T, completion.weights, [2] * len(columns), None
            )
            means[child] = np.exp(family.log_means()).reshape([2] * len(columns))
        for x in np.ndindex(2, 2, 2):
            chance = np.prod([means[c][(*(x[p] for p in np.flatnonzero(present[:, c])), x[c])] for c in range(3)])
            total += weight * chance * x[node]
    return total


@pytest.mark.parametrize("name", ["logistic", "types summed"])
def test_averaged_answers_agree_with_the_exact_sum(name):
    posterior, exact = posterior_of(name, 250)
    data = case(name)[0]
    for node, column in enumerate(data.table.names):
        answer = posterior.query({column: data.table.states[node][1]}, networks=None)
        right = exact_chance(data, exact, node)
        assert abs(answer.value - right) < z_limit(3) * answer.mcse
        assert answer.mcse < 0.02
    found = posterior.impute()
    second = found[found["state"].isin([states[1] for states in data.table.states])]
    missing_cells = data.missing_cells
    sources = missing_cells.source_row[missing_cells.row].tolist()
    place = {
        (row, data.table.names[c]): k for k, (row, c) in enumerate(zip(sources, missing_cells.column, strict=True))
    }
    truth = np.array(
        [exact.cell_probabilities[place[cell], 1] for cell in zip(second["row"], second["column"], strict=True)]
    )
    z = (second["probability"].to_numpy() - truth) / second["mcse"].to_numpy()
    assert np.abs(z).max() < z_limit(len(z))


def test_all_answers_are_given():
    posterior, _ = posterior_of("logistic", 100)
    table = posterior.table
    assert len(posterior.completed_tables(2)) == 2
    rows = posterior.predict(table, "x0", networks=40)
    assert rows.groupby("row")["probability"].sum().to_numpy() == pytest.approx(1.0)
    assert posterior.log_predictive(table, networks=40).total.value < 0
    assert len(posterior.coefficients("x1", networks=40).summary()) == 3
    tables = posterior.parent_tables("x1", 2)
    assert ((tables["lower"] < tables["mean"]) & (tables["mean"] < tables["upper"])).all()
    assert len(posterior.predictive_checks(replicas=40))
    assert len(list(posterior.networks(8))) == 8
    for sums in (lambda: posterior.log_marginal_likelihood, posterior.baseline):
        with pytest.raises(ArgumentError, match="sums over graphs and cells are known for family='categorical'"):
            sums()


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_in_parts_is_the_unbroken_run():
    table = blanked(skewed_table(5, 60, seed=2), 0.15, seed=1)
    data, limits = IncompleteData(table, Logistic()), capped([4] * 5)
    sampler = ScoredCellsSampler(data, limits, steps=20, fresh=5)
    whole_rng, parts_rng = np.random.default_rng(SEED), np.random.default_rng(SEED)
    whole_end, whole, _ = sampler.run(sampler.start(2, whole_rng), 8 * 20, whole_rng)
    state, parts = sampler.start(2, parts_rng), []
    for n in (1, 4, 3):
        state, draws, _ = sampler.run(state, n * 20, parts_rng)
        parts.append(draws)
    for key in whole:
        np.testing.assert_array_equal(whole[key], np.concatenate([part[key] for part in parts]))
    for a, b in zip(whole_end, state, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("family", ["logistic", "auto"])
def test_learn_resumes_to_the_same_draws_and_takes_indicators(family, tmp_path):
    table = blanked(skewed_table(3, 40, seed=2), 0.15, seed=1)
    options = {"family": family, "indicator": ["x1"], "warmup": 4, "thin": 20, "seed": 1, "progress": False}
    whole = doxa.learn(table, draws=12, workers=2, **options)
    doxa.learn(table, draws=8, store=tmp_path / "r.doxa", workers=1, **options)
    gone_on = doxa.resume(tmp_path / "r.doxa", table, draws=12, progress=False)
    assert "x1 is missing" in whole.names
    for key in ("rows", "cells", "log_score"):
        np.testing.assert_array_equal(whole.trace[key], gone_on.trace[key])


def test_refused():
    table = blanked(skewed_table(3, 40, seed=2), 0.15, seed=1)
    for move in (Tempered(MarkovBlanket()), MarkovBlanket()):
        with pytest.raises(ArgumentError, match="cannot be combined with missing cells and logistic families"):
            doxa.learn(table, family="logistic", sampler=move, draws=4)
    three = blanked(skewed_table(3, 40, seed=2, n_states=3), 0.15, seed=1)
    with pytest.raises(ArgumentError, match="the logistic score needs columns of two states"):
        doxa.learn(three, family="logistic", draws=4)
    with pytest.raises(ArgumentError, match="block is 0; it must be at least 1"):
        ScoredCellsSampler(IncompleteData(table, Logistic()), capped([2] * 3), block=0)
    assert isinstance(table, Table)
