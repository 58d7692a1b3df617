"""Structure sampling: speed, scaling over threads, accuracy against exact sums, growth, and other packages beside it.

    python benchmarks/structure.py [speed | threads | asia | start | accuracy | agreement | moves | growth | peers]

One core and CPU seconds unless said; medians, and the worst; kernels compiled beforehand.  Goals stand beside the
figures.  Without arguments all parts but ``peers``, which builds another package from PyPI.

``speed``     steps a second on ALARM (37 nodes), 5000 forward-sampled records, after the scores are cached.  A step is
              a proposal, rejected ones included; for markov_blanket it is a step of the inner loop.
``threads``   the same two chains on one worker and on two, interleaved: ratio of wall-clock times.
``asia``      error of the edge probabilities on Asia (8 nodes, 1000 records) within 5 CPU seconds, scores included.
``start``     wall-clock time of ``doxa demo``, with kernels to compile and with kernels cached.
``accuracy``  error of one chain of the default sampler on Asia, Sachs and Child, tables included.
``agreement`` largest difference of an edge between chains from four starts on Insurance and ALARM, 60 s in all.
``moves``     steps a second of each move, two cores against one, and the chapter's million visits on ALARM.
``growth``    table, steps, memory and agreement of two chains, for 20 to 200 nodes and 500 to 50,000 records; drawn
              in ``structure_growth.png`` (in BENCH_FOLDER, else the temporary folder) if matplotlib is there.
``peers``     errors beside those of other packages, each in a virtual environment of its own: in PEERS_FOLDER, where
              they are kept between runs, else in a temporary folder.

BENCH_SEEDS is the number of seeds or repeats, 5 unless set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doxa.estimates.counts import IndicatorCounts
from doxa.sampling.driver import Schedule, sample
from doxa.structure import MarkovBlanket, SingleEdge
from doxa.structure.exact.enumeration import exact_edge_probabilities
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import capped
from doxa.structure.moves.sampler import StructureSampler
from structure_parts.growth import growth, one
from structure_parts.moves import moves
from structure_parts.peers import peers
from structure_parts.posteriors import accuracy, agreement
from support.networks import load_network

MOVES = {
    "single_edge": SingleEdge(),
    "markov_blanket": MarkovBlanket(),
    "markov_blanket, no covered-arc reversals": MarkovBlanket(covered_arc_reversals=0),
    "markov_blanket, 10 covered-arc reversals": MarkovBlanket(covered_arc_reversals=10),
}


def speed() -> None:
    scores = FamilyScores(load_network("alarm").sample(5000, seed=1))
    for name, move in MOVES.items():
        sampler = StructureSampler(move, scores, capped(np.full(37, 36)), thin=1000)
        rng = np.random.default_rng(1)
        state, _, _ = sampler.run(sampler.init(rng), 4_000_000, rng)
        rates = []
        for _ in range(7):
            misses, begin = scores.use.n_misses, time.process_time()
            state, _, info = sampler.run(state, 2_000_000, rng)
            rates.append(2.0 / (time.process_time() - begin))
        accepted = info["accepted"] / info["proposed"]
        missed = (scores.use.n_misses - misses) / 2_000_000
        print(
            f"{name:42s} {median(rates):6.2f} million steps/s (median of 7; {min(rates):.2f} to {max(rates):.2f}); "
            f"{accepted:.1%} accepted, {missed:.2%} of the steps counted a family"
        )
    use = scores.use
    print(f"cache: {use.n_scores} scores, {use.n_bytes / 2**20:.1f} MiB, {use.n_evictions} replaced")


def threads() -> None:
    table = load_network("alarm").sample(5000, seed=1)
    for name in ("single_edge", "markov_blanket"):
        sampler = StructureSampler(MOVES[name], FamilyScores(table), capped(np.full(37, 36)), thin=10_000)
        sample(sampler, Schedule(2, 200, 100), seed=1, workers=2)  # fill the caches of both
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(5):
            for workers in seconds:
                begin = time.perf_counter()
                sample(sampler, Schedule(2, 800, 0), seed=1, workers=workers)
                seconds[workers].append(time.perf_counter() - begin)
        ratio = median(seconds[1]) / median(seconds[2])
        print(f"{name:42s} two threads are {ratio:.2f} times as fast as one (medians of 5)")


def asia() -> None:
    table = load_network("asia").sample(1000, seed=1)
    exact = exact_edge_probabilities(FamilyScores(table))
    off = ~np.eye(8, dtype=bool)
    for name, move in MOVES.items():
        results = []
        for seed in range(1, 12):
            begin = time.process_time()
            sampler = StructureSampler(move, FamilyScores(table), capped(np.full(8, 7)), thin=56)
            rng = np.random.default_rng(seed)
            state, _, _ = sampler.run(sampler.init(rng), 100_016, rng)
            present, draws = np.zeros((8, 8)), 0
            while time.process_time() - begin < 4.8:
                state, found, _ = sampler.run(state, 560_000, rng)
                present += IndicatorCounts.from_words(found["rows"][None], 8).ones.sum(axis=(0, 1))
                draws += 10_000
            error = np.abs(present / draws - exact)[off]
            results.append((error.mean(), error.max(), 56 * draws, time.process_time() - begin))
        means, maxima, steps, seconds = zip(*results, strict=True)
        print(
            f"{name:42s} mean error {median(means):.5f} (worst seed {max(means):.5f}), maximum {median(maxima):.4f} "
            f"(worst seed {max(maxima):.4f}); {median(steps) / 1e6:.0f} million steps in {median(seconds):.1f} CPU s; "
            f"{len(results)} seeds"
        )


def start() -> None:
    command = [str(Path(sys.executable).parent / "doxa"), "demo"]
    folder = tempfile.mkdtemp()
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    seconds = []
    for _ in range(4):
        begin = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        seconds.append(time.perf_counter() - begin)
    shutil.rmtree(folder)
    print(f"doxa demo: {seconds[0]:.1f} s with kernels to compile, {median(seconds[1:]):.1f} s with kernels cached")


if __name__ == "__main__":
    parts = {
        "speed": speed,
        "threads": threads,
        "asia": asia,
        "start": start,
        "accuracy": accuracy,
        "agreement": agreement,
        "moves": moves,
        "growth": growth,
        "peers": peers,
    }
    if sys.argv[1:2] == ["--growth"]:
        print(json.dumps(one(int(sys.argv[2]), int(sys.argv[3]))))
    else:
        for part in sys.argv[1:] or list(parts)[:-1]:
            print(f"-- {part}", flush=True)
            parts[part]()
