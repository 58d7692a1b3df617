"""One graph, or one class of graphs, to stand for a sample: the most probable ones, and those made of probable edges.

A single graph hides how uncertain the posterior is, so each of these comes with what it leaves out.  The graph that
loses least on average is in `doxa.structure.posterior.loss`.
"""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate
from doxa.models import Cpdag, Dag
from doxa.models.bits import unpack_rows
from doxa.structure.posterior.features import frequency_of
from doxa.structure.posterior.relations import class_rows, label_rows

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = [
    "MedianGraph",
    "SampledClass",
    "SampledGraph",
    "consensus",
    "median_probability_graph",
    "most_probable_class",
    "most_probable_graphs",
]

_SAME_SCORE = 1e-6  # nats: rounding moves the score of a large table by far less, a prior on edges by far more


class SampledGraph(NamedTuple):
    """One graph of the sample."""

    dag: Dag
    log_score: float  # log P(data | graph), nats
    frequency: Estimate  # its posterior probability


class SampledClass(NamedTuple):
    """One equivalence class of the sample."""

    cpdag: Cpdag
    frequency: Estimate  # its posterior probability: the summed frequency of its graphs
    log_score: float | None  # of each of its sampled graphs, nats; None where they differ
    n_graphs: int  # different graphs of the class in the sample
    ranked_by: str  # "frequency" or "log_score": what put it first


class MedianGraph(NamedTuple):
    """The edges that are more probable than not."""

    edges: tuple[tuple[str, str], ...]  # most probable first
    closing: tuple[tuple[str, str], ...]  # those that close a cycle of more probable ones; () if there is no cycle
    dag: Dag | None  # None if the edges have a cycle

    @property
    def acyclic(self) -> bool:
        """Whether the edges make a directed acyclic graph."""
        return self.dag is not None


def most_probable_graphs(posterior: StructurePosterior, most: int = 10) -> tuple[SampledGraph, ...]:
    """The most probable graphs of the sample; see `doxa.structure.StructurePosterior.graphs`."""
    most = check_whole("most", most, 0)
    rows, which = posterior._distinct
    score = posterior._distinct_score
    return tuple(
        SampledGraph(
            Dag.from_rows(rows[best], posterior.names), float(score[best]), frequency_of(posterior, which == best)
        )
        for best in np.argsort(-np.round(score, 9), kind="stable")[:most]
    )


def most_probable_class(posterior: StructurePosterior) -> SampledClass:
    """The equivalence class with the highest posterior probability.

    Parameters
    ----------
    posterior : StructurePosterior

    Returns
    -------
    SampledClass
        With ``ranked_by="frequency"`` when the draws alone tell it from the others, or when the score differs within a
        class; with ``ranked_by="log_score"`` when several classes are as frequent, as far as the draws can tell, and
        the exact score chose among them.

    Notes
    -----
    A class has the probability of all its graphs together, so a class of many good graphs may beat the class of the
    best graph.  The frequency counts that, with an error; the score of a graph has no error, but leaves the size of the
    class out.  So the frequency decides as far as it can: the score ranks only classes whose frequency is within the
    95% interval of the highest.  Where every draw is of another class, these are all of them.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> best = posterior.most_probable_class()
    >>> ("mental", "phys") in best.cpdag.undirected
    True
    >>> best.frequency.value > posterior.graphs(1)[0].frequency.value
    True
    """
    rows, which = posterior._distinct
    directed, undirected = class_rows(rows, posterior.options.targets)
    first, class_of = label_rows(np.stack([directed, undirected], axis=1))
    draws = class_of[which]
    counts = np.bincount(draws.ravel(), minlength=len(first))
    score = posterior._distinct_score
    highest, lowest = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    np.maximum.at(highest, class_of, score)
    np.minimum.at(lowest, class_of, score)
    constant = highest - lowest <= _SAME_SCORE

    leader = frequency_of(posterior, draws == counts.argmax())
    rivals = np.flatnonzero(counts >= leader.interval()[0] * draws.size)
    by_score = len(rivals) > 1 and bool(constant[rivals].all())
    ranks = (highest[rivals], counts[rivals]) if by_score else (counts[rivals], highest[rivals])
    best = int(rivals[np.lexsort((-np.round(ranks[1], 6), -np.round(ranks[0], 6)))[0]])
    return SampledClass(
        _cpdag(directed[first[best]], undirected[first[best]], posterior.names),
        frequency_of(posterior, draws == best),
        float(highest[best]) if constant[best] else None,
        int((class_of == best).sum()),
        "log_score" if by_score else "frequency",
    )


