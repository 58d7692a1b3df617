"""Does each move keep the exact posterior of graph and cells?  Transition matrices over all pairs of a tiny problem."""

from __future__ import annotations

import numpy as np
import pytest
from incomplete_cases import CASES, Standing, case, independence_matrix, redraw_matrix, states_of

from doxa._call_at import settled
from doxa.data import Table
from doxa.structure import Auto
from doxa.structure.cases.incomplete import IncompleteData, cell_probabilities, enumerate_joint
from doxa.structure.cases.incomplete.candidate_sets import arrange, list_layout, weigh_lists
from doxa.structure.cases.incomplete.cells_sampler import reference_lists
from doxa.structure.cases.incomplete.families import families_of
from doxa.structure.cases.incomplete.missing_cells import completion_of
from doxa.structure.cases.incomplete.sweep import redraw_row, swap_labels
from doxa.structure.exact.enumeration import enumerate_posterior
from doxa.structure.graph import working_graph
from doxa.structure.moves.parent_sets import scaled
from doxa.testing import invariance_residual
from support.checks import SEED, compare_transitions, z_limit
from support.kernels import Target, step_matrices

EXACT = 1e-12
SEEN = 1e-4  # total variation that a broken kernel must miss by in one step


def residual(exact, matrix):
    return invariance_residual(exact.probability.ravel(), matrix)


def missed(exact, matrix):
    target = exact.probability.ravel()
    return 0.5 * np.abs(target @ matrix - target).sum()


# --- cells -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("single", [False, True], ids=["components", "cells"])
def test_redrawing_cells_given_the_rest_keeps_the_posterior(name, single):
    data, _, exact = case(name)
    for i in range(len(data.missing_cells.first) - 1):
        matrices = redraw_matrix(data, exact, i, single=single)
        for matrix in matrices:
            np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
            assert residual(exact, matrix) < EXACT
        assert np.abs(matrices[0] - np.eye(len(matrices[0]))).max() > 0.1  # something moves


def test_a_row_left_in_the_counts_is_drawn_wrongly():
    data, _, exact = case("BDeu")
    assert max(missed(exact, matrix) for matrix in redraw_matrix(data, exact, 0, out=False)) > SEEN


