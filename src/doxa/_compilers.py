"""How Numba compiles doxa's functions: compilers, and the code that they make.

Compiling is most of what a first answer costs, so not everything is done that Numba does by itself.

- A function that compiled functions call is optimised and turned into machine code with those that Python calls, not
  once more at each level of calls: `_Part` holds its code until then.
- Such parts belong to the function alone in which they are.  If others might ask for them, the optimiser could neither
  put a large one in the place of its only call, nor leave out arguments: the arrays of a whole work space, some hundred
  numbers, would go over the stack in every step.
- A function without reference counts is optimised once, not before and after these are taken out, and nothing is
  written about where the life of a variable ends, for nobody asks.
- Where the code that Python calls is optimised as a whole, its functions are not optimised one by one before that.
- What a call gives is found out once, not twice at each place where it stands (`_get_call_type`), and what Numba has
  learned since is asked for once a function, not at each number that is written out (`_QuickTarget`).
- A number of an array is looked up by a few instructions (`_get_element`), and an index is never counted from the end:
  loops over indices that are sums are then done in vectors, and steps of samplers take some 5% less of the time.  Where
  ``DOXA_CHECK_INDICES`` is set, an index that is below 0 or too large is an error (``make checked``).
- Options are compared by what is said, not by all that could be: `_QuickFlags`.
- The garbage collector rests meanwhile: it would go through all that is being compiled, again and again, for a tenth of
  the time.  And nobody is told of each call of LLVM, of which there are ten thousands.
"""

from __future__ import annotations

import functools
import gc
import operator
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from llvmlite import binding
from llvmlite.binding import Linkage, ffi
from numba import types
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.cpu import CPUContext
from numba.core.typed_passes import InlineOverloads, IRLegalization, NopythonRewrites
from numba.core.typing import Context
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables

from doxa.progress import compiling

__all__ = ["IS_CHECKED", "ToBranching", "ToCompact", "ToKeptPart", "ToOnce", "ToPart", "ToWhole"]


IS_CHECKED = bool(os.environ.get("DOXA_CHECK_INDICES"))


class _Watcher(event.Listener):  # type: ignore[misc]
    """While a function is compiled, one that is cached is not: `doxa.progress` says so, and no garbage is looked for.

    Numba compiles one function at a time in a process, apart from those that this one calls.
    """

    def __init__(self) -> None:
        self._depth, self._was_on = 0, False

    def on_start(self, _event: Any) -> None:
        compiling(True)
        if self._depth == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, _event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()
        compiling(False)


event.register("numba:compile", _Watcher())


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function as compiled functions call it: they optimise it and turn it into machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """The same passes, set up once for all functions."""
        builder = _builder(self._codegen, 3, unrolling=True)
        ll_module.data_layout = self._codegen._data_layout
        passes = builder.getFunctionPassManager()
        for function in _defined(ll_module):
            passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to set: there is no machine code."""


class _KeptPart(_Part):
    """The same, of which callers get no copy."""

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if function.blocks:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that Python calls, in which its parts are its own."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def _optimize_functions(self, ll_module: Any) -> None:
        """Nothing: the passes of `_optimize_final_module` come at once."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        for function in _defined(self._final_module):
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = "private"  # not "internal", whose name the linker finds for callers elsewhere
        self._optimize()

    def _optimize(self) -> None:
        super()._optimize_final_module()


class _Once(_Whole):
    """The same, without reference counts: all passes of the optimiser, once."""

    def _optimize(self) -> None:
        made = self._codegen._module_pass_manager()
        passes, *builder = made if isinstance(made, tuple) else (made,)  # before Numba 0.62 it comes alone
        passes.run(self._final_module, *builder)


class _Branching(_Once):
    """The same, of loops that decide: what makes long sums quick is half of the work, and gains them nothing."""

    def _optimize(self) -> None:
        builder = _builder(self._codegen, 1, unrolling=False)
        builder.getModulePassManager().run(self._final_module, builder)


