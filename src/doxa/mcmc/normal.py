"""`Normal` and `Guarded`: Gaussian proposals for kernels that refit theirs, alone and guarded against thin tails."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.errors import ArgumentError
from doxa.mcmc.importance_proposals import Proposal
from doxa.mcmc.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.mcmc.targets import Target

__all__ = ["Guarded", "Normal", "normal_like"]

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
class Guarded:
    """A Gaussian, and with probability ``share`` another proposal: no weight is above 1 / share times the other's.

    A `doxa.mcmc.importance_proposals.Mixture` of two, but with one seed it draws what the Gaussian alone draws, except
    for the share of the other; so that the two are compared with little noise.

    Parameters
    ----------
    normal : Normal
    wide : Proposal
        Normalised.
    share : float
        In (0, 1).

    Examples
    --------
    >>> q = Normal(np.zeros(1), np.eye(1))
    >>> both = Guarded(q, q.widened(3.0), 0.1)
    >>> np.exp(both.log_density(np.array([[0.0], [6.0]]))).round(4)
    array([0.3723, 0.0018])
    >>> one, other = (p.sample(1000, np.random.default_rng(1)) for p in (q, both))
    >>> float((one == other).mean())
    0.902
    """

    normal: Normal
    wide: Proposal
    share: float

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws, shape (n, d)."""
        thetas = self.normal.sample(n, rng)
        others = rng.random(n) < self.share
        if others.any():
            thetas[others] = self.wide.sample(int(others.sum()), rng)
        return thetas

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats) at each row of ``thetas``, shape (n, d)."""
        mine, others = self.normal.log_density(thetas), self.wide.log_density(thetas)
        return np.asarray(np.logaddexp(mine + np.log1p(-self.share), others + np.log(self.share)))


def normal_like(proposal: GaussianProposal, target: Target) -> Normal:
    """The same Gaussian as arrays of its own; ArgumentError or ArgumentTypeError if it is none for this target."""
    check_gaussian("proposal", proposal)
    d = np.asarray(proposal.mean).size
    if d != target.n_dimensions:
        raise ArgumentError(f"proposal has {d} dimensions, but target has {target.n_dimensions}")
    return Normal(np.array(proposal.mean, dtype=np.float64), np.array(proposal.cholesky, dtype=np.float64))
