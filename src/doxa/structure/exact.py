r"""Exact sums over graphs, for few nodes: the oracle that samplers are tested against.

Two independent ways.  `enumerate_posterior` lists every graph (25 on three nodes, 543 on four, 29 281 on five).
`exact_edge_probabilities` sums over all graphs of a dozen nodes without listing them: with
:math:`\alpha_i(U) = \sum_{P \subseteq U} \exp s_i(P)`, the total weight of the graphs on a set S obeys

.. math:: A(S) = \sum_{\emptyset \ne T \subseteq S} (-1)^{|T| + 1} A(S - T) \prod_{i \in T} \alpha_i(S - T),

where T runs over sets of nodes without children in S (Robinson 1973; Tian & He 2009).  The prior is uniform over
graphs.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import compiled, popcount
from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.cache import FamilyScores, family_log_score

__all__ = ["GraphPosterior", "all_dags", "enumerate_posterior", "exact_edge_probabilities", "family_score_table"]

_MOST_LISTED, _MOST_SUMMED = 5, 14


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


def family_score_table(scores: FamilyScores, max_parents: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Log scores of all families, shape (n_nodes, 2^n_nodes); -inf for a node's own parent and above the cap."""
    n = scores.n_nodes
    if n > _MOST_SUMMED:
        raise ArgumentError(f"the table has {n} columns; all families are listed for at most {_MOST_SUMMED}")
    caps = np.full(n, n, dtype=np.int64) if max_parents is None else max_parents
    table = np.full((n, 2**n), -np.inf)
    with scores.borrow() as (cache, scoring):
        for child, parents in product(range(n), range(2**n)):
            if not parents >> child & 1 and parents.bit_count() <= caps[child]:
                words = np.array([parents], dtype=np.uint64)
                table[child, parents] = family_log_score(child, words, cache.arrays, scoring)
                if cache.wants_to_grow:
                    cache.grow()
    return table


def enumerate_posterior(scores: FamilyScores, max_parents: NDArray[np.int64] | None = None) -> GraphPosterior:
    """The posterior over all graphs on at most five nodes, by listing them.

    Examples
    --------
    >>> from doxa.data import datasets
    >>> posterior = enumerate_posterior(FamilyScores(datasets.load("reinis").select(["smoke", "phys", "protein"])))
    >>> len(posterior.probability), round(float(posterior.probability.sum()), 12)
    (25, 1.0)
    """
    rows = all_dags(scores.n_nodes)
    table = family_score_table(scores, max_parents)
    parents = pack_rows(unpack_rows(rows, scores.n_nodes).transpose(0, 2, 1))[:, :, 0].astype(np.int64)
    log_score = table[np.arange(scores.n_nodes), parents].sum(axis=1)
    allowed = np.isfinite(log_score)
    rows, log_score = rows[allowed], log_score[allowed]
    weights = np.exp(log_score - log_score.max())
    return GraphPosterior(rows, log_score, weights / weights.sum())


def exact_edge_probabilities(scores: FamilyScores, max_parents: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """P(i -> j | data) for every ordered pair, summed over all graphs.

    Returns
    -------
    ndarray of float, shape (n_nodes, n_nodes)

    Notes
    -----
    O(n^2 3^n) operations: each edge takes the sum over the graphs that have it.  The sums alternate in sign;
    on a dozen nodes or fewer they keep nine digits.
    """
    table = family_score_table(scores, max_parents)
    n = len(table)
    weights = np.exp(table - table.max(axis=1, keepdims=True))
    total = _total_weight(_sum_over_subsets(weights))
    subsets = np.arange(2**n)
    probability = np.zeros((n, n))
    for child in range(n):
        for parent in range(n):
            if parent != child:
                restricted = weights.copy()
                restricted[child, (subsets >> parent & 1) == 0] = 0.0
                probability[parent, child] = _total_weight(_sum_over_subsets(restricted)) / total
    return probability


def _sum_over_subsets(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """alpha_i(U) for all U: the sum of ``weights[i, P]`` over the subsets P of U, shape (n, 2^n)."""
    alpha = weights.copy()
    n = len(alpha)
    for bit in range(n):
        view = alpha.reshape(n, -1, 2, 1 << bit)
        view[:, :, 1] += view[:, :, 0]
    return alpha


@compiled
def _total_weight(alpha: Any) -> float:
    """A(V) by the recursion over sets of sinks."""
    n, n_sets = alpha.shape
    total = np.zeros(n_sets)
    total[0] = 1.0
    for members in range(1, n_sets):
        value = 0.0
        sinks = members
        while sinks > 0:  # all non-empty subsets
            rest = members & ~sinks
            term = total[rest]
            for node in range(n):
                if sinks >> node & 1:
                    term *= alpha[node, rest]
            value += term if popcount(np.uint64(sinks)) & 1 else -term
            sinks = (sinks - 1) & members
        total[members] = value
    return total[n_sets - 1]  # type: ignore[no-any-return]
