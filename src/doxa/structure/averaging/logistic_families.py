r"""Families under a score that knows logistic regressions: each is a table, a regression, or one of both.

Given a graph and a complete table the families are independent, and within a family its type is a parameter too: with
the prior shares and log evidences of the score it is logistic with probability

.. math:: w = \frac{w_l e^{s_l}}{w_t e^{s_t} + w_l e^{s_l}},

and a draw of the family is a draw of its type, and then of the parameters of that type.  A logistic family becomes the
table that its coefficients stand for, so that whatever is asked of tables can be asked of it; the posterior mean of an
entry is w times its mean over coefficients plus 1 - w times that of the table.

Families that may be logistic, where each draw has a completed table of its own: a posterior for each completion.

Given a graph and a completion, parameters are drawn as `doxa.structure.averaging.logistic_families` says; draws whose
completions agree in the columns of the family share one posterior.  What is missing lies in few rows: the others are
cells once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from doxa.structure.averaging.counts import cell_index, cell_prior, log_dirichlet
from doxa.structure.families.logistic import FamilyMixture, Logistic
from doxa.structure.families.logistic.coefficients import CoefficientPosterior, log_tables_of
from doxa.structure.families.logistic.work import MOST_PARENTS
from doxa.structure.families.scores import BDeu, log_bdeu

__all__ = ["IncompleteLogisticFamily", "LogisticFamily", "Stream"]

Floats = NDArray[np.float64]
Stream = Callable[[int, int], np.random.Generator]  # of a kind of draws, and a number

_OF_TABLES, _OF_TYPES, _OF_COEFFICIENTS = range(3)


class LogisticFamily:
    """The posterior of one family, type and parameters together.

    Parameters
    ----------
    score : Logistic or FamilyMixture
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
        score: Logistic | FamilyMixture,
        codes: NDArray[np.integer],
        times: NDArray[np.integer],
        sizes: Sequence[int],
        stream: Stream,
    ) -> None:
        self.score = score
        self.cells = codes, times
        self.n_states, self.sizes = sizes[0], tuple(sizes[1:])
        self.stream = stream
        self.varying = [j for j, size in enumerate(self.sizes) if size > 1]
        self.is_binary = self.n_states == 2 and all(size <= 2 for size in self.sizes)

    @cached_property
    def counts(self) -> Floats:
        """Cases of every cell of the table, shape (n_configurations, n_states); the last parent varies fastest."""
        codes, times = self.cells
        sizes = [*self.sizes, self.n_states]
        index = cell_index(np.roll(codes, -1, axis=1).T, sizes)  # the child last
        counted = np.bincount(index, weights=times, minlength=math.prod(sizes)).astype(np.float64)
        return counted.reshape(-1, self.n_states)

    @cached_property
    def logistic_probability(self) -> float:
        """Of the type, given the family and the data; 1 where both types are the same model."""
        if not self.is_binary or len(self.varying) > MOST_PARENTS:
            return 0.0
        if isinstance(self.score, Logistic) or self.is_one_model:
            return 1.0
        rule = self.score.logistic_rule(int(self.cells[1].sum()))
        log_table = rule.log_table_share + log_bdeu(self.counts, self.score.equivalent_sample_size)
        log_logistic = rule.log_logistic_share + self.posterior.log_evidence
        return float(np.exp(log_logistic - np.logaddexp(log_table, log_logistic)))

    @property
    def is_one_model(self) -> bool:
        """Whether a table and a regression are the same model, in a mixture, where the table's prior stands for it."""
        return isinstance(self.score, FamilyMixture) and self.is_binary and len(self.varying) < 2

    @cached_property
    def posterior(self) -> CoefficientPosterior:
        """That of the coefficients, if the family is logistic."""
        score = self.score
        return CoefficientPosterior(*self.cells, self.sizes, score.prior_scale, score.tolerance)

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
            return self._coefficients_of(self._drawn_tables(n))
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
            return self._drawn_tables(n)
        is_logistic = self.is_logistic(n)
        if is_logistic.all():
            return log_tables_of(self._drawn_coefficients(n), self.sizes)
        tables = self._drawn_tables(n)
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
            weights = self._table_weights
            means += (1.0 - w) * weights / weights.sum(axis=-1, keepdims=True)
        if w > 0.0:
            second = self.posterior.probabilities()
            means += w * np.stack([1.0 - second, second], axis=-1)
        return np.log(means)

    def log_mean_tables(self) -> Floats:
        """`log_means` of the one table there is, shape (1, n_configurations, n_states)."""
        return self.log_means()[None]

    @property
    def logistic_probabilities(self) -> Floats:
        """`logistic_probability` of the one table there is, shape (1,)."""
        return np.array([self.logistic_probability])

    @property
    def _table_weights(self) -> Floats:
        assert isinstance(self.score, FamilyMixture)
        return self.counts + cell_prior(BDeu(self.score.equivalent_sample_size), *self.counts.shape)

    def _drawn_tables(self, n: int) -> Floats:
        weights = self._table_weights
        return log_dirichlet(np.broadcast_to(weights, (n, *weights.shape)), self.stream(_OF_TABLES, 0))

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


