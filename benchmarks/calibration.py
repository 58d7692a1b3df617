"""Simulation-based calibration: is the true network one more draw from the posterior that `doxa.learn` returns?

    python benchmarks/calibration.py ["30% blank" ... | numbers | effects]

Worlds are drawn from the prior, tables of 20 rows from worlds; the place of each true quantity among the draws of a run
is uniform if all is right.  A row of the table is a quantity, a column a setting (`SETTINGS` in
tests/structure/averaging/calibration_cases.py); a cell is the largest distance of the places' distribution from the
uniform one, and the p-value (least binomial tail over 19 shares, by its exact law).  Below are the limits that the
tests hold p to: one in a million for all cells together.

``numbers`` are tables of numbers and a category with 20% missing cells (tests/structure/cases/incomplete/
test_missing_numbers.py): z of every edge, and of the mean and the spread of the places of hidden numbers.

``effects`` are the causal effects of one column on another (tests/structure/averaging/test_effects.py): how often the
central 50, 80 and 95% of the draws hold the true one, ties broken at random, since many effects are exactly 0.

``BENCH_REPLICATIONS`` (1000) is the number of worlds of each setting; 1000 take some six CPU minutes in all.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "structure" / "averaging"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "structure" / "cases" / "incomplete"))

from calibration_cases import SETTINGS, p_values, study

from support.checks import FALSE_ALARM

REPLICATIONS = int(os.environ.get("BENCH_REPLICATIONS", "1000"))


def distance(values):
    """Largest difference between the share of values up to a point and the point."""
    values = np.sort(values)
    steps = np.arange(len(values) + 1) / len(values)
    return max((steps[1:] - values).max(), (values - steps[:-1]).max())


def print_table(found):
    """Quantities by settings; ``found`` has the places of each setting."""
    compared = sum(len(places[0]) for places in found.values())
    quantities = max((list(places[0]) for places in found.values()), key=len)
    p = {name: p_values(places) for name, places in found.items()}
    print("| quantity | " + " | ".join(f"{name} ({len(places)})" for name, places in found.items()) + " |")
    print("|---" * (1 + len(found)) + "|")
    for quantity in quantities:
        cells = []
        for name, places in found.items():
            own = np.array([one[quantity] for one in places]) if quantity in p[name] else None
            cells.append("" if own is None else f"{distance(own):.3f}, {p[name][quantity]:.3f}")
        print("| " + " | ".join((quantity.replace("|", r"\|"), *cells)) + " |")
    least = min(min(values.values()) for values in p.values())
    print(f"\n{compared} p-values, the least {least:.2g}; limit {FALSE_ALARM / compared:.1g}")


def numbers():
    """The study of the tests, longer."""
    import pytest
    from test_missing_numbers import calibration

    begin = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        z = calibration(patch, replications=REPLICATIONS)
    print(f"{REPLICATIONS} worlds, {time.process_time() - begin:.0f} CPU s; z: {', '.join(f'{one:.2f}' for one in z)}")


def effects():
    """Coverage of credible intervals of effects, with its standard error."""
    from test_effects import effect_places

    begin = time.process_time()
    found = effect_places(range(REPLICATIONS))
    own = np.array([one["effect"] for one in found])
    for prob in (0.5, 0.8, 0.95):
        share = (np.abs(own - 0.5) < prob / 2).mean()
        print(f"{prob:.0%}: {share:.1%} +/- {np.sqrt(prob * (1 - prob) / len(own)):.1%}")
    print(f"{REPLICATIONS} worlds, {time.process_time() - begin:.0f} CPU s; p = {p_values(found)['effect']:.3f}")


def main():
    studies = {"numbers": numbers, "effects": effects}
    if len(sys.argv) == 2 and sys.argv[1] in studies:
        studies[sys.argv[1]]()
        return
    found = {}
    for name in sys.argv[1:] or SETTINGS:
        begin = time.process_time()
        found[name] = study(SETTINGS[name], range(REPLICATIONS))
        print(f"{name}: {time.process_time() - begin:.0f} CPU s", file=sys.stderr, flush=True)
    print_table(found)


if __name__ == "__main__":
    main()
