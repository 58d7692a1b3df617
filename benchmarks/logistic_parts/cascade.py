"""Acceptance of proposals from the optimal Gaussian, and the first draws of a fresh process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from doxa.parameters.regression import sample_regression
from logistic_parts.problems import SEEDS, paper_problem, spread

GOALS = {("independence", 20): 0.90, ("independence", 50): 0.75, ("flip", 20): 0.98, ("flip", 50): 0.90}


def acceptance() -> None:
    for (method, d), goal in GOALS.items():
        found = [
            sample_regression(paper_problem(d, seed), method=method, draws=2000, warmup=0, seed=seed).acceptance
            for seed in range(SEEDS)
        ]
        print(f"{method:12s} d = {d}: {spread(found)}, goal at least {goal}")


def first() -> None:
    script = Path(__file__).parents[1] / "logistic.py"
    found = []
    for _ in range(SEEDS):
        answer = subprocess.run([sys.executable, script, "--first"], check=True, capture_output=True, text=True)
        found.append([float(word) for word in answer.stdout.split()])
    wall, cpu, imports = zip(*found, strict=True)
    print(
        f"4 x 250 draws at d = 20 by doxa.fit: {spread(wall)} s of wall-clock time ({spread(cpu)} s of CPU) after "
        f"imports of {spread(imports)} s; goal below 0.3 s"
    )


def first_draws() -> None:
    begin = time.perf_counter()
    import joblib  # noqa: F401

    import doxa
    import doxa.parameters

    imports = time.perf_counter() - begin
    names = [f"x{j}" for j in range(20)]
    network = doxa.LogisticNetwork({"y": names}, bias=0.5, roots=dict.fromkeys(names, 0.5))
    rng = np.random.default_rng(0)
    table = network.simulate(1000, {"y": 1 - rng.random(20)}, rng)
    wall, cpu = time.perf_counter(), time.process_time()
    fit = doxa.fit(network, table, draws=250, seed=1)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert fit.draws("y").shape == (4, 250, 20)
    print(wall, cpu, imports)
