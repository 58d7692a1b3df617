"""Compiled loops of `doxa.inference.annealing.tables`: heat bath on tables at any inverse temperature.

The log density of a state is a sum over tables of ``low[cell] + beta * rise[cell]``.  A *link* joins a variable to a
table that it is in: the cell of state s is ``at + s * stride`` plus the strides of the table's other variables.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from doxa._jit import hot, inlined
from doxa.inference.spins.words import uniform

__all__ = ["anneal_tables", "cool_tables", "log_densities", "log_parts", "stay_tables", "sweep_tables"]


@hot
def anneal_tables(
    tables: Any,
    betas: Any,
    is_reversed: bool,
    sweeps: int,
    states: Any,
    streams: Any,
    work: Any,
    log_weights: Any,
    sums: Any,
) -> None:
    """Take particles, the rows of ``states``, along ``betas``, in place.

    Log weights grow by the log of the ratio of two neighbouring distributions, the one of larger beta above.  Row k of
    ``sums`` gets the sum of the log weights after step k, counted from their first values, and that of their squares.
    """
    n = log_weights.size
    first = log_weights[0]
    for k in range(1, betas.size):
        step = abs(betas[k] - betas[k - 1])
        for p in range(n):
            _, rise, _ = log_parts(tables, states[p])
            log_weights[p] += step * rise
            sums[k - 1, 0] += log_weights[p] - first
            sums[k - 1, 1] += (log_weights[p] - first) ** 2
            if k < betas.size - 1:
                for _ in range(sweeps):
                    sweep_tables(tables, betas[k], False, is_reversed, states[p], streams, p & 7, work)


@hot
def stay_tables(tables: Any, n_sweeps: int, states: Any, streams: Any, work: Any) -> None:
    """Sweep particles at beta = 1, zeros and all; those at a zero stay where they are."""
    for p in range(states.shape[0]):
        if not log_parts(tables, states[p])[2]:
            for _ in range(n_sweeps):
                sweep_tables(tables, 1.0, True, False, states[p], streams, p & 7, work)


@hot
def log_parts(tables: Any, state: Any) -> Any:
    """Sums of ``low`` and of ``rise`` over all tables, and whether a cell is one of the zeros."""
    low, rise, is_zero = 0.0, 0.0, False
    for f in range(tables.first.size):
        cell = tables.first[f]
        for e in range(tables.scope_starts[f], tables.scope_starts[f + 1]):
            cell += tables.scope_strides[e] * state[tables.scopes[e]]
        low += tables.low[cell]
        rise += tables.rise[cell]
        is_zero = is_zero or tables.zero[cell]
    return low, rise, is_zero


@hot
def sweep_tables(
    tables: Any, beta: float, is_exact: bool, is_reversed: bool, state: Any, streams: Any, k: int, work: Any
) -> None:
    """Draw every variable given the others: in order, or in the opposite order, which is the reversal of that.

    ``is_exact``: zeros are zeros; the state must be possible then.
    """
    n = state.size
    for t in range(n):
        i = n - 1 - t if is_reversed else t
        size = tables.n_states[i]
        log_densities(tables, beta, is_exact, i, state, work)
        largest = work[0]
        for s in range(1, size):
            largest = max(largest, work[s])
        total, last = 0.0, 0
        for s in range(size):
            p = math.exp(work[s] - largest)
            if p > 0.0:
                last = s  # rounding must not lead beyond it
            total += p
            work[s] = total
        u = uniform(streams, k) * total
        s = 0
        while s < last and work[s] <= u:
            s += 1
        state[i] = s


@inlined
def log_densities(tables: Any, beta: float, is_exact: bool, i: int, state: Any, work: Any) -> None:
    """Log density of every state of variable ``i`` given the others, up to a constant, into ``work``."""
    size = tables.n_states[i]
    for s in range(size):
        work[s] = 0.0
    for link in range(tables.starts[i], tables.starts[i + 1]):
        cell, stride = tables.at[link], tables.strides[link]
        for e in range(tables.other_starts[link], tables.other_starts[link + 1]):
            cell += tables.other_strides[e] * state[tables.others[e]]
        for s in range(size):
            if is_exact and tables.zero[cell]:
                work[s] = -np.inf
            work[s] += tables.low[cell] + beta * tables.rise[cell]
            cell += stride


@hot
def cool_tables(tables: Any, betas: Any, states: Any, streams: Any, work: Any) -> None:
    """Sweep particles once at every beta, then let them fall to the next local maximum."""
    for p in range(states.shape[0]):
        for k in range(betas.size):
            sweep_tables(tables, betas[k], False, False, states[p], streams, p & 7, work)
        while _descend(tables, states[p], work):
            pass


@hot
def _descend(tables: Any, state: Any, work: Any) -> bool:
    """Put every variable into its best state given the others, at beta = 1; whether any changed."""
    changed = False
    for i in range(state.size):
        log_densities(tables, 1.0, False, i, state, work)
        best = state[i]
        for s in range(tables.n_states[i]):
            if work[s] > work[best]:
                best = s
        if best != state[i]:
            state[i] = np.int32(best)
            changed = True
    return changed
