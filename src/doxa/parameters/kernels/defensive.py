r"""`Defensive`: a Gaussian proposal whose importance weights are bounded, at the price of few of its draws.

.. math:: q = (1 - t - e)\, N(m, S) + t\, T_4(m, c^2 S) + e\, \pi_0

Every Gaussian approximation of a logistic posterior is narrower than the prior, so its weights are unbounded and
independence chains on it are not geometrically ergodic (de Freitas et al. 2001, corollary 1, corrected: see
`doxa.parameters.kernels.ergodicity`).  A share e of the prior's own shape bounds them by sup L / (e p(D)), which is a
guarantee; a share t of draws from a t distribution of the Gaussian's own place and shape, somewhat wider, makes the
bound one of practice: it reaches what lies some standard deviations out, where the prior's draws are too thin to land.
Both count in the density of each proposal (Hesterberg 1995), so where the Gaussian is good its weights hardly change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import (
    LONG_DF,
    GaussianProposal,
    Student,
    check_gaussian,
    long_factors,
    long_peak,
)

__all__ = ["Defensive"]


@dataclass(frozen=True, eq=False)
class Defensive:
    """A Gaussian with tails, and with a share of the prior.

    Parameters
    ----------
    gaussian : GaussianProposal
        ``mean`` (d,) and ``cholesky`` (d, d).
    prior : Student, optional
        As wide as the prior, with infinite ``df`` where that is Gaussian.  None leaves it out: a law that is symmetric
        about the Gaussian's mean, as flips need it.
    tails : float, default=0.04
        Share of draws from the t distribution.
    width : float, default=1.3
        Of that distribution, in standard deviations of the Gaussian.
    share : float, default=0.01
        Of draws from ``prior``.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``gaussian`` is none, ``prior`` has other coordinates, a share is negative, both together are not below 1,
        or ``width`` is not positive.

    Examples
    --------
    >>> from doxa.parameters.kernels.gaussians import Normal
    >>> narrow = Normal(np.zeros(1), np.eye(1))
    >>> q = Defensive(narrow, Student(np.zeros(1), 10 * np.eye(1), np.inf))
    >>> far = np.array([[0.0], [30.0]])
    >>> narrow.log_density(far).round(1), q.log_density(far).round(1)
    (array([  -0.9, -450.9]), array([ -0.9, -12.3]))
    """

    gaussian: GaussianProposal
    prior: Student | None = None
    tails: float = 0.04
    width: float = 1.3
    share: float = 0.01

    def __post_init__(self) -> None:
        """Refuse what is no mixture."""
        check_gaussian("gaussian", self.gaussian)
        if self.prior is None:
            object.__setattr__(self, "share", 0.0)
        elif self.prior.mean.size != np.asarray(self.gaussian.mean).size:
            raise ArgumentError(f"gaussian has {self.mean.size} coordinates, prior {self.prior.mean.size}")
        if not (self.tails >= 0 and self.share >= 0 and self.tails + self.share < 1):
            raise ArgumentError(
                f"tails is {self.tails!r} and share {self.share!r}; neither may be negative, nor their sum 1 or more"
            )
        if not self.width > 0:
            raise ArgumentError(f"width is {self.width!r}; it must be above 0")

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws, shape (n, d)."""
        label = rng.random(n)
        noise = rng.standard_normal((n, self.mean.size))
        far = np.flatnonzero(label < self.tails)
        noise[far] *= long_factors(far.size, self.width, rng)[:, None]
        drawn = self.mean + noise @ self._turn
        if self.prior is not None:
            wide = np.flatnonzero(label >= 1 - self.share)
            drawn[wide] = self.prior.sample(wide.size, rng)
        return np.asarray(drawn)

    def log_density(self, thetas: Floats) -> Floats:
        """Normalised log density (nats) at each row of ``thetas``, shape (n, d)."""
        thetas = np.asarray(thetas, dtype=np.float64)
        law = self._laws
        near = _squares(thetas, self.mean, law.whiten)
        total = law.normal_peak - 0.5 * near
        if self.tails:
            total = np.logaddexp(total, law.far_peak - law.far_power * np.log1p(near * law.far_scale))
        if self.prior is not None and self.share:
            wide = _squares(thetas, self.prior.mean, law.whiten_prior)
            if np.isinf(self.prior.df):
                total = np.logaddexp(total, law.wide_peak - 0.5 * wide)
            else:
                power = 0.5 * (self.prior.df + self.mean.size)
                total = np.logaddexp(total, law.wide_peak - power * np.log1p(wide / self.prior.df))
        return np.asarray(total)

    @cached_property
    def mean(self) -> Floats:
        """Mean of the Gaussian, shape (d,)."""
        return np.asarray(self.gaussian.mean, dtype=np.float64)

    @cached_property
    def cholesky(self) -> Floats:
        """Factor of the Gaussian's covariance, shape (d, d)."""
        return np.asarray(self.gaussian.cholesky, dtype=np.float64)

    @cached_property
    def _turn(self) -> Floats:
        return np.ascontiguousarray(self.cholesky.T)

    @cached_property
    def _laws(self) -> _Laws:
        """All that does not depend on the point: chains evaluate some hundred points at a time."""
        d = self.mean.size
        log_scale = float(-np.log(np.diag(self.cholesky)).sum())
        peak = log_scale + float(np.log1p(-self.tails - self.share)) - 0.5 * d * float(np.log(2 * np.pi))
        far = long_peak(d, self.width) + log_scale + float(np.log(self.tails)) if self.tails else -np.inf
        whiten_prior, wide = np.empty((0, 0)), -np.inf
        if self.prior is not None and self.share:
            whiten_prior = _whitening(self.prior.cholesky)
            wide = float(np.log(self.share) + self.prior.log_density(self.prior.mean[None])[0])
        scale = 1 / (LONG_DF * self.width**2)
        return _Laws(_whitening(self.cholesky), peak, far, 0.5 * (LONG_DF + d), scale, whiten_prior, wide)


class _Laws(NamedTuple):
    whiten: Floats  # (d, d), on the right of rows
    normal_peak: float
    far_peak: float
    far_power: float
    far_scale: float
    whiten_prior: Floats
    wide_peak: float


def _whitening(cholesky: Floats) -> Floats:
    return np.ascontiguousarray(solve_triangular(cholesky, np.eye(len(cholesky)), lower=True).T)


def _squares(thetas: Floats, mean: Floats, whiten: Floats) -> Floats:
    """Squared distances (n,) from the mean, in standard deviations."""
    noise = (thetas - mean) @ whiten
    return np.asarray(np.einsum("ij,ij->i", noise, noise))
