"""Transition matrices of kernels: built rightly, and refusing what is not a kernel."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.errors import ArgumentError
from doxa.testing import (
    FiniteChain,
    Proposal,
    cycle_matrix,
    detailed_balance_residual,
    gibbs_matrix,
    independence_rate,
    invariance_residual,
    metropolis_hastings_matrix,
    mixture_matrix,
    proposal_matrices,
    simulated_invariance,
)
from support.refusals import message_of

SKEWED = np.array([0.05, 0.5, 0.15, 0.3])
JOINT = np.random.default_rng(8).dirichlet(np.full(12, 0.4)).reshape(2, 3, 2)  # three dependent variables


@pytest.fixture
def uneven():
    """A proposal that is far from symmetric, with rows that sum to less than 1."""
    rng = np.random.default_rng(4)
    q = rng.random((4, 4)) ** 3
    np.fill_diagonal(q, 0)
    return 0.9 * q / q.sum(axis=1, keepdims=True)


# Metropolis-Hastings


def test_the_right_hastings_term_keeps_the_target_and_none_does_not(uneven):
    right = metropolis_hastings_matrix(np.log(SKEWED), uneven)
    np.testing.assert_allclose(right.sum(axis=1), 1.0, atol=1e-15)
    assert invariance_residual(SKEWED, right) < 1e-15
    assert detailed_balance_residual(SKEWED, right) < 1e-16  # eq. 13
    np.testing.assert_allclose(FiniteChain(right).stationary, SKEWED, rtol=1e-13)
    broken = metropolis_hastings_matrix(np.log(SKEWED), uneven, np.zeros((4, 4)))
    assert invariance_residual(SKEWED, broken) > 1e-2
    assert np.abs(FiniteChain(broken).stationary - SKEWED).max() > 1e-2


def test_the_matrix_is_eq_14_and_the_printed_step_3b_is_not(uneven):
    right = metropolis_hastings_matrix(np.log(SKEWED), uneven)
    printed = np.zeros((4, 4))  # min(1, pi_x* q_{x_t x*} / (pi_x_t q_{x_t x*})): the proposal cancels
    for x, y in product(range(4), range(4)):
        if x != y:
            ratio = SKEWED[y] * uneven[y, x] / (SKEWED[x] * uneven[x, y])
            assert right[x, y] == pytest.approx(uneven[x, y] * min(1.0, ratio), rel=1e-14)
            printed[x, y] = uneven[x, y] * min(1.0, SKEWED[y] / SKEWED[x])
    np.fill_diagonal(printed, 1 - printed.sum(axis=1))
    assert invariance_residual(SKEWED, printed) > 1e-2


def test_eq_15_needs_the_factor_it_lacks(uneven):
    right = metropolis_hastings_matrix(np.log(SKEWED), uneven)
    checked = 0
    for x, y in product(range(4), range(4)):
        if x != y and SKEWED[x] * uneven[x, y] >= SKEWED[y] * uneven[y, x]:
            printed = SKEWED[x] * (SKEWED[y] * uneven[y, x] / (SKEWED[x] * uneven[x, y]))
            assert uneven[x, y] * printed == pytest.approx(SKEWED[x] * right[x, y], rel=1e-13)
            assert SKEWED[x] * right[x, y] == pytest.approx(SKEWED[y] * right[y, x], rel=1e-13)
            assert abs(printed / (SKEWED[x] * right[x, y]) - 1) > 0.1
            checked += 1
    assert checked == 6


def test_a_symmetric_proposal_needs_no_hastings_term():
    q = np.full((4, 4), 0.25)
    np.testing.assert_array_equal(  # eq. 16
        metropolis_hastings_matrix(np.log(SKEWED), q), metropolis_hastings_matrix(np.log(SKEWED), q, np.zeros((4, 4)))
    )


@settings(deadline=None)
@given(st.integers(2, 5), st.integers(0, 10**6))
def test_an_irreducible_proposal_makes_an_irreducible_chain(n, seed):
    """The slides' claim, with q_ij > 0 iff q_ji > 0; the same for aperiodicity, of which the chain may have more."""
    rng = np.random.default_rng(seed)
    support = rng.random((n, n)) < 0.4
    support |= support.T
    support[np.arange(n - 1), np.arange(1, n)] = support[np.arange(1, n), np.arange(n - 1)] = True
    q = support * rng.random((n, n))
    q /= q.sum(axis=1, keepdims=True)
    target = rng.dirichlet(np.full(n, 0.5)) + 1e-3
    chain = FiniteChain(metropolis_hastings_matrix(np.log(target), q))
    assert chain.is_irreducible
    assert chain.is_reversible
    assert chain.period <= FiniteChain(q).period
    np.testing.assert_allclose(chain.stationary, target / target.sum(), rtol=1e-12)


