"""How kernels are compiled: once for each type, and what compiled functions call with them and not by itself."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite.binding import Linkage, ffi
from numba import njit, types
from numba.core import event
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags
from numba.core.errors import TypingError
from numba.core.ir import Del
from numba.core.lowering import Lower
from numba.extending import overload

import doxa
from doxa import _call_at, _compilers
from doxa._call_at import Address, call_at, layout, real_at, settled
from doxa._compilers import _functions_can_be_marked, _QuickFlags
from doxa._jit import branching, cold, compact, compiled, hot, inlined


@hot
def _add(total, values, k):
    return total + values[k] if k % 2 else total


@compiled
def _sum(values):
    total = 0
    for k in range(values.size):
        total = _add(total, values, k)
    return total


def test_what_a_compiled_function_calls_is_compiled_once_and_with_it():
    assert _sum(np.arange(6)) == 9
    part = _add.get_overload.__self__
    assert len(part.overloads) == 1  # not once more for the constant 0
    (made,) = part.overloads.values()
    assert made.library.get_pointer_to_function(made.fndesc.llvm_func_name) == 0  # no machine code of its own
    assert not _add.overloads


def test_it_can_be_called_from_python_too():
    assert _add(1, np.arange(6), 3) == 4
    assert len(_add.overloads) == 1
    assert _sum(np.arange(4)) == 4


class _Pair(NamedTuple):
    values: np.ndarray
    weight: float


@hot
def _first_above(pair, first, rng):
    for k in range(first, pair.values.size):
        pair.values[k] += rng.random() < 2.0
        if pair.values[k] > pair.weight:
            return k
    if first > 100:
        raise IndexError("beyond")
    return -1


@hot
def _all_above(where, pair, rng, found):
    k, many = call_at(where, (pair, 0, rng)), 0
    while k >= 0:
        found[many] = k
        many += 1
        k = call_at(where, (pair, k + 1, rng))
    return many


@hot
def _begin_at(where, pair, first, rng):
    return call_at(where, (pair, first, rng))


def test_a_function_is_called_where_its_code_is():
    pair, rng = _Pair(np.array([0, 5, 1, 7, 2]), 3.0), np.random.default_rng(1)
    address = Address(_first_above)
    where = address.of(pair, 0, rng)
    found = np.zeros(5, dtype=np.int64)
    assert _all_above(where, pair, rng, found) == 2
    assert found[:2].tolist() == [1, 3]
    assert pair.values.tolist() == [1, 6, 2, 8, 3]  # changed in place, and each once
    assert address.of() == Address(_first_above).of(pair, 0, rng) == where
    after = np.random.default_rng(1)
    after.random(5)
    assert rng.random() == after.random()  # the same generator
    with pytest.raises(IndexError, match="beyond"):
        _begin_at(where, pair, 101, rng)


@hot
def _share(values, k):
    return values[k] / values.sum()


@hot
def _share_at(where, values, k):
    return real_at(where, (values, k))


def test_a_function_that_returns_a_real_is_called_where_its_code_is():
    values = np.array([1.0, 3.0, 4.0])
    where = Address(_share).of(values, 0)
    assert [_share_at(where, values, k) for k in range(3)] == [0.125, 0.375, 0.5]
    with pytest.raises(TypingError, match="layout 'A'"):  # which the code there would read as if it were contiguous
        _share_at(where, np.arange(6.0)[::2], 1)


@hot
def _scaled(values: np.ndarray, by: float, shares: tuple[float, float]) -> float:
    return values[0] * by + shares[0] + shares[1]


def test_a_settled_function_looks_at_its_arguments_once(monkeypatch):
    values, scaled_by = np.array([8.0, 3.0]), settled(_scaled, "once")
    assert settled(_scaled, "once") is scaled_by
    assert settled(_scaled, "other") is not scaled_by
    assert scaled_by(values, 1, (1, 0)) == 9.0
    looks = []
    monkeypatch.setattr("doxa._call_at.kinds_of", lambda *arguments: looks.append(arguments))
    assert scaled_by(values, 0.5, (0.25, 0.5)) == 4.75  # numbers are what they are declared to be, not what came first
    assert not looks
    with pytest.raises(TypeError, match="unbox array"):
        scaled_by(values.astype(np.int8), 0.5, (0.0, 0.0))  # of another size


def test_where_indices_are_checked_kinds_are_too(monkeypatch):
    values, scaled_by = np.array([8.0, 3.0]), Address(_scaled)
    scaled_by(values, 1.0, (0.0, 0.0))
    whole = np.array([8, 3])
    assert scaled_by(whole, 1.0, (0.0, 0.0)) != 8.0  # read as if they were real: who settles a function vouches for it
    monkeypatch.setattr("doxa._call_at.IS_CHECKED", True)
    assert scaled_by(values, 1.0, (0.0, 0.0)) == 8.0
    with pytest.raises(TypeError, match=r"_scaled.*int64.*float64"):
        scaled_by(whole, 1.0, (0.0, 0.0))


class _Of(NamedTuple):
    values: np.ndarray
    many: tuple[np.ndarray, int]
    share: float


class _OtherOf(NamedTuple):
    values: np.ndarray
    many: tuple[np.ndarray, int]
    share: float


def _of_several_kinds():
    square, fixed = np.ones((3, 3)), np.ones(3)
    fixed.flags.writeable = False
    arrays = [
        np.ones(3),
        np.ones(3, dtype=np.int64),
        fixed,
        np.ones(6)[::2],
        square,
        square[::-1, ::-1],
    ]
    arrays += [np.asfortranarray(np.ones((3, 2))), np.ones((3, 2)), np.ones(0), np.ones((1, 3)), np.ones((3, 1))]
    return [kind(a, (b, 1), 0.5) for kind in (_Of, _OtherOf) for a in arrays for b in arrays]


def _kinds_by_layout(values):
    found = {}
    for value in values:
        found.setdefault(layout(value), set()).add(numba.typeof(value))
    return found


def test_one_layout_is_of_one_kind(monkeypatch):
    """Where functions stand is looked up by it, and what stands there takes nothing else."""
    values = _of_several_kinds()
    found = _kinds_by_layout(values)
    assert len(values) > len(found) > 100
    assert {len(kinds) for kinds in found.values()} == {1}
    for flag in (0x1, 0x2, 0x400):  # each is needed
        with monkeypatch.context() as patched:
            patched.setattr(_call_at, "_LAYOUT", _call_at._LAYOUT & ~flag)
            assert max(len(kinds) for kinds in _kinds_by_layout(values).values()) > 1


def test_what_is_not_compiled_is_called_as_it_is():
    calls = []
    assert settled(lambda *arguments: calls.append(arguments) or 7)(1, "two") == 7
    assert calls == [(1, "two")]


@cold
def _rare(values, k):
    return values[k] * 3.0


@hot
def _halved(values, k):
    return values[k] / 2.0


@inlined
def _either(values, k):
    return _rare(values, k) if values[k] < 0.0 else _halved(values, k)


@hot
def _sum_of_either(values):
    total = 0.0
    for k in range(values.size):
        total += _either(values, k)
    return total


@hot
def _halves(values):
    return _halved(values, 0)


@njit
def _of_a_user(values, k):
    """What others compile may call parts of ours that were optimised elsewhere, where arguments were left out."""
    return _rare(values, k) + _halved(values, k)


for _function in (_sum, _add, _sum_of_either, _halves):
    _function._cache = NullCache()  # compiled in each run: what is loaded from the disk has no parts to look at


def test_parts_have_no_name_by_which_code_elsewhere_would_find_them():
    values = np.array([4.0, -1.0, 2.0])
    assert _sum_of_either(values) == 0.0
    (made,) = _sum_of_either.overloads.values()
    named = [one.name for one in made.library.get_defined_functions() if one.linkage != Linkage.private]
    assert len(named) == 2, named  # the function, and how Python calls it
    assert all("_sum_of_either" in name for name in named)
    assert _of_a_user(values, 0) == 14.0
    assert _of_a_user(values, 1) == -3.5


def test_what_is_called_rarely_is_kept_in_one_place():
    assert _sum_of_either(np.array([1.0, -1.0])) == -2.5
    (made,) = _sum_of_either.overloads.values()
    kept = {name for name in ("_rare", "_halved", "_either") for one in made.library.get_defined_functions()
            if name in one.name and "_sum_of_either" not in one.name}  # fmt: skip
    assert kept == {"_rare"}


def test_options_are_not_those_of_whoever_calls_first():
    """Numba would have what an inlined function calls inlined wherever it is called from then on."""
    assert _sum_of_either(np.array([1.0])) == 0.5
    (part,) = _halved.get_overload.__self__.overloads.values()
    code = str(part.library._final_module)
    assert "alwaysinline" not in code
    (part,) = _either.get_overload.__self__.overloads.values()
    assert "alwaysinline" in str(part.library._final_module)
    assert _halves(np.array([4.0])) == 2.0


_CALLEE = """
from doxa._jit import compiled

