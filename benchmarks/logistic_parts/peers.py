"""Effective draws a second beside NUTS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from doxa.parameters.regression import sample_regression
from logistic_parts.problems import (
    SEEDS,
    cancer_problem,
    least_ess,
    paper_problem,
    separable_problem,
    spread,
    worst_r_hat,
)

GOALS = {
    "d = 1": 15,
    "d = 5": 15,
    "d = 10": 15,
    "d = 20": 15,
    "d = 50": 30,
    "d = 100": 12,
    "cancer": 20,
    "separable": 1,
}
DRAWS = {"d = 1": 20_000, "d = 5": 20_000, "d = 10": 20_000, "d = 20": 20_000, "d = 50": 20_000, "d = 100": 2000}
NUTS_STEPS = {"separable": (300, 300)}  # elsewhere 1000 of warm-up and 2000 draws; here one takes half a second
NUTS_LIMIT = float(os.environ.get("NUTS_LIMIT", "900"))  # seconds for a package on one problem
PACKAGES = ["numpyro", "blackjax", "nutpie", "pymc", "arviz-stats"]


def cases(seed):
    found = {f"d = {d}": (paper_problem, d, seed) for d in (1, 5, 10, 20, 50, 100)}
    found["cancer"] = (cancer_problem,)
    found["separable"] = (separable_problem, 200, 1000, seed)
    only = os.environ.get("BENCH_CASES")
    return {name: case for name, case in found.items() if only is None or name in only.split(",")}


def ess() -> None:
    python = nuts_python()
    print("draws of the slowest coefficient a CPU second: ours (and with the fit's own time), best NUTS, ratio")
    results: dict[str, list[dict[str, Any]]] = {}
    for seed in range(SEEDS):
        for name, (make, *args) in cases(seed).items():
            problem = make(*args)
            row = ours(problem, DRAWS.get(name, 1000), seed) | nuts(
                python, problem, seed, NUTS_STEPS.get(name, (1000, 2000))
            )
            results.setdefault(name, []).append(row)
            print(f"  seed {seed}, {name}: {row['ours']:.3g} and {row['nuts']:.3g}, by {row['method']}", flush=True)
    for name, rows in results.items():
        ratio = [row["ours"] / max(row["nuts"], 1e-9) for row in rows]
        whole = [row["whole"] / max(row["nuts"], 1e-9) for row in rows]
        packages = {key for row in rows for key in row if key.startswith("by ")}
        each = ", ".join(f"{key[3:]} {median([row.get(key, 0.0) for row in rows]):.0f}" for key in sorted(packages))
        methods = "/".join(sorted({row["method"] for row in rows}))
        own, with_fit = (spread([row[key] for row in rows]) for key in ("ours", "whole"))
        setup, before = (median([row[key] for row in rows]) for key in ("setup", "before"))
        accepted = median([row["acceptance"] for row in rows])
        r_hat = max(row["r_hat"] for row in rows)
        print(
            f"{name:10s} {methods:13s} ours {own}, with the fit {with_fit}; {each}; ratio {spread(ratio)}, "
            f"with the fit {spread(whole)}, goal {GOALS[name]}; acceptance {accepted:.2f}, R-hat at most {r_hat:.3f}; "
            f"set-up {setup:.2f} s, NUTS {before:.1f} s",
            flush=True,
        )


def ours(problem, draws, seed):
    begin = time.process_time()
    sample_regression(problem, draws=4, warmup=0, seed=seed, workers=1)
    setup = time.process_time() - begin
    begin = time.process_time()
    sample = sample_regression(problem, draws=draws, warmup=100, seed=seed, workers=1)
    seconds = time.process_time() - begin
    found = least_ess(sample.draws)
    return {
        "ours": found / max(seconds - setup, 1e-9), "whole": found / seconds, "setup": setup, "method": sample.method,
        "acceptance": sample.acceptance, "r_hat": worst_r_hat(sample.draws),
    }  # fmt: skip


def nuts(python, problem, seed, steps):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(
            path, design=problem.design, sign=problem.sign, offset=problem.offset, prior_mean=problem.prior_mean,
            prior_sd=np.sqrt(np.diag(problem.prior_covariance)),
        )  # fmt: skip
        script = Path(__file__).with_name("nuts.py")
        found, said = [], ""
        for package in ("numpyro", "blackjax", "nutpie"):
            command = [python, script, path, str(seed), *map(str, steps), package]
            try:
                answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=NUTS_LIMIT)
            except subprocess.TimeoutExpired:
                print(f"  {package}: not done in {NUTS_LIMIT:.0f} s", flush=True)
                continue
            found += [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
            said += answer.stderr[-500:]
    rates = {f"by {row['package']} {row['version']}": row["ess_per_second"] for row in found if "failed" not in row}
    for row in found:
        if "failed" in row:
            print(f"{row['package']}: {row['failed']}")
    if not rates:
        raise SystemExit(f"no NUTS ran: {said}")
    return rates | {"nuts": max(rates.values()), "before": min(row["before"] for row in found if "before" in row)}


def nuts_python() -> str:
    """A Python with the packages; made anew unless NUTS_PYTHON names one."""
    named = os.environ.get("NUTS_PYTHON")
    if named:
        return named
    folder = Path(tempfile.mkdtemp(prefix="nuts-"))
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    for package in PACKAGES:
        done = subprocess.run([python, "-m", "pip", "install", "-q", package], check=False)
        if done.returncode:
            print(f"{package} does not install on {sys.version.split()[0]}")
    return python
