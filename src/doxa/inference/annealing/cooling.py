"""Simulated annealing: the most probable states, by chains that grow cold (Kirkpatrick, Gelatt & Vecchi 1983).

The best of many restarts is returned.  It is a lower bound: nothing here says that no state is better.  Where a
network is narrow, `doxa.inference.exact` finds the best state and knows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.annealing.path import Path, run_blocks

__all__ = ["Cooled", "cool"]

_HOTTEST, _COLDEST = 0.05, 8.0  # inverse temperatures, in units of the network's own


class Cooled(NamedTuple):
    """What the restarts found."""

    states: NDArray[np.int64]  # (n_variables,), the best
    log_value: float  # log of the product of the factors there, nats; -inf where no restart found a possible state
    log_values: NDArray[np.float64]  # (restarts,): how often the best was found says how far to trust it


def cool(
    path: Path,
    n_sweeps: int,
    restarts: int,
    rng: np.random.Generator,
    *,
    betas: ArrayLike | None = None,
    workers: int | None = None,
) -> Cooled:
    """Search for the most probable states of a network.

    Parameters
    ----------
    path : Path
        Its base plays no part; zeros are softened on the way and count at the end.
    n_sweeps : int
        Of every restart.
    restarts : int
        Rounded up to a multiple of ``path.block``.
    rng : numpy.random.Generator
    betas : array_like, shape (n_sweeps,), optional
        Inverse temperatures of the sweeps, not negative; from 0.05 to 8, geometrically, when left out.
    workers : int, optional
        Threads; they do not change the result.

    Returns
    -------
    Cooled

    Examples
    --------
    >>> from doxa.inference.annealing import SpinPath
    >>> found = cool(SpinPath([[0, 1], [1, 2]], [1.0, -2.0], [0.1, 0.0, 0.0]), 50, 512, np.random.default_rng(1))
    >>> found.states, round(found.log_value, 9)
    (array([1, 1, 0]), 3.1)
    """
    n_sweeps = check_whole("n_sweeps", n_sweeps, 1)
    plan = np.geomspace(_HOTTEST, _COLDEST, n_sweeps) if betas is None else np.asarray(betas, dtype=np.float64)
    if plan.shape != (n_sweeps,) or not np.isfinite(plan).all() or (plan < 0).any():
        raise ArgumentError(f"betas has shape {plan.shape}; it must hold {n_sweeps} numbers, none negative")
    n_blocks = -(-check_whole("restarts", restarts, 1) // path.block)
    states = np.concatenate(run_blocks(_cool, (path, plan), [()] * n_blocks, rng, workers))
    log_values = path.log_value(states)
    best = int(log_values.argmax())
    return Cooled(states[best].astype(np.int64), float(log_values[best]), log_values)


def _cool(common: Any, block: Any, _: int) -> Any:
    path, betas = common
    return path.cool(betas, np.random.default_rng(block[0]))
