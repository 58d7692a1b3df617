"""`NormalMixture`: the distribution of one number, a weighted sum of normal distributions."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from doxa.errors import ArgumentError, ArgumentTypeError

__all__ = ["NormalMixture", "check_threshold", "threshold_pair"]

Floats = NDArray[np.float64]


def check_threshold(label: str, value: object) -> float:
    """A number that a column is compared with; infinite ones too."""
    if isinstance(value, (bool, np.bool_, str)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentTypeError(f"{label} is {value!r}; give a number")
    if math.isnan(value):
        raise ArgumentError(f"{label} is {value!r}; a number is neither above nor below it: give another")
    return float(value)


def threshold_pair(
    above: float | None, below: float | None, between: tuple[float, float] | None
) -> tuple[float, float]:
    """Lower and upper end of the event that one of three arguments names.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If not one of them is given, an end is no number, or the ends are reversed.

    Examples
    --------
    >>> threshold_pair(140, None, None)
    (140.0, inf)
    """
    if sum(value is not None for value in (above, below, between)) != 1:
        raise ArgumentError(
            f"above is {above!r}, below {below!r} and between {between!r}; "
            "give one of them: between=(low, high) for both"
        )
    if above is not None:
        return check_threshold("above", above), math.inf
    if below is not None:
        return -math.inf, check_threshold("below", below)
    try:
        low, high = between  # type: ignore[misc]  # one of them is given
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"between is {between!r}; give two numbers: between=(low, high)") from None
    low, high = check_threshold("between[0]", low), check_threshold("between[1]", high)
    if low > high:
        raise ArgumentError(f"between is {between!r}; the lower end comes first: between=({high:g}, {low:g})")
    return low, high


class NormalMixture:
    """The distribution of a number.

    Parameters
    ----------
    weights : array_like of float, shape (n_components,)
        Not negative, with a sum above 0; divided by it.
    means, sds : array_like of float, shape (n_components,)
        Standard deviations are 0 or more.

    Examples
    --------
    >>> two = NormalMixture([0.5, 0.5], [-1.0, 1.0], [1.0, 1.0])
    >>> two.mean, round(two.sd, 4), round(two.probability(above=1.0), 4)
    (0.0, 1.4142, 0.2614)
    """

    def __init__(self, weights: ArrayLike, means: ArrayLike, sds: ArrayLike) -> None:
        weight = np.asarray(weights, dtype=np.float64)
        kept = weight > 0
        self.weights: Floats = weight[kept] / weight[kept].sum()
        self.means: Floats = np.asarray(means, dtype=np.float64)[kept]
        self.sds: Floats = np.asarray(sds, dtype=np.float64)[kept]

    @cached_property
    def mean(self) -> float:
        """In the unit of the number."""
        return float(self.weights @ self.means)

    @cached_property
    def sd(self) -> float:
        """Standard deviation, in the unit of the number."""
        return float(np.sqrt(self.weights @ (self.sds**2 + (self.means - self.mean) ** 2)))

    def probability(
        self,
        *,
        above: float | None = None,
        below: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> float:
        """Probability that the number is above, below or between thresholds; relative accuracy is kept in the tails.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If not one of the three is given, a threshold is no number, or the ends are reversed.
        """
        return float(self.weights @ self.component_probabilities(*threshold_pair(above, below, between)))

    def component_probabilities(self, low: float, high: float) -> Floats:
        """Probability of an interval in each component."""
        z_low, z_high = self._z(low), self._z(high)
        flip = z_low > 0  # by the smaller tail: no digits cancel
        a, b = np.where(flip, -z_high, z_low), np.where(flip, -z_low, z_high)
        return np.asarray(ndtr(b) - ndtr(a))

    def quantile(self, p: float) -> float:
        """The number that is not exceeded with probability ``p``, strictly between 0 and 1."""
        if isinstance(p, bool) or not isinstance(p, (int, float, np.integer, np.floating)):
            raise ArgumentTypeError(f"p is {p!r}; it must be a number strictly between 0 and 1")
        if not 0 < p < 1:
            raise ArgumentError(f"p is {p!r}; it must lie strictly between 0 and 1, such as 0.5")
        each = self.means + self.sds * ndtri(p)
        low, high = float(each.min()), float(each.max())
        if low == high:
            return low
        upper = p > 0.5  # then by the upper tail

        def excess(x: float) -> float:
            z = self._z(x)
            return float(1 - p - self.weights @ ndtr(-z)) if upper else float(self.weights @ ndtr(z) - p)

        if excess(low) >= 0:
            return low
        if excess(high) <= 0:
            return high
        return float(brentq(excess, low, high, xtol=1e-14 * max(abs(low), abs(high), high - low), rtol=1e-15))

    def interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Central interval that holds the number with this probability, equal tails."""
        if isinstance(prob, bool) or not isinstance(prob, (int, float)) or not 0 < prob < 1:
            raise ArgumentError(f"prob is {prob!r}; it must lie strictly between 0 and 1, such as 0.95")
        tail = (1 - prob) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def log_density(self, x: ArrayLike) -> Floats:
        """Log density at points, nats, in the unit of the number; any shape."""
        points = np.asarray(x, dtype=np.float64)[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            own = -0.5 * ((points - self.means) / self.sds) ** 2 - np.log(self.sds) - 0.5 * math.log(2 * math.pi)
        return np.asarray(logsumexp(own, axis=-1, b=self.weights))

    def density(self, x: ArrayLike) -> Floats:
        """Density at points; any shape."""
        return np.asarray(np.exp(self.log_density(x)))

    def log_probability_above(self, x: float) -> float:
        """Log P(number > x), nats; finite where the probability itself underflows."""
        return float(logsumexp(log_ndtr(-self._z(check_threshold("x", x))), b=self.weights))

    def _z(self, x: float) -> Floats:
        """Distance from each component's mean, in its standard deviations."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (x - self.means) / self.sds
        return np.where(self.sds > 0, z, np.where(x >= self.means, np.inf, -np.inf))

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"NormalMixture(mean {self.mean:.4g}, sd {self.sd:.4g}, 95% from {low:.4g} to {high:.4g})"