@pytest.mark.parametrize("name", CASES)
def test_independence_moves_keep_the_posterior(name):
    data, _, exact = case(name)
    matrix = independence_matrix(data, exact, 0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    assert residual(exact, matrix) < EXACT
    always = missed(exact, independence_matrix(data, exact, 0, accept=False))
    if name == "a row of which nothing is known":
        assert always < EXACT  # the proposal is an exact draw, whatever the graph
    else:
        assert always > SEEN


@pytest.mark.parametrize("name", ["BDeu", "K2"])
def test_the_compiled_loop_moves_as_the_matrices_say(name):
    data, _, exact = case(name)
    steps = redraw_matrix(data, exact, 0)
    matrix = steps[0] @ steps[1] @ steps[2]
    rng = np.random.default_rng(SEED)
    counts = np.zeros(matrix.shape, dtype=np.int64)
    n_completions, info = len(exact.cells), np.zeros(2, dtype=np.int64)
    for number in range(7, exact.probability.size, 30):
        graph, completion = divmod(number, n_completions)
        for _ in range(600):
            standing = Standing(data, exact, graph, completion)
            settled(redraw_row)(0, standing.completion, standing.families, standing.work, info, rng)
            counts[number, standing.after(0, np.array([]), [])] += 1
    z, n = compare_transitions(counts, matrix)
    assert n > 20
    assert z < z_limit(n)


@pytest.mark.parametrize("name", CASES)
def test_conditional_probabilities_of_cells_average_to_the_exact_ones(name):
    data, _, exact = case(name)
    total = np.zeros_like(exact.cell_probabilities)
    for (graph, completion), weight in zip(states_of(exact), exact.probability.ravel(), strict=True):
        found = cell_probabilities(data, exact.rows[graph][None], exact.cells[completion][None])
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
        total[:, : found.shape[1]] += weight * found
    np.testing.assert_allclose(total, exact.cell_probabilities, atol=1e-12)


def test_counts_follow_every_redraw():
    data, _, exact = case("BDeu")
    rng = np.random.default_rng(SEED)
    for graph in range(len(exact.rows)):
        standing = Standing(data, exact, graph, 0)
        for _ in range(3):
            for i in range(2):
                redraw_row(i, standing.completion, standing.families, standing.work, np.zeros(2, dtype=np.int64), rng)
        fresh = families_of(working_graph(exact.rows[graph])[0], standing.completion, data.rule)
        for kept, counted in zip(standing.families, fresh, strict=True):
            assert np.array_equal(kept, counted)


# --- labels ----------------------------------------------------------------------------------------------------------


def hidden_problem():
    codes = [[0, 1, -1], [1, 1, -1], [0, 0, -1], [1, 0, -1], [1, 1, -1]]
    table = Table.from_codes(["a", "b", "h"], [["n", "y"]] * 2 + [["0", "1", "2"]], codes)
    data = IncompleteData(table, hidden=["h"])
    return data, enumerate_joint(data)


def test_exchanging_labels_of_a_hidden_column_keeps_the_posterior_and_the_counts():
    data, exact = hidden_problem()
    place = np.arange(len(exact.cells)).reshape([3] * 5)
    swapped = exact.cells.copy()
    swapped[exact.cells == 0], swapped[exact.cells == 2] = 2, 0
    image = place[tuple(swapped.T)]
    np.testing.assert_allclose(exact.probability[:, image], exact.probability, rtol=1e-10)
    for graph in range(len(exact.rows)):
        standing = Standing(data, exact, graph, 100)
        before = [array.copy() for array in standing.families]
        swap_labels(2, 0, 2, standing.completion, standing.families)
        assert np.array_equal(standing.completion.rows[:, 2], swapped[100])
        assert np.array_equal(standing.completion.columns[2], swapped[100])
        fresh = families_of(working_graph(exact.rows[graph])[0], standing.completion, data.rule)
        for kept, counted in zip(standing.families, fresh, strict=True):
            assert np.array_equal(kept, counted)
        assert not all(np.array_equal(a, b) for a, b in zip(before, fresh, strict=True))  # old counts would be wrong


# --- graphs ----------------------------------------------------------------------------------------------------------


def structure_matrix(data, limits, exact, stale):
    """Steps of Auto on each completion, on its own scores and lists, or, if ``stale``, on those of the first."""
    lists, _ = reference_lists(data, limits, 1, keep_within=1.0)
    weight = np.empty(lists.n_sets)
    n_graphs, n_completions = exact.probability.shape
    matrix = np.zeros((n_graphs, n_completions, n_graphs, n_completions))
    for number, cells in enumerate(exact.cells):
        if stale and number:
            matrix[:, number, :, number] = matrix[:, 0, :, 0]
            continue
        completion = completion_of(data.missing_cells, cells)
        scoring, _ = data.scoring(completion)
        weigh_lists(completion, scoring, lists, np.zeros(1, dtype=np.uint64), weight)
        table = list_layout(lists)
        arrange(table, lists, weight)
        scores = data.completed(cells)
        here = Target(scores, limits, enumerate_posterior(scores, limits), lists=table)
        assert np.array_equal(here.posterior.rows, exact.rows)
        matrix[:, number, :, number] = step_matrices(Auto(), here)[0]
    return matrix.reshape(exact.probability.size, -1)


@pytest.mark.parametrize("name", CASES)
def test_structure_steps_on_the_completion_keep_the_posterior(name):
    data, limits, exact = case(name)
    assert residual(exact, structure_matrix(data, limits, exact, stale=False)) < EXACT
    if name == "BDeu":
        assert missed(exact, structure_matrix(data, limits, exact, stale=True)) > SEEN


def test_lists_are_arranged_as_score_tables_are():
    data, limits, exact = case("limits, odds")
    lists, _ = reference_lists(data, limits, 2, keep_within=50.0)
    rng = np.random.default_rng(SEED)
    order = None
    for spread in (1.0, 100.0, 1000.0):  # nats: several levels of 64
        weight = -spread * rng.random(lists.n_sets)
        weight[::3] = weight[0]  # equal weights stand in the order in which they are listed
        table = list_layout(lists)
        order = arrange(table, lists, weight, order)  # sorted from what the weights before had made of it
        assert order.tolist() == np.lexsort((-weight, lists.node)).tolist()
        twin = scaled(table.first, table.sets.copy(), table.weight.copy(), 1.0)
        for field in table._fields[:11]:
            np.testing.assert_allclose(getattr(table, field), getattr(twin, field), rtol=1e-12, atol=0, err_msg=field)
        cells = exact.cells[3]
        completion = completion_of(data.missing_cells, cells)
        scoring, _ = data.scoring(completion)
        weigh_lists(completion, scoring, lists, np.zeros(1, dtype=np.uint64), weight)
        for node, words, found in zip(lists.node, lists.sets, weight, strict=True):
            parents = tuple(data.table.names[j] for j in range(3) if words[0] >> np.uint64(j) & np.uint64(1))
            assert found == pytest.approx(data.completed(cells).log_score(data.table.names[node], parents), abs=1e-9)
