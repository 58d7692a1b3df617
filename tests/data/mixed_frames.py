"""A frame with columns of every kind, for tables that are counted where they live."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

__all__ = ["mixed_frame"]


def mixed_frame(
    names: Sequence[str], words: Sequence[str], n_rows: int, *, seed: int = 3, many: str | None = None
) -> pd.DataFrame:
    """Words, integers, numbers, truth values, floats that are whole, and tokens, with missing cells in two of them.

    ``many`` names one more column, of 150 values.
    """
    rng = np.random.default_rng(seed)
    columns = [
        rng.choice(np.array(words), n_rows),
        rng.integers(-3, 9, n_rows),
        rng.normal(size=n_rows).round(2),
        rng.random(n_rows) < 0.3,
        rng.choice([1.0, -2.0, np.nan, 0.0, -0.0], n_rows),
        rng.choice(["NA", "?", "z"], n_rows),
    ]
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    if many is not None:
        frame[many] = [f"v{k}" for k in rng.integers(0, 150, n_rows)]
    frame.loc[::7, names[0]] = None
    frame.loc[::5, names[2]] = np.nan
    return frame
