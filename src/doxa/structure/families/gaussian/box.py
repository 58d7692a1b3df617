r"""The scorer of Gaussian families, behind one address, as that of logistic families.

In every configuration of its parents that are categories a number has a regression on those that are numbers, with the
prior that BGe gives it (Geiger & Heckerman 2002, with the matrix of Kuipers, Moffa & Heckerman 2014, eq. 8, and a prior
mean of 0): for N cases, p parents and :math:`a = \alpha_w - n`,

.. math::
    \ln p = -\tfrac N2 \ln \pi + \tfrac12 \ln \frac{\alpha_\mu}{N + \alpha_\mu}
    + \ln \frac{\Gamma((N + a + p + 1) / 2)}{\Gamma((a + p + 1) / 2)} + \tfrac12 (a + 2p + 1) \ln t
    - \tfrac12 \ln |R_{PP}| - \tfrac12 (N + a + p + 1) \ln s,

where :math:`R = tI + S + \frac{N \alpha_\mu}{N + \alpha_\mu} \bar x \bar x^T`, S are the centred sums of products, and
:math:`s = R_{ii} - R_{iP} R_{PP}^{-1} R_{Pi} \ge t` is the last square in Cholesky's factor of R.  This is the ratio of
the two densities of BGe, and the log evidence of a regression whose residual variance is
:math:`\mathrm{InvGamma}((a + p + 1) / 2, t / 2)` and whose coefficients are :math:`N(0, \sigma^2 / t)`.

Where no parent is a category, sums of products of the whole table serve every family; else the rows of each
configuration are added up, twice, so that the products are centred.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import carray, typeof
from numba.core.ccallback import CFunc
from numpy.typing import NDArray

from doxa._call_at import settled
from doxa._jit import hot, lowest_bit
from doxa.arrays import Floats, Ints, Words
from doxa.errors import ArgumentError
from doxa.structure.families.call import ONE_ROW, ScorerBox, opener, scorer
from doxa.structure.families.counting import BDEU_RULE, CountingScratch, Rule, counting_scratch, relabel
from doxa.structure.families.kind import Data
from doxa.structure.families.scores import family_log_marginal

if TYPE_CHECKING:
    from doxa.structure.families.gaussian.kinds import GaussianKind

__all__ = [
    "BGE_RULE",
    "GAUSSIAN_BIC_RULE",
    "GaussianBox",
    "GaussianRule",
    "GaussianWork",
    "add_up",
    "factorise",
    "gaussian_log_marginal",
    "gaussian_work",
    "group_rows",
    "regression_constant",
    "sort_rows",
    "sums_of_products",
]

BGE_RULE, GAUSSIAN_BIC_RULE = 0, 1
_LOG_PI = math.log(math.pi)
_DEPENDENT = 1e-11  # share of a column's variance: what is left of it is rounding
_ROWS = 1 << 13  # added up at a time


class GaussianRule(NamedTuple):
    """What the scorer takes."""

    kind: int
    mean_weight: float  # alpha_mu
    freedom: float  # a = alpha_w - n
    scale: float  # t
    n_cases: float  # in the table
    log_weight: float  # of the BDeu prior of families of categories


class GaussianWork(NamedTuple):
    """The numbers of a table, and work space of one chain."""

    values: Any  # (n_nodes, n_rows)
    is_number: Any  # (n_nodes,)
    moments: Any  # (n_nodes, n_nodes): R of the whole table; of BIC, S
    constants: Any  # (n_nodes,): what of a family's score does not depend on the moments, by number of parents
    members: Any  # (n_nodes,): parents that are numbers, then the child
    matrix: Any  # (n_nodes, n_nodes)
    mean: Any  # (n_nodes,)
    first: Any  # (n_rows + 1,): where each configuration's rows begin in `order`
    order: Any  # (n_rows,)
    state: Any  # (3,): whether the moments may be used; 1 and the child of a family that has no score
    spread: Any  # (n_last, n_nodes, n_nodes): covariances of the numbers of the last rows, where they are expected ones


class GaussianBox(ScorerBox):
    """The scorer of Gaussian families and all that it works on.

    Parameters
    ----------
    kind : BGe, GaussianBIC or ConditionalGaussian
    data : tuple of ndarray
        As `doxa.structure.families.cache.FamilyScores.data`; not copied.
    values : ndarray of float, shape (n_nodes, n_rows)
        Scaled numbers, NaN in columns of categories; not copied.
    fixed : bool, default=False
        Whether nothing is written into either; then sums of products are made once.
    spread : ndarray of float, shape (n_last, n_nodes, n_nodes), optional
        Covariances of the numbers of the last rows, whose values are their means.
    """

    def __init__(
        self,
        kind: GaussianKind,
        data: tuple[NDArray[Any], ...],
        values: NDArray[np.float64],
        *,
        fixed: bool = False,
        spread: NDArray[np.float64] | None = None,
    ) -> None:
        columns, counts, _ = data
        n_nodes, n_rows = columns.shape
        assert values.shape == columns.shape
        is_number = np.asarray(~np.isnan(values).all(axis=1))
        rule = kind.gaussian_rule(int(is_number.sum()), round(counts.sum()))
        n_cases = float(counts.sum())
        constant = settled(regression_constant)
        constants = np.array([constant(p, 0, n_cases, rule) for p in range(n_nodes)])
        work = gaussian_work(values, is_number, spread)._replace(
            moments=np.zeros((n_nodes, n_nodes)), constants=constants
        )
        self._work, self._rule, self._counts = work, rule, counts
        self.stand_still(fixed)
        compiled, contents, scratch = self.compiled
        super().__init__(compiled, contents, (data, rule, work, scratch(n_rows)))

    @property
    def compiled(self) -> tuple[CFunc, Any, Callable[[int], tuple[NDArray[Any], ...]]]:
        """The scorer, the type of what it works on, and what makes work space for so many rows."""
        return _scorer, _CONTENTS, counting_scratch

    def stand_still(self, whether: bool) -> None:
        """Until the other is said: nothing is written into the numbers, so that sums of products are made once."""
        work, rule = self._work, self._rule
        work.state[0] = whether
        if not whether:
            return
        work.moments[:], mean = sums_of_products(work.values, self._counts)
        if len(work.spread):
            work.moments[:] += (self._counts[-len(work.spread) :, None, None] * work.spread).sum(axis=0)
        if rule.kind == BGE_RULE:
            n_cases = float(self._counts.sum())
            shrunk = n_cases * rule.mean_weight / (n_cases + rule.mean_weight)
            work.moments[:] += rule.scale * np.eye(len(mean)) + shrunk * (mean[:, None] * mean)

    @property
    def error(self) -> ArgumentError | None:
        """What went wrong in compiled loops."""
        if not self._work.state[1]:
            return None
        return ArgumentError(
            f"the Gaussian BIC of families of column {self._work.state[2]} (from 0) is infinite: numbers among the "
            "column and its parents are linear combinations of each other; leave such columns out, or take "
            "score='bge', whose prior weighs them"
        )

    @error.setter
    def error(self, _none: None) -> None:
        self._work.state[1] = 0


def gaussian_work(
    values: NDArray[np.float64], is_number: NDArray[np.bool_], spread: NDArray[np.float64] | None = None
) -> GaussianWork:
    """Work space for so many rows; the moments are left empty."""
    n_nodes, n_rows = values.shape
    return GaussianWork(
        values,
        is_number.astype(np.int64),
        moments=np.zeros((0, 0)),
        constants=np.zeros(0),
        members=np.zeros(n_nodes, dtype=np.int64),
        matrix=np.zeros((n_nodes, n_nodes)),
        mean=np.zeros(n_nodes),
        first=np.zeros(n_rows + 1, dtype=np.int64),
        order=np.zeros(n_rows, dtype=np.int64),
        state=np.zeros(3, dtype=np.int64),
        spread=np.zeros((0, n_nodes, n_nodes)) if spread is None else spread,
    )


def sums_of_products(
    values: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centred sums of products of columns, shape (n_columns, n_columns), and their means; 0 where values are NaN.

    No matrix is multiplied: BLAS adds up in another order on another processor, and a chain whose scores differ in
    their last digit is soon elsewhere.  NumPy adds up in one order everywhere.

    Examples
    --------
    >>> sums_of_products(np.array([[0.0, 2.0], [1.0, 5.0]]), np.array([1, 1]))
    (array([[2., 4.],
           [4., 8.]]), array([1., 3.]))
    """
    times = counts.astype(np.float64)
    whole = np.where(np.isnan(values), 0.0, values)
    mean = (whole * times).sum(axis=1) / times.sum()
    sums = np.zeros((len(values), len(values)))
    for begin in range(0, len(times), _ROWS):
        part = whole[:, begin : begin + _ROWS] - mean[:, None]
        weighted = part * times[begin : begin + _ROWS]
        for i in range(len(values)):
            sums[i, i:] += (weighted[i] * part[i:]).sum(axis=1)
    for i in range(len(values)):
        sums[i:, i] = sums[i, i:]
    return sums, mean


