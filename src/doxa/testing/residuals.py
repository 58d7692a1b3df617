"""Which distribution a matrix keeps, by how much it fails to keep another, and how far two distributions are apart.

`simulated_invariance` tells whether a kernel keeps a distribution by running it: for kernels whose matrix nobody can
write down.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.testing.checks import as_distribution, as_numbers
from doxa.testing.finite_chain import FiniteChain

__all__ = [
    "detailed_balance_residual",
    "invariance_residual",
    "simulated_invariance",
    "stationary_distribution",
    "total_variation",
]


def stationary_distribution(matrix: ArrayLike) -> Floats:
    """The stationary distribution of a transition matrix: `FiniteChain.stationary`.

    Parameters
    ----------
    matrix : array of float, shape (n_states, n_states)
        Rows sum to 1.

    Returns
    -------
    ndarray of float, shape (n_states,)
        Sums to 1; 0 on transient states.

    Raises
    ------
    ArgumentError
        If the matrix is not a transition matrix, or has several closed classes.

    Examples
    --------
    >>> stationary_distribution([[0.9, 0.1], [0.3, 0.7]])
    array([0.75, 0.25])
    """
    return FiniteChain(matrix).stationary


def invariance_residual(target: ArrayLike, matrix: ArrayLike) -> float:
    """Largest entry of abs(target @ matrix - target): 0 when the chain keeps its target (definition 2).

    Parameters
    ----------
    target : array of float, shape (n_states,)
        A distribution.
    matrix : array of float, shape (n_states, n_states)
        A transition matrix.

    Returns
    -------
    float
        About 1e-16 for a right kernel.

    Raises
    ------
    ArgumentError
        If the shapes do not agree, or a number is not finite.

    Examples
    --------
    >>> invariance_residual([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    0.0
    """
    target, matrix = _target_and_matrix(target, matrix)
    return float(np.abs(target @ matrix - target).max())


def detailed_balance_residual(target: ArrayLike, matrix: ArrayLike) -> float:
    """Largest difference between the flows x to y and y to x: 0 when eq. 13 holds.

    That is more than invariance: a cycle of reversible kernels keeps its target without being reversible.

    Parameters
    ----------
    target : array of float, shape (n_states,)
        A distribution.
    matrix : array of float, shape (n_states, n_states)
        A transition matrix.

    Returns
    -------
    float
        Largest abs(target[x] matrix[x, y] - target[y] matrix[y, x]).

    Raises
    ------
    ArgumentError
        If the shapes do not agree, or a number is not finite.

    Examples
    --------
    >>> detailed_balance_residual([0.75, 0.25], [[0.9, 0.1], [0.3, 0.7]]) < 1e-16
    True
    """
    target, matrix = _target_and_matrix(target, matrix)
    flow = target[:, None] * matrix
    return float(np.abs(flow - flow.T).max())


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Total variation distance of two distributions over the same states: half their absolute difference.

    Parameters
    ----------
    p, q : array of float, of the same shape
        Distributions.

    Returns
    -------
    float
        Between 0 and 1: the largest difference in the probability of any event.

    Raises
    ------
    ArgumentError
        If the shapes differ.

    Examples
    --------
    >>> total_variation([0.5, 0.5], [0.75, 0.25])
    0.25
    """
    p, q = np.asarray(p), np.asarray(q)
    if p.shape != q.shape:
        raise ArgumentError(f"p has shape {p.shape} but q has {q.shape}; they are distributions over the same states")
    return 0.5 * float(np.abs(p - q).sum())


def _target_and_matrix(target: ArrayLike, matrix: ArrayLike) -> tuple[Floats, Floats]:
    p = as_numbers(matrix, "matrix")
    if p.ndim != 2 or p.shape[0] != p.shape[1]:
        raise ArgumentError(f"matrix has shape {p.shape}; a transition matrix is square")
    return as_numbers(target, "target", len(p)), p


_EXPECTED = 5.0  # starts: states with fewer are counted together


def simulated_invariance(
    step: Callable[[int, np.random.Generator], int], target: ArrayLike, n: int = 20_000, seed: int = 0
) -> float:
    """Start a kernel in draws from its target, move each once, and test whether they are such draws still.

    Parameters
    ----------
    step : callable
        From the number of a state and a random generator to the number of the next state.
    target : array of float, shape (n_states,)
        The distribution that the kernel is to keep.
    n : int, default=20_000
        Starts.  A kernel that moves a share d of the probability from where it belongs is seen once n d^2 is some
        tens.
    seed : int, default=0

    Returns
    -------
    float
        p-value of the chi-square test: uniform on (0, 1) for a right kernel, next to 0 for a wrong one.

    Raises
    ------
    ArgumentError
        If the target is no distribution, or the kernel leaves its states.

    Examples
    --------
    A Metropolis kernel that proposes the other of two states, and one that forgets to reject:

    >>> def right(state, rng):
    ...     return 1 - state if rng.random() < min(1.0, (0.2, 0.8)[1 - state] / (0.2, 0.8)[state]) else state
    >>> simulated_invariance(right, [0.2, 0.8]) > 0.001
    True
    >>> simulated_invariance(lambda state, rng: 1 - state, [0.2, 0.8]) < 1e-9
    True
    """
    from scipy.special import chdtrc

    law = as_distribution(target, "target")
    rng = np.random.default_rng(seed)
    ends = np.zeros(len(law))
    for state in rng.choice(len(law), size=n, p=law).tolist():
        end = step(state, rng)
        if not 0 <= end < len(law):
            raise ArgumentError(f"step led from state {state} to {end!r}, which is not among the {len(law)} states")
        ends[end] += 1
    order = np.argsort(-law)
    common = order[n * law[order] >= _EXPECTED]
    found, expected = ends[common], n * law[common]
    rest = n - expected.sum()
    if rest > 0:
        found, expected = np.append(found, n - found.sum()), np.append(expected, rest)
    if len(expected) < 2:
        raise ArgumentError("target has nearly all its probability in one state; there is nothing to compare")
    return float(chdtrc(len(expected) - 1, ((found - expected) ** 2 / expected).sum()))
