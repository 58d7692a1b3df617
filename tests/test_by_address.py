"""Tuples that compiled functions get by their address: what they read and write is what Python does, in less code."""

from __future__ import annotations

import pickle
import re
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof
from numba.core.caching import NullCache

from doxa._by_address import by_address
from doxa._jit import compiled, hot


@by_address
class Inner(NamedTuple):
    numbers: np.ndarray
    scale: float
    is_on: bool


@by_address
class Outer(NamedTuple):
    words: np.ndarray
    inner: Inner
    pair: tuple[np.ndarray, Inner]  # a plain tuple that holds one
    three: tuple[np.ndarray, np.ndarray, np.ndarray]
    number: int


def outer():
    def made(k):
        return Inner(np.arange(3.0) + k, 0.5 * k, k == 2)

    three = tuple(np.arange(4, dtype=np.int64) * k for k in (1, 2, 3))
    return Outer(np.arange(6, dtype=np.uint64).reshape(2, 3), made(2), (np.arange(2.0), made(3)), three, 7)


@hot
def _add_inner(inner, total):
    numbers, scale, is_on = inner
    numbers[0] += 1.0
    return total + scale * numbers[1] + (100.0 if is_on else 0.0) + inner[1] + inner[-1]


@hot
def _add_all(made, total):
    first, inner = made.pair
    total = _add_inner(made.inner, total) + first[1]
    total = _add_inner(inner, total)
    for k in range(made.words.shape[1]):
        made.words[1, k] += np.uint64(made.number)
        total += float(made.words[1, k])
    return total + made.three[2][3] + made[3][1][1]


@hot
def add_all(made, start):
    return _add_all(made, start) + _add_all(made, 0.0)


def test_reads_and_writes_what_python_does():
    here, there = outer(), outer()
    assert add_all(here, 1.0) == pytest.approx(add_all.py_func(there, 1.0), rel=1e-15)
    assert here.words.tolist() == there.words.tolist()
    for one, other in ((here.inner, there.inner), (here.pair[1], there.pair[1])):
        assert one.numbers.tolist() == other.numbers.tolist()
        assert one.numbers[0] > 3.0  # it was written to


def test_every_call_has_its_own_memory():
    ones = [outer() for _ in range(4)]
    for k, one in enumerate(ones):
        one.inner.numbers[1] = k
    begin = [add_all.py_func(outer()._replace(inner=one.inner), 0.0) for one in ones]
    for one in ones:
        one.inner.numbers[0] = 2.0
    assert [add_all(one, 0.0) for one in ones] == pytest.approx(begin)


@by_address
class Wide(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray
    e: np.ndarray
    f: np.ndarray
    g: np.ndarray
    h: np.ndarray


@hot
def _deepest(wide, k):
    return wide.a[k] + wide.h[k]


@hot
def _deeper(wide, k):
    return _deepest(wide, k) + _deepest(wide, k + 1)


@hot
def sum_deep(wide, k):
    return _deeper(wide, k) + _deeper(wide, k + 1)


sum_deep._cache = NullCache()  # what is loaded from the disk has no parts to look at


def code_of(function):
    (part,) = function.get_overload.__self__.overloads.values()
    return part.library.get_llvm_str()


def test_a_call_hands_over_one_pointer():
    assert sum_deep(Wide(*np.ones((8, 5))), 0) == 8.0
    (arguments,) = re.findall(r"^define .*_deeper\w*\((.*)\) ", code_of(_deeper), re.MULTILINE)
    assert arguments.count("%") == 4  # what is returned, an exception, the address, k
    assert "insertvalue" not in code_of(_deeper)  # nothing is put together


@compiled
def take(made, which):
    part = made.inner.numbers if which == 0 else made.pair[0]
    return part[1:]


@by_address
class Some(NamedTuple):
    inner: Inner
    pair: tuple[np.ndarray, np.ndarray]


def test_references_to_arrays_are_counted():
    made = Some(Inner(np.arange(3.0), 1.0, False), (np.arange(4.0), np.zeros(2)))
    arrays = [made.inner.numbers, *made.pair]
    take(made, 0)
    begin = [sys.getrefcount(one) for one in arrays]
    for k in range(100):
        assert take(made, k % 2).tolist() == ([1.0, 2.0] if k % 2 == 0 else [1.0, 2.0, 3.0])
    assert [sys.getrefcount(one) for one in arrays] == begin
    kept = take(made, 0)
    assert sys.getrefcount(made.inner.numbers) > begin[0]  # the view holds it
    del made, arrays
    assert kept.tolist() == [1.0, 2.0]


@hot
def give_back(made):
    return made.inner


@compiled
def give_back_twice(made):
    return give_back(made).scale


def test_one_cannot_be_returned():
    with pytest.raises(NotImplementedError, match="stands in memory of the call from Python, and cannot be returned"):
        give_back_twice(outer())


def test_types_differ_by_what_they_hold_and_are_found_again_in_a_cache():
    here = typeof(outer())
    assert here == typeof(outer()) == pickle.loads(pickle.dumps(here))
    assert pickle.loads(pickle.dumps(here)).name == here.name
    other = typeof(outer()._replace(number=7.0))
    assert here != other
    assert here.name != other.name
    assert len(here.name) < 30
