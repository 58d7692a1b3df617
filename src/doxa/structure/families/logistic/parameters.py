r"""Families under a score that knows logistic regressions: each is a table, a regression, or one of both.

Given a graph and a complete table the families are independent, and within a family its type is a parameter too: with
the prior shares and log evidences of the score it is logistic with probability

.. math:: w = \frac{w_l e^{s_l}}{w_t e^{s_t} + w_l e^{s_l}},

and a draw of the family is a draw of its type, and then of the parameters of that type.  A logistic family becomes the
table that its coefficients stand for, so that whatever is asked of tables can be asked of it; the posterior mean of an
entry is w times its mean over coefficients plus 1 - w times that of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from doxa.arrays import Floats
from doxa.structure.families.kind import FamilyParameters, Stream
from doxa.structure.families.logistic.coefficients import CoefficientPosterior, log_tables_of
from doxa.structure.families.logistic.score import LogisticKind
from doxa.structure.families.logistic.work import MOST_PARENTS
from doxa.structure.families.scores import BDeu, log_bdeu
from doxa.structure.families.tables import DirichletFamily, cell_counts

__all__ = ["LogisticFamily"]


_OF_TYPES, _OF_COEFFICIENTS = 1, 2  # 0 is that of tables


class LogisticFamily(FamilyParameters):
    """The posterior of one family, type and parameters together.

    Parameters
    ----------
    kind : Logistic or FamilyMixture
        With the prior of either type.
    codes : ndarray of int, shape (n_cells, 1 + n_parents)
        States of the child and of its parents.
    times : ndarray of int, shape (n_cells,)
        Cases of each.
    sizes : sequence of int
        Numbers of states of the child and of its parents.
    stream : callable
        A fresh generator for a kind of draws (0 to 2) and a number, the same for the same two.

    Examples
    --------
    >>> from doxa.structure import FamilyMixture
    >>> def stream(kind, number):
    ...     return np.random.default_rng((1, kind, number))
    >>> codes = np.array([(y, a, b) for a in (0, 1) for b in (0, 1) for y in (0, 1)])
    >>> times = np.array([30, 10, 5, 25, 20, 18, 2, 30])
    >>> family = LogisticFamily(FamilyMixture(), codes, times, [2, 2, 2], stream)
    >>> round(family.logistic_probability, 2), family.log_tables(100).shape
    (0.99, (100, 4, 2))
    """

    def __init__(
        self,
        kind: LogisticKind,
        codes: NDArray[np.integer],
        times: NDArray[np.integer],
        sizes: Sequence[int],
        stream: Stream,
    ) -> None:
        self.kind = kind
        self.cells = codes, times
        self.n_states, self.sizes = sizes[0], tuple(sizes[1:])
        self.stream = stream
        self.varying = [j for j, size in enumerate(self.sizes) if size > 1]
        self.is_binary = self.n_states == 2 and all(size <= 2 for size in self.sizes)

    @cached_property
    def counts(self) -> Floats:
        """Cases of every cell of the table, shape (n_configurations, n_states); the last parent varies fastest."""
        return cell_counts(*self.cells, (self.n_states, *self.sizes))

    @cached_property
    def logistic_probability(self) -> float:
        """Of the type, given the family and the data; 1 where both types are the same model."""
        if not self.is_binary or len(self.varying) > MOST_PARENTS:
            return 0.0
        if not self.kind.is_mixture or self.is_one_model:
            return 1.0
        rule = self.kind.logistic_rule(int(self.cells[1].sum()))
        log_table = rule.log_table_share + log_bdeu(self.counts, self._of_tables.equivalent_sample_size)
        log_logistic = rule.log_logistic_share + self.posterior.log_evidence
        return float(np.exp(log_logistic - np.logaddexp(log_table, log_logistic)))

    @property
    def is_one_model(self) -> bool:
        """Whether a table and a regression are the same model, in a mixture, where the table's prior stands for it."""
        return self.kind.is_mixture and self.is_binary and len(self.varying) < 2

    @cached_property
    def posterior(self) -> CoefficientPosterior:
        """That of the coefficients, if the family is logistic."""
        return CoefficientPosterior(*self.cells, self.sizes, self.kind.prior_scale, self.kind.tolerance)

    @property
    def excess(self) -> float:
        """By how much, in probability, drawn coefficients may be off; 0 where none were drawn by rejection."""
        return 0.0 if "posterior" not in self.__dict__ else float(np.nan_to_num(self.posterior.excess))

    def is_logistic(self, n: int) -> NDArray[np.bool_]:
        """Types, drawn; shape (n,)."""
        w = self.logistic_probability
        if w in (0.0, 1.0):
            return np.full(n, w == 1.0)
        drawn: NDArray[np.bool_] = self.stream(_OF_TYPES, 0).random(n) < w
        return drawn

    def coefficients(self, n: int) -> Floats:
        """Bias and coefficients, drawn; nan where the type is a table.  Shape (n, 1 + n_parents)."""
        if self.is_one_model:
            return self._coefficients_of(self._tables.log_tables(n))
        is_logistic = self.is_logistic(n)
        found = np.full((n, 1 + len(self.sizes)), np.nan)
        if is_logistic.any():
            found[is_logistic] = self._drawn_coefficients(n)[is_logistic]
        return found

    def log_tables(self, n: int) -> Floats:
        """Log P(child | parents), drawn: shape (n, n_configurations, n_states)."""
        if self.n_states == 1:
            return np.zeros((n, math.prod(self.sizes), 1))
        if self.is_one_model:
            return self._tables.log_tables(n)
        is_logistic = self.is_logistic(n)
        if is_logistic.all():
            return log_tables_of(self._drawn_coefficients(n), self.sizes)
        tables = self._tables.log_tables(n)
        if is_logistic.any():
            tables[is_logistic] = log_tables_of(self._drawn_coefficients(n)[is_logistic], self.sizes)
        return tables

    def log_means(self) -> Floats:
        """Log of the posterior means of P(child | parents), shape (n_configurations, n_states)."""
        if self.n_states == 1:
            return np.zeros((math.prod(self.sizes), 1))
        w = 0.0 if self.is_one_model else self.logistic_probability
        means = np.zeros((math.prod(self.sizes), self.n_states))
        if w < 1.0:
            weights = self._tables.weights[0]
            means += (1.0 - w) * weights / weights.sum(axis=-1, keepdims=True)
        if w > 0.0:
            second = self.posterior.probabilities()
            means += w * np.stack([1.0 - second, second], axis=-1)
        return np.log(means)

    @property
    def logistic_probabilities(self) -> Floats:
        """`logistic_probability` of the one table there is, shape (1,)."""
        return np.array([self.logistic_probability])

    @property
    def _of_tables(self) -> BDeu:
        """The tables' part of a mixture."""
        return BDeu(self.kind.equivalent_sample_size)  # type: ignore[attr-defined]  # mixtures have one

    @cached_property
    def _tables(self) -> DirichletFamily:
        """The posterior of the family as a table."""
        return DirichletFamily(self._of_tables, self.counts[None], self.stream)

    def _drawn_coefficients(self, n: int) -> Floats:
        return self.posterior.draws(n, lambda number: self.stream(_OF_COEFFICIENTS, number))

    def _coefficients_of(self, log_tables: Floats) -> Floats:
        """Of tables with at most one parent that varies, each of which is some regression."""
        logits = log_tables[..., 1] - log_tables[..., 0]
        found = np.zeros((len(logits), 1 + len(self.sizes)))
        found[:, 0] = logits.mean(axis=1)
        for j in self.varying:
            found[:, 1 + j] = (logits[:, 1] - logits[:, 0]) / 2
        return found
