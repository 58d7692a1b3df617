"""Columns of numbers that are learned from on another scale: logarithms, log odds, normal scores.

A transform is one to one between the numbers that it takes and the real line, so what is drawn there has a place in the
user's own unit.  It is applied where numbers are scaled (`doxa.data.scaled`); a table holds its numbers as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.data.options import near, shown
from doxa.errors import ArgumentError, ArgumentTypeError, TableError

__all__ = ["TRANSFORMS", "Transform", "check_transforms", "transform_of"]

Floats = NDArray[np.float64]

TRANSFORMS = {
    "log": "numbers above 0",
    "log1p": "numbers above -1",
    "logit": "numbers between 0 and 1",
    "normal scores": "any numbers",
}


@dataclass(frozen=True, eq=False)
class Transform:
    """A scale on which a column is learned from.

    Attributes
    ----------
    method : str
        A name in `TRANSFORMS`.
    values, scores : ndarray of float64, shape (n_values,)
        Of normal scores: the different numbers that were observed, rising, and the normal quantiles of their shares,
        between which it is linear, and beyond which it goes on as between the last two.  Empty otherwise.
    """

    method: str
    values: Floats = field(default_factory=lambda: np.empty(0))
    scores: Floats = field(default_factory=lambda: np.empty(0))

    def forward(self, numbers: Floats) -> Floats:
        """Numbers on the scale of the transform; NaN stays."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.method == "log":
                return np.log(numbers)
            if self.method == "log1p":
                return np.log1p(numbers)
            if self.method == "logit":
                return np.asarray(np.log(numbers) - np.log1p(-numbers))
        return _along(self.values, self.scores, numbers)

    def inverse(self, numbers: Floats) -> Floats:
        """Back to the unit of the column."""
        with np.errstate(over="ignore"):
            if self.method == "log":
                return np.exp(numbers)
            if self.method == "log1p":
                return np.expm1(numbers)
            if self.method == "logit":
                return np.asarray(1.0 / (1.0 + np.exp(-numbers)))
        return _along(self.scores, self.values, numbers)


def check_transforms(transform: Any, names: Sequence[str]) -> dict[str, str]:
    """Return ``transform`` checked against the names of the columns that are read."""
    if transform is None:
        return {}
    if not isinstance(transform, Mapping):
        raise ArgumentTypeError(f"transform is {transform!r}; give one for each column: transform={{'income': 'log'}}")
    for name, method in transform.items():
        if name not in names:
            raise ArgumentError(f"transform names {name!r}, which is no column that is read{near(str(name), names)}")
        if method not in TRANSFORMS:
            raise ArgumentError(f"transform[{name!r}] is {method!r}; there are {shown(TRANSFORMS)}")
    return dict(transform)


def transform_of(name: str, method: str, numbers: Floats, times: NDArray[np.int64] | None = None) -> Transform:
    """The transform of a column, from its numbers by row, and how often each row occurs.

    Raises
    ------
    TableError
        If a number is none that the method takes; its row is named, counted from 1.
    """
    if method == "normal scores":
        from scipy.special import ndtri

        seen = ~np.isnan(numbers) if times is None else ~np.isnan(numbers) & (times > 0)
        values, place = np.unique(numbers[seen], return_inverse=True)
        counts = np.bincount(place, None if times is None else times[seen], minlength=values.size)
        below = np.cumsum(counts) - 0.5 * counts
        return Transform(method, values, ndtri(below / max(1, counts.sum())))
    found = Transform(method)
    wrong = np.flatnonzero(~np.isnan(numbers) & ~np.isfinite(found.forward(numbers)))
    if wrong.size:
        raise TableError(
            f"transform is {method!r} for column {name!r}, which has {numbers[wrong[0]]:g} in row {wrong[0] + 1}; it "
            f"takes {TRANSFORMS[method]}"
        )
    return found


def _along(x: Floats, y: Floats, at: Floats) -> Floats:
    """The line through rising points, and straight on at both ends; a shift, where there is one point."""
    if x.size < 2:
        return np.asarray(at - x[0] + y[0]) if x.size else at
    k = np.clip(np.searchsorted(x, at) - 1, 0, x.size - 2)
    share = (at - x[k]) / (x[k + 1] - x[k])
    return np.asarray(y[k] * (1 - share) + y[k + 1] * share)
