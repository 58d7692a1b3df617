"""What some kernels can do besides moving walkers: be tuned, be run backwards."""

from __future__ import annotations

from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentTypeError
from doxa.parameters.kernels.kernel import Kernel

__all__ = ["Tunable", "as_tunable", "reverse"]

Floats: TypeAlias = NDArray[np.float64]


class Tunable(Kernel, Protocol):
    """A kernel with a step whose length and shape can be set; longer steps are accepted less often."""

    def scaled(self, factor: float) -> Tunable:
        """The same steps, ``factor`` times as long."""

    def whitened(self, cholesky: Floats) -> Tunable:
        """Steps shaped by a covariance, of a length that suits it roughly."""

    def best_acceptance(self, n_dimensions: int) -> float:
        """Mean acceptance probability at which the kernel moves best in so many dimensions."""


def as_tunable(kernel: Kernel) -> Tunable:
    """The kernel, or ArgumentTypeError if it has no step to tune."""
    if isinstance(kernel, type) or not all(
        hasattr(kernel, name) for name in ("run", "scaled", "whitened", "best_acceptance")
    ):
        raise ArgumentTypeError(
            f"kernel is of type {_name(kernel)}, which has no step to tune; calibrate the part that has one, such as a "
            "RandomWalk, and combine it with the others afterwards"
        )
    return cast(Tunable, kernel)


def _name(kernel: object) -> str:
    return f"type, {kernel.__name__}" if isinstance(kernel, type) else type(kernel).__name__


def reverse(kernel: Kernel) -> Kernel:
    """The kernel K' with p(x) K(x, y) = p(y) K'(y, x): what ``kernel.reversed()`` says, else the kernel itself.

    Kernels without that method are reversible: Metropolis-Hastings steps, and palindromes of them.
    """
    turn = getattr(kernel, "reversed", None)
    return kernel if turn is None else cast(Kernel, turn())
