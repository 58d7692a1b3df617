r"""The scorer of additive families, behind one address.

A number has one regression on all columns of its design: its parents that are numbers, and the contrasts of those that
are categories (`doxa.structure.families.additive.mode.fill_contrasts`).  Every coefficient has the prior
:math:`N(0, \sigma^2 / t)`, and the residual variance that of `doxa.structure.families.gaussian.box`, whose degrees of
freedom grow with the parents that are numbers.  So the formula there holds with the contrasts among the columns of R,
and (a + 2p + c + 1) / 2 as the power of t for c contrasts.  Sums of products of all columns, made once, serve every
family.

A category has a multinomial regression; where it and its parents have two states each, that is a family of `Logistic`,
and scored as such.

In a mixture the additive family and the conditional Gaussian one are added up where both are possible and differ.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import carray, cfunc
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.structure.families.additive.evidence import log_multinomial_evidence
from doxa.structure.families.additive.mode import (
    MOST_COEFFICIENTS,
    MultinomialWork,
    fill_contrasts,
    multinomial_work,
)
from doxa.structure.families.call import SCORER, at, call_scorer, score_sets
from doxa.structure.families.counting import CountingScratch
from doxa.structure.families.gaussian.box import (
    GaussianBox,
    GaussianRule,
    GaussianWork,
    factorise,
    gaussian_work,
    group_rows,
    regression_constant,
    sums_of_products,
)
from doxa.structure.families.kind import Data
from doxa.structure.families.logistic.box import Box, open_box
from doxa.structure.families.logistic.score import Logistic, LogisticRule
from doxa.structure.families.logistic.work import CHUNK, LogisticWork

if TYPE_CHECKING:
    from doxa.structure.families.additive.kinds import AdditiveKind

__all__ = ["AdditiveBox"]

_SMALL = (
    "root", "slopes", "differences", "hessian", "moved", "top_of_nodes", "most", "least", "spread", "skewness",
)  # fmt: skip
_WIDE = ("x", "counts", "cases", "share", "logits", "along", "top", "part")


class AdditiveWork(NamedTuple):
    """Work space of one chain."""

    place: NDArray[np.int64]  # (n_nodes + 1,): where a node's columns begin among those of all designs
    rows: NDArray[np.int64]  # (n_rows,): 0, 1, ...
    gaussian: GaussianWork  # sums of products are of all columns
    scratch: CountingScratch
    cells: MultinomialWork
    logistic: NDArray[np.int64]  # addresses of the scorer of families of two states
    of_categories: LogisticRule
    nodes: LogisticWork


class AdditiveBox:
    """Addresses of a scorer and of all that it works on; keep it as long as ``addresses`` is in use, by one chain.

    Parameters
    ----------
    kind : Additive or AdditiveMixture
    data : tuple of ndarray
        As `doxa.structure.families.cache.FamilyScores.data`; not copied.
    values : ndarray of float, shape (n_nodes, n_rows), optional
        Scaled numbers, NaN in columns of categories; not copied.  None where no column holds numbers.
    fixed : bool, default=False
        Whether nothing is written into either; then sums of products are made once.

    Attributes
    ----------
    addresses : ndarray of int64
        What `call_scorer` takes.
    """

    error = None  # nothing that a table may hold is refused

    def __init__(
        self,
        kind: AdditiveKind,
        data: tuple[NDArray[Any], ...],
        values: NDArray[np.float64] | None = None,
        *,
        fixed: bool = False,
    ) -> None:
        columns, counts, n_states = data
        n_nodes, n_rows = columns.shape
        values = np.full((n_nodes, n_rows), np.nan) if values is None else values
        assert columns.dtype == np.int16
        assert values.shape == columns.shape
        assert all(array.flags.c_contiguous for array in (*data, values))
        is_number = np.asarray(~np.isnan(values).all(axis=1)) & (n_states < 2)
        width = np.where(is_number, 1, n_states - 1)
        place = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
        n_columns, most_states = int(place[-1]), int(n_states.max(initial=1))
        rule = kind.gaussian_rule(int(is_number.sum()), int(counts.sum()))
        work = gaussian_work(values, is_number)._replace(
            moments=np.zeros((n_columns, n_columns)),
            members=np.zeros(n_columns, dtype=np.int64),
            matrix=np.zeros((n_columns, n_columns)),
            mean=np.zeros(n_columns),
        )
        if fixed:
            sums, mean = sums_of_products(_all_columns(values, columns, n_states, is_number, place), counts)
            shrunk = rule.n_cases * rule.mean_weight / (rule.n_cases + rule.mean_weight)
            work.moments[:] = rule.scale * np.eye(n_columns) + sums + shrunk * np.outer(mean, mean)
        work.state[0] = fixed
        widest = min(MOST_COEFFICIENTS, (1 + n_columns) * max(1, most_states - 1))
        self._logistic = Box(Logistic(kind.prior_scale, tolerance=kind.tolerance), data, widest)
        self._gaussian = None if kind.conditional is None else GaussianBox(kind.conditional, data, values, fixed=fixed)
        design = min(1 + n_columns, MOST_COEFFICIENTS) if fixed else 1 + n_columns
        cells = multinomial_work(n_rows, design, most_states)
        dense, slots = max(4096, 2 * n_rows), 1 << max(4, int(2 * n_rows - 1).bit_length())
        counting = [np.zeros(size, dtype=np.int64) for size in (n_rows, n_rows, dense, slots, slots, 1)]
        share = kind.additive_share
        assert not isinstance(share, tuple) or len(share) == n_nodes  # see AdditiveMixture.of_node
        share = np.resize(share, n_nodes).astype(np.float64)
        with np.errstate(divide="ignore"):
            log_shares = np.log(np.stack([1.0 - share, share], axis=1))
        inner = [self._logistic.addresses, *([self._gaussian.addresses] if self._gaussian else [counting[-1]])]
        numbers = np.array(rule, dtype=np.float64)
        arrays = [getattr(cells, name) for name in (*_WIDE, *_SMALL)]
        self._held = (*data, numbers, place, np.arange(n_rows), *inner, *work[:-1], *counting, *arrays, log_shares)
        sizes = [n_nodes, n_rows, n_columns, cells.x.shape[0], cells.x.shape[1], len(cells.root), dense, slots]
        sizes += [int(self._gaussian is not None)]
        addresses = (array.ctypes.data for array in self._held)
        self.addresses = np.array([_scorer.address, *sizes, *addresses], dtype=np.int64)

    def score(self, child: int, sets: NDArray[np.uint64], weights: NDArray[np.float64]) -> None:
        """Score the child with each of the parent sets, into ``weights``."""
        score_sets(self.addresses, child, sets, weights)

    @property
    def report(self) -> NDArray[np.float64]:
        """As `LogisticWork.report`, of the families of categories."""
        return self._logistic.report


def _all_columns(
    values: NDArray[np.float64],
    columns: NDArray[np.int16],
    n_states: NDArray[np.int64],
    is_number: NDArray[np.bool_],
    place: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Numbers, and contrasts of categories: shape (n_columns, n_rows)."""
    found = np.zeros((place[-1], values.shape[1]))
    rows = np.arange(values.shape[1])
    for node, number in enumerate(is_number.tolist()):
        if number:
            found[place[node]] = values[node]
        else:
            fill_contrasts(columns[node], n_states[node], rows, len(rows), found[place[node] : place[node + 1]])
    return found


