"""NumPy's generators in compiled functions: the same draws as in Python, and nobody holds them after the call."""

from __future__ import annotations

import sys

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from doxa._call_at import Address
from doxa._jit import compiled, hot


@hot
def _drawn(found: np.ndarray, rng: np.random.Generator) -> None:
    found[0] = rng.random()
    found[1] = rng.standard_normal()  # from 64 bits
    found[2] = rng.random(dtype=np.float32)  # from 32


@compiled
def _sum(rng: np.random.Generator) -> float:
    return rng.random(3).sum()


@compiled
def _given_back(rng: np.random.Generator) -> np.random.Generator:
    return rng


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_draws_are_those_of_python(bits):
    one, other = (np.random.Generator(getattr(np.random, bits)(7)) for _ in range(2))
    found, expected = np.zeros(3), np.zeros(3)
    for _ in range(3):  # each goes on where the one before ended
        _drawn(found, one)
        _drawn.py_func(expected, other)
        assert found.tolist() == expected.tolist()
        assert _sum(one) == _sum.py_func(other)
    assert one.random() == other.random()
    assert _given_back(one) is one


def test_nothing_holds_a_generator_after_the_call():
    rng, found = np.random.default_rng(1), np.zeros(3)
    _drawn(found, rng), _sum(rng), _given_back(rng)
    held = sys.getrefcount(rng), sys.getrefcount(rng.bit_generator), sys.getrefcount(rng.bit_generator.capsule)
    for _ in range(50):
        _drawn(found, rng), _sum(rng), _given_back(rng)
    assert (
        sys.getrefcount(rng),
        sys.getrefcount(rng.bit_generator),
        sys.getrefcount(rng.bit_generator.capsule),
    ) == held


def test_what_is_no_generator_is_refused():
    found = np.zeros(3)
    with pytest.raises(TypingError):
        _drawn(found, 3)
    settled = Address(_drawn)
    settled(found, np.random.default_rng(1))
    with pytest.raises(AttributeError, match="bit_generator"):
        settled(found, 3)

    class Bits:
        bit_generator = np.random.default_rng(1)  # which has no capsule

    with pytest.raises(AttributeError, match="capsule"):
        settled(found, Bits())


def test_functions_of_others_take_them_as_before():
    @numba.njit
    def theirs(rng):
        return rng.random(), rng

    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    number, same = theirs(rng)
    assert number == again.random()
    assert same is rng
