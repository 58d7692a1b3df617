"""How fast a finite chain reaches its stationary distribution: by its eigenvalues, and by counting steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.testing.chain_theory.classes import CommunicatingClass
from doxa.testing.chain_theory.elimination import eliminate, stationary_law
from doxa.testing.kernel_matrices.checks import Array

__all__ = ["distances_by_step", "in_balance", "laws_after", "sorted_eigenvalues", "steps_to_mix"]

REVERSIBLE = 1e-9  # relative: elimination gives each stationary probability to some n * 1e-16


def in_balance(pi: Array, matrix: Array) -> bool:
    """Does the stationary flow from x to y equal that from y to x, for every pair of states?"""
    flow = pi[:, None] * matrix
    return bool((np.abs(flow - flow.T) <= REVERSIBLE * np.maximum(flow, flow.T)).all())


def sorted_eigenvalues(matrix: Array, classes: Iterable[CommunicatingClass]) -> NDArray[np.inexact[Any]]:
    """Eigenvalues, class by class, then sorted: largest modulus first."""
    values = np.concatenate([_class_eigenvalues(matrix, one) for one in classes])
    return values[np.lexsort((-values.real, -np.abs(values).round(12)))]


def _class_eigenvalues(matrix: Array, one: CommunicatingClass) -> NDArray[np.inexact[Any]]:
    block = matrix[np.ix_(one.states, one.states)]
    if one.closed and in_balance(stationary_law(eliminate(block)[0]), block):
        return np.linalg.eigvalsh(np.sqrt(block * block.T))
    return np.linalg.eigvals(block)


def distances_by_step(matrix: Array, stationary: Array, laws: Array, n_steps: int) -> Array:
    """Distance from the stationary distribution after 0, 1, ..., ``n_steps`` steps, of the worst row of ``laws``."""
    distances = np.empty(n_steps + 1)
    for step in range(n_steps + 1):
        distances[step] = _distance(laws, stationary)
        laws = _row_normalised(laws @ matrix)
    return distances


def laws_after(matrix: Array, laws: Array, n_steps: int) -> Array:
    """The rows of ``laws``, distributions, after that many steps: by squaring, rows kept at a sum of 1."""
    power, left = matrix, n_steps
    while left:
        if left % 2:
            laws = _row_normalised(laws @ power)
        left //= 2
        if left:
            power = _row_normalised(power @ power)
    return laws


def steps_to_mix(matrix: Array, stationary: Array, epsilon: float, max_steps: int) -> int:
    """First step at which all rows of the power are within ``epsilon``, of a chain that is known to converge."""
    if _distance(np.eye(len(matrix)), stationary) <= epsilon:
        return 0
    powers, steps = [matrix], 1  # of 1, 2, 4, ... steps
    while (distance := _distance(powers[-1], stationary)) > epsilon:
        if steps >= max_steps:
            raise ArgumentError(f"after {steps} steps the distance is still {distance:.3g}, above epsilon={epsilon}")
        powers.append(_row_normalised(powers[-1] @ powers[-1]))
        steps *= 2
    below, law = 0, np.eye(len(matrix))  # `below` steps are too few
    for exponent in range(len(powers) - 2, -1, -1):
        further = _row_normalised(law @ powers[exponent])
        if _distance(further, stationary) > epsilon:
            below, law = below + 2**exponent, further
    if below + 1 > max_steps:
        raise ArgumentError(f"the chain needs {below + 1} steps, above max_steps={max_steps}")
    return below + 1


def _distance(laws: Array, stationary: Array) -> float:
    """Largest total variation distance of the rows from the stationary distribution."""
    return 0.5 * float(np.abs(laws - stationary).sum(axis=1).max())


def _row_normalised(laws: Array) -> Array:
    scaled: Array = laws / laws.sum(axis=1, keepdims=True)
    return scaled
