r"""Joint proposals: a few steps of a move on one posterior, then an offer of where they led to another.

What is proposed, and with which probability it is taken, is in `doxa.structure.cases.incomplete.scored_sampler`, where
the first posterior is that of stale scores, and in `doxa.structure.cases.incomplete.summed_out`.  The steps of `Auto`
or `SingleEdge` and the offers are one compiled loop; those of other moves are run one proposal at a time.

An *offer* is a compiled function of the parents and scores of the graph that is reached, a context and a random
generator, which says `SAME` where that graph is the one that stands, else `REFUSED` or `TAKEN`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import Address, call_at, settled
from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.cache import ScoreCache, counted_log_score
from doxa.structure.graph import rebuild
from doxa.structure.moves.auto import Auto
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.parent_sets import find_set
from doxa.structure.moves.sampler import StructureMove, Work, run_steps
from doxa.structure.moves.single_edge import SingleEdge, log_proposals

__all__ = ["REFUSED", "SAME", "TAKEN", "Today", "go_to", "log_ratio", "offer_today", "propose", "standing_space"]

SAME, REFUSED, TAKEN = -1, 0, 1
_NO_LIMIT = np.array([np.iinfo(np.int64).max])  # of the cache: a proposal that has begun is finished


class Context(Protocol):
    """What an offer needs: a tuple that is handed over by its address."""

    @property
    def standing(self) -> tuple[Words, Words, Floats, Ints]:
        """`standing_space`, which the loop keeps."""


@by_address
class Today(NamedTuple):
    """Scores of the completion at hand, and the graph that stands."""

    scoring: Any
    beta: float
    local: NDArray[np.float64]  # (n_nodes,): of the graph that stands
    fresh: NDArray[np.float64]  # likewise, of the graph that is proposed
    standing: tuple[Words, Words, Floats, Ints]  # parents, children, stale scores, places in the lists


def propose(
    move: StructureMove,
    work: Work,
    lengths: Ints,
    cache: ScoreCache,
    offered: tuple[Address[..., int], Context],
    done: NDArray[np.int64],
    advance: Address[..., int],
    rng: np.random.Generator,
) -> None:
    """A proposal of so many steps for each of ``lengths``, in place; the cache of scores grows where it has to.

    ``offered`` is an offer and its context; ``done`` counts proposals of
    other graphs, and those taken; ``advance`` is that of `advance_auto`, of `advance_edges` for single edges.
    """
    offer, context = offered
    if not isinstance(move, Auto | SingleEdge):
        _propose_by(move, work._replace(thin=int(lengths.max(initial=0)) + 1), lengths, cache, offered, done, rng)
        return
    first, log_q = 0, log_proposals(len(work.local))
    shares = move.shares if isinstance(move, Auto) else (1.0, 0.0, 0.0, 0.0)
    while first < len(lengths):
        arrays = cache.arrays
        work = work._replace(cache=arrays._replace(limit=_NO_LIMIT), thin=-1)
        at = (
            advance.of(work, shares, log_q, 0, 1, rng),
            offer.of(work.graph[0], work.local, context, rng),
        )
        first = settled(_propose, at)(at, work, (shares, log_q), (first, lengths, arrays.limit), context, done, rng)
        while cache.wants_to_grow and cache.can_grow:
            cache.grow()


def _propose_by(
    move: StructureMove,
    work: Work,
    lengths: Ints,
    cache: ScoreCache,
    offered: tuple[Address[..., int], Context],
    done: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    """By any move."""
    graph, (offer, context) = work.graph, offered
    now = (graph[0], graph[1], work.local, work.table.where)
    go_to(now, context.standing)
    for steps in lengths.tolist():
        run_steps(move, work, steps, cache, rng)
        found = offer(graph[0], work.local, context, rng)
        if found == SAME:
            continue
        done[0] += 1
        if found == TAKEN:
            done[1] += 1
            go_to(now, context.standing)
        else:
            go_to(context.standing, now)
            rebuild(graph)


@hot
def _propose(
    at: tuple[int, int],
    work: Work,
    moving: tuple[tuple[float, float, float, float], Floats],
    until: tuple[int, Ints, Ints],
    context: Context,
    done: Ints,
    rng: np.random.Generator,
) -> int:
    graph, local, table, standing = work.graph, work.local, work.table, context.standing
    (advance, offer), (shares, log_q), (first, lengths, limit) = at, moving, until
    for node in range(local.size):
        table.where[node] = find_set(table, node, graph[0][node])
    go_to((graph[0], graph[1], local, table.where), standing)
    while first < lengths.size and not _is_full(work, limit):
        call_at(advance, (work, shares, log_q, 0, lengths[first], rng))
        first += 1
        found = call_at(offer, (graph[0], local, context, rng))
        if found == SAME:
            continue
        done[0] += 1
        if found == TAKEN:
            done[1] += 1
            go_to((graph[0], graph[1], local, table.where), standing)
        else:
            go_to(standing, (graph[0], graph[1], local, table.where))
    rebuild(graph)
    return first


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


@hot
def offer_today(parents: Words, local: Floats, today: Today, rng: np.random.Generator) -> int:
    """Offer a graph to the scores of today, which are kept up; ``local`` are its stale scores."""
    change = log_ratio(parents, local, today)
    if np.isnan(change):
        return SAME
    if not accepts(rng, today.beta * change):
        return REFUSED
    for node in range(local.size):
        today.local[node] = today.fresh[node]
    return TAKEN


def standing_space(rows: Words) -> tuple[Words, Words, Floats, Ints]:
    """Where parents, children, scores and places in the lists of a graph are kept while another is offered."""
    n = len(rows)
    parents, children = np.zeros((2, *rows.shape), dtype=np.uint64)
    return parents, children, np.zeros(n), np.zeros(n, dtype=np.int64)


@hot
def go_to(source: tuple[Words, Words, Floats, Ints], target: tuple[Words, Words, Floats, Ints]) -> None:
    """Copy parents, children, scores and places in the lists."""
    for node in range(source[2].size):
        for w in range(source[0].shape[1]):
            target[0][node, w], target[1][node, w] = source[0][node, w], source[1][node, w]
        target[2][node], target[3][node] = source[2][node], source[3][node]
