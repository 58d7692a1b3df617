r"""`GaussianFamily`: the posterior of a number's regressions, one in each configuration of its categories.

With the prior of `doxa.structure.families.gaussian.box`, whose evidence the score is, N cases and p parents,

.. math::
    \sigma^2 \mid D \sim \mathrm{InvGamma}\big(\tfrac{N + a + p + 1}2, \tfrac s2\big), \qquad
    \beta \mid \sigma^2, D \sim N(\Lambda^{-1} Z^T y, \sigma^2 \Lambda^{-1}), \qquad
    \Lambda = \mathrm{diag}(\alpha_\mu, t, \dots, t) + Z^T Z,

where Z has a column of ones, for the intercept, and the parents, and :math:`s = t + y^T y - y^T Z \Lambda^{-1} Z^T y`.
A configuration without cases keeps the prior.  All in scaled units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln, stdtrit

from doxa.arrays import Floats
from doxa.structure.families.kind import FamilyParameters, Stream

if TYPE_CHECKING:
    from doxa.structure.families.gaussian.box import GaussianRule

__all__ = ["GaussianFamily", "RegressionDraws", "Spread"]


class RegressionDraws(NamedTuple):
    """Draws of a number's regressions, in the units of the values that the family was given."""

    intercept: Floats  # (n, n_states of each parent that is a category...)
    coefficients: Floats  # (as intercept..., n_parents that are numbers)
    sd: Floats  # as intercept


class Spread(NamedTuple):
    """Moments and an equal-tailed interval of numbers, arrays of one shape."""

    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats


