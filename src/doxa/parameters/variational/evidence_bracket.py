r"""The log evidence of a logistic regression between two variational bounds (de Freitas et al. 2001, section 6).

From above, the logarithm of the logistic function is below each of its tangents, :math:`\log g(h) \le \lambda h -
H(\lambda)` with H the binary entropy (Jaakkola & Jordan 1997), so that the likelihood is below the exponential of a
linear function of the coefficients, whose expectation under the Gaussian prior has a closed form.  Over all
:math:`\lambda` that bound is smallest where the tangents are those at the posterior's mode (the two problems are
duals), and is then the height of likelihood times relative prior density there: it knows nothing of the posterior's
width.

So the coefficients are cut into boxes, each with tangents of its own.  With a whitened prior and axes along the
curvature of the likelihood the integral over a box is a product of one-dimensional ones, and the boxes are spent on the
axes that gain most.  Theory for a Gaussian likelihood says what is left of the gap: about 0.27 nats an axis cut in two,
0.07 in four, a quarter of it with each doubling.

The lower bound is that of the best Gaussian (`doxa.parameters.variational.optimal`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, logsumexp, ndtri

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.models.logistic_regression import LogisticRegressionProblem
from doxa.parameters.variational.bound import log_logistic
from doxa.parameters.variational.laplace import find_mode
from doxa.parameters.variational.optimal import optimal_posterior
from doxa.parameters.variational.whitened import Whitened, whiten

__all__ = ["EvidenceBracket", "evidence_bracket", "log_normal_mass"]

_CELLS = 2**22  # numbers worked on at once
_STEPS = 12
_LEFT = 1.1  # nats that K boxes leave of an axis, times K^2, for a Gaussian


class EvidenceBracket(NamedTuple):
    """Bounds on the log evidence, nats."""

    lower: float
    upper: float


def evidence_bracket(problem: LogisticRegressionProblem, *, boxes: int = 1024) -> EvidenceBracket:
    """Two numbers between which the log evidence lies for certain, but for rounding and 1e-9 a case.

    Parameters
    ----------
    problem : LogisticRegressionProblem
    boxes : int, default=1024
        At most so many boxes for the upper bound, whose cost is O(boxes rows d^2); 1 is the bound of Jaakkola & Jordan
        (1997) at its smallest. More boxes are tighter, and many coefficients need many.

    Returns
    -------
    EvidenceBracket
        ``lower`` and ``upper``, nats.

    Raises
    ------
    ArgumentError
        If ``boxes`` is below 1.

    Examples
    --------
    >>> from doxa.models.logistic_regression import make_problem
    >>> problem = make_problem([[1.0], [1.0]], [1, -1], prior_covariance=4.0)  # the log evidence is -1.8877
    >>> [round(bound, 3) for bound in evidence_bracket(problem)], round(evidence_bracket(problem, boxes=1).upper, 3)
    ([-1.889, -1.888], -1.386)
    """
    boxes = check_whole("boxes", boxes, 1)
    return EvidenceBracket(optimal_posterior(problem).log_evidence, _upper_bound(whiten(problem), boxes))


def _upper_bound(problem: Whitened, boxes: int) -> float:
    mode = find_mode(problem)
    curvature, axes = np.linalg.eigh((problem.rows * mode.weights[:, None]).T @ problem.rows)
    curvature = np.maximum(curvature, 0.0)
    turned = problem._replace(rows=problem.rows @ axes)  # the prior stays standard normal
    centre, sd = axes.T @ mode.mean, 1 / np.sqrt(1 + curvature)
    cuts = [[c + s * part for part in _cuts(k)] for c, s, k in zip(centre, sd, _allot(curvature, boxes), strict=True)]
    lows, highs, points = (np.stack(np.meshgrid(*parts, indexing="ij"), -1) for parts in zip(*cuts, strict=True))
    d = len(centre)
    terms = []
    block = max(1, _CELLS // (d * max(d, len(problem.rows))))
    for begin in range(0, lows.size // d, block):
        part = slice(begin, begin + block)
        terms.append(_smallest(turned, centre, *(edge.reshape(-1, d)[part] for edge in (lows, highs, points))))
    return float(logsumexp(np.concatenate(terms)))


class _Tangents(NamedTuple):
    """Bounds of the integrals over boxes by tangents, and the Newton steps to the points where they are smallest."""

    bound: Floats  # (boxes,), log
    change: Floats  # (boxes, d)


def _smallest(problem: Whitened, centre: Floats, low: Floats, high: Floats, point: Floats) -> Floats:
    """Smallest log bound of the integral over each box, by Newton's method over where its tangents touch.

    It is smallest where that is the mean of the bounding density in the box. Every point gives a bound, and a step that
    does not lower it is shortened, so nothing depends on convergence; as the posterior's mode is among the points, the
    sum over boxes is not above the bound of one box.
    """
    size = np.ones(len(point))
    start = np.broadcast_to(centre, point.shape)
    point, now = _better((start, _tangents(problem, low, high, start)), (point, _tangents(problem, low, high, point)))
    for _ in range(_STEPS):
        there = point + size[:, None] * now.change
        new = _tangents(problem, low, high, there)
        gain = now.bound - new.bound
        point, now = _better((point, now), (there, new))
        size = np.where(gain > 0, np.minimum(1.0, 2 * size), size / 4)
        if 0 < gain.max() < 1e-4:
            break
    return now.bound


def _better(one: tuple[Floats, _Tangents], other: tuple[Floats, _Tangents]) -> tuple[Floats, _Tangents]:
    """The lower of two bounds of each box, with its point."""
    lower = other[1].bound < one[1].bound
    bound = np.where(lower, other[1].bound, one[1].bound)
    change = np.where(lower[:, None], other[1].change, one[1].change)
    return np.where(lower[:, None], other[0], one[0]), _Tangents(bound, change)


def _tangents(problem: Whitened, low: Floats, high: Floats, point: Floats) -> _Tangents:
    logits = point @ problem.rows.T + problem.offset
    share = expit(-logits)
    slope = (share * problem.counts) @ problem.rows
    height = log_logistic(logits) @ problem.counts - (slope * point).sum(axis=1)
    low, high = low - slope, high - slope
    log_mass = log_normal_mass(low, high)
    left, right = (np.exp(-0.5 * edge**2 - 0.5 * np.log(2 * np.pi) - log_mass) for edge in (low, high))
    shift = left - right
    ends = np.where(np.isfinite(low), low, 0.0) * left - np.where(np.isfinite(high), high, 0.0) * right
    variance = np.clip(1 + ends - shift**2, 1e-9, 1.0)
    n, d = point.shape
    products = (problem.rows[:, :, None] * problem.rows[:, None, :]).reshape(-1, d * d)
    curvature = ((share * (1 - share) * problem.counts) @ products).reshape(n, d, d)
    change = np.linalg.solve(np.eye(d) + variance[:, :, None] * curvature, (slope + shift - point)[:, :, None])[:, :, 0]
    return _Tangents(height + (log_mass + slope**2 / 2).sum(axis=1), change)


def log_normal_mass(low: Floats, high: Floats) -> Floats:
    """Log probability that a standard normal lies between, elementwise; the tail that is smaller is subtracted in."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    log_high = log_ndtr(high)
    return np.asarray(log_high + np.log(-np.expm1(np.minimum(log_ndtr(low) - log_high, -1e-300))))


