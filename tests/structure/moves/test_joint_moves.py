"""Moves that change many nodes together: plain twins keep the posterior, and the compiled steps move as those do."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.structure import Auto, SingleEdge
from doxa.structure.exact.enumeration import family_score_lists
from doxa.testing import invariance_residual
from support.checks import SEED, compare_transitions, z_limit
from support.joint_moves import distance_law, joint_parents_matrix, order_shift_matrix, orders_of, parents_of
from support.kernels import listed, path, target, transitions, with_partial_lists

EXACT = 1e-12
SEEN = 1e-4  # a broken twin must miss by more than this
NAMES = ["3 nodes", "3 nodes, 12 rows, caps", "4 nodes", "limits", "K2, odds, configurations"]
SHIFTS = Auto(single_edge=1e-12, edge_reversal=0.0, order_shift=1.0 - 1e-12, joint_parents=0.0)
JOINT = Auto(single_edge=1e-12, edge_reversal=0.0, order_shift=0.0, joint_parents=1.0 - 1e-12)


@pytest.fixture(params=NAMES)
def of(request, monkeypatch):
    """A target whose lists hold every family."""
    monkeypatch.setattr("doxa.structure.moves.listing._KEEP", np.inf)
    made = target.__wrapped__(request.param)
    assert len(made.table.sets) == sum(len(masks) for masks, _ in family_score_lists(made.scores, made.limits))
    return made  # its scores remember these lists


def test_orders_of_a_graph_are_drawn_with_probabilities_that_sum_to_one():
    for graph in parents_of(target("4 nodes").posterior.rows):
        assert sum(np.exp(log_q) for log_q in orders_of(graph).values()) == pytest.approx(1.0)
    assert len(orders_of((0, 0, 0, 0))) == 24
    assert list(orders_of((0, 1, 3, 7))) == [(0, 1, 2, 3)]
    assert orders_of((0, 0, 1)) == pytest.approx({(0, 1, 2): -np.log(4), (0, 2, 1): -np.log(4), (1, 0, 2): -np.log(2)})
    assert sum(distance_law(7).values()) == pytest.approx(1.0)


def test_order_shift_keeps_the_posterior_and_without_a_part_of_its_ratio_does_not(of):
    assert invariance_residual(of.probability, order_shift_matrix(of)) < EXACT
    assert invariance_residual(of.probability, order_shift_matrix(of, with_q=False)) > SEEN
    assert invariance_residual(of.probability, order_shift_matrix(of, with_sums=False)) > SEEN


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_order_shift_keeps_the_posterior_whatever_is_listed(of, share):
    some = with_partial_lists(of, share, seed=4)
    right = order_shift_matrix(some)
    assert invariance_residual(of.probability, right) < EXACT
    assert (np.diag(right) == 1.0).any() or not of.limits.only_caps  # graphs whose families are unlisted stay
    assert (np.diag(right) < 0.999).any()


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_joint_redrawing_keeps_the_posterior_whatever_is_listed(of, share):
    some = with_partial_lists(of, share, seed=4)
    assert invariance_residual(of.probability, joint_parents_matrix(some)) < EXACT
    assert invariance_residual(of.probability, joint_parents_matrix(some, with_orders=False)) > SEEN


def as_multiple_of_the_limit(counts, matrix):
    z, compared = compare_transitions(counts, matrix)
    assert compared > 12
    return z / z_limit(compared)


@pytest.mark.parametrize("name", ["3 nodes, 12 rows, caps", "3 nodes", "limits", "K2, limits, odds"])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_compiled_shifts_move_as_their_twin_says(name, beta):
    of = target(name, beta)
    (counts,) = transitions(path(SHIFTS, of, 400_000, SEED), len(of.posterior.rows), 1)
    assert as_multiple_of_the_limit(counts, order_shift_matrix(of)) < 1
    assert as_multiple_of_the_limit(counts, order_shift_matrix(of, with_q=False)) > 2
    if beta == 1.0 and name == "K2, limits, odds":  # where sums of lists differ enough to show in so many steps
        assert as_multiple_of_the_limit(counts, order_shift_matrix(of, with_sums=False)) > 2


@pytest.mark.parametrize("move", [SHIFTS, JOINT], ids=["shifts", "joint"])
def test_compiled_steps_move_as_their_twins_say_with_any_lists(move, monkeypatch):
    """Single edges, half of the steps, take the chain to families that are not listed."""
    of = target("3 nodes, 12 rows, caps")
    some = with_partial_lists(of, 0.7, seed=2)
    mixed = Auto(0.5, 0.0, *(0.5 * (share > 0.5) for share in (move.order_shift, move.joint_parents)))
    monkeypatch.setattr("doxa.structure.moves.sampler.parent_sets", lambda *_: some.lists)
    (counts,) = transitions(path(mixed, of, 300_000, SEED), len(of.posterior.rows), 1)
    twin = order_shift_matrix if move is SHIFTS else joint_parents_matrix
    single = listed(SingleEdge(), of)
    assert (np.diag(twin(some)) == 1.0).any()
    assert as_multiple_of_the_limit(counts, (single + twin(some)) / 2) < 1
    assert as_multiple_of_the_limit(counts, (single + twin(of)) / 2) > 2


@pytest.mark.parametrize("name", ["3 nodes, 12 rows, caps", "limits", "K2, odds, configurations"])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_compiled_joint_redrawings_move_as_their_twin_says(name, beta):
    of = target(name, beta)
    (counts,) = transitions(path(JOINT, of, 200_000, SEED), len(of.posterior.rows), 1)
    assert as_multiple_of_the_limit(counts, joint_parents_matrix(of)) < 1
    assert as_multiple_of_the_limit(counts, joint_parents_matrix(of, with_orders=False)) > 1
    assert as_multiple_of_the_limit(counts, joint_parents_matrix(target(name, 0.5 * beta))) > 1
