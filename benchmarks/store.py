"""The run store: what it costs to keep a run, beside sampling it, and the size of a draw.

    python benchmarks/store.py [cost | rate]

``cost``  single_edge on ALARM (37 nodes), 5000 forward-sampled records, 4 chains, 5000 draws of each at the default
          thinning, in blocks of 2^20 and 2^22 steps: wall-clock time of committing and of sampling (the chains one
          after another on one core; with as many cores as chains, sampling takes a quarter of it).
``rate``  the same amount of made-up draws of sparse graphs in blocks of several sizes: time of a commit.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doxa.estimates.store import ChainRound, Round, RunHeader, create_run, open_reader, open_writer

CHAINS, DRAWS = 4, 5000


def header() -> RunHeader:
    return RunHeader("structure", {"draws": DRAWS}, "benchmark", {}, CHAINS)


def report(path: Path, committing: list[float], sampling: float) -> None:
    n_draws = CHAINS * DRAWS
    begin = time.perf_counter()
    with open_reader(path) as run:
        opened = time.perf_counter() - begin
        trace, read = run.trace(), time.perf_counter() - begin - opened
        raw = trace["rows"].nbytes / n_draws
        n_bytes = run.n_bytes / n_draws
    open_writer(path).close()
    share = f"{sum(committing) / sampling:.2%} of {sampling:.1f} s of sampling; " if sampling else ""
    print(
        f"{len(committing)} commits in {sum(committing):.3f} s (median {median(committing) * 1e3:.1f} ms, slowest "
        f"{max(committing) * 1e3:.1f} ms): {share}{path.stat().st_size / n_draws:.0f} bytes of file a draw, which is "
        f"{n_bytes:.0f} in memory ({raw:.0f} of them the graph's words); opened and checked in {opened * 1e3:.0f} ms, "
        f"read in {read * 1e3:.0f} ms"
    )


def cost() -> None:
    from doxa.structure import SingleEdge
    from doxa.structure.families.cache import FamilyScores
    from doxa.structure.limits import capped
    from doxa.structure.moves.sampler import StructureSampler
    from support.networks import load_network

    scores = FamilyScores(load_network("alarm").sample(5000, seed=1))
    thin = 37 * 36
    sampler = StructureSampler(SingleEdge(), scores, capped(np.full(37, 36)), thin)
    rngs = [np.random.default_rng(np.random.SeedSequence(1, spawn_key=(chain,))) for chain in range(CHAINS)]
    states = [sampler.run(sampler.init(rng), 1000 * thin, rng)[0] for rng in rngs]
    for exponent in (20, 22):
        print(f"blocks of 2^{exponent} steps: ", end="")
        _cost_of_blocks(sampler, states, rngs, 2**exponent // thin)


def _cost_of_blocks(sampler, states, rngs, block) -> None:
    thin, sampling, committing = sampler.thin, 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.doxa"
        with create_run(path, header()) as run:
            for first in range(0, DRAWS, block):
                n_steps = thin * min(block, DRAWS - first)
                begin = time.perf_counter()
                results = [sampler.run(state, n_steps, rng) for state, rng in zip(states, rngs, strict=True)]
                middle = time.perf_counter()
                states = [state for state, _, _ in results]
                parts = [
                    ChainRound(draws, info, state._asdict(), rng.bit_generator.state)
                    for (state, draws, info), rng in zip(results, rngs, strict=True)
                ]
                run.commit(Round("sampling", n_steps, parts))
                sampling += middle - begin
                committing.append(time.perf_counter() - middle)
        report(path, committing, sampling)


def rate() -> None:
    rng = np.random.default_rng(1)
    dense = rng.random((CHAINS, DRAWS, 37, 64)) < 46 / 37 / 37
    rows = np.packbits(dense, axis=-1, bitorder="little").view(np.uint64)
    draws = {"rows": rows, "log_score": rng.normal(size=(CHAINS, DRAWS)), "n_edges": np.full((CHAINS, DRAWS), 46)}
    for block in (1, 10, 100, 1000, 5000):
        committing = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.doxa"
            with create_run(path, header()) as run:
                for first in range(0, DRAWS, block):
                    parts = [
                        ChainRound(
                            {name: array[chain, first : first + block] for name, array in draws.items()},
                            {"accepted": 1},
                            {"rows": rows[chain, first, :, 0], "position": first},
                            rng.bit_generator.state,
                        )
                        for chain in range(CHAINS)
                    ]
                    begin = time.perf_counter()
                    run.commit(Round("sampling", block, parts))
                    committing.append(time.perf_counter() - begin)
            print(f"{block:5d} draws of {CHAINS} chains a commit: ", end="")
            report(path, committing, 0.0)


if __name__ == "__main__":
    parts = {"cost": cost, "rate": rate}
    for part in sys.argv[1:] or parts:
        print(f"-- {part}")
        parts[part]()
