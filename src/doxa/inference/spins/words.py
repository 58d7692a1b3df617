"""Eight 64-bit words as one value of compiled code: what the compiler keeps in vector registers.

Left to itself the compiler sees arrays that may overlap, and stores and loads again what it should hold; values of this
type it splits or joins to what the machine has (one AVX-512 register, two of AVX2, four of SSE or NEON).  ``&``, ``|``,
``^``, ``~``, ``+`` and ``-`` work word by word.  Compiled code only.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin

from doxa.inference.spins.vectors import VectorType, as_vector, copies, reads, writes

__all__ = [
    "EIGHT_WORDS",
    "N_WORDS",
    "chosen",
    "load",
    "rotated",
    "same",
    "shifted_left",
    "shifted_right",
    "store",
    "word",
]

N_WORDS = 8

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, N_WORDS)


class _WordsType(VectorType):  # cached machine code knows it by this name
    label: ClassVar[str] = "EightWords"
    vector: ClassVar[Any] = _VECTOR
    instructions: ClassVar[Mapping[Any, str]] = {
        operator.and_: "and_", operator.or_: "or_", operator.xor: "xor", operator.add: "add", operator.sub: "sub"
    }  # fmt: skip


EIGHT_WORDS = as_vector(_WordsType)


@infer_global(operator.invert)
class _Invert(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:  # noqa: ARG002
        return signature(EIGHT_WORDS, EIGHT_WORDS) if isinstance(args[0], _WordsType) else None


@lower_builtin(operator.invert, _WordsType)  # type: ignore[untyped-decorator]
def _invert(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
    return builder.not_(args[0])


@intrinsic  # type: ignore[untyped-decorator]
def load(_typing: Any, array: Any, place: Any) -> Any:  # noqa: ARG001 (Numba reads the arguments' names)
    """Words ``place`` to ``place + 7`` of a flat uint64 array."""
    return EIGHT_WORDS(array, types.int64), reads(_VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def store(_typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Write them there."""
    return types.void(array, types.int64, EIGHT_WORDS), writes(_VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def same(_typing: Any, scalar: Any) -> Any:  # noqa: ARG001
    """Eight copies of one uint64."""
    return EIGHT_WORDS(types.uint64), lambda _context, builder, _signature, args: copies(builder, args[0], _VECTOR)


@intrinsic  # type: ignore[untyped-decorator]
def word(_typing: Any, value: Any, place: Any) -> Any:  # noqa: ARG001
    """One of the eight, as uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return types.uint64(EIGHT_WORDS, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def shifted_right(_typing: Any, value: Any, bits: Any) -> Any:  # noqa: ARG001
    """All words shifted right by 0..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.lshr(args[0], copies(builder, args[1], _VECTOR))

    return EIGHT_WORDS(EIGHT_WORDS, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def shifted_left(_typing: Any, value: Any, bits: Any) -> Any:  # noqa: ARG001
    """All words shifted left by 0..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.shl(args[0], copies(builder, args[1], _VECTOR))

    return EIGHT_WORDS(EIGHT_WORDS, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def rotated(_typing: Any, value: Any, left: Any) -> Any:  # noqa: ARG001
    """All words rotated left by 1..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        right = builder.sub(ir.Constant(_WORD, 64), args[1])
        high, low = (
            builder.shl(args[0], copies(builder, args[1], _VECTOR)),
            builder.lshr(args[0], copies(builder, right, _VECTOR)),
        )
        return builder.or_(high, low)

    return EIGHT_WORDS(EIGHT_WORDS, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def chosen(_typing: Any, value: Any, table: Any, place: Any) -> Any:  # noqa: ARG001
    """Each word of ``value`` where bit ``place`` of the same word of ``table`` is set, else 0."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bit = builder.shl(ir.Constant(_WORD, 1), args[2])
        zeros = ir.Constant(_VECTOR, [0] * N_WORDS)
        is_set = builder.icmp_unsigned("!=", builder.and_(args[1], copies(builder, bit, _VECTOR)), zeros)
        return builder.select(is_set, args[0], zeros)

    return EIGHT_WORDS(EIGHT_WORDS, EIGHT_WORDS, types.uint64), generate
