"""Finite chains: each answer against a slow exact one, a known formula, or a simulation; with twins that fail."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, gcd, log, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from doxa.errors import ArgumentTypeError
from doxa.testing import (
    FiniteChain,
    detailed_balance_residual,
    invariance_residual,
    metropolis_hastings_matrix,
    stationary_distribution,
    total_variation,
)
from support.checks import SEED, z_limit
from support.refusals import message_of

SKEWED = np.array([0.05, 0.5, 0.15, 0.3])
TWO_CLASSES = np.array([[0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.25, 0.5, 0.25], [0.0, 0.0, 0.0, 1.0]])


def gamblers_ruin(n, p=0.4):
    matrix = np.diag(np.full(n, p), 1) + np.diag(np.full(n, 1 - p), -1)
    matrix[0] = np.eye(n + 1)[0]
    matrix[n] = np.eye(n + 1)[n]
    return matrix


def ehrenfest(n):
    """Of n particles in two urns one changes sides at each step: autoregressive, with coefficient 1 - 2/n."""
    inside = np.arange(n + 1)
    return np.diag((n - inside[:-1]) / n, 1) + np.diag(inside[1:] / n, -1)


def cycle_walk(n, forward):
    return forward * np.roll(np.eye(n), 1, axis=1) + (1 - forward) * np.roll(np.eye(n), -1, axis=1)


@st.composite
def stochastic(draw, max_states=6, irreducible=False, slow=True):
    weights = st.sampled_from([0, 0, 0, 1, 2, 7, 30, 1e-4] if slow else [0, 0, 0, 1, 2, 7])
    n = draw(st.integers(1, max_states))
    matrix = np.array(draw(st.lists(weights, min_size=n * n, max_size=n * n)), dtype=float).reshape(n, n)
    if irreducible:
        order = draw(st.permutations(range(n)))
        matrix[order, np.roll(order, 1)] += 1.0
    matrix[matrix.sum(axis=1) == 0, draw(st.integers(0, n - 1))] = 1.0
    return matrix / matrix.sum(axis=1, keepdims=True)


@st.composite
def reversible(draw, max_states=6):
    """A random walk on a weighted graph, some of it lazy."""
    n = draw(st.integers(2, max_states))
    weights = st.sampled_from([0.0, 1.0, 2.0, 7.0, 0.01])
    half = np.array(draw(st.lists(weights, min_size=n * n, max_size=n * n))).reshape(n, n)
    flow = half + half.T + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    return flow / flow.sum(axis=1, keepdims=True)


# exact arithmetic


def exact_solve(a, b):
    """Solve a x = b in fractions."""
    rows = [[*row, right] for row, right in zip(a, b, strict=True)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k]:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def exact_matrix(matrix):
    """The chain that the off-diagonal floats stand for: its diagonal is what is missing to 1, exactly."""
    p = [[Fraction(float(value)) for value in row] for row in matrix]
    for i, row in enumerate(p):
        row[i] = 1 - sum(row[:i]) - sum(row[i + 1 :])
    return p


def exact_stationary(matrix):
    p = exact_matrix(matrix)
    n = range(len(p))
    balance = [[p[x][y] - (x == y) for x in n] for y in n]
    balance[0] = [Fraction(1)] * len(p)
    return exact_solve(balance, [Fraction(int(y == 0)) for y in n])


def exact_variance(matrix, values):
    """Eq. 11 summed by the fundamental matrix: 2 <f, Zf> - <f, f>, with Z = (I - P + 1 pi)^-1 and f centred."""
    p, pi = exact_matrix(matrix), exact_stationary(matrix)
    n = range(len(p))
    f = [Fraction(float(value)) for value in values]
    mean = sum(pi[x] * f[x] for x in n)
    f = [value - mean for value in f]
    z = exact_solve([[(x == y) - p[x][y] + pi[y] for y in n] for x in n], f)
    return float(sum(pi[x] * f[x] * (2 * z[x] - f[x]) for x in n))


def nearly_decomposable(link=1e-12):
    """Two groups of three states, uneven inside, that change sides about once in 1/link steps."""
    matrix = np.zeros((6, 6))
    matrix[:3, :3] = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]]
    matrix[3:, 3:] = [[0.2, 0.7, 0.1], [0.4, 0.1, 0.5], [0.3, 0.3, 0.4]]
    matrix[1, 4], matrix[5, 0] = link, 3 * link
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return matrix


# the stationary distribution


@settings(deadline=None)
@given(stochastic(irreducible=True))
def test_stationary_is_right_relative_to_itself(matrix):
    exact = np.array([float(p) for p in exact_stationary(matrix)])
    np.testing.assert_allclose(FiniteChain(matrix).stationary, exact, rtol=1e-13)


@settings(deadline=None)
@given(stochastic(irreducible=True))
def test_stationary_is_invariant(matrix):
    pi = stationary_distribution(matrix)
    assert abs(pi.sum() - 1) < 1e-14
    np.testing.assert_allclose(pi @ matrix, pi, rtol=1e-12)


def test_stationary_of_a_nearly_decomposable_chain():
    matrix = nearly_decomposable()
    exact = np.array([float(p) for p in exact_stationary(matrix)])
    np.testing.assert_allclose(stationary_distribution(matrix), exact, rtol=1e-14)


def test_linear_algebra_would_lose_a_nearly_decomposable_chain():
    matrix = nearly_decomposable()
    exact = np.array([float(p) for p in exact_stationary(matrix)])
    balance = matrix.T - np.eye(6)
    balance[0] = 1.0
    solved = np.linalg.solve(balance, np.eye(6)[0])
    assert np.abs(solved / exact - 1).max() > 1e-6
    assert invariance_residual(solved, matrix) < 1e-15  # and the residual does not see it


def test_stationary_has_no_mass_too_small():
    up = 1e-30
    matrix = np.diag(np.full(9, up), 1) + np.diag(np.full(9, 0.5), -1)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    pi = stationary_distribution(matrix)
    np.testing.assert_allclose(pi[1:] / pi[:-1], 2 * up, rtol=1e-14)
    backwards = stationary_distribution(matrix[::-1, ::-1])
    np.testing.assert_allclose(backwards, pi[::-1], rtol=1e-13)


def test_transient_states_have_no_mass():
    chain = FiniteChain([[0.5, 0.25, 0.25], [0.0, 0.9, 0.1], [0.0, 0.3, 0.7]])
    np.testing.assert_allclose(chain.stationary, [0.0, 0.75, 0.25], rtol=1e-15)
    assert chain.stationary[0] == 0.0
    assert not chain.is_irreducible
    assert chain.is_reversible
    assert chain.rate_of_convergence == pytest.approx(0.6)
    assert FiniteChain([[0.8, 0.1, 0.1], [0.0, 0.9, 0.1], [0.0, 0.3, 0.7]]).rate_of_convergence == pytest.approx(0.8)
    assert chain.asymptotic_variance([1e9, 0.0, 1.0]) == pytest.approx(0.75, rel=1e-14)


# classes and periods


def test_gamblers_ruin_ends_in_one_of_two_classes():
    chain = FiniteChain(gamblers_ruin(4))
    assert [one.states for one in chain.classes] == [(0,), (1, 2, 3), (4,)]
    assert [one.closed for one in chain.classes] == [True, False, True]
    assert [one.period for one in chain.classes] == [1, 2, 1]


@settings(deadline=None)
@given(stochastic())
def test_classes_are_those_of_mutual_reachability(matrix):
    n = len(matrix)
    reach = np.linalg.matrix_power(np.eye(n, dtype=int) + (matrix > 0), n) > 0
    chain = FiniteChain(matrix)
    assert sorted(state for one in chain.classes for state in one.states) == list(range(n))
    for one in chain.classes:
        first = one.states[0]
        assert one.states == tuple(np.flatnonzero(reach[first] & reach[:, first]))
        assert one.closed == (set(np.flatnonzero(reach[first])) == set(one.states))
    assert chain.is_irreducible == reach.all()


@settings(deadline=None)
@given(stochastic(max_states=5))
def test_period_is_the_gcd_of_return_times(matrix):
    moves = (matrix > 0).astype(int)
    for one in FiniteChain(matrix).classes:
        power, period = np.eye(len(matrix), dtype=int), 0
        for step in range(1, 2 * len(matrix) ** 2):
            power = np.minimum(power @ moves, 1)
            if power[one.states[0], one.states[0]]:
                period = gcd(period, step)
        assert one.period == period


@settings(deadline=None)
@given(stochastic(), st.randoms(use_true_random=False))
def test_classes_move_with_the_labels(matrix, random):
    order = list(range(len(matrix)))
    random.shuffle(order)
    before = {(frozenset(one.states), one.closed, one.period) for one in FiniteChain(matrix).classes}
    after = FiniteChain(matrix[np.ix_(order, order)]).classes
    assert before == {(frozenset(order[state] for state in one.states), one.closed, one.period) for one in after}


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_one_way_cycle_has_its_length_as_period(n):
    chain = FiniteChain(cycle_walk(n, 1.0))
    assert chain.period == n
    assert chain.rate_of_convergence == 1.0
    assert chain.absolute_spectral_gap == 0.0
    lazy = FiniteChain((cycle_walk(n, 1.0) + np.eye(n)) / 2)
    assert lazy.period == 1
    assert lazy.rate_of_convergence == pytest.approx(np.cos(np.pi / n), abs=1e-14)


# reversibility


def test_a_metropolis_hastings_chain_is_reversible_and_a_one_way_drift_is_not():
    q = np.random.default_rng(1).dirichlet(np.full(4, 0.5), size=4)
    right = metropolis_hastings_matrix(np.log(SKEWED), q)
    assert FiniteChain(right).is_reversible
    assert detailed_balance_residual(SKEWED, right) < 1e-16
    drift = cycle_walk(4, 0.7)
    assert invariance_residual(np.full(4, 0.25), drift) == 0.0
    assert detailed_balance_residual(np.full(4, 0.25), drift) == pytest.approx(0.1)  # keeps its law, one way round
    assert not FiniteChain(drift).is_reversible


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1e-9, 0.5), st.floats(1e-9, 0.5)), min_size=1, max_size=6))
def test_birth_death_chains_are_reversible(rates):
    up, down = np.array(rates).T
    matrix = np.diag(up, 1) + np.diag(down, -1)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    chain = FiniteChain(matrix)
    assert chain.is_reversible
    np.testing.assert_allclose(chain.stationary[1:] / chain.stationary[:-1], up / down, rtol=1e-13)
    assert chain.eigenvalues.dtype == np.float64


# eigenvalues, gaps, rates


@settings(deadline=None)
@given(st.floats(0.001, 1.0), st.floats(0.001, 1.0))
def test_two_states(a, b):
    chain = FiniteChain([[1 - a, a], [b, 1 - b]])
    p = a / (a + b)
    np.testing.assert_allclose(chain.stationary, [b / (a + b), p], rtol=1e-14)
    assert chain.rate_of_convergence == pytest.approx(abs(1 - a - b), abs=1e-14)
    assert chain.absolute_spectral_gap == pytest.approx(1 - abs(1 - a - b), abs=1e-14)
    assert chain.spectral_gap == pytest.approx(a + b, abs=1e-14)
    variance = p * (1 - p) * (2 - a - b) / (a + b)
    assert chain.asymptotic_variance([0.0, 1.0]) == pytest.approx(variance, rel=1e-12, abs=1e-15)
    np.testing.assert_allclose(
        chain.total_variation_by_step(5), max(p, 1 - p) * abs(1 - a - b) ** np.arange(6.0), atol=1e-14
    )


def test_eigenvalues_of_walks_on_a_cycle():
    angles = 2 * np.pi * np.arange(5) / 5
    even = FiniteChain(cycle_walk(5, 0.5)).eigenvalues
    np.testing.assert_allclose(np.sort(even), np.sort(np.cos(angles)), atol=1e-14)
    drift = FiniteChain(cycle_walk(5, 0.8)).eigenvalues
    exact = np.cos(angles) + 0.6j * np.sin(angles)
    assert max(np.abs(drift - value).min() for value in exact) < 1e-14
    assert drift[0] == pytest.approx(1.0)


@settings(deadline=None)
@given(stochastic(slow=False))  # a class left once in 1e10 steps has an eigenvalue of nearly 1
def test_eigenvalues_are_1_once_for_each_closed_class(matrix):
    chain = FiniteChain(matrix)
    assert np.abs(chain.eigenvalues).max() < 1 + 1e-9
    assert (np.abs(chain.eigenvalues - 1) < 1e-9).sum() == sum(one.closed for one in chain.classes)
    assert chain.eigenvalues.sum() == pytest.approx(np.trace(matrix), abs=1e-9)
    np.testing.assert_allclose((chain.eigenvalues**2).sum(), np.trace(matrix @ matrix), atol=1e-9)


@settings(deadline=None)
@given(reversible())
def test_distance_falls_at_the_rate_of_convergence(matrix):
    chain = FiniteChain(matrix)
    distance = chain.total_variation_by_step(60)
    bound = 0.5 / np.sqrt(chain.stationary.min()) * chain.rate_of_convergence ** np.arange(61.0)
    assert (distance <= bound + 1e-12).all()  # Diaconis & Stroock 1991, proposition 3
    assert (distance >= 0.5 * chain.rate_of_convergence ** np.arange(61.0) - 1e-12).all()  # Levin & Peres 2017, 12.2


def test_the_rate_of_eq_10_is_not_always_attained():
    chain = FiniteChain([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])  # a Jordan block
    assert chain.rate_of_convergence == 0.5
    steps = np.arange(30.0)
    np.testing.assert_allclose(
        chain.total_variation_by_step(29) / 0.5**steps, 1 + steps, rtol=1e-12
    )  # no V(i) bounds it


def test_one_state():
    chain = FiniteChain([[1.0]])
    assert chain.stationary == 1.0
    assert chain.rate_of_convergence == 0.0
    assert chain.spectral_gap == chain.absolute_spectral_gap == 1.0
    assert chain.mixing_time() == 0
    assert chain.asymptotic_variance([3.0]) == 0.0


# distance and mixing time


@settings(deadline=None)
@given(stochastic(irreducible=True))
def test_distance_never_increases(matrix):
    chain = FiniteChain(matrix)
    worst = chain.total_variation_by_step(20)
    assert (np.diff(worst) <= 1e-13).all()
    each = [chain.total_variation_by_step(20, start) for start in range(len(matrix))]
    assert all((np.diff(one) <= 1e-13).all() for one in each)
    np.testing.assert_allclose(worst, np.max(each, axis=0), atol=1e-14)
    power = np.linalg.matrix_power(matrix, 20)
    np.testing.assert_allclose(worst[20], max(total_variation(row, chain.stationary) for row in power), atol=1e-12)


@settings(deadline=None)
@given(stochastic(), st.integers(0, 12), st.integers(0, 12))
def test_steps_add_up(matrix, m, n):
    """Chapman and Kolmogorov: eq. 9 is a power; one step fewer would be seen."""
    chain = FiniteChain(matrix)
    np.testing.assert_allclose(chain.after(m + n), chain.after(m) @ chain.after(n), atol=1e-13)
    one_by_one = np.eye(len(matrix))
    for _ in range(n):
        one_by_one = one_by_one @ matrix
    np.testing.assert_allclose(chain.after(n), one_by_one, atol=1e-13)
    for start in range(len(matrix)):
        np.testing.assert_allclose(chain.after(n, start), one_by_one[start], atol=1e-13)


def test_many_steps_of_two_states():
    a, b = 1e-6, 3e-6
    chain = FiniteChain([[1 - a, a], [b, 1 - b]])
    for n in (1, 7, 1000, 10**6, 2**40):
        left = (1 - a - b) ** n
        np.testing.assert_allclose(chain.after(n, 0), [0.75 + 0.25 * left, 0.25 * (1 - left)], rtol=1e-8)
        np.testing.assert_allclose(chain.after(n, [0.5, 0.5])[0], 0.75 - 0.25 * left, rtol=1e-8)
    assert abs(chain.after(999, 0)[1] - chain.after(1000, 0)[1]) > 1e-7  # the broken twin: a step short


def test_distance_from_a_distribution():
    chain = FiniteChain([[0.9, 0.1], [0.3, 0.7]])
    np.testing.assert_allclose(chain.total_variation_by_step(3, chain.stationary), 0.0, atol=1e-15)
    np.testing.assert_allclose(chain.total_variation_by_step(2, [0.5, 0.5]), [0.25, 0.15, 0.09], atol=1e-15)


@settings(deadline=None)
@given(stochastic(irreducible=True, max_states=5), st.sampled_from([0.25, 0.01, 0.9]))
def test_mixing_time_is_the_first_step_that_is_near_enough(matrix, epsilon):
    lazy = FiniteChain((matrix + np.eye(len(matrix))) / 2)
    steps = lazy.mixing_time(epsilon)
    if steps < 3000:
        distance = lazy.total_variation_by_step(steps)
        assert distance[steps] <= epsilon + 1e-12
        assert steps == 0 or distance[steps - 1] > epsilon - 1e-12


@settings(deadline=None)
@given(reversible())
def test_mixing_time_is_between_its_bounds(matrix):
    chain = FiniteChain((matrix + np.eye(len(matrix))) / 2)
    relaxation = 1 / chain.absolute_spectral_gap
    steps = chain.mixing_time(0.01)
    assert steps >= (relaxation - 1) * log(50) - 1e-6  # Levin & Peres 2017, theorem 12.5
    assert steps <= ceil(relaxation * log(100 / chain.stationary.min()) + 1e-6)  # theorem 12.4


@pytest.mark.parametrize("rate", [0.3, 1e-3, 1e-6, 1e-12])
def test_mixing_time_of_slow_chains(rate):
    chain = FiniteChain([[1 - rate, rate], [3 * rate, 1 - 3 * rate]])
    exact = log(0.01 / 0.75) / (log1p(-4 * rate) if 4 * rate < 1 else log(abs(1 - 4 * rate)))
    assert abs(chain.mixing_time(0.01) - ceil(exact)) <= 1e-12 * exact


# the variance of averages


@settings(deadline=None)
@given(reversible(), st.data())
def test_variance_is_at_most_what_the_gap_allows(matrix, data):
    values = data.draw(st.lists(st.integers(-5, 5), min_size=len(matrix), max_size=len(matrix)))
    chain = FiniteChain(matrix)
    spread = chain.stationary @ (values - chain.stationary @ values) ** 2
    gap = chain.spectral_gap
    assert 0 <= chain.asymptotic_variance(values) <= spread * (2 - gap) / gap * (1 + 1e-9) + 1e-12


@settings(deadline=None)
@given(stochastic(irreducible=True), st.data())
def test_variance_is_that_of_the_fundamental_matrix(matrix, data):
    values = data.draw(st.lists(st.integers(-5, 5), min_size=len(matrix), max_size=len(matrix)))
    exact = exact_variance(matrix, values)
    assert FiniteChain(matrix).asymptotic_variance(values) == pytest.approx(exact, rel=1e-10, abs=1e-12)


def autocovariances(chain, values, n_lags):
    centred = values - chain.stationary @ values
    ahead, found = centred, []
    for _ in range(n_lags):
        found.append(chain.stationary @ (centred * ahead))
        ahead = chain.matrix @ ahead
    return np.array(found)


def test_variance_is_the_sum_of_autocovariances():
    chain = FiniteChain(np.random.default_rng(5).dirichlet(np.full(5, 0.3), size=5))
    values = np.array([0.0, 1.0, 4.0, -2.0, 3.0])
    gamma = autocovariances(chain, values, 2000)
    assert chain.asymptotic_variance(values) == pytest.approx(gamma[0] + 2 * gamma[1:].sum(), rel=1e-12)
    assert abs(gamma[0] / chain.asymptotic_variance(values) - 1) > 0.05  # eq. 3 would have been wrong


@pytest.mark.parametrize("n", [2, 5, 20])
def test_variance_of_an_autoregressive_chain(n):
    particles = np.arange(n + 1.0)
    swap = FiniteChain(ehrenfest(n))
    assert swap.period == 2
    assert swap.asymptotic_variance(particles) == pytest.approx(n * (n - 1) / 4, rel=1e-12)
    lazy = FiniteChain((ehrenfest(n) + np.eye(n + 1)) / 2)
    assert lazy.spectral_gap == pytest.approx(1 / n, rel=1e-12)
    assert lazy.asymptotic_variance(particles) == pytest.approx(n * (2 * n - 1) / 4, rel=1e-12)


def test_variance_of_a_periodic_chain_is_that_of_its_averages():
    matrix = np.array([[0.0, 0.3, 0.7, 0.0], [0.2, 0.0, 0.0, 0.8], [0.9, 0.0, 0.0, 0.1], [0.0, 0.5, 0.5, 0.0]])
    chain, values = FiniteChain(matrix), np.array([0.0, 1.0, 4.0, -2.0])
    assert chain.period == 2
    for n in (500, 1000):
        gamma = autocovariances(chain, values, n)
        of_the_mean = gamma[0] + 2 * ((1 - np.arange(1, n) / n) * gamma[1:]).sum()
        assert of_the_mean == pytest.approx(chain.asymptotic_variance(values), abs=20 / n)
    partial = np.cumsum(np.append(gamma[0], 2 * gamma[1:]))
    assert abs(partial[-1] - partial[-2]) > 0.5  # the plain sum of eq. 11 goes to and fro for ever


def test_variance_of_a_nearly_decomposable_chain():
    matrix, values = nearly_decomposable(), np.array([0.0, 1.0, 2.0, 1.0, 5.0, 3.0])
    exact = exact_variance(matrix, values)
    assert exact > 1e11
    assert FiniteChain(matrix).asymptotic_variance(values) == pytest.approx(exact, rel=1e-12)
    assert FiniteChain(matrix[::-1, ::-1]).asymptotic_variance(values[::-1]) == pytest.approx(exact, rel=1e-12)
    pi = stationary_distribution(matrix)
    centred = values - pi @ values
    g = np.linalg.solve(np.eye(6) - matrix + pi, centred)
    assert abs(pi @ (centred * (2 * g - centred)) / exact - 1) > 1e-6  # what the plain formula makes of it


def test_variance_within_the_halves_of_a_nearly_decomposable_chain():
    """A function with the same mean in both halves: the slow mode must not leak into it."""
    matrix = nearly_decomposable()
    pi = stationary_distribution(matrix)
    values = np.array([0.0, 1.0, 2.0, 1.0, 5.0, 3.0])
    values[:3] -= pi[:3] @ values[:3] / pi[:3].sum()
    values[3:] -= pi[3:] @ values[3:] / pi[3:].sum()
    exact = exact_variance(matrix, values)
    assert exact < 10
    assert FiniteChain(matrix).asymptotic_variance(values) == pytest.approx(exact, rel=1e-9)


def simulate(matrix, n_steps, rng):
    edges = np.cumsum(matrix, axis=1)[:, :-1].tolist()
    state, path = 0, np.empty(n_steps, dtype=int)
    for step, u in enumerate(rng.random(n_steps).tolist()):
        state = sum(u >= edge for edge in edges[state])
        path[step] = state
    return path


def test_variance_is_that_of_simulated_batch_means():
    """The slides' estimate: N times the variance of M batch means, whose relative error is sqrt(2 / (M - 1))."""
    chain, values = FiniteChain([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]]), np.array([0.0, 1.0, 5.0])
    n_batches, length = 400, 1000
    path = simulate(chain.matrix, n_batches * length, np.random.default_rng([SEED, 11]))
    means = values[path].reshape(n_batches, length).mean(axis=1)

    def z(variance):
        return (length * means.var(ddof=1) / variance - 1) / np.sqrt(2 / (n_batches - 1))

    assert abs(z(chain.asymptotic_variance(values))) < z_limit(1)
    independent = chain.stationary @ (values - chain.stationary @ values) ** 2
    assert abs(z(independent)) > z_limit(1)


