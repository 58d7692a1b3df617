"""`Rows`: the rows of all tables as they stand in a file, and what makes distributions of them.

Numbers are taken from a text in bulk, and each knows its place, should it prove wrong.  Pieces of a few kilobytes are
split and converted by C code, so time is linear and what is held beside the text are the numbers themselves, 8 bytes
for at least two characters.  A piece that is not numbers alone, because of a comment or a mistake, is taken again, word
by word.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from doxa.models.categorical import CategoricalNetwork
from doxa.models.network_files.draft import Draft
from doxa.models.network_files.source import Source, shown

__all__ = ["COMMENTS", "Numbers", "Rows", "finish"]

COMMENTS = r"(?>[\s,]++|//[^\n]*+|/\*[^*]*+\*++(?>[^/*][^*]*+\*++)*+/)*+"  # what may stand between numbers

_PIECE = 2**14
_BULK = re.compile(r"[0-9eE+\-.,\s]*+")  # without letters no nan and no inf; without "_" no Python literals
_NUMBER = re.compile(r"[+-]?+(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?>[eE][+-]?+[0-9]++)?+")
_WORD = re.compile(rf"{COMMENTS}(?>([^\s,;(){{}}<>/\"]++|.))?+", re.DOTALL)
_END = re.compile(r"[\s,]")
_BLANK = re.compile(r"\s")
_BLANK_WORD = re.compile(r"\S++")


class Numbers:
    """Numbers in the order of the file."""

    __slots__ = ("_firsts", "_source", "_starts", "values")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._starts = array("q")  # where each region of the text begins
        self._firsts = array("q")  # how many numbers stand before it
        self.values = array("d")

    def __len__(self) -> int:
        return len(self.values)

    def array(self, first: int = 0, n: int | None = None) -> NDArray[np.float64]:
        """A view of ``n`` numbers from ``first`` on; of all, if left out."""
        all_of_them = np.frombuffer(self.values, dtype=np.float64) if self.values else np.empty(0)
        return all_of_them if n is None else all_of_them[first : first + n]

    def add(self, start: int, row: str) -> None:
        """Append the numbers of a short piece that begins at ``start``."""
        before = len(self.values)
        try:
            self.values.extend(map(float, row.replace(",", " ").split()))
        except ValueError:
            del self.values[before:]
            self.take(start, start + len(row))
            return
        self._starts.append(start)
        self._firsts.append(before)

    def take(self, start: int, end: int) -> None:
        """Append the numbers of ``text[start:end]``; refuse anything else but blanks, commas and comments."""
        text = self._source.text
        self._starts.append(start)
        self._firsts.append(len(self.values))
        while start < end:
            found = _END.search(text, min(start + _PIECE, end), end)
            stop = found.start() if found else end
            if stop - start > 2 * _PIECE or not _BULK.fullmatch(text, start, stop):
                self._take_words(start, end)
                return
            before = len(self.values)
            try:
                self.values.extend(map(float, text[start:stop].replace(",", " ").split()))
            except ValueError:
                del self.values[before:]
                self._take_words(start, end)
                return
            start = stop

    def take_some(self, start: int, n: int) -> int:
        """Append ``n`` numbers between blanks, or as many as there are; return the place behind the last."""
        text = self._source.text
        self._starts.append(start)
        self._firsts.append(len(self.values))
        while n and start < len(text):
            found = _BLANK.search(text, min(start + min(24 * n, _PIECE), len(text)))
            stop = found.start() if found else len(text)
            words = text[start:stop].split(None, n)
            if len(words) > n:
                stop -= len(words.pop())
            before = len(self.values)
            try:
                self.values.extend(map(float, words if _BULK.fullmatch(text, start, stop) else ["no number"]))
            except ValueError:
                del self.values[before:]
                self._refuse_word(start)
            start, n = stop, n - len(words)
        return start

    def _refuse_word(self, start: int) -> NoReturn:
        """Refuse the first word behind ``start`` that is no number; there is one."""
        found = next(f for f in _BLANK_WORD.finditer(self._source.text, start) if not _NUMBER.fullmatch(f[0]))
        self._source.refuse(f"{shown(found[0])} stands where a number should", found.start())

    def _take_words(self, start: int, end: int) -> None:
        text = self._source.text
        while found := _WORD.match(text, start, end):
            if found[1] is None:
                return
            if not _NUMBER.fullmatch(found[1]):
                what = "a comment that is not closed" if found[1] == "/" else shown(found[1])
                self._source.refuse(f"{what} stands where a number should", found.start(1))
            self.values.append(float(found[1]))
            start = found.end()

    def place(self, k: int) -> int:
        """Where in the text number ``k`` begins."""
        region = bisect_right(self._firsts, k) - 1
        start = self._starts[region]
        for _ in range(k - self._firsts[region]):
            found = _WORD.match(self._source.text, start)
            assert found is not None  # it has been read
            start = found.end()
        found = _WORD.match(self._source.text, start)
        assert found is not None
        return found.start(1)


_THREE_DECIMALS = 5e-4  # what rounding to three decimals moves one number by, at most
_COARSEST = 0.01
_DEFAULT = -1  # in place of a configuration
_AT_ONCE = 2**14  # numbers whose sums are taken together

_WHOLE, _CHILD_FIRST, _LISTED = range(3)


class Rows:
    """Rows of P(child | parents), of all families in their order, in a few arrays."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.numbers = Numbers(draft.source)
        self.defaults = Numbers(draft.source)  # the row of all other configurations, where a table has one
        self.configurations = array("q")  # of the parents, for each row of tables that list their rows
        self._kinds = bytearray()
        self._ends, self._configuration_ends = array("q", [0]), array("q", [0])
        self._default = array("q")  # where it begins; -1 if there is none

    def __len__(self) -> int:
        return len(self._kinds)

    def take_table(self, family: int, stretches: Iterable[tuple[int, int]], place: int) -> None:
        """Append a whole table, row by row, from stretches of the text; refuses another number of numbers."""
        before = len(self.numbers)
        for start, end in stretches:
            self.numbers.take(start, end)
        n, n_expected = len(self.numbers) - before, prod(self.draft.shape(family))
        if n != n_expected:
            child = shown(self.draft.name(self.draft.children[family]))
            self.draft.source.refuse(f"there are {n} numbers for {child}, and there should be {n_expected}", place)
        self.end_table()

    def end_table(self, *, child_first: bool = False) -> None:
        """Numbers from the last end to here are a table: row by row, or the child's first state before its second."""
        self._end(_CHILD_FIRST if child_first else _WHOLE, None)

    def end_rows(self, default: int | None) -> None:
        """Numbers from the last end to here are the rows of as many configurations; ``default`` is the place of one."""
        self._end(_LISTED, default)

    def _end(self, kind: int, default: int | None) -> None:
        self._kinds.append(kind)
        self._ends.append(len(self.numbers))
        self._configuration_ends.append(len(self.configurations))
        self._default.append(-1 if default is None else default)

    def written(self, family: int) -> _Written:
        """What the file gives for a family."""
        first, end, kind = self._ends[family], self._ends[family + 1], self._kinds[family]
        listed = None
        if kind == _LISTED:
            listed = self.configurations[self._configuration_ends[family] : self._configuration_ends[family + 1]]
        return _Written(self.draft, family, self.numbers, first, end - first, listed, kind == _CHILD_FIRST)

    def default(self, family: int) -> _Written | None:
        """The row of all configurations that the file does not list."""
        first, n = self._default[family], self.draft.n_states[self.draft.children[family]]
        if first < 0:
            return None
        return _Written(self.draft, family, self.defaults, first, n, array("q", [_DEFAULT]))