@hot
def regression_constant(n_parents: int, n_contrasts: int, n_cases: float, rule: GaussianRule) -> float:
    """What of a regression's score the sums of products do not change, with so many slopes of either kind."""
    if rule.kind == GAUSSIAN_BIC_RULE:
        fitted = 0.5 * n_cases * (1.0 + math.log(2.0 * math.pi / max(1.0, n_cases)))
        return -fitted - 0.5 * (n_parents + 2.0) * math.log(max(1.0, n_cases))
    freedom = rule.freedom + n_parents + 1.0
    value = -0.5 * n_cases * _LOG_PI + 0.5 * math.log(rule.mean_weight / (n_cases + rule.mean_weight))
    value += math.lgamma(0.5 * (n_cases + freedom)) - math.lgamma(0.5 * freedom)
    return value + 0.5 * (freedom + n_parents + n_contrasts) * math.log(rule.scale)


@hot
def factorise(matrix: Floats, size: int, least: float) -> float:
    """Cholesky's factor of the leading part, in place; log of the product of all squares but the last, and of the last.

    Squares are ``least`` or more in exact arithmetic.  Minus infinity if rounding is all that is left of one.
    """
    log_of_parents = 0.0
    for i in range(size):
        whole = matrix[i, i]
        for j in range(i + 1):
            left = matrix[i, j]
            for k in range(j):
                left -= matrix[i, k] * matrix[j, k]
            if j < i:
                matrix[i, j] = left / matrix[j, j]
        square = max(left, least)
        if square <= _DEPENDENT * whole and least == 0.0:
            return -math.inf
        matrix[i, i] = math.sqrt(square)
        if i < size - 1:
            log_of_parents += math.log(square)
    return log_of_parents