def test_a_chain_without_rejections_can_be_periodic():
    swap = [[0.0, 1.0], [1.0, 0.0]]
    assert FiniteChain(metropolis_hastings_matrix([0.0, 0.0], swap)).period == 2
    assert FiniteChain(metropolis_hastings_matrix([0.0, -0.1], swap)).period == 1


def test_a_one_way_proposal_is_never_accepted():
    q = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    matrix = metropolis_hastings_matrix(np.zeros(3), q)
    assert matrix[1, 2] == 0.0
    assert matrix[2, 2] == 1.0
    assert [one.states for one in FiniteChain(matrix).classes] == [(0, 1), (2,)]


def test_the_target_needs_no_normalising_constant(uneven):
    one = metropolis_hastings_matrix(np.log(SKEWED), uneven)
    np.testing.assert_allclose(one, metropolis_hastings_matrix(np.log(SKEWED) - 4000.0, uneven), atol=1e-12)


def test_states_of_probability_zero_are_left_and_never_entered():
    q = np.full((4, 4), 0.25)
    matrix = metropolis_hastings_matrix([-np.inf, 0.0, -np.inf, 0.0], q)
    np.testing.assert_allclose(matrix[0], [0.5, 0.25, 0.0, 0.25])  # 0/0 = 0 between states 0 and 2
    np.testing.assert_allclose(matrix[1], [0.0, 0.75, 0.0, 0.25])
    np.testing.assert_allclose(FiniteChain(matrix).stationary, [0.0, 0.5, 0.0, 0.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 0.0], np.eye(3)), "proposal has shape (3, 3) but log_target has 2 states"),
        (([[0.0, 0.0]], np.eye(2)), "proposal has shape (2, 2) but log_target has 2 states"),
        (([0.0, np.nan], np.eye(2)), "log_target[1] is nan; log probabilities are below infinity"),
        (([np.inf, 0.0], np.eye(2)), "log_target[0] is inf; log probabilities are below infinity"),
        (([-np.inf, -np.inf], np.eye(2)), "log_target is -inf everywhere; at least one state has a probability"),
        (([0.0, 0.0], [[0.5, np.nan], [0.5, 0.5]]), "proposal[0, 1] is nan; it must be a finite number"),
        (([0.0, 0.0], [[0.5, -0.5], [0.5, 0.5]]), "proposal[0, 1] is -0.5; probabilities are at least 0"),
        (([0.0, 0.0], [[0.5, 0.5], [0.5, 0.75]]), "row 1 of proposal sums to 1.25, above 1"),
        (([0.0, 0.0], np.eye(2), [0.0, 0.0]), "log_hastings has shape (2,) but proposal has shape (2, 2)"),
        (
            ([0.0, 0.0], np.full((2, 2), 0.5), [[0.0, 0.0], [np.nan, 0.0]]),
            "log_hastings[1, 0] is nan, though state 1 proposes state 0",
        ),
    ],
)
def test_what_is_not_a_metropolis_hastings_kernel_is_refused(arguments, message):
    assert message_of(lambda: metropolis_hastings_matrix(*arguments)) == message


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
    assert (
        message_of(lambda: proposal_matrices([0, 1], lambda state: outcomes if state == 0 else [], key=int)) == message
    )


# Gibbs


@pytest.mark.parametrize("block", [0, 1, 2, (0, 1), (2, 0), (1, 2), (2, 1, 0)])
def test_a_gibbs_step_is_the_conditional_distribution(block):
    matrix = gibbs_matrix(JOINT, block)
    axes = (block,) if isinstance(block, int) else block
    states = list(product(*map(range, JOINT.shape)))
    for (i, x), (j, y) in product(enumerate(states), enumerate(states)):
        same = all(x[a] == y[a] for a in range(3) if a not in axes)
        given_rest = sum(JOINT[z] for z in states if all(x[a] == z[a] for a in range(3) if a not in axes))
        assert matrix[i, j] == pytest.approx(JOINT[y] / given_rest if same else 0.0, rel=1e-14)
    assert detailed_balance_residual(JOINT.ravel(), matrix) < 1e-16
    np.testing.assert_allclose(  # the Metropolis-Hastings ratio is 1
        metropolis_hastings_matrix(np.log(JOINT.ravel()), matrix), matrix, atol=1e-14
    )


