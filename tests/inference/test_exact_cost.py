"""Costs are counted before a run, are what the run takes, and are refused with words where they exceed the budget."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.inference.exact import Budget, BudgetError, Cost, plan_contraction
from doxa.inference.exact.program import Purpose, write_program
from doxa.models.factors import Factor


def grid(n):
    """Scopes of an n x n grid with fields."""
    scopes = [(i,) for i in range(n * n)]
    scopes += [(i, i + 1) for i in range(n * n) if (i + 1) % n]
    return (2,) * (n * n), scopes + [(i, i + n) for i in range(n * (n - 1))]


def random_values(n_states, scopes, seed=0):
    rng = np.random.default_rng(seed)
    return [Factor(scope, rng.normal(size=[n_states[v] for v in scope])) for scope in scopes]


def test_operations_are_the_terms_of_the_steps_and_adjoints():
    """Counted again from the instructions' shapes: each term is one combination of its tables' variables."""
    n_states, scopes = grid(4)
    plan = plan_contraction(n_states, scopes)
    tree = plan.tree
    terms = [math.prod(tree.sizes[p] for p in {*tree.scopes[s.left], *tree.scopes[s.right]}) for s in tree.steps]
    assert plan.joint_cost.operations == plan.most_probable_cost.operations == tree.operations == sum(terms)
    assert 2 * sum(terms) < plan.operations < 4 * sum(terms)


def test_a_hand_counted_cost():
    """Two tables of 3 x 4 and 4 x 5: the first is summed over x in 12, the product over y and z in 20."""
    plan = plan_contraction((3, 4, 5), [(0, 1), (1, 2)])
    assert plan.joint_cost.operations == 12 + 20
    adjoints = 20 + 20 + 12  # of the sum, of the second table, of the first
    marginals = 4 + 20 + 12  # of y from the sum, of z and x from the tables
    assert plan.operations == 32 + adjoints + marginals


@pytest.mark.parametrize(("answer", "purpose"), [("run", "cost"), ("joint", "joint_cost")])
def test_bytes_are_what_is_used(answer, purpose):
    n_states, scopes = grid(12)
    plan = plan_contraction(n_states, scopes, keep=(0, 5, 70))
    factors = random_values(n_states, scopes)
    getattr(plan, answer)(factors)  # compiles
    predicted = getattr(plan, purpose).bytes
    tracemalloc.start()
    getattr(plan, answer)(factors)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * predicted < used < predicted + 200_000  # Python's own objects: factors' views, lists


def test_memory_is_given_back():
    n_states, scopes = grid(16)
    plan = plan_contraction(n_states, scopes)
    everything = 8 * sum(plan.tree.n_entries(scope) for scope in plan.tree.scopes)
    assert plan.joint_cost.bytes < 0.2 * everything < 0.2 * plan.bytes
    assert write_program(plan.tree, Purpose.TABLES).cost.bytes >= everything


def test_log_z_of_a_grid_is_found_by_another_order():
    """Least weight first needs tables of 2^23 here, rows one after the other 2^16."""
    plan = plan_contraction(*grid(16))
    assert plan.width == 16.0
    assert plan.joint_cost.operations < 5e7


def test_too_wide_networks_are_refused_quickly():
    for n_states, scopes in (grid(64), ((3,) * 300, [(i, j) for i in range(300) for j in range(i)])):
        with pytest.raises(
            BudgetError, match=r"one step of log Z of this network.* operations and .*(B|bytes); the budget"
        ):
            plan_contraction(n_states, scopes)


def test_a_budget_is_checked_for_every_answer():
    n_states, scopes = grid(10)
    factors = random_values(n_states, scopes)
    cheap = plan_contraction(n_states, scopes)
    assert cheap.joint_cost.bytes < cheap.most_probable_cost.bytes < cheap.bytes
    plan = plan_contraction(n_states, scopes, budget=Budget(bytes=cheap.joint_cost.bytes))
    assert plan.joint(factors).log_z == pytest.approx(cheap.run(factors).log_z, rel=1e-13)
    with pytest.raises(BudgetError, match="all marginals of this network would take"):
        plan.run(factors)
    with pytest.raises(BudgetError, match="the most probable states of this network would take"):
        plan.most_probable(factors)
    with pytest.raises(BudgetError, match="log Z of this network, with tables of up to 2"):
        plan_contraction(n_states, scopes, budget=Budget(bytes=cheap.joint_cost.bytes - 1))
    with pytest.raises(BudgetError) as refused:
        plan_contraction(n_states, scopes, budget=Budget(operations=cheap.joint_cost.operations - 1))
    assert refused.value.cost.operations >= refused.value.budget.operations
    assert "raise the budget, observe more variables, or use an approximate method" in str(refused.value)
    assert isinstance(refused.value, ArgumentError)


def test_costs_are_exact_integers_in_words():
    assert str(Cost(10**30 + 1, 999)) == "10^30 operations and 999 bytes"
    assert str(Cost(99_999, 12_345_678)) == "100 thousand operations and 12 MB"
    assert Budget(10, 10).admits(Cost(10, 10))
    assert not Budget(10, 10).admits(Cost(11, 1))
    with pytest.raises(ArgumentError, match="bytes is 0; it must be at least 1"):
        Budget(bytes=0)


@pytest.mark.parametrize(
    ("n_states", "scopes", "keep", "message"),
    [
        ((2, 0), [(0,)], (), r"n_states\[1\] is 0; it must be at least 1"),
        ((2, 2), [(0, 0)], (), r"scopes\[0\] is \(0, 0\); a variable may be named once"),
        ((2, 2), [(0, 2)], (), r"scopes\[0\] is \(0, 2\); variables are 0..1"),
        ((2, 2), [(0,)], (-1,), r"keep is \(-1,\); variables are 0..1"),
    ],
)
def test_bad_scopes(n_states, scopes, keep, message):
    with pytest.raises(ArgumentError, match=message):
        plan_contraction(n_states, scopes, keep=keep)


def test_bad_factors():
    plan = plan_contraction((2, 3), [(0, 1), (1,)])
    good = [Factor((0, 1), np.zeros((2, 3))), Factor((1,), np.zeros(3))]
    with pytest.raises(ArgumentError, match="factors has 1 entries; the plan was made for 2"):
        plan.run(good[:1])
    with pytest.raises(ArgumentError, match=r"factors\[0\] is over variables \(1,\); the plan was made for \(0, 1\)"):
        plan.run(good[::-1])
    with pytest.raises(ArgumentError, match=r"factors\[1\] has shape \(2,\); its variables have \(3,\) states"):
        plan.run([good[0], Factor((1,), np.zeros(2))])
    for wrong in (np.nan, np.inf):
        with pytest.raises(ArgumentError, match=r"factors\[1\] contains nan or \+inf"):
            plan.joint([good[0], Factor((1,), np.array([0.0, wrong, 1.0]))])
    with pytest.raises(ArgumentTypeError, match=r"n_states\[0\] is 2.5"):
        plan_contraction((2.5,), [(0,)])  # type: ignore[arg-type]


def test_no_factors_and_no_variables():
    plan = plan_contraction((3, 1), [], keep=(0,))
    result = plan.run([])
    assert result.log_z == 0.0
    np.testing.assert_allclose(result.marginals[0], np.full(3, 1 / 3))
    np.testing.assert_allclose(plan.joint([]).probabilities, np.full(3, 1 / 3))
    assert plan_contraction((), [()]).run([Factor((), np.array(-2.0))]).log_z == pytest.approx(-2.0)
