"""Plain twins of the moves that change many nodes together, as matrices over all listed graphs.

They know the lists of parent sets and what the modules of the moves say, and share no code with the compiled steps:
every order of a graph is listed, every shift, every redrawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations, product
from math import exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.models.bits import pack_rows, unpack_rows

Matrix = NDArray[np.float64]
Parents = tuple[int, ...]  # of each node, as a bit set


def parents_of(rows: NDArray[np.uint64]) -> list[Parents]:
    """The parents of all nodes of each graph, shape (n_graphs, n_nodes, 1) of adjacency rows."""
    n = rows.shape[1]
    words = pack_rows(unpack_rows(rows, n).transpose(0, 2, 1))[:, :, 0]
    return [tuple(graph) for graph in words.astype(np.int64).tolist()]


def listed_sets(table: Any) -> list[dict[int, float]]:
    """For each node its listed sets, with their log weights."""
    n = len(table.first) - 1
    numbers = [range(table.first[node], table.first[node + 1]) for node in range(n)]
    return [{int(table.sets[k, 0]): float(table.weight[k]) for k in numbers[node]} for node in range(n)]


def orders_of(parents: Parents) -> dict[tuple[int, ...], float]:
    """Every order in which no node comes before its parents, with the log of its probability."""
    found = {}
    for order in permutations(range(len(parents))):
        placed, log_q = 0, 0.0
        for node in order:
            if parents[node] & ~placed:
                break
            free = [other for other in order if not placed >> other & 1 and not parents[other] & ~placed]
            log_q -= log(len(free))
            placed |= 1 << node
        else:
            found[order] = log_q
    return found


def distance_law(n: int) -> dict[int, float]:
    """Log-uniform: the chance that n to the power u, for u from 0 to 1, has this whole part."""
    return {d: (log(d + 1) - log(d)) / log(n) for d in range(1, n)}


def _that_fit(sets: dict[int, float], before: int) -> tuple[list[tuple[int, float]], float]:
    """The sets within the nodes before, each with the log of its share, and the log of the sum of their weights."""
    fits = [(parents, weight) for parents, weight in sets.items() if not parents & ~before]
    if not fits:
        return [], -inf
    top = max(weight for _, weight in fits)
    total = top + log(sum(exp(weight - top) for _, weight in fits))
    return [(parents, weight - total) for parents, weight in fits], total


def _redrawings(
    sets: list[dict[int, float]], order: tuple[int, ...], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Every choice of parents for the nodes at places low to high: their part of the graph's `_codes`, their log share;
    and the log of the sums.
    """
    before = sum(1 << node for node in order[:low])
    choices, total = [], 0.0
    for node in order[low : high + 1]:
        shares, log_sum = _that_fit(sets[node], before)
        choices.append([(own << len(order) * node, log_share) for own, log_share in shares])
        total += log_sum
        before |= 1 << node
    together = list(product(*choices))
    codes = np.array([sum(code for code, _ in families) for families in together], dtype=np.int64)
    return codes, np.array([sum(log_share for _, log_share in families) for families in together]), total


def _codes(parents: NDArray[np.int64], nodes: Sequence[int]) -> NDArray[np.int64]:
    """The parents of these nodes in graphs, (n_graphs, n_nodes), as one number."""
    return (parents[:, nodes] << parents.shape[1] * np.array(nodes)).sum(axis=1)


