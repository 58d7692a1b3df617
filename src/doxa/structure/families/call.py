"""How compiled loops call a scorer that is not compiled into them: by the address that its box holds.

A box is an array of addresses: first that of a C function, then what the function finds its arrays by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words

__all__ = ["SCORER", "at", "call_scorer", "no_box", "score_sets"]

# Of a scorer: child, words of the parents' bit set and their number, the box, the family's score as a table.
SCORER = types.float64(
    types.int64, types.CPointer(types.uint64), types.int64, types.CPointer(types.int64), types.float64
)


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
