"""Answers that must survive a change of the code, and the speeds beside those of another checkout.

    python benchmarks/golden.py                     # every answer against benchmarks/golden.json
    python benchmarks/golden.py --keep              # write golden.json anew, after a change that is meant
    python benchmarks/golden.py --against FOLDER    # speeds of this checkout over those of another one, in turn

Answers are exact, to 1e-9, or agree within four standard errors of both; the words that the command line prints agree
but for their numbers.  Draws at a fixed seed may change, the posterior may not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from first_use import random_table

HERE = Path(__file__).resolve()
KEPT = HERE.with_name("golden.json")
EXACT, ERRORS = 1e-9, 4.0

Figure: TypeAlias = tuple[str, float, float]  # name, value, standard error


def edges_of(label: str, posterior: Any) -> Iterator[Figure]:
    """All edge probabilities."""
    for row in posterior.edges().itertuples():
        yield f"{label}: {row.source} -> {row.target}", row.probability, row.mcse


def figure(name: str, estimate: Any) -> Figure:
    """One estimate under a name."""
    return name, estimate.value, estimate.mcse


# --- answers


def summed() -> Iterator[Figure]:
    """A table that is summed exactly, and what is averaged over its graphs."""
    import doxa

    posterior = doxa.learn(doxa.datasets.load("reinis"), seed=1, progress=False)
    yield from edges_of("reinis", posterior)
    yield figure("reinis: log P(D)", posterior.log_marginal_likelihood)
    for state, estimate in posterior.query("systol", given={"smoke": "yes"}).items():
        yield figure(f"reinis: systol={state} given smoke", estimate)
    logistic = doxa.learn(doxa.datasets.load("reinis"), family="logistic", seed=1, progress=False)
    yield from edges_of("reinis, logistic", logistic)


def sampled() -> Iterator[Figure]:
    """Twenty columns, which are sampled, and eight with missing cells."""
    import doxa

    yield from edges_of("20 columns", doxa.learn(random_table(20, 1000), seed=1, progress=False))
    missing_cells = doxa.learn(random_table(8, 1000, 0.1), seed=1, progress=False)
    yield from edges_of("8 columns, 10% missing", missing_cells)
    cells: Any = missing_cells.impute().head(20)
    for row in cells.itertuples():
        yield f"8 columns: row {row.row}, {row.column}={row.state}", row.probability, row.mcse


def fitted() -> Iterator[Figure]:
    """Coefficients and evidence of a logistic network, with and without a hidden node."""
    import doxa

    cases = {
        "fit": (doxa.LogisticNetwork({"systol": ["smoke", "phys"]}), doxa.datasets.load("reinis")),
        "fit, missing": (doxa.LogisticNetwork({"x3": ["x0", "x1"]}), random_table(4, 300, 0.1)),
    }
    for label, (network, table) in cases.items():
        fit = doxa.fit(network, table, seed=1, progress=False)
        rows: Any = fit.summary().itertuples()
        for row in rows:
            yield f"{label}: {row.node}: {row.coefficient}", row.mean, row.mcse
        yield figure(f"{label}: log P(D)", fit.log_marginal_likelihood)


def inferred() -> Iterator[Figure]:
    """A grid of spins, exactly and by sampling."""
    import doxa

    grid = doxa.ising_grid(4, 4, coupling=0.4, field=0.1)
    for method in ("exact", "gibbs", "tempering"):
        answer = doxa.infer(grid, ["X0_0", "X3_3"], given={"X1_1": "1"}, method=method, seed=1)
        for name in ("X0_0", "X3_3"):
            yield figure(f"grid, {method}: {name}", answer[name]["1"])
    yield figure("grid: log Z", doxa.log_partition(grid))
    yield figure("grid, annealed: log Z", doxa.log_partition(grid, method="annealed", seed=1))


def kept() -> Iterator[Figure]:
    """A posterior that is read again from its file says the same."""
    import doxa

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.doxa"
        made = doxa.learn(random_table(20, 1000), draws=50, warmup=10, seed=1, store=path, progress=False)
        again = doxa.load(path)
        same = np.array_equal(made.edges().probability, again.edges().probability)
        yield "a run file says what the run said", float(same), 0.0


def words() -> dict[str, str]:
    """What the command line prints, without its numbers."""
    calls = {"learn": "learn table.csv --seed 1", "fit": "fit graph.txt table.csv --seed 1", "help": "learn --help"}
    doxa, found = Path(sys.executable).with_name("doxa"), {}
    with tempfile.TemporaryDirectory() as folder:
        table = random_table(4, 300)
        lines = [",".join(table.names), *(",".join("ny"[v] for v in row) for row in table.codes[table.row_index])]
        (Path(folder) / "table.csv").write_text("\n".join(lines) + "\n")
        (Path(folder) / "graph.txt").write_text("x3: x0 x1\n")
        for name, call in calls.items():
            made = subprocess.run([doxa, *call.split()], cwd=folder, capture_output=True, check=True, text=True)
            found[name] = re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,e+-]*", "#", made.stdout)).strip()
    return found


# --- speeds, the larger the better


def speeds() -> dict[str, float]:
    """What a CPU second gives, of calls that were made once before."""
    import doxa

    large, missing_cells, small = random_table(20, 1000), random_table(8, 1000, 0.1), random_table(8, 1000)
    network = doxa.LogisticNetwork({"x7": [f"x{j}" for j in range(7)]})
    grid = doxa.ising_grid(12, 12, coupling=0.4, field=0.1)
    given = {"seed": 1, "progress": False}
    calls: dict[str, tuple[float, Callable[[], Any]]] = {
        "graphs kept, 20 columns": (
            8000, lambda: doxa.learn(large, draws=2000, warmup=100, workers=1, **given).edges()),
        "graphs kept, 8 columns with missing cells": (
            2000, lambda: doxa.learn(missing_cells, draws=500, warmup=100, thin=640, workers=1, **given).edges()),
        "exact posteriors, 8 columns": (1, lambda: doxa.learn(small, workers=1, **given).edges()),
        "draws of 8 coefficients": (
            80000, lambda: doxa.fit(network, small, draws=20000, warmup=100, workers=1, **given)),
        "exact grids of 144 spins": (1, lambda: doxa.infer(grid, "X5_5", method="exact")),
    }  # fmt: skip
    found = {}
    for name, (amount, call) in calls.items():
        call()
        begin, times = time.process_time(), 0
        while time.process_time() - begin < 2.0:
            call()
            times += 1
        found[name] = amount * times / (time.process_time() - begin)
    return found


def speeds_of(folder: Path) -> dict[str, float]:
    """The same by the sources of a checkout, in a process of its own."""
    cache = folder / ".cache" / "golden"
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NUMBA_CACHE_DIR": str(cache)}
    made = subprocess.run(
        [sys.executable, str(HERE), "--speeds"], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    found: dict[str, float] = json.loads(made.stdout.splitlines()[-1])
    return found


def compare_speeds(other: Path, rounds: int = 3) -> None:
    """Print ratios, this checkout over the other one, each the best of some rounds that take turns."""
    own_best: dict[str, float] = {}
    other_best: dict[str, float] = {}
    for _ in range(rounds):
        for best, folder in ((own_best, HERE.parents[1]), (other_best, other.resolve())):
            for name, speed in speeds_of(folder).items():
                best[name] = max(speed, best.get(name, 0.0))
    for name, speed in own_best.items():
        print(f"{speed / other_best[name]:6.2f}  {name} ({speed:,.4g} a CPU second)")


def disagreements(old: dict[str, Any], figures: list[Figure], said: dict[str, str]) -> Iterator[str]:
    """What is not as it was."""
    before = {name: (value, error) for name, value, error in old["figures"]}
    now = {name: (value, error) for name, value, error in figures}
    yield from (f"{name}: gone" for name in before if name not in now)
    for name, (value, error) in now.items():
        if name not in before:
            yield f"{name}: new"
            continue
        value_before, error_before = before[name]
        limit = ERRORS * math.hypot(error, error_before) + EXACT * max(1.0, abs(value_before))
        if not abs(value - value_before) <= limit:
            yield f"{name}: {value_before:.6g} +- {error_before:.2g} before, {value:.6g} +- {error:.2g} now"
    yield from (f"the words of doxa {name} differ" for name, text in old["words"].items() if said.get(name) != text)


def main() -> int:
    """Run what is asked; 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write golden.json")
    parser.add_argument("--against", type=Path, help="a checkout to compare speeds with")
    parser.add_argument("--speeds", action="store_true", help="print speeds as JSON")
    given = parser.parse_args()
    if given.speeds:
        print(json.dumps(speeds()))
        return 0
    if given.against:
        compare_speeds(given.against)
        return 0
    figures = [found for ask in (summed, sampled, fitted, inferred, kept) for found in ask()]
    said = words()
    if given.keep:
        KEPT.write_text(json.dumps({"figures": figures, "words": said}, indent=0) + "\n")
        print(f"{len(figures)} figures written to {KEPT.name}")
        return 0
    wrong = list(disagreements(json.loads(KEPT.read_text()), figures, said))
    print("\n".join(wrong) or f"{len(figures)} figures and the words of {len(said)} commands are as they were")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
