"""`Slices`: what the rows of a table have to do with each other that holds moments in time with their past.

Such a table has the columns of a moment, and then, lag by lag, copies of them for the moments before: ``"x"``,
``"x [t-1]"``, ``"x [t-2]"``.  A missing cell stands in the rows of several moments, as present and as past, and is one
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Slices", "later_name", "name_and_lag", "past_name"]

_COPY = re.compile(r"(.+) \[t-([1-9][0-9]*)\]", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Slices:
    """How a table is made of moments in time; `doxa.data.time_order` makes it.

    Parameters
    ----------
    width : int
        Columns of one moment.
    lags : int
        Moments before, of which a row has copies.
    previous : ndarray of int64, shape (n_rows,)
        The row of the moment before; -1 in the first of a stretch, whose past stands in no other row as present.
    units : tuple of str, length n_rows
        Of whom each row is.
    times : tuple of tuple of str, shape (lags + 1, n_rows)
        When the moment of each row was, and those before.
    text : str
        What was made of the table of moments.
    is_first : ndarray of bool, shape (n_distinct,), optional
        Which distinct rows are the first of a stretch, where cells are missing; None where none is.
    """

    width: int
    lags: int
    previous: NDArray[np.int64]
    units: tuple[str, ...]
    times: tuple[tuple[str, ...], ...]
    text: str
    is_first: NDArray[np.bool_] | None = None

    @property
    def stretch(self) -> NDArray[np.int64]:
        """The first row of the stretch of each row, shape (n_rows,)."""
        rows = np.arange(len(self.previous))
        return np.asarray(np.maximum.accumulate(np.where(self.previous < 0, rows, 0)))


def past_name(name: str, lag: int) -> str:
    """The name of the copy of a column so many moments before.

    Examples
    --------
    >>> past_name("pain", 0), past_name("pain", 2)
    ('pain', 'pain [t-2]')
    """
    return f"{name} [t-{lag}]" if lag else name


def later_name(name: str, ahead: int) -> str:
    """The name of a column so many moments after the present; of the past, if that is negative.

    Examples
    --------
    >>> later_name("pain", 2), later_name("pain", -1)
    ('pain [t+2]', 'pain [t-1]')
    """
    return f"{name} [t+{ahead}]" if ahead > 0 else past_name(name, -ahead)


def name_and_lag(name: str) -> tuple[str, int]:
    """Undo `past_name`.

    Examples
    --------
    >>> name_and_lag("pain [t-2]"), name_and_lag("pain")
    (('pain', 2), ('pain', 0))
    """
    found = _COPY.fullmatch(name)
    return (name, 0) if found is None else (found[1], int(found[2]))


def all_names(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """Names of the columns of a table of slices, from those of one moment.

    Examples
    --------
    >>> all_names(["x", "y"], 1)
    ('x', 'y', 'x [t-1]', 'y [t-1]')
    """
    return tuple(past_name(name, lag) for lag in range(lags + 1) for name in names)