class IncompleteLogisticFamily:
    """The posterior of one family over draws of the missing cells; the face of `LogisticFamily`.

    Parameters
    ----------
    score : Logistic or FamilyMixture
    cells : list of tuple of ndarray
        Of each draw that has the family, states of child and parents (n_cells, 1 + n_parents), and cases of each.
    sizes : sequence of int
        Numbers of states of the child and of its parents.
    stream : callable
        As for `LogisticFamily`; numbers beyond 2**32 are those of later completions.
    """

    def __init__(
        self,
        score: Logistic | FamilyMixture,
        cells: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]],
        sizes: Sequence[int],
        stream: Stream,
    ) -> None:
        number: dict[bytes, int] = {}
        self._group = np.array([number.setdefault(_key(*own), len(number)) for own in cells])
        first = np.unique(self._group, return_index=True)[1].tolist()
        self._families = [
            LogisticFamily(score, cells[k][0], cells[k][1], sizes, _later(stream, g)) for g, k in enumerate(first)
        ]
        self.sizes, self.n_states = self._families[0].sizes, sizes[0]
        self.varying, self.is_binary = self._families[0].varying, self._families[0].is_binary

    @property
    def is_one_model(self) -> bool:
        """As `LogisticFamily.is_one_model`."""
        return self._families[0].is_one_model

    @cached_property
    def logistic_probabilities(self) -> Floats:
        """Of the type, given the family and the completion of each draw, shape (n_users,)."""
        found: Floats = np.array([family.logistic_probability for family in self._families])[self._group]
        return found

    @property
    def logistic_probability(self) -> float:
        """Of the type, averaged over the draws."""
        return float(self.logistic_probabilities.mean())

    @property
    def excess(self) -> float:
        """As `LogisticFamily.excess`, averaged over the draws."""
        return float(np.mean([self._families[g].excess for g in self._group]))

    def coefficients(self, n: int) -> Floats:
        """Bias and coefficients, one draw for each completion in turn; nan where the type is a table."""
        found = np.empty((n, 1 + len(self.sizes)))
        for family, places in self._turns(n):
            found[places] = family.coefficients(len(places))
        return found

    def log_tables(self, n: int) -> Floats:
        """Log P(child | parents), one draw for each completion in turn: shape (n, n_configurations, n_states)."""
        found = np.empty((n, int(np.prod(self.sizes)), self.n_states))
        for family, places in self._turns(n):
            found[places] = family.log_tables(len(places))
        return found

    def log_mean_tables(self) -> Floats:
        """Log of the posterior means given each completion, shape (n_users, n_configurations, n_states)."""
        found: Floats = np.stack([family.log_means() for family in self._families])[self._group]
        return found

    def log_means(self) -> Floats:
        """Log of the posterior means over completions, shape (n_configurations, n_states)."""
        found: Floats = np.log(np.exp(self.log_mean_tables()).mean(axis=0))
        return found

    def _turns(self, n: int) -> list[tuple[LogisticFamily, NDArray[np.intp]]]:
        """Each posterior with the places of the draws that come from it, out of ``n``."""
        group = self._group[np.arange(n) % len(self._group)]
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(self._families) + 1))
        places = [order[a:b] for a, b in pairwise(ends)]
        return [(family, own) for family, own in zip(self._families, places, strict=True) if len(own)]


def _key(codes: NDArray[np.integer], times: NDArray[np.integer]) -> bytes:
    """The same for the same cells, which are in one order."""
    return codes.tobytes() + times.tobytes()


def _later(stream: Stream, group: int) -> Stream:
    return lambda kind, number: stream(kind, number + (group << 32))
