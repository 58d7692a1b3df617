"""`MarkovNetwork`: its log potential against plain sums, and its refusals."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.models.markov import MarkovNetwork
from support.checks import SEED
from support.small_networks import random_markov

STATES = {"a": ["no", "yes"], "b": ["low", "mid", "high"]}
PAIR = [[0.0, 1.0], [2.0, -np.inf], [4.0, 5.0]]


def test_axes_follow_the_clique_not_the_network():
    network = MarkovNetwork(STATES, [(["b", "a"], PAIR), ([], 0.25), (["a"], [0.0, 0.5])])
    assert [f.variables for f in network.factors] == [(1, 0), (), (0,)]
    assert network.log_potential([[1, 0], [1, 1], [0, 2]]).tolist() == [1.75, -np.inf, 4.25]
    assert (network.names, network.states[0], network.n_states) == (("a", "b"), ("no", "yes"), (2, 3))


def test_the_log_potential_is_the_sum_of_all():
    rng = np.random.default_rng(SEED)
    for _ in range(20):
        network = random_markov(rng)
        rows = np.array(list(product(*map(range, network.n_states))))
        expected = [sum(f.log_values[tuple(row[v] for v in f.variables)] for f in network.factors) for row in rows]
        np.testing.assert_allclose(network.log_potential(rows), expected, atol=1e-12)


def test_it_is_immutable_and_equal_to_its_copy():
    network = MarkovNetwork(STATES, [(["b", "a"], PAIR)])
    with pytest.raises(AttributeError, match="a MarkovNetwork is immutable; cannot set 'names'"):
        network.names = ()
    with pytest.raises(ValueError, match="read-only"):
        network.factors[0].log_values[0] = 1.0
    copied = pickle.loads(pickle.dumps(network))
    assert copied == network
    assert hash(copied) == hash(network)
    assert network != MarkovNetwork(STATES, [])
    assert network != MarkovNetwork(STATES, [(["b", "a"], np.zeros((3, 2)))])
    assert network != 1


def refusal(states=STATES, potentials=(), kind=ArgumentError):
    with pytest.raises(kind) as raised:
        MarkovNetwork(states, potentials)
    return str(raised.value)


@pytest.mark.parametrize(
    ("potential", "message"),
    [
        ((["a", "c"], PAIR), "potentials[0] names 'c', which is not a key of states"),
        ((["a", "a"], PAIR), "potentials[0] names 'a' more than once; the variables of a clique differ"),
        ((["a", "b"], PAIR), "potentials[0], over 'a', 'b', has shape (3, 2); it must be (2, 3)"),
        ((["a"], [0.0, np.nan]), "potentials[0], over 'a', contains NaN or +inf"),
        ((["a"], [0.0, np.inf]), "log potentials are finite, or -inf where forbidden"),
        ((["a"], [-np.inf, -np.inf]), "is -inf everywhere; leave at least one configuration possible"),
        (([], -np.inf), "potentials[0], over nothing, is -inf everywhere"),
    ],
)  # fmt: skip
def test_potentials_that_do_not_fit_are_refused(potential, message):
    assert message in refusal(potentials=[potential])


def test_arguments_of_the_wrong_type_are_refused():
    kind = ArgumentTypeError
    assert "give a pair (names, log potential)" in refusal(potentials=["ab"], kind=kind)
    assert "give a pair (names, log potential)" in refusal(potentials=[("a", [0.0, 1.0])], kind=kind)
    assert "is not an array of numbers" in refusal(potentials=[(["a"], ["x", "y"])], kind=kind)
    assert "is not an array of numbers" in refusal(potentials=[(["a"], [0j, 1j])], kind=kind)
    assert "give a mapping of names to lists of labels" in refusal(states=["a"], kind=kind)
    assert "states names the variable 3; names are text" in refusal(states={3: ["x"]}, kind=kind)
    assert "states names a variable ''" in refusal(states={"": ["x"]})
    assert "states is empty" in refusal(states={})
