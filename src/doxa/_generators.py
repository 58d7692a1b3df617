"""NumPy's generators as compiled functions get them: by the addresses that NumPy itself has for callers from C.

Numba looks at a generator in Python, and asks ``ctypes`` for each of its functions: 7 us a call, as long as some of our
loops take.  And where no references are counted (`doxa._jit.hot`) it counts one more at each call, which nobody takes
back: no such generator is ever let go.  Here it is held by its caller alone, while the call lasts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import register_default
from numba.extending import NativeValue, typeof_impl, unbox
from numba.np.random.generator_core import NumPyRandomGeneratorTypeModel

__all__: list[str] = []


class _Generator(types.NumPyRandomGeneratorType):  # type: ignore[misc]
    """Their type: Numba's own but for how they come from Python."""

    def __init__(self) -> None:
        super().__init__("Generator")
        self.name: str = "doxa.Generator"


_GENERATOR = _Generator()
_BITS = types.NumPyRandomBitGeneratorType("bit_generator")
register_default(_Generator)(NumPyRandomGeneratorTypeModel)


@typeof_impl.register(np.random.Generator)  # type: ignore[untyped-decorator]
def _typeof(value: Any, context: Any) -> _Generator:  # noqa: ARG001 (Numba reads the arguments' names)
    return _GENERATOR


# what Numba calls the values of ``bitgen_t``, in the order of ``numpy/random/bitgen.h``
_VALUES = ("state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double")


@unbox(_Generator)  # type: ignore[untyped-decorator]
def _unbox(kind: _Generator, made: Any, c: Any) -> NativeValue:
    builder, pointer = c.builder, cgutils.voidptr_t
    at = cgutils.alloca_once_value(builder, ir.Constant(pointer, None))
    bits = c.pyapi.object_getattr_string(made, "bit_generator")
    with builder.if_then(cgutils.is_not_null(builder, bits)):
        capsule = c.pyapi.object_getattr_string(bits, "capsule")
        with builder.if_then(cgutils.is_not_null(builder, capsule)):
            called = ir.FunctionType(pointer, [c.pyapi.pyobj, pointer])
            find = cgutils.get_or_insert_function(builder.module, called, "PyCapsule_GetPointer")
            name = c.context.insert_const_string(builder.module, "BitGenerator")
            builder.store(builder.call(find, [capsule, name]), at)
            c.pyapi.decref(capsule)
        c.pyapi.decref(bits)
    failed = cgutils.is_null(builder, builder.load(at))
    generator = cgutils.create_struct_proxy(kind)(c.context, builder)
    generator.parent = made
    if c.context.enable_nrt:  # the reference is taken back after the call
        generator.meminfo = c.pyapi.nrt_meminfo_new_from_pyobject(ir.Constant(pointer, None), made)
    with builder.if_then(builder.not_(failed)):
        within = generator._get_ptr_by_name("bit_generator")
        _read(builder.load(at), cgutils.create_struct_proxy(_BITS)(c.context, builder, ref=within), builder)
    return NativeValue(generator._getvalue(), is_error=failed)


def _read(at: Any, bits: Any, builder: Any) -> None:
    """Read ``bitgen_t``."""
    word = ir.IntType(64)
    words = builder.bitcast(at, word.as_pointer())
    bits.bit_generator = builder.ptrtoint(at, word)
    for place, name in enumerate(_VALUES):
        setattr(bits, name, builder.load(builder.gep(words, [word(place)])))
    bits.state_address = bits.state
