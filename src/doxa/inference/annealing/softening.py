r"""Softened tables: zeros replaced by small numbers, so that chains at high temperature can go anywhere.

The zeros of a factor become :math:`e^{-d}` times its smallest other entry; other entries stay.  So a softened
distribution is proportional to the exact one wherever that is not 0, and the exact one is the softened one given that
no zero is met: weights and chains become exact by one look at the zeros, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.factors import Factor

__all__ = ["default_depth", "soften", "soften_conditional"]

_SHARE = 0.01  # of the softened distribution that meets a zero, if a zero costs and gains nothing but its depth


def default_depth(factors: Sequence[Factor]) -> float:
    """Depth d (nats) at which, roughly, one state in a hundred meets a zero: ln(100 zeros), at least 3.

    Examples
    --------
    >>> round(default_depth([Factor((0,), np.array([0.0, -np.inf]))] * 20), 2)
    7.6
    """
    zeros = sum(int(np.isneginf(factor.log_values).sum()) for factor in factors)
    return max(3.0, math.log(max(zeros, 1) / _SHARE))


def soften(log_values: NDArray[np.float64], depth: float) -> NDArray[np.float64]:
    """Return a factor's table without -inf.

    Examples
    --------
    >>> soften(np.array([0.5, -1.0, -np.inf]), 3.0)
    array([ 0.5, -1. , -4. ])
    """
    zero = np.isneginf(log_values)
    if zero.all():
        raise ArgumentError("a factor is -inf everywhere; no state is possible")
    return np.where(zero, log_values[~zero].min() - depth, log_values)


def soften_conditional(log_values: NDArray[np.float64], axis: int, depth: float) -> NDArray[np.float64]:
    """Return a table of conditional distributions along ``axis``, where it has zeros mixed with the uniform one.

    The result sums to 1 along ``axis``, as the table must.

    Examples
    --------
    >>> np.exp(soften_conditional(np.array([0.0, -np.inf]), 0, 3.0)).round(3)
    array([0.975, 0.025])
    """
    if not np.isneginf(log_values).any():
        return log_values
    share = math.exp(-depth)
    return np.asarray(np.log((1 - share) * np.exp(log_values) + share / log_values.shape[axis]))
