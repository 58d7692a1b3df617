"""Log evidences of logistic families agree with dense sums and with long draws, and their errors are honest."""

from __future__ import annotations

import numpy as np
import pytest
from logistic_score_cases import KINDS, binary_table, boxed_evidence, dense_evidence, drawn_evidence, random_codes

from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows
from doxa.structure.families.logistic import Logistic
from doxa.structure.families.logistic.box import Box
from doxa.structure.families.logistic.evidence import add_log_likelihood
from doxa.structure.families.logistic.report import family_evidence
from doxa.structure.families.logistic.softplus import exponentials, log_one_logit, subtract_softplus
from doxa.structure.families.logistic.work import LEVELS, REPLICATES, gather_cells, logistic_work, nodes_for
from support.checks import SEED, z_limit


def evidence_of(codes, scale=2.0, tolerance=0.01):
    table = binary_table(codes)
    return family_evidence(table, "x0", table.names[1:], Logistic(scale, tolerance=tolerance))


def test_arithmetic_alone_gives_log_one_plus_exp_and_exp():
    h = np.concatenate([np.linspace(-60.0, 60.0, 20001), [-1e6, -800.0, 0.0, 800.0, 1e6]])
    total = np.zeros_like(h)
    subtract_softplus(h, -1.0, total)
    np.testing.assert_allclose(total, np.logaddexp(0.0, h), rtol=1e-14, atol=2e-12)
    factors = np.full(12001, 3.0)
    exponents = np.linspace(-60.0, 60.0, 12001)
    exponentials(exponents, factors)
    np.testing.assert_allclose(factors, 3.0 * np.exp(exponents), rtol=6e-14)


@pytest.mark.parametrize(("n_rows", "size"), [(12, 0.3), (300, 0.3), (300, 2.5), (300, 40.0), (40_000, 1.0)])
def test_likelihoods_by_products_are_those_by_sums(n_rows, size):
    """Few cases a cell and many, tame logits and logits whose exponentials would not fit."""
    rng = np.random.default_rng(n_rows)
    columns = rng.integers(0, 2, (7, n_rows)).astype(np.int16)
    columns[0] = rng.random(n_rows) < 0.1
    work, n, scale = logistic_work(n_rows, 7), 100, 2.0
    data = (columns, np.ones(n_rows, dtype=np.int64), np.full(7, 2))
    n_cells, n_parents = gather_cells(0, np.array([0b1111110], dtype=np.uint64), data, work)
    work.moved[:7, :n] = size * rng.standard_normal((7, n))
    work.exponents[:n] = before = rng.standard_normal(n)
    add_log_likelihood(n, n_cells, n_parents, scale, columns, work)
    logits = scale * (np.column_stack([np.ones(n_rows), 2.0 * columns[1:].T - 1.0]) @ work.moved[:7, :n])
    right = before + columns[0] @ logits - np.logaddexp(0.0, logits).sum(axis=0)
    np.testing.assert_allclose(work.exponents[:n], right, rtol=1e-12, atol=1e-8)


def test_single_logits_are_exact_and_their_error_is_a_bound():
    h = np.linspace(-400.0, 400.0, 200_001)
    for deviation in (0.01, 0.5, 2.0, 2.0 * 2**0.5, 30.0):
        for successes, cases in ((0, 0), (0, 1), (1, 1), (3, 7), (0, 40), (40, 40), (1, 10_000), (5_000, 10_000)):
            log_terms = -successes * np.logaddexp(0, -h) - (cases - successes) * np.logaddexp(0, h)
            log_terms -= 0.5 * (h / deviation) ** 2
            exact = np.log(np.exp(log_terms - log_terms.max()).sum() * (h[1] - h[0])) + log_terms.max()
            exact -= np.log(deviation * np.sqrt(2 * np.pi))
            found, error = log_one_logit(float(successes), float(cases), deviation)
            if deviation > 0.1:  # the step of the reference is 0.004
                assert abs(found - exact) < 1e-8 * (1.0 + 1e-3 * abs(exact)), (deviation, successes, cases)
                assert abs(found - exact) <= error + 1e-10 * (1.0 + abs(exact))
            assert error < 1e-3


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("n_parents", [0, 1])
def test_one_parent_at_most_agrees_with_a_dense_grid(n_parents, scale):
    rng = np.random.default_rng(3)
    for kind in KINDS:
        for n_rows in (1, 12, 300) if scale < 10 else (1, 12):
            codes = random_codes(rng, n_parents, n_rows, kind)
            found = evidence_of(codes, scale)
            if n_rows < 300:
                assert abs(found.log_evidence - boxed_evidence(codes, scale, n=401)) < 1e-7
            else:
                assert abs(found.log_evidence - dense_evidence(codes, scale, n=201)) < 1e-7
            assert found.n_nodes == 0