def order_shift_matrix(of: Any, *, with_q: bool = True, with_sums: bool = True) -> Matrix:
    """Transition matrix of one shift in an order; a part of its acceptance can be left out."""
    graphs = parents_of(of.posterior.rows)
    n, law, sets, parents = of.n_nodes, distance_law(of.n_nodes), listed_sets(of.table), np.array(graphs)
    is_listed = np.array([[own in sets[node] for node, own in enumerate(graph)] for graph in graphs])
    log_q = {order: np.full(len(graphs), -inf) for order in permutations(range(n))}  # of every graph
    for x, graph in enumerate(graphs):
        for order, value in orders_of(graph).items():
            log_q[order][x] = value
    codes = _codes(parents, range(n))
    by_code, matrix = np.argsort(codes), np.zeros((len(graphs), len(graphs)))
    for order, here, (distance, share), sign in product(log_q, range(n), law.items(), (1, -1)):
        there = here + sign * distance
        if not 0 <= there < n:
            continue
        low, high = min(here, there), max(here, there)
        redrawn_nodes = order[low : high + 1]
        x = np.flatnonzero((log_q[order] > -inf) & is_listed[:, redrawn_nodes].all(axis=1))[:, None]
        rest = [node for node in order if node != order[here]]
        after = (*rest[:there], order[here], *rest[there:])
        drawn, log_share, log_sums = _redrawings(sets, after, low, high)
        code = codes[x] - _codes(parents, redrawn_nodes)[x] + drawn
        y = by_code[np.searchsorted(codes, code, sorter=by_code).clip(max=len(codes) - 1)]
        assert np.array_equal(codes[y], code), "a shift has left the listed graphs"
        log_ratio = with_q * (log_q[after][y] - log_q[order][x])
        if with_sums:
            log_ratio += log_sums - _redrawings(sets, order, low, high)[2]
        matrix[x, y] += share / (2 * n) * np.exp(log_q[order][x] + log_share + np.minimum(0.0, log_ratio))
    return with_what_is_left(matrix)


def n_orders(parents: Parents, nodes: Sequence[int]) -> int:
    """In how many orders of these nodes none comes before one of its ancestors."""
    above = list(parents)
    for between, node in product(range(len(above)), repeat=2):
        if above[node] >> between & 1:
            above[node] |= above[between]
    among = sum(1 << node for node in nodes)
    return _n_orders(tuple((node, above[node] & among) for node in nodes))


@cache
def _n_orders(above: tuple[tuple[int, int], ...]) -> int:
    """Of nodes, each with its ancestors among them."""
    return sum(
        not any(own >> later & 1 for place, (_, own) in enumerate(order) for later, _ in order[place + 1 :])
        for order in permutations(above)
    )


def redrawn(
    laws: Matrix, weight: NDArray[np.float64], orders: NDArray[np.float64], *, with_orders: bool = True
) -> Matrix:
    """Laws of graphs, one a row, after four draws by weight times number of orders, each taken as their ratio says.

    ``with_orders=False`` takes every draw.
    """
    drawn = weight * orders / (weight * orders).sum()
    levels, level = np.unique(orders, return_inverse=True)
    taken = np.minimum(1.0, levels[:, None] / levels) if with_orders else np.ones((len(levels), len(levels)))
    stays = 1.0 - taken @ np.bincount(level, drawn)
    for _ in range(4):
        at = np.stack([np.bincount(level, law, len(levels)) for law in laws])
        laws = laws * stays[level] + drawn * (at @ taken)[:, level]
    return laws


def joint_parents_matrix(of: Any, most_sets: int = 512, *, with_orders: bool = True) -> Matrix:
    """Transition matrix of one joint redrawing of all nodes whose families are listed, up to six nodes."""
    graphs = parents_of(of.posterior.rows)
    sets = [set(list(own)[:most_sets]) for own in listed_sets(of.table)]
    matrix = np.zeros((len(graphs), len(graphs)))
    alike: dict[Any, list[int]] = {}
    for x, graph in enumerate(graphs):
        rest = tuple((node, own) for node, own in enumerate(graph) if own not in sets[node])
        if len(rest) < of.n_nodes - 1:
            alike.setdefault(rest, []).append(x)
    for rest, members in alike.items():
        nodes = sorted({*range(of.n_nodes)} - {node for node, _ in rest})
        orders = np.array([n_orders(graphs[x], nodes) for x in members], dtype=np.float64)
        start = np.eye(len(members))
        matrix[np.ix_(members, members)] += redrawn(start, of.probability[members], orders, with_orders=with_orders)
    return with_what_is_left(matrix)


def with_what_is_left(matrix: Matrix) -> Matrix:
    """What is not said goes to staying."""
    return matrix + np.diag(1.0 - matrix.sum(axis=1))
