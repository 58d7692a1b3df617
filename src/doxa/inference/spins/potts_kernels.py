"""Compiled loops of `doxa.inference.spins.potts`."""

from __future__ import annotations

import math
from typing import Any

from doxa._jit import hot
from doxa.inference.spins.random_words import uniform

__all__ = ["advance_potts"]


@hot
def advance_potts(
    graph: Any,
    fields: Any,
    weights: Any,
    is_tame: bool,
    original: Any,
    states: Any,
    streams: Any,
    work: Any,
    sums: Any,
    is_random: bool,
    n_steps: int,
    thin: int,
    draws: Any,
) -> None:
    """Sweep ``n_steps`` times, in order or at random; ``sums`` is empty without marginals, ``work`` has q entries."""
    energy, shares, probability, kept_states = draws
    n, q = fields.shape
    for step in range(1, n_steps + 1):
        for t in range(n):
            i = int(uniform(streams, t & 7) * n) if is_random else t
            total = _weigh(graph, weights, is_tame, states, i, work)
            if sums.size > 0 and not is_random:
                for a in range(q):
                    sums[i, a] += work[a] / total
            states[i] = _pick(work, total * uniform(streams, t & 7))
        if sums.size > 0 and is_random:  # how often a site was visited is no business of its marginal's
            for i in range(n):
                total = _weigh(graph, weights, is_tame, states, i, work)
                for a in range(q):
                    sums[i, a] += work[a] / total
        if step % thin == 0:
            kept = step // thin - 1
            energy[kept] = _energy(graph, fields, states)
            for i in range(n):
                shares[kept, states[i]] += 1.0 / n
            for i in range(sums.shape[0]):
                for a in range(q):
                    probability[kept, original[i], a] = sums[i, a] / thin
                    sums[i, a] = 0.0
            for i in range(kept_states.shape[1]):
                kept_states[kept, original[i]] = states[i]


@hot
def _weigh(graph: Any, weights: Any, is_tame: bool, states: Any, i: int, work: Any) -> float:
    """Weights of the states of site ``i`` given the others, into ``work``; their sum."""
    own, strengths = weights
    total = 0.0
    if is_tame:
        for a in range(work.size):
            work[a] = own[i, a]
        for e in range(graph.starts[i], graph.starts[i + 1]):
            work[states[graph.neighbours[e]]] *= strengths[e]
        for a in range(work.size):
            total += work[a]
        return total
    for a in range(work.size):
        work[a] = own[i, a]
    for e in range(graph.starts[i], graph.starts[i + 1]):
        work[states[graph.neighbours[e]]] += strengths[e]
    highest = work[0]
    for a in range(1, work.size):
        highest = max(highest, work[a])
    for a in range(work.size):
        work[a] = math.exp(work[a] - highest)
        total += work[a]
    return total


@hot
def _pick(work: Any, left: float) -> int:
    """The state in whose weight ``left`` falls, counted from the first; never one of weight 0."""
    found = 0
    for a in range(work.size):
        if work[a] > 0.0:
            found = a
            left -= work[a]
            if left < 0.0:
                break
    return found


@hot
def _energy(graph: Any, fields: Any, states: Any) -> float:
    """-sum J [x = x] - sum h(x)."""
    total = 0.0
    for e in range(graph.couplings.size):
        if states[graph.edges[e, 0]] == states[graph.edges[e, 1]]:
            total -= graph.couplings[e]
    for i in range(fields.shape[0]):
        total -= fields[i, states[i]]
    return total
