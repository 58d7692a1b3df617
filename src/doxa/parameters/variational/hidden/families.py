r"""What the two kinds of family share: coordinates in which the prior is standard, and the face that the ascent sees.

Factors of roots in the bound: given tables, and probabilities that are learned.

A learned root has the prior Beta(1, 1) and needs no other bound: with N_1 and N_0 expected cases of 1 and 0 the best
Beta(a, b) has a = 1 + N_1 and b = 1 + N_0, its share of the bound on the log evidence is :math:`\log B(a, b)`, and to
the logarithm of q it adds :math:`E \log \pi = \psi(a) - \psi(a + b)` where the root is 1, and :math:`\psi(b) -
\psi(a + b)` where it is 0.  (De Freitas et al. 2001, section 2 and eq. 5, leave out the factors of hidden roots.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import betaln, digamma

from doxa.arrays import Bits, Floats
from doxa.errors import ArgumentError
from doxa.models.logistic_factors import LogisticFactor, RootFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.parameters.variational.hidden.blocks import Component, Instances, Layout
from doxa.parameters.variational.whitened import Whitened
from doxa.text import listed

__all__ = [
    "Coordinates",
    "Family",
    "FamilyFit",
    "FamilyTerms",
    "LearnedRoot",
    "RootFit",
    "log_given_observed",
    "log_given_roots",
    "signs_of",
]


class RootFit(NamedTuple):
    """Beta(ones, zeros) of a learned root, and its share of the bound (nats)."""

    ones: float
    zeros: float
    log_bound: float

    def log_probabilities(self) -> Floats:
        """Expected logarithms of P(0) and P(1), shape (2,)."""
        return np.asarray(digamma([self.zeros, self.ones]) - digamma(self.zeros + self.ones))


class LearnedRoot:
    """A root with a learned probability."""

    def __init__(self, node: str, complete: Bits, cases: Floats, instances: Instances | None = None) -> None:
        self.node = node
        self._certain = np.bincount(complete[:, 0], weights=cases, minlength=2).astype(np.float64)
        self._instances = instances

    def fit(self, q: Floats) -> RootFit:
        """Best Beta at ``q``."""
        counts = self._certain.copy()
        if self._instances is not None:
            for share in self._instances.shares:
                if share is not None:
                    cases = np.repeat(self._instances.cases[share.instance], share.sizes)
                    counts += np.bincount(share.bits[:, 0], weights=cases * share.marginals(q), minlength=2)
        zeros, ones = (1 + counts).tolist()
        return RootFit(ones, zeros, float(betaln(ones, zeros)))

    def add(self, fit: RootFit, stage: int, logits: Floats) -> None:
        """Add the expected log probabilities to ``logits`` (n,), the logarithm of q."""
        share = None if self._instances is None else self._instances.shares[stage]
        if share is not None:
            logits[share.position] += fit.log_probabilities()[share.bits[share.entry, 0]]


def log_given_roots(
    factors: Sequence[RootFactor], components: Sequence[Component], layout: Layout, names: Sequence[str]
) -> Floats:
    """Log probabilities of given roots for every number of q, shape (n,): minus infinity where a table has a zero.

    Learned ones among ``factors`` are left out.
    """
    out = np.zeros(layout.n)
    given = [factor for factor in factors if factor.probabilities is not None]
    for stage in layout.stages:
        for block in stage.blocks:
            for factor in given:
                common = [v for v in factor.scope if v in block.nodes]
                if not common:
                    continue
                assert factor.probabilities is not None
                codes = components[block.component].codes[:, list(factor.scope)]
                cells = np.repeat(codes[:, None, :], block.shape[1], axis=1)
                for v in common:
                    cells[:, :, factor.scope.index(v)] = block.bits[:, block.nodes.index(v)]
                with np.errstate(divide="ignore"):
                    logs = np.log(factor.probabilities[tuple(np.moveaxis(cells, 2, 0))])
                out[block.place] += logs.ravel()
                if np.isneginf(logs).all(axis=1).any():
                    raise _impossible_row(factor, names)
    return out


def log_given_observed(factor: RootFactor, codes: Bits, names: Sequence[str]) -> Floats:
    """Log probabilities (nats) of rows that observe all roots of a given table, codes (n, n_scope); shape (n,)."""
    assert factor.probabilities is not None
    probabilities = factor.probabilities[tuple(codes.T)]
    if (probabilities == 0).any():
        raise _impossible_row(factor, names)
    return np.asarray(np.log(probabilities))


def _impossible_row(factor: RootFactor, names: Sequence[str]) -> ArgumentError:
    """What to raise where a given table says that a row cannot be."""
    nodes = listed([names[v] for v in factor.scope])
    return ArgumentError(
        f"table has a row that the probabilities given for the roots ({nodes}) say is impossible, so that the evidence "
        f"is 0; correct the row, or give its configuration a probability"
    )


class FamilyFit(NamedTuple):
    """The best Gaussian of a family at some xi and q, in whitened coordinates."""

    mean: Floats  # (d,)
    factor: Floats  # (d, d), lower; factor factor' is the covariance
    log_bound: float  # the family's share, nats; the entropy of q is not in it
    next_xi: Floats  # (n_xi,), the best for this Gaussian and q


class FamilyTerms(Protocol):
    """What a family adds to the logarithm of q while blocks change one stage after another."""

    def add(self, stage: int, q: Floats, logits: Floats) -> None:
        """Add to ``logits`` (n,) at the stage's places, up to a constant in each block."""

    def moved(self, stage: int, q: Floats) -> None:
        """Take notice of the stage's new probabilities."""


class Family(Protocol):
    """A node with parents in every configuration that the table needs."""

    node: str
    coordinates: Coordinates
    n_xi: int

    def fit(self, xi: Floats, q: Floats) -> FamilyFit:
        """Best Gaussian at ``xi`` (n_xi,) and ``q``."""

    def best_xi(self, mean: Floats, factor: Floats, q: Floats) -> Floats:
        """Best xi for any Gaussian, shape (n_xi,)."""

    def terms(self, mean: Floats, factor: Floats, xi: Floats, q: Floats) -> FamilyTerms:
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

    def rows(self, values: NDArray[np.int8]) -> Floats:
        """Extended rows for codes of the parents, shape (n, 1 + d); ``step`` holds what a 1 in place of a 0 adds."""
        design, offset = self._factor.design(values)
        return np.column_stack([offset + design @ self.prior_mean, design @ self.root])

    def whitened(self, rows: Floats, sign: Floats, counts: Floats) -> Whitened:
        """A regression in these coordinates."""
        signed = sign[:, None] * rows
        return Whitened(signed[:, 1:], signed[:, 0], counts, self.prior_mean, self.root)

    def to_whitened(self, coefficients: Floats) -> Floats:
        """Coefficients, shape (d,), in these coordinates."""
        return np.asarray(solve_triangular(self.root, coefficients - self.prior_mean, lower=True))

    def factor_to_whitened(self, factor: Floats) -> Floats:
        """A covariance's lower factor, shape (d, d), in these coordinates."""
        return np.tril(solve_triangular(self.root, factor, lower=True))


def signs_of(codes: NDArray[np.int8]) -> Floats:
    """-1, +1, and 0 where a code is missing."""
    return np.where(codes < 0, 0.0, 2.0 * codes - 1.0)
