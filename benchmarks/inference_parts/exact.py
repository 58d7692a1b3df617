"""All marginals of reference networks given evidence: contraction beside pyAgrum's lazy propagation, CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from doxa.inference.exact import Budget, plan_contraction
from inference_parts.networks import OBSERVED, cut, draw_evidence, load, log_tables, to_pyagrum

SEEDS = 3
REPEATS = 3
GOALS = {"alarm": 4, "andes": 50, "diabetes": 150, "munin": 500}  # milliseconds, first query
NOT_FOR_PYAGRUM = {"munin1", "link"}  # cliques of 2^27 and 2^30 numbers: over 100 s
BUDGET = Budget(operations=10**11, bytes=8 * 10**9)


def exact(names: list[str] | None = None) -> None:
    """Median and worst of the evidence sets; "again" is new values on a known plan."""
    print("network      nodes seen |  first ms (worst)   again | pyAgrum (worst)  | width operations | difference")
    for name in names or OBSERVED:
        print(_row(name), flush=True)


def _row(name: str) -> str:
    network = load(name)
    tables = log_tables(network)
    sizes = tuple(map(len, network.states))
    gum_net = None if name in NOT_FOR_PYAGRUM else to_pyagrum(network)
    firsts, agains, theirs, differences = [], [], [], []
    for seed in range(SEEDS):
        evidence = draw_evidence(network, OBSERVED[name], seed)
        factors = cut(tables, evidence)
        scopes = [factor.variables for factor in factors]
        plan = plan_contraction(sizes, scopes, budget=BUDGET)
        result = plan.run(factors)
        agains.append(_milliseconds(lambda: plan.run(factors)))  # noqa: B023
        firsts.append(
            _milliseconds(lambda: plan_contraction(sizes, scopes, budget=BUDGET).run(factors))  # noqa: B023
        )
        if gum_net is not None:
            marginals: list[Any] = []
            theirs.append(_milliseconds(lambda: _propagate(gum_net, evidence, marginals), 1))  # noqa: B023
            pairs = zip(result.marginals, marginals, strict=True)
            differences.append(max(np.abs(a - b).max() for v, (a, b) in enumerate(pairs) if v not in evidence))
    goal = f" goal {GOALS[name]} / {0.8 * GOALS[name]:g}" if name in GOALS else ""
    peer = f"{np.median(theirs):8.1f} ({max(theirs):.1f})" if theirs else "       -"
    gap = f"{max(differences):.0e}" if differences else "-"
    return (
        f"{name:12} {len(sizes):5} {OBSERVED[name]:4} | {np.median(firsts):8.1f} ({max(firsts):.1f}) "
        f"{np.median(agains):7.1f} | {peer:16} | {plan.width:5.1f} {plan.operations:10.2g} | {gap}{goal}"
    )


def _propagate(gum_net: Any, evidence: dict[int, int], marginals: list[Any]) -> None:
    gum, net = gum_net
    engine = gum.LazyPropagation(net)
    engine.setEvidence(evidence)
    engine.makeInference()
    marginals[:] = [engine.posterior(v).toarray() for v in range(net.size())]


def _milliseconds(task: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Least CPU time of a few calls."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        task()
        times.append(time.process_time() - begin)
    return 1000 * min(times)
