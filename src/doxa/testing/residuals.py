"""Which distribution a matrix keeps, by how much it fails to keep another, and how far two distributions are apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.testing.checks import as_numbers
from doxa.testing.finite_chain import FiniteChain

__all__ = ["detailed_balance_residual", "invariance_residual", "stationary_distribution", "total_variation"]


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
