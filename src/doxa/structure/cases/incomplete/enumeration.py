"""The exact posterior over graphs and missing cells, for tiny tables: every graph, every completion.

What samplers are tested against.  It counts every family of every completion afresh, and knows nothing of moves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa.errors import ArgumentError
from doxa.models.bits import pack_rows, unpack_rows
from doxa.structure.cases.incomplete.missing_cells import IncompleteData
from doxa.structure.cases.incomplete.sums import all_completions, n_completions, scores_by_completion
from doxa.structure.exact.enumeration import all_dags
from doxa.structure.limits import Limits, capped

__all__ = ["JointPosterior", "enumerate_joint"]

_MOST_STATES = 2**24  # graphs times completions: a number each
_MOST_VISITS = 4_000_000_000  # families times completions times rows: some ten seconds


class JointPosterior(NamedTuple):
    """Every graph with every completion, and what follows from them."""

    rows: NDArray[np.uint64]  # (n_graphs, n_nodes, 1): adjacency rows as bit sets
    cells: NDArray[np.int16]  # (n_completions, n_missing): the last cell varies fastest
    probability: NDArray[np.float64]  # (n_graphs, n_completions): sums to 1
    log_score: NDArray[np.float64]  # (n_graphs, n_completions): log P(G) + log P(Z, D | G), nats; P(G) up to a constant
    n_states: NDArray[np.int64]  # (n_missing,): states of each cell's column

    @property
    def log_evidence(self) -> float:
        """Log of the sum over graphs and completions, nats, up to the constant in the prior of graphs."""
        top = float(self.log_score.max())
        return top + math.log(float(np.exp(self.log_score - top).sum()))

    @property
    def graph_probabilities(self) -> NDArray[np.float64]:
        """P(G | D), shape (n_graphs,)."""
        return np.asarray(self.probability.sum(axis=1))

    @property
    def edge_probabilities(self) -> NDArray[np.float64]:
        """P(i -> j | D), shape (n_nodes, n_nodes)."""
        present = unpack_rows(self.rows, self.rows.shape[1])
        return np.asarray(np.einsum("g,gij->ij", self.graph_probabilities, present))

    @property
    def cell_probabilities(self) -> NDArray[np.float64]:
        """P(cell = state | D), shape (n_missing, most states); 0 for states that a column does not have."""
        weight = self.probability.sum(axis=0)
        found = np.zeros((self.cells.shape[1], int(self.n_states.max(initial=1))))
        for cell, states in enumerate(self.cells.T):
            np.add.at(found[cell], states, weight)
        return found


def enumerate_joint(data: IncompleteData, limits: Limits | None = None) -> JointPosterior:
    """The posterior over graphs and missing cells, by listing them.

    Parameters
    ----------
    data : IncompleteData
        Of at most five columns.
    limits : Limits, optional
        Any graph when left out.

    Raises
    ------
    ArgumentError
        If there are too many columns, or too many completions for the time or memory that this may take.

    Examples
    --------
    >>> from doxa.data import Table
    >>> table = Table.from_codes(["a", "b"], [["n", "y"]] * 2, [[0, 0], [1, 1], [0, 0], [1, -1]])
    >>> exact = enumerate_joint(IncompleteData(table))
    >>> exact.cell_probabilities.round(3)
    array([[0.226, 0.774]])
    """
    missing_cells, n = data.missing_cells, data.n_nodes
    limits = capped([n - 1] * n) if limits is None else limits
    rows = all_dags(n)
    number = n_completions(missing_cells)
    visits = n * 2 ** (n - 1) * number * missing_cells.base.shape[1]
    if number * len(rows) > _MOST_STATES or visits > _MOST_VISITS:
        raise ArgumentError(
            f"the table has {missing_cells.n_missing} missing cells, {number} completions, and there are "
            f"{len(rows)} graphs on its {n} columns; all pairs are listed up to {_MOST_STATES}: sample, or take "
            f"fewer rows"
        )
    cells = all_completions(missing_cells)
    scores = scores_by_completion(data, limits, cells)
    parents = pack_rows(unpack_rows(rows, n).transpose(0, 2, 1))[:, :, 0].astype(np.int64)
    log_score = np.zeros((len(rows), number))
    for child in range(n):
        log_score += scores[child, parents[:, child]]
    possible = np.isfinite(log_score[:, 0])
    rows, log_score = rows[possible], log_score[possible]
    weight = np.exp(log_score - log_score.max())
    return JointPosterior(rows, cells, weight / weight.sum(), log_score, missing_cells.n_states[missing_cells.column])
