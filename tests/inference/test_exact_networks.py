"""Marginals and log evidence of the reference networks, against pyAgrum's lazy propagation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from doxa.inference.exact import plan_contraction
from doxa.models.factors import Factor
from support.networks import load_network

SMALL = ["cancer", "earthquake", "survey", "asia", "sachs", "child", "alarm", "insurance", "hailfinder", "win95pts"]
MEDIUM = ["hepar2", "water", "barley", "mildew", "pathfinder", "andes", "pigs", "diabetes"]
LARGE = ["munin2", "munin3", "munin4", "munin"]


@pytest.fixture(scope="module")
def gum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pyagrum")


def to_pyagrum(gum, network):
    net = gum.BayesNet()
    for i, states in enumerate(network.states):
        net.add(gum.RangeVariable(f"v{i}", "", 0, len(states) - 1))
    for child, parents in enumerate(network.orders):
        for parent in parents:
            net.addArc(parent, child)
    for child, parents in enumerate(network.orders):
        table, axes = net.cpt(child), (*parents, child)
        order = [axes.index(int(name[1:])) for name in reversed(table.names)]  # its first variable varies fastest
        table.fillWith(network.tables[child].transpose(order).ravel().tolist())
    return net


def sliced(network, observed):
    """Factors given the evidence, a mapping from variables to states."""
    factors = []
    with np.errstate(divide="ignore"):
        for child, parents in enumerate(network.orders):
            scope = (*parents, child)
            values = np.log(network.tables[child])[tuple(observed.get(v, slice(None)) for v in scope)]
            factors.append(Factor(tuple(v for v in scope if v not in observed), values))
    return factors


def compare(gum, name, seeds):
    network = load_network(name)
    n = len(network.states)
    theirs = gum.LazyPropagation(to_pyagrum(gum, network))
    sizes = tuple(map(len, network.states))
    for seed in seeds:
        rng = np.random.default_rng(seed)
        row = network.sample(1, seed).codes[0]
        chosen = [int(v) for v in rng.choice(n, min(20, n // 5), replace=False)]
        observed = {v: int(row[v]) for v in chosen}
        factors = sliced(network, observed)
        result = plan_contraction(sizes, [factor.variables for factor in factors]).run(factors)
        theirs.setEvidence(dict(observed))
        theirs.makeInference()
        assert result.log_z == pytest.approx(np.log(theirs.evidenceProbability()), rel=1e-9)
        for v in range(n):
            if v not in observed:
                np.testing.assert_allclose(result.marginals[v], theirs.posterior(v).toarray(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", SMALL + MEDIUM)
def test_agrees_with_pyagrum(gum, name):
    compare(gum, name, seeds=[0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_agrees_with_pyagrum_on_large_networks(gum, name):
    compare(gum, name, seeds=[0, 1])


@pytest.mark.parametrize("name", ["munin1", "link"])
def test_networks_that_junction_trees_find_hard(name):
    """Without evidence log Z is 0, and the marginals of roots are their tables."""
    network = load_network(name)
    factors = sliced(network, {})
    plan = plan_contraction(tuple(map(len, network.states)), [factor.variables for factor in factors])
    joint = plan.joint(factors)
    assert joint.log_z == pytest.approx(0.0, abs=1e-4)  # tables are given to 4 to 8 digits
