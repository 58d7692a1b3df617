r"""Independent draws of graphs from an exact posterior, layer by layer.

A graph is its layers: the nodes without parents, then those whose parents are all in the first layer, and so on.  With
U the union of the layers so far and L the last of them, a node enters the next layer when its parents lie in U and one
of them in L.  With F(U), the weight of all ways to go on after U, from `doxa.structure.exact.dag_sums`,

.. math:: h_U(T) = \sum_{W \supseteq T} (-1)^{|W - T|} F(U \cup W) \prod_{i \in W} \alpha_i(U)

is the weight of those in which exactly the nodes T have all their parents in U, and the next layer is T with
probability proportional to

.. math:: h_U(T) \prod_{i \in T} \frac{\alpha_i(U) - \alpha_i(U - L)}{\alpha_i(U)}.

Sampling by layers from such sums is due to Talvitie, Vuoksenmaa & Koivisto (2019).  The sums over W alternate, but
their errors are relative to F(U), and a state (U, L) is met with probability p only if it weighs at least p F(U).

Draws that share U share its :math:`h_U`, which takes (n - |U|) 2^(n - |U|) steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.errors import ArgumentError
from doxa.structure.exact.dag_recursions import SetSums, grow_products, product_scratch
from doxa.structure.exact.dag_weights import Families
from doxa.structure.exact.double_double import DROP, POWERS, plus, times
from doxa.structure.exact.errors import PrecisionError
from doxa.structure.exact.family_sums import SubsetSums, minus

__all__ = ["DrawTables", "draw_dags"]

_NO_LAYER = 1e-6  # F(U) counts ways to go on, so h_U of the empty set is 0


class DrawTables(NamedTuple):
    """What drawing needs of the sums: the families of all nodes in a row, each node's heaviest first, alpha and F."""

    starts: NDArray[np.int64]  # (n + 1,) where each node's families begin
    masks: NDArray[np.int64]
    mantissa: NDArray[np.float64]
    exponent: NDArray[np.int64]
    alpha: SubsetSums
    outside: SetSums

    @classmethod
    def of(cls, families: list[Families], alpha: SubsetSums, outside: SetSums) -> DrawTables:
        """Join the families of all nodes."""
        starts = np.concatenate(([0], np.cumsum([len(f.masks) for f in families]))).astype(np.int64)
        masks = np.concatenate([family.masks for family in families])
        mantissa = np.concatenate([family.mantissa for family in families])
        return cls(starts, masks, mantissa, np.concatenate([f.exponent for f in families]), alpha, outside)


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
            uniforms = rng.random((len(rows), n))
            if done and not _draw_parents(
                done, last, layers, rows, uniforms, tables[:4], tables.alpha, POWERS, parents
            ):  # fmt: skip
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
    done: int, tables: DrawTables, scratch: tuple[tuple[NDArray[Any], ...], ...]
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
def _sum_layers(done: int, alpha: Any, outside: Any, powers: Any, products: Any, sums: Any) -> int:
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
    done: int, last: int, layers: Any, rows: Any, uniforms: Any, families: Any, alpha: Any, powers: Any, parents: Any
) -> bool:
    """Parents in ``done``, one of them in ``last``, for the nodes of each drawn layer; False if some node has none."""
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
