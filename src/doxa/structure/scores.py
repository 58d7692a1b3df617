r"""Scores of families: the log marginal likelihood of a node given its parents.

The posterior of a graph G under a prior that factorises over families is

.. math:: P(G \mid D) \propto \prod_i P(d_i \mid d_{pa(i)}),

so a sampler needs the log marginal likelihood of one family at a time (Riggelsen, ch. 4, section 3.1;
Heckerman, Geiger & Chickering 1995).  Here is the arithmetic; the memory of it is in
`doxa.structure.cache`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import hot
from doxa.errors import ArgumentError
from doxa.structure.counting import group_family

__all__ = ["check_equivalent_sample_size", "family_log_bdeu", "log_bdeu"]


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
    alpha = check_equivalent_sample_size(equivalent_sample_size)
    q, r = table.shape
    per_configuration = _sum_of_ratios(table.sum(axis=1), math.log(alpha) - math.log(max(q, 1)))
    per_cell = _sum_of_ratios(table.ravel(), math.log(alpha) - math.log(max(q, 1)) - math.log(r))
    return per_cell - per_configuration


def check_equivalent_sample_size(value: float) -> float:
    """Return ``value`` as a float, or raise `ArgumentError` when it is not positive and finite."""
    try:
        alpha = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"equivalent_sample_size is {value!r}; it must be a number above 0") from None
    if not 0.0 < alpha < 1e300:
        raise ArgumentError(f"equivalent_sample_size is {value!r}; it must be above 0 and finite (1.0 is usual)")
    return alpha


def _sum_of_ratios(counts: NDArray[Any], log_alpha: float) -> float:
    """Sum over the positive counts N of ln Gamma(a + N) - ln Gamma(a), with a = exp(log_alpha)."""
    return math.fsum(_log_ratio(float(n), math.exp(log_alpha), log_alpha) for n in counts if n > 0)


@hot
def _log_ratio(n: float, alpha: float, log_alpha: float) -> float:
    # ln Gamma(a) = ln Gamma(1 + a) - ln a: so written it neither overflows nor cancels when a = alpha / (q r)
    # is tiny, as it is for families with many parents.
    if alpha < 1e5:
        return log_alpha + math.lgamma(alpha + n) - math.lgamma(1.0 + alpha)
    # For large a the two would cancel: Stirling's series of each, subtracted term by term.
    share = math.log1p(n / alpha)
    correction = (1.0 / (alpha + n) - 1.0 / alpha) / 12.0  # the next term is below 1e-17
    return n * (log_alpha + share - 1.0) + (alpha - 0.5) * share + correction


@hot
def family_log_bdeu(child: int, parents: Any, data: Any, log_alpha: float, scratch: Any) -> float:
    """`log_bdeu` of the family of ``child`` with the bit set ``parents``, counted from ``data``.

    ``data`` is (columns, counts, n_states) of a complete table; only configurations that occur are visited,
    the others add ln 1 = 0.
    """
    columns, weights, n_states = data
    n_configs, n_cells, log_q = group_family(columns, n_states, child, parents, scratch)
    config, cell, counts = scratch[0], scratch[1], scratch[2]
    log_a = log_alpha - log_q
    score = -_sum_over_labels(config, n_configs, weights, counts, log_a)
    return score + _sum_over_labels(cell, n_cells, weights, counts, log_a - math.log(n_states[child]))


@hot
def _sum_over_labels(labels: Any, n_labels: int, weights: Any, counts: Any, log_alpha: float) -> float:
    alpha = math.exp(log_alpha)
    counts[:n_labels] = 0
    for row in range(labels.size):
        counts[labels[row]] += weights[row]
    total = 0.0
    for label in range(n_labels):
        if counts[label] > 0:
            total += _log_ratio(float(counts[label]), alpha, log_alpha)
    return total
