"""Tuples of arrays that compiled functions get by their address, and not number by number.

Numba hands a tuple over as all the numbers of all its arrays, takes it apart before each call and puts it together
after it: of the work space of a sampler some hundred numbers at each level of calls, which was more than half of all
code that was compiled.  A `by_address` tuple stands once in memory, where the machine code that Python calls puts it,
and compiled functions are told where that is.

They cannot make such a tuple, nor return one: the memory is that of the call from Python.  Loops that do long sums
over arrays are better off with the numbers themselves: to the optimiser, what they write could lie where the tuple is.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.core.imputils import impl_ret_borrowed
from numba.core.pythonapi import _UnboxContext
from numba.core.registry import cpu_target
from numba.core.typing.typeof import Purpose, typeof
from numba.extending import NativeValue, lower_builtin, lower_getattr_generic, typeof_impl, unbox

__all__ = ["by_address", "declared_kind"]

T = TypeVar("T", bound=type)

_ALIGNED = 16  # bytes, at which every value begins


def by_address(kind: T) -> T:
    """Make a class of named tuples one whose instances are handed over by their address (a class decorator)."""
    typeof_impl.register(kind)(_typeof)
    return kind


class _ByAddress(types.NamedTuple):  # type: ignore[misc]
    """The type of such a tuple.  Its name is short, since it becomes a part of the names of functions."""

    def __init__(self, kinds: Any, kind: type) -> None:
        super().__init__(kinds, kind)
        self.name: str = f"{kind.__name__}.{_digest(str(self.types))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _typeof(value: Any, context: Any) -> _ByAddress:  # noqa: ARG001 (Numba reads the arguments' names)
    kind = type(value)
    declared = map(kind.__annotations__.get, kind._fields)
    return _ByAddress(list(map(declared_kind, declared, value)), kind)


_NUMBERS = {"float": types.float64, "int": types.int64, "bool": types.boolean}


def declared_kind(declared: str | None, value: Any) -> types.Type:
    """The kind of a value; of numbers that which is declared: a ``float`` that happens to be 1 is no ``int``."""
    names = declared.removeprefix("tuple[").removesuffix("]").split(", ") if isinstance(declared, str) else []
    if not names or not _NUMBERS.keys() >= set(names):
        return types.unliteral(typeof(value, Purpose.argument))
    kinds = [_NUMBERS[name] for name in names]
    return kinds[0] if declared == names[0] else types.BaseTuple.from_types(kinds)


@register_default(_ByAddress)
class _Model(models.DataModel):  # type: ignore[misc]
    """A pointer to the bytes that hold the values one after the other, tuples of this kind among them in place."""

    def get_value_type(self) -> Any:
        return cgutils.voidptr_t

    def as_argument(self, _builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, _builder: Any, value: Any) -> Any:
        return value

    def as_return(self, _builder: Any, _value: Any) -> Any:
        raise NotImplementedError(f"{self.fe_type} stands in memory of the call from Python, and cannot be returned")


@functools.cache
def _places(kind: _ByAddress) -> tuple[int, ...]:
    """Where in the bytes each value stands, and how many bytes there are."""
    found = [0]
    for inner in kind.types:
        size = _places(inner)[-1] if isinstance(inner, _ByAddress) else _size(inner)
        found.append(found[-1] + -(-size // _ALIGNED) * _ALIGNED)
    return tuple(found)


def _size(kind: types.Type) -> int:
    context = cpu_target.target_context
    return int(context.get_abi_sizeof(context.get_value_type(kind)))


def _place(context: Any, builder: Any, kind: _ByAddress, pointer: Any, i: int) -> Any:
    """A pointer to value i."""
    inner = kind.types[i]
    found = builder.gep(pointer, [ir.IntType(64)(_places(kind)[i])], inbounds=True)
    return (
        found if isinstance(inner, _ByAddress) else builder.bitcast(found, context.get_value_type(inner).as_pointer())
    )


def _get(context: Any, builder: Any, kind: _ByAddress, pointer: Any, i: int) -> Any:
    inner = kind.types[i]
    place = _place(context, builder, kind, pointer, i)
    return impl_ret_borrowed(context, builder, inner, place if isinstance(inner, _ByAddress) else builder.load(place))


@lower_getattr_generic(_ByAddress)  # type: ignore[untyped-decorator]
def _get_field(context: Any, builder: Any, kind: _ByAddress, pointer: Any, name: str) -> Any:
    return _get(context, builder, kind, pointer, kind.fields.index(name))


@lower_builtin("static_getitem", _ByAddress, types.IntegerLiteral)  # type: ignore[untyped-decorator]
def _get_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, place = signature.args
    return _get(context, builder, kind, arguments[0], place.literal_value % len(kind.types))


@unbox(_ByAddress)  # type: ignore[untyped-decorator]
def _unbox(kind: _ByAddress, made: Any, c: Any) -> NativeValue:
    with c.builder.goto_entry_block():
        pointer = c.builder.alloca(ir.IntType(8), _places(kind)[-1])
    pointer.align = _ALIGNED
    filled = list(_fill(kind, made, pointer, c))
    failed = functools.reduce(c.builder.or_, [one for *_, one in filled])

    def drop() -> None:
        for inner, place, _ in reversed(filled):
            c.context.nrt.decref(c.builder, inner, c.builder.load(place))

    return NativeValue(pointer, is_error=failed, cleanup=drop if c.context.enable_nrt else None)


def _fill(kind: types.Type, made: Any, place: Any, c: Any) -> Iterator[tuple[types.Type, Any, Any]]:
    """Put a Python object into its place, a tuple one by one; type, place and whether it failed, of all within it."""
    if not isinstance(kind, types.BaseTuple):
        yield kind, place, c.builder.call(_filler(kind, place.type, c), [made, place])
        return
    for i, inner in enumerate(kind):
        value = c.pyapi.tuple_getitem(made, i)
        if isinstance(kind, _ByAddress):
            there = _place(c.context, c.builder, kind, place, i)
        else:
            there = cgutils.gep_inbounds(c.builder, place, 0, i)
        if isinstance(inner, _ByAddress) and not isinstance(kind, _ByAddress):
            native = c.unbox(inner, value)
            assert native.cleanup is None, f"{kind} holds {inner}, which `hot` functions alone can have"
            c.builder.store(native.value, there)
            yield inner, there, native.is_error
        else:
            yield from _fill(inner, value, there, c)


def _filler(kind: types.Type, place: Any, c: Any) -> Any:
    """The function that puts an object that is no tuple into its place, and says whether that failed."""
    module, name = c.builder.module, f"doxa.fill.{_digest(str(kind))}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.IntType(1), [c.pyapi.pyobj, place]), name)
    function.linkage = "private"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    native = _UnboxContext(c.context, builder, c.context.get_python_api(builder)).unbox(kind, function.args[0])
    assert native.cleanup is None, f"{kind} needs its Python object after the call"
    builder.store(native.value, function.args[1])
    builder.ret(native.is_error)
    return function
