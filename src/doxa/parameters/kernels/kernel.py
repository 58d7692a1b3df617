"""What a kernel is: a value that moves walkers, keeping a target invariant, and leaves a path behind."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.parameters.kernels.targets import Target, values_at

__all__ = ["Kernel", "Path", "Walkers", "join", "start_at", "take"]

Floats: TypeAlias = NDArray[np.float64]


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

    Kernels are frozen values: all that moves is in the walkers, all chance in ``rng``.
    """

    def run(self, target: Target, walkers: Walkers, n_steps: int, rng: np.random.Generator) -> tuple[Walkers, Path]:
        """Move every walker ``n_steps`` times."""


def start_at(target: Target, thetas: Floats) -> Walkers:
    """Walkers at these points (walkers, d); TargetError if the density there is not a number."""
    return Walkers(np.array(thetas, dtype=np.float64), values_at(target, thetas))


def take(accepted: NDArray[np.bool_], proposed: Walkers, current: Walkers) -> Walkers:
    """The proposed position of each walker where it is accepted, else the current one."""
    return Walkers(
        np.where(accepted[:, None], proposed.thetas, current.thetas),
        np.where(accepted, proposed.log_density, current.log_density),
    )


def join(paths: list[Path]) -> Path:
    """Paths one after another."""
    return paths[0] if len(paths) == 1 else Path(*(np.concatenate(parts) for parts in zip(*paths, strict=True)))