@compiled
def one_more(x):
    return x + 1
"""
_CALLER = """
from doxa._jit import compiled
from doxa.callee import one_more

@compiled
def twice(x):
    return 2 * one_more(x)
"""


_ASK = "from doxa.caller import twice; print(twice(10), 'from', 'disk' if twice.stats.cache_hits else 'source')"


@pytest.fixture
def package(tmp_path):
    """A copy of doxa with a compiled function that calls one of another file; and what says where its code is from."""
    package = tmp_path / "doxa"
    shutil.copytree(Path(doxa.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "callee.py").write_text(_CALLEE)
    (package / "caller.py").write_text(_CALLER)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def ask():
        command = [sys.executable, "-c", _ASK]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, cwd=tmp_path)
        return done.stdout.split()

    return package, ask


@pytest.mark.parametrize("is_watched", [True, False])
def test_machine_code_of_another_state_of_our_files_is_not_taken(is_watched, package):
    """Without the watch, after a change in another file, Numba takes the caller's old code from the disk."""
    folder, ask = package
    if not is_watched:
        with (folder / "_jit.py").open("a") as file:
            file.write("\n\ndef _state_of_our_files():\n    return 0\n")
    assert ask() == ["22", "from", "source"]
    assert ask() == ["22", "from", "disk"]
    (folder / "callee.py").write_text(_CALLEE.replace("x + 1", "x + 5"))
    assert ask() == (["30", "from", "source"] if is_watched else ["22", "from", "disk"])


