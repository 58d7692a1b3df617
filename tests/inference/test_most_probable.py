"""`most_probable`: simulated annealing against enumeration, exact contraction, and ground states that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import doxa
from doxa.errors import ArgumentError
from doxa.inference import BudgetError, ImpossibleEvidenceError, most_probable
from doxa.inference.annealing import SpinPath, cool
from doxa.models.evidence import read_evidence
from support.checks import SEED
from support.small_networks import joint, named, random_categorical, random_evidence, random_markov


def small_networks(n):
    """Directed and not, with zeros and evidence, and their joint distributions with it."""
    rng = np.random.default_rng([0, 18])
    while n:
        network = (random_categorical if n % 2 else random_markov)(rng, 5, 0.2)
        evidence = random_evidence(rng, network, 0.2)
        p = joint(network, evidence)
        if p.max() > 0:
            n -= 1
            yield network, evidence, p


def test_annealing_finds_what_enumeration_finds():
    for k, (network, evidence, p) in enumerate(small_networks(24)):
        given, soft = named(network, evidence)
        found = most_probable(network, given=given, soft=soft, method="annealed", sweeps=40, restarts=64, seed=SEED + k)
        row = tuple(network.states[v].index(found.states[name]) for v, name in enumerate(network.names))
        assert p[row] == pytest.approx(p.max(), rel=1e-12)
        assert found.log_probability == pytest.approx(math.log(p.max()), abs=1e-10)
        assert not found.exact
        assert math.isnan(found.gap)
        exact = most_probable(network, given=given, soft=soft)
        assert exact.exact
        assert exact.log_probability == pytest.approx(found.log_probability, abs=1e-10)


def test_states_that_are_as_likely_are_said_to_be():
    rng = np.random.default_rng([0, 19])
    seen = set()
    for _ in range(60):
        network = random_categorical(rng, 4, 0.2)
        tables = {name: np.round(4 * table) / 4 + 0.25 for name, table in network.tables.items()}  # few values: ties
        tables = {name: table / table.sum(axis=-1, keepdims=True) for name, table in tables.items()}
        network = doxa.CategoricalNetwork(network.dag, tables, dict(zip(network.names, network.states, strict=True)))
        p = joint(network, read_evidence(network, None, None))
        best, second = np.sort(p.ravel())[::-1][:2]
        is_tie = np.log(best) - np.log(second) < 1e-9
        found = most_probable(network)
        assert found.log_probability == pytest.approx(np.log(best), abs=1e-10)
        assert ("which these share with others" in found.verdict) == is_tie
        assert found.gap == pytest.approx(np.log(best) - np.log(second), abs=1e-9)
        seen.add(bool(is_tie))
    assert seen == {True, False}


def glass(side, seed=3):
    """Couplings of random sign and size: many local maxima."""
    rng = np.random.default_rng(seed)
    names = [[f"s{i}_{j}" for j in range(side)] for i in range(side)]
    edges = [(names[i][j], names[i][j + 1]) for i in range(side) for j in range(side - 1)]
    edges += [(names[i][j], names[i + 1][j]) for i in range(side - 1) for j in range(side)]
    return doxa.ising(edges, coupling=rng.normal(size=len(edges)), field=0.05)


@pytest.mark.parametrize("given", [{}, {"s0_0": 1, "s3_3": -1}])
def test_annealing_finds_the_ground_state_of_a_glass(given):
    network = glass(8)
    exact = most_probable(network, given=given)
    found = most_probable(network, given=given, method="annealed", seed=SEED)
    assert found.log_probability == pytest.approx(exact.log_probability, abs=1e-9)
    assert found.states == exact.states
    assert "annealed chains ended at states as likely as these" in found.verdict


def test_chains_that_are_cold_at_once_are_caught():
    """The broken twin: without the hot part chains end in local maxima, and nothing above would pass."""
    network = glass(8)
    best = most_probable(network).log_probability
    path = SpinPath(network.edges, network.couplings, network.fields)
    cold = cool(path, 500, 512, np.random.default_rng(SEED), betas=np.full(500, 1e6))
    slow = cool(path, 500, 512, np.random.default_rng(SEED))
    assert np.median(cold.log_values) < np.median(slow.log_values) - 1
    assert (slow.log_values > best - 1e-6).mean() > 3 * (cold.log_values > best - 1e-6).mean()


def test_the_verdict_counts_the_chains_that_ended_there():
    network = glass(8)
    found = most_probable(network, method="annealed", sweeps=30, seed=5)
    path = SpinPath(network.edges, network.couplings, network.fields)
    ends = cool(path, 30, 512, np.random.default_rng(5)).log_values
    as_good = int((ends > ends.max() - 1e-6).sum())
    assert 0 < as_good < len(ends)
    assert f"{as_good} of {len(ends)} annealed chains" in found.verdict


def test_a_wide_network_is_searched_where_it_cannot_be_summed():
    """All up is the best of a ferromagnet in a field: 2 L (L - 1) edges, L L sites."""
    side = 30
    network = doxa.ising_grid(side, side, coupling=0.4, field=0.1)
    with pytest.raises(BudgetError):
        most_probable(network)
    found = most_probable(network, method="auto", seed=1)
    assert set(found.states.values()) == {"1"}
    assert found.log_probability == pytest.approx(0.4 * 2 * side * (side - 1) + 0.1 * side**2)
    assert not found.exact
    assert most_probable(doxa.ising_grid(3, 3, coupling=0.4, field=0.1), method="auto").exact


def test_potts_models_and_what_evidence_leaves():
    potts = doxa.potts([("a", "b"), ("b", "c"), ("c", "a")], 3, -1.0, [[0.0, 0.3, 0.1], [0.0] * 3, [0.2, 0.0, 0.0]])
    for given in ({}, {"b": "1"}, {"a": "0", "b": "1", "c": "2"}):
        exact = most_probable(potts, given=given)
        found = most_probable(potts, given=given, method="annealed", sweeps=30, restarts=64, seed=2)
        assert found.log_probability == pytest.approx(exact.log_probability)
    spins = doxa.ising([("a", "b")], coupling=1.0, field=0.2)
    known = most_probable(spins, given={"a": 1}, soft={"b": [1.0, 0.0]}, method="annealed", seed=1)
    assert known.states == {"a": "1", "b": "-1"}
    assert known.log_probability == pytest.approx(-1.0)


def test_the_seed_decides():
    network = glass(8)
    runs = [most_probable(network, method="annealed", sweeps=3, restarts=1, seed=seed) for seed in (1, 1, 2)]
    assert runs[0].states == runs[1].states
    assert runs[0].states != runs[2].states


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cold"}, "method is 'cold'; it must be one of 'exact', 'annealed', 'auto'"),
        ({"sweeps": 0}, "sweeps is 0; it must be at least 1"),
        ({"restarts": 0}, "restarts is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1"),
        ({"given": {"z": 1}}, "'z'"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        most_probable(doxa.ising_grid(2, 2, coupling=0.1), **({"method": "annealed"} | options))


def test_evidence_that_cannot_be_is_said_to_be():
    states = {name: ["no", "yes"] for name in "ab"}
    equal = doxa.MarkovNetwork(states, [(("a", "b"), np.where(np.eye(2) == 1, 0.0, -np.inf))])
    with pytest.raises(ImpossibleEvidenceError):
        most_probable(equal, given={"a": "no", "b": "yes"}, method="annealed")
    never = [(("a", "b"), np.where(np.eye(2) == 1, 0.0, -np.inf)), (("b", "c"), np.where(np.eye(2) == 1, 0.0, -np.inf))]
    never.append((("a", "c"), np.where(np.eye(2) == 1, -np.inf, 0.0)))
    odd = doxa.MarkovNetwork({name: ["no", "yes"] for name in "abc"}, never)
    with pytest.raises(ArgumentError, match="no possible state was found in 64 restarts of 9 sweeps; try method"):
        most_probable(odd, method="annealed", sweeps=9, restarts=64, seed=1)
