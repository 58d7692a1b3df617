r"""Gaussian proposals as kernels see them: a mean, a Cholesky factor, and the laws of blocks of coordinates.

`doxa.sampling.gaussian.Gaussian` is one; anything of the same face serves.

Noise for proposals: standard normal, or with a share of it from a t distribution, whose tails are long.

`Normal`: a Gaussian proposal for kernels that refit theirs, alone or guarded against thin tails.

`Student`: a multivariate t distribution as a proposal, for targets with longer tails than a Gaussian's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular
from scipy.special import gammaln

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.kernel import Target
from doxa.sampling.gaussian import Centred, Gaussian, lower_factor, whitened
from doxa.sampling.importance_proposals import Mixture, Proposal

__all__ = [
    "LONG_DF",
    "BlockLaw",
    "Centred",
    "GaussianProposal",
    "Normal",
    "Normals",
    "Student",
    "check_cholesky",
    "check_gaussian",
    "check_indices",
    "conditional_laws",
    "guarded",
    "long_factors",
    "long_peak",
    "marginal_laws",
    "normal_like",
    "normals_like",
    "radial_log_density",
    "radial_noise",
]


LONG_DF = 4.0  # degrees of freedom: tails much longer than a Gaussian's, and still a variance


def long_factors(n: int, width: float, rng: np.random.Generator) -> Floats:
    """What makes rows of normal noise rows of a t distribution that is ``width`` times as wide, shape (n,)."""
    return np.asarray(width / np.sqrt(rng.chisquare(LONG_DF, n) / LONG_DF))


def long_peak(d: int, width: float) -> float:
    """Log density (nats) of that distribution at 0, in d dimensions."""
    peak = gammaln((LONG_DF + d) / 2) - gammaln(LONG_DF / 2)
    return float(peak - 0.5 * d * np.log(LONG_DF * np.pi) - d * np.log(width))


def radial_noise(n: int, d: int, tails: float, width: float, rng: np.random.Generator) -> Floats:
    """Rows of standard normal noise, a share ``tails`` of them from the t distribution instead, shape (n, d).

    Without tails, a plain call of ``rng.standard_normal``.
    """
    noise = rng.standard_normal((n, d))
    if tails:
        far = np.flatnonzero(rng.random(n) < tails)
        noise[far] *= long_factors(far.size, width, rng)[:, None]
    return noise


def radial_log_density(squares: Floats, d: int, tails: float, width: float) -> Floats:
    """Log density (nats) of `radial_noise` at points whose squared distances from 0 are ``squares``."""
    normal = -0.5 * squares - 0.5 * d * np.log(2 * np.pi)
    if not tails:
        return np.asarray(normal)
    far = long_peak(d, width) - 0.5 * (LONG_DF + d) * np.log1p(squares / (LONG_DF * width**2))
    return np.asarray(np.logaddexp(np.log1p(-tails) + normal, np.log(tails) + far))


Indices: TypeAlias = NDArray[np.intp]
Block: TypeAlias = Sequence[int] | Indices


class GaussianProposal(Centred, Proposal, Protocol):
    """A Gaussian that can be drawn from and evaluated."""


class BlockLaw(NamedTuple):
    """Law of a block: mean[block] + gain @ (rest values - mean[rest]) + factor @ standard normal noise."""

    block: Indices  # (b,)
    rest: Indices  # (d - b,), the other coordinates in increasing order
    gain: Floats  # (b, d - b); all 0 in a marginal
    factor: Floats  # (b, b), lower
    inverse: Floats  # (b, b), of factor


def check_gaussian(name: str, value: object) -> None:
    """ArgumentTypeError or ArgumentError unless ``value`` has the face of a Gaussian."""
    missing = [part for part in ("mean", "cholesky", "sample", "log_density") if not hasattr(value, part)]
    if missing:
        raise ArgumentTypeError(
            f"{name} is of type {type(value).__name__}, which has no {' and no '.join(missing)}; give a Gaussian with "
            "a mean (d,) and a lower Cholesky factor (d, d), such as a doxa.sampling.gaussian.Gaussian"
        )
    mean = np.asarray(value.mean)  # type: ignore[attr-defined]
    if mean.ndim != 1 or not np.isfinite(mean).all():
        raise ArgumentError(f"{name}.mean has shape {mean.shape}; it must be (d,), of finite numbers")
    check_cholesky(f"{name}.cholesky", value.cholesky, mean.size)  # type: ignore[attr-defined]


def check_cholesky(name: str, values: ArrayLike, n_dimensions: int | None = None) -> Floats:
    """A read-only copy of a lower triangular factor with a positive diagonal, or ArgumentError."""
    factor = np.array(values, dtype=np.float64)
    d = len(factor) if n_dimensions is None and factor.ndim else n_dimensions
    if factor.ndim != 2 or factor.shape != (d, d):
        raise ArgumentError(f"{name} has shape {factor.shape}; it must be ({d or 'd'}, {d or 'd'})")
    if not np.isfinite(factor).all() or np.triu(factor, 1).any() or not (np.diag(factor) > 0).all():
        raise ArgumentError(
            f"{name} must be lower triangular and finite with a positive diagonal; numpy.linalg.cholesky(covariance) is"
        )
    factor.flags.writeable = False
    return factor


def check_indices(name: str, values: Block, n_dimensions: int | None = None) -> Indices:
    """Coordinates, each once, of ``n_dimensions`` (None: of an unknown number), or ArgumentError."""
    index = np.asarray(values)
    if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu" or np.unique(index).size < index.size:
        raise ArgumentError(f"{name} is {values!r}; it must name at least one coordinate, each once, by its index")
    if index.min() < 0 or (n_dimensions is not None and index.max() >= n_dimensions):
        rule = "start at 0" if n_dimensions is None else f"are 0..{n_dimensions - 1}"
        raise ArgumentError(f"{name} is {values!r}; indices {rule}")
    return index.astype(np.intp)


def conditional_laws(cholesky: Floats, blocks: Iterable[Indices]) -> tuple[BlockLaw, ...]:
    """Law of each block given the other coordinates, under the Gaussian with this factor."""
    root = solve_triangular(cholesky, np.eye(len(cholesky)), lower=True)  # of the precision, root' root
    return tuple(_conditional(root, block) for block in blocks)


def marginal_laws(cholesky: Floats, blocks: Iterable[Indices]) -> tuple[BlockLaw, ...]:
    """Law of each block whatever the other coordinates are, under the Gaussian with this factor."""
    return tuple(_marginal(cholesky, block) for block in blocks)


def _conditional(root: Floats, block: Indices) -> BlockLaw:
    """With A = QR the block's columns of the root, the precision given the rest is R'R, the gain -R^-1 Q' root_rest."""
    rest = np.setdiff1d(np.arange(len(root)), block)
    orthogonal, upper = qr(root[:, block], mode="economic", check_finite=False)
    gain = -solve_triangular(upper, orthogonal.T @ root[:, rest])
    return _law(block, rest, np.asarray(gain), lower_factor(solve_triangular(upper, np.eye(block.size))))


