"""Several kernels in one sampler, as a matrix: picked at random, or taken in turn.

Gibbs steps as matrices: a block of variables is drawn given all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from doxa.errors import ArgumentError
from doxa.testing.checks import (
    Array,
    as_distribution,
    as_numbers,
    as_transition_matrix,
    check_not_negative,
)

__all__ = ["cycle_matrix", "gibbs_matrix", "mixture_matrix"]


def gibbs_matrix(joint: ArrayLike, block: int | Sequence[int], require_positive: bool = True) -> Array:
    """Transition matrix of one Gibbs step: draw a block of variables, given all others.

    Parameters
    ----------
    joint : array of float
        The target, up to a constant: one axis a variable, as long as the variable has values.
    block : int or sequence of int
        The variables, that is axes, to draw; all of them is an independent draw.
    require_positive : bool, default=True
        Refuse a target with zeros.  When False, a state whose conditional distribution is 0/0 stays where it is;
        `FiniteChain.classes` then shows what the sampler can reach.

    Returns
    -------
    ndarray of float, shape (joint.size, joint.size)
        States are numbered as in ``joint.ravel()``.

    Raises
    ------
    ArgumentError
        If ``joint`` is negative, 0 everywhere or 0 at a state, or ``block`` does not name variables.

    Notes
    -----
    A step moves in its block alone: a sampler takes several in turn (`cycle_matrix`) or one at random
    (`mixture_matrix`).  Each keeps the target (Riggelsen, 2.1.4: the Metropolis-Hastings ratio is 1), but together they
    are sure to reach every state only if p(x) > 0 everywhere.

    Examples
    --------
    >>> gibbs_matrix([[0.4, 0.1], [0.1, 0.4]], block=1)
    array([[0.8, 0.2, 0. , 0. ],
           [0.8, 0.2, 0. , 0. ],
           [0. , 0. , 0.2, 0.8],
           [0. , 0. , 0.2, 0.8]])
    """
    p = as_numbers(joint, "joint")
    check_not_negative(p, "joint")
    if p.ndim == 0 or not p.any():
        raise ArgumentError("joint has no probability in it; give an array with one axis a variable")
    if require_positive and not p.all():
        where = np.argwhere(p == 0)[0].tolist()
        raise ArgumentError(
            f"joint{where} is 0: Gibbs steps need p(x) > 0 to be sure of reaching every state; "
            "require_positive=False builds the matrix all the same, to look at its classes"
        )
    axes = _block_axes(block, p.ndim)
    numbers = np.arange(p.size).reshape(p.shape)
    n_values = int(np.prod([p.shape[axis] for axis in axes]))
    groups = np.moveaxis(numbers, axes, range(p.ndim - len(axes), p.ndim)).reshape(-1, n_values)
    weight = p.ravel()[groups]
    total = weight.sum(axis=1)
    matrix = np.eye(p.size)
    for group, conditional in zip(groups[total > 0], weight[total > 0] / total[total > 0, None], strict=True):
        matrix[np.ix_(group, group)] = conditional
    return matrix


def _block_axes(block: int | Sequence[int], n_variables: int) -> list[int]:
    axes = [int(block)] if isinstance(block, int | np.integer) else [int(axis) for axis in block]
    if not axes:
        raise ArgumentError("block is empty; a Gibbs step draws at least one variable")
    for axis in axes:
        if not 0 <= axis < n_variables:
            raise ArgumentError(f"block has variable {axis}; the variables of joint are 0..{n_variables - 1}")
        if axes.count(axis) > 1:
            raise ArgumentError(f"block has variable {axis} twice")
    return axes


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
