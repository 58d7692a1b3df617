"""Pairs of doubles: numbers of some 31 digits, for sums that lose half of them.

A pair (h, l) is the number h + l with |l| <= half a unit of h in the last place (Dekker 1971).  The algorithms and
their error bounds are those of Joldes, Muller & Popescu (2017).  Where numbers span thousands of nats, a pair is a
mantissa beside a power of two, and `POWERS` brings two of them to a common scale.

Compiled functions only; what they are used for is in `doxa.structure.exact.dag_recursions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from doxa._jit import hot

__all__ = ["DROP", "POWERS", "UNIT", "add_into", "multiply_into", "plus", "times"]

DROP = 200  # terms 2^-200 below the reference are left out
POWERS = np.ldexp(1.0, np.arange(-DROP, 256))  # POWERS[k + DROP] is 2^k
UNIT = 2.0**-104  # pairs of doubles: one addition or half a multiplication errs by less, relatively


@intrinsic  # type: ignore[untyped-decorator]
def _fused(_typing: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """a * b + c, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@hot
def times(a_h: float, a_l: float, b_h: float, b_l: float) -> tuple[float, float]:
    """Product of two pairs; relative error below 5 * 2^-106 (Joldes, Muller & Popescu 2017, algorithm 12)."""
    product = a_h * b_h
    rest = _fused(a_h, b_l, _fused(a_l, b_h, _fused(a_h, b_h, -product)))
    high = product + rest
    return high, rest - (high - product)


@hot
def plus(a_h: float, a_l: float, b_h: float, b_l: float) -> tuple[float, float]:
    """Sum of two pairs; error below 4 * 2^-106 (|a| + |b|), signs whatever (their algorithm 5)."""
    total = a_h + b_h
    b_part = total - a_h
    rest = (a_h - (total - b_part)) + (b_h - b_part) + (a_l + b_l)
    high = total + rest
    return high, rest - (high - total)


@hot
def add_into(to: int, other: int, work: Any, powers: Any) -> None:
    """Add one number of ``work`` to another, both non-negative with exponents of their own."""
    high, low, exponent = work
    if high[other] == 0.0:
        return
    k = exponent[other] - exponent[to]
    if high[to] == 0.0 or k >= DROP:
        high[to], low[to], exponent[to] = high[other], low[other], exponent[other]
        return
    if k <= -DROP:
        return
    if k <= 0:
        up, down = 1.0, powers[k + DROP]
    else:
        up, down = powers[DROP - k], 1.0
        exponent[to] = exponent[other]
    h, l = plus(high[to] * up, low[to] * up, high[other] * down, low[other] * down)  # noqa: E741
    if h >= 1.0:
        h, l = 0.5 * h, 0.5 * l  # noqa: E741
        exponent[to] += 1
    high[to], low[to] = h, l


@hot
def multiply_into(size: int, m_h: float, m_l: float, x_h: Any, x_l: Any, c_h: Any, c_l: Any) -> None:
    """c += m x."""
    for t in range(size):
        y_h, y_l = times(x_h[t], x_l[t], m_h, m_l)
        c_h[t], c_l[t] = plus(c_h[t], c_l[t], y_h, y_l)
