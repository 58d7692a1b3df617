"""What a structure run pays for being kept and watched, end to end, beside its targets.

    python benchmarks/run_cost.py [store | watch | bytes]

``store``  `doxa.learn` with and without ``store=``, in turn: single_edge (the fastest sampler) on ALARM (37 nodes),
           5000 forward-sampled records, 4 chains of 12,000 draws at default thinning and block size.  Medians of
           wall-clock and of CPU seconds (all threads), the extra of each pair, the time of commits.  Target: below 5%.
``watch``  `doxa.learn` until accurate enough over 101 columns of ANDES, 5000 records (10,100 edges, 5050 adjacencies):
           seconds spent on looking, up to each decision point, beside those of the run so far.  Target: below 2%.
``bytes``  Bytes of file a stored graph, for 37 and 70 nodes.  Target: at most one 64-bit word a row for each 64 nodes.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import doxa
from doxa.estimates.store import RunWriter
from doxa.sampling.runner import Runner
from support.networks import load_network

PAIRS = 7


def alarm(**options: Any) -> doxa.StructurePosterior:
    table = load_network("alarm").sample(5000, seed=1)
    return doxa.learn(table, sampler="single_edge", seed=1, progress=False, **options)


def timed(call: Any) -> np.ndarray:
    """Wall-clock and CPU seconds of a call."""
    begin = time.perf_counter(), time.process_time()
    call()
    return np.array([time.perf_counter() - begin[0], time.process_time() - begin[1]])


def store() -> None:
    alarm(draws=100)  # compiles
    commits: list[float] = []
    commit = RunWriter.commit

    def timed_commit(*arguments: Any) -> None:
        begin = time.perf_counter()
        commit(*arguments)
        commits.append(time.perf_counter() - begin)

    RunWriter.commit = timed_commit
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{pair}.doxa" for pair in range(PAIRS)]
        seconds = []
        for pair, path in enumerate(paths):
            calls = [partial(alarm, draws=12_000), partial(alarm, draws=12_000, store=path)]
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            found = {which: timed(calls[which]) for which in order}
            seconds.append((found[0], found[1]))
            path.unlink()
    plain, kept = np.array(seconds).transpose(1, 2, 0)
    print(f"{'':12s} {'not kept':>9s} {'kept':>9s}  extra: median of {PAIRS} pairs (least to most)")
    for name, before, after in zip(("wall-clock", "CPU"), plain, kept, strict=True):
        extra = after / before - 1
        print(
            f"{name:12s} {median(before):7.2f} s {median(after):7.2f} s  {median(extra):+.2%} "
            f"({extra.min():+.2%} to {extra.max():+.2%})"
        )
    share = sum(commits) / kept[0].sum()
    print(
        f"commits: {len(commits) / PAIRS:.1f} a run, median {median(commits) * 1e3:.0f} ms, {share:.2%} of wall-clock"
    )


def clocks() -> np.ndarray:
    """Wall-clock seconds, CPU seconds of this thread and of all threads."""
    return np.array([time.perf_counter(), time.thread_time(), time.process_time()])


def watch() -> None:
    table = load_network("andes").sample(5000, seed=1)
    table = table.select(table.names[:101])
    looks: list[tuple[int, np.ndarray, np.ndarray]] = []  # draws, what the look took, clocks at its end
    gathering = [clocks() * 0]
    learning: Any = import_module("doxa.structure.runs.running")
    gather = Runner.trace

    def timed_gather(runner: Runner) -> Any:
        begin = clocks()
        found = gather(runner)
        gathering[0] = clocks() - begin
        return found

    def timed_look(function: Any) -> Any:
        def look(*arguments: Any) -> Any:
            begin = clocks()
            found = function(*arguments)
            end = clocks()
            trace = getattr(arguments[0], "trace", arguments[0])
            looks.append((trace.n_draws, end - begin + gathering[0], end))
            return found

        return look

    Runner.trace = timed_gather
    learning.missing, learning.has_settled = timed_look(learning.missing), timed_look(learning.has_settled)
    options = {"sampler": "single_edge", "seed": 1, "progress": False}
    doxa.learn(table, until=doxa.Until(max_draws=4), thin=10, **options)  # compiles
    looks.clear()
    begin = clocks()
    doxa.learn(table, until=doxa.Until(ess=1e9, max_draws=4000), **options)  # looks at every decision point
    print(f"{'':6s} {'wall-clock of':>19s} {'':7s}   {'CPU seconds of':>19s}")
    print(
        f"{'draws':>6s} {'looks':>8s} {'the rest':>10s} {'share':>7s}   {'looks':>8s} {'the rest':>10s} {'share':>7s}"
    )
    spent = np.zeros(3)
    for draws, took, end in looks:
        spent += took
        (wall, _, cpu), (wall_looks, cpu_looks, _) = end - begin, spent
        print(
            f"{draws:6d} {wall_looks:6.2f} s {wall - wall_looks:8.1f} s {wall_looks / (wall - wall_looks):7.2%}   "
            f"{cpu_looks:6.2f} s {cpu - cpu_looks:8.1f} s {cpu_looks / (cpu - cpu_looks):7.2%}"
        )


def size() -> None:
    print(f"{'nodes':>5s} {'bound':>6s} {'graph':>6s} {'file':>6s}  bytes a draw: of the graph, of the file in all")
    for name, n_nodes in (("alarm", 37), ("hepar2", 70)):
        table = load_network(name).sample(2000, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.doxa"
            made = doxa.learn(table, sampler="single_edge", draws=2000, seed=1, progress=False, store=path)
            assert len(made.names) == n_nodes
            with closing(sqlite3.connect(path)) as file:
                (stored,) = file.execute("SELECT sum(length(data)) FROM blocks WHERE name = 'rows'").fetchone()
            n_draws = made.n_edges.size
            bound = 8 * n_nodes * -(-n_nodes // 64)
            print(f"{n_nodes:5d} {bound:6d} {stored / n_draws:6.0f} {path.stat().st_size / n_draws:6.0f}")


if __name__ == "__main__":
    parts = {"store": store, "watch": watch, "bytes": size}
    for part in sys.argv[1:] or parts:
        print(f"-- {part}")
        parts[part]()
