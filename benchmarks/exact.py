"""Exact sums over all graphs: seconds and peak memory.  Wall-clock, all cores unless told.

    python benchmarks/exact.py [asia | sachs | child | flat | draws] ...

``asia``, ``sachs``, ``child``  1000 forward-sampled records (seed 1); Child with at most 3 parents.
``flat``   equal weights for all graphs on 20 nodes: nothing can be left out, the dearest case there is.
``draws``  10 000 independent draws from Sachs and from Child.

Each part runs in a process of its own, whose peak memory it prints; kernels are compiled beforehand, on two nodes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doxa.structure.exact.dag_budget import predicted_cost
from doxa.structure.exact.dag_sums import ExactPosterior, sum_over_dags
from doxa.structure.exact.enumeration import family_score_lists
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import capped
from support.networks import load_network

CAPS = {"asia": 7, "sachs": 10, "child": 3}


def report(name: str, n: int, cap: int | None, begin: float, cpu: float, posterior: ExactPosterior) -> None:
    print(
        f"{name}: n = {n}, {time.perf_counter() - begin:.2f} s wall, {time.process_time() - cpu:.2f} s CPU, "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB; "
        f"predicted at most {predicted_cost(n, cap)}"
    )
    print(
        f"  log evidence {posterior.log_evidence:.6f}, {posterior.edge_probabilities.sum():.4f} edges, "
        f"relative error below {np.exp(posterior.log_relative_error):.1e}",
        flush=True,
    )


def network(name: str) -> ExactPosterior:
    table = load_network(name).sample(1000, seed=1)
    cap = CAPS[name]
    begin = time.perf_counter()
    n = len(table.names)
    weights = family_score_lists(FamilyScores(table), capped(np.full(n, cap)))
    print(f"{name}: {sum(len(m) for m, _ in weights)} families scored in {time.perf_counter() - begin:.2f} s")
    begin, cpu = time.perf_counter(), time.process_time()
    posterior = sum_over_dags(weights, table.names)
    report(name, n, cap, begin, cpu, posterior)
    return posterior


def flat(n: int = 20) -> None:
    sets = np.arange(2**n)
    weights = [(sets[(sets >> node & 1) == 0], np.zeros(2 ** (n - 1))) for node in range(n)]
    begin, cpu = time.perf_counter(), time.process_time()
    report("flat", n, None, begin, cpu, sum_over_dags(weights))


def draws() -> None:
    for name in ("sachs", "child"):
        posterior = network(name)
        posterior.draw(1, np.random.default_rng(0))
        begin = time.perf_counter()
        rows = posterior.draw(10_000, np.random.default_rng(1))
        seconds = time.perf_counter() - begin
        edges = np.bitwise_count(rows).sum() / len(rows)
        exact = posterior.edge_probabilities.sum()
        print(f"{name}: 10 000 draws in {seconds:.2f} s; {edges:.4f} edges on average, exactly {exact:.4f}")


if __name__ == "__main__":
    parts = {name: (lambda name=name: network(name)) for name in CAPS} | {"flat": flat, "draws": draws}
    if sys.argv[1:2] == ["--one"]:
        sum_over_dags([([0], [0.0])] * 2)
        parts[sys.argv[2]]()
    else:
        for part in sys.argv[1:] or parts:
            subprocess.run([sys.executable, __file__, "--one", part], check=True)
