"""Random 64-bit words for compiled kernels: eight streams of xoshiro256++ side by side (Blackman & Vigna 2021).

The state is an array of a sampler's own, so that runs go on where they stopped, and a call costs nothing where passing
a NumPy generator costs 13 microseconds.  Each stream begins at 256 random bits of the chain's generator; that two of K
streams overlap within n words of each has probability at most n K^2 / 2^256.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa._jit import inlined
from doxa.inference.spins.words import N_WORDS, load, rotated, shifted_left, store

__all__ = ["fresh_streams", "next_word", "next_words", "uniform"]

_TO_UNIT = 2.0**-53


def fresh_streams(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of eight streams, shape (32,): word w of stream k is entry 8 w + k."""
    return rng.integers(0, 2**64, 4 * N_WORDS, dtype=np.uint64)


@inlined
def next_words(streams: Any) -> Any:
    """The next word of every stream, as one value of `doxa.inference.spins.words`."""
    a, b, c, d = load(streams, 0), load(streams, 8), load(streams, 16), load(streams, 24)
    found = rotated(a + d, np.uint64(23)) + a
    t = shifted_left(b, np.uint64(17))
    c = c ^ a
    d = d ^ b
    store(streams, 8, b ^ c)
    store(streams, 0, a ^ d)
    store(streams, 16, c ^ t)
    store(streams, 24, rotated(d, np.uint64(45)))
    return found


@inlined
def next_word(streams: Any, k: int) -> Any:
    """The next word of stream ``k`` alone."""
    a, b, c, d = streams[k], streams[8 + k], streams[16 + k], streams[24 + k]
    found = _rotated(a + d, 23) + a
    t = b << np.uint64(17)
    c ^= a
    d ^= b
    streams[8 + k] = b ^ c
    streams[k] = a ^ d
    streams[16 + k] = c ^ t
    streams[24 + k] = _rotated(d, 45)
    return found


@inlined
def uniform(streams: Any, k: int) -> float:
    """A number from {0, 1, ..., 2^53 - 1} / 2^53, of stream ``k``."""
    return float(next_word(streams, k) >> np.uint64(11)) * _TO_UNIT


@inlined
def _rotated(value: Any, left: int) -> Any:
    return (value << np.uint64(left)) | (value >> np.uint64(64 - left))
