r"""Gaussians as answers: drawn from, evaluated on batches, marginals and conditionals of blocks.

`Gaussian` has the face of a proposal (`doxa.sampling`): ``sample`` and ``log_density``.  `GaussianPosterior` adds how
it was found.  The algorithms that find one are in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, cholesky, qr, solve_triangular
from scipy.linalg.lapack import dtrtrs

from doxa.checks import check_whole
from doxa.errors import ArgumentError

__all__ = ["Centred", "Conditional", "Gaussian", "GaussianPosterior", "lower_factor", "whitened"]

_Block = Sequence[int] | NDArray[np.intp]


class Centred(Protocol):
    """What tells where a mode is and how wide: a Gaussian, a t distribution, a mode that was found."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean, shape (d,)."""

    @property
    def cholesky(self) -> NDArray[np.float64]:
        """Lower triangular factor of the covariance, shape (d, d)."""


class Conditional(NamedTuple):
    """The law of a block given the rest: mean[block] + gain @ (rest values - mean[rest]) + cholesky @ noise."""

    block: NDArray[np.intp]  # (b,)
    rest: NDArray[np.intp]  # (d - b,), the other coordinates in increasing order
    gain: NDArray[np.float64]  # (b, d - b)
    cholesky: NDArray[np.float64]  # (b, b), lower


