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
exceeds 1e-6 is refused.  What it all costs is in `dag_budget`.

Graphs are drawn independently, layer by layer.  A graph is its layers: the nodes without parents, then those whose
parents are all in the first layer, and so on.  With U the union of the layers so far and L the last of them, a node
enters the next layer when its parents lie in U and one of them in L.  With F(U), the weight of all ways to go on
after U,

.. math:: h_U(T) = \sum_{W \supseteq T} (-1)^{|W - T|} F(U \cup W) \prod_{i \in W} \alpha_i(U)

is the weight of those in which exactly the nodes T have all their parents in U, and the next layer is T with
probability proportional to

.. math:: h_U(T) \prod_{i \in T} \frac{\alpha_i(U) - \alpha_i(U - L)}{\alpha_i(U)}.

Sampling by layers from such sums is due to Talvitie, Vuoksenmaa & Koivisto (2019).  The sums over W alternate, but
their errors are relative to F(U), and a state (U, L) is met with probability p only if it weighs at least p F(U).

Draws that share U share its :math:`h_U`, which takes (n - |U|) 2^(n - |U|) steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.errors import ArgumentError, DoxaError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.exact.dag_recursions import (
    FAR,
    Products,
    SetSums,
    backward,
    forward,
    grow_products,
    product_scratch,
    references,
)
from doxa.structure.exact.dag_weights import (
    DROP,
    MOST_NODES,
    POWERS,
    Families,
    LogWeights,
    list_families,
    plus,
    threads_for,
    times,
)
from doxa.structure.exact.family_sums import Derivative, SubsetSums, family_probabilities, minus, subset_sums

__all__ = [
    "MOST_NODES",
    "DrawTables",
    "ExactPosterior",
    "LogWeights",
    "ParentSets",
    "PrecisionError",
    "draw_dags",
    "log_sum_over_dags",
    "sum_over_dags",
]


class PrecisionError(DoxaError, ArithmeticError):
    """A sum lost too many digits to be given out."""


_NO_LAYER = 1e-6  # F(U) counts ways to go on, so h_U of the empty set is 0