# refusals


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5]], "matrix has shape (1, 2); a transition matrix is square, with at least one state"),
        ([0.5, 0.5], "matrix has shape (2,); a transition matrix is square, with at least one state"),
        (np.ones((0, 0)), "matrix has shape (0, 0); a transition matrix is square, with at least one state"),
        ([[0.5, 0.5], [0.5, 0.4]], "row 1 of matrix sums to 0.9, not 1"),
        ([[0.5, 0.5], [0.5, 0.500001]], "row 1 of matrix sums to 1.000001, not 1"),
        ([[0.0, 0.0], [0.0, 1.0]], "row 0 of matrix sums to 0, not 1"),
        ([[1.1, -0.1], [0.5, 0.5]], "matrix[0, 1] is -0.1; probabilities are at least 0"),
        ([[0.5, 0.5], [np.nan, 0.5]], "matrix[1, 0] is nan; it must be a finite number"),
        ([[0.5, 0.5], [np.inf, 0.5]], "matrix[1, 0] is inf; it must be a finite number"),
    ],
)
def test_what_is_not_a_transition_matrix_is_refused(matrix, message):
    assert message_of(lambda: FiniteChain(matrix)) == message
    assert message_of(lambda: stationary_distribution(matrix)) == message


@pytest.mark.parametrize("matrix", [[["a"]], [[1.0], [0.5, 0.5]], [[1j]], np.array([[1.0 + 0j]]), csr_array(np.eye(2))])
def test_what_is_not_an_array_of_numbers_is_refused(matrix):
    with pytest.raises(ArgumentTypeError) as refused:
        FiniteChain(matrix)
    assert str(refused.value) == "matrix is not an array of real numbers"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"], "labels has 1 entries but matrix has 2 states"),
        (["a", "a"], "labels has 'a' twice; each state needs a name of its own"),
    ],
)
def test_labels_must_name_the_states(labels, message):
    assert message_of(lambda: FiniteChain(np.eye(2), labels)) == message


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda chain: chain.stationary, "stationary distribution"),
        (lambda chain: chain.period, "period"),
        (lambda chain: chain.is_reversible, "stationary distribution"),
        (lambda chain: chain.rate_of_convergence, "rate of convergence"),
        (lambda chain: chain.absolute_spectral_gap, "rate of convergence"),
        (lambda chain: chain.spectral_gap, "spectral gap"),
        (lambda chain: chain.mixing_time(), "mixing time"),
        (lambda chain: chain.total_variation_by_step(1), "stationary distribution"),
        (lambda chain: chain.asymptotic_variance([1.0, 2.0, 3.0, 4.0]), "asymptotic variance"),
    ],
)
def test_several_closed_classes_have_no_single_answer(ask, what):
    assert message_of(lambda: ask(FiniteChain(TWO_CLASSES, labels=["a", "b", "c", "d"]))) == (
        "the chain has 2 closed classes, {a, b} and {d}, and never leaves the one it enters, "
        f"so its {what} is not unique; look at each of them with restricted_to"
    )


