"""Exact answers over graphs, for few nodes: what samplers are tested against.

Two independent ways.  `enumerate_posterior` lists every graph (25 on three nodes, 543 on four, 29 281 on five).
`exact_posterior` and `exact_edge_probabilities` sum over all graphs of some twenty nodes without listing them, by
`doxa.structure.exact.dag_sums`.  The prior is uniform over graphs, or part of the scores.
"""

from __future__ import annotations

import functools
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.dag_sums import MOST_NODES, ExactPosterior, sum_over_dags
from doxa.structure.families.cache import FamilyScores, family_log_score
from doxa.structure.families.score_table import build_score_table
from doxa.structure.limits import Limits, capped

if TYPE_CHECKING:
    from doxa.structure.runs.options import RunOptions

__all__ = [
    "GraphPosterior",
    "all_dags",
    "enumerate_posterior",
    "exact_edge_probabilities",
    "exact_posterior",
    "family_score_lists",
    "family_score_table",
    "prior_weights",
]

_MOST_LISTED, _MOST_TABULATED = 5, 14


class GraphPosterior(NamedTuple):
    """Every graph with its exact posterior probability."""

    rows: NDArray[np.uint64]  # (n_graphs, n_nodes, 1) adjacency rows as bit sets
    log_score: NDArray[np.float64]  # (n_graphs,) log P(data | graph), nats
    probability: NDArray[np.float64]  # (n_graphs,) sums to 1

    @property
    def edge_probabilities(self) -> NDArray[np.float64]:
        """P(i -> j | data), shape (n_nodes, n_nodes)."""
        present = unpack_rows(self.rows, self.rows.shape[1])
        return np.asarray(np.einsum("g,gij->ij", self.probability, present))


def all_dags(n_nodes: int) -> NDArray[np.uint64]:
    """Adjacency rows of all labelled DAGs, shape (n_dags, n_nodes, 1), in a fixed order.

    Raises
    ------
    ArgumentError
        If ``n_nodes`` is not from 1 to 5: there are 3 781 503 graphs on six nodes.

    Examples
    --------
    >>> [len(all_dags(n)) for n in (1, 2, 3, 4)]
    [1, 3, 25, 543]
    """
    if not 1 <= n_nodes <= _MOST_LISTED:
        raise ArgumentError(f"n_nodes is {n_nodes}; graphs are listed for 1 to {_MOST_LISTED} nodes")
    return _listed(n_nodes).copy()


@functools.cache
def _listed(n_nodes: int) -> NDArray[np.uint64]:
    pairs = [(i, j) for i in range(n_nodes) for j in range(i + 1, n_nodes)]
    states = np.array(list(product((0, 1, 2), repeat=len(pairs))), dtype=np.int8).reshape(3 ** len(pairs), len(pairs))
    adjacency = np.zeros((len(states), n_nodes, n_nodes), dtype=np.bool_)
    for column, (i, j) in enumerate(pairs):
        adjacency[:, i, j] = states[:, column] == 1
        adjacency[:, j, i] = states[:, column] == 2
    walks = adjacency.astype(np.int64)
    cyclic = np.zeros(len(states), dtype=np.bool_)
    for _ in range(n_nodes):
        cyclic |= np.trace(walks, axis1=1, axis2=2) > 0
        walks = np.minimum(walks @ adjacency, 1)
    return pack_rows(adjacency[~cyclic])


def family_score_table(scores: FamilyScores, limits: Limits | None = None) -> NDArray[np.float64]:
    """Log scores of all families, shape (n_nodes, 2^n_nodes); -inf for a node's own parent and outside the limits."""
    n = scores.n_nodes
    if n > _MOST_TABULATED:
        raise ArgumentError(f"the table has {n} columns; all families are listed for at most {_MOST_TABULATED}")
    table = np.full((n, 2**n), -np.inf)
    for child, (masks, log_scores) in enumerate(family_score_lists(scores, limits)):
        table[child, masks] = log_scores
    return table