def cases_of_two_parents(seed, n=24):
    rng = np.random.default_rng(seed + SEED)
    for case in range(n):
        codes = random_codes(rng, 2, int(rng.choice([5, 40, 200, 1000])), KINDS[case % 4])
        yield codes, 0.7 if case % 8 > 5 else 2.0


def within(found, exact, errors):
    """No error is more than four times what is said, and the root mean square is below one and a half."""
    z = (found - exact) / errors
    return bool(np.abs(z).max() < 4.0 and np.sqrt((z**2).mean()) < 1.5)


def test_two_parents_agree_with_a_dense_grid_within_their_errors():
    found, exact = [], []
    for codes, scale in cases_of_two_parents(0):
        found.append(evidence_of(codes, scale))
        exact.append(dense_evidence(codes, scale, n=51))
    value, error, _ = np.array(found).T
    assert (error <= 0.01).all()
    assert within(value, np.array(exact), error)
    assert np.abs(value - exact).max() < 0.02
    assert not within(value, np.array(exact), error / 40.0)  # the check sees errors that are too small
    assert not within(value + 0.03, np.array(exact), error)  # ... and a shift


def test_a_prior_far_too_wide_agrees_with_long_draws():
    rng = np.random.default_rng(4)
    z = []
    for kind in KINDS:
        for n_rows in (5, 200):
            codes = random_codes(rng, 2, n_rows, kind)
            found = evidence_of(codes, 10.0)
            drawn, error = drawn_evidence(codes, 10.0, 100_000, seed=SEED)
            assert found.error <= 0.01
            z.append((found.log_evidence - drawn) / np.hypot(found.error, error))
    assert np.abs(z).max() < z_limit(len(z))


def test_more_nodes_for_a_smaller_tolerance_come_closer():
    gaps = []
    for codes, scale in cases_of_two_parents(1, n=8):
        exact = dense_evidence(codes, scale)
        fine = evidence_of(codes, scale, tolerance=1e-4)
        gaps.append(abs(fine.log_evidence - exact))
        assert fine.n_nodes >= 2048
        assert gaps[-1] < 4 * fine.error + 1e-6
    assert max(gaps) < 2e-3


@pytest.mark.parametrize(("n_parents", "n_rows"), [(3, 30), (3, 1000), (6, 300), (9, 1000)])
def test_more_parents_agree_with_long_draws(n_parents, n_rows):
    rng = np.random.default_rng(n_parents)
    z = []
    for kind in KINDS[: 4 if n_parents < 6 else 3]:
        codes = random_codes(rng, n_parents, n_rows, kind)
        found = evidence_of(codes)
        drawn, error = drawn_evidence(codes, 2.0, 50_000 if n_parents == 9 else 100_000, seed=SEED)
        assert error < 0.03
        assert found.error <= 0.02
        z.append((found.log_evidence - drawn) / np.hypot(found.error, error))
    assert np.abs(z).max() < z_limit(16)


def test_twenty_parents_work_and_cells_are_at_most_the_rows():
    rng = np.random.default_rng(8)
    codes = random_codes(rng, 20, 400, "mild")
    found = evidence_of(codes)
    drawn, error = drawn_evidence(codes, 2.0, 50_000, seed=SEED)
    assert found.error < 0.1
    assert abs(found.log_evidence - drawn) < z_limit(1) * np.hypot(found.error, error)


