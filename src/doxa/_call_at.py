"""Calls at an address: a function's machine code stands once in a process, not in each loop that calls it.

An `Address` says where it stands, and `call_at` calls it there from compiled code.  Nothing of such a call is inlined,
so it is for functions that take a while.

Called from Python, a compiled function first has each array of each of its arguments looked at, for what it holds and
how it lies in memory: for the work space of a chain 10 to 20 us, as long as a step takes.  An `Address` looks once, and
trusts that later arguments are of the same kinds; `settled` has one for each kind of work that a word tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError
from numba.extending import intrinsic

from doxa._by_address import declared_kind
from doxa._compilers import IS_CHECKED

__all__ = ["Address", "call_at", "layout", "real_at", "settled"]


_FIRST_CALLS = 100
_LAYOUT = 0x1 | 0x2 | 0x400  # of NumPy's flags: in order of C, in order of Fortran, writeable

P = ParamSpec("P")
R = TypeVar("R")


class Address(Generic[P, R]):
    """Where the machine code of a compiled function stands in this process, for arguments of the same kinds each time.

    Where ``DOXA_CHECK_INDICES`` is set, arguments of other kinds than the first are an error, in the first hundred
    calls and in one of a hundred after these: a look takes a hundred times as long as the call.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function: Any = function
        self._found = 0
        self._kinds: tuple[Any, ...] = ()
        self._entry: Callable[..., R] | None = None
        self._calls = 0

    def __call__(self, *arguments: P.args, **_: P.kwargs) -> R:
        """The function, called from Python; its arguments are looked at once."""
        if self._entry is None:
            if not isinstance(self._function, Dispatcher):
                return cast(R, self._function(*arguments))
            self._kinds, made = _compiled_for(self._function, arguments)
            self._entry = made.entry_point
        elif IS_CHECKED:
            self._check(arguments)
        return self._entry(*arguments)

    def _check(self, arguments: tuple[Any, ...]) -> None:
        self._calls += 1
        if self._calls > _FIRST_CALLS and self._calls % _FIRST_CALLS:
            return
        kinds = kinds_of(self._function, arguments)
        if kinds != self._kinds:
            raise TypeError(f"{self._function} was called with {kinds}, after {self._kinds}")

    def of(self, *arguments: P.args, **_: P.kwargs) -> int:
        """For `call_at`; the arguments are looked at once."""
        if not self._found:
            made = _compiled_for(self._function, arguments)[1]
            self._found = int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))
        return self._found


_SETTLED: dict[tuple[Any, Hashable], Address[Any, Any]] = {}


def settled(function: Callable[P, R], kinds: Hashable = 0) -> Address[P, R]:
    """The function, for arguments whose kinds something tells: `Scoring.address` does, of all beside a `Scoring`."""
    found = _SETTLED.get((function, kinds))
    if found is None:
        found = _SETTLED[function, kinds] = Address(function)
    return found


def layout(value: Any) -> Hashable:
    """What tells the kinds of a tuple of arrays and numbers, in a fortieth of the time that Numba's look takes."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num & _LAYOUT
    if isinstance(value, tuple):
        return (type(value), *map(layout, value))
    return cast(Hashable, type(value))


def _compiled_for(function: Any, arguments: tuple[Any, ...]) -> tuple[tuple[types.Type, ...], Any]:
    """The kinds of the arguments, and what Numba made of the function for these."""
    kinds = kinds_of(function, arguments)
    function.compile(kinds)
    return kinds, function.overloads[kinds]


def kinds_of(function: Any, arguments: tuple[Any, ...]) -> tuple[types.Type, ...]:
    """As Numba has them; a number is of the kind that is declared, though an ``int`` may have come for a ``float``."""
    declared = function.py_func.__annotations__
    names = function.py_func.__code__.co_varnames
    return tuple(declared_kind(declared.get(name), value) for name, value in zip(names, arguments, strict=False))


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
