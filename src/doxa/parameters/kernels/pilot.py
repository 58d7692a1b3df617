r"""Which of several proposals an independence sampler should use: a pilot of a few hundred draws from each.

Two figures are compared, with p normalised: the acceptance rate in equilibrium, :math:`\int\int \min(p(x) q(y), p(y)
q(x))`, and the efficiency of importance sampling, :math:`1 / \int p^2 / q`.  The first says how often the chain moves,
the second feels the tails, where a chain sticks: a proposal that is narrow may win by the first and lose by the second.

All draws serve all proposals, weighted by the mixture of these (Hesterberg 1995), so that a proposal which misses a
part of the target is found out: its own draws alone would praise it.  All proposals are drawn with the same random
numbers, so that their differences are less noisy than they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.kernels.kernel import Target, TargetError, values_at
from doxa.parameters.kernels.splitting import best_log_c
from doxa.sampling.importance_proposals import Proposal

__all__ = ["Choice", "choose_proposal", "pilot_log_c"]

Floats: TypeAlias = NDArray[np.float64]


class Choice(NamedTuple):
    """What a pilot says."""

    number: int  # of the proposal to use
    acceptance: Floats  # (candidates,), estimated rates in equilibrium
    efficiency: Floats  # (candidates,), of importance sampling
    log_c: float  # at which the chosen proposal regenerates most often


def choose_proposal(target: Target, candidates: Sequence[Proposal], n: int, rng: np.random.Generator) -> Choice:
    """The first candidate, unless another is accepted more often, beyond the error of the difference, and as efficient.

    Parameters
    ----------
    target : Target
    candidates : sequence of Proposal
        With normalised densities; the one in use first.
    n : int
        Draws from each, all evaluated in one batch.
    rng : Generator

    Raises
    ------
    TargetError
        If no draw lies in the target's support.

    Examples
    --------
    >>> from doxa.parameters.kernels.gaussians import Normal
    >>> from doxa.parameters.kernels.kernel import Function
    >>> q = Normal(np.zeros(1), np.eye(1))
    >>> choice = choose_proposal(Function(q.log_density, 1), [q.widened(0.5), q], 200, np.random.default_rng(1))
    >>> choice.number, choice.acceptance.round(2), round(choice.log_c, 12)
    (1, array([0.61, 1.  ]), 0.0)
    """
    seed = int(rng.integers(2**63))
    draws = [np.asarray(q.sample(n, np.random.default_rng(seed)), dtype=np.float64) for q in candidates]
    thetas = np.concatenate(draws)
    log_p = values_at(target, thetas)
    log_q = np.stack([q.log_density(thetas) for q in candidates])
    log_mixture = np.logaddexp.reduce(log_q) - np.log(len(candidates))
    _check_support(log_p, candidates[0])
    p, shares = _shares(log_p - log_mixture), [_shares(one - log_mixture) for one in log_q]
    rates = [_acceptance(log_p - one, p, q) for one, q in zip(log_q, shares, strict=True)]
    inside = p > 0
    with np.errstate(divide="ignore", over="ignore"):  # a proposal with no density where the target has some: 0
        efficiency = np.array([1 / (p[inside] ** 2 / q[inside]).sum() for q in shares])
    best = 0
    for k in range(1, len(candidates)):
        gain = rates[k].influence - rates[best].influence
        error = gain.reshape(len(candidates), n).mean(axis=0).std(ddof=1) / np.sqrt(n)  # draws share their numbers
        if rates[k].value - rates[best].value > error and efficiency[k] >= efficiency[best]:
            best = k
    own = slice(best * n, (best + 1) * n)
    return Choice(best, np.array([rate.value for rate in rates]), efficiency, best_log_c(log_p[own] - log_q[best, own]))


def pilot_log_c(target: Target, proposal: Proposal, n: int, rng: np.random.Generator) -> float:
    """The log c at which the proposal regenerates most often, from ``n`` draws; TargetError if all are outside."""
    thetas = np.asarray(proposal.sample(n, rng), dtype=np.float64)
    log_p = values_at(target, thetas)
    _check_support(log_p, proposal)
    return best_log_c(log_p - proposal.log_density(thetas))


def _check_support(log_p: Floats, proposal: Proposal) -> None:
    if np.isneginf(log_p).all():
        raise TargetError(
            f"none of {log_p.size} draws from {proposal!r} lies in the target's support; give a proposal that covers it"
        )


class _Rate(NamedTuple):
    value: float
    influence: Floats  # (draws,), mean 0; the mean over another sample's draws is the error there


def _shares(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _acceptance(log_weights: Floats, p: Floats, q: Floats) -> _Rate:
    """Sum over all pairs of min(p_i q_j, p_j q_i), in the time of a sort."""
    order = np.argsort(log_weights)
    p_sorted, q_sorted = p[order], q[order]
    rows = np.empty_like(p)  # for each i, the sum over j
    rows[order] = p_sorted * (q_sorted.sum() - np.cumsum(q_sorted) + q_sorted)
    rows[order] += q_sorted * (np.cumsum(p_sorted) - p_sorted)
    value = float(rows.sum())
    return _Rate(value, p.size * (2 * rows - value * (p + q)))
