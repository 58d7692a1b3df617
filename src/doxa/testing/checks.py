"""Arguments as arrays of numbers, distributions and transition matrices, or an error that names the entry at fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["ROUNDING", "Floats", "as_distribution", "as_numbers", "as_transition_matrix", "check_not_negative"]


ROW_SUM = 1e-9  # how far from 1 probabilities may sum: far above rounding, far below a digit left out
ROUNDING = 1e-12  # 1 - sum of the rest may come out as little below 0; such entries become 0


def as_numbers(values: ArrayLike, name: str, n: int | None = None, finite: bool = True) -> Floats:
    """A copy as floats: finite unless told, in one row of ``n``, or of any shape when ``n`` is left out.

    Examples
    --------
    >>> as_numbers([1, 2], "values", 2)
    array([1., 2.])
    """
    refusal = ArgumentTypeError(f"{name} is not an array of real numbers")
    if getattr(getattr(values, "dtype", None), "kind", None) == "c":  # NumPy would drop the imaginary part
        raise refusal
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal from None
    if n is not None and numbers.shape != (n,):
        seen = f"{len(numbers)} entries" if numbers.ndim == 1 else f"shape {numbers.shape}"
        raise ArgumentError(f"{name} has {seen} but there are {n} states")
    if finite and not np.isfinite(numbers).all():
        where = tuple(np.argwhere(~np.isfinite(numbers))[0].tolist())
        raise ArgumentError(f"{name}{list(where)} is {numbers[where]}; it must be a finite number")
    return numbers


def as_distribution(values: ArrayLike, name: str, n: int | None = None) -> Floats:
    """Probabilities that sum to 1, in one row.

    Examples
    --------
    >>> as_distribution([0.25, 0.75], "weights")
    array([0.25, 0.75])
    """
    p = as_numbers(values, name, n)
    if p.ndim != 1 or p.size == 0:
        raise ArgumentError(f"{name} has shape {p.shape}; it is one row of probabilities")
    check_not_negative(p, name)
    if abs(p.sum() - 1) > ROW_SUM:
        raise ArgumentError(f"{name} sums to {p.sum():.10g}, not 1")
    return p


def as_transition_matrix(matrix: ArrayLike, name: str = "matrix") -> Floats:
    """A copy as floats, once it has passed as a stochastic matrix.

    Entries that rounding has put below 0 by at most 1e-12 become 0.

    Examples
    --------
    >>> as_transition_matrix([[0, 1], [1, 0]])
    array([[0., 1.],
           [1., 0.]])
    """
    p = as_numbers(matrix, name)
    if p.ndim != 2 or p.shape[0] != p.shape[1] or p.size == 0:
        raise ArgumentError(f"{name} has shape {p.shape}; a transition matrix is square, with at least one state")
    p[(p < 0) & (p >= -ROUNDING)] = 0.0
    check_not_negative(p, name)
    off = np.abs(p.sum(axis=1) - 1)
    if off.max() > ROW_SUM:
        row = int(off.argmax())
        raise ArgumentError(f"row {row} of {name} sums to {p[row].sum():.10g}, not 1")
    return p


def check_not_negative(p: Floats, name: str) -> None:
    """Raise if a probability is below 0."""
    if (p < 0).any():
        where = np.argwhere(p < 0)[0].tolist()
        raise ArgumentError(f"{name}{where} is {p[tuple(where)]}; probabilities are at least 0")
