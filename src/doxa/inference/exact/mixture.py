"""`NormalMixture`: the distribution of one number, a weighted sum of normal distributions."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from doxa.arrays import Floats
from doxa.checks import check_whole
from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.notebook import Markup, card, curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doxa.data.transforms import Transform

__all__ = ["NormalMixture", "TransformedMixture", "check_threshold", "density_picture", "threshold_pair"]

_AT_ONCE = 1_000_000  # components times points, or pairs of components
_GRID = 4001  # points of a score that has no closed form, at most
_FINE = 0.02  # of the least standard deviation: the distance between them
_PARTS = ("weights", "means", "sds")
_REACH = 8.5  # standard deviations beyond which nothing is left


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

    def pooled(self, weights: Sequence[Floats], each: Sequence[NormalMixture]) -> NormalMixture:
        """The mixture of mixtures of this kind, with weights of all their components."""
        means, sds = [own.means for own in each], [own.sds for own in each]
        return NormalMixture(np.concatenate(weights), np.concatenate(means), np.concatenate(sds))

    def moments(self, each: Sequence[NormalMixture]) -> tuple[Floats, Floats]:
        """Means and standard deviations of mixtures of this kind."""
        return np.array([own.mean for own in each]), np.array([own.sd for own in each])

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

    def curve(self, n: int = 200, prob: float = 0.998) -> tuple[Floats, Floats]:
        """Points to draw the density through, over the central interval of this probability, and a quarter more.

        Parameters
        ----------
        n : int, default=200
            Points, at least 2, at even distances.
        prob : float, default=0.998

        Returns
        -------
        x, density : ndarray of float, shape (n,)
            In the unit of the number, and in one over it.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If ``n`` or ``prob`` is out of its range, or a single value has a probability above 0, where no density is
            finite.

        Examples
        --------
        >>> x, density = NormalMixture([1.0], [0.0], [1.0]).curve(5)
        >>> x.round(2).tolist(), density.round(3).tolist()
        ([-3.48, -1.74, 0.0, 1.74, 3.48], [0.001, 0.088, 0.399, 0.088, 0.001])
        """
        n = check_whole("n", n, 2)
        if not (self.sds > 0).all():
            value = float(self.means[self.sds == 0][0])
            raise ArgumentError(f"the number is {value:.6g} with a probability above 0, where it has no finite density")
        low, high = self.interval(prob)
        x = np.linspace(low - (high - low) / 16, high + (high - low) / 16, n)
        return x, np.concatenate([self.density(part) for part in self._in_parts(x)])

    def crps(self, x: ArrayLike) -> Floats:
        r"""Continuous ranked probability score against what was observed, in the unit of the number; least is best.

        Parameters
        ----------
        x : array_like of float, any shape
            What was observed.

        Returns
        -------
        ndarray of float, shape of ``x``
            0 or more; the absolute error, where the distribution is a point.

        Notes
        -----
        :math:`\int (F(t) - 1\{t \ge x\})^2\,dt = \mathrm E|Y - x| - \tfrac12 \mathrm E|Y - Y'|` with Y and Y'
        independent (Gneiting & Raftery, JASA 102, 2007, eq. 21), and of normal distributions
        :math:`\mathrm E|N(\mu, \sigma^2)| = 2 \sigma \varphi(\mu/\sigma) + \mu (2 \Phi(\mu/\sigma) - 1)`, so of a
        mixture it is a sum over pairs of components (Grimit et al., Quarterly Journal of the Royal Meteorological
        Society 132, 2006).  Of many components whose spreads are alike :math:`\mathrm E|Y - Y'| = 2 \int F (1 - F)` is
        summed at even distances, half of the least standard deviation: what that leaves out is less than rounding, for
        the integrand has no frequencies so high.

        Examples
        --------
        >>> NormalMixture([1.0], [0.0], [1.0]).crps([0.0, 2.0]).round(4).tolist()
        [0.2337, 1.4528]
        """
        points = np.asarray(x, dtype=np.float64)
        parts = self._in_parts(points.ravel())
        apart = [_absolute(part[:, None] - self.means, self.sds) @ self.weights for part in parts]
        found = np.concatenate(apart) if apart else np.empty(0)
        return np.asarray((found - 0.5 * self._mean_difference).reshape(points.shape))

    @cached_property
    def _mean_difference(self) -> float:
        """E of the distance between two independent draws."""
        step, (low, high) = 0.5 * float(self.sds.min()), self._ends
        if step * len(self.weights) > high - low:  # fewer points than components
            below = self._below(np.arange(low, high, step))
            return float(2.0 * step * (below * (1.0 - below)).sum())
        total, at_once = 0.0, max(1, _AT_ONCE // len(self.weights))
        for first in range(0, len(self.weights), at_once):  # pairs of one component and itself or a later one
            own, later = slice(first, first + at_once), slice(first, None)
            means = self.means[own, None] - self.means[later]
            pairs = _absolute(means, np.hypot(self.sds[own, None], self.sds[later])) * self.weights[later]
            within = pairs[:, : len(self.weights[own])].sum(axis=1)
            total += float(self.weights[own] @ (2.0 * pairs.sum(axis=1) - within))
        return total

    @property
    def _ends(self) -> tuple[float, float]:
        """Between them lies all that is not less than rounding, on the scale of the components."""
        return float((self.means - _REACH * self.sds).min()), float((self.means + _REACH * self.sds).max())

    def _below(self, points: Floats) -> Floats:
        """The distribution function at points, shape (n,), on the scale of the components."""
        moves = self.sds > 0
        own, sds = self.weights * moves, np.where(moves, self.sds, 1.0)
        below = np.concatenate([ndtr((part[:, None] - self.means) / sds) @ own for part in self._in_parts(points)])
        for value, weight in zip(self.means[~moves], self.weights[~moves], strict=True):
            below[points >= value] += weight
        return below

    def _in_parts(self, points: Floats) -> list[Floats]:
        """Points (n,) in parts that can be taken at once."""
        at_once = max(1, _AT_ONCE // len(self.weights))
        return [points[first : first + at_once] for first in range(0, len(points), at_once)]

    def log_probability_above(self, x: float) -> float:
        """Log P(number > x), nats; finite where the probability itself underflows."""
        return float(logsumexp(log_ndtr(-self._z(check_threshold("x", x))), b=self.weights))

    def _z(self, x: float) -> Floats:
        """Distance from each component's mean, in its standard deviations."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (x - self.means) / self.sds
        return np.where(self.sds > 0, z, np.where(x >= self.means, np.inf, -np.inf))

    def _repr_html_(self) -> str:
        low, high = self.interval()
        rows = [("mean", f"{self.mean:.4g}"), ("standard deviation", f"{self.sd:.4g}")]
        rows.append(("95% of cases", f"{low:.4g} to {high:.4g}"))
        return card("Distribution of a number", None, ("", ""), rows, picture=density_picture(self))

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"NormalMixture(mean {self.mean:.4g}, sd {self.sd:.4g}, 95% from {low:.4g} to {high:.4g})"


