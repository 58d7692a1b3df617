"""Kinds of values that compiled code keeps in vector registers: what `words` and `lane_numbers` are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

__all__ = ["VectorType", "as_vector", "copies", "reads", "writes"]


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
