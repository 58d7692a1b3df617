"""The one way doxa compiles a hot loop: Numba, without the GIL, cached on disk where that is possible.

Numba raises at decoration time where neither the source folder nor a user cache folder is
writable (containers, zipped installs); there the kernel is compiled afresh in every process.
Only modules that hold kernels import this file, so `import doxa` does not import Numba.

`hot` is for functions inside a sampler's loop: compiled without reference counting, which on arrays in tuples costs
more than the work itself.  Such a function must not create an array; work space is an argument.  `cold` is for what
such a loop calls rarely.

Compiling is most of what a first answer costs, so not everything is done that Numba does by itself.

- No wrapper for callers from C is made: nobody calls one.
- A function that compiled functions call is optimised and turned into machine code with those that Python calls, not
  once more at each level of calls: `_Part` holds its code until then.
- A function is not compiled once for a variable that begins with a constant, as in ``n = 0``, and again for the number
  that the variable becomes: Numba takes these for two types, and a caller's loop asks for both.
- Such parts belong to the function alone in which they are.  If others might ask for them, the optimiser could neither
  put a large one in the place of its only call, nor leave out arguments: the arrays of a whole work space, some hundred
  numbers, would go over the stack in every step.
- Options are said for each function.  Numba lets it inherit those that are not from whichever function calls it first,
  and what a call of one `inlined` brought along would be copied wherever it is called.
- A function without reference counts is optimised once, not before and after these are taken out.
- Machine code from the disk holds what was compiled into it from other files, and Numba looks at a function's own file
  alone: after an update in place it would run code of two versions.  So what is kept is of one state of all our files.
- The garbage collector rests meanwhile: it would go through all that is being compiled, again and again, for a tenth of
  the time.
- Tuples of arrays are handed over by their address (`doxa._by_address`), which makes the code half as long.
- What a call gives is found out once, not at each place where it stands: `_Remembering`.
- Where the code that Python calls is optimised as a whole, its functions are not optimised one by one before that.
- In loops that decide more than they compute, `branching`, none is unrolled; the longest are `compact`.
- A large function that two loops call need not be in the machine code of both: an `Address` says where its own is, and
  `call_at` calls it there.

`popcount` and `lowest_bit` are the two machine instructions that bit sets live by; Numba has no name for them.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
from llvmlite import binding, ir
from llvmlite.binding import Linkage
from numba import types
from numba.core import cgutils, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.errors import TypingError
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing import Context
from numba.core.untyped_passes import InlineClosureLikes
from numba.extending import intrinsic

from doxa.progress import compiling

__all__ = [
    "Address",
    "address_of",
    "branching",
    "cache_folder",
    "call_at",
    "cold",
    "compact",
    "compiled",
    "hot",
    "inlined",
    "lowest_bit",
    "popcount",
    "real_at",
]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile ``function`` on first call with ``nogil``, keeping the machine code for the next process."""
    return _compiled(function)


def hot(function: F) -> F:
    """Like `compiled`, for functions that create no arrays: no reference counts are kept."""
    return _compiled(function, _nrt=False)


def branching(function: F) -> F:
    """Like `hot`, for large loops that decide more than they compute: optimised less, for a quicker first answer."""
    return _compiled(function, whole_compiler=_ToBranching, _nrt=False)


def compact(function: F) -> F:
    """Like `branching`, for the longest of such loops and for those that run seldom: fewer calls become copies."""
    return _compiled(function, whole_compiler=_ToCompact, _nrt=False)


def inlined(function: F) -> F:
    """Like `hot`, for small functions with many arguments: the caller gets a copy instead of a call."""
    return _compiled(function, _nrt=False, forceinline=True)


def cold(function: F) -> F:
    """Like `hot`, for what loops call rarely: they keep a call, where `hot` would give each place a copy."""
    return _compiled(function, _ToKeptPart, _nrt=False)


def cache_folder() -> str | None:
    """Where machine code is kept for the next process; None where no folder can be written to."""
    kernel: Any = _nothing
    found: str | None = kernel.stats.cache_path
    return (numba.config.CACHE_DIR or found) if found else None


