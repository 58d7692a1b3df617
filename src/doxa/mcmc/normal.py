"""`Normal`: a Gaussian proposal for kernels that refit theirs, alone or guarded against thin tails."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.errors import ArgumentError
from doxa.mcmc.importance_proposals import Mixture, Proposal
from doxa.mcmc.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.mcmc.targets import Target

__all__ = ["Normal", "guarded", "normal_like"]

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


def guarded(normal: Normal, wide: Proposal | None, share: float) -> Proposal:
    """The Gaussian, with a share of its draws from ``wide`` instead: no weight exceeds 1 / share times the other's.

    The Gaussian alone if there is nothing to mix, or it is ``wide`` itself.
    """
    if wide is None or not share:
        return normal
    if isinstance(wide, Normal):
        same = np.array_equal(normal.mean, wide.mean) and np.array_equal(normal.cholesky, wide.cholesky)
        if same:
            return normal
    return Mixture([normal, wide], [1 - share, share])


def normal_like(proposal: GaussianProposal, target: Target) -> Normal:
    """The same Gaussian as arrays of its own; ArgumentError or ArgumentTypeError if it is none for this target."""
    check_gaussian("proposal", proposal)
    d = np.asarray(proposal.mean).size
    if d != target.n_dimensions:
        raise ArgumentError(f"proposal has {d} dimensions, but target has {target.n_dimensions}")
    return Normal(np.array(proposal.mean, dtype=np.float64), np.array(proposal.cholesky, dtype=np.float64))
