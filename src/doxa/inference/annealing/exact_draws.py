"""Exact draws of a path's target, by whatever way is cheap enough: what proven upper bounds begin with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.inference.annealing.coupling import NotCoupledError, draw_by_coupling, turn_over
from doxa.inference.annealing.elimination import draw_by_elimination, elimination_cost
from doxa.inference.annealing.path import Path
from doxa.inference.annealing.spins import SpinPath
from doxa.inference.annealing.tables import TablePath
from doxa.models.factors import Factor

__all__ = ["ExactDraws", "draw_exactly"]

_CHEAP, _MOST = 2**22, 2**25  # numbers that an elimination keeps
_MOST_VARIABLES = 1500  # finding an order takes their square
_DOUBLINGS = 8  # coupling from the past: up to 4096 sweeps


class ExactDraws(NamedTuple):
    """Draws, and how they were made; or why there are none."""

    draws: NDArray[Any] | None  # (n, n_variables)
    how: str


def draw_exactly(path: Path, n: int, rng: np.random.Generator) -> ExactDraws:
    """Draw the target: by elimination where that is cheap, by coupling from the past, by a larger elimination.

    Examples
    --------
    >>> path = SpinPath([[0, 1], [1, 2]], 0.5, [0.1, 0.0, 0.0])
    >>> found = draw_exactly(path, 4, np.random.default_rng(1))
    >>> found.draws.shape, found.how
    ((4, 3), 'elimination')
    """
    n_states, factors = _factors(path)
    narrow = len(n_states) <= _MOST_VARIABLES
    cost = elimination_cost(n_states, factors, _MOST) if narrow else _MOST + 1
    if cost <= _CHEAP:
        return ExactDraws(draw_by_elimination(n_states, factors, n, rng), "elimination")
    why = "the network is too wide for elimination"
    if isinstance(path, SpinPath) and turn_over(path.graph) is not None:
        model = path.graph.edges, path.graph.couplings, path.arrays.fields
        try:
            return ExactDraws(draw_by_coupling(*model, n, rng, doublings=_DOUBLINGS), "coupling from the past")
        except NotCoupledError as error:
            why = f"{why}, and coupling from the past too slow: {str(error).split(';')[0]}"
    if cost <= _MOST:
        return ExactDraws(draw_by_elimination(n_states, factors, n, rng, most=_MOST), "elimination")
    return ExactDraws(None, why)


def _factors(path: Path) -> tuple[list[int], list[Factor]]:
    if isinstance(path, TablePath):
        return list(path.n_states), list(path.factors)
    assert isinstance(path, SpinPath)
    same = np.array([[1.0, -1.0], [-1.0, 1.0]])
    pairs = zip(path.graph.edges.tolist(), path.graph.couplings, strict=True)
    made = [Factor((i, j), coupling * same) for (i, j), coupling in pairs]
    fields = np.multiply.outer(path.arrays.fields, [-1.0, 1.0])
    return [2] * path.n_variables, made + [Factor((i,), field) for i, field in enumerate(fields)]
