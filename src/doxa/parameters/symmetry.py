r"""Symmetries of a posterior with hidden nodes: exchanges of a hidden node's two values, or of two hidden nodes.

Neither changes what is observed, so wherever the prior does not mind either, the posterior has every mode more than
once and the coefficients concerned are not identified.  An exchange is a linear map of the packed vector; whether the
posterior minds is checked on points.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.joint_target import JointTarget

__all__ = ["Symmetry", "find_symmetries"]

Floats: TypeAlias = NDArray[np.float64]

_TOLERANCE = 1e-9


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


def _flips(target: JointTarget, hidden: tuple[str, ...]) -> Iterator[Symmetry]:
    network, packing = target.network, target.packing
    place = {label: k for k, label in enumerate(packing.labels)}
    for node in hidden:
        matrix = np.eye(packing.n_dimensions)
        for k, (owner, label) in enumerate(packing.labels):
            if owner == node:
                matrix[k, k] = -1.0
            elif label == node and owner not in network.roots:  # whose label is 'probability', as a node's may be
                matrix[k, k] = -1.0
                if network.coding == "01" and (owner, "bias") in place:  # b + w x = (b + w) - w (1 - x)
                    matrix[place[owner, "bias"], k] = 1.0
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
