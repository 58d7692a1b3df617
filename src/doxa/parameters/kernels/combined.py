r"""Mixtures and cycles: kernels made of kernels (Tierney 1994; de Freitas et al. 2001, section 4.3 and figure 7).

If each part keeps the target, so does a step of one drawn at random, and so do steps of all in turn: a global kernel
finds the modes, a local one their shape.  The choice may not depend on where the walkers stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.kernel import Kernel, Path, Target, Walkers, as_tunable, join, reverse, run_lockstep
from doxa.sampling.importance_proposals import check_weights

__all__ = ["CycleKernel", "MixtureKernel", "cycle", "mixture"]


@dataclass(frozen=True, eq=False)
class _Combined:
    """What mixtures and cycles share: steps that can be tuned where those of every kernel can."""

    kernels: Sequence[Kernel]

    def scaled(self, factor: float) -> Self:
        """Every kernel's steps ``factor`` times as long; ArgumentTypeError if one has no step."""
        return replace(self, kernels=[as_tunable(kernel).scaled(factor) for kernel in self.kernels])

    def whitened(self, cholesky: Floats) -> Self:
        """Every kernel's steps shaped by a covariance; ArgumentTypeError if one has no step."""
        return replace(self, kernels=[as_tunable(kernel).whitened(cholesky) for kernel in self.kernels])


@dataclass(frozen=True, eq=False)
class MixtureKernel(_Combined):
    """At each step one kernel, drawn at random; `mixture` makes it.

    Parameters
    ----------
    kernels : sequence of Kernel
        Mixtures and cycles among them, if need be.
    weights : sequence of float
        Probability of each; not negative, sum 1.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no kernel, one is no kernel, or ``weights`` are not their probabilities.

    Notes
    -----
    All walkers share the draw, so that a step stays one batch; once in the target they are uncorrelated, as whatever
    the choices each step keeps it. Steps in a row that fall to the same kernel are run in bulk.
    """

    weights: Sequence[float] | NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse what is no mixture."""
        object.__setattr__(self, "kernels", _check_kernels(self.kernels))
        weights = check_weights(self.weights, len(self.kernels), "kernels", "probabilities of kernels")
        object.__setattr__(self, "weights", weights)

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Draw the kernels of all steps, then move every walker ``n_steps`` times."""
        chosen = rng.choice(len(self.kernels), size=n_steps, p=self.weights)
        starts = np.flatnonzero(np.diff(chosen, prepend=-1))
        paths = []
        for start, end in zip(starts, [*starts[1:], n_steps], strict=True):
            walkers, path = self.kernels[chosen[start]].run(target, walkers, int(end - start), rng)
            paths.append(path)
        return walkers, join(paths)

    def reversed(self) -> MixtureKernel:
        """The mixture of the reversed kernels."""
        return replace(self, kernels=[reverse(kernel) for kernel in self.kernels])

    def best_acceptance(self, n_dimensions: int) -> float:
        """Mean of those of the kernels."""
        best = [as_tunable(kernel).best_acceptance(n_dimensions) for kernel in self.kernels]
        return float(np.dot(best, self.weights))


@dataclass(frozen=True, eq=False)
class CycleKernel(_Combined):
    """At each step every kernel once, in turn; `cycle` makes it.

    Parameters
    ----------
    kernels : sequence of Kernel
        Mixtures and cycles among them, if need be; one may stand in it several times.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there is no kernel, or one is no kernel.

    Notes
    -----
    Acceptance is the mean over the kernels. A cycle of reversible kernels keeps the target but is not reversible;
    `reversed` gives the cycle that runs the other way.
    """

    def __post_init__(self) -> None:
        """Refuse what is no cycle."""
        object.__setattr__(self, "kernels", _check_kernels(self.kernels))

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times by every kernel; the path has the places after whole steps."""

        def step(walkers: Walkers) -> tuple[Walkers, Floats]:
            total = np.zeros(len(walkers.thetas))
            for kernel in self.kernels:
                walkers, path = kernel.run(target, walkers, 1, rng)
                total += path.acceptance[0]
            return walkers, total / len(self.kernels)

        return run_lockstep(step, walkers, n_steps)

    def reversed(self) -> CycleKernel:
        """The reversed kernels, in the reverse order."""
        return CycleKernel([reverse(kernel) for kernel in self.kernels[::-1]])

    def best_acceptance(self, n_dimensions: int) -> float:
        """Mean of those of the kernels."""
        return float(np.mean([as_tunable(kernel).best_acceptance(n_dimensions) for kernel in self.kernels]))


def mixture(*kernels: Kernel, weights: Sequence[float] | NDArray[np.float64] | None = None) -> MixtureKernel:
    """One of the kernels at each step, with these probabilities (equal ones when left out).

    With a `BlockIndependence` and a `RandomWalk` on blocks it is the VarMixMCMC of de Freitas et al. 2001, figure 7.

    Examples
    --------
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> mixture(RandomWalk(0.1), RandomWalk(10.0), weights=[0.9, 0.1]).weights
    array([0.9, 0.1])
    """
    return MixtureKernel(kernels, np.full(len(kernels), 1 / max(len(kernels), 1)) if weights is None else weights)


def cycle(*kernels: Kernel) -> CycleKernel:
    """Every kernel once at each step, in turn.

    Examples
    --------
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> len(cycle(RandomWalk(0.1), mixture(RandomWalk(1.0), RandomWalk(10.0))).kernels)
    2
    """
    return CycleKernel(kernels)


def _check_kernels(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    if not len(kernels):
        raise ArgumentError("kernels is empty; give at least one kernel")
    for i, kernel in enumerate(kernels):
        if isinstance(kernel, type) or not hasattr(kernel, "run"):
            raise ArgumentTypeError(f"kernels[{i}] is {kernel!r}; give a kernel, such as RandomWalk(0.5)")
    return tuple(kernels)
