"""`Normal`: a Gaussian proposal for kernels that refit theirs, alone or guarded against thin tails."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.parameters.kernels.targets import Target
from doxa.sampling.importance_proposals import Mixture, Proposal

__all__ = ["Normal", "Normals", "guarded", "normal_like", "normals_like"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normal:
    """A Gaussian with mean ``mean`` and covariance L L'.

    Parameters
    ----------
    mean : ndarray of float, shape (d,)
    cholesky : ndarray of float, shape (d, d)
        Lower triangular L with a positive diagonal.  Neither is checked: it comes from code that made it so.

    Examples
    --------
    >>> Normal(np.zeros(1), 2 * np.eye(1)).log_density(np.array([[0.0], [2.0]])).round(4)
    array([-1.6121, -2.1121])
    """

    mean: Floats
    cholesky: Floats

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws, shape (n, d)."""
        return np.asarray(self.mean + rng.standard_normal((n, self.mean.size)) @ self.cholesky.T)

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats) at each row of ``thetas``, shape (n, d)."""
        return np.asarray(self._log_peak - 0.5 * (self.whiten(thetas) ** 2).sum(axis=1))

    def whiten(self, thetas: Floats) -> Floats:
        """Coordinates (n, d) in which this Gaussian is the standard one."""
        return np.asarray(solve_triangular(self.cholesky, (thetas - self.mean).T, lower=True, check_finite=False).T)

    def moved(self, mean: Floats, cholesky: Floats) -> Normal:
        """The Gaussian that has this mean and factor in the whitened coordinates."""
        return Normal(self.mean + self.cholesky @ mean, self.cholesky @ cholesky)

    def widened(self, factor: float) -> Normal:
        """The same with all standard deviations ``factor`` times as large."""
        return Normal(self.mean, factor * self.cholesky)

    @cached_property
    def _log_peak(self) -> float:
        return float(-np.log(np.diag(self.cholesky)).sum() - 0.5 * self.mean.size * np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Normals:
    """A mixture of Gaussians; the Gaussian itself where there is one.

    Parameters
    ----------
    parts : tuple of Normal
    shares : ndarray of float, shape (len(parts),)
        Probability of each.
    """

    parts: tuple[Normal, ...]
    shares: Floats

    @cached_property
    def proposal(self) -> Proposal:
        """What to draw from and to evaluate."""
        return self.parts[0] if len(self.parts) == 1 else Mixture(self.parts, self.shares)

    def responsibilities(self, thetas: Floats) -> Floats:
        """Probability (n, parts) that each row was drawn from each part; above 0, however far off."""
        if len(self.parts) == 1:
            return np.ones((len(thetas), 1))
        terms = np.stack([part.log_density(thetas) for part in self.parts], axis=1) + np.log(self.shares)
        found = np.exp(terms - np.logaddexp.reduce(terms, axis=1)[:, None])
        return np.asarray(np.maximum(found, np.finfo(np.float64).tiny))

    def widened(self, factor: float) -> Normals:
        """The same with all standard deviations ``factor`` times as large."""
        return Normals(tuple(part.widened(factor) for part in self.parts), self.shares)


def guarded(normal: Proposal, wide: Proposal | None, share: float) -> Proposal:
    """A proposal, with a share of its draws from ``wide`` instead: no weight exceeds 1 / share times the other's.

    The proposal alone if there is nothing to mix, or it is ``wide`` itself.
    """
    if wide is None or not share:
        return normal
    return normal if _same(normal, wide) else Mixture([normal, wide], [1 - share, share])


def _same(one: Proposal, other: Proposal) -> bool:
    """Whether both are the same Gaussian, or mixture of Gaussians."""
    if isinstance(one, Normal) and isinstance(other, Normal):
        return np.array_equal(one.mean, other.mean) and np.array_equal(one.cholesky, other.cholesky)
    if not (isinstance(one, Mixture) and isinstance(other, Mixture) and np.array_equal(one.weights, other.weights)):
        return False
    return all(_same(a, b) for a, b in zip(one.components, other.components, strict=True))


def normals_like(proposal: GaussianProposal | Mixture, target: Target) -> Normals:
    """Gaussians as arrays of their own; ArgumentError or ArgumentTypeError if they are none for this target."""
    if not isinstance(proposal, Mixture):
        return Normals((normal_like(proposal, target),), np.ones(1))
    for part, weight in zip(proposal.components, proposal.weights, strict=True):
        check_gaussian("proposal.components", part)
        if not weight:
            raise ArgumentError("proposal.weights holds a 0; leave out a component that is never drawn from")
    parts = tuple(normal_like(part, target) for part in proposal.components)  # type: ignore[arg-type]
    return Normals(parts, np.array(proposal.weights))


def normal_like(proposal: GaussianProposal, target: Target) -> Normal:
    """The same Gaussian as arrays of its own; ArgumentError or ArgumentTypeError if it is none for this target."""
    check_gaussian("proposal", proposal)
    d = np.asarray(proposal.mean).size
    if d != target.n_dimensions:
        raise ArgumentError(f"proposal has {d} dimensions, but target has {target.n_dimensions}")
    return Normal(np.array(proposal.mean, dtype=np.float64), np.array(proposal.cholesky, dtype=np.float64))
