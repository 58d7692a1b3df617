"""The network of the page: nodes with places; edges, pairs and classes with probabilities; knowledge; sampled graphs.

Edges are columns of equal length, most probable first; nodes are meant by their position.  Where nodes stand and edges
bend is found from the layers of the probable edges.  `family_tables` are the tables of the probable families.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.models.bits import unpack_rows
from doxa.plots.layers import Layout, Point, layered_layout, sliced_layout
from doxa.report.numbers import decimals, significant
from doxa.structure.averaging.parent_tables import family_table
from doxa.structure.posterior.relations import bit_totals

if TYPE_CHECKING:
    import pandas as pd

    from doxa.estimates.indicators import IndicatorDiagnostics
    from doxa.structure.averaging.draws import NetworkDraws
    from doxa.structure.posterior.structure_posterior import StructurePosterior

MOST_CELLS = 4000  # entries of the tables of all nodes together
_MOST_OF_ONE = 300  # entries of one table
_MOST_TABLES = 2  # of a node
NOT_DRAWN = "no network that was drawn has these parents"


def family_tables(draws: NetworkDraws, sets: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Of every node, tables of its most probable parent sets, as far as there is room; ``sets`` has the most probable
    first.

    A table has ``parents``, ``given`` (states of the parents, one list a row), ``cases``, ``mean``, ``low`` and
    ``high`` (a list a row), or ``why`` there is none.
    """
    found: list[list[dict[str, Any]]] = [[] for _ in draws.names]
    room = MOST_CELLS
    for node, parents in by_rank(sets, _MOST_TABLES):
        size = int(np.prod([draws.n_states[j] for j in (*parents, node)], dtype=np.int64))
        if (node, parents) not in draws.users:
            entry: dict[str, Any] = {"why": NOT_DRAWN}
        elif size > min(_MOST_OF_ONE, room):
            entry = {"why": f"a table of {size} entries has no room on this page: see posterior.parent_tables"}
        else:
            room -= size
            entry = _table(draws, node, parents)
        found[node].append({"parents": list(parents), **entry})
    return found


