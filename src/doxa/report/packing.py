"""Numbers as text in little room: two characters each, in base 64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIGITS", "LEVELS", "packed", "unpacked"]

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LEVELS = len(DIGITS) ** 2 - 1  # steps from the lowest to the highest number; a drawing shows fewer


def packed(values: NDArray[Any], low: float, high: float) -> str:
    """Two characters for each number from ``low`` to ``high``, rounded to 1/4095 of the way; others are cut to it.

    Examples
    --------
    >>> packed(np.array([0.0, 0.5, 1.0]), 0.0, 1.0)
    'AAgA__'
    """
    share = (
        (np.asarray(values, dtype=np.float64).ravel() - low) / (high - low) if high > low else np.zeros(np.size(values))
    )
    steps = np.round(np.clip(share, 0.0, 1.0) * LEVELS).astype(np.int64)
    digits = np.array(list(DIGITS))
    return "".join(np.char.add(digits[steps // 64], digits[steps % 64]).tolist())


def unpacked(text: str, low: float, high: float) -> NDArray[np.float64]:
    """Undo `packed`, but for rounding: as the page does."""
    codes = np.array([DIGITS.index(c) for c in text], dtype=np.int64).reshape(-1, 2)
    return np.asarray(low + (high - low) * (64 * codes[:, 0] + codes[:, 1]) / LEVELS)
