"""Score tables: time, memory and what is kept.  One core, CPU seconds, kernels compiled beforehand.

    python benchmarks/score_table.py [networks | random | kept | threads]

``networks``  BDeu 1: all sets of up to so many parents as some seconds allow, at least three, and the larger ones
              added to them; the goals for ALARM are 3 s (1000 records) and 10 s (5000).
``random``    100 and 200 nodes of 2 to 4 states with up to three parents each, 2000 records: the 200 work with
              candidate parents.
``kept``      lengths of the lists and the bound on what was left out, for several ``keep_within``.
``threads``   wall-clock time with two threads against one.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doxa.data import Table
from doxa.structure.families.cache import FamilyScores
from doxa.structure.families.kind import FamilyKind
from doxa.structure.families.score_table import ScoreTable, build_score_table
from doxa.structure.families.scores import BIC, K2
from doxa.structure.limits import capped
from support.networks import load_network
from support.tables import skewed_table

NETWORKS = ("child", "insurance", "alarm")


def random_table(n_nodes: int, n_rows: int, seed: int) -> Table:
    """Records of a random network: up to three parents a node, states drawn from 2 to 4, rows of tables skewed."""
    rng = np.random.default_rng(seed)
    radix = rng.integers(2, 5, size=n_nodes)
    codes = np.zeros((n_rows, n_nodes), dtype=np.int64)
    for node in range(n_nodes):
        parents = rng.permutation(node)[: rng.integers(0, 4)]
        config = np.zeros(n_rows, dtype=np.int64)
        for parent in parents:
            config = config * radix[parent] + codes[:, parent]
        chances = rng.dirichlet(np.full(radix[node], 0.5), size=int(radix[parents].prod()))
        codes[:, node] = (rng.random((n_rows, 1)) >= np.cumsum(chances, axis=1)[config, :-1]).sum(axis=1)
    return Table.from_codes(
        [f"x{i}" for i in range(n_nodes)], [[f"s{k}" for k in range(r)] for r in radix.tolist()], codes
    )


def timed(table: Table, *scored: FamilyKind, repeats: int = 3, **options: float) -> tuple[ScoreTable, float, float]:
    """A score table with the medians of CPU and wall-clock seconds."""
    cpu, wall = [], []
    for _ in range(repeats):
        scores = FamilyScores(table, *scored)
        begin_cpu, begin = time.process_time(), time.perf_counter()
        found = build_score_table(scores, capped([scores.n_nodes - 1] * scores.n_nodes), **options)
        cpu.append(time.process_time() - begin_cpu)
        wall.append(time.perf_counter() - begin)
    return found, median(cpu), median(wall)


def show(name: str, table: Table, *scored: FamilyKind, repeats: int = 3) -> None:
    found, seconds, _ = timed(table, *scored, repeats=repeats)
    info = found.info
    candidates = np.bitwise_count(info.candidates).sum(axis=1)
    print(
        f"{name:28s} {table.n_distinct:5d} distinct rows: {seconds:6.2f} s, {info.n_computed / seconds / 1e6:5.2f} "
        f"million families/s; {info.n_computed} families from {info.n_counted} sets, complete to {info.complete_size}, "
        f"{candidates.max()} candidates, up to {info.largest_size} parents; {info.n_kept} kept, mass left out <= "
        f"{info.pruned_mass:.1g}; table {info.n_bytes / 2**20:.1f} MiB, counting {info.n_bytes_counting / 2**20:.0f} "
        f"MiB, process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB at most"
    )


def networks() -> None:
    for network in NETWORKS:
        for n_rows in (1000, 5000):
            table = load_network(network).sample(n_rows, seed=1)
            show(f"{network}, {n_rows}", table)
    table = load_network("alarm").sample(1000, seed=1)
    show("alarm, 1000, K2", table, K2())
    show("alarm, 1000, BIC", table, BIC())


def random() -> None:
    for n_nodes in (100, 200):
        show(f"random, {n_nodes} nodes, 2000", random_table(n_nodes, 2000, seed=1), repeats=1)


def kept() -> None:
    for network in NETWORKS:
        for n_rows in (1000, 5000):
            table = load_network(network).sample(n_rows, seed=1)
            for keep_within in (8.0, 12.0, 16.0, 24.0):
                found, _, _ = timed(table, repeats=1, keep_within=keep_within)
                lengths = np.diff(found.first)
                print(
                    f"{network:10s} {n_rows} records, keep_within {keep_within:2.0f}: {found.info.n_kept:6d} kept, "
                    f"a node {lengths.mean():5.0f} (at most {lengths.max():5d}), mass <= {found.info.pruned_mass:.1g}"
                )


def threads() -> None:
    table = load_network("alarm").sample(5000, seed=1)
    one, two = (timed(table, repeats=5, workers=workers)[2] for workers in (1, 2))
    print(f"alarm, 5000: {one:.2f} s with one thread, {two:.2f} s with two (wall clock, medians of 5)")


if __name__ == "__main__":
    for score in ((), (K2(),), (BIC(),)):
        timed(skewed_table(5, 50, seed=0), *score)  # compile
    parts = {"networks": networks, "random": random, "kept": kept, "threads": threads}
    for part in sys.argv[1:] or parts:
        print(f"-- {part}")
        parts[part]()
