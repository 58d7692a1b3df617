"""Rows of a Boolean matrix as bit sets: 64 columns to a word, any number of words a row.

Bit ``j % 64`` of word ``j // 64`` of row ``i`` is entry ``[i, j]``.  Graphs are stored this way in
kernels, draws and run files: an ALARM-sized graph (37 nodes) takes 296 bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["n_words", "pack_rows", "unpack_rows"]


def n_words(n_bits: int) -> int:
    """Number of 64-bit words that hold ``n_bits`` bits; at least one."""
    return max(1, -(-n_bits // 64))


def pack_rows(matrix: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack the last axis of a Boolean array into 64-bit words."""
    matrix = np.asarray(matrix, dtype=np.bool_)
    n_bits = matrix.shape[-1]
    padded = np.zeros((*matrix.shape[:-1], 64 * n_words(n_bits)), dtype=np.bool_)
    padded[..., :n_bits] = matrix
    octets = np.packbits(padded, axis=-1, bitorder="little")
    return octets.view("<u8").astype(np.uint64, copy=False)


def unpack_rows(words: NDArray[np.uint64], n_bits: int) -> NDArray[np.bool_]:
    """Undo `pack_rows`: words of shape (..., n_words) to bool of shape (..., n_bits)."""
    octets = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n_bits, bitorder="little").view(np.bool_)