class GaussianFamily(FamilyParameters):
    """The posterior of one number's regressions; see the module's notes.

    Parameters
    ----------
    rule : GaussianRule
        The prior's numbers.
    codes : ndarray of float, shape (n_rows, 1 + n_parents)
        The node, first, and its parents: values of numbers, positions of states of categories.
    cases : ndarray of int, shape (n_rows,)
        How often each row occurs.
    sizes : sequence of int
        Numbers of states; 0 for numbers.
    stream : callable
        A fresh generator for purpose 3 and a number.
    """

    def __init__(
        self, rule: GaussianRule, codes: NDArray[Any], cases: NDArray[Any], sizes: Sequence[int], stream: Stream
    ) -> None:
        categories = [j for j in range(1, len(sizes)) if sizes[j]]
        numbers = [j for j in range(1, len(sizes)) if not sizes[j]]
        self.shape = tuple(sizes[j] for j in categories)
        self._numbers, self._categories = numbers, categories
        self._stream = stream
        p, times = len(numbers), np.asarray(cases, dtype=np.float64)
        q = int(np.prod(self.shape, dtype=np.int64))
        design = np.column_stack([np.ones(len(codes)), codes[:, numbers], codes[:, 0]]).astype(np.float64)
        which = self._configuration(codes)
        prior = np.diag([rule.mean_weight, *[rule.scale] * (p + 1)])  # the last: that of the node's own square
        products = np.broadcast_to(prior, (q, p + 2, p + 2)).copy()
        for k in np.unique(which).tolist():
            own = design[which == k]
            products[k] += (own * times[which == k, None]).T @ own
        factor = np.linalg.cholesky(products)
        self._factor = factor[:, : p + 1, : p + 1]
        self.mean = np.linalg.solve(self._factor.transpose(0, 2, 1), factor[:, p + 1, : p + 1, None])[..., 0]
        self.square = np.maximum(factor[:, -1, -1] ** 2, rule.scale)  # in exact arithmetic it is that or more
        self.cases = np.bincount(which, weights=times, minlength=q)
        self.freedom = self.cases + rule.freedom + p + 1.0

    def _configuration(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        which = np.zeros(len(codes), dtype=np.int64)
        for j, size in zip(self._categories, self.shape, strict=True):
            which = which * size + codes[:, j].astype(np.int64)
        return which

    def log_predictive(self, codes: NDArray[Any]) -> Floats:
        r"""Log densities (nats) of new rows' nodes given their parents: Student's t with :math:`N + a + p + 1` degrees.

        Parameters
        ----------
        codes : ndarray of float, shape (n_rows, 1 + n_parents)
            As those that the family was made of.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            In the units of the values.
        """
        found, which = np.empty(len(codes)), self._configuration(codes)
        for k in np.unique(which).tolist():
            own = which == k
            z = np.column_stack([np.ones(own.sum()), codes[own][:, self._numbers]]).astype(np.float64)
            root = np.linalg.solve(self._factor[k], z.T)  # its squares add up to z Lambda^-1 z
            spread = self.square[k] * (1.0 + (root**2).sum(axis=0))
            away = (codes[own, 0] - z @ self.mean[k]) ** 2 / spread
            nu = self.freedom[k]
            constant = gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0) - 0.5 * np.log(np.pi * spread)
            found[own] = constant - 0.5 * (nu + 1.0) * np.log1p(away)
        return found

    def linear(self, weights: Floats, prob: float) -> Spread:
        r"""Linear functions of the coefficients, which have Student's t with :math:`N + a + p + 1` degrees of freedom.

        Parameters
        ----------
        weights : ndarray of float, shape (n, 1 + n_parents that are numbers)
            Of the intercept and the slopes, the same in every configuration.
        prob : float
            Of the interval.

        Returns
        -------
        Spread
            Arrays of shape (n, n_states of each parent that is a category...).
        """
        of_each = np.broadcast_to(weights, (len(self.mean), *weights.shape))
        return self.linear_in(of_each, prob, self.shape)

    def linear_in(self, weights: Floats, prob: float, shape: tuple[int, ...]) -> Spread:
        """`linear`, with weights (n_configurations, n, d) for each of the configurations that ``shape`` has."""
        mean = (weights @ self.mean[:, :, None])[..., 0].T
        root = np.linalg.solve(self._factor, np.swapaxes(weights, 1, 2))  # its squares add up to w Lambda^-1 w
        scale = np.sqrt(self.square[:, None] / self.freedom[:, None] * (root**2).sum(axis=1)).T
        sd = scale * np.sqrt(self.freedom / (self.freedom - 2.0))
        half = scale * stdtrit(self.freedom, 0.5 + 0.5 * prob)
        n = mean.shape[0]
        return Spread(*(np.broadcast_to(part, (n, mean.shape[1])).reshape(n, *shape)
                        for part in (mean, sd, mean - half, mean + half)))  # fmt: skip

    def scatter(self, prob: float) -> Spread:
        r"""The standard deviation about the line, the root of an inverse gamma variable; shapes as `linear`, without n.

        Its mean is :math:`\sqrt{s / 2}\, \Gamma((\nu - 1) / 2) / \Gamma(\nu / 2)`.
        """
        nu, s = self.freedom, self.square
        mean = np.sqrt(s / 2.0) * np.exp(gammaln((nu - 1.0) / 2.0) - gammaln(nu / 2.0))
        sd = np.sqrt(np.maximum(s / (nu - 2.0) - mean**2, 0.0))
        ends = [np.sqrt(s / (2.0 * gammaincinv(nu / 2.0, level))) for level in (0.5 + 0.5 * prob, 0.5 - 0.5 * prob)]
        return Spread(*(part.reshape(self.shape) for part in (mean, sd, *ends)))

    def log_density(self, intercept: Floats, coefficients: Floats, sd: Floats) -> Floats:
        """Log density (nats) of coefficients and variances, arrays as `regressions` draws them; shape (n,).

        With respect to the variance, not the standard deviation: what is compared must be so, too.
        """
        n, (q, d) = len(intercept), self.mean.shape
        drawn = np.concatenate([intercept.reshape(n, q, 1), coefficients.reshape(n, q, d - 1)], axis=2)
        variance = sd.reshape(n, -1) ** 2
        half = 0.5 * self.freedom
        total = half * np.log(0.5 * self.square) - gammaln(half) - (half + 1.0) * np.log(variance)
        total -= 0.5 * self.square / variance
        roots = np.einsum("qij,nqi->nqj", self._factor, drawn - self.mean)
        total -= 0.5 * (roots**2).sum(axis=2) / variance + 0.5 * d * np.log(2.0 * np.pi * variance)
        total += np.log(np.diagonal(self._factor, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray(total.sum(axis=1))

    def regressions(self, n: int, number: int = 0) -> RegressionDraws:
        """Draw ``n`` times; ``number`` is that of the stream."""
        rng = self._stream(3, number)
        variance = self.square / (2.0 * rng.standard_gamma(self.freedom / 2.0, size=(n, len(self.square))))
        sd = np.sqrt(variance)
        scatter = rng.standard_normal((n, *self.mean.shape))
        around = np.linalg.solve(self._factor.transpose(0, 2, 1)[None], scatter[..., None])[..., 0]
        drawn = self.mean + sd[..., None] * around
        return RegressionDraws(
            drawn[..., 0].reshape(n, *self.shape),
            drawn[..., 1:].reshape(n, *self.shape, drawn.shape[-1] - 1),
            sd.reshape(n, *self.shape),
        )
