r"""log(1 + exp(h)), exp and log by arithmetic alone: the compiler turns loops over them into vector instructions.

With a = \|h\| the value is max(h, 0) + log1p(exp(-a)).  The exponential is the 64th power of the Taylor polynomial of
degree 8 in a / 64; log1p(y) is twice the series of artanh at y / (2 + y), which is at most 1/3, to its 21st power.
The error is below 2e-12 everywhere (the tests hold it), many times faster than the two library calls.  Coefficients are
products with constants: a division by 7 is not turned into one, and takes as long as a dozen of them.

exp(x) is 2^k times exp(r), k the whole number next to x / log 2 and r what is left, at most half of log 2: a polynomial
of degree 9, 1 + r times an interpolation at Chebyshev's nodes, with a relative error of 4e-14.  A float of the size of
1.5 2^52 has no digits after the point, so adding that leaves k in the last bits of the sum; with a float's bias added
there, too, these are the exponent of 2^k.  log(x) takes x apart in the same way, into a power of two and a number
between the roots of 1/2 and of 2, whose logarithm is twice the series of artanh.

The integral over a single logit: cases of one cell under a normal prior.

.. math:: \int g(h)^{s} g(-h)^{n - s} N(h; 0, \sigma^2) \, dh

by the trapezoidal rule on the whole line, whose error falls exponentially in the inverse of the step where the
integrand is analytic (here within pi of the line) and dies out on both sides.  With the step at 0.4 of the standard
deviation that the curvature at the mode says, but at most 0.5, and sums on both sides until terms are e^-40 of the
largest, the rule is exact to 1e-8 (the tests compare it with another).  The error is known all the same: the nodes are
two rules of twice the step, and half of their difference, the error of each, is far above that of both together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from doxa._jit import hot, inlined
from doxa.arrays import Floats

__all__ = ["exponential", "exponentials", "log_one_logit", "logarithm", "softplus", "subtract_softplus"]

_FARTHEST = 45.0  # exp(-45) is 3e-20: below, log1p(exp(-a)) is lost beside any count
_LARGEST = 60.0  # of the exponents that `exponentials` takes
_LOG_TWO, _PER_NAT = math.log(2.0), 1.0 / math.log(2.0)
_ROUNDING_ALONE = 1.5 * 2.0**52
_ROUNDING = _ROUNDING_ALONE + 1023.0  # the bias of a float's exponent
_BITS_OF_ROUNDING = 0x4338000000000000  # of 1.5 2^52, to which a small whole number may be added
_BITS_OF_ROOT = 0x3FE6A09E667F3BCD  # of the root of 1/2
_MANTISSA = 0x000FFFFFFFFFFFFF
_EXP = (
    1.0, 1.0, 0.49999999999797773, 0.1666666666664829, 0.0416666668910917,
    0.008333333353729397, 0.001388882165071769, 0.00019841208732536384, 2.4876178959085513e-05, 2.762511557828763e-06,
)  # fmt: skip


@inlined
def softplus(h: float) -> float:
    """Log(1 + exp(h)), for any finite h."""
    a = abs(h)
    t = (a if a < _FARTHEST else _FARTHEST) * (-1.0 / 64.0)
    y = 1.0 + t * (1.0 / 8.0)
    y = 1.0 + t * (1.0 / 7.0) * y
    y = 1.0 + t * (1.0 / 6.0) * y
    y = 1.0 + t * (1.0 / 5.0) * y
    y = 1.0 + t * (1.0 / 4.0) * y
    y = 1.0 + t * (1.0 / 3.0) * y
    y = 1.0 + t * (1.0 / 2.0) * y
    y = 1.0 + t * y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    q = np.divide(y, 2.0 + y)  # the operator / tests for zero, and vector instructions do not
    s = q * q
    series = 1.0 / 19.0 + s * (1.0 / 21.0)
    series = 1.0 / 17.0 + s * series
    series = 1.0 / 15.0 + s * series
    series = 1.0 / 13.0 + s * series
    series = 1.0 / 11.0 + s * series
    series = 1.0 / 9.0 + s * series
    series = 1.0 / 7.0 + s * series
    series = 1.0 / 5.0 + s * series
    series = 1.0 / 3.0 + s * series
    return (h if h > 0.0 else 0.0) + 2.0 * q * (1.0 + s * series)  # type: ignore[no-any-return]


@hot
def subtract_softplus(logits: Floats, cases: float, total: Floats) -> None:
    """Subtract ``cases * softplus(h)`` of every logit h from ``total``, in place."""
    for p in range(logits.size):
        total[p] -= cases * softplus(logits[p])


@intrinsic  # type: ignore[untyped-decorator]
def _bits(_typing: Any, value: Any) -> Any:  # noqa: ARG001 (Numba reads the argument's name)
    """The 64 bits of a float, as int64 (compiled code only)."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _float(_typing: Any, bits: Any) -> Any:  # noqa: ARG001
    """The float that has these 64 bits (compiled code only)."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@inlined
def exponential(x: float) -> float:
    """Exp of ``x``; beyond 60 on either side, of 60."""
    x = x if x < _LARGEST else _LARGEST
    x = x if x > -_LARGEST else -_LARGEST
    shifted = x * _PER_NAT + _ROUNDING
    r = x - (shifted - _ROUNDING) * _LOG_TWO
    y = _EXP[8] + _EXP[9] * r
    y = _EXP[7] + y * r
    y = _EXP[6] + y * r
    y = _EXP[5] + y * r
    y = _EXP[4] + y * r
    y = _EXP[3] + y * r
    y = _EXP[2] + y * r
    y = _EXP[1] + y * r
    y = _EXP[0] + y * r
    return y * _float(_bits(shifted) << 52)  # type: ignore[no-any-return]


@inlined
def logarithm(x: float) -> float:
    """Log of ``x``, a normal float above 0."""
    bits = _bits(x) - _BITS_OF_ROOT
    power = _float((bits >> 52) + _BITS_OF_ROUNDING) - _ROUNDING_ALONE
    part = _float((bits & _MANTISSA) + _BITS_OF_ROOT)
    q = np.divide(part - 1.0, part + 1.0)
    s = q * q
    series = 1.0 / 15.0 + s * (1.0 / 17.0)
    series = 1.0 / 13.0 + s * series
    series = 1.0 / 11.0 + s * series
    series = 1.0 / 9.0 + s * series
    series = 1.0 / 7.0 + s * series
    series = 1.0 / 5.0 + s * series
    series = 1.0 / 3.0 + s * series
    return power * _LOG_TWO + 2.0 * q * (1.0 + s * series)  # type: ignore[no-any-return]


@hot
def exponentials(exponents: Floats, factors: Floats) -> None:
    """Multiply ``factors`` by exp of the exponents, in place; exponents beyond 60 on either side count as 60."""
    for p in range(exponents.size):
        factors[p] *= exponential(exponents[p])


_STEP, _LONGEST = 0.4, 0.5
_LAST = 40.0  # nats below the peak


@hot
def log_one_logit(successes: float, cases: float, deviation: float) -> tuple[float, float]:
    """Log of the integral (nats), and a bound of its error, which is mostly far smaller."""
    if cases == 0.0:
        return 0.0, 0.0
    tau = 1.0 / (deviation * deviation)
    mode, curvature = _mode(successes, cases, tau)
    peak = successes * mode - cases * softplus(mode) - 0.5 * tau * mode * mode
    step = min(_STEP / math.sqrt(curvature), _LONGEST)
    even, odd = 1.0, 0.0
    for side in range(2):
        k = 1
        while True:
            h = mode + k * step if side == 0 else mode - k * step
            fall = peak - (successes * h - cases * softplus(h) - 0.5 * tau * h * h)
            if k & 1:
                odd += math.exp(-fall)
            else:
                even += math.exp(-fall)
            if fall > _LAST:
                break
            k += 1
    total = even + odd
    value = peak + math.log(total * step) - 0.5 * math.log(2.0 * math.pi) - math.log(deviation)
    return value, 0.5 * abs(even - odd) / total + 1e-12 * (1.0 + abs(peak))


@hot
def _mode(successes: float, cases: float, tau: float) -> tuple[float, float]:
    """Where the integrand is largest, and the negative second derivative of its log there."""
    # The slope s - n g(h) - tau h falls, and is 0 between 0 and the place where the likelihood's share alone ends.
    low, high = -cases / tau, cases / tau
    h = math.log((successes + 0.5) / (cases - successes + 0.5))
    curvature = tau
    for _ in range(200):
        small = math.exp(-abs(h))
        share = (1.0 if h > 0.0 else small) / (1.0 + small)
        slope = successes - cases * share - tau * h
        curvature = tau + cases * small / (1.0 + small) ** 2
        if slope > 0.0:
            low = h
        else:
            high = h
        new = h + slope / curvature
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - h) < 1e-9 * (1.0 + abs(h)):
            h = new
            break
        h = new
    return h, curvature
