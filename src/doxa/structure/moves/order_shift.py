r"""`order_shift_step`: move a node within an order of the graph, and redraw the parents of all that it passes.

Single edges, whole parent sets and reversals change one or two nodes.  Where a dozen columns say nearly the same,
graphs of equal worth differ in many nodes at once.  This step changes as many as it takes, and is exact.

The graph G is joined for one step by an order o of its nodes, drawn by placing at random one of the nodes whose parents
are placed, again and again, so that :math:`q(o \mid G) = \prod_t 1 / a_t` with :math:`a_t` nodes to choose from.  A
node is then moved to another place of the order, as far as a draw says that does not depend on where it stands; every
node between the two places, itself included, gets new parents from among those of its list that stand before it, by
their weights.  With :math:`Z_i(o)` the sum of the weights of i's sets that fit, the step is accepted with probability

.. math:: \min\Big\{1, \frac{q(o' \mid G')}{q(o \mid G)} \prod_i \frac{Z_i(o')}{Z_i(o)}\Big\},

the product over the nodes that got new parents.  It keeps :math:`P(G \mid D)\, q(o \mid G)`, whose sum over o is the
posterior: orders are an auxiliary variable, so unlike order MCMC (Friedman & Koller 2003) graphs with many orders are
not favoured.  As in `doxa.structure.moves.parent_set_gibbs` lists need not be complete: a step that would redraw a
family outside them is not taken, and none leads there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa._jit import hot, lowest_bit
from doxa.structure.families.cache import family_log_score
from doxa.structure.graph import count_bits, replace_parents
from doxa.structure.moves.changes import accepts
from doxa.structure.moves.parent_sets import draw_set, log_bounds

__all__ = ["order_shift_step"]

_ROUNDING = 1e-17  # of a sum: what is smaller does not change it


@hot
def _draw_order(graph: Any, order: Any, waiting: Any, rng: Any) -> float:
    """Draw an order of the graph into ``order``; return the log of its probability."""
    n = order.size
    log_q = 0.0
    free = 0  # order[placed : placed + free] are the nodes whose parents are placed
    for node in range(n):
        waiting[node] = count_bits(graph[0], node)
        if waiting[node] == 0:
            order[free] = node
            free += 1
    for placed in range(n):
        log_q -= np.log(free)
        chosen = placed + int(rng.random() * free)
        node = order[chosen]
        order[chosen] = order[placed]
        order[placed] = node
        free -= 1
        for w in range(graph[1].shape[1]):
            word = graph[1][node, w]
            while word != np.uint64(0):
                child = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                waiting[child] -= 1
                if waiting[child] == 0:
                    free += 1
                    order[placed + free] = child
    return log_q


@hot
def _log_probability(graph: Any, order: Any, waiting: Any) -> float:
    """Log of the probability that `_draw_order` draws this order of the graph."""
    n = order.size
    log_q = 0.0
    free = 0
    for node in range(n):
        waiting[node] = count_bits(graph[0], node)
        free += waiting[node] == 0
    for placed in range(n):
        log_q -= np.log(free)
        free -= 1
        node = order[placed]
        for w in range(graph[1].shape[1]):
            word = graph[1][node, w]
            while word != np.uint64(0):
                child = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                waiting[child] -= 1
                free += waiting[child] == 0
    return log_q


@hot
def _forbid_from(avoid: Any, order: Any, first: int) -> None:
    """Fill ``avoid`` with the nodes at place ``first`` and later."""
    avoid[:] = np.uint64(0)
    for place in range(first, order.size):
        avoid[order[place] >> 6] |= np.uint64(1) << np.uint64(order[place] & 63)


@hot
def _shift(order: Any, here: int, there: int) -> None:
    """Move the node at one place to another; those between make room."""
    node = order[here]
    step = 1 if there > here else -1
    for place in range(here, there, step):
        order[place] = order[place + step]
    order[there] = node


@hot
def _distance(n: int, u: float) -> int:
    """How far to move: log-uniform from 1 to n - 1, so that near and far places have their turns."""
    return min(n - 1, int(np.exp(u * np.log(float(n)))))


@hot
def order_shift_step(graph: Any, local: Any, n_edges: int, cache: Any, scoring: Any, table: Any, rng: Any) -> int:
    """One step of a graph of ``n_edges`` edges; returns their number if it changed, else -1.  Closures are not kept."""
    n = local.size
    order, waiting, drawn, before = table.order[0], table.order[1], table.order[2], table.order[3]
    avoid = table.reached[0]
    here = int(rng.random() * n)
    distance = _distance(n, rng.random())
    there = here + distance if rng.random() < 0.5 else here - distance
    if there < 0 or there >= n:
        return -1
    log_ratio = -_draw_order(graph, order, waiting, rng)
    low, high = min(here, there), max(here, there)
    _forbid_from(avoid, order, low)
    for place in range(low, high + 1):
        node = order[place]
        if table.where[node] < 0:
            return -1
        _, begin, total, rest = draw_set(table, node, avoid, -1, 0.0, _ROUNDING)
        log_ratio -= log_bounds(table, node, begin, total, rest)[0]
        avoid[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))
    _shift(order, here, there)
    _forbid_from(avoid, order, low)
    for place in range(low, high + 1):
        node = order[place]
        drawn[node], begin, total, rest = draw_set(table, node, avoid, -1, rng.random(), _ROUNDING)
        if drawn[node] < 0:
            return -1
        log_ratio += log_bounds(table, node, begin, total, rest)[0]
        avoid[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))
    n_after = n_edges
    for place in range(low, high + 1):
        node = order[place]
        before[node] = table.where[node]
        n_after += count_bits(table.sets, drawn[node]) - count_bits(graph[0], node)
        replace_parents(graph, node, table.sets[drawn[node]])
    if accepts(rng, log_ratio + _log_probability(graph, order, waiting)):
        moved = False
        for place in range(low, high + 1):
            node = order[place]
            table.where[node] = drawn[node]
            if drawn[node] != before[node]:
                moved = True
                local[node] = family_log_score(node, graph[0][node], cache, scoring)
        return int(n_after) if moved else -1
    for place in range(low, high + 1):
        replace_parents(graph, order[place], table.sets[before[order[place]]])
    return -1
