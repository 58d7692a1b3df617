"""Simulation-based calibration by one command: is the truth one more draw from what `learn`, `fit` and `infer` answer?

    python benchmarks/calibration.py --replications 1000 --output calibration.jsonl
    python benchmarks/calibration.py --output calibration.jsonl --show
    python benchmarks/calibration.py --studies "learn: additive" fit --replications 100

Worlds are drawn from the prior and tables from worlds; the place of each true quantity among the draws of a run is
uniform if all is right.  Studies take turns, so that a command that is cut short has replications of all of them.  With
``--output`` each replication is a line of the file as soon as it is done, and the same command goes on where it was
killed; a file of another version, other sources or another seed is refused.

A line of the table is a quantity: replications, the largest distance of the places' distribution from the uniform one,
and the p-value (least binomial tail over 19 shares, by its exact law).  The limit is that of Bonferroni: one in a
million for all p-values together.  The studies are functions in `benchmarks/calibration_parts`.
"""

# ruff: noqa: E402 (threads are limited before NumPy is imported)

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT / name) for name in ("tests", "scripts")]

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import doxa
from calibration_parts import STUDIES, Study, chosen
from source_key import source_key
from support.checks import FALSE_ALARM, SEED
from support.ranks import distance, p_values

__all__ = ["Records", "examine", "limit", "table"]

Places = dict[int, dict[str, float]]  # by replication and quantity


class Records:
    """Places of every study, kept in a file of lines as they come.

    Parameters
    ----------
    path : Path, optional
        The file; it is read if it exists.  Nothing is kept when left out.

    Raises
    ------
    SystemExit
        If the file was made by other sources or with another seed.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.places: dict[str, Places] = {}
        self.seconds: dict[str, float] = {}
        own = {"doxa": doxa.__version__, "sources": source_key(), "seed": SEED}
        if path is None:
            return
        whole = _whole_lines(path) if path.exists() else []
        if not whole:
            path.write_text(json.dumps(own) + "\n", encoding="utf-8")
            return
        made = json.loads(whole[0])
        if made != own:
            sys.exit(f"{path} is of {made}, and this is {own}; give another file")
        path.write_text("".join(line + "\n" for line in whole), encoding="utf-8")  # without a line that was cut off
        for line in whole[1:]:
            self._take(json.loads(line))

    def add(self, study: str, number: int, places: Mapping[str, float], seconds: float) -> None:
        """One replication more."""
        record = {"study": study, "number": number, "seconds": round(seconds, 3), "places": dict(places)}
        self._take(record)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def _take(self, record: dict[str, Any]) -> None:
        self.places.setdefault(record["study"], {})[record["number"]] = record["places"]
        self.seconds[record["study"]] = self.seconds.get(record["study"], 0.0) + record["seconds"]

    def found(self, study: str) -> list[dict[str, float]]:
        """The replications of a study, in order."""
        return [places for _, places in sorted(self.places.get(study, {}).items())]


def _whole_lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()


def examine(studies: Mapping[str, Study], replications: int, records: Records) -> Iterator[tuple[str, int]]:
    """Do the replications that the records lack, and say which was done."""
    for number in range(replications):
        for name, study in studies.items():
            if number in records.places.get(name, ()):
                continue
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # short chains are told that they are
                places = study(number)
            records.add(name, number, places, time.process_time() - begin)
            yield name, number


def limit(n_compared: int) -> float:
    """The p-value below which one of so many is no chance."""
    return FALSE_ALARM / max(1, n_compared)


def table(records: Records, studies: Sequence[str]) -> tuple[str, bool]:
    """A line for each quantity and the sums, and whether no p-value is below its limit."""
    lines, least = [f"{'study and quantity':<72}{'n':>6}{'distance':>10}{'p':>10}"], {}
    for study in studies:
        found = records.found(study)
        for name, p in p_values(found).items():
            own = np.array([places[name] for places in found if name in places])
            lines.append(f"{f'{study}: {name}':<72}{len(own):>6}{distance(own):>10.3f}{p:>10.2g}")
            least[f"{study}: {name}"] = p
    if not least:
        return "no replication was done", True
    worst = min(least, key=least.__getitem__)
    done = sum(len(records.found(study)) for study in studies)
    lines.append(
        f"\n{done} replications of {len(studies)} studies, {len(least)} p-values; the least is {least[worst]:.2g} "
        f"({worst}), the limit {limit(len(least)):.1g}; "
        f"{sum(records.seconds.values()):.0f} CPU seconds; doxa {doxa.__version__}"
    )
    return "\n".join(lines), least[worst] > limit(len(least))


def main() -> int:
    """Read the words of the command line, and go on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replications", type=int, default=1000, help="of every study")
    parser.add_argument("--studies", nargs="*", default=[], help="beginnings of their names; all by default")
    parser.add_argument("--output", type=Path, help="a line of JSON for each replication; gone on with if it exists")
    parser.add_argument("--seconds", type=float, default=np.inf, help="of the clock, after which no replication begins")
    parser.add_argument("--show", action="store_true", help="the table of what the file holds, and nothing more")
    asked = parser.parse_args()
    studies = chosen(asked.studies)
    if not studies:
        sys.exit(f"there is no such study; there are {', '.join(STUDIES)}")
    records = Records(asked.output)
    begin = time.monotonic()
    for k, (name, number) in enumerate(examine(studies, 0 if asked.show else asked.replications, records)):
        if k % 100 == 0:
            print(f"{name}, replication {number}", file=sys.stderr, flush=True)
        if time.monotonic() - begin > asked.seconds:
            break
    text, holds = table(records, list(studies))
    print(text)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
