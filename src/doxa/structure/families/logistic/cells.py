"""The cells of a binary family: for each configuration of the parents that occurs, its successes and cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa._jit import hot, inlined, lowest_bit
from doxa.structure.families.counting import relabel

__all__ = ["gather_cells", "logit_of"]


@hot
def gather_cells(child: int, parents: Any, data: Any, work: Any) -> tuple[int, int]:
    """Count the family of ``child`` with the bit set ``parents``; returns the number of cells and of varying parents.

    ``data`` is (columns, counts, n_states) of a complete table.  Parents with a single state say nothing and are left
    out.  Fills ``work.parents``, and of each cell ``work.row``, ``work.successes`` and ``work.cases``.
    """
    columns, weights, n_states = data
    labels, row_of, successes, cases = work.labels, work.row, work.successes, work.cases
    n_parents = 0
    size = 1
    labels[:] = 0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if n_states[parent] < 2:
                continue
            work.parents[n_parents] = parent
            n_parents += 1
            if 2 * size > cases.size:
                size = relabel(labels, work.keys, work.names)
            column = columns[parent]
            for row in range(labels.size):
                labels[row] = 2 * labels[row] + column[row]
            size *= 2
    for label in range(size):
        successes[label] = 0.0
        cases[label] = 0.0
    column = columns[child]
    for row in range(labels.size):
        label = labels[row]
        weight = float(weights[row])
        cases[label] += weight
        successes[label] += weight * column[row]
        row_of[label] = row
    n_cells = 0
    for label in range(size):
        if cases[label] > 0.0:
            row_of[n_cells], successes[n_cells], cases[n_cells] = row_of[label], successes[label], cases[label]
            n_cells += 1
    return n_cells, n_parents


@inlined
def logit_of(cell: int, n_parents: int, coefficients: Any, columns: Any, work: Any) -> float:
    """Bias plus or minus the coefficient of each parent, in the state that the cell has of it."""
    row = work.row[cell]
    total = coefficients[0]
    for j in range(n_parents):
        if columns[work.parents[j], row] != 0:
            total += coefficients[j + 1]
        else:
            total -= coefficients[j + 1]
    return total  # type: ignore[no-any-return]
