"""How compiled loops call a scorer that is not compiled into them: by the address that its box holds.

The compiler puts a callee's code into every kernel that reaches it.  Scorers are large: within each sampler's loop they
take minutes to compile where the loop alone takes half a minute, paid by everyone.  So each is compiled once, as a C
function, when its module is imported.

A box is an array of 64-bit words: first the address of the C function, then what it works on, number by number, of an
array the address and the shape (`ScorerBox`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray

from doxa._jit import hot, keep_for_this_state
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import pack_rows

__all__ = ["ONE_ROW", "ScorerBox", "at", "call_scorer", "no_box", "opener", "score_sets", "scorer"]

# Of a scorer: child, words of the parents' bit set and their number, the box, the family's score as a table.
_ARGUMENTS = (types.int64, types.CPointer(types.uint64), types.int64, types.CPointer(types.int64), types.float64)

ONE_ROW = (np.zeros((1, 1), dtype=np.int16), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))  # of `Data`


def scorer(function: Callable[[int, Any, int, Any, float], float]) -> CFunc:
    """Compile a C function that scores families, and keep the machine code for the next process (a decorator)."""
    made = CFunc(function, (_ARGUMENTS, types.float64), locals={}, options={})
    made.enable_caching()
    keep_for_this_state(made._cache)  # type: ignore[attr-defined]  # other files say what is in a box
    made.compile()
    return made


class ScorerBox:
    """A scorer and all that it works on; keep it as long as ``addresses`` is in use, by one chain.

    Parameters
    ----------
    scorer : CFunc
        Made by `scorer`.
    kind : numba.types.Type
        Of the contents, as the scorer's `opener` has it.
    contents : tuple
        Arrays, which are not copied, and numbers, in tuples.

    Attributes
    ----------
    addresses : ndarray of int64
        What `call_scorer` takes.
    """

    def __init__(self, scorer: CFunc, kind: types.Type, contents: tuple[Any, ...]) -> None:
        self._contents = contents
        self.addresses = np.array([scorer.address, *_words(kind, contents)], dtype=np.int64)

    def score(self, child: int, sets: NDArray[np.uint64], weights: NDArray[np.float64]) -> None:
        """Score the child with each of the parent sets; ``weights`` holds its scores as tables and gets the scores."""
        score_sets(self.addresses, child, sets, weights)

    def score_first(self, n_columns: int, of_table: float = 0.0) -> float:
        """Score of the first column with all others as its parents."""
        value = np.array([of_table])
        self.score(0, pack_rows(np.arange(n_columns) > 0)[None], value)
        return float(value[0])


def _words(kind: types.Type, value: Any) -> list[int]:
    """What stands in a box for a value of this Numba type."""
    if isinstance(kind, types.BaseTuple):
        assert type(value) is getattr(kind, "instance_class", tuple)
        return [word for inner, one in zip(kind, value, strict=True) for word in _words(inner, one)]
    if isinstance(kind, types.Array):
        assert (value.dtype, value.ndim) == (as_dtype(kind.dtype), kind.ndim)
        assert value.flags.c_contiguous
        return [value.ctypes.data, *value.shape]
    return [int(np.float64(value).view(np.int64)) if isinstance(kind, types.Float) else int(value)]


def opener(kind: types.Type) -> Any:
    """What finds the contents of this Numba type in the box that a scorer got.  Compiled code only."""

    @intrinsic  # type: ignore[untyped-decorator]
    def _open(_typing: Any, box: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            places = map(ir.IntType(64), itertools.count(1))
            words = (builder.load(builder.gep(arguments[0], [place])) for place in places)
            return _value(context, builder, kind, words)

        return kind(box), generate

    return _open


def _value(context: Any, builder: Any, kind: types.Type, words: Iterator[Any]) -> Any:
    """The value for which these words of a box stand."""
    if isinstance(kind, types.BaseTuple):
        return context.make_tuple(builder, kind, [_value(context, builder, inner, words) for inner in kind])
    word = next(words)
    if not isinstance(kind, types.Array):
        return builder.bitcast(word, context.get_value_type(kind))
    data_type = context.get_data_type(kind.dtype)
    shape, strides = [next(words) for _ in range(kind.ndim)], [ir.IntType(64)(context.get_abi_sizeof(data_type))]
    for side in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], side))
    made = context.make_array(kind)(context, builder)
    data = builder.inttoptr(word, data_type.as_pointer())
    populate_array(made, data=data, shape=shape, strides=strides, itemsize=strides[-1], meminfo=None)
    return made._getvalue()


def no_box() -> NDArray[np.int64]:
    """In the place of a box's addresses, for scores without logistic families."""
    return np.zeros(1, dtype=np.int64)


@intrinsic  # type: ignore[untyped-decorator]
def call_scorer(_typing: Any, addresses: Any, child: Any, parents: Any, of_table: Any) -> Any:  # noqa: ARG001
    """Score of the family of ``child`` with the bit set ``parents``, by the scorer at ``addresses[0]``.

    ``of_table`` is its score as a table, which only a `FamilyMixture` reads.  Compiled code only.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        box = context.make_array(signature.args[0])(context, builder, arguments[0])
        words = context.make_array(signature.args[2])(context, builder, arguments[2])
        word = ir.IntType(64)
        pointer = ir.FunctionType(
            ir.DoubleType(), [word, word.as_pointer(), word, word.as_pointer(), ir.DoubleType()]
        ).as_pointer()
        function = builder.inttoptr(builder.load(box.data), pointer)
        n_words = cgutils.unpack_tuple(builder, words.shape, 1)[0]
        return builder.call(function, [arguments[1], words.data, n_words, box.data, arguments[3]])

    return types.float64(addresses, types.int64, parents, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def at(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    """An address, an int64, as the pointer that ``numba.carray`` takes.  Compiled code only."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@hot
def score_sets(addresses: Ints, child: int, sets: Words, weights: Floats) -> None:
    """Score the child with each set of parents; ``weights`` holds its scores as tables, and gets the scores."""
    for row in range(sets.shape[0]):
        weights[row] = call_scorer(addresses, child, sets[row], weights[row])
