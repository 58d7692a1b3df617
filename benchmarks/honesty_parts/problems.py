"""What a problem is, and the registry of kinds.

A kind is a function of a random generator that draws one `Question`: a call of doxa with default options, and an oracle
that does not use the sampler that is examined.  The same kind and seed are always the same problem.  A new kind is one
decorated function in one of the modules that `make` imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from doxa.estimates.estimate import Estimate, Verdict

__all__ = ["KINDS", "Answer", "Kind", "NoOracleError", "Problem", "Quantity", "Question", "kind", "make"]

Exact = Mapping[str, float]
_MODULES = ("learning", "numbers", "designs", "incomplete", "missing_numbers", "fitting", "inferring", "named")


class NoOracleError(Exception):
    """The oracle found that it cannot vouch for its own number; the problem is left out, and counted as such."""


class Quantity(NamedTuple):
    """One number that a run vouches for."""

    name: str
    group: str  # "probability", "coefficient" or "evidence": what is counted together
    value: float
    mcse: float
    lower: float  # of the 95% interval
    upper: float

    @classmethod
    def of(cls, name: str, group: str, estimate: Estimate) -> Quantity:
        return cls(name, group, estimate.value, estimate.mcse, *estimate.interval())


class Answer(NamedTuple):
    """What a run says."""

    judgement: Verdict
    quantities: Sequence[Quantity]


class Question(NamedTuple):
    """What a kind draws; neither call has been made yet."""

    title: str  # in words, with sizes
    ask: Callable[[], Answer]
    exact: Callable[[], Exact]  # by the names of the answer's quantities


@dataclass(frozen=True)
class Problem:
    """One problem, that can be drawn again from its kind and seed (and size)."""

    kind: str
    seed: int
    small: bool
    question: Question


Draw = Callable[[np.random.Generator, bool], Question]


class Kind(NamedTuple):
    """One kind of problems."""

    name: str
    room: str  # "learn", "fit" or "infer"
    share: int  # of the problems, relative to the other kinds
    draw: Draw


KINDS: dict[str, Kind] = {}


def kind(room: str, *, share: int = 1) -> Callable[[Draw], Draw]:
    """Enter a function ``(rng, small) -> Question`` under its own name, with spaces."""

    def enter(draw: Draw) -> Draw:
        name = getattr(draw, "__name__", "").replace("_", " ")
        KINDS[name] = Kind(name, room, share, draw)
        return draw

    return enter


def load_kinds() -> dict[str, Kind]:
    """All kinds, in the order of the table."""
    for module in _MODULES:
        import_module(f"honesty_parts.{module}")
    return KINDS


def make(name: str, seed: int, *, small: bool = False) -> Problem:
    """The problem of a kind and a seed; ``small`` draws from the sizes that a test can afford."""
    draw = load_kinds()[name].draw
    return Problem(name, seed, small, draw(np.random.default_rng([crc32(name.encode()), seed]), small))


def pick(rng: np.random.Generator, *choices: float) -> float:
    """One of some numbers."""
    return choices[int(rng.integers(len(choices)))]


def run_seed(rng: np.random.Generator) -> int:
    """A seed for the run that is examined."""
    return int(rng.integers(2**31))


Codes = NDArray[np.int64]
