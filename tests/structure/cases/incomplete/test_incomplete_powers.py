"""At an inverse temperature below 1, does each move keep that power of the posterior of graph and cells?"""

from __future__ import annotations

from functools import partial
from itertools import product

import incomplete_cases
import numpy as np
import pytest
from incomplete_cases import CASES, Standing, case, deviations, redraw_matrix, states_of
from test_incomplete_joint_proposals import matrix_of
from test_incomplete_sampler import WELL, problem, wide_problem

from doxa._call_at import settled
from doxa.sampling.driver import Schedule, sample
from doxa.structure import Auto
from doxa.structure.cases.incomplete import IncompleteSampler, enumerate_joint, joint_proposals
from doxa.structure.cases.incomplete import sampler as incomplete_sampler
from doxa.structure.cases.incomplete.blocks import move_case, row_work
from doxa.structure.cases.incomplete.cells_sampler import reference_lists
from doxa.structure.cases.incomplete.families import case_probability, config_of
from doxa.structure.cases.incomplete.joint_counts import joint_work
from doxa.structure.cases.incomplete.sampler import CollapsedChain
from doxa.structure.cases.incomplete.sweep import log_fixed, log_masses, redraw_independently, redraw_row
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.graph import working_graph
from doxa.testing import invariance_residual
from support.checks import SEED, compare_transitions, score_z, z_limit
from support.kernels import Target, step_matrices

BETA = 0.4
EXACT = 1e-12
SEEN = 1e-4  # total variation that a broken kernel must miss by in one step


def powered(exact, beta=BETA):
    """The exact answer for the posterior to a power."""
    weight = np.exp(beta * (exact.log_score - exact.log_score.max()))
    return exact._replace(probability=weight / weight.sum())


def residual(exact, matrix, beta=BETA):
    return invariance_residual(powered(exact, beta).probability.ravel(), matrix)


def missed(exact, matrix, beta=BETA):
    target = powered(exact, beta).probability.ravel()
    return 0.5 * np.abs(target @ matrix - target).sum()


@pytest.fixture
def flat(monkeypatch):
    """Matrices and standings of `incomplete_cases` at the power."""
    monkeypatch.setattr(incomplete_cases, "row_work", partial(row_work, beta=BETA))


# --- cells -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("single", [False, True], ids=["components", "cells"])
@pytest.mark.usefixtures("flat")
def test_redrawing_cells_keeps_the_power_of_the_posterior(name, single):
    data, _, exact = case(name)
    for i in range(len(data.missing_cells.first) - 1):
        for matrix in redraw_matrix(data, exact, i, single=single):
            np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
            assert residual(exact, matrix) < EXACT


@pytest.mark.parametrize("name", CASES)
def test_cells_drawn_from_the_posterior_itself_do_not(name):
    data, _, exact = case(name)
    matrices = redraw_matrix(data, exact, 0)
    assert max(missed(exact, matrix) for matrix in matrices) > SEEN
    assert max(residual(exact, matrix, 1.0) for matrix in matrices) < EXACT


def independence_matrix(data, exact, *, masses):
    """The independence move at the power, of row 0 where all its cells are tied; elsewhere nothing moves."""
    matrix = np.eye(exact.probability.size)
    alone = []
    for number, (graph, completion) in enumerate(states_of(exact)):
        standing = Standing(data, exact, graph, completion)
        components = standing.components(0)
        if len(components) > 1:
            continue
        alone.append(number)
        size, n_affected = standing.take(0, *components[0])
        around = (n_affected, standing.completion, standing.families, standing.work)
        members, codes = standing.work.members[:size].tolist(), standing.completion.rows[0]
        old = codes.copy()
        before = _fixed_and_masses(size, around, masses)
        for states in product(*(range(int(data.missing_cells.n_states[c])) for c in members)):
            codes[:] = old
            q = 1.0
            for column, state in zip(members, states, strict=True):
                r, chance_of = int(data.missing_cells.n_states[column]), settled(case_probability)
                config = settled(config_of)(column, codes, standing.families)
                chances = [chance_of(column, config, s, r, standing.families) ** BETA for s in range(r)]
                q *= chances[state] / sum(chances)
                codes[column] = state
            chance = q * min(1.0, np.exp(_fixed_and_masses(size, around, masses) - before))
            codes[:] = old
            target = standing.after(0, np.array(members), states)
            matrix[number, target] += chance
            matrix[number, number] -= chance
    return matrix, alone


