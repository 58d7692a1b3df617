"""One redraw as a matrix: it keeps the distribution, and so do scans that do not look at what they redraw."""

from __future__ import annotations

import numpy as np
import pytest
from gibbs_cases import dense_problem, joint_of, kernel_matrix, possible, random_problems, twin_matrix

from doxa.inference.gibbs import TableGibbs, cyclic
from doxa.inference.gibbs.block_tables import LOGARITHMS, LOOK_UP, PRODUCTS
from doxa.models.factors import Factor
from doxa.testing import cycle_matrix, gibbs_matrix, mixture_matrix
from support.checks import SEED

PROBLEMS = random_problems(60)


def random_blocks_of(n, rng):
    """Blocks that cover all variables and overlap."""
    blocks = [tuple(int(v) for v in rng.permutation(n)[: rng.integers(1, n + 1)]) for _ in range(3)]
    return tuple(dict.fromkeys(blocks + [(v,) for v in range(n)]))


def is_kept(p, matrix):
    return np.abs(p @ matrix - p).max() < 1e-12


def is_in_balance(p, matrix):
    flow = p[:, None] * matrix
    return np.abs(flow - flow.T).max() < 1e-12


def all_blocks():
    rng = np.random.default_rng([SEED, 1])
    for n_states, factors in PROBLEMS:
        for block in random_blocks_of(len(n_states), rng):
            yield n_states, factors, block


def test_every_redraw_is_in_detailed_balance():
    for n_states, factors, block in all_blocks():
        _, p = possible(n_states, factors)
        matrix = twin_matrix(block, n_states, factors)
        assert np.abs(matrix.sum(axis=1) - 1).max() < 1e-12
        assert is_kept(p, matrix)
        assert is_in_balance(p, matrix)
        joint = joint_of(n_states, factors)
        whole = gibbs_matrix(joint, sorted(block), require_positive=False)
        kept = np.flatnonzero(joint.ravel())
        assert np.abs(matrix - whole[np.ix_(kept, kept)]).max() < 1e-12


@pytest.mark.parametrize("most_entries", [0, 12, 4096])
def test_compiled_redraws_are_those_of_the_twin(most_entries):
    kinds = set()
    rng = np.random.default_rng([SEED, 2])
    for n_states, factors in PROBLEMS:
        blocks = random_blocks_of(len(n_states), rng)
        sampler = TableGibbs(n_states, factors, cyclic(blocks), most_entries=most_entries)
        kinds |= {table.kind for table in sampler.tables}
        for block in blocks:
            assert np.abs(kernel_matrix(sampler, block) - twin_matrix(block, n_states, factors)).max() < 1e-12
    assert kinds == ({LOOK_UP} if most_entries == 4096 else {LOOK_UP, PRODUCTS})


def test_a_wide_dynamic_range_is_drawn_with_logarithms():
    """Products of entries down to e^-900 would be 0 where sums of logarithms are not."""
    n_states, factors = dense_problem()
    steep = tuple(Factor(f.variables, 300.0 * f.log_values) for f in factors)
    sampler = TableGibbs(n_states, steep, cyclic([(0,), (1, 2), (3,), (0, 3)]), most_entries=0)
    assert {table.kind for table in sampler.tables} == {LOGARITHMS}
    for block in sampler.scan.blocks:
        matrix = kernel_matrix(sampler, block)
        assert np.isfinite(matrix).all()
        assert np.abs(matrix - twin_matrix(block, n_states, steep)).max() < 1e-12


def test_conflicting_factors_do_not_underflow():
    """Either factor alone leaves one state; together they leave both, at e^-700 each."""
    pull = [
        Factor((0, 1), np.array([[0.0, -700.0], [0.0, 0.0]])),
        Factor((0, 2), np.array([[-700.0, 0.0], [0.0, 0.0]])),
    ]
    for most_entries in (0, 4096):
        sampler = TableGibbs([2, 2, 2], pull, most_entries=most_entries)
        p = kernel_matrix(sampler, (0,))
        assert np.abs(p - twin_matrix((0,), [2, 2, 2], pull)).max() < 1e-12
    assert TableGibbs([2, 2, 2], pull, most_entries=0).tables[0].kind == LOGARITHMS


def test_scans_keep_the_distribution():
    rng = np.random.default_rng([SEED, 3])
    for n_states, factors in PROBLEMS[:20]:
        _, p = possible(n_states, factors)
        blocks = random_blocks_of(len(n_states), rng)
        matrices = [twin_matrix(block, n_states, factors) for block in blocks]
        assert is_kept(p, cycle_matrix(matrices))
        weights = rng.dirichlet(np.ones(len(blocks)))
        mixed = mixture_matrix(matrices, weights)
        assert is_kept(p, mixed)
        assert is_in_balance(p, mixed)


def choice_matrix(n_states, factors, choose, blocks):
    """Redraw ``blocks[choose(x)]``."""
    rows, _ = possible(n_states, factors)
    matrices = [twin_matrix(block, n_states, factors) for block in blocks]
    return np.array([matrices[choose(row)][i] for i, row in enumerate(rows)])


def test_a_block_may_depend_on_what_it_does_not_redraw():
    n_states, factors = dense_problem()
    _, p = possible(n_states, factors)
    blocks = [(0, 1), (1, 2)]
    assert is_kept(p, choice_matrix(n_states, factors, lambda x: int(x[3]), blocks))


def test_a_block_must_not_depend_on_what_it_redraws():
    """Riggelsen 2.1.6 as printed: values of X1 and X2 say that these are to be drawn together."""
    n_states, factors = dense_problem()
    _, p = possible(n_states, factors)
    wrong = choice_matrix(n_states, factors, lambda x: int(x[0] != x[1]), [(0, 1), (1, 2, 3)])
    assert not is_kept(p, wrong)
    stationary = np.linalg.matrix_power(wrong, 4000)[0]
    assert np.abs(stationary - p).sum() / 2 > 0.01


def test_a_blanket_that_forgets_a_factor_is_found_out():
    n_states, factors = dense_problem()
    _, p = possible(n_states, factors)
    for f in range(len(factors)):
        block = (factors[f].variables[0],)
        sampler = TableGibbs(n_states, factors)
        assert is_kept(p, kernel_matrix(sampler, block))
        broken = TableGibbs(n_states, factors[:f] + factors[f + 1 :])
        assert not is_kept(p, kernel_matrix(broken, block))
