r"""Joint proposals by stale scores: a few steps of a move, then the scores of today.

What is proposed, and with which probability it is taken, is in `doxa.structure.cases.incomplete.scored_sampler`.  The
steps of `Auto` and what follows them are one compiled loop; those of other moves are run one proposal at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import Address, call_at
from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.structure.cases.incomplete.joint_proposals import go_to
from doxa.structure.families.cache import ScoreCache, Scoring, counted_log_score
from doxa.structure.graph import rebuild
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.parent_sets import find_set
from doxa.structure.moves.sampler import StructureMove, Work, run_steps
from doxa.structure.moves.single_edge import log_proposals

__all__ = ["Today", "log_ratio", "propose_by", "propose_jointly"]


@by_address
class Today(NamedTuple):
    """Scores of the completion at hand, and the graph that stands."""

    scoring: Any
    local: NDArray[np.float64]  # (n_nodes,): of the graph that stands
    fresh: NDArray[np.float64]  # likewise, of the graph that is proposed
    standing: tuple[Words, Words, Floats, Ints]  # parents, children, stale scores, places in the lists


def propose_jointly(
    move: StructureMove,
    work: Work,
    together: int,
    n_steps: int,
    cache: ScoreCache,
    today: tuple[Scoring, NDArray[np.float64]],
    done: NDArray[np.int64],
    advance: Address,
    rng: np.random.Generator,
) -> None:
    """So many steps, ``together`` of them in a proposal, in place; the cache of stale scores grows where it has to.

    ``today`` is the scoring arrays of the completion at hand and the scores of the graph's families by them, which are
    kept up; ``done`` counts proposals of other graphs, and those taken; ``advance`` is that of `advance_auto`.
    """
    n = len(work.local)
    standing = (np.zeros_like(work.graph[0]), np.zeros_like(work.graph[1]), np.zeros(n), np.zeros(n, dtype=np.int64))
    now = Today(today[0], today[1], np.zeros(n), standing)
    if not isinstance(move, Auto):
        go_to((*work.graph[:2], work.local, work.table.where), standing)

        def is_taken() -> bool | None:
            change = log_ratio(work.graph[0], work.local, now)
            if np.isnan(change):
                return None
            if not accepts(rng, work.beta * change):
                return False
            go_to((*work.graph[:2], work.local, work.table.where), standing)
            now.local[:] = now.fresh
            return True

        lengths = (min(together, n_steps - first) for first in range(0, n_steps, together))
        propose_by(move, work, lengths, cache, is_taken, done, rng)
        return
    first, log_q = 0, log_proposals(n)
    no_limit = np.array([np.iinfo(np.int64).max])  # a proposal that has begun is finished
    while first < n_steps:
        arrays = cache.arrays
        work = work._replace(cache=arrays._replace(limit=no_limit), thin=-1)
        at = advance.of(work, move.shares, log_q, first, n_steps, rng)
        first = _propose(at, work, move.shares, log_q, ((first, together, n_steps), arrays.limit), now, done, rng)
        while cache.wants_to_grow and cache.can_grow:
            cache.grow()


def propose_by(
    move: StructureMove,
    work: Work,
    lengths: Iterable[int],
    cache: ScoreCache,
    is_taken: Callable[[], bool | None],
    done: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    """A proposal of so many steps for each of ``lengths``, by any move, in place.

    ``is_taken`` says whether the graph that is reached is accepted, None where it is the one that stands; ``done``
    counts proposals of other graphs, and those taken.
    """
    graph, n = work.graph, len(work.local)
    now = (graph[0], graph[1], work.local, work.table.where)
    standing = (np.zeros_like(graph[0]), np.zeros_like(graph[1]), np.zeros(n), np.zeros(n, dtype=np.int64))
    go_to(now, standing)
    for steps in lengths:
        run_steps(move, work, steps, cache, rng)
        taken = is_taken()
        if taken is None:
            continue
        done[0] += 1
        if taken:
            done[1] += 1
            go_to(now, standing)
        else:
            go_to(standing, now)
            rebuild(graph)


@hot
def _propose(
    advance: int,
    work: Work,
    shares: tuple[float, float, float, float],
    log_q: Floats,
    until: tuple[tuple[int, int, int], Ints],
    today: Today,
    done: Ints,
    rng: np.random.Generator,
) -> int:
    graph, local, table = work.graph, work.local, work.table
    (first, together, n_steps), limit = until
    for node in range(local.size):
        table.where[node] = find_set(table, node, graph[0][node])
    go_to((graph[0], graph[1], local, table.where), today.standing)
    while first < n_steps and not _is_full(work, limit):
        call_at(advance, (work, shares, log_q, first, min(first + together, n_steps), rng))
        first += together
        change = log_ratio(graph[0], local, today)
        if np.isnan(change):
            continue
        done[0] += 1
        if accepts(rng, work.beta * change):
            done[1] += 1
            go_to((graph[0], graph[1], local, table.where), today.standing)
            for node in range(local.size):
                today.local[node] = today.fresh[node]
        else:
            go_to(today.standing, (graph[0], graph[1], local, table.where))
    rebuild(graph)
    return min(first, n_steps)


@hot
def _is_full(work: Work, limit: Ints) -> bool:
    """Whether the table of some node holds more scores than that; the cache is told."""
    _, _, used, statistics, _ = work.cache
    for node in range(used.size):
        if used[node] > limit[0]:
            statistics[2] = 1
            return True
    return False


@hot
def log_ratio(parents: Words, local: Floats, today: Today) -> float:
    """The change of the score of today less that of the stale score; nan where the graph is the one that stands."""
    standing = today.standing
    total, any_differs = 0.0, False
    for node in range(local.size):
        differs = False
        for w in range(parents.shape[1]):
            differs = differs or parents[node, w] != standing[0][node, w]
        today.fresh[node] = today.local[node]
        if differs:
            any_differs = True
            today.fresh[node] = counted_log_score(node, parents[node], today.scoring)
            total += today.fresh[node] - today.local[node] - (local[node] - standing[2][node])
    return total if any_differs else np.nan
