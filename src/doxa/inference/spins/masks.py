"""Which of 64 lanes are in which class, for eight words at once: what 64 chains and 64 blocks of a grid share."""

from __future__ import annotations

from typing import Any

import numpy as np

from doxa._jit import inlined
from doxa.inference.spins.words import load, same, store

__all__ = ["MASKS", "WORK_SIZE", "add_neighbour", "begin_masks", "class_of"]

MASKS = 16  # work space: two values, then a mask for each of at most 64 classes
WORK_SIZE = MASKS + 8 * 64

_ALL = 2**64 - 1


@inlined
def begin_masks(work: Any) -> None:
    """Every lane in class 0: no neighbour has been added."""
    store(work, MASKS, same(np.uint64(_ALL)))


@inlined
def add_neighbour(work: Any, up: Any, top: int, stride: int) -> int:
    """Move the lanes of ``up`` by ``stride`` classes; return the new highest class."""
    for m in range(top + stride, -1, -1):
        place = MASKS + 8 * m
        if m > top:
            store(work, place, load(work, place - 8 * stride) & up)
        elif m >= stride:
            store(work, place, (load(work, place) & ~up) | (load(work, place - 8 * stride) & up))
        else:
            store(work, place, load(work, place) & ~up)
    return top + stride


@inlined
def class_of(work: Any, w: int, lane: Any) -> int:
    """The class of one lane of word ``w``."""
    m = 0
    while (work[MASKS + 8 * m + w] >> lane) & np.uint64(1) == np.uint64(0):
        m += 1
    return m
