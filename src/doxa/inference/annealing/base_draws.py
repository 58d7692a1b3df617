"""Draws of distributions that an annealing path can begin with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError

__all__ = ["draw_directed", "draw_independent", "read_independent"]

Floats = NDArray[np.float64]
States = NDArray[np.int32]
Conditional = tuple[int, tuple[int, ...], Floats]  # child, variables of the axes, log probabilities


def read_independent(base: Sequence[ArrayLike], n_states: Sequence[int]) -> list[Floats]:
    """Probabilities by variable, checked and normalised."""
    if len(base) != len(n_states):
        raise ArgumentError(f"base has {len(base)} entries; it must have one for each of the {len(n_states)} variables")
    found = []
    for i, (values, size) in enumerate(zip(base, n_states, strict=True)):
        p = np.asarray(values, dtype=np.float64)
        if p.shape != (size,) or not (p > 0).all() or not np.isfinite(p).all():
            raise ArgumentError(
                f"base[{i}] is {p.tolist()}; it must be {size} positive probabilities: a state that the base never "
                "draws would never be reached"
            )
        found.append(p / p.sum())
    return found


def draw_independent(n: int, probabilities: Sequence[Floats], rng: np.random.Generator) -> States:
    """Rows of states (n, n_variables).

    Examples
    --------
    >>> draw_independent(4, [np.array([0.5, 0.5]), np.array([1e-9, 1 - 1e-9])], np.random.default_rng(0)).tolist()
    [[1, 1], [0, 1], [0, 1], [0, 1]]
    """
    columns = [_pick(np.broadcast_to(p, (n, len(p))), rng) for p in probabilities]
    return np.ascontiguousarray(np.stack(columns, axis=1).astype(np.int32))


def draw_directed(n: int, n_variables: int, conditionals: Sequence[Conditional], rng: np.random.Generator) -> States:
    """Rows of states, every variable given its parents; the order of the conditionals does not matter.

    Examples
    --------
    >>> same = np.log([[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]])
    >>> coin = np.log([0.5, 0.5])
    >>> rows = draw_directed(4, 2, [(1, (0, 1), same), (0, (0,), coin)], np.random.default_rng(0))
    >>> bool((rows[:, 0] == rows[:, 1]).all())
    True
    """
    states = np.zeros((n, n_variables), dtype=np.int32)
    waiting = {child: (variables, log_p) for child, variables, log_p in conditionals}
    while waiting:
        ready = [c for c, (variables, _) in waiting.items() if all(v == c or v not in waiting for v in variables)]
        if not ready:
            raise ArgumentError(f"base has a cycle through variables {sorted(waiting)}; it must be a directed network")
        for child in ready:
            variables, log_p = waiting.pop(child)
            last = np.moveaxis(log_p, variables.index(child), -1)
            rows = np.exp(last[tuple(states[:, v] for v in variables if v != child)])
            states[:, child] = _pick(np.broadcast_to(rows, (n, last.shape[-1])), rng)
    return states


def _pick(rows: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """A column for each row, with probabilities in proportion to its entries."""
    sums = np.cumsum(rows, axis=1)
    u = rng.random((len(rows), 1)) * sums[:, -1:]
    return np.asarray(np.minimum((sums <= u).sum(axis=1), rows.shape[1] - 1))
