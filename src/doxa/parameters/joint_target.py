"""The joint posterior of the parameters of several nodes as a target: hidden values summed out exactly.

Coefficients stand in one vector, node after node; a learned root's probability is represented by its logit, so that
all numbers are free, and a learned scale of the prior by its logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.models.logistic_factors import expit, log_logistic
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_parts import Part, part_likelihood
from doxa.parameters.kernels.targets import ValueAndGradient

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork

__all__ = ["JointTarget", "Packing"]

Floats: TypeAlias = NDArray[np.float64]


class Packing:
    """Parameters of some nodes as one vector of free numbers, and back.

    Parameters
    ----------
    network : LogisticNetwork
    nodes : tuple of str
        Nodes with parameters, in the order of the vector.

    Examples
    --------
    >>> from doxa.models import LogisticNetwork
    >>> packing = Packing(LogisticNetwork({"b": ["a"]}), ("b", "a"))
    >>> packing.labels
    (('b', 'bias'), ('b', 'a'), ('a', 'probability'))
    >>> {node: values.tolist() for node, values in packing.unpack(np.array([[1.0, 2.0, 0.0]])).items()}
    {'b': [[1.0, 2.0]], 'a': [[0.5]]}
    """

    def __init__(self, network: LogisticNetwork, nodes: tuple[str, ...]) -> None:
        self.nodes = nodes
        self.labels = tuple((node, label) for node in nodes for label in network.coefficients(node))
        sizes = [network.n_coefficients(node) for node in nodes]
        ends = np.cumsum(sizes).tolist()
        self.place = {node: slice(end - size, end) for node, size, end in zip(nodes, sizes, ends, strict=True)}
        self.roots = tuple(node for node in nodes if node in network.roots)
        self.scales = tuple(node for node in nodes if node in network.scales)
        self.n_dimensions = len(self.labels)

    def unpack(self, vectors: Floats) -> dict[str, Floats]:
        """Parameters of each node, shape (..., n_coefficients), of vectors (..., d); roots as probabilities."""
        parameters = {node: vectors[..., place] for node, place in self.place.items()}
        parameters |= {scale: np.exp(parameters[scale]) for scale in self.scales}
        return parameters | {node: expit(parameters[node]) for node in self.roots}

    def pack(self, parameters: Mapping[str, Floats]) -> Floats:
        """Undo `unpack`."""
        free = dict(parameters)
        free |= {node: np.log(parameters[node]) - np.log1p(-parameters[node]) for node in self.roots}
        free |= {scale: np.log(parameters[scale]) for scale in self.scales}
        return np.concatenate([free[node] for node in self.nodes], axis=-1)


class JointTarget:
    """Log posterior density of the parameters of one part of a network, normalised but for the evidence.

    Parameters
    ----------
    network : LogisticNetwork
    part : Part
        From `doxa.models.logistic_parts.independent_parts`.
    table : Table

    Raises
    ------
    ArgumentError
        If the missing cells need sums over too many configurations.
    """

    def __init__(self, network: LogisticNetwork, part: Part, table: Table) -> None:
        self.network, self.part = network, part
        self.packing = Packing(network, part.nodes)
        self.likelihood = part_likelihood(network, part, table)

    @property
    def n_dimensions(self) -> int:
        """Length of the vector."""
        return self.packing.n_dimensions

    def prior_of(self, node: str) -> GaussianPrior:
        """The prior of a node's coefficients."""
        return self.network.prior(node)

    @cached_property
    def prior_spread(self) -> tuple[Floats, Floats]:
        """Mean (d,) and lower Cholesky factor (d, d) of the covariance of the prior."""
        mean, cholesky = np.zeros(self.n_dimensions), np.eye(self.n_dimensions)
        for node, place in self.packing.place.items():
            if node in self.packing.roots:  # a uniform probability: a standard logistic logit
                cholesky[place, place] = np.pi / np.sqrt(3.0)
            else:
                prior = self.prior_of(node)
                mean[place] = prior.mean
                cholesky[place, place] = np.linalg.cholesky(prior.covariance)
        return mean, cholesky

    def log_density(self, thetas: Floats) -> Floats:
        """Log prior density plus log likelihood (nats), shape (n,), of vectors (n, d)."""
        return self._log_prior(thetas) + self.likelihood.log_likelihood(self._parameters(thetas))

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        """Log density (n,) and its gradient (n, d)."""
        value, slopes = self.likelihood.value_and_gradient(self._parameters(thetas))
        none = np.zeros((len(value), 1))  # learned scales bear on the prior alone
        gradient = np.concatenate([slopes.get(node, none) for node in self.packing.nodes], axis=1)
        for place, mean, precision in self._precisions:
            gradient[:, place] -= (thetas[:, place] - mean) @ precision
        for place in self._roots:
            gradient[:, place] += 1 - 2 * expit(thetas[:, place])
        return ValueAndGradient(value + self._log_prior(thetas), gradient)

    def _parameters(self, thetas: Floats) -> dict[str, Floats]:
        """As `Packing.unpack`, with probabilities kept inside (0, 1), where the likelihood is finite."""
        parameters = self.packing.unpack(thetas)
        for node in self.packing.roots:
            parameters[node] = np.clip(parameters[node], 1e-300, 1 - 2.0**-53)
        return parameters

    def _log_prior(self, thetas: Floats) -> Floats:
        total = np.full(len(thetas), self._log_constant)
        for place, mean, precision in self._precisions:
            residual = thetas[:, place] - mean
            total -= 0.5 * np.einsum("ij,jk,ik->i", residual, precision, residual)
        for place in self._roots:  # Beta(1, 1) in its logit
            logits = thetas[:, place]
            total += (log_logistic(logits) + log_logistic(-logits)).sum(axis=1)
        return total

    @cached_property
    def _roots(self) -> list[slice]:
        return [self.packing.place[node] for node in self.packing.roots]

    @cached_property
    def _precisions(self) -> list[tuple[slice, Floats, Floats]]:
        found = []
        for node, place in self.packing.place.items():
            if node not in self.packing.roots:
                prior = self.network.prior(node)
                found.append((place, prior.mean, np.asarray(np.linalg.inv(prior.covariance), dtype=np.float64)))
        return found

    @cached_property
    def _log_constant(self) -> float:
        total = 0.0
        for place, _, precision in self._precisions:
            size = place.stop - place.start
            total += 0.5 * float(np.linalg.slogdet(precision)[1]) - 0.5 * size * float(np.log(2 * np.pi))
        return total
