"""Numbers far below the smallest of a computer: evidence of probability 1e-400, tables that span thousands of nats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from doxa.inference.exact import plan as execution
from doxa.inference.exact import plan_contraction
from doxa.models.factors import Factor


@pytest.fixture
def fallbacks(monkeypatch):
    """Grows with every run that had to go on in logarithms."""
    runs = []
    original = execution.execute_logs
    monkeypatch.setattr(execution, "execute_logs", lambda *a, **k: runs.append(1) or original(*a, **k))
    return runs


def chain(n, rare):
    """A two-state chain with an observation at each node, of probability ``rare`` or half of it."""
    step = np.log([[0.9, 0.1], [0.2, 0.8]])
    seen = np.log([rare, rare / 2])
    factors = [Factor((0,), np.log([0.5, 0.5]))]
    factors += [Factor((t, t + 1), step) for t in range(n - 1)]
    return factors + [Factor((t,), seen) for t in range(n)]


def forward_sum(n, rare):
    """The same by a scaled forward pass: log Z and the last node's distribution."""
    p, log_z = np.array([0.5, 0.5]), 0.0
    for t in range(n):
        p = p @ [[0.9, 0.1], [0.2, 0.8]] if t else p
        p = p * [1.0, 0.5]
        log_z += math.log(p.sum()) + math.log(rare)
        p = p / p.sum()
    return log_z, p


@pytest.mark.parametrize(("n", "rare"), [(40, 1e-12), (2000, 1e-3), (50, 1e-200), (3, 1e-300)])
def test_evidence_of_tiny_probability(n, rare, fallbacks):
    factors = chain(n, rare)
    plan = plan_contraction((2,) * n, [factor.variables for factor in factors])
    result = plan.run(factors)
    log_z, last = forward_sum(n, rare)
    assert log_z < -400 * math.log(10)  # exp(log_z) is 0
    assert result.log_z == pytest.approx(log_z, rel=1e-13)
    np.testing.assert_allclose(result.marginals[-1], last, rtol=1e-12)
    assert not fallbacks  # powers of two were enough


def test_states_that_only_a_later_factor_makes_likely(fallbacks):
    """Products on the way are 1e-870 of the largest entry, and in the end all that counts."""
    down = Factor((0, 1), np.array([[0.0, -1000.0], [-1000.0, -1000.0]]))
    down_again = Factor((1, 0), down.log_values)
    up = Factor((0,), np.array([-3000.0, 0.0]))
    up_again = Factor((1,), np.array([-3000.0, 0.0]))
    factors = [down, down_again, up, up_again]
    result = plan_contraction((2, 2), [factor.variables for factor in factors]).run(factors)
    assert result.log_z == pytest.approx(-2000.0, rel=1e-14)
    np.testing.assert_allclose(result.marginals[0], [0.0, 1.0], atol=1e-300)
    assert fallbacks


def test_two_ranges_meet_at_their_ends(fallbacks):
    """Entries of 1e-298 in two tables: their product, 1e-596 of the largest, is kept without logarithms."""
    low = -298 * math.log(10)
    factors = [Factor((0, 1), np.array([[0.0, low], [low, low]])), Factor((1, 0), np.array([[0.0, low], [low, low]]))]
    factors.append(Factor((0, 1), np.array([[-np.inf, -np.inf], [-np.inf, 0.0]])))
    result = plan_contraction((2, 2), [factor.variables for factor in factors]).run(factors)
    assert result.log_z == pytest.approx(2 * low, rel=1e-14)
    assert not fallbacks


@pytest.mark.parametrize("offset", [-1e6, 0.0, 1e6])
def test_constants_do_not_matter(offset):
    values = np.log([[0.3, 0.7], [0.6, 0.4]])
    factors = [Factor((0, 1), values + offset), Factor((1, 2), values - offset / 2), Factor((), np.array(offset))]
    result = plan_contraction((2, 2, 2), [factor.variables for factor in factors]).run(factors)
    total = np.exp(values) @ np.exp(values)
    assert result.log_z == pytest.approx(math.log(total.sum()) + 1.5 * offset, rel=1e-14, abs=1e-14)
    np.testing.assert_allclose(result.marginals[0], total.sum(1) / total.sum(), rtol=1e-9)


def test_impossible_evidence_is_minus_infinity_even_in_logarithms(fallbacks):
    never = Factor((0, 1), np.array([[-np.inf, -5000.0], [-np.inf, 0.0]]))
    other = Factor((1,), np.array([0.0, -np.inf]))
    plan = plan_contraction((2, 2), [(0, 1), (1,)], keep=(0,))
    assert plan.run([never, other]).log_z == -np.inf
    assert np.isnan(plan.run([never, other]).marginals[0]).all()
    assert plan.joint([never, other]).log_z == -np.inf
    assert plan.most_probable([never, other]).states == (-1, -1)
    assert fallbacks


def thirty_networks():
    """Of one graph: one in which nothing is possible, and one far less probable than the others."""
    rng = np.random.default_rng(1)
    sizes, scopes = (2, 3, 1, 2, 2), ((0,), (0, 1), (2, 1), (3, 1, 2), (4, 3))
    tables = [np.log(rng.dirichlet(np.ones(4), (30, *(sizes[v] for v in scope)))[..., 0]) for scope in scopes]
    tables[0][3] = -np.inf
    tables[1][5, 1, :] = -np.inf
    tables[2][7] -= 700.0
    return sizes, scopes, tables


@pytest.mark.parametrize("at_once", [30, 7, 1])
def test_marginals_of_networks_together_and_one_by_one(at_once, monkeypatch):
    sizes, scopes, tables = thirty_networks()
    sizes = (*sizes, 2)  # the last is in no table
    plan = plan_contraction(sizes, scopes)
    monkeypatch.setattr(execution, "_TOGETHER", at_once * plan.tree.operations)
    found = plan.marginals(tables)
    assert [one.shape for one in found] == [(30, size) for size in sizes]
    for t in range(30):
        one = plan.run([Factor(scope, own[t]) for scope, own in zip(scopes, tables, strict=True)])
        for v in (0, 1, 3, 4):
            np.testing.assert_allclose(found[v][t], one.marginals[v], rtol=1e-12)
    assert np.isnan(found[0][3]).all()
    assert not np.isnan(np.delete(found[0], 3, axis=0)).any()
    assert (found[5] == 0.5).all()


@pytest.mark.parametrize("keep", [(), (1, 3)])
def test_networks_together_and_one_by_one(keep, monkeypatch):
    sizes, scopes, tables = thirty_networks()
    plan = plan_contraction(sizes, scopes, keep=keep)
    for at_once in (2**18, 7 * plan.joint_cost.operations, 1):
        monkeypatch.setattr(execution, "_AT_ONCE", at_once)
        found = plan.joints(tables)
        assert found.log_z.shape == (30,)
        assert found.probabilities.shape == (30, *(sizes[v] for v in keep))
        for t in range(30):
            factors = [Factor(scope, own[t]) for scope, own in zip(scopes, tables, strict=True)]
            log_z, probabilities = plan.joint(factors)
            assert found.log_z[t] == pytest.approx(log_z, rel=1e-13)
            np.testing.assert_allclose(found.probabilities[t], probabilities, rtol=1e-12)
    assert found.log_z[3] == -math.inf
