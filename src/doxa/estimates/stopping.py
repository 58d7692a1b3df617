"""When is a run accurate enough?  `Until` says what is asked, `Shortfall` what is still missing.

A stopping rule looks at its own draws, so it can stop by luck: early, when a slow mode has been visited too rarely to
show.  Looks are therefore few: at fixed numbers of draws that grow geometrically (`decision_points`), never at a time
of day; every quantity has to pass at the same look, and at the next as well (`doxa.estimates.accuracy`).  The errors
are tested by coverage with this rule on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from doxa.errors import ArgumentError, ArgumentTypeError
from doxa.estimates.trace import Trace
from doxa.schema import HEX, Within
from doxa.text import duration, many

__all__ = [
    "Audit",
    "Shortfall",
    "Spent",
    "StopReport",
    "Until",
    "decision_points",
    "look_before",
    "worst_shortfall",
]

FIRST_LOOK = 500  # draws of each chain before the first look
# Of the number of draws from one look to the next.  With looks at 1.5 times as many, runs are a third longer than with
# 1.25, and cover up to half a point more where modes are slow; with looks at 1.1, of which four running have to pass,
# they are as long as with 1.25 and cover less.
GROWTH = 1.25
MOST_DRAWS = 100_000  # of each chain, unless max_draws says otherwise


@dataclass(frozen=True)
class Until:
    """Run until every monitored quantity is accurate enough, or a limit is reached.

    Parameters
    ----------
    r_hat : float, default=1.01
        Largest split, rank-normalised R-hat of the run-wide quantities (log score, number of edges), above 1.
    mcse : float, default=0.01
        Largest Monte Carlo standard error of a probability, above 0.
    ess : float, default=400
        Fewest effective draws of the run-wide quantities, above 0.
    max_draws : int, optional
        Draws of each chain after which to stop all the same; 100 000 when left out.
    max_seconds : float, optional
        Seconds after which to stop all the same, those of compiling not counted.  What is kept is the beginning of the
        run that more time would have given; where the warm-up was not over, its latest draws, which are not converged.
    quantities : sequence of str, optional
        Names to monitor, such as ``"smokes -> heart"`` (an edge), ``"smokes -- heart"`` (in either direction),
        ``"log_score"`` or ``"n_edges"``; all of these when left out.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If a target is not a number in its range; the message names it.

    Notes
    -----
    A run ends at the second look running at which nothing is missing, or the first, of probabilities whose errors are
    well known, and keeps at least 1500 draws of each chain and half as many as its warm-up had; a ``max_draws`` below
    that is a limit like any other (`doxa.estimates.accuracy`).

    Examples
    --------
    >>> Until(mcse=0.002).ess
    400.0
    >>> Until(mcse=-1)
    Traceback (most recent call last):
        ...
    doxa.errors.ArgumentError: mcse is -1; it must be a finite number above 0
    """

    r_hat: float = 1.01
    mcse: float = 0.01
    ess: float = 400.0
    max_draws: int | None = None
    max_seconds: float | None = None
    quantities: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, above in (("r_hat", 1.0), ("mcse", 0.0), ("ess", 0.0), ("max_seconds", 0.0)):
            value = getattr(self, name)
            if value is None and name == "max_seconds":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ArgumentTypeError(f"{name} is {value!r}; it must be a finite number above {above:g}")
            if not (math.isfinite(value) and value > above):
                raise ArgumentError(f"{name} is {value!r}; it must be a finite number above {above:g}")
            object.__setattr__(self, name, float(value))
        if self.max_draws is not None:
            if isinstance(self.max_draws, bool) or not isinstance(self.max_draws, int):
                raise ArgumentTypeError(f"max_draws is {self.max_draws!r}; it must be a whole number of at least 4")
            if self.max_draws < 4:
                raise ArgumentError(f"max_draws is {self.max_draws}; it must be at least 4")
        if isinstance(self.quantities, str):
            raise ArgumentTypeError(f"quantities is the text {self.quantities!r}; give a list: [{self.quantities!r}]")
        if self.quantities is not None:
            object.__setattr__(self, "quantities", tuple(self.quantities))


class Shortfall(NamedTuple):
    """One quantity that is not accurate enough yet."""

    name: str  # "smokes -> heart", "log_score"
    what: str  # "Monte Carlo error", "R-hat", "effective draws"
    value: Annotated[float, HEX]
    target: Annotated[float, HEX]
    factor: Annotated[float, HEX]  # how many times as many draws would do, roughly

    def __str__(self) -> str:
        value = f"{self.value:.0f}" if self.value >= 1000 else f"{self.value:.3g}"
        return f"the {self.what} of {self.name} is {value} (asked: {self.target:g})"


class Audit(NamedTuple):
    """What a search with other moves found out about a run whose chains agree."""

    found: str  # what they have missed, in words; empty if nothing was found
    seconds: Annotated[float, HEX, Within(0.0, 1e12)]
    n_starts: Annotated[int, Within(1)] = (
        1  # more if something was found before, and the chains started over from there
    )


class Spent(NamedTuple):
    """CPU seconds of the chains, those of the warm-up included; of a run that was gone on with, since then."""

    chains: Annotated[float, HEX]
    hot: Annotated[float, HEX] = 0.0  # of these, at all temperatures but the first: what tempering cost

    @property
    def hot_share(self) -> float:
        """Share of the time that tempering took."""
        return self.hot / self.chains if self.hot else 0.0


class StopReport(NamedTuple):
    """Why a run stopped, and what it cost."""

    reason: str  # "draws": as many as asked for; "exact": summed; "reached"; "max_draws"; "max_seconds"; "warm-up"
    held_back: Shortfall | None  # what was worst, when a limit ended the run
    seconds: Annotated[float, HEX, Within(0.0, 1e12)]  # of sampling, warm-up not included
    audit: Audit | None = None  # if there was one
    spent: Spent | None = None  # None: not known

    @property
    def is_provisional(self) -> bool:
        """Whether the draws are those of a warm-up in which the time ended."""
        return self.reason == "warm-up"

    @property
    def text(self) -> str:
        """In words, for a person; empty when the run simply had a fixed length."""
        if self.reason in ("draws", "exact"):
            return ""
        if self.reason == "reached":
            return "The run stopped when every monitored quantity was as accurate as asked."
        if self.is_provisional:
            return "The time that max_seconds allows ended in the warm-up."
        limit = f"The run stopped at its limit ({self.reason})."
        if self.held_back is None:
            return limit
        factor, more = self.held_back.factor, ""
        if math.isfinite(factor) and factor > 1:
            times = f"{factor:.2g}" if factor < 10 else many(factor)
            as_many = "a few more" if factor < 1.15 else f"about {times} times as many"
            more = f"; {as_many} draws would do, {duration(self.seconds * (factor - 1))} more"
        return f"{limit[:-1]}: {self.held_back}{more}."


Assess = Callable[[Trace], Shortfall | None]


def worst_shortfall(found: Sequence[Shortfall]) -> Shortfall | None:
    """The one that needs the most draws, or None when nothing is missing.

    Examples
    --------
    >>> worst_shortfall([Shortfall("a", "R-hat", 1.1, 1.01, 10.0), Shortfall("b", "R-hat", 1.02, 1.01, 2.0)]).name
    'a'
    """
    return max(found, key=lambda shortfall: shortfall.factor, default=None)


def decision_points(max_draws: int | None) -> Iterator[int]:
    """Numbers of draws a chain at which to look; the last is ``max_draws``.

    Examples
    --------
    >>> list(decision_points(2000))
    [500, 625, 781, 976, 1220, 1525, 1906, 2000]
    """
    limit = MOST_DRAWS if max_draws is None else max_draws
    point = FIRST_LOOK
    while point < limit:
        yield point
        point = int(point * GROWTH)
    yield limit


def look_before(n_draws: int, max_draws: int | None) -> int | None:
    """The decision point before this number of draws a chain; None at the first.

    Examples
    --------
    >>> look_before(781, None), look_before(500, None)
    (625, None)
    """
    before = None
    for point in decision_points(max_draws):
        if point >= n_draws:
            return before
        before = point
    return before