class TransformedMixture(NormalMixture):
    """The distribution of a number that is a mixture of normals on another scale; what is asked is in its own unit.

    Parameters
    ----------
    weights, means, sds : array_like of float, shape (n_components,)
        As of `NormalMixture`, on the scale of the transform.
    transform : Transform

    Examples
    --------
    >>> from doxa.data.transforms import Transform
    >>> income = TransformedMixture([1.0], [3.0], [0.5], Transform("log"))
    >>> round(income.mean, 2), round(income.quantile(0.5), 2), round(income.probability(above=40.0), 3)
    (22.76, 20.09, 0.084)
    """

    def __init__(self, weights: ArrayLike, means: ArrayLike, sds: ArrayLike, transform: Transform) -> None:
        super().__init__(weights, means, sds)
        self.transform = transform

    def pooled(self, weights: Sequence[Floats], each: Sequence[NormalMixture]) -> NormalMixture:
        """As of `NormalMixture`."""
        own = super().pooled(weights, each)
        return TransformedMixture(own.weights, own.means, own.sds, self.transform)

    def moments(self, each: Sequence[NormalMixture]) -> tuple[Floats, Floats]:
        """As of `NormalMixture`."""
        weights, means, sds = (np.concatenate([getattr(own, name) for own in each]) for name in _PARTS)
        first, second = self.transform.moments(means, sds)
        begins = np.cumsum([0, *(len(own.weights) for own in each[:-1])])
        mean, square = (np.add.reduceat(weights * part, begins) for part in (first, second))
        return mean, np.sqrt(np.maximum(0.0, square - mean**2))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        mean, sd = self.moments([self])
        return float(mean[0]), float(sd[0])

    @cached_property
    def mean(self) -> float:
        """In the unit of the number."""
        return self._moments[0]

    @cached_property
    def sd(self) -> float:
        """Standard deviation, in the unit of the number."""
        return self._moments[1]

    def component_probabilities(self, low: float, high: float) -> Floats:
        """Probability of an interval in each component."""
        return super().component_probabilities(self._on_scale(low), self._on_scale(high))

    def quantile(self, p: float) -> float:
        """The number that is not exceeded with probability ``p``, strictly between 0 and 1."""
        return float(self.transform.inverse(np.array([super().quantile(p)]))[0])

    def log_density(self, x: ArrayLike) -> Floats:
        """Log density at points, nats, in the unit of the number; minus infinity where it cannot be."""
        points = np.asarray(x, dtype=np.float64)
        on_scale = self.transform.forward(points)
        possible = np.isfinite(on_scale)
        inside = np.where(possible, on_scale, 0.0)
        found = super().log_density(inside) + np.where(possible, self.transform.log_slope(points), 0.0)
        return np.where(possible, found, -np.inf)

    def crps(self, x: ArrayLike) -> Floats:
        """As of `NormalMixture`, by a sum on a grid, to about 1e-4 of the spread, or 1e-3 where there are steps."""
        points = np.asarray(x, dtype=np.float64)
        low, high = self._ends
        finest = _FINE * float(self.sds.min())  # 0 where the distribution has steps
        z = np.linspace(low, high, int(min((high - low) / finest, _GRID)) if finest > 0 else _GRID)
        t = self.transform.inverse(z)
        below = self._below(z)
        gap = np.diff(t)
        mid = 0.5 * (below[1:] + below[:-1])
        whole = np.concatenate([[0.0], np.cumsum(gap * mid**2)])  # of F squared, from the left
        rest = np.concatenate([np.cumsum((gap * (1.0 - mid) ** 2)[::-1])[::-1], [0.0]])
        at = np.clip(points, t[0], t[-1])
        outside = np.abs(points - at)
        return np.asarray(np.interp(at, t, whole) + np.interp(at, t, rest) + outside)

    def log_probability_above(self, x: float) -> float:
        """Log P(number > x), nats; finite where the probability itself underflows."""
        return super().log_probability_above(self._on_scale(check_threshold("x", x)))

    def _on_scale(self, x: float) -> float:
        """A threshold on the scale of the transform; infinite beyond all numbers that there can be."""
        if math.isinf(x):
            return x
        found = float(self.transform.forward(np.array([x]))[0])
        if math.isnan(found):  # no number of the column can be there
            return math.inf if self.transform.method == "logit" and x > 0.5 else -math.inf
        return found


def density_picture(mixture: NormalMixture) -> Markup | None:
    """The density as a small curve with its mean and the central 95%; None where it is not finite."""
    if not (mixture.sds > 0).all():
        return None
    x, density = mixture.curve(120)
    return curve(x.tolist(), density.tolist(), mixture.mean, mixture.interval())


def _absolute(means: Floats, sds: Floats) -> Floats:
    """E |N(mean, sd^2)|; the absolute value of the mean where sd is 0."""
    z = means / np.where(sds > 0, sds, 1.0)
    inside = 2.0 * sds * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) + means * (2.0 * ndtr(z) - 1.0)
    return np.asarray(np.where(sds > 0, inside, np.abs(means)))
