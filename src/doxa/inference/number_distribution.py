"""`NumberDistribution`: the answer about a number, whatever it is a mean over: weighted draws, networks, or nothing.

The distribution is a mixture of *parts* with a mean, a spread and probabilities each: the draws of one network, or the
networks of a posterior.  What is read off it is a mean over the parts, and has their Monte Carlo error.  How that is
found the derived class says: `NetworkNumber` here, of one network; `doxa.structure.averaging.numbers.NumberAnswer` of
many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike

from doxa.arrays import Floats
from doxa.errors import ArgumentError
from doxa.estimates.estimate import Estimate
from doxa.inference.exact.mixture import NormalMixture, density_picture, threshold_pair
from doxa.notebook import card
from doxa.text import printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Line", "NetworkNumber", "NumberDistribution", "StateProbabilities", "refuse_thresholds"]


class Draws(Protocol):
    """What errors of means over draws are found by: weighted ones, or those of chains."""

    def expectation(self, f: Any, *, unit: bool = False) -> Estimate:
        """The mean of what ``f`` returns for every draw, with its error."""


class Line(NamedTuple):
    """Of an answer as it is shown."""

    head: str
    sign: str  # between the two, where both are text
    value: str


@dataclass(frozen=True, eq=False, repr=False)
class NumberDistribution(ABC):
    """The distribution of a number, in its unit; see the module's notes.

    Attributes
    ----------
    target : str
        The node, or column.
    given, do : mapping of str to float or str
        What was seen, and what was set.
    """

    target: str
    given: Mapping[str, float | str]
    do: Mapping[str, float | str]
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # what to beware of, as evidence far from all data

    @property
    @abstractmethod
    def distribution(self) -> NormalMixture:
        """The mean of the parts' distributions: that of a case."""

    @abstractmethod
    def _moments(self) -> tuple[Floats, Floats]:
        """Means and standard deviations of the parts, shape (n_parts,)."""

    @abstractmethod
    def _probabilities(self, low: float, high: float) -> Floats:
        """Probability of an interval in every part, shape (n_parts,)."""

    @abstractmethod
    def _estimate(self, own: Floats, *, unit: bool = False) -> Estimate:
        """The mean over the parts of what each of them has; ``unit``: a probability."""

    @cached_property
    def mean(self) -> Estimate:
        """The expected number."""
        return self._estimate(self._moments()[0])

    @cached_property
    def sd(self) -> Estimate:
        """Standard deviation of `distribution`."""
        sd, mean = self.distribution.sd, self.distribution.mean
        if sd == 0.0:  # a number that is known
            return self._estimate(self._moments()[1])
        means, sds = self._moments()
        return self._estimate(0.5 * ((sds**2 + (means - mean) ** 2) / sd + sd))

    def quantile(self, p: float) -> Estimate:
        """The number that a case does not exceed with probability ``p``.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If ``p`` is no number strictly between 0 and 1.
        """
        value = self.distribution.quantile(p)
        if self.distribution.sd == 0.0:
            return self._estimate(np.full(len(self._moments()[0]), value))
        below = self._probabilities(-np.inf, value)
        return self._estimate(value + (p - below) / float(self.distribution.density(value)))

    def interval(self, prob: float = 0.95) -> tuple[float, float]:
        """Central interval that holds a case with this probability."""
        return self.distribution.interval(prob)

    def probability(
        self,
        *,
        above: float | None = None,
        below: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> Estimate:
        """Probability that a case is above, below or between thresholds.

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If not one of the three is given, a threshold is no number, or the ends are reversed.
        """
        return self._estimate(self._probabilities(*threshold_pair(above, below, between)), unit=True)

    def density(self, x: ArrayLike) -> Floats:
        """Density of `distribution` at points; any shape."""
        return self.distribution.density(x)

    def to_frame(self, prob: float = 0.95) -> pd.DataFrame:
        """One row: ``target, mean, mcse, sd, lower, upper`` (central interval of a case)."""
        from doxa.frames import ReadFrame

        row = [self.target, self.mean.value, self.mean.mcse, self.sd.value, *self.interval(prob)]
        return ReadFrame([row], columns=["target", "mean", "mcse", "sd", "lower", "upper"])

    def _lines(self) -> list[Line]:
        low, high = self.interval()
        lines = [Line("mean", "", str(self.mean)), Line("standard deviation", "", str(self.sd))]
        return [*lines, Line("95% of cases", ":", f"{low:.4g} to {high:.4g}")]

    def __str__(self) -> str:
        """Mean, spread and where cases are."""
        return "\n".join([*(f"{line.head}{line.sign} {line.value}" for line in self._lines()), *self.notes])

    def __repr__(self) -> str:
        return f"{self._title}\n{self}"

    @property
    def _title(self) -> str:
        seen = [f"{name} = {value} seen" for name, value in self.given.items()]
        seen += [f"{name} = {value} set" for name, value in self.do.items()]
        return printable(self.target + (f", where {', '.join(seen)}" if seen else ""))

    def _repr_html_(self) -> str:
        rows = [(line.head, line.value) for line in self._lines()]
        return card(self._title, None, ("", ""), rows, picture=density_picture(self.distribution), more=self.notes)


@dataclass(frozen=True, eq=False, repr=False)
class NetworkNumber(NumberDistribution):
    """The distribution of a number in one network; made by `doxa.infer`.

    Exact where there are no draws; else `mean`, `sd`, `quantile` and `probability` are weighted means over draws, with
    the error of these where their weights can be relied on.

    Examples
    --------
    >>> import doxa
    >>> from doxa.models import GaussianNetwork, Regression
    >>> chain = GaussianNetwork(
    ...     doxa.Dag.from_edges([("x", "y")]), {"x": Regression(0.0, [], 1.0), "y": Regression(1.0, [2.0], 1.0)}
    ... )
    >>> answer = doxa.infer(chain, "x", given={"y": 6.0})["x"]
    >>> print(answer.mean, "|", answer.probability(above=2.0))
    2 (exact) | 0.5 (exact)
    """

    mixture: NormalMixture = field(kw_only=True)
    weighted: Draws | None = field(default=None, kw_only=True)
    parts: tuple[Floats, Floats] | None = field(default=None, kw_only=True)  # means and sds of draws; NaN: points

    @property
    def distribution(self) -> NormalMixture:
        """That of the number; where there are but draws of it, smoothed."""
        return self.mixture

    def _moments(self) -> tuple[Floats, Floats]:
        if self.parts is None:
            return np.array([self.mixture.mean]), np.array([self.mixture.sd])
        return self.parts[0], np.nan_to_num(self.parts[1], nan=0.0)

    def _probabilities(self, low: float, high: float) -> Floats:
        if self.parts is None:
            return np.array([self.mixture.weights @ self.mixture.component_probabilities(low, high)])
        means, sds = self._moments()
        each = NormalMixture(np.ones(len(means)), means, sds)
        return each.component_probabilities(low, high)

    def _estimate(self, own: Floats, *, unit: bool = False) -> Estimate:
        if self.weighted is None:
            return Estimate.exactly(float(np.clip(own[0], 0.0, 1.0)) if unit else float(own[0]))
        return self.weighted.expectation(lambda _: own, unit=unit)


class StateProbabilities(dict[str, Estimate]):
    """The states of a category and their probabilities."""

    def __init__(self, target: str, estimates: Mapping[str, Estimate]) -> None:
        super().__init__(estimates)
        self.target = target

    def __missing__(self, state: str) -> NoReturn:
        raise ArgumentError(f"{state!r} is no state of {self.target!r}; there are {', '.join(map(repr, self))}")

    def probability(self, **thresholds: object) -> NoReturn:
        """Refuse a threshold: states have no order; ``answer[state]`` has the probability of one."""
        refuse_thresholds(self.target, self, thresholds)


def refuse_thresholds(target: str, states: Iterable[str], thresholds: Mapping[str, object]) -> NoReturn:
    """Raise `ArgumentError`: a category was asked for what numbers are asked for."""
    asked = ", ".join(f"{name}={value!r}" for name, value in thresholds.items())
    raise ArgumentError(
        f"{target!r} is asked for {asked}, and it is a category, whose states have no order; take "
        f"answer[state] of {', '.join(map(repr, states))}"
    )
