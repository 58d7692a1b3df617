r"""The evidence of a posterior over graphs from its draws: sums over the graphs of many orders, and a bridge to them.

The graphs in which all edges lead forward in an order :math:`\prec` have a sum that is a product over the nodes,

.. math:: Z_\prec = \sum_{G \subset \prec} f(G) = \prod_i \sum_{P \subseteq \mathrm{pred}_\prec(i)} e^{s_i(P)},

f being the posterior times the evidence Z (Friedman & Koller 2003).  So the mixture of such graphs over K orders,

.. math:: q(G) = f(G) \, y(G), \qquad y(G) = \frac{1}{K} \sum_k \frac{[G \subset \prec_k]}{Z_k},

is a distribution that can be drawn from exactly, and f / q = 1 / y is known to the last factor.  Z is then the ratio
that bridge sampling estimates (`doxa.estimates.bridge`) from draws of q and of the posterior.  Orders in which draws
of the posterior lead forward make q like it; so that they owe nothing to the draws that they are held against, these
are of other chains.

Only listed parent sets take part, in q as in the sums: a graph with another family has y = 0, which the bridge allows.

With missing cells z, f is the frozen posterior (`doxa.structure.cases.incomplete.joint_proposals`), which q resembles,
and the cells of a drawn graph are drawn by :math:`q(z \mid G)` of `doxa.structure.cases.incomplete.sequential`.  Z is
then the ratio of :math:`p(G, z, D)` to :math:`f(G) \, y(G) \, q(z \mid G)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError
from doxa.estimates.bridge import bridge
from doxa.estimates.estimate import Estimate
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.moves.parent_sets import ParentSets, find_set
from doxa.structure.moves.starts import random_orders

__all__ = ["LogSummed", "OrderMixture", "log_sum_by_bridge", "parents_of"]

LogSummed: TypeAlias = Callable[[NDArray[np.uint64], NDArray[np.integer[Any]] | None], Floats]

_WORK = 2 * 10**9  # listed sets that all sums may look at: some seconds
_FEWEST_ORDERS, _MOST_ORDERS = 200, 2000
_MOST_DRAWS = 4000  # of the posterior, and as many of the mixture, in each of the two halves
_NEGLIGIBLE = 45.0  # nats below the heaviest set that fits


def log_sum_by_bridge(
    rows: NDArray[np.uint64],
    table: ParentSets,
    rng: np.random.Generator,
    log_summed: LogSummed | None = None,
    cells: NDArray[np.integer[Any]] | None = None,
) -> Estimate:
    """Log of the sum over all graphs (nats), from draws of the distribution whose sum it is.

    Parameters
    ----------
    rows : ndarray of uint64, shape (n_chains, n_draws, n_nodes, n_words)
        Adjacency rows of the draws; at least 8 draws.
    table : ParentSets
        The weights of parent sets, log f being their sum over the nodes.
    rng : numpy.random.Generator
        Advanced: orders of the graphs, and draws of the mixture.
    log_summed : callable, optional
        Where cells are missing, the log of p(G, z, D) / q(z | G) of graphs (n, n_nodes, n_words) and their cells
        (n, n_missing), or of cells that it draws for them.
    cells : array of int, shape (n_chains, n_draws, n_missing), optional
        The missing cells that were drawn with the graphs.

    Raises
    ------
    ArgumentError
        If there are too few draws, or none of one half is a graph of the other half's orders.
    """
    chains, n_draws = rows.shape[:2]
    if n_draws < 8:
        raise ArgumentError(f"there are {n_draws} draws of each chain; at least 8 are needed")
    halves = (np.s_[::2], np.s_[1::2]) if chains > 1 else (np.s_[:, : n_draws // 2], np.s_[:, n_draws // 2 :])
    found = []
    for other, half in (halves[::-1], halves):
        of_orders = rows[other].reshape(-1, *rows.shape[2:])
        mixture = OrderMixture.of_graphs(of_orders, table, rng)._replace(log_summed=log_summed)
        found.append(_one_way(mixture, rows[half], None if cells is None else cells[half], rng))
    value = 0.5 * (found[0].value + found[1].value)
    return Estimate(value, 0.5 * float(np.hypot(found[0].mcse, found[1].mcse)), np.nan)


class OrderMixture(NamedTuple):
    """The distribution q over graphs of some orders; see the module's notes."""

    table: ParentSets
    orders: NDArray[np.int64]  # (n_orders, n_nodes)
    log_sums: Floats  # (n_orders,): of f over the graphs of each
    log_summed: LogSummed | None = None

    @classmethod
    def of_graphs(cls, rows: NDArray[np.uint64], table: ParentSets, rng: np.random.Generator) -> OrderMixture:
        """Orders of graphs (n, n_nodes, n_words), at even distances.

        Raises
        ------
        ArgumentError
            If none of the orders has a listed parent set for every node.
        """
        n_orders = int(np.clip(_WORK // max(1, int(table.first[-1])), _FEWEST_ORDERS, _MOST_ORDERS))
        orders, log_sums = _orders_of(rows, n_orders, rng), np.empty(n_orders)
        _sum_orders(table.first, table.sets, table.weight, orders, log_sums, np.zeros(rows.shape[2], dtype=np.uint64))
        possible = log_sums > -np.inf
        if not possible.any():
            raise ArgumentError("no order of a sampled graph has listed parent sets for all nodes")
        return cls(table, orders[possible], log_sums[possible])

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.uint64]:
        """Independent graphs as sets of parents, (n, n_nodes, n_words)."""
        n_words, n_nodes = self.table.sets.shape[1], self.orders.shape[1]
        parents, before = np.empty((n, n_nodes, n_words), dtype=np.uint64), np.zeros(n_words, dtype=np.uint64)
        chosen, u = rng.integers(len(self.orders), size=n), rng.random((n, n_nodes))
        _draw_graphs(self.table.first, self.table.sets, self.table.weight, self.orders, chosen, u, parents, before)
        return parents

    def log_y(self, parents: NDArray[np.uint64]) -> Floats:
        """Log of q / f at graphs (n, n_nodes, n_words): minus infinity for those that q never draws."""
        distinct, which = np.unique(parents, axis=0, return_inverse=True)  # few nodes have few graphs
        log_y, before = np.empty(len(distinct)), np.zeros(parents.shape[2], dtype=np.uint64)
        _log_mixture(distinct, self.orders, self.log_sums, log_y, before)
        log_y[np.isneginf(self.log_f(distinct))] = -np.inf
        return np.asarray(log_y[which.ravel()])

    def log_weights(self, parents: NDArray[np.uint64], cells: NDArray[np.integer[Any]] | None = None) -> Floats:
        """Log of p / q, p being what is summed, at graphs and cells: infinite for graphs that q never draws."""
        log_weights = -self.log_y(parents)
        drawn = np.flatnonzero(np.isfinite(log_weights))
        if self.log_summed is not None:
            given = None if cells is None else cells[drawn]
            log_weights[drawn] += self.log_summed(parents[drawn], given) - self.log_f(parents[drawn])
        return log_weights

    def log_f(self, parents: NDArray[np.uint64]) -> Floats:
        """Log of f at graphs (n, n_nodes, n_words), by the lists: minus infinity where a set is not listed."""
        log_f = np.empty(len(parents))
        _look_up(self.table, parents, log_f)
        return log_f


def _one_way(
    mixture: OrderMixture, draws: NDArray[np.uint64], cells: NDArray[np.integer[Any]] | None, rng: np.random.Generator
) -> Estimate:
    """Hold draws against a mixture over the orders of others."""
    every = -(-draws.shape[1] // max(1, _MOST_DRAWS // draws.shape[0]))
    graphs = parents_of(draws[:, every - 1 :: every])
    given = None if cells is None else cells[:, every - 1 :: every].reshape(-1, cells.shape[-1])
    inside = mixture.log_weights(graphs.reshape(-1, *graphs.shape[2:]), given).reshape(graphs.shape[:2])
    return bridge(inside, mixture.log_weights(mixture.draw(_MOST_DRAWS, rng)))


def _orders_of(rows: NDArray[np.uint64], n_orders: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random orders of graphs at even distances."""
    chosen = np.linspace(0, len(rows) - 1, n_orders).astype(np.int64)
    return random_orders(rng, unpack_rows(rows[chosen], rows.shape[1]))


def parents_of(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sets of parents (..., n_nodes, n_words) of adjacency rows, which are sets of children; and back."""
    return pack_rows(np.swapaxes(unpack_rows(rows, rows.shape[-2]), -1, -2))


@hot
def _look_up(table: ParentSets, parents: Words, log_f: Floats) -> None:
    for k in range(parents.shape[0]):
        log_f[k] = 0.0
        for node in range(parents.shape[1]):
            place = find_set(table, node, parents[k, node])
            log_f[k] += table.weight[place] if place >= 0 else -np.inf


@hot
def _fits(one: Words, among: Words) -> bool:
    """Whether a set is a subset of another."""
    for w in range(one.size):
        if one[w] & ~among[w] != np.uint64(0):
            return False
    return True


@hot
def _log_sum(first: Ints, sets: Words, weight: Floats, node: int, before: Words) -> float:
    """Log of the sum of the weights of a node's sets among those before it; minus infinity if none is listed."""
    top, total = -np.inf, 0.0
    for s in range(first[node], first[node + 1]):
        if weight[s] < top - _NEGLIGIBLE:
            break
        if _fits(sets[s], before):
            if total == 0.0:
                top = weight[s]
            total += np.exp(weight[s] - top)
    return float(top + np.log(total)) if total > 0.0 else -np.inf


@hot
def _sum_orders(first: Ints, sets: Words, weight: Floats, orders: Ints, log_sums: Floats, before: Words) -> None:
    n = orders.shape[1]
    for k in range(orders.shape[0]):
        log_sums[k] = 0.0
        before[:] = 0
        for place in range(n):
            node = orders[k, place]
            log_sums[k] += _log_sum(first, sets, weight, node, before)
            before[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@hot
def _draw_graphs(
    first: Ints, sets: Words, weight: Floats, orders: Ints, chosen: Ints, u: Floats, parents: Words, before: Words
) -> None:
    """One graph of each chosen order, by its share of the order's sum."""
    n = orders.shape[1]
    for draw in range(chosen.size):
        before[:] = 0
        for place in range(n):
            node = orders[chosen[draw], place]
            left = u[draw, place]
            log_sum = _log_sum(first, sets, weight, node, before)
            for s in range(first[node], first[node + 1]):
                if _fits(sets[s], before):
                    left -= np.exp(weight[s] - log_sum)
                    for w in range(before.size):
                        parents[draw, node, w] = sets[s, w]
                    if left < 0.0:
                        break
            before[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@hot
def _log_mixture(parents: Words, orders: Ints, log_sums: Floats, log_y: Floats, before: Words) -> None:
    """Log of y for graphs by their sets of parents; minus infinity for those of no order."""
    n, n_orders = orders.shape[1], orders.shape[0]
    for k in range(parents.shape[0]):
        top, total = -np.inf, 0.0
        for order in range(n_orders):
            before[:] = 0
            forward = True
            for place in range(n):
                node = orders[order, place]
                if not _fits(parents[k, node], before):
                    forward = False
                    break
                before[node >> 6] |= np.uint64(1) << np.uint64(node & 63)
            if forward:
                value = -log_sums[order]
                if value > top:
                    total = total * np.exp(top - value) + 1.0 if total > 0.0 else 1.0
                    top = value
                else:
                    total += np.exp(value - top)
        log_y[k] = top + np.log(total / n_orders) if total > 0.0 else -np.inf
