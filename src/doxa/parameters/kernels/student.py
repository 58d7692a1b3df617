"""`Student`: a multivariate t distribution as a proposal, for targets with longer tails than a Gaussian's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from doxa.errors import ArgumentError

__all__ = ["Student"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Student:
    r"""A multivariate t with location ``mean`` and scale L L'.

    Parameters
    ----------
    mean : ndarray of float, shape (d,)
    cholesky : ndarray of float, shape (d, d)
        Lower triangular L with a positive diagonal.
    df : float, default=5.0
        Degrees of freedom, above 0; above 2 the covariance is :math:`L L^T df / (df - 2)`. Infinity makes a Gaussian.

    Raises
    ------
    ArgumentError
        If ``df`` is not above 0.

    Examples
    --------
    >>> Student(np.zeros(1), np.eye(1), 1.0).log_density(np.array([[0.0]])).round(4)  # Cauchy: 1 / pi
    array([-1.1447])
    """

    mean: Floats
    cholesky: Floats
    df: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what is no number of degrees of freedom."""
        if not self.df > 0:
            raise ArgumentError(f"df is {self.df!r}; it must be above 0")

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws, shape (n, d)."""
        noise = rng.standard_normal((n, self.mean.size)) @ self.cholesky.T
        if not np.isinf(self.df):
            noise /= np.sqrt(rng.chisquare(self.df, n) / self.df)[:, None]
        return np.asarray(self.mean + noise)

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats) at each row of ``thetas``, shape (n, d)."""
        distances = self.distances(thetas)
        if np.isinf(self.df):
            return np.asarray(self._log_peak - 0.5 * distances)
        return np.asarray(self._log_peak - 0.5 * (self.df + self.mean.size) * np.log1p(distances / self.df))

    def pulls(self, thetas: Floats) -> Floats:
        """What a draw at each row counts for the scale, relative to a Gaussian's: less the farther off it lies."""
        if np.isinf(self.df):
            return np.ones(len(thetas))
        return np.asarray((self.df + self.mean.size) / (self.df + self.distances(thetas)))

    def distances(self, thetas: Floats) -> Floats:
        """Squared Mahalanobis distances from the location, shape (n,)."""
        noise = solve_triangular(self.cholesky, (thetas - self.mean).T, lower=True, check_finite=False)
        return np.asarray((noise**2).sum(axis=0))

    @property
    def _log_peak(self) -> float:
        d, df = self.mean.size, self.df
        spread = float(np.log(np.diag(self.cholesky)).sum())
        if np.isinf(df):
            return -spread - 0.5 * d * float(np.log(2 * np.pi))
        spread += 0.5 * d * float(np.log(df * np.pi))
        return float(gammaln((df + d) / 2) - gammaln(df / 2)) - spread
