"""Checks that the diagnostics share: draws of one or more chains as one array, numbers within their limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["as_chains", "chains_of_one", "check_count", "finite_array", "first_entry", "is_constant"]


def finite_array(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """``values`` as floats of the same shape (a view where nothing had to be converted), or raise if one is not finite.

    >>> finite_array("draws", [[1, 2], [3, np.nan]])
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: draws[1, 1] is nan; every one must be finite
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ArgumentTypeError(f"{name} has dtype {array.dtype}; real numbers are needed")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ArgumentError(f"{first_entry(name, array, ~np.isfinite(array))}; every one must be finite")
    return array


def first_entry(name: str, array: NDArray[np.float64], bad: NDArray[np.bool_]) -> str:
    """The first entry that is bad, and its value, for a message.

    >>> draws = np.array([[0.5, 2.0], [3.0, 0.5]])
    >>> first_entry("draws", draws, draws > 1)
    'draws[0, 1] is 2.0'
    """
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    where = f"[{', '.join(map(str, place))}]" if place else ""
    return f"{name}{where} is {array[place]}"


def as_chains(draws: ArrayLike, min_draws: int, min_chains: int = 1) -> NDArray[np.float64]:
    """Draws as finite floats of shape (n_chains, n_draws, ...), from (n_draws,) or that shape, or raise; not too few.

    >>> as_chains([1, 0, 1], min_draws=2).shape
    (1, 3)
    """
    array = finite_array("draws", draws)
    shape = array.shape
    if array.ndim == 1:
        array = array[np.newaxis]
    if array.ndim < 2 or array.shape[0] < min_chains or array.shape[1] < min_draws:
        chains = f"at least {min_chains} chain{'s' if min_chains > 1 else ''} and {min_draws} draws"
        raise ArgumentError(f"draws has shape {shape}; it must be (draw,) or (chain, draw, ...) with {chains}")
    return array


def chains_of_one(draws: ArrayLike, min_draws: int) -> NDArray[np.float64]:
    """`as_chains` of one quantity, shape (n_chains, n_draws), or raise where there are several."""
    chains = as_chains(draws, min_draws)
    if chains.ndim > 2:
        raise ArgumentError(
            f"draws has shape {chains.shape}; one estimate is of one quantity, (draw,) or (chain, draw)"
        )
    return chains


def is_constant(chains: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a quantity never moved in any chain, shape (...); exactly: squares around a rounded mean need not be 0.

    >>> is_constant(np.full((2, 7), 0.1))
    array(True)
    """
    return np.asarray(chains.min(axis=(0, 1)) == chains.max(axis=(0, 1)))


def check_count(name: str, value: int, low: int, high: int | None = None, why: str = "") -> int:
    """The whole number ``value`` if it lies from ``low`` to ``high`` (None is no limit), or raise; ``why`` explains
    ``high``.

    >>> check_count("max_lag", 12, 0, 9, "the number of draws less one")
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: max_lag is 12; it must be from 0 to 9 (the number of draws less one)
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{name} is {value!r}; it must be a whole number")
    if value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}{f' ({why})' if why else ''}"
        raise ArgumentError(f"{name} is {value}; it must be {limits}")
    return int(value)
