"""Names of the arrays that nearly every kernel takes, so that a signature says what it wants in a word."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bits", "Flags", "Floats", "Ints", "Words"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]  # bit sets, see `doxa.models.bits`, and states of random streams
Flags: TypeAlias = NDArray[np.bool_]
Bits: TypeAlias = NDArray[np.int8]  # cells with two states: 0 and 1, and -1 where one is missing
