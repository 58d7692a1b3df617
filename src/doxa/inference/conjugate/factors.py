r"""The factors of q: exponential families, with natural parameters, expected statistics and entropy.

A family is :math:`q(z) = h(z) \exp(\eta^T T(z) - A(\eta))` (the lecture notes' formula 23).  Natural parameters are
flat arrays, so that messages from the neighbours of a node are added as they are:

========================  ==========================================================  =====================
family                    statistics T                                                natural parameters
========================  ==========================================================  =====================
`GaussianFactor`          :math:`x, x x^T`                                            :math:`\Lambda \mu, -\Lambda / 2`
`GammaFactor`             :math:`\log x, x`, each of ``size``                         shape - 1, -rate
`CategoricalFactor`       indicators of the states, (size, n_states)                  log weights
========================  ==========================================================  =====================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import digamma, entr, gammaln, log_softmax

from doxa.sampling.gaussian import Gaussian

__all__ = ["CategoricalFactor", "GammaFactor", "GaussianFactor", "Known"]

_Floats = NDArray[np.float64]


class GaussianFactor(Gaussian):
    """A Gaussian over a vector."""

    @classmethod
    def from_natural(cls, natural: _Floats, size: int) -> Self:
        """The Gaussian with these natural parameters, shape (size + size**2,)."""
        precision = -2.0 * natural[size:].reshape(size, size)
        # With the order of the coordinates turned, the factor of the precision is, inverted, that of the covariance.
        turned = cholesky(precision[::-1, ::-1], lower=True)
        root = solve_triangular(turned, np.eye(size), lower=True, trans="T")[::-1, ::-1]
        return cls(root @ (root.T @ natural[:size]), root)

    @cached_property
    def natural(self) -> _Floats:
        """Natural parameters, shape (d + d**2,)."""
        precision = self.precision()
        return np.concatenate([precision @ self.mean, -0.5 * precision.ravel()])

    def variances(self, slopes: _Floats | None = None) -> _Floats:
        """Variances of the coordinates, or of ``slopes @ x``."""
        root = self.cholesky if slopes is None else slopes @ self.cholesky
        return np.asarray((root**2).sum(axis=1))

    def moved(self, rng: np.random.Generator) -> Self:
        """With a draw in the place of the mean."""
        return replace(self, mean=self.sample(1, rng)[0])


@dataclass(frozen=True, eq=False)
class GammaFactor:
    """Independent gamma distributions, of ``shape`` and ``rate`` (size,)."""

    shape: _Floats
    rate: _Floats

    @classmethod
    def from_natural(cls, natural: _Floats, size: int) -> Self:
        """The distributions with these natural parameters, shape (2 * size,)."""
        return cls(natural[:size] + 1.0, -natural[size:])

    @property
    def natural(self) -> _Floats:
        """Natural parameters, shape (2 * size,)."""
        return np.concatenate([self.shape - 1.0, -self.rate])

    @cached_property
    def mean(self) -> _Floats:
        """Expected values, shape (size,)."""
        return self.shape / self.rate

    @cached_property
    def mean_log(self) -> _Floats:
        """Expected logarithms, shape (size,)."""
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    @property
    def sd(self) -> _Floats:
        """Standard deviations, shape (size,)."""
        return np.sqrt(self.shape) / self.rate

    @cached_property
    def entropy(self) -> float:
        """Differential entropy, nats."""
        a = self.shape
        return float((a - np.log(self.rate) + gammaln(a) + (1.0 - a) * digamma(a)).sum())

    def moved(self, rng: np.random.Generator) -> Self:
        """With a draw in the place of the mean."""
        return replace(self, rate=self.shape / np.maximum(rng.gamma(self.shape) / self.rate, 1e-6 * self.mean))


@dataclass(frozen=True, eq=False)
class CategoricalFactor:
    """Independent distributions over states: log probabilities (size, n_states)."""

    log_mean: _Floats

    @classmethod
    def from_natural(cls, natural: _Floats, size: int) -> Self:
        """The distributions with these log weights, shape (size * n_states,)."""
        return cls(log_softmax(natural.reshape(size, -1), axis=1))

    @property
    def natural(self) -> _Floats:
        """Natural parameters, shape (size * n_states,)."""
        return self.log_mean.ravel()

    @cached_property
    def mean(self) -> _Floats:
        """Probabilities of the states, shape (size, n_states)."""
        return np.exp(self.log_mean)

    @cached_property
    def entropy(self) -> float:
        """Entropy, nats."""
        return float(entr(self.mean).sum())

    def moved(self, rng: np.random.Generator) -> Self:
        """With random weights."""
        noise = np.log(rng.standard_exponential(self.log_mean.shape))
        return replace(self, log_mean=log_softmax(self.log_mean + noise, axis=1))


@dataclass(frozen=True, eq=False)
class Known:
    """What was observed, in the place of a factor: a vector (size,), or indicators of states (size, n_states)."""

    mean: _Floats
    entropy: float = 0.0

    @cached_property
    def mean_log(self) -> _Floats:
        """Logarithms of the values."""
        return np.log(self.mean)

    def variances(self, slopes: _Floats | None = None) -> _Floats:
        """0 for each value, or for each row of ``slopes``."""
        return np.zeros(len(self.mean if slopes is None else slopes))
