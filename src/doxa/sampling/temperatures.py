r"""Chains at several temperatures that trade places: what all of them share (Geyer 1991; Syed et al. 2022).

A rung samples a target to the power :math:`\beta`, with :math:`1 = \beta_0 > \beta_1 > \dots`.  Neighbours a and b
offer each other their states, even and odd pairs in turn, and accept with probability

.. math:: \min\{1, \exp[(\beta_a - \beta_b)(s_b - s_a)]\},

s being what :math:`\beta` multiplies in the log of the target: that keeps the product of the rungs' targets.  The
shares of offers that are rejected add up along the rungs to about the same *barrier* however they are spaced, so rungs
are best put at equal parts of it.

Who runs the rungs is not said here: samplers of graphs one after the other (`doxa.structure.moves.tempered`), states of
networks in one compiled loop (`doxa.inference.annealing.tempering`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats

__all__ = ["barrier_along", "equally_rejected", "log_swap_ratio"]

_LEAST = 1e-3  # share of rejections: no part of the way is nothing


def log_swap_ratio(beta_a: float, beta_b: float, score_a: float, score_b: float) -> float:
    """Log of the ratio with which rungs a and b trade their states; ``score_a`` is s of the state on rung a, nats.

    Plain Python, which compiled loops compile for themselves.
    """
    return (beta_a - beta_b) * (score_b - score_a)


def barrier_along(rejected: ArrayLike) -> Floats:
    """The barrier from the first rung down to each, shape (n_rungs,), by the shares of offers that were rejected.

    Examples
    --------
    >>> barrier_along([0.25, 0.5])
    array([0.  , 0.25, 0.75])
    """
    return np.concatenate([[0.0], np.cumsum(np.maximum(np.asarray(rejected, dtype=np.float64), _LEAST))])


def equally_rejected(betas: ArrayLike, barrier: Floats, n_rungs: int, reach: float | None = None) -> Floats:
    """Inverse temperatures between which offers are rejected alike.

    Parameters
    ----------
    betas : array_like of float, shape (n_old_rungs,)
        Falling.
    barrier : ndarray of float, shape (n_old_rungs,)
        What `barrier_along` found between them.
    n_rungs : int
        How many are wanted.
    reach : float, optional
        The barrier at the last; the whole of it when left out.

    Examples
    --------
    >>> equally_rejected([1.0, 0.5, 0.0], barrier_along([0.75, 0.25]), 3).round(3)
    array([1.   , 0.667, 0.   ])
    """
    end = float(barrier[-1]) if reach is None else reach
    return np.asarray(np.interp(np.linspace(0.0, end, n_rungs), barrier, np.asarray(betas, dtype=np.float64)))
