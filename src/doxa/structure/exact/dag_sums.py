r"""Sums over all directed acyclic graphs on some twenty nodes, by dynamic programming over sets of nodes.

A graph weighs the product of a weight :math:`w_i(P)` for every node i and its parents P.  With
:math:`\alpha_i(R) = \sum_{P \subseteq R} w_i(P)`, the graphs on a set S weigh together

.. math:: A(S) = \sum_{\emptyset \ne T \subseteq S} (-1)^{|T| + 1} A(S - T) \prod_{i \in T} \alpha_i(S - T),

T running over sets of nodes without children in S (Robinson 1973; Tian & He 2009).  The derivative of A(V) by A(R),

.. math:: F(R) = \sum_{\emptyset \ne T \subseteq V - R} (-1)^{|T| + 1} F(R \cup T) \prod_{i \in T} \alpha_i(R),

weighs the ways to choose parents for the nodes outside R when all of R comes first.  The derivative by
:math:`\alpha_i(R)` is :math:`D_i(R) \ge 0`, and :math:`w_i(P) D_i(R) / A(V)` is the probability that i has the parents
P and R is the set of its non-descendants: the one ancestral set after which i alone can follow.  Summed over the
supersets R of P this is the posterior of parent sets.

Beside this file the weights are checked in `dag_weights`, the sums over parent sets are in `family_sums` and the
recursions in `dag_recursions`.  The recursions alternate in sign and bound their own error; an answer whose bound
exceeds 1e-6 is refused.  Drawing graphs is in `dag_draws`, what it all costs in `dag_budget`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.structure.exact.dag_blocks import Threads
from doxa.structure.exact.dag_draws import DrawTables, draw_dags
from doxa.structure.exact.dag_recursions import FAR, SetSums, backward, forward, references
from doxa.structure.exact.dag_weights import MOST_NODES, Families, LogWeights, list_families
from doxa.structure.exact.errors import PrecisionError
from doxa.structure.exact.family_sums import SubsetSums, family_probabilities, subset_sums

__all__ = [
    "MOST_NODES",
    "ExactPosterior",
    "LogWeights",
    "ParentSets",
    "PrecisionError",
    "log_sum_over_dags",
    "sum_over_dags",
]

_WORST_ERROR = 1e-6


class ParentSets(NamedTuple):
    """Posterior of the parents of one node, likeliest first."""

    masks: NDArray[np.uint64]  # (n_sets,) bit j: node j is a parent
    probability: NDArray[np.float64]  # (n_sets,) sums to 1


@dataclass(frozen=True, eq=False, repr=False)
class ExactPosterior:
    """Exact answers over all graphs; made by `sum_over_dags`.

    Attributes
    ----------
    names : tuple of str
        The nodes.
    log_evidence : float
        Logarithm of the sum of the weights of all graphs, nats.  With log marginal likelihoods plus a log prior that
        sums to one over the graphs, this is the log marginal likelihood of the data; for another prior
        subtract its own `log_sum_over_dags`.
    edge_probabilities : ndarray of float, shape (n_nodes, n_nodes)
        ``[i, j]`` is P(i -> j).
    ancestor_probabilities : ndarray of float, shape (n_nodes, n_nodes)
        ``[i, j]`` is the probability of a directed path from i to j.
    log_relative_error : float
        Logarithm of a bound of two errors: the relative error of the evidence, and the absolute errors of the
        parent-set probabilities of any one node, added up.  It covers rounding of the sums and of the weights.

    Notes
    -----
    It holds on to the tables that `draw` needs: 20 bytes times ``n_nodes * 2**n_nodes``.
    """

    names: tuple[str, ...]
    log_evidence: float
    edge_probabilities: NDArray[np.float64]
    ancestor_probabilities: NDArray[np.float64]
    log_relative_error: float
    _parent_sets: tuple[ParentSets, ...]
    _tables: DrawTables

    def __repr__(self) -> str:
        error = math.exp(self.log_relative_error)
        return f"ExactPosterior({self.n_nodes} nodes, log evidence {self.log_evidence:.6f}, error below {error:.1e})"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def parent_sets(self, node: int | str) -> ParentSets:
        """All parent sets of ``node`` with a finite weight and their probabilities, likeliest first."""
        if isinstance(node, str) and node not in self.names:
            raise ArgumentError(f"node {node!r} is not among the nodes {', '.join(map(repr, self.names))}")
        position = self.names.index(node) if isinstance(node, str) else node
        if not 0 <= position < self.n_nodes:
            raise ArgumentError(f"node is {position}; positions run from 0 to {self.n_nodes - 1}")
        return self._parent_sets[position]

    def draw(self, n_draws: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Independent draws of graphs: adjacency rows as bit sets, shape (n_draws, n_nodes, 1)."""
        return draw_dags(self._tables, n_draws, rng)


