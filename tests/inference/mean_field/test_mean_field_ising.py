"""Mean field of Ising models: the updates of the notes in both codings, against the general ones; broken twins."""

from __future__ import annotations

import mean_field_cases as cases
import numpy as np
import pytest
from mean_field_cases import ROUNDING
from scipy.special import expit

from doxa.inference.exact import plan_contraction
from doxa.inference.mean_field import mean_field, mean_field_problem
from doxa.inference.mean_field.ising import ising_mean_field, spin_problem
from doxa.models.ising import ising, ising_grid
from support.checks import SEED
from support.small_networks import joint

N_CASES = 60


def general(network):
    """The same network as factors over two states."""
    return mean_field_problem([2] * len(network.fields), network.factors)


def as_q(m):
    return np.stack([(1 - m) / 2, (1 + m) / 2], axis=1).ravel()


def notes_numbers(k, n=7):
    """Fields and couplings of the 0/1 coding, as the notes have them, and the network of both."""
    rng = np.random.default_rng([SEED, 62, k])
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.5]
    couplings, fields = 2 * rng.normal(size=len(pairs)), rng.normal(size=n)
    return pairs, couplings, fields, ising(pairs, couplings, fields, coding="01"), rng


@pytest.mark.parametrize("coding", ["pm1", "01"])
def test_sweeps_and_bounds_are_the_general_ones(coding):
    for k in range(N_CASES):
        network, rng = cases.random_ising(k, coding=coding)
        problem, factors = spin_problem(network), general(network)
        m = rng.uniform(-1, 1, len(network.fields))
        for _ in range(3):
            assert problem.elbo(m) == pytest.approx(factors.elbo(as_q(m)), abs=1e-11)
            assert problem.entropy(m) == pytest.approx(factors.entropy(as_q(m)), abs=1e-11)
            new, change = problem.step(m)
            q, general_change = factors.step(as_q(m))
            np.testing.assert_allclose(as_q(new), q, atol=1e-13)
            assert change == pytest.approx(general_change, abs=1e-13)
            m = new


def sweep_units(pairs, couplings, fields, mu):
    """One sweep in the notes' form, for variables 0 and 1: the new P(x_i = 1), and the largest change.

    The Gibbs update has the neighbours' values where this has their means; in print its denominator lacks the node's
    own m_i.
    """
    new = np.array(mu, dtype=np.float64)
    for i in range(len(new)):
        new[i] = expit(fields[i] + pull(pairs, couplings, new, i))
    return new, np.abs(new - mu).max()


def test_the_update_in_both_codings_is_one():
    for k in range(N_CASES):
        pairs, couplings, fields, network, rng = notes_numbers(k)
        mu = rng.random(len(fields))
        swept, change = sweep_units(pairs, couplings, fields, mu)
        m, spin_change = spin_problem(network).step(2 * mu - 1)
        np.testing.assert_allclose((1 + m) / 2, swept, atol=1e-13)
        assert change == pytest.approx(spin_change, abs=1e-13)


def conditional_error(update):
    """An update given neighbours that are sure, against P(x_i = 1 | rest) of the enumerated network."""
    worst = 0.0
    for k in range(20):
        pairs, couplings, fields, network, rng = notes_numbers(k, n=5)
        x = rng.integers(0, 2, 5).astype(float)
        p = joint(network)
        for i in range(5):
            index = tuple(slice(None) if j == i else int(x[j]) for j in range(5))
            exact = p[index][1] / p[index].sum()
            worst = max(worst, abs(update(pairs, couplings, fields, x, i) - exact))
    return worst


def own_update(pairs, couplings, fields, x, i):
    """Of node i alone: a sweep over the nodes in an order that begins with it."""
    place = {i: 0, 0: i}
    moved = [(place.get(a, a), place.get(b, b)) for a, b in pairs]
    order = [place.get(j, j) for j in range(len(x))]
    return sweep_units(moved, couplings, fields[order], x[order])[0][0]


def pull(pairs, couplings, x, i):
    return sum(c * x[b if a == i else a] for (a, b), c in zip(pairs, couplings, strict=True) if i in (a, b))


def printed_update(pairs, couplings, fields, x, i):
    """The conditional as the notes print it: the denominator omits the node's own field."""
    field = pull(pairs, couplings, x, i)
    return np.exp(fields[i] + field) / (1 + np.exp(field))


