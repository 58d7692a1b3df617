"""Coverage of nominal 95% intervals when every run decides for itself when to stop, on chains whose answer is known.

Run as ``python benchmarks/coverage_stopped.py [runs [few]]``; 10,000 runs of each chain take some forty minutes on one
core, half of them in the real quantities at the end.  ``few`` (1000) is the number of runs of the wrong ways; a fifth
of it, of the plain error.  Columns: what the rule asks; doxa's coverage and its standard error; the share of runs that
end 'cannot tell'; the mean number of draws of each chain when it stops; coverage of the same intervals when the first
look that finds nothing missing ends the run; of value +/- 1.96 mcse by arviz-stats, and of a two-state chain with
independent Jeffreys priors, each ended by the first look at which its own error is small enough.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "estimates"))

from stopped_runs import (
    AMONG,
    LONG,
    MIXING,
    NOT_MIXING,
    RARE,
    REAL,
    REAL_MODES,
    careless,
    look_by_plain_ess,
    look_by_plain_ess_of_reals,
    look_by_rates_alone,
    stationary,
)

SEED = 11


def told(ended):
    """Hits of the runs whose verdict is not 'cannot tell'."""
    return ended.hit[ended.told]


def percent(hits):
    """A share of runs, in %."""
    return f"{100 * hits.mean():.1f}" if hits.size else "-"


def rule(until):
    """What is asked, briefly."""
    if until.max_draws is not None:
        return f"{until.max_draws} draws"
    return f"mcse {until.mcse:g}"


def row(name, case, runs, few, *, real=False, naive=True, rare=False):
    """One line of the table."""
    ended = case.run(SEED, runs)
    hits = told(ended)
    error = 100 * hits.std() / np.sqrt(hits.size)
    columns = [
        name,
        "apart" if case.apart else "stationary",
        f"R-hat {case.until.r_hat:g}, ess {case.until.ess:g}" if real else rule(case.until),
        f"{hits.size}",
        f"**{percent(hits)}** ± {error:.1f}",
        percent(~ended.told),
        f"{ended.draws.mean():.0f}",
    ]
    if naive and not rare:
        plain = look_by_plain_ess_of_reals if real else look_by_plain_ess
        columns += [
            percent(told(careless(case).run(SEED, min(runs, few)))),
            percent(careless(case).run(SEED, few // 5, plain).hit),
            "-" if real else percent(careless(case).run(SEED, few // 2, look_by_rates_alone).hit),
        ]
    else:
        columns += ["-", "-", "-"]
    if rare:
        unseen = ended.hit[ended.never & ended.told]
        columns[0] += f"; never switched: {unseen.size} runs, {percent(unseen)} covered"
    print("| " + " | ".join(columns) + " |", flush=True)


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    few = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    columns = (
        "chain",
        "start",
        "asked",
        "runs",
        "doxa",
        "cannot tell",
        "draws",
        "first look",
        "plain ess",
        "two-state",
    )
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for name, case in {**MIXING, **NOT_MIXING}.items():
        row(name, case, runs, few)
        row(name, stationary(case), runs, few)
    for name, case in RARE.items():
        row(name, case, runs, few, rare=True)
    for name, case in AMONG.items():
        row(name, case, runs, few, naive=False)
    for name, case in LONG.items():
        row(name, case, runs, few)
        row(name, stationary(case), runs, few, naive=False)
    for name, case in {**REAL, **REAL_MODES}.items():
        row(name, case, runs, few, real=True)
        row(name, stationary(case), runs, few, real=True, naive=False)


if __name__ == "__main__":
    main()
