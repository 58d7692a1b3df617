"""Numbers of a table, taken from a text in bulk; each knows its place, should it prove wrong.

Pieces of a few kilobytes are split and converted by C code, so time is linear and what is held beside the text are the
numbers themselves, 8 bytes for at least two characters.  A piece that is not numbers alone, because of a comment or a
mistake, is taken again, word by word.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from doxa.models.network_files.source import Source, shown

__all__ = ["COMMENTS", "Numbers"]

COMMENTS = r"(?:[\s,]++|//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*+/)*+"  # what may stand between numbers

_PIECE = 2**14
_BULK = re.compile(r"[0-9eE+\-.,\s]*+")  # without letters no nan and no inf; without "_" no Python literals
_NUMBER = re.compile(r"[+-]?+(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")
_WORD = re.compile(rf"{COMMENTS}([^\s,;(){{}}<>/\"]++|.)?+", re.DOTALL)
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