@hot
def _regression(size: int, n_cases: float, constant: float, rule: GaussianRule, work: GaussianWork) -> float:
    """Score of the last of ``size`` members given the others, whose sums of products are in ``work.matrix``."""
    p = size - 1
    if rule.kind == GAUSSIAN_BIC_RULE:
        if n_cases < p + 2.0:
            return -math.inf  # more coefficients than rows: the likelihood has no bound
        if factorise(work.matrix, size, 0.0) == -math.inf:
            work.state[1] = 1
            return -1e300
        return constant - n_cases * math.log(work.matrix[p, p])
    log_of_parents = factorise(work.matrix, size, rule.scale)
    return constant - 0.5 * log_of_parents - (n_cases + rule.freedom + size) * math.log(work.matrix[p, p])


@hot
def group_rows(parents: Words, data: Data, scratch: CountingScratch, work: GaussianWork) -> int:
    """Sort rows by the configuration of the parents that are categories, into `first` and `order`; their number."""
    columns, _, n_states = data
    config, counts, keys, names = scratch[0], scratch[2], scratch[3], scratch[4]
    size = 1
    config[:] = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if work.is_number[parent] != 0:
                continue
            radix = n_states[parent]
            if size * radix > counts.size:
                size = relabel(config, keys, names)
            for row in range(config.size):
                config[row] = config[row] * radix + columns[parent, row]
            size *= radix
    if size > config.size:
        size = relabel(config, keys, names)
    sort_rows(config, size, work)
    return size