def sum_over_dags(
    log_weights: LogWeights, names: Sequence[str] | None = None, workers: int | None = None
) -> ExactPosterior:
    """Sum over all graphs: evidence, edges, parent sets, ancestors, and exact draws.

    Parameters
    ----------
    log_weights : array of float, shape (n_nodes, 2**n_nodes), or list of (masks, log_weights)
        Log weight of every family.  In the array, column P is for the parents whose bits are set in P, and ``-inf``
        says impossible.  In the list, entry i holds the possible parent sets of node i as bit masks, none twice, and
        their log weights.
    names : sequence of str, optional
        ``X0, X1, ...`` when left out.
    workers : int, optional
        Threads; as many as there are processors when left out.  Results do not depend on it.

    Raises
    ------
    ArgumentError
        If the weights have another shape, are NaN or ``inf``, or allow no graph at all.
    PrecisionError
        If the alternating sums lose so many digits that the error may exceed 1e-6.

    Notes
    -----
    At most 2 * 3^n_nodes steps, on some 40 bytes times n_nodes * 2^n_nodes:
    `doxa.structure.exact.dag_budget.predicted_cost`.

    Examples
    --------
    >>> posterior = sum_over_dags([([0b00, 0b10], np.log([1, 3])), ([0b00, 0b01], np.log([1, 1]))])
    >>> round(float(np.exp(posterior.log_evidence)), 9)  # 1 for no edge, 3 for 1 -> 0, 1 for 0 -> 1
    5.0
    >>> posterior.edge_probabilities.round(9).tolist()
    [[0.0, 0.2], [0.6, 0.0]]
    """
    families = list_families(log_weights)
    n = len(families)
    labels = tuple(names) if names is not None else tuple(f"X{i}" for i in range(n))
    if len(labels) != n:
        raise ArgumentError(f"names has {len(labels)} entries but log_weights has {n} nodes")
    with Threads(n, workers) as threads:
        alpha = subset_sums(families, threads)
        inside, outside = references(alpha)
        forward(alpha, inside, threads)
        log_evidence, error = _log_total(families, inside)
        _check_error(error)
        derivative = backward(alpha, inside, outside, threads)
        error = _posterior_error(inside, outside, error)
        _check_error(error)
        edges, ancestors = np.zeros((n, n)), np.zeros((n, n))
        found: list[Any] = [None] * n
        excess = np.zeros(n)

        def finish(node: int) -> None:
            found[node], excess[node] = _node_posterior(node, families[node], alpha, derivative, edges, ancestors)

        threads.run(finish, range(n))
    observed = max(float(excess.max()), abs(_ratio(outside, 0, inside, len(inside.cells) - 1) - 1.0))
    _check_error(observed)
    tables = DrawTables.of(families, alpha, outside)
    return ExactPosterior(labels, log_evidence, edges, ancestors, math.log(max(error, observed)), tuple(found), tables)


def log_sum_over_dags(log_weights: LogWeights, workers: int | None = None) -> float:
    """Logarithm of the sum of the weights of all graphs: `sum_over_dags` without its second half.

    Examples
    --------
    >>> every_family = [([P for P in range(8) if not P >> i & 1], np.zeros(4)) for i in range(3)]
    >>> round(float(np.exp(log_sum_over_dags(every_family))), 9)  # the number of graphs on three nodes
    25.0
    """
    families = list_families(log_weights)
    with Threads(len(families), workers) as threads:
        alpha = subset_sums(families, threads)
        inside, _ = references(alpha)
        forward(alpha, inside, threads)
    log_evidence, error = _log_total(families, inside)
    _check_error(error)
    return log_evidence


def _check_error(error: float) -> None:
    if not error <= _WORST_ERROR:  # NaN too
        raise PrecisionError(
            f"the sums over all graphs alternate in sign; their relative error may reach {error:.1e}, more than "
            f"{_WORST_ERROR:g}: too many nodes are nearly independent for so many at once; leave out nodes without "
            "likely edges, forbid unlikely edges, or sample graphs instead (exact=False)"
        )


def _log_total(families: list[Families], inside: SetSums) -> tuple[float, float]:
    """log A(V), and a bound of the relative error of A(V)."""
    total, _, bound, _ = inside.cells[-1]
    if not total > 0.0:
        return math.nan, math.inf
    log_total = math.log(total) + math.log(2) * int(inside.exponents[-1, 3]) + math.fsum(f.reference for f in families)
    size = abs(log_total) + math.fsum(abs(f.reference) for f in families)
    return log_total, bound / total + sum(f.rounding for f in families) + 2.0**-52 * size + 2.0**-120


def _posterior_error(inside: SetSums, outside: SetSums, evidence_error: float) -> float:
    r"""Bound of the summed absolute error of the parent-set probabilities of any one node.

    :math:`\alpha_i(R) D_i(R)` is A(R) times the terms of F(R) in which T contains i, so that summed over R the errors
    are at most those of A(R) F(R).
    """
    kept = (inside.exponents[:, 3] < FAR) & (inside.cells[:, 0] != 0.0)
    shift = (inside.exponents[:, 3] + outside.exponents[:, 3] - inside.exponents[-1, 3])[kept]
    (a, _, a_error, _), (f, _, f_error, _) = inside.cells[kept].T, outside.cells[kept].T
    if not (np.isfinite(a_error).all() and np.isfinite(f_error).all()):
        return math.inf
    error = np.ldexp(a * f_error + a_error * f, np.maximum(shift, -2000).astype(np.int32))
    return float(error.sum() / inside.cells[-1, 0]) + 2 * evidence_error


def _ratio(one: SetSums, i: int, two: SetSums, j: int) -> float:
    shift = int(one.exponents[i, 3] - two.exponents[j, 3])
    return math.ldexp(float(one.cells[i, 0] / two.cells[j, 0]), shift)


def _node_posterior(
    node: int,
    families: Families,
    alpha: SubsetSums,
    derivative: tuple[NDArray[Any], ...],
    edges: NDArray[np.float64],
    ancestors: NDArray[np.float64],
) -> tuple[ParentSets, float]:
    """Parent sets of one node and how far their sum was from 1; fills in its ``edges`` and ``ancestors``."""
    probability, ancestors[node], excess = family_probabilities(node, families, alpha, derivative)
    for parent in range(len(edges)):
        edges[parent, node] = probability[(families.masks >> parent & 1).astype(np.bool_)].sum()
    order = np.argsort(-probability, kind="stable")
    return ParentSets(families.masks[order].astype(np.uint64), probability[order]), excess
