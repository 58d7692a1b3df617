r"""A scorer of logistic families behind one address, so that samplers' loops can call it without compiling it in.

The compiler puts a callee's code into every kernel that reaches it.  The scorer is large: within each sampler's loop it
takes minutes to compile where the loop alone takes half a minute, paid by everyone.  So it is compiled once, as a C
function, when this module is imported; a loop finds its address, and those of its arrays, in a `Box`, and calls it
through `doxa.structure.families.call`.

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
from numba import carray, cfunc
from numba.extending import register_jitable
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Ints, Words
from doxa.structure.families.call import SCORER, at, score_sets
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
    Nodes,
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
    "open_box",
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


# Which arrays `_scorer` finds at which address: by name, so that the order of the tuples' fields means nothing.
_NODES = ("value", "bend", "levels")
_WORK = (
    "labels", "keys", "names", "parents", "row", "successes", "cases", "logit", "skewness", "left", "along", "mean",
    "trial", "step", "precision", "axes", "frame", "centre", "tilt", "moved", "growth", "product", "weighted", "logits",
    "exponents", "weights", "sums", "report",
)  # fmt: skip


class Box:
    """Addresses of a scorer and of all that it works on; keep it as long as ``addresses`` is in use, by one chain.

    Parameters
    ----------
    score : Logistic or FamilyMixture
    data : tuple of ndarray
        Columns int16 (n_nodes, n_rows), counts int64 and numbers of states int64, as `FamilyScores.data`; they are not
        copied, so what is written into them counts from then on.
    most_coefficients : int, default=0
        That others need in the box's work space (`open_box`); at most 64.

    Attributes
    ----------
    addresses : ndarray of int64
        What `call_scorer` takes.
    """

    def __init__(self, score: LogisticKind, data: tuple[NDArray[Any], ...], most_coefficients: int = 0) -> None:
        columns, counts, _ = data
        assert columns.dtype == np.int16
        assert all(array.flags.c_contiguous for array in data)
        n_nodes, n_rows = columns.shape
        rule = score.logistic_rule(int(counts.sum()))
        self._work = work = logistic_work(n_rows, max(n_nodes, most_coefficients))
        self._numbers = np.array(rule, dtype=np.float64)
        self._data = data
        sizes = [n_nodes, n_rows, len(work.keys), len(work.row), len(work.mean), len(work.parents)]
        sizes += [work.nodes.value.shape[0], work.nodes.value.shape[1], len(work.nodes.levels)]
        held = (*data, self._numbers, *(getattr(work.nodes, x) for x in _NODES), *(getattr(work, x) for x in _WORK))
        scorer = _scorer.address
        self.addresses = np.array([scorer, *sizes, *(array.ctypes.data for array in held)], dtype=np.int64)

    def score(self, child: int, sets: NDArray[np.uint64], weights: NDArray[np.float64]) -> None:
        """Score the child with each of the parent sets; ``weights`` holds its scores as tables and gets the sums."""
        score_sets(self.addresses, child, sets, weights)

    @property
    def report(self) -> NDArray[np.float64]:
        """As `LogisticWork.report`: what was scored and how well."""
        return self._work.report


@register_jitable(inline="always")  # type: ignore[untyped-decorator]  # arrays that are made here cannot be returned
def open_box(a: Ints) -> tuple[Data, LogisticRule, LogisticWork]:
    """The data, the rule and the work space of a `Box`, by its addresses."""
    n_nodes, n_rows, n_keys, n_labels, d = a[1], a[2], a[3], a[4], a[5]
    most, n_axes, n_points, n_levels = a[6], a[7], a[8], a[9]
    data = (
        carray(at(a[10]), (n_nodes, n_rows), np.int16),
        carray(at(a[11]), n_rows, np.int64),
        carray(at(a[12]), n_nodes, np.int64),
    )
    numbers = carray(at(a[13]), 7, np.float64)
    rule = LogisticRule(int(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6])
    nodes = Nodes(
        value=carray(at(a[14]), (n_axes, n_points), np.float64),
        bend=carray(at(a[15]), (n_axes, n_points), np.float64),
        levels=carray(at(a[16]), n_levels, np.int64),
    )
    work = LogisticWork(
        nodes=nodes,
        labels=carray(at(a[17]), n_rows, np.int64),
        keys=carray(at(a[18]), n_keys, np.int64),
        names=carray(at(a[19]), n_keys, np.int64),
        parents=carray(at(a[20]), most, np.int64),
        row=carray(at(a[21]), n_labels, np.int64),
        successes=carray(at(a[22]), n_labels, np.float64),
        cases=carray(at(a[23]), n_labels, np.float64),
        logit=carray(at(a[24]), n_labels, np.float64),
        skewness=carray(at(a[25]), n_labels, np.float64),
        left=carray(at(a[26]), n_labels, np.float64),
        along=carray(at(a[27]), n_labels, np.float64),
        mean=carray(at(a[28]), d, np.float64),
        trial=carray(at(a[29]), d, np.float64),
        step=carray(at(a[30]), d, np.float64),
        precision=carray(at(a[31]), (d, d), np.float64),
        axes=carray(at(a[32]), (d, d), np.float64),
        frame=carray(at(a[33]), (d, d), np.float64),
        centre=carray(at(a[34]), d, np.float64),
        tilt=carray(at(a[35]), d, np.float64),
        moved=carray(at(a[36]), (d, 128), np.float64),
        growth=carray(at(a[37]), (d, 128), np.float64),
        product=carray(at(a[38]), 128, np.float64),
        weighted=carray(at(a[39]), 128, np.float64),
        logits=carray(at(a[40]), 128, np.float64),
        exponents=carray(at(a[41]), 128, np.float64),
        weights=carray(at(a[42]), 128, np.float64),
        sums=carray(at(a[43]), 16, np.float64),
        report=carray(at(a[44]), 6, np.float64),
    )
    return data, rule, work


@cfunc(SCORER, cache=True)  # type: ignore[untyped-decorator]
def _scorer(child: int, words: Any, n_words: int, box: Any, of_table: float) -> float:
    parents = carray(words, n_words)
    data, rule, work = open_box(carray(box, 64))
    if rule.kind == MIXTURE_RULE and not type_matters(child, parents, data[2]):
        return of_table
    value = logistic_log_marginal(child, parents, data, rule, work)
    return log_mixture(of_table, value, rule) if rule.kind == MIXTURE_RULE else value
