"""`Spans`: names in a text, known by their places until one is asked for.

A name of two characters takes sixty bytes and more as an object, sixteen as the two ends of its place.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Finder", "Spans", "repeated"]


class Spans(Sequence[str]):
    """Names in the order in which their places were given."""

    __slots__ = ("_clean", "_ends", "_starts", "_text")

    def __init__(self, text: str, clean: Callable[[str], str]) -> None:
        self._text, self._clean = text, clean
        self._starts, self._ends = array("q"), array("q")

    def add(self, start: int, end: int) -> None:
        """Append the name that ``clean`` makes of ``text[start:end]``."""
        self._starts.append(start)
        self._ends.append(end)

    def cut(self, n: int) -> None:
        """Keep the first ``n``."""
        del self._starts[n:], self._ends[n:]

    def place(self, k: int) -> int:
        """Where name ``k`` begins."""
        return self._starts[k]

    def join(self, k: int, first: int, end: int) -> None:
        """Let name ``k`` be what names ``first`` to ``end - 1`` are, and what stands between them."""
        self._starts[k], self._ends[k] = self._starts[first], self._ends[end - 1]

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        return self._clean(self._text[self._starts[index] : self._ends[index]])


class Finder:
    """Which of ``n`` names of a sequence, from ``first`` on, a text is, counted from 0.

    ``find`` raises a KeyError for a text that is none of them.
    """

    __slots__ = ("_first", "_hashes", "_names", "_order", "find")

    FEW = 256  # names of which a dictionary is made

    def __init__(self, names: Sequence[str], first: int, n: int) -> None:
        self._names, self._first = names, first
        self.find: Callable[[str], int] = self._find
        if n <= self.FEW:
            self.find = {names[first + k]: k for k in range(n)}.__getitem__
        else:
            hashes = _hashes(names, first, n)
            self._order = np.argsort(hashes, kind="stable")
            self._hashes = hashes[self._order]

    def _find(self, name: str) -> int:
        at = int(np.searchsorted(self._hashes, hash(name)))
        while at < len(self._hashes) and self._hashes[at] == hash(name):
            k = int(self._order[at])
            if self._names[self._first + k] == name:
                return k
            at += 1
        raise KeyError(name)


def repeated(names: Sequence[str], first: int = 0) -> int | None:
    """Where a name stands, from ``first`` on, that stands there before; None if all differ."""
    n, seen = len(names) - first, set[str]()
    if n <= Finder.FEW:
        for k in range(first, len(names)):
            if names[k] in seen:
                return k
            seen.add(names[k])
        return None
    hashes = _hashes(names, first, n)
    hashes.sort()
    same = hashes[1:] == hashes[:-1]
    for at in filter(same.__getitem__, range(n - 1)):  # the first of them, but for two names of one hash
        for k in range(first, len(names)):
            if hash(names[k]) == hashes[at]:
                if names[k] in seen:
                    return k
                seen.add(names[k])
    return None


def _hashes(names: Sequence[str], first: int, n: int) -> NDArray[np.int64]:
    return np.fromiter((hash(names[first + k]) for k in range(n)), dtype=np.int64, count=n)
