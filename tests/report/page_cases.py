"""What tests of pages agree on: when a page was written, how numbers are unpacked, a name that does harm as markup."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from doxa.report.numbers import DIGITS, LEVELS

WRITTEN = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
HOSTILE = "</script><img src=x onerror=alert(1)>"


def mixed_frame(n: int = 150) -> pd.DataFrame:
    """Numbers and categories: a -> b -> c, k -> b, and d of its own under a hostile name."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"k": rng.choice(["no", "<b>"], n), "a": rng.normal(50, 10, n)})
    frame["b"] = 20 + 0.8 * frame["a"] + np.where(frame["k"] == "<b>", 9.0, 0.0) + rng.normal(0, 5, n)
    frame["c"] = -3 + 0.05 * frame["b"] + rng.normal(0, 0.5, n)
    frame[HOSTILE] = rng.normal(0, 1e-5, n)
    return frame


def unpacked(text: str, low: float, high: float) -> NDArray[np.float64]:
    """Undo `doxa.report.numbers.packed`, but for rounding: as the page does."""
    codes = np.array([DIGITS.index(c) for c in text], dtype=np.int64).reshape(-1, 2)
    return np.asarray(low + (high - low) * (64 * codes[:, 0] + codes[:, 1]) / LEVELS)
