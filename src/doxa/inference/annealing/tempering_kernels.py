"""Compiled loop of `doxa.inference.annealing.tempering`: rungs sweep, then neighbours offer each other their states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from doxa._jit import hot
from doxa.inference.annealing.table_kernels import log_densities, log_parts, sweep_tables
from doxa.inference.spins.random_words import uniform

__all__ = ["FROM_COLD", "FROM_HOT", "offer_states", "temper"]

FROM_COLD, FROM_HOT = 1, 2  # which end of the ladder a state was at last, having been at the cold one before


@hot
def temper(
    tables: Any,
    betas: Any,
    first_step: int,
    n_steps: int,
    thin: int,
    states: Any,
    origins: Any,
    streams: Any,
    work: Any,
    sums: Any,
    draws: Any,
    counts: Any,
) -> None:
    """Make steps.

    Row k of ``counts`` gets the offers between rungs k and k + 1 and the swaps, the last row round trips.
    """
    kept, log_values, marginals = draws
    for step in range(n_steps):
        for r in range(betas.size):
            if r == 0 and sums.size > 0:
                _add_conditionals(tables, states[0], streams, work, sums)
            else:
                sweep_tables(tables, betas[r], r == 0, False, states[r], streams, r & 7, work)
        for r in range((first_step + step) & 1, betas.size - 1, 2):
            offer_states(tables, betas, r, states, origins, streams, counts)
        counts[betas.size - 1, 0] += _follow(origins)
        if (step + 1) % thin == 0:
            at = (step + 1) // thin - 1
            for i in range(states.shape[1]):
                kept[at, i] = states[0, i]
            low, rise, _ = log_parts(tables, states[0])
            log_values[at] = low + rise
            for c in range(sums.size):
                marginals[at, c] = sums[c] / thin
                sums[c] = 0.0


@hot
def offer_states(tables: Any, betas: Any, r: int, states: Any, origins: Any, streams: Any, counts: Any) -> None:
    """Swap the states of rungs r and r + 1 with the probability that keeps both distributions."""
    _, rise_cold, _ = log_parts(tables, states[r])
    _, rise_hot, is_zero = log_parts(tables, states[r + 1])
    counts[r, 0] += 1
    log_ratio = (betas[r] - betas[r + 1]) * (rise_hot - rise_cold)
    if r == 0 and is_zero:
        return  # the first rung is exact
    if math.log(1.0 - uniform(streams, r & 7)) < log_ratio:
        counts[r, 1] += 1
        for i in range(states.shape[1]):
            states[r, i], states[r + 1, i] = states[r + 1, i], states[r, i]
        origins[r], origins[r + 1] = origins[r + 1], origins[r]


@hot
def _follow(origins: Any) -> int:
    """Note which states are at an end of the ladder; 1 if one came back to the cold end from the hot one."""
    is_back = origins[0] == FROM_HOT
    origins[0] = FROM_COLD
    if origins[origins.size - 1] == FROM_COLD and origins.size > 1:
        origins[origins.size - 1] = FROM_HOT
    return 1 if is_back else 0


@hot
def _add_conditionals(tables: Any, state: Any, streams: Any, work: Any, sums: Any) -> None:
    """Sweep the first rung, adding the probability of every state at the moment of drawing to ``sums``."""
    place = 0
    for i in range(state.size):
        size = tables.n_states[i]
        log_densities(tables, 1.0, True, i, state, work)
        largest, total = -np.inf, 0.0
        for s in range(size):
            largest = max(largest, work[s])
        for s in range(size):
            work[s] = math.exp(work[s] - largest)
            total += work[s]
        left = uniform(streams, 0) * total
        found, is_found = 0, False
        for s in range(size):
            sums[place + s] += work[s] / total
            if work[s] > 0.0 and not is_found:
                found = s  # rounding must not lead beyond the last that is possible
                left -= work[s]
                is_found = left < 0.0
        state[i] = found
        place += size