def test_parents_that_are_constant_equal_or_opposite_are_the_same_model_with_other_priors():
    rng = np.random.default_rng(5)
    codes = random_codes(rng, 1, 80, "prior")
    child, parent = codes.T
    zero = np.zeros_like(parent)
    for other in (zero, 1 - zero, parent, 1 - parent):
        tripled = np.column_stack([child, parent, other])
        assert abs(evidence_of(tripled).log_evidence - dense_evidence(tripled, 2.0)) < 0.02
    certain = np.column_stack([zero, parent, parent])
    assert abs(evidence_of(certain).log_evidence - dense_evidence(certain, 2.0)) < 0.02
    # nothing but constants: a single logit of three times the variance
    constant = evidence_of(np.column_stack([child, zero, zero])).log_evidence
    assert abs(constant - log_one_logit(float(child.sum()), 80.0, 2.0 * 3**0.5)[0]) < 0.02
    same = evidence_of(np.column_stack([child, parent, zero])).log_evidence
    assert same == pytest.approx(evidence_of(np.column_stack([child, parent, 1 - zero])).log_evidence, abs=0.02)


def test_columns_with_a_single_state_say_nothing():
    codes = random_codes(np.random.default_rng(6), 2, 50, "mild")
    table = Table.from_codes(
        ("x0", "x1", "x2", "k"), (("n", "y"),) * 3 + (("only",),), np.column_stack([codes, np.zeros(50, dtype=int)])
    )
    with_it = family_evidence(table, "x0", ("x1", "k", "x2"))
    assert with_it == family_evidence(table, "x0", ("x1", "x2"))
    assert family_evidence(table, "k", ("x1", "x2")).log_evidence == 0.0


def test_no_rows_have_evidence_one():
    table = Table.from_codes(("x0", "x1", "x2"), (("n", "y"),) * 3, np.zeros((0, 3), dtype=int))
    for parents in ((), ("x1",), ("x1", "x2")):
        assert abs(family_evidence(table, "x0", parents).log_evidence) < 1e-12


def test_scores_depend_on_the_counts_alone():
    rng = np.random.default_rng(9)
    codes = random_codes(rng, 4, 200, "prior")
    found = evidence_of(codes)
    shuffled = evidence_of(codes[rng.permutation(200)])
    assert found.n_nodes == shuffled.n_nodes
    assert found.log_evidence == pytest.approx(shuffled.log_evidence, abs=1e-9)
    # any order of visits and any history of the work space
    table = binary_table(codes)
    data = (np.array(table.codes.T, order="C"), np.array(table.counts), np.full(5, 2))
    sets = pack_rows(np.array([[False, *bits] for bits in np.ndindex(2, 2, 2, 2)]))
    box, forwards, backwards, alone = Box(Logistic(), data), np.zeros(16), np.zeros(16), np.zeros(16)
    box.score(0, sets, forwards)
    box.score(0, sets[::-1].copy(), backwards)
    for k in range(16):
        Box(Logistic(), data).score(0, sets[k : k + 1], alone[k : k + 1])
    assert (forwards == backwards[::-1]).all()
    assert (forwards == alone).all()


def test_levels_of_nodes_are_shifted_lattices_with_the_moments_of_a_normal():
    nodes = nodes_for(12)
    assert (nodes_for(3).value == nodes.value[:3]).all()
    for level in LEVELS:
        value = nodes.value[:, :level]
        spread = 3.0 / np.sqrt(level)  # of independent draws, three errors: a lattice is far better
        assert np.abs(value.mean(axis=1)).max() < spread / 3
        assert np.abs(value @ value.T / level - np.eye(12)).max() < 1.5 * spread
        parts = value.reshape(12, REPLICATES, -1).mean(axis=2)
        assert np.abs(parts).max() < 3.0 / np.sqrt(level / REPLICATES)


def test_bad_families_are_named():
    table = Table.from_codes(("a", "b", "c"), (("n", "y"), ("n", "y", "?"), ("n", "y")), [[0, 2, 1], [1, 0, -1]])
    with pytest.raises(ArgumentError, match=r"needs columns of two states, and the table has 'b' \(3 states\)"):
        family_evidence(table, "a", ("b",))
    with pytest.raises(ArgumentError, match="the family names 'z', which is not a column"):
        family_evidence(table, "z")
    with pytest.raises(ArgumentError, match="the family names 'a' twice"):
        family_evidence(table, "a", ("a",))
    with pytest.raises(ArgumentError, match=r"columns \['c'\] have missing cells"):
        family_evidence(table, "a", ("c",))
    wide = Table.from_codes([f"v{i}" for i in range(65)], [("n", "y")] * 65, np.zeros((2, 65), dtype=int))
    with pytest.raises(ArgumentError, match="parents has 64 names; a logistic family has at most 63"):
        family_evidence(wide, "v0", wide.names[1:])
