"""Changes of the graph with their cells: transition matrices over all pairs of a graph and a completion."""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from incomplete_cases import CASES, blanked, case, deviations, number_of

from doxa._call_at import settled
from doxa.sampling.driver import Schedule, sample
from doxa.structure import BDeu
from doxa.structure.cases.incomplete import IncompleteData, IncompleteSampler, enumerate_joint
from doxa.structure.cases.incomplete.cells_sampler import reference_lists
from doxa.structure.cases.incomplete.joint_counts import joint_work, lay_out
from doxa.structure.cases.incomplete.joint_proposals import (
    JointProposals,
    back,
    is_worth_it,
    log_estimate,
    offer,
    put_back,
    put_values,
    weigh_row,
    write_value,
)
from doxa.structure.cases.incomplete.missing_cells import completion_of
from doxa.structure.graph import working_graph
from doxa.structure.limits import capped
from doxa.testing import invariance_residual
from support.checks import SEED, compare_transitions, z_limit
from support.tables import skewed_table

EXACT = 1e-12
SEEN = 1e-4  # total variation that a broken kernel must miss by in one step


def parents_of(exact):
    return [working_graph(rows)[0] for rows in exact.rows]


def numbered(lists, parents):
    """The graph as `lay_out` takes it."""
    number = np.full(len(parents), -1)
    for place, (node, words) in enumerate(zip(lists.node, lists.sets, strict=True)):
        if np.array_equal(parents[node], words):
            number[node] = place
    return parents, number


def graphs_of(lists, exact):
    """All graphs as `lay_out` takes them."""
    return [numbered(lists, parents) for parents in parents_of(exact)]


def frozen_kernel(exact):
    """Any kernel that is reversible for any posterior of graphs: to graphs that differ in at most two families."""
    rng = np.random.default_rng(SEED)
    parents = parents_of(exact)
    frozen = rng.normal(size=len(parents))
    matrix = np.zeros((len(parents), len(parents)))
    for a, b in permutations(range(len(parents)), 2):
        differ = int((parents[a] != parents[b]).any(axis=1).sum())
        if differ == 1 or (differ == 2 and (a + b) % 3 == 0):
            matrix[a, b] = min(1.0, np.exp(frozen[b] - frozen[a])) / len(parents)
    return frozen, matrix


def ways(n_rows, data, completion, work):
    """All joint draws of `forth`: their probability, the log of the product of sums, and the values."""
    found = []

    def go_on(number, probability, total, values):
        if number == n_rows:
            found.append((probability, total, values))
            return
        counts = work.there.counts.copy()
        size, joint, mass, factor = settled(weigh_row)(work.rows[number], completion, work, work.there)
        weights, cells = work.weights[:joint].copy(), work.cells[:size].copy()
        codes = work.codes.copy()
        for value in range(joint):
            work.codes[:], work.cells[:size] = codes, cells
            settled(write_value)(value, size, completion.n_states, work)
            settled(put_back)(completion, work, work.there)
            go_on(number + 1, probability * weights[value] / mass, total + np.log(mass * factor), [*values, value])
            work.there.counts[:] = counts

    go_on(0, 1.0, 0.0, [])
    return found


def outcomes(data, lists, exact, before, number, after, log_frozen, *, order=1, twin="", power=1.0, beta=1.0):
    """Of an offer from a graph and completion: the accepted completions with their probability.

    The target is the posterior to a ``power``, and ``beta`` is that of the cells' proposals.
    """
    completion, work = completion_of(data.missing_cells, exact.cells[number]), joint_work(data, beta)
    n_rows = settled(lay_out)(before, after, completion, lists, data.rule, work)
    if twin == "rows stay in":
        n_rows = lay_out_with(before, after, completion, lists, data, work)
    work.rows[:n_rows] = work.rows[:n_rows][::order]
    arrays = data.prior.arrays
    ratio = settled(log_estimate)(after[0], completion.n_states, arrays, work.there)
    ratio = power * (ratio - settled(log_estimate)(before[0], completion.n_states, arrays, work.here)) - log_frozen
    backward = settled(back)(n_rows, completion, work)
    found = []
    for probability, forward, values in ways(n_rows, data, completion, work):
        accepted = ratio + (0.0 if twin == "cells for nothing" else forward - backward)
        drawn = completion_of(data.missing_cells, exact.cells[number])
        work.values[: len(values)] = values
        settled(put_values)(n_rows, drawn, work)
        cells = drawn.rows[data.missing_cells.row, data.missing_cells.column]
        found.append((number_of(exact, cells), probability * min(1.0, np.exp(accepted))))
    return found


def lay_out_with(before, after, completion, lists, data, work):
    """A broken layout: the rows are drawn, but never taken out of the counts."""
    n_rows = settled(lay_out)(before, after, completion, lists, data.rule, work)
    for side in (work.here, work.there):
        for number in range(n_rows):
            work.codes[:] = completion.rows[work.rows[number]]
            put_back(completion, work, side)
    return n_rows


def matrix_of(name, *, listed=True, **options):
    data, limits, exact = case(name)
    lists, _ = reference_lists(data, limits, 1, keep_within=1.0 if listed else 0.0)
    frozen, steps = frozen_kernel(exact)
    graphs = graphs_of(lists, exact)
    n_graphs, n_completions = exact.probability.shape
    matrix = np.zeros((n_graphs, n_completions, n_graphs, n_completions))
    for here, there in zip(*np.nonzero(steps), strict=True):
        for number in range(n_completions):
            log_frozen = frozen[there] - frozen[here]
            found = outcomes(data, lists, exact, graphs[here], number, graphs[there], log_frozen, **options)
            for after, probability in found:
                matrix[here, number, there, after] += steps[here, there] * probability
    matrix = matrix.reshape(exact.probability.size, -1)
    return matrix + np.diag(1.0 - matrix.sum(axis=1))


