r"""Exact answers where few cells are missing: a sum over all graphs, for every completion of the table.

A completion z and a graph G weigh :math:`P(G) P(D, z \mid G)`, a product over families, so that the sum over graphs is
that of `doxa.structure.exact.dag_sums`.  With :math:`Z_z` the sum of a completion, all that is asked of graphs is the
mean over completions of its exact answer given z, weighed by :math:`Z_z / \sum_z Z_z`.  Families are scored once for
each completion, by a loop that counts them afresh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from doxa._jit import hot
from doxa.arrays import Floats, Ints, Words
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.cases.incomplete.missing_cells import IncompleteData, MissingCells, completion_of
from doxa.structure.exact.dag_budget import predicted_cost
from doxa.structure.exact.dag_sums import ExactPosterior, ParentSets, sum_over_dags
from doxa.structure.families.cache import Scoring, counted_log_score
from doxa.structure.families.kind import raise_caught
from doxa.structure.limits import Limits, is_legal_family

__all__ = ["ExactMixture", "all_completions", "completion_sums_fit", "n_completions", "scores_by_completion"]

_MOST_COMPLETIONS = 4096
_MOST_NODES = 12  # columns: all families of all completions are held
_MOST_VISITS = 2_000_000_000  # families times completions times rows: some seconds
_MOST_OPERATIONS = 300_000_000  # of all sums over graphs
_MOST_BYTES = 2**29  # scores and what draws need, of all completions
_MOST_AT_ONCE = 2**22  # graphs times completions


def n_completions(missing_cells: MissingCells) -> int:
    """Number of completions of a table; exact, however large."""
    return math.prod(missing_cells.n_states[missing_cells.column].tolist())


def completion_sums_fit(missing_cells: MissingCells, most_parents: int) -> bool:
    """Whether summing over graphs and completions is worth its cost, by counted operations and bytes."""
    (n, n_rows), number = missing_cells.base.shape, n_completions(missing_cells)
    if missing_cells.is_number.any():
        return False  # of numbers there is no end
    if number > _MOST_COMPLETIONS or n > _MOST_NODES:
        return False
    visits = number * n * 2 ** (n - 1) * n_rows
    n_bytes = number * n * 2**n * 40
    operations = number * predicted_cost(n, most_parents).n_operations
    return visits <= _MOST_VISITS and n_bytes <= _MOST_BYTES and operations <= _MOST_OPERATIONS


def all_completions(missing_cells: MissingCells) -> NDArray[np.int16]:
    """Values of the missing cells in every completion, shape (n_completions, n_missing); the last varies fastest."""
    of_cell = missing_cells.n_states[missing_cells.column].tolist()
    number = math.prod(of_cell)
    cells = np.empty((number, missing_cells.n_missing), dtype=np.int16)
    later = number
    for cell, r in enumerate(of_cell):
        later //= r
        cells[:, cell] = np.arange(number) // later % r
    return cells


def scores_by_completion(data: IncompleteData, limits: Limits, cells: NDArray[np.int16]) -> NDArray[np.float64]:
    """Score and log prior of every family, shape (n_nodes, 2**n_nodes, n_completions); -inf outside the limits."""
    missing_cells, n = data.missing_cells, data.n_nodes
    completion = completion_of(missing_cells, cells[0])
    scores = np.full((n, 2**n, len(cells)), -np.inf)
    scoring, scorer = data.scoring(completion)
    place = missing_cells.n_complete + missing_cells.row
    _score_all(cells, missing_cells.column, place, limits, scoring, np.zeros(1, dtype=np.uint64), scores)
    raise_caught(scorer)
    return scores


@hot
def _score_all(
    cells: NDArray[np.int16],
    column: Ints,
    place: Ints,
    limits: Limits,
    scoring: Scoring,
    parents: Words,
    scores: Floats,
) -> None:
    data = scoring.data
    n = scores.shape[0]
    for c in range(cells.shape[0]):
        for cell in range(column.size):
            data[0][column[cell], place[cell]] = cells[c, cell]
        for child in range(n):
            for mask in range(1 << n):
                parents[0] = np.uint64(mask)
                if not (mask >> child) & 1 and is_legal_family(limits, child, parents):
                    scores[child, mask, c] = counted_log_score(child, parents, scoring)


@dataclass(frozen=True, eq=False)
class ExactMixture:
    """Exact answers over all graphs and completions: the face of `ExactPosterior`.

    Attributes
    ----------
    cells : ndarray of int16, shape (n_completions, n_missing)
    parts : tuple of ExactPosterior
        Of each completion.
    """

    cells: NDArray[np.int16]
    parts: tuple[ExactPosterior, ...]
    _scores: NDArray[np.float64]  # (n_nodes, 2**n_nodes, n_completions)

    @classmethod
    def of(cls, data: IncompleteData, limits: Limits, workers: int | None) -> ExactMixture:
        """Sum over all graphs on every completion; errors as `sum_over_dags`."""
        cells = all_completions(data.missing_cells)
        scores = scores_by_completion(data, limits, cells)
        masks = [np.flatnonzero(np.isfinite(scores[child, :, 0])) for child in range(len(scores))]
        parts = [
            sum_over_dags([(own, scores[child, own, c]) for child, own in enumerate(masks)], data.table.names, workers)
            for c in range(len(cells))
        ]
        return cls(cells, tuple(parts), scores)

    @cached_property
    def probability(self) -> NDArray[np.float64]:
        """Of each completion, given the data, shape (n_completions,)."""
        logs = np.array([part.log_evidence for part in self.parts])
        weights = np.exp(logs - self.log_evidence)
        return np.asarray(weights / weights.sum())

    @cached_property
    def log_evidence(self) -> float:
        """Log of the sum over graphs and completions, nats."""
        return float(logsumexp([part.log_evidence for part in self.parts]))

    @property
    def n_completions(self) -> int:
        """Tables that were summed over."""
        return len(self.cells)

    @property
    def log_relative_error(self) -> float:
        """As `ExactPosterior.log_relative_error`, of the worst completion."""
        return max(part.log_relative_error for part in self.parts)

    @cached_property
    def edge_probabilities(self) -> NDArray[np.float64]:
        """``[i, j]`` is P(i -> j)."""
        return self._mean([part.edge_probabilities for part in self.parts])

    @cached_property
    def ancestor_probabilities(self) -> NDArray[np.float64]:
        """``[i, j]`` is the probability of a directed path from i to j."""
        return self._mean([part.ancestor_probabilities for part in self.parts])

    def parent_sets(self, node: int | str) -> ParentSets:
        """As `ExactPosterior.parent_sets`."""
        found = [part.parent_sets(node) for part in self.parts]
        masks, place = np.unique(np.concatenate([sets.masks for sets in found]), return_inverse=True)
        weights = [p * sets.probability for p, sets in zip(self.probability, found, strict=True)]
        probability = np.asarray(np.bincount(place.ravel(), weights=np.concatenate(weights)), dtype=np.float64)
        order = np.argsort(-probability, kind="stable")
        return ParentSets(masks[order], probability[order])

    def draw(self, n_draws: int, rng: np.random.Generator) -> tuple[NDArray[np.uint64], NDArray[np.int16]]:
        """Independent draws of graphs, as `ExactPosterior.draw`, and of the missing cells."""
        which = rng.choice(len(self.parts), size=n_draws, p=self.probability)
        rows = np.empty((n_draws, len(self._scores), 1), dtype=np.uint64)
        for c in np.unique(which).tolist():
            own = which == c
            rows[own] = self.parts[c].draw(int(own.sum()), rng)
        return rows, self.cells[which]

    def log_scores(self, rows: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Log weight of graphs (n, n_nodes, 1), summed over completions: shape (n,), nats."""
        n = len(self._scores)
        parents = pack_rows(unpack_rows(rows, n).transpose(0, 2, 1))[:, :, 0].astype(np.int64)
        distinct, which = np.unique(parents, axis=0, return_inverse=True)
        logs = np.empty(len(distinct))
        step = max(1, _MOST_AT_ONCE // len(self.cells))
        for first in range(0, len(distinct), step):
            part = distinct[first : first + step]
            logs[first : first + step] = logsumexp(sum(self._scores[j, part[:, j]] for j in range(n)), axis=1)
        found: NDArray[np.float64] = logs[which.ravel()]
        return found

    def _mean(self, values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.tensordot(self.probability, np.array(values), axes=1)
        return found