def test_given_sure_neighbours_the_update_is_the_gibbs_conditional():
    assert conditional_error(own_update) < 1e-12
    assert conditional_error(printed_update) > 0.1


def right_step(network, m):
    return spin_problem(network).step(m)[0]


def pulls(network, m, couplings=None):
    couplings = network.couplings if couplings is None else couplings
    total = np.zeros(len(m))
    np.add.at(total, network.edges[:, 0], couplings * m[network.edges[:, 1]])
    np.add.at(total, network.edges[:, 1], couplings * m[network.edges[:, 0]])
    return total


def parallel_step(network, m):
    return np.tanh(network.fields + pulls(network, m))


def sequential(network, m, couplings, fields):
    m = m.copy()
    for i in range(len(m)):
        m[i] = np.tanh(fields[i] + pulls(network, m, couplings)[i])
    return m


def plain_step(network, m):
    """The right update in plain NumPy."""
    return sequential(network, m, network.couplings, network.fields)


def negated_step(network, m):
    """The first coupling with the wrong sign."""
    couplings = network.couplings.copy()
    couplings[:1] = -couplings[:1]
    return sequential(network, m, couplings, network.fields)


def fieldless_step(network, m):
    """The node's own field forgotten."""
    return sequential(network, m, network.couplings, 0 * network.fields)


def printed_step(network, m):
    """Means from the notes' printed conditional, in the 0/1 coding, cut off at 1: it is no probability."""
    mu = (1 + m) / 2
    fields, couplings = 2 * network.fields - 2 * pulls(network, np.ones(len(m))), 4 * network.couplings
    for i in range(len(mu)):
        field = pulls(network, mu, couplings)[i]
        mu[i] = min(1.0, np.exp(fields[i] + field) / (1 + np.exp(field)))
    return 2 * mu - 1


def worst_fall(step):
    worst = -np.inf
    for k in range(N_CASES):
        network, rng = cases.random_ising(k)
        problem, m = spin_problem(network), rng.uniform(-1, 1, len(network.fields))
        bound = problem.elbo(m)
        for _ in range(8):
            m = step(network, m)
            after = problem.elbo(m)
            worst = max(worst, bound - after)
            bound = after
    return worst


def test_no_sweep_lowers_the_bound():
    assert worst_fall(right_step) < ROUNDING
    assert worst_fall(plain_step) < ROUNDING


@pytest.mark.parametrize("broken", [parallel_step, negated_step, fieldless_step, printed_step])
def test_broken_updates_lower_it(broken):
    assert worst_fall(broken) > 1e-2


def fixed_point_error(step):
    """Largest gradient of the bound where the steps have settled."""
    worst = 0.0
    for k in range(10):
        network, rng = cases.random_ising(k, scale=0.2)
        m = rng.uniform(-1, 1, len(network.fields))
        for _ in range(100):
            m = step(network, m)
        worst = max(worst, np.abs(spin_problem(network).gradient(np.clip(m, -1 + 1e-12, 1 - 1e-12))).max())
    return worst


def test_the_fixed_point_is_where_the_gradient_vanishes():
    assert fixed_point_error(right_step) < 1e-9
    assert fixed_point_error(parallel_step) < 1e-9  # weak couplings: it gets there all the same
    assert fixed_point_error(negated_step) > 1e-2
    assert fixed_point_error(fieldless_step) > 1e-2


def gradient_error(gradient_of):
    """Largest difference from central finite differences by artanh(m)."""
    worst = 0.0
    for k in range(20):
        network, rng = cases.random_ising(k)
        problem, a = spin_problem(network), rng.normal(size=len(network.fields))
        found = gradient_of(problem, np.tanh(a))
        for i in range(len(a)):
            step = np.zeros(len(a))
            step[i] = 1e-5
            slope = (problem.elbo(np.tanh(a + step)) - problem.elbo(np.tanh(a - step))) / 2e-5
            worst = max(worst, abs(found[i] - slope))
    return worst


def test_the_gradient_is_that_of_finite_differences():
    assert gradient_error(lambda problem, m: problem.gradient(m)) < 1e-8
    assert gradient_error(lambda problem, m: problem.gradient(m) / (1 - m**2)) > 1e-2  # by m, not by artanh(m)