def _cpdag(directed: NDArray[np.uint64], undirected: NDArray[np.uint64], names: tuple[str, ...]) -> Cpdag:
    arrows, lines = (np.argwhere(unpack_rows(part, len(names))).tolist() for part in (directed, undirected))
    return Cpdag(
        names,
        frozenset((names[i], names[j]) for i, j in arrows),
        frozenset((names[i], names[j]) for i, j in lines if i < j),
    )


def median_probability_graph(posterior: StructurePosterior) -> MedianGraph:
    """The median-probability graph: every edge with a probability above 1/2.

    Parameters
    ----------
    posterior : StructurePosterior

    Returns
    -------
    MedianGraph
        Its edges may have a cycle, of three edges or more: then ``dag`` is None and ``closing`` tells the edges that
        `consensus` would leave out.

    Notes
    -----
    No set of edges, cyclic ones included, has a smaller expected number of false and missing edges (`EdgeLoss` with
    equal weights).  An edge whose direction is open, 0.5 each way, is in it in neither direction: see `consensus` of a
    lower threshold, or the `most_probable_class`.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> median = posterior.median_probability_graph()
    >>> median.acyclic, median.edges[0]
    (True, ('phys', 'smoke'))
    """
    kept, closing = _add_edges(posterior.edge_diagnostics.probability, 0.5)
    names = posterior.names
    order = sorted(kept + closing, key=lambda edge: -posterior.edge_diagnostics.probability[edge])
    dag = None if closing else _dag(kept, names)
    return MedianGraph(_named(order, names), _named(closing, names), dag)


def consensus(posterior: StructurePosterior, threshold: float = 0.5, *, joined: bool = False) -> Dag:
    """The acyclic graph made of probable edges: added one by one, most probable first, unless one closes a cycle.

    Parameters
    ----------
    posterior : StructurePosterior
    threshold : float, default=0.5
        Only edges with a probability above it are added; strictly between 0 and 1.
    joined : bool, default=False
        Whether pairs that are joined with a probability above it get an edge too where neither direction is that
        probable.  After all others, in the likelier direction, or, if that closes a cycle, in the other.

    Returns
    -------
    Dag
        Over the nodes of the posterior.  It need not be a graph of the sample.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``threshold`` is not a number in (0, 1).

    Notes
    -----
    Edges of the same probability are taken in the order of the nodes.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> posterior.consensus(0.9)
    Dag(6 nodes: no edges)
    >>> set(posterior.consensus(0.5).edges) <= set(posterior.consensus(0.2).edges)
    True
    """
    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real):
        raise ArgumentTypeError(f"threshold is {threshold!r}; it must be a number strictly between 0 and 1")
    if not 0 < threshold < 1:
        raise ArgumentError(
            f"threshold is {threshold}; edges with a probability above it are kept, so it must lie strictly between 0 "
            "and 1, such as 0.5"
        )
    kept, _ = _add_edges(posterior.edge_diagnostics.probability, float(threshold), joined)
    return _dag(kept, posterior.names)


def _add_edges(
    probability: NDArray[np.float64], threshold: float, joined: bool = False
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Edges above the threshold, most probable first: those that can be added one by one, those that close a cycle.

    With ``joined``, then both directions of every pair that is joined with a probability above it: of each one is left.
    """
    edges = _ranked(probability, probability > threshold)
    if joined:
        both = (probability + probability.T > threshold) & ~np.eye(len(probability), dtype=np.bool_)
        edges = np.concatenate([edges, _ranked(probability, both & (probability <= threshold))])
    reaches = np.eye(len(probability), dtype=np.bool_)  # [i, j]: there is a path from i to j, of length 0 or more
    kept: list[tuple[int, int]] = []
    closing: list[tuple[int, int]] = []
    for i, j in edges.tolist():
        if reaches[j, i]:
            closing.append((i, j))
            continue
        kept.append((i, j))
        reaches[reaches[:, i]] |= reaches[j]
    return kept, closing


def _ranked(probability: NDArray[np.float64], wanted: NDArray[np.bool_]) -> NDArray[np.intp]:
    edges = np.argwhere(wanted)
    return edges[np.argsort(-np.round(probability[tuple(edges.T)], 12), kind="stable")]


def _dag(edges: list[tuple[int, int]], names: tuple[str, ...]) -> Dag:
    adjacency = np.zeros((len(names), len(names)), dtype=np.bool_)
    adjacency[tuple(np.array(edges, dtype=np.intp).reshape(-1, 2).T)] = True
    return Dag(adjacency, names)


def _named(edges: list[tuple[int, int]], names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((names[i], names[j]) for i, j in edges)
