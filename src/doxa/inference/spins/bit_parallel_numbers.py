"""Sixty-four floating-point numbers, one for each lane, as one value of compiled code.

As `doxa.inference.spins.words`: what the compiler splits into the vector registers of the machine (eight of AVX-512, 16
of AVX2, 32 of SSE or NEON).  ``+``, ``*`` and ``/`` work lane by lane and are rounded as single numbers are; bit l of a
word speaks of lane l.  Compiled code only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, ClassVar

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from doxa._jit import inlined
from doxa.inference.spins.random_words import next_words
from doxa.inference.spins.vectors import VectorType, as_vector, copies, reads, writes
from doxa.inference.spins.words import EIGHT_WORDS, N_WORDS

__all__ = [
    "N_LANES",
    "below",
    "each",
    "load_lanes",
    "plus_where",
    "random_bit_parallel",
    "store_lanes",
    "sum_by_place",
    "times_where",
]

N_LANES = 64

_NUMBER = ir.DoubleType()
_VECTOR = ir.VectorType(_NUMBER, N_LANES)
_EIGHT = ir.VectorType(_NUMBER, N_WORDS)
_PLACE = ir.IntType(32)


class _NumbersType(VectorType):
    label: ClassVar[str] = "BitParallelNumbers"
    vector: ClassVar[Any] = _VECTOR
    instructions: ClassVar[Mapping[Any, str]] = {operator.add: "fadd", operator.mul: "fmul", operator.truediv: "fdiv"}


_numbers = as_vector(_NumbersType)


@intrinsic  # type: ignore[untyped-decorator]
def load_lanes(_typing: Any, array: Any, place: Any) -> Any:  # noqa: ARG001 (Numba reads the arguments' names)
    """Numbers ``place`` to ``place + 63`` of a flat float64 array."""
    return _numbers(array, types.int64), reads(_VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def store_lanes(_typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Write them there."""
    return types.void(array, types.int64, _numbers), writes(_VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def each(_typing: Any, scalar: Any) -> Any:  # noqa: ARG001
    """One number in every lane."""
    return _numbers(types.float64), lambda _context, builder, _signature, args: copies(builder, args[0], _VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def times_where(_typing: Any, value: Any, scalar: Any, word: Any) -> Any:  # noqa: ARG001
    """``value``, times ``scalar`` in the lanes whose bit of ``word`` is set."""
    return _numbers(_numbers, types.float64, types.uint64), _where("fmul")


@intrinsic  # type: ignore[untyped-decorator]
def plus_where(_typing: Any, value: Any, scalar: Any, word: Any) -> Any:  # noqa: ARG001
    """``value``, plus ``scalar`` in the lanes whose bit of ``word`` is set."""
    return _numbers(_numbers, types.float64, types.uint64), _where("fadd")


def _where(instruction: str) -> Callable[..., Any]:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        is_set = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), N_LANES))
        changed = getattr(builder, instruction)(args[0], copies(builder, args[1], _VECTOR))
        return builder.select(is_set, changed, args[0])

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def below(_typing: Any, value: Any, other: Any) -> Any:  # noqa: ARG001
    """A word with the bits of the lanes where ``value < other``."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fcmp_ordered("<", *args), ir.IntType(64))

    return types.uint64(_numbers, _numbers), generate


@intrinsic  # type: ignore[untyped-decorator]
def sum_by_place(_typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Add lanes k, k + 8, ..., k + 56 to entry ``place + k`` of a flat float64 array, for each k < 8."""

    def generate(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        parts = []
        for first in range(0, N_LANES, N_WORDS):
            lanes = ir.Constant(ir.VectorType(_PLACE, N_WORDS), list(range(first, first + N_WORDS)))
            parts.append(builder.shuffle_vector(args[2], args[2], lanes))
        before = reads(_EIGHT)(context, builder, kinds, args[:2])
        return writes(_EIGHT)(context, builder, kinds, (*args[:2], reduce(builder.fadd, parts, before)))

    return types.void(array, types.int64, _numbers), generate


@inlined
def random_bit_parallel(streams: Any) -> Any:
    """Numbers from {0, 1, ..., 2^53 - 1} / 2^53: lane 8 v + k has the v-th word from now on of stream k."""
    a, b, c, d = next_words(streams), next_words(streams), next_words(streams), next_words(streams)
    e, f, g, h = next_words(streams), next_words(streams), next_words(streams), next_words(streams)
    return _units(a, b, c, d, e, f, g, h)


@intrinsic  # type: ignore[untyped-decorator]
def _units(_typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:  # noqa: ARG001
    """The leading 53 binary digits of 64 words, as numbers in [0, 1)."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        parts = []
        for eight in args:
            digits = builder.lshr(eight, copies(builder, ir.Constant(ir.IntType(64), 11), eight.type))
            parts.append(builder.fmul(builder.uitofp(digits, _EIGHT), ir.Constant(_EIGHT, [2.0**-53] * N_WORDS)))
        while len(parts) > 1:
            lanes = ir.Constant(ir.VectorType(_PLACE, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
            parts = [builder.shuffle_vector(x, y, lanes) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return _numbers(*[EIGHT_WORDS] * N_WORDS), generate
