"""One problem examined: what the run says held against the oracle, as a record of one line."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from honesty_parts.problems import Answer, Exact, Problem, Quantity, make

__all__ = ["BY_ERRORS", "BY_VALUE", "LONGEST", "Record", "examine", "hold_against"]

LONGEST = 120.0  # CPU seconds
BY_ERRORS, BY_VALUE = 5.0, 0.01  # a number is wrong if it is off by more than both
_CERTAIN = 0.01  # probabilities nearer to 0 or 1 are not counted in the coverage: their intervals are bounds
_ROUNDING = 1e-9


class _TimeIsUp(BaseException):
    """Not an Exception, so that nothing on the way takes it for a failure of its own."""


@dataclass(frozen=True)
class Record:
    """What came of one problem."""

    kind: str
    seed: int
    small: bool
    title: str
    word: str = ""  # of the verdict; "Time is up", or the name of an exception
    reason: str = ""
    told: bool = False  # whether the verdict vouches for the numbers
    seconds: float = 0.0  # CPU
    oracle: str = ""  # empty, or why there is none
    counts: dict[str, list[int]] = field(default_factory=dict)  # by group: numbers, covered, covered by half intervals
    wrong: int = 0  # numbers off by more than `BY_ERRORS` errors and `BY_VALUE`
    worst: dict[str, Any] = field(default_factory=dict)

    @property
    def false(self) -> bool:
        """Whether the verdict vouches for a wrong number."""
        return self.told and self.wrong > 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(name: str, seed: int, *, small: bool = False, most_seconds: float = LONGEST) -> Record:
    """Draw a problem, run it with a limit on its CPU time, and ask the oracle if the run vouches for itself."""
    problem = make(name, seed, small=small)
    begin = time.process_time()
    answer, word, reason = _run(problem, most_seconds)
    seconds = time.process_time() - begin
    known: dict[str, Any] = {
        "kind": name,
        "seed": seed,
        "small": small,
        "title": problem.question.title,
        "word": word,
        "reason": reason,
        "seconds": round(seconds, 3),
    }
    if answer is None:
        return Record(**known)
    told = answer.judgement.converged is True
    try:
        exact = problem.question.exact()
    except Exception as error:  # the oracle's own precision, or a fault of it: counted, and shown in the records
        return Record(**known, told=told, oracle=f"{type(error).__name__}: {error}")
    return Record(**known, told=told, **hold_against(answer, exact))


def _run(problem: Problem, most_seconds: float) -> tuple[Answer | None, str, str]:
    try:
        with _limited(most_seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = problem.question.ask()
    except _TimeIsUp:
        return None, "Time is up", f"after {most_seconds:.0f} CPU seconds"
    except Exception as error:  # whatever it is, it is a line of the table
        return None, type(error).__name__, str(error)
    return answer, answer.judgement.status, answer.judgement.reason


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise once this process has worked so long, 0: never; only the main thread of a process can ask for that.

    The exception comes wherever Python is.  A process with such a limit has once been seen to end by a segmentation
    fault, whose cause is not known; the lines of the problems before it are kept, and the tests go without a limit.
    """

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def hold_against(answer: Answer, exact: Exact) -> dict[str, Any]:
    """Compare every number that the run gives with the exact one; all of them have to be known."""
    counts: dict[str, list[int]] = {}
    wrong, worst, worst_by = 0, {}, -1.0
    for quantity in answer.quantities:
        truth = exact[quantity.name]
        off = abs(quantity.value - truth)
        allowed = max(BY_ERRORS * float(np.nan_to_num(quantity.mcse)), BY_VALUE)
        is_wrong = not off <= allowed  # nan is wrong
        wrong += is_wrong
        by = off / allowed if np.isfinite(off) else np.inf
        if by > worst_by:
            worst, worst_by = _shown(quantity, truth), by
        if _counts(quantity, truth):
            n, covered, by_half = counts.get(quantity.group, [0, 0, 0])
            counts[quantity.group] = [
                n + 1,
                covered + _covers(quantity, truth),
                by_half + _covers(quantity, truth, 0.5),
            ]
    return {"counts": counts, "wrong": wrong, "worst": worst}


def _counts(quantity: Quantity, truth: float) -> bool:
    """Whether a number belongs to the coverage: it was sampled, and a probability is no near certainty."""
    return quantity.mcse != 0 and (quantity.group != "probability" or _CERTAIN < truth < 1 - _CERTAIN)


def _covers(quantity: Quantity, truth: float, scale: float = 1.0) -> bool:
    """Whether the interval holds the truth; ``scale`` narrows both of its sides, which is to be noticed."""
    low = quantity.value + scale * (quantity.lower - quantity.value)
    high = quantity.value + scale * (quantity.upper - quantity.value)
    return bool(low - _ROUNDING <= truth <= high + _ROUNDING)


def _shown(quantity: Quantity, truth: float) -> Mapping[str, Any]:
    return {"name": quantity.name, "value": quantity.value, "mcse": quantity.mcse, "exact": truth}
