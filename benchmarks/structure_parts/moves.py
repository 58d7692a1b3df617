"""Steps a second of the moves, and the chapter's own run."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from doxa.sampling.driver import Schedule, sample
from doxa.structure import Auto, EdgeReversal, MarkovBlanket, ParentSetGibbs, SingleEdge
from doxa.structure.families.cache import FamilyScores
from doxa.structure.moves.sampler import StructureMove, StructureSampler, StructureState
from doxa.structure.moves.starts import smallest_graph
from structure_parts.chains import SEEDS, caps, compile_kernels, load, verdict
from support.networks import load_network

WHOLE_SETS: tuple[tuple[str, StructureMove, float], ...] = (
    ("parent_set_gibbs", ParentSetGibbs(), 1.0),
    ("edge_reversal", EdgeReversal(), 1.0),
    ("auto", Auto(), 0.0),
)
CHAPTER_VISITS, CHAPTER_STEPS, CHAPTER_SECONDS = 1_000_000, 5, 3.0


def rate(sampler: StructureSampler, state: StructureState, n_steps: int) -> list[float]:
    """Million steps a CPU second, SEEDS times, after as many steps that fill the cache."""
    rng = np.random.default_rng(1)
    state, _, _ = sampler.run(state, n_steps, rng)
    rates = []
    for _ in range(SEEDS):
        begin = time.process_time()
        state, _, _ = sampler.run(state, n_steps, rng)
        rates.append(n_steps / 1e6 / (time.process_time() - begin))
    return rates


def show(what: str, rates: list[float], goal: float) -> None:
    goals = f"goal {goal:.0f}; " if goal else ""
    ending = f": {verdict(median(rates) >= goal)}" if goal else ""
    print(
        f"{what:44s} {goals}{median(rates):.2f} million steps/s (worst {min(rates):.2f}, best {max(rates):.2f}){ending}"
        f"; {load()}",
        flush=True,
    )


def moves() -> None:
    compile_kernels(Auto(), ParentSetGibbs(), EdgeReversal(), SingleEdge(), MarkovBlanket())
    for n_rows in (1000, 5000):
        table = load_network("alarm").sample(n_rows, seed=1)
        scores, limits = FamilyScores(table), caps(table)
        mixed = StructureSampler(Auto(), scores, limits, thin=1000)
        rng = np.random.default_rng(1)
        state, _, _ = mixed.run(mixed.init(rng), 2_000_000, rng)
        for name, move, goal in WHOLE_SETS:
            sampler = StructureSampler(move, scores, limits, thin=1000)
            show(f"{name}, ALARM, {n_rows} records", rate(sampler, state, 1_000_000), goal)
    for network in ("asia", "sachs", "child", "insurance", "alarm"):
        table = load_network(network).sample(5000, seed=1)
        sampler = StructureSampler(SingleEdge(), FamilyScores(table), caps(table), thin=1000)
        start = sampler.start(1, np.random.default_rng(1))
        show(f"single_edge, {network}, {len(table.names)} nodes", rate(sampler, start, 4_000_000), 8.0)
    two_cores()
    chapter()


def two_cores() -> None:
    table = load_network("alarm").sample(5000, seed=1)
    sampler = StructureSampler(SingleEdge(), FamilyScores(table), caps(table), thin=10_000)
    sample(sampler, Schedule(2, 200, 100), seed=1, workers=2)  # fill the caches of both
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(SEEDS):
        for workers in seconds:
            begin = time.perf_counter()
            sample(sampler, Schedule(2, 800, 0), seed=1, workers=workers)
            seconds[workers].append(time.perf_counter() - begin)
    ratio = median(seconds[1]) / median(seconds[2])
    best = min(seconds[1]) / min(seconds[2])
    print(
        f"single_edge, two chains on two cores: goal 1.6; {ratio:.2f} times as fast as on one (wall clock, medians; "
        f"fastest runs {best:.2f}): {verdict(ratio >= 1.6)}; {load()}",
        flush=True,
    )


def chapter() -> None:
    for n_rows in (1000, 5000):
        table = load_network("alarm").sample(n_rows, seed=1)
        limits = caps(table)
        for reversals in (0, None):
            move = MarkovBlanket(k=CHAPTER_STEPS - 1, covered_arc_reversals=reversals)
            seconds = []
            for seed in range(1, SEEDS + 1):
                begin = time.process_time()
                sampler = StructureSampler(move, FamilyScores(table), limits, thin=100 * CHAPTER_STEPS)
                start = sampler.start_at(smallest_graph(limits))
                sampler.run(start, CHAPTER_VISITS * CHAPTER_STEPS, np.random.default_rng(seed))
                seconds.append(time.process_time() - begin)
            kind = "no covered-arc reversals" if reversals == 0 else "covered-arc reversals as by default"
            print(
                f"markov_blanket, ALARM, {n_rows} records, {kind}: goal {CHAPTER_SECONDS:.0f} CPU s for a million "
                f"visits of {CHAPTER_STEPS} steps from the empty graph, counting included; {median(seconds):.2f} s "
                f"(worst {max(seconds):.2f}): {verdict(median(seconds) <= CHAPTER_SECONDS)}; {load()}",
                flush=True,
            )
