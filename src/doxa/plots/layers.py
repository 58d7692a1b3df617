"""Where the nodes of a graph stand in a drawing: in layers, every edge leading down.

The layer of a node is the length of the longest path that ends in it, so no edge joins two nodes of one layer.
Within a layer nodes are ordered by the mean place of their neighbours, in a few sweeps down and up, which takes most
crossings away (Sugiyama, Tagawa & Toda 1981).  An edge that spans several layers is led past the nodes between by
invisible nodes, one for each layer crossed.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.models import Dag

__all__ = ["Layout", "layered_layout", "sliced_layout"]

_SWEEPS = 12  # the order has settled, or goes round in circles, long before
_MOST_IN_LAYER = 10  # isolated nodes to a row
_ROOM, _LANE = 1.0, 0.5  # width of a node, and of an edge that passes through a layer

Point = tuple[float, float]


class Layout(NamedTuple):
    """Places of nodes and bends of edges, in units of one node's room; y grows downwards."""

    nodes: dict[str, Point]
    bends: dict[tuple[str, str], tuple[Point, ...]]  # between the two ends; () for edges to the next layer


def layered_layout(dag: Dag) -> Layout:
    """Place the nodes of a graph so that every edge leads down; nodes without edges stand below in rows apart."""
    layer = _layers(dag)
    paths = {edge: _path(edge, layer) for edge in dag.edges}
    links = [link for path in paths.values() for link in itertools.pairwise(path)]
    order = _ordered(layer, links)
    place = _placed(order, links)
    nodes = {name: place[(name,)] for name in layer}
    alone = [name for name in dag.names if name not in layer]
    per_row = max(int(max((x for x, _ in place.values()), default=0.0)) + 1, min(len(alone), _MOST_IN_LAYER))
    for number, name in enumerate(alone):
        nodes[name] = (float(number % per_row), float(len(order) + number // per_row))
    return Layout(nodes, {edge: tuple(place[item] for item in path[1:-1]) for edge, path in paths.items()})


def sliced_layout(dag: Dag, width: int) -> Layout:
    """Place moments side by side, the past to the left: a row for each column, so that causes stand above effects.

    The first ``width`` nodes are the present; the others, as many each, the moments before, the latest first.  Edges
    within the present bend to the right, beside the nodes between their ends.
    """
    names = dag.names
    present = [name for name in dag.topological_order() if name in names[:width]]
    row = {name: float(k) for k, name in enumerate(present)}
    last = len(names) // width - 1
    nodes = {name: (1.5 * (last - k // width), row[names[k % width]]) for k, name in enumerate(names)}
    bends: dict[tuple[str, str], tuple[Point, ...]] = {}
    for source, target in dag.edges:
        (x, y), (x_end, y_end) = nodes[source], nodes[target]
        bends[source, target] = ((x + 0.45 + 0.12 * abs(y_end - y), (y + y_end) / 2),) if x == x_end else ()
    return Layout(nodes, bends)


Item = tuple[str] | tuple[str, str, int]  # a node, or the place where an edge crosses a layer


def _layers(dag: Dag) -> dict[str, int]:
    """Layer of every node that has an edge: below its lowest parent; a root just above its highest child."""
    layer: dict[str, int] = {}
    for name in dag.topological_order():
        if dag.parents(name) or dag.children(name):
            layer[name] = max((layer[parent] + 1 for parent in dag.parents(name)), default=0)
    for name in list(layer):
        if not dag.parents(name):
            layer[name] = min(layer[child] for child in dag.children(name)) - 1
    return layer


def _path(edge: tuple[str, str], layer: dict[str, int]) -> list[Item]:
    parent, child = edge
    between: list[Item] = [(parent, child, depth) for depth in range(layer[parent] + 1, layer[child])]
    return [(parent,), *between, (child,)]


def _ordered(layer: dict[str, int], links: list[tuple[Item, Item]]) -> list[list[Item]]:
    """The items of every layer from left to right."""
    depth = {(name,): number for name, number in layer.items()} | {
        item: item[2] for link in links for item in link if len(item) == 3
    }
    rows: list[list[Item]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for item, number in depth.items():
        rows[number].append(item)
    above: dict[Item, list[Item]] = {item: [] for item in depth}
    below: dict[Item, list[Item]] = {item: [] for item in depth}
    for upper, lower in links:
        below[upper].append(lower)
        above[lower].append(upper)
    best, fewest = [list(row) for row in rows], _crossings(rows, below)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for number in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            beside = rows[number - 1 if down else number + 1]
            where = {item: place / max(1, len(beside) - 1) for place, item in enumerate(beside)}
            _sort_by_neighbours(rows[number], above if down else below, where)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _sort_by_neighbours(row: list[Item], neighbours: dict[Item, list[Item]], where: dict[Item, float]) -> None:
    """Order a layer by the mean place of each item's neighbours; one without neighbours stays about where it is."""
    own = {item: place / max(1, len(row) - 1) for place, item in enumerate(row)}
    mean = {item: float(np.mean([where[n] for n in neighbours[item]] or [own[item]])) for item in row}
    row.sort(key=lambda item: mean[item])


def _crossings(rows: list[list[Item]], below: dict[Item, list[Item]]) -> int:
    """Two links cross where the one that begins farther left ends farther right."""
    total = 0
    for upper, lower in itertools.pairwise(rows):
        where = {item: place for place, item in enumerate(lower)}
        total += _inversions([end for item in upper for end in sorted(where[other] for other in below[item])])
    return total


def _inversions(values: list[int]) -> int:
    """Pairs of which the first is larger, of n whole numbers from 0, by a Fenwick tree: n log n steps."""
    size = max(values, default=-1) + 1
    tree = [0] * (size + 1)  # [k]: how many of the values so far lie among the k & -k places that end at place k - 1
    total = 0
    for n_before, value in enumerate(values):
        total += n_before
        k = value + 1
        while k:  # take away those that are not larger
            total -= tree[k]
            k &= k - 1
        k = value + 1
        while k <= size:
            tree[k] += 1
            k += k & -k
    return total


def _placed(order: list[list[Item]], links: list[tuple[Item, Item]]) -> dict[Item, Point]:
    """Places that keep the order: each item near the mean of its neighbours, and none in the room of another."""
    neighbours: dict[Item, list[Item]] = {item: [] for row in order for item in row}
    for upper, lower in links:
        neighbours[upper].append(lower)
        neighbours[lower].append(upper)
    x = {item: number - (len(row) - 1) / 2 for row in order for number, item in enumerate(row)}
    for sweep in range(_SWEEPS):
        for row in order if sweep % 2 == 0 else order[::-1]:
            wanted = np.array([np.mean([x[n] for n in neighbours[item]]) for item in row])
            rooms = np.array([_ROOM if len(item) == 1 else _LANE for item in row])
            offsets = np.concatenate([[0.0], np.cumsum((rooms[1:] + rooms[:-1]) / 2)])
            x.update(zip(row, (_nearest_rising(wanted - offsets) + offsets).tolist(), strict=True))
    left = min(x.values(), default=0.0)
    return {item: (x[item] - left, float(depth)) for depth, row in enumerate(order) for item in row}


def _nearest_rising(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest sequence, in squares, that never falls: neighbours that fall are pooled (isotonic regression)."""
    pools: list[tuple[float, int]] = []  # mean and size
    for value in values.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, size), (other, count) = pools.pop(), pools.pop()
            pools.append(((mean * size + other * count) / (size + count), size + count))
    return np.repeat([mean for mean, _ in pools], [size for _, size in pools])
