"""One step at a time for all walkers: the Metropolis-Hastings decision, and the loop that leaves a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.parameters.kernels.kernel import Path, Walkers, take
from doxa.parameters.kernels.targets import Target, values_at

__all__ = ["check_dimensions", "decide", "run_lockstep"]

Floats: TypeAlias = NDArray[np.float64]


def decide(
    target: Target, walkers: Walkers, proposed: Floats, log_hastings: Floats | float, rng: np.random.Generator
) -> tuple[Walkers, Floats]:
    """Accept or reject one proposal of each walker.

    Parameters
    ----------
    target : Target
    walkers : Walkers
    proposed : ndarray of float, shape (walkers, d)
        Evaluated in one batch.
    log_hastings : float or ndarray of float, shape (walkers,)
        log q(old | new) - log q(new | old), nats; 0 for a symmetric proposal.
    rng : Generator

    Returns
    -------
    Walkers
        Where they stand now.
    ndarray of float, shape (walkers,)
        Probability with which each was to be accepted.
    """
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
