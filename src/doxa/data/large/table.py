"""`OutOfCoreTable`: a table of which counts are held, of some sets of columns, and no rows."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from doxa.data.options import check_columns
from doxa.data.table import Table, collapsed, group_rows
from doxa.errors import ArgumentError, TableError

__all__ = ["OutOfCoreTable", "SetCounts", "SizedCounts", "count_subset"]

_DENSE = 2**20  # cells of a table that is filled rather than sorted


@dataclass(frozen=True, eq=False)
class SetCounts:
    """Counts of the cells of a set of columns that occur, rising; positions of the columns rise, and -1 is missing."""

    columns: tuple[int, ...]
    n_states: NDArray[np.int64]
    codes: NDArray[np.int16]
    counts: NDArray[np.int64]

    @property
    def n_possible(self) -> int:
        """Number of cells that are possible: the product of the numbers of states, of any size."""
        product = 1
        for number in self.n_states.tolist():
            product *= number
        return product

    @property
    def index(self) -> NDArray[np.int64]:
        """The number of each cell, none missing, in mixed radix, the last column fastest; rising."""
        if (self.codes < 0).any():
            raise ArgumentError(f"columns {list(self.columns)} have missing cells; only complete columns have an index")
        if self.n_possible > 2**62:
            raise ArgumentError(f"columns {list(self.columns)} have {self.n_possible} cells, too many to number")
        index = np.zeros(self.counts.size, dtype=np.int64)
        for j, radix in enumerate(self.n_states.tolist()):
            index = index * radix + self.codes[:, j]
        return index

    def without(self, column: int) -> SetCounts:
        """The counts of the set without one of its columns, a family's parents for example."""
        if column not in self.columns:
            raise ArgumentError(f"column is {column}, which is none of the set's columns {list(self.columns)}")
        kept = [at for at, j in enumerate(self.columns) if j != column]
        return count_subset(self.codes, self.counts, kept, tuple(self.columns[at] for at in kept), self.n_states[kept])


def count_subset(
    codes: NDArray[np.int16],
    counts: NDArray[np.int64],
    positions: list[int],
    columns: tuple[int, ...],
    n_states: NDArray[np.int64],
) -> SetCounts:
    """Counts of some columns of a counted block: those at ``positions`` of ``codes``."""
    radices = (n_states + 1).tolist()
    n_cells = 1
    for radix in radices:
        n_cells *= radix
    if n_cells > _DENSE:
        return _by_sorting(codes[:, positions], counts, columns, n_states)
    keys = np.zeros(counts.size, dtype=np.int64)
    for at, radix in zip(positions, radices, strict=True):
        keys = keys * radix + (codes[:, at] + 1)
    # Sums in floats are exact: they are whole and below 2^53.
    dense = np.bincount(keys, weights=counts, minlength=n_cells)
    found = np.flatnonzero(dense)
    cells = np.empty((found.size, len(radices)), dtype=np.int16)
    rest = found
    for at in range(len(radices) - 1, -1, -1):
        rest, cells[:, at] = rest // radices[at], rest % radices[at] - 1
    return SetCounts(columns, n_states, cells, dense[found].astype(np.int64))


def _by_sorting(
    codes: NDArray[np.int16], counts: NDArray[np.int64], columns: tuple[int, ...], n_states: NDArray[np.int64]
) -> SetCounts:
    order = np.lexsort(codes.T[::-1])
    ordered = [np.ascontiguousarray(column) for column in codes[order].T]
    first, group = group_rows(ordered, counts.size)
    total = np.bincount(group, weights=counts[order], minlength=first.size).astype(np.int64)
    return SetCounts(columns, n_states, codes[order[first]], total)


class SizedCounts(NamedTuple):
    """Counts of many sets of one size, one after the other."""

    members: NDArray[np.int64]  # (n_sets, size): rising within a set; sets in colexicographic order
    first: NDArray[np.int64]  # (n_sets + 1,): the cells of set k are numbers first[k] to first[k + 1] - 1
    codes: NDArray[np.int16]  # (n_cells, size): the cells that occur, rising within a set
    counts: NDArray[np.int64]  # (n_cells,)


