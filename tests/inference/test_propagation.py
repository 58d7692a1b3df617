"""Propagation never strikes out a possible state, strikes out all impossible ones on trees, and ends."""

from __future__ import annotations

import numpy as np
import pytest

from doxa.inference import propagation
from doxa.inference.propagation import determined, supported_states
from doxa.models.factors import Factor
from doxa.models.markov import MarkovNetwork
from support.checks import SEED
from support.small_networks import joint, random_categorical, random_evidence, random_markov


def with_evidence(network, evidence):
    """The network's factors, and evidence as factors of one variable."""
    extra = [
        Factor((v,), np.where(np.arange(len(network.states[v])) == k, 0.0, -np.inf)) for v, k in evidence.hard.items()
    ]
    with np.errstate(divide="ignore"):
        return [*network.factors, *extra, *(Factor((v,), np.log(values)) for v, values in evidence.soft.items())]


def possible_states(product):
    """By variable, the states that some possible configuration has."""
    return [
        np.flatnonzero(product.sum(axis=tuple(a for a in range(product.ndim) if a != v))) for v in range(product.ndim)
    ]


def assert_sound(network, evidence):
    """Return whether anything was struck out; assert that nothing possible was."""
    exact = joint(network, evidence)
    left = supported_states(with_evidence(network, evidence))
    if left is None:
        assert exact.sum() == 0
        return True
    for v, states in enumerate(possible_states(exact)):
        if v in left:
            assert len(left[v]) < len(network.states[v])
            assert set(states) <= set(left[v])
    return bool(left)


def n_struck_out(make):
    rng = np.random.default_rng([SEED, 1])
    return sum(assert_sound(network, random_evidence(rng, network)) for network in (make(rng) for _ in range(250)))


@pytest.mark.parametrize("make", [random_categorical, random_markov])
def test_no_possible_state_is_struck_out(make):
    assert n_struck_out(make) > 100


def test_striking_out_too_much_is_found_out(monkeypatch):
    """The twin: a propagation that wants support from the first row alone must not pass."""

    class Wrong:
        @staticmethod
        def reduce(support, axis):
            return np.moveaxis(support, axis, range(len(axis)))[(0,) * len(axis)]

    class Numpy:
        logical_or, logical_and, inf = Wrong, np.logical_and, np.inf

    monkeypatch.setattr(propagation, "np", Numpy)
    with pytest.raises(AssertionError):
        n_struck_out(random_categorical)


def test_on_trees_exactly_the_impossible_states_go():
    rng = np.random.default_rng([SEED, 2])
    n_left = 0
    for _ in range(150):
        n = int(rng.integers(2, 8))
        states = {f"v{i}": list("abcd"[: rng.integers(2, 5)]) for i in range(n)}
        potentials = []
        for i in range(1, n):
            pair = [f"v{rng.integers(i)}", f"v{i}"]
            values = np.where(rng.random([len(states[v]) for v in pair]) < 0.55, -np.inf, 0.0)
            values.flat[rng.integers(values.size)] = 0.0
            potentials.append((pair, values))
        network = MarkovNetwork(states, potentials)
        exact = joint(network)
        left = supported_states(network.factors)
        assert (left is None) == (exact.sum() == 0)
        if left is not None:
            for v, possible in enumerate(possible_states(exact)):
                np.testing.assert_array_equal(left.get(v, np.arange(exact.shape[v])), possible)
                n_left += len(possible) < exact.shape[v]
    assert n_left > 100


def test_what_no_factor_forbids_alone_may_stay():
    """Three variables of two states, each pair of them different: impossible, and every state supported."""
    differ = [[-np.inf, 0.0], [0.0, -np.inf]]
    factors = [Factor(pair, np.array(differ)) for pair in ((0, 1), (1, 2), (0, 2))]
    assert supported_states(factors) == {}


def test_a_long_chain_is_walked_once():
    """From one end to the other: work in proportion to the length, not to its square."""
    n = 4000
    same = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    factors = [Factor((i, i + 1), same) for i in reversed(range(n))]  # the order that looks at the far end first
    factors.append(Factor((0,), np.array([-np.inf, 0.0])))
    left = supported_states(factors)
    assert left is not None
    assert all(left[i].tolist() == [1] for i in range(n + 1))


@pytest.mark.parametrize("make", [random_categorical, random_markov])
def test_determined_variables_agree_with_a_walk_over_all_cells(make):
    rng = np.random.default_rng([SEED, 3])
    n_found = 0
    for _ in range(150):
        network = make(rng, zeros=0.6)
        expected = []
        for f, (variables, log_values) in enumerate(network.factors):
            for axis, v in enumerate(variables):
                lines = np.moveaxis(log_values, axis, -1).reshape(-1, log_values.shape[axis])
                if log_values.shape[axis] > 1 and all((line > -np.inf).sum() <= 1 for line in lines):
                    expected.append((v, variables[:axis] + variables[axis + 1 :], f))
        assert [tuple(d) for d in determined(network.factors)] == expected
        n_found += len(expected)
    assert n_found > 100


def test_a_deterministic_node_is_determined_by_its_parents():
    either = np.log([[[1.0, 1e-300], [1e-300, 1.0]], [[1e-300, 1.0], [1e-300, 1.0]]])
    either[either < -100] = -np.inf
    assert [d[:2] for d in determined([Factor((0, 1, 2), either)])] == [(2, (0, 1))]
