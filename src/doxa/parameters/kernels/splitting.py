r"""Where an independence chain forgets its past: splitting (Mykland, Tierney & Yu 1995, theorem 3).

With proposal q, target p (known up to a constant) and weights w = p / q, a step of independence Metropolis-Hastings
moves from x to y with density :math:`q(y) \min(1, w(y) / w(x)) \ge s(x) \tilde\nu(y)` for any c > 0, where

.. math:: s(x) = \min(1, c / w(x)), \qquad \tilde\nu(y) = q(y) \min(1, w(y) / c)

(de Freitas et al. 2001, eqs. 13 and 16).  So an accepted move was, with probability :math:`s(x) \tilde\nu(y)` over that
density, a draw from :math:`\nu = \tilde\nu / \tilde\nu(\Theta)`, whatever x was: the chain regenerates there, and
what comes after is independent of what came before.

With :math:`M(c) = \int \min(p, cq)` and :math:`Z = \int p`, the mean of s is M / Z and :math:`\tilde\nu(\Theta) = M /
c`, so in equilibrium a step regenerates with probability :math:`M^2 / cZ`.  The paper's mean tour, one over the mean of
s, leaves out :math:`\tilde\nu(\Theta)` (their eq. 16 does not normalise it).  The probability is largest where
:math:`c \int_{w > c} q = \int_{w < c} p`: there M = 2 c Q(w > c).

The paper's c, half the weight at the mode, is far below that where q is narrower than p, as Jaakkola-Jordan Gaussians
are: weights are smallest at the mode then.  In 20 dimensions one step in 30 regenerated where one in four could.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.parameters.kernels.kernel import Target, Walkers, values_at
from doxa.sampling.importance_proposals import Proposal

__all__ = ["Atom", "best_log_c", "log_nu", "log_s", "regeneration_probability"]

_FIRST_BATCH, _LARGEST_BATCH = 8, 1024  # of proposals in rejection sampling
_MOST_TRIES = 2**15


def log_s(log_weights: ArrayLike, log_c: float) -> Floats:
    """Log of s, min(1, c / w), at states of these log weights."""
    return np.minimum(0.0, log_c - np.asarray(log_weights, dtype=np.float64))


def log_nu(log_weights: ArrayLike, log_c: float) -> Floats:
    """Log of the density of nu relative to q, min(1, w / c), not normalised (eq. 16)."""
    return np.minimum(0.0, np.asarray(log_weights, dtype=np.float64) - log_c)


def regeneration_probability(old: ArrayLike, new: ArrayLike, log_c: float) -> Floats:
    r"""Probability that an accepted move between states of log weights ``old`` and ``new`` was a regeneration (eq. 17).

    c over the smaller weight where both are above c, the larger weight over c where both are below, else 1.

    Examples
    --------
    >>> regeneration_probability(np.log([4.0, 0.5, 4.0]), np.log([2.0, 0.25, 0.5]), 0.0).round(12)
    array([0.5, 0.5, 1. ])
    """
    log_accept = np.minimum(0.0, np.asarray(new, dtype=np.float64) - np.asarray(old, dtype=np.float64))
    return np.asarray(np.exp(log_s(old, log_c) + log_nu(new, log_c) - log_accept))


def best_log_c(log_weights: ArrayLike) -> float:
    """The log c at which regeneration is most frequent, from log weights of draws from the proposal.

    Parameters
    ----------
    log_weights : array_like of float, shape (n,)
        Nats; at least one finite, minus infinity outside the target's support.

    Examples
    --------
    >>> round(best_log_c(np.log([1.0, 2.0, 3.0, 10.0])), 6)
    1.098612
    """
    ordered = np.sort(np.asarray(log_weights, dtype=np.float64))
    top = ordered[-1]
    weights = np.exp(ordered - top)
    n_above = np.arange(ordered.size - 1, -1, -1)
    overlap = np.cumsum(weights) + weights * n_above  # n M(c) at c = each weight; in between M^2 / c is convex
    with np.errstate(divide="ignore", invalid="ignore"):
        log_rate = np.where(weights > 0, 2 * np.log(overlap) - np.log(weights), -np.inf)
    return float(ordered[int(log_rate.argmax())])


@dataclass(frozen=True, eq=False)
class Atom:
    """A proposal and a constant c: all that makes a regeneration.

    Parameters
    ----------
    proposal : Proposal
    log_c : float
        Nats, on the scale of target over proposal.

    Raises
    ------
    ArgumentError
        If ``log_c`` is not finite.
    """

    proposal: Proposal
    log_c: float

    def __post_init__(self) -> None:
        """Refuse a c of 0 or infinity."""
        if not isfinite(self.log_c):
            raise ArgumentError(f"log_c is {self.log_c!r}; it must be finite, a log weight of target over proposal")

    def log_weights(self, thetas: Floats, log_density: Floats) -> Floats:
        """Log weights of points (n, d) with these log densities (n,) under the target."""
        return np.asarray(log_density - self.proposal.log_density(thetas))

    def draw(self, target: Target, rng: np.random.Generator) -> Walkers | None:
        """One draw from nu by rejection (figure 10), as one walker; None if 2^15 proposals were refused."""
        size, tried = _FIRST_BATCH, 0
        while tried < _MOST_TRIES:
            thetas = np.asarray(self.proposal.sample(size, rng), dtype=np.float64)
            values = values_at(target, thetas)
            taken = np.log1p(-rng.random(size)) < log_nu(self.log_weights(thetas, values), self.log_c)
            if taken.any():
                first = int(taken.argmax())
                return Walkers(thetas[first : first + 1], values[first : first + 1])
            tried += size
            size = min(2 * size, _LARGEST_BATCH)
        return None
