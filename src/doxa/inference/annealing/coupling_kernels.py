"""Loops of `doxa.inference.annealing.coupling`: the highest and the lowest states of 512 monotone couplings."""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa._jit import hot, inlined
from doxa.inference.annealing.spin_kernels import any_bit, write_masks
from doxa.inference.spins.masks import MASKS
from doxa.inference.spins.random_words import next_words
from doxa.inference.spins.words import N_WORDS, chosen, load, same, store

__all__ = ["SPARE", "couple_spins"]

_ALL = 2**64 - 1
_DIGITS = 12  # of every comparison, from the main streams, needed or not; one in eight sites needs more
SPARE = MASKS + N_WORDS * 64  # in the work space: where the masks of the highest states begin


@hot
def couple_spins(
    spins: Any, thresholds: Any, n_sweeps: int, high: Any, low: Any, streams: Any, more: Any, work: Any
) -> None:
    """Sweep both states with the same random numbers.

    What is drawn from ``streams`` depends on the number of sites and sweeps alone: a run that begins earlier, in other
    states, must do with the same numbers the same thing from here on.  Digits beyond the twelfth come from a stream
    of their own, ``more``, begun anew at every site from what the main streams hold then.
    """
    for _ in range(n_sweeps):
        for i in range(spins.n_classes.size):
            first, n_classes = spins.table[i], spins.n_classes[i]
            write_masks(spins, i, high, work)
            for c in range(N_WORDS * n_classes):
                work[SPARE + c] = work[MASKS + c]
            write_masks(spins, i, low, work)
            undecided = same(np.uint64(_ALL))
            up_high = undecided ^ undecided
            up_low, left_high, left_low = up_high, undecided, undecided
            for digit in range(64):
                if digit < _DIGITS:
                    u = next_words(streams)
                else:
                    if not any_bit(left_high | left_low):
                        break
                    if digit == _DIGITS:
                        for c in range(streams.size):
                            more[c] = ~streams[c]
                    u = next_words(more)
                t = _digit(thresholds, first, n_classes, digit, SPARE, work)
                up_high = up_high | (left_high & t & ~u)
                left_high = left_high & ~(t ^ u)
                t = _digit(thresholds, first, n_classes, digit, MASKS, work)
                up_low = up_low | (left_low & t & ~u)
                left_low = left_low & ~(t ^ u)
            store(high, N_WORDS * i, up_high)
            store(low, N_WORDS * i, up_low)


@inlined
def _digit(thresholds: Any, first: int, n_classes: int, digit: int, masks: int, work: Any) -> Any:
    found = same(np.uint64(0))
    for m in range(n_classes):
        table = same(thresholds[first + m])
        found = found | chosen(load(work, masks + N_WORDS * m), table, np.uint64(63 - digit))
    return found
