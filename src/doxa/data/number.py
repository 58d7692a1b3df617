"""Columns of typed numbers: which are missing, which are integers, and the exact text of each.

Numbers are told apart and written as they are, whatever their type; floats are made of them only to cut
them into bins.  What a column of numbers may become is not here (`doxa.data.coding`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.coding import NUMBER, Column, refuse_infinite, spread
from doxa.data.table import MAX_STATES

__all__ = ["as_python", "column_of_numbers", "decimal_texts", "is_number_type", "missing_numbers", "number_column"]

_EXACT = int | np.integer | Decimal
_FLOAT = float | np.float32 | np.float16  # np.longdouble has no Python number to hold it
_MAX_PLACES = 38  # digits of a Parquet file's decimals
_MAX_DIGITS = 10_000  # of a decimal; written in full, 1E+999999999 would fill the memory


def number_column(name: str, present: NDArray[Any], is_missing: NDArray[np.bool_], tokens: Sequence[str]) -> Column:
    """Describe a column of machine numbers: its present values in order, and where they are missing."""
    if present.dtype.kind == "f" and np.isnan(present).any():
        is_missing, present = _without(is_missing, present, np.isnan(present))
    marks = marks_of(tokens, present.dtype)
    if marks.size and np.isin(present, marks).any():
        is_missing, present = _without(is_missing, present, np.isin(present, marks))
    distinct, place = np.unique(present, return_inverse=True)

    def codes() -> NDArray[np.integer[Any]]:
        return spread(place, is_missing, np.int64(-1))

    def numbers() -> NDArray[np.float64]:
        return spread(present.astype(np.float64), is_missing, np.float64(np.nan))

    refuse_infinite(name, present, np.flatnonzero(~is_missing))
    integral = distinct.dtype.kind in "iu" or bool((distinct == np.floor(distinct)).all())
    few = distinct.size <= MAX_STATES
    labels = [str(int(number)) if integral else repr(float(number)) for number in distinct] if few else None
    return Column(name, "integer" if integral else "decimal", distinct.size, labels, codes, numbers)


def column_of_numbers(
    name: str, present: Sequence[Any], is_missing: NDArray[np.bool_], tokens: Sequence[str]
) -> Column:
    """Describe a column of Python's numbers, of any size and of several types: 2, 2.0 and Decimal(2) are one number."""
    place: dict[Any, int] = {}
    found = np.array([place.setdefault(as_python(number), len(place)) for number in present], dtype=np.int64)
    is_token = missing_numbers(tokens)
    kept = [number for number in place if number == number and not is_token(number)]  # NaN differs from itself
    code_of = np.full(len(place), -1, dtype=np.int64)
    code_of[np.array([place[number] for number in kept], dtype=np.int64)] = np.arange(len(kept))
    codes = spread(code_of[found], is_missing, np.int64(-1))
    floats = np.array([*(_as_float(number) for number in kept), np.nan])
    huge = [code for code, number in enumerate(kept) if isinstance(number, float | Decimal) and _is_huge(number)]
    if huge:
        refuse_infinite(name, np.array([np.inf]), np.flatnonzero(np.isin(codes, huge))[:1])
    integral = all(number == _whole(number) for number in kept)
    labels = [_text(number) if integral else str(number) for number in kept] if len(kept) <= MAX_STATES else None
    return Column(name, "integer" if integral else "decimal", len(kept), labels, lambda: codes, lambda: floats[codes])


def as_python(number: Any) -> Any:
    """Return the Python number that equals a number of any type."""
    if isinstance(number, Decimal):
        return number
    return int(number) if isinstance(number, int | np.integer) else float(number)


def is_number_type(kind: type) -> bool:
    """Whether objects of a type are numbers to us; booleans and complex numbers are not."""
    return issubclass(kind, _EXACT | _FLOAT) and kind is not bool


def missing_numbers(tokens: Sequence[str]) -> Callable[[Any], bool]:
    """Return the question whether a Python number is one that a token means."""
    exact = set(_numbers(tokens))
    floats = set(marks_of(tokens, np.dtype(np.float64)).tolist())
    return lambda number: number in floats if isinstance(number, float) else number in exact


def decimal_texts(tokens: Sequence[str]) -> list[str]:
    """Write the numbers among the tokens as plain decimals, without zeros at the end."""
    near = [mark for mark in _numbers(tokens) if mark.is_finite() and (not mark or abs(mark.adjusted()) <= _MAX_PLACES)]
    texts = [format(mark, "f") if mark else "0" for mark in near]
    return [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]


def _numbers(tokens: Sequence[str]) -> list[Decimal]:
    """Return the numbers among the tokens."""
    numbers = []
    for token in tokens:
        if re.fullmatch(NUMBER, token):
            try:
                numbers.append(Decimal(token.strip(" \t")))
            except InvalidOperation:  # an exponent of twenty digits: no number that a column holds
                continue
    return numbers


def marks_of(tokens: Sequence[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the numbers of a machine type that the tokens mean."""
    found = [_as_integer(mark, dtype) if dtype.kind in "iu" else _nearest(mark, dtype) for mark in _numbers(tokens)]
    return np.array([mark for mark in found if mark is not None], dtype=dtype)


def _as_integer(mark: Decimal, dtype: np.dtype[Any]) -> int | None:
    held = np.iinfo(dtype)
    return int(mark) if held.min <= mark <= held.max and mark == mark.to_integral_value() else None


def _nearest(mark: Decimal, dtype: np.dtype[Any]) -> Any:
    """Return the float that is written so; None where a whole number would be rounded to another one."""
    with np.errstate(over="ignore"):
        number = dtype.type(float(mark))
    if mark.is_infinite() or not np.isfinite(number):
        return number if mark.is_infinite() else None
    return number if mark != mark.to_integral_value() or Decimal(float(number)) == mark else None


def _whole(number: Any) -> Any:
    return number.to_integral_value() if isinstance(number, Decimal) else int(number)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")  # refused by name, should the column be cut


def _is_huge(number: float | Decimal) -> bool:
    if isinstance(number, float):
        return math.isinf(number)
    return number.is_infinite() or number.adjusted() > _MAX_DIGITS


def _text(number: Any) -> str:
    """Write a whole number in full; Python's own str refuses integers of more than 4300 digits."""
    return format(Decimal(_whole(number)), "f") if number else "0"


def _without(
    is_missing: NDArray[np.bool_], present: NDArray[Any], dropped: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Count some of the present values as missing."""
    return spread(dropped, is_missing, np.True_), present[~dropped]