def test_many_closed_classes_are_not_all_listed():
    assert message_of(lambda: FiniteChain(np.eye(9)).stationary) == (
        "the chain has 9 closed classes, {0}, {1}, {2} and 6 more, and never leaves the one it enters, "
        "so its stationary distribution is not unique; look at each of them with restricted_to"
    )
    blocks = np.kron(np.eye(2), np.full((8, 8), 1 / 8))
    assert "{0, 1, 2, 3, 4, ... 3 more} and {8, 9, 10, 11, 12, ... 3 more}" in message_of(
        lambda: FiniteChain(blocks).stationary
    )


def test_each_closed_class_can_be_looked_at():
    chain = FiniteChain(TWO_CLASSES, labels=["a", "b", "c", "d"])
    part = chain.restricted_to([1, 0])
    assert part.labels == ("a", "b")
    np.testing.assert_array_equal(part.stationary, [0.5, 0.5])
    assert message_of(lambda: chain.restricted_to([2, 3])) == "the chain leaves {c, d} from c to b; take a closed set"
    assert message_of(lambda: chain.restricted_to([4])) == "states [4] are not some of the states 0..3"
    assert message_of(lambda: chain.restricted_to([])) == "states [] are not some of the states 0..3"


def test_a_gap_needs_a_symmetric_matrix():
    assert message_of(lambda: FiniteChain(cycle_walk(3, 0.8)).spectral_gap) == (
        "the chain is not reversible, so its eigenvalues need not be real; take absolute_spectral_gap"
    )
    assert message_of(lambda: FiniteChain([[0.5, 0.5], [0.0, 1.0]], labels=["a", "b"]).spectral_gap) == (
        "states {a} are transient, so the matrix cannot be made symmetric; "
        "leave them out with restricted_to, or take absolute_spectral_gap"
    )


