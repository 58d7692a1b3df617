r"""Gaussian proposals as kernels see them: a mean, a Cholesky factor, and the laws of blocks of coordinates.

`doxa.sampling.gaussian.Gaussian` is one; anything of the same face serves.

Noise for proposals: standard normal, or with a share of it from a t distribution, whose tails are long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular
from scipy.special import gammaln

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.sampling.importance_proposals import Proposal

__all__ = [
    "LONG_DF",
    "BlockLaw",
    "GaussianProposal",
    "check_cholesky",
    "check_gaussian",
    "check_indices",
    "conditional_laws",
    "long_factors",
    "long_peak",
    "marginal_laws",
    "radial_log_density",
    "radial_noise",
]

Floats: TypeAlias = NDArray[np.float64]

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


class GaussianProposal(Proposal, Protocol):
    """A Gaussian that can be drawn from and evaluated."""

    @property
    def mean(self) -> Floats:
        """Mean, shape (d,)."""

    @property
    def cholesky(self) -> Floats:
        """Lower triangular factor of the covariance, shape (d, d)."""


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
    return _law(block, rest, np.asarray(gain), _lower_factor(solve_triangular(upper, np.eye(block.size))))


def _marginal(cholesky: Floats, block: Indices) -> BlockLaw:
    rest = np.setdiff1d(np.arange(len(cholesky)), block)
    return _law(block, rest, np.zeros((block.size, rest.size)), _lower_factor(cholesky[block]))


def _law(block: Indices, rest: Indices, gain: Floats, factor: Floats) -> BlockLaw:
    return BlockLaw(block, rest, gain, factor, np.asarray(solve_triangular(factor, np.eye(block.size), lower=True)))


def _lower_factor(root: Floats) -> Floats:
    """Lower triangular L with L L' = root root' and a positive diagonal; exact where a product would round."""
    (upper,) = qr(root.T, mode="r", check_finite=False)
    lower = upper[: len(root)].T
    return np.asarray(lower * np.where(np.diag(lower) < 0, -1.0, 1.0))
