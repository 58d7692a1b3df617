"""How kernels are compiled: once for each type, and what compiled functions call with them and not by itself."""

from __future__ import annotations

import numpy as np

from doxa._jit import compiled, hot


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
