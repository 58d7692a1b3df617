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

from doxa.arrays import Floats
from doxa.data.options import near, shown
from doxa.errors import ArgumentError, ArgumentTypeError, TableError

__all__ = ["TRANSFORMS", "Transform", "check_transforms", "transform_of"]


TRANSFORMS = {
    "log": "numbers above 0",
    "log1p": "numbers above -1",
    "logit": "numbers between 0 and 1",
    "normal scores": "any numbers",
}

_GRID = np.linspace(-8.5, 8.5, 401)  # standard deviations
_AT_ONCE = 2_000_000  # pieces times distributions


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

    def log_slope(self, numbers: Floats) -> Floats:
        """Log of the derivative of `forward`, nats: what a log density there lacks in the unit of the column."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.method == "log":
                return -np.log(numbers)
            if self.method == "log1p":
                return -np.log1p(numbers)
            if self.method == "logit":
                return np.asarray(-np.log(numbers) - np.log1p(-numbers))
        if self.values.size < 2:
            return np.zeros_like(numbers)
        k = np.clip(np.searchsorted(self.values, numbers) - 1, 0, self.values.size - 2)
        return np.asarray(np.log(np.diff(self.scores)[k] / np.diff(self.values)[k]))

    def moments(self, means: Floats, sds: Floats) -> tuple[Floats, Floats]:
        """Mean and mean square, in the unit of the column, of normal numbers on the scale of the transform.

        Closed forms, but for log odds, which are summed on a grid to about 1e-9.
        """
        variances = sds**2
        with np.errstate(over="ignore"):
            if self.method in ("log", "log1p"):
                first, second = np.exp(means + 0.5 * variances), np.exp(2.0 * (means + variances))
                return (first, second) if self.method == "log" else (first - 1.0, second - 2.0 * first + 1.0)
        if self.method == "logit":
            density = np.exp(-0.5 * _GRID**2)
            density /= density.sum()
            at = self.inverse(means[:, None] + sds[:, None] * _GRID)
            return at @ density, at**2 @ density
        if self.values.size < 2:
            shifted = self.inverse(means)
            return shifted, shifted**2 + variances
        return self._moments_along(means, sds)

    def _moments_along(self, means: Floats, sds: Floats) -> tuple[Floats, Floats]:
        """Of a line with knots: sums over the pieces, on each of which the moments are those of a cut normal."""
        from scipy.special import ndtr

        first, second = np.empty(len(means)), np.empty(len(means))
        slope = np.diff(self.values) / np.diff(self.scores)
        base = self.values[:-1] - slope * self.scores[:-1]
        ends = np.concatenate([[-np.inf], self.scores[1:-1], [np.inf]])
        at_once = max(1, _AT_ONCE // len(ends))
        for begin in range(0, len(means), at_once):
            m, s = means[begin : begin + at_once, None], sds[begin : begin + at_once, None]
            known = s == 0.0
            width = np.where(known, 1.0, s)
            z = np.where(known, np.where(ends >= m, np.inf, -np.inf), (ends - m) / width)
            z[:, 0], z[:, -1] = -np.inf, np.inf
            density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
            share = np.diff(ndtr(z), axis=1)
            of_z = m * share - s * np.diff(density, axis=1)
            edge = np.where(np.isfinite(z), (2.0 * m + s * np.where(np.isfinite(z), z, 0.0)) * density, 0.0)
            of_square = (m**2 + s**2) * share - s * np.diff(edge, axis=1)
            own = slice(begin, begin + at_once)
            first[own] = (base * share + slope * of_z).sum(axis=1)
            second[own] = (base**2 * share + 2.0 * base * slope * of_z + slope**2 * of_square).sum(axis=1)
        return first, second


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
    near = k + (at - x[k] > x[k + 1] - at)  # from the end that is closer: far out, shares of both would cancel
    return np.asarray(y[near] + (at - x[near]) / (x[k + 1] - x[k]) * (y[k + 1] - y[k]))
