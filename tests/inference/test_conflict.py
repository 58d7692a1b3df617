"""Conflicting sets against all subsets: impossible together, possible in every part, the least where few are tried."""

from __future__ import annotations

import pickle
from itertools import chain, combinations

import numpy as np

from doxa.errors import ArgumentError, DoxaError
from doxa.inference.propagation import ImpossibleEvidenceError, impossible, minimal_conflict
from doxa.models.evidence import Evidence
from doxa.models.markov import MarkovNetwork
from support.checks import SEED
from support.small_networks import joint, random_categorical, random_evidence


def random_oracle(rng, n):
    """What is possible: sets that hold none of a few random conflicts."""
    conflicts = [set(rng.permutation(n)[: rng.integers(1, n + 1)].tolist()) for _ in range(rng.integers(1, 5))]
    return conflicts, lambda part: not any(bad <= set(part) for bad in conflicts)


def assert_minimal(found, is_possible):
    assert not is_possible(found)
    assert all(is_possible(tuple(i for i in found if i != item)) for item in found)


def test_sets_found_are_of_the_least_size():
    rng = np.random.default_rng([SEED, 1])
    for _ in range(300):
        n = int(rng.integers(1, 8))
        conflicts, is_possible = random_oracle(rng, n)
        found = minimal_conflict(range(n), is_possible)
        assert_minimal(found, is_possible)
        assert len(found) == min(map(len, conflicts))
        assert list(found) == sorted(found)


def test_large_sets_end_in_a_minimal_one():
    rng = np.random.default_rng([SEED, 2])
    for _ in range(20):
        _, is_possible = random_oracle(rng, 60)
        asked = []

        def counted(part, is_possible=is_possible, asked=asked):
            asked.append(part)
            return is_possible(part)

        assert_minimal(minimal_conflict(range(60), counted), is_possible)
        assert len(asked) <= 60 + 500


def test_evidence_that_conflicts_is_named_against_all_subsets():
    """The exact log evidence as the oracle, on networks whose evidence has probability zero."""
    rng = np.random.default_rng([SEED, 3])
    n_cases = 0
    while n_cases < 60:
        network = random_categorical(rng, most_nodes=6, zeros=0.5)
        evidence = random_evidence(rng, network, share=0.6)

        def is_possible(part, network=network):
            return joint(network, part).sum() > 0

        if is_possible(evidence):
            continue
        n_cases += 1
        error = impossible(network, evidence, is_possible)
        found = [network.names.index(name) for name in error.conflict]
        parts = chain.from_iterable(combinations(evidence.variables, k) for k in range(len(network.names) + 1))
        least = next(part for part in parts if not is_possible(evidence.only(part)))
        assert not is_possible(evidence.only(found))
        assert len(found) == len(least)
        assert all(repr(name) in str(error) for name in error.conflict)


def test_the_error_is_one_about_an_argument_and_travels():
    network = MarkovNetwork({"a": ["no", "yes"], "b": ["no", "yes", "maybe"]}, [])
    error = impossible(network, Evidence({}, {1: np.array([0.0, 2.0, 0.0])}), lambda part: not part.soft)
    assert isinstance(error, (ArgumentError, ValueError, DoxaError))
    assert str(error) == "the evidence says that 'b' is not 'no' or 'maybe', which has probability 0; leave it out"
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is ImpossibleEvidenceError
    assert (str(copied), copied.conflict) == (str(error), ("b",))
