"""What the two kinds of family share: coordinates in which the prior is standard, and the face that the ascent sees."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from doxa.models.logistic_factors import LogisticFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.parameters.variational.whitened import Whitened

__all__ = ["Coordinates", "Family", "FamilyFit", "FamilyTerms", "signs_of"]

_Floats = NDArray[np.float64]


class FamilyFit(NamedTuple):
    """The best Gaussian of a family at some xi and q, in whitened coordinates."""

    mean: _Floats  # (d,)
    factor: _Floats  # (d, d), lower; factor factor' is the covariance
    log_bound: float  # the family's share, nats; the entropy of q is not in it
    next_xi: _Floats  # (n_xi,), the best for this Gaussian and q


class FamilyTerms(Protocol):
    """What a family adds to the logarithm of q while blocks change one stage after another."""

    def add(self, stage: int, q: _Floats, logits: _Floats) -> None:
        """Add to ``logits`` (n,) at the stage's places, up to a constant in each block."""

    def moved(self, stage: int, q: _Floats) -> None:
        """Take notice of the stage's new probabilities."""


class Family(Protocol):
    """A node with parents in every configuration that the table needs."""

    node: str
    coordinates: Coordinates
    n_xi: int

    def fit(self, xi: _Floats, q: _Floats) -> FamilyFit:
        """Best Gaussian at ``xi`` (n_xi,) and ``q``."""

    def best_xi(self, mean: _Floats, factor: _Floats, q: _Floats) -> _Floats:
        """Best xi for any Gaussian, shape (n_xi,)."""

    def terms(self, mean: _Floats, factor: _Floats, xi: _Floats, q: _Floats) -> FamilyTerms:
        """Terms at these; ``q`` is where it starts."""


class Coordinates:
    r"""Extended rows of a family, (offset, design) in coordinates where the prior is standard.

    With the prior's mean m and Cholesky factor L, :math:`\theta = m + L u`: the logit is
    :math:`(o + x \cdot m) + (x L) \cdot u`, linear in each parent's code.
    """

    def __init__(self, factor: LogisticFactor, prior: GaussianPrior) -> None:
        self._factor = factor
        self.prior_mean = prior.mean
        self.root = cholesky(prior.covariance, lower=True)
        n_parents = len(factor.scope) - 1
        self.step = self.rows(np.eye(n_parents, dtype=np.int8)) - self.rows(np.zeros((1, n_parents), dtype=np.int8))

    def rows(self, values: NDArray[np.int8]) -> _Floats:
        """Extended rows for codes of the parents, shape (n, 1 + d); ``step`` holds what a 1 in place of a 0 adds."""
        design, offset = self._factor.design(values)
        return np.column_stack([offset + design @ self.prior_mean, design @ self.root])

    def whitened(self, rows: _Floats, sign: _Floats, counts: _Floats) -> Whitened:
        """A regression in these coordinates."""
        signed = sign[:, None] * rows
        return Whitened(signed[:, 1:], signed[:, 0], counts, self.prior_mean, self.root)

    def to_whitened(self, coefficients: _Floats) -> _Floats:
        """Coefficients, shape (d,), in these coordinates."""
        return np.asarray(solve_triangular(self.root, coefficients - self.prior_mean, lower=True))

    def factor_to_whitened(self, factor: _Floats) -> _Floats:
        """A covariance's lower factor, shape (d, d), in these coordinates."""
        return np.tril(solve_triangular(self.root, factor, lower=True))


def signs_of(codes: NDArray[np.int8]) -> _Floats:
    """-1, +1, and 0 where a code is missing."""
    return np.where(codes < 0, 0.0, 2.0 * codes - 1.0)
