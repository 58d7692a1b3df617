"""Count the cases of one family: the child's states under each configuration of its parents.

`count_family` fills the whole table of parent configurations, for people and tests.  `group_family` is what
scores use inside compiled loops: it keeps only configurations that occur, so a family of thirty parents costs
memory in the rows of the table, not in the 3^30 configurations that it could have.

`Rule`: a score as compiled loops take it, a number of its kind and its settings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from doxa._jit import hot, lowest_bit
from doxa.arrays import Ints, Words
from doxa.data import Table
from doxa.errors import ArgumentError
from doxa.structure.families.call import no_box

__all__ = [
    "BDEU_RULE",
    "BIC_RULE",
    "CALLED_RULE",
    "CALLED_WITH_TABLE_RULE",
    "CONSTANT_RULE",
    "CountingScratch",
    "Rule",
    "count_family",
    "counting_scratch",
    "family_data",
    "group_family",
    "relabel",
    "weighing_scratch",
]

BDEU_RULE, CONSTANT_RULE, BIC_RULE = 0, 1, 2
CALLED_RULE, CALLED_WITH_TABLE_RULE = 3, 4  # by a scorer, which in the second case is told the score as a BDeu table


class Rule(NamedTuple):
    """A score as compiled loops take it."""

    kind: int
    log_weight: float  # of the prior: in a family for BDeu, in a cell for K2
    log_cases: float  # in the table


CountingScratch = tuple[NDArray[np.int64], ...]  # config, cell, counts, hash keys, hash labels, box


def count_family(table: Table, child: str, parents: tuple[str, ...] = ()) -> NDArray[np.int64]:
    """Counts of a family in a table without missing cells.

    Parameters
    ----------
    table : Table
    child : str
        Name of a column.
    parents : tuple of str, default=()
        Names of other columns; the last varies fastest.

    Returns
    -------
    ndarray of int64, shape (n_parent_configurations, n_states of child)
        In cases: collapsed rows count as often as they occur.

    Raises
    ------
    ArgumentError
        If a name is unknown or given twice, or a cell that is needed is missing.

    Examples
    --------
    >>> table = Table.from_codes(("a", "b"), (("n", "y"), ("n", "y")), [[0, 0], [0, 1], [1, 1], [1, 1]])
    >>> count_family(table, "b", ("a",))
    array([[1, 1],
           [0, 2]])
    """
    codes, _, (own, *radix) = family_data(table, child, parents)
    config = np.zeros(codes.shape[1], dtype=np.int64)
    for column, size in zip(codes[1:], radix, strict=True):
        config = config * size + column
    n_configurations = int(np.prod(radix, dtype=np.int64))
    cells = np.bincount(config * own + codes[0], weights=table.counts, minlength=n_configurations * int(own))
    return np.rint(cells).astype(np.int64).reshape(n_configurations, own)


def family_data(table: Table, child: str, parents: tuple[str, ...]) -> tuple[NDArray[Any], ...]:
    """Columns, counts and numbers of states of a family alone, the child first; errors as `count_family`."""
    names = (child, *parents)
    for name in names:
        if name not in table.names:
            raise ArgumentError(f"the family names {name!r}, which is not a column of the table")
        if names.count(name) > 1:
            raise ArgumentError(f"the family names {name!r} twice; a node cannot be its own parent or a parent twice")
    positions = [table.names.index(name) for name in names]
    columns = np.ascontiguousarray(table.codes[:, positions].T, dtype=np.int16)
    if (columns < 0).any():
        incomplete = [name for name, column in zip(names, columns, strict=True) if (column < 0).any()]
        raise ArgumentError(f"columns {incomplete} have missing cells; only complete columns can be counted")
    n_states = np.array([len(table.states[p]) for p in positions], dtype=np.int64)
    return columns, np.array(table.counts, dtype=np.int64), n_states


def counting_scratch(n_rows: int, box: NDArray[np.int64] | None = None) -> CountingScratch:
    """Work arrays of `group_family` for a table of ``n_rows`` distinct rows, one set a chain.

    ``box`` is what kinds need that are not counted: ``addresses`` of a `doxa.structure.families.kind.Scorer`, which
    must be kept.
    """
    dense = max(4096, 2 * n_rows)
    slots = 1 << max(4, int(2 * n_rows - 1).bit_length())
    return (
        np.zeros(n_rows, dtype=np.int64),
        np.zeros(n_rows, dtype=np.int64),
        np.zeros(dense, dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        no_box() if box is None else box,
    )


def weighing_scratch(n_rows: int) -> tuple[NDArray[Any], ...]:
    """`counting_scratch` for rows that count in fractions."""
    config, cell, counts, *others = counting_scratch(n_rows)
    return config, cell, counts.astype(np.float64), *others


@hot
def relabel(labels: Ints, keys: Ints, names: Ints) -> int:
    """Replace labels by 0, 1, ... in order of appearance, in place; return how many there are."""
    mask = keys.size - 1
    names[:] = -1
    found = 0
    for row in range(labels.size):
        label = labels[row]
        slot = (label * 0x9E3779B97F4A7C1 >> 17) & mask
        while names[slot] >= 0 and keys[slot] != label:
            slot = (slot + 1) & mask
        if names[slot] < 0:
            keys[slot] = label
            names[slot] = found
            found += 1
        labels[row] = names[slot]
    return found


@hot
def group_family(
    columns: NDArray[np.int16], n_states: Ints, child: int, parents: Words, scratch: CountingScratch
) -> tuple[int, int, float]:
    """Label each row by its parent configuration and by its cell, in ``scratch``.

    ``columns`` is (n_columns, n_rows), ``parents`` the bit set of the parents.  Returns the number of
    configuration labels and of cell labels (an upper bound: some may not occur) and the log of the number of
    *possible* configurations.  Labels are exact for any number of parents: whenever a mixed-radix index would
    outgrow the work arrays, the labels are renumbered by occurrence first.
    """
    config, cell, counts, keys, names, _ = scratch
    config[:] = 0
    size = 1
    log_q = 0.0
    for w in range(parents.size):
        word = parents[w]
        while word != np.uint64(0):
            parent = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            radix = n_states[parent]
            log_q += np.log(radix)
            if size * radix > counts.size:
                size = relabel(config, keys, names)
            column = columns[parent]
            for row in range(config.size):
                config[row] = config[row] * radix + column[row]
            size *= radix
    if size > counts.size:
        size = relabel(config, keys, names)
    radix = n_states[child]
    column = columns[child]
    for row in range(config.size):
        cell[row] = config[row] * radix + column[row]
    n_cells = size * radix
    if n_cells > counts.size:
        n_cells = relabel(cell, keys, names)
    return size, n_cells, log_q