@hot
def sort_rows(config: Ints, size: int, work: GaussianWork) -> None:
    """Rows by their configurations, numbers below ``size``: `order`, and where each begins, `first`."""
    first = work.first
    first[: size + 1] = 0
    for row in range(config.size):
        first[config[row] + 1] += 1
    for label in range(size):
        first[label + 1] += first[label]
    for row in range(config.size):  # the ends move to the next beginnings, and back
        label = config[row]
        work.order[first[label]] = row
        first[label] += 1
    for label in range(size, 0, -1):
        first[label] = first[label - 1]
    first[0] = 0


@hot
def add_up(begin: int, end: int, size: int, weights: Ints, work: GaussianWork) -> float:
    """Centred sums of products of the members over some rows into ``work.matrix``, means into ``work.mean``; cases."""
    n_cases = 0.0
    work.mean[:size] = 0.0
    for at_row in range(begin, end):
        row = work.order[at_row]
        n_cases += weights[row]
        for i in range(size):
            work.mean[i] += weights[row] * work.values[work.members[i], row]
    for i in range(size):
        work.mean[i] /= max(n_cases, 1.0)
        for j in range(i + 1):
            work.matrix[i, j] = 0.0
    for at_row in range(begin, end):
        row = work.order[at_row]
        for i in range(size):
            share = weights[row] * (work.values[work.members[i], row] - work.mean[i])
            for j in range(i + 1):
                work.matrix[i, j] += share * (work.values[work.members[j], row] - work.mean[j])
        last = row - (work.values.shape[1] - work.spread.shape[0])
        if last >= 0:
            for i in range(size):
                for j in range(i + 1):
                    work.matrix[i, j] += weights[row] * work.spread[last, work.members[i], work.members[j]]
    return n_cases


@hot
def gaussian_log_marginal(
    child: int, parents: Words, data: Data, rule: GaussianRule, scratch: CountingScratch, work: GaussianWork
) -> float:
    """Log evidence (nats) of a number's family, or its BIC; minus infinity for a number above a category."""
    size, n_parents = 0, 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            n_parents += 1
            if work.is_number[parent] != 0:
                work.members[size] = parent
                size += 1
    if work.is_number[child] == 0:
        if size > 0:
            return -math.inf
        of_categories = Rule(BDEU_RULE, rule.log_weight, 0.0)
        return family_log_marginal(child, parents, data, of_categories, scratch)
    work.members[size] = child
    size += 1
    weights = data[1]
    if n_parents == size - 1 and work.state[0] != 0:
        for i in range(size):
            for j in range(i + 1):
                work.matrix[i, j] = work.moments[work.members[i], work.members[j]]
        return _regression(size, rule.n_cases, work.constants[size - 1], rule, work)
    total = 0.0
    for label in range(group_rows(parents, data, scratch, work)):
        begin, end = work.first[label], work.first[label + 1]
        if begin < end:
            n_cases = add_up(begin, end, size, weights, work)
            if n_cases == 0.0:
                continue
            shrunk = n_cases * rule.mean_weight / (n_cases + rule.mean_weight)
            for i in range(size):
                for j in range(i + 1):
                    work.matrix[i, j] += shrunk * work.mean[i] * work.mean[j]
                work.matrix[i, i] += rule.scale
            total += _regression(size, n_cases, regression_constant(size - 1, 0, n_cases, rule), rule, work)
    return total


_CONTENTS = typeof(
    (
        ONE_ROW,
        GaussianRule(BGE_RULE, 0.0, 0.0, 0.0, 0.0, 0.0),
        gaussian_work(np.zeros((1, 1)), np.zeros(1, dtype=np.bool_)),
        counting_scratch(1),
    )
)
_open = opener(_CONTENTS)


@scorer
def _scorer(child: int, words: Any, n_words: int, box: Any, _of_table: float) -> float:
    data, rule, work, scratch = _open(box)
    value = gaussian_log_marginal(child, carray(words, n_words), data, rule, scratch, work)
    if work.state[1] == 1 and value == -1e300:
        work.state[2] = child
    return value
