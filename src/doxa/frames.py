"""Frames that people read: plain pandas frames whose numbers are shown rounded, and kept as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

__all__ = ["ReadFrame", "shown_number"]


def shown_number(number: float) -> str:
    """A number to four decimals; of a tiny one its order, of a large one the whole part.

    Examples
    --------
    >>> [shown_number(x) for x in (0.903859312, 0.25, 0.0, 2.3e-09, 6543.21, float("inf"))]
    ['0.9039', '0.25', '0', '2e-09', '6543', 'inf']
    """
    if number == 0:
        return "0"
    if abs(number) < 5e-5:
        return f"{number:.0e}"
    return f"{number:.4f}".rstrip("0").rstrip(".") if abs(number) < 1000 else f"{number:.0f}"


class ReadFrame(pd.DataFrame):
    """A frame whose numbers are rounded where it is shown, and nowhere else.

    Examples
    --------
    >>> frame = ReadFrame({"probability": [0.903859312, 2.3e-09]})
    >>> frame
       probability
    0       0.9039
    1        2e-09
    >>> frame["probability"][0]
    np.float64(0.903859312)
    """

    @property
    def _constructor(self) -> Callable[..., ReadFrame]:
        return ReadFrame

    def __repr__(self) -> str:
        with _rounded():
            return super().__repr__()

    def _repr_html_(self) -> str | None:
        with _rounded():
            return super()._repr_html_()  # type: ignore[misc,no-any-return]


def _rounded() -> Any:
    """What the reader has set counts more."""
    chosen: Any = pd.get_option("display.float_format")
    return pd.option_context("display.float_format", chosen or shown_number)
