r"""Expected loss: what it costs to report one graph when the posterior is spread over many.

The posterior expected loss of a graph G is :math:`E[L(G, G') | D] = \sum_{G'} L(G, G') p(G' | D)` (Antal & Sárközy,
slides, p. 2), here the mean over the sampled graphs G'.  Three losses are built in:

- ``"shd"``, the structural Hamming distance over DAGs: one for each pair of nodes that is in another state, the states
  being no edge, an edge, and an edge the other way; a reversed edge costs one;
- ``"shd_cpdag"``, the same over the graphs of the equivalence classes, where a pair has a fourth state, an undirected
  edge (Tsamardinos, Brown & Aliferis 2006);
- `EdgeLoss`, weights for each edge that is in G and not in G' (false positive) or in G' and not in G (false negative);
  a reversed edge is one of each.

Their expectation is a sum over pairs of nodes, so the graph of the sample that loses least is found from the
probabilities of the pairs' states in one pass.  For any other loss, a function of two graphs, each is held against
each.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Words
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.estimate import Estimate
from doxa.models import Cpdag, Dag
from doxa.models.bits import pack_rows
from doxa.structure.posterior.features import mean_over_draws
from doxa.structure.posterior.relations import bit_totals, class_rows, count_differing_pairs, sum_over_bits
from doxa.text import listed

if TYPE_CHECKING:
    from doxa.structure.posterior.structure_posterior import StructurePosterior

__all__ = ["MOST_EVALUATIONS", "EdgeLoss", "Loss", "expected_loss", "least_loss_graph"]

MOST_EVALUATIONS = 1_000_000  # calls of a user's loss; at 20 microseconds each, twenty seconds

_NAMES = "'shd', 'shd_cpdag', 'edges'"


@dataclass(frozen=True)
class EdgeLoss:
    """Weights for edges that should not be there, and for edges that are missing.

    Parameters
    ----------
    false_positive : float, default=1.0
        Cost of an edge of the reported graph that the true one does not have, at least 0.
    false_negative : float, default=1.0
        Cost of an edge of the true graph that the reported one does not have, at least 0.

    Raises
    ------
    ArgumentError
        If a weight is negative or not finite, or both are 0.
    ArgumentTypeError
        If a weight is not a number.

    Examples
    --------
    >>> EdgeLoss(false_positive=3.0)
    EdgeLoss(false_positive=3.0, false_negative=1.0)
    """

    false_positive: float = 1.0
    false_negative: float = 1.0

    def __post_init__(self) -> None:
        """Refuse weights that are none."""
        for name in ("false_positive", "false_negative"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ArgumentTypeError(f"{name} is {value!r}; it must be a number of at least 0")
            if not 0 <= float(value) < math.inf:
                raise ArgumentError(f"{name} is {value}; a weight must be finite and at least 0")
            object.__setattr__(self, name, float(value))
        if self.false_positive == self.false_negative == 0:
            raise ArgumentError("false_positive and false_negative are both 0; every graph would be as good: raise one")


Loss = str | EdgeLoss | Callable[[Dag, Dag], float]


def expected_loss(posterior: StructurePosterior, graph: Dag | Cpdag, loss: Loss = "shd") -> Estimate:
    """Posterior expected loss of reporting a graph.

    Parameters
    ----------
    posterior : StructurePosterior
    graph : Dag or Cpdag
        Over the nodes of the posterior, in any order.  A `Cpdag` for ``loss="shd_cpdag"`` only.
    loss : str, EdgeLoss or callable, default="shd"
        ``"shd"``, ``"shd_cpdag"``, ``"edges"`` (the `EdgeLoss` of weights 1), an `EdgeLoss`, or a function
        ``loss(graph, sampled)`` of two `Dag` that returns a number; it is called once for every different graph of the
        sample.  One that returns True or False gives a probability.

    Returns
    -------
    Estimate
        With its Monte Carlo error; unknown (nan) when all sampled graphs lose the same.

    Raises
    ------
    ArgumentError
        If ``graph`` has other nodes, ``loss`` is an unknown name, or it returns something that is not a finite number.
    ArgumentTypeError
        If ``graph`` is no graph, or not of the kind that ``loss`` compares, or ``loss`` is neither name nor function.

    Notes
    -----
    For a graph chosen because it does well on these very draws, as `least_loss_graph` is, the value is a little too
    low: the graph has been fitted to the noise of the sample.  The error bar does not know that.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> best, empty = posterior.graphs(1)[0].dag, doxa.Dag.from_edges([], posterior.names)
    >>> posterior.expected_loss(best).value < posterior.expected_loss(empty).value
    True
    >>> posterior.expected_loss(empty).value == posterior.expected_edges.value
    True
    """
    measure = _measure(loss, posterior.names, posterior.options.targets)
    candidate = _aligned(graph, posterior.names, "graph", measure)
    rows, _ = posterior._distinct
    if isinstance(measure, _UserLoss):
        return mean_over_draws(posterior, measure.values(candidate, rows), "loss")
    losses = measure.against(_parts(candidate, posterior.names, measure), rows)
    return mean_over_draws(posterior, losses.tolist(), "loss")


def least_loss_graph(
    posterior: StructurePosterior,
    loss: Loss = "shd",
    candidates: Iterable[Dag] | None = None,
    max_evaluations: int = MOST_EVALUATIONS,
) -> Dag:
    """The graph of the sample with the smallest posterior expected loss.

    Parameters
    ----------
    posterior : StructurePosterior
    loss : str, EdgeLoss or callable, default="shd"
        As in `expected_loss`.
    candidates : iterable of Dag, optional
        Choose among these, over the nodes of the posterior, instead of the graphs of the sample.
    max_evaluations : int, default=1_000_000
        Largest number of calls of a loss that is a function: candidates times different graphs of the sample.  The
        built-in losses need none.

    Returns
    -------
    Dag
        Over the nodes of the posterior.  Of graphs that lose the same, to 9 decimals, the one with the higher log
        score; of candidates, the first.

    Raises
    ------
    ArgumentError
        As `expected_loss`; also if there are no candidates, or if ``max_evaluations`` would be exceeded.
    ArgumentTypeError
        As `expected_loss`.

    Notes
    -----
    The best graph of all may lose still less and be none of the sample.

    Examples
    --------
    >>> import doxa
    >>> posterior = doxa.learn(doxa.datasets.load("reinis"), draws=500, seed=1)
    >>> least, best = posterior.least_loss_graph(), posterior.graphs(1)[0].dag
    >>> posterior.expected_loss(least).value <= posterior.expected_loss(best).value
    True
    """
    names = posterior.names
    max_evaluations = check_whole("max_evaluations", max_evaluations, 1)
    measure = _measure(loss, posterior.names, posterior.options.targets)
    rows, which = posterior._distinct
    weights = np.bincount(which.ravel())
    if candidates is None:
        chosen = rows[np.argsort(-np.round(posterior._distinct_score, 9), kind="stable")]
    else:
        chosen = _candidate_rows(candidates, names, measure)
    if isinstance(measure, _UserLoss):
        measure.refuse_beyond(len(chosen), len(rows), max_evaluations)
    means = measure.means(chosen, rows, weights)
    return Dag.from_rows(chosen[np.round(means, 9).argmin()], names)


@dataclass(frozen=True)
class _Hamming:
    """Pairs of nodes in another state, on bit rows.

    Like every measure here, it offers ``against``, the loss of one graph against each of many, and ``means``, the
    weighted mean loss of each of some graphs against many.  The one graph is a pair of bit rows: its directed and its
    undirected edges.
    """

    over_classes: bool
    targets: NDArray[np.bool_] | None = None  # of interventions, which make the classes smaller

    def split(self, rows: Words) -> tuple[Words, Words]:
        return class_rows(rows, self.targets) if self.over_classes else (rows, np.zeros_like(rows))

    def against(self, graph: tuple[Words, Words], rows: Words) -> NDArray[np.float64]:
        directed, undirected = self.split(rows)
        return count_differing_pairs(directed | undirected, graph[0] | graph[1]).astype(np.float64)

    def means(self, chosen: Words, rows: Words, weights: NDArray[np.int64]) -> NDArray[np.float64]:
        """The mean is the sum over pairs of 1 - P(state of the pair), so each edge adds P(no edge) - P(its state)."""
        arrow, line = (bit_totals(part, weights) / weights.sum() for part in self.split(rows))
        joined = arrow + arrow.T + line
        directed, undirected = self.split(chosen)
        no_edges = joined.sum() / 2
        by_arrows = sum_over_bits(directed, 1 - joined - arrow)
        by_lines = sum_over_bits(undirected, 1 - joined - line) / 2  # a line is two bits
        return np.asarray(no_edges + by_arrows + by_lines)


@dataclass(frozen=True)
class _WeightedEdges:
    """`EdgeLoss` on bit rows."""

    weights: EdgeLoss
    over_classes: bool = False

    def against(self, graph: tuple[Words, Words], rows: Words) -> NDArray[np.float64]:
        false = np.bitwise_count(graph[0] & ~rows).sum(axis=(1, 2))
        missing = np.bitwise_count(rows & ~graph[0]).sum(axis=(1, 2))
        return np.asarray(self.weights.false_positive * false + self.weights.false_negative * missing)

    def means(self, chosen: Words, rows: Words, weights: NDArray[np.int64]) -> NDArray[np.float64]:
        edge = bit_totals(rows, weights) / weights.sum()
        false, missing = self.weights.false_positive * (1 - edge), self.weights.false_negative * edge
        return np.asarray(missing.sum() + sum_over_bits(chosen, false - missing))


@dataclass(frozen=True)
class _UserLoss:
    """A function of two graphs."""

    f: Callable[[Dag, Dag], float]
    names: tuple[str, ...]
    over_classes: bool = False

    def values(self, graph: Dag | Cpdag, rows: Words) -> list[object]:
        """What the function returns against each of ``rows``, checked to be finite numbers."""
        assert isinstance(graph, Dag)  # `_aligned` has seen to it
        found: list[object] = []
        for sampled in (Dag.from_rows(one, self.names) for one in rows):
            value = self.f(graph, sampled)
            try:
                finite = math.isfinite(value)
            except TypeError:
                finite = False
            if not finite:
                raise ArgumentError(
                    f"loss returned {value!r} for {graph!r} against the sampled {sampled!r}; it must return a finite "
                    "number"
                )
            found.append(value)
        return found

    def means(self, chosen: Words, rows: Words, weights: NDArray[np.int64]) -> NDArray[np.float64]:
        losses = (np.array(self.values(Dag.from_rows(one, self.names), rows), dtype=np.float64) for one in chosen)
        return np.array([weights @ each for each in losses], dtype=np.float64) / float(weights.sum())

    def refuse_beyond(self, n_chosen: int, n_rows: int, most: int) -> None:
        if n_chosen * n_rows > most:
            fits = most // n_rows
            fewer = (
                f"give at most {fits} candidates, such as candidates=[g.dag for g in posterior.graphs({min(fits, 10)})]"
            )
            raise ArgumentError(
                f"loss would be called {n_chosen * n_rows} times, for {n_chosen} candidates against {n_rows} different "
                f"sampled graphs, and max_evaluations is {most}; {fewer if fits else 'use a built-in loss'}, or raise "
                "max_evaluations"
            )


def _measure(
    loss: Loss, names: tuple[str, ...], targets: NDArray[np.bool_] | None = None
) -> _Hamming | _WeightedEdges | _UserLoss:
    if isinstance(loss, str):
        known: dict[str, _Hamming | _WeightedEdges] = {
            "shd": _Hamming(over_classes=False),
            "shd_cpdag": _Hamming(over_classes=True, targets=targets),
            "edges": _WeightedEdges(EdgeLoss()),
        }
        if loss not in known:
            raise ArgumentError(
                f"loss is {loss!r}; it must be one of {_NAMES}, an EdgeLoss or a function of two graphs"
            )
        return known[loss]
    if isinstance(loss, EdgeLoss):
        return _WeightedEdges(loss)
    if isinstance(loss, type) or not callable(loss):
        raise ArgumentTypeError(
            f"loss is {loss!r}; it must be one of {_NAMES}, an EdgeLoss such as EdgeLoss(false_positive=2.0), or a "
            "function loss(graph, sampled) of two graphs"
        )
    return _UserLoss(loss, names)


def _aligned(
    graph: object, names: tuple[str, ...], argument: str, measure: _Hamming | _WeightedEdges | _UserLoss
) -> Dag | Cpdag:
    """The graph over ``names`` in their order."""
    if not isinstance(graph, (Dag, Cpdag)):
        raise ArgumentTypeError(f"{argument} is {graph!r}; it must be a Dag, such as posterior.graphs(1)[0].dag")
    if isinstance(graph, Cpdag) and not measure.over_classes:
        raise ArgumentTypeError(
            f"{argument} is a Cpdag, and this loss compares DAGs; give a Dag, or use loss='shd_cpdag'"
        )
    missing, extra = (listed([x for x in a if x not in b]) for a, b in ((names, graph.names), (graph.names, names)))
    if missing or extra:
        parts = [f"lacks {missing}"] * bool(missing) + [f"has {extra} besides"] * bool(extra)
        raise ArgumentError(
            f"{argument} {' and '.join(parts)}; it must have the nodes of the posterior, {listed(names)}"
        )
    if isinstance(graph, Dag) and graph.names != names:
        return Dag.from_edges(graph.edges, names)
    return graph


def _parts(graph: Dag | Cpdag, names: tuple[str, ...], measure: _Hamming | _WeightedEdges) -> tuple[Words, Words]:
    """Directed and undirected part of a graph whose nodes are ``names``, as the measure sees them."""
    if isinstance(graph, Dag):
        if isinstance(measure, _Hamming):
            directed, undirected = measure.split(graph.rows[None])
            return directed[0], undirected[0]
        return graph.rows, np.zeros_like(graph.rows)
    index = {name: i for i, name in enumerate(names)}
    both = np.zeros((2, len(names), len(names)), dtype=np.bool_)
    for a, b in graph.directed:
        both[0, index[a], index[b]] = True
    for a, b in graph.undirected:
        both[1, index[a], index[b]] = both[1, index[b], index[a]] = True
    directed, undirected = pack_rows(both)
    return directed, undirected


def _candidate_rows(
    candidates: Iterable[Dag], names: tuple[str, ...], measure: _Hamming | _WeightedEdges | _UserLoss
) -> Words:
    if isinstance(candidates, (Dag, Cpdag, str)):
        raise ArgumentTypeError(f"candidates is {candidates!r}; it must be a list of graphs: [{candidates!r}]")
    rows = []
    for number, candidate in enumerate(candidates):
        if isinstance(candidate, Cpdag):
            raise ArgumentTypeError(f"candidates[{number}] is a Cpdag; give a Dag of the class")
        dag = _aligned(candidate, names, f"candidates[{number}]", measure)
        assert isinstance(dag, Dag)
        rows.append(dag.rows)
    if not rows:
        raise ArgumentError("candidates is empty; give at least one graph, or leave it out to choose from the sample")
    return np.stack(rows)
