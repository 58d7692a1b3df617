r"""Symmetries of a posterior with hidden nodes: exchanges of a hidden node's two values, or of two hidden nodes.

Neither changes what is observed, so wherever the prior does not mind either, the posterior has every mode more than
once and the coefficients concerned are not identified.  An exchange is a linear map of the packed vector; whether the
posterior minds is checked on points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.joint_target import JointTarget, Packing
from doxa.parameters.kernels.student import Student
from doxa.sampling.importance_proposals import Mixture

if TYPE_CHECKING:
    from doxa.models import LogisticNetwork

__all__ = ["Symmetry", "apart", "find_symmetries", "images_of", "label_exchange_matrix"]

Floats: TypeAlias = NDArray[np.float64]

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

    Examples
    --------
    >>> one = Mixture([Student(np.array([3.0]), np.eye(1), 5.0)], [1.0])
    >>> both = images_of(one, [Symmetry("", -np.eye(1))])
    >>> [float(part.mean[0]) for part in both.components], both.weights
    ([3.0, -3.0], array([0.5, 0.5]))
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