@hot
def _size_of(child: int, parents: Words, n_states: Ints, work: GaussianWork) -> tuple[int, int, int, bool]:
    """Parents that are numbers, varying categories, contrasts, and whether all categories have two states at most."""
    n_numbers, n_categories, n_contrasts, binary = 0, 0, 0, n_states[child] <= 2
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if work.is_number[parent] != 0:
                n_numbers += 1
            elif n_states[parent] > 1:
                n_categories += 1
                n_contrasts += n_states[parent] - 1
                binary = binary and n_states[parent] == 2
    return n_numbers, n_categories, n_contrasts, binary


@hot
def _fill_design(parents: Words, data: Data, rows: Ints, n: int, gaussian: GaussianWork, x: Floats) -> int:
    """The columns of the parents in the first ``n`` of ``rows``, into the rows of ``x``; their number."""
    columns, _, n_states = data
    d = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if gaussian.is_number[parent] != 0:
                source, target = gaussian.values[parent], x[d]
                for cell in range(n):
                    target[cell] = source[rows[cell]]
                d += 1
            else:
                fill_contrasts(columns[parent], n_states[parent], rows, n, x[d:])
                d += n_states[parent] - 1
    return d


@hot
def _log_regression(
    child: int, parents: Words, size: tuple[int, int, int, bool], data: Data, rule: GaussianRule, work: AdditiveWork
) -> float:
    """Log evidence (nats) of a number's regression."""
    n_numbers, _, n_contrasts, _ = size
    gaussian, place, x = work.gaussian, work.place, work.cells.x
    p, matrix = n_numbers + n_contrasts, gaussian.matrix
    if gaussian.state[0] != 0:
        members, d = gaussian.members, 0
        for w in range(parents.size):
            word = parents[w]
            while word != np.uint64(0):
                parent = 64 * w + lowest_bit(word)
                word &= word - np.uint64(1)
                for column in range(place[parent], place[parent + 1]):
                    members[d] = column
                    d += 1
        members[p] = place[child]
        for i in range(p + 1):
            for j in range(i + 1):
                matrix[i, j] = gaussian.moments[members[i], members[j]]
    else:
        n = work.rows.size
        _fill_design(parents, data, work.rows, n, gaussian, x)
        own, target = gaussian.values[child], x[p]
        for row in range(n):
            target[row] = own[row]
        _add_up(p + 1, data[1], rule, x, gaussian)
    log_of_parents = factorise(matrix, p + 1, rule.scale)
    constant = regression_constant(n_numbers, n_contrasts, rule.n_cases, rule)
    return constant - 0.5 * log_of_parents - (rule.n_cases + rule.freedom + n_numbers + 1.0) * math.log(matrix[p, p])


