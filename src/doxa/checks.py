"""Checks of arguments that several rooms share."""

from __future__ import annotations

import operator

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["check_positive", "check_whole"]


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