@pytest.mark.parametrize("coding", ["pm1", "01"])
def test_bounds_are_below_log_z_and_never_fall(coding):
    n_loose = 0
    for k in range(100):
        network, _ = cases.random_ising(k, scale=1.5, coding=coding)
        fit = ising_mean_field(network, seed=k, max_sweeps=5000)
        exact = np.log(joint(network).sum())
        assert fit.log_z_bound <= exact + ROUNDING
        assert (np.diff(fit.bounds) >= 0).all()
        assert fit.log_z_bound == max(start.log_z_bound for start in fit.starts)
        assert fit.converged
        assert np.abs(spin_problem(network).gradient(fit.magnetisation)).max() < 1e-6
        np.testing.assert_allclose(fit.marginals[:, 1] - fit.marginals[:, 0], fit.magnetisation)
        n_loose += fit.log_z_bound < exact - 0.01
    assert n_loose > 50


def test_both_codings_of_one_model_have_one_answer():
    pairs, couplings, fields, network, _ = notes_numbers(1)
    spins = ising(pairs, network.couplings, network.fields)
    one, other = ising_mean_field(network, seed=1), ising_mean_field(spins, seed=1)
    np.testing.assert_array_equal(one.magnetisation, other.magnetisation)
    assert one.log_z_bound == pytest.approx(other.log_z_bound + network.constant, abs=1e-12)
    mu = one.marginals[:, 1]
    np.testing.assert_allclose(sweep_units(pairs, couplings, fields, mu)[0], mu, atol=1e-8)


def test_the_answer_on_a_grid_is_the_general_one_and_below_the_exact_log_z():
    rng = np.random.default_rng(SEED)
    network = ising_grid(6, 6, coupling=rng.normal(0.3, 0.3, 60), field=rng.normal(0.1, 0.2, (6, 6)))
    fit = ising_mean_field(network, seed=1, starts=8)
    other = mean_field([2] * 36, network.factors, starts=8, seed=1)
    exact = plan_contraction([2] * 36, [f.variables for f in network.factors]).run(network.factors).log_z
    assert fit.log_z_bound == pytest.approx(other.log_z_bound, abs=1e-7)
    assert other.log_z_bound <= exact
    rows = [list(range(6 * r, 6 * r + 6)) for r in range(6)]
    joined = mean_field([2] * 36, network.factors, blocks=rows, seed=1)
    assert other.log_z_bound < joined.log_z_bound < exact
    assert joined.method == "structured mean field"


def test_a_symmetric_model_has_a_saddle_that_other_starts_leave():
    fit = ising_mean_field(ising_grid(8, 8, coupling=0.6), seed=1)
    by_kind = {start.kind: start.log_z_bound for start in fit.starts}
    assert by_kind["uniform"] == pytest.approx(64 * np.log(2))
    assert min(by_kind["up"], by_kind["down"]) > by_kind["uniform"] + 1
    assert by_kind["tempered"] > by_kind["uniform"] + 1
    assert by_kind["up"] == pytest.approx(by_kind["down"], abs=1e-9)


def test_below_the_critical_coupling_all_starts_meet_at_zero():
    fit = ising_mean_field(ising_grid(8, 8, coupling=0.2), seed=1)
    assert np.abs(fit.magnetisation).max() < 1e-7
    assert np.ptp([start.log_z_bound for start in fit.starts]) < 1e-9


def test_large_grids_sum_without_loss():
    """A quarter of a million equal terms; a plain sum is wrong in the tenth digit, and the bound would seem to fall."""
    fit = ising_mean_field(
        ising_grid(512, 512, coupling=0.25, periodic=True), starts=0, start=np.full(2**18, 0.3), max_sweeps=3
    )
    m = fit.magnetisation
    assert (np.diff(fit.bounds) > 0).all()
    up = (1 + m) / 2
    entropy = -(up * np.log(up) + (1 - up) * np.log(1 - up)).sum()
    assert fit.entropy == pytest.approx(entropy, rel=1e-11)
    network = ising_grid(512, 512, coupling=0.25, periodic=True)
    pairs = 0.25 * (m[network.edges[:, 0]] * m[network.edges[:, 1]]).sum()
    assert fit.log_z_bound == pytest.approx(pairs + entropy, rel=1e-13)


def test_extreme_fields_saturate_without_nan():
    fit = ising_mean_field(ising([(0, 1)], -1000.0, [500.0, 1.0]), seed=1)
    assert fit.log_z_bound == pytest.approx(1499.0)
    np.testing.assert_array_equal(fit.magnetisation, [1.0, -1.0])