@hot
def _add_up(size: int, weights: Ints, rule: GaussianRule, x: Floats, work: GaussianWork) -> None:
    """R of the first columns of a design, into ``work.matrix``; they are centred in place."""
    n, mean, matrix = weights.size, work.mean, work.matrix
    shrunk = rule.n_cases * rule.mean_weight / (rule.n_cases + rule.mean_weight)
    for i in range(size):
        column, total = x[i], 0.0
        for row in range(n):
            total += weights[row] * column[row]
        mean[i] = total / rule.n_cases
        for row in range(n):
            column[row] -= mean[i]
        for j in range(i + 1):
            other, total = x[j], 0.0
            for row in range(n):
                total += weights[row] * column[row] * other[row]
            matrix[i, j] = total + shrunk * mean[i] * mean[j]
        matrix[i, i] += rule.scale


@hot
def _gather_cells(child: int, parents: Words, n_numbers: int, data: Data, work: AdditiveWork) -> int:
    """Design and counts of a category's family: of rows, or of configurations where all parents are categories."""
    columns, weights, n_states = data
    rows, scratch, gaussian, cells = work.rows, work.scratch, work.gaussian, work.cells
    own, n_odds = columns[child], n_states[child] - 1
    n = rows.size
    if n_numbers == 0:
        n = 0
        n_groups = group_rows(parents, data, scratch, gaussian)
        for label in range(n_groups):
            begin, end = gaussian.first[label], gaussian.first[label + 1]
            if begin == end:
                continue
            for k in range(n_odds):
                cells.counts[k, n] = 0.0
            total = 0.0
            for at_row in range(begin, end):
                row = gaussian.order[at_row]
                total += weights[row]
                if own[row] > 0:
                    cells.counts[own[row] - 1, n] += weights[row]
            cells.cases[n] = total
            scratch[1][n] = gaussian.order[begin]  # before `n` no row is read any more
            n += 1
        _fill_design(parents, data, scratch[1], n, gaussian, cells.x[1:])
    else:
        for row in range(n):
            cells.cases[row] = weights[row]
        for k in range(n_odds):
            target = cells.counts[k]
            for row in range(n):
                target[row] = weights[row] if own[row] == k + 1 else 0.0
        _fill_design(parents, data, rows, n, gaussian, cells.x[1:])
    for cell in range(n):
        cells.x[0, cell] = 1.0
    return n


@hot
def _log_additive(
    child: int, parents: Words, size: tuple[int, int, int, bool], data: Data, rule: GaussianRule, work: AdditiveWork
) -> float:
    """Log evidence (nats) of an additive family; minus infinity for a category of more than 64 coefficients."""
    n_numbers, _, n_contrasts, binary = size
    n_states = data[2]
    if work.gaussian.is_number[child] != 0:
        return _log_regression(child, parents, size, data, rule, work)
    if n_states[child] < 2:
        return 0.0
    if n_numbers == 0 and binary:
        return call_scorer(work.logistic, child, parents, 0.0)  # type: ignore[no-any-return]
    n_odds, d = n_states[child] - 1, 1 + n_numbers + n_contrasts
    if n_odds * d > MOST_COEFFICIENTS:
        return -math.inf
    n = _gather_cells(child, parents, n_numbers, data, work)
    of_categories = work.of_categories
    value, error, n_nodes = log_multinomial_evidence(
        n_odds, d, n, of_categories.scale, of_categories.tolerance, work.cells, work.nodes
    )
    _tell(error, n_nodes, of_categories.tolerance, work.nodes)
    return value


@hot
def _tell(error: float, n_nodes: int, tolerance: float, work: LogisticWork) -> None:
    report = work.report
    report[0] += 1.0
    report[1] = max(report[1], error)
    report[2] += error * error
    report[3] += 1.0 if error > tolerance else 0.0
    report[4], report[5] = error, float(n_nodes)


@hot
def _is_one_model(child: int, size: tuple[int, int, int, bool], work: GaussianWork) -> bool:
    """Whether the additive family is the conditional Gaussian one: of numbers alone, or of two categories at most."""
    n_numbers, n_categories, _, _ = size
    return n_categories == 0 if work.is_number[child] != 0 else n_numbers == 0 and n_categories <= 1


