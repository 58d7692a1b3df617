"""Eight 64-bit words as one value of compiled code: what the compiler keeps in vector registers.

Left to itself the compiler sees arrays that may overlap, and stores and loads again what it should hold; values of this
type it splits or joins to what the machine has (one AVX-512 register, two of AVX2, four of SSE or NEON).  ``&``, ``|``,
``^``, ``~``, ``+`` and ``-`` work word by word.  Compiled code only.  Arrays of words begin where a cache line does:
eight words at a time, others cost a third of the speed.

Random words come from eight streams of xoshiro256++ side by side (Blackman & Vigna 2021).  Their state is an array of
a sampler's own, so that runs go on where they stopped, and a call costs nothing where passing a NumPy generator costs
13 microseconds.  Each stream begins at 256 random bits of the chain's generator; that two of K streams overlap within n
words of each has probability at most n K^2 / 2^256.

Masks say which of 64 lanes are in which class, for eight words at once: what 64 chains and 64 blocks of a grid share.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model
from numpy.typing import NDArray

from doxa._jit import inlined
from doxa.arrays import Words

__all__ = [
    "MASKS",
    "N_WORDS",
    "WORK_SIZE",
    "add_neighbour",
    "aligned",
    "aligned_zeros",
    "begin_masks",
    "chosen",
    "fresh_streams",
    "load",
    "next_words",
    "same",
    "store",
    "uniform",
    "word",
]

_LINE = 64  # bytes


def aligned_zeros(n: int) -> NDArray[np.uint64]:
    """An array of ``n`` words 0."""
    room = np.zeros(n + _LINE // 8, dtype=np.uint64)
    skip = -(room.ctypes.data // 8) % (_LINE // 8)
    return room[skip : skip + n]


def aligned(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A copy of a flat array."""
    found = aligned_zeros(words.size)
    found[:] = words
    return found


class VectorType(types.Type):  # type: ignore[misc]
    """A number of elements handled as one value; each kind is a subclass, declared by `as_vector`."""

    label: ClassVar[str]
    vector: ClassVar[Any]  # of LLVM
    instructions: ClassVar[Mapping[Any, str]]  # what Python's operators are, element by element

    def __init__(self) -> None:
        super().__init__(name=self.label)


class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.vector)


def as_vector(kind: type[VectorType]) -> VectorType:
    """Tell Numba of a kind; the type of its values."""
    register_model(kind)(_VectorModel)
    for symbol in kind.instructions:
        _let_join(kind, symbol)
    return kind()


def _let_join(own: type[VectorType], symbol: Any) -> None:
    """Let an operator join two values of a kind."""

    class Template(AbstractTemplate):  # type: ignore[misc]
        key: ClassVar[Any] = symbol

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            both = not kws and len(args) == 2 and all(isinstance(kind, own) for kind in args)
            return signature(args[0], *args) if both else None

    infer_global(symbol)(Template)

    def lower(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return getattr(builder, own.instructions[symbol])(*args)

    lower_builtin(symbol, own, own)(lower)


def copies(builder: Any, scalar: Any, vector: Any) -> Any:
    """A vector whose elements are all ``scalar``."""
    zero = ir.Constant(ir.IntType(32), 0)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, zero)
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def reads(vector: Any) -> Callable[..., Any]:
    """What an intrinsic (array, place) generates: a vector from a flat array of its elements."""

    def generate(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, vector, kinds.args[0], *args), align=8)

    return generate


