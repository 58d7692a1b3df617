r"""Moments of tours, in arrays of fixed size, and how far to trust them.

Draws are in coordinates in which the proposal at hand is the standard normal, so that what moments say is how wrong it
is.  Tours are independent, so their sums also say how exact the moments are, whatever the autocorrelation.
A mean or a covariance that differs from the proposal's by less than its own error is no reason to move: a share

.. math:: \lambda = \max(0, 1 - V / D)

of each difference is taken, D being its square and V that square's expectation if there were nothing but error: the
share with the least expected squared error, once V and D stand for their expectations (Ledoit & Wolf 2004; Schäfer &
Strimmer 2005).  It is at most 1 - 1/R after R tours, as V is an estimate too: so covariances stay invertible.  Near the
standard normal, half the square of a mean and a quarter of that of a covariance are the Kullback-Leibler divergence.
The mean, the scale (the covariance's mean eigenvalue) and the shape (what remains) have a share each, for few tours
tell a scale where hundreds do not tell a shape.

Which of several proposals an independence sampler should use: a pilot of a few hundred draws from each.

Two figures are compared, with p normalised: the acceptance rate in equilibrium, :math:`\int\int \min(p(x) q(y), p(y)
q(x))`, and the efficiency of importance sampling, :math:`1 / \int p^2 / q`.  The first says how often the chain moves,
the second feels the tails, where a chain sticks: a proposal that is narrow may win by the first and lose by the second.

All draws serve all proposals, weighted by the mixture of these (Hesterberg 1995), so that a proposal which misses a
part of the target is found out: its own draws alone would praise it.  All proposals are drawn with the same random
numbers, so that their differences are less noisy than they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.parameters.kernels.kernel import Target, TargetError, values_at
from doxa.parameters.kernels.splitting import best_log_c
from doxa.sampling.importance_proposals import Proposal

__all__ = [
    "LEAST_TOURS",
    "Choice",
    "Correction",
    "TourMoments",
    "add_draws",
    "choose_proposal",
    "close_tour",
    "correction",
    "no_tours",
    "pilot_log_c",
    "sample_moments",
]


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


LEAST_TOURS = 8  # fewer say nothing of their own variance


class TourMoments(NamedTuple):
    r"""Sums over tours; :math:`T = \sum w (1, z)(1, z)^T` over a tour holds its length, its sum and its outer sum."""

    total: Floats  # (d + 1, d + 1), sum of T over complete tours
    weighted: Floats  # (d + 1, d + 1), sum of length * T
    squares: Floats  # (3,), sums of |sum z|^2, |sum z z'|^2 and (sum |z|^2)^2, each within a tour
    n_tours: int  # complete ones
    running: Floats  # (d + 1, d + 1), T so far of the tour under way


class Correction(NamedTuple):
    """How to change the standard normal, and the shares of mean, scale and shape that were taken."""

    mean: Floats  # (d,)
    covariance: Floats  # (d, d)
    shares: Floats  # (3,)


def no_tours(n_dimensions: int) -> TourMoments:
    """Before the first draw."""
    empty = np.zeros((n_dimensions + 1, n_dimensions + 1))
    return TourMoments(empty, empty, np.zeros(3), 0, empty)


def add_draws(
    moments: TourMoments, draws: Floats, starts: NDArray[np.bool_], weights: Floats | None = None
) -> TourMoments:
    """Add draws (n, d); those that begin a tour close the one before.

    With ``weights`` (n,), positive, each draw counts so much: the length of a tour is then the sum of its weights.
    """
    points = np.concatenate([np.ones((len(draws), 1)), draws], axis=1)
    if weights is not None:
        points *= np.sqrt(weights)[:, None]  # every sum below is one of products of two of them
    edges = np.flatnonzero(starts)
    if not edges.size:
        return moments._replace(running=moments.running + points.T @ points)
    head, middle, tail = points[: edges[0]], points[edges[0] : edges[-1]], points[edges[-1] :]
    moments = close_tour(moments._replace(running=moments.running + head.T @ head))
    if middle.size:
        moments = _add_tours(moments, middle, np.diff(edges))
    return moments._replace(running=tail.T @ tail)


def close_tour(moments: TourMoments) -> TourMoments:
    """End the tour under way, if there is one."""
    tour = moments.running
    if not tour[0, 0]:
        return moments
    outer = tour[1:, 1:]
    squares = np.array([(tour[0, 1:] ** 2).sum(), (outer**2).sum(), np.trace(outer) ** 2])
    return TourMoments(
        moments.total + tour,
        moments.weighted + tour[0, 0] * tour,
        moments.squares + squares,
        moments.n_tours + 1,
        np.zeros_like(tour),
    )


def _add_tours(moments: TourMoments, points: Floats, lengths: NDArray[np.intp]) -> TourMoments:
    """Whole tours, all at once."""
    first = np.cumsum(lengths) - lengths
    of_draw = np.repeat(np.arange(lengths.size), lengths)
    draws = points[:, 1:]
    same = of_draw[:, None] == of_draw
    sums = np.add.reduceat(points[:, :1] * draws, first)
    mass = np.add.reduceat(points[:, 0] ** 2, first)
    traces = np.add.reduceat((draws**2).sum(axis=1), first)
    # |sum z z'|^2 of a tour is the sum of (z_i . z_j)^2 over all its pairs
    squares = np.array([(sums**2).sum(), ((draws @ draws.T) ** 2)[same].sum(), (traces**2).sum()])
    return TourMoments(
        moments.total + points.T @ points,
        moments.weighted + (points * mass[of_draw][:, None]).T @ points,
        moments.squares + squares,
        moments.n_tours + lengths.size,
        moments.running,
    )


def sample_moments(moments: TourMoments) -> tuple[Floats, Floats]:
    """Plain mean (d,) and covariance (d, d) of the draws of complete tours, however few."""
    n = moments.total[0, 0]
    mean = moments.total[0, 1:] / n
    return mean, moments.total[1:, 1:] / n - np.outer(mean, mean)


def correction(moments: TourMoments) -> Correction:
    """The change of the standard normal that complete tours speak for; none if these are below eight."""
    d = len(moments.total) - 1
    if min(moments.n_tours, moments.total[0, 0]) < LEAST_TOURS:
        return Correction(np.zeros(d), np.eye(d), np.zeros(3))
    n = moments.total[0, 0]
    mean, second = moments.total[0, 1:] / n, moments.total[1:, 1:] / n
    noise, most = _noise(moments, mean, second), 1 - 1 / moments.n_tours
    mean_share = min(most, _share(noise[0], float(mean @ mean)))
    centre = mean_share * mean
    around = second - np.outer(mean, centre) - np.outer(centre, mean) + np.outer(centre, centre)
    size = float(np.trace(around)) / d
    scale_share = min(most, _share(noise[2] / d, d * (size - 1) ** 2))
    scale = 1 + scale_share * (size - 1)
    shape_share = min(most, _share(noise[1] - noise[2] / d, float(((around - size * np.eye(d)) ** 2).sum())))
    covariance = scale * ((1 - shape_share) * np.eye(d) + shape_share / size * around)
    return Correction(centre, covariance, np.array([mean_share, scale_share, shape_share]))


def _noise(moments: TourMoments, mean: Floats, second: Floats) -> Floats:
    """Total sampling variance of the mean, of the second moments and of their trace, from how tours differ."""
    n, lengths = moments.total[0, 0], moments.weighted[0, 0]
    trace = float(np.trace(second))
    products = np.array(
        [
            mean @ moments.weighted[0, 1:],
            (second * moments.weighted[1:, 1:]).sum(),
            trace * np.trace(moments.weighted[1:, 1:]),
        ]
    )
    own = np.array([mean @ mean, (second**2).sum(), trace**2])
    few = moments.n_tours / (moments.n_tours - 1)
    return np.asarray(np.maximum(few * (moments.squares - 2 * products + lengths * own) / n**2, 0.0))


def _share(noise: float, square: float) -> float:
    """Part of a difference to take, given its square and the square that noise alone would make."""
    return max(0.0, 1 - noise / square) if square > 0 else 0.0
