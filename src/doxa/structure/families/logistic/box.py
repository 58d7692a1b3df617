r"""A scorer of logistic families behind one address, so that samplers' loops can call it without compiling it in.

The compiler puts a callee's code into every kernel that reaches it.  The scorer is large: within each sampler's loop it
takes minutes to compile where the loop alone takes half a minute, paid by everyone.  So it is compiled once, as a C
function, when this module is imported; a loop finds its address, and those of its arrays, in a `Box`, and calls it
through `doxa.structure.families.logistic.call`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.structure.families.logistic.call import call_scorer
from doxa.structure.families.logistic.family import log_mixture, logistic_log_marginal, type_matters
from doxa.structure.families.logistic.nodes import Nodes
from doxa.structure.families.logistic.score import MIXTURE_RULE, FamilyMixture, Logistic, LogisticRule
from doxa.structure.families.logistic.work import LogisticWork, logistic_work

__all__ = ["Box"]

_WORDS, _ADDRESSES = types.CPointer(types.uint64), types.CPointer(types.int64)
_SIGNATURE = types.float64(types.int64, _WORDS, types.int64, _ADDRESSES, types.float64)


class Box:
    """Addresses of a scorer and of all that it works on; keep it as long as ``addresses`` is in use, by one chain.

    Parameters
    ----------
    score : Logistic or FamilyMixture
    data : tuple of ndarray
        Columns int16 (n_nodes, n_rows), counts int64 and numbers of states int64, as `FamilyScores.data`; they are not
        copied, so what is written into them counts from then on.

    Attributes
    ----------
    addresses : ndarray of int64
        What `call_scorer` takes.
    """

    def __init__(self, score: Logistic | FamilyMixture, data: tuple[NDArray[Any], ...]) -> None:
        columns, counts, _ = data
        assert columns.dtype == np.int16
        assert all(array.flags.c_contiguous for array in data)
        n_nodes, n_rows = columns.shape
        rule = score.logistic_rule(int(counts.sum()))
        self._work = work = logistic_work(n_rows, n_nodes)
        self._numbers = np.array(rule, dtype=np.float64)
        self._data = data
        sizes = [n_nodes, n_rows, len(work.keys), len(work.row), len(work.mean), len(work.parents)]
        sizes += [work.nodes.value.shape[0], work.nodes.value.shape[1], len(work.nodes.levels)]
        held = (*data, self._numbers, *work.nodes, *work[1:])
        scorer = _scorer.address
        self.addresses = np.array([scorer, *sizes, *(array.ctypes.data for array in held)], dtype=np.int64)

    def score(self, child: int, sets: NDArray[np.uint64], weights: NDArray[np.float64]) -> None:
        """Score the child with each of the parent sets; ``weights`` holds its scores as tables and gets the sums."""
        _score_sets(self.addresses, child, sets, weights)

    @property
    def report(self) -> NDArray[np.float64]:
        """As `LogisticWork.report`: what was scored and how well."""
        return self._work.report


@intrinsic  # type: ignore[untyped-decorator]
def _at(_typing: Any, address: Any) -> Any:  # noqa: ARG001
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@cfunc(_SIGNATURE, cache=True)  # type: ignore[untyped-decorator]
def _scorer(child: int, words: Any, n_words: int, box: Any, of_table: float) -> float:
    a = carray(box, 64)
    n_nodes, n_rows, n_keys, n_labels, d = a[1], a[2], a[3], a[4], a[5]
    most, n_axes, n_points, n_levels = a[6], a[7], a[8], a[9]
    parents = carray(words, n_words)
    data = (
        carray(_at(a[10]), (n_nodes, n_rows), np.int16),
        carray(_at(a[11]), n_rows, np.int64),
        carray(_at(a[12]), n_nodes, np.int64),
    )
    numbers = carray(_at(a[13]), 7, np.float64)
    rule = LogisticRule(int(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6])
    if rule.kind == MIXTURE_RULE and not type_matters(child, parents, data[2]):
        return of_table
    nodes = Nodes(
        carray(_at(a[14]), (n_axes, n_points), np.float64),
        carray(_at(a[15]), (n_axes, n_points), np.float64),
        carray(_at(a[16]), n_levels, np.int64),
    )
    work = LogisticWork(
        nodes,
        carray(_at(a[17]), n_rows, np.int64),
        carray(_at(a[18]), n_keys, np.int64),
        carray(_at(a[19]), n_keys, np.int64),
        carray(_at(a[20]), most, np.int64),
        carray(_at(a[21]), n_labels, np.int64),
        carray(_at(a[22]), n_labels, np.float64),
        carray(_at(a[23]), n_labels, np.float64),
        carray(_at(a[24]), n_labels, np.float64),
        carray(_at(a[25]), n_labels, np.float64),
        carray(_at(a[26]), n_labels, np.float64),
        carray(_at(a[27]), n_labels, np.float64),
        carray(_at(a[28]), d, np.float64),
        carray(_at(a[29]), d, np.float64),
        carray(_at(a[30]), d, np.float64),
        carray(_at(a[31]), (d, d), np.float64),
        carray(_at(a[32]), (d, d), np.float64),
        carray(_at(a[33]), (d, d), np.float64),
        carray(_at(a[34]), d, np.float64),
        carray(_at(a[35]), d, np.float64),
        carray(_at(a[36]), (d, 128), np.float64),
        carray(_at(a[37]), (d, 128), np.float64),
        carray(_at(a[38]), 128, np.float64),
        carray(_at(a[39]), 128, np.float64),
        carray(_at(a[40]), 128, np.float64),
        carray(_at(a[41]), 128, np.float64),
        carray(_at(a[42]), 128, np.float64),
        carray(_at(a[43]), 16, np.float64),
        carray(_at(a[44]), 6, np.float64),
    )
    value = logistic_log_marginal(child, parents, data, rule, work)
    return log_mixture(of_table, value, rule) if rule.kind == MIXTURE_RULE else value


@hot
def _score_sets(addresses: Any, child: int, sets: Any, weights: Any) -> None:
    for row in range(sets.shape[0]):
        weights[row] = call_scorer(addresses, child, sets[row], weights[row])
