r"""The factors of a logistic network's joint probability: one a node with parents, one a block of roots.

A factor is *bound* to configurations of its nodes and then evaluated for batches of parameters.  ``at`` gives what
all else is made of, logits or a root's probability: ``log_values``, and ``gradient``, the slope of a weighted sum of
them in the node's coefficients (in the logit of a learned root's probability); ``slopes`` are those of each, and
``touching`` is the precision of a quadratic that touches the sum from below.  Which configurations a table needs is in
`doxa.models.logistic_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.arrays import Bits

__all__ = ["BoundFactor", "BoundLearned", "BoundTable", "Factor", "LogisticFactor", "RootFactor", "log_logistic"]


def log_logistic(z: ArrayLike) -> NDArray[np.float64]:
    """Logarithm of g(z) = 1 / (1 + exp(-z)), exact to rounding for every finite z."""
    values: NDArray[np.float64] = -np.logaddexp(0.0, -np.asarray(z, dtype=np.float64))
    return values


def expit(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(z) = 1 / (1 + exp(-z)) for any finite z, without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z < 0, small, 1.0) / (1.0 + small))


def _touching(z: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Precision :math:`2 \lambda(z)` of the quadratic that touches log g at z from below."""
    size = np.maximum(np.abs(z), 1e-8)
    return np.asarray(np.tanh(size / 2) / (2 * size))


class LogisticFactor(NamedTuple):
    """P(child | parents) as a factor of a row's probability: g(sign (design theta + offset))."""

    node: str
    scope: tuple[int, ...]  # positions of the parents, then of the child
    children: tuple[int, ...]
    low: float  # value of a parent coded 0: -1 or 0
    bias: float | None  # None: learned

    def design(self, values: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Design matrix and offset for values of the parents from 0 to 1, shape (n, n_parents)."""
        coded = self.low + (1.0 - self.low) * values.astype(np.float64)
        if self.bias is None:
            return np.column_stack([np.ones(len(coded)), coded]), np.zeros(len(coded))
        return coded, np.full(len(coded), self.bias)

    def bind(self, bits: Bits) -> BoundFactor:
        """Prepare the evaluation at configurations of the scope, one a row."""
        design, offset = self.design(bits[:, :-1])
        sign = 2.0 * bits[:, -1] - 1.0
        return _BoundLogistic(self.node, np.ascontiguousarray((sign[:, None] * design).T), sign * offset)

    def draw(self, codes: Bits, thetas: Mapping[str, NDArray[np.float64]], uniforms: NDArray[np.float64]) -> Bits:
        """Draw the child given its parents in ``codes``, shape (n, 1); parameters of shape (1, n_coefficients)."""
        design, offset = self.design(codes[:, list(self.scope[:-1])])
        probability = np.exp(log_logistic(design @ thetas[self.node][0] + offset))
        return np.asarray(uniforms < probability, dtype=np.int8)[:, None]


class RootFactor(NamedTuple):
    """Distribution of a block of parentless nodes; a learned one has the probability as its parameter."""

    node: str | None  # named where learned
    scope: tuple[int, ...]
    children: tuple[int, ...]
    probabilities: NDArray[np.float64] | None

    def bind(self, bits: Bits) -> BoundFactor:
        """Prepare the evaluation at configurations of the scope, one a row."""
        if self.probabilities is None:
            assert self.node is not None
            return _BoundRoot(self.node, bits[:, 0] == 1)
        with np.errstate(divide="ignore"):  # zeros of a joint table
            return BoundTable(np.log(self.probabilities[tuple(bits.T)])[None, :])

    def draw(
        self,
        codes: Bits,  # noqa: ARG002
        thetas: Mapping[str, NDArray[np.float64]],
        uniforms: NDArray[np.float64],
    ) -> Bits:
        """Draw the nodes of the block by inversion, shape (n, n_nodes)."""
        if self.probabilities is None:
            assert self.node is not None
            return np.asarray(uniforms < thetas[self.node][0, 0], dtype=np.int8)[:, None]
        cumulative = np.cumsum(self.probabilities)  # the last axis varies fastest
        cells = np.searchsorted(cumulative / cumulative[-1], uniforms, side="right")  # ends at exactly 1: never past it
        return np.stack(np.unravel_index(cells, self.probabilities.shape), axis=1).astype(np.int8)


class _BoundLogistic(NamedTuple):
    node: str
    design: NDArray[np.float64]  # (n_coefficients, n_configurations), times the child's sign
    offset: NDArray[np.float64]

    def at(self, thetas: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.asarray(thetas[self.node] @ self.design + self.offset)

    def log_values(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        return log_logistic(logits)

    def gradient(self, logits: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((weights * expit(-logits)) @ self.design.T)

    def slopes(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(expit(-logits)[:, :, None] * self.design.T)

    def touching(self, logits: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        size = len(self.design)
        products = (self.design[:, None] * self.design).reshape(size * size, -1)
        return ((weights * _touching(logits)) @ products.T).reshape(-1, size, size)


class _BoundRoot(NamedTuple):
    node: str
    is_one: NDArray[np.bool_]

    def at(self, thetas: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        return thetas[self.node]

    def log_values(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):  # probabilities 0 and 1 are in the closed interval
            return np.where(self.is_one, np.log(probability), np.log1p(-probability))

    def gradient(self, probability: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((weights * (self.is_one - probability)).sum(axis=1, keepdims=True))

    def slopes(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.is_one - probability)[:, :, None]

    def touching(self, p: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((weights.sum(axis=1, keepdims=True) * _touching(np.log(p) - np.log1p(-p)))[:, :, None])


class BoundTable(NamedTuple):
    """A given distribution of roots at configurations: it has no parameters."""

    log_probabilities: NDArray[np.float64]

    def at(self, thetas: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:  # noqa: ARG002
        """Log probabilities, shape (1, n_configurations)."""
        return self.log_probabilities

    def log_values(self, log_probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same."""
        return log_probabilities


Factor = LogisticFactor | RootFactor
BoundLearned = _BoundLogistic | _BoundRoot
BoundFactor = BoundLearned | BoundTable
