r"""Finite Markov chains as matrices: is a sampler's target really its stationary distribution?

With the states listed, a Metropolis-Hastings kernel is a matrix (Antal & Sárközy, eqs. 14 and 16)

.. math:: P_{xy} = q_{xy}\,\min\{1, \frac{\pi_y}{\pi_x} e^{h_{xy}}\} \quad (y \ne x),

where q is the law of the proposal and h the log Hastings term that the kernel uses, log q_yx - log q_xy when it is
right.  `invariance_residual` of a right kernel is 1e-16; leaving out h shows as 1e-2.  A simulation would
need millions of steps to see as much.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError

__all__ = ["Proposal", "invariance_residual", "metropolis_hastings_matrix", "proposal_matrices", "total_variation"]

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
            if key(outcome.state) not in index:
                raise ArgumentError(f"state {x} proposes {outcome.state!r}, which is not among the states")
            y = index[key(outcome.state)]
            if proposal[x, y] > 0 and not np.isclose(log_hastings[x, y], outcome.log_hastings, atol=1e-12):
                raise ArgumentError(f"state {x} proposes state {y} with two different Hastings terms")
            proposal[x, y] += outcome.probability
            log_hastings[x, y] = outcome.log_hastings
    total = proposal.sum(axis=1)
    if (total > 1 + 1e-12).any():
        raise ArgumentError(f"the proposals of state {total.argmax()} have total probability {total.max()}, above 1")
    return proposal, log_hastings


def metropolis_hastings_matrix(
    log_target: ArrayLike, proposal: ArrayLike, log_hastings: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Transition matrix of the Metropolis-Hastings kernel with this target and proposal.

    Parameters
    ----------
    log_target : array of float, shape (n_states,)
        Up to a constant.
    proposal : array of float, shape (n_states, n_states)
        Row x: probabilities of proposing y; what is missing to 1 stays at x.
    log_hastings : array of float, shape (n_states, n_states), optional
        The kernel's own log Hastings terms; the right ones, from ``proposal``, when left out.

    Returns
    -------
    ndarray of float, shape (n_states, n_states)
        Rows sum to 1.

    Examples
    --------
    >>> metropolis_hastings_matrix(np.log([0.2, 0.8]), [[0.0, 1.0], [1.0, 0.0]])
    array([[0.  , 1.  ],
           [0.25, 0.75]])
    """
    log_target = np.asarray(log_target, dtype=np.float64)
    q = np.asarray(proposal, dtype=np.float64)
    if q.shape != (log_target.size, log_target.size):
        raise ArgumentError(f"proposal has shape {q.shape} but log_target has {log_target.size} states")
    if log_hastings is None:
        with np.errstate(divide="ignore"):
            log_q = np.log(q)
        log_hastings = np.where(q > 0, log_q.T - np.where(q > 0, log_q, 0.0), 0.0)
    log_ratio = log_target[None, :] - log_target[:, None] + np.asarray(log_hastings)
    matrix = np.where(q > 0, q * np.exp(np.minimum(0.0, log_ratio)), 0.0)
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return matrix


def invariance_residual(target: ArrayLike, matrix: ArrayLike) -> float:
    """Largest entry of abs(target @ matrix - target): 0 when the chain keeps its target.

    Examples
    --------
    >>> invariance_residual([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    0.0
    """
    target, matrix = np.asarray(target, dtype=np.float64), np.asarray(matrix, dtype=np.float64)
    return float(np.abs(target @ matrix - target).max())


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Total variation distance of two distributions over the same states: half their absolute difference.

    Examples
    --------
    >>> total_variation([0.5, 0.5], [0.75, 0.25])
    0.25
    """
    return 0.5 * float(np.abs(np.asarray(p) - np.asarray(q)).sum())