def finish(rows: Rows) -> CategoricalNetwork:
    """Make the network; refuses rows that are not distributions.

    A row of n numbers may miss 1 by n/2 units of the third decimal, but not by more than 0.01, and is divided by its
    sum: three thirds are published as 0.333.  A row that misses it by rounding alone is left as it stands, so that what
    was written is what is read.
    """
    for family in range(len(rows)):
        written, default = rows.written(family), rows.default(family)
        written.check_configurations(complete=default is None)
        if default is not None:
            default.normalise()
        written.normalise()
    return rows.draft.finish(_expanded(rows))  # only now: a default may stand for a million rows


def _expanded(rows: Rows) -> Iterator[NDArray[np.float64]]:
    """P(child | parents) of each family, shape (n_configurations, n_states)."""
    for family in range(len(rows)):
        written, default = rows.written(family), rows.default(family)
        table = written.matrix()
        if written.configurations is not None:
            table = np.zeros((rows.draft.n_configurations(family), table.shape[1]))
            if default is not None:
                table[:] = default.matrix()
            table[written.configurations] = written.matrix()
        yield table


@dataclass(slots=True)
class _Written:
    """Rows of a table, and what is said of them."""

    draft: Draft
    family: int
    numbers: Numbers
    first: int  # of the numbers, which go on with those of other tables
    n: int
    configurations: array[int] | None  # all of them in order, if None
    child_first: bool = False

    def matrix(self) -> NDArray[np.float64]:
        """A view of the numbers, shape (n_rows, n_states)."""
        flat, n_states = self.numbers.array(self.first, self.n), self.draft.n_states[self.draft.children[self.family]]
        return flat.reshape(n_states, -1).T if self.child_first else flat.reshape(-1, n_states)

    def check_configurations(self, *, complete: bool) -> None:
        """Refuse a second row of one configuration, and rows that are missing if they should not be."""
        if self.configurations is None:
            return
        found, first = np.unique(self.configurations, return_index=True)
        child = shown(self.draft.name(self.draft.children[self.family]))
        if len(found) < len(self.configurations):
            again = int(np.setdiff1d(np.arange(len(self.configurations)), first)[0])
            self._refuse(f"there is a second row for {child}{self._given(again)}; take one away", again)
        if complete and len(found) < self.draft.n_configurations(self.family):
            gap = np.flatnonzero(found != np.arange(len(found)))
            given = self.draft.given(self.family, int(gap[0]) if gap.size else len(found))
            cause = f"the table of {child} has no row{given}, and no default"
            self.draft.source.refuse(cause, self.draft.place(self.family))

    def normalise(self) -> None:
        """Divide rows by their sums, in place, where these miss 1 by more than rounding."""
        matrix = self.matrix()
        step = max(1, _AT_ONCE // matrix.shape[1])
        for first in range(0, len(matrix), step):
            self._normalise(matrix[first : first + step], first)

    def _normalise(self, matrix: NDArray[np.float64], first: int) -> None:
        n_states = matrix.shape[1]
        with np.errstate(over="ignore"):
            sums = matrix.sum(axis=1)
            wrong = np.abs(sums - 1) > min(n_states * _THREE_DECIMALS, _COARSEST) + 1e-9
        child = self.draft.children[self.family]
        bad = ~(matrix >= 0) | (matrix > 1 + _COARSEST)
        if bad.any():
            row, state = np.argwhere(bad)[0].tolist()
            label = shown(self.draft.label(child, state))
            which = f"the probability of {shown(self.draft.name(child))} = {label}{self._given(first + row)}"
            number = matrix[row, state]
            self._refuse(f"{which} is {number:.9g}; probabilities are numbers from 0 to 1", first + row, state)
        if wrong.any():
            row = int(np.argmax(wrong))
            which = f"the probabilities of {shown(self.draft.name(child))}{self._given(first + row)}"
            self._refuse(f"{which} sum to {sums[row]:.9g}; they must sum to 1", first + row)
        # dividing by the sum leaves n errors of at most eps/2 each, and adding them up again as many
        matrix /= np.where(np.abs(sums - 1) <= n_states * np.finfo(np.float64).eps, 1.0, sums)[:, None]
        np.abs(matrix, out=matrix)  # -0 is 0

    def _given(self, row: int) -> str:
        configuration = row if self.configurations is None else self.configurations[row]
        return " in the row 'default'" if configuration == _DEFAULT else self.draft.given(self.family, configuration)

    def _refuse(self, cause: str, row: int, state: int = 0) -> NoReturn:
        n_rows, n_states = self.matrix().shape
        number = state * n_rows + row if self.child_first else row * n_states + state
        self.draft.source.refuse(cause, self.numbers.place(self.first + number))
