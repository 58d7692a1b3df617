"""Probabilities of every missing cell, from kept draws: averages of conditional probabilities, not counts of states.

At each kept draw the probabilities of a cell given the graph, the table and the other missing cells are known
(`doxa.structure.cases.incomplete.blocks`); where a component is small, other missing cells of the row that it is tied
to are summed out as well.  Their average over draws has the same mean as the share of draws in each state, and less
noise (Rao and Blackwell).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot
from doxa.arrays import Floats, Ints
from doxa.checks import check_whole
from doxa.errors import ArgumentError
from doxa.structure.cases.incomplete.blocks import (
    RowWork,
    end_of_block,
    gather,
    move_case,
    row_work,
    tie_cells,
    weigh_block,
)
from doxa.structure.cases.incomplete.families import Families, families_of
from doxa.structure.cases.incomplete.missing_cells import Completion, IncompleteData, completion_of, put_cells
from doxa.structure.graph import working_graph

__all__ = ["cell_probabilities"]


def cell_probabilities(
    data: IncompleteData, rows: NDArray[np.uint64], cells: NDArray[np.integer[Any]], thin: int = 1
) -> NDArray[np.float64]:
    """Conditional probabilities of every missing cell, averaged over draws.

    Parameters
    ----------
    data : IncompleteData
    rows : ndarray of uint64, shape (..., n_nodes, n_words)
        Drawn graphs; leading axes are those of the draws.
    cells : ndarray of int, shape (..., n_missing)
        The completions drawn with them.
    thin : int, default=1
        Use every ``thin``-th draw.

    Returns
    -------
    ndarray of float, shape (n_missing, most states)
        A row for each missing cell, in the order of `MissingCells`; it sums to 1.  0 for states that a column does not
        have.

    Raises
    ------
    ArgumentError
        If there are no draws, or graphs and completions are not equally many.
    """
    thin = check_whole("thin", thin, 1)
    graphs = rows.reshape(-1, *rows.shape[-2:])[::thin]
    completions = cells.reshape(-1, cells.shape[-1])[::thin]
    if len(graphs) != len(completions) or not len(graphs):
        raise ArgumentError(
            f"rows holds {len(graphs)} graphs and cells {len(completions)} completions; they are drawn together"
        )
    missing_cells = data.missing_cells
    found = np.zeros((missing_cells.n_missing, int(missing_cells.n_states[missing_cells.column].max(initial=1))))
    completion, work = completion_of(missing_cells, completions[0]), row_work(missing_cells.n_states)
    for graph, values in zip(graphs, completions, strict=True):
        put_cells(completion, missing_cells, values)
        families = families_of(working_graph(graph)[0], completion, data.rule)
        _add_all(completion, families, work, np.zeros(data.n_nodes, dtype=np.int64), found)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@hot
def _add_all(completion: Completion, families: Families, work: RowWork, number_of: Ints, found: Floats) -> None:
    """Add the conditional probabilities of all cells; the completion and the counts are as before."""
    for i in range(completion.rows.shape[0]):
        for number in range(completion.first[i], completion.first[i + 1]):
            number_of[completion.column[number]] = number
        m = tie_cells(i, completion, families, work)
        for a in range(m):
            if work.root[a] != a:
                continue
            size, n_affected = gather(a, m, families, work)
            move_case(i, n_affected, -1, completion, families, work)
            begin = 0
            while begin < size:
                end = end_of_block(begin, size, completion, work)
                joint = weigh_block(i, begin, end, completion, families, work)
                _add_block(begin, end, joint, work, number_of, found)
                begin = end
            move_case(i, n_affected, 1, completion, families, work)


@hot
def _add_block(begin: int, end: int, joint: int, work: RowWork, number_of: Ints, found: Floats) -> None:
    total = 0.0
    for c in range(joint):
        total += work.weights[c]
    if not total > 0.0:
        return
    for k in range(begin, end):
        number = number_of[work.members[k]]
        for c in range(joint):
            found[number, work.digits[k, c]] += work.weights[c] / total