def writes(vector: Any) -> Callable[..., Any]:
    """What an intrinsic (array, place, value) generates."""

    def generate(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, vector, kinds.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return generate


def _pointer(context: Any, builder: Any, vector: Any, kind: Any, array: Any, place: Any) -> Any:
    made = context.make_array(kind)(context, builder, array)
    item = cgutils.get_item_pointer(context, builder, kind, made, [place])
    return builder.bitcast(item, vector.as_pointer())


N_WORDS = 8
N_LANES = 64  # bits of a word
TO_UNIT = 2.0**-64  # from a threshold to a probability

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
    return EIGHT_WORDS(EIGHT_WORDS, types.uint64), _shifts("lshr")


@intrinsic  # type: ignore[untyped-decorator]
def shifted_left(_typing: Any, value: Any, bits: Any) -> Any:  # noqa: ARG001
    """All words shifted left by 0..63 bits."""
    return EIGHT_WORDS(EIGHT_WORDS, types.uint64), _shifts("shl")


def _shifts(instruction: str) -> Callable[..., Any]:
    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(args[0], copies(builder, args[1], _VECTOR))

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def rotated(_typing: Any, value: Any, left: Any) -> Any:  # noqa: ARG001
    """All words rotated left by 1..63 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        right = builder.sub(ir.Constant(_WORD, 64), args[1])
        high = builder.shl(args[0], copies(builder, args[1], _VECTOR))
        return builder.or_(high, builder.lshr(args[0], copies(builder, right, _VECTOR)))

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


_ALL = 2**64 - 1
_TO_UNIT = 2.0**-53


def fresh_streams(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of eight streams, shape (32,): word w of stream k is entry 8 w + k."""
    return rng.integers(0, 2**64, 4 * N_WORDS, dtype=np.uint64)


@inlined
def next_words(streams: Words) -> VectorType:
    """The next word of every stream, as one value of `doxa.inference.spins.words`."""
    a, b, c, d = load(streams, 0), load(streams, 8), load(streams, 16), load(streams, 24)
    found = rotated(a + d, np.uint64(23)) + a
    t = shifted_left(b, np.uint64(17))
    c = c ^ a
    d = d ^ b
    store(streams, 8, b ^ c)
    store(streams, 0, a ^ d)
    store(streams, 16, c ^ t)
    store(streams, 24, rotated(d, np.uint64(45)))
    return found  # type: ignore[no-any-return]


@inlined
def next_word(streams: Words, k: int) -> np.uint64:
    """The next word of stream ``k`` alone."""
    a, b, c, d = streams[k], streams[8 + k], streams[16 + k], streams[24 + k]
    found = _rotated(a + d, 23) + a
    t = b << np.uint64(17)
    c ^= a
    d ^= b
    streams[8 + k] = b ^ c
    streams[k] = a ^ d
    streams[16 + k] = c ^ t
    streams[24 + k] = _rotated(d, 45)
    return found  # type: ignore[no-any-return]


@inlined
def uniform(streams: Words, k: int) -> float:
    """A number from {0, 1, ..., 2^53 - 1} / 2^53, of stream ``k``."""
    return float(next_word(streams, k) >> np.uint64(11)) * _TO_UNIT


@inlined
def _rotated(value: np.uint64, left: int) -> np.uint64:
    return (value << np.uint64(left)) | (value >> np.uint64(64 - left))


MASKS = 16  # work space: two values, then a mask for each of at most 64 classes
WORK_SIZE = MASKS + 8 * 64


@inlined
def begin_masks(work: Words) -> None:
    """Every lane in class 0: no neighbour has been added."""
    store(work, MASKS, same(np.uint64(_ALL)))


@inlined
def add_neighbour(work: Words, up: VectorType, top: int, stride: int) -> int:
    """Move the lanes of ``up`` by ``stride`` classes; return the new highest class."""
    for m in range(top + stride, -1, -1):
        place = MASKS + 8 * m
        if m > top:
            store(work, place, load(work, place - 8 * stride) & up)
        elif m >= stride:
            store(work, place, (load(work, place) & ~up) | (load(work, place - 8 * stride) & up))
        else:
            store(work, place, load(work, place) & ~up)
    return top + stride


@inlined
def class_of(work: Words, w: int, lane: np.uint64) -> int:
    """The class of one lane of word ``w``."""
    m = 0
    while (work[MASKS + 8 * m + w] >> lane) & np.uint64(1) == np.uint64(0):
        m += 1
    return m
