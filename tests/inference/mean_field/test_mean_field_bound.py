"""Mean field on random networks: the bound and each update against all configurations, direction, gradient, blocks."""

from __future__ import annotations

import mean_field_cases as cases
import numpy as np
import pytest
from mean_field_cases import ROUNDING

from doxa.inference.mean_field import ImpossibleError, ascend, mean_field, mean_field_problem
from doxa.models.factors import Factor
from support.checks import SEED
from support.small_networks import joint, marginal


def updates(problem, q, n_sweeps=3):
    """q after each single update."""
    for _ in range(n_sweeps):
        for b in range(len(problem.blocks)):
            q = problem.updated(q, b)
            yield q


def test_the_bound_is_the_one_written_out():
    for network, problem, q in cases.problems(120):
        assert problem.elbo(q) == pytest.approx(cases.elbo_written_out(network, problem, q), abs=1e-10)
        full = cases.product_of(problem, problem.tables(q))
        entropy = -(full[full > 0] * np.log(full[full > 0])).sum()
        assert problem.entropy(q) == pytest.approx(entropy, abs=1e-10)


def test_the_bound_is_minus_infinity_where_q_meets_what_is_forbidden():
    seen = 0
    for network, problem, _ in cases.problems(60):
        q = problem.uniform()
        if np.isneginf(cases.log_joint(network)).any():
            assert problem.elbo(q) == -np.inf
            seen += 1
    assert seen > 30


def test_an_update_is_the_one_written_out():
    for network, problem, q in cases.problems(60):
        for b in range(len(problem.blocks)):
            expected = cases.update_written_out(network, problem, q, b)
            q = problem.updated(q, b)
            np.testing.assert_allclose(problem.tables(q)[b], expected, atol=1e-11)


def test_a_sweep_is_its_updates_one_after_another():
    for _, problem, q in cases.problems(40):
        swept, change = problem.step(q)
        *_, last = updates(problem, q, 1)
        np.testing.assert_array_equal(swept, last)
        assert change >= np.abs(problem.updated(q, 0) - q).max()


def worst_fall(path_of, n_cases, zeros):
    """Largest fall of the bound from one q of a path to the next, over random problems."""
    worst = -np.inf
    for _, problem, q in cases.problems(n_cases, zeros):
        before = problem.elbo(q)
        for new in path_of(problem, q):
            after = problem.elbo(new)
            worst = max(worst, before - after)
            before = after
    return worst


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_no_update_lowers_the_bound(zeros):
    assert worst_fall(updates, 150, zeros) < ROUNDING


def parallel(problem, q):
    """All blocks at once, each given the others' old tables."""
    start = problem.layout.block_start
    for _ in range(8):
        new = [problem.updated(q, b)[start[b] : start[b + 1]] for b in range(len(problem.blocks))]
        q = np.concatenate(new)
        yield q


def negated(problem, q):
    """Updates that take the first factor with the wrong sign."""
    values = problem.values.copy()
    first = slice(0, problem.layout.entry_start[1])
    values[first] = -values[first]
    wrong = type(problem)(problem.n_states, problem.blocks, problem.layout, values, problem.base)
    yield from updates(wrong, q)


@pytest.mark.parametrize("broken", [parallel, negated])
def test_parallel_updates_and_a_wrong_sign_lower_it(broken):
    assert worst_fall(broken, 60, 0.0) > 1e-3


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_the_answer_is_a_bound_that_never_falls_and_a_fixed_point(zeros):
    n_loose = n_impossible = 0
    for k in range(150):
        network, rng = cases.random_network(k, zeros)
        n_states = cases.sizes(network)
        blocks = cases.random_blocks(rng, len(n_states)) if k % 3 else None
        try:
            fit = mean_field(n_states, network.factors, blocks=blocks, starts=3, seed=k, max_sweeps=3000)
        except ImpossibleError:
            assert joint(network).sum() == 0
            n_impossible += 1
            continue
        exact = cases.log_z(network)
        assert fit.log_z_bound <= exact + ROUNDING
        assert (np.diff(fit.bounds) >= 0).all()
        assert fit.log_z_bound == fit.bounds[-1] == max(start.log_z_bound for start in fit.starts)
        assert fit.converged
        problem = mean_field_problem(n_states, network.factors, blocks)
        q = problem.flat(fit.tables)
        assert problem.residual(q) < 1e-8
        assert problem.elbo(q) == pytest.approx(fit.log_z_bound, abs=ROUNDING)
        assert fit.entropy == pytest.approx(problem.entropy(q))
        for v, p in enumerate(fit.marginals):
            np.testing.assert_allclose(p, marginal(cases.product_of(problem, fit.tables), v), atol=1e-12)
        n_loose += fit.log_z_bound < exact - 1e-3
    assert n_loose > 30
    assert n_impossible < 20


@pytest.mark.slow
def test_the_answer_is_a_bound_on_many_networks():
    for k in range(3000):
        network, rng = cases.random_network(k, 0.5 * (k % 4) / 3)
        n_states = cases.sizes(network)
        try:
            fit = mean_field(n_states, network.factors, blocks=cases.random_blocks(rng, len(n_states)), seed=k)
        except ImpossibleError:
            assert joint(network).sum() == 0
            continue
        assert fit.log_z_bound <= cases.log_z(network) + ROUNDING
        assert (np.diff(fit.bounds) >= 0).all()


