r"""A scorer of logistic families, which samplers' loops call by its address (`doxa.structure.families.call`).

Scores of families as compiled loops ask for them: logistic alone, or summed with the table's.

``data`` is (columns, counts, n_states) of a complete table, ``rule`` a `LogisticRule`, ``work`` a `LogisticWork` of the
chain's own.

Lower bounds of the log evidence of a logistic family: Jaakkola & Jordan's, and that of the best Gaussian.

Both give a Gaussian with mean m and precision :math:`I + \sum_c w_c x_c x_c^T` (coordinates of
`doxa.structure.families.logistic.mode`).

*Jaakkola-Jordan* (2000, eqs. 10-12): one :math:`\xi_c` a cell serves both outcomes, as the bound is even in it;
:math:`w_c = 2 n_c \lambda(\xi_c)`, :math:`m = A^{-1} \sum_c (s_c - n_c / 2) x_c`, then :math:`\xi_c^2 = E
h_c^2`.  Every round raises the bound, and it is a bound wherever the rounds end.

*The best Gaussian*: :math:`w_c = n_c E[g(h_c) g(-h_c)]` and the mean where the expected gradient is 0 (Opper &
Archambeau 2009).  From Laplace's Gaussian full steps are taken, halved where they do not raise the bound.  The
expectations over a logit are trapezoidal sums, exact to 1e-9 a case.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray, typeof
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Ints, Words
from doxa.structure.families.call import ONE_ROW, ScorerBox, opener, scorer
from doxa.structure.families.kind import Data
from doxa.structure.families.logistic.evidence import log_evidence
from doxa.structure.families.logistic.mode import factorise, find_mode, signs, solve, solve_transposed
from doxa.structure.families.logistic.score import (
    BOUND_RULE,
    MIXTURE_RULE,
    OPTIMAL_RULE,
    LogisticKind,
    LogisticRule,
)
from doxa.structure.families.logistic.softplus import softplus
from doxa.structure.families.logistic.work import (
    MOST_PARENTS,
    LogisticWork,
    gather_cells,
    logistic_work,
    logit_of,
)

__all__ = [
    "Box",
    "best_gaussian_bound",
    "jaakkola_jordan_bound",
    "log_mixture",
    "logistic_log_marginal",
    "report_error",
    "type_matters",
]

_MOST_ROUNDS = 2000
_GAIN = 1e-7  # nats
_STEP, _WIDTH = 0.45, 8.5  # of the trapezoidal rule, in standard deviations


@hot
def jaakkola_jordan_bound(
    n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork
) -> float:
    """Lower bound (nats), raised until a round gains less than 1e-7; ``work`` holds the cells."""
    xi, d = work.left, n_parents + 1
    for cell in range(n_cells):
        xi[cell] = scale * math.sqrt(float(d))  # the prior's root mean square
    bound, quiet = -math.inf, 0
    for _ in range(_MOST_ROUNDS):
        for cell in range(n_cells):
            work.skewness[cell] = 2.0 * work.cases[cell] * _lambda(xi[cell])
        _precision(n_cells, n_parents, scale, columns, work)
        work.mean[:d] = 0.0
        for cell in range(n_cells):
            signs(cell, n_parents, columns, work, work.trial)
            share = scale * (work.successes[cell] - 0.5 * work.cases[cell])
            for i in range(d):
                work.mean[i] += share * work.trial[i]
        solve(work.precision, d, work.mean)
        solve_transposed(work.precision, d, work.mean)
        new = -_divergence(n_cells, n_parents, scale, columns, work)
        for cell in range(n_cells):
            centre = scale * logit_of(cell, n_parents, work.mean, columns, work)
            second = centre * centre + work.along[cell]
            x = xi[cell]
            new += (work.successes[cell] - 0.5 * work.cases[cell]) * centre
            new += work.cases[cell] * (-softplus(-x) - 0.5 * x - _lambda(x) * (second - x * x))
            xi[cell] = math.sqrt(second)
        quiet = quiet + 1 if new - bound < _GAIN else 0
        bound = max(bound, new)
        if quiet == 2:
            break
    return bound


@hot
def best_gaussian_bound(
    n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork
) -> float:
    """Lower bound (nats) by the Gaussian closest to the posterior; after `find_mode`, whose Gaussian it starts from."""
    d = n_parents + 1
    weights, old, mean, before = work.skewness, work.left, work.mean, work.centre
    for cell in range(n_cells):
        small = math.exp(-abs(work.logit[cell]))
        weights[cell] = work.cases[cell] * small / (1.0 + small) ** 2
        old[cell] = weights[cell]
    bound = _expect(n_cells, n_parents, scale, columns, work)
    size = 1.0
    for _ in range(_MOST_ROUNDS):
        # `trial` holds the gradient in the mean, `logit` the weights that the expectations ask for.
        for i in range(d):
            before[i] = mean[i]
            work.tilt[i] = work.trial[i]
        for cell in range(n_cells):
            old[cell] = weights[cell]
            weights[cell] += size * (work.logit[cell] - weights[cell])
        _precision(n_cells, n_parents, scale, columns, work)
        for i in range(d):
            work.step[i] = work.tilt[i]
        solve(work.precision, d, work.step)
        solve_transposed(work.precision, d, work.step)
        for i in range(d):
            mean[i] = before[i] + size * work.step[i]
        new = _expect(n_cells, n_parents, scale, columns, work)
        if new < bound:
            for i in range(d):
                mean[i] = before[i]
            for cell in range(n_cells):
                weights[cell] = old[cell]
            bound = _expect(n_cells, n_parents, scale, columns, work)
            size *= 0.5
            if size < 1e-6:
                break
            continue
        if new - bound < _GAIN * size:
            bound = new
            break
        bound = new
        size = min(1.0, 1.5 * size)
    return bound


@hot
def _lambda(xi: float) -> float:
    """tanh(xi / 2) / (4 xi): eq. 7."""
    return 0.125 if xi < 1e-8 else math.tanh(0.5 * xi) / (4.0 * xi)


@hot
def _precision(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> None:
    """Cholesky factor of I + sum of w x x', the weights w being in ``work.skewness``."""
    d, precision, x = n_parents + 1, work.precision, work.trial
    for i in range(d):
        for j in range(i + 1):
            precision[i, j] = 1.0 if i == j else 0.0
    for cell in range(n_cells):
        weight = scale * scale * work.skewness[cell]
        signs(cell, n_parents, columns, work, x)
        for i in range(d):
            for j in range(i + 1):
                precision[i, j] += weight * x[i] * x[j]
    factorise(precision, d)