class _Compact(_Branching):
    """The same, where what is short is quick enough."""

    def _optimize(self) -> None:
        for function in _defined(self._final_module) if _functions_can_be_marked() else ():
            function.add_function_attribute("minsize")
        super()._optimize()


@functools.cache
def _functions_can_be_marked() -> bool:
    """Whether llvmlite gives an attribute to a function; older versions give it to what the function returns."""
    module = binding.parse_assembly("define void @f() { ret void }")
    module.get_function("f").add_function_attribute("minsize")
    return "attributes #0 = { minsize }" in str(module)


def _builder(codegen: Any, level: int, *, unrolling: bool) -> Any:
    """What makes the optimiser's passes: of a level from 0 to 3, with or without unrolled loops."""
    options = binding.create_pipeline_tuning_options()
    options.speed_level, options.loop_vectorization, options.loop_unrolling = level, True, unrolling
    return binding.create_pass_builder(codegen._tm, options)


def _defined(module: Any) -> list[Any]:
    return [function for function in module.functions if not function.is_declaration]


class _Known(NamedTuple):
    """What a call gives."""

    signature: Any
    function: types.Function  # kept, and so is its id
    implementation: Any  # under which the code of the call is looked up


_known_by_flags: dict[Flags, dict[tuple[int, tuple[types.Type, ...]], _Known]] = {}


class _Remembering(Context):  # type: ignore[misc]
    """A context of types with what is known of calls, for functions of these options."""

    __slots__ = ("known",)  # all else is shared with Numba's own

    def __init__(self, context: Context, flags: Flags) -> None:
        self.__dict__ = context.__dict__  # type: ignore[misc]
        options = flags.copy()
        options.discard("no_cpython_wrapper")  # which tells a function from its part, and is not handed on
        self.known = _known_by_flags.setdefault(options, {})


def _get_call_type(function: types.Function, context: Context, args: tuple[types.Type, ...], kws: Any) -> Any:
    """What a call gives, found out once: Numba tries all that a ``+`` can be, twice for each."""
    if kws or not isinstance(context, _Remembering):
        return _numbas_get_call_type(function, context, args, kws)
    call = (id(function), tuple(args))
    known = context.known.get(call)
    if known is None:
        signature = _numbas_get_call_type(function, context, args, kws)
        known = context.known[call] = _Known(signature, function, function.get_impl_key(signature))
    else:  # it may have been looked up for other options since
        function._impl_keys[known.signature.args] = known.implementation
    return known.signature


_numbas_get_call_type = types.Function.get_call_type
types.Function.get_call_type = _get_call_type


class _QuickTarget(CPUContext):  # type: ignore[misc]
    """A context of code that knows what the context of types does, and asks once a function for what Numba has learned
    since: else it would wherever code for a number that is written out is looked up, and there is none.
    """

    __slots__ = ("_is_fresh", "_types")  # all else is shared with Numba's own

    def __init__(self, context: CPUContext, of_types: _Remembering) -> None:
        self.__dict__ = context.__dict__  # type: ignore[misc]
        self._types, self._is_fresh = of_types, False

    @property
    def typing_context(self) -> _Remembering:
        return self._types

    def refresh(self) -> None:
        if not self._is_fresh:
            self._is_fresh = True
            super().refresh()

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        if isinstance(fn, types.Function) and fn.typing_key in _ELEMENTS and _is_element(*sig.args[:2]):
            return partial(_ELEMENTS[fn.typing_key], self, sig)
        return super().get_function(fn, sig, _firstcall)


def _is_element(array: types.Type, index: types.Type) -> bool:
    """Whether one number is meant, of an array whose numbers lie side by side in the order of its indices."""
    if type(array) is not types.Array or array.layout != "C" or not array.aligned:
        return False
    indices = index.types if isinstance(index, types.BaseTuple) else (index,)
    return (
        isinstance(array.dtype, types.Number | types.Boolean)
        and len(indices) == array.ndim
        and all(isinstance(one, types.Integer) for one in indices)
    )


