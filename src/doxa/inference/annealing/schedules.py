r"""Schedules of inverse temperatures: how to get from 0 to 1 in so many steps.

A good schedule goes slowly where weights spread.  Let V be the variance of the log weights along a pilot run.  Where
steps are small it grows by :math:`\zeta(\beta) / \rho(\beta)` per unit of beta, with :math:`\rho` steps per unit and
:math:`\zeta` a friction of the path and its kernels: the variance of :math:`\partial \ln f_\beta / \partial \beta`
times twice its autocorrelation time in sweeps.  Minimising :math:`\int \zeta / \rho` for :math:`K = \int \rho` steps
gives :math:`\rho \propto \sqrt\zeta` and the variance

.. math:: V = \Lambda^2 / K, \qquad \Lambda = \int_0^1 \sqrt{\zeta(\beta)} \, d\beta,

the squared thermodynamic length over the number of steps.  With a pilot of :math:`\Delta K_b` steps in bin b, where V
grew by :math:`\Delta V_b`, :math:`\int_b \sqrt\zeta = \sqrt{\Delta K_b \Delta V_b}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.inference.annealing.path import Annealed, Path, anneal

__all__ = ["Schedule", "adapted", "geometric", "linear", "tune_schedule"]

Floats = NDArray[np.float64]

_BINS = 24
_EVEN = 0.1  # share of the steps that is spread as in the pilot, in case that missed something
_FIRST_STEPS = 64
_SETTLED = 2.5  # variance of log weights (nats squared) at which a pilot tells enough
_GROWTH = 4


def linear(n_steps: int) -> Floats:
    """Even steps.

    Examples
    --------
    >>> linear(4)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    return np.linspace(0.0, 1.0, check_whole("n_steps", n_steps, 1) + 1)


def geometric(n_steps: int, first: float = 1e-3) -> Floats:
    """0, then ``first``, then numbers of constant ratio up to 1.

    Examples
    --------
    >>> geometric(4, 0.001).round(3)
    array([0.   , 0.001, 0.01 , 0.1  , 1.   ])
    """
    if not 0 < first < 1:
        raise ArgumentError(f"first is {first}; it must lie between 0 and 1")
    return np.append(0.0, np.geomspace(first, 1.0, check_whole("n_steps", n_steps, 2)))


class Schedule(NamedTuple):
    """A schedule made from a pilot run, and what to expect of it."""

    betas: Floats
    length: float  # Lambda, nats times the root of a step: the log weights' variance is its square over the steps

    @property
    def variance(self) -> float:
        """Expected variance of the log weights."""
        return self.length**2 / (len(self.betas) - 1)


def adapted(pilot: Annealed, n_steps: int) -> Schedule:
    """Spread ``n_steps`` as the pilot's variances ask for.

    Examples
    --------
    >>> pilot = Annealed(np.zeros(2), np.zeros((2, 1)), linear(4), np.array([0.0, 0.0, 0.0, 0.4]))
    >>> adapted(pilot, 8).betas.round(2)  # all variance in the last quarter
    array([0.  , 0.75, 0.79, 0.82, 0.86, 0.89, 0.93, 0.96, 1.  ])
    """
    n_steps, betas = check_whole("n_steps", n_steps, 1), pilot.betas
    ends = np.unique(np.linspace(0, len(betas) - 1, min(_BINS, len(betas) - 1) + 1).round().astype(int))
    steps = np.diff(ends)
    variances = np.maximum.accumulate(np.append(0.0, pilot.variances))
    growth = np.diff(variances[ends])
    growth = np.maximum(growth, variances[-1] * 1e-3 / len(steps) + 1e-12)
    lengths = np.sqrt(steps * growth)
    share = (1 - _EVEN) * lengths / lengths.sum() + _EVEN * steps / steps.sum()
    inner = np.interp(np.linspace(0, 1, n_steps + 1), np.append(0.0, np.cumsum(share)), betas[ends])
    inner[0], inner[-1] = 0.0, 1.0
    return Schedule(inner, float(lengths.sum()))


def tune_schedule(
    path: Path, n: int, rng: np.random.Generator, *, variance: float, most_steps: int, workers: int | None = None
) -> Schedule:
    """Find a schedule whose log weights will have a given variance, by pilots that are thrown away.

    Parameters
    ----------
    path : Path
    n : int
        Particles of each pilot.
    rng : numpy.random.Generator
    variance : float
        Of the log weights, nats squared; 0.2 leaves 80 in 100 particles effective.
    most_steps : int
        The schedule takes no more, whatever the variance then; nor do the pilots, together.

    Returns
    -------
    Schedule
        Frozen: what it will be used for has no part in it.
    """
    betas, left, n_steps = linear(min(_FIRST_STEPS, most_steps)), most_steps, _FIRST_STEPS
    while True:
        pilot = anneal(path, betas, n, rng, workers=workers)
        left -= n_steps
        n_steps = min(n_steps * _GROWTH, left)
        if pilot.variances[-1] <= _SETTLED or n_steps < len(betas):
            break
        betas = adapted(pilot, n_steps).betas
    length = adapted(pilot, 1).length
    wanted = int(np.ceil(length**2 / variance))
    return adapted(pilot, min(max(wanted, _FIRST_STEPS // 2), most_steps))
