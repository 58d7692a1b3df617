"""Transition matrices: built rightly, and refusing what is not a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.errors import ArgumentError
from doxa.mcmc.chain_theory import (
    Proposal,
    invariance_residual,
    metropolis_hastings_matrix,
    proposal_matrices,
    total_variation,
)

SKEWED = np.array([0.05, 0.5, 0.15, 0.3])


@pytest.fixture
def uneven():
    """A proposal that is far from symmetric, with rows that sum to less than 1."""
    rng = np.random.default_rng(4)
    q = rng.random((4, 4)) ** 3
    np.fill_diagonal(q, 0)
    return 0.9 * q / q.sum(axis=1, keepdims=True)


def test_the_right_hastings_term_keeps_the_target_and_none_does_not(uneven):
    right = metropolis_hastings_matrix(np.log(SKEWED), uneven)
    np.testing.assert_allclose(right.sum(axis=1), 1.0, atol=1e-15)
    assert invariance_residual(SKEWED, right) < 1e-15
    flow = SKEWED[:, None] * right
    np.testing.assert_allclose(flow, flow.T, atol=1e-16)  # detailed balance, eq. 13
    assert invariance_residual(SKEWED, metropolis_hastings_matrix(np.log(SKEWED), uneven, np.zeros((4, 4)))) > 1e-2


def test_a_one_way_proposal_is_never_accepted():
    q = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    matrix = metropolis_hastings_matrix(np.zeros(3), q)
    assert matrix[1, 2] == 0.0
    assert matrix[2, 2] == 1.0


def test_the_target_needs_no_normalising_constant(uneven):
    one = metropolis_hastings_matrix(np.log(SKEWED), uneven)
    np.testing.assert_allclose(one, metropolis_hastings_matrix(np.log(SKEWED) - 4000.0, uneven), atol=1e-12)


def test_proposals_become_matrices():
    outcomes = {0: [Proposal(1, 0.25, 0.5), Proposal(1, 0.25, 0.5)], 1: [Proposal(0, 1.0, -0.5)]}
    q, h = proposal_matrices([0, 1], outcomes.__getitem__, key=int)
    np.testing.assert_array_equal(q, [[0.0, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(h, [[0.0, 0.5], [-0.5, 0.0]])


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ([Proposal(7, 1.0, 0.0)], "state 0 proposes 7, which is not among the states"),
        (
            [Proposal(1, 0.5, 0.0), Proposal(1, 0.5, 1.0)],
            "state 0 proposes state 1 with two different Hastings terms",
        ),
        ([Proposal(1, 1.5, 0.0)], "the proposals of state 0 have total probability 1.5, above 1"),
    ],
)
def test_proposals_that_are_none_are_refused(outcomes, message):
    with pytest.raises(ArgumentError) as refused:
        proposal_matrices([0, 1], lambda state: outcomes if state == 0 else [], key=int)
    assert str(refused.value) == message


def test_shapes_must_agree():
    with pytest.raises(ArgumentError) as refused:
        metropolis_hastings_matrix([0.0, 0.0], np.eye(3))
    assert str(refused.value) == "proposal has shape (3, 3) but log_target has 2 states"


def test_total_variation_is_half_the_absolute_difference():
    assert total_variation([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert total_variation(SKEWED, SKEWED) == 0.0
