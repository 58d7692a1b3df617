"""Eight 64-bit words as one value of compiled code: what the compiler keeps in vector registers.

Left to itself the compiler sees arrays that may overlap, and stores and loads again what it should hold; values of this
type it splits or joins to what the machine has (one AVX-512 register, two of AVX2, four of SSE or NEON).  ``&``, ``|``,
``^``, ``~``, ``+`` and ``-`` work word by word.  Compiled code only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

__all__ = ["N_WORDS", "chosen", "load", "rotated", "same", "shifted_left", "shifted_right", "store", "word"]

N_WORDS = 8

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, N_WORDS)


class _WordsType(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="EightWords")


_words = _WordsType()


@register_model(_WordsType)
class _WordsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _operator(symbol: Any, instruction: str) -> None:
    """Let ``symbol`` join two values word by word."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        key: ClassVar[Any] = symbol

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            both = not kws and len(args) == 2 and all(isinstance(kind, _WordsType) for kind in args)
            return signature(_words, _words, _words) if both else None

    infer_global(symbol)(Template)

    def lower(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    lower_builtin(symbol, _WordsType, _WordsType)(lower)


for _symbol, _instruction in {
    operator.and_: "and_", operator.or_: "or_", operator.xor: "xor", operator.add: "add", operator.sub: "sub"
}.items():  # fmt: skip
    _operator(_symbol, _instruction)


@infer_global(operator.invert)
class _Invert(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:  # noqa: ARG002
        return signature(_words, _words) if isinstance(args[0], _WordsType) else None


@lower_builtin(operator.invert, _WordsType)  # type: ignore[untyped-decorator]
def _invert(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
    return builder.not_(args[0])


def _splat(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), N_WORDS), [0] * N_WORDS)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    made = context.make_array(kind)(context, builder, array)
    item = cgutils.get_item_pointer(context, builder, kind, made, [place])
    return builder.bitcast(item, _VECTOR.as_pointer())


Generate = Callable[[Any, Any, Any, Any], Any]


@intrinsic  # type: ignore[untyped-decorator]
def load(_typing: Any, array: Any, place: Any) -> Any:  # noqa: ARG001 (Numba reads the arguments' names)
    """Words ``place`` to ``place + 7`` of a flat uint64 array."""

    def generate(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, kinds.args[0], *args), align=8)

    return _words(array, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(_typing: Any, array: Any, place: Any, value: Any) -> Any:  # noqa: ARG001
    """Write them there."""

    def generate(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, kinds.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, _words), generate


@intrinsic  # type: ignore[untyped-decorator]
def same(_typing: Any, scalar: Any) -> Any:  # noqa: ARG001
    """Eight copies of one uint64."""
    return _words(types.uint64), lambda _context, builder, _signature, args: _splat(builder, args[0])


@intrinsic  # type: ignore[untyped-decorator]
def word(_typing: Any, value: Any, place: Any) -> Any:  # noqa: ARG001
    """One of the eight, as uint64."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return types.uint64(_words, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def shifted_right(_typing: Any, value: Any, bits: Any) -> Any:  # noqa: ARG001
    """All words shifted right by 0..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.lshr(args[0], _splat(builder, args[1]))

    return _words(_words, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def shifted_left(_typing: Any, value: Any, bits: Any) -> Any:  # noqa: ARG001
    """All words shifted left by 0..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.shl(args[0], _splat(builder, args[1]))

    return _words(_words, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def rotated(_typing: Any, value: Any, left: Any) -> Any:  # noqa: ARG001
    """All words rotated left by 1..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        right = builder.sub(ir.Constant(_WORD, 64), args[1])
        high, low = builder.shl(args[0], _splat(builder, args[1])), builder.lshr(args[0], _splat(builder, right))
        return builder.or_(high, low)

    return _words(_words, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def chosen(_typing: Any, value: Any, table: Any, place: Any) -> Any:  # noqa: ARG001
    """Each word of ``value`` where bit ``place`` of the same word of ``table`` is set, else 0."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bit = builder.shl(ir.Constant(_WORD, 1), args[2])
        zeros = ir.Constant(_VECTOR, [0] * N_WORDS)
        is_set = builder.icmp_unsigned("!=", builder.and_(args[1], _splat(builder, bit)), zeros)
        return builder.select(is_set, args[0], zeros)

    return _words(_words, _words, types.uint64), generate
