"""Counts from packed draws: a compiled walk that visits only the bits that changed.

Successive graphs of a structure chain differ in a few edges, so the exclusive or of two draws is almost empty: a stay
in state 1 is added to its batch when it ends (or when the batch does), not draw by draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from doxa._jit import compiled, lowest_bit

__all__ = ["count_words"]


@compiled
def count_words(
    words: NDArray[np.uint64],
    masks: NDArray[np.uint64],
    edges: NDArray[np.int64],
    ones: NDArray[np.int64],
    rises: NDArray[np.int64],
    falls: NDArray[np.int64],
    middle: NDArray[np.bool_],
) -> None:
    """Count ones a batch, switches a chain and the middle state, into the last four arguments (zero on entry)."""
    n_chains, n_draws, n_rows, n_words = words.shape
    zero = np.uint64(0)
    one = np.uint64(1)
    since = np.zeros((n_rows, 64 * n_words), dtype=np.int64)
    for chain in range(n_chains):
        batch = 0
        for draw in range(n_draws):
            for row in range(n_rows):
                for word in range(n_words):
                    now = words[chain, draw, row, word] & masks[word]
                    before = words[chain, draw - 1, row, word] & masks[word] if draw > 0 else zero
                    changed = now ^ before
                    while changed != zero:
                        place: int = lowest_bit(changed)  # type: ignore[call-arg, unused-ignore]
                        changed &= changed - one
                        bit = 64 * word + place
                        if (now >> np.uint64(place)) & one != zero:
                            since[row, bit] = draw
                            if draw > 0:
                                rises[chain, row, bit] += 1
                        else:
                            ones[chain, batch, row, bit] += draw - since[row, bit]
                            falls[chain, row, bit] += 1
            ends_batch = draw + 1 == edges[batch + 1]
            is_middle = draw == n_draws // 2
            if not (ends_batch or is_middle):
                continue
            for row in range(n_rows):
                for word in range(n_words):
                    left = words[chain, draw, row, word] & masks[word]
                    while left != zero:
                        bit = 64 * word + lowest_bit(left)  # type: ignore[call-arg, unused-ignore]
                        left &= left - one
                        if is_middle:
                            middle[chain, row, bit] = True
                        if ends_batch:
                            ones[chain, batch, row, bit] += draw + 1 - since[row, bit]
                            since[row, bit] = draw + 1
            if ends_batch:
                batch += 1