def test_scans_keep_the_target_and_reach_it():
    steps = [gibbs_matrix(JOINT, variable) for variable in range(3)]
    assert len(FiniteChain(steps[0]).classes) == 6  # one variable alone goes nowhere
    systematic, random = FiniteChain(cycle_matrix(steps)), FiniteChain(mixture_matrix(steps))
    palindrome = FiniteChain(cycle_matrix([*steps, *reversed(steps)]))
    for chain in (systematic, random, palindrome):
        np.testing.assert_allclose(chain.stationary, JOINT.ravel(), rtol=1e-12)
        assert chain.period == 1
    assert random.is_reversible
    assert palindrome.is_reversible
    assert not systematic.is_reversible
    assert (FiniteChain(mixture_matrix(steps)).eigenvalues > -1e-14).all()  # Liu, Wong & Kong 1995
    assert FiniteChain(gibbs_matrix(JOINT, (0, 1, 2))).rate_of_convergence < 1e-14


def test_a_step_from_the_wrong_distribution_is_seen():
    steps = [gibbs_matrix(JOINT, 0), gibbs_matrix(JOINT, 1), gibbs_matrix(np.sqrt(JOINT), 2)]
    assert invariance_residual(JOINT.ravel(), cycle_matrix(steps)) > 1e-3
    assert invariance_residual(JOINT.ravel(), mixture_matrix(steps)) > 1e-3


def test_gibbs_needs_no_normalising_constant():
    np.testing.assert_allclose(gibbs_matrix(7 * JOINT, 1), gibbs_matrix(JOINT, 1), rtol=1e-14)


def test_gibbs_without_positivity_is_caught_in_its_classes():
    copies = np.array([[0.3, 0.0], [0.0, 0.7]])
    assert message_of(lambda: gibbs_matrix(copies, 0)) == (
        "joint[0, 1] is 0: Gibbs steps need p(x) > 0 to be sure of reaching every state; "
        "require_positive=False builds the matrix all the same, to look at its classes"
    )
    steps = [gibbs_matrix(copies, variable, require_positive=False) for variable in (0, 1)]
    support = np.flatnonzero(copies)
    chain = FiniteChain(cycle_matrix(steps)).restricted_to(support)
    assert invariance_residual(copies.ravel(), cycle_matrix(steps)) == 0.0  # it keeps its target ...
    assert [one.states for one in chain.classes] == [(0,), (1,)]  # ... and never gets there
    blocked = FiniteChain(gibbs_matrix(copies, (0, 1), require_positive=False))
    np.testing.assert_allclose(blocked.stationary, [0.3, 0.0, 0.0, 0.7])


def test_zeros_do_not_always_stop_gibbs():
    corner = np.array([[0.5, 0.25], [0.25, 0.0]])
    steps = [gibbs_matrix(corner, variable, require_positive=False) for variable in (0, 1)]
    chain = FiniteChain(cycle_matrix(steps))
    np.testing.assert_allclose(chain.stationary, corner.ravel(), rtol=1e-14)


def test_a_state_without_a_conditional_stays():
    island = np.array([[0.5, 0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(gibbs_matrix(island, 1, require_positive=False)[2:, 2:], np.eye(2))


@pytest.mark.parametrize(
    ("joint", "block", "message"),
    [
        (JOINT, 3, "block has variable 3; the variables of joint are 0..2"),
        (JOINT, -1, "block has variable -1; the variables of joint are 0..2"),
        (JOINT, (0, 0), "block has variable 0 twice"),
        (JOINT, (), "block is empty; a Gibbs step draws at least one variable"),
        (0.5, 0, "joint has no probability in it; give an array with one axis a variable"),
        (np.zeros((2, 2)), 0, "joint has no probability in it; give an array with one axis a variable"),
        ([[0.5, -0.5], [0.5, 0.5]], 0, "joint[0, 1] is -0.5; probabilities are at least 0"),
        ([[0.5, np.nan], [0.5, 0.5]], 0, "joint[0, 1] is nan; it must be a finite number"),
    ],
)
def test_what_is_not_a_gibbs_step_is_refused(joint, block, message):
    assert message_of(lambda: gibbs_matrix(joint, block)) == message


# mixtures and cycles


def test_a_mixture_weighs_and_a_cycle_goes_in_order():
    right, left = np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(cycle_matrix([right, left]), left)
    np.testing.assert_array_equal(cycle_matrix([left, right]), right)
    np.testing.assert_array_equal(mixture_matrix([right, left], [0.25, 0.75]), 0.25 * right + 0.75 * left)
    np.testing.assert_array_equal(mixture_matrix([right, left]), 0.5 * right + 0.5 * left)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mixture_matrix([]), "matrices is empty; give at least one"),
        (lambda: cycle_matrix([]), "matrices is empty; give at least one"),
        (lambda: cycle_matrix([np.eye(2), np.eye(3)]), "matrices[1] has 3 states but matrices[0] has 2"),
        (lambda: cycle_matrix([np.eye(2), [[0.5, 0.4], [0, 1]]]), "row 0 of matrices[1] sums to 0.9, not 1"),
        (lambda: mixture_matrix([np.eye(2)] * 2, [0.5, 0.4]), "weights sums to 0.9, not 1"),
        (lambda: mixture_matrix([np.eye(2)] * 2, [1.5, -0.5]), "weights[1] is -0.5; probabilities are at least 0"),
        (lambda: mixture_matrix([np.eye(2)] * 2, [1.0]), "weights has 1 entries but there are 2 matrices"),
        (lambda: mixture_matrix([np.eye(2)], [[1.0]]), "weights has shape (1, 1); it is one row of probabilities"),
    ],
)
def test_what_is_not_a_mixture_or_cycle_is_refused(call, message):
    assert message_of(call) == message