@cache
def usual_matrix(name):
    return matrix_of(name)


def missed(name, matrix):
    target = case(name)[2].probability.ravel()
    return 0.5 * np.abs(target @ matrix - target).sum()


@pytest.mark.parametrize("name", CASES)
def test_a_change_of_the_graph_with_its_cells_keeps_the_posterior(name):
    exact, matrix = case(name)[2], usual_matrix(name)
    assert matrix.min() > -EXACT
    assert invariance_residual(exact.probability.ravel(), matrix) < EXACT
    assert np.trace(matrix) < 0.9 * len(matrix)  # something moves


def test_the_order_of_the_rows_and_the_lists_do_not_matter_to_that():
    target = case("BDeu")[2].probability.ravel()
    other = matrix_of("BDeu", order=-1)
    assert invariance_residual(target, other) < EXACT
    assert np.abs(other - usual_matrix("BDeu")).max() > 1e-6  # though it is another kernel
    np.testing.assert_allclose(matrix_of("BDeu", listed=False), usual_matrix("BDeu"), atol=1e-12)


@pytest.mark.parametrize("twin", ["cells for nothing", "rows stay in"])
def test_a_broken_offer_does_not_keep_it(twin):
    assert missed("BDeu", matrix_of("BDeu", twin=twin)) > SEEN


@pytest.mark.parametrize(("name", "thin", "power"), [("BDeu", 7, 1.0), ("limits, odds", 1, 1.0), ("BDeu", 9, 0.4)])
def test_the_compiled_offer_moves_as_the_matrix_says(name, thin, power):
    data, limits, exact = case(name)
    lists, _ = reference_lists(data, limits, 1, keep_within=1.0)
    frozen, steps = frozen_kernel(exact)
    graphs = graphs_of(lists, exact)
    n_completions = len(exact.cells)
    rng = np.random.default_rng(SEED)
    rows, expected = [], []
    work = joint_work(data, power)
    for here, there in list(zip(*np.nonzero(steps), strict=True))[::thin]:
        number = int(rng.random() * n_completions)
        log_frozen = frozen[there] - frozen[here]
        chances = np.zeros(n_completions + 1)
        for order in (1, -1):  # of at most two rows: each order has the same chance
            pair = graphs[here], number, graphs[there]
            for after, chance in outcomes(data, lists, exact, *pair, log_frozen, order=order, power=power, beta=power):
                chances[after] += chance / 2
        chances[-1] = max(0.0, 1.0 - chances.sum())
        seen = np.zeros(n_completions + 1, dtype=np.int64)
        for _ in range(600):
            completion = completion_of(data.missing_cells, exact.cells[number])
            arrays = data.prior.arrays
            terms = (lists, data.rule, arrays)
            taken = settled(offer)(graphs[here], graphs[there], log_frozen, completion, terms, work, rng)
            cells = completion.rows[data.missing_cells.row, data.missing_cells.column]
            if not taken:
                assert np.array_equal(cells, exact.cells[number])
            seen[number_of(exact, cells) if taken else -1] += 1
        rows.append(seen)
        expected.append(chances)
    z, n = compare_transitions(np.array(rows), np.array(expected))
    assert n > 10
    assert z < z_limit(n)


def test_what_is_worth_an_offer_is_the_same_both_ways():
    data, limits, exact = case("BDeu")
    lists, _ = reference_lists(data, limits, 1, keep_within=1.0)
    weights = np.random.default_rng(SEED).normal(size=(3, lists.n_sets))
    graphs = graphs_of(lists, exact)
    answers = {(a, b): is_worth_it(graphs[a], graphs[b], weights, 2.0) for a, b in permutations(range(len(graphs)), 2)}
    assert all(answers[a, b] == answers[b, a] for a, b in answers)
    assert set(answers.values()) == {True, False}


def by_joint_proposals_alone(least_spread, draws=2000):
    """A chain whose graph moves with its cells or hardly at all."""
    data = IncompleteData(holed(), BDeu())
    sampler = IncompleteSampler(data, capped([2, 2, 2]), steps=1, joint_proposals=20, least_spread=least_spread)
    return data, sample(sampler, Schedule(2, draws, 100), seed=SEED)


def holed():
    return blanked(skewed_table(3, 14, seed=7, n_states=2), 0.3, seed=3)


@pytest.mark.parametrize("least_spread", [0.0, 0.3])
def test_chains_that_move_by_excursions_agree_with_the_exact_sum(least_spread):
    data, trace = by_joint_proposals_alone(least_spread)
    of_edges, of_cells, n = deviations(data, trace, enumerate_joint(data, capped([2, 2, 2])))
    assert max(of_edges, of_cells) < z_limit(n)
    assert (trace.info["joint_accepted"] > 1000).all()


def test_offers_that_forget_the_frozen_posterior_fail_the_same_check(monkeypatch):
    right = JointProposals.run

    def wrong(self, number, rows, completion, rng):
        self.data.prior.arrays[1][:] += 0.7  # what is offered is weighed by another prior than the chain's
        try:
            return right(self, number, rows, completion, rng)
        finally:
            self.data.prior.arrays[1][:] -= 0.7

    monkeypatch.setattr(JointProposals, "run", wrong)
    data, trace = by_joint_proposals_alone(0.0)
    of_edges, of_cells, n = deviations(data, trace, enumerate_joint(data, capped([2, 2, 2])), least_ess=100)
    assert max(of_edges, of_cells) > z_limit(n)
