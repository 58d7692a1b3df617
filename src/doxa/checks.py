"""Checks of arguments that several rooms share."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from doxa.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check_generator", "check_positive", "check_whole"]


def check_generator(rng: np.random.Generator | None, seed: int | None) -> np.random.Generator:
    """The generator given, or one of a seed; fresh where neither is.

    Examples
    --------
    >>> check_generator(None, 1).random() == check_generator(None, 1).random()
    True
    """
    import numpy as np

    if rng is None:
        return np.random.default_rng(None if seed is None else check_whole("seed", seed, 0))
    if not isinstance(rng, np.random.Generator):
        raise ArgumentTypeError(
            f"rng is {rng!r}; it must be a numpy.random.Generator, as numpy.random.default_rng(1) makes, or left out "
            "for a seed: seed=1"
        )
    if seed is not None:
        raise ArgumentError(f"seed is {seed!r}, and rng is given too; give one of them")
    return rng


def check_positive(name: str, value: float) -> None:
    """Raise an error that names the argument unless a number is above 0."""
    if not value > 0:  # NaN too
        raise ArgumentError(f"{name} is {value!r}; it must be above 0")


def check_whole(name: str, value: object, least: int, hint: str = "") -> int:
    """Return ``value`` as an int of at least ``least``, or raise an error that names the argument."""
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a whole number of at least {least}{hint}")
    try:
        whole = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a whole number of at least {least}{hint}") from None
    if whole < least:
        raise ArgumentError(f"{name} is {whole}; it must be at least {least}{hint}")
    return whole
