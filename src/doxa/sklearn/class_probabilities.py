r"""`ClassProbabilities`: predictive probabilities of a class, given features of which some may be missing.

.. math:: p(y \mid x, D) = \frac{\sum_G P(G \mid D)\, p(y, x \mid G, D)}{\sum_G P(G \mid D)\, p(x \mid G, D)},

as `doxa.structure.averaging.predict` has it, for one column and many rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa.sklearn.class_kernels import average_classes
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.new_rows import extended
from doxa.structure.averaging.rows import RowProbabilities

__all__ = ["ClassProbabilities", "class_probabilities"]

Floats = NDArray[np.float64]

_LIMIT = 4096  # states of a part: beyond it an elimination is quicker


class ClassProbabilities(RowProbabilities):
    """All posterior mean tables of networks, laid out for predicting the last column; equal networks are one.

    Parameters
    ----------
    draws : NetworkDraws
    """

    def __init__(self, draws: NetworkDraws) -> None:
        super().__init__(draws)
        both = np.concatenate([self._family, self._offset], axis=1)
        _, self._one_of, counts = np.unique(both, axis=0, return_index=True, return_counts=True)
        self._log_count = np.log(counts)
        first, member, stride = self._layout
        label = len(draws.names) - 1
        self._class_stride = np.zeros(len(first) - 1, dtype=np.int64)
        here = np.flatnonzero(member == label)
        self._class_stride[np.searchsorted(first, here, side="right") - 1] = stride[here]

    def classes(self, codes: NDArray[np.int64]) -> Floats:
        """Probabilities of every class in every row.

        Parameters
        ----------
        codes : ndarray of int, shape (n_rows, n_nodes)
            -1 where missing; those of the class, the last column, are not read.

        Returns
        -------
        ndarray of float, shape (n_rows, n_classes)

        Raises
        ------
        BudgetError
            If a network is too wide for exact inference with so many features missing.
        """
        n = len(self.draws.names)
        sizes = np.array(self.draws.n_states, dtype=np.int64)
        networks = (self._family[self._one_of], self._offset[self._one_of], self._log_count)
        tables = (*self._layout, self._class_stride, self._values)
        n_families = len(self._class_stride)
        work = (
            *(np.empty(n_families, dtype=np.int64) for _ in range(2)),
            np.empty(n, dtype=np.bool_),
            *(np.empty(n, dtype=np.int64) for _ in range(8)),
            np.empty((n, n), dtype=np.int64),
            np.empty(_LIMIT),
            np.empty((len(self._one_of), sizes[-1])),
        )
        chances = np.empty((len(codes), int(sizes[-1])))
        average_classes(np.ascontiguousarray(codes), sizes, networks, tables, _LIMIT, work, chances)
        for i in np.flatnonzero(np.isnan(chances[:, 0])).tolist():
            chances[i] = self._by_elimination(codes[i])
        return chances

    def _by_elimination(self, row: NDArray[np.int64]) -> Floats:
        """One row with too much missing to list."""
        missing_cells = [*np.flatnonzero(row[:-1] < 0).tolist(), len(row) - 1]
        log_weight, found = self.of(row, missing_cells)
        weight = np.exp(log_weight - log_weight.max())
        averaged = weight @ found[:, -self.draws.n_states[-1] :]
        return np.asarray(averaged / averaged.sum())


def class_probabilities(known: ClassProbabilities, codes: NDArray[np.int64]) -> Floats:
    """Probabilities of every class, (n_rows, n_classes); rows may have states that the table does not.

    Such a state gets the prior's share: as if the column had been declared with one more state that no case was in.
    """
    is_new = codes >= np.array(known.draws.n_states)
    kinds, group = np.unique(is_new, axis=0, return_inverse=True)
    chances = np.empty((len(codes), known.draws.n_states[-1]))
    for k, columns in enumerate(kinds):
        rows = np.flatnonzero(group.ravel() == k)
        own = known
        if columns.any():
            table = extended(known.draws.completed.table, np.flatnonzero(columns).tolist())
            own = ClassProbabilities(known.draws.with_table(table))
        distinct, place = np.unique(codes[rows], axis=0, return_inverse=True)
        chances[rows] = own.classes(distinct)[place.ravel()]
    return chances