def _marginal(cholesky: Floats, block: Indices) -> BlockLaw:
    rest = np.setdiff1d(np.arange(len(cholesky)), block)
    return _law(block, rest, np.zeros((block.size, rest.size)), lower_factor(cholesky[block]))


def _law(block: Indices, rest: Indices, gain: Floats, factor: Floats) -> BlockLaw:
    return BlockLaw(block, rest, gain, factor, np.asarray(solve_triangular(factor, np.eye(block.size), lower=True)))


class Normal(Gaussian):
    """A Gaussian for kernels that refit theirs; mean and factor come from code that made them so.

    Examples
    --------
    >>> Normal(np.zeros(1), 2 * np.eye(1)).log_density(np.array([[0.0], [2.0]])).round(4)
    array([-1.6121, -2.1121])
    """

    def whiten(self, thetas: Floats) -> Floats:
        """Coordinates (n, d) in which this Gaussian is the standard one."""
        return whitened(self, thetas).T

    def moved(self, mean: Floats, cholesky: Floats) -> Normal:
        """The Gaussian that has this mean and factor in the whitened coordinates."""
        return Normal(self.mean + self.cholesky @ mean, self.cholesky @ cholesky)

    def widened(self, factor: float) -> Normal:
        """The same with all standard deviations ``factor`` times as large."""
        return Normal(self.mean, factor * self.cholesky)


@dataclass(frozen=True, eq=False)
class Normals:
    """A mixture of Gaussians; the Gaussian itself where there is one."""

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


@dataclass(frozen=True, eq=False)
class Student:
    """A multivariate t with location ``mean`` and scale L L'."""

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
        return self.log_density_at(self.distances(thetas))

    def log_density_at(self, distances: Floats) -> Floats:
        """The same at points so far from the location."""
        if np.isinf(self.df):
            return np.asarray(self._log_peak - 0.5 * distances)
        return np.asarray(self._log_peak - 0.5 * (self.df + self.mean.size) * np.log1p(distances / self.df))

    def pulls_at(self, distances: Floats) -> Floats:
        """What draws so far off count for the scale, relative to a Gaussian's: less the farther off they lie."""
        if np.isinf(self.df):
            return np.ones(len(distances))
        return np.asarray((self.df + self.mean.size) / (self.df + distances))

    def distances(self, thetas: Floats) -> Floats:
        """Squared Mahalanobis distances from the location, shape (n,)."""
        squares = whitened(self, thetas) ** 2
        if len(squares) < 8 and squares.size > 200:  # by whole arrays: the same bits in a third of the time
            return np.asarray(reduce(np.add, squares))
        return np.asarray(squares.sum(axis=0))

    @cached_property
    def _log_peak(self) -> float:
        d, df = self.mean.size, self.df
        spread = float(np.log(np.diag(self.cholesky)).sum())
        if np.isinf(df):
            return -spread - 0.5 * d * float(np.log(2 * np.pi))
        spread += 0.5 * d * float(np.log(df * np.pi))
        return float(gammaln((df + d) / 2) - gammaln(df / 2)) - spread
