"""The way back from the largest product to the states that have it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.exact.execution import Run
from doxa.inference.exact.program import Program
from doxa.inference.exact.tree import ContractionTree

__all__ = ["MostProbable", "trace_back"]


class MostProbable(NamedTuple):
    """The states of all variables that are most probable together."""

    states: tuple[int, ...]  # [variable]; of several best, one; 0 without a factor; -1 where no state is possible
    log_value: float  # log of the product of the factors there, nats; subtract log Z for the log probability
    gap: float  # nats to the next best states; 0 (up to rounding, 1e-10 or so) where the best are not alone


def trace_back(tree: ContractionTree, program: Program, run: Run, n_states: Sequence[int]) -> MostProbable:
    """Choose the variables that each step summed out, from the last step to the first.

    When a step is reached, the variables of its result are chosen; the best choice of those it summed out is the
    largest entry of its two tables there.  Second best states differ from the best first at some step, and then at
    best take the second entry there: so the smallest distance between the two entries is the distance to the next best.
    """
    if run.log_z == -math.inf:
        return MostProbable((-1,) * len(n_states), -math.inf, 0.0)
    gap = math.inf
    chosen: dict[int, int] = {}  # position: state

    def slice_of(table: int, order: list[int]) -> NDArray[np.float64] | float:
        """Entries of a table at the chosen states, with an axis for each position in ``order``."""
        if table < 0:
            return 0.0
        scope = tree.scopes[table]
        shape = [tree.sizes[position] for position in scope]
        first = program.places[table]
        values = run.numbers[first : first + math.prod(shape)].reshape(shape)
        at = values[tuple([chosen.get(position, slice(None)) for position in scope])]
        return at.reshape([tree.sizes[position] if position in scope else 1 for position in order])

    def choose(order: list[int], left: int, right: int) -> float:
        sizes = [tree.sizes[position] for position in order]
        values = np.broadcast_to(slice_of(left, order) + slice_of(right, order), sizes).flatten()
        best = int(values.argmax())
        chosen.update(zip(order, map(int, np.unravel_index(best, sizes)), strict=True))
        value, values[best] = values[best], -np.inf
        return float(value - values.max())

    gap = min(gap, choose(list(tree.scopes[tree.root]), tree.root, -1))
    for step in reversed(tree.steps):
        scopes = {*tree.scopes[step.left], *(tree.scopes[step.right] if step.right >= 0 else ())}
        gone = sorted(scopes - set(tree.scopes[step.result]))
        if gone:
            gap = min(gap, choose(gone, step.left, step.right))
    states = [0] * len(n_states)
    for position, state in chosen.items():
        states[tree.variables[position]] = state
    return MostProbable(tuple(states), run.log_z, gap)
