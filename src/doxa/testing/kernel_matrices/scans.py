"""Several kernels in one sampler, as a matrix: picked at random, or taken in turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from doxa.errors import ArgumentError
from doxa.testing.kernel_matrices.checks import Array, as_distribution, as_transition_matrix

__all__ = ["cycle_matrix", "mixture_matrix"]


def mixture_matrix(matrices: Sequence[ArrayLike], weights: ArrayLike | None = None) -> Array:
    """Transition matrix of a random scan: each step picks a kernel, kernel i with probability ``weights[i]``.

    Parameters
    ----------
    matrices : sequence of array of float, shape (n_states, n_states)
        Transition matrices.
    weights : array of float, shape (n_matrices,), optional
        Probabilities, whatever the state; equal when left out.

    Returns
    -------
    ndarray of float, shape (n_states, n_states)
        Reversible if all of them are, with the same target.

    Raises
    ------
    ArgumentError
        If there are no matrices, one is not a transition matrix, sizes differ, or the weights do not sum to 1.

    Examples
    --------
    >>> mixture_matrix([np.eye(2), [[0.0, 1.0], [1.0, 0.0]]], [0.75, 0.25])
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    kernels = _same_size(matrices)
    w = as_distribution(np.full(len(kernels), 1 / len(kernels)) if weights is None else weights, "weights")
    if len(w) != len(kernels):
        raise ArgumentError(f"weights has {len(w)} entries but there are {len(kernels)} matrices")
    return np.asarray(np.tensordot(w, np.stack(kernels), axes=1))


def cycle_matrix(matrices: Sequence[ArrayLike]) -> Array:
    """Transition matrix of a systematic scan: one step of each kernel in turn, the first of them first.

    Parameters
    ----------
    matrices : sequence of array of float, shape (n_states, n_states)
        Transition matrices.

    Returns
    -------
    ndarray of float, shape (n_states, n_states)
        Their product.  It keeps a target that all of them keep, but is seldom reversible.

    Raises
    ------
    ArgumentError
        If there are no matrices, one is not a transition matrix, or sizes differ.

    Examples
    --------
    >>> cycle_matrix([[[0.5, 0.5], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    array([[0., 1.],
           [0., 1.]])
    """
    return reduce(np.matmul, _same_size(matrices))


def _same_size(matrices: Sequence[ArrayLike]) -> list[Array]:
    if len(matrices) == 0:
        raise ArgumentError("matrices is empty; give at least one")
    kernels = [as_transition_matrix(matrix, f"matrices[{i}]") for i, matrix in enumerate(matrices)]
    for i, kernel in enumerate(kernels):
        if len(kernel) != len(kernels[0]):
            raise ArgumentError(f"matrices[{i}] has {len(kernel)} states but matrices[0] has {len(kernels[0])}")
    return kernels