def _address(context: CPUContext, sig: Any, builder: Any, array: Any, index: Any) -> Any:
    of_array, of_index = sig.args[:2]
    position = context.data_model_manager[of_array].get_field_position
    shape, place = builder.extract_value(array, position("shape")), None
    is_tuple = isinstance(of_index, types.BaseTuple)
    for axis, kind in enumerate(of_index.types if is_tuple else (of_index,)):
        at, size = builder.extract_value(index, axis) if is_tuple else index, builder.extract_value(shape, axis)
        at = context.cast(builder, at, kind, types.intp if kind.signed else types.uintp)
        if IS_CHECKED:
            with builder.if_then(builder.icmp_unsigned(">=", at, size), likely=False):
                where = f"an index of axis {axis} of {of_array} is outside, in {builder.function.name}"
                context.call_conv.return_user_exc(builder, IndexError, (where,))
        place = at if place is None else builder.add(builder.mul(place, size), at)
    return builder.gep(builder.extract_value(array, position("data")), [place])


def _get_element(context: CPUContext, sig: Any, builder: Any, args: Any) -> Any:
    """The code of ``array[i, j]``, a few instructions where Numba writes tens for any array and index."""
    return context.unpack_value(builder, sig.args[0].dtype, _address(context, sig, builder, *args))


def _set_element(context: CPUContext, sig: Any, builder: Any, args: Any) -> None:
    """The code of ``array[i, j] = number``."""
    array, index, value = args
    of_array, _, of_value = sig.args
    value = context.cast(builder, value, of_value, of_array.dtype)
    context.pack_value(builder, of_array.dtype, value, _address(context, sig, builder, array, index))


_ELEMENTS = {operator.getitem: _get_element, operator.setitem: _set_element}


class _QuickFlags(Flags):  # type: ignore[misc]
    """Numba's options of a compiler: the key of much that it remembers, and compared by each of thirty there."""

    def __hash__(self) -> int:
        return _HASH

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flags):
            return NotImplemented
        mine, others = self._values, other._values
        return mine == others or all(getattr(self, name) == getattr(other, name) for name in {*mine, *others})


_HASH = hash(Flags())  # that of any: it is made of their names


@contextmanager
def _nobody_told() -> Iterator[None]:
    """Meanwhile Numba does not time each call of LLVM, which it is told of by callbacks."""
    lock: Any = getattr(ffi.lib, "_lock", None)
    told = getattr(lock, "_cblist", None)
    if told is None:  # another llvmlite
        yield
        return
    lock._cblist = []
    try:
        yield
    finally:
        lock._cblist = told


# passes that look for expressions of arrays, closures and functions to be inlined in Numba's own form of code, none of
# which there is without reference counts, and that write where the lives of variables end
_OF_COUNTS = (InlineClosureLikes, InlineInlinables, InlineOverloads, NopythonRewrites, IRLegalization)


class _CompilerTo(Compiler):  # type: ignore[misc]
    code: type[JITCodeLibrary]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.state.flags = _QuickFlags(self.state.flags)

    def compile_extra(self, func: Any) -> Any:
        with _nobody_told():
            return super().compile_extra(func)

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.code(state.targetctx.codegen(), state.func_id.func_qualname)
        state.typingctx = _Remembering(state.typingctx, state.flags)
        state.targetctx = _QuickTarget(state.targetctx, state.typingctx)
        managers = super().define_pipelines()
        if not state.flags.nrt:
            for manager in managers:
                manager.passes = [one for one in manager.passes if one[0] not in _OF_COUNTS]
        return managers


class ToPart(_CompilerTo):
    code = _Part


class ToKeptPart(_CompilerTo):
    code = _KeptPart


class ToWhole(_CompilerTo):
    code = _Whole


class ToOnce(_CompilerTo):
    code = _Once


class ToBranching(_CompilerTo):
    code = _Branching


class ToCompact(_CompilerTo):
    code = _Compact
