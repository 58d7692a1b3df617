r"""Counts of the current graph's families, kept in step while rows are taken out and put back.

With the tables integrated out, the probability of a row given all other rows is a product over families,

.. math:: \prod_i \frac{N_{ijk} + a_{ijk}}{N_{ij} + a_{ij}},

where N counts the other rows only.  Each node has a table of slots, a slot for each configuration of its parents; where
there are too many configurations, slots are found by a hash of those that occur.  A configuration's number is
:math:`\sum_p s_p x_p`: mixed radix where that fits 62 bits, and else with random 64-bit factors :math:`s_p`, under
which two configurations share a number with a probability of some :math:`2^{-60}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._by_address import by_address
from doxa._call_at import settled
from doxa._jit import branching, hot, inlined, lowest_bit
from doxa.arrays import Ints, Words
from doxa.structure.cases.incomplete.missing_cells import Completion
from doxa.structure.families.counting import CONSTANT_RULE, Rule
from doxa.structure.families.scores import log_ratio

__all__ = [
    "Families",
    "add_case",
    "case_probability",
    "config_of",
    "count_all",
    "families_of",
    "lay_out",
    "log_of_counts",
    "needs_recount",
    "no_families",
    "recount",
    "with_room",
]

_DENSE = 4096  # configurations: a slot for each up to here
_EXACT = 62 * np.log(2.0)  # nats: numbers of configurations that int64 holds
_POSITIVE = np.int64(2**63 - 1)


@by_address
class Families(NamedTuple):
    """Parents and counts of every node's family; see the module's notes."""

    parent_first: NDArray[np.int64]  # (n_nodes + 1,)
    parent: NDArray[np.int64]  # (n_edges,), rising within a node
    stride: NDArray[np.int64]  # (n_edges,): the parent's factor in the configuration's number
    child_first: NDArray[np.int64]  # (n_nodes + 1,)
    child: NDArray[np.int64]  # (n_edges,)
    child_stride: NDArray[np.int64]  # (n_edges,): the node's factor in the child's configuration
    order: NDArray[np.int64]  # (n_nodes,): parents before children
    rank: NDArray[np.int64]  # (n_nodes,): place in the order
    slots: NDArray[np.int64]  # (n_nodes,)
    hashed: NDArray[np.bool_]  # (n_nodes,)
    first_key: NDArray[np.int64]  # (n_nodes,): where its keys begin, if hashed
    first_count: NDArray[np.int64]  # (n_nodes,): where its counts begin; a slot has one for each state and their sum
    used: NDArray[np.int64]  # (n_nodes,): slots taken, if hashed
    prior_cell: NDArray[np.float64]  # (n_nodes,): a_ijk
    prior_config: NDArray[np.float64]  # (n_nodes,): a_ij
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]


def families_of(parents: NDArray[np.uint64], completion: Completion, rule: Rule) -> Families:
    """The families of a graph, counted.

    Parameters
    ----------
    parents : ndarray of uint64, shape (n_nodes, n_words)
        Parents of each node as bit sets.
    completion : Completion
    rule : Rule
        Of `BDeu` or `K2`.
    """
    families = no_families(len(parents), int(np.bitwise_count(parents).sum()))
    families = with_room(families, *settled(lay_out)(parents, completion, rule, families))
    settled(count_all)(completion, families)
    return families


def no_families(n_nodes: int, most_edges: int) -> Families:
    """Space for the families of graphs of up to so many edges, but for keys and counts."""
    order, rank, slots, first_key, first_count, used = np.zeros((6, n_nodes), dtype=np.int64)
    parent_first, child_first = np.zeros((2, n_nodes + 1), dtype=np.int64)
    parent, stride, child, child_stride = np.zeros((4, most_edges), dtype=np.int64)
    prior_cell, prior_config = np.zeros((2, n_nodes))
    none = np.zeros(0, dtype=np.int64)
    return Families(
        parent_first, parent, stride, child_first, child, child_stride, order, rank, slots,
        np.zeros(n_nodes, dtype=np.bool_), first_key, first_count, used, prior_cell, prior_config, none, none,
    )  # fmt: skip


def with_room(families: Families, n_keys: int, n_counts: int) -> Families:
    """The same with room for so many keys and counts, which are left as they come."""
    return families._replace(keys=np.empty(n_keys, dtype=np.int64), counts=np.empty(n_counts, dtype=np.int64))


@hot
def _random_factor(child: int, parent: int) -> int:
    """An odd 64-bit number that looks random (the finaliser of splitmix64)."""
    mixed = (np.uint64(child) << np.uint64(32)) + np.uint64(parent) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((mixed ^ (mixed >> np.uint64(31))) | np.uint64(1))  # type: ignore[return-value]


@branching
def lay_out(parents: Words, completion: Completion, rule: Rule, families: Families) -> tuple[int, int]:
    """Fill all but keys and counts; return how many of these there must be."""
    n, n_rows, n_states = parents.shape[0], completion.columns.shape[1], completion.n_states
    n_keys, n_counts, edge = 0, 0, 0
    families.child_first[:] = 0
    for node in range(n):
        families.parent_first[node] = edge
        log_q = 0.0
        for w in range(parents.shape[1]):
            word = parents[node, w]
            while word != np.uint64(0):
                parent = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                families.parent[edge] = parent
                families.child_first[parent + 1] += 1
                log_q += np.log(n_states[parent])
                edge += 1
        exact = log_q < _EXACT
        stride = 1
        for e in range(families.parent_first[node], edge):
            families.stride[e] = stride if exact else _random_factor(node, families.parent[e])
            stride *= n_states[families.parent[e]]
        families.hashed[node] = not exact or stride > max(_DENSE, 2 * n_rows)
        slots = stride
        if families.hashed[node]:
            slots = 64
            while slots < 4 * n_rows:
                slots *= 2
            families.first_key[node] = n_keys
            n_keys += slots
        families.slots[node] = slots
        families.first_count[node] = n_counts
        n_counts += slots * (n_states[node] + 1)
        log_cell = rule.log_weight
        if rule.kind != CONSTANT_RULE:
            log_cell -= log_q + np.log(n_states[node])
        families.prior_cell[node] = np.exp(log_cell)
        families.prior_config[node] = np.exp(log_cell + np.log(n_states[node]))
    families.parent_first[n] = edge
    _list_children(n, families)
    _sort_nodes(n, families)
    return n_keys, n_counts


@hot
def _list_children(n: int, families: Families) -> None:
    for node in range(n):
        families.child_first[node + 1] += families.child_first[node]
        families.rank[node] = 0
    for node in range(n):
        for e in range(families.parent_first[node], families.parent_first[node + 1]):
            parent = families.parent[e]
            place = families.child_first[parent] + families.rank[parent]
            families.rank[parent] += 1
            families.child[place] = node
            families.child_stride[place] = families.stride[e]


@hot
def _sort_nodes(n: int, families: Families) -> None:
    """A topological order: parents first."""
    waiting = families.used  # as work space: filled afresh by `recount`
    found = 0
    for node in range(n):
        waiting[node] = families.parent_first[node + 1] - families.parent_first[node]
        if waiting[node] == 0:
            families.order[found] = node
            found += 1
    for place in range(n):
        node = families.order[place]
        families.rank[node] = place
        for e in range(families.child_first[node], families.child_first[node + 1]):
            child = families.child[e]
            waiting[child] -= 1
            if waiting[child] == 0:
                families.order[found] = child
                found += 1


@branching
def count_all(completion: Completion, families: Families) -> None:
    """Count every family in the completed table."""
    for node in range(completion.n_states.size):
        recount(node, completion, families)


@hot
def recount(node: int, completion: Completion, families: Families) -> None:
    """Count one family in the completed table."""
    r = completion.n_states[node]
    begin = families.first_count[node]
    families.counts[begin : begin + families.slots[node] * (r + 1)] = 0
    if families.hashed[node]:
        begin = families.first_key[node]
        families.keys[begin : begin + families.slots[node]] = -1
    families.used[node] = 0
    for row in range(completion.columns.shape[1]):
        config = 0
        for e in range(families.parent_first[node], families.parent_first[node + 1]):
            config += families.stride[e] * completion.columns[families.parent[e], row]
        add_case(node, config, completion.columns[node, row], completion.weights[row], r, families)


@hot
def needs_recount(node: int, families: Families) -> bool:
    """Whether a hash table is so full, mostly of configurations that occur no more, that it should be made again."""
    return bool(families.hashed[node] and 2 * families.used[node] > families.slots[node])


@inlined
def config_of(node: int, codes: NDArray[np.int16], families: Families) -> int:
    """Number of the configuration of the node's parents in a row."""
    config = 0
    for e in range(families.parent_first[node], families.parent_first[node + 1]):
        config += families.stride[e] * codes[families.parent[e]]
    return config


