"""Where chains start: at the smallest graph, at a dense graph, at random graphs, and at a greedy optimum.

Chains that start far apart and come to agree are the evidence that a run has converged; a chain from a greedy optimum
also shows whether the others have found graphs that score as well.  Every start obeys the limits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa._jit import compact
from doxa.arrays import Floats, Ints
from doxa.models.bits import pack_rows
from doxa.structure.families.cache import CacheArrays, FamilyScores, Scoring, local_scores
from doxa.structure.graph import ILLEGAL, WorkingGraph, candidate_kind, working_graph
from doxa.structure.limits import Limits
from doxa.structure.moves.changes import accept_change, cache_is_full, score_change

__all__ = ["dense_dag", "greedy_graph", "random_dag", "random_order", "random_orders", "smallest_graph"]

_DENSE_PARENTS = 12
_GAIN = 1e-9  # nats: smaller differences between equivalent graphs are rounding


def smallest_graph(limits: Limits) -> NDArray[np.uint64]:
    """Adjacency rows of the graph with the required edges alone; the empty graph when there are none."""
    return pack_rows(limits.required_edges)


def dense_dag(rng: np.random.Generator, limits: Limits) -> NDArray[np.bool_]:
    """A graph in a random order in which every node has as many parents as it may, up to 12, chosen at random.

    A chain that starts there comes to large parent sets none of whose parts are good: the side from which no other
    start comes.

    Returns
    -------
    ndarray of bool, shape (n_nodes, n_nodes)
        Adjacency matrix, within ``limits``.
    """
    return _drawn_dag(rng, limits, lambda place: min(1.0, _DENSE_PARENTS / max(1, place)))


def random_dag(rng: np.random.Generator, limits: Limits) -> NDArray[np.bool_]:
    """A random graph for a start: random order, and a density that is itself random, up to two parents a node.

    Returns
    -------
    ndarray of bool, shape (n_nodes, n_nodes)
        Adjacency matrix, within ``limits``.
    """
    density = min(1.0, 2.0 * rng.random() * 2.0 / max(1, len(limits.max_parents) - 1))
    return _drawn_dag(rng, limits, lambda _: density)


def _drawn_dag(rng: np.random.Generator, limits: Limits, density_at: Callable[[int], float]) -> NDArray[np.bool_]:
    """A graph in a random order: nodes before a node are its parents with a probability that its place says."""
    adjacency = np.array(limits.required_edges)
    allowed = limits.allowed_edges
    order = random_order(rng, adjacency)
    for place, node in enumerate(order):
        before = rng.permutation(order[:place])
        chosen = before[rng.random(place) < density_at(place)]
        chosen = chosen[allowed[chosen, node] & ~adjacency[chosen, node]]
        room = limits.max_parents[node] - adjacency[:, node].sum()
        adjacency[_that_fit(chosen[:room], adjacency[:, node], node, limits), node] = True
    return adjacency


def _that_fit(chosen: NDArray[np.int64], parents: NDArray[np.bool_], node: int, limits: Limits) -> NDArray[np.int64]:
    """The first of the chosen nodes that have, with the parents there are, no more configurations than allowed."""
    log_configs = limits.log_states[parents].sum() + np.cumsum(limits.log_states[chosen])
    return np.asarray(chosen[log_configs <= limits.max_log_configs[node]])


def random_order(rng: np.random.Generator, edges: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A random order of the nodes in which every edge leads forward."""
    return np.asarray(random_orders(rng, edges[None])[0])


def random_orders(rng: np.random.Generator, graphs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """One for each graph, shape (n_graphs, n_nodes): a random node of those whose parents are placed comes next."""
    n_graphs, n, _ = graphs.shape
    every = np.arange(n_graphs)
    turn = np.argsort([rng.permutation(n) for _ in every], axis=1)
    waiting = graphs.sum(axis=1)
    orders = np.empty((n_graphs, n), dtype=np.int64)
    for place in range(n):
        node = np.where(waiting == 0, turn, n).argmin(axis=1)
        orders[:, place] = node
        waiting -= graphs[every, node]
        turn[every, node] = n  # placed
    return orders


def greedy_graph(scores: FamilyScores, limits: Limits) -> NDArray[np.uint64]:
    """Adjacency rows of the graph that steepest ascent by single edges reaches from the smallest graph.

    Returns
    -------
    ndarray of uint64, shape (n_nodes, n_words)
    """
    graph = working_graph(smallest_graph(limits))
    local = np.empty(scores.n_nodes)
    best = np.zeros(3, dtype=np.int64)
    with scores.borrow() as (cache, scoring):
        settled(local_scores, scoring.address)(graph[0], cache.arrays, scoring, local)
        while not _ascend(graph, local, limits, cache.arrays, scoring, np.empty(2), best, np.empty(2)):
            cache.grow()
    return graph[1]


@compact
def _ascend(
    graph: WorkingGraph,
    local: Floats,
    limits: Limits,
    cache: CacheArrays,
    scoring: Scoring,
    proposed: Floats,
    best: Ints,
    of_best: Floats,
) -> bool:
    """Make the best change, again and again; False when the cache should grow first, True at the top."""
    n = local.size
    while True:
        gain = _GAIN
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                if cache_is_full(cache):
                    return False
                kind = candidate_kind(graph, limits, i, j)
                if kind != ILLEGAL:
                    delta = score_change(graph, local, kind, i, j, cache, scoring, proposed)
                    if delta > gain:
                        gain = delta
                        best[0], best[1], best[2] = kind, i, j
                        of_best[0], of_best[1] = proposed[0], proposed[1]
        if gain == _GAIN:
            return True
        accept_change(graph, local, best[0], best[1], best[2], of_best)
