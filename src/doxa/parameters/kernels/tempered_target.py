r"""Tempered targets: a density to a power, flat where the power is small."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.errors import ArgumentError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.parameters.kernels.targets import SmoothTarget, Target, ValueAndGradient, values_at

__all__ = ["Reference", "SmoothTempered", "Tempered", "at_power"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reference:
    """A Gaussian that was checked and factored once, for the many rungs of a ladder: see `Tempered`.

    Parameters
    ----------
    gaussian : GaussianProposal

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``gaussian`` is none.
    """

    gaussian: GaussianProposal

    def __post_init__(self) -> None:
        """Refuse what is no Gaussian."""
        check_gaussian("reference", self.gaussian)

    @cached_property
    def mean(self) -> Floats:
        """Its mean, shape (d,)."""
        return np.asarray(self.gaussian.mean, dtype=np.float64)

    @cached_property
    def whiten(self) -> Floats:
        """What makes its draws standard normal from the right, shape (d, d): a product is quicker than solving."""
        factor = solve_triangular(self.gaussian.cholesky, np.eye(self.mean.size), lower=True)
        return np.ascontiguousarray(factor.T)


@dataclass(frozen=True, eq=False)
class Tempered:
    r"""The target :math:`r(\theta)^{1 - \beta} p(\theta)^\beta`, up to a constant.

    Parameters
    ----------
    target : Target
        p.
    beta : float
        From 0 to 1; 0 needs a reference.
    reference : GaussianProposal or Reference, optional
        r: the Gaussian with this ``mean`` and ``cholesky``, which the target becomes at beta = 0. Constant when left
        out.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``beta`` is out of range, or ``reference`` is no Gaussian over the target's coordinates.

    Notes
    -----
    Where p is 0 the tempered target is 0 too, at beta = 0 as well.

    Examples
    --------
    >>> from doxa.parameters.kernels.targets import Function
    >>> Tempered(Function(lambda x: -(x[:, 0] ** 2), 1), 0.25).log_density(np.array([[2.0]]))
    array([-1.])
    """

    target: Target
    beta: float
    reference: GaussianProposal | Reference | None = None

    def __post_init__(self) -> None:
        """Refuse powers that make no distribution."""
        least = "above 0 (0 needs a reference)" if self.reference is None else "at least 0"
        if not 0 <= self.beta <= 1 or (self.beta == 0 and self.reference is None):
            raise ArgumentError(f"beta is {self.beta!r}; it must be {least} and at most 1")
        if self._reference is not None and self._reference.mean.size != self.n_dimensions:
            raise ArgumentError(
                f"reference has {self._reference.mean.size} coordinates; the target has {self.n_dimensions}"
            )

    @property
    def n_dimensions(self) -> int:
        """The number of coordinates, d."""
        return self.target.n_dimensions

    def log_density(self, thetas: Floats) -> Floats:
        """Log density at each row of ``thetas``, shape (n, d)."""
        log_reference = self.log_reference(thetas)
        return self._between(values_at(self.target, thetas) - log_reference, log_reference)

    def energy(self, thetas: Floats, values: Floats) -> Floats:
        """log p - log r at each row, from the values of log p: what the power multiplies."""
        return values - self.log_reference(thetas)

    def at_energy(self, energy: Floats, thetas: Floats) -> Floats:
        """Log density at each row, from `energy`."""
        return self._between(energy, self.log_reference(thetas))

    def log_reference(self, thetas: Floats) -> Floats:
        """log r at each row, up to a constant; 0 without a reference."""
        if self._reference is None:
            return np.zeros(len(thetas))
        noise = (thetas - self._reference.mean) @ self._reference.whiten
        return np.asarray(-0.5 * np.einsum("ij,ij->i", noise, noise))

    def _between(self, energy: Floats, log_reference: Floats) -> Floats:
        log_density = self.beta * np.maximum(energy, -1e300) + log_reference  # 0 * inf is no number
        return np.where(np.isneginf(energy), -np.inf, log_density)

    @cached_property
    def _reference(self) -> Reference | None:
        given = self.reference
        return given if given is None or isinstance(given, Reference) else Reference(given)


class SmoothTempered(Tempered):
    """A tempered target whose log density has a gradient."""

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        """Log density and gradient at each row of ``thetas``, shape (n, d)."""
        value, gradient = cast(SmoothTarget, self.target).value_and_gradient(thetas)
        value = self.at_energy(self.energy(thetas, value), thetas)
        if self._reference is None:
            return ValueAndGradient(value, self.beta * gradient)
        whiten = self._reference.whiten
        pull = (thetas - self._reference.mean) @ whiten @ whiten.T
        return ValueAndGradient(value, self.beta * gradient - (1 - self.beta) * pull)


def at_power(target: Target, beta: float, reference: GaussianProposal | Reference | None = None) -> Tempered:
    """The tempered target; with a gradient if ``target`` has one."""
    kind = SmoothTempered if isinstance(target, SmoothTarget) else Tempered
    return kind(target, beta, reference)
