"""What is printed of many records: a row for each kind, and the worst of them with the way to see them again."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from honesty_parts.examining import LONGEST, Record
from honesty_parts.problems import load_kinds

__all__ = ["Coverage", "bound_on_false", "coverage", "table", "worst_lines"]

COLUMNS = (
    "kind",
    "problems",
    "told in two minutes",
    "false verdicts",
    "coverage %",
    "by half intervals",
    "evidence",
    "median s",
    "largest s",
    "done in two minutes",
    "without oracle",
)


class Coverage(NamedTuple):
    """A share of numbers inside their intervals; numbers of one run depend on one another, so runs are the units."""

    share: float
    error: float
    n: int
    n_runs: int

    def __str__(self) -> str:
        error = f" ± {100 * self.error:.1f}" if self.n_runs > 1 else ""  # one run alone tells none
        return "-" if not self.n else f"{100 * self.share:.1f}{error} ({self.n})"


def coverage(records: Sequence[Record], *groups: str, half: bool = False) -> Coverage:
    """Of the runs that vouch for themselves: ``half`` of the intervals that are half as wide."""
    rows = [
        np.sum([record.counts.get(group, [0, 0, 0]) for group in groups], axis=0) for record in records if record.told
    ]
    counted = np.array([row for row in rows if row[0]]).reshape(-1, 3)
    n, hits = counted[:, 0], counted[:, 2 if half else 1]
    if not len(n):
        return Coverage(np.nan, np.nan, 0, 0)
    share = hits.sum() / n.sum()
    residual = np.square(hits - share * n).sum()
    error = np.sqrt(residual * len(n) / (len(n) - 1)) / n.sum() if len(n) > 1 else np.nan
    return Coverage(float(share), float(error), int(n.sum()), len(n))


def bound_on_false(records: Sequence[Record], prob: float = 0.95) -> tuple[int, int, float]:
    """False verdicts, verdicts that vouch and have an oracle, the one-sided Clopper-Pearson bound on their share."""
    told = [record for record in records if record.told and not record.oracle]
    false = sum(record.false for record in told)
    bound = 1.0 if false == len(told) else float(betaincinv(false + 1, len(told) - false, prob))
    return false, len(told), bound


def table(records: Sequence[Record]) -> str:
    """A row for each kind, each room, and all."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    kinds = load_kinds()
    rooms: dict[str, list[Record]] = {}
    for name, kind in kinds.items():
        own = [record for record in records if record.kind == name]
        rooms.setdefault(kind.room, []).extend(own)
        if own:
            lines.append(_row(name, own))
    lines += [_row(f"*{room}*", own) for room, own in rooms.items() if own and room != "named"]
    return "\n".join([*lines, _row("**all**", records)])


def _row(name: str, records: Sequence[Record]) -> str:
    in_time = [record for record in records if record.word != "Time is up" and record.seconds <= LONGEST]
    told = sum(record.told for record in in_time)
    numbers = ("probability", "coefficient")
    seconds = [record.seconds for record in records]
    cells = [
        name,
        f"{len(records)}",
        f"{100 * told / len(records):.0f}%",
        f"{bound_on_false(records)[0]}",
        f"{coverage(records, *numbers)}",
        f"{coverage(records, *numbers, half=True)}".partition(" (")[0],
        f"{coverage(records, 'evidence')}",
        f"{median(seconds):.2f}",
        f"{max(seconds):.1f}",
        f"{100 * len(in_time) / len(records):.0f}%",
        f"{sum(bool(record.oracle) for record in records)}",
    ]
    return "| " + " | ".join(cells) + " |"


def worst_lines(records: Sequence[Record], most: int = 40) -> str:
    """False verdicts, the wildest first, then runs that do not vouch for themselves, with the way to see them again."""

    def off(record: Record) -> float:
        return abs(record.worst["value"] - record.worst["exact"])

    false = sorted((record for record in records if record.false), key=off, reverse=True)
    lines = [f"{len(false)} false verdicts" + (f", the {most} wildest:" if len(false) > most else ":" if false else "")]
    for record in false[:most]:
        worst = record.worst
        lines.append(
            f"  {again(record)}\n    {record.title}\n    {record.word}, {record.wrong} wrong: {worst['name']} "
            f"{worst['value']:.4f} +/- {worst['mcse']:.2g}, exact {worst['exact']:.4f}"
        )
    untold = [record for record in records if not record.told]
    lines.append(f"{len(untold)} runs that do not vouch for their numbers" + (":" if untold else ""))
    lines += [
        f"  {again(record)}\n    {record.title}\n    {record.word}: {record.reason[:160]}" for record in untold[:most]
    ]
    return "\n".join(lines)


def again(record: Record) -> str:
    """The command that examines one problem again."""
    return f"python benchmarks/honesty.py --one '{record.kind}' {record.seed}{' --small' if record.small else ''}"
