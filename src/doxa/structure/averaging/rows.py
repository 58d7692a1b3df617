"""`RowProbabilities`: rows, complete or not, in all networks of posterior mean parameters at once.

For each row and graph there is the probability of what was observed, and that of each state of each missing cell given
it.  Both are exact (`doxa.structure.averaging.query` shows why mean parameters do).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from doxa.inference.exact import Budget, BudgetError, plan_contraction
from doxa.models.factors import Factor
from doxa.structure.averaging.conditional import read_budget
from doxa.structure.averaging.draws import NetworkDraws
from doxa.structure.averaging.row_kernels import row_in_networks

__all__ = ["RowProbabilities"]

Floats = NDArray[np.float64]

_LIMIT = 4096  # states of a part: beyond it an elimination is quicker


class RowProbabilities:
    """All posterior mean tables of networks, laid out for rows.

    Parameters
    ----------
    draws : NetworkDraws
    exact_budget : Budget or int, optional
        Most that one network may cost where a row has many missing cells.
    """

    def __init__(self, draws: NetworkDraws, exact_budget: Budget | int | None = None) -> None:
        self.draws = draws
        self.budget = read_budget(exact_budget, len(draws))
        n = len(draws.names)
        self._family = np.empty((len(draws), n), dtype=np.int64)
        self._offset = np.empty((len(draws), n), dtype=np.int64)
        first, member, stride, values, end = [0], [], [], [], 0
        for f, ((child, parents), members) in enumerate(draws.users.items()):
            tables = draws.mean_tables((child, parents))
            size = tables[0].size
            self._family[members, child] = f
            self._offset[members, child] = end + (np.arange(len(members)) * size if len(tables) > 1 else 0)
            end += tables.size
            values.append(tables.ravel())
            member += [*parents, child]
            stride += [step // tables.itemsize for step in tables.strides[1:]]
            first.append(len(member))
        self._layout = tuple(np.array(part, dtype=np.int64) for part in (first, member, stride))
        self._values = np.concatenate(values)

    def of(self, row: NDArray[np.integer], missing_cells: Sequence[int]) -> tuple[Floats, Floats]:
        """Evidence and probabilities of one row.

        Parameters
        ----------
        row : ndarray of int, shape (n_nodes,)
            Codes; those of ``missing_cells`` are not read.
        missing cells : sequence of int
            Missing cells.

        Returns
        -------
        log_weight : ndarray of float, shape (n_networks,)
            Log probability of what was observed, nats.
        probabilities : ndarray of float, shape (n_networks, n)
            Of the states of the first missing cell, then of the next.

        Raises
        ------
        BudgetError
            If a network is too wide for exact inference with so many cells missing.
        """
        n = len(self.draws.names)
        sizes = np.array([self.draws.n_states[j] for j in missing_cells], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        number = np.full(n, -1, dtype=np.int64)
        number[list(missing_cells)] = np.arange(len(missing_cells))
        log_weight = np.empty(len(self.draws))
        chances = np.empty((len(self.draws), int(sizes.sum())))
        m = len(missing_cells)
        work = (
            *(np.empty(size, dtype=np.int64) for size in (m, m, n, n, n)),
            np.empty((n, m), dtype=np.int64),
            np.empty(_LIMIT),
        )
        tables = (self._family, self._offset, *self._layout, self._values)
        codes = np.ascontiguousarray(row, dtype=np.int64)
        row_in_networks(codes, (number, sizes, starts), tables, _LIMIT, work, log_weight, chances)
        for t in np.flatnonzero(np.isnan(log_weight)).tolist():
            log_weight[t], chances[t] = self._eliminate(codes, list(missing_cells), t)
        return log_weight, chances

    def _eliminate(self, row: NDArray[np.int64], missing_cells: list[int], t: int) -> tuple[float, Floats]:
        """The same for one network, by contraction."""
        number = {v: k for k, v in enumerate(missing_cells)}
        factors, constant = [], 0.0
        for node, parents in enumerate(self.draws.parents[t]):
            members = (*parents, node)
            cut = tuple(slice(None) if v in number else int(row[v]) for v in members)
            table = self.draws.log_table(t, node, mean=True)[cut]
            scope = tuple(number[v] for v in members if v in number)
            if scope:
                factors.append(Factor(scope, table))
            else:
                constant += float(table)
        try:
            plan = plan_contraction(
                [self.draws.n_states[v] for v in missing_cells], [f.variables for f in factors], budget=self.budget
            )
            found = plan.run(factors)
        except BudgetError as error:
            what = f"a row with {len(missing_cells)} missing cells in network {t + 1} of {len(self.draws)}"
            raise BudgetError(what, error.cost, self.budget) from None
        return constant + found.log_z, np.concatenate(found.marginals)
