r"""Exchanges in turn with another kernel: linear maps that are their own inverses, accepted by their ratio.

Where a target has mirror images of its modes, as where a hidden node's two labels or two hidden nodes can be exchanged,
a map leads from each to another at once, and a local kernel need not cross what lies between (compare the permutation
sampler of Fruhwirth-Schnatter 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.parameters.kernels.kernel import Kernel, Path, Walkers, check_dimensions, decide, join
from doxa.parameters.kernels.targets import Target

__all__ = ["Exchanging"]

_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Exchanging:
    r"""A kernel, and exchanges before some of its steps.

    Parameters
    ----------
    kernel : Kernel
    matrices : sequence of ndarray of float, shape (d, d)
        The exchanges :math:`\theta' = A\theta`, each its own inverse.
    every : int, default=1
        Steps of the kernel between two rounds of exchanges.

    Raises
    ------
    ArgumentError
        If there is no matrix, one is not its own inverse, or ``every`` is below 1.

    Notes
    -----
    Each exchange is proposed to each walker with probability 1/2, as one that is always accepted would else alternate
    between two images. Its determinant is 1 or -1, so the acceptance probability is :math:`\min(1, p(A\theta) /
    p(\theta))`: the target is kept whether or not the exchange is a symmetry of it. The acceptance of a path is that of
    the kernel.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> from doxa.parameters.kernels.targets import Function
    >>> two = Function(lambda x: np.logaddexp(-0.5 * (x[:, 0] - 9) ** 2, -0.5 * (x[:, 0] + 9) ** 2), 1)
    >>> kernel = Exchanging(RandomWalk(2.0), [-np.eye(1)])
    >>> _, path = kernel.run(two, start_at(two, np.full((4, 1), 9.0)), 1000, np.random.default_rng(1))
    >>> round(float((path.thetas > 0).mean()), 1)
    0.5
    """

    kernel: Kernel
    matrices: Sequence[NDArray[np.float64]]
    every: int = 1

    def __post_init__(self) -> None:
        """Refuse what is no exchange."""
        check_whole("every", self.every, 1)
        if not len(self.matrices):
            raise ArgumentError("matrices is empty; give at least one exchange, or use the kernel alone")
        for i, matrix in enumerate(self.matrices):
            if not np.allclose(matrix @ matrix, np.eye(len(matrix)), rtol=0, atol=_TOLERANCE):
                raise ArgumentError(f"matrices[{i}] is not its own inverse; its ratio would lack the Hastings term")

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; each exchange evaluates the target once, on all walkers."""
        check_dimensions(self, len(self.matrices[0]), target)
        paths = []
        for first in range(0, n_steps, self.every):
            for matrix in self.matrices:
                walkers = exchanged(target, walkers, matrix, rng)
            walkers, path = self.kernel.run(target, walkers, min(self.every, n_steps - first), rng)
            paths.append(path)
        return walkers, join(paths)


def exchanged(target: Target, walkers: Walkers, matrix: NDArray[np.float64], rng: np.random.Generator) -> Walkers:
    """Walkers after an exchange that is proposed to half of them."""
    proposed = np.where(rng.random((len(walkers.thetas), 1)) < 0.5, walkers.thetas @ matrix.T, walkers.thetas)
    return decide(target, walkers, proposed, 0.0, rng)[0]
