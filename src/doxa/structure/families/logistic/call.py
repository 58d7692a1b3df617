"""How compiled loops call the scorer of logistic families: by the address that a `Box` holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["call_scorer", "no_box"]


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
