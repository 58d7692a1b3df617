"""`Places`: which part of one long array a table lives in."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["Places"]

_SMALL = 4096  # numbers; fewer are not worth a search for a gap


class Places:
    """Places in an array that grows at its end; the smallest gap that is wide enough is filled first.

    Examples
    --------
    >>> places = Places(100)
    >>> places.take(5000), places.take(5000), places.end
    (100, 5100, 10100)
    >>> places.give_back(100, 5000)
    >>> places.take(4500), places.end
    (100, 10100)
    """

    def __init__(self, start: int) -> None:
        self.end = start  # length of the array so far
        self._gaps: list[tuple[int, int]] = []  # (first, end), increasing, never touching

    def take(self, size: int) -> int:
        """Find a place for ``size`` numbers."""
        fits = [gap for gap in self._gaps if gap[1] - gap[0] >= size] if size >= _SMALL else []
        if fits:
            first, end = min(fits, key=lambda gap: (gap[1] - gap[0], gap))
            at = self._gaps.index((first, end))
            self._gaps[at : at + 1] = [(first + size, end)] if first + size < end else []
            return first
        last_gap_grows = self._gaps and size >= _SMALL and self._gaps[-1][1] == self.end
        first = self._gaps.pop()[0] if last_gap_grows else self.end
        self.end = first + size
        return first

    def give_back(self, first: int, size: int) -> None:
        """Free a place; small ones stay taken."""
        if size < _SMALL:
            return
        end = first + size
        at = bisect_left(self._gaps, (first, end))
        if at < len(self._gaps) and self._gaps[at][0] == end:
            end = self._gaps.pop(at)[1]
        if at and self._gaps[at - 1][1] == first:
            at -= 1
            first = self._gaps.pop(at)[0]
        self._gaps.insert(at, (first, end))
