"""Continuous distributions to draw from: log densities of batches of points, with gradients where there are any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError, DoxaError

__all__ = ["Function", "SmoothTarget", "Target", "TargetError", "ValueAndGradient", "values_at"]

Floats: TypeAlias = NDArray[np.float64]


class TargetError(DoxaError):
    """A log density that cannot be drawn from: NaN, plus infinity, or an array of the wrong shape."""


class ValueAndGradient(NamedTuple):
    """Log density at n points, and its slope."""

    value: Floats  # (n,), nats
    gradient: Floats  # (n, d)


class Target(Protocol):
    """A distribution over d real numbers, known up to a constant."""

    @property
    def n_dimensions(self) -> int:
        """The number of coordinates, d."""

    def log_density(self, thetas: Floats) -> Floats:
        """Log density (nats, up to one constant) at each row of ``thetas``, shape (n, d); minus infinity outside."""


@runtime_checkable
class SmoothTarget(Target, Protocol):
    """A target whose log density has a gradient."""

    def value_and_gradient(self, thetas: Floats) -> ValueAndGradient:
        """Log density and gradient at each row of ``thetas``, shape (n, d)."""


@dataclass(frozen=True)
class Function:
    """A user's own log density as a target.

    Parameters
    ----------
    function : callable
        From points (n, d) to log densities (n,), nats, up to a constant.
    n_dimensions : int
        The number of coordinates, d.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``function`` cannot be called, or ``n_dimensions`` is not a whole number of at least 1.
    TargetError
        When it is evaluated: if it returns another shape, NaN or plus infinity.

    Examples
    --------
    >>> target = Function(lambda x: -0.5 * (x**2).sum(axis=1), 2)
    >>> target.log_density(np.array([[0.0, 0.0], [1.0, 1.0]]))
    array([-0., -1.])
    """

    function: Callable[[Floats], Any]
    n_dimensions: int

    def __post_init__(self) -> None:
        """Refuse what is no function of batches of points."""
        if not callable(self.function):
            raise ArgumentTypeError(f"function is {self.function!r}; give a callable from points (n, d) to (n,)")
        check_whole("n_dimensions", self.n_dimensions, 1)

    def log_density(self, thetas: Floats) -> Floats:
        """The function, checked."""
        return _checked(np.asarray(self.function(thetas), dtype=np.float64), thetas)


def values_at(target: Target, thetas: Floats) -> Floats:
    """Log density at each row of ``thetas``; TargetError if it is NaN, plus infinity or of another shape.

    Examples
    --------
    >>> values_at(Function(lambda x: -np.abs(x[:, 0]), 1), np.array([[2.0]]))
    array([-2.])
    """
    thetas = np.asarray(thetas, dtype=np.float64)
    if thetas.ndim != 2 or thetas.shape[1] != target.n_dimensions:
        raise ArgumentError(f"thetas has shape {thetas.shape}; it must be (n, {target.n_dimensions})")
    return _checked(target.log_density(thetas), thetas)


def _checked(values: Floats, thetas: Floats) -> Floats:
    if values.shape != (len(thetas),):
        raise TargetError(
            f"the log density of {len(thetas)} points has shape {values.shape}; return one number a point"
        )
    bad = np.isnan(values) | (values == np.inf)
    if bad.any():
        k = int(bad.argmax())
        raise TargetError(
            f"the log density is {values[k]} at {np.array2string(thetas[k], threshold=8, precision=4)}; it must be a "
            "number, or minus infinity where the distribution has no mass"
        )
    return values
