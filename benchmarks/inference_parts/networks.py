"""Reference networks, evidence drawn from them, and the same in pyAgrum."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from doxa.models.factors import Factor
from support.networks import ReferenceNetwork, load_network

OBSERVED = {  # nodes observed in each evidence set
    "alarm": 7,
    "insurance": 5,
    "hailfinder": 11,
    "win95pts": 15,
    "water": 6,
    "barley": 9,
    "mildew": 7,
    "pathfinder": 20,
    "andes": 20,
    "pigs": 20,
    "diabetes": 20,
    "munin2": 20,
    "munin3": 20,
    "munin4": 20,
    "munin": 20,
    "munin1": 20,
    "link": 20,
}

Evidence = dict[int, int]


def load(name: str) -> ReferenceNetwork:
    return load_network(name)


def draw_evidence(network: ReferenceNetwork, n_observed: int, seed: int) -> Evidence:
    """Values of random nodes in a record drawn from the network, so their probability is positive."""
    rng = np.random.default_rng(seed)
    row = network.sample(1, seed).codes[0]
    return {int(v): int(row[v]) for v in np.sort(rng.choice(len(network.states), n_observed, replace=False))}


def log_tables(network: ReferenceNetwork) -> list[Factor]:
    with np.errstate(divide="ignore"):
        return [Factor((*network.orders[v], v), np.log(table)) for v, table in enumerate(network.tables)]


def cut(factors: list[Factor], evidence: Evidence) -> list[Factor]:
    """Factors given the evidence."""
    cut_factors = []
    for scope, values in factors:
        index = tuple([evidence.get(v, slice(None)) for v in scope])
        cut_factors.append(Factor(tuple([v for v in scope if v not in evidence]), values[index]))
    return cut_factors


def to_pyagrum(network: ReferenceNetwork) -> tuple[Any, Any]:
    """The pyagrum module, on one thread, and the network in it; nodes keep their numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyagrum as gum
    gum.setNumberOfThreads(1)
    net = gum.BayesNet()
    for v, states in enumerate(network.states):
        net.add(gum.RangeVariable(f"v{v}", "", 0, len(states) - 1))
    for child, parents in enumerate(network.orders):
        for parent in parents:
            net.addArc(parent, child)
    for child, parents in enumerate(network.orders):
        table, axes = net.cpt(child), (*parents, child)
        order = [axes.index(int(name[1:])) for name in reversed(table.names)]  # its first variable varies fastest
        table.fillWith(network.tables[child].transpose(order).ravel().tolist())
    return gum, net