class OutOfCoreTable(Table):
    """A table whose distinct rows are too many to hold: the counts of sets of its columns, by their size, stand in
    their place.

    It has no missing cells.  Names, states, number of rows and `select` for sets that were counted are as in any
    `Table`; whatever needs rows is a `TableError`.
    """

    def __init__(
        self, names: tuple[str, ...], states: tuple[tuple[str, ...], ...], n_rows: int, sets: Iterable[SetCounts]
    ) -> None:
        grouped: dict[int, list[SetCounts]] = {}
        for one in sets:
            grouped.setdefault(len(one.columns), []).append(one)
        found: Mapping[str, Any] = {
            "names": names,
            "states": states,
            "n_rows": n_rows,  # a cached property of Table
            "sizes": {size: _in_one(size, grouped[size]) for size in sorted(grouped)},
            "cuts": {},
            "measured": {},
            "transforms": {},
        }
        self.__dict__.update(found)  # as Table, never changed afterwards

    sizes: dict[int, SizedCounts]

    @property
    def codes(self) -> NDArray[np.int16]:
        """Refused: there are no rows."""
        self._refuse()

    @property
    def counts(self) -> NDArray[np.int64]:
        """Refused: there are no rows."""
        self._refuse()

    @property
    def n_distinct(self) -> int:
        """Refused: there are no rows."""
        self._refuse()

    @property
    def row_index(self) -> NDArray[np.int32] | NDArray[np.int64]:
        """Refused: there are no rows."""
        self._refuse()

    @property
    def has_row_order(self) -> bool:
        """False."""
        return False

    @property
    def n_missing(self) -> int:
        """Zero."""
        return 0

    @property
    def missing_by_column(self) -> dict[str, int]:
        """Empty."""
        return {}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, states, number of rows and all counts that are held, in hexadecimal.

        That is all that scores of families are made of: rows that differ and have the same counts of these sets have
        the same digest, and the same posterior over graphs.
        """
        known = json.dumps([self.names, self.states, self.n_rows], ensure_ascii=True, separators=(",", ":"))
        content = hashlib.sha256(known.encode("ascii"))
        for sized in self.sizes.values():
            content.update(sized.members.astype("<i8").tobytes())
            content.update(sized.first.astype("<i8").tobytes())
            content.update(sized.codes.astype("<i2").tobytes())
            content.update(sized.counts.astype("<i8").tobytes())
        return content.hexdigest()

    def select(self, columns: Sequence[str]) -> Table:
        """Some of the columns as a table of distinct rows with counts, if a set that holds them was counted."""
        positions = check_columns(columns, self.names)
        held = self._set_with(tuple(sorted(positions)))
        at = [held.columns.index(j) for j in positions]
        codes = held.codes[:, at]
        order = np.lexsort(codes.T[::-1])
        return collapsed(
            tuple(self.names[j] for j in positions),
            tuple(self.states[j] for j in positions),
            [codes[order, k] for k in range(len(at))],
            held.counts[order],
            in_order=False,
        )

    def __repr__(self) -> str:
        n_sets = sum(len(sized.members) for sized in self.sizes.values())
        return f"OutOfCoreTable({self.n_rows} rows x {self.n_columns} columns, counts of {n_sets} sets of columns)"

    def _set_with(self, columns: tuple[int, ...]) -> SetCounts:
        """The smallest counted set that holds some columns, themselves if they are one."""
        for size, sized in self.sizes.items():
            if size == len(columns):
                place = self._places.get(columns)
                if place is not None:
                    return self._set(size, place)
            elif size > len(columns):
                holds = np.isin(sized.members, columns).sum(axis=1) == len(columns)
                if holds.any():
                    return self._set(size, int(np.flatnonzero(holds)[0]))
        named = [self.names[j] for j in columns]
        raise TableError(
            f"columns {named} were not counted together: of this table, whose distinct rows are too many to hold, only "
            "families within the limits of the run were; raise max_parents, or read fewer columns or rows"
        )

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        """Number of each set among those of its size."""
        return {tuple(members): k for sized in self.sizes.values() for k, members in enumerate(sized.members.tolist())}

    def _set(self, size: int, place: int) -> SetCounts:
        sized = self.sizes[size]
        members = sized.members[place].tolist()
        cells = slice(int(sized.first[place]), int(sized.first[place + 1]))
        return SetCounts(tuple(members), self.n_states[members], sized.codes[cells], sized.counts[cells])

    def _refuse(self) -> NoReturn:
        raise TableError(
            f"the rows of this table are not here: it has {self.n_rows} rows, too many of them distinct to hold, and "
            "only counts of sets of columns were made; read fewer columns (columns=...) or a sample of the rows"
        )


def _in_one(size: int, sets: Sequence[SetCounts]) -> SizedCounts:
    """Counts of sets of one size in single arrays."""
    members = np.array([one.columns for one in sets], dtype=np.int64).reshape(len(sets), size)
    order = np.lexsort(members.T) if size else np.arange(len(sets))
    chosen = [sets[k] for k in order.tolist()]
    ends = itertools.accumulate((one.counts.size for one in chosen), initial=0)
    return SizedCounts(
        members[order],
        np.fromiter(ends, dtype=np.int64, count=len(sets) + 1),
        np.concatenate([one.codes for one in chosen]),
        np.concatenate([one.counts for one in chosen]),
    )
