r"""Scores of families as compiled loops ask for them: logistic alone, or summed with the table's.

``data`` is (columns, counts, n_states) of a complete table, ``rule`` a `LogisticRule`, ``work`` a `LogisticWork` of the
chain's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from doxa._jit import hot, lowest_bit
from doxa.structure.families.logistic.bounds import best_gaussian_bound, jaakkola_jordan_bound
from doxa.structure.families.logistic.cells import gather_cells
from doxa.structure.families.logistic.evidence import log_evidence
from doxa.structure.families.logistic.mode import find_mode
from doxa.structure.families.logistic.score import BOUND_RULE, OPTIMAL_RULE
from doxa.structure.families.logistic.work import MOST_PARENTS

__all__ = ["log_mixture", "logistic_log_marginal", "type_matters"]


@hot
def logistic_log_marginal(child: int, parents: Any, data: Any, rule: Any, work: Any) -> float:
    """Log evidence (nats) of a logistic family, or the bound of it that ``rule.kind`` names.

    ``work.report`` keeps the number of families, their largest error and the sum of its squares, and how many are
    beyond the tolerance.  A family of more than 63 varying parents is impossible: minus infinity.
    """
    report = work.report
    report[0] += 1.0
    if _n_varying(parents, data[2]) > MOST_PARENTS:
        return -math.inf
    if rule.kind != BOUND_RULE and rule.kind != OPTIMAL_RULE:
        value, error, n_nodes = log_evidence(child, parents, data, rule.scale, rule.tolerance, work)
        report[1] = max(report[1], error)
        report[2] += error * error
        report[3] += 1.0 if error > rule.tolerance else 0.0
        report[4], report[5] = error, float(n_nodes)
        return value
    if data[2][child] < 2:
        return 0.0
    n_cells, n_parents = gather_cells(child, parents, data, work)
    if rule.kind == BOUND_RULE:
        return jaakkola_jordan_bound(n_cells, n_parents, rule.scale, data[0], work)
    find_mode(n_cells, n_parents, rule.scale, data[0], work)
    return best_gaussian_bound(n_cells, n_parents, rule.scale, data[0], work)


@hot
def type_matters(child: int, parents: Any, n_states: Any) -> bool:
    """Whether a logistic family is possible and differs from a table: all binary, and two varying parents or more."""
    if n_states[child] != 2:
        return False
    varying = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            count = n_states[64 * w + lowest_bit(word)]
            word &= word - np.uint64(1)
            if count > 2:
                return False
            varying += 1 if count == 2 else 0
    return varying >= 2


@hot
def _n_varying(parents: Any, n_states: Any) -> int:
    varying = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            varying += 1 if n_states[64 * w + lowest_bit(word)] == 2 else 0
            word &= word - np.uint64(1)
    return varying


@hot
def log_mixture(of_table: float, of_logistic: float, rule: Any) -> float:
    """Log of the sum over the types, each with its prior share; no less than either share's own term."""
    a, b = rule.log_table_share + of_table, rule.log_logistic_share + of_logistic
    top = max(a, b)
    return top if top == -math.inf else top + math.log1p(math.exp(min(a, b) - top))  # type: ignore[no-any-return]
