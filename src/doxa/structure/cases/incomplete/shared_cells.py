"""Missing cells that several rows share: moments in time, of which a row is the present and others have copies.

A missing cell of a moment stands in the row of that moment, and, lag by lag, in the rows of the moments after it.  One
of these is its *owner*, the row in which it is present, or, if it belongs to the past of the first row of a stretch,
that row.  The others are found from there: the next row, as many columns further on as a moment has.

A cell's full conditional weighs its own family, and in all these rows every family in which it is a parent.  Rows that
are `lags` + 1 moments apart share no cell: their *phase* is the same, and only cells of one phase are offered together.

The initial moments of a stretch have no past: the model of each of their columns is a family without parents, its
parameters integrated out, of the same kind as others, apart for each place in the past.
"""

from __future__ import annotations

from doxa._jit import hot, inlined
from doxa.arrays import Words
from doxa.structure.cases.incomplete.blocks import set_cell
from doxa.structure.cases.incomplete.missing_cells import Completion
from doxa.structure.graph import has_bit

__all__ = ["is_touched", "later_row", "set_number", "set_shared"]


@inlined
def later_row(i: int, completion: Completion) -> int:
    """The incomplete row of the moment after this one; -1 where there is none."""
    return completion.next_row[i] if completion.next_row.size > 0 else -1


@hot
def set_shared(i: int, column: int, state: int, completion: Completion) -> None:
    """Write a missing cell of a category, in all rows in which it stands."""
    row, place = i, column
    while row >= 0 and place < completion.n_states.size:
        set_cell(row, place, state, completion)
        row, place = later_row(row, completion), place + completion.width


@hot
def set_number(i: int, column: int, value: float, completion: Completion) -> None:
    """Write a missing number, in all rows in which it stands."""
    row, place = i, column
    while row >= 0 and place < completion.n_states.size:
        completion.numbers[place, completion.n_complete + row] = value
        row, place = later_row(row, completion), place + completion.width


@hot
def is_touched(node: int, column: int, parents: Words, completion: Completion) -> bool:
    """Whether a node's family changes with the missing cells of a column: those of which it is a copy, too."""
    place = column
    while place < completion.n_states.size:
        if node == place or has_bit(parents, node, place):
            return True
        place += completion.width
    return False
