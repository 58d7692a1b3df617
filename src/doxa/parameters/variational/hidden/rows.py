r"""One xi for each instance of a family: all that is needed of q is the mean and covariance of its rows.

With the extended row :math:`\tilde x = (o, x)` and :math:`\varphi = s(o + \theta^T x)`, the expected bound of a family
in one neighbourhood is (Jaakkola & Jordan 2000, eq. 51; de Freitas et al. 2001, eqs. 5 and 6)

.. math:: \log g(\xi) + (E\varphi - \xi)/2 - \lambda(\xi)(E\varphi^2 - \xi^2),

quadratic in theta: it adds :math:`2 n \lambda(\xi) E[x x^T]` to the precision (eq. 53) and :math:`n E[s x]/2 - 2 n
\lambda(\xi) E[o x]` to precision times mean (eq. 54, without offset).  Inside a block the moments are sums over its
configurations, between blocks they are products: :math:`E[x x^T] = \bar x \bar x^T + \sum_b \mathrm{Cov}_b(x)`.

For a configuration of one block, with the other cells at their means, D the extended row and s the child's value or its
mean, the family adds

.. math:: s\, \mu^T D / 2 - \lambda(\xi) [(\mu^T D)^2 + D^T \Sigma D]

to the logarithm of q (eq. 65).  In a block of one cell the difference of its two configurations is the update of mean
field; de Freitas et al.'s eq. 7 leaves out the factors of children, and eq. 8 the term with lambda, which is not zero.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_factors import LogisticFactor
from doxa.models.logistic_options import GaussianPrior
from doxa.parameters.variational.bound import expected_log_bound, lambda_of
from doxa.parameters.variational.hidden.configurations import Bits
from doxa.parameters.variational.hidden.families import Coordinates, FamilyFit, signs_of
from doxa.parameters.variational.hidden.instances import Instances, Share
from doxa.parameters.variational.whitened import covariance_factor, divergence, row_variances

__all__ = ["RowFamily"]

_Floats = NDArray[np.float64]
_Number = TypeVar("_Number", np.float64, np.intp)


class _Part(NamedTuple):
    """A share with what its configurations mean for this family."""

    share: Share
    steps: _Floats  # (n_entries, 1 + d), what the block's parents add to the row in which they are 0
    sign: _Floats  # (n_entries,), of the child; 0 where it is not in the block
    has_child: NDArray[np.bool_]  # (n_entries,)

    def spread(self, values: NDArray[_Number]) -> NDArray[_Number]:
        """One value a block, repeated for its entries."""
        return np.repeat(values, self.share.sizes, axis=0)


class _Expected(NamedTuple):
    """Expected rows and signs, complete configurations first; and each part with its share in them."""

    rows: _Floats  # (n_xi, 1 + d)
    sign: _Floats  # (n_xi,)
    parts: list[tuple[_Part, NDArray[np.intp], _Floats, _Floats]]  # xi and probability of entries, mean step of blocks


class _Moments(NamedTuple):
    """Expected rows of q, and the spread about them as rows with probabilities."""

    rows: _Floats  # (n_xi, 1 + d)
    sign: _Floats  # (n_xi,), expected
    spread: _Floats  # (n_entries, 1 + d), of mean zero in each block
    owner: NDArray[np.intp]  # (n_entries,), the xi that each belongs to
    probability: _Floats  # (n_entries,)
    spread_sign: _Floats  # (n_entries,), 0 where the child is not in the block

    def of_logit(self, mean: _Floats, factor: _Floats) -> tuple[_Floats, _Floats]:
        """Expectation of the signed logit and of its square, under q and the Gaussian."""
        centre = self.rows[:, 0] + self.rows[:, 1:] @ mean
        second = centre**2 + row_variances(self.rows[:, 1:], factor)
        centre *= self.sign
        if self.owner.size:
            away = self.spread[:, 0] + self.spread[:, 1:] @ mean
            squares = self.probability * (away**2 + row_variances(self.spread[:, 1:], factor))
            second += np.bincount(self.owner, weights=squares, minlength=second.size)
            products = self.probability * self.spread_sign * away
            centre += np.bincount(self.owner, weights=products, minlength=second.size)
        return centre, second


class RowFamily:
    """A family with a xi for each of its instances, and for each complete configuration."""

    def __init__(
        self, factor: LogisticFactor, prior: GaussianPrior, complete: Bits, cases: _Floats, instances: Instances
    ) -> None:
        self.node = factor.node
        self.coordinates = Coordinates(factor, prior)
        codes = np.concatenate([complete, instances.codes])
        self._rows = self.coordinates.rows(np.maximum(codes[:, :-1], 0))  # missing parents at 0
        self._sign = signs_of(codes[:, -1])
        self._cases = np.concatenate([cases, instances.cases])
        self._n_complete = len(complete)
        self._parts = [None if share is None else self._part(share) for share in instances.shares]
        self.n_xi = self._cases.size

    def fit(self, xi: _Floats, q: _Floats) -> FamilyFit:
        """Best Gaussian at ``xi`` (n_xi,) and ``q``."""
        moments = self._moments(q)
        cases = np.concatenate([self._cases, self._cases[moments.owner] * moments.probability])
        rows = np.concatenate([moments.rows, moments.spread])
        sign = np.concatenate([moments.sign, moments.spread_sign])
        weights = 2 * cases * np.concatenate([slope := lambda_of(xi), slope[moments.owner]])
        factor = covariance_factor(rows[:, 1:], weights)
        mean = factor @ (factor.T @ (rows[:, 1:].T @ (cases * sign / 2 - weights * rows[:, 0])))
        centre, second = moments.of_logit(mean, factor)
        log_bound = float(self._cases @ expected_log_bound(centre, second, xi)) - divergence(mean, factor)
        return FamilyFit(mean, factor, log_bound, np.sqrt(second))

    def best_xi(self, mean: _Floats, factor: _Floats, q: _Floats) -> _Floats:
        """Best xi for any Gaussian, shape (n_xi,)."""
        return np.asarray(np.sqrt(self._moments(q).of_logit(mean, factor)[1]))

    def terms(self, mean: _Floats, factor: _Floats, xi: _Floats, q: _Floats) -> _RowTerms:
        """Terms of the logarithm of q at these; ``q`` is where it starts."""
        expected, n = self._expected(q), self._n_complete
        return _RowTerms(self._parts, expected.rows[n:], expected.sign[n:], mean, factor, lambda_of(xi[n:]))

    def _part(self, share: Share) -> _Part:
        sign = signs_of(share.bits[:, -1])
        return _Part(share, np.maximum(share.bits[:, :-1], 0) @ self.coordinates.step, sign, sign != 0)

    def _expected(self, q: _Floats) -> _Expected:
        rows, sign = self._rows.copy(), self._sign.copy()
        parts = []
        for part in self._parts:
            if part is not None:
                owner = self._n_complete + part.share.instance
                probability = part.share.marginals(q)
                centre = part.share.totals(probability[:, None] * part.steps)
                rows[owner] += centre
                sign[owner] += part.share.totals(probability * part.sign)
                parts.append((part, part.spread(owner), probability, centre))
        return _Expected(rows, sign, parts)

    def _moments(self, q: _Floats) -> _Moments:
        rows, sign, parts = self._expected(q)
        spread = np.concatenate([rows[:0], *(part.steps - part.spread(centre) for part, _, _, centre in parts)])
        owner = np.concatenate([np.empty(0, dtype=np.intp), *(owner for _, owner, _, _ in parts)])
        probability = np.concatenate([sign[:0], *(probability for _, _, probability, _ in parts)])
        return _Moments(rows, sign, spread, owner, probability, np.concatenate([sign[:0], *(p[0].sign for p in parts)]))


class _RowTerms:
    """What the family adds to the logarithm of q while blocks change one stage after another."""

    def __init__(
        self,
        parts: list[_Part | None],
        rows: _Floats,
        sign: _Floats,
        mean: _Floats,
        factor: _Floats,
        slope: _Floats,
    ) -> None:
        self._parts, self._rows, self._sign = parts, rows, sign
        self._mean, self._factor, self._slope = mean, factor, slope

    def add(self, stage: int, q: _Floats, logits: _Floats) -> None:
        """Take the block's cells out of the mean rows, and put each of their configurations in."""
        part = self._parts[stage]
        if part is None:
            return
        share = part.share
        self._rows[share.instance] -= share.totals(share.marginals(q)[:, None] * part.steps)
        rows = part.spread(self._rows[share.instance]) + part.steps
        centre = rows[:, 0] + rows[:, 1:] @ self._mean
        square = centre**2 + row_variances(rows[:, 1:], self._factor)
        sign = np.where(part.has_child, part.sign, part.spread(self._sign[share.instance]))
        values = sign * centre / 2 - part.spread(self._slope[share.instance]) * square
        logits[share.position] += values[share.entry]

    def moved(self, stage: int, q: _Floats) -> None:
        """Put the block's cells back, with their new probabilities."""
        part = self._parts[stage]
        if part is None:
            return
        share = part.share
        probability = share.marginals(q)
        self._rows[share.instance] += share.totals(probability[:, None] * part.steps)
        mine = part.has_child[share.first]
        self._sign[share.instance[mine]] = share.totals(probability * part.sign)[mine]
