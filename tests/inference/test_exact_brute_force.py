"""Contraction against sums over all states of hundreds of small networks: zeros, hyperedges, parts, single states."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.inference.exact import plan as execution
from doxa.inference.exact import plan_contraction, program
from doxa.inference.exact import program as products
from doxa.inference.exact.program import Places
from doxa.models.factors import Factor
from support.checks import SEED

ROUNDING = 1e-11  # some 100 operations on numbers with a relative error of 1e-16, logarithms of up to 10^4 nats


def random_factors(rng, scales, n=6):
    """Up to ten factors of up to three of six variables; some share all, some none, some have no variable at all."""
    n_states = tuple(int(size) for size in rng.integers(1, 4, n))
    factors = []
    for _ in range(rng.integers(0, 11)):
        scope = tuple(int(v) for v in rng.choice(n, rng.integers(0, 4), replace=False))
        shape = [n_states[v] for v in scope]
        values = np.asarray(rng.normal(size=shape)) * rng.choice(scales)
        factors.append(Factor(scope, np.where(rng.random(shape) < 0.2, -np.inf, values)))
    return n_states, factors


def log_joint(n_states, factors):
    """Log of the product, over all states, shape ``n_states``."""
    total = np.zeros(n_states)
    for factor in factors:
        shape = [size if v in factor.variables else 1 for v, size in enumerate(n_states)]
        total = total + factor.log_values.transpose(np.argsort(factor.variables)).reshape(shape)
    return total


def margin(probabilities, keep):
    """Sum of a joint table, axes in the order of ``keep``."""
    left = probabilities.sum(tuple(v for v in range(probabilities.ndim) if v not in keep))
    return left.transpose([sorted(keep).index(v) for v in keep])


def check(n_states, factors, keep):
    """Compare all answers with the enumeration; return whether some state is possible."""
    logs = log_joint(n_states, factors)
    plan = plan_contraction(n_states, [factor.variables for factor in factors], keep=keep)
    result, joint, best = plan.run(factors), plan.joint(factors), plan.most_probable(factors)
    peak = logs.max()
    if peak == -np.inf:
        assert result.log_z == joint.log_z == best.log_value == -np.inf
        assert all(np.isnan(marginal).all() for marginal in [*result.marginals, joint.probabilities])
        assert set(best.states) == {-1}
        return False
    used = {v for factor in factors for v in factor.variables}
    free = sum(np.log(size) for v, size in enumerate(n_states) if v not in used)
    probabilities = np.exp(logs - peak)
    log_z = peak + np.log(probabilities.sum()) - free
    probabilities /= probabilities.sum()
    for found in (result.log_z, joint.log_z):
        assert found == pytest.approx(log_z, rel=1e-13, abs=ROUNDING)
    for v, marginal in enumerate(result.marginals):
        np.testing.assert_allclose(marginal, margin(probabilities, (v,)), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(joint.probabilities, margin(probabilities, keep), rtol=0, atol=ROUNDING)
    assert best.log_value == pytest.approx(peak, rel=1e-13, abs=ROUNDING)
    assert logs[best.states] == pytest.approx(peak, rel=1e-13, abs=ROUNDING)
    with_factors = logs[tuple(slice(None) if v in used else 0 for v in range(len(n_states)))]
    first, second = np.sort(np.append(with_factors, -np.inf))[:-3:-1]
    assert best.gap == first - second or best.gap == pytest.approx(first - second, abs=ROUNDING + 1e-12 * abs(peak))
    return True


def check_many(n, scales, seed):
    rng = np.random.default_rng([SEED, seed])
    possible = 0
    for _ in range(n):
        n_states, factors = random_factors(rng, scales)
        possible += check(n_states, factors, tuple(int(v) for v in rng.choice(6, rng.integers(0, 4), replace=False)))
    assert possible > n / 3


def test_agrees_with_enumeration():
    check_many(300, scales=[0.0, 1.0, 5.0], seed=1)


def test_agrees_where_logarithms_are_needed(monkeypatch):
    fallbacks = []
    original = execution.execute_logs
    monkeypatch.setattr(execution, "execute_logs", lambda *a, **k: fallbacks.append(1) or original(*a, **k))
    check_many(300, scales=[1.0, 300.0, 3000.0], seed=2)
    assert len(fallbacks) > 100


def test_agrees_through_matrix_products(monkeypatch):
    monkeypatch.setattr(products, "_LEAST_WORK", 1)
    monkeypatch.setattr(products, "_LEAST_REUSE", 0)
    monkeypatch.setattr(program, "_WORTH_A_LOOK", 1)
    used = []
    original = products.MatrixProduct.run
    monkeypatch.setattr(
        products.MatrixProduct, "run", lambda self, *a, **k: used.append(self) or original(self, *a, **k)
    )
    check_many(300, scales=[1.0, 5.0], seed=3)
    assert len(used) > 300
    assert any(product.n_batch > 1 for product in used)


def test_large_and_interleaved_tables():
    """Loops of three and more levels, runs of axes, targets of one number: against einsum."""
    rng = np.random.default_rng([SEED, 4])
    for _ in range(20):
        n = 9
        n_states = tuple(int(size) for size in rng.integers(2, 5, n))
        scopes = [tuple(int(v) for v in rng.choice(n, rng.integers(3, 6), replace=False)) for _ in range(5)]
        factors = [Factor(scope, rng.normal(size=[n_states[v] for v in scope])) for scope in scopes]
        operands = [part for f in factors for part in (np.exp(f.log_values), list(f.variables))]
        result = plan_contraction(n_states, scopes).run(factors)
        for v in {v for scope in scopes for v in scope}:
            weights = np.einsum(*operands, [v], optimize=True)
            np.testing.assert_allclose(result.marginals[v], weights / weights.sum(), rtol=1e-11)
            assert result.log_z == pytest.approx(np.log(weights.sum()), rel=1e-12)


def test_a_plan_serves_new_values():
    rng = np.random.default_rng([SEED, 5])
    n_states, factors = random_factors(rng, [1.0])
    scopes = [factor.variables for factor in factors]
    plan = plan_contraction(n_states, scopes, keep=(1, 0))
    for _ in range(5):
        factors = [Factor(f.variables, np.asarray(rng.normal(size=f.log_values.shape))) for f in factors]
        before = [factor.log_values.copy() for factor in factors]
        again, fresh = plan.run(factors), plan_contraction(n_states, scopes, keep=(1, 0)).run(factors)
        assert again.log_z == fresh.log_z
        for one, other in zip(again.marginals, fresh.marginals, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(plan.joint(factors).probabilities, plan.joint(factors).probabilities)
        for factor, values in zip(factors, before, strict=True):
            np.testing.assert_array_equal(factor.log_values, values)


def test_of_tied_states_one_is_given_and_the_gap_is_zero():
    tied = np.log(np.array([[0.25, 0.25], [0.25, 0.25]]))
    best = plan_contraction((2, 2), [(0, 1)]).most_probable([Factor((0, 1), tied)])
    assert best.states == (0, 0)
    assert best.gap == 0.0
    assert plan_contraction((2, 3), [(0,)]).most_probable([Factor((0,), np.array([0.0, 1.0]))]) == ((1, 0), 1.0, 1.0)
    assert plan_contraction((1,), [(0,)]).most_probable([Factor((0,), np.zeros(1))]).gap == np.inf


def test_places_never_overlap_and_fill_gaps():
    rng = np.random.default_rng([SEED, 6])
    places, taken, handed_out = Places(7), {}, 0
    for _ in range(2000):
        if taken and rng.random() < 0.5:
            first = list(taken)[rng.integers(len(taken))]
            places.give_back(first, taken.pop(first))
        else:
            size = int(rng.integers(4096, 20_000))
            first = places.take(size)
            assert first >= 7
            assert first + size <= places.end
            assert all(first + size <= other or other + theirs <= first for other, theirs in taken.items())
            taken[first] = size
            handed_out += size
    assert places.end < 0.25 * handed_out
    for first, size in taken.items():
        places.give_back(first, size)
    assert places.take(places.end - 7) == 7  # all gaps have become one
