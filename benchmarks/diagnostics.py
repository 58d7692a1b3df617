"""Seconds for the diagnostics of all edges of a structure run, beside arviz-stats' on a few of them.

Run as ``python benchmarks/diagnostics.py``.  Stands for a run on the ALARM network: 37 nodes, 4 chains of 10,000
draws, about 50 edges a graph, of which one or two change from draw to draw; then the worst case, independent draws.
"""

from __future__ import annotations

import time

import numpy as np

from doxa.estimates import IndicatorCounts, diagnose_indicators

N_NODES, N_CHAINS, N_DRAWS, N_EDGES = 37, 4, 10_000, 50
N_ARVIZ = 20


def local_moves(rng: np.random.Generator) -> np.ndarray:
    """Packed rows of graphs in which about one of a hundred possible edges is flipped at every draw."""
    state = np.zeros((N_NODES, N_NODES), dtype=bool)
    state.flat[rng.choice(N_NODES**2, N_EDGES, replace=False)] = True
    candidates = rng.choice(N_NODES**2, 100, replace=False)
    words = np.empty((N_CHAINS, N_DRAWS, N_NODES, 1), dtype=np.uint64)
    for chain in range(N_CHAINS):
        rows = [sum(1 << int(b) for b in np.flatnonzero(row)) for row in state]
        for draw in range(N_DRAWS):
            source, target = divmod(int(candidates[int(rng.random() * 100)]), N_NODES)
            rows[source] ^= 1 << target
            words[chain, draw, :, 0] = rows
    return words


def independent(rng: np.random.Generator) -> np.ndarray:
    """Packed rows of unrelated sparse graphs: every edge changes as often as it can."""
    bits = rng.random((N_CHAINS, N_DRAWS, N_NODES, N_NODES), dtype=np.float32) < N_EDGES / N_NODES**2
    packed = np.zeros((N_CHAINS, N_DRAWS, N_NODES, 64), dtype=bool)
    packed[..., :N_NODES] = bits
    return np.packbits(packed, axis=-1, bitorder="little").view(np.uint64)


def seconds(call, repeats: int = 5) -> float:
    """Smallest of several timings of ``call()``, after one that is not counted."""
    call()
    timings = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        timings.append(time.perf_counter() - start)
    return min(timings)


def main() -> None:
    """Print the table."""
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(20)
    print(f"{N_NODES**2} edges, {N_CHAINS} chains of {N_DRAWS} draws; seconds, best of five")
    for name, words in (("local moves", local_moves(rng)), ("independent draws", independent(rng))):
        counts = IndicatorCounts.from_words(words, N_NODES)
        counting = seconds(lambda w=words: IndicatorCounts.from_words(w, N_NODES))
        diagnosing = seconds(lambda c=counts: diagnose_indicators(c))
        print(f"{name:>18}: counts {counting:.4f}  diagnosis {diagnosing:.4f}  together {counting + diagnosing:.4f}")
    few = ((words[..., 0] >> np.uint64(1)) & np.uint64(1))[..., :N_ARVIZ].astype(np.int8)

    def arviz() -> None:
        for function in (array_stats.rhat, array_stats.ess, array_stats.mcse):
            function(few, chain_axis=0, draw_axis=1)

    taken = seconds(arviz, repeats=1)
    print(f"arviz-stats rhat, ess, mcse of {N_ARVIZ} edges: {taken:.3f}; for all {taken * N_NODES**2 / N_ARVIZ:.1f}")


if __name__ == "__main__":
    main()
