"""Where nodes stand and edges bend on the page: the layers of the probable edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from doxa.plots.layers import Point, layered_layout

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["Places", "bend", "places"]

_LOWEST = 0.25  # probability of edges that the places of nodes heed
_MOST_EDGES = 150  # that they heed, or two for each node: more cannot be told apart anyway
_LETTER, _PADDING = 9.0, 32.0  # room of a node's name, in units of the drawing
_MOST_LETTERS = 22  # of a name; the page cuts longer ones
_LEAST_ROOM = 60.0  # of a node, where layers are rows
_LAYERS = 84.0, 130.0  # from row to row, at least and at most
_LINE = 48.0  # from node to node, where layers are columns
_PAPER = (860.0, 640.0)  # of which the drawing should use as much as it can


class Places(NamedTuple):
    """Places of nodes, and of bends of edges, in units of the drawing; y grows downwards."""

    nodes: dict[str, Point]
    bends: dict[tuple[str, str], tuple[Point, ...]]


def places(posterior: StructurePosterior) -> Places:
    """Places by the acyclic graph of the probable edges (`StructurePosterior.consensus`)."""
    threshold = _LOWEST
    dag = posterior.consensus(threshold)
    while len(dag.edges) > max(_MOST_EDGES, 2 * len(posterior.names)) and threshold < 0.9:
        threshold += 0.1
        dag = posterior.consensus(threshold)
    layout = layered_layout(dag)
    place = _placing(layout.nodes)
    return Places(
        {name: place(point) for name, point in layout.nodes.items()},
        {edge: tuple(map(place, points)) for edge, points in layout.bends.items() if points},
    )


def bend(start: Point, end: Point, points: tuple[Point, ...]) -> list[list[float]]:
    """Bends of an edge as [share of the way, distance to the side], which move along with its ends.

    Examples
    --------
    >>> bend((0.0, 0.0), (0.0, 10.0), ((4.0, 5.0),))
    [[0.5, -4.0]]
    """
    along = (end[0] - start[0], end[1] - start[1])
    length = math.hypot(*along)
    found = []
    for x, y in points:
        dx, dy = x - start[0], y - start[1]
        share = (dx * along[0] + dy * along[1]) / length**2
        side = (dy * along[0] - dx * along[1]) / length
        found.append([round(share, 3), round(side, 1)])
    return found


def _placing(nodes: Mapping[str, Point]) -> Callable[[Point], Point]:
    """From units of a node's room to those of the drawing, layers down or to the right, whichever lets it be larger."""
    across, depth = (max(p[k] for p in nodes.values()) + 1 for k in (0, 1))
    room, longest = _room(nodes), max(map(_width, nodes))
    down = min(_PAPER[0] / (across * room), _PAPER[1] / (depth * _LAYERS[0]))
    right = min(_PAPER[0] / (depth * (longest + _LINE)), _PAPER[1] / (across * _LINE))
    if down >= right:
        layer = min(max(_LAYERS[0], across * room * _PAPER[1] / _PAPER[0] / depth), _LAYERS[1])
        return lambda point: (round(point[0] * room, 1), round(point[1] * layer, 1))
    return lambda point: (round(point[1] * (longest + _LINE), 1), round(point[0] * _LINE, 1))


def _room(nodes: Mapping[str, Point]) -> float:
    """The least width of a node's room at which no two names of one layer touch."""
    layers: dict[float, list[tuple[float, str]]] = {}
    for name, (x, y) in nodes.items():
        layers.setdefault(y, []).append((x, name))
    pairs = [pair for layer in layers.values() for pair in pairwise(sorted(layer))]
    return max([_LEAST_ROOM, *((_width(a) + _width(b)) / 2 / max(xb - xa, 0.5) for (xa, a), (xb, b) in pairs)])


def _width(name: str) -> float:
    """Of a node's box and a gap, about; the page cuts long names."""
    return _LETTER * min(len(name), _MOST_LETTERS) + _PADDING
