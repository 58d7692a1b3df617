"""How kernels are compiled: once for each type, and what compiled functions call with them and not by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from doxa._jit import Address, call_at, compiled, hot


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
