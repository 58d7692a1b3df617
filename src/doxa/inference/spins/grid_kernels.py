"""Compiled loops of `doxa.inference.spins.grid`: bit l of a word is a site of block l
(`doxa.inference.spins.grid_layout`).

Sites of one word are of one colour, hence independent given the rest, and are drawn as 64 chains are
(`doxa.inference.spins.bit_parallel_kernels`); only the thresholds may differ from lane to lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa._jit import hot, inlined, lowest_bit
from doxa.inference.spins.batches import N_PLANES
from doxa.inference.spins.masks import MASKS, add_neighbour, begin_masks, class_of
from doxa.inference.spins.random_words import next_word, next_words
from doxa.inference.spins.words import load, same, store

__all__ = ["N_COUNTERS", "advance_grid"]

N_COUNTERS = 8  # binary digits of a lane's tally
_SETTLE_EVERY = 2**N_COUNTERS - 1

_ALL = 2**64 - 1
_DIGITS = np.uint64(N_PLANES)
_TO_UNIT = 2.0**-64


@hot
def advance_grid(
    layout: Any,
    tables: Any,
    words: Any,
    streams: Any,
    work: Any,
    tallies: Any,
    sums: Any,
    counts: Any,
    n_sites: int,
    n_steps: int,
    thin: int,
    draws: Any,
) -> None:
    """Sweep ``n_steps`` times, one colour after the other; ``tallies`` is empty without marginals."""
    energy, magnetisation, up, packed = draws
    unsettled = 0
    for step in range(1, n_steps + 1):
        _renew_halo(layout, words)
        for b in range(layout.n_first):
            _draw_batch(layout, tables, b, words, streams, work, tallies)
        _renew_halo(layout, words)
        for b in range(layout.n_first, layout.batches.shape[0]):
            _draw_batch(layout, tables, b, words, streams, work, tallies)
        unsettled += 1
        if tallies.size > 0 and (unsettled == _SETTLE_EVERY or step % thin == 0):
            _settle(layout, tables, tallies, sums, counts, unsettled)
            unsettled = 0
        if step % thin == 0:
            kept = step // thin - 1
            _renew_halo(layout, words)
            energy[kept], magnetisation[kept] = _measure(layout, tables, words, n_sites)
            _record(layout, words, sums, thin, up[kept], packed[kept])


@inlined
def _renew_halo(layout: Any, words: Any) -> None:
    """Bits of the words at the edges of the blocks, moved to the next block; around the torus where the last ends."""
    h, w, across = layout.h, layout.w, np.uint64(layout.n_across)
    n_lanes = np.uint64(layout.n_down * layout.n_across)
    lanes = np.uint64(_ALL) >> (np.uint64(64) - n_lanes)
    first = np.uint64(0)  # lanes of the blocks of the first column
    for a in range(layout.n_down):
        first |= np.uint64(1) << np.uint64(a * layout.n_across)
    last = first << (across - np.uint64(1))
    halo = h * w
    rest = n_lanes - across
    if rest == np.uint64(0):  # one block high: a shift by all 64 bits is not defined
        for x in range(w):
            words[halo + x] = words[(h - 1) * w + x]
            words[halo + w + x] = words[x]
    else:
        for x in range(w):
            value = words[(h - 1) * w + x] & lanes
            words[halo + x] = ((value << across) | (value >> rest)) & lanes
            value = words[x] & lanes
            words[halo + w + x] = ((value >> across) | (value << rest)) & lanes
    one, back = np.uint64(1), across - np.uint64(1)
    for y in range(h):
        value = words[y * w + w - 1]
        words[halo + 2 * w + y] = ((value << one) & ~first & lanes) | ((value >> back) & first)
        value = words[y * w]
        words[halo + 2 * w + h + y] = ((value >> one) & ~last) | ((value << back) & last)


@inlined
def _draw_batch(layout: Any, tables: Any, b: int, words: Any, streams: Any, work: Any, tallies: Any) -> None:
    n_classes = tables.n_classes
    begin_masks(work)
    top = 0
    for j in range(4):
        for w in range(8):
            word = layout.batches[b, w]
            work[w] = words[layout.near[word, j]] if word < layout.near.shape[0] else np.uint64(0)
        place = 32 * b + 8 * j
        up = (load(work, 0) ^ load(tables.turned, place)) & load(tables.present, place)
        top = add_neighbour(work, up, top, tables.strides[j])
    if tallies.size > 0:
        for m in range(n_classes):
            _count(tallies, 8 * N_COUNTERS * (n_classes * b + m), load(work, MASKS + 8 * m))
    undecided = same(np.uint64(_ALL))
    up = undecided ^ undecided
    place = tables.planes_at[b]
    for _ in range(N_PLANES):
        threshold = undecided ^ undecided
        for m in range(n_classes):
            threshold = threshold | (load(work, MASKS + 8 * m) & load(tables.planes, place + 8 * m))
        place += 8 * n_classes
        u = next_words(streams)
        up = up | (undecided & threshold & ~u)
        undecided = undecided & ~(threshold ^ u)
    store(work, 0, up)
    store(work, 8, undecided)
    for w in range(8):
        word = layout.batches[b, w]
        if word >= layout.near.shape[0]:
            break  # filled up: no random words for it
        found = work[w]
        left = work[8 + w]
        while left != np.uint64(0):
            lane = np.uint64(lowest_bit(left))
            left &= left - np.uint64(1)
            m = class_of(work, w, lane)
            rest = tables.thresholds[tables.table[64 * word + np.int64(lane)] + m] << _DIGITS
            if next_word(streams, w) >> _DIGITS < rest >> _DIGITS:
                found |= np.uint64(1) << lane
        words[word] = found


@inlined
def _count(tallies: Any, place: int, carry: Any) -> None:
    """Add one to the tallies of the lanes of ``carry``: digit d of the 64 tallies of word w is entry 8 d + w."""
    for d in range(N_COUNTERS):
        digit = load(tallies, place + 8 * d)
        store(tallies, place + 8 * d, digit ^ carry)
        carry = digit & carry


@hot
def _settle(layout: Any, tables: Any, tallies: Any, sums: Any, counts: Any, largest: int) -> None:
    """Add the probabilities that the tallies stand for to ``sums`` (word, lane), and begin new tallies."""
    n_digits = 0
    while (1 << n_digits) <= largest:
        n_digits += 1
    for b in range(layout.batches.shape[0]):
        for m in range(tables.n_classes):
            for w in range(8):
                word = layout.batches[b, w]
                if word >= layout.near.shape[0]:
                    continue
                place = 8 * N_COUNTERS * (tables.n_classes * b + m) + w
                counts[:] = 0
                for d in range(n_digits):
                    digit = tallies[place + 8 * d]
                    for lane in range(64):
                        counts[lane] += ((digit >> np.uint64(lane)) & np.uint64(1)) << np.uint64(d)
                for lane in range(64):
                    threshold = tables.thresholds[tables.table[64 * word + lane] + m]
                    sums[64 * word + lane] += float(counts[lane]) * (float(threshold) * _TO_UNIT)
    tallies[:] = 0


@hot
def _measure(layout: Any, tables: Any, words: Any, n_sites: int) -> tuple[float, float]:
    """Energy -sum J s s - sum h s and mean spin; halo words are fresh, and lanes without a site have no couplings."""
    energy = 0.0
    n_up = 0
    for word in range(layout.near.shape[0]):
        spin = words[word]
        right, below = spin ^ words[layout.near[word, 3]], spin ^ words[layout.near[word, 1]]
        found = 0.0
        for lane in range(64):
            place, bit = 64 * word + lane, np.uint64(lane)
            a, c, f = tables.right[place], tables.below[place], tables.fields[place]
            found += a if (right >> bit) & np.uint64(1) else -a
            found += c if (below >> bit) & np.uint64(1) else -c
            found -= f if (spin >> bit) & np.uint64(1) else -f
            if layout.site[word, lane] >= 0 and (spin >> bit) & np.uint64(1):
                n_up += 1
        energy += found
    return energy, 2.0 * n_up / n_sites - 1.0


@hot
def _record(layout: Any, words: Any, sums: Any, thin: int, up: Any, packed: Any) -> None:
    """Means and spins, site by site; begin new sums."""
    if up.size == 0 and packed.size == 0:
        return
    packed[:] = 0
    for word in range(layout.near.shape[0]):
        for lane in range(64):
            site = layout.site[word, lane]
            if site < 0:
                continue
            if up.size > 0:
                up[site] = sums[64 * word + lane] / thin
                sums[64 * word + lane] = 0.0
            if packed.size > 0:
                bit = np.uint8((words[word] >> np.uint64(lane)) & np.uint64(1))
                packed[site >> 3] |= bit << (7 - (site & 7))