@inlined
def _find(node: int, config: int, families: Families) -> int:
    """Slot of a configuration, or -1 - (the free slot where it would go)."""
    if not families.hashed[node]:
        return config
    key = config & _POSITIVE
    mask = families.slots[node] - 1
    begin = families.first_key[node]
    slot = int((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while families.keys[begin + slot] != key:
        if families.keys[begin + slot] < 0:
            return -1 - slot  # type: ignore[no-any-return]
        slot = (slot + 1) & mask
    return slot  # type: ignore[no-any-return]


@inlined
def add_case(node: int, config: int, state: int, weight: int, r: int, families: Families) -> None:
    """Put ``weight`` cases in (or take them out, if negative)."""
    slot = _find(node, config, families)
    if slot < 0:
        slot = -1 - slot
        families.keys[families.first_key[node] + slot] = config & _POSITIVE
        families.used[node] += 1
    place = families.first_count[node] + slot * (r + 1)
    families.counts[place + state] += weight
    families.counts[place + r] += weight


@inlined
def case_probability(node: int, config: int, state: int, r: int, families: Families) -> float:
    """Predictive probability of a state given a configuration, from the cases that are in."""
    slot = _find(node, config, families)
    if slot < 0:
        return 1.0 / r
    place = families.first_count[node] + slot * (r + 1)
    total = families.counts[place + r]
    if total == 0:  # also where the prior's weights are too small for a float
        return 1.0 / r
    return (families.counts[place + state] + families.prior_cell[node]) / (total + families.prior_config[node])  # type: ignore[no-any-return]


@hot
def log_of_counts(counts: Ints, begin: int, end: int, r: int, cell: float, config: float) -> float:
    """Log marginal likelihood of the cases in some slots: ``r`` counts and their sum, from ``begin`` to ``end``."""
    total = 0.0
    log_cell, log_config = np.log(cell), np.log(config)
    for place in range(begin, end, r + 1):
        if counts[place + r] == 0:
            continue
        for k in range(r):
            if counts[place + k] > 0:
                total += log_ratio(float(counts[place + k]), cell, log_cell)
        total -= log_ratio(float(counts[place + r]), config, log_config)
    return total
