r"""Random-walk Metropolis: Gaussian steps from where a walker stands, of one size or shaped by a covariance.

The local half of the mixtures of de Freitas et al. 2001, section 4.3.  How long the steps should be is found by
`doxa.parameters.kernels.calibrate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import check_cholesky, check_indices, conditional_laws
from doxa.parameters.kernels.kernel import Path, Walkers, check_dimensions, decide, run_lockstep
from doxa.parameters.kernels.targets import Target

__all__ = ["RandomWalk"]

Floats: TypeAlias = NDArray[np.float64]

_OPTIMAL = 2.38  # times sd / sqrt(d): the best step on a Gaussian in many dimensions (Roberts, Gelman & Gilks 1997)


@dataclass(frozen=True, eq=False)
class RandomWalk:
    r"""Metropolis steps :math:`\theta' = \theta + sLz` with z standard normal.

    Parameters
    ----------
    scale : float, default=1.0
        s, above 0: the standard deviation of a step where there is no ``cholesky``.
    cholesky : ndarray of float, shape (d, d), optional
        Lower triangular L; the target's own is best (whitening). The identity when left out.
    coordinates : sequence of int, optional
        Move these only. Their steps have the covariance :math:`s^2 LL^T` *given that the others do not move*, which is
        narrower than their part of it. Alone, such a kernel never reaches the rest: see `block` and `cycle`.

    Raises
    ------
    ArgumentError
        If ``scale`` is not above 0, ``cholesky`` is no Cholesky factor, or ``coordinates`` are not distinct indices;
        when run, if the target has another number of coordinates.

    Notes
    -----
    The proposal is symmetric, so the acceptance probability is :math:`\min(1, p(\theta') / p(\theta))`.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.targets import Function
    >>> normal = Function(lambda x: -0.5 * (x**2).sum(axis=1), 2)
    >>> walkers, path = RandomWalk(1.7).run(normal, start_at(normal, np.zeros((8, 2))), 4000, np.random.default_rng(1))
    >>> path.thetas.shape, round(float(path.acceptance.mean()), 2), round(float(path.thetas.var()), 1)
    ((4000, 8, 2), 0.35, 1.0)
    """

    scale: float = 1.0
    cholesky: NDArray[np.float64] | None = None
    coordinates: Sequence[int] | NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        """Refuse steps that are none."""
        if not (self.scale > 0 and isfinite(self.scale)):
            raise ArgumentError(f"scale is {self.scale!r}; it must be a finite number above 0")
        d = None
        if self.cholesky is not None:
            factor = check_cholesky("cholesky", self.cholesky)
            object.__setattr__(self, "cholesky", factor)
            d = len(factor)
        if self.coordinates is not None:
            index = check_indices("coordinates", self.coordinates, d)
            object.__setattr__(self, "coordinates", tuple(index.tolist()))

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times; each step evaluates the target once, on all walkers."""
        if self.cholesky is not None:
            check_dimensions(self, len(self.cholesky), target)
        moved = (
            slice(None)
            if self.coordinates is None
            else check_indices("coordinates", self.coordinates, target.n_dimensions)
        )
        factor = self._factor

        def step(walkers: Walkers) -> tuple[Walkers, Floats]:
            proposed = walkers.thetas.copy()
            noise = self.scale * rng.standard_normal(proposed[:, moved].shape)
            proposed[:, moved] += noise if factor is None else noise @ factor.T
            return decide(target, walkers, proposed, 0.0, rng)

        return run_lockstep(step, walkers, n_steps)

    @cached_property
    def _factor(self) -> Floats | None:
        if self.cholesky is None or self.coordinates is None:
            return self.cholesky
        return conditional_laws(self.cholesky, [np.array(self.coordinates)])[0].factor

    def within(self, coordinates: Sequence[int] | NDArray[np.intp]) -> RandomWalk:
        """The same steps, of these coordinates only."""
        return replace(self, coordinates=coordinates)

    def scaled(self, factor: float) -> RandomWalk:
        """The same steps, ``factor`` times as long."""
        return replace(self, scale=self.scale * factor)

    def whitened(self, cholesky: Floats) -> RandomWalk:
        """Steps shaped by a covariance, of the size that is best on a Gaussian."""
        moved = len(cholesky) if self.coordinates is None else len(self.coordinates)
        return replace(self, scale=_OPTIMAL / sqrt(moved), cholesky=cholesky)

    def best_acceptance(self, n_dimensions: int) -> float:
        r"""Mean acceptance probability to aim at: .44 in one dimension, .234 in many, .234 + .206 / d between.

        Within .015 of where the mean squared jump on a Gaussian is longest: there the acceptance given a step of
        length r (in standard deviations) is :math:`2\Phi(-r/2)`, so that is an integral over r alone.
        """
        moved = n_dimensions if self.coordinates is None else len(self.coordinates)
        return 0.234 + 0.206 / moved
