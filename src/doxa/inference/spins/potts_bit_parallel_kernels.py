r"""Compiled loops of `doxa.inference.spins.potts_bit_parallel`: bit l of word (i, a) is set where chain l has site i in
state a.

The weight of state a, :math:`e^{h_i(a)} \prod_j e^{J_{ij} [x_j = a]}`, is worked out for 64 chains at once: the word of
a neighbour says in which of them to multiply.  So the work does not depend on whether couplings are equal; truth tables
of binary digits, as Ising spins have, would need up to q^4 classes on a square lattice, not two to 16.

Weights, their sums and the random numbers are those of `doxa.inference.spins.potts_kernels`, and what is drawn is exact
in the same sense.  A state is drawn where u total first lies below the sum of the weights up to its own; as u is at
most 1 - 2^-53, the last sum, which is the total, is always above it, and a state of weight 0 never is the first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from doxa._jit import hot, inlined
from doxa.inference.spins.bit_parallel_numbers import (
    N_LANES,
    below,
    each,
    load_lanes,
    plus_where,
    random_bit_parallel,
    store_lanes,
    sum_by_place,
    times_where,
)

__all__ = ["CHAINS_PER_GROUP", "N_GROUPS", "advance_potts_bit_parallel"]

N_GROUPS = 8  # chains g, g + 8, ... g + 56 are group g
CHAINS_PER_GROUP = N_LANES // N_GROUPS


@hot
def advance_potts_bit_parallel(
    graph: Any,
    fields: Any,
    weights: Any,
    original: Any,
    words: Any,
    streams: Any,
    work: Any,
    sums: Any,
    n_steps: int,
    thin: int,
    draws: Any,
) -> None:
    """Sweep ``n_steps`` times; ``work`` has 64 numbers a state, ``sums`` is empty without marginals."""
    energy, shares, probability, states = draws
    own, factors, is_tame = weights
    (n, q), scale = fields.shape, 1.0 / (CHAINS_PER_GROUP * thin)
    for step in range(1, n_steps + 1):
        for i in range(n):
            if is_tame[i]:
                total = _weigh(graph, own, factors, words, i, q, work)
            else:
                total = _weigh_far(graph, own, words, i, q, work)
            if sums.size > 0:
                inverse = each(1.0) / total
                for a in range(q):
                    sum_by_place(sums, N_GROUPS * (q * i + a), load_lanes(work, N_LANES * a) * inverse)
            _pick(work, total, streams, words, q, i)
        if step % thin == 0:
            kept = step // thin - 1
            _measure(graph, fields, words, work, energy[kept], shares[kept])
            for i in range(probability.shape[2]):
                for a in range(q):
                    for g in range(N_GROUPS):
                        place = N_GROUPS * (q * i + a) + g
                        probability[kept, g, original[i], a] = sums[place] * scale
                        sums[place] = 0.0
            for i in range(states.shape[1]):
                for a in range(q):
                    states[kept, original[i], a] = words[q * i + a]


@inlined
def _weigh(graph: Any, own: Any, factors: Any, words: Any, i: int, q: int, work: Any) -> Any:
    """Weights of the states of site ``i`` in every chain, into ``work``; their sums."""
    total = each(0.0)
    for a in range(q):
        weight = each(own[i, a])
        for e in range(graph.starts[i], graph.starts[i + 1]):
            weight = times_where(weight, factors[e], words[q * graph.neighbours[e] + a])
        store_lanes(work, N_LANES * a, weight)
        total = total + weight
    return total


@hot
def _weigh_far(graph: Any, own: Any, words: Any, i: int, q: int, work: Any) -> Any:
    """The weights where products could overflow: ``own`` holds logarithms, and the largest weight is 1."""
    for lane in range(N_LANES):
        highest = -math.inf
        for a in range(q):
            log_weight = own[i, a]
            for e in range(graph.starts[i], graph.starts[i + 1]):
                if (words[q * graph.neighbours[e] + a] >> np.uint64(lane)) & np.uint64(1):
                    log_weight += graph.strengths[e]
            work[N_LANES * a + lane] = log_weight
            highest = max(highest, log_weight)
        for a in range(q):
            work[N_LANES * a + lane] = math.exp(work[N_LANES * a + lane] - highest)
    total = each(0.0)
    for a in range(q):
        total = total + load_lanes(work, N_LANES * a)
    return total


@inlined
def _pick(work: Any, total: Any, streams: Any, words: Any, q: int, i: int) -> None:
    """Draw site ``i`` in every chain."""
    left = random_bit_parallel(streams) * total
    reached = each(0.0)
    before = np.uint64(0)
    for a in range(q):
        reached = reached + load_lanes(work, N_LANES * a)
        now = below(left, reached)
        words[q * i + a] = now & ~before
        before = now


@hot
def _measure(graph: Any, fields: Any, words: Any, work: Any, energy: Any, shares: Any) -> None:
    """Energy -sum J [x = x] - sum h(x) and the share of the sites in each state, of every chain."""
    n, q = fields.shape
    found = each(0.0)
    for e in range(graph.couplings.size):
        agree = np.uint64(0)
        for a in range(q):
            agree |= words[q * graph.edges[e, 0] + a] & words[q * graph.edges[e, 1] + a]
        found = plus_where(found, -graph.couplings[e], agree)
    for a in range(q):
        count = each(0.0)
        for i in range(n):
            found = plus_where(found, -fields[i, a], words[q * i + a])
            count = plus_where(count, 1.0, words[q * i + a])
        store_lanes(work, 0, count)
        for lane in range(N_LANES):
            shares[lane, a] = work[lane] / n
    store_lanes(energy, 0, found)
