r"""Tempered transitions: up a ladder of flatter targets and down again, for modes that lie apart (Neal 1996).

A transition makes a step at each rung on the way up, reversed ones on the way down, and accepts where it arrives by
what it gained and lost by changing rungs.  It costs twice as many evaluations as there are rungs, and is to be combined
with a local kernel: ``cycle(local, tempered(local, ladder))``.

Tempered targets: a density to a power, flat where the power is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.parameters.kernels.gaussians import GaussianProposal, check_gaussian
from doxa.parameters.kernels.kernel import (
    Kernel,
    Path,
    SmoothTarget,
    Target,
    ValueAndGradient,
    Walkers,
    reverse,
    run_lockstep,
    take,
    values_at,
)

__all__ = ["Reference", "SmoothTempered", "Tempered", "TemperedTransitions", "at_power", "tempered"]


@dataclass(frozen=True, eq=False)
class Reference:
    """A Gaussian that was checked and factored once, for the many rungs of a ladder: see `Tempered`."""

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
    >>> from doxa.parameters.kernels.kernel import Function
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
        return self.between(values_at(self.target, thetas) - log_reference, log_reference)

    def log_reference(self, thetas: Floats) -> Floats:
        """log r at each row, up to a constant; 0 without a reference."""
        if self._reference is None:
            return np.zeros(len(thetas))
        noise = (thetas - self._reference.mean) @ self._reference.whiten
        return np.asarray(-0.5 * np.einsum("ij,ij->i", noise, noise))

    def between(self, energy: Floats, log_reference: Floats) -> Floats:
        """Log density from the energy, log p - log r: what the power multiplies."""
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
        log_reference = self.log_reference(thetas)
        value = self.between(value - log_reference, log_reference)
        if self._reference is None:
            return ValueAndGradient(value, self.beta * gradient)
        whiten = self._reference.whiten
        pull = (thetas - self._reference.mean) @ whiten @ whiten.T
        return ValueAndGradient(value, self.beta * gradient - (1 - self.beta) * pull)


def at_power(target: Target, beta: float, reference: GaussianProposal | Reference | None = None) -> Tempered:
    """The tempered target; with a gradient if ``target`` has one."""
    kind = SmoothTempered if hasattr(target, "value_and_gradient") else Tempered  # a Protocol takes 12 us
    return kind(target, beta, reference)


@dataclass(frozen=True, eq=False)
class TemperedTransitions:
    r"""Transitions through flatter targets; `tempered` makes them.

    Parameters
    ----------
    kernels : sequence of Kernel
        One for each rung after the first: reversible, or with a method ``reversed``.
    ladder : sequence of float
        Powers :math:`1 = \beta_0 > \beta_1 > \dots > \beta_n \geq 0`; 0 needs a reference.
    reference : GaussianProposal, optional
        See `Tempered`.
    steps : int, default=1
        Steps at each rung, up and again down.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If the ladder does not begin at 1 and fall, or there are not as many kernels as rungs after the first.

    Notes
    -----
    With :math:`p_i` the target at rung i, :math:`x_0 = \theta`, :math:`x_i` reached from :math:`x_{i-1}` by kernel i,
    and :math:`y_n = x_n`, :math:`y_{i-1}` reached from :math:`y_i` by the reversed kernel i, :math:`y_0` is accepted
    with probability :math:`\min(1, \prod_{i=0}^{n-1} \frac{p_{i+1}(x_i)}{p_i(x_i)} \frac{p_i(y_i)}{p_{i+1}(y_i)})`.
    The path backwards from :math:`y_0` uses the same kernels reversed, so the product is the ratio of the probabilities
    of the two paths times :math:`p_0(y_0) / p_0(x_0)`.  In logarithms it is
    :math:`\sum_i (\beta_i - \beta_{i+1}) [E(y_i) - E(x_i)]`, E = log p - log r; no constants are needed.

    Examples
    --------
    >>> from doxa.parameters.kernels.kernel import start_at
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> from doxa.parameters.kernels.kernel import Function
    >>> modes = Function(lambda x: np.logaddexp(-0.5 * (x[:, 0] - 9) ** 2, np.log(3) - 0.5 * (x[:, 0] + 9) ** 2), 1)
    >>> kernel = tempered(lambda beta: RandomWalk(2.4 / beta**0.5), np.geomspace(1, 0.01, 12))
    >>> _, path = kernel.run(modes, start_at(modes, np.full((400, 1), 9.0)), 60, np.random.default_rng(1))
    >>> round(float((path.thetas[-40:] < 0).mean()), 1)  # 3/4 when there are many
    0.8
    """

    kernels: Sequence[Kernel]
    ladder: Sequence[float] | NDArray[np.float64]
    reference: GaussianProposal | None = None
    steps: int = 1

    def __post_init__(self) -> None:
        """Refuse ladders that lead nowhere."""
        ladder = np.array(self.ladder, dtype=np.float64)
        if ladder.ndim != 1 or ladder.size < 2 or ladder[0] != 1 or not (np.diff(ladder) < 0).all():
            raise ArgumentError(f"ladder is {self.ladder!r}; it must begin at 1 and fall: numpy.geomspace(1, 0.05, 10)")
        lowest = ladder[-1]
        if lowest < 0 or (lowest == 0 and self.reference is None):
            raise ArgumentError(f"ladder ends at {lowest:g}; it must end above 0, or at 0 with a reference")
        if len(self.kernels) != ladder.size - 1:
            raise ArgumentError(f"there are {len(self.kernels)} kernels for {ladder.size - 1} rungs after the first")
        for kernel in self.kernels:
            if isinstance(kernel, type) or not hasattr(kernel, "run"):
                raise ArgumentTypeError(f"kernel is {kernel!r}; give a kernel, or a function from beta to one")
        ladder.flags.writeable = False
        object.__setattr__(self, "ladder", ladder)
        object.__setattr__(self, "kernels", tuple(self.kernels))
        object.__setattr__(self, "steps", check_whole("steps", self.steps, 1))

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Make ``n_steps`` transitions; each evaluates the target ``2 * steps`` times a rung, and once more."""
        rungs = [at_power(target, float(beta), self._reference) for beta in self.ladder]
        falls = -np.diff(self.ladder)
        up = list(zip(falls, rungs[1:], self.kernels, strict=True))
        down = [(fall, rung, reverse(kernel)) for fall, rung, kernel in reversed(up)]

        def transition(walkers: Walkers) -> tuple[Walkers, Floats]:
            thetas = walkers.thetas
            reference = rungs[0].log_reference(thetas)
            energy = walkers.log_density - reference
            log_ratio = np.zeros(len(thetas))
            for fall, rung, kernel in up:
                log_ratio -= fall * energy
                thetas, energy, reference = self._move(kernel, rung, thetas, energy, reference, rng)
            for fall, rung, kernel in down:
                thetas, energy, reference = self._move(kernel, rung, thetas, energy, reference, rng)
                log_ratio += fall * energy
            accepted = self._passes(log_ratio, rng)
            proposed = Walkers(thetas, values_at(target, thetas))
            return take(accepted, proposed, walkers), np.exp(np.minimum(log_ratio, 0.0))

        return run_lockstep(transition, walkers, n_steps)

    @property
    def n_evaluations(self) -> int:
        """How often one transition evaluates the target for each walker."""
        return 2 * self.steps * len(self.kernels) + 1 + 2 * (float(np.min(self.ladder)) == 0)

    @cached_property
    def _reference(self) -> Reference | None:
        return None if self.reference is None else Reference(self.reference)

    def _passes(self, log_ratio: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
        return np.log1p(-rng.random(len(log_ratio))) < log_ratio

    def _move(
        self,
        kernel: Kernel,
        rung: Tempered,
        thetas: Floats,
        energy: Floats,
        log_reference: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, Floats, Floats]:
        """Make the steps at one rung; the points, their energies and their log r."""
        moved, _ = kernel.run(rung, Walkers(thetas, rung.between(energy, log_reference)), self.steps, rng)
        log_reference = rung.log_reference(moved.thetas)
        if rung.beta == 0:
            return moved.thetas, values_at(rung.target, moved.thetas) - log_reference, log_reference
        return moved.thetas, (moved.log_density - log_reference) / rung.beta, log_reference


def tempered(
    kernel: Kernel | Callable[[float], Kernel],
    ladder: Sequence[float] | NDArray[np.float64],
    reference: GaussianProposal | None = None,
    *,
    steps: int = 1,
) -> TemperedTransitions:
    """Make transitions through flatter targets.

    Parameters
    ----------
    kernel : Kernel or callable
        What moves walkers at each rung after the first, or a function from its power to that: steps should grow as the
        target widens.
    ladder : sequence of float
        Powers of the target's density, from 1 downwards; ``numpy.geomspace(1, 0.05, 10)``, say.  The last should let
        a walker cross between modes. As the logarithm of the product has a variance of some d / n, the number n
        of rungs should grow with that of the coordinates.
    reference : GaussianProposal, optional
        What the target becomes at power 0, instead of a constant. Give it where the density to a small power would be
        far too wide.
    steps : int, default=1
        Steps at each rung, up and again down.

    Returns
    -------
    TemperedTransitions

    Examples
    --------
    >>> from doxa.parameters.kernels.random_walk import RandomWalk
    >>> [k.scale for k in tempered(lambda beta: RandomWalk(1 / beta), [1, 0.5, 0.25]).kernels]
    [2.0, 4.0]
    """
    powers = np.atleast_1d(np.asarray(ladder, dtype=np.float64))[1:]
    if hasattr(kernel, "run"):
        kernels: list[Kernel] = [kernel] * powers.size
    elif callable(kernel):
        kernels = [kernel(float(beta)) for beta in powers]
    else:
        raise ArgumentTypeError(f"kernel is {kernel!r}; give a kernel, or a function from beta to one")
    return TemperedTransitions(kernels, ladder, reference, steps)
