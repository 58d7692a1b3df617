"""A sentence of a paper, what its algorithms give when they are run, whether the sentence holds, and doxa's own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BASE_SAMPLERS", "Claim", "Verdict", "as_markdown", "as_text", "by_wins", "holds_if", "wins"]

Verdict: TypeAlias = Literal["holds", "in part", "does not hold", "cannot be told"]

BASE_SAMPLERS = ("figure", "the paper says", "we find, as published", "verdict", "doxa's own, beside it")
_WIDTHS = (9, 34, 56, 14, 40)


@dataclass(frozen=True)
class Claim:
    """One row of the table."""

    figure: str  # "12", "text", "table 1"
    says: str
    finds: str
    verdict: Verdict
    ours: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return self.figure, self.says, self.finds, self.verdict, self.ours


def holds_if(condition: bool | np.bool_) -> Verdict:
    return "holds" if condition else "does not hold"


def wins(differences: ArrayLike) -> NDArray[np.float64]:
    """Share of the repeats in which a paired difference (settings, repeats) is above 0; ties count half."""
    rows = np.atleast_2d(np.asarray(differences, dtype=np.float64))
    return np.asarray((0.5 * (np.sign(rows) + 1)).mean(axis=1))


def by_wins(differences: ArrayLike, most: float = 0.9) -> Verdict:
    """Whether paired differences (settings, repeats) are above 0 in at least 9 of 10 repeats of every setting.

    "In part": in some settings, and in none are 9 of 10 below 0; "does not hold": in one they are; "cannot be told":
    chance could have made all of them.
    """
    share, rounding = wins(differences), 1e-9
    if (share >= most - rounding).all():
        return "holds"
    if (share <= 1 - most + rounding).any():
        return "does not hold"
    return "in part" if (share >= most - rounding).any() else "cannot be told"


def as_text(claims: Iterable[Claim]) -> str:
    """The table, folded to columns."""
    rule = "-" * (sum(_WIDTHS) + 2 * (len(_WIDTHS) - 1))
    lines = [*_folded(BASE_SAMPLERS), rule]
    for claim in claims:
        lines += _folded(claim.cells)
        lines.append("")
    return "\n".join(lines).rstrip()


def as_markdown(claims: Iterable[Claim]) -> str:
    """The table as the documentation has it."""
    rows = [BASE_SAMPLERS, ("---",) * len(BASE_SAMPLERS), *(claim.cells for claim in claims)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _folded(cells: Sequence[str]) -> Iterator[str]:
    folded = [textwrap.wrap(cell, width) for cell, width in zip(cells, _WIDTHS, strict=True)]
    for number in range(max(map(len, folded))):
        line = [lines[number] if number < len(lines) else "" for lines in folded]
        yield "  ".join(text.ljust(width) for text, width in zip(line, _WIDTHS, strict=True)).rstrip()
