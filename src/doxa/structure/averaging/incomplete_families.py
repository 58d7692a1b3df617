"""Families that may be logistic, where each draw has a completed table of its own: a posterior for each completion.

Given a graph and a completion, parameters are drawn as `doxa.structure.averaging.logistic_families` says; draws whose
completions agree in the columns of the family share one posterior.  What is missing lies in few rows: the others are
cells once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from doxa.structure.averaging.logistic_families import LogisticFamily, Stream
from doxa.structure.families.logistic import FamilyMixture, Logistic

__all__ = ["IncompleteLogisticFamily"]

Floats = NDArray[np.float64]


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