class DrawTables(NamedTuple):
    """What drawing needs of the sums: the families of all nodes in a row, each node's heaviest first, alpha and F."""

    starts: NDArray[np.int64]  # (n + 1,) where each node's families begin
    masks: NDArray[np.int64]
    mantissa: NDArray[np.float64]
    exponent: NDArray[np.int64]
    alpha: SubsetSums
    outside: SetSums
    reference: NDArray[np.float64]  # (n,): nats

    @classmethod
    def of(cls, families: list[Families], alpha: SubsetSums, outside: SetSums) -> DrawTables:
        """Join the families of all nodes."""
        starts = np.concatenate(([0], np.cumsum([len(f.masks) for f in families]))).astype(np.int64)
        masks = np.concatenate([family.masks for family in families])
        mantissa = np.concatenate([family.mantissa for family in families])
        exponent = np.concatenate([family.exponent for family in families])
        return cls(starts, masks, mantissa, exponent, alpha, outside, np.array([f.reference for f in families]))

    def log_weight(self, node: int, parents: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log weights (nats) of families that are listed, given by their masks."""
        begin, end = self.starts[node : node + 2]
        number_of = np.empty(2 ** (len(self.starts) - 1), dtype=np.int64)
        number_of[self.masks[begin:end]] = np.arange(begin, end)
        number = number_of[parents]
        found = self.exponent[number] + np.log2(self.mantissa[number])
        return np.asarray(found * math.log(2) + self.reference[node], dtype=np.float64)


def draw_dags(tables: DrawTables, n_draws: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    """Independent draws, as adjacency rows in bit sets, shape (n_draws, n_nodes, 1)."""
    if n_draws < 0:
        raise ArgumentError(f"n_draws is {n_draws}; it must be 0 or more")
    n = len(tables.starts) - 1
    parents = np.zeros((n_draws, n), dtype=np.int64)
    waiting: dict[int, dict[int, list[NDArray[np.intp]]]] = {0: {0: [np.arange(n_draws)]}} if n_draws else {}
    scratch = product_scratch(n), (np.empty(2**n), np.empty(2**n))
    while waiting:
        done = min(waiting, key=lambda members: (members.bit_count(), members))  # smaller unions lead to larger ones
        states = waiting.pop(done)
        if done == 2**n - 1:
            continue
        nodes, weights = _layer_weights(done, tables, scratch)
        for last, groups in sorted(states.items()):
            rows = np.concatenate(groups)
            layers = _draw_layers(done, last, nodes, weights, len(rows), tables, rng)
            drawn = (layers, rows, rng.random((len(rows), n)))
            if done and not _draw_parents(done, last, drawn, tables[:4], tables.alpha, POWERS, parents):
                raise PrecisionError("a drawn layer has a node without possible parents; please report this")
            for layer in np.unique(layers):
                state = waiting.setdefault(done | int(layer), {})
                state.setdefault(int(layer), []).append(rows[layers == layer])
    children = np.zeros((n_draws, n, 1), dtype=np.uint64)
    for child in range(n):
        for parent in range(n):
            children[:, parent, 0] |= ((parents[:, child] >> parent & 1) << child).astype(np.uint64)
    return children


def _layer_weights(
    done: int, tables: DrawTables, scratch: tuple[Products, tuple[Floats, Floats]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nodes that can follow ``done`` and h(T) for all sets T of them, relative to F(done); 0 for none."""
    products, sums = scratch
    n_nodes = _sum_layers(done, tables.alpha, tables.outside, POWERS, products, sums)
    weights = sums[0][: 2**n_nodes]
    if not abs(weights[0]) <= _NO_LAYER * tables.outside.cells[done, 0]:
        raise PrecisionError(
            f"the weights of layers lost too many digits ({weights[0]:.1e} where 0 is right); "
            "sample graphs by a Markov chain instead (exact=False)"
        )
    signs = np.ones(1)
    for _ in range(n_nodes):
        signs = np.concatenate((signs, -signs))
    weights = np.maximum(weights * signs, 0.0)
    weights[0] = 0.0
    return products[6][:n_nodes].copy(), weights


def _draw_layers(
    done: int,
    last: int,
    nodes: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_draws: int,
    tables: DrawTables,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Next layers, as bit masks of nodes."""
    ratios, members = np.ones(1), np.zeros(1, dtype=np.int64)
    for node in nodes:
        ratio = minus(done, done & ~last, node, tables.alpha, POWERS) if done else 1.0
        ratios = np.concatenate((ratios, ratios * ratio))
        members = np.concatenate((members, members | (1 << int(node))))
    cumulative = np.cumsum(weights * ratios)
    if not cumulative[-1] > 0.0:
        raise PrecisionError(
            "no layer can follow a layer that was drawn: too many digits were lost; please report this"
        )
    chosen = np.searchsorted(cumulative, rng.random(n_draws) * cumulative[-1], side="right")
    last_possible = np.searchsorted(cumulative, cumulative[-1])  # rounding may carry a uniform onto the end
    return np.asarray(members[np.minimum(chosen, last_possible)])


@hot
def _sum_layers(
    done: int, alpha: SubsetSums, outside: SetSums, powers: Floats, products: Products, sums: tuple[Floats, Floats]
) -> int:
    """(-1)^|T| h(T) for the sets T of the nodes that can follow ``done``; returns how many nodes these are."""
    p_h, p_l, p_e, p_s = products[:4]
    x_h, x_l = sums
    cells, exponents = outside
    p_h[0], p_l[0], p_e[0], p_s[0] = 1.0, 0.0, -exponents[done, 3], done
    n_nodes = grow_products(done, 0, alpha[0].shape[1], alpha, products)
    for t in range(1 << n_nodes):
        k = exponents[p_s[t], 3] + p_e[t]
        scale = powers[k + DROP] if k > -DROP else 0.0
        x_h[t], x_l[t] = times(p_h[t], p_l[t], cells[p_s[t], 0] * scale, cells[p_s[t], 1] * scale)
    for bit in range(n_nodes):
        half = 1 << bit
        for start in range(0, 1 << n_nodes, 2 * half):
            for t in range(start, start + half):
                x_h[t], x_l[t] = plus(x_h[t], x_l[t], x_h[t + half], x_l[t + half])
    return n_nodes


@hot
def _draw_parents(
    done: int,
    last: int,
    drawn: tuple[Ints, Ints, Floats],
    families: tuple[Ints, Ints, Floats, Ints],
    alpha: SubsetSums,
    powers: Floats,
    parents: Ints,
) -> bool:
    """Parents in ``done``, one of them in ``last``, for the nodes of each drawn layer; False if some node has none."""
    layers, rows, uniforms = drawn
    starts, masks, mantissa, exponent = families
    for d in range(layers.size):
        for node in range(starts.size - 1):
            if not layers[d] >> node & 1:
                continue
            share = minus(done, done & ~last, node, alpha, powers)
            target = uniforms[d, node] * share * alpha[0][done, node]
            reached, chosen = 0.0, -1
            for f in range(starts[node], starts[node + 1]):
                if masks[f] & ~done == 0 and masks[f] & last != 0:
                    k = exponent[f] - alpha[2][done, node]
                    if k > -DROP or chosen < 0:
                        chosen = f
                    reached += mantissa[f] * powers[k + DROP] if k > -DROP else 0.0
                    if reached > target:
                        break
            if chosen < 0:
                return False
            parents[rows[d], node] = masks[chosen]
    return True


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

    @property
    def n_completions(self) -> int:
        """Tables that were summed over: one, without missing cells."""
        return 1

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

    def log_scores(self, rows: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Log weights (nats) of graphs that have one: adjacency rows (n_draws, n_nodes, 1) to (n_draws,)."""
        parents = pack_rows(unpack_rows(rows, self.n_nodes).transpose(0, 2, 1))[:, :, 0].astype(np.int64)
        each = [self._tables.log_weight(node, parents[:, node]) for node in range(self.n_nodes)]
        return np.asarray(np.sum(each, axis=0), dtype=np.float64)


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
    with threads_for(n, workers) as threads:
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
    with threads_for(len(families), workers) as threads:
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
    derivative: Derivative,
    edges: NDArray[np.float64],
    ancestors: NDArray[np.float64],
) -> tuple[ParentSets, float]:
    """Parent sets of one node and how far their sum was from 1; fills in its ``edges`` and ``ancestors``."""
    probability, ancestors[node], excess = family_probabilities(node, families, alpha, derivative)
    for parent in range(len(edges)):
        edges[parent, node] = probability[(families.masks >> parent & 1).astype(np.bool_)].sum()
    order = np.argsort(-probability, kind="stable")
    return ParentSets(families.masks[order].astype(np.uint64), probability[order]), excess
