"""Chains that run for a stated CPU time, and the tables that their figures are printed in."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from doxa.data import Table
from doxa.estimates.counts import IndicatorCounts
from doxa.structure.families.cache import FamilyScores
from doxa.structure.limits import Limits, capped
from doxa.structure.moves.sampler import StructureMove, StructureSampler, StructureState
from support.networks import load_network

WARMUP = 0.1  # share of the CPU time that is left after the table, discarded
SEEDS = int(os.environ.get("BENCH_SEEDS", "5"))


class Chain(NamedTuple):
    """Edge probabilities of one chain, and what they cost."""

    edges: NDArray[np.float64]  # (n_nodes, n_nodes)
    n_steps: int  # after the warm-up
    seconds: float  # CPU, all told
    state: StructureState


def caps(table: Table, cap: int | None = None) -> Limits:
    n = len(table.names)
    return capped([n - 1 if cap is None else cap] * n)


def compile_kernels(*moves: StructureMove) -> None:
    """So that no figure holds compilation."""
    table = load_network("asia").sample(100, seed=1)
    for move in moves:
        sampler = StructureSampler(move, FamilyScores(table), caps(table), thin=20)
        _, found, _ = sampler.run(sampler.init(np.random.default_rng(0)), 2000, np.random.default_rng(0))
        edge_counts(found["rows"])


def edge_counts(rows: NDArray[np.uint64]) -> NDArray[np.float64]:
    """In how many of the graphs each edge is."""
    counts = IndicatorCounts.from_words(rows[None], rows.shape[1])
    return np.asarray(counts.ones.sum(axis=(0, 1)), dtype=np.float64)


def run_for(
    sampler: StructureSampler, state: StructureState, rng: np.random.Generator, seconds: float, begin: float
) -> Chain:
    """Run until ``seconds`` of CPU time have gone by since ``begin``; the table is made here, if it is not there."""
    state, _, _ = sampler.run(state, sampler.thin, rng)
    end, started = begin + seconds, time.process_time()
    warm = started + WARMUP * (end - started)
    n = len(state.rows)
    counts, n_draws, chunk, took = np.zeros((n, n)), 0, 50 * sampler.thin, 0.0
    while (now := time.process_time()) + took < end:
        state, found, _ = sampler.run(state, chunk, rng)
        if now >= warm:
            counts += edge_counts(found["rows"])
            n_draws += len(found["rows"])
        took = time.process_time() - now
        if took < 0.01 * seconds:
            chunk *= 2
            took *= 2.0
    return Chain(counts / max(1, n_draws), n_draws * sampler.thin, time.process_time() - begin, state)


def spread(values: Sequence[float], digits: int = 5) -> str:
    """Median and worst."""
    return f"{median(values):.{digits}f} (worst {max(values):.{digits}f})"


def load() -> str:
    """What else ran: the load averages of the last one and five minutes."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f}, {five:.1f} on {os.cpu_count()} cores"


def verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"
