"""Sufficient statistics of 0/1 draws: ones in every batch, switches in every chain, differences at doubling lags.

Everything `doxa.estimates.indicators` reports is a closed form of these counts, so draws of graphs are read once,
packed, and never unpacked into floating-point arrays.

Counts from packed draws: a compiled walk that visits only the bits that changed.

Successive graphs of a structure chain differ in a few edges, so the exclusive or of two draws is almost empty: a stay
in state 1 is added to its batch when it ends (or when the batch does), not draw by draw.  Few draws are unpacked
all the same and counted by NumPy, for which nothing is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa._jit import compact, hot, lowest_bit
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.batches import batch_edges
from doxa.text import a_kind

__all__ = ["IndicatorCounts", "count_words"]


@compact
def count_words(
    words: NDArray[np.uint64],
    folded: bool,
    slots: NDArray[np.int64],
    edges: NDArray[np.int64],
    counted: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]],
    work: tuple[NDArray[np.uint64], NDArray[np.int64]],
) -> None:
    """Count, into arrays of zeros: ones a batch, switches a chain (rises, then falls), the middle state, and the pairs
    of draws 2, 4, 8, ... apart that differ, the last draw being followed by the first.

    ``slots`` says for each bit which place it has in these, or -1; ``work`` is space for the latest draws, twice as
    many as the largest lag, and for a number of each slot.
    """
    n_chains, n_draws, n_rows, n_words = words.shape
    zero, one = np.uint64(0), np.uint64(1)
    ones, switches, middle, differing = counted
    rows, since = work
    last = rows.shape[0] - 1
    for chain in range(n_chains):
        batch = 0
        for draw in range(n_draws):
            before, latest = (draw - 1) & last, draw & last
            _take(words, chain, draw, folded, rows, latest)
            for k in range(differing.shape[0]):
                if draw >= 2 << k:
                    _compare(rows, latest, (draw - (2 << k)) & last, slots, differing, k)
            for row in range(n_rows):
                for word in range(n_words):
                    now = rows[latest, row, word]
                    changed = now ^ rows[before, row, word] if draw > 0 else now
                    while changed != zero:
                        place: int = lowest_bit(changed)  # type: ignore[call-arg, unused-ignore]
                        changed &= changed - one
                        slot = slots[row, 64 * word + place]
                        if slot < 0:
                            continue
                        if (now >> np.uint64(place)) & one != zero:
                            since[slot] = draw
                            if draw > 0:
                                switches[0, chain, slot] += 1
                        else:
                            ones[chain, batch, slot] += draw - since[slot]
                            switches[1, chain, slot] += 1
            ends_batch = draw + 1 == edges[batch + 1]
            is_middle = draw == n_draws // 2
            if not (ends_batch or is_middle):
                continue
            for row in range(n_rows):
                for word in range(n_words):
                    left = rows[latest, row, word]
                    while left != zero:
                        slot = slots[row, 64 * word + lowest_bit(left)]  # type: ignore[call-arg, unused-ignore]
                        left &= left - one
                        if slot < 0:
                            continue
                        if is_middle:
                            middle[chain, slot] = True
                        if ends_batch:
                            ones[chain, batch, slot] += draw + 1 - since[slot]
                            since[slot] = draw + 1
            if ends_batch:
                batch += 1
        for draw in range(n_draws, n_draws + (1 << differing.shape[0])):
            _take(words, chain, draw - n_draws, folded, rows, draw & last)
            for k in range(differing.shape[0]):
                if draw - n_draws < 2 << k:
                    _compare(rows, draw & last, (draw - (2 << k)) & last, slots, differing, k)


@hot
def _compare(
    rows: NDArray[np.uint64], draw: int, other: int, slots: NDArray[np.int64], differing: NDArray[np.int64], k: int
) -> None:
    """Count in ``differing[k]`` the bits in which two draws differ."""
    _, n_rows, n_words = rows.shape
    zero, one = np.uint64(0), np.uint64(1)
    for row in range(n_rows):
        for word in range(n_words):
            left = rows[draw, row, word] ^ rows[other, row, word]
            while left != zero:
                slot = slots[row, 64 * word + lowest_bit(left)]  # type: ignore[call-arg, unused-ignore]
                left &= left - one
                if slot >= 0:
                    differing[k, slot] += 1


@hot
def _take(words: NDArray[np.uint64], chain: int, draw: int, folded: bool, rows: NDArray[np.uint64], place: int) -> None:
    """Write a draw into ``rows``; folded, every bit j of a row i > j stands as bit i of row j."""
    _, _, n_rows, n_words = words.shape
    zero, one = np.uint64(0), np.uint64(1)
    for row in range(n_rows):
        for word in range(n_words):
            rows[place, row, word] = zero if folded else words[chain, draw, row, word]
    if not folded:
        return
    for row in range(n_rows):
        for word in range(n_words):
            left = words[chain, draw, row, word]
            while left != zero:
                bit = 64 * word + lowest_bit(left)  # type: ignore[call-arg, unused-ignore]
                left &= left - one
                low, high = (row, bit) if row < bit else (bit, row)
                if low < n_rows:
                    rows[place, low, high >> 6] |= one << np.uint64(high & 63)


_FEW = 4_000_000  # bits: so many are counted in less time than the walk takes to be compiled
MIN_DRAWS = 4  # two draws in each half of a chain, as split R-hat needs
LAG_SHARE = 16  # of a chain is the largest lag: beyond it, batches are the better measure
LAG_BYTES = 1 << 23  # at most, of the latest draws of one chain


def doubling_lags(n_draws: int, draw_bytes: int = 1) -> NDArray[np.int64]:
    """Lags 2, 4, 8, ... up to a sixteenth of a chain of ``n_draws``, of so many bytes a draw.

    >>> doubling_lags(500), doubling_lags(100_000, 1 << 17)
    (array([ 2,  4,  8, 16]), array([ 2,  4,  8, 16, 32]))
    """
    largest = min(n_draws // LAG_SHARE, LAG_BYTES // draw_bytes // 2)
    return np.left_shift(1, np.arange(1, max(largest, 1).bit_length(), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class IndicatorCounts:
    """Counts of 0/1 quantities over several chains.

    ``ones``, shape (n_chains, n_batches, ...), are the draws in state 1, by batch; the trailing axes are the
    quantities'.  ``rises`` and ``falls``, shape (n_chains, ...), are the switches between successive draws of a chain,
    and ``middle`` the state at draw ``n_draws // 2``, which split R-hat leaves out when the number of draws is odd.
    ``edges`` are the first draws of the batches, and the number of draws a chain.  ``differing``, shape (n_lags, ...),
    are the pairs of draws of one chain, 2, 4, 8, ... apart, that differ, over all chains (`doubling_lags`).  There the
    last draw is followed by the first, so that every draw is in two pairs: without that, a visit at the end of a chain
    would seem to last.
    """

    ones: NDArray[np.int64]
    rises: NDArray[np.int64]
    falls: NDArray[np.int64]
    middle: NDArray[np.bool_]
    edges: NDArray[np.int64]
    differing: NDArray[np.int64]

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.ones.shape[0])

    @property
    def n_draws(self) -> int:
        """Draws in each chain."""
        return int(self.edges[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of quantities."""
        return tuple(int(n) for n in self.ones.shape[2:])

    @classmethod
    def from_draws(cls, draws: ArrayLike) -> IndicatorCounts:
        """Count zeros and ones, shape (n_chains, n_draws, ...): at least one chain and 4 draws."""
        draws = np.asarray(draws)
        if draws.dtype != np.bool_ and not np.issubdtype(draws.dtype, np.integer):
            raise ArgumentTypeError(
                f"draws has dtype {draws.dtype}; 0/1 draws must be booleans or integers (int8 is enough)"
            )
        _check_axes("draws", draws.shape, 2)
        if draws.dtype != np.bool_:
            if draws.size and (draws.min() < 0 or draws.max() > 1):
                raise ArgumentError(
                    f"draws contains {draws.min() if draws.min() < 0 else draws.max()}; every value must be 0 or 1"
                )
            draws = draws.astype(np.bool_)
        n_draws = draws.shape[1]
        edges = batch_edges(n_draws)
        runs = np.ascontiguousarray(np.moveaxis(draws, 1, -1))
        ones = _ones(runs, edges)
        lags = [1, *doubling_lags(n_draws).tolist()]
        n_bits = n_draws + lags[-1]
        around = np.zeros((*runs.shape[:-1], -(-n_bits // 64) * 64), dtype=np.bool_)  # whole words
        around[..., :n_draws], around[..., n_draws:n_bits] = runs, runs[..., : lags[-1]]  # after the last, the first
        words = np.packbits(around, axis=-1, bitorder="little").view("<u8")
        differing = np.stack([_differing(words, lag, n_draws) for lag in lags])
        gained = runs[..., -1].astype(np.int64) - runs[..., 0]  # rises less falls
        switches = differing[0] - np.abs(gained)
        rises, falls = (switches + gained) // 2, (switches - gained) // 2
        batches = np.ascontiguousarray(np.moveaxis(ones, -1, 1))
        middle = runs[..., n_draws // 2].copy()
        return cls(batches, rises, falls, middle, edges, differing[1:].sum(axis=1))

    @classmethod
    def from_words(cls, words: NDArray[np.uint64], n_bits: int) -> IndicatorCounts:
        """Count draws packed 64 to a word, as graphs are stored: uint64 of shape (n_chains, n_draws, n_rows, n_words).

        Bit ``b`` of row ``r`` is ``(words[..., r, b // 64] >> (b % 64)) & 1``; bits from ``n_bits`` on are ignored, and
        the quantities have shape (n_rows, n_bits).  The cost is one comparison a word and one step a *changed* bit,
        plus one pass over the set bits at every end of a batch.
        """
        _check_words(words, n_bits)
        every = np.ones((words.shape[2], n_bits), dtype=np.bool_)
        counts = cls._of_slots(words, every, folded=False)

        def shaped(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(*values.shape[:-1], *every.shape)

        arrays = counts.ones, counts.rises, counts.falls, counts.middle, counts.differing
        ones, rises, falls, middle, differing = map(shaped, arrays)
        return cls(ones, rises, falls, middle, counts.edges, differing)

    @classmethod
    def of_present(
        cls, words: NDArray[np.uint64], n_bits: int, *, folded: bool = False
    ) -> tuple[NDArray[np.bool_], IndicatorCounts]:
        """Which bits of packed draws are ever set, (n_rows, n_bits), and the counts of these alone, in their order.

        Of the million edges of a thousand nodes a posterior has a few thousand.  ``folded`` takes bit j of row i and
        bit i of row j for one, that of the smaller row: pairs of nodes that are joined.

        Examples
        --------
        >>> words = np.array([[[[2], [0]], [[0], [1]], [[0], [0]], [[0], [1]]]], dtype=np.uint64)
        >>> present, counts = IndicatorCounts.of_present(words, 2, folded=True)
        >>> present.tolist(), counts.ones.sum(axis=(0, 1)), counts.rises
        ([[False, True], [False, False]], array([3]), array([[1]]))
        """
        _check_words(words, n_bits)
        present = unpack_bits(np.bitwise_or.reduce(words, axis=(0, 1)), n_bits)
        if folded:
            present = _folded(present)
        return present, cls._of_slots(words, present, folded=folded)

    @classmethod
    def _of_slots(cls, words: NDArray[np.uint64], present: NDArray[np.bool_], *, folded: bool) -> IndicatorCounts:
        n_chains, n_draws, n_rows, n_words = words.shape
        edges, total = batch_edges(n_draws), int(present.sum())
        if n_chains * n_draws * present.size <= _FEW:
            draws = unpack_bits(words, present.shape[1])
            return cls.from_draws((_folded(draws) if folded else draws)[:, :, present])
        slots = np.full((n_rows, 64 * n_words), -1, dtype=np.int64)
        slots[:, : present.shape[1]][present] = np.arange(total)
        ones = np.zeros((n_chains, edges.size - 1, total), dtype=np.int64)
        switches = np.zeros((2, n_chains, total), dtype=np.int64)
        middle = np.zeros((n_chains, total), dtype=np.bool_)
        lags = doubling_lags(n_draws, words.dtype.itemsize * n_rows * n_words)
        differing = np.zeros((lags.size, total), dtype=np.int64)
        latest = np.zeros((2 << lags.size, n_rows, n_words), dtype=np.uint64)
        work = latest, np.zeros(total, dtype=np.int64)
        words = np.ascontiguousarray(words).view()
        words.flags.writeable = False  # draws may be on the disk: one form of array is compiled for, not two
        count_words(words, folded, slots, edges, (ones, switches, middle, differing), work)
        return cls(ones, switches[0], switches[1], middle, edges, differing)


def _differing(words: NDArray[np.uint64], lag: int, n_draws: int) -> NDArray[np.int64]:
    """How many of the first ``n_draws`` bits of the last axis differ from that ``lag`` later."""
    n_words, (skipped, shift) = -(-n_draws // 64), divmod(lag, 64)
    changed = words[..., skipped : skipped + n_words] >> np.uint64(shift)
    if shift:
        following = words[..., skipped + 1 : skipped + 1 + n_words]
        changed[..., : following.shape[-1]] |= following << np.uint64(64 - shift)
    changed ^= words[..., :n_words]
    changed[..., -1] &= np.uint64(2**64 - 1) >> np.uint64(-n_draws % 64)
    found: NDArray[np.int64] = np.bitwise_count(changed).sum(axis=-1, dtype=np.int64)
    return found


def _ones(runs: NDArray[np.bool_], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many are set in each batch of the last axis, by way of batches so short that a byte holds their number."""
    n_batches, n_draws, parts = edges.size - 1, int(edges[-1]), 1
    while n_draws > 255 * n_batches * parts:
        parts *= 2
    starts = np.arange(n_batches * parts) * n_draws // (n_batches * parts)
    counts = np.add.reduceat(runs.view(np.uint8), starts, axis=-1, dtype=np.uint8)
    ones: NDArray[np.int64] = counts.reshape(*runs.shape[:-1], n_batches, parts).sum(axis=-1, dtype=np.int64)
    return ones


def _folded(draws: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bit j of row i and bit i of row j as one, that of the smaller row; shape (..., n_rows, n_bits)."""
    n_rows, n_bits = draws.shape[-2:]
    n = max(n_rows, n_bits)
    both = np.zeros((*draws.shape[:-2], n, n), dtype=np.bool_)
    both[..., :n_rows, :n_bits] = draws
    return np.triu(both | both.swapaxes(-1, -2))[..., :n_rows, :n_bits]


def _check_words(words: NDArray[np.uint64], n_bits: int) -> None:
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 4:
        seen = f"an array of {words.dtype} with {words.ndim} axes" if isinstance(words, np.ndarray) else a_kind(words)
        raise ArgumentTypeError(f"words is {seen}; it must be a uint64 array of shape (chain, draw, row, word)")
    _check_axes("words", words.shape, 4)
    if not 1 <= n_bits <= 64 * words.shape[3]:
        n_words = words.shape[3]
        raise ArgumentError(f"n_bits is {n_bits}; it must be from 1 to {64 * n_words}, the bits in {n_words} words")


def unpack_bits(words: NDArray[np.uint64], n_bits: int) -> NDArray[np.bool_]:
    """The first bits of every row of 64-bit words."""
    octets = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., :n_bits].astype(np.bool_)


def _check_axes(name: str, shape: tuple[int, ...], n_axes: int) -> None:
    """Raise unless the first two axes can be chains and draws."""
    if len(shape) < n_axes:
        raise ArgumentError(f"{name} has shape {shape}; it needs the axes (chain, draw, ...)")
    if shape[0] < 1:
        raise ArgumentError(f"{name} has no chain; the first axis must have length 1 or more")
    if shape[1] < MIN_DRAWS:
        raise ArgumentError(
            f"{name} has {shape[1]} draws a chain; at least {MIN_DRAWS} are needed to estimate an error"
        )
