"""Largest error of any marginal after one CPU second of importance sampling, beside pyAgrum's samplers.

Compiling is left out; building the proposal (belief propagation, learning) is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.inference.exact import plan_contraction
from doxa.inference.importance import (
    Layout,
    NetworkProposal,
    NetworkSample,
    NetworkSampler,
    lay_out,
    learned,
    likelihood_weighting,
    propagated,
    sample_network,
)
from doxa.inference.importance.sampler import BLOCK
from doxa.models.categorical import CategoricalNetwork
from doxa.models.evidence import Evidence
from inference_parts.networks import OBSERVED, cut, draw_evidence, load, log_tables, to_pyagrum
from support.networks import ReferenceNetwork

SECONDS = 1.0
SEEDS = 3
NETWORKS = ["alarm", "insurance", "hailfinder", "win95pts", "water", "barley", "mildew", "pathfinder", "andes", "pigs"]
GOALS = {  # likelihood weighting, adaptive
    "alarm": (0.003, 0.002),
    "hailfinder": (0.008, 0.008),
    "win95pts": (0.001, 0.001),
}
METHODS: dict[str, Callable[[Layout], NetworkProposal]] = {
    "weighting": likelihood_weighting,
    "propagated": propagated,
    "learned": lambda layout: learned(propagated(layout), seed=1),
}
Marginals = list[NDArray[np.float64]]


def importance(names: list[str] | None = None) -> None:
    """A row for each network and set of evidence; M/s are million draws a second, ok the verdict's word."""
    columns = "  ".join(f"{name:>10}: error  M/s ess/n   ok" for name in METHODS)
    print(f"network     set | {columns} | pyAgrum importance, weighted: error | goals")
    for name in names or NETWORKS:
        network = load(name)
        ours, theirs = as_categorical(network), to_pyagrum(network)
        for seed in range(SEEDS):
            evidence = draw_evidence(network, OBSERVED[name], seed)
            exact = _exact(network, evidence)
            cells = [_ours(ours, evidence, exact, method) for method in METHODS.values()]
            peers = [_theirs(*theirs, sampler, evidence, exact) for sampler in ("Importance", "Weighted")]
            goal = " / ".join(f"{g:g}" for g in GOALS[name]) if name in GOALS else ""
            print(f"{name:12} {seed:2} | {'  '.join(cells)} | {peers[0]:8.4f} {peers[1]:8.4f} | {goal}", flush=True)


def as_categorical(network: ReferenceNetwork) -> CategoricalNetwork:
    names = network.dag.names
    tables = {}
    for v, node in enumerate(names):
        order = [network.orders[v].index(names.index(p)) for p in network.dag.parents(node)]
        table = network.tables[v].transpose([*order, len(order)])
        tables[node] = table / table.sum(axis=-1, keepdims=True)  # some files print few digits
    return CategoricalNetwork(network.dag, tables, dict(zip(names, network.states, strict=True)))


def _exact(network: ReferenceNetwork, evidence: dict[int, int]) -> Marginals:
    factors = cut(log_tables(network), evidence)
    sizes = tuple(map(len, network.states))
    return list(plan_contraction(sizes, [f.variables for f in factors]).run(factors).marginals)


def _ours(
    network: CategoricalNetwork, evidence: dict[int, int], exact: Marginals, method: Callable[[Layout], NetworkProposal]
) -> str:
    layout = lay_out(network, Evidence(evidence, {}))
    NetworkSampler(method(layout)).block(0, 0)  # compiles
    begin = time.process_time()
    sample = sample_network(method(layout), 1, seed=1)
    one = time.process_time()
    sample = sample.extended(5 * BLOCK)
    n_blocks = 5 + max(0, int((SECONDS - (time.process_time() - begin)) / ((time.process_time() - one) / 4)))
    sample = sample.extended(n_blocks * BLOCK)
    spent = time.process_time() - begin
    error = _error({v: sample.probabilities(v) for v in layout.query}, exact)
    return f"{error:17.4f} {sample.n / spent / 1e6:4.1f} {sample.ess / sample.n:5.3f} {_word(sample)}"


def _word(sample: NetworkSample) -> str:
    return {True: " yes", False: "  no", None: "   ?"}[sample.verdict.reliable]


def _theirs(gum: Any, net: Any, sampler: str, evidence: dict[int, int], exact: Marginals) -> float:
    wall = SECONDS
    for _ in range(2):  # its limit is on the wall's clock: once to see how much of it is ours
        engine = getattr(gum, f"{sampler}Sampling")(net)
        engine.setEvidence(evidence)
        engine.setMaxTime(wall)
        engine.setEpsilon(1e-9)
        engine.setMinEpsilonRate(1e-9)
        engine.setMaxIter(10**8)
        begin = time.process_time()
        engine.makeInference()
        wall *= max(1.0, SECONDS / (time.process_time() - begin))
    return _error({v: engine.posterior(v).toarray() for v in range(net.size()) if v not in evidence}, exact)


def _error(found: dict[int, NDArray[np.float64]], exact: Marginals) -> float:
    return max(float(np.abs(values - exact[v]).max()) for v, values in found.items())
