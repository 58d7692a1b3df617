"""Coverage of 95% intervals of runs on incomplete tables that decide for themselves when to stop.

    python benchmarks/coverage_incomplete.py ["3 columns, 30%" ...]

Small tables of which graphs and completions can all be listed (`PROBLEMS` in
tests/structure/cases/incomplete/incomplete_coverage_cases.py).  Of each kind of quantity: the share of intervals that
hold the exact answer, where the run or the quantity is not called 'cannot tell', with the standard error of the runs'
shares; the same where effective draws times p (1 - p) are at least 10; the same of intervals half as wide, which must
fall short.  ``BENCH_RUNS`` (200) is the number of runs of each; a run takes one to five CPU seconds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "structure" / "cases" / "incomplete"))

from incomplete_coverage_cases import KINDS, PROBLEMS, run

RUNS = int(os.environ.get("BENCH_RUNS", "200"))


def share(parts):
    """Mean over runs of the share of intervals that hold, with its error, in %."""
    shares = [held[where].mean() for held, where in parts if where.any()]
    if len(shares) < 2:
        return "-"
    return f"{100 * np.mean(shares):.1f} ± {100 * np.std(shares, ddof=1) / np.sqrt(len(shares)):.1f}"


def print_table(found):
    """A line for each problem and kind; ``found`` has the runs of each problem."""
    columns = (
        "problem",
        "runs",
        "cannot tell",
        "draws",
        "quantity",
        "covered, %",
        "ess p (1 - p) ≥ 10",
        "half as wide",
    )
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for name, runs in found.items():
        told = [r for r in runs if r.told]
        for kind in KINDS:
            shares = (
                share([(r.inside[kind], r.promised[kind]) for r in told]),
                share([(r.inside[kind], r.common[kind]) for r in told]),
                share([(r.halved[kind], r.promised[kind]) for r in told]),
            )
            head = (name, len(runs), len(runs) - len(told), f"{np.mean([r.draws for r in runs]):.0f}", kind)
            print("| " + " | ".join(map(str, (*head, *shares))) + " |", flush=True)


def main():
    names = sys.argv[1:] or list(PROBLEMS)
    print_table({name: [run(PROBLEMS[name], number) for number in range(RUNS)] for name in names})


if __name__ == "__main__":
    main()