@dataclass(frozen=True, eq=False)
class Gaussian:
    r"""A Gaussian over d coefficients.

    Parameters
    ----------
    mean : ndarray of float, shape (d,)
    cholesky : ndarray of float, shape (d, d)
        Lower triangular L with covariance :math:`L L^T` and a positive diagonal.

    Examples
    --------
    >>> q = Gaussian.from_covariance([1.0, 2.0], [[4.0, 1.0], [1.0, 1.0]])
    >>> q.log_density([[1.0, 2.0]]).round(4)
    array([-2.3872])
    >>> q.marginal([1]).covariance, q.conditional([0], [3.0]).mean
    (array([[1.]]), array([2.]))
    >>> q.sample(5, np.random.default_rng(1)).shape
    (5, 2)
    """

    mean: NDArray[np.float64]
    cholesky: NDArray[np.float64]

    @staticmethod
    def from_covariance(mean: ArrayLike, covariance: ArrayLike) -> Gaussian:
        """Gaussian with this mean (d,) and covariance (d, d); ArgumentError unless it is positive definite."""
        centre, matrix = np.array(mean, dtype=np.float64), np.array(covariance, dtype=np.float64)
        if centre.ndim != 1 or matrix.shape != (centre.size, centre.size):
            raise ArgumentError(f"mean and covariance have shapes {centre.shape} and {matrix.shape}; (d,) and (d, d)?")
        try:
            return Gaussian(centre, cholesky(matrix, lower=True))
        except (np.linalg.LinAlgError, ValueError) as error:
            raise ArgumentError(f"covariance has no Cholesky factor: {error}; it must be positive definite") from None

    @property
    def n_dimensions(self) -> int:
        """The number of coefficients, d."""
        return self.mean.size

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance, shape (d, d)."""
        return np.asarray(self.cholesky @ self.cholesky.T)

    @cached_property
    def sd(self) -> NDArray[np.float64]:
        """Standard deviations of the coefficients, shape (d,)."""
        return np.asarray(np.sqrt((self.cholesky**2).sum(axis=1)))

    @cached_property
    def entropy(self) -> float:
        """Differential entropy, nats."""
        return float(np.log(np.diag(self.cholesky)).sum() + 0.5 * self.mean.size * (1 + np.log(2 * np.pi)))

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """``n`` independent draws, shape (n, d)."""
        n = check_whole("n", n, 0)
        return self.mean + rng.standard_normal((n, self.mean.size)) @ self.cholesky.T

    def log_density(self, thetas: ArrayLike) -> NDArray[np.float64]:
        """Normalised log density (nats) at each row of ``thetas``, shape (n, d); shape (n,)."""
        points = np.asarray(thetas, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.mean.size:
            raise ArgumentError(f"thetas has shape {points.shape}; it must be (n, {self.mean.size})")
        noise = whitened(self, points)
        return np.asarray(-0.5 * (noise**2).sum(axis=0) + self._log_peak)

    @cached_property
    def _log_peak(self) -> float:
        return float(-np.log(np.diag(self.cholesky)).sum() - 0.5 * self.mean.size * np.log(2 * np.pi))

    def marginal(self, block: _Block) -> Gaussian:
        """Law of the coefficients in ``block``, in that order."""
        index = self._check_block(block)
        return Gaussian(self.mean[index], lower_factor(self.cholesky[index]))

    def conditional_map(self, block: _Block) -> Conditional:
        """Law of ``block`` given the others as a function of their values: computed once, used for many values."""
        index = self._check_block(block)
        rest = np.setdiff1d(np.arange(self.mean.size), index)
        # With the rest first, the factor's lower right corner is that of the conditional covariance.
        ordered = lower_factor(self.cholesky[np.concatenate([rest, index])])
        k = rest.size
        gain = solve_triangular(ordered[:k, :k], ordered[k:, :k].T, lower=True, trans="T").T if k else ordered[:, :0]
        return Conditional(index, rest, np.asarray(gain), ordered[k:, k:])

    def conditional(self, block: _Block, rest_values: ArrayLike) -> Gaussian:
        """Law of ``block`` given the values (d - b,) of the others, in increasing order of their index."""
        law = self.conditional_map(block)
        values = np.asarray(rest_values, dtype=np.float64)
        if values.shape != law.rest.shape:
            raise ArgumentError(f"rest_values has shape {values.shape}; {law.rest.size} coefficients are not in block")
        return Gaussian(self.mean[law.block] + law.gain @ (values - self.mean[law.rest]), law.cholesky)

    def precision(self) -> NDArray[np.float64]:
        """Inverse of the covariance, shape (d, d)."""
        return np.asarray(cho_solve((self.cholesky, True), np.eye(self.mean.size)))

    def _check_block(self, block: _Block) -> NDArray[np.intp]:
        index = np.asarray(block)
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu" or np.unique(index).size < index.size:
            raise ArgumentError(f"block is {block!r}; it must name at least one coefficient, each once, by its index")
        if index.min() < 0 or index.max() >= self.mean.size:
            raise ArgumentError(f"block is {block!r}; indices are 0..{self.mean.size - 1}")
        return index.astype(np.intp)


@dataclass(frozen=True, eq=False)
class GaussianPosterior(Gaussian):
    """A Gaussian approximation to a posterior, and how it was found.

    Parameters
    ----------
    mean, cholesky
        As in `Gaussian`.
    method : str
        Name of the algorithm.
    log_evidence : float
        Lower bound or estimate (see ``evidence_kind``) of the log marginal likelihood of the data, nats.
    evidence_kind : {"lower bound", "estimate"}
        What ``log_evidence`` is.
    n_iterations : int
        Iterations, or rows seen where the method is one pass.
    converged : bool
        False if the limit of iterations ended the search.
    trace : ndarray of float, shape (n,)
        What the algorithm increases, after each iteration (nats); it never decreases, except in one-pass methods,
        which give the terms whose sum is ``log_evidence``.
    """

    method: str = ""
    log_evidence: float = np.nan
    evidence_kind: Literal["lower bound", "estimate"] = "estimate"
    n_iterations: int = 0
    converged: bool = True
    trace: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        state = "" if self.converged else ", not converged"
        return (
            f"<GaussianPosterior by {self.method}: {self.mean.size} coefficients, "
            f"{self.evidence_kind} {self.log_evidence:.4f} of the log evidence{state}>"
        )


def whitened(law: Centred, thetas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coordinates (d, n) in which a law with this mean and factor has none: what `solve_triangular` gives for its
    factor, less its checks, which take ten times as long for a few rows.
    """
    lower, residuals = law.cholesky, (thetas - law.mean).T
    if not residuals.size:
        return residuals
    if lower.flags.f_contiguous:
        found, failed = dtrtrs(lower, residuals, lower=1)
    else:
        found, failed = dtrtrs(lower.T, residuals, trans=1)
    if failed:
        raise np.linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {failed - 1}")
    return np.asarray(found)


def lower_factor(root: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower triangular L with L L' = root root' and a positive diagonal; exact where a product would round."""
    (upper,) = qr(root.T, mode="r", check_finite=False)
    lower = upper[: len(root)].T
    return np.asarray(lower * np.where(np.diag(lower) < 0, -1.0, 1.0))
