"""Structure posteriors of a hundred to a thousand columns: where the time goes, and how far chains are apart.

    python benchmarks/large_networks.py [speed | random | named] [SIZE or NAME ...]

One core, CPU seconds, 2000 records, kernels compiled beforehand where they are kept; each case in its own process.

``speed``   steps a second of the default sampler from the best graph of the search over orders, on random sparse
            networks of 37 to 1000 columns; the goal is that they fall no faster than 1/n.
``random``  default calls of `doxa.learn` on random sparse networks: up to three parents a node, two or three states.
``named``   the same on networks that pgmpy ships (the extra ``interop``): pigs, link, munin ..., and arth150 (numbers).

A call is given LARGE_SECONDS of CPU time, 120 unless set, by ``Until(max_seconds=...)`` on a clock of CPU seconds; it
stops before where its errors are below LARGE_MCSE, the default of .01 unless set.
Printed: when the first draw was made and how much of that were lists of parent sets; steps a second; draws; the
largest difference of an edge between two chains and from the mean of all; the share of edges (of those ever seen, and
of all pairs) that are within .05 between any two chains; the time of diagnostics; the peak of memory; and the verdict.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import doxa
from doxa.data import Table
from doxa.sampling import runner
from doxa.structure import Auto
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import make_limits
from doxa.structure.moves import best_graph as best_graph_module
from doxa.structure.moves import listing as lists_module
from doxa.structure.moves.listing import parent_sets
from doxa.structure.moves.order_search import search_orders
from doxa.structure.moves.sampler import StructureSampler
from doxa.structure.posterior.relations import bit_totals
from doxa.structure.priors import make_prior
from doxa.structure.runs import running

SECONDS = float(os.environ.get("LARGE_SECONDS", "120"))
MCSE = float(os.environ.get("LARGE_MCSE", "0.01"))
ROWS = 2000
SPEED, SIZES = (37, 100, 200, 500, 1000), (100, 200, 500, 1000)
NAMED = ("pigs", "link", "munin1", "munin", "arth150")
WITHIN = 0.05


def sparse_table(n: int, n_rows: int, seed: int) -> Table:
    """Records of a random network: in a random order up to three parents a node, two or three states, skewed rows."""
    rng = np.random.default_rng(seed)
    order, n_states = rng.permutation(n), rng.integers(2, 4, size=n)
    codes = np.zeros((n_rows, n), dtype=np.int64)
    for place, node in enumerate(order):
        parents = order[rng.choice(place, size=min(place, int(rng.choice(4, p=[0.2, 0.3, 0.3, 0.2]))), replace=False)]
        config = np.zeros(n_rows, dtype=np.int64)
        for parent in parents:
            config = config * n_states[parent] + codes[:, parent]
        chances = rng.dirichlet(np.full(n_states[node], 0.7), size=int(n_states[parents].prod()))
        codes[:, node] = (rng.random((n_rows, 1)) >= np.cumsum(chances, axis=1)[config, :-1]).sum(axis=1)
    return Table.from_codes([f"x{i}" for i in range(n)], [[f"s{k}" for k in range(r)] for r in n_states], codes)


def named_table(name: str) -> Table:
    import pgmpy

    folder = Path(pgmpy.__file__).parent / "utils" / "example_models"
    if name == "arth150":
        return doxa.read_network(folder / f"{name}.json").simulate(500, seed=1)
    return doxa.read_network(folder / f"{name}.bif.gz").simulate(ROWS, seed=1)


def clocked(spent: dict[str, float], what: str, module: Any, name: str) -> None:
    """Let a function of a module add its CPU seconds to ``spent``."""
    function: Callable[..., Any] = getattr(module, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        begin = time.process_time()
        try:
            return function(*args, **options)
        finally:
            spent[what] = spent.get(what, 0.0) + time.process_time() - begin

    setattr(module, name, wrapped)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def shares_of(rows: NDArray[np.uint64]) -> NDArray[np.float64]:
    """How often each edge is in the graphs of each chain."""
    return np.stack([bit_totals(chain, np.ones(len(chain), dtype=np.int64)) for chain in rows]) / rows.shape[1]


def one_run(table: Table) -> dict[str, Any]:
    spent: dict[str, float] = {}
    module: Any = runner
    module.time = types.SimpleNamespace(monotonic=time.process_time, thread_time=time.thread_time)
    clocked(spent, "lists", lists_module, "build_score_table")
    clocked(spent, "searches", best_graph_module, "search_orders")
    clocked(spent, "looks", running, "missing")
    clocked(spent, "looks", running, "has_settled")
    start = runner.Runner.start

    def started(self: Any) -> None:
        start(self)
        spent["first draw"] = time.process_time() - begin

    runner.Runner.start = started
    begin = time.process_time()
    posterior = doxa.learn(table, seed=1, workers=1, progress=False, until=doxa.Until(mcse=MCSE, max_seconds=SECONDS))
    spent["all"] = time.process_time() - begin
    rows, info = posterior.trace["rows"], posterior.trace.info
    looked = doxa.StructurePosterior(posterior.names, posterior.trace, posterior.sampler, posterior.options)
    begin = time.process_time()  # the run's own posterior holds them already
    n = len(posterior.names)
    worst_error = float(np.where(np.eye(n, dtype=bool), 0.0, looked.edge_diagnostics.mcse).max())
    spent["one look"] = time.process_time() - begin
    shares = shares_of(rows)
    between = shares.max(axis=0) - shares.min(axis=0)
    seen = shares.max(axis=0) > 0
    return {
        **spent,
        "chains": rows.shape[0],
        "draws": rows.shape[1],
        "thin": posterior.trace.thin,
        "warm-up": posterior.trace.n_warmup // posterior.trace.thin,
        "rungs": 1 + sum(name.startswith("swaps_") for name in info),
        "between": float(between.max()),
        "from mean": float(np.abs(shares - shares.mean(axis=0)).max()),
        "seen": int(seen.sum()),
        "within, of seen": float((between[seen] <= WITHIN).mean()),
        "within, of all": float(((between <= WITHIN).sum() - n) / (n * (n - 1))),
        "error": worst_error,
        "edges": float(posterior.n_edges.mean()),
        "apart": float(np.ptp(posterior.log_score.mean(axis=1))),
        "memory": peak(),
        "verdict": posterior.verdict,
    }


def one_speed(n: int) -> dict[str, Any]:
    table = sparse_table(n, ROWS, 1)
    limits = make_limits(table.names, n_states=table.n_states, max_configurations=table.n_rows)
    begin = time.process_time()
    scores = FamilyScores(table, prior=make_prior(table.names))
    lists = parent_sets(scores, limits, 1.0)
    made = time.process_time() - begin
    found = search_orders(lists, np.random.default_rng(1))
    assert found is not None
    sampler, rng = StructureSampler(Auto(), scores, limits, thin=1000), np.random.default_rng(1)
    state, _, _ = sampler.run(sampler.start_at(found.rows), 200_000, rng)
    steps = 400_000
    begin = time.process_time()
    sampler.run(state, steps, rng)
    seconds = time.process_time() - begin
    return {"lists": made, "sets": len(lists.sets), "rate": steps / seconds / 1e6, "memory": peak()}


def in_a_process(part: str, what: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, "--one", part, what], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def speed(sizes: list[str]) -> None:
    first: float | None = None
    for n in sizes or map(str, SPEED):
        found = in_a_process("speed", n)
        first = found["rate"] * int(n) if first is None else first
        print(
            f"{n:>5s} columns: {found['rate']:6.3f} million steps/s ({found['rate'] * int(n) / first:.2f} of what 1/n "
            f"allows); lists {found['lists']:.1f} s, {found['sets']} sets; {found['memory']:.2f} GiB at most",
            flush=True,
        )


def show(what: str, found: dict[str, Any]) -> None:
    steps = found["chains"] * (found["draws"] + found["warm-up"]) * found["thin"]
    sampling = found["all"] - found["first draw"]
    print(
        f"{what}: {found['all']:.0f} CPU s; first draw after {found['first draw']:.1f} s (lists {found['lists']:.1f}, "
        f"all searches {found.get('searches', 0.0):.1f}); looks {found.get('looks', 0.0):.2f} s in all, "
        f"{found['one look']:.2f} s for all edges at the end\n"
        f"    {found['draws']} draws of {found['chains']} chains after {found['warm-up']}, {found['thin']} steps apart"
        f", {found['rungs']} temperatures, {steps / sampling / 1e6:.3f} million steps/s of the first\n"
        f"    chains differ by at most {found['between']:.3f} on an edge, {found['from mean']:.3f} from the mean; "
        f"within {WITHIN}: {found['within, of seen']:.2%} of {found['seen']} edges seen, "
        f"{found['within, of all']:.4%} of all pairs; largest error {found['error']:.3f}; {found['edges']:.1f} edges; "
        f"mean scores {found['apart']:.2f} nats apart; {found['memory']:.2f} GiB at most\n    {found['verdict']}",
        flush=True,
    )


def main(wanted: list[str]) -> None:
    if wanted[:1] == ["--one"]:
        part, what = wanted[1:]
        made = (
            one_speed(int(what))
            if part == "speed"
            else one_run(sparse_table(int(what), ROWS, 1) if part == "random" else named_table(what))
        )
        print(json.dumps(made))
        return
    parts = [part for part in ("speed", "random", "named") if part in wanted] or ["speed", "random", "named"]
    chosen = [word for word in wanted if word not in parts]
    for part in parts:
        if part == "speed":
            speed(chosen)
            continue
        for what in chosen or (NAMED if part == "named" else map(str, SIZES)):
            show(what, in_a_process(part, what))


if __name__ == "__main__":
    main(sys.argv[1:])
