"""Calls at an address: a function's machine code stands once in a process, not in each loop that calls it.

An `Address` says where it stands, and `call_at` calls it there from compiled code.  Nothing of such a call is inlined,
so it is for functions that take a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["Address", "address_of", "call_at", "real_at"]


class Address:
    """Where the machine code of a compiled function stands in this process, for `call_at`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Any = function
        self._found = 0

    def __call__(self, *arguments: Any) -> Any:
        """The function, called from Python."""
        return self._function(*arguments)

    def of(self, *arguments: Any) -> int:
        """For arguments of these kinds, which are the same each time: they are looked at once."""
        if not self._found:
            self._found = address_of(self._function, *arguments)
        return self._found


def address_of(function: Callable[..., Any], *arguments: Any) -> int:
    """Where the machine code of a compiled function stands in this process, for arguments of these kinds."""
    compiled_function: Any = function
    kinds = tuple(map(numba.typeof, arguments))
    compiled_function.compile(kinds)
    made = compiled_function.overloads[kinds]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _call(result: types.Type, arguments: Any) -> Any:
    """Signature and code of a call at an address; where arrays are not next to each other in memory, it is refused."""
    kinds = tuple(map(types.unliteral, arguments))
    for kind in kinds:
        if isinstance(kind, types.Array) and kind.layout != "C":
            raise TypingError(f"an array of layout {kind.layout!r} is handed over at an address; make it contiguous")

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        given = cgutils.unpack_tuple(builder, values[1], len(kinds))
        kind = context.call_conv.get_function_type(result, kinds)
        function = builder.inttoptr(values[0], kind.as_pointer())
        status, found = context.call_conv.call_function(builder, function, result, kinds, given)
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return found

    return result(types.int64, types.Tuple(kinds)), generate


@intrinsic  # type: ignore[untyped-decorator]
def call_at(_typing: Any, address: Any, arguments: Any) -> Any:  # noqa: ARG001
    """Call the function at an `Address` with a tuple of arguments of the same kinds; it returns an int64.

    A call in which nothing is inlined.
    """
    return _call(types.int64, arguments)


@intrinsic  # type: ignore[untyped-decorator]
def real_at(_typing: Any, address: Any, arguments: Any) -> Any:  # noqa: ARG001
    """The same, of a function that returns a float64."""
    return _call(types.float64, arguments)
