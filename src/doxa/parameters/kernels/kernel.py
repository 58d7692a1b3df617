"""What a kernel is: a value that moves walkers, keeping a target invariant, and leaves a path behind.

What some kernels can do besides moving walkers: be tuned, be run backwards.

One step at a time for all walkers: the Metropolis-Hastings decision, and the loop that leaves a path.

Continuous distributions to draw from: log densities of batches of points, with gradients where there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.sampling.metropolis import TargetError, no_density

__all__ = [
    "Function",
    "Kernel",
    "Path",
    "SmoothTarget",
    "Target",
    "TargetError",
    "Tunable",
    "ValueAndGradient",
    "Walkers",
    "as_tunable",
    "check_dimensions",
    "check_inside",
    "decide",
    "join",
    "reverse",
    "run_lockstep",
    "start_at",
    "take",
    "values_at",
]


Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays


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
    """Log density at each row of ``thetas``; TargetError if it is NaN, plus infinity or of another shape."""
    thetas = np.asarray(thetas, dtype=np.float64)
    if thetas.ndim != 2 or thetas.shape[1] != target.n_dimensions:
        raise ArgumentError(f"thetas has shape {thetas.shape}; it must be (n, {target.n_dimensions})")
    return _checked(target.log_density(thetas), thetas)


def _checked(values: Floats, thetas: Floats) -> Floats:
    if values.shape != (len(thetas),):
        raise TargetError(
            f"the log density of {len(thetas)} points has shape {values.shape}; return one number a point"
        )
    good = values < np.inf  # NaN is not
    if not good.all():
        k = int(good.argmin())
        raise no_density(values[k], thetas[k])
    return values


class Walkers(NamedTuple):
    """Where independent chains stand that move in lockstep."""

    thetas: Floats  # (walkers, d)
    log_density: Floats  # (walkers,), of the target, nats


class Path(NamedTuple):
    """What some steps of all walkers left behind."""

    thetas: Floats  # (steps, walkers, d), after each step
    log_density: Floats  # (steps, walkers)
    acceptance: Floats  # (steps, walkers), probability with which the step's proposal was to be accepted


class Kernel(Protocol):
    """A transition that leaves any target it is given invariant, of one step or of many in bulk.

    Kernels are frozen values: all that moves is in the walkers, all randomness in ``rng``.
    """

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times."""


def start_at(target: Target, thetas: Floats) -> Walkers:
    """Walkers at these points (walkers, d); TargetError if the density there is not a number."""
    return Walkers(np.array(thetas, dtype=np.float64), values_at(target, thetas))


def check_inside(walkers: Walkers) -> None:
    """ArgumentError unless all walkers stand where the target has mass."""
    outside = ~np.isfinite(walkers.log_density)
    if outside.any():
        k = int(outside.argmax())
        raise ArgumentError(f"walkers[{k}] has log density {walkers.log_density[k]}; start where the target has mass")


def take(accepted: NDArray[np.bool_], proposed: Walkers, current: Walkers) -> Walkers:
    """The proposed position of each walker where it is accepted, else the current one."""
    return Walkers(
        np.where(accepted[:, None], proposed.thetas, current.thetas),
        np.where(accepted, proposed.log_density, current.log_density),
    )


def join(parts: list[Arrays]) -> Arrays:
    """Paths, or other tuples of arrays with an axis of steps, one after another."""
    if len(parts) == 1:
        return parts[0]
    joined: Arrays = type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return joined


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


def decide(
    target: Target, walkers: Walkers, proposed: Floats, log_hastings: Floats | float, rng: np.random.Generator
) -> tuple[Walkers, Floats]:
    """Accept or reject one proposal of each walker."""
    values = values_at(target, proposed)
    log_ratio = values - walkers.log_density + log_hastings
    accepted = np.log1p(-rng.random(len(values))) < log_ratio  # 1 - u is in (0, 1], so finite
    return take(accepted, Walkers(proposed, values), walkers), np.exp(np.minimum(log_ratio, 0.0))


def run_lockstep(
    step: Callable[[Walkers], tuple[Walkers, Floats]], walkers: Walkers, n_steps: int
) -> tuple[Walkers, Path]:
    """Take ``step`` so many times; it gives the walkers and the acceptance probabilities (walkers,)."""
    n, d = walkers.thetas.shape
    path = Path(np.empty((n_steps, n, d)), np.empty((n_steps, n)), np.empty((n_steps, n)))
    for t in range(n_steps):
        walkers, path.acceptance[t] = step(walkers)
        path.thetas[t], path.log_density[t] = walkers
    return walkers, path


def check_dimensions(kernel: object, n_dimensions: int, target: Target) -> None:
    """ArgumentError unless the target has as many coordinates as the kernel was made for."""
    if target.n_dimensions != n_dimensions:
        raise ArgumentError(
            f"target has {target.n_dimensions} coordinates, but {type(kernel).__name__} was made for {n_dimensions}"
        )