# the independence sampler


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**6))
def test_the_rate_of_an_independence_sampler_is_the_second_eigenvalue(n, seed):
    rng = np.random.default_rng(seed)
    target, proposal = rng.dirichlet(np.full(n, 0.7), size=2) + 1e-4
    target, proposal = target / target.sum(), proposal / proposal.sum()
    rate = independence_rate(target, proposal)
    chain = FiniteChain(metropolis_hastings_matrix(np.log(target), np.tile(proposal, (n, 1))))
    assert chain.eigenvalues[1] == pytest.approx(rate, abs=1e-13)
    assert chain.rate_of_convergence == pytest.approx(rate, abs=1e-13)
    assert (chain.total_variation_by_step(20) <= rate ** np.arange(21.0) + 1e-13).all()
    z = (proposal / target).argmin()
    np.testing.assert_allclose(chain.matrix[:, z], proposal[z] + rate * np.eye(n)[z], atol=1e-13)  # the proof
    other = 1 - float((target / proposal).min())  # the ratio turned round
    assert abs(other - rate) > 1e-9 or n == 2


def test_the_rates_at_the_ends():
    assert independence_rate(SKEWED, SKEWED) == 0.0
    assert independence_rate([0.5, 0.5], [1.0, 0.0]) == 1.0
    target, proposal = np.array([0.25, 0.75, 0.0]), np.array([0.4, 0.4, 0.2])
    with np.errstate(divide="ignore"):
        chain = FiniteChain(metropolis_hastings_matrix(np.log(target), np.tile(proposal, (3, 1))))
    assert chain.rate_of_convergence == pytest.approx(independence_rate(target, proposal), abs=1e-15)


@pytest.mark.parametrize(
    ("target", "proposal", "message"),
    [
        ([0.5, 0.4], [0.5, 0.5], "target sums to 0.9, not 1"),
        ([0.5, 0.5], [0.5, 0.6], "proposal sums to 1.1, not 1"),
        ([0.5, 0.5], [1.0], "proposal has 1 entries but there are 2 states"),
        ([0.5, 0.5], [1.5, -0.5], "proposal[1] is -0.5; probabilities are at least 0"),
        ([[1.0]], [1.0], "target has shape (1, 1); it is one row of probabilities"),
    ],
)
def test_what_is_not_a_distribution_is_refused(target, proposal, message):
    assert message_of(lambda: independence_rate(target, proposal)) == message


def test_simulated_invariance_refuses_what_is_no_kernel():
    with pytest.raises(ArgumentError, match="step led from state 0 to 2, which is not among the 2 states"):
        simulated_invariance(lambda _state, _rng: 2, [1.0, 0.0])
    with pytest.raises(ArgumentError, match="nearly all its probability in one state"):
        simulated_invariance(lambda _state, _rng: 0, [1.0, 0.0])


def test_simulated_invariance_gives_a_right_kernel_uniform_p_values_and_sees_a_wrong_one():
    """Gibbs sampling of one of two bits; the twin draws the bit by its marginal."""
    joint = np.array([[0.4, 0.1], [0.15, 0.35]])

    def gibbs(state, rng, weights=None):
        other = state % 2
        column = joint[:, other] / joint[:, other].sum() if weights is None else weights
        return 2 * int(rng.random() < column[1]) + other

    p = [simulated_invariance(gibbs, joint.ravel(), 500, seed) for seed in range(200)]
    assert abs(np.mean(p) - 0.5) < 4 * np.sqrt(1 / 12 / 200)
    assert simulated_invariance(lambda s, rng: gibbs(s, rng, joint.sum(axis=1)), joint.ravel(), 500) < 1e-6
