"""Large parent sets whose parts are worth nothing: a search from many parents downwards.

Lists of parent sets grow from small sets (`doxa.structure.families.score_table`).  Where not all sets can be computed,
a large one without any good part, such as the columns of a parity check, is never met.  Here the parents of a node are
taken as large as its limits allow, at random among the nodes that may come before it, and are left out one by one,
always the one without which the family weighs most, as long as that helps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Words
from doxa.models.bits import n_words, unpack_rows
from doxa.structure.families.cache import CacheArrays, FamilyScores, Scoring, family_log_score
from doxa.structure.graph import count_bits, has_bit, reach, replace_parents, toggle_bit, working_graph
from doxa.structure.limits import Limits, may_add
from doxa.structure.moves.changes import cache_is_full
from doxa.structure.moves.parent_sets import ParentSets, draw_set, find_set

__all__ = ["with_large_family"]

_STARTS = 4  # of each node
_MOST_PARENTS = 12  # to begin with
_MOST_CELLS = 40_000_000  # rows that are counted, all families together: some tenths of a second


def with_large_family(
    scores: FamilyScores, limits: Limits, table: ParentSets, rows: NDArray[np.uint64], rng: np.random.Generator
) -> NDArray[np.uint64] | None:
    """The graph with one node's parents replaced by an unlisted set that beats all listed ones; None if none is found.

    Parameters
    ----------
    scores : FamilyScores
    limits : Limits
    table : ParentSets
        The lists, at inverse temperature 1; their work space is used.
    rows : ndarray of uint64, shape (n_nodes, n_words)
        Adjacency rows of a graph.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of uint64, shape (n_nodes, n_words), or None
        The best of the graphs that were found: without cycles, within the limits.
    """
    if not scores.score.is_counted:
        return None
    graph = working_graph(rows)
    n = len(rows)
    left = _MOST_CELLS // max(1, len(scores.data[1]))
    best = np.zeros((1, n_words(n)), dtype=np.uint64)
    gain, where = 0.0, -1
    with scores.borrow() as (cache, scoring):
        for start in range(_STARTS):
            for node in rng.permutation(n).tolist():
                if left <= 0:
                    break
                reach(graph[1], node, node, node, table.reached[0])
                listed = int(draw_set(table, node, table.reached[0], -1, 0.0, np.inf)[0])
                below = unpack_rows(table.reached[0][None], n)[0]
                others = [other for other in rng.permutation(n).tolist() if other != node and not below[other]]
                found = np.array(limits.required[node])[None]
                if listed < 0 or (found & table.reached[0]).any():
                    continue
                if start == 0:  # what the node has, and more
                    found |= graph[0][node]
                members = np.zeros((n, n_words(n)), dtype=np.uint64)
                members[node] = found[0]
                for other in others:
                    room = count_bits(members, node) < _MOST_PARENTS and not has_bit(members, node, other)
                    if room and may_add(limits, members, node, other):
                        toggle_bit(members, node, other)
                left -= count_bits(members, node) ** 2 // 2
                weight = np.empty(1)
                while not _leave_out(node, members, limits, cache.arrays, scoring, weight):
                    cache.grow()
                more = float(weight[0] - table.weight[listed])
                if more > gain + 1e-9 and find_set(table, node, members[node]) < 0:
                    gain, where, best[0] = more, node, members[node]
    if where < 0:
        return None
    replace_parents(graph, where, best[0])
    return graph[1]


@hot
def _leave_out(node: int, members: Words, limits: Limits, cache: CacheArrays, scoring: Scoring, weight: Floats) -> bool:
    """Leave out parents as long as that helps; False when the cache should grow first."""
    n = members.shape[0]
    weight[0] = family_log_score(node, members[node], cache, scoring)
    while True:
        best, least = weight[0], -1
        for other in range(n):
            if has_bit(members, node, other) and not has_bit(limits.required, node, other):
                if cache_is_full(cache):
                    return False
                toggle_bit(members, node, other)
                without = family_log_score(node, members[node], cache, scoring)
                toggle_bit(members, node, other)
                if without >= best:
                    best, least = without, other
        if least < 0:
            return True
        toggle_bit(members, node, least)
        weight[0] = best