def _compiled(
    function: F,
    part_compiler: type[Compiler] | None = None,
    whole_compiler: type[Compiler] | None = None,
    **options: bool,
) -> F:
    said: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": True, "forceinline": False} | options
    whole = {"pipeline_class": whole_compiler or (_ToWhole if said["_nrt"] else _ToOnce)} | said
    try:
        made = numba.njit(cache=True, **whole)(function)
        index = made._cache._cache_file
        index._source_stamp = (index._source_stamp, *_state_of_our_files())
    except RuntimeError:  # "cannot cache function ...: no locator available"
        made = numba.njit(**whole)(function)
    part = numba.njit(no_cpython_wrapper=True, pipeline_class=part_compiler or _ToPart, **said)(function)

    def template_of_part(args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return part.get_call_template(tuple(map(types.unliteral, args)), plain)

    made.get_call_template, made.get_overload = template_of_part, part.get_overload
    return cast(F, made)


@functools.cache
def _state_of_our_files() -> tuple[int, int]:
    """Sums of their times and sizes, which any update changes."""
    found = [path.stat() for path in Path(__file__).parent.rglob("*.py")]
    return sum(one.st_mtime_ns for one in found), sum(one.st_size for one in found)


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

    signature: Any  # None: nothing, it is refused
    function: types.Function  # kept, and so is its id
    implementation: Any  # under which the code of the call is looked up


_known_by_flags: dict[Flags, dict[tuple[int, tuple[types.Type, ...]], _Known]] = {}


class _Remembering(Context):  # type: ignore[misc]
    """A context of types that finds out once what a call gives: Numba tries all that a ``+`` can be at each of them."""

    __slots__ = ("_known",)  # all else is shared with Numba's own

    def __init__(self, context: Context, flags: Flags) -> None:
        self.__dict__ = context.__dict__  # type: ignore[misc]
        options = flags.copy()
        options.discard("no_cpython_wrapper")  # which tells a function from its part, and is not handed on
        self._known = _known_by_flags.setdefault(options, {})

    def resolve_function_type(self, func: Any, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        function = self._lookup_global(func) or func
        if kws or not isinstance(function, types.Function):
            return super().resolve_function_type(func, args, kws)
        call = (id(function), tuple(args))
        known = self._known.get(call)
        if known is None:
            signature = super().resolve_function_type(func, args, kws)
            implementation = None if signature is None else function.get_impl_key(signature)
            known = self._known[call] = _Known(signature, function, implementation)
        elif known.signature is not None:  # it may have been looked up for other options since
            function._impl_keys[known.signature.args] = known.implementation
        return known.signature


_OF_ARRAYS = (InlineClosureLikes, NopythonRewrites)  # passes that look for expressions of arrays and closures


class _CompilerTo(Compiler):  # type: ignore[misc]
    code: type[JITCodeLibrary]

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.code(state.targetctx.codegen(), state.func_id.func_qualname)
        state.typingctx = _Remembering(state.typingctx, state.flags)
        managers = super().define_pipelines()
        if not state.flags.nrt:
            for manager in managers:
                manager.passes = [one for one in manager.passes if one[0] not in _OF_ARRAYS]
        return managers


class _ToPart(_CompilerTo):
    code = _Part


class _ToKeptPart(_CompilerTo):
    code = _KeptPart


class _ToWhole(_CompilerTo):
    code = _Whole


class _ToOnce(_CompilerTo):
    code = _Once


class _ToBranching(_CompilerTo):
    code = _Branching


class _ToCompact(_CompilerTo):
    code = _Compact


class Address:
    """Where the machine code of a compiled function stands in this process, for `call_at`."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function: Any = function
        self._found = 0

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


@intrinsic  # type: ignore[untyped-decorator]
def popcount(_typing: Any, word: Any) -> Any:  # noqa: ARG001 (Numba reads the argument's name)
    """Number of set bits of a uint64, as int64 (compiled code only)."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(_typing: Any, word: Any) -> Any:  # noqa: ARG001
    """Position of the lowest set bit of a non-zero uint64, as int64 (compiled code only)."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))  # undefined at zero: callers loop while != 0

    return types.int64(types.uint64), generate


@compiled
def _nothing() -> None:
    """Known for where its machine code is kept."""
