"""Missing cells on the page: the probabilities of their states, as far as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from doxa.report.numbers import decimals, significant
from doxa.structure.averaging.impute import cell_chances
from doxa.structure.averaging.means import mean_over_draws

if TYPE_CHECKING:
    from doxa.structure.averaging.draws import NetworkDraws

__all__ = ["MOST_CELLS", "imputed_cells"]

MOST_CELLS = 1000  # of all columns together
_MOST_OF_ONE = 200  # cells of one column


def imputed_cells(draws: NetworkDraws) -> dict[str, Any]:
    """The missing cells, column by column.

    Returns
    -------
    dict
        ``why`` says why there are none to show, though cells are missing.  ``columns`` has an entry for each node:
        ``n`` missing cells, the first ``rows`` of them (of the source, from 0), ``p``, a list of probabilities for
        each, and ``mcse``, the largest Monte Carlo error of these.
    """
    completed = draws.completed
    if not completed.table.n_missing:
        return {"why": "", "columns": []}
    if not completed.table.has_row_order:
        return {"why": "The rows of the table were counted where they are, so that cells have no place.", "columns": []}
    missing_cells = [np.flatnonzero(column >= 0) for column in completed.missing_cell_of.T]
    most = min(_MOST_OF_ONE, max(1, MOST_CELLS // sum(rows.size > 0 for rows in missing_cells)))
    return {"why": "", "columns": [_column(draws, j, rows, most) for j, rows in enumerate(missing_cells)]}


def _column(draws: NetworkDraws, j: int, rows: NDArray[np.intp], most: int) -> dict[str, Any]:
    if not rows.size:
        return {"n": 0, "rows": [], "p": [], "mcse": None}
    source = draws.completed.source_row[rows]
    first = np.argsort(source, kind="stable")[:most]
    chances = cell_chances(draws, j, rows[first])
    means = mean_over_draws(chances.reshape(*draws.shape, -1), draws.reference_ess)
    p = means.value[:-1].reshape(len(first), -1)
    return {
        "n": int(rows.size),
        "rows": source[first].tolist(),
        "p": [decimals(row, 3) for row in p],
        "mcse": significant([means.errors[:-1].max()], 2)[0],
    }