def _allot(curvature: Floats, boxes: int) -> list[int]:
    """Boxes of each axis: doubled where that gains most, as long as their product allows."""
    found = np.ones(len(curvature), dtype=int)
    whole = 0.5 * np.log1p(curvature)  # the gap of one box

    def left(k: NDArray[np.int_]) -> Floats:
        return np.where(k == 1, whole, np.minimum(whole, _LEFT / k.astype(float) ** 2))

    while 2 * found.prod() <= boxes:
        gain = left(found) - left(2 * found)
        if gain.max(initial=0.0) <= 0:
            break
        found[gain.argmax()] *= 2
    return found.tolist()


def _cuts(n: int) -> tuple[Floats, Floats, Floats]:
    """Lower and upper edges of ``n`` boxes of a standard normal density, and where the tangents to its log touch.

    Edges are denser in the middle, as the cube root of the density; tangents touch in the middle of a box, and of one
    without an end where its integral is smallest.
    """
    edges = np.sqrt(3) * ndtri(np.arange(n + 1) / n)
    points = np.zeros(n)
    points[1:-1] = (edges[1:-2] + edges[2:-1]) / 2
    if n > 1:
        points[-1] = (edges[-2] + np.sqrt(edges[-2] ** 2 + 4)) / 2
        points[0] = -points[-1]
    return edges[:-1], edges[1:], points
