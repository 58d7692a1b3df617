r"""Metropolis-Hastings kernels as matrices, made from what they propose and from their target.

With the states listed, a Metropolis-Hastings kernel is a matrix (Antal & Sárközy, slides, eqs. 14 and 16)

.. math:: P_{xy} = q_{xy}\,\min\{1, \frac{\pi_y}{\pi_x} e^{h_{xy}}\} \quad (y \ne x),

where q is the law of the proposal and h the log Hastings term that the kernel uses, log q_yx - log q_xy when it is
right.

Errata of the slides: step 3b of the algorithm prints q_{x_t x*} twice, which is no Hastings ratio; the numerator needs
q_{x* x_t}, as eq. 14 has it.  Eq. 15 lacks a factor: pi_i p_ij = pi_i q_ij (pi_j q_ji / (pi_i q_ij)).  Above eq. 14,
"q_ij >= 0 iff q_ji >= 0" says nothing; both signs should be ">", and so should pi_i >= 0.

Also Gibbs steps, where a block of variables is drawn given all others, and several kernels mixed or taken in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.testing.checks import ROUNDING, as_distribution, as_numbers, as_transition_matrix, check_not_negative

__all__ = [
    "Proposal",
    "cycle_matrix",
    "gibbs_matrix",
    "independence_rate",
    "metropolis_hastings_matrix",
    "mixture_matrix",
    "proposal_matrices",
]


def gibbs_matrix(joint: ArrayLike, block: int | Sequence[int], require_positive: bool = True) -> Floats:
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


def mixture_matrix(matrices: Sequence[ArrayLike], weights: ArrayLike | None = None) -> Floats:
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


def cycle_matrix(matrices: Sequence[ArrayLike]) -> Floats:
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


def _same_size(matrices: Sequence[ArrayLike]) -> list[Floats]:
    if len(matrices) == 0:
        raise ArgumentError("matrices is empty; give at least one")
    kernels = [as_transition_matrix(matrix, f"matrices[{i}]") for i, matrix in enumerate(matrices)]
    for i, kernel in enumerate(kernels):
        if len(kernel) != len(kernels[0]):
            raise ArgumentError(f"matrices[{i}] has {len(kernel)} states but matrices[0] has {len(kernels[0])}")
    return kernels


State = TypeVar("State")


class Proposal(NamedTuple, Generic[State]):
    """One outcome of a proposal: where to, how probably, and the log Hastings term that the kernel would use."""

    state: State
    probability: float
    log_hastings: float  # log q(old | new) - log q(new | old)


def proposal_matrices(
    states: Sequence[State], proposals: Callable[[State], Iterable[Proposal[State]]], key: Callable[[State], Hashable]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """List a kernel's proposals over all states.

    Parameters
    ----------
    states : sequence
        All states of the chain.
    proposals : callable
        From a state to its `Proposal` outcomes; probabilities sum to at most 1, the rest stays.
    key : callable
        From a state to something hashable that tells states apart.

    Returns
    -------
    proposal, log_hastings : ndarray of float, shape (n_states, n_states)
        ``[x, y]``: probability of proposing y from x, and the kernel's log Hastings term (0 where never proposed).

    Raises
    ------
    ArgumentError
        If an outcome is not among ``states``, probabilities sum to more than 1, or two outcomes that lead to
        the same state disagree about the Hastings term.

    Examples
    --------
    >>> q, h = proposal_matrices([0, 1], lambda x: [Proposal(1 - x, 1.0, 0.0)], key=int)
    >>> q
    array([[0., 1.],
           [1., 0.]])
    """
    index = {key(state): number for number, state in enumerate(states)}
    proposal = np.zeros((len(states), len(states)))
    log_hastings = np.zeros_like(proposal)
    for x, state in enumerate(states):
        for outcome in proposals(state):
            y = index.get(key(outcome.state), -1)
            if y < 0:
                raise ArgumentError(f"state {x} proposes {outcome.state!r}, which is not among the states")
            known, told = log_hastings[x, y], outcome.log_hastings
            if proposal[x, y] > 0 and not math.isclose(known, told, rel_tol=1e-5, abs_tol=1e-12):
                raise ArgumentError(f"state {x} proposes state {y} with two different Hastings terms")
            proposal[x, y] += outcome.probability
            log_hastings[x, y] = outcome.log_hastings
    total = proposal.sum(axis=1)
    if (total > 1 + 1e-12).any():
        raise ArgumentError(f"the proposals of state {total.argmax()} have total probability {total.max()}, above 1")
    return proposal, log_hastings


def metropolis_hastings_matrix(
    log_target: ArrayLike, proposal: ArrayLike, log_hastings: ArrayLike | None = None
) -> Floats:
    """Transition matrix of the Metropolis-Hastings kernel with this target and proposal (eqs. 14 and 16).

    Parameters
    ----------
    log_target : array of float, shape (n_states,)
        Up to a constant; -inf where the target is 0.
    proposal : array of float, shape (n_states, n_states)
        Row x: probabilities of proposing y; what is missing to 1 stays at x.
    log_hastings : array of float, shape (n_states, n_states), optional
        The kernel's own log Hastings terms; the right ones, from ``proposal``, when left out.

    Returns
    -------
    ndarray of float, shape (n_states, n_states)
        Rows sum to 1.  0/0 is 0, as the slides have it: between two states of probability 0 nothing is accepted.

    Raises
    ------
    ArgumentError
        If the shapes do not agree, or an argument is not as stated.

    Examples
    --------
    >>> metropolis_hastings_matrix(np.log([0.2, 0.8]), [[0.0, 1.0], [1.0, 0.0]])
    array([[0.  , 1.  ],
           [0.25, 0.75]])
    """
    log_target = as_numbers(log_target, "log_target", finite=False)
    q = as_numbers(proposal, "proposal")
    if log_target.ndim != 1 or q.shape != (log_target.size, log_target.size):
        raise ArgumentError(f"proposal has shape {q.shape} but log_target has {log_target.size} states")
    if not (log_target < np.inf).all():
        where = int(np.argmin(log_target < np.inf))
        raise ArgumentError(f"log_target[{where}] is {log_target[where]}; log probabilities are below infinity")
    if not (log_target > -np.inf).any():
        raise ArgumentError("log_target is -inf everywhere; at least one state has a probability")
    check_not_negative(q, "proposal")
    if (total := q.sum(axis=1)).max() > 1 + ROUNDING:
        raise ArgumentError(f"row {total.argmax()} of proposal sums to {total.max():.10g}, above 1")
    if log_hastings is None:
        with np.errstate(divide="ignore"):
            log_q = np.log(q)
        log_hastings = np.where(q > 0, log_q.T - np.where(q > 0, log_q, 0.0), 0.0)
    h = as_numbers(log_hastings, "log_hastings", finite=False)
    if h.shape != q.shape:
        raise ArgumentError(f"log_hastings has shape {h.shape} but proposal has shape {q.shape}")
    if np.isnan(h[q > 0]).any():
        x, y = np.argwhere(np.isnan(h) & (q > 0))[0].tolist()
        raise ArgumentError(f"log_hastings[{x}, {y}] is nan, though state {x} proposes state {y}")
    x, y = np.nonzero(q)
    with np.errstate(invalid="ignore"):
        log_ratio = log_target[y] - log_target[x] + h[x, y]
    log_ratio[np.isnan(log_ratio)] = -np.inf  # 0/0 is 0
    matrix = np.zeros_like(q)
    matrix[x, y] = q[x, y] * np.exp(np.minimum(0.0, log_ratio))
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, np.maximum(0.0, 1.0 - matrix.sum(axis=1)))
    return matrix


def independence_rate(target: ArrayLike, proposal: ArrayLike) -> float:
    r"""Rate of convergence of an independence sampler: 1 - min q(x) / pi(x).

    Parameters
    ----------
    target, proposal : array of float, shape (n_states,)
        Distributions pi and q; states where pi is 0 are left out of the minimum.

    Returns
    -------
    float
        0 when q is pi; 1, no convergence, when the proposal misses a state of the target.

    Raises
    ------
    ArgumentError
        If one of them is not a distribution, or their lengths differ.

    Notes
    -----
    The slides, below eq. 16, have "determined by inf q(x)/pi(x)".  Mengersen & Tweedie (1996, theorem 2.1): from any
    start the total variation distance after t steps is at most this rate to the power t, since each step is, with
    probability min q/pi, a draw from pi.  Liu (1996): it is the second largest eigenvalue of the Metropolis-Hastings
    matrix, so no better rate holds.  Indeed, let f indicate the state z where q/pi is least.  Moves to z are always
    accepted and those from z to y with pi_y q_z / (pi_z q_y), so Pf = q_z + (1 - q_z/pi_z) f.

    Examples
    --------
    >>> round(independence_rate([0.2, 0.8], [0.5, 0.5]), 12)
    0.375
    """
    pi = as_distribution(target, "target")
    q = as_distribution(proposal, "proposal", len(pi))
    return max(0.0, 1.0 - float((q[pi > 0] / pi[pi > 0]).min()))