@pytest.mark.parametrize("dates_count", [False, True])
def test_the_same_files_installed_again_find_their_machine_code(dates_count, package):
    """Else nodes of a cluster that share a folder would compile in turn for ever, each installed at its own time."""
    folder, ask = package
    if dates_count:
        with (folder / "_jit.py").open("a") as file:
            file.write("\n\ndef _state_of_our_files():\n    return Path(__file__).stat().st_mtime_ns\n")
    assert ask() == ["22", "from", "source"]
    for path in folder.rglob("*.py"):
        os.utime(path, (1e9, 1e9))
    assert ask() == ["22", "from", "source" if dates_count else "disk"]


def test_code_on_the_disk_is_loaded_without_what_makes_code(tmp_path):
    """Numba would import all that it can compile, for a quarter of a second; a function that is new still finds it."""
    code = (
        "import sys, numba, numpy as np; from doxa import _jit; _jit._nothing();"
        "print('numba.np.linalg' in sys.modules, len(_jit._nothing.stats.cache_hits));"
        "print(numba.njit(lambda a: np.linalg.norm(a) + a[-1])(np.array([3.0, 4.0])))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def ask():
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        return done.stdout.split()

    assert ask() == ["True", "0", "9.0"]
    assert ask() == ["False", "1", "9.0"]


@pytest.mark.parametrize("written", ["a type that is no more", "cut off"])
def test_what_an_older_version_left_on_the_disk_is_made_anew(written, monkeypatch, tmp_path):
    """Numba reads the types in its list before it looks whether the list is fresh."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def plus_one(x):
        return x + 1

    kept = compiled(plus_one)
    assert kept(1) == 2
    index = kept._cache._cache_file
    whole = Path(index._index_path).read_bytes()
    gone = pickle.dumps(numba.__version__, protocol=-1) + b"cdoxa._jit\nNoSuchType\n."
    Path(index._index_path).write_bytes(gone if written != "cut off" else whole[:-9])
    with pytest.raises((AttributeError, pickle.UnpicklingError, EOFError)):
        IndexDataCacheFile._load_index(index)
    again = compiled(plus_one)
    assert again(1) == 2
    assert not again.stats.cache_hits
    third = compiled(plus_one)
    assert third(1) == 2
    assert third.stats.cache_hits


@pytest.mark.parametrize("was_on", [True, False])
def test_garbage_is_not_looked_for_while_compiling(was_on, monkeypatch):
    seen = []

    @compiled
    def inner(x):
        return x + 1

    @compiled
    def outer(x):
        return inner(x) * 2

    lower = Lower.lower
    monkeypatch.setattr(Lower, "lower", lambda self: (seen.append(gc.isenabled()), lower(self))[1])
    if not was_on:
        gc.disable()
    try:
        assert outer(3) == 8
        assert seen
        assert not any(seen)
        assert gc.isenabled() == was_on
    finally:
        gc.enable()


def test_after_a_function_that_cannot_be_compiled_all_is_as_before():
    told = list(ffi.lib._lock._cblist)
    assert told

    @compiled
    def refused(x):
        return x.no_such_thing

    with pytest.raises(TypingError):
        refused(3)
    assert gc.isenabled()
    assert ffi.lib._lock._cblist == told


def test_nobody_is_told_of_each_call_of_llvm_while_a_function_of_ours_is_compiled():
    def told(kind):
        made = kind(_add.py_func)
        made._cache = NullCache()
        with event.install_recorder("numba:llvm_lock") as recorder:
            made.compile((types.float64, types.float64[::1], types.int64))
        return len(recorder.buffer)

    assert told(hot) < told(njit) / 20  # but for what comes before and after


def test_options_are_alike_if_each_of_them_is():
    plain, ours = Flags(), _QuickFlags(Flags())
    assert ours == plain
    assert plain == ours
    plain.nrt = True
    assert ours != plain
    ours.nrt = True
    assert ours == plain
    plain.fastmath = plain.fastmath  # said, and what it would be if it were not
    assert ours == plain
    assert len({hash(plain), hash(ours), hash(ours.copy())}) == 1
    assert ours.copy() == ours != 3


def test_only_code_with_reference_counts_says_where_lives_of_variables_end(monkeypatch):
    seen = []
    lower = Lower.lower_inst
    monkeypatch.setattr(Lower, "lower_inst", lambda self, inst: (seen.append(type(inst)), lower(self, inst))[1])
    for kind, has_ends in ((hot, False), (compiled, True)):
        made = kind(_add.py_func)
        made._cache = NullCache()
        seen.clear()
        assert made(1.0, np.arange(4.0), 3) == 4.0
        assert (Del in seen) == has_ends


def _many_sums(a, b):
    c = a + b
    d = c + a + (b + c) * (c + d_of(c, a))
    return d + c + (d + a) + (c + d) * (a + b) * (d + b)


@hot
def d_of(a, b):
    return (a + b) * (b + a) + (a + a)


def test_what_a_call_gives_is_found_out_once(monkeypatch):
    asked = []
    of_numba = _compilers._numbas_get_call_type
    monkeypatch.setattr(
        _compilers,
        "_numbas_get_call_type",
        lambda function, *rest: asked.append(str(function)) or of_numba(function, *rest),
    )
    kind = (types.float32, types.float32)
    ours = hot(_many_sums)
    ours._cache = NullCache()
    ours.compile(kind)
    additions = "Function(<built-in function add>)"
    assert asked.count(additions) == 1  # of 14 in the two functions
    asked.clear()
    njit(_many_sums).compile(kind)
    assert asked.count(additions) > 5  # by Numba itself
    assert ours(np.float32(1), np.float32(2)) == _many_sums(1.0, 2.0)


def _elements(values, i, j, total):
    values[i, j, 1] += values[1, 0, 1] * total[2]
    total[0] = values[i - 2, j, 0]
    values[i][j, 0] = 7
    values[1, :, 0] = total[1]
    return values[i, j, 1]


@pytest.mark.parametrize("kind", [np.float64, np.int16, np.uint8, np.bool_])
@pytest.mark.parametrize("index", [np.int64, np.int16, np.uint64])
def test_numbers_of_arrays_are_those_of_numpy(kind, index):
    """By signed and unsigned indices of any width, next to slices, and where numbers lie apart."""
    ours, plain = hot(_elements), compiled(_elements)
    ours._cache = plain._cache = NullCache()
    begin = np.arange(24).reshape(3, 4, 2).astype(kind)
    for kernel in (ours, plain):
        for lay_out in (np.ascontiguousarray, np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2]):
            got, expected = lay_out(begin.copy()), begin.copy()
            totals = np.array([2, 1, 1], dtype=kind), np.array([2, 1, 1], dtype=kind)
            found = kernel(got, index(2), index(3), totals[0])
            assert found == _elements(expected, 2, 3, totals[1])
            assert np.array_equal(got, expected)
            assert np.array_equal(*totals)


def test_a_number_of_an_array_is_a_few_instructions(monkeypatch):
    written = []
    add = JITCodeLibrary.add_ir_module
    monkeypatch.setattr(
        JITCodeLibrary, "add_ir_module", lambda self, module: (written.append(str(module)), add(self, module))[1]
    )

    def lines(kind):
        made = kind(lambda values, i: values[i, 1])
        made._cache = NullCache()
        written.clear()
        made.compile((types.float64[:, ::1], types.int64))
        return written[0].count("\n")

    monkeypatch.setattr(_compilers, "IS_CHECKED", False)
    assert lines(hot) < lines(compiled) / 1.5
    monkeypatch.setattr(_compilers, "_ELEMENTS", {})
    assert lines(hot) > lines(compiled) / 1.5


_AN_INDEX = """
import sys
import numpy as np
from doxa._jit import hot

@hot
def read(values, i, j):
    total = 0.0
    for k in range(3):
        total += values[i, j] * k
    return total

values = np.arange(12.0).reshape(3, 4)
for at in [(0, 0), (2, 3), (-1, 0), (0, -1), (3, 0), (1, 4)]:
    try:
        print(read(values, *at))
    except IndexError as error:
        print(*str(error).split()[:5])
"""


def test_where_indices_are_checked_one_outside_is_an_error(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "DOXA_CHECK_INDICES": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _AN_INDEX], env=environment, check=True, capture_output=True, text=True
    )
    rows, columns = "an index of axis 0", "an index of axis 1"
    assert done.stdout.splitlines() == ["0.0", "33.0", rows, columns, rows, columns]


def test_loops_over_indices_that_are_sums_are_done_in_vectors(monkeypatch):
    """Where a number could count from the end, each place would be asked for by itself."""

    def add(values, begin, other):
        for k in range(100):
            values[begin + k] += 2.0 * values[other + k]

    monkeypatch.setattr(_compilers, "IS_CHECKED", False)
    ours = hot(add)
    ours._cache = NullCache()
    ours.compile((types.float64[::1], types.int64, types.int64))
    theirs = njit(add)
    theirs.compile((types.float64[::1], types.int64, types.int64))
    is_vector = [" x double>" in next(iter(one.inspect_llvm().values())) for one in (ours, theirs)]
    assert is_vector == [True, False]
    values = np.arange(300.0)
    expected = values.copy()
    ours(values, 200, 0)
    add(expected, 200, 0)
    assert np.array_equal(values, expected)


def _of_later(value):
    raise NotImplementedError


def test_a_call_that_has_no_type_yet_is_asked_for_again():
    def ask(value):
        return _of_later(value)

    early, made = compiled(ask), compiled(ask)
    early._cache = made._cache = NullCache()
    with pytest.raises(TypingError):
        early.compile((types.float64,))
    overload(_of_later)(lambda value: lambda value: value + 1.0)
    made.compile((types.float64,))
    assert made(2.0) == 3.0


def _of_any(value):
    raise NotImplementedError


@overload(_of_any)
def _(value):
    return lambda value: value + 1.0


def test_what_a_call_gives_is_known_by_the_options_it_was_found_with():
    """Code with reference counts calls what has them, and code without never does, in whatever order they come."""

    def called_by(kind):
        def ask(value):
            return _of_any(value) * 2.0

        made = kind(ask)
        made._cache = NullCache()
        assert made(3.0) == 8.0
        (found,) = made.overloads.values()
        (one,) = (one for one in found.library._linking_libraries if "lambda" in one.name)
        return one

    without, counted, again = called_by(hot), called_by(compiled), called_by(hot)
    assert without == again != counted


def _smallest_above(values, limit):
    found = np.inf
    for k in range(values.size):
        if limit < values[k] < found:
            found = values[k]
    return found


def test_loops_that_decide_are_not_unrolled():
    values = np.random.default_rng(1).random(1001)
    sizes = []
    for kind in (branching, hot):
        ours = kind(_smallest_above)
        ours._cache = NullCache()
        assert ours(values, 0.5) == _smallest_above(values, 0.5)
        (made,) = ours.overloads.values()
        sizes.append(len(made.library.get_asm_str()))
    assert sizes[0] < sizes[1]


def _calls_often(values):
    total = 0.0
    for k in range(values.size):
        if values[k] > 0.25:
            total += _long(values, k)
        if values[k] > 0.5:
            total -= _long(values, k // 2)
        if values[k] > 0.75:
            total += _long(values, k // 3)
    return total


@hot
def _long(values, k):
    found = values[k]
    while found < 100.0:
        if values[k] > 0.5:
            found += np.exp(values[k])
        else:
            found = found * 1.5 + np.log1p(values[k])
        if found > 50.0:
            found += np.sqrt(found)
    return found


def test_compact_loops_are_shorter_where_a_function_is_called_thrice():
    values = np.random.default_rng(1).random(1001)
    short, usual = compact(_calls_often), branching(_calls_often)
    short._cache = usual._cache = NullCache()
    assert short(values) == pytest.approx(usual(values), rel=1e-12)
    sizes = [len(next(iter(made.overloads.values())).library.get_asm_str()) for made in (short, usual)]
    assert sizes[0] < sizes[1] if _functions_can_be_marked() else sizes[0] == sizes[1]
