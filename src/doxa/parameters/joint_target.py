r"""The joint posterior of the parameters of several nodes as a target: hidden values summed out exactly.

Coefficients stand in one vector, node after node; a learned root's probability is represented by its logit, so that
all numbers are free, and a learned scale of the prior by its logarithm.

Symmetries of a posterior with hidden nodes: exchanges of a hidden node's two values, or of two hidden nodes.

Neither changes what is observed, so wherever the prior does not mind either, the posterior has every mode more than
once and the coefficients concerned are not identified.  An exchange is a linear map of the packed vector; whether the
posterior minds is checked on points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from doxa.arrays import Floats
from doxa.models.logistic_factors import expit, log_logistic
from doxa.models.logistic_options import GaussianPrior
from doxa.models.logistic_parts import Part, part_likelihood
from doxa.parameters.kernels.gaussians import Student
from doxa.parameters.kernels.kernel import ValueAndGradient
from doxa.sampling.importance_proposals import Mixture

if TYPE_CHECKING:
    from doxa.data import Table
    from doxa.models import LogisticNetwork

__all__ = ["JointTarget", "Packing", "Symmetry", "apart", "find_symmetries", "images_of", "label_exchange_matrix"]


class Packing:
    """Parameters of some nodes as one vector of free numbers, and back."""

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
            parameters[node] = np.minimum(np.maximum(parameters[node], 1e-300), 1 - 2.0**-53)
        return parameters

    def _log_prior(self, thetas: Floats) -> Floats:
        total = np.full(len(thetas), self._log_constant)
        for place, mean, precision in self._sparse_precisions:
            residual = thetas[:, place] - mean
            form = "ij,j,ij->i" if precision.ndim == 1 else "ij,jk,ik->i"  # the same bits
            total -= 0.5 * np.einsum(form, residual, precision, residual)
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
    def _sparse_precisions(self) -> list[tuple[slice, Floats, Floats]]:
        """The same, but the diagonal alone, shape (k,), of a precision that is diagonal."""
        diagonals = [(place, mean, precision, np.diag(precision)) for place, mean, precision in self._precisions]
        return [(place, mean, d if np.array_equal(p, np.diag(d)) else p) for place, mean, p, d in diagonals]

    @cached_property
    def _log_constant(self) -> float:
        total = 0.0
        for place, _, precision in self._precisions:
            size = place.stop - place.start
            total += 0.5 * float(np.linalg.slogdet(precision)[1]) - 0.5 * size * float(np.log(2 * np.pi))
        return total


_TOLERANCE = 1e-9
_NEAR = 0.5  # standard deviations: an image so close is the component itself


class Symmetry(NamedTuple):
    """An exchange that leaves the posterior as it is."""

    text: str
    matrix: Floats  # (d, d); theta' = matrix @ theta, of determinant 1 or -1


def find_symmetries(target: JointTarget, hidden: tuple[str, ...], points: Floats) -> list[Symmetry]:
    """Exchanges of values and of nodes among ``hidden`` that leave the log density at ``points`` (n, d) as it is."""
    values = target.log_density(points)
    found = []
    for exchange in (*_flips(target, hidden), *_swaps(target, hidden)):
        changed = target.log_density(points @ exchange.matrix.T)
        if (np.abs(changed - values) <= _TOLERANCE * (1 + np.abs(values))).all():
            found.append(exchange)
    return found


def label_exchange_matrix(network: LogisticNetwork, packing: Packing, node: str) -> Floats:
    """The exchange of a node's two labels, shape (d, d): its coefficients and its children's weights change sign."""
    place = {label: k for k, label in enumerate(packing.labels)}
    matrix = np.eye(packing.n_dimensions)
    for k, (owner, label) in enumerate(packing.labels):
        is_weight = label == node and owner not in network.roots  # a root's label is 'probability', maybe a node's name
        if owner == node or is_weight:
            matrix[k, k] = -1.0
            if is_weight and network.coding == "01" and (owner, "bias") in place:  # b + w x = (b + w) - w (1 - x)
                matrix[place[owner, "bias"], k] = 1.0
    return matrix


def images_of(mixture: Mixture, exchanges: Sequence[Symmetry]) -> Mixture:
    """A mixture of t distributions with the images of its components under all exchanges, in equal shares.

    An image that falls upon a component already there adds its weight to that.
    """
    components: list[Any] = list(mixture.components)
    weights = list(mixture.weights)
    done = 0
    while done < len(components):
        for exchange in exchanges:
            image = _image(components[done], exchange.matrix)
            if all(apart(image, component) for component in components):
                components.append(image)
                weights.append(weights[done])
        done += 1
    return Mixture(components, np.array(weights) / sum(weights))


def _image(component: Student, matrix: Floats) -> Student:
    lower = np.asarray(np.linalg.qr((matrix @ component.cholesky).T, mode="r"), dtype=np.float64).T
    return Student(matrix @ component.mean, lower * np.where(np.diag(lower) < 0, -1.0, 1.0), component.df)


def apart(one: Student, other: Student) -> bool:
    """Whether the centre of one lies more than half a standard deviation from that of the other."""
    noise = np.linalg.solve(other.cholesky, one.mean - other.mean)
    return float(np.sqrt((noise**2).mean())) > _NEAR


def _flips(target: JointTarget, hidden: tuple[str, ...]) -> Iterator[Symmetry]:
    for node in hidden:
        matrix = label_exchange_matrix(target.network, target.packing, node)
        yield Symmetry(f"the values of {node!r} can be exchanged", matrix)


def _swaps(target: JointTarget, hidden: tuple[str, ...]) -> Iterator[Symmetry]:
    place = {label: k for k, label in enumerate(target.packing.labels)}
    for one, other in combinations(hidden, 2):
        change = {one: other, other: one}
        roots = target.network.roots
        images = [
            (change.get(owner, owner), label if owner in roots else change.get(label, label))
            for owner, label in target.packing.labels
        ]
        if all(image in place for image in images):
            matrix = np.zeros((len(images), len(images)))
            matrix[[place[image] for image in images], np.arange(len(images))] = 1.0
            yield Symmetry(f"{one!r} and {other!r} can be exchanged", matrix)
