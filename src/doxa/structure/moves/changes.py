"""What every structure move does with a candidate change: score it, carry it out, record the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, inlined, lowest_bit, popcount
from doxa.arrays import Floats, Words
from doxa.structure.families.cache import CacheArrays, Scoring, family_log_score
from doxa.structure.graph import REVERSE, WorkingGraph, apply_change, toggle_bit

if TYPE_CHECKING:
    from doxa.structure.moves.sampler import Work

__all__ = ["accept_change", "accepts", "cache_is_full", "edge_number", "keep", "score_change"]


@inlined
def score_change(
    graph: WorkingGraph,
    local: Floats,
    kind: int,
    i: int,
    j: int,
    cache: CacheArrays,
    scoring: Scoring,
    proposed: Floats,
) -> float:
    """Change of the log score by the candidate (i, j); the new family scores of j and i go into ``proposed``."""
    parents = graph[0]
    toggle_bit(parents, j, i)  # only for the look-up
    proposed[0] = family_log_score(j, parents[j], cache, scoring)
    toggle_bit(parents, j, i)
    delta = proposed[0] - local[j]
    if kind == REVERSE:
        toggle_bit(parents, i, j)
        proposed[1] = family_log_score(i, parents[i], cache, scoring)
        toggle_bit(parents, i, j)
        delta += proposed[1] - local[i]
    return delta  # type: ignore[no-any-return]


@hot
def accept_change(graph: WorkingGraph, local: Floats, kind: int, i: int, j: int, proposed: Floats) -> None:
    """Carry out a candidate that `score_change` has scored."""
    apply_change(graph, kind, i, j)
    local[j] = proposed[0]
    if kind == REVERSE:
        local[i] = proposed[1]


@hot
def edge_number(children: Words, rank: int) -> tuple[int, int]:
    """The edge (i, j) of this rank, counted by parent, then child."""
    for i in range(children.shape[0]):
        for w in range(children.shape[1]):
            word = children[i, w]
            here = popcount(word)
            if rank < here:
                for _ in range(rank):
                    word &= word - np.uint64(1)
                return i, 64 * w + lowest_bit(word)
            rank -= here
    return -1, -1


@hot
def accepts(rng: np.random.Generator, log_ratio: float) -> bool:
    """Metropolis-Hastings: True with probability min(1, exp(log_ratio))."""
    if log_ratio >= 0.0:
        return True
    if log_ratio < -37.0:  # 1 - u is a multiple of 2^-53 in (0, 1], so its logarithm is above -36.8
        return False
    return np.log1p(-rng.random()) < log_ratio  # type: ignore[no-any-return]


@hot
def cache_is_full(cache: CacheArrays) -> bool:
    """Whether some node's table has reached the load at which it should be doubled."""
    return cache[3][2] != 0  # type: ignore[no-any-return]


@hot
def _record(graph: WorkingGraph, local: Floats, kept: int, draws: tuple[Words, Floats, NDArray[np.int32]]) -> None:
    """Write graph, log score and number of edges as draw number ``kept``.

    The log score is summed afresh, in node order: a running sum would depend on where a block of steps began.
    """
    rows, log_score, n_edges = draws
    total = 0.0
    edges = 0
    for node in range(local.size):
        total += local[node]
        for w in range(rows.shape[2]):
            rows[kept, node, w] = graph[1][node, w]
            edges += popcount(graph[1][node, w])
    log_score[kept] = total
    n_edges[kept] = np.int32(edges)


@hot
def keep(work: Work, step: int) -> None:
    """Keep the graph that stands after step number ``step``, where one is due: after every ``work.thin`` steps."""
    if (step + 1) % work.thin == 0:
        _record(work.graph, work.local, (step + 1) // work.thin - 1, work.draws)