def by_rank(sets: list[list[dict[str, Any]]], most: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Nodes with their parent sets, ``most`` of each: the best set of every node before the second of any.

    >>> list(by_rank([[{"parents": [1]}, {"parents": []}], [{"parents": []}]], 2))
    [(0, (1,)), (1, ()), (0, ())]
    """
    for rank in range(most):
        for node, own in enumerate(sets):
            if rank < len(own):
                yield node, tuple(own[rank]["parents"])


def _table(draws: NetworkDraws, node: int, parents: tuple[int, ...]) -> dict[str, Any]:
    found = family_table(draws, node, parents)
    return {
        "given": [list(row) for row in product(*(range(draws.n_states[j]) for j in parents))],
        "cases": decimals(found.cases, 1),
        "mean": [decimals(row, 3) for row in found.mean],
        "low": [decimals(row, 3) for row in found.lower],
        "high": [decimals(row, 3) for row in found.upper],
    }


_LOWEST = 0.25  # probability of edges that the places of nodes heed
_MOST_EDGES = 150  # that they heed, or two for each node: more cannot be told apart anyway
_LETTER, _PADDING = 9.0, 32.0  # room of a node's name, in units of the drawing
_MOST_LETTERS = 22  # of a name; the page cuts longer ones
_LEAST_ROOM = 60.0  # of a node, where layers are rows
_LAYERS = 84.0, 130.0  # from row to row, at least and at most
_LINE = 48.0  # from node to node, where layers are columns
_PAPER = (860.0, 640.0)  # of which the drawing should use as much as it can


def places(posterior: StructurePosterior) -> Layout:
    """Places by the acyclic graph of the probable edges (`StructurePosterior.consensus`), in units of the drawing."""
    threshold = _LOWEST
    dag = posterior.consensus(threshold)
    while len(dag.edges) > max(_MOST_EDGES, 2 * len(posterior.names)) and threshold < 0.9:
        threshold += 0.1
        dag = posterior.consensus(threshold)
    if posterior.options.order is not None:
        layout = sliced_layout(dag, posterior.options.n_present)
        room = max(_width(name) for name in dag.names) + _LINE

        def place(point: Point) -> Point:
            return round(point[0] * room, 1), round(point[1] * _LINE, 1)
    else:
        layout = layered_layout(dag)
        place = _placing(layout.nodes)  # type: ignore[assignment]  # of the same type
    return Layout(
        {name: place(point) for name, point in layout.nodes.items()},
        {edge: tuple(map(place, points)) for edge, points in layout.bends.items() if points},
    )


def bend(start: Point, end: Point, points: tuple[Point, ...]) -> list[list[float]]:
    """Bends of an edge as [share of the way, distance to the side], which move along with its ends."""
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


MOST_EDGES = 600  # of each kind: directed, pairs, classes; or, where that is more,
_EDGES_A_NODE = 4
MOST_SAMPLES = 40  # sampled graphs to step through
_MOST_KNOWN = 2000  # required or forbidden edges
_MOST_SAMPLED_EDGES = 15_000  # of all sampled graphs together
_NORMAL_95 = 1.96


def graphs(posterior: StructurePosterior) -> dict[str, Any]:
    """All that the network is drawn from."""
    layout = places(posterior)
    names = posterior.names
    shown = _probable(posterior.edge_diagnostics.probability)
    edges = _edge_columns(posterior, shown)
    edges["chains"] = [decimals(p[tuple(shown.T)], 4) for p in _by_chain(posterior)]
    edges["bends"] = [
        [k, bend(layout.nodes[names[i]], layout.nodes[names[j]], points)]
        for k, (i, j) in enumerate(shown.tolist())
        if (points := layout.bends.get((names[i], names[j])))
    ]
    n = len(names)
    return {
        "names": list(names),
        "places": [list(layout.nodes[name]) for name in names],
        "edges": edges,
        "pairs": _pair_columns(posterior),
        "class": _class_columns(posterior),
        "required": _known(posterior, posterior.options.required),
        "forbidden": _known(posterior, posterior.options.forbidden),
        "n_forbidden": len(posterior.options.forbidden),
        "samples": _samples(posterior),
        "n_samples": int(posterior.n_edges.size),
        "exact": posterior.sampler.name == "exact",
        "unseen": _unseen(posterior, len(shown)),
        "expected_edges": str(posterior.expected_edges),
        "n_possible": n * (n - 1),
    }


def _probable(probability: Floats) -> NDArray[np.intp]:
    """Positions (k, 2) of what has a probability above 0, most probable first."""
    found = np.argwhere(probability > 0)
    return found[np.argsort(-probability[tuple(found.T)], kind="stable")][: _most(len(probability))]


def _most(n_nodes: int) -> int:
    return max(MOST_EDGES, _EDGES_A_NODE * n_nodes)


def _interval_columns(diagnostics: IndicatorDiagnostics, shown: NDArray[np.intp]) -> dict[str, Any]:
    at = tuple(shown.T)
    lower, upper = diagnostics.interval()
    return {
        "source": shown[:, 0].tolist(),
        "target": shown[:, 1].tolist(),
        "p": decimals(diagnostics.probability[at], 4),
        "low": decimals(lower[at], 4),
        "high": decimals(upper[at], 4),
    }


def _edge_columns(posterior: StructurePosterior, shown: NDArray[np.intp]) -> dict[str, Any]:
    diagnostics = posterior.edge_diagnostics
    at = tuple(shown.T)
    return _interval_columns(diagnostics, shown) | {
        "mcse": significant(diagnostics.mcse[at], 2),
        "ess": decimals(diagnostics.ess[at], 0),
        "r_hat": decimals(diagnostics.r_hat[at], 3),
    }


def _pair_columns(posterior: StructurePosterior) -> dict[str, Any]:
    """Pairs that are joined in either direction."""
    diagnostics = posterior.adjacency_diagnostics
    return _interval_columns(diagnostics, _probable(np.triu(diagnostics.probability, 1)))


def _class_columns(posterior: StructurePosterior) -> dict[str, Any]:
    """Edges of equivalence classes: compelled ones have a direction, the others none."""
    frame: pd.DataFrame = posterior.cpdag_edges()
    frame = frame[frame["probability"] > 0].head(_most(len(posterior.names)))
    position = {name: k for k, name in enumerate(posterior.names)}
    p, spread = frame["probability"].to_numpy(), _NORMAL_95 * frame["mcse"].to_numpy()
    return {
        "source": [position[name] for name in frame["source"]],
        "target": [position[name] for name in frame["target"]],
        "directed": [int(kind == "directed") for kind in frame["kind"]],
        "p": decimals(p, 4),
        "low": decimals(np.maximum(p - spread, 0.0), 4),
        "high": decimals(np.minimum(p + spread, 1.0), 4),
    }


def _by_chain(posterior: StructurePosterior) -> list[Floats]:
    """Share of the draws of each chain that have each edge."""
    rows = posterior.trace["rows"]
    ones = np.ones(rows.shape[1], dtype=np.int64)
    return [bit_totals(chain, ones) / rows.shape[1] for chain in rows]


def _known(posterior: StructurePosterior, edges: tuple[tuple[str, str], ...]) -> list[list[int]]:
    position = {name: k for k, name in enumerate(posterior.names)}
    return [[position[i], position[j]] for i, j in edges[:_MOST_KNOWN]]


def _samples(posterior: StructurePosterior) -> list[dict[str, Any]]:
    """Graphs at even distances along the chains: ``edges`` are source * n_nodes + target."""
    rows, n = posterior.trace["rows"], len(posterior.names)
    n_chains, n_draws = rows.shape[:2]
    room = _MOST_SAMPLED_EDGES / (1 + float(posterior.n_edges.mean()))
    each = max(1, min(n_draws, int(min(MOST_SAMPLES, room) / n_chains)))
    found = []
    for chain in range(n_chains):
        for draw in ((2 * np.arange(each) + 1) * n_draws // (2 * each)).tolist():
            adjacency = unpack_rows(rows[chain, draw], n)
            found.append(
                {
                    "chain": chain,
                    "draw": draw,
                    "score": round(float(posterior.log_score[chain, draw]), 2),
                    "edges": np.flatnonzero(adjacency).tolist(),
                }
            )
    return found


def _unseen(posterior: StructurePosterior, n_listed: int) -> str:
    """In words, what the list of edges leaves out."""
    n = len(posterior.names)
    probability = posterior.edge_diagnostics.probability
    never = (probability == 0) & ~np.eye(n, dtype=np.bool_)
    parts = []
    rarer = np.sort(probability[probability > 0])[::-1][n_listed:]
    if rarer.size:
        parts.append(f"{rarer.size} rarer edges, of probability {rarer[0]:.2g} and less, are left out of this page.")
    if never.any():
        _, upper = posterior.edge_diagnostics.interval()
        count = int(never.sum())
        seen = "edge is in no draw" if count == 1 else "edges are in no draw"
        parts.append(f"{count} possible {seen}: probability below {upper[never].max():.2g}, with 95% confidence.")
    return " ".join(parts)
