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
from numba import carray, typeof
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
from doxa.structure.families.call import ONE_ROW, ScorerBox, call_scorer, no_box, opener, scorer
from doxa.structure.families.counting import CountingScratch, counting_scratch
from doxa.structure.families.gaussian.box import (
    BGE_RULE,
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
from doxa.structure.families.logistic.box import Box, report_error
from doxa.structure.families.logistic.score import Logistic, LogisticRule
from doxa.structure.families.logistic.work import LogisticWork, logistic_work

if TYPE_CHECKING:
    from doxa.structure.families.additive.kinds import AdditiveKind

__all__ = ["AdditiveBox"]


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


class AdditiveBox(ScorerBox):
    """The scorer of additive families and all that it works on.

    Parameters
    ----------
    kind : Additive or AdditiveMixture
    data : tuple of ndarray
        As `doxa.structure.families.cache.FamilyScores.data`; not copied.
    values : ndarray of float, shape (n_nodes, n_rows), optional
        Scaled numbers, NaN in columns of categories; not copied.  None where no column holds numbers.
    fixed : bool, default=False
        Whether nothing is written into either; then sums of products are made once.
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
        assert values.shape == columns.shape
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
        share = kind.additive_share
        assert not isinstance(share, tuple) or len(share) == n_nodes  # see AdditiveMixture.of_node
        share = np.resize(share, n_nodes).astype(np.float64)
        with np.errstate(divide="ignore"):
            log_shares = np.log(np.stack([1.0 - share, share], axis=1))
        additive = AdditiveWork(
            place, np.arange(n_rows), work, counting_scratch(n_rows), cells, self._logistic.addresses,
            self._logistic.rule, self._logistic.work,
        )  # fmt: skip
        conditional = no_box() if self._gaussian is None else self._gaussian.addresses
        super().__init__(_scorer, _CONTENTS, (data, rule, additive, conditional, log_shares))

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
    work.nodes.report[0] += 1.0
    report_error(error, n_nodes, of_categories.tolerance, work.nodes)
    return value


@hot
def _is_one_model(child: int, size: tuple[int, int, int, bool], work: GaussianWork) -> bool:
    """Whether the additive family is the conditional Gaussian one: of numbers alone, or of two categories at most."""
    n_numbers, n_categories, _, _ = size
    return n_categories == 0 if work.is_number[child] != 0 else n_numbers == 0 and n_categories <= 1


_CONTENTS = typeof(
    (
        ONE_ROW,
        GaussianRule(BGE_RULE, 0.0, 0.0, 0.0, 0.0, 0.0),
        AdditiveWork(
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            gaussian_work(np.zeros((1, 1)), np.zeros(1, dtype=np.bool_)),
            counting_scratch(1),
            multinomial_work(1, 1, 1),
            no_box(),
            LogisticRule(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
            logistic_work(1, 1),
        ),
        no_box(),
        np.zeros((1, 2)),
    )
)
_open = opener(_CONTENTS)


@scorer
def _scorer(child: int, words: Any, n_words: int, box: Any, _of_table: float) -> float:
    parents = carray(words, n_words)
    data, rule, work, conditional, of_nodes = _open(box)
    gaussian, log_shares = work.gaussian, of_nodes[child]
    size = _size_of(child, parents, data[2], gaussian)
    is_conditional, is_mixture = log_shares[1] == -np.inf, conditional[0] != 0 and log_shares[0] != -np.inf
    if is_conditional or (is_mixture and _is_one_model(child, size, gaussian)):
        return call_scorer(conditional, child, parents, 0.0)  # type: ignore[no-any-return]
    value = _log_additive(child, parents, size, data, rule, work)
    if not is_mixture or (gaussian.is_number[child] == 0 and size[0] > 0):
        return value
    other = log_shares[0] + call_scorer(conditional, child, parents, 0.0)
    value += log_shares[1]
    top = max(value, other)
    return top + math.log1p(math.exp(min(value, other) - top))  # type: ignore[no-any-return]