def family_score_lists(
    scores: FamilyScores, limits: Limits | None = None
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """For each node the parent sets within the limits, as bit masks, and their log scores; at most 63 nodes.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> scores = FamilyScores(datasets.load("reinis"))
    >>> [len(masks) for masks, _ in family_score_lists(scores, capped([0, 1, 2, 3, 4, 5]))]
    [1, 6, 16, 26, 31, 32]
    """
    lists = []
    limits = capped([scores.n_nodes - 1] * scores.n_nodes) if limits is None else limits
    with scores.borrow() as (cache, scoring):
        for child in range(scores.n_nodes):
            masks = _legal_parent_sets(child, limits)
            log_scores = np.empty(len(masks))
            for k, words in enumerate(masks.astype(np.uint64)[:, None]):
                log_scores[k] = family_log_score(child, words, cache.arrays, scoring)
                if cache.wants_to_grow:
                    cache.grow()
            lists.append((masks, log_scores))
    return lists


def _legal_parent_sets(child: int, limits: Limits) -> NDArray[np.int64]:
    allowed, required = int(limits.allowed[child, 0]), int(limits.required[child, 0])
    free = [1 << node for node in range(len(limits.max_parents)) if (allowed & ~required) >> node & 1]
    sizes = range(min(int(limits.max_parents[child]) - required.bit_count(), len(free)) + 1)
    masks = np.array([required | sum(chosen) for size in sizes for chosen in combinations(free, size)], dtype=np.int64)
    members = (masks[:, None] >> np.arange(len(limits.max_parents))) & 1
    return np.asarray(masks[members @ limits.log_states <= limits.max_log_configs[child]])


def enumerate_posterior(scores: FamilyScores, limits: Limits | None = None) -> GraphPosterior:
    """The posterior over all graphs on at most five nodes, by listing them.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> posterior = enumerate_posterior(FamilyScores(datasets.load("reinis").select(["smoke", "phys", "protein"])))
    >>> len(posterior.probability), round(float(posterior.probability.sum()), 12)
    (25, 1.0)
    """
    rows = all_dags(scores.n_nodes)
    table = family_score_table(scores, limits)
    parents = pack_rows(unpack_rows(rows, scores.n_nodes).transpose(0, 2, 1))[:, :, 0].astype(np.int64)
    log_score = table[np.arange(scores.n_nodes), parents].sum(axis=1)
    allowed = np.isfinite(log_score)
    rows, log_score = rows[allowed], log_score[allowed]
    weights = np.exp(log_score - log_score.max())
    return GraphPosterior(rows, log_score, weights / weights.sum())


def exact_posterior(scores: FamilyScores, limits: Limits | None = None, workers: int | None = None) -> ExactPosterior:
    """Evidence, edges, parent sets and draws, from all graphs within the limits.

    Parameters
    ----------
    scores : FamilyScores
        Of at most two dozen nodes.
    limits : Limits, optional
        Any graph when left out.
    workers : int, optional
        Threads; results do not depend on it.

    Raises
    ------
    ArgumentError
        If there are too many nodes.
    PrecisionError
        If the sums lose too many digits.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> round(exact_posterior(FamilyScores(datasets.load("reinis"))).log_evidence, 4)
    -6728.2738
    """
    if scores.n_nodes > MOST_NODES:
        raise ArgumentError(f"the table has {scores.n_nodes} columns; all graphs are summed for at most {MOST_NODES}")
    limits = capped([scores.n_nodes - 1] * scores.n_nodes) if limits is None else limits
    return sum_over_dags(_all_weights(scores, limits), scores.names, workers)


def _all_weights(scores: FamilyScores, limits: Limits) -> list[tuple[NDArray[Any], NDArray[np.float64]]]:
    """The lists of `family_score_lists`, by shared counting: many times faster."""
    largest = int(limits.most_parents.max())
    if largest == 0:
        return family_score_lists(scores, limits)
    table = build_score_table(scores, limits, max_size=largest, max_families=2**62, keep_within=np.inf)
    bounds = pairwise(table.first.tolist())
    return [(table.sets[begin:end, 0], table.log_weight[begin:end]) for begin, end in bounds]


def prior_weights(options: RunOptions) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Parent sets and log prior weights of every node, without data, for `doxa.structure.exact.dag_sums`."""
    limits, prior = options.limits, options.structure_prior
    lists = []
    for child in range(len(options.names)):
        masks = _legal_parent_sets(child, limits)
        members = (masks[:, None] >> np.arange(len(options.names))) & 1
        log_weights = members @ prior.edge_log_odds[:, child] + prior.by_in_degree[members.sum(axis=1)]
        lists.append((masks, log_weights))
    return lists


def exact_edge_probabilities(scores: FamilyScores, limits: Limits | None = None) -> NDArray[np.float64]:
    """P(i -> j | data) for every ordered pair, summed over all graphs.

    Returns
    -------
    ndarray of float, shape (n_nodes, n_nodes)
    """
    return exact_posterior(scores, limits).edge_probabilities