@cfunc(SCORER, cache=True)  # type: ignore[untyped-decorator]
def _scorer(child: int, words: Any, n_words: int, box: Any, _of_table: float) -> float:
    a = carray(box, 64)
    n_nodes, n_rows, n_columns, n_design, padded = a[1], a[2], a[3], a[4], a[5]
    most, n_dense, n_slots, is_mixture = a[6], a[7], a[8], a[9] != 0
    parents = carray(words, n_words)
    data = (
        carray(at(a[10]), (n_nodes, n_rows), np.int16),
        carray(at(a[11]), n_rows, np.int64),
        carray(at(a[12]), n_nodes, np.int64),
    )
    numbers = carray(at(a[13]), 6, np.float64)
    rule = GaussianRule(int(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4], numbers[5])
    place, rows = carray(at(a[14]), n_nodes + 1, np.int64), carray(at(a[15]), n_rows, np.int64)
    logistic, conditional = carray(at(a[16]), 64, np.int64), carray(at(a[17]), 64, np.int64)
    gaussian = GaussianWork(
        values=carray(at(a[18]), (n_nodes, n_rows), np.float64),
        is_number=carray(at(a[19]), n_nodes, np.int64),
        moments=carray(at(a[20]), (n_columns, n_columns), np.float64),
        constants=carray(at(a[21]), 0, np.float64),
        members=carray(at(a[22]), n_columns, np.int64),
        matrix=carray(at(a[23]), (n_columns, n_columns), np.float64),
        mean=carray(at(a[24]), n_columns, np.float64),
        first=carray(at(a[25]), n_rows + 1, np.int64),
        order=carray(at(a[26]), n_rows, np.int64),
        state=carray(at(a[27]), 3, np.int64),
        spread=carray(at(a[18]), (0, 0, 0), np.float64),
    )
    size = _size_of(child, parents, data[2], gaussian)
    log_shares = carray(at(a[52]), (n_nodes, 2), np.float64)[child]
    is_conditional, is_mixture = log_shares[1] == -np.inf, is_mixture and log_shares[0] != -np.inf
    if is_conditional or (is_mixture and _is_one_model(child, size, gaussian)):
        return call_scorer(conditional, child, parents, 0.0)  # type: ignore[no-any-return]
    scratch = (
        carray(at(a[28]), n_rows, np.int64),
        carray(at(a[29]), n_rows, np.int64),
        carray(at(a[30]), n_dense, np.int64),
        carray(at(a[31]), n_slots, np.int64),
        carray(at(a[32]), n_slots, np.int64),
        carray(at(a[33]), 1, np.int64),
    )
    cells = MultinomialWork(
        x=carray(at(a[34]), (n_design, padded), np.float64),
        counts=carray(at(a[35]), (most, padded), np.float64),
        cases=carray(at(a[36]), padded, np.float64),
        share=carray(at(a[37]), (most, padded), np.float64),
        logits=carray(at(a[38]), (most, padded), np.float64),
        along=carray(at(a[39]), (most, padded), np.float64),
        top=carray(at(a[40]), padded, np.float64),
        part=carray(at(a[41]), padded, np.float64),
        root=carray(at(a[42]), (most, most), np.float64),
        slopes=carray(at(a[43]), MOST_COEFFICIENTS, np.float64),
        differences=carray(at(a[44]), MOST_COEFFICIENTS, np.float64),
        hessian=carray(at(a[45]), (MOST_COEFFICIENTS, MOST_COEFFICIENTS), np.float64),
        moved=carray(at(a[46]), (4 * MOST_COEFFICIENTS, CHUNK), np.float64),
        top_of_nodes=carray(at(a[47]), CHUNK, np.float64),
        most=carray(at(a[48]), MOST_COEFFICIENTS, np.float64),
        least=carray(at(a[49]), MOST_COEFFICIENTS, np.float64),
        spread=carray(at(a[50]), (MOST_COEFFICIENTS, MOST_COEFFICIENTS), np.float64),
        skewness=carray(at(a[51]), (3, 24, 24, 24), np.float64),
    )
    _, of_categories, nodes = open_box(logistic)
    work = AdditiveWork(place, rows, gaussian, scratch, cells, logistic, of_categories, nodes)
    value = _log_additive(child, parents, size, data, rule, work)
    if not is_mixture or (gaussian.is_number[child] == 0 and size[0] > 0):
        return value
    other = log_shares[0] + call_scorer(conditional, child, parents, 0.0)
    value += log_shares[1]
    top = max(value, other)
    return top + math.log1p(math.exp(min(value, other) - top))  # type: ignore[no-any-return]
