r"""Scores of families: the log marginal likelihood of a node given its parents.

The posterior of a graph G under a prior that factorises over families is

.. math:: P(G \mid D) \propto \prod_i P(d_i \mid d_{pa(i)}),

so a sampler needs the log marginal likelihood of one family at a time (Riggelsen, ch. 4, section 3.1;
Heckerman, Geiger & Chickering 1995).  A score is a small object of settings, `BDeu`, `K2` or `BIC`; here is the
arithmetic, the memory of it is in `doxa.structure.families.cache`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.arrays import Ints, Words
from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows
from doxa.structure.families.call import call_scorer
from doxa.structure.families.counting import (
    BDEU_RULE,
    BIC_RULE,
    CALLED_RULE,
    CALLED_WITH_TABLE_RULE,
    CONSTANT_RULE,
    CountingScratch,
    Rule,
    counting_scratch,
    group_family,
)
from doxa.structure.families.kind import Data, FamilyKind

__all__ = ["BIC", "K2", "BDeu", "CountedKind", "check_weight", "family_log_marginal", "log_bdeu", "log_ratio"]


class CountedKind(FamilyKind):
    """A kind of family that compiled loops know: a table, scored from its counts."""

    is_counted: ClassVar[bool] = True
    is_quick: ClassVar[bool] = True

    def log_marginal_likelihood(self, codes: NDArray[np.integer[Any]], cases: NDArray[np.int64], sizes: Any) -> float:
        """As `FamilyKind.log_marginal_likelihood`."""
        data = (np.array(codes.T, dtype=np.int16, order="C"), np.array(cases), np.array(sizes, dtype=np.int64))
        parents = pack_rows(np.arange(len(data[2])) > 0)
        return float(family_log_marginal(0, parents, data, self.rule(int(cases.sum())), counting_scratch(len(codes))))

    def scorer(self, data: Any, numbers: Any = None, *, fixed: bool = False) -> None:  # noqa: ARG002
        """None: nothing is called."""
        return

    def cost(self, n_parents: int, n_rows: int) -> float:  # noqa: ARG002
        """One family is as dear as another: lists are bounded by their number."""
        return 1.0


@dataclass(frozen=True)
class BDeu(CountedKind):
    r"""Dirichlet prior spread evenly over the cells of every family (Buntine 1991); the default.

    Parameters
    ----------
    equivalent_sample_size : float, default=1.0
        Weight :math:`\alpha` of the prior in cases: each cell of a family gets :math:`\alpha / (qr)`.

    Raises
    ------
    ArgumentError
        If it is not a positive finite number.
    """

    equivalent_sample_size: float = 1.0

    name: ClassVar[str] = "bdeu"
    is_dirichlet: ClassVar[bool] = True
    is_score_equivalent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        weight = check_weight("equivalent_sample_size", self.equivalent_sample_size)
        object.__setattr__(self, "equivalent_sample_size", weight)

    def rule(self, n_cases: int) -> Rule:
        """The score as compiled loops take it."""
        return Rule(BDEU_RULE, math.log(self.equivalent_sample_size), math.log(max(1, n_cases)))

    def cell_prior(self, n_configurations: int, n_states: int) -> float:
        """The sample size in equal parts."""
        return self.equivalent_sample_size / (n_configurations * n_states)

    @property
    def text(self) -> str:
        """In words."""
        return f"BDeu score, equivalent sample size {self.equivalent_sample_size:g}"


@dataclass(frozen=True)
class K2(CountedKind):
    """Dirichlet prior with the same count in every cell (Cooper & Herskovits 1992 have 1).

    Markov equivalent graphs get different scores.

    Parameters
    ----------
    prior_count : float, default=1.0
        Weight of the prior in each cell, in cases.

    Raises
    ------
    ArgumentError
        If it is not a positive finite number.
    """

    prior_count: float = 1.0

    name: ClassVar[str] = "k2"
    is_dirichlet: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior_count", check_weight("prior_count", self.prior_count))

    def rule(self, n_cases: int) -> Rule:
        """The score as compiled loops take it."""
        return Rule(CONSTANT_RULE, math.log(self.prior_count), math.log(max(1, n_cases)))

    def cell_prior(self, n_configurations: int, n_states: int) -> float:  # noqa: ARG002
        """The same in every family."""
        return self.prior_count

    @property
    def text(self) -> str:
        """In words."""
        return f"K2 score, prior count {self.prior_count:g}"


@dataclass(frozen=True)
class BIC(CountedKind):
    r"""Greatest log likelihood minus :math:`\tfrac12 q (r - 1) \ln N` (Schwarz 1978).

    An approximation to a log marginal likelihood; exp of it is used as a weight of the graph.
    """

    name: ClassVar[str] = "bic"
    is_probability: ClassVar[bool] = False
    is_score_equivalent: ClassVar[bool] = True

    def rule(self, n_cases: int) -> Rule:
        """The score as compiled loops take it."""
        return Rule(BIC_RULE, 0.0, math.log(max(1, n_cases)))

    @property
    def text(self) -> str:
        """In words."""
        return "BIC score"


def log_bdeu(counts: ArrayLike, equivalent_sample_size: float = 1.0) -> float:
    r"""Log marginal likelihood of one family under the BDeu prior.

    Parameters
    ----------
    counts : array of int, shape (n_parent_configurations, n_states)
        Row ``j``, column ``k``: cases with parents in configuration ``j``, child in state ``k``.
    equivalent_sample_size : float, default=1.0
        Prior weight :math:`\alpha > 0`, in cases; each cell gets :math:`\alpha / (qr)`.

    Returns
    -------
    float
        Natural logarithm (nats), normalising constants included; 0.0 when there are no cases.

    Raises
    ------
    ArgumentError
        If a count is negative or not whole, or ``equivalent_sample_size`` is not positive and finite.

    Notes
    -----
    :math:`\sum_j [\ln\Gamma(\alpha_j) - \ln\Gamma(\alpha_j + N_j)] +
    \sum_{jk} [\ln\Gamma(\alpha_{jk} + N_{jk}) - \ln\Gamma(\alpha_{jk})]`: Heckerman, Geiger &
    Chickering (1995), with the prior of Buntine (1991).  The probability is that of the cases in their
    order: no multinomial coefficient is included.

    Examples
    --------
    >>> round(log_bdeu([[3, 1], [0, 4]]), 4)
    -4.6748
    """
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[1] < 1:
        raise ArgumentError(f"counts has shape {table.shape}; it must be (n_parent_configurations, n_states)")
    if not np.isfinite(table).all() or (table < 0).any() or (table != np.rint(table)).any():
        raise ArgumentError("counts has an entry that is negative or not a whole number; entries are numbers of cases")
    alpha = check_weight("equivalent_sample_size", equivalent_sample_size)
    q, r = table.shape
    per_configuration = _sum_of_ratios(table.sum(axis=1), math.log(alpha) - math.log(max(q, 1)))
    per_cell = _sum_of_ratios(table.ravel(), math.log(alpha) - math.log(max(q, 1)) - math.log(r))
    return per_cell - per_configuration


def check_weight(name: str, value: float) -> float:
    """Return ``value`` as a float, or raise `ArgumentError` when it is not positive and finite."""
    form = f"{name} is {value!r}; it must be a number above 0"
    if isinstance(value, (str, bytes, bool)):
        raise ArgumentError(form)
    try:
        alpha = float(value)
    except OverflowError:
        alpha = math.inf
    except (TypeError, ValueError):
        raise ArgumentError(form) from None
    if not 0.0 < alpha < 1e300:
        raise ArgumentError(f"{name} is {value!r}; it must be above 0 and finite (1.0 is usual)")
    return alpha


def _sum_of_ratios(counts: NDArray[Any], log_alpha: float) -> float:
    """Sum over the positive counts N of ln Gamma(a + N) - ln Gamma(a), with a = exp(log_alpha)."""
    return math.fsum(log_ratio(float(n), math.exp(log_alpha), log_alpha) for n in counts if n > 0)


@hot
def log_ratio(n: float, alpha: float, log_alpha: float) -> float:
    """ln Gamma(a + n) - ln Gamma(a) for n cases, a given with its logarithm, which still counts where a underflows."""
    # ln Gamma(a) = ln Gamma(1 + a) - ln a: so written it neither overflows nor cancels when a = alpha / (q r)
    # is tiny, as it is for families with many parents.
    if alpha < 1e5:
        return log_alpha + math.lgamma(alpha + n) - math.lgamma(1.0 + alpha)
    # For large a the two would cancel: Stirling's series of each, subtracted term by term.
    share = math.log1p(n / alpha)
    correction = (1.0 / (alpha + n) - 1.0 / alpha) / 12.0  # the next term is below 1e-17
    return n * (log_alpha + share - 1.0) + (alpha - 0.5) * share + correction


@hot
def family_log_marginal(child: int, parents: Words, data: Data, rule: Rule, scratch: CountingScratch) -> float:
    """Score of the family of ``child`` with the bit set ``parents``, counted from ``data``.

    A table, or what the kind's scorer returns, as ``rule.kind`` says; see `_table_log_marginal`.
    """
    if rule.kind < CALLED_RULE:
        return _table_log_marginal(child, parents, data, rule, scratch)
    with_table = rule.kind == CALLED_WITH_TABLE_RULE
    of_table = _table_log_marginal(child, parents, data, rule, scratch) if with_table else 0.0
    return call_scorer(scratch[5], child, parents, of_table)  # type: ignore[no-any-return]


@hot
def _table_log_marginal(child: int, parents: Words, data: Data, rule: Rule, scratch: CountingScratch) -> float:
    """A family as a table: BDeu unless ``rule.kind`` says K2 or BIC.

    ``data`` is (columns, counts, n_states) of a complete table, ``rule`` a score's `Rule`.  Only configurations that
    occur are visited, the others add ln 1 = 0.
    """
    columns, weights, n_states = data
    n_configs, n_cells, log_q = group_family(columns, n_states, child, parents, scratch)
    config, cell, counts = scratch[0], scratch[1], scratch[2]
    log_r = math.log(n_states[child])
    if rule.kind == BIC_RULE:
        score = -_sum_over_labels(config, n_configs, weights, counts, True, 0.0)
        score += _sum_over_labels(cell, n_cells, weights, counts, True, 0.0)
        return score - 0.5 * rule.log_cases * math.exp(log_q) * (n_states[child] - 1.0)  # type: ignore[no-any-return]
    log_cell = rule.log_weight if rule.kind == CONSTANT_RULE else rule.log_weight - log_q - log_r
    score = -_sum_over_labels(config, n_configs, weights, counts, False, log_cell + log_r)
    return score + _sum_over_labels(cell, n_cells, weights, counts, False, log_cell)


@hot
def _sum_over_labels(
    labels: Ints, n_labels: int, weights: Ints, counts: Ints, likelihood: bool, log_alpha: float
) -> float:
    """Sum over labels with N cases of N ln N, or of ln Gamma(a + N) - ln Gamma(a)."""
    alpha = math.exp(log_alpha)
    counts[:n_labels] = 0
    for row in range(labels.size):
        counts[labels[row]] += weights[row]
    total = 0.0
    for label in range(n_labels):
        if counts[label] > 0:
            number = float(counts[label])
            total += number * math.log(number) if likelihood else log_ratio(number, alpha, log_alpha)
    return total