def _fixed_and_masses(size, around, masses):
    n_affected, completion, families, work = around
    total = BETA * settled(log_fixed)(0, size, n_affected, completion, families, work)
    return total + (settled(log_masses)(0, size, completion, families, work) if masses else 0.0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("flat")
def test_independence_moves_keep_the_power_of_the_posterior(name):
    data, _, exact = case(name)
    matrix, _ = independence_matrix(data, exact, masses=True)
    assert residual(exact, matrix) < EXACT
    assert np.trace(matrix) < 0.9 * len(matrix)
    if len(data.missing_cells.column[data.missing_cells.row == 0]) > 1:  # else all have their parents known
        assert missed(exact, independence_matrix(data, exact, masses=False)[0]) > SEEN


@pytest.mark.usefixtures("flat")
def test_the_compiled_loops_move_as_the_matrices_say():
    data, _, exact = case("BDeu")
    steps = redraw_matrix(data, exact, 0)
    whole, (independent, alone) = steps[0] @ steps[1] @ steps[2], independence_matrix(data, exact, masses=True)
    rng = np.random.default_rng(SEED)
    info = np.zeros(2, dtype=np.int64)
    counts = np.zeros((2, *whole.shape), dtype=np.int64)
    for number in alone[3::25]:
        graph, completion = divmod(number, len(exact.cells))
        for _ in range(600):
            standing = Standing(data, exact, graph, completion)
            settled(redraw_row)(0, standing.completion, standing.families, standing.work, info, rng)
            counts[0, number, standing.after(0, np.array([]), [])] += 1
            standing = Standing(data, exact, graph, completion)
            size, n_affected = standing.take(0, *standing.components(0)[0])
            around = (standing.completion, standing.families, standing.work)
            settled(redraw_independently)(0, size, n_affected, *around, rng)
            settled(move_case)(0, n_affected, 1, *around)
            counts[1, number, standing.after(0, np.array([]), [])] += 1
    for seen, matrix in zip(counts, (whole, independent), strict=True):
        z, n = compare_transitions(seen, matrix)
        assert n > 10
        assert z < z_limit(n)


# --- graphs ----------------------------------------------------------------------------------------------------------


def chain_at(data, limits, exact, lists, number, beta):
    """A chain's work space, standing on a completion whose lists are weighed."""
    state = IncompleteSampler(data, limits).start_at(exact.rows[0], exact.cells[number])
    chain = CollapsedChain(data, limits, Auto(), lists, state, None, beta)
    chain.score_afresh()
    return chain


def structure_matrix(data, limits, exact, lists, number):
    """One step of Auto at the power, on one completion, from lists as a chain weighs them."""
    scores = data.completed(exact.cells[number])
    table = chain_at(data, limits, exact, lists, number, BETA).moves.layout
    return step_matrices(Auto(), Target(scores, limits, enumerate_posterior(scores, limits), BETA, table))[0]


@pytest.mark.parametrize("name", ["BDeu", "limits, odds"])
def test_structure_steps_keep_the_power_of_the_posterior(name):
    data, limits, exact = case(name)
    lists, _ = reference_lists(data, limits, 1, keep_within=1.0)
    target = powered(exact).probability
    for number in range(len(exact.cells)):
        matrix = structure_matrix(data, limits, exact, lists, number)
        assert invariance_residual(target[:, number] / target[:, number].sum(), matrix) < EXACT


@pytest.mark.parametrize("beta", [BETA, 1.0], ids=["a chain at the power", "one that is not"])
def test_the_compiled_steps_move_as_the_matrix_says(beta):
    data, limits, exact = case("BDeu")
    lists, _ = reference_lists(data, limits, 1, keep_within=1.0)
    chain = chain_at(data, limits, exact, lists, 3, beta)
    known = {rows.tobytes(): graph for graph, rows in enumerate(exact.rows)}
    counts = np.zeros((len(known), len(known)), dtype=np.int64)
    rng = np.random.default_rng(SEED)
    for graph, rows in enumerate(exact.rows):
        chain.graph = working_graph(rows)
        chain.score_afresh()
        local = chain.local.copy()
        for _ in range(1800):
            chain.graph = working_graph(rows)
            chain.local[:] = local
            chain.move_graph(1, rng)
            counts[graph, known[chain.graph[1].tobytes()]] += 1
    z, n = compare_transitions(counts, structure_matrix(data, limits, exact, lists, 3))
    assert n > 50
    assert (z < z_limit(n)) == (beta == BETA)


# --- changes of the graph with their cells ---------------------------------------------------------------------------


def test_a_change_of_the_graph_with_its_cells_keeps_the_power_of_the_posterior():
    exact = case("limits, odds")[2]
    assert residual(exact, matrix_of("limits, odds", power=BETA, beta=BETA)) < EXACT
    assert missed(exact, matrix_of("limits, odds", power=BETA)) > SEEN


# --- chains ----------------------------------------------------------------------------------------------------------


def z_of(data, sampler, exact, draws, least_ess=400):
    trace = sample(sampler, Schedule(4, draws, 200), seed=SEED)
    of_edges, of_cells, n = deviations(data, trace, exact, least_ess)
    return max(of_edges, of_cells, score_z(trace["log_score"], exact)) / z_limit(n + 1), trace


def run_alone(name, **options):
    data, limits = problem(**WELL[name])
    sampler = IncompleteSampler(data, limits, steps=20, joint_proposals=3, beta=BETA)
    return z_of(data, sampler, powered(enumerate_joint(data, limits)), 500, **options)[0]


@pytest.mark.parametrize("name", ["4 binary columns, 25%", "a hidden column"])
def test_a_rung_alone_agrees_with_the_power_of_the_exact_sum(name):
    assert run_alone(name) < 1.0


def test_cells_drawn_from_the_posterior_itself_fail_the_same_check(monkeypatch):
    monkeypatch.setattr(incomplete_sampler, "row_work", lambda n_states, _: row_work(n_states))
    assert run_alone("4 binary columns, 25%", least_ess=100) > 1.0


@pytest.mark.parametrize("beta", [BETA, 1.0], ids=["offers at the power", "offers that are not"])
def test_a_rung_that_moves_by_excursions_agrees_with_it_too(monkeypatch, beta):
    monkeypatch.setattr(joint_proposals, "joint_work", lambda data, _: joint_work(data, beta))
    data, limits = problem(3, 14, 0.3)
    sampler = IncompleteSampler(data, limits, steps=1, joint_proposals=20, least_spread=0.0, beta=BETA)
    ratio = z_of(data, sampler, powered(enumerate_joint(data, limits)), 600, least_ess=100)[0]
    assert (ratio < 1.0) == (beta == BETA)


def test_large_components_agree_with_it_too():
    data, limits = wide_problem()
    exact = powered(enumerate_joint(data, limits), 0.7)
    sampler = IncompleteSampler(data, limits, steps=30, joint_proposals=3, beta=0.7)
    ratio, trace = z_of(data, sampler, exact, 800)
    assert ratio < 1.0
    assert (trace.info["rows_accepted"] > 100).all()
    assert (trace.info["rows_accepted"] < trace.info["rows_proposed"]).all()
