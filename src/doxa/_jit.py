"""The one way doxa compiles a hot loop: Numba, without the GIL, cached on disk where that is possible.

Numba raises at decoration time where neither the source folder nor a user cache folder is
writable (containers, zipped installs); there the kernel is compiled afresh in every process.
Only modules that hold kernels import this file, so `import doxa` does not import Numba.

`hot` is for functions inside a sampler's loop: compiled without reference counting, which on arrays in tuples costs
more than the work itself.  Such a function must not create an array; work space is an argument.  `cold` is for what
such a loop calls rarely.  In loops that decide more than they compute, `branching`, none is unrolled; the longest are
`compact`.

What is not done of all that Numba does by itself (more of it in `doxa._compilers`):

- No wrapper for callers from C is made: nobody calls one.
- A function is not compiled once for a variable that begins with a constant, as in ``n = 0``, and again for the number
  that the variable becomes: Numba takes these for two types, and a caller's loop asks for both.
- Options are said for each function.  Numba lets it inherit those that are not from whichever function calls it first,
  and what a call of one `inlined` brought along would be copied wherever it is called.
- Machine code from the disk holds what was compiled into it from other files, and Numba looks at a function's own file
  alone: after an update in place it would run code of two versions.  So what is kept is of one state of all our files;
  and what was kept by a version whose types are no more is made anew, not read in vain.
- Tuples of arrays are handed over by their address (`doxa._by_address`), which makes the code half as long.
- A large function that two loops call need not be in the machine code of both (`doxa._call_at`).

`popcount` and `lowest_bit` are the two machine instructions that bit sets live by; Numba has no name for them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.extending import intrinsic

import doxa._generators  # noqa: F401 (how compiled functions get them)
from doxa._compilers import ToBranching, ToCompact, ToKeptPart, ToOnce, ToPart, ToWhole

__all__ = [
    "branching",
    "cache_folder",
    "cold",
    "compact",
    "compiled",
    "hot",
    "inlined",
    "keep_for_this_state",
    "lowest_bit",
    "popcount",
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
    return _compiled(function, whole_compiler=ToBranching, _nrt=False)


def compact(function: F) -> F:
    """Like `branching`, for the longest of such loops and for those that run seldom: fewer calls become copies."""
    return _compiled(function, whole_compiler=ToCompact, _nrt=False)


def inlined(function: F) -> F:
    """Like `hot`, for small functions with many arguments: the caller gets a copy instead of a call."""
    return _compiled(function, _nrt=False, forceinline=True)


def cold(function: F) -> F:
    """Like `hot`, for what loops call rarely: they keep a call, where `hot` would give each place a copy."""
    return _compiled(function, ToKeptPart, _nrt=False)


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
    whole = {"pipeline_class": whole_compiler or (ToWhole if said["_nrt"] else ToOnce)} | said
    try:
        made = numba.njit(cache=True, **whole)(function)
        keep_for_this_state(made._cache)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        made = numba.njit(**whole)(function)
    part = numba.njit(no_cpython_wrapper=True, pipeline_class=part_compiler or ToPart, **said)(function)

    def template_of_part(args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return part.get_call_template(tuple(map(types.unliteral, args)), plain)

    made.get_call_template, made.get_overload = template_of_part, part.get_overload
    return cast(F, made)


def keep_for_this_state(cache: Any) -> None:
    """Have machine code on the disk taken only if all our files are as they were when it was written, and at once."""
    cache.__class__ = _Cache
    index = cache._cache_file
    ours = cache._py_func.__module__.startswith("doxa.")
    index._source_stamp = _state_of_our_files() if ours else (index._source_stamp, _state_of_our_files())
    index.__class__ = _Index


class _Cache(FunctionCache):  # type: ignore[misc]
    """Machine code on the disk, which is loaded without what Numba needs to make some: a quarter of a second."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what counts references
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


class _Index(IndexDataCacheFile):  # type: ignore[misc]
    """What Numba has on the disk of one function."""

    def _load_index(self) -> dict[Any, Any]:
        try:
            found: dict[Any, Any] = super()._load_index()
        except Exception:  # it names types that are no more, or was cut off: as if it were not there
            return {}
        return found


@functools.cache
def _state_of_our_files() -> str:
    """A digest of what is in them: any update changes it; the same files installed again, with other dates, do not."""
    digest, folder = hashlib.blake2b(digest_size=16), Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


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