def test_mixing_times_that_do_not_exist():
    assert message_of(lambda: FiniteChain(cycle_walk(3, 1.0)).mixing_time()) == (
        "the chain has period 3 and never converges, though its averages do; "
        "a lazy chain, (P + I) / 2, converges to the same distribution"
    )
    slow = FiniteChain([[0.999, 0.001], [0.001, 0.999]])
    assert message_of(lambda: slow.mixing_time(max_steps=100)) == (
        "after 128 steps the distance is still 0.387, above epsilon=0.25"
    )
    assert slow.mixing_time(max_steps=347) == 347
    assert message_of(lambda: slow.mixing_time(max_steps=346)) == "the chain needs 347 steps, above max_steps=346"
    for epsilon in (0.0, 1e-13, 1.0, float("nan")):
        assert message_of(lambda wrong=epsilon: slow.mixing_time(wrong)) == (
            f"epsilon is {epsilon}; it is at least 1e-12 and below 1"
        )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda chain: chain.asymptotic_variance([1.0]), "values has 1 entries but there are 2 states"),
        (lambda chain: chain.asymptotic_variance(np.eye(2)), "values has shape (2, 2) but there are 2 states"),
        (lambda chain: chain.asymptotic_variance([0.0, np.nan]), "values[1] is nan; it must be a finite number"),
        (lambda chain: chain.total_variation_by_step(-1), "n_steps is -1; it is at least 0"),
        (lambda chain: chain.after(-1), "n_steps is -1; it must be at least 0"),
        (lambda chain: chain.after(1, 2), "start is 2; states are 0..1"),
        (lambda chain: chain.total_variation_by_step(1, 2), "start is 2; states are 0..1"),
        (lambda chain: chain.total_variation_by_step(1, [1.0]), "start has 1 entries but there are 2 states"),
        (lambda chain: chain.total_variation_by_step(1, [0.5, 0.4]), "start sums to 0.9, not 1"),
    ],
)
def test_arguments_must_fit_the_chain(ask, message):
    assert message_of(lambda: ask(FiniteChain([[0.9, 0.1], [0.3, 0.7]]))) == message