def test_one_block_of_all_variables_is_exact():
    for k in range(80):
        network, rng = cases.random_network(k)
        n_states, p = cases.sizes(network), joint(network)
        if p.sum() == 0:
            continue
        block = rng.permutation(len(n_states)).tolist()
        fit = mean_field(n_states, network.factors, blocks=[block])
        assert fit.exact
        assert fit.log_z_bound == pytest.approx(np.log(p.sum()), abs=ROUNDING)
        np.testing.assert_allclose(fit.tables[0], marginal(p, *block), atol=1e-12)
        for v, found in enumerate(fit.marginals):
            np.testing.assert_allclose(found, marginal(p, v), atol=1e-12)


def test_blocks_of_one_are_the_naive_method():
    for network, _, _ in cases.problems(30):
        n_states = cases.sizes(network)
        naive = mean_field(n_states, network.factors, seed=1)
        single = mean_field(n_states, network.factors, blocks=[[v] for v in range(len(n_states))], seed=1)
        np.testing.assert_array_equal(naive.bounds, single.bounds)
        assert (naive.method, naive.starts) == (single.method, single.starts)


def test_larger_blocks_have_better_bounds():
    """Merging the blocks of a q keeps it in the family, and updates only raise its bound."""
    n_better = 0
    for network, problem, q in cases.problems(120, zeros=0.1, structured=False):
        if len(problem.blocks) < 4:
            continue
        fine = ascend(problem, q).q
        coarse = mean_field_problem(problem.n_states, network.factors, [[0, 1], [2, 3]])
        tables = problem.tables(fine)
        merged = [np.multiply.outer(tables[0], tables[1]), np.multiply.outer(tables[2], tables[3]), *tables[4:]]
        begin = coarse.flat(merged)
        assert coarse.elbo(begin) == pytest.approx(problem.elbo(fine), abs=1e-9)
        n_better += ascend(coarse, begin).bounds[-1] > problem.elbo(fine) + 1e-3
    assert n_better > 10


def gradient_error(gradient_of):
    """Largest difference from central finite differences by the logits, over random problems without zeros."""
    worst, step = 0.0, 1e-5
    for _, problem, q in cases.problems(40, zeros=0.0):
        found = gradient_of(problem, q)
        starts = problem.layout.block_start
        for b in range(len(problem.blocks)):
            for s in range(starts[b], starts[b + 1]):
                sides = []
                for sign in (1, -1):
                    moved = q.copy()
                    moved[s] *= np.exp(sign * step)
                    part = slice(starts[b], starts[b + 1])
                    moved[part] /= moved[part].sum()
                    sides.append(problem.elbo(moved))
                worst = max(worst, abs(found[s] - (sides[0] - sides[1]) / (2 * step)))
    return worst


def test_the_gradient_is_that_of_finite_differences():
    assert gradient_error(lambda problem, q: problem.gradient(q)) < 1e-7


def test_a_gradient_without_the_entropy_or_the_normalisation_is_not():
    def without_entropy(problem, q):
        parts = []
        for b in range(len(problem.blocks)):
            start = problem.layout.block_start
            table, g = q[start[b] : start[b + 1]], problem.logits(q, b)
            parts.append(table * (g - table @ g))
        return np.concatenate(parts)

    assert gradient_error(without_entropy) > 1e-3
    assert gradient_error(lambda problem, q: problem.gradient(q) + 0.01 * q) > 1e-3


def test_the_gradient_vanishes_at_a_fixed_point_and_not_elsewhere():
    for _, problem, q in cases.problems(40):
        assert np.abs(problem.gradient(ascend(problem, q).q)).max() < 1e-7
    assert max(np.abs(problem.gradient(q)).max() for _, problem, q in cases.problems(40)) > 0.1


def test_marginals_and_tables_of_blocks_in_any_order():
    rng = np.random.default_rng(SEED)
    problem = mean_field_problem([2, 3, 4], [], [[2, 0]])
    table = rng.dirichlet(np.ones(8)).reshape(4, 2)
    q = problem.flat([table, [0.2, 0.3, 0.5]])
    np.testing.assert_allclose(problem.marginals(q)[2], table.sum(axis=1))
    np.testing.assert_allclose(problem.marginals(q)[0], table.sum(axis=0))
    np.testing.assert_array_equal(problem.tables(q)[0], table)


def test_values_of_any_size():
    """Probabilities that a float cannot hold, values that differ by 1e5 nats, a constant, states by themselves."""
    pair = Factor((1, 0), np.array([[0.0, -1e5], [-3e4, 700.0]]))
    factors = [pair, Factor((), np.array(-5.0)), Factor((0,), np.array([0.0, -800.0]))]
    fit = mean_field([2, 2, 1], factors, seed=1)
    assert fit.log_z_bound == pytest.approx(-5.0, abs=1e-9)  # two configurations, one of them 1e-44 of the other
    assert (np.diff(fit.bounds) >= 0).all()
    assert mean_field([3], []).log_z_bound == pytest.approx(np.log(3))


def test_many_equal_terms_do_not_make_the_bound_fall():
    """A plain sum of terms that round alike is wrong by more than the last digits."""
    table = np.full((2, 2), 0.1)
    factors = [Factor((v, v + 1), table) for v in range(0, 4000, 2)] * 3
    fit = mean_field([2] * 4000, factors, starts=1)
    assert fit.log_z_bound == pytest.approx(4000 * np.log(2) + 600.0, rel=1e-15)


def test_the_same_seed_gives_the_same_answer():
    network, _ = cases.random_network(4, 0.0)
    one, other = (mean_field(cases.sizes(network), network.factors, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.bounds, other.bounds)
    assert one.starts == other.starts
