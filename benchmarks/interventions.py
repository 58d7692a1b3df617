"""Sachs' cells with their interventions: the sum over all graphs, and a default run of the sampler beside it.

Nine conditions, 600 cells of each, eleven proteins and lipids (Sachs, Perez, Pe'er, Lauffenburger & Nolan, Science 308,
2005).  The table ships with the package cdt, as ``data/resources/cyto_full_data.csv``; its rows stand by condition::

    python benchmarks/interventions.py cyto_full_data.csv
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd

import doxa

# In the order of the file: how many cells, and the molecule that the reagent acts on, if it was measured.
CONDITIONS = (
    (853, None), (902, None), (911, "pakts473"), (723, "PKC"), (810, "PIP2"), (799, "pmek"), (848, None),
    (913, "PKC"), (707, "PKA"),
)  # fmt: skip
PUBLISHED = (  # 17 edges of the consensus of biologists that the paper found again, as it draws them
    ("PKC", "praf"), ("PKC", "pmek"), ("PKC", "pjnk"), ("PKC", "P38"), ("PKC", "PKA"), ("PKA", "praf"),
    ("PKA", "pmek"), ("PKA", "p44/42"), ("PKA", "pakts473"), ("PKA", "pjnk"), ("PKA", "P38"), ("praf", "pmek"),
    ("pmek", "p44/42"), ("p44/42", "pakts473"), ("plcg", "PIP2"), ("plcg", "PIP3"), ("PIP3", "PIP2"),
)  # fmt: skip


def cells(path: str, each: int = 600) -> tuple[pd.DataFrame, dict[int, str]]:
    """The first so many cells of each condition, and what was intervened on in which row."""
    frame = pd.read_csv(path)
    ends = np.cumsum([size for size, _ in CONDITIONS])
    if len(frame) != ends[-1]:
        raise SystemExit(f"{path} has {len(frame)} rows, not the {ends[-1]} of the nine conditions")
    kept, done = [], {}
    for end, (size, target) in zip(ends.tolist(), CONDITIONS, strict=True):
        if target is not None:
            done |= dict.fromkeys(range(len(kept), len(kept) + each), target)
        kept += range(end - size, end - size + each)
    return frame.iloc[kept].reset_index(drop=True), done


def row(name: str, posterior: Any, seconds: float) -> None:
    """A line: time, verdict, and how many of the published edges have most of the probability in either direction."""
    probability = posterior.edges().set_index(["source", "target"]).probability
    with_direction = sum(probability[edge] > 0.5 for edge in PUBLISHED)
    joined = sum(probability[a, b] + probability[b, a] > 0.5 for a, b in PUBLISHED)
    status = posterior.verdict.split(":")[0].split(",")[0]
    expected = float(probability.sum())
    print(f"{name:48s}{seconds:7.1f}  {status:14s}{expected:6.1f}{joined:5d}{with_direction:5d}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="cyto_full_data.csv")
    path = parser.parse_args().file
    frame, done = cells(path)
    print(f"{len(frame)} rows, {len(done)} with an intervention")
    print(f"{'':48s}{'CPU s':>7s}  {'':14s}edges{'joined':>6s}{'as is':>6s}  of {len(PUBLISHED)} published")
    tables = {
        "three bins": doxa.read_table(frame, bins=3),
        "numbers, on the scale of logarithms": doxa.read_table(frame, transform=dict.fromkeys(frame.columns, "log")),
    }
    for of, table in tables.items():
        answers = {}
        for how, options in (
            ("only watched", {}),
            ("set", {"interventions": done}),
            ("changed", {"interventions": done, "imperfect": True}),
        ):
            begin = time.process_time()
            answers[how] = doxa.learn(table, seed=1, **options)
            row(f"{of}, {how}", answers[how], time.process_time() - begin)
        begin = time.process_time()
        sampled = doxa.learn(table, interventions=done, exact=False, seed=1)
        row(f"{of}, set, sampled", sampled, time.process_time() - begin)
        both = [one.edges().set_index(["source", "target"]).sort_index() for one in (sampled, answers["set"])]
        gap = (both[0].probability - both[1].probability).abs()
        print(f"    largest difference to the sum over all graphs {gap.max():.4f}, "
              f"at most {float((gap / both[0].mcse.clip(lower=1e-4)).max()):.1f} standard errors")  # fmt: skip


if __name__ == "__main__":
    main()
