"""The compiled loops move as the matrices of `test_invariance` say, step by step, at any temperature."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from doxa.structure import EMC3, Auto, Cycle, EdgeGibbs, EdgeReversal, MarkovBlanket, ParentSetGibbs, SingleEdge
from doxa.structure.families.cache import FamilyScores
from doxa.testing import cycle_matrix, metropolis_hastings_matrix, mixture_matrix, proposal_matrices
from support.checks import SEED, compare_transitions, z_limit
from support.kernels import (
    blanket_visits,
    covered_arc_matrix,
    key,
    outcomes,
    path,
    step_matrices,
    target,
    transitions,
)

LIGHT = "3 nodes, 12 rows, caps"  # few records: every graph is visited
BLANKET = MarkovBlanket(k=1, w=0.6, covered_arc_reversals=1)
TURNS = Cycle([(EdgeReversal(), 1), (ParentSetGibbs(), 2), (BLANKET, 4), (EdgeGibbs(), 2)])  # 27 steps a cycle
ONE_STEP = [
    SingleEdge(),
    EMC3(1),
    EMC3(3),
    EMC3(3, published=True),
    ParentSetGibbs(),
    EdgeGibbs(scan="random"),
    Auto(),
    Auto(single_edge=0.5, edge_reversal=0.0),
]
IN_TURN = [
    EdgeGibbs(),
    EdgeGibbs(scan=[(0, 1), (2, 1), (0, 1), (0, 2)]),
    BLANKET,
    MarkovBlanket(k=1, w=0.6, covered_arc_reversals=0),
    MarkovBlanket(k=1, w=0.6, covered_arc_reversals=0, pair_weights=[[9, 5, 1], [5, 9, 2], [1, 2, 9]]),
    Cycle([(EdgeReversal(), 3), (ParentSetGibbs(), 4)]),
    TURNS,
]

SOME = [SingleEdge(), EMC3(2), BLANKET, EdgeGibbs(), ParentSetGibbs(), Auto()]


def compare(counts, matrices):
    """Largest z of all phases against their matrices, as a multiple of its limit."""
    found = [compare_transitions(phase, matrix) for phase, matrix in zip(counts, matrices, strict=True)]
    total = sum(compared for _, compared in found)
    return max(z for z, _ in found) / z_limit(total), total


def walked(move, of, n_steps=100_000, seed=0):
    """Transitions of one chain by phase, beside their matrices."""
    matrices = step_matrices(move, of)
    walk = path(move, of, n_steps, SEED + seed)
    return transitions(walk, len(of.posterior.rows), len(matrices)), matrices


@pytest.mark.parametrize("move", [*ONE_STEP, *IN_TURN], ids=repr)
def test_loops_move_as_their_matrices_say(move):
    of = target(LIGHT)
    counts, matrices = walked(move, of)
    worst, compared = compare(counts, matrices)
    assert compared > 40 * min(3, len(matrices))
    assert worst < 1
    assert compare(counts, step_matrices(move, of, hastings=False))[0] > 2
    if len(matrices) > 1:
        assert compare(counts, [*matrices[1:], matrices[0]])[0] > 2  # the same steps, one too early


@pytest.mark.parametrize(
    "move", [SingleEdge(), EMC3(2), BLANKET, EdgeGibbs(), ParentSetGibbs(), Auto(), TURNS], ids=repr
)
@pytest.mark.parametrize("beta", [0.5, 0.0])
def test_loops_move_at_any_temperature(move, beta):
    of = target("3 nodes", beta)
    counts, matrices = walked(move, of, seed=1)
    assert compare(counts, matrices)[0] < 1
    assert compare(counts, step_matrices(move, replace(of, beta=1.0)))[0] > 2


def test_a_chain_at_half_temperature_visits_graphs_by_the_root_of_their_probability():
    of = target("3 nodes", 0.5)
    walk = path(Auto(), of, 400_000, SEED)[::20]
    seen = np.bincount(walk, minlength=25)
    expected = len(walk) * of.probability
    usual = expected >= 30
    assert usual.sum() > 15
    error = np.sqrt(3 * expected * (1 - of.probability))[usual]  # draws 20 steps apart are nearly independent
    assert np.abs((seen - expected)[usual] / error).max() < z_limit(25)
    warm = len(walk) * target("3 nodes").probability
    assert np.abs((seen - warm)[usual] / error).max() > 2 * z_limit(25)


@pytest.mark.parametrize("name", ["3 nodes", "limits", "K2, limits, odds", "K2, odds, configurations", "BIC"])
@pytest.mark.parametrize("move", SOME, ids=repr)
def test_loops_obey_limits_priors_and_scores(move, name):
    """BIC and K2, tiers and odds, on four nodes; `path` refuses a graph outside the limits."""
    of = target(name)
    counts, matrices = walked(move, of, 200_000, seed=2)
    worst, compared = compare(counts, matrices)
    assert worst < 1
    assert compared > 20


def test_auto_draws_its_moves_in_their_shares():
    of = target(LIGHT)
    counts, matrices = walked(Auto(single_edge=0.3, edge_reversal=0.3), of, 300_000)
    assert compare(counts, matrices)[0] < 1
    for other in (Auto(single_edge=0.25, edge_reversal=0.3), Auto(single_edge=0.3, edge_reversal=0.35)):
        assert compare(counts, step_matrices(other, of))[0] > 1


@pytest.mark.parametrize("move", [ParentSetGibbs(), Auto(), Cycle([(EdgeReversal(), 3), (SingleEdge(), 4)])], ids=repr)
def test_loops_with_short_lists_move_as_their_matrices_say(move, monkeypatch):
    """With subsets that are a little better, a set is dropped: many families are in no list."""
    whole = target(LIGHT)
    n_sets = len(whole.table.sets)  # whose lists are made here, if no test before has asked for them
    monkeypatch.setattr("doxa.structure.moves.listing._KEEP", 0.3)
    of = replace(whole, scores=FamilyScores(whole.scores.table))
    assert len(of.table.sets) < n_sets / 1.3
    counts, matrices = walked(move, of, seed=3)
    assert compare(counts, matrices)[0] < 1
    assert compare(counts, step_matrices(move, whole))[0] > 2


@pytest.mark.parametrize("reversals", [0, 2])
def test_centres_at_random_are_drawn_on_arrival_and_kept_for_a_visit(reversals):
    of = target(LIGHT)
    move = MarkovBlanket(k=1, w=0.6, covered_arc_reversals=reversals, scan="random")
    walk = path(move, of, 400_000, SEED + 4)
    counts = transitions(walk, len(of.posterior.rows), 1, stride=2)
    visits = blanket_visits(move, of)
    right = mixture_matrix([cycle_matrix(visit) for visit in visits])
    assert compare(counts, [right])[0] < 1
    anew = cycle_matrix([mixture_matrix([visit[step] for visit in visits]) for step in range(2)])
    assert compare(counts, [anew])[0] > 1.5  # a centre drawn at every step would be another chain
    broken = mixture_matrix([cycle_matrix(visit) for visit in blanket_visits(move, of, hastings=False)])
    assert compare(counts, [broken])[0] > 2


def test_printed_markov_blanket_keeps_its_block_for_a_visit():
    of = target(LIGHT)
    move = MarkovBlanket(k=1, covered_arc_reversals=0, published=True)
    walk = path(move, of, 300_000, SEED + 2)
    n = len(of.posterior.rows)
    counts = transitions(walk, n, 3, stride=2)[0]  # visits of node 0
    blocks = np.array([move.block(graph, 0)[0] for graph in of.posterior.rows])
    matrix = np.zeros((n, n))
    for block in np.unique(blocks):
        words = np.array([block], dtype=np.uint64)
        step = partial(move.proposals, limits=of.limits, centre=0, block=words)
        q, _ = proposal_matrices(list(of.posterior.rows), step, key)
        power = np.linalg.matrix_power(metropolis_hastings_matrix(of.log_target, q, 0 * q), 2)
        matrix[blocks == block] = power[blocks == block]
    assert compare([counts], [matrix])[0] < 1
    corrected = cycle_matrix(blanket_visits(MarkovBlanket(k=1, covered_arc_reversals=0), of)[0])
    assert compare([counts], [corrected])[0] > 2


def test_published_covered_arc_reversals_are_never_refused():
    of = target(LIGHT)
    counts, _ = walked(EMC3(3, published=True), of)
    assert compare(counts, step_matrices(EMC3(3), of))[0] > 2
    q, _ = outcomes("covered arcs", of)
    assert np.array_equal(covered_arc_matrix(of, published=True) - np.diag(1 - q.sum(axis=1)), q)
