"""Studies of simulation-based calibration: what is true is drawn, a table is drawn from it, and doxa is asked.

A study is a function from the number of a replication to the places of what is true among the draws, by quantity.  All
of them are in `STUDIES`, by what is asked (learn, fit, infer) and what is special.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibration_parts.fitting import FITS
from calibration_parts.graphs import GRAPHS
from calibration_parts.inferring import INFERENCES
from calibration_parts.numbers import NUMBERS

__all__ = ["STUDIES", "Study", "chosen"]

Study = Callable[[int], dict[str, float]]

STUDIES: dict[str, Study] = {
    f"{question}: {name}": study
    for question, studies in (("learn", GRAPHS | NUMBERS), ("fit", FITS), ("infer", INFERENCES))
    for name, study in studies.items()
}


def chosen(words: Sequence[str]) -> dict[str, Study]:
    """The studies whose names begin with one of these words; all, where there are none."""
    return {name: study for name, study in STUDIES.items() if not words or name.startswith(tuple(words))}