@hot
def _divergence(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> float:
    """Kullback-Leibler divergence of the Gaussian from the prior; variances of the cells' logits into ``along``."""
    d = n_parents + 1
    total = 0.0
    for i in range(d):
        total += 2.0 * math.log(work.precision[i, i]) + work.mean[i] * work.mean[i]
    for cell in range(n_cells):
        signs(cell, n_parents, columns, work, work.trial)
        solve(work.precision, d, work.trial)
        variance = 0.0
        for i in range(d):
            variance += work.trial[i] * work.trial[i]
        work.along[cell] = scale * scale * variance
        total -= work.skewness[cell] * work.along[cell]  # trace of the covariance less d
    return 0.5 * total


@hot
def _expect(n_cells: int, n_parents: int, scale: float, columns: NDArray[np.int16], work: LogisticWork) -> float:
    """The bound at a Gaussian; its gradient in the mean into ``trial``, the next weights into ``logit``."""
    d = n_parents + 1
    _precision(n_cells, n_parents, scale, columns, work)
    bound = -_divergence(n_cells, n_parents, scale, columns, work)
    for i in range(d):
        work.trial[i] = -work.mean[i]
    for cell in range(n_cells):
        centre = scale * logit_of(cell, n_parents, work.mean, columns, work)
        value, slope, curvature = _expected(centre, math.sqrt(work.along[cell]))
        bound += work.successes[cell] * centre - work.cases[cell] * value
        work.logit[cell] = work.cases[cell] * curvature
        signs(cell, n_parents, columns, work, work.step)
        share = scale * (work.successes[cell] - work.cases[cell] * slope)
        for i in range(d):
            work.trial[i] += share * work.step[i]
    return bound


@hot
def _expected(centre: float, deviation: float) -> tuple[float, float, float]:
    """Expectations of softplus, of its slope and of its curvature under a normal law of the logit."""
    step = min(_STEP, 0.7 / deviation)  # of the deviation; the poles at +-i pi ask for steps well below pi
    last = math.ceil(_WIDTH / step)
    value, slope, curvature, total = 0.0, 0.0, 0.0, 0.0
    for k in range(-last, last + 1):
        z = k * step
        h = centre + deviation * z
        weight = math.exp(-0.5 * z * z)
        small = math.exp(-abs(h))
        share = (1.0 if h > 0.0 else small) / (1.0 + small)
        total += weight
        value += weight * softplus(h)
        slope += weight * share
        curvature += weight * small / (1.0 + small) ** 2
    return value / total, slope / total, curvature / total


@hot
def logistic_log_marginal(child: int, parents: Words, data: Data, rule: LogisticRule, work: LogisticWork) -> float:
    """Log evidence (nats) of a logistic family, or the bound of it that ``rule.kind`` names.

    ``work.report`` keeps the number of families, their largest error and the sum of its squares, and how many are
    beyond the tolerance.  A family of more than 63 varying parents is impossible: minus infinity.
    """
    work.report[0] += 1.0
    if _n_varying(parents, data[2]) > MOST_PARENTS:
        return -math.inf
    if rule.kind != BOUND_RULE and rule.kind != OPTIMAL_RULE:
        value, error, n_nodes = log_evidence(child, parents, data, rule.scale, rule.tolerance, work)
        report_error(error, n_nodes, rule.tolerance, work)
        return value
    if data[2][child] < 2:
        return 0.0
    n_cells, n_parents = gather_cells(child, parents, data, work)
    if rule.kind == BOUND_RULE:
        return jaakkola_jordan_bound(n_cells, n_parents, rule.scale, data[0], work)
    find_mode(n_cells, n_parents, rule.scale, data[0], work)
    return best_gaussian_bound(n_cells, n_parents, rule.scale, data[0], work)


@hot
def report_error(error: float, n_nodes: int, tolerance: float, work: LogisticWork) -> None:
    """Note how well a family was scored, and with how many nodes, in ``work.report``."""
    report = work.report
    report[1] = max(report[1], error)
    report[2] += error * error
    report[3] += 1.0 if error > tolerance else 0.0
    report[4], report[5] = error, float(n_nodes)


@hot
def type_matters(child: int, parents: Words, n_states: Ints) -> bool:
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
def _n_varying(parents: Words, n_states: Ints) -> int:
    varying = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            varying += 1 if n_states[64 * w + lowest_bit(word)] == 2 else 0
            word &= word - np.uint64(1)
    return varying


@hot
def log_mixture(of_table: float, of_logistic: float, rule: LogisticRule) -> float:
    """Log of the sum over the types, each with its prior share; no less than either share's own term."""
    a, b = rule.log_table_share + of_table, rule.log_logistic_share + of_logistic
    top = max(a, b)
    return top if top == -math.inf else top + math.log1p(math.exp(min(a, b) - top))


class Box(ScorerBox):
    """The scorer of logistic families and all that it works on.

    Parameters
    ----------
    score : Logistic or FamilyMixture
    data : tuple of ndarray
        Columns int16 (n_nodes, n_rows), counts int64 and numbers of states int64, as `FamilyScores.data`; they are not
        copied, so what is written into them counts from then on.
    most_coefficients : int, default=0
        That others need in the box's work space; at most 64.

    Attributes
    ----------
    rule : LogisticRule
    work : LogisticWork
    """

    def __init__(self, score: LogisticKind, data: tuple[NDArray[Any], ...], most_coefficients: int = 0) -> None:
        columns, counts, _ = data
        n_nodes, n_rows = columns.shape
        self.rule = score.logistic_rule(int(counts.sum()))
        self.work = logistic_work(n_rows, max(n_nodes, most_coefficients))
        super().__init__(_scorer, _CONTENTS, (data, self.rule, self.work))

    @property
    def report(self) -> NDArray[np.float64]:
        """As `LogisticWork.report`: what was scored and how well."""
        return self.work.report


_CONTENTS = typeof((ONE_ROW, LogisticRule(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), logistic_work(1, 1)))
_open = opener(_CONTENTS)


@scorer
def _scorer(child: int, words: Any, n_words: int, box: Any, of_table: float) -> float:
    parents = carray(words, n_words)
    data, rule, work = _open(box)
    if rule.kind == MIXTURE_RULE and not type_matters(child, parents, data[2]):
        return of_table
    value = logistic_log_marginal(child, parents, data, rule, work)
    return log_mixture(of_table, value, rule) if rule.kind == MIXTURE_RULE else value