@pytest.mark.parametrize("residual", [invariance_residual, detailed_balance_residual])
def test_residuals_need_a_target_of_the_right_length(residual):
    assert message_of(lambda: residual([0.5, 0.5], np.eye(3))) == "target has 2 entries but there are 3 states"
    assert message_of(lambda: residual([0.5, 0.5], np.ones((2, 3)))) == (
        "matrix has shape (2, 3); a transition matrix is square"
    )
    assert message_of(lambda: residual([0.5, np.nan], np.eye(2))) == "target[1] is nan; it must be a finite number"


def test_total_variation_is_half_the_absolute_difference():
    assert total_variation([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert total_variation(SKEWED, SKEWED) == 0.0
    assert message_of(lambda: total_variation([0.5, 0.5], [1.0])) == (
        "p has shape (2,) but q has (1,); they are distributions over the same states"
    )


def test_a_chain_keeps_its_own_copy():
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    chain = FiniteChain(matrix)
    matrix[0] = 7.0
    assert chain.matrix[0, 0] == 0.9
    for array in (chain.matrix, chain.stationary, chain.eigenvalues):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    with pytest.raises(AttributeError):
        chain.matrix = matrix


def test_rounding_below_zero_is_not_a_negative_probability():
    assert FiniteChain([[1 + 1e-16, -1e-17], [0.5, 0.5]]).classes[0] == ((0,), True, 1)
